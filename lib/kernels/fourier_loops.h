// The steps of Fourier transforms of lines side by side, behind lanes_loops.h: of f32 and f64, which the compiler's own
// vectors make alike.

namespace {

// `width` numbers of each part of as many complex ones, one of each line.
template <class T>
struct Complex {
  typedef T Numbers __attribute__((vector_size(V::width * sizeof(float))));  // NOLINT(modernize-use-using)
  static constexpr int64_t width = V::width * sizeof(float) / sizeof(T);
  static_assert(fourier_lines % width == 0);
  Numbers re, im;

  // The imaginary parts lie `parts` numbers behind the real ones.
  static Complex load(const T* p, int64_t parts) {
    Complex x;
    __builtin_memcpy(&x.re, p, sizeof(x.re));
    __builtin_memcpy(&x.im, p + parts, sizeof(x.im));
    return x;
  }
  void store(T* p, int64_t parts) const {
    __builtin_memcpy(p, &re, sizeof(re));
    __builtin_memcpy(p + parts, &im, sizeof(im));
  }
  Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  Complex operator*(T factor) const { return {re * factor, im * factor}; }
  // Times e^i of an angle, and times i.
  Complex turned(T cosine, T sine) const { return {re * cosine - im * sine, re * sine + im * cosine}; }
  Complex times_i() const { return {-im, re}; }
  Complex conjugate() const { return {re, -im}; }
};

// One step: of `factor` elements each, `left` of them follow, `stride` are done side by side. `known` is the factor, or
// 0 where only the run knows it; block(x, y) makes y[factor] of x(i), i < factor, as a transform of that length.
template <class T, int known>
struct FourierStep {
  const FourierLines<T>& lines;
  int64_t factor, left, stride;
  const T* __restrict from;
  T* __restrict to;

  using Number = Complex<T>;
  int64_t count() const { return known > 0 ? known : factor; }
  int64_t row() const { return stride * fourier_lines; }
  int64_t parts() const { return lines.parts; }
  int64_t angle(int64_t i, int64_t j) const { return i * j % count() * (lines.length / count()); }

  void run() const {
    for (int64_t p = 0; p < left; ++p)
      for (int64_t q = 0; q < row(); q += Number::width)
        if constexpr (known == 4)
          fours(p, q);
        else if constexpr (known == 2)
          twos(p, q);
        else
          odd(p, q);
  }

  Number read(int64_t p, int64_t q, int64_t i) const {
    return Number::load(from + (p + left * i) * row() + q, parts());
  }
  // Result j, which the next step finds turned as it needs it.
  void write(int64_t p, int64_t q, int64_t j, const Number& y) const {
    const int64_t angle = p * stride * j;
    (j == 0 ? y : y.turned(lines.cosines[angle], lines.sines[angle]))
        .store(to + (count() * p + j) * row() + q, parts());
  }

  void twos(int64_t p, int64_t q) const {
    const Number a = read(p, q, 0), b = read(p, q, 1);
    write(p, q, 0, a + b);
    write(p, q, 1, a - b);
  }

  void fours(int64_t p, int64_t q) const {
    const Number a = read(p, q, 0), b = read(p, q, 1), c = read(p, q, 2), d = read(p, q, 3);
    const Number even = a + c, odd = b + d, rest = a - c, turned = ((b - d) * lines.turn).times_i();
    write(p, q, 0, even + odd);
    write(p, q, 1, rest + turned);
    write(p, q, 2, even - odd);
    write(p, q, 3, rest - turned);
  }

  // Elements i and factor - i are turned by opposite angles: results j and factor - j share their sums.
  void odd(int64_t p, int64_t q) const {
    Number all[known == 0 ? 1 : known];
    if constexpr (known > 0)
      for (int i = 0; i < known; ++i) all[i] = read(p, q, i);
    const auto x = [&](int64_t i) { return known > 0 ? all[i] : read(p, q, i); };
    const int64_t half = count() / 2;
    Number sum = x(0);
    for (int64_t i = 1; i <= half; ++i) sum = sum + (x(i) + x(count() - i));
    write(p, q, 0, sum);
    for (int64_t j = 1; j <= half; ++j) {
      Number even = x(0), odd = {};
      for (int64_t i = 1; i <= half; ++i) {
        const Number a = x(i), b = x(count() - i);
        even = even + (a + b) * lines.cosines[angle(i, j)];
        odd = odd + (a - b) * lines.sines[angle(i, j)];
      }
      write(p, q, j, even + odd.times_i());
      write(p, q, count() - j, even - odd.times_i());
    }
  }
};

// Of pairs Z the frequencies X up to m = length, or Z of X but for a factor of n: with w = e^(turn * i pi / m),
// X_k = ((Z_k + conj Z_m-k) - i w^k (Z_k - conj Z_m-k)) / 2, and Z_k = (X_k + conj X_m-k) + i w^k (X_k - conj X_m-k).
template <class T>
void mix_pairs(const FourierLines<T>& lines, const T* from, T* to) {
  const bool are_given = lines.pairs == FourierLines<T>::Pairs::given;
  const int64_t m = lines.length, period = are_given ? m : m + 1;
  for (int64_t k = 0; k <= m; ++k)
    for (int64_t q = 0; q < fourier_lines; q += Complex<T>::width) {
      const auto a = Complex<T>::load(from + k % period * fourier_lines + q, lines.parts);
      const auto b = Complex<T>::load(from + (m - k) % period * fourier_lines + q, lines.parts).conjugate();
      const T cosine = k < m ? lines.turned_cosines[k] : T(-1), sine = k < m ? lines.turned_sines[k] : T(0);
      const Complex<T> sum = a + b, odd = (a - b).times_i().turned(cosine, sine);
      (are_given ? (sum - odd) * T(0.5) : sum + odd).store(to + k * fourier_lines + q, lines.parts);
    }
}

template <class T>
T* transform_lines(const FourierLines<T>& lines) {
  T *from = lines.from, *to = lines.to;
  const auto swap = [&] {
    T* const done = from;
    from = to, to = done;
  };
  using Pairs = typename FourierLines<T>::Pairs;
  if (lines.pairs == Pairs::made) mix_pairs(lines, from, to), swap();
  int64_t left = lines.length, stride = 1;
  for (int64_t i = 0; i < lines.factor_count; ++i) {
    const int64_t factor = lines.factors[i];
    left /= factor;
    const auto step = [&]<int known>() { FourierStep<T, known>{lines, factor, left, stride, from, to}.run(); };
    switch (factor) {
      case 2:
        step.template operator()<2>();
        break;
      case 3:
        step.template operator()<3>();
        break;
      case 4:
        step.template operator()<4>();
        break;
      case 5:
        step.template operator()<5>();
        break;
      case 7:
        step.template operator()<7>();
        break;
      case 11:
        step.template operator()<11>();
        break;
      case 13:
        step.template operator()<13>();
        break;
      default:
        step.template operator()<0>();
    }
    stride *= factor;
    swap();
  }
  if (lines.pairs == Pairs::given) mix_pairs(lines, from, to), swap();
  return from;
}

}  // namespace
