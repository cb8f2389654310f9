// Look-ups in a program, and the interning of call stacks.
#include "ir/program.h"

#include <charconv>

namespace atenon::ir {
namespace {

// A spelling of a stack in which every field carries its length, so that different stacks never read alike.
std::string key_of(const CallStack& stack) {
  std::string key;
  const auto put = [&key](const std::string& text) { key += std::to_string(text.size()) + ":" + text; };
  for (const Frame& frame : stack.frames) {
    put(frame.file);
    put(std::to_string(frame.line));
    put(frame.function);
    put(frame.code);
  }
  key += '|';
  put(stack.module_path);
  put(stack.module_class);
  for (const std::string& target : stack.made_from) put(target);
  return key;
}

}  // namespace

std::string unbacked_name(int n) { return "u" + std::to_string(n < 8 ? n : n + 1); }

int unbacked_after(const std::string& name) {
  int number = 0;
  const char* end = name.data() + name.size();
  const bool is_one = name.size() > 1 && name[0] == 'u' && std::from_chars(name.data() + 1, end, number).ptr == end;
  return !is_one ? 0 : number < 8 ? number + 1 : number;
}

Provenance::Provenance() { intern(CallStack{}); }

ProvenanceId Provenance::intern(CallStack stack) {
  const auto [found, is_new] = index_.try_emplace(key_of(stack), static_cast<ProvenanceId>(stacks_.size()));
  if (is_new) stacks_.push_back(std::move(stack));
  return found->second;
}

ProvenanceId Provenance::derive(ProvenanceId id, const std::string& made_from) {
  CallStack stack = at(id);
  stack.made_from.push_back(made_from);
  return intern(std::move(stack));
}

std::string BlockedLayout::to_string() const {
  std::string out = "[";
  for (size_t i = 0; i < strides.size(); ++i) out += (i ? "," : "") + std::to_string(strides[i]);
  out += "]:";
  for (size_t i = 0; i < inner_blocks.size(); ++i) {
    out += (i ? "," : "") + std::to_string(inner_blocks[i].first) + "b" + std::to_string(inner_blocks[i].second);
  }
  return out;
}

const Symbol* EntryPoint::symbol(const std::string& name) const {
  for (const Symbol& symbol : symbols) {
    if (symbol.name == name) return &symbol;
  }
  return nullptr;
}

shape::Facts EntryPoint::facts(const Variant& variant) const {
  shape::Facts facts;
  for (const Symbol& symbol : symbols) facts.declare(symbol.name, symbol.range);
  for (const Constraint& constraint : variant.assumptions) facts.assume(constraint.truth);
  return facts;
}

shape::Facts EntryPoint::facts(const Variant& variant, const Graph& subgraph) const {
  shape::Facts inside = facts(variant);
  for (const Constraint& constraint : subgraph.assumptions) inside.assume(constraint.truth);
  return inside;
}

Variant Variant::clone() const {
  Variant copy;
  copy.name = name;
  copy.assumptions = assumptions;
  copy.guarantees = guarantees;
  copy.graph = graph.clone();
  for (const auto& [called, body] : subgraphs) copy.subgraphs.emplace(called, body.clone());
  copy.annotations = annotations;
  return copy;
}

void Variant::substitute(const shape::Substitution& by) {
  graph.substitute(by);
  for (auto& [called, body] : subgraphs) body.substitute(by);
  for (std::vector<Constraint>* constraints : {&assumptions, &guarantees})
    for (Constraint& constraint : *constraints) constraint.truth = shape::substitute(constraint.truth, by);
  for (Named& annotation : annotations) annotation.argument = ir::substitute(annotation.argument, by);
}

ExportedProgram ExportedProgram::clone() const {
  ExportedProgram copy;
  copy.opsets = opsets;
  copy.custom_blocks = custom_blocks;
  copy.provenance = provenance;
  copy.weights = weights;
  copy.code = code;
  copy.extra_files = extra_files;
  copy.history = history;
  for (const EntryPoint& entry : entries) {
    EntryPoint& to = copy.entries.emplace_back();
    to.name = entry.name;
    to.symbols = entry.symbols;
    to.signature = entry.signature;
    for (const Variant& variant : entry.variants) to.variants.push_back(variant.clone());
  }
  return copy;
}

const Weight* ExportedProgram::weight(const std::string& name) const {
  for (const Weight& weight : weights) {
    if (weight.name == name) return &weight;
  }
  return nullptr;
}

const ExtraFile* ExportedProgram::extra_file(const std::string& name) const {
  for (const ExtraFile& file : extra_files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

const EntryPoint* ExportedProgram::entry(const std::string& name) const {
  for (const EntryPoint& entry : entries) {
    if (name.empty() || entry.name == name) return &entry;
  }
  return nullptr;
}

EntryPoint* ExportedProgram::entry(const std::string& name) {
  return const_cast<EntryPoint*>(std::as_const(*this).entry(name));
}

}  // namespace atenon::ir
