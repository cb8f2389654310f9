// The checks of a program around its graphs: weights, entry points, signatures.
#include "verify/verify.h"

#include <algorithm>
#include <map>

#include "opset/versions.h"
#include "text/limits.h"
#include "verify/check_graph.h"

namespace atenon::verify {
namespace {

std::string quoted(const std::string& text) { return "'" + text + "'"; }

// The last byte that a strided view touches must lie in its storage. Readers cap sizes, so the sums cannot overflow.
bool lies_inside(const ir::Weight& weight) {
  const Tensor& tensor = weight.tensor;
  if (!tensor.storage || tensor.sizes.size() != tensor.strides.size() || tensor.offset < 0) return false;
  if (weight.layout)
    return weight.layout->padded_bytes >= 0 &&
           static_cast<size_t>(weight.layout->padded_bytes) <= tensor.storage->size();
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return true;
    if (tensor.sizes[i] < 0 || tensor.strides[i] < 0) return false;
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return (static_cast<size_t>(last) + 1) * size_of(tensor.dtype) <= tensor.storage->size();
}

void check_weights(Findings& findings) {
  std::set<std::string> names;
  for (const ir::Weight& weight : findings.program.weights) {
    if (!names.insert(weight.name).second) findings.add(130, "two weights are named " + quoted(weight.name));
    if (!lies_inside(weight)) findings.add(131, "the weight " + quoted(weight.name) + " reaches beyond its storage");
  }
}

bool has_type_of(const ir::Weight& weight, const ir::Value& value) {
  const Tensor& tensor = weight.tensor;
  return value.is_tensor() && value.meta().dtype == weight.dtype() &&
         std::equal(value.meta().sizes.begin(), value.meta().sizes.end(), tensor.sizes.begin(), tensor.sizes.end(),
                    [](const shape::SymInt& declared, int64_t size) { return declared == shape::SymInt(size); });
}

void check_state_input(const ir::InputSpec& spec, const ir::Value& value, Findings& findings) {
  const ir::Weight* weight = findings.program.weight(spec.target);
  if (!weight)
    return findings.add(
        132, "input %" + spec.value + " is the state " + quoted(spec.target) + ", which the program does not hold");
  if (!has_type_of(*weight, value))
    findings.add(133, "input %" + spec.value + " is declared " + ir::to_string(value.type) + ", unlike its weight " +
                          quoted(spec.target));
}

// The signature names the graph's inputs and outputs one by one, in order.
void check_signature(const ir::EntryPoint& entry, const ir::Variant& variant, Findings& findings) {
  const ir::GraphSignature& signature = entry.signature;
  size_t next = 0, user_inputs = 0;
  for (const ir::InputSpec& spec : signature.inputs) {
    user_inputs += spec.kind == ir::InputKind::user_input;
    if (spec.value.empty()) {
      if (!spec.constant) findings.add(134, "the input " + quoted(spec.target) + " has neither a value nor a constant");
      continue;
    }
    const auto& inputs = variant.graph.inputs();
    if (next >= inputs.size() || inputs[next]->name != spec.value) {
      return findings.add(
          134, "input " + std::to_string(next) + " of the graph is not %" + spec.value + ", as the signature has it");
    }
    if (ir::is_state(spec.kind)) check_state_input(spec, *inputs[next], findings);
    ++next;
  }
  if (next != variant.graph.inputs().size()) findings.add(134, "the graph has more inputs than the signature");
  if (user_inputs != signature.input_tree.leaf_count()) {
    findings.add(135, "the signature has " + std::to_string(user_inputs) + " user inputs, its tree of inputs " +
                          std::to_string(signature.input_tree.leaf_count()) + " leaves");
  }
  if (variant.graph.outputs().size() != signature.outputs.size()) {
    return findings.add(134, "the graph has " + std::to_string(variant.graph.outputs().size()) +
                                 " outputs, the signature " + std::to_string(signature.outputs.size()));
  }
  size_t user_outputs = 0;
  for (const ir::OutputSpec& spec : signature.outputs) {
    user_outputs += spec.kind == ir::OutputKind::user_output;
    bool known = true;
    if (ir::updates_state(spec.kind)) {
      const ir::Weight* weight = findings.program.weight(spec.target);
      const ir::Value* value = variant.graph.outputs()[&spec - signature.outputs.data()].value();
      known = weight != nullptr;
      if (weight && (!value || !has_type_of(*weight, *value)))
        findings.add(133, "what an output writes to the state " + quoted(spec.target) + " has another type");
    }
    if (spec.kind == ir::OutputKind::user_input_mutation) {
      known = false;
      for (const ir::InputSpec& input : signature.inputs) {
        known = known || (input.kind == ir::InputKind::user_input && input.target == spec.target);
      }
    }
    if (!known) findings.add(132, "an output mutates " + quoted(spec.target) + ", which is not there");
  }
  if (user_outputs != signature.output_tree.leaf_count()) {
    findings.add(135, "the signature has " + std::to_string(user_outputs) + " user outputs, its tree of outputs " +
                          std::to_string(signature.output_tree.leaf_count()) + " leaves");
  }
}

// Subgraphs run others, but none itself: as deep as that, they would be run on the stack.
void check_nesting(const ir::Variant& variant, Findings& findings) {
  std::map<std::string, std::set<std::string>> runs;  // those that run others
  for (const auto& [name, graph] : variant.subgraphs)
    for (const ir::Node& node : graph.forward())
      for (const ir::Argument& argument : node.arguments())
        if (argument.is<ir::SubgraphRef>()) runs[name].insert(argument.get<ir::SubgraphRef>().name);
  for (int level = 0; level < text::max_depth && !runs.empty(); ++level)  // takes away those that run none of the rest
    std::erase_if(runs, [rest = runs](const auto& entry) {
      return std::none_of(entry.second.begin(), entry.second.end(),
                          [&](const std::string& inner) { return rest.contains(inner); });
    });
  if (!runs.empty())
    findings.add(128, "the subgraph @" + runs.begin()->first + " runs itself, or subgraphs nested more than " +
                          std::to_string(text::max_depth) + " deep");
}

// Whether a run can read the symbol where it says: "n", a number, or "x[0]", a dimension. A variant for one size has
// that in its place; an input that became a constant has no value.
bool is_readable(const ir::Symbol& symbol, const ir::EntryPoint& entry, const ir::Variant& variant) {
  const size_t bracket = symbol.source.rfind('[');
  for (const ir::InputSpec& spec : entry.signature.inputs) {
    const bool is_number = spec.target == symbol.source;
    if (spec.kind != ir::InputKind::user_input || (!is_number && spec.target != symbol.source.substr(0, bracket)))
      continue;
    const ir::Value* value = spec.value.empty() ? nullptr : variant.graph.find(spec.value);
    if (!value) return true;
    if (is_number || !value->is_tensor()) return is_number && !value->is_tensor();
    const std::vector<ir::SymInt>& sizes = value->meta().sizes;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (symbol.source.substr(bracket) == "[" + std::to_string(axis) + "]")
        return sizes[axis].as_symbol() == symbol.name || !sizes[axis].symbols().contains(symbol.name);
    return false;
  }
  return false;
}

void check_entry(const ir::EntryPoint& entry, Findings& findings) {
  std::set<std::string> symbols;
  for (const ir::Symbol& symbol : entry.symbols) {
    if (!symbols.insert(symbol.name).second)
      findings.add(136, "the symbol " + quoted(symbol.name) + " is declared twice");
    if (symbol.range.lower > symbol.range.upper)
      findings.add(136, "the range of the symbol " + quoted(symbol.name) + " is empty");
  }
  if (entry.variants.empty()) findings.add(137, "the entry point " + quoted(entry.name) + " has no graph");
  for (const ir::Variant& variant : entry.variants) {
    check_signature(entry, variant, findings);
    for (const ir::Symbol& symbol : entry.symbols)
      if (!symbol.source.empty() && !is_readable(symbol, entry, variant))
        findings.add(136, "the symbol " + quoted(symbol.name) + " cannot be read from " + quoted(symbol.source));
    check_nesting(variant, findings);
    const shape::Facts facts = entry.facts(variant);
    std::set<std::string> known = check_graph(variant.graph, variant, facts, symbols, findings);
    for (const auto& [name, graph] : variant.subgraphs)
      known.merge(check_graph(graph, variant, facts, symbols, findings));
    for (const auto* constraints : {&variant.assumptions, &variant.guarantees})
      for (const ir::Constraint& constraint : *constraints)
        check_symbols(constraint.truth.symbols(), known, "what is assumed or guaranteed", findings);
  }
}

}  // namespace

std::vector<Diagnostic> problems(const ir::ExportedProgram& program, const opset::Opset& opset,
                                 const text::NodePlaces& places) {
  Findings findings{program, opset, places};
  if (Result<void> known = opset::check_versions(program, opset); !known) findings.problems.push_back(known.error());
  check_weights(findings);
  std::set<std::string> names;
  for (const ir::EntryPoint& entry : program.entries) {
    if (!names.insert(entry.name).second) findings.add(137, "two entry points are named " + quoted(entry.name));
    check_entry(entry, findings);
  }
  if (program.entries.empty()) findings.add(137, "the program has no entry point");
  return std::move(findings.problems);
}

Result<void> check(const ir::ExportedProgram& program, const opset::Opset& opset, const text::NodePlaces& places) {
  std::vector<Diagnostic> found = problems(program, opset, places);
  if (found.empty()) return {};
  Diagnostic first = std::move(found.front());
  if (found.size() > 1) first.notes.push_back({"and " + std::to_string(found.size() - 1) + " more problems"});
  return first;
}

}  // namespace atenon::verify
