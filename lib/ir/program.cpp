// Look-ups in a program, and the interning of call stacks.
#include "ir/program.h"

#include <algorithm>
#include <charconv>

namespace atenon::ir {
namespace {

size_t hash_of(const CallStack& stack) {
  size_t hash = 0;
  const auto mix = [&hash](size_t part) { hash = (hash ^ part) * 0x9E3779B97F4A7C15 + (hash >> 29); };
  const auto mix_text = [&mix](const std::string& text) { mix(std::hash<std::string>()(text)); };
  for (const SharedFrame& frame : stack.frames) {
    mix_text(frame->file);
    mix(static_cast<size_t>(frame->line));
    mix_text(frame->code);
  }
  mix_text(stack.module_path);
  for (const std::string& target : stack.made_from) mix_text(target);
  return hash;
}

}  // namespace

std::string unbacked_name(int n) { return "u" + std::to_string(n < 8 ? n : n + 1); }

int unbacked_after(const std::string& name) {
  int number = 0;
  const char* end = name.data() + name.size();
  const bool is_one = name.size() > 1 && name[0] == 'u' && std::from_chars(name.data() + 1, end, number).ptr == end;
  return !is_one ? 0 : number < 8 ? number + 1 : number;
}

bool CallStack::operator==(const CallStack& other) const {
  const auto same = [](const SharedFrame& a, const SharedFrame& b) { return a == b || *a == *b; };
  return std::equal(frames.begin(), frames.end(), other.frames.begin(), other.frames.end(), same) &&
         module_path == other.module_path && module_class == other.module_class && made_from == other.made_from;
}

std::string CallStack::place() const {
  if (frames.empty()) return "";
  const Frame& frame = *frames.back();
  return frame.file + ":" + std::to_string(frame.line) + ": " + frame.code;
}

Provenance::Provenance() { intern(CallStack{}); }

ProvenanceId Provenance::intern(CallStack stack) {
  const size_t hash = hash_of(stack);
  const auto [first, last] = index_.equal_range(hash);
  for (auto known = first; known != last; ++known)
    if (stacks_[known->second] == stack) return known->second;
  const auto id = static_cast<ProvenanceId>(stacks_.size());
  stacks_.push_back(std::move(stack));
  index_.emplace(hash, id);
  return id;
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
