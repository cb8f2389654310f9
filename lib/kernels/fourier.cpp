// Discrete Fourier transforms along an axis of any length: atenon::dft and atenon::real_dft.
//
// Some lines are transformed side by side, so that every step works on neighbours, and of an even count of real numbers
// neighbours are the parts of complex ones. A length is taken apart into factors (Stockham's form: each step writes in
// the order that the next one reads, nothing is permuted at the end). Source of the formulas: Van Loan, "Computational
// Frameworks for the Fast Fourier Transform", 1.7, 2, 3.2 and 4.3.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <optional>

#include "kernels/body.h"
#include "kernels/lanes.h"
#include "kernels/lines.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"
#include "support/roots.h"

namespace atenon::kernels {

namespace {

constexpr int64_t side = fourier_lines;

struct Transform {
  int64_t axis = 0, n = 0;
  double turn = -1, scale = 1;
  bool to_real = false;  // from the first n / 2 + 1 frequencies back to real numbers
  bool from_real = false;
  int64_t lines = 1, given = 0, wanted = 0;  // elements of a line that are read and written
  // What is transformed: n numbers, or where either side is real and n is even, n / 2 pairs of neighbours.
  int64_t length = 0;

  bool has_pairs() const { return length < n; }
  bool mixes_first() const { return has_pairs() && to_real; }
  bool mixes_last() const { return has_pairs() && from_real; }
  bool makes_whole() const { return mixes_last() && wanted > length + 1; }
  // That a buffer has room for.
  int64_t elements() const { return makes_whole() ? n : length + (has_pairs() ? 1 : 0); }
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
  found.from_real = !is_complex(dtype);
  return "";
}

Transform transform_at(const CallSite& site) {
  Transform found;
  [[maybe_unused]] const std::string refusal = read_transform(*site.body, found);
  assert(refusal.empty());
  const Arguments arguments(*site.body->forward().begin(), site.symbols);
  const size_t after = found.to_real ? 3 : 4;  // a number of results stands between
  const int64_t n = found.n = arguments.integer(2, "n", 0).value_or(0);
  found.turn = arguments.number(after, "turn", -1).value_or(-1);
  found.scale = arguments.number(after + 1, "scale", 1).value_or(1);
  const std::vector<int64_t>& sizes = site.operands[0].sizes;
  const auto axis = static_cast<size_t>(found.axis);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (i != axis) found.lines *= sizes[i];
  found.given = std::min(sizes[axis], found.to_real ? n / 2 + 1 : n);
  found.wanted = site.results[0].sizes[axis];
  found.length = (found.to_real || found.from_real) && n % 2 == 0 ? n / 2 : n;
  return found;
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
void mix_pairs(const FourierPairs<float>& pairs) { lanes().mix_pairs(pairs); }
void mix_pairs(const FourierPairs<double>& pairs) { lanes().mix_double_pairs(pairs); }
void mix_line(const FourierPairs<float>& pairs) { lanes().mix_line(pairs); }
void mix_line(const FourierPairs<double>& pairs) { lanes().mix_double_line(pairs); }
void copy_lines(const FourierCopy<float>& copy) { lanes().copy_lines(copy); }
void copy_lines(const FourierCopy<double>& copy) { lanes().copy_double_lines(copy); }

template <class T>
struct Circle {
  std::vector<T> cosines, sines;

  Circle() = default;
  // Of turn * 2 pi k / n for k < count.
  Circle(double turn, int64_t n, int64_t count) {
    for (int64_t k = 0; k < count; ++k) add(math::root_of_one(k, n, turn));
  }
  void add(math::Root root) {
    cosines.push_back(static_cast<T>(root.cosine));
    sines.push_back(static_cast<T>(root.sine));
  }
};

// What transforms of a length without large factors share.
template <class T>
struct Smooth {
  int64_t n;
  T turn;
  std::vector<int64_t> factors;
  Circle<T> circle;

  Smooth(double turn, int64_t n) : n(n), turn(static_cast<T>(turn)), factors(factors_of(n)), circle(turn, n, n) {}
  // Of `side` lines, which are overwritten; `turns` as in FourierLines.
  T* run(T* from, T* to, double scale, const T* turns) const {
    return transform_lines(FourierLines<T>{.length = n,
                                           .factors = factors.data(),
                                           .factor_count = static_cast<int64_t>(factors.size()),
                                           .turn = turn,
                                           .cosines = circle.cosines.data(),
                                           .sines = circle.sines.data(),
                                           .scale = static_cast<T>(scale),
                                           .from = from,
                                           .to = to,
                                           .turns = turns});
  }
};

// The least length that is as good as n: n itself, or where a prime of it is large, what holds 2 n - 1 numbers.
int64_t smooth_length(int64_t n) {
  constexpr int64_t large = 128;  // from here on two longer transforms take less time
  if (factors_of(n).back() < large) return n;
  int64_t m = divide_up(2 * n - 1, 64) * 64;
  while (factors_of(m).back() > 8) m += 64;
  return m;
}

// What transforms of any length share. A large prime in it would cost its square: as 2jk = j^2 + k^2 - (k - j)^2, such
// a transform is a convolution with a chirp, which two longer ones give (Bluestein; Van Loan, 4.2.3).
template <class T>
class Length {
 public:
  Length(double turn, int64_t n) : n_(n), smooth_(turn, smooth_length(n)) {
    if (room() == n) return;
    back_.emplace(-turn, room());
    for (int64_t k = 0; k < n; ++k) chirp_.add(math::root_of_one(k * k % (2 * n), 2 * n, turn));
    std::vector<T> from(static_cast<size_t>(2 * side * room())), to(from.size());
    for (int64_t k = 1 - n; k < n; ++k) {
      const int64_t place = 2 * side * (k < 0 ? k + room() : k);
      from[static_cast<size_t>(place)] = chirp_.cosines[static_cast<size_t>(std::abs(k))];
      from[static_cast<size_t>(place + side)] = -chirp_.sines[static_cast<size_t>(std::abs(k))];
    }
    const T* done = smooth_.run(from.data(), to.data(), 1 / static_cast<double>(room()), nullptr);
    for (int64_t k = 0; k < room(); ++k) chirps_transform_.add({done[2 * side * k], done[2 * side * k + side]});
  }

  int64_t n() const { return n_; }
  int64_t room() const { return smooth_.n; }  // elements of a line that buffers need

  // Of `side` lines, which are overwritten; where they lie then. What comes out is multiplied by the scale and, where
  // there are turns, by these, which lie as it does.
  T* run(T* from, T* to, double scale, const T* turns = nullptr) const {
    if (!back_) return smooth_.run(from, to, scale, turns);
    multiply(from, chirp_, n_, T(1));
    std::fill(from + 2 * side * n_, from + 2 * side * room(), T(0));
    T* const spectrum = smooth_.run(from, to, 1, nullptr);
    multiply(spectrum, chirps_transform_, room(), T(1));
    T* const done = back_->run(spectrum, spectrum == from ? to : from, 1, nullptr);
    multiply(done, chirp_, n_, static_cast<T>(scale));
    for (int64_t k = 0; turns && k < n_; ++k)
      for (int64_t l = 0; l < side; ++l) {
        const int64_t place = 2 * side * k + l;
        multiply(done + place, turns[place], turns[place + side]);
      }
    return done;
  }

 private:
  static void multiply(T* number, T re, T im) {
    const T a = number[0], b = number[side];
    number[0] = a * re - b * im;
    number[side] = a * im + b * re;
  }
  static void multiply(T* numbers, const Circle<T>& by, int64_t count, T scale) {
    for (int64_t k = 0; k < count; ++k)
      for (int64_t l = 0; l < side; ++l)
        multiply(numbers + 2 * side * k + l, by.cosines[static_cast<size_t>(k)] * scale,
                 by.sines[static_cast<size_t>(k)] * scale);
  }

  int64_t n_;
  Smooth<T> smooth_;
  std::optional<Smooth<T>> back_;
  Circle<T> chirp_, chirps_transform_;
};

// How lines come from memory and go back. Number r of line l, of `count` that are transformed side by side, lies at
// [r * count + l].
template <class T>
class Ends {
 public:
  Ends(const CallSite& site, const Transform& of)
      : of_(of),
        x_(site.operands[0]),
        y_(site.results[0]),
        circle_(of.turn, of.n, of.has_pairs() ? of.length + 1 : 0),
        axes_(axes_but(x_.sizes.size(), static_cast<size_t>(of.axis))) {
    const std::vector<int64_t>& strides = x_.strides[static_cast<size_t>(of.axis)] == 1 ? y_.strides : x_.strides;
    std::stable_sort(axes_.begin(), axes_.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  }

  // Pairs of transformed ones, by a scale, or what is to be transformed of frequencies; where they lie then.
  T* mix(T* from, T* to, int64_t count, double scale) const {
    const FourierPairs<T> pairs{.length = of_.length,
                                .are_given = of_.from_real,
                                .is_whole = of_.makes_whole(),
                                .cosines = circle_.cosines.data(),
                                .sines = circle_.sines.data(),
                                .scale = static_cast<T>(scale),
                                .from = from,
                                .to = to};
    count == 1 ? mix_line(pairs) : mix_pairs(pairs);
    return to;
  }

  void read(void* memory, int64_t first, T* numbers, int64_t count) const {
    copy(x_, memory, first, of_.given, numbers, count, true);
    complete(numbers, count);
  }
  void write(T* numbers, int64_t count, void* memory, int64_t first) const {
    copy(y_, memory, first, of_.wanted, numbers, count, false);
  }

 private:
  // What is not given is zero, or follows from the frequencies that are.
  void complete(T* numbers, int64_t count) const {
    const int64_t n = of_.n, given = of_.given, row = 2 * count;
    if (of_.from_real) {
      std::fill(numbers + given * (of_.has_pairs() ? count : row), numbers + of_.length * row, T(0));
      if (!of_.has_pairs())
        for (int64_t k = 0; k < given; ++k) std::fill_n(numbers + k * row + count, count, T(0));
      return;
    }
    const int64_t all = of_.to_real ? n / 2 + 1 : n;
    std::fill(numbers + given * row, numbers + all * row, T(0));
    if (!of_.to_real) return;
    // Of real numbers these frequencies are real, too, and those that are not given the conjugates of others.
    std::fill_n(numbers + count, count, T(0));
    if (n % 2 == 0) std::fill_n(numbers + n / 2 * row + count, count, T(0));
    if (!of_.has_pairs())
      for (int64_t k = 1; k < all; ++k)
        for (int64_t l = 0; l < count; ++l) {
          numbers[(n - k) * row + l] = numbers[k * row + l];
          numbers[(n - k) * row + count + l] = -numbers[k * row + count + l];
        }
  }

  // The first `elements` of the lines from `first` on.
  void copy(const Operand& operand, void* memory, int64_t first, int64_t elements, T* numbers, int64_t count,
            bool is_given) const {
    const int64_t there = std::min(count, of_.lines - first), parts = is_complex(operand.dtype) ? 2 : 1;
    std::array<int64_t, side> begins{};
    for (int64_t l = 0; l < there; ++l)
      begins[static_cast<size_t>(l)] = begin_of_line(operand, axes_, first + l) * parts;
    const int64_t step = operand.strides[static_cast<size_t>(of_.axis)] * parts;
    // Neighbours among real numbers are the parts of a pair.
    copy_lines({numbers, parts == 2 || of_.has_pairs() ? count : 2 * count, static_cast<T*>(memory), begins.data(),
                there, elements, step, parts, is_given});
  }

  Transform of_;
  Operand x_, y_;
  Circle<T> circle_;          // of n, where there are pairs
  std::vector<size_t> axes_;  // of lines: one after the other, they are neighbours where their own numbers are not
};

template <class T>
class ManyLines final : public TiledCall {
 public:
  ManyLines(const CallSite& site, const Transform& of) : of_(of), ends_(site, of), length_(of.turn, of.length) {}

  int64_t tiles() const override { return divide_up(of_.lines, side); }
  size_t worker_bytes() const override { return in_lines(static_cast<size_t>(2 * buffer()) * sizeof(T)); }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* memory) const override {
    T *from = static_cast<T*>(memory), *to = from + buffer();
    if (of_.lines - tile * side < side) std::fill(from, to, T(0));  // lines that are not there
    ends_.read(buffers[0], tile * side, from, side);
    if (of_.mixes_first()) std::swap(from, to), ends_.mix(to, from, side, 1);
    T* done = length_.run(from, to, of_.mixes_last() ? 1 : of_.scale);
    if (of_.mixes_last()) done = ends_.mix(done, done == from ? to : from, side, of_.scale);
    ends_.write(done, side, buffers[1], tile * side);
  }

 private:
  int64_t buffer() const { return 2 * side * std::max(of_.elements(), length_.room()); }

  Transform of_;
  Ends<T> ends_;
  Length<T> length_;
};

// Lines that have few others beside them. Each is taken as `within` lines of its own: number k of line l of these is
// number k * within + l. When they are transformed, and turned, all their numbers k are a line whose transform holds
// numbers k, k + length / within and so on.
template <class T>
class FewLines final : public PreparedCall {
 public:
  FewLines(const CallSite& site, const Transform& of, int64_t within)
      : of_(of), ends_(site, of), first_(of.turn, of.length / within), second_(of.turn, within) {
    const Circle<T> circle(of.turn, of.length, of.length);
    for (int64_t tile = 0; tile < within; tile += side)
      for (int64_t k = 0; k < first_.n(); ++k)
        for (const std::vector<T>* part : {&circle.cosines, &circle.sines})
          for (int64_t l = tile; l < tile + side; ++l)
            turns_.push_back((*part)[static_cast<size_t>(l * k % of.length)]);
  }

  size_t scratch_bytes() const override { return 2 * line_bytes() + worker_bytes() * static_cast<size_t>(threads()); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    auto* const memory = static_cast<char*>(scratch);
    T *from = reinterpret_cast<T*>(memory), *to = reinterpret_cast<T*>(memory + line_bytes());
    void* const own = memory + 2 * line_bytes();
    for (int64_t line = 0; line < of_.lines; ++line) {
      ends_.read(buffers[0], line, from, 1);
      if (of_.mixes_first()) std::swap(from, to), ends_.mix(to, from, 1, 1);
      pass(first_, 1, turns_.data(), from, {1, second_.n()}, to, {1, second_.n()}, own);
      pass(second_, of_.mixes_last() ? 1 : of_.scale, nullptr, to, {second_.n(), 1}, from, {1, first_.n()}, own);
      if (of_.mixes_last()) std::swap(from, to), ends_.mix(to, from, 1, of_.scale);
      ends_.write(from, 1, buffers[1], line);
    }
    return {};
  }

 private:
  // Number k of line l lies at l * line + k * step.
  struct Grid {
    int64_t line, step;
  };

  size_t line_bytes() const { return in_lines(static_cast<size_t>(2 * of_.elements()) * sizeof(T)); }
  int64_t buffer() const { return 2 * side * std::max(first_.room(), second_.room()); }
  size_t worker_bytes() const { return in_lines(static_cast<size_t>(2 * buffer()) * sizeof(T)); }

  // Transforms all lines of one length, and turns what comes out.
  void pass(const Length<T>& length, double scale, const T* turns, T* from, Grid read, T* to, Grid written,
            void* memory) const {
    const int64_t lines = of_.length / length.n(), tiles = divide_up(lines, side);
    parallel_for(tiles, std::min<int64_t>(tiles, threads()), memory, worker_bytes(), [&](int64_t tile, void* own) {
      const int64_t count = std::min(side, lines - tile * side);
      const auto copy = [&](T* numbers, T* line, Grid grid, bool is_given) {
        std::array<int64_t, side> begins;
        for (int64_t l = 0; l < side; ++l) begins[static_cast<size_t>(l)] = 2 * (tile * side + l) * grid.line;
        copy_lines({numbers, side, line, begins.data(), count, length.n(), 2 * grid.step, 2, is_given});
      };
      T *numbers = static_cast<T*>(own), *others = numbers + buffer();
      if (count < side) std::fill(numbers, others, T(0));  // lines that are not there
      copy(numbers, from, read, true);
      copy(length.run(numbers, others, scale, turns ? turns + tile * 2 * side * length.n() : nullptr), to, written,
           false);
    });
  }

  Transform of_;
  Ends<T> ends_;
  Length<T> first_, second_;
  std::vector<T> turns_;  // of what the first pass gives, as it lies side by side
};

// As how many lines a line is best taken, if that is worth it; else 1.
int64_t lines_within(const Transform& of) {
  if (of.lines > side / 2) return 1;
  int64_t found = 1;
  for (int64_t some = side; some * some <= of.length; some += side)
    if (of.length % some == 0) found = some;
  return found;
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
    const Transform of = transform_at(site);
    const bool is_double = dtype == ScalarType::f64 || dtype == ScalarType::c128;
    std::unique_ptr<PreparedCall> call = is_double ? make<double>(site, of) : make<float>(site, of);
    const auto numbers = static_cast<double>(of.lines * of.n);
    call->flops = 5 * numbers * std::log2(std::max<double>(2, static_cast<double>(of.n)));
    call->bytes = numbers * 4 * (is_double ? sizeof(double) : sizeof(float));
    return call;
  }

 private:
  template <class T>
  static std::unique_ptr<PreparedCall> make(const CallSite& site, const Transform& of) {
    if (const int64_t within = lines_within(of); within > 1) return std::make_unique<FewLines<T>>(site, of, within);
    return std::make_unique<ManyLines<T>>(site, of);
  }
};

}  // namespace

const Kernel& fourier() {
  static const Fourier kernel;
  return kernel;
}

}  // namespace atenon::kernels
