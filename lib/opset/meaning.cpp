// From a block's body to the loops of a Meaning.
#include "opset/meaning.h"

#include <algorithm>

#include "ir/call_body.h"
#include "ir/control_flow.h"
#include "opset/loop_builder.h"
#include "opset/rules.h"
#include "text/text.h"

namespace atenon::opset {
namespace {

std::vector<Datum> components(const Datum& datum) {
  return datum.is_list() ? datum.items() : std::vector<Datum>{datum};
}

// Drops scalars and operands that nothing reads: unused bindings of a block, indices of axes that do not matter.
void prune(Meaning& meaning) {
  std::vector<ScalarId*> roots;
  const auto add = [&](std::vector<ScalarId>& ids) {
    for (ScalarId& id : ids) roots.push_back(&id);
  };
  const auto add_monoid = [&](Monoid& monoid) {
    for (auto* ids : {&monoid.identity, &monoid.left, &monoid.right, &monoid.joined}) add(*ids);
  };
  for (LoopNest& nest : meaning.results) roots.push_back(&nest.value);
  for (Reduction& reduction : meaning.reductions) {
    add(reduction.extents);
    add(reduction.element);
    add_monoid(reduction.monoid);
    roots.push_back(&reduction.guard);
  }
  if (meaning.scatter) {
    add(meaning.scatter->extents);
    add(meaning.scatter->at);
    roots.push_back(&meaning.scatter->value);
    if (meaning.scatter->join) add_monoid(*meaning.scatter->join);
  }
  std::vector<ScalarId> place(meaning.scalars.size(), no_scalar);  // marked with 0 while collecting
  for (const ScalarId* root : roots)
    if (*root != no_scalar) place[static_cast<size_t>(*root)] = 0;
  for (size_t i = meaning.scalars.size(); i-- > 0;)  // operands come before their users
    if (place[i] == 0)
      for (const ScalarId id : meaning.scalars[i].operands) place[static_cast<size_t>(id)] = 0;
  std::vector<int> tensor(meaning.tensors.size(), -1);
  if (meaning.scatter) tensor[static_cast<size_t>(meaning.scatter->base)] = 0;
  ScalarId next = 0;
  for (size_t i = 0; i < meaning.scalars.size(); ++i) {
    if (place[i] == no_scalar) continue;
    Scalar& scalar = meaning.scalars[i];
    for (ScalarId& id : scalar.operands) id = place[static_cast<size_t>(id)];
    if (scalar.tensor >= 0) tensor[static_cast<size_t>(scalar.tensor)] = 0;
    place[i] = next++;
    if (place[i] != static_cast<ScalarId>(i)) meaning.scalars[static_cast<size_t>(place[i])] = std::move(scalar);
  }
  meaning.scalars.resize(static_cast<size_t>(next));
  for (ScalarId* root : roots)
    if (*root != no_scalar) *root = place[static_cast<size_t>(*root)];
  std::vector<ir::Value*> tensors;
  for (size_t i = 0; i < tensor.size(); ++i) {
    if (tensor[i] < 0) continue;
    tensor[i] = static_cast<int>(tensors.size());
    tensors.push_back(meaning.tensors[i]);
  }
  meaning.tensors = std::move(tensors);
  for (Scalar& scalar : meaning.scalars)
    if (scalar.tensor >= 0) scalar.tensor = tensor[static_cast<size_t>(scalar.tensor)];
  if (meaning.scatter) meaning.scatter->base = tensor[static_cast<size_t>(meaning.scatter->base)];
}

class LoopMaker {
 public:
  LoopMaker(Evaluator& evaluator, const Call& call, const Step& step)
      : evaluator_(evaluator), call_(call), step_(step), loops_(evaluator, meaning_) {}

  Meaning make() {
    if (!types()) return {};
    evaluator_.apply = nullptr;
    evaluator_.loops = &loops_;
    loops_.type = first_type_.get();
    switch (step_.kind) {
      case StepKind::pointwise:
        pointwise();
        break;
      case StepKind::reduction:
        step_.at ? reduction_at() : reduction_over();
        break;
      case StepKind::view:
        view();
        break;
      default:
        scatter();
        break;
    }
    if (!evaluator_.failed()) prune(meaning_);
    return std::move(meaning_);
  }

 private:
  // The results' types; they share the loops over the first one's shape.
  bool types() {
    if (!evaluator_.result_type)
      return evaluator_.mistake(nullptr, "a meaning as loops needs a `type` above it"), false;
    for (const Datum& datum : components(*evaluator_.result_type)) {
      const ir::TensorMeta* meta =
          datum.is<TypeOf>() ? std::get_if<ir::TensorMeta>(&datum.get<TypeOf>()->type) : nullptr;
      if (!meta) return evaluator_.mistake(nullptr, "loops yield tensors"), false;
      if (!first_type_) first_type_ = datum.get<TypeOf>();
      meaning_.results.push_back({.type = *meta});
    }
    if (meaning_.results.empty()) return evaluator_.mistake(nullptr, "loops yield tensors"), false;
    const Derivation derivation = call_.op->derivation();
    const size_t first_out = call_.arguments.size() - meaning_.results.size();
    for (size_t i = 0; i < meaning_.results.size(); ++i) {
      if (meaning_.results[i].type.rank() != meaning_.results[0].type.rank())
        return evaluator_.mistake(nullptr, "the results of one loop have one rank"), false;
      // In place and out=, the result takes the dtype of what it is written to.
      const ir::Value* destination = derivation == Derivation::inplace ? call_.arguments[0].value()
                                     : derivation == Derivation::out   ? call_.arguments[first_out + i].value()
                                                                       : nullptr;
      if (destination) meaning_.results[i].type.dtype = destination->meta().dtype;
    }
    return true;
  }

  // The index at a loop variable; where there is one place only, 0.
  ScalarId index(int variable, const ir::SymInt& extent) {
    return extent.constant() == 1 ? loops_.constant(int64_t{0}, ScalarType::i64) : loops_.index(variable);
  }
  // Loop variables over the first result's shape.
  std::vector<ScalarId> result_index() {
    LoopNest& first = meaning_.results[0];
    std::vector<ScalarId> place;
    for (const ir::SymInt& size : first.type.sizes) {
      first.variables.push_back(loops_.variable(size));
      place.push_back(index(first.variables.back(), size));
    }
    for (LoopNest& nest : meaning_.results) nest.variables = first.variables;
    return place;
  }
  static Datum elements(const std::vector<ScalarId>& ids) {
    std::vector<Datum> items;
    for (const ScalarId id : ids) items.push_back(Element{id});
    return list(std::move(items));
  }
  void finish(const Datum& value) {
    if (evaluator_.failed()) return;
    const std::vector<Datum> values = components(value);
    if (values.size() != meaning_.results.size())
      return void(evaluator_.mistake(step_.value, "the meaning has " + std::to_string(values.size()) +
                                                      " results, the type " + std::to_string(meaning_.results.size())));
    for (size_t i = 0; i < values.size(); ++i)
      meaning_.results[i].value = loops_.scalar(values[i], step_.value, meaning_.results[i].type.dtype);
  }

  void pointwise() {
    std::vector<ScalarId> place = result_index();
    if (step_.at)
      evaluator_.bind(*step_.at, elements(place), step_.value);
    else
      loops_.broadcast_index = std::move(place);
    finish(evaluator_.evaluate(step_.value));
  }

  // Loop variables over extents that may themselves be computed; ids of their indices.
  std::vector<ScalarId> variables(const Datum& extents, std::vector<int>& variables, std::vector<ScalarId>& sizes) {
    std::vector<ScalarId> place;
    if (evaluator_.failed()) return place;
    if (!extents.is_list()) return evaluator_.mistake(step_.extent, "the extent of a loop is a list of sizes"), place;
    for (const Datum& extent : extents.items()) {
      variables.push_back(
          loops_.variable(extent.is<ir::SymInt>() ? std::optional(extent.get<ir::SymInt>()) : std::nullopt));
      sizes.push_back(loops_.scalar(extent, step_.extent, ScalarType::i64));
      place.push_back(extent.integer() == 1 ? loops_.constant(int64_t{0}, ScalarType::i64)
                                            : loops_.index(variables.back()));
    }
    return place;
  }

  void reduction_at() {
    evaluator_.bind(*step_.at, elements(result_index()), step_.value);
    const Datum extents = evaluator_.evaluate(step_.extent);
    Loops::Scope scope;
    const std::vector<ScalarId> place = variables(extents, scope.variables, scope.extents);
    if (evaluator_.failed()) return;
    scope.count = 1;
    for (const Datum& extent : extents.items())
      scope.count = evaluator_.binary(Operation::mul, scope.count, extent, step_.extent);
    evaluator_.bind(*step_.over, elements(place), step_.extent);
    loops_.scope = &scope;
    finish(evaluator_.evaluate(step_.value));
    loops_.scope = nullptr;
  }

  // The broadcast of the operands' shapes; the result keeps the axes that are not reduced (all of them, with keepdim).
  void reduction_over() {
    std::vector<std::vector<ir::SymInt>> shapes;
    for (const Argument& argument : call_.arguments)
      if (const ir::Value* value = argument.value())
        if (value->is_tensor()) shapes.push_back(value->meta().sizes);
    const std::vector<ir::SymInt> shape = broadcast(evaluator_, shapes, step_.extent);
    const Datum listed = evaluator_.evaluate(step_.extent);
    if (evaluator_.failed() || !listed.is_list())
      return void(evaluator_.mistake(step_.extent, "`over` takes a list of axes"));
    std::vector<bool> is_reduced(shape.size());
    for (const Datum& axis : listed.items()) {
      const int64_t at = evaluator_.as_static(axis, step_.extent).value_or(-1);
      if (at < 0 || at >= static_cast<int64_t>(shape.size()))
        return void(evaluator_.mistake(step_.extent, to_string(axis) + " is no axis"));
      is_reduced[static_cast<size_t>(at)] = true;
    }
    const std::vector<ScalarId> kept = result_index();
    const size_t reduced = static_cast<size_t>(std::count(is_reduced.begin(), is_reduced.end(), true));
    const bool keeps_rank = kept.size() == shape.size();
    if (!keeps_rank && kept.size() + reduced != shape.size())
      return void(evaluator_.mistake(step_.extent, "the result's rank does not fit the axes"));
    Loops::Scope scope;
    std::vector<ir::SymInt> extents;
    std::vector<ScalarId> full;
    ScalarId position = no_scalar;
    size_t next = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!is_reduced[axis]) {
        full.push_back(kept[keeps_rank ? axis : next++]);
        continue;
      }
      scope.variables.push_back(loops_.variable(shape[axis]));
      scope.extents.push_back(loops_.size(shape[axis]));
      extents.push_back(shape[axis]);
      full.push_back(index(scope.variables.back(), shape[axis]));
      if (step_.is_prefix) scope.prefix_axis = static_cast<int>(axis);
      const auto mul_add = [&](ScalarId outer) {
        const Datum scaled = loops_.binary(Operation::mul, Element{outer}, Element{scope.extents.back()}, step_.extent);
        return loops_.scalar(loops_.binary(Operation::add, scaled, Element{full.back()}, step_.extent), step_.extent);
      };
      position = position == no_scalar ? full.back() : mul_add(position);
    }
    if (step_.is_prefix && reduced > 1) return void(evaluator_.mistake(step_.extent, "prefixes run along one axis"));
    scope.count = shape::product(extents);
    if (step_.position_slot >= 0)
      evaluator_.set(step_.position_slot, position == no_scalar ? Datum(0) : Datum(Element{position}));
    loops_.broadcast_index = std::move(full);
    loops_.scope = &scope;
    finish(evaluator_.evaluate(step_.value));
    loops_.scope = nullptr;
  }

  void view() {
    const std::vector<ScalarId> place = result_index();
    evaluator_.bind(*step_.at, elements(place), step_.value);
    finish(evaluator_.evaluate(step_.value));
    if (evaluator_.failed()) return;
    const Scalar read = meaning_.scalars[static_cast<size_t>(meaning_.results[0].value)];
    if (read.op != ScalarOp::read) return void(evaluator_.mistake(step_.value, "a view is an index into its operand"));
    meaning_.is_view = call_.op->derivation() == Derivation::none;
    if (call_.op->derivation() != Derivation::scatter) return;
    // Written back to, a view is a scatter through its index map.
    Scatter scatter;
    scatter.base = read.tensor;
    scatter.variables = meaning_.results[0].variables;
    for (const ir::SymInt& size : meaning_.results[0].type.sizes) scatter.extents.push_back(loops_.size(size));
    scatter.at = read.operands;
    const ir::TensorMeta base = meaning_.tensors[static_cast<size_t>(read.tensor)]->meta();
    scatter.value = loops_.cast(loops_.read(call_.arguments[1].value(), place), base.dtype);
    meaning_.scatter = std::move(scatter);
    meaning_.results[0] = {.type = base};
  }

  void scatter() {
    Scatter scatter;
    const ir::TensorMeta& type = meaning_.results[0].type;
    const Datum base = evaluator_.evaluate(step_.base);
    if (evaluator_.failed() || !base.tensor())
      return void(evaluator_.mistake(step_.base, "a scatter starts from a tensor"));
    meaning_.tensors.push_back(base.tensor());
    scatter.base = 0;
    const std::vector<ScalarId> place =
        variables(evaluator_.evaluate(step_.extent), scatter.variables, scatter.extents);
    evaluator_.bind(*step_.at, elements(place), step_.extent);
    scatter.at = loops_.indices(components(evaluator_.evaluate(step_.place)), step_.place);
    if (!evaluator_.failed() && scatter.at.size() != type.sizes.size())
      return void(evaluator_.mistake(step_.place, "the index has another rank than the result"));
    const Expr* value = step_.value;
    const bool is_joined = value->kind == ExprKind::monoid;
    ScalarType dtype = type.dtype;
    if (is_joined) {  // m{e}: joins what is there
      for (const Binding& binding : value->bindings)
        evaluator_.bind(binding.pattern, evaluator_.evaluate(binding.value), binding.value);
      dtype = widened(dtype);
      scatter.join = loops_.make_monoid(*value->monoid, {dtype}, value);
      value = value->operands[0];
    }
    scatter.value = loops_.scalar(evaluator_.evaluate(value), value, dtype);
    meaning_.scatter = std::move(scatter);
  }

  Evaluator& evaluator_;
  const Call& call_;
  const Step& step_;
  Meaning meaning_;
  Loops loops_;
  TypeOf first_type_;
};

Meaning extern_meaning(Evaluator& evaluator, const Call& call, const Step& step) {
  Meaning meaning;
  meaning.extern_kernel = step.label;
  const std::vector<Parameter>& parameters = call.op->schema().parameters;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Argument& argument = call.arguments[i];
    if (parameters[i].type.kind == Kind::tensor && !parameters[i].type.list && !argument.value() &&
        !argument.is<ir::None>())
      evaluator.fail(nullptr, 108, parameters[i].name, "no number stands for its tensor '" + parameters[i].name + "'");
  }
  if (!step.has_arguments) meaning.extern_arguments = call.arguments;
  for (const Expr* expr : step.arguments) {
    std::optional<Argument> argument = to_argument(evaluator.evaluate(expr));
    if (!argument) evaluator.mistake(expr, "this is no argument for a kernel");
    meaning.extern_arguments.push_back(argument.value_or(ir::None()));
  }
  if (evaluator.result_type)
    for (const Datum& datum : components(*evaluator.result_type))
      if (datum.is<TypeOf>()) meaning.extern_types.push_back(datum.get<TypeOf>()->type);
  return meaning;
}

// Walks a call's block and hands the step that applies to `use`.
template <class Use>
auto with_step(const Opset& opset, const Call& call, const shape::Facts& facts, Use use)
    -> decltype(use(std::declval<Evaluator&>(), call, Step())) {
  const Call written = origin_call(call);
  Evaluator evaluator(opset, written, facts);
  evaluator.apply_apart();
  const Step* step = evaluator.walk(false);
  if (!step && !evaluator.failed()) evaluator.mistake(nullptr, "the block has no meaning");
  if (evaluator.failed()) return evaluator.take_failure();
  auto result = use(evaluator, written, *step);
  if (evaluator.failed()) return evaluator.take_failure();
  return result;
}

}  // namespace

Result<MeaningKind> meaning_kind(const Opset& opset, const Call& call, const shape::Facts& facts) {
  if (call.op->is_declared()) return MeaningKind::unknown;
  return with_step(opset, call, facts, [](Evaluator&, const Call&, const Step& step) -> Result<MeaningKind> {
    return step.kind == StepKind::decompose       ? MeaningKind::decomposition
           : step.kind == StepKind::extern_kernel ? MeaningKind::extern_kernel
                                                  : MeaningKind::loops;
  });
}

Result<Meaning> meaning(const Opset& opset, const Call& call, const shape::Facts& facts) {
  if (call.op->is_declared())
    return error(Status::unsupported, 119,
                 call.op->target() + " is only declared: nothing here knows how to compute it")
        .note("fix: say what it means in a file, and `atenon decompose --with FILE`: op " +
              call.op->schema().to_string())
        .note("or bring a library that computes it (atenon_kernel.h): atenon run --kernels FILE");
  return with_step(opset, call, facts,
                   [&](Evaluator& evaluator, const Call& written, const Step& step) -> Result<Meaning> {
                     if (step.kind == StepKind::decompose)
                       return error(Status::bad_input, 118,
                                    call.op->target() + " is made of other operators: it has no loops of its own");
                     if (step.kind == StepKind::extern_kernel) return extern_meaning(evaluator, written, step);
                     return LoopMaker(evaluator, call, step).make();
                   });
}

// --- Text

const char* name_of(ScalarOp op) {
  static constexpr const char* names[] = {
      "constant", "size",   "size_float", "index",      "read",        "cast",        "add",        "sub",
      "mul",      "div",    "floor_div",  "mod",        "trunc_div",   "pow",         "neg",        "minimum",
      "maximum",  "eq",     "ne",         "lt",         "le",          "logical_and", "logical_or", "logical_not",
      "bit_and",  "bit_or", "bit_not",    "shift_left", "shift_right", "bit_xor",     "select",     "exp",
      "exp2",     "expm1",  "log",        "log2",       "log10",       "log1p",       "sqrt",       "rsqrt",
      "sin",      "cos",    "tan",        "asin",       "acos",        "atan",        "sinh",       "cosh",
      "tanh",     "asinh",  "acosh",      "atanh",      "erf",         "erfc",        "lgamma",     "digamma",
      "abs",      "floor",  "ceil",       "trunc",      "round",       "isnan",       "sigmoid",    "atan2",
      "complex",  "real",   "imag",       "reduce"};
  return names[static_cast<int>(op)];
}

namespace {

template <class Range, class Print>
std::string joined(const Range& range, Print print) {
  std::string text;
  for (const auto& item : range) text += (text.empty() ? "" : ", ") + print(item);
  return text;
}

std::string scalar_name(ScalarId id) { return '%' + std::to_string(id); }
std::string ids(const std::vector<ScalarId>& list) { return '[' + joined(list, scalar_name) + ']'; }

// i0 < %3, i1 < %4
std::string loops(const std::vector<int>& variables, const std::vector<ScalarId>& extents) {
  std::string text;
  for (size_t i = 0; i < variables.size(); ++i)
    text += (i ? ", i" : "i") + std::to_string(variables[i]) + " < " + scalar_name(extents[i]);
  return text;
}

std::string line(const Scalar& scalar) {
  std::string text = name_of(scalar.op);
  switch (scalar.op) {
    case ScalarOp::constant:
      return text + ' ' +
             (scalar.variable >= 0        ? "placeholder"
              : is_floating(scalar.dtype) ? ir::SymFloat(scalar.number).to_string()
                                          : std::to_string(scalar.integer));
    case ScalarOp::size:
      return text + ' ' + scalar.size.to_string();
    case ScalarOp::size_float:
      return text + ' ' + scalar.size_float.to_string();
    case ScalarOp::index:
      return text + " i" + std::to_string(scalar.variable);
    case ScalarOp::read:
      return text + " operand " + std::to_string(scalar.tensor) + " at " + ids(scalar.operands);
    case ScalarOp::reduce:
      return text + ' ' + std::to_string(scalar.reduction) + '.' + std::to_string(scalar.component);
    default:
      return text + ' ' + joined(scalar.operands, scalar_name);
  }
}

}  // namespace

std::string Meaning::to_string() const {
  std::string text;
  if (!extern_kernel.empty())
    return "extern " + extern_kernel + '(' +
           joined(extern_arguments, [](const Argument& a) { return text::print(a); }) + ")\n";
  for (size_t i = 0; i < tensors.size(); ++i)
    text += "operand " + std::to_string(i) + ": " + ir::to_string(tensors[i]->type) + '\n';
  for (size_t i = 0; i < scalars.size(); ++i)
    text += scalar_name(static_cast<ScalarId>(i)) + ": " + atenon::name_of(scalars[i].dtype) + " = " +
            line(scalars[i]) + '\n';
  for (size_t i = 0; i < reductions.size(); ++i) {
    const Reduction& r = reductions[i];
    text += "reduction " + std::to_string(i) + ": " + r.monoid.name + ids(r.element) + " over " +
            loops(r.variables, r.extents);
    if (r.guard != no_scalar) text += " when " + scalar_name(r.guard);
    if (r.prefix) text += " prefix of axis " + std::to_string(r.prefix_axis);
    text += " from " + ids(r.monoid.identity) + " join " + ids(r.monoid.left) + ' ' + ids(r.monoid.right) + " as " +
            ids(r.monoid.joined) + '\n';
  }
  if (scatter) {
    text += "scatter from operand " + std::to_string(scatter->base) + " for " +
            loops(scatter->variables, scatter->extents) + ": " + ids(scatter->at) +
            " := " + scalar_name(scatter->value);
    text += scatter->join ? " joined by " + scatter->join->name + " as " + ids(scatter->join->joined) + '\n' : "\n";
  }
  for (size_t i = 0; i < results.size(); ++i) {
    text += (is_view ? "view " : "result ") + std::to_string(i) + ": " + ir::to_string(results[i].type);
    if (!results[i].variables.empty())
      text += " for " + joined(results[i].variables, [](int v) { return 'i' + std::to_string(v); });
    text += results[i].value != no_scalar ? " = " + scalar_name(results[i].value) + '\n' : "\n";
  }
  return text;
}

std::optional<ir::SymInt> Scalar::as_size() const {
  if (op == ScalarOp::size) return size;
  return op == ScalarOp::constant && !is_placeholder() ? std::optional<ir::SymInt>(integer) : std::nullopt;
}

bool runs_over(const Meaning& meaning, const Scatter& scatter, const std::vector<ir::SymInt>& sizes) {
  return std::ranges::equal(scatter.extents, sizes, [&](ScalarId extent, const ir::SymInt& size) {
    return meaning.scalars[static_cast<size_t>(extent)].as_size() == size;
  });
}

bool is_everywhere(const Meaning& meaning, const std::vector<ScalarId>& place, const std::vector<int>& variables,
                   const std::vector<ir::SymInt>& sizes) {
  if (place.size() != variables.size()) return false;
  for (size_t axis = 0; axis < place.size(); ++axis) {
    const Scalar& index = meaning.scalars[static_cast<size_t>(place[axis])];
    const bool is_only_one = sizes[axis] == 1 && index.op == ScalarOp::constant && index.integer == 0;
    if (!is_only_one && (index.op != ScalarOp::index || index.variable != variables[axis])) return false;
  }
  return true;
}

namespace {

// Whether the result is the operand, which has its type: read element by element, or written to every place.
bool reads_itself(const Meaning& meaning, const ir::Value* operand) {
  if (meaning.results.size() != 1 || !meaning.extern_kernel.empty()) return false;
  const LoopNest& nest = meaning.results[0];
  const std::optional<Scatter>& scatter = meaning.scatter;
  const std::vector<int>& variables = scatter ? scatter->variables : nest.variables;
  const bool is_partial = scatter && (scatter->join || !runs_over(meaning, *scatter, nest.type.sizes) ||
                                      !is_everywhere(meaning, scatter->at, variables, nest.type.sizes));
  if (is_partial) return false;
  const ScalarId id = scatter ? scatter->value : nest.value;
  if (id == no_scalar) return false;
  const Scalar& value = meaning.scalars[static_cast<size_t>(id)];
  return value.op == ScalarOp::read && meaning.tensors[static_cast<size_t>(value.tensor)] == operand &&
         is_everywhere(meaning, value.operands, variables, nest.type.sizes);
}

}  // namespace

Result<ir::Value*> unchanged_operand(const Opset& opset, const ir::Node& node, const shape::Facts& facts) {
  if (ir::is_call(node) || ir::is_control_flow(node.target()) || node.results().size() != 1) return nullptr;
  Result<Call> call = bind(opset, node);
  if (!call) return call.error();
  for (ir::Value* operand : node.operands()) {
    if (operand->type != node.result()->type) continue;
    Result<MeaningKind> kind = meaning_kind(opset, *call, facts);
    if (!kind || *kind != MeaningKind::loops) break;
    Result<Meaning> loops = meaning(opset, *call, facts);
    if (!loops) return loops.error();
    if (reads_itself(*loops, operand)) return operand;
  }
  return nullptr;
}

}  // namespace atenon::opset
