// Discrete Fourier transforms along an axis of any length: atenon::dft and atenon::real_dft.
//
// Some lines are transformed side by side, so that every step works on neighbours. A length is taken apart into factors
// (Stockham's form: each step writes in the order that the next one reads, nothing is permuted at the end); a large
// prime costs its square. Source of the formulas: Van Loan, "Computational Frameworks for the Fast Fourier Transform",
// 1.7 and 2.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#include "kernels/body.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t side = 8;  // lines at once

struct Transform {
  int64_t axis = 0, n = 0;
  double turn = -1, scale = 1;
  bool to_real = false;  // from the first n / 2 + 1 frequencies back to real numbers
};

// "" and what does not depend on sizes, or why this is no transform that we can run.
std::string read_transform(const ir::Graph& body, Transform& found) {
  if (body.size() != 1) return "needs a body of one node";
  const ir::Node& node = *body.forward().begin();
  const std::string name = name_without_overload(node.target());
  found.to_real = name == "atenon::real_dft";
  if (name != "atenon::dft" && !found.to_real) return node.target() + " is no Fourier transform";
  const Arguments arguments(node, {});
  const ir::Value* x = arguments.tensor(0, "self");
  if (!x || x->producer) return "needs a tensor";
  const ScalarType dtype = x->meta().dtype;
  if (!is_complex(dtype) && dtype != ScalarType::f32 && dtype != ScalarType::f64) return "only f32 and f64";
  const std::optional<int64_t> axis = arguments.integer(1, "axis", 0);
  if (!axis) return "its axis is symbolic";
  found.axis = *axis;
  return "";
}

// The factors of n: fours first, then primes.
std::vector<int64_t> factors_of(int64_t n) {
  std::vector<int64_t> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  for (int64_t prime = 2; prime * prime <= n; ++prime)
    for (; n % prime == 0; n /= prime) factors.push_back(prime);
  if (n > 1) factors.push_back(n);
  return factors;
}

template <class T>
struct Lines {  // of complex numbers: element k of line l is (re, im)[k * side + l]
  T *re, *im;
};

template <class T>
class FourierCall : public TiledCall {
 public:
  Transform transform;
  Operand x, y;
  int64_t lines = 1, given = 0, wanted = 0;  // elements of a line that are read and written
  std::vector<int64_t> factors;
  std::vector<T> cosines, sines;  // of turn * 2 pi k / n

  int64_t tiles() const override { return divide_up(lines, side); }
  size_t worker_bytes() const override { return in_lines(static_cast<size_t>(4 * transform.n * side) * sizeof(T)); }

 private:
  // Where a line begins.
  int64_t place(const Operand& operand, int64_t line) const {
    int64_t first = 0;
    for (size_t axis = operand.sizes.size(); axis-- > 0;) {
      if (static_cast<int64_t>(axis) == transform.axis) continue;
      first += line % operand.sizes[axis] * operand.strides[axis];
      line /= operand.sizes[axis];
    }
    return first;
  }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* memory) const override {
    T* own = static_cast<T*>(memory);
    const int64_t n = transform.n, first = tile * side, count = std::min(side, lines - first);
    Lines<T> from{own, own + n * side}, to{own + 2 * n * side, own + 3 * n * side};
    std::fill(from.re, from.re + 2 * n * side, T(0));
    const auto axis = static_cast<size_t>(transform.axis);
    const bool is_paired = is_complex(x.dtype);
    for (int64_t l = 0; l < count; ++l) {
      const int64_t step = x.strides[axis] * (is_paired ? 2 : 1);
      const T* line = static_cast<const T*>(buffers[0]) + place(x, first + l) * (is_paired ? 2 : 1);
      for (int64_t k = 0; k < given; ++k) {
        from.re[k * side + l] = line[k * step];
        if (is_paired) from.im[k * side + l] = line[k * step + 1];
      }
      if (!transform.to_real) continue;
      // The other frequencies of real numbers are the conjugates of these; two are their own.
      from.im[l] = 0;
      if (n % 2 == 0) from.im[n / 2 * side + l] = 0;
      for (int64_t k = 1; 2 * k < n && k < given; ++k) {
        from.re[(n - k) * side + l] = from.re[k * side + l];
        from.im[(n - k) * side + l] = -from.im[k * side + l];
      }
    }
    int64_t left = n, stride = 1;
    for (int64_t factor : factors) {
      left /= factor;
      factor == 4 ? quarters(from, to, left, stride) : any_factor(from, to, factor, left, stride);
      stride *= factor;
      std::swap(from, to);
    }
    const T scale = static_cast<T>(transform.scale);
    for (int64_t l = 0; l < count; ++l) {
      const int64_t step = y.strides[axis] * (transform.to_real ? 1 : 2);
      T* line = static_cast<T*>(buffers[1]) + place(y, first + l) * (transform.to_real ? 1 : 2);
      for (int64_t k = 0; k < wanted; ++k) {
        line[k * step] = from.re[k * side + l] * scale;
        if (!transform.to_real) line[k * step + 1] = from.im[k * side + l] * scale;
      }
    }
  }

  // One step: of `factor` elements each, `left` of them follow, `stride` are done side by side.
  void quarters(Lines<T> from, Lines<T> to, int64_t left, int64_t stride) const {
    const T turn = transform.turn < 0 ? T(-1) : T(1);
    for (int64_t p = 0; p < left; ++p) {
      const T c1 = cosines[p * stride], s1 = sines[p * stride];
      const T c2 = cosines[2 * p * stride], s2 = sines[2 * p * stride];
      const T c3 = cosines[3 * p * stride], s3 = sines[3 * p * stride];
      const int64_t row = stride * side, apart = left * row;
      const T* __restrict re = from.re + p * row, * __restrict im = from.im + p * row;
      T* __restrict out_re = to.re + 4 * p * row, * __restrict out_im = to.im + 4 * p * row;
      for (int64_t q = 0; q < row; ++q) {
        const T a = re[q] + re[q + 2 * apart], b = im[q] + im[q + 2 * apart];
        const T c = re[q] - re[q + 2 * apart], d = im[q] - im[q + 2 * apart];
        const T e = re[q + apart] + re[q + 3 * apart], f = im[q + apart] + im[q + 3 * apart];
        const T g = turn * (im[q + 3 * apart] - im[q + apart]), h = turn * (re[q + apart] - re[q + 3 * apart]);
        out_re[q] = a + e;
        out_im[q] = b + f;
        out_re[q + row] = (c + g) * c1 - (d + h) * s1;
        out_im[q + row] = (c + g) * s1 + (d + h) * c1;
        out_re[q + 2 * row] = (a - e) * c2 - (b - f) * s2;
        out_im[q + 2 * row] = (a - e) * s2 + (b - f) * c2;
        out_re[q + 3 * row] = (c - g) * c3 - (d - h) * s3;
        out_im[q + 3 * row] = (c - g) * s3 + (d - h) * c3;
      }
    }
  }

  void any_factor(Lines<T> from, Lines<T> to, int64_t factor, int64_t left, int64_t stride) const {
    const int64_t n = transform.n, row = stride * side;
    for (int64_t p = 0; p < left; ++p)
      for (int64_t j = 0; j < factor; ++j) {
        T* __restrict out_re = to.re + (factor * p + j) * row, * __restrict out_im = to.im + (factor * p + j) * row;
        std::fill(out_re, out_re + row, T(0));
        std::fill(out_im, out_im + row, T(0));
        for (int64_t i = 0; i < factor; ++i) {
          const int64_t angle = (i * j % factor * (n / factor) + p * j * stride) % n;
          const T c = cosines[angle], s = sines[angle];
          const T* __restrict re = from.re + (p + left * i) * row, * __restrict im = from.im + (p + left * i) * row;
          for (int64_t q = 0; q < row; ++q) {
            out_re[q] += re[q] * c - im[q] * s;
            out_im[q] += re[q] * s + im[q] * c;
          }
        }
      }
  }
};

class Fourier : public Kernel {
 public:
  const char* name() const override { return "fourier"; }

  std::string refusal(const ir::Graph& body) const override {
    Transform ignored;
    return read_transform(body, ignored);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    const ScalarType dtype = site.operands[0].dtype;
    return dtype == ScalarType::f64 || dtype == ScalarType::c128 ? make<double>(site) : make<float>(site);
  }

 private:
  template <class T>
  static Result<std::unique_ptr<PreparedCall>> make(const CallSite& site) {
    auto call = std::make_unique<FourierCall<T>>();
    Transform& transform = call->transform;
    [[maybe_unused]] std::string refusal = read_transform(*site.body, transform);
    assert(refusal.empty());
    const Arguments arguments(*site.body->forward().begin(), site.symbols);
    const size_t after = transform.to_real ? 3 : 4;  // a number of results stands between
    transform.n = arguments.integer(2, "n", 0).value_or(0);
    transform.turn = arguments.number(after, "turn", -1).value_or(-1);
    transform.scale = arguments.number(after + 1, "scale", 1).value_or(1);
    call->x = site.operands[0];
    call->y = site.results[0];
    const auto axis = static_cast<size_t>(transform.axis);
    const int64_t n = transform.n;
    for (size_t i = 0; i < call->x.sizes.size(); ++i)
      if (i != axis) call->lines *= call->x.sizes[i];
    call->given = std::min(call->x.sizes[axis], transform.to_real ? n / 2 + 1 : n);
    call->wanted = call->y.sizes[axis];
    call->factors = factors_of(n);
    for (int64_t k = 0; k < n; ++k) {
      const double angle = transform.turn * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      call->cosines.push_back(static_cast<T>(std::cos(angle)));
      call->sines.push_back(static_cast<T>(std::sin(angle)));
    }
    const auto elements = static_cast<double>(call->lines * n);
    call->flops = 5 * elements * std::log2(std::max<double>(2, static_cast<double>(n)));
    call->bytes = elements * 4 * sizeof(T);
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& fourier() {
  static const Fourier kernel;
  return kernel;
}

}  // namespace atenon::kernels
