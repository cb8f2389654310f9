// The types of a call's results, and what must hold for it.
#include <algorithm>

#include "opset/evaluator.h"

namespace atenon::opset {
namespace {

constexpr int deepest_expansion = 32;

std::optional<ir::Type> type_of(const Datum& datum, const ParameterType& declared) {
  if (datum.is<TypeOf>()) return datum.get<TypeOf>()->type;
  if (datum.is<ir::Value*>()) return datum.get<ir::Value*>()->type;
  if (!datum.is_number()) return std::nullopt;
  const bool is_int = datum.is<ir::SymInt>(), is_bool = datum.is<ir::SymBool>();
  if (declared.kind == Kind::tensor)
    return ir::TensorMeta{.dtype = is_int ? ScalarType::i64 : is_bool ? ScalarType::boolean : ScalarType::f32};
  return is_int ? ir::ScalarKind::integer : is_bool ? ir::ScalarKind::boolean : ir::ScalarKind::floating;
}

bool can_cast(ScalarType from, ScalarType to) {
  if (is_complex(from)) return is_complex(to);
  if (is_floating(from)) return is_floating(to) || is_complex(to);
  return from == ScalarType::boolean || to != ScalarType::boolean;
}

// f_ and out= write into a tensor: the result takes its dtype, and f_ its shape too.
void fit_destination(Evaluator& evaluator, const Call& call, const ir::Value* destination, bool is_inplace,
                     ir::Type& type) {
  ir::TensorMeta& meta = std::get<ir::TensorMeta>(type);
  const ir::TensorMeta& target = destination->meta();
  const std::string name = call.op->target() + ": ";
  if (!can_cast(meta.dtype, target.dtype)) {
    evaluator.adopt(error(Status::bad_input, 114,
                          name + "a result of " + name_of(meta.dtype) + " cannot be written to a tensor of " +
                              name_of(target.dtype)),
                    "inplace");
  }
  meta.dtype = target.dtype;
  if (!is_inplace) return;
  bool fits = meta.sizes.size() == target.sizes.size();
  for (size_t i = 0; fits && i < meta.sizes.size(); ++i)
    fits = evaluator.assume(shape::equal(meta.sizes[i], target.sizes[i]), name + "the result has self's shape");
  if (!fits) {
    evaluator.adopt(
        error(Status::bad_input, 114, name + "the result " + ir::to_string(meta) + " does not have self's shape"),
        "inplace");
  }
  meta.sizes = target.sizes;
}

// The result of a derived operator, given that of the one it follows from.
void derive_types(Evaluator& evaluator, const Call& call, std::vector<ir::Type>& types) {
  const auto destination = [&](size_t i) { return call.arguments[i].value(); };
  switch (call.op->derivation()) {
    case Derivation::inplace:
      return fit_destination(evaluator, call, destination(0), true, types[0]);
    case Derivation::out: {
      const size_t first = call.arguments.size() - types.size();
      for (size_t i = 0; i < types.size(); ++i)
        if (destination(first + i)) fit_destination(evaluator, call, destination(first + i), false, types[i]);
      return;
    }
    case Derivation::scatter: {
      const std::vector<ir::SymInt>& window = std::get<ir::TensorMeta>(types[0]).sizes;
      const ir::TensorMeta& src = destination(1)->meta();
      bool fits = window.size() == src.sizes.size();
      for (size_t i = 0; fits && i < window.size(); ++i)
        fits = evaluator.assume(shape::equal(window[i], src.sizes[i]),
                                call.op->target() + ": src has the shape of the window");
      if (!fits)
        evaluator.adopt(
            error(Status::bad_input, 114,
                  call.op->target() + ": src is " + ir::to_string(src) + ", the window " + ir::to_string(types[0])),
            "inplace");
      types[0] = destination(0)->type;
      return;
    }
    default:
      return;
  }
}

}  // namespace

Result<Inference> infer_nested(const Opset& opset, const Call& call, const shape::Facts& facts, int first_unbacked,
                               const shape::Bindings* hints, const Evaluator* outer, std::string* label) {
  const int depth = outer ? outer->depth + 1 : 0;
  if (depth > deepest_expansion)
    return error(Status::bad_input, 115, call.op->target() + ": decompositions go around in a circle")
        .at(call.op->place());
  const Call origin = call.op->origin() ? origin_call(call) : Call();
  const Call& written = call.op->origin() ? origin : call;
  Evaluator evaluator(opset, written, facts);
  evaluator.next_unbacked = first_unbacked;
  evaluator.depth = depth;
  evaluator.hints = hints;
  if (outer) evaluator.budget = outer->budget;
  evaluator.apply_apart();
  const Step* step = evaluator.walk(true);
  Datum result;
  if (evaluator.result_type)
    result = *evaluator.result_type;
  else if (step && step->kind == StepKind::decompose)
    result = evaluator.decomposed(*step);
  else if (!evaluator.failed())
    evaluator.mistake(nullptr, "the block states no type");

  Inference inference;
  const std::vector<Return> returns = written.op->schema().results();
  for (size_t i = 0; i < returns.size() && !evaluator.failed(); ++i) {
    const ParameterType& declared = returns[i].type;
    const bool is_one_of_many = returns.size() > 1;
    if (is_one_of_many && (!result.is_list() || result.items().size() != returns.size())) {
      evaluator.mistake(nullptr, "the block yields " + to_string(result) + ", the schema " +
                                     std::to_string(returns.size()) + " results");
      break;
    }
    const Datum& datum = is_one_of_many ? result.items()[i] : result;
    const std::vector<Datum> items = declared.list && datum.is_list() ? datum.items() : std::vector<Datum>{datum};
    inference.returns.emplace_back(declared.list, items.size());
    for (const Datum& item : items) {
      std::optional<ir::Type> type = type_of(item, declared);
      if (!type) evaluator.mistake(nullptr, to_string(item) + " is not the type of a result");
      inference.types.push_back(type.value_or(ir::TensorMeta()));
    }
  }
  for (const ir::Type& type : inference.types)
    if (const auto* meta = std::get_if<ir::TensorMeta>(&type))
      if (std::any_of(meta->sizes.begin(), meta->sizes.end(), shape::is_overflow))
        evaluator.fail(nullptr, 110, "", "a size of the result is larger than 64 bits can say");
  if (!evaluator.failed() && call.op->origin()) derive_types(evaluator, call, inference.types);
  if (evaluator.failed()) {
    if (label) *label = evaluator.label();
    return evaluator.take_failure();
  }
  inference.assumptions = std::move(evaluator.assumptions);
  inference.unbacked = std::move(evaluator.unbacked);
  return inference;
}

Result<Inference> infer(const Opset& opset, const Call& call, const shape::Facts& facts, int first_unbacked,
                        const shape::Bindings* hints) {
  return infer_nested(opset, call, facts, first_unbacked, hints, nullptr);
}

}  // namespace atenon::opset
