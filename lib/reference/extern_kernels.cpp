#include "reference/extern_kernels.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>

#include "tensor/elements.h"
#include "tensor/largest.h"
#include "tensor/sort_words.h"

namespace atenon::reference {

using Results = Result<std::vector<Datum>>;

std::vector<Tensor> ExternCall::tensors(size_t i) const {
  std::vector<Tensor> list;
  for (const ir::Argument& item : arguments[i].get<ir::ArgumentList>())
    list.push_back(std::get<Tensor>(values.at(item.value())));
  return list;
}

int64_t ExternCall::integer(size_t i) const {
  const ir::Argument& argument = arguments[i];
  if (argument.is<ir::SymInt>()) return argument.get<ir::SymInt>().constant().value_or(0);
  return static_cast<int64_t>(number(i));
}

double ExternCall::number(size_t i) const {
  const ir::Argument& argument = arguments[i];
  if (argument.is<ir::SymInt>()) return static_cast<double>(argument.get<ir::SymInt>().constant().value_or(0));
  if (argument.is<ir::SymBool>()) return truth(i) ? 1 : 0;
  return argument.get<ir::SymFloat>().constant().value_or(0);
}

bool ExternCall::truth(size_t i) const {
  const ir::Argument& argument = arguments[i];
  return argument.is<ir::SymBool>() ? argument.get<ir::SymBool>().constant().value_or(false) : number(i) != 0;
}

std::string ExternCall::text(size_t i) const {
  return has(i) && arguments[i].is<std::string>() ? arguments[i].get<std::string>() : "";
}

Tensor ExternCall::result(size_t i) const {
  const ir::TensorMeta& meta = std::get<ir::TensorMeta>(types[i]);
  std::vector<int64_t> sizes;
  for (const ir::SymInt& size : meta.sizes) sizes.push_back(size.constant().value_or(0));
  return Tensor::empty(meta.dtype, std::move(sizes));
}

namespace {

// Elements along one axis of a row-major tensor: `outer` times `inner` lines of `size` elements, `inner` apart.
struct Lines {
  int64_t outer = 1, size = 1, inner = 1;
  Lines(const std::vector<int64_t>& sizes, int64_t axis) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      (at < axis ? outer : at == axis ? size : inner) *= sizes[i];
    }
  }
  template <class Visit>
  void each(Visit visit) const {  // visit(position of the line's first element)
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) visit(o * size * inner + i);
  }
};

// Calls `visit` with the element type, or fails: complex numbers have no order.
template <class Visit>
Results visit_real(const Tensor& tensor, Visit visit) {
  if (is_complex(tensor.dtype))
    return error(Status::unsupported, 634, "complex numbers are not known to this operator");
  return visit_element_type(tensor.dtype, [&]<class T>(T) -> Results {
    if constexpr (is_complex_type<T>)
      return error(Status::bug, 0, "unreachable");
    else
      return visit(T{});
  });
}

// The type that elements are compared in.
template <class T>
auto comparable(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return convert<float>(x);
  else
    return x;
}

template <class T>
bool is_nan(T x) {
  return x != x;
}

// The same number, of a type that has keys.
template <class T>
auto sortable(T x) {
  const auto number = comparable(x);
  if constexpr (sizeof(number) < sizeof(int32_t))
    return static_cast<int32_t>(number);
  else
    return number;
}

// Whether one element of a line stands before another; NaN counts as the largest.
template <class T>
auto before(const T* line, int64_t step, bool descending) {
  return [=](int64_t a, int64_t b) {
    const auto x = comparable(line[a * step]), y = comparable(line[b * step]);
    if (descending) return is_nan(x) ? !is_nan(y) : x > y;
    return is_nan(y) ? !is_nan(x) : x < y;
  };
}

// Of each line of self along `axis` the first elements, as many as the results hold, in the order in which
// `put_in_order(positions, k, before)` leaves them, and where they stood.
template <class Order>
Results first_of_lines(const ExternCall& call, int64_t axis, bool descending, Order put_in_order) {
  const Tensor self = call.tensor(0).contiguous();
  return visit_real(self, [&]<class T>(T) -> Results {
    Tensor values = call.result(0), indices = call.result(1);
    T* to = values.mutable_as<T>();
    int64_t* index = indices.mutable_as<int64_t>();
    const Lines lines(self.sizes, axis);
    const int64_t k = values.sizes.empty() ? 1 : values.sizes[static_cast<size_t>(axis)];
    std::vector<int64_t> order(static_cast<size_t>(lines.size));
    int64_t number = 0;
    lines.each([&](int64_t first) {
      const T* line = self.as<T>() + first;
      int64_t place = number / lines.inner * k * lines.inner + number % lines.inner;
      ++number;
      std::iota(order.begin(), order.end(), 0);
      put_in_order(order, k, before(line, lines.inner, descending));
      for (int64_t j = 0; j < k; ++j, place += lines.inner) {
        index[place] = order[static_cast<size_t>(j)];
        to[place] = line[index[place] * lines.inner];
      }
    });
    return std::vector<Datum>{values, indices};
  });
}

constexpr auto sort_stably = [](std::vector<int64_t>& order, int64_t, auto is_before) {
  std::stable_sort(order.begin(), order.end(), is_before);
};

// (self, axis, descending): stable.
Results sort(const ExternCall& call) { return first_of_lines(call, call.integer(1), call.truth(2), sort_stably); }

// (self, k, axis, descending): stable.
Results sort_first(const ExternCall& call) { return first_of_lines(call, call.integer(2), call.truth(3), sort_stably); }

// (self, k, axis, largest, sorted)
Results topk(const ExternCall& call) {
  return first_of_lines(call, call.integer(2), call.truth(3),
                        [sorted = call.truth(4)](std::vector<int64_t>& order, int64_t k, auto is_before) {
                          move_first(order.data(), k, static_cast<int64_t>(order.size()), sorted, is_before);
                        });
}

// (self): positions that are not zero, in row-major order, one a row.
Results nonzero(const ExternCall& call) {
  const Tensor self = call.tensor(0).contiguous();
  const size_t rank = self.sizes.size();
  return visit_real(self, [&]<class T>(T) -> Results {
    const T* from = self.as<T>();
    const auto counts = [](T x) { return convert<bool>(comparable(x)); };
    const auto count = static_cast<int64_t>(std::count_if(from, from + self.numel(), counts));
    Tensor result = Tensor::empty(ScalarType::i64, {count, static_cast<int64_t>(rank)});
    if (rank == 0) return std::vector<Datum>{result};
    int64_t* row = result.mutable_as<int64_t>();
    std::vector<int64_t> at(rank, 0);  // where a line begins
    const int64_t length = self.sizes.back();
    for (const int64_t* end = row + result.numel(); row < end; from += length) {
      // Each position is written, and the next one over it where it does not count: half of all jumps would be wrong.
      for (int64_t i = 0; i < length && row < end; ++i) {
        for (size_t axis = 0; axis + 1 < rank; ++axis) row[axis] = at[axis];
        row[rank - 1] = i;
        row += rank * static_cast<size_t>(counts(from[i]));
      }
      for (size_t axis = rank - 1; axis-- > 0 && ++at[axis] == self.sizes[axis];) at[axis] = 0;
    }
    return std::vector<Datum>{result};
  });
}

// (self): the one element as a number.
Results item(const ExternCall& call) {
  const Tensor& self = call.tensor(0);
  if (self.numel() != 1)
    return error(Status::violated, 632, "item() of a tensor of " + std::to_string(self.numel()) + " elements");
  if (is_floating(self.dtype)) return std::vector<Datum>{self.float_at(0)};
  if (self.dtype == ScalarType::boolean) return std::vector<Datum>{self.int_at(0) != 0};
  return std::vector<Datum>{self.int_at(0)};
}

Results equal_complex(const Tensor& a, const Tensor& b) {
  const auto compare = [numel = a.numel()]<class T>(const std::complex<T>* x, const std::complex<T>* y) {
    return std::equal(x, x + numel, y);
  };
  const bool same = a.dtype == ScalarType::c64 ? compare(a.as<std::complex<float>>(), b.as<std::complex<float>>())
                                               : compare(a.as<std::complex<double>>(), b.as<std::complex<double>>());
  return std::vector<Datum>{Datum(same)};
}

// (self, other)
Results equal(const ExternCall& call) {
  const Tensor a = call.tensor(0).contiguous(), b = call.tensor(1).contiguous();
  if (a.sizes != b.sizes) return std::vector<Datum>{false};
  if (is_complex(a.dtype)) return equal_complex(a, b);
  return visit_real(a, [&]<class T>(T) -> Results {
    bool same = true;
    const int64_t numel = a.numel();
    for (int64_t i = 0; i < numel && same; ++i) same = comparable(a.as<T>()[i]) == comparable(b.as<T>()[i]);
    return std::vector<Datum>{Datum(same)};  // in a template, clang 19 takes a bare bool for a size
  });
}

// (self, other, rtol, atol, equal_nan), equal shapes
Results allclose(const ExternCall& call) {
  const Tensor a = call.tensor(0).contiguous(), b = call.tensor(1).contiguous();
  if (a.sizes != b.sizes) return error(Status::unsupported, 634, "allclose of different shapes is not known");
  const double relative = call.number(2), absolute = call.number(3);
  const Tensor x = cast(a, ScalarType::c128), y = cast(b, ScalarType::c128);
  const auto is_close = [&](const std::complex<double>& p, const std::complex<double>& q) {
    const double distance = std::abs(p - q), size = std::abs(q);
    return p == q || (call.truth(4) && is_nan(p) && is_nan(q)) ||
           (std::isfinite(distance) && std::isfinite(size) && distance <= absolute + relative * size);
  };
  const auto* first = x.as<std::complex<double>>();
  return std::vector<Datum>{std::equal(first, first + a.numel(), y.as<std::complex<double>>(), is_close)};
}

// (self, dtype): the same bytes as another type. One of another width is a copy: the storage may begin between its
// elements.
Results reinterpret(const ExternCall& call) {
  Tensor self = call.tensor(0);
  const ScalarType dtype = call.dtype(1);
  if (size_of(dtype) == size_of(self.dtype)) {
    self.dtype = dtype;
    return std::vector<Datum>{self};
  }
  std::vector<int64_t> sizes = self.sizes;
  sizes.back() = sizes.back() * static_cast<int64_t>(size_of(self.dtype)) / static_cast<int64_t>(size_of(dtype));
  Tensor view = Tensor::empty(dtype, std::move(sizes));
  if (self.nbytes() > 0) std::memcpy(view.mutable_data(), self.contiguous().data(), self.nbytes());
  return std::vector<Datum>{view};
}

// (self, sorted, return_inverse, return_counts): always sorted.
Results unique(const ExternCall& call) {
  const Tensor self = call.tensor(0).contiguous();
  return visit_real(self, [&]<class T>(T) -> Results {
    const T* from = self.as<T>();
    const auto key_at = [&](int64_t i) { return key_of(sortable(from[i])); };
    using W = decltype(word(key_at(0), 0));
    const int64_t numel = self.numel();
    std::vector<W> memory(2 * static_cast<size_t>(numel));
    for (int64_t i = 0; i < numel; ++i) memory[static_cast<size_t>(i)] = word(key_at(i), i);
    const W* words = sort_words(memory.data(), memory.data() + numel, numel);
    Tensor inverse = call.truth(2) ? Tensor::empty(ScalarType::i64, self.sizes) : Tensor::empty(ScalarType::i64, {0});
    int64_t* const place = inverse.mutable_as<int64_t>();
    std::vector<int64_t> begins;  // among the words, of each kind
    for (int64_t i = 0; i < numel; ++i) {
      const int64_t at = position(words[i]);
      // A NaN is of a kind of its own.
      if (i == 0 || key(words[i]) != key(words[i - 1]) || is_nan(comparable(from[at]))) begins.push_back(i);
      if (call.truth(2)) place[at] = static_cast<int64_t>(begins.size()) - 1;
    }
    Tensor values = Tensor::empty(self.dtype, {static_cast<int64_t>(begins.size())});
    Tensor counts = Tensor::empty(ScalarType::i64, {call.truth(3) ? static_cast<int64_t>(begins.size()) : 0});
    T* const value = values.mutable_as<T>();
    int64_t* const count = counts.mutable_as<int64_t>();
    for (size_t i = 0; i < begins.size(); ++i) {
      value[i] = from[position(words[begins[i]])];
      if (call.truth(3)) count[i] = (i + 1 < begins.size() ? begins[i + 1] : numel) - begins[i];
    }
    return std::vector<Datum>{values, inverse, counts};
  });
}

// (self, axis): the distinct rows along an axis in lexicographic order, which one each row is, and how many are of a
// kind.
Results unique_rows(const ExternCall& call) {
  const Tensor self = call.tensor(0).contiguous();
  const auto axis = static_cast<size_t>(call.integer(1));
  const int64_t rows = self.sizes[axis];
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < self.sizes.size(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= self.sizes[i];
  return visit_real(self, [&]<class T>(T) -> Results {
    const T* from = self.as<T>();
    const auto element = [&](int64_t row, int64_t i) {
      return comparable(from[(i / inner * rows + row) * inner + i % inner]);
    };
    const auto is_before = [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < outer * inner; ++i) {
        const auto x = element(a, i), y = element(b, i);
        if (is_nan(x) || is_nan(y) ? is_nan(x) != is_nan(y) : x != y) return is_nan(y) || x < y;
      }
      return false;
    };
    const auto is_equal = [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < outer * inner; ++i)
        if (!(element(a, i) == element(b, i))) return false;
      return true;
    };
    std::vector<int64_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), is_before);
    Tensor inverse = Tensor::empty(ScalarType::i64, {rows});
    std::vector<int64_t> first, count;
    for (const int64_t row : order) {
      if (first.empty() || !is_equal(first.back(), row)) first.push_back(row), count.push_back(0);
      ++count.back();
      inverse.mutable_as<int64_t>()[row] = static_cast<int64_t>(first.size()) - 1;
    }
    std::vector<int64_t> sizes = self.sizes;
    sizes[axis] = static_cast<int64_t>(first.size());
    Tensor values = Tensor::empty(self.dtype, sizes);
    T* to = values.mutable_as<T>();
    for (int64_t i = 0; i < outer; ++i)
      for (const int64_t row : first) to = std::copy_n(from + (i * rows + row) * inner, inner, to);
    Tensor counts = Tensor::empty(ScalarType::i64, {sizes[axis]});
    std::copy(count.begin(), count.end(), counts.mutable_as<int64_t>());
    return std::vector<Datum>{values, inverse, counts};
  });
}

// (self, weights, minlength)
Results bincount(const ExternCall& call) {
  const Tensor& given = call.tensor(0);
  const Tensor self = given.dtype == ScalarType::i64 ? given.contiguous() : cast(given, ScalarType::i64);
  const std::span<const int64_t> numbers(self.as<int64_t>(), static_cast<size_t>(self.numel()));
  int64_t length = call.integer(2);
  for (int64_t number : numbers) {
    if (number < 0)
      return error(Status::violated, 611, "bincount takes no negative number, such as " + std::to_string(number));
    length = std::max(length, number + 1);
  }
  Tensor counts = Tensor::zeros(ScalarType::i64, {length});
  int64_t* count = counts.mutable_as<int64_t>();
  for (int64_t number : numbers) ++count[number];
  return std::vector<Datum>{counts};
}

// (repeats, output_size): each position, repeated.
Results repeat_interleave(const ExternCall& call) {
  const Tensor& repeats = call.tensor(0);
  const int64_t numel = repeats.numel();
  int64_t size = 0;
  for (int64_t i = 0; i < numel; ++i)
    if (repeats.int_at(i) < 0 || __builtin_add_overflow(size, repeats.int_at(i), &size))
      return error(Status::violated, 638,
                   "an element cannot be repeated " + std::to_string(repeats.int_at(i)) + " times");
  if (call.has(1) && call.integer(1) != size)
    return error(
        Status::violated, 638,
        "the repeats make " + std::to_string(size) + " elements, not output_size=" + std::to_string(call.integer(1)));
  Tensor result = Tensor::empty(repeats.dtype, {size});
  for (int64_t i = 0, to = 0; i < numel; ++i)
    for (const int64_t end = to + repeats.int_at(i); to < end; ++to) result.set_int(to, i);
  return std::vector<Datum>{result};
}

// (self, message)
Results assert_holds(const ExternCall& call) {
  const Tensor& self = call.tensor(0);
  if (self.numel() == 1 && self.float_at(0) != 0) return std::vector<Datum>{};
  return error(Status::violated, 636, "an assertion of the model does not hold: " + call.text(1));
}

}  // namespace

ExternKernel find_extern_kernel(const std::string& name) {
  static constexpr std::pair<const char*, ExternKernel> kernels[] = {{"allclose", allclose},
                                                                     {"assert", assert_holds},
                                                                     {"bernoulli", bernoulli},
                                                                     {"bincount", bincount},
                                                                     {"equal", equal},
                                                                     {"ctc_loss", ctc_loss},
                                                                     {"exponential", exponential},
                                                                     {"fourier", fourier},
                                                                     {"gru", gru},
                                                                     {"item", item},
                                                                     {"lstm", lstm},
                                                                     {"nonzero", nonzero},
                                                                     {"normal", normal},
                                                                     {"real_fourier", real_fourier},
                                                                     {"randint", randint},
                                                                     {"random", random_all},
                                                                     {"randperm", randperm},
                                                                     {"repeat_interleave", repeat_interleave},
                                                                     {"reinterpret", reinterpret},
                                                                     {"rnn_relu", rnn_relu},
                                                                     {"rnn_tanh", rnn_tanh},
                                                                     {"sort", sort},
                                                                     {"sort_first", sort_first},
                                                                     {"topk", topk},
                                                                     {"cholesky", cholesky},
                                                                     {"lu", lu},
                                                                     {"lu_order", lu_order},
                                                                     {"solve_triangular", solve_triangular},
                                                                     {"qr", qr},
                                                                     {"matrix_exp", matrix_exp},
                                                                     {"geqrf", geqrf},
                                                                     {"householder_product", householder_product},
                                                                     {"eigh", eigh},
                                                                     {"eig", eig},
                                                                     {"svd", svd},
                                                                     {"uniform", uniform},
                                                                     {"unique", unique},
                                                                     {"unique_rows", unique_rows}};
  for (const auto& [known, kernel] : kernels)
    if (name == known) return kernel;
  return nullptr;
}

}  // namespace atenon::reference
