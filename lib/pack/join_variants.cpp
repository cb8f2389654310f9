// Variants of one entry point from several programs: one list of inputs, one set of symbols, and guards that tell them
// apart.
#include <algorithm>

#include "pack/join.h"
#include "text/text.h"

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
  const std::string stem = ir::as_name(wish);  // a packed weight's has its layout in it
  std::string name = stem;
  auto taken = [&](const ir::EntryPoint& entry) {
    return std::any_of(entry.variants.begin(), entry.variants.end(),
                       [&](const ir::Variant& variant) { return variant.graph.find(name) != nullptr; });
  };
  for (int suffix = 1; taken(a) || taken(b); ++suffix) name = stem + "_" + std::to_string(suffix);
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

// One list of inputs serves all variants, so an input is fixed to one constant in each of them, or in none.
Result<void> check_constants(ir::EntryPoint& into, const ir::EntryPoint& from, const std::string& source) {
  for (const ir::InputSpec& spec : from.signature.inputs) {
    const ir::InputSpec* same = is_user_input(spec) ? counterpart(into, spec) : nullptr;
    if (!same || (same->constant == spec.constant && same->value.empty() == spec.value.empty())) continue;
    const auto text = [](const ir::InputSpec& of) {
      return of.constant ? "fixed to " + text::print(*of.constant) : std::string("not fixed");
    };
    return misfit(source, into,
                  "the input '" + spec.target + "' is " + text(spec) + " there, and " + text(*same) + " before");
  }
  return {};
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
    if (same && same->value.empty()) {  // state that only `from` reads
      for (ir::Variant& variant : into.variants) variant.graph.add_input(name, type);
      same->value = name;
    } else if (same) {
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
      ir::Value* same = variant.graph.find(spec.value);
      if (same && !same->producer) continue;
      if (same) variant.graph.rename(same, free_name(into, from, spec.value));  // a result that happens to be called so
      variant.graph.add_input(spec.value, type);
    }
  }
  for (ir::EntryPoint* entry : {&into, &from}) {
    for (ir::Variant& variant : entry->variants) variant.graph.order_inputs(order);
  }
}

std::string free_symbol_name(const ir::EntryPoint& entry, const std::string& wish) {
  std::string name = wish;
  for (int suffix = 1; entry.symbol(name); ++suffix) name = wish + "_" + std::to_string(suffix);
  return name;
}

// The smallest range that holds both.
shape::Range hull(const shape::Range& a, const shape::Range& b) {
  return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
}

// Others are named after the value that they are.
bool is_dimension(const ir::Symbol& symbol) { return symbol.source.ends_with(']'); }

// The name of a size for which no program has one: "x_0" for "x[0]".
std::string name_of_place(const std::string& source) {
  std::string name;
  for (char c : source) name += isalnum(static_cast<unsigned char>(c)) ? c : '_';
  while (name.ends_with('_')) name.pop_back();
  return name;
}

// Afterwards one name means one dimension in both: each program chose its names for itself, so `n` may be x[0] here and
// y[0] there. `into` has all symbols of both; the ranges of dimensions are join_dimension's affair.
Result<void> join_symbols(ir::EntryPoint& into, ir::EntryPoint& from, const std::string& source) {
  shape::Substitution renamed, named;
  for (ir::Symbol& symbol : from.symbols) {
    const std::string before = symbol.name;
    const auto same = std::find_if(into.symbols.begin(), into.symbols.end(), [&](const ir::Symbol& other) {
      return is_dimension(symbol) ? other.source == symbol.source : other.name == symbol.name;
    });
    if (same == into.symbols.end()) {
      if (is_dimension(symbol)) symbol.name = free_symbol_name(into, before);
      into.symbols.push_back(symbol);
    } else {
      if (is_dimension(symbol) && same->name == name_of_place(symbol.source) && !into.symbol(symbol.name)) {
        named.emplace(same->name, shape::SymInt::symbol(symbol.name));
        same->name = symbol.name;
      }
      const bool is_taken = std::any_of(from.symbols.begin(), from.symbols.end(), [&](const ir::Symbol& other) {
        return other.name == same->name && is_dimension(other) != is_dimension(symbol);
      });
      if (same->source != symbol.source || is_taken)
        return misfit(source, into, "the symbol " + same->name + " means something else in it");
      symbol.name = same->name;
      if (!is_dimension(symbol)) same->range = hull(same->range, symbol.range);
    }
    if (symbol.name != before) renamed.emplace(before, shape::SymInt::symbol(symbol.name));
  }
  for (ir::Variant& variant : from.variants) variant.substitute(renamed);
  for (ir::Variant& variant : into.variants) variant.substitute(named);  // by a name that a program has for it
  return {};
}

// The symbol of `entry` that is read from `source`; made if there is none.
ir::Symbol& symbol_for(ir::EntryPoint& entry, const std::string& source) {
  for (ir::Symbol& symbol : entry.symbols)
    if (symbol.source == source) return symbol;
  entry.symbols.push_back({free_symbol_name(entry, name_of_place(source)),
                           {shape::Range::highest, shape::Range::lowest},
                           std::nullopt,
                           source});
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
  for (ir::EntryPoint* entry : {&into, &from})
    for (ir::Variant& variant : entry->variants)
      extents.push_back({&variant, variant.graph.find(value)->meta().sizes[axis], {}});
  const shape::SymInt first = extents.front().size;
  const bool same_sizes =
      std::all_of(extents.begin(), extents.end(), [&](const Extent& extent) { return extent.size == first; });
  const std::optional<std::string> name = first.as_symbol();
  // What is computed from another dimension in all of them is told apart there.
  if (same_sizes && (!name || into.symbol(*name)->source != source)) return {};

  const size_t count = into.variants.size();
  for (size_t i = 0; i < extents.size(); ++i) {
    Extent& extent = extents[i];
    const std::optional<std::string> symbol = extent.size.as_symbol();
    if (!symbol && !extent.size.is_constant())
      return misfit(file, into, source + " is computed from other sizes in one of them");
    extent.range = symbol ? std::as_const(i < count ? into : from).symbol(*symbol)->range
                          : shape::Range{*extent.size.constant(), *extent.size.constant()};
  }
  if (same_sizes && std::all_of(extents.begin(), extents.end(),
                                [&](const Extent& extent) { return extent.range == extents.front().range; }))
    return {};

  ir::Symbol& symbol = symbol_for(into, source);
  for (const Extent& extent : extents) symbol.range = hull(symbol.range, extent.range);
  for (const Extent& extent : extents) {
    // A variant's own name for the size: it may be that of another dimension, which must be as large.
    const shape::SymInt size = extent.size.is_constant() ? shape::SymInt::symbol(symbol.name) : extent.size;
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

// Sizes may be others, and what is a number in one may be a constant in the other.
bool has_same_kind(const ir::Argument& a, const ir::Argument& b) {
  const ir::Value *x = a.value(), *y = b.value();
  if (!x || !y) return true;
  return x->is_tensor() == y->is_tensor() &&
         (!x->is_tensor() || (x->meta().dtype == y->meta().dtype && x->meta().rank() == y->meta().rank()));
}

}  // namespace

Result<void> join_variants(ir::EntryPoint& into, ir::EntryPoint from, const std::string& source) {
  if (!(into.signature.input_tree == from.signature.input_tree)) return misfit(source, into, "their inputs differ");
  if (!same_outputs(into.signature, from.signature)) return misfit(source, into, "their outputs differ");
  if (const auto &a = into.variants[0].graph.outputs(), &b = from.variants[0].graph.outputs();
      !std::equal(a.begin(), a.end(), b.begin(), b.end(), has_same_kind))
    return misfit(source, into, "their outputs have other types");
  if (Result<void> same = check_constants(into, from, source); !same) return same;
  join_inputs(into, from);
  if (Result<void> joined = join_symbols(into, from, source); !joined) return joined;
  for (const ir::InputSpec& spec : into.signature.inputs) {
    if (!is_user_input(spec) || spec.value.empty()) continue;
    ir::Value* mine = into.variants[0].graph.find(spec.value);
    if (!has_same_kind(mine, from.variants[0].graph.find(spec.value)))
      return misfit(source, into, "the input '" + spec.target + "' has another type");
    if (!mine->is_tensor()) continue;
    for (size_t axis = 0; axis < mine->meta().sizes.size(); ++axis) {
      std::string place = spec.target + "[" + std::to_string(axis) + "]";
      if (Result<void> joined = join_dimension(into, from, spec.value, axis, place, source); !joined) return joined;
    }
  }
  for (ir::Variant& variant : from.variants) {
    variant.name = free_variant_name(into, variant.name);
    into.variants.push_back(std::move(variant));
  }
  return {};
}

}  // namespace atenon::pack
