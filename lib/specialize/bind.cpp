// Bindings from the command line: `batch=1`, `seq=1..2048`, `batch=1,8,32`, `n=3`, `mask=none`.
//
// A symbol with one value vanishes: its dimension becomes that size. With several values the symbol stays, because the
// inputs' sizes choose the variant; each variant assumes its value and has it substituted.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "specialize/passes.h"

namespace atenon::specialize {
namespace {

struct Binding {
  std::string text;  // as the user wrote it
  std::string name;
  std::vector<int64_t> values;             // one or several
  std::optional<shape::Range> range = {};  // instead of values
  bool none = false;
};

std::optional<int64_t> number(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && rest == end && !text.empty() ? std::optional(value) : std::nullopt;
}

Diagnostic unreadable(const std::string& text) {
  return error(Status::usage, 410, "cannot read the binding '" + text + "'")
      .note("write batch=1, batch=1,8,32, seq=1..2048 or mask=none");
}

Result<Binding> parse(const std::string& text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return unreadable(text);
  Binding binding{text, text.substr(0, equals), {}};
  std::string value = text.substr(equals + 1);
  if (value == "none") {
    binding.none = true;
    return binding;
  }
  if (size_t dots = value.find(".."); dots != std::string::npos) {
    std::optional<int64_t> lower = number(value.substr(0, dots)), upper = number(value.substr(dots + 2));
    if (!lower || !upper || *lower > *upper) return unreadable(text);
    binding.range = {*lower, *upper};
    return binding;
  }
  for (size_t start = 0; start <= value.size();) {
    size_t comma = std::min(value.find(',', start), value.size());
    std::optional<int64_t> one = number(value.substr(start, comma - start));
    if (!one) return unreadable(text);
    if (std::find(binding.values.begin(), binding.values.end(), *one) == binding.values.end())
      binding.values.push_back(*one);
    start = comma + 1;
  }
  return binding;
}

Diagnostic out_of_range(const Binding& binding, const ir::Symbol& symbol) {
  return error(Status::violated, 411, "'" + binding.text + "' leaves the range of " + symbol.name)
      .note(symbol.name + " is " + symbol.source + ", captured in " + symbol.range.to_string())
      .note("capture the model again with a wider range for it");
}

// Puts `value` for `symbol` into a variant. Assumptions that it refutes are an error.
Result<void> substitute(ir::Variant& variant, const std::string& symbol, int64_t value, const Binding& binding) {
  const shape::Substitution substitution = {{symbol, shape::SymInt(value)}};
  for (const auto* constraints : {&variant.assumptions, &variant.guarantees})
    for (const ir::Constraint& constraint : *constraints) {
      if (shape::substitute(constraint.truth, substitution).constant() != false) continue;
      Diagnostic refuted =
          error(Status::violated, 411, "'" + binding.text + "' breaks the assumption " + constraint.truth.to_string());
      if (!constraint.reason.empty()) refuted.notes.push_back({"assumed because " + constraint.reason});
      return refuted;
    }
  variant.substitute(substitution);
  return {};
}

Result<void> bind_symbol(ir::EntryPoint& entry, size_t position, const Binding& binding) {
  ir::Symbol& symbol = entry.symbols[position];
  if (binding.none) return unreadable(binding.text);
  if (binding.range) {
    if (!symbol.range.contains(binding.range->lower) || !symbol.range.contains(binding.range->upper))
      return out_of_range(binding, symbol);
    symbol.range = *binding.range;
    if (symbol.hint && !symbol.range.contains(*symbol.hint)) symbol.hint = symbol.range.upper;
    return {};
  }
  for (int64_t value : binding.values) {
    if (!symbol.range.contains(value)) return out_of_range(binding, symbol);
  }
  // A value belongs to the variants whose assumptions allow it; there must be one for each.
  std::vector<ir::Variant> variants;
  std::map<int64_t, Diagnostic> refused;
  std::set<int64_t> allowed;
  const bool is_one = binding.values.size() == 1;
  for (const ir::Variant& variant : entry.variants)
    for (int64_t value : binding.values) {
      ir::Variant copy = variant.clone();
      const shape::SymBool is_it = shape::equal(shape::SymInt::symbol(symbol.name), value);
      const bool is_told =
          std::ranges::any_of(variant.assumptions, [&](const auto& known) { return known.truth == is_it; });
      if (Result<void> done = substitute(copy, symbol.name, value, binding); !done) {
        refused.emplace(value, done.error());
        continue;
      }
      allowed.insert(value);
      if (!is_one) {
        const std::string name = symbol.name + "=" + std::to_string(value);
        if (!is_told) copy.name = copy.name.empty() ? name : copy.name + "," + name;
        copy.assumptions.push_back({is_it, 0, binding.text});
      }
      variants.push_back(std::move(copy));
    }
  for (const auto& [value, why] : refused)
    if (!allowed.contains(value)) return why;
  entry.variants = std::move(variants);
  if (is_one) {
    // Another symbol's source may not go with it: sources name input dimensions, not symbols.
    entry.symbols.erase(entry.symbols.begin() + static_cast<ptrdiff_t>(position));
    return {};
  }
  symbol.range = {*std::min_element(binding.values.begin(), binding.values.end()),
                  *std::max_element(binding.values.begin(), binding.values.end())};
  if (symbol.hint && std::ranges::find(binding.values, *symbol.hint) == binding.values.end())
    symbol.hint = binding.values.front();
  return {};
}

// An input that is a number becomes its value; one that nothing reads may become None.
Result<void> bind_input(ir::EntryPoint& entry, ir::InputSpec& spec, const Binding& binding) {
  if (binding.range || binding.values.size() > 1) return unreadable(binding.text);
  for (ir::Variant& variant : entry.variants) {
    ir::Value* value = variant.graph.find(spec.value);
    if (binding.none && value->has_users()) {
      return error(Status::usage, 411, "the program reads the input '" + spec.target + "', so it cannot be none")
          .note("capture the model again without this input");
    }
    if (!binding.none) {
      if (value->is_tensor())
        return error(Status::usage, 411, "the input '" + spec.target + "' is a tensor, not a number");
      if (Result<void> done = substitute(variant, value->name, binding.values[0], binding); !done) return done;
      variant.graph.replace_uses(value, binding.values[0]);
    }
    variant.graph.erase_input(value);
  }
  spec.value.clear();
  spec.constant = binding.none ? ir::Argument(ir::None{}) : ir::Argument(binding.values[0]);
  return {};
}

// Whether `earlier` takes all inputs that `variant` takes.
bool is_covered(const ir::EntryPoint& entry, const ir::Variant& variant, const ir::Variant& earlier) {
  shape::Facts known = entry.facts(variant);
  for (const ir::InputSpec& spec : entry.signature.inputs) {
    const ir::Value* input = spec.value.empty() ? nullptr : variant.graph.find(spec.value);
    for (size_t axis = 0; input && input->is_tensor() && axis < input->meta().sizes.size(); ++axis)
      for (const ir::Symbol& symbol : entry.symbols)
        if (symbol.source == spec.target + "[" + std::to_string(axis) + "]")
          known.assume(shape::equal(shape::SymInt::symbol(symbol.name), input->meta().sizes[axis]));
  }
  const auto is_taken = [&](const auto& input, const auto& by) {
    if (!input->is_tensor() || !by->is_tensor()) return input->type == by->type;
    const auto is_same = [&](const shape::SymInt& a, const shape::SymInt& b) {
      return known.proves(shape::equal(a, b));
    };
    return input->meta().dtype == by->meta().dtype &&
           std::ranges::equal(input->meta().sizes, by->meta().sizes, is_same);
  };
  const auto holds = [&](const ir::Constraint& assumption) { return known.proves(assumption.truth); };
  return std::ranges::equal(variant.graph.inputs(), earlier.graph.inputs(), is_taken) &&
         std::ranges::all_of(earlier.assumptions, holds);
}

// The first variant that takes the inputs is run: one that others leave no inputs for never is.
void remove_covered(ir::EntryPoint& entry) {
  std::vector<ir::Variant> all = std::exchange(entry.variants, {});
  for (ir::Variant& variant : all) {
    const auto covers = [&](const ir::Variant& earlier) { return is_covered(entry, variant, earlier); };
    if (std::ranges::none_of(entry.variants, covers)) entry.variants.push_back(std::move(variant));
  }
}

// What the program assumes about a name of the model's that none of its symbols has: "x[0] is 4*h".
std::set<std::string> reasons_with(const ir::ExportedProgram& program, const std::string& name) {
  std::set<std::string> reasons;
  for (const ir::EntryPoint& entry : program.entries)
    for (const ir::Variant& variant : entry.variants)
      for (const ir::Constraint& assumption : variant.assumptions) {
        const size_t is = assumption.reason.find(" is ");
        if (is == std::string::npos) continue;
        const Result<shape::SymInt> size = shape::parse_int(assumption.reason.substr(is + 4));
        if (size && size->symbols().contains(name)) reasons.insert(assumption.reason);
      }
  return reasons;
}

Result<void> bind_one(ir::ExportedProgram& program, const Binding& binding) {
  bool found = false;
  std::vector<std::string> known;
  std::string list;  // of the same, with the dimensions that symbols of another name stand for
  const auto list_one = [&](const std::string& name, const std::string& of) {
    known.push_back(name);
    list += (list.empty() ? "" : ", ") + name + (of.empty() || of == name ? "" : " (" + of + ")");
  };
  for (ir::EntryPoint& entry : program.entries) {
    bool is_bound = false;
    std::string number = binding.name;  // the input that is one, with its value
    for (size_t i = 0; i < entry.symbols.size() && !is_bound; ++i) {
      const std::string name = entry.symbols[i].name, source = entry.symbols[i].source;
      list_one(name, source);
      is_bound = binding.name == name || (binding.name == source && source.ends_with(']'));
      if (!is_bound) continue;
      if (Result<void> done = bind_symbol(entry, i, binding); !done) return done;
      number = binding.values.size() == 1 ? source : "";
    }
    for (ir::InputSpec& spec : entry.signature.inputs) {
      if (spec.kind != ir::InputKind::user_input || spec.value.empty()) continue;
      list_one(spec.target, "");
      if (spec.target != number) continue;
      is_bound = true;
      if (Result<void> done = bind_input(entry, spec, binding); !done) return done;
    }
    if (is_bound) remove_covered(entry);
    found = found || is_bound;
  }
  if (found) return {};
  Diagnostic unknown = error(Status::usage, 410, "the program has no symbol or input '" + binding.name + "'");
  std::string near = nearest(binding.name, known);
  if (!near.empty()) unknown.notes.push_back({"did you mean '" + near + "'?"});
  unknown.notes.push_back({list.empty() ? "it has none: all its sizes are fixed" : "it has " + list});
  for (const std::string& reason : reasons_with(program, binding.name)) unknown.notes.push_back({reason});
  return unknown;
}

}  // namespace

Result<void> bind(ir::ExportedProgram& program, const Options& options) {
  std::map<std::string, std::string> given;  // by name, as the user wrote it
  for (const std::string& text : options.bindings) {
    Result<Binding> binding = parse(text);
    if (!binding) return binding.error();
    if (const auto [other, is_first] = given.emplace(binding->name, text); !is_first)
      return error(Status::usage, 410, "'" + binding->name + "' is bound twice: " + other->second + " and " + text)
          .note("write " + binding->name + "=2,3 for a variant each");
    if (Result<void> done = bind_one(program, *binding); !done) return done;
    if (options.report) options.report->push_back("bound " + text);
  }
  return {};
}

namespace {

// What follows from what is known, and from the others that are still there, needs no check of its own.
void discharge(Scope& scope, std::vector<ir::Constraint>& constraints, const shape::Facts& known) {
  std::vector<ir::Constraint> all = std::move(constraints);
  constraints.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<shape::SymBool> others;
    for (const ir::Constraint& kept : constraints) others.push_back(kept.truth);
    for (size_t j = i + 1; j < all.size(); ++j) others.push_back(all[j].truth);
    const shape::SymBool& truth = all[i].truth;
    if (known.about(truth, others).decide(truth) == shape::Truth::proven)
      scope.report("discharged " + truth.to_string());
    else
      constraints.push_back(std::move(all[i]));
  }
}

}  // namespace

void discharge_assumptions(Scope& scope) {
  shape::Facts ranges;
  for (const ir::Symbol& symbol : scope.entry.symbols) ranges.declare(symbol.name, symbol.range);
  discharge(scope, scope.variant.assumptions, ranges);
  const shape::Facts known = scope.entry.facts(scope.variant);
  for (auto& [name, graph] : scope.variant.subgraphs) discharge(scope, graph.assumptions, known);
}

}  // namespace atenon::specialize
