// The steps of Fourier transforms of lines side by side, behind lanes_loops.h: of f32 and f64, which the compiler's own
// vectors make alike.

namespace {

constexpr int64_t element = 2 * fourier_lines;  // numbers of a complex one of each line

template <class T>
constexpr int numbers_of_vector = V::width * sizeof(float) / sizeof(T);

// `width` numbers of each part of as many complex ones, one of each of `side` lines.
template <class T, int64_t side = fourier_lines>
struct Complex {
  static constexpr int width = side < numbers_of_vector<T> ? side : numbers_of_vector<T>;
  typedef T Numbers __attribute__((vector_size(width * sizeof(T))));  // NOLINT(modernize-use-using)
  static_assert(side % width == 0);
  Numbers re, im;

  static Complex load(const T* p) {
    Complex x;
    __builtin_memcpy(&x.re, p, sizeof(x.re));
    __builtin_memcpy(&x.im, p + side, sizeof(x.im));
    return x;
  }
  void store(T* p) const {
    __builtin_memcpy(p, &re, sizeof(re));
    __builtin_memcpy(p + side, &im, sizeof(im));
  }
  // In memory, where the parts of a number are neighbours.
  static Complex load_pairs(const T* p) {
    Numbers a, b;
    __builtin_memcpy(&a, p, sizeof(a));
    __builtin_memcpy(&b, p + width, sizeof(b));
    return apart(a, b, std::make_integer_sequence<int, width>());
  }
  void store_pairs(T* p) const { store_in_turn(p, std::make_integer_sequence<int, width>()); }
  template <int... i>
  static Complex apart(Numbers a, Numbers b, std::integer_sequence<int, i...>) {
    return {__builtin_shufflevector(a, b, 2 * i...), __builtin_shufflevector(a, b, 2 * i + 1 ...)};
  }
  template <int... i>
  void store_in_turn(T* p, std::integer_sequence<int, i...>) const {
    const Numbers first = __builtin_shufflevector(re, im, i % 2 * width + i / 2 ...),
                  second = __builtin_shufflevector(re, im, i % 2 * width + (width + i) / 2 ...);
    __builtin_memcpy(p, &first, sizeof(first));
    __builtin_memcpy(p + width, &second, sizeof(second));
  }
  Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  Complex operator*(T factor) const { return {re * factor, im * factor}; }
  // Times e^i of an angle, and times i.
  Complex turned(T cosine, T sine) const { return {re * cosine - im * sine, re * sine + im * cosine}; }
  Complex operator*(const Complex& b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
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
  int64_t row() const { return stride * element; }
  int64_t angle(int64_t i, int64_t j) const { return i * j % count() * (lines.length / count()); }

  void run() const {
    for (int64_t p = 0; p < left; ++p)
      for (int64_t first = 0; first < row(); first += element)
        for (int64_t q = first; q < first + fourier_lines; q += Number::width)
          if constexpr (known == 8)
            eights(p, q);
          else if constexpr (known == 4)
            fours(p, q);
          else if constexpr (known == 2)
            twos(p, q);
          else
            odd(p, q);
  }

  Number read(int64_t p, int64_t q, int64_t i) const { return Number::load(from + (p + left * i) * row() + q); }
  // Result j, which the next step finds turned as it needs it.
  void write(int64_t p, int64_t q, int64_t j, const Number& y) const {
    const int64_t angle = p * stride * j, place = (count() * p + j) * row() + q;
    if (left == 1)
      (lines.turns ? y * Number::load(lines.turns + place) : y * lines.scale).store(to + place);
    else
      (j == 0 ? y : y.turned(lines.cosines[angle], lines.sines[angle])).store(to + place);
  }

  void twos(int64_t p, int64_t q) const {
    const Number a = read(p, q, 0), b = read(p, q, 1);
    write(p, q, 0, a + b);
    write(p, q, 1, a - b);
  }

  // By a quarter of the circle.
  Number quarter(const Number& x) const { return x.times_i() * lines.turn; }
  struct Four {
    Number y[4];
  };
  Four four(const Number& a, const Number& b, const Number& c, const Number& d) const {
    const Number even = a + c, odd = b + d, rest = a - c, turned = quarter(b - d);
    return {{even + odd, rest + turned, even - odd, rest - turned}};
  }

  void fours(int64_t p, int64_t q) const {
    const Four all = four(read(p, q, 0), read(p, q, 1), read(p, q, 2), read(p, q, 3));
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) write(p, q, j, all.y[j]);
  }

  void eights(int64_t p, int64_t q) const {
    Number sum[4], rest[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Number a = read(p, q, i), b = read(p, q, i + 4);
      sum[i] = a + b, rest[i] = a - b;
    }
    const T root = T(0.70710678118654752440);  // of a half: an eighth of the circle is root * (1 + turn * i)
    const Four even = four(sum[0], sum[1], sum[2], sum[3]),
               odd = four(rest[0], (rest[1] + quarter(rest[1])) * root, quarter(rest[2]),
                          (quarter(rest[3]) - rest[3]) * root);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      write(p, q, 2 * j, even.y[j]);
      write(p, q, 2 * j + 1, odd.y[j]);
    }
  }

  // Elements i and factor - i are turned by opposite angles: results j and factor - j share their sums.
  void odd(int64_t p, int64_t q) const {
    Number all[known == 0 ? 1 : known];
    if constexpr (known > 0) {
#pragma GCC unroll 7
      for (int i = 0; i < known; ++i) all[i] = read(p, q, i);
    }
    const auto x = [&](int64_t i) { return known > 0 ? all[i] : read(p, q, i); };
    const int64_t half = count() / 2;
    Number sum = x(0);
#pragma GCC unroll 3
    for (int64_t i = 1; i <= half; ++i) sum = sum + (x(i) + x(count() - i));
    write(p, q, 0, sum);
#pragma GCC unroll 3
    for (int64_t j = 1; j <= half; ++j) {
      Number even = x(0), odd = {};
#pragma GCC unroll 3
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
template <class T, int64_t side = fourier_lines>
void mix_pairs(const FourierPairs<T>& pairs) {
  using Number = Complex<T, side>;
  const int64_t m = pairs.length, period = pairs.are_given ? m : m + 1, row = 2 * side;
  for (int64_t k = 0; k <= m; ++k)
    for (int64_t q = 0; q < side; q += Number::width) {
      const auto a = Number::load(pairs.from + (k < period ? k : 0) * row + q);
      const auto b = Number::load(pairs.from + (m - k < period ? m - k : 0) * row + q).conjugate();
      const Number sum = a + b, odd = (a - b).times_i().turned(pairs.cosines[k], pairs.sines[k]);
      const Number y = pairs.are_given ? (sum - odd) * (T(0.5) * pairs.scale) : sum + odd;
      y.store(pairs.to + k * row + q);
      if (pairs.is_whole && k > 0 && k < m) y.conjugate().store(pairs.to + (2 * m - k) * row + q);
    }
}

template <class T>
T* transform_lines(const FourierLines<T>& lines) {
  T *from = lines.from, *to = lines.to;
  const auto swap = [&] {
    T* const done = from;
    from = to, to = done;
  };
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
      case 8:
        step.template operator()<8>();
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
  return from;
}

// --- Lines in memory

template <bool is_given, class T>
void move(T& number, T& memory) {
  is_given ? number = memory : memory = number;
}

// Whole vectors of an element, of lines that are neighbours in memory.
template <bool is_given, int parts, class T>
void copy_vectors(T* numbers, T* memory) {
  if constexpr (parts == 2)
    for (int64_t q = 0; q < fourier_lines; q += Complex<T>::width)
      if (is_given)
        Complex<T>::load_pairs(memory + 2 * q).store(numbers + q);
      else
        Complex<T>::load(numbers + q).store_pairs(memory + 2 * q);
  else if (is_given)
    __builtin_memcpy(numbers, memory, fourier_lines * sizeof(T));
  else
    __builtin_memcpy(memory, numbers, fourier_lines * sizeof(T));
}

template <bool is_given, int parts, class T>
void copy_by_elements(const FourierCopy<T>& copy) {
  for (int64_t l = 0, run = 1; l < copy.lines; l += run, run = 1) {
    while (l + run < copy.lines && copy.begins[l + run] == copy.begins[l] + run * parts) ++run;
    for (int64_t k = 0; k < copy.elements; ++k) {
      T *numbers = copy.side_by_side + k * parts * copy.row + l, *memory = copy.memory + copy.begins[l] + k * copy.step;
      if (run == fourier_lines) {
        copy_vectors<is_given, parts>(numbers, memory);
        continue;
      }
      for (int64_t i = 0; i < run; ++i)
        for (int part = 0; part < parts; ++part) move<is_given>(numbers[part * copy.row + i], memory[i * parts + part]);
    }
  }
}

template <class T>
[[gnu::noinline]] void turn_block(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to,
                                  int64_t to_row) {
  if constexpr (sizeof(T) == sizeof(float))
    if (rows == fourier_lines) return turn(from, from_row, rows, columns, to, to_row);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * to_row + i] = from[i * from_row + j];
}

// Of lines whose numbers are neighbours in memory. Each is touched once for a block: a power of two apart, they would
// push each other out of the cache.
template <bool is_given, class T>
void copy_by_lines(const FourierCopy<T>& copy) {
  T block[fourier_lines * fourier_lines] = {};
  const int64_t numbers = copy.elements * copy.parts;
  for (int64_t first = 0; first < numbers; first += fourier_lines) {
    const int64_t left = numbers - first, count = left < fourier_lines ? left : fourier_lines;
    T* const side_by_side = copy.side_by_side + first * copy.row;
    if (!is_given) turn_block(side_by_side, copy.row, count, fourier_lines, block, fourier_lines);
    for (int64_t l = 0; l < copy.lines; ++l) {
      T *line = block + l * fourier_lines, *memory = copy.memory + copy.begins[l] + first;
      if (count == fourier_lines)
        copy_vectors<is_given, 1>(line, memory);
      else
        for (int64_t k = 0; k < count; ++k) move<is_given>(line[k], memory[k]);
    }
    if (is_given) turn_block(block, fourier_lines, fourier_lines, count, side_by_side, copy.row);
  }
}

template <bool is_given, class T>
void copy_lines_so(const FourierCopy<T>& copy) {
  if (copy.step == copy.parts && copy.lines > 1)
    copy_by_lines<is_given>(copy);
  else if (copy.parts == 1)
    copy_by_elements<is_given, 1>(copy);
  else
    copy_by_elements<is_given, 2>(copy);
}

template <class T>
void copy_lines(const FourierCopy<T>& copy) {
  copy.is_given ? copy_lines_so<true>(copy) : copy_lines_so<false>(copy);
}

}  // namespace
