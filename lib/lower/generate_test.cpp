// Generated code against plain C++, from meanings written by hand.
#include <cmath>
#include <random>

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

TEST_CASE("a copy that turns has as many rows as its outer loops leave it, also where its blocks leave a rest") {
  for (const int64_t length : {64, 100, 197}) {
    Program program;
    ir::Value* x = program.graph.add_input("x", ir::TensorMeta{ScalarType::f32, {5, length, 3, 8}});
    ir::Value* y = program.node("turn", {x}, ir::TensorMeta{ScalarType::f32, {3, 5, 8, length}}, [&](Writer& w) {
      return w.read(x, {w.variable(1), w.variable(3), w.variable(0), w.variable(2)});
    });
    program.graph.set_outputs({y});
    std::vector<float> input = random_numbers(static_cast<size_t>(120 * length), 3), output(input.size(), -1);
    program.run({input.data(), output.data()}, {});
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 5; ++j)
        for (int64_t c = 0; c < 8; ++c)
          for (int64_t k = 0; k < length; ++k)
            REQUIRE(output[((i * 5 + j) * 8 + c) * length + k] == input[((j * length + k) * 3 + i) * 8 + c]);
  }
}

TEST_CASE("a long loop over short lines is cut, so that rows stay many where the loops outside it have one turn") {
  const SymInt b = SymInt::symbol("b"), n = SymInt::symbol("n");
  for (const SymInt& length : {SymInt(3000), SymInt(4099), n}) {
    Program program;
    program.facts.declare("b", {1, 64});
    program.facts.declare("n", {1, 8192});
    ir::Value* x = program.graph.add_input("x", ir::TensorMeta{ScalarType::f32, {b, length, 8}});
    ir::Value* y = program.node("slice", {x}, ir::TensorMeta{ScalarType::f32, {b, length, 6}}, [&](Writer& w) {
      return w.apply(ScalarOp::mul, {w.read(x, {w.variable(0), w.variable(1), w.variable(2)}), w.number(2)});
    });
    program.graph.set_outputs({y});
    Result<Loops> loops = compose(
        program.graph, [&](const ir::Node& node) { return &program.meanings.at(&node); },
        [](const ir::Value& value) { return row_major(value.meta().sizes); }, program.facts, {{"b", 8}, {"n", 2}});
    REQUIRE(bool(loops));
    for (auto [nb, nn] : {std::pair<int64_t, int64_t>{1, 1}, {3, 171}, {1, 5000}}) {
      if (length.constant()) nn = *length.constant();
      const shape::Bindings sizes = {{"b", nb}, {"n", nn}};
      CHECK(*shape::evaluate(loops->row_count(), sizes) >= nb * nn * 6 / 2048);
      std::vector<float> input = random_numbers(nb * nn * 8, 3), output(nb * nn * 6, -1);
      testing::run_kernel(*loops, {input.data(), output.data()}, sizes);
      for (int64_t i = 0; i < nb * nn; ++i)
        for (int64_t c = 0; c < 6; ++c) REQUIRE(output[i * 6 + c] == 2 * input[i * 8 + c]);
    }
  }
}

TEST_CASE("lanes of a reduction that meet crowded lines of memory share them with the next rows; two are lanes, too") {
  // Of y so many numbers are read of each line.
  for (const auto& [length, line, width, is_turned] :
       {std::tuple{512, 512, 150, true}, {100, 1024, 150, true}, {100, 100, 150, false}, {100, 100, 2, false}}) {
    Program program;
    const ir::TensorMeta type{ScalarType::f32, {length, 6, width}};
    ir::Value* x = program.graph.add_input("x", type);
    ir::Value* y = program.graph.add_input("y", ir::TensorMeta{ScalarType::f32, {width, line}});
    ir::Value* all = program.node("sum", {x}, ir::TensorMeta{ScalarType::f32, {length, width}}, [&](Writer& w) {
      return w.reduce("sum", 0, ScalarOp::add, 2, 6, w.read(x, {w.variable(0), w.variable(2), w.variable(1)}));
    });
    ir::Value* z = program.node("rest", {x, all, y}, type, [&](Writer& w) {
      const ScalarId own = w.read(x, {w.variable(0), w.variable(1), w.variable(2)}),
                     sum = w.read(all, {w.variable(0), w.variable(2)});
      return w.apply(ScalarOp::mul, {w.apply(ScalarOp::sub, {own, sum}), w.read(y, {w.variable(2), w.variable(0)})});
    });
    program.graph.set_outputs({z});
    Result<Loops> loops = compose(
        program.graph, [&](const ir::Node& node) { return &program.meanings.at(&node); },
        [](const ir::Value& value) { return row_major(value.meta().sizes); }, program.facts, {});
    REQUIRE(bool(loops));
    REQUIRE(loops->lane >= 0);
    if (width > 2) CHECK((loops->loops[loops->domain[2]].most == SymInt(16)) == is_turned);
    std::vector<float> input = random_numbers(static_cast<size_t>(6 * width * length), 3),
                       turned = random_numbers(static_cast<size_t>(width * line), 4), output(input.size(), -1);
    testing::run_kernel(*loops, {input.data(), turned.data(), output.data()}, {});
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j < 6 * width; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 6; ++k) sum += input[(i * 6 + k) * width + j % width];
        const double exact = (input[i * 6 * width + j] - sum) * turned[j % width * line + i];
        REQUIRE(std::abs(output[i * 6 * width + j] - exact) <= 1e-5);
      }
  }
}

TEST_CASE("of two results, loops follow the one that lies as what is read") {
  Program program;
  const ir::TensorMeta turned{ScalarType::f32, {24, 40}};
  ir::Value* x = program.graph.add_input("x", ir::TensorMeta{ScalarType::f32, {40, 24}});
  ir::Value* y = program.node("turn", {x}, turned, [&](Writer& w) {
    return w.apply(ScalarOp::mul, {w.read(x, {w.variable(1), w.variable(0)}), w.number(2)});
  });
  ir::Value* z = program.node("triple", {y}, turned, [&](Writer& w) {
    return w.apply(ScalarOp::mul, {w.read(y, {w.variable(0), w.variable(1)}), w.number(3)});
  });
  program.graph.set_outputs({y, z});
  Result<Loops> loops = compose(
      program.graph, [&](const ir::Node& node) { return &program.meanings.at(&node); },
      [&](const ir::Value& value) { return &value == z ? Layout{{1, 24}, 0} : row_major(value.meta().sizes); },
      program.facts, {});
  REQUIRE(bool(loops));
  CHECK(loops->loops[loops->domain.back()].extent == SymInt(24));
  std::vector<float> input = random_numbers(960, 3), first(960, -1), second(960, -1);
  testing::run_kernel(*loops, {input.data(), first.data(), second.data()}, {});
  for (int64_t c = 0; c < 24; ++c)
    for (int64_t i = 0; i < 40; ++i) {
      REQUIRE(first[c * 40 + i] == 2 * input[i * 24 + c]);
      REQUIRE(second[i * 24 + c] == 6 * input[i * 24 + c]);
    }
}

TEST_CASE("a packed weight is read where pack() puts its elements") {
  const std::vector<int64_t> sizes = {7, 21, 3};
  for (const ir::BlockedLayout& layout :
       {ir::BlockedLayout{{63, 3, 1}, {}, 441}, ir::BlockedLayout{{8, 56, 168}, {{1, 8}}, 504},
        ir::BlockedLayout{{144, 48, 16}, {{1, 4}, {0, 2}, {1, 2}}, 576}})
    for (ScalarType stored : {ScalarType::f32, ScalarType::bf16}) {
      Tensor numbers = Tensor::empty(ScalarType::f32, sizes);
      std::ranges::copy(random_numbers(441, 5), numbers.mutable_as<float>());
      const Tensor rows = cast(numbers, stored);
      ir::Weight weight{"w", rows, layout};
      weight.layout->padded_bytes *= static_cast<int64_t>(size_of(stored));
      weight.tensor.storage = kernels::pack(rows, *weight.layout).storage;
      Program program;
      const ir::TensorMeta type{weight.dtype(), {7, 21, 3}};
      ir::Value* x = program.graph.add_input("x", type);
      ir::Value* y = program.node("copy", {x}, type,
                                  [&](Writer& w) { return w.read(x, {w.variable(0), w.variable(1), w.variable(2)}); });
      program.graph.set_outputs({y});
      Result<Loops> loops = compose(
          program.graph, [&](const ir::Node& node) { return &program.meanings.at(&node); },
          [&](const ir::Value& value) { return &value == x ? packed_layout(weight) : row_major(type.sizes); },
          program.facts, {});
      REQUIRE(bool(loops));
      Tensor result = Tensor::empty(type.dtype, sizes);
      testing::run_kernel(*loops, {weight.tensor.mutable_data(), result.mutable_data()}, {});
      for (int64_t i = 0; i < rows.numel(); ++i) REQUIRE(result.float_at(i) == rows.float_at(i));
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

TEST_CASE("a long sum across memory does not lose its terms") {
  constexpr int64_t terms = 1 << 17, columns = 16;
  Program program;
  ir::Value* x = program.graph.add_input("x", ir::TensorMeta{ScalarType::f32, {terms, columns}});
  program.graph.set_outputs({program.node("sum", {x}, {ScalarType::f32, {columns}}, [&](Writer& w) {
    return w.reduce("sum", 0, ScalarOp::add, 1, terms, w.read(x, {w.variable(1), w.variable(0)}));
  })});
  std::vector<float> input(terms * columns, 1.1f), output(columns);
  program.run({input.data(), output.data()}, {});
  for (float sum : output) CHECK(sum == static_cast<float>(1.1f * static_cast<double>(terms)));
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

TEST_CASE("a concatenation, stretch by stretch, and with stretches too short for it") {
  for (const std::vector<int64_t>& widths :
       {std::vector<int64_t>{16, 24, 9}, {32, 32}, {8, 3, 40}, {8, 3, 9}, {20}, std::vector<int64_t>(30, 9)}) {
    Program program;
    int64_t all = 0;
    for (int64_t width : widths) all += width;
    std::vector<ir::Value*> parts;
    for (int64_t width : widths)
      parts.push_back(
          program.graph.add_input("x" + std::to_string(parts.size()), ir::TensorMeta{ScalarType::f32, {5, width}}));
    const ir::TensorMeta type{ScalarType::f32, {5, all}};
    ir::Value* y = program.node("cat", {parts.begin(), parts.end()}, type, [&](Writer& w) {
      ScalarId rest = opset::no_scalar;
      int64_t end = all;
      for (size_t i = parts.size(); i-- > 0; end -= widths[i]) {
        const ScalarId column = w.apply(ScalarOp::sub, {w.variable(1), w.size(end - widths[i])}, ScalarType::i64),
                       read = w.read(parts[i], {w.variable(0), column});
        rest = rest == opset::no_scalar
                   ? read
                   : w.apply(ScalarOp::select,
                             {w.apply(ScalarOp::lt, {w.variable(1), w.size(end)}, ScalarType::boolean), read, rest});
      }
      return w.apply(ScalarOp::mul, {rest, w.number(2)});
    });
    program.graph.set_outputs({y});
    std::vector<std::vector<float>> inputs;
    std::vector<void*> buffers;
    for (int64_t width : widths) inputs.push_back(random_numbers(5 * width, static_cast<uint32_t>(inputs.size())));
    for (std::vector<float>& input : inputs) buffers.push_back(input.data());
    std::vector<float> output(5 * all, -1);
    buffers.push_back(output.data());
    program.run(buffers, {});
    for (int64_t row = 0; row < 5; ++row)
      for (int64_t column = 0, part = 0, first = 0; column < all; ++column) {
        if (column == first + widths[part]) first += widths[part++];
        CHECK(output[row * all + column] == 2 * inputs[part][row * widths[part] + column - first]);
      }
  }
}

}  // namespace
}  // namespace atenon::lower
