// Discrete Fourier transforms along an axis of any length: atenon::dft and atenon::real_dft.
//
// Some lines are transformed side by side, so that every step works on neighbours, and of an even
// count of real numbers neighbours are the parts of complex ones. A length is taken apart into factors (Stockham's
// form: each step writes in the order that the next one reads, nothing is permuted at the end); a large prime costs its
// square. Source of the formulas: Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1.7, 2 and 4.3.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <numbers>

#include "kernels/body.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t side = fourier_lines;

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

// The factors of n: eights, fours and two, then other primes; 1 is its own.
std::vector<int64_t> factors_of(int64_t n) {
  std::vector<int64_t> factors;
  if (n == 1) factors.push_back(1);
  for (int64_t twos = std::countr_zero(static_cast<uint64_t>(n)); twos > 0;) {
    const int64_t some = twos == 3 || twos > 4 ? 3 : std::min<int64_t>(twos, 2);
    factors.push_back(int64_t{1} << some);
    twos -= some, n >>= some;
  }
  for (int64_t prime = 3; prime * prime <= n; prime += 2)
    for (; n % prime == 0; n /= prime) factors.push_back(prime);
  if (n > 1) factors.push_back(n);
  return factors;
}

float* transform_lines(const FourierLines<float>& lines) { return lanes().transform_lines(lines); }
double* transform_lines(const FourierLines<double>& lines) { return lanes().transform_double_lines(lines); }
void copy_lines(const FourierCopy<float>& copy) { lanes().copy_lines(copy); }
void copy_lines(const FourierCopy<double>& copy) { lanes().copy_double_lines(copy); }

template <class T>
class FourierCall : public TiledCall {
 public:
  Transform transform;
  Operand x, y;
  int64_t lines = 1, given = 0, wanted = 0;  // elements of a line that are read and written
  // What is transformed: n numbers, or where either side is real and n is even, n / 2 pairs of neighbours.
  int64_t length = 0;
  std::vector<int64_t> factors;                 // of it
  std::vector<T> cosines, sines;                // of turn * 2 pi k / length
  std::vector<T> turned_cosines, turned_sines;  // of turn * 2 pi k / n, where there are pairs

  int64_t tiles() const override { return divide_up(lines, side); }
  size_t worker_bytes() const override { return in_lines(static_cast<size_t>(2 * elements() * row) * sizeof(T)); }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* memory) const override {
    T *from = static_cast<T*>(memory), *to = from + elements() * row;
    if (lines - tile * side < side) std::fill(from, to, T(0));  // lines that are not there
    copy(x, buffers[0], tile, given, from, true);
    complete_input(from);
    T* done = transform_lines({length, factors.data(), static_cast<int64_t>(factors.size()), T(transform.turn),
                               cosines.data(), sines.data(), T(transform.scale), from, to, pairs(), is_whole(),
                               turned_cosines.data(), turned_sines.data()});
    copy(y, buffers[1], tile, wanted, done, false);
  }

 private:
  static constexpr int64_t row = 2 * side;  // of the numbers of an element

  using Pairs = typename FourierLines<T>::Pairs;
  bool has_pairs() const { return length < transform.n; }
  Pairs pairs() const { return !has_pairs() ? Pairs::none : transform.to_real ? Pairs::made : Pairs::given; }
  bool is_whole() const { return pairs() == Pairs::given && wanted > length + 1; }
  // That a buffer has room for.
  int64_t elements() const { return is_whole() ? transform.n : length + (has_pairs() ? 1 : 0); }

  // What is not given is zero, or follows from the frequencies that are.
  void complete_input(T* from) const {
    const int64_t n = transform.n;
    if (!is_complex(x.dtype)) {
      std::fill(from + given * (has_pairs() ? side : row), from + length * row, T(0));
      if (!has_pairs())
        for (int64_t k = 0; k < given; ++k) std::fill_n(from + k * row + side, side, T(0));
      return;
    }
    const int64_t all = transform.to_real ? n / 2 + 1 : n;
    std::fill(from + given * row, from + all * row, T(0));
    if (!transform.to_real) return;
    // Of real numbers these frequencies are real, too.
    std::fill_n(from + side, side, T(0));
    if (n % 2 == 0) std::fill_n(from + n / 2 * row + side, side, T(0));
    if (!has_pairs())
      for (int64_t k = 1; k < all; ++k) conjugate(from, k, n - k);
  }

  static void conjugate(T* numbers, int64_t from, int64_t to) {
    for (int64_t l = 0; l < side; ++l) {
      numbers[to * row + l] = numbers[from * row + l];
      numbers[to * row + side + l] = -numbers[from * row + side + l];
    }
  }

  // The first `elements` of the lines of a tile, from the operand or to it.
  void copy(const Operand& operand, void* buffer, int64_t tile, int64_t elements, T* side_by_side,
            bool is_given) const {
    const int64_t first = tile * side, count = std::min(side, lines - first), parts = is_complex(operand.dtype) ? 2 : 1;
    std::array<int64_t, side> begins{};
    for (int64_t l = 0; l < count; ++l) begins[l] = place(operand, first + l) * parts;
    const int64_t step = operand.strides[static_cast<size_t>(transform.axis)] * parts;
    // Neighbours among real numbers are the parts of a pair.
    copy_lines({side_by_side, parts == 2 || has_pairs() ? side : row, static_cast<T*>(buffer), begins.data(), count,
                elements, step, parts, is_given});
  }

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
};

// Cosines and sines of turn * 2 pi k / n for k < n.
template <class T>
void fill_circle(double turn, int64_t n, std::vector<T>& cosines, std::vector<T>& sines) {
  for (int64_t k = 0; k < n; ++k) {
    const double angle = turn * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    cosines.push_back(static_cast<T>(std::cos(angle)));
    sines.push_back(static_cast<T>(std::sin(angle)));
  }
}

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
    const bool is_real = transform.to_real || !is_complex(call->x.dtype);
    call->length = is_real && n % 2 == 0 ? n / 2 : n;
    call->factors = factors_of(call->length);
    fill_circle(transform.turn, call->length, call->cosines, call->sines);
    if (call->length < n) fill_circle(transform.turn, n, call->turned_cosines, call->turned_sines);
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
