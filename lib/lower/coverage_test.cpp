// Every operator of opsets/ has generated code for every dtype that it takes, but for those that are listed here.
//
// The calls are those of the blocks' examples, with each dtype in place of the example's own; what they decompose into
// is what is composed and generated. So a new block is covered by its example, and one without code fails this test.
#include <doctest/doctest.h>

#include <set>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "lower/generate.h"
#include "opset/example.h"

namespace atenon::lower {
namespace {

const ScalarType claimed[] = {ScalarType::f32, ScalarType::f64,     ScalarType::f16, ScalarType::bf16,
                              ScalarType::i8,  ScalarType::i16,     ScalarType::i32, ScalarType::i64,
                              ScalarType::u8,  ScalarType::boolean, ScalarType::c64};

// "" or why the node, which has a meaning in loops, has no code.
std::string refusal(const opset::Opset& opset, const ir::Node& node, const shape::Facts& facts) {
  ir::Graph body;
  std::map<const ir::Value*, ir::Value*> inner;
  for (const ir::Value* operand : node.operands())
    if (!inner.count(operand)) inner[operand] = body.add_input(operand->name, operand->type);
  const auto map = [&](ir::Value* value) { return ir::Argument(inner.at(value)); };
  std::vector<ir::Argument> arguments, outputs;
  for (const ir::Argument& argument : node.arguments()) arguments.push_back(ir::map_values(argument, map));
  std::vector<ir::Named> keywords = node.keywords();
  for (ir::Named& keyword : keywords) keyword.argument = ir::map_values(keyword.argument, map);
  std::vector<ir::Graph::Result> results;
  for (const auto& result : node.results()) results.push_back({result->name, result->type});
  ir::Node* copy = body.add(node.target(), arguments, keywords, results);
  for (const auto& result : copy->results()) outputs.emplace_back(result.get());
  body.set_outputs(outputs);

  Result<opset::Call> call = opset::bind(opset, *copy);
  if (!call) return call.failure().message;
  Result<opset::Meaning> meaning = opset::meaning(opset, *call, facts);
  if (!meaning) return meaning.failure().message;
  const Accesses accesses = accesses_of(*meaning, facts);
  if (!accesses.refusal.empty()) return accesses.refusal;
  Result<Loops> loops = compose(
      body, [&](const ir::Node&) { return &*meaning; },
      [](const ir::Value& value) { return row_major(value.meta().sizes); }, facts, {});
  if (!loops) return loops.failure().message;
  llvm::LLVMContext context;
  llvm::Module module("coverage", context);
  Result<SymInt> generated = generate(module, *loops, "k", 16);
  return generated ? "" : generated.failure().message;
}

struct Coverage {
  std::set<std::string> called;                                                // overloads that some example calls
  std::map<std::string, std::set<ScalarType>> covered;                         // overloads with loops, by dtype
  std::map<std::string, std::map<std::string, std::set<ScalarType>>> refused;  // with the reason
};

// The example's call, of `dtype` where its main tensors are: decomposed, and each part judged.
void try_dtype(const opset::Opset& opset, const opset::RunnableExample& example, ScalarType own, ScalarType dtype,
               Coverage& coverage) {
  ir::Graph graph;
  std::map<const ir::Value*, ir::Value*> inputs;
  for (const auto& input : example.inputs.inputs()) {
    ir::Type type = input->type;
    if (auto* meta = std::get_if<ir::TensorMeta>(&type); meta && meta->dtype == own) meta->dtype = dtype;
    inputs[input.get()] = graph.add_input("x" + std::to_string(inputs.size()), type);
  }
  std::vector<ir::Argument> arguments;
  for (const ir::Argument& argument : example.call.arguments)
    arguments.push_back(ir::map_values(argument, [&](ir::Value* value) -> ir::Argument { return inputs.at(value); }));
  shape::Facts facts;
  std::vector<ir::Constraint> assumptions;
  auto first = opset::append(opset, graph, example.call.op->target(), arguments, {}, facts, 0, nullptr, &assumptions);
  if (!first) return;  // not for this dtype
  for (const ir::Constraint& assumption : assumptions) facts.assume(assumption.truth);
  for (int round = 0; round < 20; ++round) {
    bool is_changed = false;
    for (ir::Node& node : graph.forward()) {
      const auto call = opset::bind(opset, node);
      if (!call) return;
      const auto kind = opset::meaning_kind(opset, *call, facts);
      if (!kind) return;
      if (*kind != opset::MeaningKind::decomposition) continue;
      auto expansion = opset::expand(opset, *call, facts, graph, &node, 0);
      if (!expansion) return;
      graph.replace(node, expansion->results);
      is_changed = true;
    }
    if (!is_changed) break;
  }
  for (const ir::Node& node : graph.forward()) {
    const auto call = opset::bind(opset, node);
    const auto kind = opset::meaning_kind(opset, *call, facts);
    if (*kind != opset::MeaningKind::loops) continue;
    const std::string why = refusal(opset, node, facts);
    if (why.empty())
      coverage.covered[node.target()].insert(dtype);
    else
      coverage.refused[node.target()][why].insert(dtype);
  }
}

TEST_CASE("every pointwise operator and reduction has generated code for every dtype") {
  const auto opset = opset::Opset::load("opsets");
  REQUIRE(opset);
  Coverage coverage;
  for (const std::string& name : (*opset)->names())
    for (const opset::Operator* op : (*opset)->overloads(name)) {
      if (op->header() != 0 || op->derivation() != opset::Derivation::none) continue;
      const auto examples = opset::example_calls(**opset, *op);
      REQUIRE(examples);
      CHECK_MESSAGE(!examples->empty(), op->target(), " is called by no example");
      for (const opset::RunnableExample& example : *examples) {
        std::optional<ScalarType> own;
        for (const auto& input : example.inputs.inputs())
          if (input->is_tensor() && (!own || (!is_floating(*own) && is_floating(input->meta().dtype))))
            own = input->meta().dtype;
        if (!own) try_dtype(**opset, example, ScalarType::f32, ScalarType::f32, coverage);  // it makes a tensor
        for (const ScalarType dtype : claimed)
          if (own) try_dtype(**opset, example, *own, dtype, coverage);
      }
    }
  // Of complex numbers some functions have no meaning (E0634), which is no matter of code.
  std::map<std::string, std::string> refused;
  size_t pairs = 0;
  for (const auto& [target, dtypes] : coverage.covered) pairs += dtypes.size();
  for (const auto& [target, reasons] : coverage.refused)
    for (const auto& [why, dtypes] : reasons)
      if (why.find("of complex numbers is not known") == std::string::npos) refused[target] = why;
  for (const auto& [target, why] : refused) FAIL_CHECK(target, " has no code: ", why);
  CHECK(coverage.covered.size() > 230);
  CHECK(pairs > 2200);
}

}  // namespace
}  // namespace atenon::lower
