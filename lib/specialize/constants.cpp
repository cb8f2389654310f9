// Weights as constants: looking behind graph inputs, adding new ones, dropping those that nobody reads.
#include <algorithm>
#include <ranges>
#include <set>

#include "ir/written_state.h"
#include "reference/reference.h"
#include "specialize/passes.h"

namespace atenon::specialize {

std::optional<Tensor> constant_behind(const Scope& scope, const ir::Value* value) {
  if (value->producer) return std::nullopt;
  const ir::InputSpec* spec = scope.entry.signature.input(value->name);
  if (!spec || !ir::is_state(spec->kind) || ir::is_written(scope.program, spec->target)) return std::nullopt;
  const ir::Weight* weight = scope.program.weight(spec->target);
  if (!weight || weight->layout || weight->tensor.storage->is_absent()) return std::nullopt;
  return weight->tensor;
}

ir::Value* add_constant(Scope& scope, const std::string& wish, Tensor tensor) {
  std::string name = wish;
  for (int suffix = 1; scope.program.weight(name); ++suffix) name = wish + "_" + std::to_string(suffix);
  std::vector<shape::SymInt> sizes(tensor.sizes.begin(), tensor.sizes.end());
  ir::TensorMeta meta{tensor.dtype, std::move(sizes)};
  std::string value_name = "c_";
  for (char c : name) value_name += isalnum(static_cast<unsigned char>(c)) ? c : '_';
  // Signatures are per entry point: every variant gets the input, and drops it again where it is not read by any.
  ir::Value* mine = nullptr;
  for (ir::Variant& variant : scope.entry.variants) value_name = variant.graph.unique_name(value_name);
  for (ir::Variant& variant : scope.entry.variants) {
    ir::Value* value = variant.graph.add_input(value_name, meta);
    if (&variant == &scope.variant) mine = value;
  }
  ir::InputSpec spec{ir::InputKind::constant_tensor, value_name, name};
  scope.entry.signature.inputs.push_back(std::move(spec));
  scope.program.weights.push_back({name, std::move(tensor)});
  return mine;
}

Result<ir::Value*> computed_constant(Scope& scope, const std::string& wish, ir::Value* value) {
  std::vector<ir::Node*> chain;  // the last first
  ir::Value* from = value;
  for (; from->producer; from = from->producer->operands()[0]) chain.push_back(from->producer);
  reference::Environment environment;
  environment.values.emplace(from, *constant_behind(scope, from));
  for (ir::Node* node : std::views::reverse(chain))
    if (Result<void> done = reference::evaluate(scope.opset, *node, environment); !done) return done.error();
  ir::Value* made = add_constant(scope, wish, std::get<Tensor>(environment.values.at(value)).contiguous());
  for (ir::Node* node : chain) scope.variant.graph.erase(*node);
  return made;
}

const std::string& weight_name(const Scope& scope, const ir::Value& value) {
  return scope.entry.signature.input(value.name)->target;
}

Tensor as_tensor(const std::vector<double>& values, ScalarType dtype, const std::vector<int64_t>& sizes) {
  Tensor tensor = Tensor::empty(dtype, sizes);
  for (size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Tensor part_of(Tensor tensor, size_t axis, int64_t start, int64_t size) {
  tensor.offset += start * tensor.strides[axis];
  tensor.sizes[axis] = size;
  return tensor;
}

ir::ArgumentList list_of(const std::vector<ir::SymInt>& values) { return {values.begin(), values.end()}; }

Result<ir::Value*> append_before(Scope& scope, ir::Node& node, const std::string& target,
                                 std::vector<ir::Argument> arguments, std::vector<ir::Named> keywords) {
  Result<ir::Node*> made = opset::append(scope.opset, scope.variant.graph, target, std::move(arguments),
                                         std::move(keywords), scope.facts, node.provenance, &node);
  if (!made) return made.error();
  return (*made)->result();
}

bool depends_on_data(const Scope& scope, const std::set<std::string>& symbols) {
  return std::ranges::any_of(scope.entry.symbols, [&](const ir::Symbol& symbol) {
    return symbol.source.empty() && symbols.contains(symbol.name);
  });
}

Changed remove_unused(Scope& scope) {
  Changed changed = opset::eliminate_dead_nodes(scope.opset, scope.variant);
  const std::set<std::string> written = ir::written_state(scope.entry.signature);  // is kept from run to run
  std::erase_if(scope.entry.signature.inputs, [&](const ir::InputSpec& spec) {
    if (!ir::is_state(spec.kind) || spec.value.empty() || written.contains(spec.target)) return false;
    for (const ir::Variant& variant : scope.entry.variants) {
      if (variant.graph.find(spec.value)->has_users()) return false;
    }
    for (ir::Variant& variant : scope.entry.variants) variant.graph.erase_input(variant.graph.find(spec.value));
    changed = Changed::yes;
    return true;
  });
  std::set<std::string> named = ir::written_state(scope.program);
  for (const ir::EntryPoint& entry : scope.program.entries) {
    for (const ir::InputSpec& spec : entry.signature.inputs) {
      if (ir::is_state(spec.kind)) named.insert(spec.target);
    }
  }
  std::erase_if(scope.program.weights, [&](const ir::Weight& weight) { return !named.contains(weight.name); });
  return changed;
}

}  // namespace atenon::specialize
