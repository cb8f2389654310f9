// Variants of one entry point from several programs: one list of inputs, one set of symbols, and guards that tell them
// apart.
#include <algorithm>

#include "pack/join.h"

namespace atenon::pack {
namespace {

Diagnostic misfit(const std::string& source, const ir::EntryPoint& entry, const std::string& what) {
  return error(Status::bad_input, 550, source + " is no variant of the entry point '" + entry.name + "': " + what)
      .note("variants of one entry point have the same inputs and outputs; give it a name of its own: other=" + source);
}

bool is_user_input(const ir::InputSpec& spec) { return spec.kind == ir::InputKind::user_input; }

// The input of `entry` that stands for the same thing as `spec`: the same argument, or the same weight.
ir::InputSpec* counterpart(ir::EntryPoint& entry, const ir::InputSpec& spec) {
  for (ir::InputSpec& other : entry.signature.inputs) {
    if (is_user_input(other) == is_user_input(spec) && other.target == spec.target) return &other;
  }
  return nullptr;
}

std::string free_name(const ir::EntryPoint& a, const ir::EntryPoint& b, const std::string& wish) {
  std::string name = wish;
  auto taken = [&](const ir::EntryPoint& entry) {
    return std::any_of(entry.variants.begin(), entry.variants.end(),
                       [&](const ir::Variant& variant) { return variant.graph.find(name) != nullptr; });
  };
  for (int suffix = 1; taken(a) || taken(b); ++suffix) name = wish + "_" + std::to_string(suffix);
  return name;
}

// Variants that had no name, being the only ones, are numbered.
std::string free_variant_name(const ir::EntryPoint& entry, const std::string& wish) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(entry.variants.begin(), entry.variants.end(),
                       [&](const ir::Variant& variant) { return variant.name == name; });
  };
  if (!taken(wish)) return wish;
  std::string name;
  for (size_t number = entry.variants.size() + 1; name.empty() || taken(name); ++number) {
    name = wish + (wish.empty() ? "" : "_") + std::to_string(number);
  }
  return name;
}

// Gives both entry points the inputs of both, under one name and in one order.
void join_inputs(ir::EntryPoint& into, ir::EntryPoint& from) {
  for (ir::InputSpec& spec : from.signature.inputs) {
    if (spec.value.empty()) continue;
    ir::InputSpec* same = counterpart(into, spec);
    if (same && same->value == spec.value) continue;
    std::string name = free_name(into, from, spec.target);
    ir::Type type = from.variants[0].graph.find(spec.value)->type;
    for (ir::Variant& variant : from.variants) variant.graph.rename(variant.graph.find(spec.value), name);
    spec.value = name;
    if (same) {
      for (ir::Variant& variant : into.variants) variant.graph.rename(variant.graph.find(same->value), name);
      same->value = name;
    } else {
      for (ir::Variant& variant : into.variants) variant.graph.add_input(name, type);
      into.signature.inputs.push_back(spec);
    }
  }
  std::vector<std::string> order;
  for (const ir::InputSpec& spec : into.signature.inputs) {
    if (spec.value.empty()) continue;
    order.push_back(spec.value);
    const ir::Type& type = into.variants[0].graph.find(spec.value)->type;
    for (ir::Variant& variant : from.variants) {
      if (!variant.graph.find(spec.value)) variant.graph.add_input(spec.value, type);
    }
  }
  for (ir::EntryPoint* entry : {&into, &from}) {
    for (ir::Variant& variant : entry->variants) variant.graph.order_inputs(order);
  }
}

// The symbol of `entry` that is read from `source`; made if there is none.
ir::Symbol& symbol_for(ir::EntryPoint& entry, const std::string& source) {
  for (ir::Symbol& symbol : entry.symbols) {
    if (symbol.source == source) return symbol;
  }
  std::string name;
  for (char c : source) name += isalnum(static_cast<unsigned char>(c)) ? c : '_';
  while (name.ends_with('_')) name.pop_back();
  entry.symbols.push_back({name, {shape::Range::highest, shape::Range::lowest}, std::nullopt, source});
  return entry.symbols.back();
}

void assume(ir::Variant& variant, const shape::SymBool& truth) {
  if (truth.constant() == true) return;
  for (const ir::Constraint& known : variant.assumptions) {
    if (known.truth == truth) return;
  }
  variant.assumptions.push_back({truth, 0, "chooses the variant"});
}

// One variant's sizes of one input dimension.
struct Extent {
  ir::Variant* variant = nullptr;
  shape::SymInt size;
  shape::Range range;
};

// Brings one dimension of a user input under one symbol where variants differ in it, with guards that say which size
// goes where.
Result<void> join_dimension(ir::EntryPoint& into, ir::EntryPoint& from, const std::string& value, size_t axis,
                            const std::string& source, const std::string& file) {
  std::vector<Extent> extents;
  for (ir::EntryPoint* entry : {&into, &from}) {
    for (ir::Variant& variant : entry->variants) {
      shape::SymInt size = variant.graph.find(value)->meta().sizes[axis];
      std::optional<std::string> name = size.as_symbol();
      const ir::Symbol* symbol = name ? entry->symbol(*name) : nullptr;
      if (!symbol && !size.is_constant())
        return misfit(file, into, source + " is computed from other sizes in one of them");
      shape::Range range = symbol ? symbol->range : shape::Range{*size.constant(), *size.constant()};
      extents.push_back({&variant, size, range});
    }
  }
  const Extent& first = extents.front();
  bool same = std::all_of(extents.begin(), extents.end(),
                          [&](const Extent& e) { return e.size == first.size && e.range == first.range; });
  if (same) return {};

  ir::Symbol& symbol = symbol_for(into, source);
  for (const Extent& extent : extents) {
    symbol.range = {std::min(symbol.range.lower, extent.range.lower), std::max(symbol.range.upper, extent.range.upper)};
  }
  shape::SymInt size = shape::SymInt::symbol(symbol.name);
  for (const Extent& extent : extents) {
    if (std::optional<std::string> name = extent.size.as_symbol(); name && *name != symbol.name) {
      shape::Substitution renamed = {{*name, size}};
      extent.variant->graph.substitute(renamed);
      for (auto& [graph_name, graph] : extent.variant->subgraphs) graph.substitute(renamed);
      for (ir::Constraint& constraint : extent.variant->assumptions)
        constraint.truth = shape::substitute(constraint.truth, renamed);
    }
    if (extent.range.lower == extent.range.upper) {
      assume(*extent.variant, shape::equal(size, extent.range.lower));
      continue;
    }
    if (extent.range.lower > symbol.range.lower) assume(*extent.variant, shape::less_equal(extent.range.lower, size));
    if (extent.range.upper < symbol.range.upper) assume(*extent.variant, shape::less_equal(size, extent.range.upper));
  }
  return {};
}

bool same_outputs(const ir::GraphSignature& a, const ir::GraphSignature& b) {
  auto same = [](const ir::OutputSpec& x, const ir::OutputSpec& y) { return x.kind == y.kind && x.target == y.target; };
  return a.output_tree == b.output_tree &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(), same);
}

}  // namespace

Result<void> join_variants(ir::EntryPoint& into, ir::EntryPoint from, const std::string& source) {
  if (!(into.signature.input_tree == from.signature.input_tree)) return misfit(source, into, "their inputs differ");
  if (!same_outputs(into.signature, from.signature)) return misfit(source, into, "their outputs differ");
  join_inputs(into, from);
  for (const ir::InputSpec& spec : into.signature.inputs) {
    if (!is_user_input(spec) || spec.value.empty()) continue;
    const ir::Value* mine = into.variants[0].graph.find(spec.value);
    const ir::Value* theirs = from.variants[0].graph.find(spec.value);
    if (mine->is_tensor() != theirs->is_tensor())
      return misfit(source, into, "the input '" + spec.target + "' has another type");
    if (!mine->is_tensor()) continue;
    if (mine->meta().dtype != theirs->meta().dtype || mine->meta().rank() != theirs->meta().rank()) {
      return misfit(source, into, "the input '" + spec.target + "' has another type");
    }
    for (size_t axis = 0; axis < mine->meta().sizes.size(); ++axis) {
      std::string place = spec.target + "[" + std::to_string(axis) + "]";
      if (Result<void> joined = join_dimension(into, from, spec.value, axis, place, source); !joined) return joined;
    }
  }
  for (ir::Symbol& symbol : from.symbols) {
    if (into.symbol(symbol.name)) continue;
    bool joined = std::any_of(into.symbols.begin(), into.symbols.end(), [&](const ir::Symbol& other) {
      return !symbol.source.empty() && other.source == symbol.source;
    });
    if (!joined) into.symbols.push_back(std::move(symbol));
  }
  for (ir::Variant& variant : from.variants) {
    variant.name = free_variant_name(into, variant.name);
    into.variants.push_back(std::move(variant));
  }
  return {};
}

}  // namespace atenon::pack
