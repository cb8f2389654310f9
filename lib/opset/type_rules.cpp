// Rules about dtypes and result types.
#include <algorithm>

#include "opset/rules.h"

namespace atenon::opset {
namespace {

constexpr ScalarType default_float = ScalarType::f32;

ScalarType complex_of(ScalarType type) {
  return type == ScalarType::f64 || type == ScalarType::c128 ? ScalarType::c128 : ScalarType::c64;
}

// c10's combine_categories: `higher` decides unless `lower` is of a higher category.
std::optional<ScalarType> combine(std::optional<ScalarType> higher, std::optional<ScalarType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_complex(*higher)) return higher;
  if (is_floating(*higher)) return is_complex(*lower) ? complex_of(*higher) : higher;
  if (*higher == ScalarType::boolean || is_floating(*lower) || is_complex(*lower)) return promote(*higher, *lower);
  return higher;
}

std::optional<ScalarType> dtype_of_number(const Datum& number) {
  if (number.is<ir::SymBool>()) return ScalarType::boolean;
  if (number.is<ir::SymInt>()) return ScalarType::i64;
  if (number.is<ir::SymFloat>()) return default_float;
  if (number.is<std::complex<double>>()) return ScalarType::c64;
  if (!number.is<ir::Value*>()) return std::nullopt;
  const ir::ScalarKind kind = std::get<ir::ScalarKind>(number.get<ir::Value*>()->type);
  return kind == ir::ScalarKind::boolean   ? ScalarType::boolean
         : kind == ir::ScalarKind::integer ? ScalarType::i64
                                           : default_float;
}

// The dtype of a tensor, a type, a number, or the dtype itself.
std::optional<ScalarType> dtype_of(const Datum& datum) {
  if (datum.is<ScalarType>()) return datum.get<ScalarType>();
  if (const ir::Value* tensor = datum.tensor()) return tensor->meta().dtype;
  if (datum.is<TypeOf>()) {
    const auto* meta = std::get_if<ir::TensorMeta>(&datum.get<TypeOf>()->type);
    return meta ? std::optional(meta->dtype) : std::nullopt;
  }
  return dtype_of_number(datum);
}

Datum type_datum(ResultType type) { return std::make_shared<const ResultType>(std::move(type)); }

// The broadcast of all tensors among the operands, computed in their common dtype.
Datum elementwise(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments, bool floats_only,
                  bool is_predicate) {
  Promotion promotion;
  std::vector<std::vector<ir::SymInt>> shapes;
  for (const Datum& argument : arguments) promotion.add(argument);
  for (const ir::Value* tensor : promotion.tensors()) shapes.push_back(tensor->meta().sizes);
  std::optional<ScalarType> computed = promotion.result();
  if (!computed) return evaluator.mistake(&call, "no operand has a dtype");
  if (floats_only && !is_floating(*computed) && !is_complex(*computed)) computed = default_float;
  ir::TensorMeta meta{.dtype = is_predicate ? ScalarType::boolean : *computed,
                      .sizes = broadcast(evaluator, shapes, &call)};
  return type_datum({std::move(meta), computed, promotion.tensors()});
}

Datum same(Evaluator& e, const Expr& call, const std::vector<Datum>& a) {
  return elementwise(e, call, a, false, false);
}
Datum floating(Evaluator& e, const Expr& call, const std::vector<Datum>& a) {
  return elementwise(e, call, a, true, false);
}
Datum predicate(Evaluator& e, const Expr& call, const std::vector<Datum>& a) {
  return elementwise(e, call, a, false, true);
}

// An elementwise type whose sizes are also those of tensors that have no say in the dtype: where's condition.
Datum widened(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  if (!arguments[0].is<TypeOf>()) return evaluator.mistake(&call, to_string(arguments[0]) + " is not a type");
  ResultType type = *arguments[0].get<TypeOf>();
  auto& meta = std::get<ir::TensorMeta>(type.type);
  meta.sizes = broadcast(evaluator, {evaluator.as_shape(arguments[1], &call), meta.sizes}, &call);
  return type_datum(std::move(type));
}

Datum tensor(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  if (!arguments[0].is<ScalarType>()) return evaluator.mistake(&call, to_string(arguments[0]) + " is not a dtype");
  return type_datum(
      {ir::TensorMeta{.dtype = arguments[0].get<ScalarType>(), .sizes = evaluator.as_shape(arguments[1], &call)}});
}

Datum promoted(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  Promotion promotion;
  for (const Datum& argument : arguments) promotion.add(argument);
  const std::optional<ScalarType> result = promotion.result();
  return result ? Datum(*result) : evaluator.mistake(&call, "no operand has a dtype");
}

Datum accumulate(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  const std::optional<ScalarType> type = dtype_of(arguments[0]);
  if (!type) return evaluator.mistake(&call, "accumulate is of a dtype");
  return is_floating(*type) || is_complex(*type) ? *type : ScalarType::i64;
}

Datum wide(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  const std::optional<ScalarType> type = dtype_of(arguments[0]);
  if (!type) return evaluator.mistake(&call, "wide is of a dtype");
  return widened(*type);
}

Datum dtype_rule(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  const std::optional<ScalarType> type = dtype_of(arguments[0]);
  return type ? Datum(*type) : evaluator.mistake(&call, "this has no dtype");
}

Datum size_of_rule(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  const std::optional<ScalarType> type = dtype_of(arguments[0]);
  return type ? Datum(static_cast<int64_t>(size_of(*type))) : evaluator.mistake(&call, "this has no dtype");
}

template <bool (*predicate)(ScalarType)>
Datum dtype_predicate(Evaluator&, const Expr&, const std::vector<Datum>& arguments) {
  const std::optional<ScalarType> type = dtype_of(arguments[0]);
  return type && predicate(*type);
}
bool is_boolean(ScalarType type) { return type == ScalarType::boolean; }
bool is_integer_or_bool(ScalarType type) { return is_boolean(type) || is_integral(type); }

Datum is_tensor(Evaluator&, const Expr&, const std::vector<Datum>& arguments) {
  return arguments[0].tensor() != nullptr;
}

Datum broadcast_rule(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  std::vector<std::vector<ir::SymInt>> shapes;
  for (const Datum& argument : arguments) {
    const bool is_list_of_shapes = argument.is_list() && !argument.items().empty() && argument.items()[0].is_list();
    if (!is_list_of_shapes)
      shapes.push_back(evaluator.as_shape(argument, &call));
    else
      for (const Datum& item : argument.items()) shapes.push_back(evaluator.as_shape(item, &call));
  }
  return list(broadcast(evaluator, shapes, &call));
}

// A fresh size, between `lower` and `upper`, that only the data decide.
Datum unknown(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  const std::optional<ir::SymInt> lower = evaluator.as_int(arguments[0], &call),
                                  upper = evaluator.as_int(arguments[1], &call);
  if (!lower || !upper) return {};
  if (evaluator.first_free_unbacked) evaluator.next_unbacked = std::exchange(evaluator.first_free_unbacked, nullptr)();
  ir::Symbol symbol{.name = ir::unbacked_name(evaluator.next_unbacked++)};
  symbol.range = {evaluator.facts().bounds(*lower).lower, evaluator.facts().bounds(*upper).upper};
  evaluator.unbacked.push_back(symbol);
  return ir::SymInt::symbol(symbol.name);
}

Datum unknown_scalar(Evaluator& evaluator, const Expr& call, const std::vector<Datum>& arguments) {
  const std::optional<ScalarType> type = dtype_of(arguments[0]);
  if (!type) return evaluator.mistake(&call, "unknown_scalar is of a dtype");
  return type_datum({is_boolean(*type)    ? ir::ScalarKind::boolean
                     : is_integral(*type) ? ir::ScalarKind::integer
                                          : ir::ScalarKind::floating});
}

}  // namespace

void Promotion::add(const Datum& operand) {
  if (operand.is_list()) {
    for (const Datum& item : operand.items()) add(item);
  } else if (const ir::Value* tensor = operand.tensor()) {
    tensors_.push_back(tensor);
    join(tensor->meta().sizes.empty() ? rank_zero_ : ranked_, tensor->meta().dtype);
  } else if (operand.is<ScalarType>()) {
    join(ranked_, operand.get<ScalarType>());
  } else if (const std::optional<ScalarType> type = dtype_of_number(operand)) {
    join(numbers_, *type);
  }
}

void Promotion::join(std::optional<ScalarType>& category, ScalarType type) {
  category = category ? promote(*category, type) : type;
}

std::optional<ScalarType> Promotion::result() const { return combine(ranked_, combine(rank_zero_, numbers_)); }

std::vector<ir::SymInt> broadcast(Evaluator& evaluator, const std::vector<std::vector<ir::SymInt>>& shapes,
                                  const Expr* at) {
  if (shapes.empty()) return {};
  std::vector<ir::SymInt> result = shapes[0];
  for (size_t s = 1; s < shapes.size() && !evaluator.failed(); ++s) {
    const std::vector<ir::SymInt>& other = shapes[s];
    if (other.size() > result.size()) result.insert(result.begin(), other.size() - result.size(), ir::SymInt(1));
    for (size_t i = 0; i < other.size(); ++i) {
      ir::SymInt& mine = result[result.size() - other.size() + i];
      const ir::SymInt& size = other[i];
      if (size.constant() == 1 || mine == size) continue;
      const auto is_one = [&](const ir::SymInt& x) { return evaluator.settled(shape::equal(x, 1)).constant() == true; };
      // What has at most one element, such as x[:1], is meant to have one beside a size that may be any.
      const auto is_one_at_most = [&](const ir::SymInt& x) { return evaluator.facts().bounds(x).upper == 1; };
      const std::string broadcasts = evaluator.call().op->target() + ": one row is broadcast";
      const auto becomes_one = [&](const ir::SymInt& x, const ir::SymInt& other_size) {
        return is_one_at_most(x) && !is_one_at_most(other_size) && evaluator.assume(shape::equal(x, 1), broadcasts);
      };
      // Sizes that are known to be equal are the most frequent.
      if (mine.constant() != 1 && evaluator.settled(shape::equal(mine, size)).constant() == true) {
        if (size.is_constant()) mine = size;
      } else if (is_one(mine) || becomes_one(mine, size)) {
        mine = size;
      } else if (!is_one(size) && !becomes_one(size, mine)) {
        const auto text = [](const std::vector<ir::SymInt>& shape) { return to_string(list(shape)); };
        const std::string reason = text(shapes[0]) + " and " + text(other) + " broadcast";
        if (!evaluator.assume(shape::equal(mine, size), evaluator.call().op->target() + ": " + reason)) {
          evaluator.fail(at, 111, "broadcast",
                         text(shapes[0]) + " and " + text(other) + " do not broadcast: " + mine.to_string() + " and " +
                             size.to_string() + " are neither equal nor 1");
          return result;
        }
        if (size.is_constant()) mine = size;
      }
    }
  }
  return result;
}

const RuleTable& type_rules() {
  static const RuleTable rules = {
      {"same", {same, 0, any_number}},
      {"floating", {floating, 0, any_number}},
      {"predicate", {predicate, 0, any_number}},
      {"widened", {widened, 2}},
      {"tensor", {tensor, 2}},
      {"promote", {promoted, 0, any_number}},
      {"accumulate", {accumulate}},
      {"wide", {wide}},
      {"dtype_of", {dtype_rule}},
      {"size_of", {size_of_rule}},
      {"is_float", {dtype_predicate<is_floating>}},
      {"is_bool", {dtype_predicate<is_boolean>}},
      {"is_integral", {dtype_predicate<is_integer_or_bool>}},
      {"is_complex", {dtype_predicate<is_complex>}},
      {"is_tensor", {is_tensor}},
      {"broadcast", {broadcast_rule, 0, any_number}},
      {"unknown", {unknown, 2}},
      {"unknown_scalar", {unknown_scalar}},
  };
  return rules;
}

}  // namespace atenon::opset
