// Meanings put together by hand: what the blocks of opsets/ lead to is tested by their examples (examples_test.cpp).
#include "reference/loop_runner.h"

#include <doctest/doctest.h>

using namespace atenon;
using namespace atenon::opset;
using reference::run_loops;

namespace {

Tensor numbers(std::vector<int64_t> sizes, ScalarType dtype = ScalarType::f32) {  // 0, 1, 2, ...
  Tensor tensor = Tensor::empty(dtype, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> list;
  for (int64_t i = 0; i < tensor.numel(); ++i) list.push_back(tensor.float_at(i));
  return list;
}

// Builds a Meaning step by step; values of tensors are not read, so they stay null.
struct Builder {
  Meaning meaning;

  ScalarId add(Scalar scalar) {
    meaning.scalars.push_back(std::move(scalar));
    return static_cast<ScalarId>(meaning.scalars.size()) - 1;
  }
  int variable() { return meaning.variable_count++; }
  ScalarId index(int variable) { return add({.op = ScalarOp::index, .dtype = ScalarType::i64, .variable = variable}); }
  ScalarId integer(int64_t value) {
    return add({.op = ScalarOp::constant, .dtype = ScalarType::i64, .integer = value});
  }
  ScalarId number(double value) { return add({.op = ScalarOp::constant, .dtype = ScalarType::f32, .number = value}); }
  ScalarId read(int tensor, std::vector<ScalarId> at, ScalarType dtype = ScalarType::f32) {
    return add({.op = ScalarOp::read, .dtype = dtype, .operands = std::move(at), .tensor = tensor});
  }
  ScalarId apply(ScalarOp op, ScalarType dtype, std::vector<ScalarId> operands) {
    return add({.op = op, .dtype = dtype, .operands = std::move(operands)});
  }
  Monoid sum() {
    const ScalarId zero = number(0), left = number(0), right = number(0);
    return {"sum", {zero}, {left}, {right}, {apply(ScalarOp::add, ScalarType::f32, {left, right})}};
  }
  ScalarId reduce(Reduction reduction) {
    meaning.reductions.push_back(std::move(reduction));
    return add({.op = ScalarOp::reduce, .reduction = static_cast<int>(meaning.reductions.size()) - 1});
  }
  void result(std::vector<ir::SymInt> sizes, std::vector<int> variables, ScalarId value,
              ScalarType dtype = ScalarType::f32) {
    meaning.results.push_back({{dtype, std::move(sizes)}, std::move(variables), value});
  }
};

}  // namespace

TEST_CASE("a broadcast sum of a column and a row") {
  Builder b;
  const int i = b.variable(), j = b.variable();
  const ScalarId column = b.read(0, {b.index(i), b.integer(0)}), row = b.read(1, {b.index(j)});
  b.result({3, 200}, {i, j}, b.apply(ScalarOp::add, ScalarType::f32, {column, row}));
  const auto results = run_loops(b.meaning, {numbers({3, 1}), numbers({200})}, {});
  REQUIRE(results);
  CHECK((*results)[0].float_at(2 * 200 + 7) == 9);
  CHECK((*results)[0].float_at(599) == 201);
}

TEST_CASE("a sum is the same whichever way its lanes run") {
  // Rows of 1000 numbers: two rows are few results, so lanes run over the sum; 300 rows are many.
  for (const int64_t rows : {2, 300}) {
    Builder b;
    const int i = b.variable(), k = b.variable();
    Tensor x = Tensor::empty(ScalarType::f32, {rows, 1000});
    for (int64_t n = 0; n < x.numel(); ++n) x.set(n, 1.0 / (1 + n % 1000));
    const ScalarId element = b.read(0, {b.index(i), b.index(k)});
    const ScalarId total =
        b.reduce({.monoid = b.sum(), .variables = {k}, .extents = {b.integer(1000)}, .element = {element}});
    b.result({rows}, {i}, total);
    const auto results = run_loops(b.meaning, {x}, {});
    REQUIRE(results);
    double expected = 0;
    for (int n = 0; n < 1000; ++n) expected += static_cast<float>(1.0 / (1 + n));
    CHECK((*results)[0].float_at(1) == static_cast<float>(expected));
  }
}

TEST_CASE("a guard drops what lies outside, without it a read outside is an error") {
  // A window of three over five numbers, padded by one: sum over k of x[i + k - 1].
  for (const bool guarded : {true, false}) {
    Builder b;
    const int i = b.variable(), k = b.variable();
    const ScalarId at = b.apply(ScalarOp::sub, ScalarType::i64,
                                {b.apply(ScalarOp::add, ScalarType::i64, {b.index(i), b.index(k)}), b.integer(1)});
    const ScalarId from = b.apply(ScalarOp::le, ScalarType::boolean, {b.integer(0), at});
    const ScalarId to = b.apply(ScalarOp::lt, ScalarType::boolean, {at, b.integer(5)});
    Reduction window{.monoid = b.sum(), .variables = {k}, .extents = {b.integer(3)}, .element = {b.read(0, {at})}};
    if (guarded) window.guard = b.apply(ScalarOp::logical_and, ScalarType::boolean, {from, to});
    b.result({5}, {i}, b.reduce(window));
    auto results = run_loops(b.meaning, {numbers({5})}, {});
    if (guarded) {
      REQUIRE(results);
      CHECK(elements((*results)[0]) == std::vector<double>{1, 3, 6, 9, 7});
    } else {
      REQUIRE_FALSE(results);
      CHECK(results.failure().code == 611);
      CHECK(results.failure().message == "index -1 is out of range for axis 0 of size 5");
    }
  }
}

TEST_CASE("a prefix keeps every partial result") {
  Builder b;
  const int i = b.variable(), j = b.variable(), k = b.variable();
  const ScalarId element = b.read(0, {b.index(i), b.index(k)});
  const ScalarId total = b.reduce({.monoid = b.sum(),
                                   .variables = {k},
                                   .extents = {b.integer(4)},
                                   .element = {element},
                                   .prefix = true,
                                   .prefix_axis = 1});
  b.result({2, 4}, {i, j}, total);
  const auto results = run_loops(b.meaning, {numbers({2, 4})}, {});
  REQUIRE(results);
  CHECK(elements((*results)[0]) == std::vector<double>{0, 1, 3, 6, 4, 9, 15, 22});
}

TEST_CASE("an index read from data, and a select that does not ask for it") {
  Builder b;
  const int i = b.variable();
  const ScalarId at = b.read(1, {b.index(i)}, ScalarType::i64);
  const ScalarId inside = b.apply(ScalarOp::lt, ScalarType::boolean, {at, b.integer(3)});
  b.result({3}, {i}, b.apply(ScalarOp::select, ScalarType::f32, {inside, b.read(0, {at}), b.number(-1)}));
  Tensor indices = numbers({3}, ScalarType::i64);
  indices.set_int(0, 2);
  indices.set_int(2, 7);
  const auto results = run_loops(b.meaning, {numbers({3}), indices}, {});
  REQUIRE(results);
  CHECK(elements((*results)[0]) == std::vector<double>{2, 1, -1});
}

TEST_CASE("a scatter of rows longer than a block keeps to its rows") {
  Builder b;
  const int i = b.variable(), k = b.variable();
  const ScalarId row = b.read(1, {b.index(i)}, ScalarType::i64);  // does not change along a row
  Scatter scatter{.base = 0, .variables = {i, k}, .extents = {b.integer(3), b.integer(700)}};
  scatter.at = {row};
  scatter.value = b.read(2, {b.index(i), b.index(k)});
  scatter.join = b.sum();
  b.meaning.scatter = scatter;
  b.result({3}, {i}, scatter.value);
  const Tensor zeros = Tensor::zeros(ScalarType::f32, {3}), rows = numbers({3}, ScalarType::i64);
  Tensor values = Tensor::empty(ScalarType::f32, {3, 700});
  for (int64_t n = 0; n < values.numel(); ++n) values.set(n, static_cast<double>(1 + n / 700));
  const auto results = run_loops(b.meaning, {zeros, rows, values}, {});
  REQUIRE(results);
  CHECK(elements((*results)[0]) == std::vector<double>{700, 1400, 2100});
}

TEST_CASE("a view by ravel and unravel is a window on the storage where strides can say it") {
  // [2, 6] seen as [2, 2, 3]: element (i, j, k) is number 6i + 3j + k.
  Builder b;
  const int i = b.variable(), j = b.variable(), k = b.variable();
  const auto times = [&](ScalarId x, int64_t n) { return b.apply(ScalarOp::mul, ScalarType::i64, {x, b.integer(n)}); };
  const auto plus = [&](ScalarId x, ScalarId y) { return b.apply(ScalarOp::add, ScalarType::i64, {x, y}); };
  const ScalarId position = plus(plus(times(b.index(i), 6), times(b.index(j), 3)), b.index(k));
  const ScalarId row = b.apply(ScalarOp::floor_div, ScalarType::i64, {position, b.integer(6)});
  const ScalarId column = b.apply(ScalarOp::mod, ScalarType::i64, {position, b.integer(6)});
  b.result({2, 2, 3}, {i, j, k}, b.read(0, {row, column}));
  b.meaning.is_view = true;
  const Tensor rows = numbers({2, 6});
  const auto window = reference::alias(b.meaning, rows, {});
  REQUIRE(window);
  CHECK(window->storage == rows.storage);
  CHECK(window->strides == std::vector<int64_t>{6, 3, 1});
  // Of a transposed tensor too: an axis splits whatever its stride.
  Tensor transposed = numbers({6, 2});
  transposed.sizes = {2, 6};
  transposed.strides = {1, 2};
  const auto split = reference::alias(b.meaning, transposed, {});
  REQUIRE(split);
  CHECK(split->strides == std::vector<int64_t>{1, 6, 2});
}

TEST_CASE("a sum of products adds up in one order, whatever the block, the strides and the guard") {
  // A transposed convolution in three groups, stride 2: its places are quotients, its guard leaves out every other one.
  for (const ScalarType dtype : {ScalarType::f32, ScalarType::f16}) {
    for (const auto& [features, length] : {std::pair<int64_t, int64_t>{12, 150}, {1, 1}}) {
      const int64_t channels = 3, taps = 5, in_length = 73;
      Builder b;
      const int o = b.variable(), i = b.variable(), c = b.variable(), j = b.variable();
      const auto of = [&](ScalarOp op, ScalarId x, ScalarId y) { return b.apply(op, ScalarType::i64, {x, y}); };
      const auto test = [&](ScalarOp op, ScalarId x, ScalarId y) { return b.apply(op, ScalarType::boolean, {x, y}); };
      const ScalarId group = of(ScalarOp::floor_div, b.index(o), b.integer(4));
      const ScalarId channel = of(ScalarOp::add, of(ScalarOp::mul, group, b.integer(channels)), b.index(c));
      const ScalarId place = of(ScalarOp::sub, of(ScalarOp::add, b.index(i), b.integer(2)), b.index(j));
      const ScalarId at = of(ScalarOp::floor_div, place, b.integer(2));
      const ScalarId is_even = test(ScalarOp::eq, of(ScalarOp::mod, place, b.integer(2)), b.integer(0));
      const ScalarId is_inside = test(ScalarOp::logical_and, test(ScalarOp::le, b.integer(0), at),
                                      test(ScalarOp::lt, at, b.integer(in_length)));
      const auto wide = [&](ScalarId x) {
        return dtype == ScalarType::f32 ? x : b.apply(ScalarOp::cast, ScalarType::f32, {x});
      };
      const ScalarId product = b.apply(
          ScalarOp::mul, ScalarType::f32,
          {wide(b.read(0, {channel, at}, dtype)), wide(b.read(1, {b.index(o), b.index(c), b.index(j)}, dtype))});
      b.result({features, length}, {o, i},
               b.reduce({.monoid = b.sum(),
                         .variables = {c, j},
                         .extents = {b.integer(channels), b.integer(taps)},
                         .element = {product},
                         .guard = test(ScalarOp::logical_and, is_inside, is_even)}));
      Tensor x = Tensor::empty(dtype, {9, in_length}), w = Tensor::empty(dtype, {features, channels, taps});
      for (int64_t n = 0; n < x.numel(); ++n) x.set(n, 1.0 / (3 + n));
      for (int64_t n = 0; n < w.numel(); ++n) w.set(n, (n % 2 == 0 ? 1.0 : -1.0) / (7 + n));
      const auto results = run_loops(b.meaning, {x, w}, {});
      REQUIRE(results);
      for (int64_t f = 0; f < features; ++f)
        for (int64_t l = 0; l < length; ++l) {
          double sum = 0;  // the guard's variable goes outside
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t y = l + 2 - t;
            if (y < 0 || y % 2 != 0 || y / 2 >= in_length) continue;
            for (int64_t n = 0; n < channels; ++n)
              sum += x.float_at((f / 4 * channels + n) * in_length + y / 2) * w.float_at((f * channels + n) * taps + t);
          }
          REQUIRE((*results)[0].float_at(f * length + l) == static_cast<float>(sum));
        }
    }
  }
}
