// The generator, and the distributions in PyTorch's order of draws.
#include "tensor/random.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>

#include "support/math.h"
#include "tensor/elements.h"
#include "tensor/random_blocks.h"
#include "tensor/real_parts.h"

namespace atenon {
namespace {

using Kind = Distribution::Kind;

constexpr int64_t block_size = 624 * 8;  // draws at a time: a multiple of the state's size and of 16
constexpr int64_t box_muller_block = 16;
constexpr double two_pi = 2 * std::numbers::pi;

template <class T>
inline constexpr int digits = std::numeric_limits<T>::digits;
template <>
inline constexpr int digits<Half> = 11;
template <>
inline constexpr int digits<BFloat16> = 8;

double standard_uniform(Generator& generator) {
  return static_cast<double>(generator.draw64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

void fill_uniform(Generator& generator, double from, double to, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) {
    const double x = std::fma(standard_uniform(generator), to - from, from);
    out[i] = x == to ? from : x;
  }
}

void fill_uniform(Generator& generator, double from, double to, int64_t count, float* out) {
  const auto lower = static_cast<float>(from), upper = static_cast<float>(to);
  std::vector<uint32_t> draws(static_cast<size_t>(std::min(count, block_size)));
  for (int64_t start = 0; start < count; start += block_size) {
    const int64_t size = std::min(block_size, count - start);
    generator.draw(draws.data(), size);
    random_blocks::uniforms(draws.data(), out + start, size, lower, upper);
  }
}

// Box-Muller on blocks of 16 uniform numbers: eight give radii, eight give angles.
void fill_normal_blocks(Generator& generator, double mean, double deviation, int64_t blocks, double* out) {
  for (int64_t block = 0; block < blocks; ++block, out += box_muller_block) {
    for (int i = 0; i < box_muller_block; ++i) out[i] = standard_uniform(generator);
    for (int i = 0; i < 8; ++i) {
      const double radius = std::sqrt(-2 * math::log(1 - out[i])), theta = two_pi * out[i + 8];
      out[i] = std::fma(radius * math::cos(theta), deviation, mean);
      out[i + 8] = std::fma(radius * math::sin(theta), deviation, mean);
    }
  }
}

void fill_normal_blocks(Generator& generator, double mean, double deviation, int64_t blocks, float* out) {
  std::vector<uint32_t> draws(static_cast<size_t>(std::min(blocks * box_muller_block, block_size)));
  for (int64_t start = 0; start < blocks; start += block_size / box_muller_block) {
    const int64_t size = std::min(block_size / box_muller_block, blocks - start);
    generator.draw(draws.data(), size * box_muller_block);
    random_blocks::normals(draws.data(), out + start * box_muller_block, size, static_cast<float>(mean),
                           static_cast<float>(deviation));
  }
}

// The last 16 elements are made afresh if they are not a whole block. For f32 and f64, the incomplete block before has
// used draws up; 16-bit floats go block by block.
template <class T>
void fill_normal(Generator& generator, const Distribution& distribution, int64_t count, T* out) {
  const double mean = distribution.a, deviation = distribution.b;
  if (count < box_muller_block || distribution.one_by_one) {
    for (int64_t i = 0; i < count; ++i) out[i] = convert<T>(std::fma(generator.normal(), deviation, mean));
    return;
  }
  const int64_t blocks = count / box_muller_block, rest = count % box_muller_block;
  if constexpr (std::is_floating_point_v<T>) {
    fill_normal_blocks(generator, mean, deviation, blocks, out);
    if (rest == 0) return;
    generator.skip(rest * static_cast<int64_t>(sizeof(T) / sizeof(uint32_t)));
    fill_normal_blocks(generator, mean, deviation, 1, out + count - box_muller_block);
  } else {
    for (int64_t start = 0; start < count; start += box_muller_block) {
      float block[box_muller_block];
      fill_normal_blocks(generator, mean, deviation, 1, block);
      std::transform(block, block + box_muller_block, out + std::min(start, count - box_muller_block),
                     convert<T, float>);
    }
  }
}

template <class T>
void fill_real(Generator& generator, const Distribution& distribution, int64_t count, T* out) {
  if (distribution.kind == Kind::normal) {
    fill_normal(generator, distribution, count, out);
  } else if constexpr (std::is_floating_point_v<T>) {
    fill_uniform(generator, distribution.a, distribution.b, count, out);
  } else {
    // Rounding to 16 bits may reach the upper end, too.
    const T upper = convert<T>(distribution.b), lower = convert<T>(distribution.a);
    std::vector<float> wide(static_cast<size_t>(count));
    fill_uniform(generator, distribution.a, distribution.b, count, wide.data());
    for (int64_t i = 0; i < count; ++i) {
      const T x = convert<T>(wide[static_cast<size_t>(i)]);
      out[i] = x.bits == upper.bits ? lower : x;
    }
  }
}

// Whether integers of this type and range take a 64-bit draw: a 32-bit one would be too uneven.
bool is_drawn_wide(const Distribution& distribution, ScalarType dtype) {
  if (distribution.kind == Kind::all_integers) return dtype == ScalarType::i64 || dtype == ScalarType::f64;
  return distribution.kind == Kind::all_64_bits || distribution.range >= uint64_t{1} << 28;
}

template <class T>
T integer_from(const Distribution& distribution, uint64_t draw) {
  if (distribution.kind == Kind::all_64_bits) return convert<T>(static_cast<int64_t>(draw));
  if (distribution.kind == Kind::integers) {
    return convert<T>(static_cast<int64_t>(draw % distribution.range + static_cast<uint64_t>(distribution.low)));
  }
  if constexpr (std::is_same_v<T, bool>) {
    return (draw & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(draw % (static_cast<uint64_t>(std::numeric_limits<T>::max()) + 1));
  } else {
    return convert<T>(static_cast<int64_t>(draw % ((uint64_t{1} << digits<T>)+1)));
  }
}

// Distributions that turn one double, or one normal number, into an element.
double sample(Generator& generator, const Distribution& distribution) {
  const double a = distribution.a, b = distribution.b;
  if (distribution.kind == Kind::log_normal) return math::exp(std::fma(generator.normal(), b, a));
  const double u = standard_uniform(generator);
  switch (distribution.kind) {
    case Kind::bernoulli:
      return u < a ? 1 : 0;
    case Kind::exponential:
      return -1 / a * math::log1p(-u);
    case Kind::cauchy:
      return std::fma(b, math::tan(std::numbers::pi * (u - 0.5)), a);
    case Kind::geometric:
      return std::ceil(math::log(u) / math::log1p(-a));
    default:
      break;
  }
  assert(false);
  return 0;
}

template <class T>
void fill_as(Generator& generator, const Distribution& distribution, ScalarType dtype, int64_t count, T* out) {
  switch (distribution.kind) {
    case Kind::uniform:
    case Kind::normal:
      assert(is_floating(dtype));
      if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        fill_real(generator, distribution, count, out);
      }
      return;
    case Kind::integers:
    case Kind::all_integers:
    case Kind::all_64_bits: {
      const bool wide = is_drawn_wide(distribution, dtype);
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t draw = wide ? generator.draw64() : generator.draw();
        if constexpr (!is_complex_type<T>) out[i] = integer_from<T>(distribution, draw);
      }
      return;
    }
    default:
      for (int64_t i = 0; i < count; ++i) out[i] = convert<T>(sample(generator, distribution));
  }
}

}  // namespace

// --- Generator

void Generator::manual_seed(uint64_t seed) {
  seed_ = seed;
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < state_size; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  used_ = state_size;
  next_normal_.reset();
}

void Generator::refill() {
  random_blocks::twist(state_.data());
  used_ = 0;
}

uint32_t Generator::draw() {
  if (used_ == state_size) refill();
  uint32_t y = state_[static_cast<size_t>(used_++)];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

uint64_t Generator::draw64() {
  const uint64_t high = draw();
  return high << 32 | draw();
}

void Generator::draw(uint32_t* out, int64_t count) {
  while (count > 0) {
    if (used_ == state_size) refill();
    const int64_t size = std::min<int64_t>(count, state_size - used_);
    random_blocks::temper(state_.data() + used_, out, size);
    used_ += static_cast<int>(size);
    out += size;
    count -= size;
  }
}

void Generator::skip(int64_t draws) {
  while (draws > 0) {
    if (used_ == state_size) refill();
    const int64_t size = std::min<int64_t>(draws, state_size - used_);
    used_ += static_cast<int>(size);
    draws -= size;
  }
}

double Generator::normal() {
  if (next_normal_) {
    const double kept = *next_normal_;
    next_normal_.reset();
    return kept;
  }
  const double u1 = standard_uniform(*this), u2 = standard_uniform(*this);
  const double radius = std::sqrt(-2 * math::log1p(-u2)), theta = two_pi * u1;
  next_normal_ = radius * math::sin(theta);
  return radius * math::cos(theta);
}

// --- Fills

// Uniform or normal complex numbers are twice as many reals, normal ones with half of the variance each.
static std::optional<std::pair<Distribution, ScalarType>> in_reals(Distribution distribution, ScalarType dtype) {
  const bool is_normal = distribution.kind == Kind::normal;
  if (!is_complex(dtype) || (!is_normal && distribution.kind != Kind::uniform)) return std::nullopt;
  if (is_normal) distribution.b /= std::numbers::sqrt2;
  return std::pair(distribution, part_of(dtype));
}

void fill(Generator& generator, const Distribution& distribution, ScalarType dtype, int64_t count, void* data) {
  if (const auto reals = in_reals(distribution, dtype))
    return fill(generator, reals->first, reals->second, 2 * count, data);
  visit_element_type(dtype, [&]<class T>(T) { fill_as(generator, distribution, dtype, count, static_cast<T*>(data)); });
}

void skip(Generator& generator, const Distribution& distribution, ScalarType dtype, int64_t count) {
  if (const auto reals = in_reals(distribution, dtype)) return skip(generator, reals->first, reals->second, 2 * count);
  const int64_t width = dtype == ScalarType::f64 ? 2 : 1;
  switch (distribution.kind) {
    case Kind::uniform:
      return generator.skip(count * width);
    case Kind::normal:
      if (count >= box_muller_block && !distribution.one_by_one) {
        const int64_t rest = count % box_muller_block, last = rest != 0 ? box_muller_block : 0;
        return generator.skip((count - (size_of(dtype) == 2 ? rest : 0) + last) * width);
      }
      [[fallthrough]];
    case Kind::log_normal:
      for (int64_t i = 0; i < count; ++i) generator.normal();
      return;
    case Kind::integers:
    case Kind::all_integers:
    case Kind::all_64_bits:
      return generator.skip(count * (is_drawn_wide(distribution, dtype) ? 2 : 1));
    default:
      return generator.skip(count * 2);
  }
}

std::shared_ptr<Storage> lazy_fill(Generator& generator, const Distribution& distribution, ScalarType dtype,
                                   int64_t count) {
  const auto replay = [snapshot = generator, distribution, dtype, count](void* data) mutable {
    fill(snapshot, distribution, dtype, count, data);
  };
  skip(generator, distribution, dtype, count);
  return Storage::lazy(static_cast<size_t>(count) * size_of(dtype), replay);
}

void fill_bernoulli(Generator& generator, const Tensor& p, Tensor& out) {
  // A probability in double takes a double draw, others are compared in float.
  const int64_t count = out.numel();
  for (int64_t i = 0; i < count; ++i) {
    const bool one = p.dtype == ScalarType::f64 ? standard_uniform(generator) < p.float_at(i)
                                                : static_cast<float>(generator.draw() & 0xFFFFFF) * 0x1p-24f <
                                                      static_cast<float>(p.float_at(i));
    out.set_int(i, one ? 1 : 0);
  }
}

Result<Tensor> random_permutation(Generator& generator, int64_t count, ScalarType dtype) {
  const bool fits = visit_element_type(dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) return count - 1 <= static_cast<int64_t>(std::numeric_limits<T>::max());
    if constexpr (is_complex_type<T>) return false;
    return std::is_same_v<T, double> || count - 1 <= int64_t{1} << std::min(digits<T>, 62);
  });
  if (count < 0 || !fits) {
    return error(Status::bad_input, 801,
                 "a permutation of " + std::to_string(count) + " numbers does not fit into " + name_of(dtype));
  }
  std::vector<int64_t> order(static_cast<size_t>(count));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  // PyTorch draws 64 bits where 32 would be biased.
  const bool wide = count >= std::numeric_limits<uint32_t>::max() / 20;
  for (int64_t i = 0; i < count - 1; ++i) {
    const auto rest = static_cast<uint64_t>(count - i);
    const auto pick = static_cast<int64_t>((wide ? generator.draw64() : generator.draw()) % rest);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i + pick)]);
  }
  Tensor out = Tensor::empty(ScalarType::i64, {count});
  std::copy(order.begin(), order.end(), out.mutable_as<int64_t>());
  return dtype == ScalarType::i64 ? out : cast(out, dtype);
}

}  // namespace atenon
