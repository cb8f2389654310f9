// Calls: overload resolution, types under assumptions, decompositions, loops, and what messages say.
#include "opset/call.h"

#include <doctest/doctest.h>

#include "text/text.h"

namespace atenon::opset {
namespace {

const Opset& aten() {
  static const Result<std::unique_ptr<Opset>> opset = Opset::load("opsets");
  REQUIRE(opset);
  return **opset;
}

// Inputs x: f32[b, 8], y: f32[c, 8], i: i64[3] and h: f16[2, 4].
struct Inputs {
  ir::Graph graph;
  ir::SymInt b = ir::SymInt::symbol("b"), c = ir::SymInt::symbol("c");
  ir::Value* x = graph.add_input("x", ir::TensorMeta{.sizes = {b, 8}});
  ir::Value* y = graph.add_input("y", ir::TensorMeta{.sizes = {c, 8}});
  ir::Value* i = graph.add_input("i", ir::TensorMeta{.dtype = ScalarType::i64, .sizes = {3}});
  ir::Value* h = graph.add_input("h", ir::TensorMeta{.dtype = ScalarType::f16, .sizes = {2, 4}});
};

std::string resolved(const std::string& name, std::vector<Argument> arguments, std::vector<Named> keywords = {}) {
  Result<Call> call = resolve(aten(), name, arguments, keywords);
  if (!call) return "E0" + std::to_string(call.failure().code);
  std::string text = call->op->target() + '(';
  for (const Argument& argument : call->arguments)
    text += (&argument == &call->arguments[0] ? "" : ", ") + text::print(argument);
  return text + ')';
}

TEST_CASE("overloads resolve as in PyTorch") {
  Inputs in;
  CHECK(resolved("aten::add", {in.x, in.y}) == "aten::add.Tensor(%x, %y, 1)");
  CHECK(resolved("aten::add", {in.x, 2}) == "aten::add.Scalar(%x, 2, 1)");
  CHECK(resolved("aten::add", {in.x, in.y}, {{"alpha", 2}}) == "aten::add.Tensor(%x, %y, 2)");
  CHECK(resolved("aten::add", {}, {{"input", in.x}, {"other", in.y}}) == "aten::add.Tensor(%x, %y, 1)");
  CHECK(resolved("aten::sum", {in.x}) == "aten::sum(%x, None)");
  CHECK(resolved("aten::sum", {in.x, 1}) == "aten::sum.dim_IntList(%x, [1], false, None)");
  CHECK(resolved("aten::sum", {in.x}, {{"axis", 1}}) == "aten::sum.dim_IntList(%x, [1], false, None)");
  CHECK(resolved("aten::amax", {in.x}, {{"dim", ir::None()}}) == "aten::amax(%x, [], false)");
  CHECK(resolved("aten::view", {in.x, 2, -1}) == "aten::view(%x, [2, -1])");
  CHECK(resolved("aten::permute", {in.x, ir::ArgumentList{1, 0}}) == "aten::permute(%x, [1, 0])");
  CHECK(resolved("aten::max", {in.x, 1}) == "aten::max.dim(%x, 1, false)");
  CHECK(resolved("aten::add_", {in.x, in.y}) == "aten::add_.Tensor(%x, %y, 1)");
  CHECK(resolved("aten::add", {in.x, in.y}, {{"out", in.x}}) == "aten::add.Tensor_out(%x, %y, 1, %x)");
  CHECK(resolved("aten::gelu", {in.x}, {{"aproximate", "tanh"}}) == "E0107");
  CHECK(resolved("aten::gelu", {in.x, in.x}) == "E0106");
  CHECK(resolved("aten::gelu", {2}) != "E0108");  // a number stands for a tensor where nothing else fits
  for (const char* written : {"aten::relu_", "aten::add_.Tensor", "aten::relu.out"})  // but for none that is written to
    CHECK(resolved(written, {2, in.x}).starts_with("E01"));
  CHECK(resolved("aten::relu", {in.x}, {{"out", 2}}) == "E0104");
  CHECK(resolved("aten::slice_scatter", {in.x, 2, 0}) == "E0108");
  CHECK(resolved("aten::permute", {in.x, 1.5}) == "E0108");
  CHECK(resolved("aten::gelo", {in.x}) == "E0101");
}

TEST_CASE("messages suggest and name the place of the definition") {
  Inputs in;
  const std::string keyword = resolve(aten(), "aten::gelu", {in.x}, {{"aproximate", "tanh"}}).error().render("opset");
  CHECK(keyword.find("error[E0107]: aten::gelu has no argument 'aproximate'") != std::string::npos);
  CHECK(keyword.find("note: did you mean 'approximate'?") != std::string::npos);
  CHECK(keyword.find("note: aten::gelu is defined in opsets/aten/") != std::string::npos);
  const std::string name = aten().check("aten::gelo").error().render("opset");
  CHECK(name.find("note: did you mean aten::gelu?") != std::string::npos);
}

std::string inferred(const std::string& name, std::vector<Argument> arguments, std::vector<Named> keywords = {},
                     const shape::Facts& facts = {}, const shape::Bindings* hints = nullptr) {
  Result<Call> call = resolve(aten(), name, arguments, keywords);
  REQUIRE(call);
  Result<Inference> inference = infer(aten(), *call, facts, 0, hints);
  if (!inference) return "E0" + std::to_string(inference.failure().code) + ' ' + inference.failure().message;
  std::string text;
  for (const ir::Type& type : inference->types) text += (text.empty() ? "" : ", ") + ir::to_string(type);
  for (const ir::Constraint& assumption : inference->assumptions) text += " | " + assumption.truth.to_string();
  return text;
}

TEST_CASE("open checks become assumptions, proven ones do not") {
  Inputs in;
  shape::Facts equal;
  equal.assume(shape::equal(in.b, in.c));
  CHECK(inferred("aten::add", {in.x, in.y}) == "f32[b, 8] | b == c");
  CHECK(inferred("aten::add", {in.x, in.y}, {}, equal) == "f32[b, 8]");
  CHECK(inferred("aten::add_", {in.x, 1.5}) == "f32[b, 8]");
  CHECK(inferred("aten::add_", {in.i, 1.5}).substr(0, 5) == "E0114");
  CHECK(inferred("aten::select", {in.x, 0, 0}) == "f32[8] | b >= 1");
  CHECK(inferred("aten::matmul", {in.x, in.x}).substr(0, 5) != "E0115");
  const shape::Bindings hints = {{"b", 3}};
  CHECK(inferred("aten::unbind", {in.x}).substr(0, 5) == "E0112");
  CHECK(inferred("aten::unbind", {in.x}, {}, {}, &hints) == "f32[8], f32[8], f32[8] | b == 3");
  CHECK(inferred("aten::slice_scatter", {in.x, in.y, 0, 0, in.b}) == "f32[b, 8] | b == c");
}

TEST_CASE("a failed check names itself") {
  Inputs in;
  Result<Call> call = resolve(aten(), "aten::gelu", {in.i}, {});
  REQUIRE(call);
  Result<Inference> inference = infer(aten(), *call, {});
  REQUIRE(!inference);
  const std::string message = inference.failure().render("opset");
  CHECK(message.find("error[E0110]: aten::gelu: gelu needs a floating-point tensor, not i64") != std::string::npos);
  CHECK(message.find("note: this is check C1 of aten::gelu, opsets/aten/") != std::string::npos);
}

TEST_CASE("a decomposition becomes nodes") {
  Inputs in;
  Result<ir::Node*> node = append(aten(), in.graph, "aten::softmax", {in.h, -1}, {}, {}, 7);
  REQUIRE(node);
  while ((*node)->target() != "aten::_softmax") {
    Result<Call> call = bind(aten(), **node);
    REQUIRE(call);
    Result<Expansion> expansion = expand(aten(), *call, {}, in.graph, *node, 7);
    REQUIRE(expansion);
    ir::Node* next = expansion->results[0]->producer;
    in.graph.erase(**node);
    node = next;
  }
  Result<Call> call = bind(aten(), **node);
  REQUIRE(call);
  Result<Expansion> expansion = expand(aten(), *call, {}, in.graph, *node, 7);
  REQUIRE(expansion);
  in.graph.set_outputs({expansion->results[0]});
  in.graph.erase(**node);
  // Of 16-bit floats it is computed in f32.
  CHECK(ir::to_string(expansion->results[0]->type) == "f16[2, 4]");
  for (const ir::Node& made : in.graph.forward()) {
    CHECK(made.provenance == 7);
    if (made.target() == "aten::exp") CHECK(made.result()->meta().dtype == ScalarType::f32);
  }
  CHECK(text::print(in.graph).find("aten::max_or_lowest") == std::string::npos);
  CHECK(text::print(in.graph).find("atenon::max_or_lowest") != std::string::npos);
}

std::string loops_of(const std::string& name, std::vector<Argument> arguments, std::vector<Named> keywords = {}) {
  Result<Call> call = resolve(aten(), name, arguments, keywords);
  REQUIRE(call);
  Result<Meaning> loops = meaning(aten(), *call, {});
  return loops ? loops->to_string() : loops.failure().render("opset");
}

TEST_CASE("what is left of a block are loops") {
  Inputs in;
  CHECK(loops_of("aten::add", {in.x, in.y}, {{"alpha", 2}}) ==
        "operand 0: f32[c, 8]\n"
        "operand 1: f32[b, 8]\n"
        "%0: i64 = index i0\n"
        "%1: i64 = index i1\n"
        "%2: f32 = read operand 0 at [%0, %1]\n"
        "%3: f32 = constant 2.0\n"
        "%4: f32 = mul %3, %2\n"
        "%5: f32 = read operand 1 at [%0, %1]\n"
        "%6: f32 = add %5, %4\n"
        "result 0: f32[b, 8] for i0, i1 = %6\n");
}

TEST_CASE("sizes beyond 64 bits are no sizes") {
  Inputs in;
  Result<Call> call = resolve(aten(), "aten::diag", {in.i, std::numeric_limits<int64_t>::min()}, {});
  REQUIRE(call);
  const Result<Inference> inference = infer(aten(), *call, {});
  CHECK(!inference);
  if (!inference) CHECK(inference.failure().code == 110);
}

TEST_CASE("a view is an index map, and written to, a scatter through it") {
  Inputs in;
  const std::string view = loops_of("aten::slice", {in.x, 1, 2, 6});
  CHECK(view.find("view 0: f32[b, 4] for i0, i1 = ") != std::string::npos);
  const std::string copy = loops_of("aten::slice_copy", {in.x, 1, 2, 6});
  CHECK(copy.find("result 0: f32[b, 4]") != std::string::npos);
  ir::Value* part = in.graph.add_input("part", ir::TensorMeta{.sizes = {in.b, 4}});
  const std::string scatter = loops_of("aten::slice_scatter", {in.x, part, 1, 2, 6});
  CHECK(scatter.find("scatter from operand 0") != std::string::npos);
  CHECK(scatter.find("result 0: f32[b, 8]\n") != std::string::npos);
}

TEST_CASE("blocks of users add operators and replace meanings") {
  Result<std::unique_ptr<Opset>> opset = Opset::load("opsets");
  REQUIRE(opset);
  REQUIRE((*opset)->add(
      "op my::twice(Tensor self) -> Tensor\n  tags inplace\n  type same(self)\n  pointwise self + self\n", "my.ops"));
  REQUIRE((*opset)->find("my::twice_"));
  REQUIRE((*opset)->add("op aten::relu(Tensor self) -> Tensor\n  decompose maximum(self, mul(self, 0))\n", "my.ops"));
  for (int time = 0; time < 2; ++time)  // as two programs bring it
    CHECK((*opset)->add("def doubled(x) = x + x\n", "my.ops"));
  Inputs in;
  Result<Call> call = resolve(**opset, "aten::relu", {in.x}, {});
  REQUIRE(call);
  Result<MeaningKind> kind = meaning_kind(**opset, *call, {});
  REQUIRE(kind);
  CHECK(*kind == MeaningKind::decomposition);
  Result<void> clash =
      (*opset)->add("op aten::relu(Tensor self) -> Tensor\n  type same(self)\n  pointwise self\n", "my.ops");
  REQUIRE(!clash);
  CHECK(clash.failure().message == "aten::relu is there already: only its meanings can be replaced");
}

TEST_CASE("mistakes in blocks are pointed at") {
  struct Case {
    const char* line;
    const char* message;
    int column;
  };
  const Case cases[] = {
      {"  pointwise self + othr", "nothing is called 'othr' here", 20},
      {"  pointwise self +", "the line ends where a value was expected", 19},
      {"  pointwise sum{self", "expected '}'", 21},
      {"  pointwize self", "'pointwize' starts no line of a block", 3},
      {"  pointwise self $ 2", "'$' has no meaning in an operator's block", 18},
      {"  C1 true \"open", "this text is not closed", 11},
      {"  pointwise summ{self}", "there is no monoid 'summ'", 13},
      {"  pointwise [x for y in self.shape]", "nothing is called 'x' here", 14},
      {"  view at i self[i]", "expected ':'", 13},
  };
  for (const Case& c : cases) {
    Result<std::unique_ptr<Opset>> opset = Opset::load("opsets");
    REQUIRE(opset);
    REQUIRE((*opset)->add(std::string("op my::f(Tensor self) -> Tensor\n") + c.line + '\n', "my.ops"));
    Result<const Operator*> op = (*opset)->check("my::f");
    REQUIRE(!op);
    CHECK(op.failure().message == c.message);
    CHECK(op.failure().where.line == 2);
    CHECK(op.failure().where.column == c.column);
  }
}

}  // namespace
}  // namespace atenon::opset
