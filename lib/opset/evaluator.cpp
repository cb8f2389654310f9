#include "opset/evaluator.h"

#include <algorithm>

#include "opset/loop_builder.h"

namespace atenon::opset {
namespace {

constexpr int deepest_calls = 64;
constexpr int64_t most_steps = 20'000'000;

}  // namespace

Evaluator::Evaluator(const Opset& opset, const Call& call, const shape::Facts& facts)
    : budget(std::make_shared<int64_t>(most_steps)), opset_(opset), call_(call), given_facts_(facts) {}

// --- Failures

Datum Evaluator::fail(const Expr* at, int code, const std::string& label, const std::string& message) {
  if (failure_) return {};
  failure_ = error(Status::bad_input, code, call_.op->target() + ": " + message);
  const SourceSpan place = at && file_ ? file_->span(at->offset, at->width) : call_.op->place();
  if (code == 115)
    failure_->where = place;
  else
    failure_->notes.push_back({call_.op->target() + " is defined in " + place.file + ':' + std::to_string(place.line)});
  label_ = label;
  return {};
}

void Evaluator::adopt(Diagnostic failure, const std::string& label) {
  if (failure_) return;
  failure_ = std::move(failure);
  label_ = label;
}

// --- Blocks

Call origin_call(const Call& call) {
  const Operator& op = *call.op;
  if (!op.origin()) return call;
  Call origin{op.origin(), {}};
  for (size_t i = 0; i < op.schema().parameters.size(); ++i) {
    const bool extra = op.derivation() == Derivation::out ? i >= origin.op->schema().parameters.size()
                                                          : op.derivation() == Derivation::scatter && i == 1;
    if (!extra) origin.arguments.push_back(call.arguments[i]);
  }
  return origin;
}

void Evaluator::apply_apart() {
  apply = [this](const Call&, Inference inference) {
    std::vector<ir::Value*> values;
    for (ir::Type& type : inference.types)
      values.push_back(&apart_.emplace_back(ir::Value{"v" + std::to_string(apart_.size()), std::move(type)}));
    return values;
  };
}

void Evaluator::enter(const Block& block, size_t header) {
  stack_.assign(static_cast<size_t>(block.tree.slots), Datum());
  base_ = 0;
  file_ = block.file;
  const std::vector<int>& slots = block.parameter_slots[header];
  for (size_t i = 0; i < slots.size(); ++i) stack_[static_cast<size_t>(slots[i])] = from_argument(call_.arguments[i]);
  if (result_type) stack_[static_cast<size_t>(block.out_slot)] = *result_type;
}

const Step* Evaluator::walk(bool checked) {
  const Operator& op = *call_.op;
  const LazyBlock* const blocks[] = {&op.block(), op.replacement()};
  for (const LazyBlock* lazy : blocks) {
    if (!lazy) continue;
    const bool is_replaced = op.replacement() && lazy == blocks[0];
    const Block& block = lazy->get();
    enter(block, is_replaced || !op.replacement() ? op.header() : op.replacement_header());
    for (const Step& step : block.steps) {
      if (failed()) return nullptr;
      if (step.kind == StepKind::let) {
        bind(step.let.pattern, evaluate(step.let.value), step.let.value);
      } else if (step.kind == StepKind::check) {
        if (checked) check(step);
      } else if (step.kind == StepKind::type) {
        result_type = evaluate(step.value);
        set(block.out_slot, *result_type);
      } else if (!is_replaced && (is_lowering || !step.is_lowered) &&
                 (!step.guard || holds(evaluate(step.guard), step.guard))) {
        return failed() ? nullptr : &step;
      }
    }
  }
  const Block& block = op.block().get();
  if (!failed() && !(result_type && !block.meaning())) mistake(nullptr, "no meaning applies to these arguments");
  return nullptr;
}

void Evaluator::check(const Step& step) {
  const Datum truth = evaluate(step.value);
  if (failed()) return;
  if (!truth.is<ir::SymBool>()) return void(mistake(step.value, "a check is a truth, not " + to_string(truth)));
  std::string message;
  const auto text = [&] {
    if (!message.empty() || failed()) return message;
    const Expr& value = *step.value;
    if (!step.message.pieces.empty()) return message = format(step.message);
    if (value.kind != ExprKind::call || !value.function) return message = file_->text.substr(value.offset, value.width);
    // A function that is a check brings its own message.
    Result<const Function::Body*> body = body_of(*value.function, library());
    std::vector<Datum> arguments;
    for (const Expr* operand : value.operands) arguments.push_back(evaluate(operand));
    if (!body || (*body)->message.pieces.empty()) return message = file_->text.substr(value.offset, value.width);
    in_frame(*value.function->file, (*body)->tree.slots, std::move(arguments), [&] {
      message = format((*body)->message);
      return Datum();
    });
    return message;
  };
  const ir::SymBool& condition = truth.get<ir::SymBool>();
  const std::optional<bool> known = condition.constant();
  if (known && *known) return;
  const std::string reason = text();
  if (failed() || (!known && assume(condition, call_.op->target() + ": " + reason))) return;
  const SourceSpan place = file_->span(step.offset);
  Diagnostic failure = error(Status::bad_input, 110, call_.op->target() + ": " + reason);
  failure.notes.push_back({"this is check " + step.label + " of " + call_.op->target() + ", " + place.file + ':' +
                           std::to_string(place.line)});
  adopt(std::move(failure), step.label);
}

std::string Evaluator::format(const Message& message) {
  std::string text;
  for (const Message::Piece& piece : message.pieces) text += piece.expr ? to_string(evaluate(piece.expr)) : piece.text;
  return text;
}

// --- Truths

ir::SymBool Evaluator::settled(const ir::SymBool& truth) const {
  if (truth.constant()) return truth;
  const shape::Truth known = facts().decide(truth);
  return known == shape::Truth::open ? truth : ir::SymBool(known == shape::Truth::proven);
}

bool Evaluator::assume(const ir::SymBool& truth, const std::string& reason) {
  const ir::SymBool rest = settled(truth);
  if (const std::optional<bool> known = rest.constant()) return *known;
  const shape::BoolNode& node = *rest.node();
  if (node.kind == ir::SymBool::Kind::all)
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](const ir::SymBool& part) { return assume(part, reason); });
  ir::SymBool assumed = rest;
  if (node.kind == ir::SymBool::Kind::any) {  // what was refuted is no alternative
    assumed = false;
    for (const ir::SymBool& part : node.operands) assumed = shape::either(assumed, settled(part));
    if (const std::optional<bool> known = assumed.constant()) return *known;
    if (assumed.node()->kind != ir::SymBool::Kind::any) return assume(assumed, reason);
  }
  if (!own_facts_) own_facts_ = given_facts_;
  if (!own_facts_->assume(assumed)) return false;
  assumptions.push_back({assumed, 0, reason});
  return true;
}

bool Evaluator::holds(const Datum& condition, const Expr* at) {
  if (failed()) return false;
  if (!condition.is<ir::SymBool>()) {
    mistake(at, "a condition is a truth, not " + to_string(condition));
    return false;
  }
  return choose(condition.get<ir::SymBool>(), at);
}

bool Evaluator::choose(const ir::SymBool& truth, const Expr* at) {
  const ir::SymBool rest = settled(truth);
  if (const std::optional<bool> known = rest.constant()) return *known;
  using Kind = ir::SymBool::Kind;
  const shape::BoolNode& node = *rest.node();
  const auto chosen = [&](const ir::SymBool& part) { return choose(part, at); };
  switch (node.kind) {
    case Kind::all:
      return std::all_of(node.operands.begin(), node.operands.end(), chosen);
    case Kind::any:
      return std::any_of(node.operands.begin(), node.operands.end(), chosen);
    case Kind::eq:
      return !assume(shape::negate(rest), call_.op->target() + " takes the general case");
    case Kind::ne:
      return assume(rest, call_.op->target() + " takes the general case");
    default:
      break;
  }
  const std::optional<bool> example = hints ? shape::evaluate(rest, *hints) : std::nullopt;
  if (example && assume(*example ? rest : shape::negate(rest), call_.op->target() + " takes the example's case"))
    return *example;
  fail(at, 112, "undecided", "whether " + rest.to_string() + " is not known, and what is computed depends on it");
  return false;
}

// --- Frames

Datum Evaluator::in_frame(const SourceFile& file, int slots, std::vector<Datum> arguments,
                          const std::function<Datum()>& body) {
  const size_t old_base = base_, old_size = stack_.size();
  const SourceFile* const old_file = file_;
  stack_.resize(old_size + static_cast<size_t>(slots));
  std::move(arguments.begin(), arguments.end(), stack_.begin() + static_cast<ptrdiff_t>(old_size));
  base_ = old_size;
  file_ = &file;
  Datum result = body();
  base_ = old_base;
  file_ = old_file;
  stack_.resize(old_size);
  return result;
}

Datum Evaluator::call_function(const Function& function, const Expr& at, std::vector<Datum> arguments) {
  Result<const Function::Body*> body = body_of(function, library());
  if (!body) return adopt(body.error()), Datum();
  if (arguments.size() != (*body)->parameters)
    return mistake(&at, function.name + " takes " + std::to_string((*body)->parameters) + " arguments");
  if (calls_ >= deepest_calls) return mistake(&at, "functions call one another too deeply");
  ++calls_;
  Datum result =
      in_frame(*function.file, (*body)->tree.slots, std::move(arguments), [&] { return evaluate((*body)->value); });
  --calls_;
  return result;
}

void Evaluator::bind(const Pattern& pattern, const Datum& value, const Expr* at) {
  if (failed()) return;
  if (pattern.slot >= 0) return set(pattern.slot, value);
  if (!value.is_list() || value.items().size() != pattern.items.size())
    return void(mistake(at, to_string(value) + " is not a list of " + std::to_string(pattern.items.size())));
  for (size_t i = 0; i < pattern.items.size(); ++i) bind(pattern.items[i], value.items()[i], at);
}

// --- Expressions

Datum Evaluator::evaluate(const Expr* expr) {
  if (failed()) return {};
  if (--*budget < 0) return mistake(expr, "this takes too long to evaluate");
  switch (expr->kind) {
    case ExprKind::constant:
      return expr->value;
    case ExprKind::variable:
      return stack_[base_ + static_cast<size_t>(expr->slot)];
    case ExprKind::count:
      return loops && loops->scope ? loops->scope->count : mistake(expr, "`count` has a meaning in reductions only");
    case ExprKind::sequence: {
      std::vector<Datum> items;
      items.reserve(expr->operands.size());
      for (const Expr* operand : expr->operands) items.push_back(evaluate(operand));
      return expr->is_tuple ? tuple(std::move(items)) : list(std::move(items));
    }
    case ExprKind::each:
      return each(*expr);
    case ExprKind::call:
      return call_expression(*expr);
    case ExprKind::index:
      return index(*expr);
    case ExprKind::slice:
      return mistake(expr, "a slice stands in an index only");
    case ExprKind::field:
      return field(evaluate(expr->operands[0]), *expr);
    case ExprKind::component: {
      const Datum owner = evaluate(expr->operands[0]);
      if (failed()) return {};
      if (!owner.is_list() || static_cast<size_t>(expr->slot) >= owner.items().size())
        return mistake(expr, to_string(owner) + " has no component " + std::to_string(expr->slot));
      return owner.items()[static_cast<size_t>(expr->slot)];
    }
    case ExprKind::unary: {
      const Datum operand = evaluate(expr->operands[0]);
      return failed() ? Datum() : unary(expr->operation, operand, expr);
    }
    case ExprKind::binary:
      return binary_expression(*expr);
    case ExprKind::choice:
      return choice(*expr);
    case ExprKind::let:
      for (const Binding& binding : expr->bindings) bind(binding.pattern, evaluate(binding.value), binding.value);
      return evaluate(expr->operands[0]);
    case ExprKind::monoid:
      return loops && loops->scope ? loops->monoid(*expr) : mistake(expr, "a monoid runs in a reduction only");
  }
  return {};
}

Datum Evaluator::each(const Expr& expr) {
  const Binding& binding = expr.bindings[0];
  const Datum source = evaluate(binding.value);
  if (failed()) return {};
  if (!source.is_list()) return mistake(binding.value, "a comprehension goes through a list, not " + to_string(source));
  std::vector<Datum> items;
  items.reserve(source.items().size());
  for (const Datum& item : source.items()) {
    bind(binding.pattern, item, binding.value);
    if (!expr.guard || holds(evaluate(expr.guard), expr.guard)) items.push_back(evaluate(expr.operands[0]));
    if (failed()) return {};
  }
  return list(std::move(items));
}

Datum Evaluator::choice(const Expr& expr) {
  Datum condition = evaluate(expr.operands[0]);
  if (failed()) return {};
  if (condition.is<ir::SymBool>()) condition = settled(condition.get<ir::SymBool>());
  const bool is_open = condition.is<ir::SymBool>() && !condition.get<ir::SymBool>().constant();
  if (!loops && is_open)
    if (std::optional<Datum> both = either_size(condition.get<ir::SymBool>(), expr)) return *both;
  if (!loops || !(is_open || loops->is_dynamic(condition)))
    return evaluate(holds(condition, expr.operands[0]) ? expr.operands[1] : expr.operands[2]);
  const Datum then = evaluate(expr.operands[1]);
  const Datum otherwise = evaluate(expr.operands[2]);
  return failed() ? Datum() : loops->select(condition, then, otherwise, &expr);
}

// A size that is one thing where an order of data holds, and another where not, is an expression: x <= 0 is 1 or 0 as
// max(0, min(1, 1 - x)). Nullopt where that says too little: the example knows, or either of the two asks for
// something.
std::optional<Datum> Evaluator::either_size(const ir::SymBool& order, const Expr& expr) {
  if (order.node()->kind != ir::SymBool::Kind::le || (hints && shape::evaluate(order, *hints))) return std::nullopt;
  const size_t assumed = assumptions.size();
  const Datum then = evaluate(expr.operands[1]), otherwise = evaluate(expr.operands[2]);
  if (failed()) return Datum();
  if (!then.is<ir::SymInt>() || !otherwise.is<ir::SymInt>() || assumptions.size() != assumed) return std::nullopt;
  const ir::SymInt holds = shape::max(0, shape::min(1, ir::SymInt(1) - order.node()->difference));
  return Datum(otherwise.get<ir::SymInt>() + (then.get<ir::SymInt>() - otherwise.get<ir::SymInt>()) * holds);
}

Datum Evaluator::binary_expression(const Expr& expr) {
  const Datum left = evaluate(expr.operands[0]);
  if (failed()) return {};
  const Operation operation = expr.operation;
  if (operation == Operation::otherwise) return left.is_none() ? evaluate(expr.operands[1]) : left;
  if ((operation == Operation::logical_and || operation == Operation::logical_or) && left.is<ir::SymBool>()) {
    const std::optional<bool> known = settled(left.get<ir::SymBool>()).constant();
    if (known) return *known == (operation == Operation::logical_or) ? Datum(*known) : evaluate(expr.operands[1]);
  }
  const Datum right = evaluate(expr.operands[1]);
  return failed() ? Datum() : binary(operation, left, right, &expr);
}

Datum Evaluator::field(const Datum& owner, const Expr& expr) {
  if (failed()) return {};
  const std::string& name = expr.name;
  const ir::Type* type = owner.is<ir::Value*>() ? &owner.get<ir::Value*>()->type
                         : owner.is<TypeOf>()   ? &owner.get<TypeOf>()->type
                                                : nullptr;
  if (const ir::TensorMeta* meta = type ? std::get_if<ir::TensorMeta>(type) : nullptr) {
    if (name == "shape") return list(meta->sizes);
    if (name == "rank") return static_cast<int64_t>(meta->sizes.size());
    if (name == "dtype") return meta->dtype;
    if (name == "numel") return meta->numel();
    if (name == "is_contiguous") return !meta->strides;
  } else if (owner.is_number() || type) {  // a number that stands for a tensor
    if (name == "shape") return list(std::vector<Datum>());
    if (name == "rank") return 0;
    if (name == "numel") return 1;
    if (name == "is_contiguous") return true;
    if (name == "dtype" && owner.is<ir::SymInt>()) return ScalarType::i64;
    if (name == "dtype" && owner.is<ir::SymBool>()) return ScalarType::boolean;
    if (name == "dtype" && owner.is<ir::SymFloat>()) return ScalarType::f32;
    if (name == "dtype")
      return std::get<ir::ScalarKind>(*type) == ir::ScalarKind::boolean ? ScalarType::boolean : ScalarType::f32;
  }
  return mistake(&expr, to_string(owner) + " has no field '" + name + "'");
}

Datum Evaluator::element_of_list(const Datum& list_, const Expr& item) {
  const std::vector<Datum>& items = list_.items();
  const auto size = static_cast<int64_t>(items.size());
  const auto from_end = [&](int64_t i) { return i < 0 ? i + size : i; };
  if (item.kind == ExprKind::slice) {
    const auto bound = [&](const Expr* expr, int64_t otherwise) {
      if (!expr) return otherwise;
      return std::clamp<int64_t>(from_end(as_static(evaluate(expr), expr).value_or(0)), 0, size);
    };
    const int64_t first = bound(item.operands[0], 0);
    const int64_t last = std::max(first, bound(item.operands[1], size));
    return list(std::vector<Datum>(items.begin() + first, items.begin() + last));
  }
  const std::optional<int64_t> position = as_static(evaluate(&item), &item);
  if (!position) return {};
  const int64_t at = from_end(*position);
  if (at < 0 || at >= size)
    return mistake(&item, "position " + std::to_string(*position) + " is outside of a list of " + std::to_string(size));
  return items[static_cast<size_t>(at)];
}

Datum Evaluator::index(const Expr& expr) {
  const Datum owner = evaluate(expr.operands[0]);
  if (failed()) return {};
  if (owner.is_list() && expr.operands.size() == 2) return element_of_list(owner, *expr.operands[1]);
  std::vector<Datum> items;
  for (size_t i = 1; i < expr.operands.size(); ++i) items.push_back(evaluate(expr.operands[i]));
  if (failed()) return {};
  if (owner.is<ScalarType>()) {  // f32[a, 3]
    ir::TensorMeta meta{.dtype = owner.get<ScalarType>(), .sizes = as_shape(list(std::move(items)), &expr)};
    return std::make_shared<const ResultType>(ResultType{std::move(meta)});
  }
  if (loops && (owner.is<ir::Value*>() || owner.is_number())) return loops->element(owner, items, &expr);
  return mistake(&expr, to_string(owner) + " cannot be indexed here");
}

Datum Evaluator::call_expression(const Expr& expr) {
  std::vector<Datum> arguments;
  arguments.reserve(expr.operands.size());
  bool any_tensor = false;
  for (const Expr* operand : expr.operands) {
    arguments.push_back(evaluate(operand));
    any_tensor = any_tensor || has_tensor(arguments.back());
  }
  if (failed()) return {};
  // A name that is an operator and a function is the operator when an argument is a tensor.
  if (expr.function || expr.rule) {
    if (!any_tensor || !apply || opset_.overloads("aten::" + expr.name).empty())
      return expr.function ? call_function(*expr.function, expr, std::move(arguments)) : call_rule(expr, arguments);
  }
  if (!apply) return mistake(&expr, expr.rule ? "this needs no tensor" : "there is no function '" + expr.name + "'");
  return apply_operator(expr.name, std::move(arguments), expr.names, &expr);
}

Datum Evaluator::call_rule(const Expr& expr, const std::vector<Datum>& arguments) {
  const Rule& rule = *expr.rule;
  if (arguments.size() >= rule.least && arguments.size() <= rule.most) return rule.evaluate(*this, expr, arguments);
  return mistake(&expr,
                 expr.name + " takes " + std::to_string(rule.least) + (rule.least == 1 ? " argument" : " arguments"));
}

Datum Evaluator::apply_operator(const std::string& name, std::vector<Datum> arguments,
                                const std::vector<std::string>& names, const Expr* at) {
  if (failed()) return {};
  if (!apply) return mistake(at, "operators on tensors have no place in a loop");
  std::vector<Argument> positional;
  std::vector<Named> keywords;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::optional<Argument> argument = to_argument(widening_ ? widened(arguments[i], at) : arguments[i]);
    if (!argument) return mistake(at, to_string(arguments[i]) + " is no argument for an operator");
    if (i < names.size() && !names[i].empty())
      keywords.push_back({names[i], std::move(*argument)});
    else
      positional.push_back(std::move(*argument));
  }
  if (failed()) return {};
  std::string target = name;
  if (name.find("::") == std::string::npos) {
    const std::string& own = call_.op->schema().name;
    const std::string base = name.substr(0, name.find('.'));
    const std::string space = own.substr(0, own.find("::") + 2);
    target = (space != "aten::" && !opset_.overloads(space + base).empty() ? space
              : opset_.overloads("aten::" + base).empty()                  ? "atenon::"
                                                                           : "aten::") +
             name;
  }
  Result<Call> resolved = resolve(opset_, target, positional, keywords);
  if (!resolved) return adopt(resolved.error(), "overload"), Datum();
  std::string label;
  Result<Inference> inference = infer_nested(opset_, *resolved, facts(), next_unbacked, hints, this, &label);
  if (inference && !inference->unbacked.empty() && first_free_unbacked) {
    next_unbacked = std::exchange(first_free_unbacked, nullptr)();
    inference = infer_nested(opset_, *resolved, facts(), next_unbacked, hints, this, &label);
  }
  if (!inference) return adopt(inference.error(), label), Datum();
  next_unbacked += static_cast<int>(inference->unbacked.size());
  unbacked.insert(unbacked.end(), inference->unbacked.begin(), inference->unbacked.end());
  for (const ir::Constraint& assumption : inference->assumptions)
    if (!assume(assumption.truth, assumption.reason))
      return fail(at, 110, "", assumption.truth.to_string() + " cannot hold");
  const std::vector<std::pair<bool, size_t>> returns = inference->returns;
  const std::vector<ir::Value*> results = apply(std::move(*resolved), std::move(*inference));
  std::vector<Datum> data;
  size_t next = 0;
  for (const auto& [is_list, count] : returns) {
    std::vector<Datum> items;
    for (size_t i = 0; i < count; ++i) items.push_back(from_argument(results[next++]));
    data.push_back(is_list ? list(std::move(items)) : items[0]);
  }
  return data.size() == 1 ? data[0] : tuple(std::move(data));
}

// Tensors of 16-bit floats, at any depth of lists, replaced by their f32 copies.
Datum Evaluator::widened(const Datum& datum, const Expr* at) {
  if (datum.is_list()) {
    std::vector<Datum> items;
    for (const Datum& item : datum.items()) items.push_back(widened(item, at));
    return list(std::move(items));
  }
  ir::Value* tensor = datum.tensor();
  if (!tensor || size_of(tensor->meta().dtype) != 2 || !is_floating(tensor->meta().dtype)) return datum;
  const auto known = widening_->copies.find(tensor);
  if (known != widening_->copies.end()) return known->second;
  if (!widening_->narrow) widening_->narrow = tensor->meta().dtype;
  std::optional<Widening> mine = std::exchange(widening_, std::nullopt);  // the cast itself takes the tensor as it is
  const Datum copy = apply_operator("_to_copy", {datum, ScalarType::f32}, {"", "dtype"}, at);
  widening_ = std::move(mine);
  return widening_->copies[tensor] = copy;
}

Datum Evaluator::narrowed(const Datum& datum, const Expr* at) {
  if (datum.is_list()) {
    std::vector<Datum> items;
    for (const Datum& item : datum.items()) items.push_back(narrowed(item, at));
    return datum.get<List>()->is_tuple ? tuple(std::move(items)) : list(std::move(items));
  }
  const ir::Value* tensor = datum.tensor();
  if (!tensor || tensor->meta().dtype != ScalarType::f32) return datum;
  return apply_operator("_to_copy", {datum, *widening_->narrow}, {"", "dtype"}, at);
}

Datum Evaluator::decomposed(const Step& step) {
  if (step.is_wide) widening_.emplace();
  Datum result = evaluate(step.value);
  return widening_ && widening_->narrow && !failed() ? narrowed(result, step.value) : result;
}

}  // namespace atenon::opset
