// Generated code against plain C++, from meanings written by hand.
#include <cmath>
#include <limits>
#include <random>

#include "lower/inline_functions.h"
#include "lower/run_kernel.h"

namespace atenon::lower {
namespace {

using ir::SymInt;
using opset::Meaning;
using opset::ScalarId;

// Writes a meaning as one writes code.
struct Writer {
  Meaning meaning;
  int variables = 0;

  ScalarId add(opset::Scalar scalar) {
    meaning.scalars.push_back(std::move(scalar));
    return static_cast<ScalarId>(meaning.scalars.size() - 1);
  }
  ScalarId variable(int number) {
    meaning.variable_count = std::max(meaning.variable_count, number + 1);
    return add({.op = ScalarOp::index, .dtype = ScalarType::i64, .variable = number});
  }
  ScalarId size(SymInt value) { return add({.op = ScalarOp::size, .dtype = ScalarType::i64, .size = value}); }
  ScalarId number(double value) { return add({.op = ScalarOp::constant, .dtype = ScalarType::f32, .number = value}); }
  ScalarId read(ir::Value* tensor, std::vector<ScalarId> index) {
    auto found = std::find(meaning.tensors.begin(), meaning.tensors.end(), tensor);
    if (found == meaning.tensors.end()) found = meaning.tensors.insert(found, tensor);
    return add({.op = ScalarOp::read,
                .dtype = tensor->meta().dtype,
                .operands = std::move(index),
                .tensor = static_cast<int>(found - meaning.tensors.begin())});
  }
  ScalarId apply(ScalarOp op, std::vector<ScalarId> operands, ScalarType type = ScalarType::f32) {
    return add({.op = op, .dtype = type, .operands = std::move(operands)});
  }
  ScalarId reduce(const std::string& name, double identity, ScalarOp join, int variable, SymInt extent,
                  ScalarId element) {
    opset::Reduction reduction;
    reduction.monoid.name = name;
    reduction.monoid.identity = {number(identity)};
    reduction.monoid.left = {number(0)};
    reduction.monoid.right = {number(0)};
    reduction.monoid.joined = {apply(join, {reduction.monoid.left[0], reduction.monoid.right[0]})};
    reduction.variables = {variable};
    reduction.extents = {size(extent)};
    reduction.element = {element};
    meaning.reductions.push_back(reduction);
    return add({.op = ScalarOp::reduce,
                .dtype = ScalarType::f32,
                .reduction = static_cast<int>(meaning.reductions.size()) - 1});
  }
  void result(ir::TensorMeta type, ScalarId value) {
    opset::LoopNest nest{.type = type, .value = value};
    for (int i = 0; i < type.rank(); ++i) nest.variables.push_back(i);
    meaning.results.push_back(nest);
  }
};

struct Program {
  ir::Graph graph;
  std::map<const ir::Node*, Meaning> meanings;
  shape::Facts facts;

  ir::Value* node(const std::string& name, std::vector<ir::Argument> operands, ir::TensorMeta type,
                  const std::function<ScalarId(Writer&)>& write) {
    ir::Node* added = graph.add("test::" + name, std::move(operands), {}, {{name, type}});
    Writer writer;
    const ScalarId value = write(writer);
    writer.result(type, value);
    meanings[added] = std::move(writer.meaning);
    return added->result();
  }

  // Composes, compiles, runs all rows in several pieces.
  void run(std::vector<void*> buffers, const shape::Bindings& symbols) {
    Result<Loops> loops = compose(
        graph, [&](const ir::Node& node) { return &meanings.at(&node); },
        [](const ir::Value& value) { return row_major(value.meta().sizes); }, facts, symbols);
    REQUIRE_MESSAGE(bool(loops), (loops ? "" : loops.failure().message));
    testing::run_kernel(*loops, buffers, symbols);
  }
};

std::vector<float> random_numbers(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(generator);
  return numbers;
}

TEST_CASE("a copy that turns goes block by block, whatever the sizes") {
  const SymInt n = SymInt::symbol("n");
  for (const auto& [length, hint, sizes] : {std::tuple<SymInt, int64_t, std::vector<int64_t>>{200, 200, {200}},
                                            {256, 256, {256}},
                                            {n, 300, {1, 63, 64, 65, 130, 300}}}) {
    Program program;
    program.facts.declare("n", {1, 512});
    ir::Value* x = program.graph.add_input("x", ir::TensorMeta{ScalarType::f32, {length, 24}});
    ir::Value* y = program.node("turn", {x}, ir::TensorMeta{ScalarType::f32, {24, length}}, [&](Writer& w) {
      return w.apply(ScalarOp::mul, {w.read(x, {w.variable(1), w.variable(0)}), w.number(2)});
    });
    program.graph.set_outputs({y});
    for (int64_t size : sizes) {
      std::vector<float> input = random_numbers(static_cast<size_t>(size * 24), 3), output(input.size(), -1);
      Result<Loops> loops = compose(
          program.graph, [&](const ir::Node& node) { return &program.meanings.at(&node); },
          [](const ir::Value& value) { return row_major(value.meta().sizes); }, program.facts, {{"n", hint}});
      REQUIRE(bool(loops));
      CHECK(loops->domain.size() == 3);
      testing::run_kernel(*loops, {input.data(), output.data()}, {{"n", size}});
      for (int64_t c = 0; c < 24; ++c)
        for (int64_t i = 0; i < size; ++i) REQUIRE(output[c * size + i] == 2 * input[i * 24 + c]);
    }
  }
}

TEST_CASE("softmax of scaled and masked scores is one kernel, sizes symbolic") {
  const SymInt s = SymInt::symbol("s"), b = SymInt::symbol("b");
  Program program;
  program.facts.declare("s", {1, 512});
  program.facts.declare("b", {1, 64});
  const ir::TensorMeta scores{ScalarType::f32, {b, 2, s, s}}, row{ScalarType::f32, {b, 2, s, 1}};
  ir::Value* x = program.graph.add_input("x", scores);
  ir::Value* mask = program.graph.add_input("mask", ir::TensorMeta{ScalarType::f32, {b, 1, 1, s}});
  auto at = [](Writer& w) { return std::vector<ScalarId>{w.variable(0), w.variable(1), w.variable(2), w.variable(3)}; };
  auto at_row = [](Writer& w) { return std::vector<ScalarId>{w.variable(0), w.variable(1), w.variable(2), w.size(0)}; };
  ir::Value* biased = program.node("bias", {x, mask}, scores, [&](Writer& w) {
    ScalarId scaled = w.apply(ScalarOp::mul, {w.read(x, at(w)), w.number(0.125)});
    return w.apply(ScalarOp::add, {scaled, w.read(mask, {w.variable(0), w.size(0), w.size(0), w.variable(3)})});
  });
  ir::Value* top = program.node("max", {biased}, row, [&](Writer& w) {
    ScalarId element = w.read(biased, {w.variable(0), w.variable(1), w.variable(2), w.variable(4)});
    return w.reduce("max", -INFINITY, ScalarOp::maximum, 4, s, element);
  });
  ir::Value* e = program.node("exp", {biased, top}, scores, [&](Writer& w) {
    return w.apply(ScalarOp::exp, {w.apply(ScalarOp::sub, {w.read(biased, at(w)), w.read(top, at_row(w))})});
  });
  ir::Value* total = program.node("sum", {e}, row, [&](Writer& w) {
    ScalarId element = w.read(e, {w.variable(0), w.variable(1), w.variable(2), w.variable(4)});
    return w.reduce("sum", 0, ScalarOp::add, 4, s, element);
  });
  ir::Value* softmax = program.node("div", {e, total}, scores, [&](Writer& w) {
    return w.apply(ScalarOp::div, {w.read(e, at(w)), w.read(total, at_row(w))});
  });
  program.graph.set_outputs({softmax});

  for (auto [nb, ns] : {std::pair<int64_t, int64_t>{1, 1}, {2, 5}, {1, 128}, {3, 37}}) {
    std::vector<float> input = random_numbers(nb * 2 * ns * ns, 1), bias = random_numbers(nb * ns, 2),
                       output(input.size(), -1);
    program.run({input.data(), bias.data(), output.data()}, {{"b", nb}, {"s", ns}});
    double worst = 0;
    for (int64_t r = 0; r < nb * 2 * ns; ++r) {
      double sum = 0;
      auto term = [&](int64_t i) { return std::exp(double(input[r * ns + i] * 0.125f + bias[r / (2 * ns) * ns + i])); };
      for (int64_t i = 0; i < ns; ++i) sum += term(i);
      for (int64_t i = 0; i < ns; ++i)
        worst = std::max(worst, std::abs(output[r * ns + i] - term(i) / sum) / (term(i) / sum));
    }
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("a transposing copy and a padded read") {
  Program program;
  const ir::TensorMeta in{ScalarType::f32, {4, 6}}, out{ScalarType::f32, {9, 4}};
  ir::Value* x = program.graph.add_input("x", in);
  ir::Value* y = program.node("pad", {x}, out, [&](Writer& w) {
    ScalarId column = w.apply(ScalarOp::sub, {w.variable(0), w.size(1)}, ScalarType::i64);
    ScalarId inside = w.apply(ScalarOp::logical_and,
                              {w.apply(ScalarOp::le, {w.size(0), column}, ScalarType::boolean),
                               w.apply(ScalarOp::lt, {column, w.size(6)}, ScalarType::boolean)},
                              ScalarType::boolean);
    return w.apply(ScalarOp::select, {inside, w.read(x, {w.variable(1), column}), w.number(9)});
  });
  program.graph.set_outputs({y});
  std::vector<float> input = random_numbers(24, 3), output(36);
  program.run({input.data(), output.data()}, {});
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 4; ++j) CHECK(output[i * 4 + j] == (i >= 1 && i < 7 ? input[j * 6 + i - 1] : 9.0f));
}

// The distance in units of the last place.
template <class Float>
double ulps(Float x, long double exact) {
  if (std::isnan(exact) || std::isnan(x)) return std::isnan(exact) && std::isnan(x) ? 0 : INFINITY;
  const Float rounded = static_cast<Float>(exact);
  if (std::isinf(rounded) || std::isinf(x)) return rounded == x ? 0 : INFINITY;
  int exponent;
  std::frexp(rounded, &exponent);
  using Limits = std::numeric_limits<Float>;
  const int last = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::fabs(x - exact) / std::ldexp(1.0L, last));
}

struct Function {
  ScalarOp op;
  long double (*exact)(long double);
  double low, high;  // where it is tested, besides special values
};
const Function functions[] = {
    {ScalarOp::exp, std::exp, -104, 89},
    {ScalarOp::exp2, std::exp2, -149, 128},
    {ScalarOp::expm1, std::expm1, -20, 80},
    {ScalarOp::log, std::log, 0, 1e30},
    {ScalarOp::log2, std::log2, 0, 100},
    {ScalarOp::log10, std::log10, 0, 100},
    {ScalarOp::log1p, std::log1p, -1, 10},
    {ScalarOp::sqrt, std::sqrt, 0, 1e30},
    {ScalarOp::rsqrt, [](long double x) { return 1 / std::sqrt(x); }, 1e-30, 1e30},
    {ScalarOp::sin, std::sin, -100, 100},
    {ScalarOp::cos, std::cos, -100, 100},
    {ScalarOp::tan, std::tan, -10, 10},
    {ScalarOp::asin, std::asin, -1, 1},
    {ScalarOp::acos, std::acos, -1, 1},
    {ScalarOp::atan, std::atan, -20, 20},
    {ScalarOp::sinh, std::sinh, -80, 80},
    {ScalarOp::cosh, std::cosh, -80, 80},
    {ScalarOp::tanh, std::tanh, -12, 12},
    {ScalarOp::asinh, std::asinh, -90, 90},
    {ScalarOp::acosh, std::acosh, 1, 100},
    {ScalarOp::atanh, std::atanh, -1, 1},
    {ScalarOp::erf, std::erf, -5, 5},
    {ScalarOp::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, -80, 80},
};

// Runs an operation on vectors of its operands.
template <class Float>
std::vector<Float> generated(ScalarOp op, std::vector<std::vector<Float>> inputs) {
  std::vector<Float> output(inputs[0].size());
  const ScalarType type = sizeof(Float) == 4 ? ScalarType::f32 : ScalarType::f64;
  Program program;
  const ir::TensorMeta meta{type, {static_cast<int64_t>(output.size())}};
  std::vector<ir::Argument> operands;
  std::vector<void*> buffers;
  for (std::vector<Float>& input : inputs) {
    operands.emplace_back(program.graph.add_input("x" + std::to_string(operands.size()), meta));
    buffers.push_back(input.data());
  }
  buffers.push_back(output.data());
  ir::Value* y = program.node("f", operands, meta, [&](Writer& w) {
    std::vector<ScalarId> reads;
    for (const ir::Argument& operand : operands) reads.push_back(w.read(operand.value(), {w.variable(0)}));
    return w.apply(op, reads, type);
  });
  program.graph.set_outputs({y});
  program.run(buffers, {});
  return output;
}

template <class Float>
void check_functions() {
  for (const Function& function : functions) {
    if (!has_function(function.op, sizeof(Float) == 4 ? ScalarType::f32 : ScalarType::f64)) continue;
    std::vector<Float> input = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e-40f, 1e-6f, -1e-6f};
    for (int i = 0; i <= 20000; ++i)
      input.push_back(static_cast<Float>(function.low + (function.high - function.low) * i / 20000));
    const std::vector<Float> output = generated<Float>(function.op, {input});
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < input.size(); ++i) {
      const double distance = ulps(output[i], function.exact(input[i]));
      if (distance > worst) worst = distance, where = i;
    }
    CHECK_MESSAGE(worst <= (function.op == ScalarOp::sqrt ? 0.5 : 4), "function ",
                  std::string(opset::name_of(function.op)), " is ", worst, " units off at ", input[where], ": ",
                  output[where]);
  }
}

TEST_CASE("functions of f32 and f64 are within 4 units in the last place") {
  check_functions<float>();
  check_functions<double>();
}

template <class Float>
void check_arithmetic() {
  struct Operation {
    ScalarOp op;
    long double (*exact)(long double, long double);
    double allowed;
  };
  const Operation operations[] = {
      {ScalarOp::add, [](long double a, long double b) { return a + b; }, 0.5001},
      {ScalarOp::sub, [](long double a, long double b) { return a - b; }, 0.5001},
      {ScalarOp::mul, [](long double a, long double b) { return a * b; }, 0.5001},
      {ScalarOp::div, [](long double a, long double b) { return a / b; }, 0.5001},
      {ScalarOp::pow, [](long double a, long double b) { return std::pow(std::fabs(a), b); }, 4},
  };
  std::vector<Float> x, y;
  for (const float number : random_numbers(20000, 1)) x.push_back(static_cast<Float>(number) * 7);
  for (const float number : random_numbers(20000, 2)) y.push_back(static_cast<Float>(number) * 7);
  for (const Operation& operation : operations) {
    std::vector<Float> base = x;
    if (operation.op == ScalarOp::pow) {
      for (Float& number : base) number = std::fabs(number);
    }
    const std::vector<Float> output = generated<Float>(operation.op, {base, y});
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(output[i], operation.exact(base[i], y[i])));
    CHECK_MESSAGE(worst <= operation.allowed, std::string(opset::name_of(operation.op)), " is ", worst, " units off");
  }
}

TEST_CASE("arithmetic is rounded once, powers are within 4 units in the last place") {
  check_arithmetic<float>();
  check_arithmetic<double>();
}

}  // namespace
}  // namespace atenon::lower
