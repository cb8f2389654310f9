#include "capture/functionalize.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <span>

#include "capture/callstack.h"
#include "capture/operator_call.h"
#include "capture/strides.h"
#include "capture/tensor_data.h"
#include "reference/reference.h"
#include "tensor/real_parts.h"

namespace atenon::capture {
namespace {

// "aten::slice" of "aten::slice.Tensor".
std::string base_name(const std::string& target) { return target.substr(0, target.find('.')); }

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* other) { return name == other; });
}

// Dropout gives the tensor itself where it drops nothing.
bool is_dropout(const std::string& name) {
  return is_one_of(name,
                   {"aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout"});
}

// Calls whose result is the tensor itself, seen from another name.
bool keeps_content(const std::string& name) {
  return is_one_of(name, {"aten::detach", "aten::alias", "aten::lift_fresh"}) || is_dropout(name);
}

// Calls that only arrange the same elements under other sizes, in row-major order.
bool keeps_order(const std::string& name) {
  return is_one_of(name, {"aten::view", "aten::reshape", "aten::flatten", "aten::unflatten", "aten::view_as",
                          "aten::reshape_as", "aten::ravel", "aten::squeeze", "aten::unsqueeze"});
}

bool is_its_own_inverse(const std::string& name) {
  return is_one_of(name, {"aten::transpose", "aten::conj", "aten::_conj"});
}

bool has_scatter(Session& session, const std::string& name) {
  return !session.opset.overloads(name + "_scatter").empty();
}

// Is it known how a new content of such a view is written back (write_back), or why not? What every other view is made
// of.
bool is_elementary(Session& session, const std::string& name) {
  return keeps_content(name) || keeps_order(name) || is_its_own_inverse(name) || has_scatter(session, name) ||
         is_one_of(name, {"aten::permute", "aten::expand", "aten::real", "aten::imag", "aten::view_as_real",
                          "aten::view_as_complex", "aten::index"});
}

int64_t axis_of(const Argument& argument, size_t rank) {
  const int64_t axis = argument.is<SymInt>() ? argument.get<SymInt>().constant().value_or(0) : 0;
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

const Argument* argument_of(const Step& step, size_t position, const char* name) {
  if (position < step.arguments.size()) return &step.arguments[position];
  for (const Named& keyword : step.keywords)
    if (keyword.name == name) return &keyword.argument;
  return nullptr;
}

std::vector<Argument> with_first(ir::Value* first, const std::vector<Argument>& rest) {
  std::vector<Argument> arguments{first};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return arguments;
}

// With what tensors hold there (the numbers that select) as it is known in this graph.
std::vector<Argument> here(Session& session, const std::vector<Argument>& arguments) {
  return ir::map_values(arguments, [&](ir::Value* value) { return Argument(session.here(value)); });
}

ArgumentList as_list(const std::vector<SymInt>& sizes) { return {sizes.begin(), sizes.end()}; }

ir::Value* only_result(ir::Node* node) { return node ? node->result() : nullptr; }

ir::Value* repeat(Session& session, const Step& step, ir::Value* viewed) {
  return only_result(session.record(step.target, with_first(viewed, here(session, step.arguments)), step.keywords));
}

// Can two elements of the view be one of what it views? Then writing it back would be a question of order.
bool may_overlap(const Step& step, const std::string& name) {
  const auto number = [](const Argument& argument) {
    return argument.is<SymInt>() ? argument.get<SymInt>().constant() : std::nullopt;
  };
  if (name == "aten::unfold") {  // (dimension, size, step)
    const std::optional<int64_t> size = number(step.arguments[1]), apart = number(step.arguments[2]);
    return !size || !apart || *size > *apart;
  }
  if (name != "aten::as_strided") return false;
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride and size, the least stride first
  const ArgumentList &sizes = step.arguments[0].get<ArgumentList>(), &strides = step.arguments[1].get<ArgumentList>();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::optional<int64_t> size = number(sizes[i]), stride = number(strides[i]);
    if (!size || !stride) return true;
    if (*size > 1) axes.emplace_back(*stride, *size);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;  // of the axes so far
  for (const auto& [stride, size] : axes) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

ir::Value* refuse_overlap(Session& session) {
  return session.raise(312, "an update through overlapping windows would write one element several times",
                       "clone() the view first");
}

// The new content of what `step` views, when the view's content is `content`. `viewed` is the content before.
ir::Value* write_back(Session& session, const Step& step, ir::Value* viewed, ir::Value* content) {
  const std::string name = base_name(step.target);
  if (keeps_content(name)) return content;
  if (step.target == "aten::view.dtype")  // the same bits under another type
    return only_result(session.record(step.target, {content, viewed->meta().dtype}));
  if (keeps_order(name)) return only_result(session.record("aten::view", {content, as_list(step.viewed_sizes)}));
  if (is_its_own_inverse(name))
    return repeat(session, {.target = step.target, .arguments = step.arguments, .keywords = step.keywords}, content);
  if (name == "aten::view_as_real") return only_result(session.record("aten::view_as_complex", {content}));
  if (name == "aten::view_as_complex") return only_result(session.record("aten::view_as_real", {content}));
  if (name == "aten::real" || name == "aten::imag") {
    const bool is_real = name == "aten::real";
    ir::Value* kept = only_result(session.record(is_real ? "aten::imag" : "aten::real", {viewed}));
    return kept ? only_result(session.record("aten::complex", {is_real ? content : kept, is_real ? kept : content}))
                : nullptr;
  }
  if (name == "aten::permute") {
    const Argument* dims = argument_of(step, 0, "dims");
    const ArgumentList& order = dims->get<ArgumentList>();
    ArgumentList inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      inverse[static_cast<size_t>(axis_of(order[i], order.size()))] = SymInt(static_cast<int64_t>(i));
    return only_result(session.record("aten::permute", {content, std::move(inverse)}));
  }
  if (name == "aten::expand")  // that adds axes alone: write_by_places has the others
    return only_result(session.record("aten::view", {content, as_list(step.viewed_sizes)}));
  if (may_overlap(step, name)) return refuse_overlap(session);
  std::vector<Argument> arguments = with_first(viewed, here(session, step.arguments));
  if (name == "aten::index") {
    arguments.emplace_back(content);
    return only_result(session.record("aten::index_put", std::move(arguments)));
  }
  arguments.insert(arguments.begin() + 1, content);
  return only_result(session.record(name + "_scatter", std::move(arguments), step.keywords));
}

// Does the view, of `sizes`, show elements of what it views several times?
bool repeats_elements(const Step& step, const std::vector<SymInt>& sizes) {
  return base_name(step.target) == "aten::expand" && !(shape::product(sizes) == shape::product(step.viewed_sizes));
}

// Does it show the elements themselves, whatever they are?
bool only_places(Session& session, const Step& step) {
  const std::string name = base_name(step.target);
  return step.target != "aten::view.dtype" && (keeps_order(name) || has_scatter(session, name) ||
                                               is_one_of(name, {"aten::detach", "aten::alias", "aten::transpose",
                                                                "aten::permute", "aten::expand", "aten::index"}));
}

// The same as write_back for all of `steps`, whose first repeats elements, where those that the last shows are all
// different ones: the places of the viewed elements, seen so, tell which are written. `strides` are of the last.
ir::Value* write_by_places(Session& session, std::span<const Step> steps, const std::vector<SymInt>& strides,
                           ir::Value* viewed, ir::Value* content) {
  const std::vector<SymInt>& sizes = content->meta().sizes;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (!(strides[axis] == SymInt(0)) || session.facts.proves(shape::less_equal(sizes[axis], 1))) continue;
    return session.raise(312, "an update through an expanded view would write one element several times",
                         "clone() the view first");
  }
  for (const Step& step : steps.subspan(1)) {
    if (may_overlap(step, base_name(step.target))) return refuse_overlap(session);
    if (only_places(session, step)) continue;
    return session.raise(312, "an update through " + step.target + " of an expanded view", "clone() the view first");
  }
  ir::Value* places = only_result(session.record("aten::arange", {viewed->meta().numel()}));
  if (places) places = only_result(session.record("aten::view", {places, as_list(viewed->meta().sizes)}));
  for (const Step& step : steps)
    if (places) places = repeat(session, step, places);
  return places ? only_result(session.record("aten::put", {viewed, places, content})) : nullptr;
}

// The elementary views that a result of a view is made of: movedim is a permute, hsplit several slices.
class Steps {
 public:
  explicit Steps(Session& session) : session_(session) {}

  // Appends those that lead from `viewed`, or the first argument of `made`'s producer, to it. False with a Python
  // exception.
  bool add(const ir::Value& made, ir::Value* viewed = nullptr) {
    const ir::Node& node = *made.producer;
    if (!viewed) viewed = node.arguments().front().value();
    if (is_elementary(session_, base_name(node.target()))) {
      steps.push_back({.target = node.target(),
                       .arguments = {node.arguments().begin() + 1, node.arguments().end()},
                       .keywords = node.keywords(),
                       .viewed_sizes = viewed->meta().sizes});
      return true;
    }
    const auto [found, is_new] = expanded_.try_emplace(&node);
    if (is_new) {
      Result<opset::Call> call = opset::bind(session_.opset, node);
      Result<opset::Expansion> expansion =
          call ? opset::expand(session_.opset, *call, session_.facts, session_.graph, nullptr, node.provenance)
               : call.error();
      if (!expansion) return session_.raise(expansion.error()) != nullptr;
      found->second = std::move(expansion->results);
    }
    std::vector<const ir::Value*> path;  // the last first
    for (ir::Value* at = found->second[static_cast<size_t>(made.index)]; at != viewed;
         at = at->producer->arguments().front().value()) {
      assert(at && at->producer && !at->producer->arguments().empty());  // views are made of views
      path.push_back(at);
    }
    return std::all_of(path.rbegin(), path.rend(), [&](const ir::Value* value) { return add(*value); });
  }

  std::vector<Step> steps;

 private:
  Session& session_;
  std::map<const ir::Node*, std::vector<ir::Value*>> expanded_;
};

std::string placeholder_name(const ir::InputSpec& spec) {
  std::string name = spec.kind == ir::InputKind::parameter ? "p_" : spec.kind == ir::InputKind::buffer ? "b_" : "c_";
  for (const char c : spec.target) name += c == '.' ? '_' : c;
  return name;
}

bool is_reshape(const std::string& name) {
  return is_one_of(name, {"aten::reshape", "aten::flatten", "aten::ravel", "aten::reshape_as"});
}

// x[i] with one integer tensor of no axes: a select by a number that is data.
bool selects(const Session& session, const opset::Call& call) {
  if (base_name(call.op->target()) != "aten::index") return false;
  std::vector<ir::Value*> indices;
  for (const Argument& index : call.arguments[1].get<ArgumentList>())
    if (ir::Value* value = index.value()) indices.push_back(value);
  return indices.size() == 1 && indices[0]->meta().sizes.empty() && indices[0]->meta().dtype != ScalarType::boolean &&
         !session.is_of_example(indices[0]);
}

// Functions that give a view of each tensor of a list.
bool views_a_list(const std::string& name) { return is_one_of(name, {"aten::meshgrid", "aten::broadcast_tensors"}); }

// Does the result, of `sizes`, share memory with the first argument? Its strides are absent where row-major.
bool views_first_argument(const Session& session, const opset::Call& call, const std::vector<SymInt>& viewed_sizes,
                          const std::optional<std::vector<SymInt>>& strides, const std::vector<SymInt>& sizes) {
  const opset::Schema& schema = call.op->schema();
  const std::string name = base_name(schema.target());
  if (views_a_list(name) || selects(session, call)) return true;
  if (is_dropout(name)) return call.arguments.size() > 2 && call.arguments[2] == Argument(SymBool(false));
  if (schema.parameters.empty() || schema.returns.empty()) return false;
  if (schema.parameters[0].type.alias.empty() || schema.returns[0].type.alias.empty()) return false;
  if (name == "aten::contiguous" || name == "aten::to") return false;  // a copy, or it was `unchanged`
  // reshape copies where no strides can say the same.
  if (strides && is_reshape(name)) return strides_of_reshape(viewed_sizes, *strides, sizes).has_value();
  return true;
}

// as_strided walks the memory, of which a program has only what the tensor shows.
bool may_stride(Session& session, const TensorObject& tensor, const opset::Call& call, bool has_strides) {
  const TensorState& state = *tensor.state;
  const bool is_part =
      state.is_traced() ? !(session.meta(tensor).numel() == state.base->value->meta().numel()) : state.real.offset != 0;
  if (!has_strides && (!is_part || call.arguments[3].is<ir::None>())) return true;
  session.raise(312,
                has_strides ? "as_strided of a tensor that is not contiguous"
                            : "as_strided with an offset in the memory of a tensor of which this is a part",
                has_strides ? "call contiguous() first, and give the strides of that"
                            : "call it on the whole tensor, or leave the storage_offset out");
  return false;
}

std::optional<std::vector<SymInt>> strides_unless_row_major(const TensorState& state) {
  if (state.is_traced()) return state.strides;
  if (state.real.is_contiguous()) return std::nullopt;
  return std::vector<SymInt>(state.real.strides.begin(), state.real.strides.end());
}

}  // namespace

std::optional<Ref> unchanged(Session& session, const opset::Call& call, PyObject* first) {
  TensorObject* tensor = first ? as_tensor(first) : nullptr;
  if (!tensor) return std::nullopt;
  const std::string name = base_name(call.op->target());
  if (is_one_of(name, {"aten::detach", "aten::alias", "aten::lift_fresh"})) {
    if (!session.read(*tensor)) return Ref();
    return session.wrap(TensorState(*tensor->state));
  }
  if (name == "aten::sum_to_size") {  // of a number: the sum, which may be of another dtype
    const std::vector<SymInt> sizes = session.meta(*tensor).sizes;
    return !sizes.empty() && call.arguments[1] == Argument(as_list(sizes)) ? std::optional(Ref::borrow(first))
                                                                           : std::nullopt;
  }
  if (name == "aten::as_strided") {
    const std::vector<SymInt> sizes = session.meta(*tensor).sizes;
    const std::optional<std::vector<SymInt>> strides = strides_unless_row_major(*tensor->state);
    const bool is_so = call.arguments[1] == Argument(as_list(sizes)) && call.arguments[3].is<ir::None>() &&
                       call.arguments[2] == Argument(as_list(strides.value_or(row_major(sizes))));
    if (is_so) return session.wrap(TensorState(*tensor->state));
    return may_stride(session, *tensor, call, strides.has_value()) ? std::nullopt : std::optional(Ref());
  }
  if (name == "aten::contiguous") {
    const std::vector<SymInt> sizes = session.meta(*tensor).sizes;
    const bool is_so =
        lie_alike(strides_unless_row_major(*tensor->state), strides_of_result(call, {}, sizes, session.facts), sizes);
    return is_so ? std::optional(Ref::borrow(first)) : std::nullopt;
  }
  if (name == "aten::to") {
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const std::string& parameter = call.op->schema().parameters[i].name;
      const Argument& argument = call.arguments[i];
      if (parameter == "copy" && argument == Argument(SymBool(true))) return std::nullopt;
      if (argument.is<ScalarType>() && argument.get<ScalarType>() != session.meta(*tensor).dtype) return std::nullopt;
      if (parameter == "other" && argument.value() && argument.value()->meta().dtype != session.meta(*tensor).dtype)
        return std::nullopt;
    }
    return Ref::borrow(first);
  }
  return std::nullopt;
}

namespace {

// Complex numbers as pairs of real ones, or one of each pair; nullopt of real numbers.
std::optional<Tensor> seen_as_parts(const std::string& name, Tensor tensor) {
  if (!is_complex(tensor.dtype)) return std::nullopt;
  Tensor parts = as_parts(std::move(tensor));
  if (name == "aten::view_as_real") return parts;
  if (name == "aten::imag") ++parts.offset;
  parts.sizes.pop_back();
  parts.strides.pop_back();
  return parts;
}

// Pairs of real numbers as complex ones; nullopt where they do not lie as such.
std::optional<Tensor> seen_as_complex(Tensor tensor) {
  const auto is_odd = [](int64_t stride) { return stride % 2 != 0; };
  const bool is_paired = tensor.strides.back() == 1 && tensor.offset % 2 == 0 &&
                         std::none_of(tensor.strides.begin(), tensor.strides.end() - 1, is_odd);
  if (!is_paired) return std::nullopt;
  tensor.dtype = pair_of(tensor.dtype);
  tensor.sizes.pop_back();
  tensor.strides.pop_back();
  for (int64_t& stride : tensor.strides) stride /= 2;
  tensor.offset /= 2;
  return tensor;
}

// The tensor itself where it lies as the call to contiguous() asks, else a copy that does.
Tensor made_contiguous(const opset::Call& call, Tensor tensor) {
  const std::vector<SymInt> shape(tensor.sizes.begin(), tensor.sizes.end());
  const auto asked = strides_of_result(call, {}, shape, {});
  if (!asked) return tensor.contiguous();
  if (lie_alike(std::vector<SymInt>(tensor.strides.begin(), tensor.strides.end()), asked, shape)) return tensor;
  Tensor copy = empty_with_strides(tensor.dtype, tensor.sizes, *asked);
  assign(copy, tensor);
  return copy;
}

}  // namespace

std::optional<Tensor> seen_in_memory(const opset::Call& call, const reference::Environment& environment) {
  const std::string name = base_name(call.op->target());
  const auto self = [&] { return std::get<Tensor>(environment.values.at(call.arguments[0].value())); };
  if (name == "aten::view_as_complex") return seen_as_complex(self());
  if (name == "aten::view_as_real" || name == "aten::real" || name == "aten::imag") return seen_as_parts(name, self());
  if (name == "aten::contiguous") return made_contiguous(call, self());
  if (name != "aten::as_strided") return std::nullopt;
  Tensor tensor = self();
  const auto number = [](const Argument& argument) { return argument.get<SymInt>().constant().value_or(0); };
  const ArgumentList &sizes = call.arguments[1].get<ArgumentList>(), &strides = call.arguments[2].get<ArgumentList>();
  tensor.sizes.clear();
  tensor.strides.clear();
  std::transform(sizes.begin(), sizes.end(), std::back_inserter(tensor.sizes), number);
  std::transform(strides.begin(), strides.end(), std::back_inserter(tensor.strides), number);
  if (call.arguments[3].is<SymInt>()) tensor.offset = number(call.arguments[3]);
  int64_t end = tensor.offset + 1;
  for (size_t axis = 0; axis < sizes.size(); ++axis) end += (tensor.sizes[axis] - 1) * tensor.strides[axis];
  const bool is_inside = static_cast<size_t>(end) * size_of(tensor.dtype) <= tensor.storage->size();
  return tensor.numel() == 0 || is_inside ? std::optional(std::move(tensor)) : std::nullopt;
}

std::optional<std::vector<TensorState>> states_of_results(Session& session, PyObject* argument, const opset::Call& call,
                                                          const ir::Node& node) {
  std::vector<TensorState> states;
  Steps elementary(session);
  const bool has_list = views_a_list(base_name(call.op->target()));
  for (const auto& value : node.results()) {
    states.push_back(value->is_tensor() ? session.fresh(value.get()) : TensorState());
    const Ref item(has_list ? PySequence_GetItem(argument, value->index) : Py_XNewRef(argument));
    TensorObject* first = item ? as_tensor(item.get()) : nullptr;
    if (!value->is_tensor() || !first) continue;
    TensorState& state = states.back();
    const std::vector<SymInt> sizes = session.meta(*first).sizes;
    const std::optional<std::vector<SymInt>> strides = strides_unless_row_major(*first->state);
    if (!views_first_argument(session, call, sizes, strides, value->meta().sizes)) {
      const std::string name = base_name(call.op->target());
      if (first->state->is_traced() && strides && (is_reshape(name) || name == "aten::contiguous"))
        for (const SymBool& way : ways_to_reshape(sizes, *strides, value->meta().sizes))
          session.sharings.push_back({way, first->state->base, state.base});
      continue;
    }
    elementary.steps.clear();
    const Argument& viewed = node.arguments().front();
    if (!elementary.add(
            *value, has_list ? viewed.get<ArgumentList>()[static_cast<size_t>(value->index)].value() : viewed.value()))
      return std::nullopt;
    state.base = session.base_of(*first->state);
    state.seen = state.base->version;
    state.chain = first->state->chain;
    state.strides = strides;
    state.offset = first->state->is_traced() ? first->state->offset : SymInt(first->state->real.offset);
    for (size_t i = 0; i < elementary.steps.size(); ++i) {
      Step& step = elementary.steps[i];
      const std::vector<SymInt>& after =
          i + 1 < elementary.steps.size() ? elementary.steps[i + 1].viewed_sizes : value->meta().sizes;
      const std::vector<SymInt> before = state.strides.value_or(row_major(step.viewed_sizes));
      state.offset = offset_of_view(step, state.offset, before);
      state.strides = strides_of_view(step, before, after);
      state.chain.push_back(std::move(step));
    }
  }
  // What composite views were looked up with.
  for (ir::Node& made : session.graph.backward()) {
    if (&made == &node) break;
    session.graph.erase(made);
  }
  return states;
}

TensorState Session::fresh(ir::Value* value) {
  TensorState state;
  state.base = std::make_shared<Base>();
  state.base->value = value;
  state.base->recording = recording_number;
  state.value = value;
  return state;
}

std::shared_ptr<Base> Session::lift(const Tensor& tensor) {
  std::vector<size_t>& known = lifted_by_storage[tensor.storage.get()];
  for (const size_t index : known)
    if (same_geometry(lifted[index].tensor, tensor)) return lifted[index].base;
  Lifted entry{.tensor = tensor, .base = std::make_shared<Base>()};
  entry.spec.kind = ir::InputKind::constant_tensor;
  for (const StateEntry& candidate : state)
    if (same_geometry(candidate.tensor, tensor)) {
      entry.spec.kind = candidate.kind;
      entry.spec.target = candidate.name;
      entry.spec.persistent = candidate.persistent;
      break;
    }
  if (entry.spec.target.empty()) entry.spec.target = "lifted_tensor_" + std::to_string(constants++);
  ir::TensorMeta meta{.dtype = tensor.dtype, .sizes = {tensor.sizes.begin(), tensor.sizes.end()}};
  ir::Value* input = program_graph().add_input(placeholder_name(entry.spec), std::move(meta));
  entry.spec.value = input->name;
  entry.base->value = entry.base->input = input;
  entry.base->recording = recording_number;
  known.push_back(lifted.size());
  lifted.push_back(entry);
  return entry.base;
}

TensorState Session::literal(const Tensor& tensor) {
  ir::Value* value = lift(tensor)->value;
  literal_inputs.insert(value);
  return fresh(value);
}

std::shared_ptr<Base> Session::base_of(TensorState& state) {
  if (state.is_traced()) return state.base;
  state.is_used = true;
  return lift(state.real);
}

const TensorState& Session::share(TensorObject& tensor) const {
  tensor.state->is_used |= is_tracing;
  return *tensor.state;
}

ir::TensorMeta Session::meta(const TensorObject& tensor) {
  if (tensor.state->is_traced()) return is_stale(*tensor.state->base) ? ir::TensorMeta() : tensor.state->value->meta();
  const Tensor& real = tensor.state->real;
  return {.dtype = real.dtype, .sizes = {real.sizes.begin(), real.sizes.end()}};
}

ir::Value* Session::read(TensorObject& tensor) {
  TensorState& state = *tensor.state;
  if (!state.is_traced()) return here(base_of(state)->value);
  if (is_stale(*state.base)) return raise(311, "a tensor of another capture is used in this one", "return it instead");
  if (!settle(*state.base)) return nullptr;
  if (state.seen == state.base->version) return here(state.value);
  // Something that shares this memory was written since: the view is made again from what the memory holds now.
  ir::Value* value = here(state.base->value);
  for (const Step& step : state.chain) {
    if (value) value = repeat(*this, step, value);
  }
  if (!value || !is_here(*state.base->value)) return value;  // a branch's own view of what lies outside ends with it
  state.value = value;
  state.seen = state.base->version;
  return value;
}

bool Session::may_update(const TensorObject& tensor, const Base& base) {
  const auto entry = std::find_if(lifted.begin(), lifted.end(), [&](const Lifted& e) { return e.base.get() == &base; });
  if (entry == lifted.end()) return true;
  if (entry->spec.kind == ir::InputKind::parameter && tensor.requires_grad && grad_enabled) {
    raise(312, "forward updates the parameter `" + entry->spec.target + "`, for which PyTorch records gradients",
          "do it inside of `with torch.no_grad():`, or make it a buffer");
    return tolerate();
  }
  if (entry->spec.target.starts_with("lifted_tensor_")) {
    raise(312, "forward updates a tensor that the model does not own", "register it as a buffer of the model");
    return tolerate();
  }
  return true;
}

bool require_castable(ScalarType result, ScalarType target) {
  const auto category = [](ScalarType type) {
    return is_complex(type) ? 3 : is_floating(type) ? 2 : type == ScalarType::boolean ? 0 : 1;
  };
  if (category(result) <= category(target)) return true;
  PyErr_Format(PyExc_RuntimeError, "result type %s can't be cast to the desired output type %s", torch_name_of(result),
               torch_name_of(target));
  return false;
}

// Relies on it that no update has reached the memory by way of other sizes than it was captured for.
bool Session::settle(Base& base) {
  for (const auto& [way, update] : base.stale_if) {
    const ir::CallStack stack = program.provenance.at(update);
    const CallStacks::Pretence at_the_update(*call_stacks, stack);
    if (require(shape::negate(way), "a reshape of other strides is a copy, which this update does not reach")) continue;
    if (PyErr_Occurred()) return false;
    raise(error(Status::unsupported, 312,
                "an update in place of a tensor whose reshape is a view only for some sizes, as in the example")
              .note("the update is at " + stack.place())
              .note("fix: clone() it before the update, or take an example of another size"));
    return false;
  }
  base.stale_if.clear();
  return true;
}

// What shares the updated memory for some sizes is stale for these; nobody needs to care unless it is read again.
// Inputs and state are, by the caller.
bool Session::spread_update(Base& updated) {
  const ir::ProvenanceId here = call_stacks->current(program.provenance);
  std::vector<Base*> open{&updated};
  std::set<Base*> reached{&updated};
  while (!open.empty()) {
    const Base* base = open.back();
    open.pop_back();
    for (const auto& [way, from, to] : sharings) {
      if (from.get() != base && to.get() != base) continue;
      Base& other = from.get() == base ? *to : *from;
      if (&other == &updated) continue;
      other.stale_if.push_back({way, here});
      if (other.input && !settle(other)) return false;
      if (reached.insert(&other).second) open.push_back(&other);
    }
  }
  return true;
}

bool Session::write(TensorObject& tensor, ir::Value* value) {
  TensorState& state = *tensor.state;
  const ir::TensorMeta before = meta(tensor);
  if (!require_castable(value->meta().dtype, before.dtype)) return false;
  if (value->meta().sizes.size() != before.sizes.size()) {
    raise(312, "an update in place cannot change the shape from " + ir::to_string(before) + " to " +
                   ir::to_string(value->meta()));
    return false;
  }
  for (size_t axis = 0; axis < before.sizes.size(); ++axis) {
    const SymBool same = shape::equal(before.sizes[axis], value->meta().sizes[axis]);
    const bool is_same = require(same, "an update in place keeps the shape");
    if (PyErr_Occurred()) return false;
    if (is_same) continue;
    raise(312, "an update in place cannot change the shape from " + ir::to_string(before) + " to " +
                   ir::to_string(value->meta()));
    return false;
  }
  if (value->meta().dtype != before.dtype) {
    value = only_result(record("aten::_to_copy", {value}, {{"dtype", before.dtype}}));
    if (!value) return false;
  }
  if (!state.is_traced() && lifted_by_storage[state.real.storage.get()].size() > 1) {
    raise(312, "an update in place of state that is also read through another view made before forward",
          "make the view inside forward");
    return false;
  }
  const std::shared_ptr<Base> base = base_of(state);
  if (!may_update(tensor, *base)) return false;
  if (!is_here(*base->value)) {
    raise(312, "a branch or loop body updates a tensor that lies outside of it",
          "clone() it inside, and return the new value");
    return false;
  }
  if (!settle(*base) || !spread_update(*base)) return false;
  std::vector<ir::Value*> viewed{base->value};  // what each step views
  for (size_t i = 0; i + 1 < state.chain.size(); ++i) {
    viewed.push_back(repeat(*this, state.chain[i], viewed.back()));
    if (!viewed.back()) return false;
  }
  ir::Value* content = value;
  size_t last = state.chain.size();
  for (size_t i = 0; i < last; ++i) {
    if (!repeats_elements(state.chain[i], i + 1 < last ? viewed[i + 1]->meta().sizes : before.sizes)) continue;
    content = write_by_places(*this, std::span(state.chain).subspan(i), state.strides.value_or(row_major(before.sizes)),
                              viewed[i], content);
    if (!content) return false;
    last = i;
  }
  for (size_t i = last; i-- > 0;) {
    content = write_back(*this, state.chain[i], viewed[i], content);
    if (!content) return false;
  }
  base->value = content;
  ++base->version;
  if (state.is_traced()) {
    state.value = value;
    state.seen = base->version;
  }
  return true;
}

bool Session::write_real(TensorObject& tensor, const Tensor& value) {
  Tensor& target = tensor.state->real;
  if (value.sizes != target.sizes) {
    PyErr_SetString(PyExc_RuntimeError, "an update in place cannot change the shape of a tensor");
    return false;
  }
  if (!require_castable(value.dtype, target.dtype)) return false;
  assign(target, value);
  return true;
}

std::optional<reference::Datum> Session::known_value(ir::Value* value) {
  // What has to be evaluated, operands before their readers: a node, or an input of a subgraph by what it stands for.
  struct Visit {
    ir::Value* value;
    ir::Value* outside = nullptr;
    bool is_ready = false;
  };
  std::vector<Visit> open{{value}}, needed;
  std::map<const ir::Node*, bool> seen;
  std::vector<std::pair<ir::Value*, const Lifted*>> state_read;
  while (!open.empty()) {
    const Visit next = open.back();
    open.pop_back();
    if (next.is_ready) {
      needed.push_back(next);
    } else if (constants_known.values.contains(next.value)) {
      continue;
    } else if (const ir::Node* node = next.value->producer) {
      if (!seen.emplace(node, true).second) continue;
      const opset::Operator* op = opset.find(node->target());
      const bool is_known = op && !op->has_tag("random") && !op->is_declared();
      if (!is_known || !ir::symbols_read(*node).empty()) return std::nullopt;
      open.push_back({next.value, nullptr, true});
      for (ir::Value* operand : node->operands()) open.push_back({operand});
    } else if (ir::Value* outside = captured_by(next.value)) {
      open.push_back({next.value, outside, true});
      open.push_back({outside});
    } else {
      const auto found = std::find_if(lifted.begin(), lifted.end(),
                                      [&](const Lifted& entry) { return entry.base->input == next.value; });
      if (found == lifted.end()) return std::nullopt;
      state_read.emplace_back(next.value, &*found);
    }
  }
  for (const auto& [input, entry] : state_read) {
    if (!literal_inputs.contains(input)) buffers_read.emplace_back(entry->base, call_stacks->user_line());
    constants_known.values.emplace(input, entry->tensor);
  }
  for (const Visit& visit : needed) {
    if (visit.outside) {
      constants_known.values.emplace(visit.value, constants_known.values.at(visit.outside));
    } else if (Result<void> done = reference::evaluate(opset, *visit.value->producer, constants_known); !done) {
      raise(done.error());
      return std::nullopt;
    }
  }
  return constants_known.values.at(value);
}

// Of what forward writes down; each mask of a long loop is asked.
constexpr size_t longest_history = 1024;

bool Session::is_made_of(ir::Value* value, const std::function<bool(const ir::Value&)>& may_be) const {
  std::vector<ir::Value*> open{value};
  std::set<const ir::Value*> seen;
  while (!open.empty()) {
    ir::Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    if (seen.size() > longest_history) return false;
    if (ir::Value* outside = next->producer ? nullptr : captured_by(next)) {
      open.push_back(outside);
      continue;
    }
    if (!may_be(*next)) return false;
    if (next->producer)
      for (ir::Value* operand : next->producer->operands()) open.push_back(operand);
  }
  return true;
}

bool Session::is_literal(ir::Value* value) const {
  return is_made_of(value, [&](const ir::Value& source) {
    if (!source.producer) return literal_inputs.contains(&source);
    const opset::Operator* op = opset.find(source.producer->target());
    return op && !op->has_tag("random") && !op->is_declared() && ir::symbols_read(*source.producer).empty();
  });
}

std::optional<reference::Datum> Session::constant_value(ir::Value* value, const std::string& purpose,
                                                        const std::string& fix) {
  std::optional<reference::Datum> datum = known_value(value);
  if (!datum) raise(311, purpose + " needs the value of a tensor that depends on the model's inputs", fix);
  return datum;
}

}  // namespace atenon::capture
