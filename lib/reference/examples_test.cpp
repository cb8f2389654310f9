// Every value `example` of every block under opsets/, run.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "opset/example.h"
#include "reference/compiled_graph.h"
#include "reference/reference.h"
#include "tensor/random.h"
#include "tensor/real_parts.h"

using namespace atenon;

namespace {

double tolerance(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::f16:
      return 1e-3;
    case ScalarType::bf16:
      return 1e-2;
    case ScalarType::f32:
      return 1e-6;  // examples are written with eight digits
    case ScalarType::f64:
      return 1e-8;
    default:
      return 0;
  }
}

bool near(double value, double expected, ScalarType dtype) {
  if (std::isnan(expected)) return std::isnan(value);
  return value == expected || std::fabs(value - expected) <= tolerance(dtype) * std::fmax(1, std::fabs(expected));
}

Tensor as_tensor(const reference::Datum& datum) {
  if (const Tensor* tensor = std::get_if<Tensor>(&datum)) return *tensor;
  Tensor number;
  if (const int64_t* integer = std::get_if<int64_t>(&datum))
    number = Tensor::scalar(static_cast<double>(*integer), ScalarType::i64);
  else if (const double* real = std::get_if<double>(&datum))
    number = Tensor::scalar(*real, ScalarType::f32);
  else
    number = Tensor::scalar(std::get<bool>(datum), ScalarType::boolean);
  return number;
}

// A complex tensor as its real and imaginary parts, one after the other.
Tensor real_parts(const Tensor& tensor) { return is_complex(tensor.dtype) ? as_parts(tensor.contiguous()) : tensor; }

std::string spelled(const Tensor& tensor) {
  std::string text = name_of(tensor.dtype);
  for (const int64_t n : tensor.sizes) text += " " + std::to_string(n);
  text += ":";
  for (int64_t i = 0; i < std::min<int64_t>(tensor.numel(), 16); ++i) text += " " + std::to_string(tensor.float_at(i));
  return text;
}

// The example's call by compiled loops: "" if its results have the bits of `evaluated`, or if it has no such loops.
std::string difference(const opset::Opset& opset, const opset::RunnableExample& example,
                       const std::vector<reference::Datum>& evaluated, int& compiled) {
  ir::Graph graph;
  std::vector<Tensor> operands;
  std::map<const ir::Value*, ir::Value*> inputs;
  for (const auto& [value, tensor] : example.data) {
    inputs[value] = graph.add_input("x" + std::to_string(operands.size()), value->type);
    operands.push_back(tensor);
  }
  const auto arguments = ir::map_values(example.call.arguments, [&](ir::Value* value) { return inputs[value]; });
  auto node = opset::append(opset, graph, example.call.op->target(), arguments, {}, {}, 0);
  if (!node) return "";
  std::vector<ir::Argument> outputs;
  std::vector<reference::Lying> lying;
  std::vector<Tensor> results;
  for (size_t i = 0; i < evaluated.size(); ++i) {
    const Tensor* tensor = std::get_if<Tensor>(&evaluated[i]);
    if (!tensor || i >= (*node)->results().size()) return "";
    outputs.push_back((*node)->result(i));
    results.push_back(Tensor::empty(tensor->dtype, tensor->sizes));
    lying.push_back({tensor->sizes, results.back().strides});
  }
  graph.set_outputs(outputs);
  auto loops = reference::CompiledGraph::compile(opset, graph, operands, lying, {});
  if (!loops) return "";
  ++compiled;
  std::vector<void*> buffers;
  for (Tensor& tensor : operands) buffers.push_back(const_cast<void*>(tensor.data()));
  for (Tensor& tensor : results) buffers.push_back(tensor.mutable_data());
  const Tensor scratch = Tensor::empty(ScalarType::u8, {static_cast<int64_t>((*loops)->scratch_bytes())});
  for (int round = 0; round < 2; ++round) {  // the second one meets what the first left behind
    auto done = (*loops)->run(buffers, const_cast<void*>(scratch.data()));
    if (!done) return done.failure().message;
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor wanted = std::get<Tensor>(evaluated[i]).contiguous();
      if (wanted.nbytes() != 0 && std::memcmp(wanted.data(), results[i].data(), wanted.nbytes()) != 0)
        return "result " + std::to_string(i) + " is " + spelled(results[i]) + ", not " + spelled(wanted);
    }
  }
  return "";
}

// "" if the example holds. Counts in `compiled` those that have loops.
std::string failure(const opset::Opset& opset, const opset::RunnableExample& example, int& compiled) {
  Generator generator(0);
  reference::Environment environment;
  environment.generator = &generator;
  for (const auto& [value, tensor] : example.data) environment.values[value] = tensor;
  auto results = reference::apply(opset, example.call, environment);
  if (!results) return example.fails == "range" && results.failure().code == 611 ? "" : results.failure().message;
  if (!example.fails.empty()) return "it should fail: " + example.fails;
  if (results->size() != example.expected.size()) return "it has " + std::to_string(results->size()) + " results";
  for (size_t r = 0; r < results->size(); ++r) {
    const Tensor value = real_parts(as_tensor((*results)[r]));
    const Tensor expected = real_parts(example.expected[r]);
    bool same = value.sizes == expected.sizes && value.dtype == expected.dtype;
    for (int64_t i = 0; same && i < expected.numel(); ++i)
      same = is_floating(expected.dtype) ? near(value.float_at(i), expected.float_at(i), expected.dtype)
                                         : value.int_at(i) == expected.int_at(i);
    if (!same) return "result " + std::to_string(r) + " is " + spelled(value) + ", not " + spelled(expected);
  }
  return difference(opset, example, *results, compiled);
}

}  // namespace

TEST_CASE("the examples of all blocks hold, evaluated and as compiled loops") {
  const auto opset = opset::Opset::load("opsets");
  REQUIRE(opset);
  int count = 0, compiled = 0;
  for (const std::string& name : (*opset)->names()) {
    for (const opset::Operator* op : (*opset)->overloads(name)) {
      if (op->header() != 0 || op->derivation() != opset::Derivation::none) continue;  // a block once
      const auto examples = opset::value_examples(**opset, *op);
      CHECK_MESSAGE(static_cast<bool>(examples), op->target());
      if (!examples) continue;
      for (const opset::RunnableExample& example : *examples) {
        ++count;
        const std::string problem = failure(**opset, example, compiled);
        CHECK_MESSAGE(problem.empty(),
                      example.place.file << ":" << example.place.line << ": " << example.text << "\n  " << problem);
      }
    }
  }
  CHECK(compiled > count / 2);
}
