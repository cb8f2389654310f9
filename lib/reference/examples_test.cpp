// Every value `example` of every block under opsets/, run.
#include <doctest/doctest.h>

#include <cmath>

#include "opset/example.h"
#include "reference/reference.h"
#include "tensor/random.h"

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
Tensor real_parts(const Tensor& tensor) {
  if (!is_complex(tensor.dtype)) return tensor;
  Tensor parts = tensor.contiguous();
  parts.dtype = parts.dtype == ScalarType::c128 ? ScalarType::f64 : ScalarType::f32;
  parts.sizes.push_back(2);
  parts.strides = contiguous_strides(parts.sizes);
  parts.offset *= 2;
  return parts;
}

std::string spelled(const Tensor& tensor) {
  std::string text = name_of(tensor.dtype);
  for (const int64_t n : tensor.sizes) text += " " + std::to_string(n);
  text += ":";
  for (int64_t i = 0; i < std::min<int64_t>(tensor.numel(), 16); ++i) text += " " + std::to_string(tensor.float_at(i));
  return text;
}

// "" if the example holds.
std::string failure(const opset::Opset& opset, const opset::RunnableExample& example) {
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
  return "";
}

}  // namespace

TEST_CASE("the examples of all blocks hold") {
  const auto opset = opset::Opset::load("opsets");
  REQUIRE(opset);
  int count = 0;
  for (const std::string& name : (*opset)->names()) {
    for (const opset::Operator* op : (*opset)->overloads(name)) {
      if (op->header() != 0 || op->derivation() != opset::Derivation::none) continue;  // a block once
      const auto examples = opset::value_examples(**opset, *op);
      CHECK_MESSAGE(static_cast<bool>(examples), op->target());
      if (!examples) continue;
      for (const opset::RunnableExample& example : *examples) {
        ++count;
        const std::string problem = failure(**opset, example);
        CHECK_MESSAGE(problem.empty(),
                      example.place.file << ":" << example.place.line << ": " << example.text << "\n  " << problem);
      }
    }
  }
  CHECK(count > 0);
}
