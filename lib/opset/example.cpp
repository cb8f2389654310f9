// Makes example lines runnable, and runs them as far as types go.
#include "opset/example.h"

#include <algorithm>

#include "opset/evaluator.h"
#include "tensor/real_parts.h"

namespace atenon::opset {
namespace {

// Tensors in examples are written as nested lists of numbers.
struct Literal {
  std::vector<int64_t> sizes;
  std::vector<Datum> numbers;
  bool is_regular = true;
};

void gather(const Datum& datum, size_t depth, Literal& literal) {
  if (!datum.is_list()) {
    literal.is_regular = literal.is_regular && depth == literal.sizes.size() && datum.is_number();
    literal.numbers.push_back(datum);
    return;
  }
  const auto size = static_cast<int64_t>(datum.items().size());
  if (literal.numbers.empty() && depth == literal.sizes.size()) literal.sizes.push_back(size);
  literal.is_regular = literal.is_regular && depth < literal.sizes.size() && literal.sizes[depth] == size;
  for (const Datum& item : datum.items()) gather(item, depth + 1, literal);
}

// A complex tensor is written as its real and imaginary parts, along a last axis of size 2.
std::optional<Tensor> tensor_of(const Datum& datum, std::optional<ScalarType> dtype) {
  if (dtype && is_complex(*dtype)) {
    std::optional<Tensor> parts = tensor_of(datum, part_of(*dtype));
    if (!parts || parts->sizes.empty() || parts->sizes.back() != 2) return std::nullopt;
    parts->dtype = *dtype;
    parts->sizes.pop_back();
    parts->strides = contiguous_strides(parts->sizes);
    return parts;
  }
  Literal literal;
  gather(datum, 0, literal);
  if (!literal.is_regular) return std::nullopt;
  const auto any = [&](auto predicate) {
    return std::any_of(literal.numbers.begin(), literal.numbers.end(), predicate);
  };
  if (!dtype) {
    const bool all_bool = !any([](const Datum& d) { return !d.is<ir::SymBool>(); });
    dtype = literal.numbers.empty() || any([](const Datum& d) { return d.is<ir::SymFloat>(); }) ? ScalarType::f32
            : all_bool                                                                          ? ScalarType::boolean
                                                                                                : ScalarType::i64;
  }
  Tensor tensor = Tensor::empty(*dtype, literal.sizes);
  for (size_t i = 0; i < literal.numbers.size(); ++i) {
    const Datum& number = literal.numbers[i];
    const auto at = static_cast<int64_t>(i);
    if (number.is<ir::SymFloat>() && number.get<ir::SymFloat>().constant())
      tensor.set(at, *number.get<ir::SymFloat>().constant());
    else if (number.is<ir::SymInt>() && number.integer())
      tensor.set_int(at, *number.integer());
    else if (number.is<ir::SymBool>() && number.get<ir::SymBool>().constant())
      tensor.set_int(at, *number.get<ir::SymBool>().constant());
    else
      return std::nullopt;
  }
  return tensor;
}

ir::TensorMeta meta_of(const Tensor& tensor) {
  return {.dtype = tensor.dtype, .sizes = {tensor.sizes.begin(), tensor.sizes.end()}};
}

// One example on its way from text to a verdict.
class ExampleRun {
 public:
  ExampleRun(const Opset& opset, const Operator& op, const Block& block, const Example& example)
      : opset_(opset), block_(block), example_(example), dummy_{&op, {}}, evaluator_(opset, dummy_, facts_) {
    const std::string& name = op.schema().name;
    name_ = name.substr(0, name.find("::") + 2) + example.call->name;
    runnable_.place = block.file->span(example.offset, example.width);
    runnable_.text = runnable_.place.text.substr(runnable_.place.text.find_first_not_of(' '));
  }

  // Everything but values. The failure says what is wrong with the example.
  Result<void> check() {
    const bool is_bound = bind();
    if (evaluator_.failed()) return evaluator_.take_failure();
    const bool needs_values = example_.fails == "range";
    std::string label = is_bound ? "" : "overload";
    Result<Inference> inference = is_bound ? infer_nested(opset_, runnable_.call, facts_, 0, nullptr, nullptr, &label)
                                           : Result<Inference>(*failure_);
    if (!inference) {
      if (!label.empty() && label == example_.fails) return {};
      return wrong(inference.error().note(example_.fails.empty() ? "it should succeed"
                                                                 : "it should fail under " + example_.fails));
    }
    if (!example_.fails.empty() && !needs_values) return wrong("it does not fail under " + example_.fails);
    if (needs_values) return {};
    return example_.types ? check_types(*inference) : check_value_types(*inference);
  }

  Result<RunnableExample> runnable(bool with_values) {
    if (!bind()) return evaluator_.failed() ? evaluator_.take_failure() : *failure_;
    if (example_.values && with_values) {
      Result<Inference> inference = infer(opset_, runnable_.call, facts_);
      if (!inference) return wrong(inference.error());
      Result<void> read = read_values(*inference);
      if (!read) return read.error();
    }
    runnable_.fails = example_.fails;
    return std::move(runnable_);
  }

 private:
  Diagnostic wrong(const std::string& why) const {
    return error(Status::no, 116, "this example fails: " + why).at(runnable_.place);
  }
  Diagnostic wrong(Diagnostic why) const {
    Diagnostic failure = wrong(why.message);
    failure.notes = std::move(why.notes);
    if (why.where.known()) failure.notes.push_back({"it is about this", why.where});
    return failure;
  }

  Datum evaluate(const Expr* expr) {
    return evaluator_.in_frame(*block_.file, block_.tree.slots, {}, [&] { return evaluator_.evaluate(expr); });
  }

  // i64([1, 2]), a list of numbers, or a number. nullopt if it is none of them.
  std::optional<Tensor> literal(const Expr* expr) {
    const std::optional<ScalarType> dtype = expr->kind == ExprKind::call ? scalar_type_named(expr->name) : std::nullopt;
    if (expr->kind == ExprKind::call && !dtype) return std::nullopt;
    if (dtype && expr->operands.size() != 1) return std::nullopt;
    const Expr* value = dtype ? expr->operands[0] : expr;
    if (contains_call(value)) return std::nullopt;
    return tensor_of(evaluate(value), dtype);
  }
  static bool contains_call(const Expr* expr) {
    return expr->kind == ExprKind::call || std::any_of(expr->operands.begin(), expr->operands.end(),
                                                       [](const Expr* e) { return e && contains_call(e); });
  }

  Argument input(ir::Type type) {
    return runnable_.inputs.add_input("x" + std::to_string(runnable_.inputs.inputs().size()), std::move(type));
  }

  // An argument of a call, as the parameter wants it. nullopt if it does not fit.
  std::optional<Argument> argument(const Expr* expr, const ParameterType& type, bool in_list = false) {
    if (type.list && !in_list && expr->kind == ExprKind::sequence) {
      ir::ArgumentList items;
      for (const Expr* operand : expr->operands) {
        std::optional<Argument> item = argument(operand, type, true);
        if (!item) return std::nullopt;
        items.push_back(std::move(*item));
      }
      return Argument(std::move(items));
    }
    const bool is_literal_call = expr->kind == ExprKind::call && scalar_type_named(expr->name);
    if (!is_literal_call && !contains_call(expr)) {
      const Datum datum = evaluate(expr);
      if (evaluator_.failed()) return std::nullopt;
      if (datum.is<TypeOf>()) return input(datum.get<TypeOf>()->type);
      const bool is_tensor =
          type.kind == Kind::tensor && (datum.is_list() || (numbers_are_tensors_ && datum.is_number()));
      if (!is_tensor) return to_argument(datum);
    } else if (!is_literal_call) {
      return to_argument(evaluate(expr));
    }
    std::optional<Tensor> tensor = literal(expr);
    if (!tensor) return std::nullopt;
    Argument made = input(meta_of(*tensor));
    runnable_.data.emplace(made.value(), std::move(*tensor));
    return made;
  }

  // Tries the overloads in file order, first without taking numbers for tensors.
  bool bind() {
    const size_t dot = name_.find('.');
    std::vector<const Operator*> overloads;
    if (dot == std::string::npos) {
      overloads = opset_.overloads(name_);
    } else if (const Operator* op = opset_.find(name_)) {
      overloads = {op};
    }
    if (overloads.empty()) evaluator_.adopt(wrong("there is no operator " + name_));
    for (const bool numbers_are_tensors : {false, true}) {
      numbers_are_tensors_ = numbers_are_tensors;
      for (const Operator* op : overloads) {
        runnable_.inputs = ir::Graph();
        runnable_.data.clear();
        Result<Call> call = bind_to(*op);
        if (evaluator_.failed()) return false;
        if (call) {
          runnable_.call = std::move(*call);
          return true;
        }
        if (numbers_are_tensors && !failure_) failure_ = call.error();
      }
    }
    return false;
  }

  Result<Call> bind_to(const Operator& op) {
    const Schema& schema = op.schema();
    std::vector<Argument> arguments;
    std::vector<Named> keywords;
    for (size_t i = 0; i < example_.call->operands.size(); ++i) {
      const std::string& name = example_.call->names[i];
      const Parameter* parameter = !name.empty()                  ? schema.parameter(name)
                                   : i < schema.parameters.size() ? &schema.parameters[i]
                                                                  : nullptr;
      const ParameterType type = parameter ? parameter->type : ParameterType{.kind = Kind::custom};
      std::optional<Argument> value = argument(example_.call->operands[i], type);
      if (!value) return wrong("an argument of " + op.target() + " is malformed");
      if (name.empty())
        arguments.push_back(std::move(*value));
      else
        keywords.push_back({name, std::move(*value)});
    }
    std::optional<Call> exact = bind_exactly(op, arguments, keywords);
    if (exact || !numbers_are_tensors_)
      return exact ? Result<Call>(std::move(*exact)) : wrong("no overload takes its arguments as they are");
    return opset::bind(op, arguments, keywords);
  }

  Result<void> check_types(const Inference& inference) {
    std::vector<const Expr*> expected;
    flatten(example_.types, inference, expected);
    if (expected.size() != inference.types.size())
      return wrong("it has " + std::to_string(inference.types.size()) + " results, not " +
                   std::to_string(expected.size()));
    shape::Facts known;
    for (const ir::Constraint& assumption : inference.assumptions) known.assume(assumption.truth);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Datum datum = evaluate(expected[i]);
      if (evaluator_.failed()) return evaluator_.take_failure();
      const ir::Type* type = datum.is<TypeOf>() ? &datum.get<TypeOf>()->type : nullptr;
      if (!type || !is_same(*type, inference.types[i], known))
        return wrong("result " + std::to_string(i) + " is " + ir::to_string(inference.types[i]));
    }
    std::vector<ir::SymBool> listed;
    if (example_.assumptions) split(evaluate(example_.assumptions), listed);
    for (const ir::Constraint& made : inference.assumptions) {
      const auto found = std::find(listed.begin(), listed.end(), made.truth);
      if (found == listed.end()) return wrong("it assumes " + made.truth.to_string() + " (" + made.reason + ")");
      listed.erase(found);
    }
    if (!listed.empty()) return wrong("it does not assume " + listed[0].to_string());
    return check_meaning(known);
  }

  // The call, and whatever it decomposes into, becomes loops or kernels under the assumptions made, and asks for no
  // others.
  Result<void> check_meaning(const shape::Facts& known) {
    ir::Graph& graph = runnable_.inputs;
    std::vector<Call> calls = {runnable_.call};
    for (size_t i = 0; i < calls.size() && i < 1000; ++i) {
      const Call call = calls[i];
      Result<MeaningKind> kind = meaning_kind(opset_, call, known);
      if (!kind) return wrong(kind.error());
      if (*kind != MeaningKind::decomposition) {
        Result<Meaning> loops = meaning(opset_, call, known);
        if (!loops) return wrong(loops.error());
        continue;
      }
      const size_t before = graph.size();
      Result<Expansion> expansion = expand(opset_, call, known, graph, nullptr, 0);
      if (!expansion) return wrong(expansion.error());
      if (!expansion->assumptions.empty())
        return wrong("its decomposition assumes " + expansion->assumptions[0].truth.to_string() + " (" +
                     expansion->assumptions[0].reason + ")");
      size_t place = 0;
      for (const ir::Node& node : graph.forward()) {
        if (place++ < before) continue;
        Result<Call> made = opset::bind(opset_, node);
        if (!made) return wrong(made.error());
        calls.push_back(std::move(*made));
      }
    }
    return {};
  }
  static bool is_same(const ir::Type& a, const ir::Type& b, const shape::Facts& facts) {
    const auto *x = std::get_if<ir::TensorMeta>(&a), *y = std::get_if<ir::TensorMeta>(&b);
    if (!x || !y) return a == b;
    if (x->dtype != y->dtype || x->sizes.size() != y->sizes.size()) return false;
    for (size_t i = 0; i < x->sizes.size(); ++i)
      if (facts.decide(shape::equal(x->sizes[i], y->sizes[i])) != shape::Truth::proven) return false;
    return true;
  }
  static void split(const Datum& datum, std::vector<ir::SymBool>& parts) {
    if (!datum.is<ir::SymBool>()) return;
    const ir::SymBool& truth = datum.get<ir::SymBool>();
    if (!truth.node() || truth.node()->kind != ir::SymBool::Kind::all) return parts.push_back(truth);
    for (const ir::SymBool& part : truth.node()->operands) split(part, parts);
  }

  // The expressions of single results: a tuple is several, and so is the list that a `Tensor[]` result is.
  static void flatten(const Expr* expr, const Inference& inference, std::vector<const Expr*>& parts) {
    const bool is_tuple = inference.returns.size() != 1;
    const std::vector<const Expr*> results =
        is_tuple && expr->kind == ExprKind::sequence ? expr->operands : std::vector<const Expr*>{expr};
    for (size_t i = 0; i < results.size(); ++i) {
      if (i < inference.returns.size() && inference.returns[i].first && results[i]->kind == ExprKind::sequence)
        parts.insert(parts.end(), results[i]->operands.begin(), results[i]->operands.end());
      else
        parts.push_back(results[i]);
    }
  }

  Result<void> read_values(const Inference& inference) {
    std::vector<const Expr*> parts;
    flatten(example_.values, inference, parts);
    if (parts.size() != inference.types.size())
      return wrong("it has " + std::to_string(inference.types.size()) + " results, not " +
                   std::to_string(parts.size()));
    for (const Expr* part : parts) {
      std::optional<Tensor> tensor = literal(part);
      if (evaluator_.failed()) return evaluator_.take_failure();
      if (!tensor) return wrong("a value is malformed");
      runnable_.expected.push_back(std::move(*tensor));
    }
    return {};
  }

  Result<void> check_value_types(const Inference& inference) {
    Result<void> read = read_values(inference);
    if (!read) return read;
    for (size_t i = 0; i < inference.types.size(); ++i) {
      const auto* meta = std::get_if<ir::TensorMeta>(&inference.types[i]);
      const bool has_fresh_size =
          std::any_of(inference.unbacked.begin(), inference.unbacked.end(), [](const auto&) { return true; });
      if (!meta || (has_fresh_size && meta->dtype == runnable_.expected[i].dtype)) continue;
      if (*meta != meta_of(runnable_.expected[i]))
        return wrong("result " + std::to_string(i) + " is " + ir::to_string(*meta));
    }
    return {};
  }

  const Opset& opset_;
  const Block& block_;
  const Example& example_;
  const Call dummy_;  // for the evaluator's messages
  const shape::Facts facts_;
  Evaluator evaluator_;
  std::string name_;
  RunnableExample runnable_;
  std::optional<Diagnostic> failure_;  // why the first overload does not take the arguments
  bool numbers_are_tensors_ = false;
};

// The block again, with its examples parsed.
Result<void> parse_with_examples(const LazyBlock& lazy, Block& block) {
  std::vector<Schema> schemas;
  std::vector<const Schema*> pointers;
  for (size_t i = 0; i < lazy.place.headers.size(); ++i) {
    Result<Schema> schema = parse_header(lazy.place, i);
    if (!schema) return schema.error();
    schemas.push_back(std::move(*schema));
  }
  for (const Schema& schema : schemas) pointers.push_back(&schema);
  return parse_block(lazy.place, pointers, *lazy.library, true, block);
}

}  // namespace

void check_examples(const Opset& opset, const LazyBlock& lazy, std::vector<Diagnostic>& failures) {
  Block block;
  Result<void> parsed = parse_with_examples(lazy, block);
  if (!parsed) return failures.push_back(parsed.error());
  const Operator* op = opset.find(lazy.targets.front());
  for (const Example& example : block.examples) {
    Result<void> checked = ExampleRun(opset, *op, block, example).check();
    if (!checked) failures.push_back(checked.error());
  }
}

namespace {

Result<std::vector<RunnableExample>> examples_of(const Opset& opset, const Operator& op, bool with_values) {
  Block block;
  Result<void> parsed = parse_with_examples(op.block(), block);
  if (!parsed) return parsed.error();
  std::vector<RunnableExample> examples;
  for (const Example& example : block.examples) {
    if (with_values ? !example.values && example.fails != "range" : !example.fails.empty()) continue;
    Result<RunnableExample> runnable = ExampleRun(opset, op, block, example).runnable(with_values);
    if (!runnable) return runnable.error();
    examples.push_back(std::move(*runnable));
  }
  return examples;
}

}  // namespace

Result<std::vector<RunnableExample>> value_examples(const Opset& opset, const Operator& op) {
  return examples_of(opset, op, true);
}

Result<std::vector<RunnableExample>> example_calls(const Opset& opset, const Operator& op) {
  return examples_of(opset, op, false);
}

}  // namespace atenon::opset
