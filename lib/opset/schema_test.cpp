#include "opset/schema.h"

#include <doctest/doctest.h>

namespace atenon::opset {
namespace {

TEST_CASE("schemas print as they were read") {
  const char* const schemas[] = {
      "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
      "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
      "aten::view(Tensor(a) self, int[] size) -> Tensor(a)",
      "aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
      "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
      "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
      "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0) -> Tensor",
      "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
      "aten::layer_norm(Tensor input, int[] shape, Tensor? weight=None, float eps=1e-05) -> Tensor",
      "my::nothing() -> ()",
  };
  for (const char* text : schemas) {
    Result<Schema> schema = parse_schema(text);
    if (!schema) FAIL_CHECK(schema.failure().render("schema"));
    if (schema) CHECK(schema->to_string() == text);
  }
}

TEST_CASE("spellings that mean the same") {
  Result<Schema> schema = parse_schema(
      "aten::f(Tensor(a -> *) self, SymInt[2] k=[1, 1], MemoryFormat m=contiguous_format, int r=Mean, ScalarType "
      "t=long, float x=1.) -> Tensor(a)[]");
  REQUIRE(schema);
  CHECK(schema->parameters[1].type.list_size == 2);
  CHECK(schema->parameters[2].type.kind == Kind::word);
  CHECK(*schema->parameters[3].fallback == Argument(1));
  CHECK(*schema->parameters[4].fallback == Argument(ScalarType::i64));
  CHECK(schema->parameters[5].fallback->is<ir::SymFloat>());
  CHECK(schema->returns[0].type.list);
}

TEST_CASE("what is malformed is pointed at") {
  const std::pair<const char*, int> cases[] = {
      {"aten::f(Tensor self", 20},          {"aten::f(Tensor self) Tensor", 22},
      {"aten::f(Tensor) -> Tensor", 15},    {"", 1},
      {"aten::f(str s=\"x) -> Tensor", 15}, {"aten::f(int[] k=[[1]]) -> Tensor", 18},
      {"aten::f(int[-2] k) -> Tensor", 13}, {"aten::f(int[1000000000] k) -> Tensor", 13}};
  for (const auto& [text, column] : cases) {
    Result<Schema> schema = parse_schema(text);
    REQUIRE(!schema);
    CHECK(schema.failure().code == 103);
    CHECK(schema.failure().where.column == column);
  }
}

}  // namespace
}  // namespace atenon::opset
