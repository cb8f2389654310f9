// One call of an operator, from Python's arguments to Python's results.
//
// Before forward everything is real and evaluated by the operator's meaning. While forward runs every call appends a
// node: its result types are inferred, checks on sizes that are open become assumptions, and the user's line is noted.
// Updates in place and views are not nodes of their own kind: functionalize.cpp turns them into values.
#include "capture/operator_call.h"

#include <algorithm>

#include "capture/argument_object.h"
#include "capture/convert.h"
#include "capture/custom_operator.h"
#include "capture/functionalize.h"
#include "capture/lazy_fill.h"
#include "capture/literal.h"
#include "capture/strides.h"
#include "capture/symbols.h"
#include "capture/tensor_data.h"
#include "capture/tensor_object.h"
#include "opset/schema.h"
#include "reference/reference.h"

namespace atenon::capture {
namespace {

using opset::Call;
using opset::Kind;
using opset::Operator;
using opset::Parameter;

// `add_.Tensor` updates its first argument.
bool is_in_place(const Operator& op) {
  const auto& parameters = op.schema().parameters;
  return !parameters.empty() && parameters[0].type.mutated;
}

// PyTorch accepts NumPy's names for some keywords, and `input` for the first argument.
std::string schema_name(const std::vector<const Operator*>& overloads, const std::string& keyword) {
  static constexpr std::pair<const char*, const char*> others[] = {
      {"input", "self"}, {"axis", "dim"}, {"keepdims", "keepdim"}};
  for (const auto& [name, meant] : others) {
    if (keyword != name) continue;
    for (const Operator* op : overloads)
      if (op->schema().parameter(keyword)) return keyword;
    return meant;
  }
  return keyword;
}

bool takes_tensor_first(const std::vector<const Operator*>& overloads) {
  return std::any_of(overloads.begin(), overloads.end(), [](const Operator* op) {
    const auto& parameters = op->schema().parameters;
    return !parameters.empty() && parameters[0].type.kind == Kind::tensor;
  });
}

// Where sizes may be given one by one: x.view(2, 3), torch.zeros(2, 3). -1: nowhere.
int packed_position(const std::vector<const Operator*>& overloads) {
  for (const Operator* op : overloads) {
    const auto& parameters = op->schema().parameters;
    for (size_t i = 0; i < parameters.size() && !parameters[i].keyword_only; ++i)
      if (parameters[i].type.kind == Kind::integer && parameters[i].type.list && parameters[i].type.list_size == 0)
        return static_cast<int>(i);
  }
  return -1;
}

// The arguments with all integers from `position` on in one list; nullopt where there is something else.
std::optional<std::vector<Argument>> packed(const std::vector<Argument>& arguments, int position) {
  const auto first = static_cast<size_t>(position);
  if (position < 0 || arguments.size() < first) return std::nullopt;
  ArgumentList sizes;
  for (size_t i = first; i < arguments.size(); ++i) {
    if (!arguments[i].is<SymInt>()) return std::nullopt;
    sizes.push_back(arguments[i]);
  }
  std::vector<Argument> result(arguments.begin(), arguments.begin() + position);
  result.push_back(std::move(sizes));
  return result;
}

Result<Call> choose(const opset::Opset& opset, const std::string& name, const std::vector<Argument>& arguments,
                    const std::vector<Named>& keywords) {
  return opset::resolve(opset, name, arguments, keywords, opset::Numbers::as_python);
}

// One call under way.
class Dispatch {
 public:
  Dispatch(Session& session, const std::string& name) : session_(session), name_(name), arguments_(session) {}

  PyObject* run(PyObject* const* args, size_t count, PyObject* keyword_names, Updates updates = Updates::to_arguments);

 private:
  bool take(PyObject* const* args, size_t count, PyObject* keyword_names);
  std::optional<Call> resolved();
  void give_default_dtype(Call& call) const;
  bool makes_floats_of_integers(const Call& call) const;
  PyObject* run_in_default_dtype(PyObject* const* args, size_t count, PyObject* keyword_names);
  bool make_number(Argument& argument, bool is_item = false);
  PyObject* passed(const ir::Value* value) const;  // the tensor that it stands for, borrowed, or null
  std::vector<Laid> operands(const Call& call) const;
  std::optional<Tensor> turned(const Call& call, ScalarType dtype, const std::vector<int64_t>& sizes,
                               size_t index = 0) const;
  Ref normal_for(PyObject* tensor, const Call& call, const SymBool& in_rows);
  Ref permuted(PyObject* tensor, const std::vector<size_t>& axes);
  Ref run_on(PyObject* first, PyObject* const* args, size_t count, PyObject* keyword_names);
  std::optional<Ref> stride_in_order_of_memory(const Call& call, PyObject* const* args, size_t count,
                                               PyObject* keyword_names);
  std::optional<Ref> draw_in_order_of_memory(const Call& call, PyObject* const* args, size_t count,
                                             PyObject* keyword_names);
  std::optional<std::vector<Ref>> evaluate(const Call& call);
  bool is_literal(const Call& call) const;
  std::optional<std::vector<Ref>> counted(const Call& call);
  std::optional<std::vector<Ref>> trace(const Call& call);
  PyObject* update(const Call& call);
  PyObject* resize(TensorObject& target, const TensorObject& result);
  std::optional<Call> functional(const Call& call);
  bool update_others(const Call& call, std::vector<Ref>& results);
  PyObject* give(const Operator& op, const std::vector<std::pair<bool, size_t>>& returns, std::vector<Ref> results);
  bool may_hold(TensorObject& target, TensorObject& source);
  PyObject* into_out(Ref results);

  Session& session_;
  const std::string& name_;
  Arguments arguments_;
  std::vector<const Operator*> overloads_;
  bool is_declared_ = false;   // by the user: no keyword has a meaning of ours
  bool is_node_ = false;       // of a graph, which knows no order of memory
  PyObject* first_ = nullptr;  // borrowed: the tensor that a method is called on
  PyObject* out_ = nullptr;
  PyObject* generator_ = nullptr;
  bool requires_grad_ = false;
  std::vector<std::pair<bool, size_t>> returns_;
};

bool Dispatch::take(PyObject* const* args, size_t count, PyObject* keyword_names) {
  for (size_t i = 0; i < count; ++i)
    if (!arguments_.add(args[i])) return false;
  if (count > 0) first_ = args[0];
  const Py_ssize_t named = keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    const std::string written = text_of(PyTuple_GET_ITEM(keyword_names, i));
    const std::string keyword = is_declared_ ? written : schema_name(overloads_, written);
    PyObject* value = args[count + static_cast<size_t>(i)];
    if (is_declared_) {
      if (!arguments_.add(keyword, value)) return false;
    } else if (keyword == "out") {
      out_ = value == Py_None ? nullptr : value;
    } else if (keyword == "requires_grad") {
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) return false;
      requires_grad_ = truth;
    } else if (keyword == "generator") {
      generator_ = value == Py_None ? nullptr : value;
    } else {
      if (keyword == "self") first_ = value;
      if (!arguments_.add(keyword, value)) return false;
    }
  }
  return true;
}

std::optional<Call> Dispatch::resolved() {
  Result<Call> call = choose(session_.opset, name_, arguments_.positional, arguments_.keywords);
  if (call) return std::move(*call);
  const std::optional<std::vector<Argument>> sizes = packed(arguments_.positional, packed_position(overloads_));
  if (sizes)
    if (Result<Call> other = choose(session_.opset, name_, *sizes, arguments_.keywords)) return std::move(*other);
  // A tensor of rank 0 stands for its number: x.view(n, -1) or x.view([n, -1]) with n = torch.tensor(3); before
  // forward, and where no tensor is asked for, also in first place: torch.empty(n), torch.arange(lengths.max()).
  std::vector<Argument> numbers = arguments_.positional;
  std::vector<Named> keywords = arguments_.keywords;
  for (Named& keyword : keywords)
    if (!make_number(keyword.argument)) return std::nullopt;
  for (const bool is_first_one : {false, true}) {
    for (size_t i = 0; i < numbers.size(); ++i)
      if ((i > 0 || is_first_one || numbers[i].is<ArgumentList>()) && !make_number(numbers[i])) return std::nullopt;
    if (Result<Call> other = choose(session_.opset, name_, numbers, keywords)) return std::move(*other);
    if (const std::optional<std::vector<Argument>> both = packed(numbers, packed_position(overloads_)))
      if (Result<Call> other = choose(session_.opset, name_, *both, keywords)) return std::move(*other);
    if (session_.is_tracing && takes_tensor_first(overloads_)) break;
  }
  session_.raise(call.error());
  return std::nullopt;
}

// What is made of numbers and sizes alone, with no dtype, has the default one, which is f32 to the operators.
void Dispatch::give_default_dtype(Call& call) const {
  if (session_.default_dtype == ScalarType::f32 || !arguments_.tensors.empty()) return;
  const auto& parameters = call.op->schema().parameters;
  const auto dtype = std::ranges::find(parameters, "dtype", &Parameter::name);
  if (dtype == parameters.end() || !call.arguments[dtype - parameters.begin()].is<ir::None>()) return;
  const Result<opset::Inference> inference = opset::infer(session_.opset, call, session_.facts);
  if (!inference || inference->types.size() != 1) return;
  const auto* made = std::get_if<ir::TensorMeta>(&inference->types[0]);
  if (made && made->dtype == ScalarType::f32) call.arguments[dtype - parameters.begin()] = session_.default_dtype;
}

// Integers that become floats become ones of the default dtype.
bool Dispatch::makes_floats_of_integers(const Call& call) const {
  if (session_.default_dtype == ScalarType::f32 || arguments_.tensors.empty() || is_declared_) return false;
  for (const auto& [value, tensor] : arguments_.tensors)
    if (const ScalarType dtype = session_.meta(*as_tensor(tensor)).dtype; is_floating(dtype) || is_complex(dtype))
      return false;
  const auto& parameters = call.op->schema().parameters;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (call.arguments[i].is<ScalarType>()) return false;  // asked for
  const Result<opset::Inference> inference = opset::infer(session_.opset, call, session_.facts);
  return inference && std::ranges::any_of(inference->types, [](const ir::Type& type) {
           const auto* made = std::get_if<ir::TensorMeta>(&type);
           return made && (made->dtype == ScalarType::f32 || made->dtype == ScalarType::c64);
         });
}

// The same call with tensors of the default dtype in place of integers; where it takes none (the condition of where),
// its result is turned into that.
PyObject* Dispatch::run_in_default_dtype(PyObject* const* args, size_t count, PyObject* keyword_names) {
  const ScalarType dtype = session_.default_dtype;
  const auto turned = [&](PyObject* tensor) {
    return Ref(session_.call("aten::to", {tensor, session_.dtypes.at(dtype).get()}));
  };
  const size_t all = count + static_cast<size_t>(keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0);
  std::vector<PyObject*> passed(args, args + all);
  std::vector<Ref> kept;
  for (PyObject*& argument : passed) {
    if (!as_tensor(argument)) continue;
    kept.push_back(turned(argument));
    if (!kept.back()) return nullptr;
    argument = kept.back().get();
  }
  if (PyObject* result = session_.call(name_, passed.data(), count, keyword_names)) return result;
  PyErr_Clear();
  session_.default_dtype = ScalarType::f32;
  const Ref result(session_.call(name_, args, count, keyword_names));
  session_.default_dtype = dtype;
  return result && as_tensor(result.get()) ? turned(result.get()).release() : Ref(result).release();
}

// What is a tensor of rank 0, or a list of tensors of one element, becomes numbers; all else stays.
bool Dispatch::make_number(Argument& argument, bool is_item) {
  if (argument.is<ArgumentList>()) {
    ArgumentList items = argument.get<ArgumentList>();
    for (Argument& item : items)
      if (!make_number(item, true)) return false;
    argument = std::move(items);
    return true;
  }
  PyObject* tensor = passed(argument.value());
  if (!tensor) return true;
  const std::vector<SymInt> sizes = session_.meta(*as_tensor(tensor)).sizes;
  if (is_item ? shape::product(sizes).constant() != 1 : !sizes.empty()) return true;
  const Ref scalar = sizes.empty() ? Ref::borrow(tensor) : scalar_of(session_, tensor);
  const Ref number(scalar ? PyObject_CallMethod(scalar.get(), "item", nullptr) : nullptr);
  return number && arguments_.convert(number.get(), argument);
}

// Those of the graph that a call reads.
std::vector<ir::Value*> values_of(const Call& call) {
  std::vector<ir::Value*> values;
  const auto add = [&](const Argument& argument) {
    if (ir::Value* value = argument.value()) values.push_back(value);
  };
  for (const Argument& argument : call.arguments) {
    add(argument);
    if (argument.is<ArgumentList>()) std::ranges::for_each(argument.get<ArgumentList>(), add);
  }
  return values;
}

PyObject* Dispatch::passed(const ir::Value* value) const {
  for (const auto& [of_graph, tensor] : arguments_.tensors)
    if (value && of_graph == value) return tensor;
  return nullptr;
}

// Where the tensors that were passed lie.
std::vector<Laid> Dispatch::operands(const Call& call) const {
  std::vector<Laid> laid;
  for (const ir::Value* value : values_of(call))
    if (PyObject* object = passed(value)) {
      TensorObject& tensor = *as_tensor(object);
      laid.push_back({session_.meta(tensor).sizes, strides_of(tensor)});
    }
  return laid;
}

// Memory for a result that does not lie in rows in PyTorch.
std::optional<Tensor> Dispatch::turned(const Call& call, ScalarType dtype, const std::vector<int64_t>& sizes,
                                       size_t index) const {
  const std::optional<std::vector<SymInt>> strides =
      strides_of_result(call, operands(call), {sizes.begin(), sizes.end()}, session_.facts, index);
  return strides ? std::optional(empty_with_strides(dtype, sizes, *strides)) : std::nullopt;
}

// What is drawn for each element comes in the order of memory: drawn for the tensor with its axes in that order, normal
// numbers one by one as well. Nullopt of all other calls, and where that is the order of rows. Before forward, what
// draws over a real tensor (draw_over) goes by its memory itself.
std::optional<Ref> Dispatch::draw_in_order_of_memory(const Call& call, PyObject* const* args, size_t count,
                                                     PyObject* keyword_names) {
  const std::string name = call.op->schema().name;
  TensorObject* tensor = call.op->has_tag("draws_in_memory") && first_ ? as_tensor(first_) : nullptr;
  if (!tensor || is_node_) return std::nullopt;
  const bool goes_by_memory = call.op->has_tag("random") && (is_in_place(*call.op) || name.ends_with("_like"));
  if (!session_.is_tracing && goes_by_memory) return std::nullopt;
  const Laid laid{session_.meta(*tensor).sizes, strides_of(*tensor)};
  const auto& parameters = call.op->schema().parameters;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == "train" && call.arguments[i] == Argument(SymBool(false))) return std::nullopt;
  const std::optional<std::vector<SymInt>> drawn_over =
      is_in_place(*call.op) ? laid.strides : strides_of_result(call, {laid}, laid.sizes, session_.facts);
  if (!drawn_over) return std::nullopt;
  const SymBool in_rows = lies_in_rows(laid.sizes, *drawn_over);
  if (session_.facts.decide(in_rows) == shape::Truth::proven) return std::nullopt;
  const bool is_normal = name == "aten::normal_" || name == "aten::randn_like";
  const std::vector<size_t> order = order_of_memory(is_normal ? Laid{laid.sizes, *drawn_over} : laid, session_.facts);
  if (std::is_sorted(order.begin(), order.end()) && !is_normal) return std::nullopt;
  std::vector<size_t> back(order.size());
  for (size_t axis = 0; axis < order.size(); ++axis) back[order[axis]] = axis;
  const Ref sorted = permuted(first_, order);
  const Ref drawn = !sorted     ? Ref()
                    : is_normal ? normal_for(sorted.get(), call, in_rows)
                                : run_on(sorted.get(), args, count, keyword_names);
  if (!drawn) return Ref();
  if (!is_in_place(*call.op)) return permuted(drawn.get(), back);
  const bool is_written = !is_normal || Ref(session_.call("aten::copy_", {sorted.get(), drawn.get()}));
  return is_written ? Ref::borrow(first_) : Ref();
}

// What normal_ or randn_like draws, as it does for a tensor that lies in rows only if `in_rows`.
Ref Dispatch::normal_for(PyObject* tensor, const Call& call, const SymBool& in_rows) {
  if (!draws_with_the_run(session_, generator_)) return {};
  const auto given = [&](const char* name, const Argument& otherwise) {
    const auto& parameters = call.op->schema().parameters;
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    return object_of(session_, found == parameters.end() ? otherwise : call.arguments[found - parameters.begin()], {});
  };
  const Ref mean = given("mean", SymInt(0)), std = given("std", SymInt(1)), dtype = given("dtype", ir::None());
  const Ref contiguous = session_.wrap(in_rows);
  if (!mean || !std || !dtype || !contiguous) return {};
  return Ref(session_.call("atenon::normal_for", {tensor, mean.get(), std.get(), contiguous.get(), dtype.get()}));
}

Ref Dispatch::permuted(PyObject* tensor, const std::vector<size_t>& axes) {
  std::vector<SymInt> order(axes.size());
  std::transform(axes.begin(), axes.end(), order.begin(), [](size_t axis) { return static_cast<int64_t>(axis); });
  const Ref list = session_.wrap_sizes(order);
  return list ? Ref(session_.call("aten::permute", {tensor, list.get()})) : Ref();
}

// The same call with another tensor in place of its first.
Ref Dispatch::run_on(PyObject* first, PyObject* const* args, size_t count, PyObject* keyword_names) {
  const size_t all = count + static_cast<size_t>(keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0);
  std::vector<PyObject*> passed(args, args + all);
  std::replace(passed.begin(), passed.end(), first_, first);
  return Ref(session_.call(name_, passed.data(), count, keyword_names));
}

// as_strided walks the memory, which a tensor shares with the one that has its axes in the order of memory: if that
// lies in rows, it is walked. Nullopt of all other calls.
std::optional<Ref> Dispatch::stride_in_order_of_memory(const Call& call, PyObject* const* args, size_t count,
                                                       PyObject* keyword_names) {
  TensorObject* tensor = first_ && session_.is_tracing ? as_tensor(first_) : nullptr;
  if (!tensor || call.op->schema().name != "aten::as_strided") return std::nullopt;
  const Laid laid{session_.meta(*tensor).sizes, strides_of(*tensor)};
  const std::vector<size_t> order = order_of_memory(laid, session_.facts);
  std::vector<SymInt> sizes, strides;
  for (const size_t axis : order) {
    sizes.push_back(laid.sizes[axis]);
    strides.push_back(laid.strides[axis]);
  }
  if (std::is_sorted(order.begin(), order.end()) || strides != row_major(sizes)) return std::nullopt;
  const Ref walked = permuted(first_, order);
  return walked ? run_on(walked.get(), args, count, keyword_names) : Ref();
}

std::optional<std::vector<Ref>> Dispatch::evaluate(const Call& call) {
  Result<opset::Inference> inference = opset::infer(session_.opset, call, session_.facts);
  if (!inference) return session_.raise(inference.error()), std::nullopt;
  returns_ = inference->returns;
  for (const ir::Type& type : inference->types)
    if (const auto* meta = std::get_if<ir::TensorMeta>(&type); meta && !fits_memory(*meta)) return std::nullopt;
  std::vector<Ref> results;
  if (std::optional<Tensor> made = filled(call, inference->types, arguments_.is_meta)) {
    if (std::optional<Tensor> memory = turned(call, made->dtype, made->sizes)) made->strides = memory->strides;
    results.push_back(session_.wrap(TensorState{.real = std::move(*made), .is_meta = arguments_.is_meta}));
    return results;
  }
  if (!is_node_ && call.op->has_tag("random") && call.op->schema().name.ends_with("_like")) {
    const ir::TensorMeta& meta = std::get<ir::TensorMeta>(inference->types[0]);
    if (std::optional<Tensor> memory = turned(call, meta.dtype, as_tensor(first_)->state->real.sizes)) {
      results.push_back(session_.wrap(TensorState{.real = std::move(*memory)}));
      if (!draw_over(session_, call, *as_tensor(results[0].get()), generator_).value_or(false)) return std::nullopt;
      return results;
    }
  }
  if (std::optional<Tensor> seen = seen_in_memory(call, arguments_.environment)) {
    results.push_back(session_.wrap(TensorState{.real = std::move(*seen)}));
    return results;
  }
  arguments_.environment.generator = chosen(session_, generator_);
  if (!arguments_.environment.generator) return std::nullopt;
  Result<std::vector<reference::Datum>> data = reference::apply(session_.opset, call, arguments_.environment);
  if (!data) return session_.raise(data.error()), std::nullopt;
  for (reference::Datum& datum : *data) {
    auto* tensor = std::get_if<Tensor>(&datum);
    TensorObject* viewed = call.op->is_view() && first_ ? as_tensor(first_) : nullptr;
    if (tensor && !(viewed && viewed->state->real.storage == tensor->storage))  // to() may copy
      if (std::optional<Tensor> memory = turned(call, tensor->dtype, tensor->sizes, results.size())) {
        assign(*memory, *tensor);
        *tensor = std::move(*memory);
      }
    results.push_back(tensor ? session_.wrap(TensorState{.real = std::move(*tensor)}) : number_object(datum));
    if (!results.back()) return std::nullopt;
  }
  return results;
}

bool Dispatch::is_literal(const Call& call) const {
  return !call.op->has_tag("random") && std::ranges::all_of(call.arguments, [](const Argument& argument) {
    return ir::symbols_of(argument).empty();
  }) && std::ranges::all_of(values_of(call), [&](ir::Value* value) { return session_.is_literal(value); });
}

// How many there are of numbers that forward itself wrote down is a number, for Python's loops and conditions: a call
// whose sizes data decide is computed now, and what it gives is a constant of the graph.
std::optional<std::vector<Ref>> Dispatch::counted(const Call& call) {
  for (ir::Value* value : values_of(call))
    if (!session_.known_value(value)) return std::nullopt;
  Result<std::vector<reference::Datum>> data = reference::apply(session_.opset, call, session_.constants_known);
  if (!data) return session_.raise(data.error()), std::nullopt;
  const std::vector<Laid> laid = operands(call);
  std::vector<Ref> results;
  for (const reference::Datum& datum : *data) {
    if (const auto* tensor = std::get_if<Tensor>(&datum)) {
      TensorState state = session_.literal(tensor->contiguous());
      state.strides = strides_of_result(call, laid, state.value->meta().sizes, session_.facts, results.size());
      results.push_back(session_.wrap(std::move(state)));
    } else {
      results.push_back(number_object(datum));
    }
    if (!results.back()) return std::nullopt;
  }
  return results;
}

std::optional<std::vector<Ref>> Dispatch::trace(const Call& call) {
  if (!draws_with_the_run(session_, generator_)) return std::nullopt;
  if (std::optional<Ref> same = unchanged(session_, call, first_)) {
    returns_ = {{false, 1}};
    return std::vector<Ref>{*same};
  }
  std::optional<opset::Inference> inference = infer(session_, call);
  if (!inference) return std::nullopt;
  returns_ = inference->returns;
  if (!inference->unbacked.empty() && is_literal(call)) return counted(call);
  ir::Node* node = append(session_, call, std::move(*inference));
  if (!node) return std::nullopt;
  std::optional<std::vector<TensorState>> states = states_of_results(session_, first_, call, *node);
  if (!states) return std::nullopt;
  std::vector<Ref> results;
  const std::vector<Laid> laid = operands(call);
  for (size_t i = 0; i < node->results().size(); ++i) {
    ir::Value* value = node->result(i);  // a tensor, or a number, which Python's code may look at
    if (value->is_tensor() && (*states)[i].base->value == value)
      (*states)[i].strides = strides_of_result(call, laid, value->meta().sizes, session_.facts, i);
    results.push_back(value->is_tensor() ? session_.wrap(std::move((*states)[i])) : session_.number(value));
    if (!results.back()) return std::nullopt;
  }
  return results;
}

// add_: the operator that it follows from, written over its first argument.
PyObject* Dispatch::update(const Call& call) {
  TensorObject* target = first_ ? as_tensor(first_) : nullptr;
  if (!target) {
    PyErr_Format(PyExc_TypeError, "%s updates a tensor", name_.c_str());
    return nullptr;
  }
  if (!session_.is_tracing && call.op->has_tag("random")) {
    const std::optional<bool> drawn = draw_over(session_, call, *target, generator_);
    if (drawn) return *drawn ? Py_NewRef(first_) : nullptr;
  }
  Call function = call;
  if (call.op->origin()) function.op = call.op->origin();
  if (!session_.is_tracing && fill_over(*target, function, arguments_.environment)) return Py_NewRef(first_);
  const std::optional<std::vector<Ref>> results = session_.is_tracing ? trace(function) : evaluate(function);
  if (!results) return nullptr;
  TensorObject* result = as_tensor(results->front().get());
  if (call.op->has_tag("resizes")) return resize(*target, *result);
  if (session_.is_tracing) {
    ir::Value* value = session_.read(*result);
    if (!value || !session_.write(*target, value)) return nullptr;
  } else if (!session_.write_real(*target, result->state->real)) {
    return nullptr;
  }
  return Py_NewRef(first_);
}

// resize_: the tensor has other elements from now on. PyTorch's views of what it was would follow it to its new memory;
// ours could not, so there must be none.
PyObject* Dispatch::resize(TensorObject& target, const TensorObject& result) {
  const TensorState& state = *target.state;
  if (session_.meta(target).sizes == session_.meta(result).sizes) return Py_NewRef(first_);
  arguments_.environment.values.clear();  // what it holds shares memory, too
  const bool is_older = session_.is_tracing && (!state.is_traced() || state.base->input);
  const bool is_moved = state.is_traced() || state.real.storage != result.state->real.storage;
  const bool is_shared =
      is_moved && (state.is_traced() ? state.base.use_count() > 1 : state.real.storage.use_count() > 1);
  if (is_older || is_shared) {
    session_.raise(312,
                   name_ + (is_older ? " changes the size of a tensor that was there before forward"
                                     : " changes the size of a tensor that shares memory with another one"),
                   "clone() it first, or make a new tensor");
    return nullptr;
  }
  *target.state = *result.state;
  return Py_NewRef(first_);
}

// f, which updates arguments that it does not return, as f_functional, which gives behind its results what they hold
// then; nullopt where f does no such thing.
std::optional<Call> Dispatch::functional(const Call& call) {
  if (call.op->schema().updated().empty()) return std::nullopt;
  Result<Call> found = choose(session_.opset, call.op->schema().name + "_functional", call.arguments, {});
  if (found) return std::move(*found);
  session_.raise(found.error());
  return std::nullopt;
}

// The last results over the arguments of `call` that it updates.
bool Dispatch::update_others(const Call& call, std::vector<Ref>& results) {
  const std::vector<size_t> updated = call.op->schema().updated();
  for (size_t i = updated.size(); i-- > 0;) {
    const ir::Value* value = call.arguments[updated[i]].value();
    const auto passed = std::find_if(arguments_.tensors.begin(), arguments_.tensors.end(),
                                     [&](const auto& tensor) { return tensor.first == value; });
    if (!Ref(session_.call("aten::copy_", {passed->second, results.back().get()}))) return false;
    results.pop_back();
    returns_.pop_back();
  }
  return true;
}

PyObject* Dispatch::give(const Operator& op, const std::vector<std::pair<bool, size_t>>& returns,
                         std::vector<Ref> results) {
  if (requires_grad_)
    for (Ref& result : results)
      if (TensorObject* tensor = as_tensor(result.get())) tensor->requires_grad = true;
  size_t next = 0;
  std::vector<Ref> given;
  for (const auto& [is_list, count] : returns) {
    if (!is_list) {
      given.push_back(std::move(results[next++]));
      continue;
    }
    Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
    if (!tuple) return nullptr;
    for (size_t i = 0; i < count; ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), results[next++].release());
    given.push_back(std::move(tuple));
  }
  if (given.empty()) return new_none();
  if (given.size() == 1) return given.front().release();
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
  if (!tuple) return nullptr;
  for (size_t i = 0; i < given.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), given[i].release());
  const Ref type = named_results(session_, op);
  if (!type) return PyErr_Occurred() ? nullptr : tuple.release();
  return PyObject_CallOneArg(type.get(), tuple.get());
}

// An out= tensor takes numbers of its own kind or a narrower one, and has a place for each.
bool Dispatch::may_hold(TensorObject& target, TensorObject& source) {
  if (!require_castable(session_.meta(source).dtype, session_.meta(target).dtype)) return false;
  const Tensor& real = target.state->real;
  for (size_t axis = 0; axis < real.strides.size(); ++axis)
    if (real.strides[axis] == 0 && real.sizes[axis] > 1) {
      PyErr_Format(PyExc_RuntimeError, "%s: several elements of out= are one place in memory: clone() it first",
                   name_.c_str());
      return false;
    }
  return true;
}

// out=: the results are written over the tensors given, which take their shape.
PyObject* Dispatch::into_out(Ref results) {
  if (!results || !out_) return results.release();
  const bool many = PyTuple_Check(results.get()) && PySequence_Check(out_) && !as_tensor(out_);
  const Py_ssize_t count = many ? PyTuple_GET_SIZE(results.get()) : 1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Ref item = many ? Ref(PySequence_GetItem(out_, i)) : Ref::borrow(out_);
    TensorObject* target = item ? as_tensor(item.get()) : nullptr;
    TensorObject* source = as_tensor(many ? PyTuple_GET_ITEM(results.get(), i) : results.get());
    if (!target || !source) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "out= must be a tensor for each result");
      return nullptr;
    }
    if (!may_hold(*target, *source)) return nullptr;
    if (session_.meta(*target).sizes == session_.meta(*source).sizes) {
      if (!Ref(session_.call("aten::copy_", {item.get(), reinterpret_cast<PyObject*>(source)}))) return nullptr;
    } else {
      const ScalarType dtype = session_.meta(*target).dtype;  // stays
      const Ref typed =
          session_.meta(*source).dtype == dtype
              ? Ref::borrow(reinterpret_cast<PyObject*>(source))
              : Ref(session_.call("aten::to", {reinterpret_cast<PyObject*>(source), session_.dtypes.at(dtype).get()}));
      if (!typed) return nullptr;
      *target->state = *as_tensor(typed.get())->state;
    }
  }
  return Py_NewRef(out_);
}

PyObject* Dispatch::run(PyObject* const* args, size_t count, PyObject* keyword_names, Updates updates) {
  overloads_ = session_.opset.overloads(name_.substr(0, name_.find('.')));
  is_declared_ = !overloads_.empty() && overloads_[0]->is_declared();
  is_node_ = updates == Updates::to_results;
  if (!take(args, count, keyword_names)) return nullptr;
  std::optional<Call> call = resolved();
  if (!call) return nullptr;
  give_default_dtype(*call);
  if (makes_floats_of_integers(*call)) return run_in_default_dtype(args, count, keyword_names);
  if (is_declared_) return call_declared(session_, *call, arguments_, updates);
  if (std::optional<Ref> walked = stride_in_order_of_memory(*call, args, count, keyword_names))
    return walked->release();
  if (std::optional<Ref> drawn = draw_in_order_of_memory(*call, args, count, keyword_names)) return drawn->release();
  if (is_in_place(*call->op)) return update(*call);
  const std::optional<Call> function = functional(*call);
  if (PyErr_Occurred()) return nullptr;
  const Call& computed = function ? *function : *call;
  std::optional<std::vector<Ref>> results = session_.is_tracing ? trace(computed) : evaluate(computed);
  if (!results || (function && !update_others(*call, *results))) return nullptr;
  return into_out(Ref(give(*call->op, returns_, std::move(*results))));
}

}  // namespace

Ref named_results(Session& session, const Operator& op) {
  const auto& returns = op.schema().returns;
  std::string key = op.schema().name.substr(op.schema().name.find("::") + 2);
  const std::string name = key;
  Ref fields(PyTuple_New(static_cast<Py_ssize_t>(returns.size())));
  for (size_t i = 0; fields && i < returns.size(); ++i) {
    if (returns[i].name.empty()) return {};
    key += " " + returns[i].name;
    PyTuple_SET_ITEM(fields.get(), static_cast<Py_ssize_t>(i), PyUnicode_FromString(returns[i].name.c_str()));
  }
  Ref& make = session.result_types[key];
  if (!make) {
    const Ref types(PyImport_ImportModule("torch._return_types"));
    const Ref type(types ? PyObject_CallMethod(types.get(), "make", "sO", name.c_str(), fields.get()) : nullptr);
    make = Ref(type ? PyObject_GetAttrString(type.get(), "_make") : nullptr);
  }
  return make;
}

// Calls Python that stands in for an operator, told of it by `called`, and calls again; inside, the hook is off.
static PyObject* call_hook(Ref& hook, PyObject* called, PyObject* const* args, size_t count, PyObject* keyword_names) {
  const Ref function = std::exchange(hook, Ref());
  std::vector<PyObject*> all{called};
  all.insert(all.end(), args, args + count + (keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0));
  PyObject* result = PyObject_Vectorcall(function.get(), all.data(), count + 1, keyword_names);
  hook = function;
  return result;
}

// What Python knows an operator by: the method of torch.Tensor, or else the function.
static Ref function_named(Session& session, const std::string& name) {
  const std::string short_name = name.substr(name.find("::") + 2);
  if (Ref method = attribute(session.tensor_class.get(), short_name.c_str())) return method;
  const Ref native(PyImport_ImportModule("_atenon"));
  return Ref(native ? PyObject_CallMethod(native.get(), "function", "s", name.c_str()) : nullptr);
}

// Whether the class of an argument, or of an item of a list, is no tensor's and has a __torch_function__.
static bool has_overriding(PyObject* const* args, size_t count) {
  return std::any_of(args, args + count, [](PyObject* arg) {
    if (PyList_Check(arg) || PyTuple_Check(arg))
      return has_overriding(PySequence_Fast_ITEMS(arg), static_cast<size_t>(PySequence_Fast_GET_SIZE(arg)));
    return !as_tensor(arg) && attribute(reinterpret_cast<PyObject*>(Py_TYPE(arg)), "__torch_function__");
  });
}

// The same of sequences of classes of their own: operators would take them for their items.
static bool has_overriding_sequence(PyObject* const* args, size_t count) {
  return std::any_of(args, args + count, [](PyObject* arg) {
    const bool is_own = !PyList_CheckExact(arg) && !PyTuple_CheckExact(arg) && !PyUnicode_Check(arg) &&
                        !as_tensor(arg) && PySequence_Check(arg);
    return is_own && attribute(reinterpret_cast<PyObject*>(Py_TYPE(arg)), "__torch_function__");
  });
}

// What no operator takes may say itself what it is for: torch.overrides asks its class. NotImplemented: nobody is
// asked.
static Ref call_override(PyObject* function, PyObject* const* args, size_t count, PyObject* keyword_names) {
  const Ref module(PyImport_ImportModule("torch.overrides"));
  Ref ask(module ? PyObject_GetAttrString(module.get(), "ask") : nullptr);
  return Ref(ask ? call_hook(ask, function, args, count, keyword_names) : nullptr);
}

PyObject* Session::call(const std::string& name, PyObject* const* args, size_t count, PyObject* keyword_names,
                        PyObject* called) {
  if (overriding) {
    const Ref function = called ? Ref::borrow(called) : function_named(*this, name);
    return function ? call_hook(overriding, function.get(), args, count, keyword_names) : nullptr;
  }
  if (autocast) {
    const Ref text(PyUnicode_FromString(name.c_str()));
    return text ? call_hook(autocast, text.get(), args, count, keyword_names) : nullptr;
  }
  const size_t all = count + static_cast<size_t>(keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0);
  const auto override = [&] {
    const Ref function = called ? Ref::borrow(called) : function_named(*this, name);
    return function ? call_override(function.get(), args, count, keyword_names) : Ref();
  };
  if (has_overriding_sequence(args, all)) {
    Ref result = override();
    if (result.get() != Py_NotImplemented) return result.release();
  }
  PyObject* result = Dispatch(*this, name).run(args, count, keyword_names);
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (has_overriding(args, all)) {
    Ref said = override();
    if (said.get() != Py_NotImplemented) {
      Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
      return said.release();
    }
  }
  PyErr_Restore(type, value, traceback);
  return nullptr;
}

PyObject* Session::call(const std::string& name, std::initializer_list<PyObject*> args) {
  return call(name, args.begin(), args.size(), nullptr);
}

PyObject* Session::call_overriding(const char* method, std::initializer_list<PyObject*> args) {
  const Ref function = attribute(tensor_class.get(), method);
  return function ? call_hook(overriding, function.get(), args.begin(), args.size(), nullptr) : nullptr;
}

PyObject* Session::call_node(const std::string& target, PyObject* const* args, size_t count, PyObject* keyword_names) {
  return Dispatch(*this, target).run(args, count, keyword_names, Updates::to_results);
}

}  // namespace atenon::capture
