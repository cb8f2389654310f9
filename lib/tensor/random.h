// PyTorch's random numbers: the same generator, the same order of draws, the same values.
//
// MT19937 seeded as torch.manual_seed does. Uniform numbers and integers equal PyTorch's bit for bit, f32 normals too
// (on CPUs with AVX2, where PyTorch uses the approximations that we use); what goes through double logarithms and sines
// is within one unit in the last place. Where PyTorch's result depends on the CPU's vendor (bernoulli and exponential
// by MKL on Intel), this is the portable one. The values are the same on every machine and for any number of threads.
//
// A fill that nobody reads need not be made: skip() advances the generator as fill() would, some forty times faster,
// and a Generator is 2.5 kB to copy, so that the fill can be replayed later.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace atenon {

class Generator {
 public:
  static constexpr uint64_t default_seed = 67280421310721;  // PyTorch's
  explicit Generator(uint64_t seed = default_seed) { manual_seed(seed); }

  void manual_seed(uint64_t seed);  // the low 32 bits count
  uint64_t initial_seed() const { return seed_; }

  uint32_t draw();
  uint64_t draw64();  // two draws, the first one in the high half
  void draw(uint32_t* out, int64_t count);
  void skip(int64_t draws);

  // One standard normal, by the scalar path: every second one was made with the one before and kept.
  double normal();

  bool operator==(const Generator&) const = default;

 private:
  static constexpr int state_size = 624;
  void refill();

  std::array<uint32_t, state_size> state_;
  int used_ = state_size;  // words of state_ that were drawn
  uint64_t seed_ = 0;
  std::optional<double> next_normal_;
};

// What Tensor.uniform_(), normal_() and their like fill with. `a` and `b` are the parameters in the order of PyTorch's.
struct Distribution {
  enum class Kind {
    uniform,       // from a, to b
    normal,        // mean a, standard deviation b
    log_normal,    // of a normal with mean a, standard deviation b
    bernoulli,     // 1 with probability a
    exponential,   // rate a
    cauchy,        // median a, scale b
    geometric,     // success probability a
    integers,      // from `low` up to but not including `low + range`
    all_integers,  // random_(): what the type can hold from 0, for floats up to 2^digits
    all_64_bits,   // random_(from the lowest int64)
  };
  Kind kind = Kind::uniform;
  double a = 0;
  double b = 1;
  int64_t low = 0;
  uint64_t range = 0;
  bool one_by_one = false;  // normal numbers as for a tensor that is not contiguous: not in blocks
};

// Fills `count` elements, as PyTorch fills a contiguous tensor.
void fill(Generator& generator, const Distribution& distribution, ScalarType dtype, int64_t count, void* data);
// Leaves the generator as fill() would.
void skip(Generator& generator, const Distribution& distribution, ScalarType dtype, int64_t count);
// A storage of `count` elements that is filled when it is first read; the generator is advanced now.
std::shared_ptr<Storage> lazy_fill(Generator& generator, const Distribution& distribution, ScalarType dtype,
                                   int64_t count);

// bernoulli_(p) with a probability for each element; `p` is contiguous and floating, of the size of `out`.
void fill_bernoulli(Generator& generator, const Tensor& p, Tensor& out);
// A random permutation of 0..count-1. E0801 if `dtype` cannot hold it.
Result<Tensor> random_permutation(Generator& generator, int64_t count, ScalarType dtype);

}  // namespace atenon
