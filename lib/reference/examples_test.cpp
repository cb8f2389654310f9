// Runs every example of opsets/ that states values.
#include <doctest/doctest.h>

#include <cmath>

#include "opset/example.h"
#include "reference/reference.h"
#include "tensor/random.h"

namespace atenon::reference {
namespace {

bool is_close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-6 + 1e-5 * std::abs(b);
}

Tensor as_tensor(const Datum& datum, ScalarType dtype) {
  return std::visit(
      [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Tensor>)
          return value.contiguous();
        else
          return Tensor::scalar(static_cast<double>(value), dtype);
      },
      datum);
}

// What differs, or "".
std::string compare(const Datum& got, const Tensor& expected) {
  const Tensor tensor = as_tensor(got, expected.dtype);
  if (tensor.dtype != expected.dtype) return std::string("dtype ") + name_of(tensor.dtype);
  if (tensor.sizes != expected.sizes) return "another shape";
  std::string text;
  bool same = true;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    same = same && is_close(tensor.float_at(i), expected.float_at(i));
    text += ' ' + std::to_string(tensor.float_at(i));
  }
  return same ? "" : "values" + text;
}

TEST_CASE("examples of values") {
  Result<std::unique_ptr<opset::Opset>> opset = opset::Opset::load("opsets");
  REQUIRE(opset);
  for (const std::string& name : (*opset)->names())
    for (const opset::Operator* op : (*opset)->overloads(name)) {
      if (op->header() != 0 || op->derivation() != opset::Derivation::none) continue;
      Result<std::vector<opset::RunnableExample>> examples = value_examples(**opset, *op);
      if (!examples) FAIL_CHECK(examples.failure().render("examples"));
      if (!examples) continue;
      for (const opset::RunnableExample& example : *examples) {
        Generator generator;
        Environment environment{.generator = &generator};
        for (const auto& [value, tensor] : example.data) environment.values.emplace(value, tensor);
        Result<std::vector<Datum>> got = apply(**opset, example.call, environment);
        if (!example.fails.empty()) {
          CHECK_MESSAGE(!got, example.text);
          continue;
        }
        if (!got) {
          FAIL_CHECK(example.text << "\n" << got.failure().render("examples"));
          continue;
        }
        if (got->size() != example.expected.size()) FAIL_CHECK(example.text << ": " << got->size() << " results");
        for (size_t i = 0; i < std::min(got->size(), example.expected.size()); ++i) {
          const std::string difference = compare((*got)[i], example.expected[i]);
          if (!difference.empty()) FAIL_CHECK(example.text << ": result " << i << ": " << difference);
        }
      }
    }
}

}  // namespace
}  // namespace atenon::reference
