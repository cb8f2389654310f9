#include "reference/loop_compiler.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace atenon::reference {

using opset::Meaning;
using opset::Monoid;
using opset::Reduction;
using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

namespace {

bool is_float(ScalarType type) { return is_floating(type); }

MonoidKind kind_of(const Monoid& monoid) {
  static const std::pair<const char*, MonoidKind> known[] = {
      {"sum", MonoidKind::sum},       {"prod", MonoidKind::product},  {"max", MonoidKind::maximum},
      {"min", MonoidKind::minimum},   {"any", MonoidKind::any},       {"all", MonoidKind::all},
      {"argmax", MonoidKind::argmax}, {"argmin", MonoidKind::argmin}, {"windowmax", MonoidKind::windowmax}};
  for (const auto& [name, kind] : known)
    if (monoid.name == name) return kind;
  return MonoidKind::custom;
}

}  // namespace

LoopCompiler::LoopCompiler(const Meaning& meaning, const std::vector<Tensor>& operands, IndexForms& forms,
                           std::vector<int64_t> sizes, std::vector<double> size_floats)
    : meaning_(meaning),
      operands_(operands),
      forms_(forms),
      sizes_(std::move(sizes)),
      size_floats_(std::move(size_floats)),
      registers_(meaning.scalars.size(), no_register) {
  program_.variable_count = meaning.variable_count;
  // Which variables a scalar depends on; a reduction binds its own.
  for (const Scalar& scalar : meaning.scalars) {
    uint64_t depends = scalar.op == ScalarOp::index ? uint64_t{1} << scalar.variable : 0;
    for (const ScalarId id : scalar.operands) depends |= dependences_[static_cast<size_t>(id)];
    if (scalar.op == ScalarOp::reduce) {
      const Reduction& reduction = meaning.reductions[static_cast<size_t>(scalar.reduction)];
      for (const ScalarId id : reduction.element) depends |= dependences_[static_cast<size_t>(id)];
      for (const ScalarId id : reduction.extents) depends |= dependences_[static_cast<size_t>(id)];
      if (reduction.guard != opset::no_scalar) depends |= dependences_[static_cast<size_t>(reduction.guard)];
      for (const int variable : reduction.variables) depends &= ~(uint64_t{1} << variable);
      if (reduction.prefix && !meaning.results.empty() && reduction.prefix_axis >= 0)
        depends |= uint64_t{1} << meaning.results[0].variables[static_cast<size_t>(reduction.prefix_axis)];
    }
    dependences_.push_back(depends);
  }
}

void LoopCompiler::begin(std::vector<int> lane_variables, std::vector<int64_t> lane_extents) {
  Scope outer;
  outer.owns_lanes = !spread_;
  outer.lane_variables = std::move(lane_variables);
  outer.lane_extents = std::move(lane_extents);
  program_.scopes.push_back(std::move(outer));
  stack_ = {0};
}

Result<LoopProgram> LoopCompiler::nests(const std::vector<int>& which, const std::vector<int64_t>& extents,
                                        const std::vector<int64_t>& strides) {
  const std::vector<int>& variables = meaning_.results[static_cast<size_t>(which[0])].variables;
  int64_t numel = 1;
  for (const int64_t n : extents) numel *= n;
  program_.numel = numel;

  // Which reductions are there, and is any a prefix?
  int prefix_axis = -1;
  bool simple = true;
  uint64_t reduced = 0;
  for (const Reduction& reduction : meaning_.reductions) {
    if (reduction.prefix) prefix_axis = reduction.prefix_axis;
    simple = simple && kind_of(reduction.monoid) != MonoidKind::custom;
    for (const int variable : reduction.variables) reduced |= uint64_t{1} << variable;
  }
  bool products = true;  // these run along the reduction by themselves
  for (size_t id = 0; id < meaning_.scalars.size(); ++id)
    if (meaning_.scalars[id].op == ScalarOp::reduce && (dependences_[id] & reduced))
      simple = false;  // one inside another
  for (const Reduction& reduction : meaning_.reductions) {
    ReductionPlan trial;
    trial.variables = reduction.variables;
    trial.kind = kind_of(reduction.monoid);
    conditions_.clear();
    if (reduction.guard != opset::no_scalar) collect_conditions(reduction.guard, conditions_);
    products = products && product_of(reduction, trial).has_value();
  }
  spread_ = numel < lanes / 8 && !meaning_.reductions.empty() && prefix_axis < 0 && simple && !products;

  std::vector<int> lane_variables;
  std::vector<int64_t> lane_extents;
  std::vector<size_t> order(variables.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  for (const size_t axis : order) {
    const bool serial = spread_ || static_cast<int>(axis) == prefix_axis;
    (serial ? program_.serial_variables : lane_variables).push_back(variables[axis]);
    (serial ? program_.serial_extents : lane_extents).push_back(extents[axis]);
  }
  begin(lane_variables, lane_extents);

  for (const int result : which) {
    const opset::LoopNest& nest = meaning_.results[static_cast<size_t>(result)];
    LinearForm place;
    for (size_t axis = 0; axis < variables.size(); ++axis)
      if (extents[axis] > 1) place.terms[variables[axis]] = strides[axis];
    Store store;
    store.result = result;
    store.value = emit(nest.value);
    store.floating = is_float(meaning_.scalars[static_cast<size_t>(nest.value)].dtype);
    store.address = address_of(place, 0);
    program_.stores.push_back(std::move(store));
  }
  merge_lane_variables();
  return std::move(program_);
}

Result<LoopProgram> LoopCompiler::scatter(const std::vector<int64_t>& extents) {
  const opset::Scatter& scatter = *meaning_.scatter;
  begin(scatter.variables, extents);
  for (const ScalarId id : scatter.at) program_.at.push_back(emit(id));
  program_.value = emit(scatter.value);
  program_.floating = is_float(meaning_.scalars[static_cast<size_t>(scatter.value)].dtype);
  if (scatter.join) program_.join = kind_of(*scatter.join);
  if (scatter.join && program_.join == MonoidKind::custom)
    return error(Status::unsupported, 634,
                 "a scatter that joins by the monoid '" + scatter.join->name + "' is not known here");
  merge_lane_variables();
  return std::move(program_);
}

// Two neighbouring variables are one where every address strides through them alike: then blocks are full also where
// the innermost axis is short.
void LoopCompiler::merge_lane_variables() {
  for (Scope& scope : program_.scopes) {
    if (!scope.owns_lanes || spread_) continue;  // a reduction's extents are known when it runs
    const auto erase = [&](size_t axis) {
      for (LaneForm& form : scope.lane_forms) form.erase(form.begin() + static_cast<std::ptrdiff_t>(axis));
      scope.lane_extents.erase(scope.lane_extents.begin() + static_cast<std::ptrdiff_t>(axis));
      scope.lane_variables.erase(scope.lane_variables.begin() + static_cast<std::ptrdiff_t>(axis));
    };
    for (size_t axis = scope.lane_variables.size(); axis-- > 0;)
      if (scope.lane_extents[axis] == 1) erase(axis);
    for (size_t inner = scope.lane_variables.size(); inner-- > 1;) {
      const int64_t n = scope.lane_extents[inner];
      if (!std::all_of(scope.lane_forms.begin(), scope.lane_forms.end(),
                       [&](const LaneForm& form) { return form[inner - 1] == form[inner] * n; }))
        continue;
      scope.lane_extents[inner] *= scope.lane_extents[inner - 1];
      erase(inner - 1);
    }
  }
  note_what_varies();
}

// With rows or along them: addresses say it of reads, operands of the rest. Only scope 0 is run block by block.
void LoopCompiler::note_what_varies() {
  Scope& scope = program_.scopes[0];
  if (!scope.owns_lanes) return;
  std::vector<uint8_t> varies(static_cast<size_t>(program_.register_count), 0);
  const auto of_form = [&](const Address& address) {
    uint8_t found = 0;
    if (address.lane_form < 0) return found;
    const LaneForm& form = scope.lane_forms[static_cast<size_t>(address.lane_form)];
    for (size_t axis = 0; axis < form.size(); ++axis)
      if (form[axis] != 0) found |= axis + 1 == form.size() ? Step::in_rows : Step::by_row;
    return found;
  };
  for (Step& step : scope.steps) {
    if (step.kind == Step::Kind::reduce) {  // what its body reads is not looked at
      for (const Register r : program_.reductions[static_cast<size_t>(step.reduction)].accumulator)
        varies[static_cast<size_t>(r)] = step.varies;
      continue;
    }
    step.varies = of_form(step.address);
    if (step.mask != no_register) step.varies |= varies[static_cast<size_t>(step.mask)];
    for (const Register in : step.in)
      if (in != no_register) step.varies |= varies[static_cast<size_t>(in)];
    for (const Step::Axis& axis : step.axes)
      if (axis.index != no_register) step.varies |= varies[static_cast<size_t>(axis.index)];
    varies[static_cast<size_t>(step.out)] = step.varies;
  }
  const auto count = [&](uint8_t with) {
    return std::count_if(scope.steps.begin(), scope.steps.end(), [&](const Step& step) { return step.varies == with; });
  };
  program_.columns_outside = count(Step::in_rows) > count(Step::by_row);
  if (program_.stores.size() != 1 || scope.steps.empty()) return;
  const Step& last = scope.steps.back();
  const uint8_t all = scope.lane_variables.size() > 1 ? Step::in_rows | Step::by_row : Step::in_rows;
  program_.last_step_stores =
      last.kind == Step::Kind::compute && last.out == program_.stores[0].value && last.varies == all;
}

// The innermost scope being emitted whose variables matter.
int LoopCompiler::scope_of(uint64_t variables) const {
  for (size_t i = stack_.size(); i-- > 1;) {
    for (const ReductionPlan& plan : program_.reductions)
      if (plan.scope == stack_[i])
        for (const int variable : plan.variables)
          if (variables >> variable & 1) return stack_[i];
  }
  return 0;
}

// The scope whose lanes `scope` runs in; -1 if it has but one.
int LoopCompiler::lane_owner(int scope) const {
  if (!spread_) return 0;
  return program_.scopes[static_cast<size_t>(scope)].owns_lanes ? scope : -1;
}

Register LoopCompiler::fresh(bool fallible, bool is_single) {
  program_.fault_of.push_back(fallible ? program_.fault_count++ : -1);
  program_.is_single.push_back(is_single);
  return program_.register_count++;
}

Register LoopCompiler::held_as(Register r, bool is_single, int scope) {
  if (program_.is_single[static_cast<size_t>(r)] == is_single) return r;
  const auto found = held_.find({scope, r});
  if (found != held_.end()) return found->second;
  Step step;
  step.op = ScalarOp::cast;
  step.dtype = is_single ? ScalarType::f32 : ScalarType::f64;
  step.floating = true;
  step.in[0] = r;
  return held_[{scope, r}] = emit_step(std::move(step), scope);
}

Register LoopCompiler::emit_step(Step step, int scope) {
  bool fallible_step = step.check >= 0;
  for (const Register in : step.in) fallible_step = fallible_step || (in != no_register && fallible(in));
  for (const Step::Axis& axis : step.axes)
    fallible_step = fallible_step || (axis.index != no_register && fallible(axis.index));
  step.out = fresh(fallible_step, is_floating(step.dtype) && step.dtype != ScalarType::f64);
  register_scope_.push_back(scope);
  const Register out = step.out;
  program_.scopes[static_cast<size_t>(scope)].steps.push_back(std::move(step));
  return out;
}

// The register of `id` as a step of `scope` reads it: spread over the lanes where the value is one number outside.
Register LoopCompiler::operand(ScalarId id, int scope) {
  const Register r = emit(id);
  const int home = register_scope_[static_cast<size_t>(r)];
  if (!spread_ || home == scope || !program_.scopes[static_cast<size_t>(scope)].owns_lanes) return r;
  const auto [at, is_new] = imports_.try_emplace({scope, r}, no_register);
  if (is_new) {
    at->second = fresh(fallible(r), program_.is_single[static_cast<size_t>(r)]);
    register_scope_.push_back(scope);
    program_.scopes[static_cast<size_t>(scope)].imports.push_back({r, at->second});
  }
  return at->second;
}

Address LoopCompiler::address_of(const LinearForm& form, int scope) {
  Address address;
  address.constant = form.constant;
  const int owner = lane_owner(scope);
  LaneForm lane_form;
  if (owner >= 0) lane_form.assign(program_.scopes[static_cast<size_t>(owner)].lane_variables.size(), 0);
  bool in_lanes = false;
  for (const auto& [variable, coefficient] : form.terms) {
    size_t axis = lane_form.size();
    if (owner >= 0) {
      const auto& owned = program_.scopes[static_cast<size_t>(owner)].lane_variables;
      axis = static_cast<size_t>(std::find(owned.begin(), owned.end(), variable) - owned.begin());
    }
    if (axis < lane_form.size()) {
      lane_form[axis] = coefficient;
      in_lanes = true;
    } else {
      address.uniform.push_back({variable, coefficient});
    }
  }
  if (!in_lanes) return address;
  auto& forms = program_.scopes[static_cast<size_t>(owner)].lane_forms;
  const auto found = std::find(forms.begin(), forms.end(), lane_form);
  address.lane_form = static_cast<int>(found - forms.begin());
  if (found == forms.end()) forms.push_back(std::move(lane_form));
  return address;
}

Register LoopCompiler::emit(ScalarId id) {
  if (registers_[static_cast<size_t>(id)] != no_register) return registers_[static_cast<size_t>(id)];
  const Scalar& scalar = meaning_.scalars[static_cast<size_t>(id)];
  const int scope = scope_of(dependences_[static_cast<size_t>(id)]);
  Step step;
  step.op = scalar.op;
  step.dtype = id == summand_ && scalar.op != ScalarOp::read ? ScalarType::f64 : scalar.dtype;

  const auto done = [&](Register r) { return registers_[static_cast<size_t>(id)] = r; };
  if (scalar.op == ScalarOp::reduce) return done(emit_reduction(scalar, scope));
  if (scalar.dtype == ScalarType::i64 && scalar.op != ScalarOp::read) {
    const LinearForm& form = forms_.form(id);
    if (forms_.is_affine(form)) {
      step.kind = Step::Kind::linear;
      step.address = address_of(form, scope);
      return done(emit_step(std::move(step), scope));
    }
  }
  switch (scalar.op) {
    case ScalarOp::constant:
    case ScalarOp::size:
    case ScalarOp::size_float:
      step.kind = Step::Kind::constant;
      step.floating = is_float(scalar.dtype);
      step.number = scalar.op == ScalarOp::size_float ? size_floats_[static_cast<size_t>(id)] : scalar.number;
      step.integer = scalar.op == ScalarOp::size ? sizes_[static_cast<size_t>(id)] : scalar.integer;
      return done(emit_step(std::move(step), scope));
    case ScalarOp::read:
      emit_read(id, step, scope);
      return done(emit_step(std::move(step), scope));
    default:
      break;
  }
  for (size_t i = 0; i < scalar.operands.size(); ++i) step.in[i] = operand(scalar.operands[i], scope);
  const ScalarId domain = scalar.operands[scalar.op == ScalarOp::select ? 1 : 0];
  step.floating = is_float(meaning_.scalars[static_cast<size_t>(domain)].dtype);
  if (step.floating && scalar.op != ScalarOp::cast) hold_alike(step, scope);
  if (scalar.op == ScalarOp::cast && step.floating &&
      (scalar.dtype == ScalarType::f32 || scalar.dtype == ScalarType::f64))
    return done(held_as(step.in[0], scalar.dtype == ScalarType::f32, scope));
  const bool divides = scalar.op == ScalarOp::div || scalar.op == ScalarOp::floor_div || scalar.op == ScalarOp::mod ||
                       scalar.op == ScalarOp::trunc_div;
  if (divides && !step.floating &&
      !forms_.interval(scalar.operands[1]).within(1, std::numeric_limits<int64_t>::max())) {
    step.check = static_cast<int>(program_.checks.size());
    program_.checks.push_back({Check::Kind::zero, 0, 0});
  }
  return done(emit_step(std::move(step), scope));
}

// The floats that a step reads are held as what it computes in; if that is no float, in 64 bits as soon as one of them
// is.
void LoopCompiler::hold_alike(Step& step, int scope) {
  const size_t first = step.op == ScalarOp::select ? 1 : 0;
  bool is_single = is_float(step.dtype) ? step.dtype != ScalarType::f64 : true;
  if (!is_float(step.dtype))
    for (size_t i = first; i < 3; ++i)
      if (step.in[i] != no_register) is_single = is_single && program_.is_single[static_cast<size_t>(step.in[i])];
  for (size_t i = first; i < 3; ++i)
    if (step.in[i] != no_register) step.in[i] = held_as(step.in[i], is_single, scope);
}

void LoopCompiler::emit_read(ScalarId id, Step& step, int scope) {
  const Scalar& scalar = meaning_.scalars[static_cast<size_t>(id)];
  const Tensor& tensor = operands_[static_cast<size_t>(scalar.tensor)];
  step.tensor = scalar.tensor;
  LinearForm place;
  bool safe = true;
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    const ScalarId index = scalar.operands[axis];
    const LinearForm& form = forms_.form(index);
    const int64_t last = tensor.sizes[axis] - 1;
    bool inside = forms_.interval(form).within(0, last) || forms_.interval(index).within(0, last);
    // What is read outside of the guard's scope is read before it is known.
    if (!inside && mask_ != no_register && scope == mask_scope_ && is_inside(index, tensor.sizes[axis], conditions_)) {
      inside = true;
      step.mask = mask_;
    }
    safe = safe && inside;
    place = sum(place, form, tensor.strides[axis]);
    step.axes.push_back({no_register, tensor.sizes[axis], tensor.strides[axis], inside});
  }
  if (safe && forms_.is_affine(place)) {
    step.kind = Step::Kind::read;
    step.axes.clear();
    step.address = address_of(place, scope);
    return;
  }
  step.kind = Step::Kind::checked_read;
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis)
    step.axes[axis].index = operand(scalar.operands[axis], scope);
  if (safe) return;
  step.check = static_cast<int>(program_.checks.size());
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis)
    program_.checks.push_back({Check::Kind::range, static_cast<int>(axis), tensor.sizes[axis]});
}

Register LoopCompiler::wide(ScalarId id, int scope) {
  const Register r = operand(id, scope);
  return is_float(meaning_.scalars[static_cast<size_t>(id)].dtype) ? held_as(r, false, scope) : r;
}

Register LoopCompiler::emit_reduction(const Scalar& scalar, int scope) {
  if (!plans_.contains(scalar.reduction)) plan_reduction(scalar.reduction, scope);
  // Sums are kept in double or int64; the value that leaves has the scalar's dtype.
  const ReductionPlan& plan = program_.reductions[static_cast<size_t>(plans_.at(scalar.reduction))];
  const size_t component = static_cast<size_t>(scalar.component);
  Step finish;
  finish.op = ScalarOp::cast;
  finish.floating = plan.floating[component];
  finish.dtype = scalar.dtype;
  finish.in[0] = plan.accumulator[component];
  return emit_step(std::move(finish), scope);
}

void LoopCompiler::plan_reduction(int number, int scope) {
  const Reduction& reduction = meaning_.reductions[static_cast<size_t>(number)];
  const int index = static_cast<int>(program_.reductions.size());
  plans_.emplace(number, index);
  ReductionPlan plan;
  plan.kind = kind_of(reduction.monoid);
  plan.scope = static_cast<int>(program_.scopes.size());
  plan.variables = reduction.variables;
  plan.prefix = reduction.prefix;
  plan.spread = spread_;
  Scope body;
  if (spread_) {
    body.owns_lanes = true;
    body.lane_variables = reduction.variables;
    body.lane_extents.assign(reduction.variables.size(), 0);  // known when it runs
  }
  program_.scopes.push_back(std::move(body));
  program_.reductions.push_back(plan);

  for (const ScalarId id : reduction.extents) plan.extents.push_back(operand(id, scope));
  for (const ScalarId id : reduction.monoid.identity) plan.identity.push_back(wide(id, scope));
  stack_.push_back(plan.scope);
  bool faults = false;
  if (reduction.guard != opset::no_scalar) {
    plan.guard = operand(reduction.guard, plan.scope);
    faults = faults || fallible(plan.guard);
    mask_ = plan.guard;
    mask_scope_ = plan.scope;
    conditions_.clear();
    collect_conditions(reduction.guard, conditions_);
  }
  // A product that is only added up is not rounded on the way: sums are kept in double.
  if (plan.kind == MonoidKind::sum &&
      meaning_.scalars[static_cast<size_t>(reduction.element[0])].dtype == ScalarType::f32)
    summand_ = reduction.element[0];
  if (!spread_) plan.product = product_of(reduction, plan);
  for (const ScalarId id : reduction.element) {
    plan.floating.push_back(is_float(meaning_.scalars[static_cast<size_t>(id)].dtype));
    if (plan.product) continue;
    plan.element.push_back(wide(id, plan.scope));
    faults = faults || fallible(plan.element.back());
  }
  mask_ = no_register;
  for (size_t c = 0; c < reduction.element.size(); ++c) {
    plan.accumulator.push_back(fresh(faults));
    register_scope_.push_back(scope);
  }
  if (plan.kind == MonoidKind::custom) emit_join(reduction.monoid, plan);
  stack_.pop_back();
  // What was computed inside is not known to the next reduction, though it may run over the same variables.
  for (Register& r : registers_)
    if (r != no_register && register_scope_[static_cast<size_t>(r)] == plan.scope) r = no_register;
  program_.reductions[static_cast<size_t>(index)] = plan;
  Step step;
  step.kind = Step::Kind::reduce;
  step.reduction = index;
  program_.scopes[static_cast<size_t>(scope)].steps.push_back(std::move(step));
}

// The join's own steps, over the accumulators and the elements.
void LoopCompiler::emit_join(const Monoid& monoid, ReductionPlan& plan) {
  plan.join_scope = static_cast<int>(program_.scopes.size());
  program_.scopes.emplace_back();
  for (size_t c = 0; c < plan.accumulator.size(); ++c) {
    registers_[static_cast<size_t>(monoid.left[c])] = plan.accumulator[c];
    registers_[static_cast<size_t>(monoid.right[c])] = plan.element[c];
  }
  const size_t before = program_.scopes[0].steps.size();
  const std::vector<Register> known = registers_;
  const auto held = held_;
  for (const ScalarId id : monoid.joined) plan.joined.push_back(wide(id, 0));
  registers_ = known;
  held_ = held;
  // They depend on no loop variable, so they went outside; they belong here.
  auto& inner = program_.scopes[static_cast<size_t>(plan.join_scope)].steps;
  inner.assign(std::make_move_iterator(program_.scopes[0].steps.begin() + static_cast<std::ptrdiff_t>(before)),
               std::make_move_iterator(program_.scopes[0].steps.end()));
  program_.scopes[0].steps.resize(before);
}

}  // namespace atenon::reference
