// Discrete Fourier transforms along an axis, in double: atenon::dft and atenon::real_dft.
//
// A length is taken apart into its prime factors, each of which costs its square for every element: constants that go
// through a transform are folded, and the sums as they are defined took seconds. Angles are of positions modulo n, so
// they stay exact. Source of the formula: Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1.2.
#include <complex>

#include "reference/extern_kernels.h"
#include "support/roots.h"

namespace atenon::reference {
namespace {

using Complex = std::complex<double>;

Complex product(Complex a, Complex b) {  // as it is written: the library's looks for infinities
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

class Transform {
 public:
  Transform(int64_t n, double turn) : n_(n), spare_(static_cast<size_t>(n)) {
    for (int64_t j = 0; j < n; ++j) {
      const auto [cosine, sine] = math::root_of_one(j, n, turn);
      roots_.emplace_back(cosine, sine);
    }
  }

  void run(const Complex* x, Complex* out) { split(x, 1, n_, out); }

 private:
  // Element k of a length of n, `stride` apart.
  void split(const Complex* x, int64_t stride, int64_t n, Complex* out) {
    if (n == 1) {
      *out = *x;
      return;
    }
    int64_t parts = 2;
    while (n % parts != 0) parts = parts * parts > n ? n : parts + 1;
    const int64_t part = n / parts;
    for (int64_t r = 0; r < parts; ++r) split(x + r * stride, stride * parts, part, out + r * part);
    for (int64_t k = 0; k < part; ++k) {
      for (int64_t q = 0; q < parts; ++q) {
        Complex sum = out[k];
        for (int64_t r = 1; r < parts; ++r)
          sum += product(out[r * part + k], roots_[static_cast<size_t>(r * (k + q * part) % n * stride)]);
        spare_[static_cast<size_t>(q)] = sum;
      }
      for (int64_t q = 0; q < parts; ++q) out[q * part + k] = spare_[static_cast<size_t>(q)];
    }
  }

  int64_t n_;
  std::vector<Complex> roots_;
  std::vector<Complex> spare_;
};

// Each line of `self` along the axis, filled up to n with zeros, then by `complete`.
template <class Complete>
Tensor transformed(const ExternCall& call, int64_t n, double turn, double scale, const Complete& complete) {
  const Tensor& self = call.tensor(0);
  const auto axis = static_cast<size_t>(call.integer(1));
  const Tensor x = cast(self, ScalarType::c128).contiguous();
  Tensor result = call.result(0);
  Tensor wide = Tensor::empty(ScalarType::c128, result.sizes);
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < x.sizes.size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : x.sizes[i];
  const int64_t given = x.sizes[axis], made = result.sizes[axis];
  Transform transform(n, turn);
  std::vector<Complex> line(static_cast<size_t>(n)), out(static_cast<size_t>(n));
  for (int64_t row = 0; row < outer * inner; ++row) {
    const int64_t o = row / inner, i = row % inner;
    const Complex* from = x.as<Complex>() + o * given * inner + i;
    Complex* to = wide.mutable_as<Complex>() + o * made * inner + i;
    for (int64_t k = 0; k < n; ++k) line[static_cast<size_t>(k)] = k < given ? from[k * inner] : Complex();
    complete(line);
    transform.run(line.data(), out.data());
    for (int64_t k = 0; k < made; ++k) to[k * inner] = out[static_cast<size_t>(k)] * scale;
  }
  return cast(wide, result.dtype);
}

}  // namespace

// self, axis, n, m, turn, scale.
Result<std::vector<Datum>> fourier(const ExternCall& call) {
  return std::vector<Datum>{
      transformed(call, call.integer(2), call.number(4), call.number(5), [](std::vector<Complex>&) {})};
}

// self, axis, n, turn, scale: of what lies behind the middle, `self` has the conjugates.
Result<std::vector<Datum>> real_fourier(const ExternCall& call) {
  return std::vector<Datum>{
      transformed(call, call.integer(2), call.number(3), call.number(4), [](std::vector<Complex>& line) {
        const size_t n = line.size();
        line[0] = line[0].real();
        for (size_t k = n / 2 + 1; k < n; ++k) line[k] = std::conj(line[n - k]);
        if (n % 2 == 0) line[n / 2] = line[n / 2].real();
      })};
}

}  // namespace atenon::reference
