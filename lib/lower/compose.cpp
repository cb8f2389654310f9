// From the meanings of a body's nodes to one set of expressions.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "lower/expressions.h"
#include "reference/complex_parts.h"

namespace atenon::lower {

namespace {

using ir::Value;
using opset::Meaning;
using opset::Scalar;
using opset::ScalarId;

constexpr int64_t few_terms = 4;

Diagnostic refuse(std::string why) { return error(Status::unsupported, 0, std::move(why)); }

class Composer : private Expressions {
 public:
  Composer(const MeaningOf& meaning_of, const LayoutOf& layout_of, const shape::Facts& facts, Loops& loops)
      : Expressions(facts, loops), meaning_of_(meaning_of), layout_of_(layout_of) {}

  Result<void> run(const ir::Graph& body);
  bool moves_pairs(const Value* value) const;
  std::vector<const ir::Node*> scatters_of(const ir::Graph& body) const;
  int kept_axis(const std::vector<const ir::Node*>& scatters, int variable) const;
  Result<void> run_scatter(const std::vector<const ir::Node*>& scatters);
  Accesses record(const Meaning& meaning);
  std::optional<Access> read_through(const std::vector<const Meaning*>& views);
  std::optional<std::vector<SymInt>> written_place(const Meaning& meaning);

 private:
  // One meaning at one index.
  struct Instance {
    const Meaning* meaning;
    std::map<int, SymInt> variables;
    std::map<ScalarId, ExprId> done;
    std::map<int, int> reductions;
    std::map<ScalarId, ExprId> placeholders;
  };

  SymInt loop_over(const SymInt& size);
  ExprId element(const Value* value, const std::vector<SymInt>& index);
  ExprId read(const Value* value, const std::vector<SymInt>& index);
  ExprId scalar(Instance& instance, ScalarId id);
  int reduction(Instance& instance, int number);
  std::string bind_loops(Instance& instance, const opset::Reduction& reduction, BoundReduction& bound);
  int intern_reduction(BoundReduction bound);
  ExprId window(const Instance& instance, const Scalar& reduce);
  std::optional<std::vector<SymInt>> index_in_domain(const ir::TensorMeta& result, const ir::TensorMeta& widest,
                                                     const std::vector<SymInt>& domain) const;
  bool slides(const Instance& instance, const opset::Reduction& reduction, const std::vector<int64_t>& extents);

  const MeaningOf& meaning_of_;
  const LayoutOf& layout_of_;
  std::map<std::pair<const Value*, std::string>, ExprId> elements_;
  std::map<std::string, int> interned_reductions_;
  std::vector<Access>* recorded_ = nullptr;  // reads are noted here instead of composed
};

// --- Reads

ExprId Composer::read(const Value* value, const std::vector<SymInt>& index) {
  if (recorded_) {
    recorded_->push_back({value, index});
    for (const SymInt& at : index)
      if (!values_in(at).empty()) recorded_->back().looked_up |= loops_.loops_of(at);
  }
  const RealForm form = real_form(value->meta(), layout_of_(*value));
  std::vector<SymInt> inside = index;
  bool partial = false;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    SymInt& at = inside[axis];
    // What the data says must not lead outside the tensor.
    if (!values_in(at).empty()) {
      at = index_of(clamped(integer(at), form.sizes[axis]));
    } else if (!space_.is_within(at, form.sizes[axis])) {
      partial = true;
    }
  }
  const ScalarType stored = form.layout.stored.value_or(form.dtype);
  const ExprId element = intern({.op = ScalarOp::read,
                                 .dtype = stored,
                                 .index = address_of(form.layout, inside),
                                 .buffer = value->index,
                                 .is_partial = partial,
                                 .is_open = partial});
  return stored == form.dtype ? element : intern({.op = ScalarOp::cast, .dtype = form.dtype, .operands = {element}});
}

ExprId Composer::element(const Value* value, const std::vector<SymInt>& index) {
  if (!value->is_tensor()) return fail("%" + value->name + " is a number that is computed at run time");
  if (!value->producer || recorded_) return read(value, index);
  std::string key;
  for (const SymInt& at : index) key += at.to_string() + ";";
  const auto memo = std::make_pair(value, key);
  if (auto found = elements_.find(memo); found != elements_.end()) return found->second;
  const Meaning* meaning = meaning_of_(*value->producer);
  if (!meaning) return fail(value->producer->target() + " has no loops");
  if (meaning->scatter) return fail(value->producer->target() + " scatters");
  const opset::LoopNest& nest = meaning->results[value->index];
  assert(nest.variables.size() == index.size());
  Instance instance{.meaning = meaning};
  for (size_t axis = 0; axis < index.size(); ++axis) instance.variables[nest.variables[axis]] = index[axis];
  ExprId result = scalar(instance, nest.value);
  // A 16-bit result is rounded as if it had been stored.
  if (is_half(nest.type.dtype)) result = intern({.op = ScalarOp::cast, .dtype = nest.type.dtype, .operands = {result}});
  elements_[memo] = result;
  return result;
}

// --- Scalars

// Whether a value is computed from elements of tensors.
bool looks_up(const Meaning& meaning, ScalarId id) {
  const Scalar& scalar = meaning.scalars[id];
  return scalar.op == ScalarOp::read || scalar.op == ScalarOp::reduce ||
         std::ranges::any_of(scalar.operands, [&](ScalarId operand) { return looks_up(meaning, operand); });
}

ExprId Composer::scalar(Instance& instance, ScalarId id) {
  if (auto found = instance.done.find(id); found != instance.done.end()) return found->second;
  if (auto found = instance.placeholders.find(id); found != instance.placeholders.end()) return found->second;
  if (!failure_.empty()) return integer(0);
  const Scalar& scalar_ = instance.meaning->scalars[id];
  ExprId result = no_expr;
  switch (scalar_.op) {
    case ScalarOp::constant:
      result = scalar_.dtype == ScalarType::i64 ? integer(scalar_.integer)
                                                : intern({.op = ScalarOp::constant,
                                                          .dtype = scalar_.dtype,
                                                          .number = scalar_.number,
                                                          .integer = scalar_.integer});
      break;
    case ScalarOp::size:
      result = integer(scalar_.size);
      break;
    case ScalarOp::size_float:
      result =
          scalar_.size_float.constant()
              ? intern({.op = ScalarOp::constant, .dtype = scalar_.dtype, .number = *scalar_.size_float.constant()})
              : intern({.op = ScalarOp::size_float, .dtype = scalar_.dtype, .size_float = scalar_.size_float});
      break;
    case ScalarOp::index: {
      auto variable = instance.variables.find(scalar_.variable);
      if (variable == instance.variables.end()) return fail("a loop variable is used outside its loop");
      result = integer(variable->second);
      break;
    }
    case ScalarOp::read: {
      const Value* tensor = instance.meaning->tensors[scalar_.tensor];
      const std::vector<SymInt>& sizes = tensor->meta().sizes;
      std::vector<SymInt> index;
      for (ScalarId operand : scalar_.operands) {
        const size_t axis = index.size();  // behind the last one: the parts of complex numbers
        SymInt at = index_of(scalar(instance, operand));
        // What an index tensor holds is perhaps known, as that of an arange, and may still lead outside.
        if (axis < sizes.size() && values_in(at).empty() && looks_up(*instance.meaning, operand) &&
            !space_.is_within(at, sizes[axis]))
          at = shape::max(0, shape::min(at, sizes[axis] - 1));
        index.push_back(at);
      }
      result = element(tensor, index);
      break;
    }
    case ScalarOp::reduce: {
      if (ExprId unrolled = window(instance, scalar_); unrolled != no_expr) {
        result = unrolled;
        break;
      }
      const int number = reduction(instance, scalar_.reduction);
      if (number < 0) return integer(0);
      result =
          intern({.op = ScalarOp::reduce, .dtype = scalar_.dtype, .reduction = number, .component = scalar_.component});
      break;
    }
    default: {
      std::vector<ExprId> operands;
      for (ScalarId operand : scalar_.operands) operands.push_back(scalar(instance, operand));
      result = apply(scalar_.op, scalar_.dtype, std::move(operands));
    }
  }
  instance.done[id] = result;
  return result;
}

// --- Reductions

// Gives a reduction its loops, and its variables theirs. A loop that is free where we stand and has the right extent is
// shared, the innermost first. "" or why it cannot be.
std::string Composer::bind_loops(Instance& instance, const opset::Reduction& reduction, BoundReduction& bound) {
  const std::map<ScalarId, ExprId> done = instance.done;
  LoopSet taken = 0;
  for (const auto& [variable, value] : instance.variables) taken |= loops_.loops_of(value);
  for (size_t i = 0; i < reduction.variables.size(); ++i) {
    const ExprId counted = scalar(instance, reduction.extents[i]);
    if (loops_.exprs[counted].is_partial) return "the extent of a reduction is only defined under a condition";
    const SymInt extent = index_of(counted);
    taken |= loops_.loops_of(extent);
    int loop = -1;
    if (reduction.prefix) {
      // It runs along an axis of the result, whose loop it shares.
      const int axis_variable = instance.meaning->results[0].variables[reduction.prefix_axis];
      const std::optional<std::string> symbol = instance.variables.at(axis_variable).as_symbol();
      const int shared = symbol ? loop_of(*symbol).value_or(-1) : -1;
      if (reduction.variables.size() != 1 || shared < 0 || shared >= static_cast<int>(loops_.loops.size()))
        return "it keeps the prefixes of a reduction over several axes";
      loop = shared;
      bound.is_prefix = true;
    }
    for (size_t candidate = loops_.loops.size(); candidate-- > 0 && loop < 0;)
      if (!(taken >> candidate & 1) && loops_.loops[candidate].extent == extent) loop = static_cast<int>(candidate);
    if (loop < 0) loop = add_loop(extent);
    taken |= bit(loop);
    bound.loops.push_back(loop);
    instance.variables[reduction.variables[i]] = loops_.loops[loop].variable();
  }
  // Of axes of one known size the first has the outermost loop, so that a reduction within another over the same axes
  // runs along with it.
  const auto extent_of = [&](size_t i) { return loops_.loops[bound.loops[i]].extent; };
  for (size_t i = 0; i < bound.loops.size(); ++i)
    if (!extent_of(i).is_constant()) return "";
  for (size_t i = 0; i < bound.loops.size(); ++i)
    for (size_t j = i + 1; j < bound.loops.size(); ++j)
      if (bound.loops[i] > bound.loops[j] && extent_of(i) == extent_of(j)) std::swap(bound.loops[i], bound.loops[j]);
  for (size_t i = 0; i < bound.loops.size(); ++i) {
    SymInt& variable = instance.variables[reduction.variables[i]];
    if (variable == loops_.loops[bound.loops[i]].variable()) continue;
    variable = loops_.loops[bound.loops[i]].variable();
    instance.done = done;  // without what the extents read of it
  }
  return "";
}

// The number of the instance's reduction among those of the kernel; -1 where there will be no kernel.
int Composer::reduction(Instance& instance, int number) {
  if (auto found = instance.reductions.find(number); found != instance.reductions.end()) return found->second;
  const opset::Reduction& reduction = instance.meaning->reductions[number];
  BoundReduction bound{.monoid = reduction.monoid.name};
  if (std::string refusal = bind_loops(instance, reduction, bound); !refusal.empty()) {
    fail(std::move(refusal));
    return -1;
  }
  for (ScalarId part : reduction.monoid.identity) bound.identity.push_back(scalar(instance, part));
  for (ScalarId part : reduction.element) bound.element.push_back(scalar(instance, part));
  if (reduction.guard != opset::no_scalar) {
    bound.guard = scalar(instance, reduction.guard);
    const Expr& guard = loops_.exprs[bound.guard];
    if (guard.op == ScalarOp::constant && guard.integer != 0) bound.guard = no_expr;
  }
  for (size_t c = 0; c < reduction.monoid.joined.size(); ++c) {
    const ScalarType dtype = instance.meaning->scalars[reduction.monoid.identity[c]].dtype;
    for (int side : {0, 1})
      instance.placeholders[(side == 0 ? reduction.monoid.left : reduction.monoid.right)[c]] =
          intern({.op = ScalarOp::constant, .dtype = dtype, .component = static_cast<int>(c), .placeholder = side});
  }
  for (ScalarId part : reduction.monoid.joined) bound.joined.push_back(scalar(instance, part));
  for (int variable : reduction.variables) instance.variables.erase(variable);
  return instance.reductions[number] = intern_reduction(std::move(bound));
}

// The reduction's number, once it is known on which loops around it it depends; equal ones are one.
int Composer::intern_reduction(BoundReduction bound) {
  LoopSet own = 0;
  std::string key = bound.monoid;
  for (int loop : bound.loops) {
    own |= bit(loop);
    key += "$" + std::to_string(loop);
    bound.outer |= loops_.loops_of(loops_.loops[loop].extent);
  }
  for (ExprId part : bound.element) {
    bound.outer |= loops_.exprs[part].loops;
    key += "," + std::to_string(part);
  }
  for (ExprId part : bound.identity) {
    bound.outer |= loops_.exprs[part].loops;
    key += ":" + std::to_string(part);
  }
  for (ExprId part : bound.joined) key += "+" + std::to_string(part);
  if (bound.guard != no_expr) {
    bound.outer |= loops_.exprs[bound.guard].loops;
    key += "?" + std::to_string(bound.guard);
  }
  bound.outer &= ~own;
  if (bound.is_prefix) key += "prefix";
  auto [found, is_new] = interned_reductions_.emplace(key, static_cast<int>(loops_.reductions.size()));
  if (is_new) loops_.reductions.push_back(std::move(bound));
  return found->second;
}

// A reduction over a small window that slides (pooling) is written out, so that the loop over the result can be wide.
// no_expr where it is none.
ExprId Composer::window(const Instance& instance, const Scalar& reduce) {
  constexpr int64_t most_terms = 64;
  const opset::Reduction& reduction = instance.meaning->reductions[reduce.reduction];
  if (recorded_ || reduction.prefix || reduction.variables.empty()) return no_expr;
  std::vector<int64_t> extents;
  int64_t terms = 1;
  Instance at = instance;
  for (ScalarId extent : reduction.extents) {
    std::optional<int64_t> size = index_of(scalar(at, extent)).constant();
    if (!size) return no_expr;
    extents.push_back(*size);
    terms *= *size;
    if (terms > most_terms) return no_expr;
  }
  if (reduction.guard == opset::no_scalar && terms > 1 && !slides(instance, reduction, extents)) return no_expr;

  // The value of an argmax alone is a maximum, which needs no positions.
  const bool is_least = reduction.monoid.name == "argmin";
  const bool is_extreme =
      reduce.component == 0 && (is_least || reduction.monoid.name == "argmax" || reduction.monoid.name == "windowmax");
  std::vector<ExprId> identity;
  for (ScalarId part : reduction.monoid.identity) identity.push_back(scalar(at, part));
  // Where the result is asked for inside its shape, the guard is all that an element needs.
  const opset::LoopNest& nest = instance.meaning->results[0];
  bool is_inside = true;
  for (size_t axis = 0; axis < nest.variables.size(); ++axis)
    is_inside = is_inside && space_.is_within(instance.variables.at(nest.variables[axis]), nest.type.sizes[axis]);
  std::vector<ExprId> sum = identity;
  for (int64_t term = 0; term < terms; ++term) {
    Instance here = instance;
    int64_t rest = term;
    for (size_t i = extents.size(); i-- > 0;) {
      here.variables[reduction.variables[i]] = rest % extents[i];
      rest /= extents[i];
    }
    here.done.clear();
    here.reductions.clear();
    const ExprId guard = reduction.guard == opset::no_scalar ? no_expr : scalar(here, reduction.guard);
    if (guard != no_expr && loops_.exprs[guard].op == ScalarOp::constant && loops_.exprs[guard].integer == 0) continue;
    std::vector<ExprId> joined;
    const size_t components = is_extreme ? 1 : sum.size();
    for (size_t c = 0; c < components; ++c) {
      ExprId element = scalar(here, reduction.element[c]);
      if (guard != no_expr) {
        const ScalarType dtype = loops_.exprs[identity[c]].dtype;
        element = apply(ScalarOp::select, dtype, {guard, element, identity[c]});
        if (is_inside && loops_.exprs[element].op == ScalarOp::select) loops_.exprs[element].is_open = false;
      }
      here.placeholders[reduction.monoid.left[c]] = sum[c];
      here.placeholders[reduction.monoid.right[c]] = element;
    }
    for (size_t c = 0; c < components; ++c) {
      const ScalarType dtype = loops_.exprs[sum[c]].dtype;
      if (is_extreme) {
        const ScalarOp op = is_least ? ScalarOp::minimum : ScalarOp::maximum;
        joined.push_back(
            intern({.op = op, .dtype = dtype, .operands = {sum[c], here.placeholders[reduction.monoid.right[c]]}}));
      } else {
        joined.push_back(scalar(here, reduction.monoid.joined[c]));
      }
    }
    for (size_t c = 0; c < components; ++c) sum[c] = joined[c];
    if (!failure_.empty()) return integer(0);
  }
  return sum[reduce.component];
}

// Does a window of several places slide over its operand, and stand across the way that memory runs? Then each place is
// a row that the result's loop follows. What does not slide is written out only where it is tiny: all results along a
// reduced axis share the reduction, which would be computed anew for each.
bool Composer::slides(const Instance& instance, const opset::Reduction& reduction,
                      const std::vector<int64_t>& extents) {
  Instance at = instance;
  at.done.clear();
  at.reductions.clear();
  std::vector<std::string> symbols;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) {
      at.variables[reduction.variables[i]] = 0;
      continue;
    }
    symbols.push_back("$" + std::to_string(most_loops + i));
    space_.declare(symbols.back(), extents[i]);
    at.variables[reduction.variables[i]] = SymInt::symbol(symbols.back());
  }
  const ExprId element = scalar(at, reduction.element[0]);
  const Expr& expr = loops_.exprs[element];
  if (expr.op != ScalarOp::read) return false;
  bool is_window = std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>()) <= few_terms;
  const Scalar& read = instance.meaning->scalars[reduction.element[0]];
  for (size_t axis = 0; axis < read.operands.size() && read.op == ScalarOp::read; ++axis) {
    const SymInt place = index_of(scalar(at, read.operands[axis]));
    if (place.is_constant()) continue;
    const std::set<std::string> loops = place.symbols();
    is_window |= loops.size() > 1 && std::any_of(loops.begin(), loops.end(), [&](const std::string& loop) {
                   return std::find(symbols.begin(), symbols.end(), loop) != symbols.end();
                 });
  }
  if (!is_window) return false;
  return std::all_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
    std::optional<SymInt> stride = coefficient(expr.index, symbol);
    return stride && *stride != SymInt(1);
  });
}

// --- Results

std::vector<SymInt> without_ones(const std::vector<SymInt>& sizes) {
  std::vector<SymInt> kept;
  for (const SymInt& size : sizes)
    if (size != SymInt(1)) kept.push_back(size);
  return kept;
}

// The axis of what is written last along which loop `variable` of the first scatter runs, wherever else it goes; -1:
// none.
int Composer::kept_axis(const std::vector<const ir::Node*>& scatters, int variable) const {
  int axis = -1;
  for (const ir::Node* node : scatters) {
    const Meaning& meaning = *meaning_of_(*node);
    const opset::Scatter& scatter = *meaning.scatter;
    if (axis >= 0) variable = scatter.variables[axis];
    axis = -1;
    for (size_t i = 0; i < scatter.at.size(); ++i) {
      const opset::Scalar& at = meaning.scalars[scatter.at[i]];
      if (at.op == ScalarOp::index && at.variable == variable) axis = static_cast<int>(i);
    }
    if (axis < 0) return -1;
  }
  return axis;
}

// result := base, then one store after the other. Axes along which every value stays where it is are rows: they do not
// meet. Of several scatters each writes to the window that the next one writes back, which is their base but for the
// last one's.
Result<void> Composer::run_scatter(const std::vector<const ir::Node*>& scatters) {
  const Value* result = scatters.back()->result();
  const Meaning& last = *meaning_of_(*scatters.back());
  const RealForm form = real_form(result->meta(), layout_of_(*result));
  std::vector<SymInt> index;
  for (const SymInt& size : form.sizes) {
    loops_.domain.push_back(add_loop(size));
    index.push_back(loops_.loops.back().variable());
  }
  const SymInt address = address_of(form.layout, index);
  loops_.buffers.push_back(form.dtype);
  const ExprId base = element(last.tensors[last.scatter->base], index);
  loops_.stores.push_back(
      {base, form.dtype, static_cast<int>(loops_.buffers.size()) - 1, address, loops_.loops_of(address)});

  const Meaning& meaning = *meaning_of_(*scatters.front());
  const opset::Scatter& scatter = *meaning.scatter;
  Instance instance{.meaning = &meaning};
  ScatterLoops loops;
  for (size_t i = 0; i < scatter.variables.size(); ++i) {
    const SymInt extent = index_of(scalar(instance, scatter.extents[i]));
    if (extent.to_string().find_first_of("%$") != std::string::npos)
      return refuse("the extent of a scatter depends on data");
    const int row = kept_axis(scatters, scatter.variables[i]);
    const int loop = row >= 0 && extent == form.sizes[row] ? loops_.domain[row] : add_loop(extent);
    instance.variables[scatter.variables[i]] = loops_.loops[loop].variable();
    loops.loops.push_back(loop);
    loops.count = loops.count * extent;
  }
  std::vector<SymInt> place;
  SymInt places = 1;  // 0 where an axis is empty: no index can be clamped into it
  for (const ir::Node* node : scatters) {
    Instance outer{.meaning = meaning_of_(*node)};
    for (size_t axis = 0; axis < place.size(); ++axis)
      outer.variables[outer.meaning->scatter->variables[axis]] = place[axis];
    Instance& own = node == scatters.front() ? instance : outer;
    const std::vector<SymInt> sizes = real_form(node->result()->meta(), row_major(node->result()->meta().sizes)).sizes;
    place.clear();
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      ExprId at = scalar(own, own.meaning->scatter->at[axis]);
      if (!space_.is_within(index_of(at), sizes[axis])) {
        at = clamped(at, sizes[axis]);
        places = places * shape::min(sizes[axis], 1);
      }
      place.push_back(index_of(at));
    }
  }
  loops.address = address_of(form.layout, place);
  if (!(places == SymInt(1))) loops.loops.push_back(add_loop(places));
  loops.value = scalar(instance, scatter.value);
  if (scatter.join) {
    if (scatter.join->joined.size() != 1) return refuse("a scatter joins several values at once");
    for (int side : {0, 1})
      instance.placeholders[(side == 0 ? scatter.join->left : scatter.join->right)[0]] =
          intern({.op = ScalarOp::constant, .dtype = loops_.exprs[loops.value].dtype, .placeholder = side});
    loops.joined = scalar(instance, scatter.join->joined[0]);
  }
  if (!failure_.empty()) return refuse(failure_);
  loops_.scatter = std::move(loops);
  return {};
}

// The scatters of a body of nothing else than them and the windows that they write to, the first one first; none where
// it is another body.
std::vector<const ir::Node*> Composer::scatters_of(const ir::Graph& body) const {
  std::vector<const ir::Node*> scatters;
  const Value* value = body.outputs()[0].value();
  while (value && value->producer) {
    const Meaning* meaning = meaning_of_(*value->producer);
    if (!meaning || !meaning->scatter) break;
    scatters.insert(scatters.begin(), value->producer);
    const Scalar& written = meaning->scalars[meaning->scatter->value];
    value = written.op == ScalarOp::read ? meaning->tensors[written.tensor] : nullptr;
  }
  if (body.outputs().size() != 1 || body.size() + 1 != 2 * scatters.size()) scatters.clear();
  return scatters;
}

Accesses Composer::record(const Meaning& meaning) {
  Accesses accesses;
  recorded_ = &accesses.reads;
  std::vector<SymInt> first;
  for (const opset::LoopNest& nest : meaning.results) {
    if (nest.type.sizes != meaning.results[0].type.sizes) fail("its results differ in shape");
    if (!failure_.empty()) break;
    Instance instance{.meaning = &meaning};
    for (size_t axis = 0; axis < nest.variables.size(); ++axis) {
      if (first.size() <= axis) first.push_back(loops_.loops[add_loop(nest.type.sizes[axis])].variable());
      instance.variables[nest.variables[axis]] = nest.type.sizes[axis] == SymInt(1) ? SymInt(0) : first[axis];
    }
    if (nest.value != opset::no_scalar) scalar(instance, nest.value);
  }
  accesses.loops = loops_.loops;
  accesses.refusal = failure_;
  for (const opset::Reduction& reduction : meaning.reductions) accesses.stands_alone |= reduction.prefix;
  return accesses;
}

// The index of an axis with a loop of its own, though it turn once.
SymInt Composer::loop_over(const SymInt& size) {
  const int loop = add_loop(size);
  return size == SymInt(1) ? SymInt(0) : loops_.loops[loop].variable();
}

std::optional<Access> Composer::read_through(const std::vector<const Meaning*>& views) {
  std::vector<Access> reads;
  recorded_ = &reads;
  std::vector<SymInt> index;
  for (const SymInt& size : views.back()->results[0].type.sizes) index.push_back(loop_over(size));
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const opset::LoopNest& nest = (*view)->results[0];
    Instance instance{.meaning = *view};
    for (size_t axis = 0; axis < index.size(); ++axis) instance.variables[nest.variables[axis]] = index[axis];
    reads.clear();
    scalar(instance, nest.value);
    if (!failure_.empty() || reads.size() != 1) return std::nullopt;
    index = reads[0].index;
  }
  return reads[0];
}

std::optional<std::vector<SymInt>> Composer::written_place(const Meaning& meaning) {
  const opset::Scatter& scatter = *meaning.scatter;
  Instance instance{.meaning = &meaning};
  for (size_t i = 0; i < scatter.variables.size(); ++i) {
    const SymInt extent = index_of(scalar(instance, scatter.extents[i]));
    if (!values_in(extent).empty()) return std::nullopt;
    instance.variables[scatter.variables[i]] = loop_over(extent);
  }
  std::vector<SymInt> place;
  for (const ScalarId at : scatter.at) {
    place.push_back(index_of(scalar(instance, at)));
    if (!failure_.empty() || !values_in(place.back()).empty()) return std::nullopt;
  }
  return place;
}

// Where a result lies in the domain: its index, when that of the widest result, which spans it, is `domain`. nullopt
// where it has another shape.
std::optional<std::vector<SymInt>> Composer::index_in_domain(const ir::TensorMeta& result, const ir::TensorMeta& widest,
                                                             const std::vector<SymInt>& domain) const {
  if (result.sizes == widest.sizes) return domain;
  std::vector<SymInt> index;
  if (result.numel() == widest.numel()) {  // the same elements in another shape
    const SymInt position = address_of(row_major(widest.sizes), domain);
    const Layout rows = row_major(result.sizes);
    for (size_t axis = 0; axis < result.sizes.size(); ++axis)
      index.push_back(space_.remainder(space_.quotient(position, rows.strides[axis]), result.sizes[axis]));
    return index;
  }
  // A result over some of the axes: each is matched with the next axis of the same size, aligned at the front.
  size_t axis = 0;
  for (const SymInt& size : result.sizes) {
    if (size == SymInt(1)) {
      index.emplace_back(0);
      continue;
    }
    while (axis < domain.size() && widest.sizes[axis] != size) ++axis;
    if (axis == domain.size()) return std::nullopt;
    index.push_back(domain[axis++]);
  }
  return index;
}

// Whether the parts of the complex numbers are found where they are read, whichever they are.
bool Composer::moves_pairs(const Value* value) const {
  if (!is_complex(value->meta().dtype)) return false;
  if (!value->producer) return true;
  const Meaning* meaning = meaning_of_(*value->producer);
  if (!meaning || meaning->scatter || meaning->results.empty()) return false;
  const opset::LoopNest& nest = meaning->results[value->index];
  const int part = nest.variables.back();
  const std::function<bool(ScalarId)> moves = [&](ScalarId id) {
    const Scalar& scalar = meaning->scalars[id];
    if (scalar.op == ScalarOp::reduce || (scalar.op == ScalarOp::index && scalar.variable == part)) return false;
    std::vector<ScalarId> operands = scalar.operands;
    if (scalar.op == ScalarOp::read && is_complex(meaning->tensors[scalar.tensor]->meta().dtype)) {
      if (meaning->scalars[operands.back()].op != ScalarOp::index) return false;
      if (!moves_pairs(meaning->tensors[scalar.tensor])) return false;
      operands.pop_back();
    }
    return std::all_of(operands.begin(), operands.end(), moves);
  };
  return moves(nest.value);
}

Result<void> Composer::run(const ir::Graph& body) {
  if (body.outputs().empty()) return refuse("it has no results");
  for (const auto& input : body.inputs()) {
    if (!input->is_tensor()) return refuse("%" + input->name + " is a number that is computed at run time");
    const RealForm form = real_form(input->meta(), layout_of_(*input));
    loops_.buffers.push_back(form.layout.stored.value_or(form.dtype));
  }
  if (const std::vector<const ir::Node*> scatters = scatters_of(body); !scatters.empty()) return run_scatter(scatters);
  // The largest result spans the domain.
  std::vector<const Value*> results;
  for (const ir::Argument& output : body.outputs()) {
    if (!output.value() || !output.value()->is_tensor()) return refuse("a result is a number");
    results.push_back(output.value());
  }
  const Value* widest = results[0];
  for (const Value* result : results)
    if (without_ones(result->meta().sizes).size() > without_ones(widest->meta().sizes).size()) widest = result;
  std::vector<SymInt> domain;
  for (const SymInt& size : widest->meta().sizes) {
    if (size == SymInt(1)) {
      domain.emplace_back(0);
      continue;
    }
    loops_.domain.push_back(add_loop(size));
    domain.push_back(loops_.loops.back().variable());
  }

  // What only moves complex numbers moves one part after the other.
  std::optional<SymInt> moved_part;
  if (std::all_of(results.begin(), results.end(), [&](const Value* result) { return moves_pairs(result); })) {
    loops_.domain.push_back(add_loop(2));
    moved_part = loops_.loops.back().variable();
  }

  for (const Value* result : results) {
    const ir::TensorMeta& meta = result->meta();
    const std::optional<std::vector<SymInt>> index = index_in_domain(meta, widest->meta(), domain);
    if (!index) return refuse("its results differ in shape");
    const RealForm form = real_form(meta, layout_of_(*result));
    const int buffer = static_cast<int>(loops_.buffers.size());
    loops_.buffers.push_back(form.dtype);
    // Another complex result is two stores, of its real and of its imaginary part.
    const bool is_pair = form.sizes.size() > meta.sizes.size();
    for (int64_t part = 0; part < (is_pair && !moved_part ? 2 : 1); ++part) {
      std::vector<SymInt> place = *index;
      if (is_pair) place.push_back(moved_part.value_or(part));
      const SymInt address = address_of(form.layout, place);
      const ExprId value = element(result, place);
      if (!failure_.empty()) return refuse(failure_);
      loops_.stores.push_back({value, form.dtype, buffer, address, loops_.loops_of(address)});
    }
  }
  return {};
}

// A reduction is computed before its level's conditions are known: not one that is only defined under such a condition.
bool has_conditional_reduction(const Loops& loops, ExprId id, bool under_condition,
                               std::set<std::pair<ExprId, bool>>& seen) {
  if (!seen.insert({id, under_condition}).second) return false;
  const Expr& expr = loops.exprs[id];
  bool found = false;
  const auto look_at = [&](ExprId part, bool conditional) {
    found = found || has_conditional_reduction(loops, part, conditional, seen);
  };
  if (expr.op == ScalarOp::reduce) {
    if (under_condition && expr.is_partial) return true;
    const BoundReduction& reduction = loops.reductions[expr.reduction];
    for (ExprId part : reduction.element) look_at(part, false);
    for (ExprId part : reduction.identity) look_at(part, false);
    if (reduction.guard != no_expr) look_at(reduction.guard, false);
    return found;
  }
  bool is_first = true;
  each_operand(loops, id, [&](ExprId operand) {
    look_at(operand, under_condition || (is_choice(expr.op) && !is_first));
    is_first = false;
  });
  return found;
}

// What a composer says of meanings alone, whose tensors lie in rows.
template <class Question>
auto of_meanings(const shape::Facts& facts, const Question& ask) {
  Loops loops;
  const MeaningOf no_meaning;
  const LayoutOf rows = [](const Value& value) { return row_major(value.meta().sizes); };
  Composer composer(no_meaning, rows, facts, loops);
  return ask(composer);
}

}  // namespace

Accesses accesses_of(const opset::Meaning& meaning, const shape::Facts& facts) {
  if (meaning.scatter) return {.stands_alone = true};
  if (!meaning.extern_kernel.empty()) return {.refusal = "it is the C++ kernel '" + meaning.extern_kernel + "'"};
  if (reference::has_complex(meaning))
    if (Result<Meaning> real = reference::in_real_parts(meaning); !real) return {.refusal = real.failure().message};
  return of_meanings(facts, [&](Composer& composer) { return composer.record(meaning); });
}

std::optional<Access> access_of(const std::vector<const opset::Meaning*>& views, const shape::Facts& facts) {
  return of_meanings(facts, [&](Composer& composer) { return composer.read_through(views); });
}

std::optional<std::vector<SymInt>> written_place(const opset::Meaning& meaning, const shape::Facts& facts) {
  return of_meanings(facts, [&](Composer& composer) { return composer.written_place(meaning); });
}

Result<Loops> compose(const ir::Graph& body, const MeaningOf& meaning_of, const LayoutOf& layout_of,
                      const shape::Facts& facts, const shape::Bindings& hints) {
  Loops loops;
  std::map<const Meaning*, Meaning> in_parts;
  const MeaningOf real_meaning_of = [&](const ir::Node& node) -> const Meaning* {
    const Meaning* meaning = meaning_of(node);
    if (!meaning || !reference::has_complex(*meaning)) return meaning;
    auto [found, is_new] = in_parts.try_emplace(meaning);
    if (!is_new) return &found->second;
    Result<Meaning> parts = reference::in_real_parts(*meaning);
    if (!parts) return nullptr;
    found->second = std::move(*parts);
    return &found->second;
  };
  if (Result<void> done = Composer(real_meaning_of, layout_of, facts, loops).run(body); !done) return done.error();
  std::vector<ExprId> roots;
  for (const Store& store : loops.stores) roots.push_back(store.value);
  if (loops.scatter) roots.push_back(loops.scatter->value);
  std::set<std::pair<ExprId, bool>> seen;
  for (ExprId root : roots)
    if (has_conditional_reduction(loops, root, false, seen))
      return refuse("a reduction is only defined under a condition");
  arrange(loops, facts, hints);
  for (const Store& store : loops.stores)
    for (size_t i = 0; i < loops.rows; ++i)
      if (!(store.loops >> loops.domain[i] & 1)) return refuse("a result is the same for several rows");
  loops.symbols = symbols_of(loops);
  return loops;
}

}  // namespace atenon::lower
