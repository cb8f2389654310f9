// See plan.h. Strides, slots and aliases are what `lower` wrote on the calls; here they become numbers, once.
#include "run/plan.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "ir/call_body.h"
#include "kernels/body.h"
#include "run/leaves.h"
#include "support/parallel.h"
#include "tensor/elements.h"
#include "text/text.h"

namespace atenon::run {

namespace {

constexpr uint32_t arena_root = 0;
constexpr size_t alignment = 64;
constexpr int64_t most_bytes = int64_t{1} << 46;  // of an arena: sums cannot overflow

const Tensor* tensor_in(const std::optional<Datum>& input) { return input ? std::get_if<Tensor>(&*input) : nullptr; }

std::variant<std::monostate, int64_t, double, bool> number_in(const std::optional<Datum>& input) {
  if (!input) return {};
  if (const int64_t* integer = std::get_if<int64_t>(&*input)) return *integer;
  if (const double* real = std::get_if<double>(&*input)) return *real;
  if (const bool* truth = std::get_if<bool>(&*input)) return *truth;
  return {};
}

// Whether a leaf is this number, in the type that is that of such numbers.
template <class T>
bool is_number(const Rows& rows, T number) {
  const ScalarType dtype = std::is_same_v<T, int64_t>  ? ScalarType::i64
                           : std::is_same_v<T, double> ? ScalarType::f64
                                                       : ScalarType::boolean;
  return rows.dtype == dtype && rows.sizes.empty() && std::memcmp(rows.data, &number, sizeof number) == 0;
}

// Describes the same elements in as few axes as can be.
void join_axes(std::vector<int64_t>& sizes, std::vector<int64_t>& strides) {
  size_t joined = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    if (joined > 0 && strides[joined - 1] == strides[axis] * sizes[axis]) {
      sizes[joined - 1] *= sizes[axis];
    } else {
      sizes[joined++] = sizes[axis];
    }
    strides[joined - 1] = strides[axis];
  }
  sizes.resize(joined);
  strides.resize(joined);
}

// Returns where the next element goes.
template <class T>
T* copy_to_rows(T* to, const T* from, std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  if (sizes.empty()) {
    *to = *from;
    return to + 1;
  }
  if (sizes.size() == 1 && strides[0] == 1) return std::copy_n(from, sizes[0], to);
  for (int64_t i = 0; i < sizes[0]; ++i, from += strides[0])
    to = copy_to_rows(to, from, sizes.subspan(1), strides.subspan(1));
  return to;
}

// Bit for bit: a plan made for 0.0 is none for -0.0, and one for NaN is one for NaN.
bool is_same(const std::variant<std::monostate, int64_t, double, bool>& a,
             const std::variant<std::monostate, int64_t, double, bool>& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x && y ? std::memcmp(x, y, sizeof *x) == 0 : a == b;
}

Diagnostic unknown_size(const ir::Node& node) {
  return error(Status::bad_input, 618,
               "a size or slot of a lowered call does not follow from the inputs: " + text::print(node));
}

}  // namespace

Result<std::shared_ptr<Plan>> Plan::make(Session& session, const ir::Variant& variant, shape::Bindings symbols,
                                         const std::vector<std::optional<Datum>>& inputs) {
  auto plan = std::make_shared<Plan>();
  plan->variant_ = &variant;
  plan->symbols_ = std::move(symbols);
  plan->state_count_ = session.state_.size();
  plan->input_count_ = inputs.size();
  for (const std::optional<Datum>& input : inputs) {
    Given& given = plan->inputs_.emplace_back();
    const Tensor* tensor = tensor_in(input);
    if (tensor) given.tensor.emplace(tensor->dtype, tensor->sizes);
    given.number = number_in(input);
  }
  plan->find_homes();
  if (Result<void> placed = plan->place(session); !placed) return placed.error();
  if (Result<void> placed = plan->place_outputs(session, inputs); !placed) return placed.error();
  if (Result<void> prepared = plan->prepare(session); !prepared) return prepared.error();
  return plan;
}

bool Plan::fits(const std::vector<std::optional<Datum>>& inputs) const {
  auto is_given = [](const std::optional<Datum>& input, const Given& given) {
    const Tensor* tensor = tensor_in(input);
    if (!tensor || !given.tensor) return !tensor && !given.tensor && is_same(number_in(input), given.number);
    return tensor->dtype == given.tensor->first && tensor->sizes == given.tensor->second;
  };
  return threads_ == threads() && std::equal(inputs.begin(), inputs.end(), inputs_.begin(), inputs_.end(), is_given);
}

bool Plan::enlarge_arena(int64_t bytes) {
  if (bytes < 0 || bytes > most_bytes - static_cast<int64_t>(arena_bytes_)) return false;
  arena_bytes_ += in_lines(static_cast<size_t>(bytes));
  return true;
}

// Where each slot of the arena begins; the last number is where the last one ends.
Result<std::vector<int64_t>> Plan::place_slots() {
  std::vector<int64_t> slots;
  for (const ir::Named& annotation : variant_->annotations) {
    if (annotation.name != "slots" || !annotation.argument.is<ir::ArgumentList>()) continue;
    for (const ir::Argument& bytes : annotation.argument.get<ir::ArgumentList>()) {
      slots.push_back(static_cast<int64_t>(arena_bytes_));
      const std::optional<int64_t> size = integer(bytes, symbols_);
      if (size && *size < 0) return error(Status::bad_input, 618, "an arena slot has a negative size");
      if (size && enlarge_arena(*size)) continue;
      const auto is_known = [&](const std::string& name) { return symbols_.contains(name); };
      if (!size && (!bytes.is<ir::SymInt>() || !std::ranges::all_of(bytes.get<ir::SymInt>().symbols(), is_known)))
        return error(Status::bad_input, 618, "the size of an arena slot does not follow from the inputs");
      return error(Status::violated, 618, "at these sizes, the arena would be larger than memory can be");
    }
  }
  slots.push_back(static_cast<int64_t>(arena_bytes_));
  return slots;
}

// The operand that a call writes this result over where it lies, to give an output; -1 for none, nullopt if it can be
// none.
std::optional<int64_t> Plan::overwritten(const ir::Node& node, size_t index) const {
  const ir::Argument* operand = item(node, "overwrites", index);
  if (!operand) return -1;
  const std::optional<int64_t> number = integer(*operand, symbols_);
  const bool may_be =
      kernels::kernel_of(node) != "alias" && number && *number < static_cast<int64_t>(node.operands().size());
  return may_be ? number : std::nullopt;
}

void Plan::find_homes() {
  const std::vector<ir::Argument>& outputs = variant_->graph.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::Value* value = outputs[i].value();
    while (value && value->producer && homes_.emplace(value, i).second) {
      const std::optional<int64_t> over = overwritten(*value->producer, value->index);
      value = over && *over >= 0 ? value->producer->operands()[static_cast<size_t>(*over)] : nullptr;
    }
  }
}

// An alias lies in its operand, and so does what is written over it, an output or the state that it becomes; any other
// result in its slot, in an output, or, where nobody reads it, or it does not lie in rows, in room of its own.
Result<Plan::Place> Plan::place_result(const Session& session, const ir::Node& node, size_t index,
                                       const std::vector<int64_t>& slots) {
  const std::optional<Tensor> geometry = geometry_of(node, index, symbols_);
  const std::optional<int64_t> bytes =
      geometry ? extent(geometry->sizes, geometry->strides, geometry->dtype) : std::nullopt;
  if (!bytes) return unknown_size(node);
  Place place{arena_root, 0, geometry->dtype, geometry->sizes, geometry->strides};
  const std::optional<int64_t> over = overwritten(node, index);
  const auto refuse_place = [&] {
    return error(Status::bad_input, 618, "a result is written over what is no output: " + text::print(node));
  };
  if (!over) return refuse_place();
  if (kernels::kernel_of(node) == "alias") {
    const std::vector<ir::Value*> operands = node.operands();
    if (operands.empty()) return unknown_size(node);
    const Place& base = places_.at(operands[0]);
    const Tensor whole{.dtype = base.dtype,
                       .sizes = base.sizes,
                       .strides = base.strides,
                       .offset = base.offset / static_cast<int64_t>(size_of(base.dtype))};
    const std::optional<int64_t> elements = offset_of_alias(node, whole, *geometry, symbols_);
    if (!elements) return error(Status::bad_input, 618, "an alias reaches beyond its operand: " + text::print(node));
    place.root = base.root;
    place.offset = base.offset + *elements * static_cast<int64_t>(size_of(place.dtype));
    return place;
  }
  if (*over >= 0) {
    const Place& base = places_.at(node.operands()[static_cast<size_t>(*over)]);
    const auto is_written = [&](const Session::Port& target) {
      return target.is_state && root_of_state(target.index) == base.root;
    };
    const bool is_same = base.dtype == place.dtype && base.sizes == place.sizes && base.strides == place.strides;
    const bool may_be = base.root >= root_of_output(0) || std::ranges::any_of(session.targets_, is_written);
    if (!is_same || !may_be) return refuse_place();
    return base;
  }
  const ir::Argument* slot = item(node, "slots", index);
  if (const std::optional<int64_t> number = slot ? integer(*slot, symbols_) : -1; number && *number >= 0) {
    const auto at = static_cast<size_t>(*number);
    if (at + 1 >= slots.size() || *bytes > slots[at + 1] - slots[at])
      return error(Status::bad_input, 618, "a result does not fit into its arena slot: " + text::print(node));
    place.offset = slots[at];
    return place;
  }
  if (const auto home = homes_.find(node.result(index)); home != homes_.end() && geometry->is_contiguous()) {
    place.root = root_of_output(home->second);
    return place;
  }
  place.offset = static_cast<int64_t>(arena_bytes_);
  if (!enlarge_arena(*bytes)) return unknown_size(node);
  return place;
}

// Gives every value its place: a root and a distance from it.
Result<void> Plan::place(Session& session) {
  const ir::Graph& graph = variant_->graph;
  Result<std::vector<int64_t>> slots = place_slots();
  if (!slots) return slots.error();

  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Value* value = graph.inputs()[i].get();
    if (!value->is_tensor()) continue;
    std::optional<std::vector<int64_t>> sizes = kernels::concrete(value->meta().sizes, symbols_);
    if (!sizes)
      return error(Status::bad_input, 618, "the size of input '" + value->name + "' does not follow from the inputs");
    const Session::Port source = session.sources_[i];
    const uint32_t root = source.is_state ? root_of_state(source.index) : root_of_input(source.index);
    places_[value] = {root, 0, value->meta().dtype, *sizes, contiguous_strides(*sizes)};
  }

  for (const ir::Node& node : graph.forward()) {
    Step& step = steps_.emplace_back();
    step.node = &node;
    const std::vector<ir::Value*> operands = node.operands();
    for (const ir::Value* operand : operands)
      if (!places_.contains(operand)) return unknown_size(node);
    for (size_t i = 0; i < node.results().size(); ++i) {
      Result<Place> place = place_result(session, node, i, *slots);
      if (!place) return place.error();
      step.results.push_back(*place);
      places_[node.result(i)] = std::move(*place);
    }
    for (const ir::Value* operand : operands)
      step.buffers.push_back({places_.at(operand).root, places_.at(operand).offset});
    for (const Place& result : step.results) step.buffers.push_back({result.root, result.offset});
  }
  return {};
}

Result<void> Plan::place_outputs(const Session& session, const std::vector<std::optional<Datum>>& inputs) {
  for (size_t i = 0; i < session.targets_.size(); ++i) {
    Output& output = outputs_.emplace_back();
    output.target = session.targets_[i];
    const ir::Argument& returned = variant_->graph.outputs()[i];
    const ir::Value* value = returned.value();
    if (const auto place = places_.find(value); place != places_.end()) {
      output.place = place->second;
      output.is_in_place = output.target.is_state && output.place->root == root_of_state(output.target.index) &&
                           output.place->offset == 0 &&
                           output.place->strides == contiguous_strides(output.place->sizes);
      output.is_there = output.is_in_place || output.place->root == root_of_output(i);
      output.dtype = output.place->dtype;
      output.sizes = output.place->sizes;
      join_axes(output.place->sizes, output.place->strides);
      continue;
    }
    if (value) {
      output.number = *inputs[session.input_of(*variant_, *value)];  // no call gives a number
    } else {
      Result<Datum> constant = output_of(returned, symbols_);
      if (!constant) return constant.error();
      output.number = std::move(*constant);
    }
    output.dtype = tensor_of(output.number).dtype;
  }
  return {};
}

// What a kernel is told of a call: where its operands and results lie, and which operands are weights.
Result<kernels::CallSite> Plan::call_site(Session& session, const Step& step, const kernels::Kernel& kernel) const {
  const ir::Node& node = *step.node;
  const ir::Graph* body = ir::body_of(node, *variant_);
  if (!body) return error(Status::bad_input, 617, "a call names no subgraph of its variant");
  Result<kernels::CallSite> site = session.call_site(*variant_, node, *body, symbols_);
  if (!site) return site;
  for (const ir::Value* operand : node.operands()) {
    const Place& place = places_.at(operand);
    const Session::Port* source = operand->producer ? nullptr : &session.sources_[operand->index];
    const ir::Weight* weight = source && source->is_state ? session.state_[source->index].fixed : nullptr;
    site->operands.push_back({place.dtype, place.sizes, place.strides, weight});
  }
  if (Result<void> checked = check_call(kernel, *site, node); !checked) return checked.error();
  for (size_t i = 0; i < site->operands.size(); ++i)
    if (const ir::Weight* weight = site->operands[i].weight;
        weight && weight->tensor.storage->is_absent() && kernel.reads(*body, i))
      return error(Status::bad_input, 617, "a call reads '" + weight->name + "', which is said to be unread");
  for (const Place& result : step.results) {
    site->results.push_back({result.dtype, result.sizes, result.strides});
    for (size_t i = 0; i < site->operands.size(); ++i)
      if (step.buffers[i] == std::pair(result.root, result.offset) && site->operands[i].sizes == result.sizes)
        site->results.back().overwrites = static_cast<int>(i);
  }
  return site;
}

// Makes the calls.
Result<void> Plan::prepare(Session& session) {
  std::vector<kernels::CallSite> sites(steps_.size());
  std::vector<const kernels::Kernel*> kernels(steps_.size());  // null for an alias
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const std::string name = kernels::kernel_of(*step.node);
    step.kernel = "alias";
    if (name == step.kernel) continue;
    kernels[i] = kernels::find(name);
    if (!kernels[i])
      return error(Status::unsupported, 619, "this version has no kernel '" + name + "', which the program asks for");
    step.kernel = kernels[i]->name();
    Result<kernels::CallSite> site = call_site(session, step, *kernels[i]);
    if (!site) return site.error();
    Result<std::vector<Indices>> indices = indices_of(session.program_, *step.node, *site);
    if (!indices) return indices.error();
    step.indices = std::move(*indices);
    sites[i] = std::move(*site);
  }
  if (Result<void> made = prepare_calls(kernels, sites); !made) return made;
  for (const Step& step : steps_) {
    if (!step.call) continue;
    scratch_bytes_ = std::max(scratch_bytes_, in_lines(step.call->scratch_bytes()));
    if (!step.call->note.empty()) notes_.push_back(step.call->note);
  }
  return {};
}

// Each call takes its library up to a millisecond, so several threads share the work.
Result<void> Plan::prepare_calls(const std::vector<const kernels::Kernel*>& kernels,
                                 const std::vector<kernels::CallSite>& sites) {
  std::vector<std::optional<Diagnostic>> failures(steps_.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < steps_.size();) {
      if (!kernels[i]) continue;
      auto call = atenon::kernels::prepare(*kernels[i], sites[i]);
      if (call)
        steps_[i].call = std::move(*call);
      else
        failures[i] = call.error();
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int i = 1; i < std::min<int>(threads(), static_cast<int>(steps_.size() / 4)); ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {}  // no more threads for this process: those that are there do all
  work();
  for (std::thread& helper : helpers) helper.join();
  atenon::kernels::end_preparing();
  for (size_t i = 0; i < steps_.size(); ++i)
    if (failures[i]) return std::move(*failures[i]).note("in " + text::print(*steps_[i].node));
  return {};
}

Memory Plan::memory() const {
  Memory memory{.formula = {}, .arena = arena_bytes_, .scratch = scratch_bytes_};
  for (const ir::Named& annotation : variant_->annotations)
    if (annotation.name == "arena") memory.formula = text::print(annotation.argument);
  for (const Output& output : outputs_)
    if (output.target.is_state && !output.is_in_place) memory.weights += outline(output.dtype, output.sizes).nbytes();
  size_t most = 0;
  for (const Step& step : steps_) {
    if (!step.call) continue;
    memory.repacked += step.call->repacked;
    if (step.call->scratch_bytes() <= most) continue;
    most = step.call->scratch_bytes();
    memory.scratch_of = "%" + step.node->result()->name + " (" + step.kernel + ")";
  }
  return memory;
}

size_t Plan::bytes() const { return arena_bytes_ + scratch_bytes_ + alignment; }

std::unique_ptr<Context> Plan::make_context(std::shared_ptr<const Plan> plan, const Session& session) {
  auto context = std::make_unique<Context>();
  context->roots.resize(plan->root_of_output(plan->outputs_.size()));
  for (size_t i = 0; i < plan->state_count_; ++i)
    context->roots[plan->root_of_state(i)] = static_cast<char*>(const_cast<void*>(session.state_[i].tensor.data()));
  size_t most = 0;
  for (const Step& step : plan->steps_) most = std::max(most, step.buffers.size());
  context->buffers.reserve(most);
  context->plan = std::move(plan);
  return context;
}

Tensor Plan::view(const Context& context, const Place& place) const {
  const std::optional<int64_t> bytes = extent(place.sizes, place.strides, place.dtype);
  return {place.dtype, place.sizes, place.strides, 0,
          Storage::view(context.roots[place.root] + place.offset, static_cast<size_t>(*bytes), nullptr, false)};
}

Result<void> Plan::run_steps(Context& context, const Observer& observer) const {
  std::vector<char*>& roots = context.roots;
  roots[arena_root] = static_cast<char*>(context.arena->memory->mutable_data());
  void* const scratch = roots[arena_root] + arena_bytes_;
  for (const Step& step : steps_) {
    const auto start = observer ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    if (step.call) {
      context.buffers.clear();
      for (auto [root, offset] : step.buffers) context.buffers.push_back(roots[root] + offset);
      if (Result<void> inside = check_indices(step.indices, context.buffers); !inside) return inside.error();
      if (Result<void> ran = step.call->run(context.buffers, scratch); !ran) return ran.error();
    }
    if (!observer) continue;
    Observation seen{*step.node, step.kernel};
    seen.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (step.call) {
      seen.flops = step.call->flops;
      seen.bytes = step.call->bytes;
      seen.detail = &step.call->detail;
    }
    std::vector<Datum> values;
    for (const Place& result : step.results) values.push_back(view(context, result));
    seen.results = values;
    if (Result<void> observed = observer(seen); !observed) return observed.error();
  }
  return {};
}

Result<std::vector<Datum>> Plan::run(Context& context, Session& session,
                                     const std::vector<std::optional<Datum>>& inputs, const Observer& observer,
                                     std::span<Tensor> into) const {
  std::vector<Tensor> kept;  // row-major copies of inputs that lie otherwise
  kept.reserve(input_count_);
  std::vector<Rows> given(input_count_);
  for (size_t i = 0; i < input_count_; ++i) {
    const Tensor* tensor = tensor_in(inputs[i]);
    if (!tensor) continue;
    if (!tensor->is_contiguous()) tensor = &kept.emplace_back(tensor->contiguous());
    given[i] = {tensor->dtype, tensor->sizes, const_cast<void*>(tensor->data())};
  }
  std::vector<Datum> results(session.outputs().size());
  std::vector<Rows> rooms(results.size());
  for (const Output& output : outputs_) {
    if (output.target.is_state) continue;
    const size_t i = output.target.index;
    if (!into.empty())
      if (Result<void> fits = session.check_room(i, into[i], output.dtype, output.sizes); !fits) return fits.error();
    if (output.place) {
      Tensor tensor = into.empty() ? Tensor::empty(output.dtype, output.sizes) : into[i];
      rooms[i].data = tensor.mutable_data();
      results[i] = std::move(tensor);
    } else {
      if (!into.empty()) rooms[i].data = into[i].mutable_data();
      results[i] = output.number;
    }
  }
  if (Result<void> ran = run(context, session, given, rooms, observer); !ran) return ran.error();
  return results;
}

bool Plan::fits(std::span<const Rows> inputs, std::span<const Rows> outputs) const {
  const auto has_type = [](const Rows& rows, ScalarType dtype, const std::vector<int64_t>& sizes) {
    return rows.dtype == dtype && std::equal(rows.sizes.begin(), rows.sizes.end(), sizes.begin(), sizes.end());
  };
  if (threads_ != threads() || inputs.size() != inputs_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Given& given = inputs_[i];
    const auto is_it = [&]<class T>(const T& number) {
      if constexpr (std::is_same_v<T, std::monostate>)
        return false;
      else
        return is_number(inputs[i], number);
    };
    if (given.tensor ? !has_type(inputs[i], given.tensor->first, given.tensor->second)
                     : !std::visit(is_it, given.number))
      return false;
  }
  size_t returned = 0;
  for (const Output& output : outputs_) {
    if (output.target.is_state) continue;
    ++returned;
    if (output.target.index >= outputs.size() || !has_type(outputs[output.target.index], output.dtype, output.sizes))
      return false;
  }
  return returned == outputs.size();
}

// What a state becomes is written beside it, so that a run that fails has changed nothing; or over it, where no call
// that comes then can fail.
Result<void> Plan::run(Context& context, Session& session, std::span<const Rows> inputs, std::span<const Rows> outputs,
                       const Observer& observer) const {
  std::vector<char*>& roots = context.roots;
  for (size_t i = 0; i < inputs.size(); ++i) roots[root_of_input(i)] = static_cast<char*>(inputs[i].data);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Session::Port target = outputs_[i].target;
    if (!target.is_state) {
      roots[root_of_output(i)] = static_cast<char*>(outputs[target.index].data);
      continue;
    }
    State& state = session.state_[target.index];
    roots[root_of_state(target.index)] = static_cast<char*>(state.tensor.mutable_data());
    if (outputs_[i].is_in_place) continue;
    if (!state.next.storage) state.next = Tensor::empty(state.tensor.dtype, state.tensor.sizes);
    roots[root_of_output(i)] = static_cast<char*>(state.next.mutable_data());
  }
  if (Result<void> ran = run_steps(context, observer); !ran) return ran;
  copy_outputs(context);
  for (const Output& output : outputs_)
    if (output.target.is_state && !output.is_in_place)
      std::swap(session.state_[output.target.index].tensor, session.state_[output.target.index].next);
  return {};
}

void Plan::copy_outputs(Context& context) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    char* const room = context.roots[root_of_output(i)];
    if (output.is_there || !room) continue;
    if (output.place) {
      const char* const from = context.roots[output.place->root] + output.place->offset;
      visit_element_type(output.dtype, [&]<class T>(T) {
        copy_to_rows(reinterpret_cast<T*>(room), reinterpret_cast<const T*>(from), output.place->sizes,
                     output.place->strides);
      });
    } else if (const int64_t* integer = std::get_if<int64_t>(&output.number)) {
      std::memcpy(room, integer, sizeof *integer);
    } else if (const double* real = std::get_if<double>(&output.number)) {
      std::memcpy(room, real, sizeof *real);
    } else {
      std::memcpy(room, &std::get<bool>(output.number), 1);
    }
  }
}

}  // namespace atenon::run
