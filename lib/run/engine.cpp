// Sessions: what does not depend on sizes.
#include "run/engine.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "ir/call_body.h"
#include "ir/written_state.h"
#include "kernels/body.h"
#include "opset/versions.h"
#include "program/program_file.h"
#include "run/interpreter.h"
#include "run/kernel_library.h"
#include "run/leaves.h"
#include "run/plan.h"
#include "support/parallel.h"

namespace atenon::run {

namespace {

using ir::InputKind;
using ir::OutputKind;

Tensor copy_of(const Tensor& tensor) {
  const Tensor rows = tensor.contiguous();
  Tensor copy = Tensor::empty(rows.dtype, rows.sizes);
  std::memcpy(copy.mutable_data(), rows.data(), rows.nbytes());
  return copy;
}

std::string type_text(ScalarType dtype, const std::vector<int64_t>& sizes) {
  return ir::to_string(ir::TensorMeta{dtype, {sizes.begin(), sizes.end()}});
}

// Makes `type` that of a leaf in all variants: a size that is another one in `other` is the symbol that is read there.
void widen(ir::Type& type, const ir::Type& other, const std::string& path, const ir::EntryPoint& entry) {
  auto* mine = std::get_if<ir::TensorMeta>(&type);
  const auto* theirs = std::get_if<ir::TensorMeta>(&other);
  if (!mine || !theirs || mine->rank() != theirs->rank()) return;
  for (int axis = 0; axis < mine->rank(); ++axis) {
    if (mine->sizes[axis] == theirs->sizes[axis]) continue;
    const std::string source = path + "[" + std::to_string(axis) + "]";
    std::string name = "any";
    for (const ir::Symbol& symbol : entry.symbols)
      if (symbol.source == source) name = symbol.name;
    mine->sizes[axis] = ir::SymInt::symbol(name);
  }
}

}  // namespace

std::string python_line(const ir::ExportedProgram& program, const ir::Node& node) {
  const ir::CallStack& stack = program.provenance.at(node.provenance);
  if (stack.frames.empty()) return "";
  const ir::Frame& frame = *stack.frames.back();
  return frame.file + ":" + std::to_string(frame.line) + ": " + frame.code;
}

bool is_lowered(const ir::Variant& variant) {
  for (const ir::Node& node : variant.graph.forward()) {
    if (!ir::is_call(node) || !node.annotation("kernel")) return false;
    for (const auto& result : node.results())
      if (!result->is_tensor()) return false;
  }
  return true;
}

namespace {

bool calls(const ir::Variant& variant, const std::set<std::string>& code) {
  const auto is_call = [&](const ir::Node& node) {
    const ir::Argument* named = node.annotation("code");
    return named && named->is<std::string>() && code.contains(named->get<std::string>());
  };
  const auto has_call = [&](const ir::Graph& graph) {
    for (const ir::Node& node : graph.forward())
      if (is_call(node)) return true;
    return false;
  };
  return has_call(variant.graph) || std::any_of(variant.subgraphs.begin(), variant.subgraphs.end(),
                                                [&](const auto& body) { return has_call(body.second); });
}

// A package may hold variants for several instruction sets: those that this machine has not are left out.
Result<std::shared_ptr<const kernels::Code>> open_code(const ir::ExportedProgram& program, ir::EntryPoint& entry) {
  auto all = kernels::Code::open(program.code);
  if (all) return all;
  std::vector<ir::CodeSegment> usable;
  std::set<std::string> others;
  for (const ir::CodeSegment& segment : program.code) {
    if (kernels::Code::open({segment}))
      usable.push_back(segment);
    else
      others.insert(segment.name);
  }
  std::erase_if(entry.variants, [&](const ir::Variant& variant) { return calls(variant, others); });
  if (entry.variants.empty()) return all;
  return kernels::Code::open(usable);
}

}  // namespace

Result<std::unique_ptr<Session>> Session::load(ir::ExportedProgram program, const std::string& entry,
                                               LoadOptions options) {
  std::unique_ptr<Session> session(new Session);
  session->program_ = std::move(program);
  session->options_ = std::move(options);
  session->entry_ = std::as_const(session->program_).entry(entry);
  if (!session->entry_ || session->entry_->variants.empty()) {
    std::vector<std::string> names;
    for (const ir::EntryPoint& known : session->program_.entries) names.push_back(known.name);
    Diagnostic diagnostic = error(Status::usage, 607, "the program has no entry point '" + entry + "'");
    for (const std::string& name : names) diagnostic.notes.push_back({"it has '" + name + "'"});
    return diagnostic;
  }
  if (Result<void> connected = session->connect(); !connected) return connected.error();
  if (!session->program_.code.empty() && !session->options_.reference) {
    auto code = open_code(session->program_, *session->program_.entry(entry));
    if (!code) return code.error();
    session->code_ = *code;
  }
  auto libraries = KernelLibraries::open(session->program_.code);
  if (!libraries) return libraries.error();
  session->declared_ = std::move(*libraries);
  if (session->options_.seed) session->seed(*session->options_.seed);
  session->interpreter_ = std::make_unique<Interpreter>(*session);
  return session;
}

Session::Session() = default;
Session::~Session() = default;

// Joins the graph's inputs to state and leaves, and its outputs to leaves. All variants of an entry point share its
// signature.
Result<void> Session::connect() {
  if (Result<void> whole = program::verify_digests(program_); !whole) return whole;
  std::set<std::string> unread;  // their bytes may be absent
  if (!options_.reference && std::all_of(entry_->variants.begin(), entry_->variants.end(), is_lowered))
    unread = program::unread_weights(program_);
  changing_ = ir::written_state(program_);
  for (const ir::InputSpec& spec : entry_->signature.inputs) {
    if (spec.kind == InputKind::user_input) {
      connect_leaf(spec);
      continue;
    }
    if (spec.value.empty()) continue;
    Result<size_t> state = connect_state(spec.target, unread);
    if (!state) return state.error();
    sources_.push_back({true, *state});
  }
  return connect_outputs();
}

void Session::connect_leaf(const ir::InputSpec& spec) {
  const ir::Value* value = spec.value.empty() ? nullptr : entry_->variants[0].graph.find(spec.value);
  if (value) sources_.push_back({false, inputs_.size()});
  inputs_.push_back(
      {spec.target, value ? value->type : kind_of_constant(spec.constant.value_or(ir::None{})), spec.constant});
  for (const ir::Variant& variant : entry_->variants)
    if (const ir::Value* same = value ? variant.graph.find(spec.value) : nullptr)
      widen(inputs_.back().type, same->type, spec.target, *entry_);
}

Result<size_t> Session::connect_state(const std::string& name, const std::set<std::string>& unread) {
  for (size_t i = 0; i < state_.size(); ++i)
    if (state_[i].weight->name == name) return i;
  const ir::Weight* weight = program_.weight(name);
  if (!weight) return error(Status::bad_input, 616, "the program has no weight named '" + name + "'");
  if (!weight->tensor.storage || (weight->tensor.storage->is_absent() && !unread.contains(name)))
    return error(Status::usage, 610, "the bytes of '" + name + "' are not in this program")
        .note("give the program that has them: --segments FILE");
  const bool is_left = weight->layout || weight->tensor.storage->is_absent();
  const bool is_fixed = !changing_.contains(name) && (weight->layout || weight->tensor.is_contiguous());
  state_.push_back({weight, is_fixed ? weight : nullptr, is_left ? weight->tensor : weight->tensor.contiguous()});
  // What changes has memory of its own: the file's bytes stay as they are.
  if (!is_left && changing_.contains(name)) state_.back().tensor = copy_of(state_.back().tensor);
  return state_.size() - 1;
}

Result<void> Session::connect_outputs() {
  const auto& specs = entry_->signature.outputs;
  for (const ir::Variant& variant : entry_->variants)
    if (variant.graph.outputs().size() != specs.size())
      return error(Status::bad_input, 616, "a graph has not as many outputs as the signature");
  targets_.resize(specs.size());
  for (bool mutated : {false, true})  // mutated inputs come after the outputs proper
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (ir::updates_state(specs[i].kind)) {
        if (mutated) continue;
        Result<size_t> state = connect_written(specs[i].target, i);
        if (!state) return state.error();
        targets_[i] = {true, *state};
        writes_state_ = true;
      } else if ((specs[i].kind == OutputKind::user_input_mutation) == mutated) {
        targets_[i] = {false, outputs_.size()};
        add_output(specs[i], i);
      }
    }
  return {};
}

// What is written need not be read.
Result<size_t> Session::connect_written(const std::string& name, size_t output) {
  Result<size_t> state = connect_state(name, {});
  if (!state) return state;
  const auto writes_it = [&](const Port& other) { return other.is_state && other.index == *state; };
  if (std::any_of(targets_.begin(), targets_.end(), writes_it))
    return error(Status::bad_input, 616, "the state '" + name + "' is written twice");
  if (state_[*state].weight->layout)
    return error(Status::bad_input, 616, "the state '" + name + "' is written, and lies in blocks");
  const Tensor& tensor = state_[*state].tensor;
  const std::vector<ir::SymInt> sizes(tensor.sizes.begin(), tensor.sizes.end());
  for (const ir::Variant& variant : entry_->variants) {
    const ir::Value* written = variant.graph.outputs()[output].value();
    if (!written || !written->is_tensor() || written->meta().dtype != tensor.dtype || written->meta().sizes != sizes)
      return error(Status::bad_input, 616, "what is written to the state '" + name + "' has another type");
  }
  return state;
}

void Session::add_output(const ir::OutputSpec& spec, size_t index) {
  const ir::Argument& output = entry_->variants[0].graph.outputs()[index];
  Leaf leaf{spec.target, kind_of_constant(output), std::nullopt};
  // Names are distinct, so that none is lost in a file: {"x": y} and the input x that was written to.
  const auto is_taken = [&] {
    return std::any_of(outputs_.begin(), outputs_.end(), [&](const Leaf& o) { return o.path == leaf.path; });
  };
  while (!leaf.path.empty() && is_taken())
    leaf.path += spec.kind == OutputKind::user_input_mutation ? ".updated" : "_1";
  if (const ir::Value* value = output.value())
    leaf.type = value->type;
  else
    leaf.constant = output;
  for (const ir::Variant& variant : entry_->variants) {
    if (const ir::Value* same = variant.graph.outputs()[index].value()) widen(leaf.type, same->type, "", *entry_);
  }
  outputs_.push_back(std::move(leaf));
}

std::vector<std::pair<std::string, Tensor>> Session::changing_state() const {
  std::vector<std::pair<std::string, Tensor>> changing;
  for (const State& state : state_)
    if (changing_.contains(state.weight->name)) changing.emplace_back(state.weight->name, state.tensor);
  return changing;
}

bool Session::has_state(const std::string& name) const {
  return std::any_of(state_.begin(), state_.end(), [&](const State& state) { return state.weight->name == name; });
}

Result<void> Session::restore(const std::string& name, const Tensor& tensor) {
  for (const auto& [known, state] : changing_state()) {
    if (known != name) continue;
    if (state.dtype != tensor.dtype || state.sizes != tensor.sizes)
      return error(Status::usage, 625,
                   "the state '" + name + "' is " + type_text(state.dtype, state.sizes) +
                       ", and what is put into it is " + type_text(tensor.dtype, tensor.sizes));
    const Tensor rows = tensor.contiguous();
    std::memcpy(Tensor(state).mutable_data(), rows.data(), rows.nbytes());
    return {};
  }
  return error(Status::usage, 625, "the program writes no buffer '" + name + "' that a state could be put into");
}

Result<kernels::CallSite> Session::call_site(const ir::Variant& variant, const ir::Node& node, const ir::Graph& body,
                                             const shape::Bindings& symbols) {
  kernels::CallSite site;
  site.body = &body;
  site.annotations = &node.annotations;
  site.symbols = symbols;
  site.threads = threads();
  site.code = code_.get();
  site.subgraphs = &variant.subgraphs;
  site.declared = declared_.get();
  if (kernels::kernel_of(node) != "reference") return site;
  Result<const opset::Opset*> meanings = opset();
  if (!meanings) return meanings.error();
  site.opset = *meanings;
  site.generator = generator();
  return site;
}

Result<const opset::Opset*> Session::opset() {
  std::lock_guard lock(mutex_);
  if (opset_) return opset_;
  if (!options_.opset)
    return error(Status::unsupported, 615,
                 "this program is not lowered throughout, and no operator set was found to run it by");
  Result<const opset::Opset*> loaded = options_.opset();
  if (!loaded) return loaded;
  if (Result<void> known = opset::check_versions(program_, **loaded); !known) return known.error();
  return opset_ = *loaded;
}

// --- Runs -----------------------------------------------------------------------------------------------------------

Result<std::shared_ptr<Plan>> Session::plan(const std::vector<std::optional<Datum>>& inputs) {
  constexpr size_t most_plans = 64;
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < plans_.size(); ++i) {
      if (!plans_[i]->fits(inputs)) continue;
      std::rotate(plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(i),
                  plans_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return plans_[0];
    }
  }
  shape::Bindings symbols;
  Result<const ir::Variant*> variant = choose(inputs, symbols);
  if (!variant) return variant.error();
  if (options_.reference || !is_lowered(**variant)) return std::shared_ptr<Plan>();
  Result<std::shared_ptr<Plan>> made = Plan::make(*this, **variant, std::move(symbols), inputs);
  if (!made) return made;
  std::lock_guard lock(mutex_);
  plans_.insert(plans_.begin(), *made);
  if (plans_.size() > most_plans) {
    while (contexts_.take([&](const Context& context) { return context.plan == plans_.back(); })) {}
    plans_.pop_back();
  }
  return made;
}

void Session::enter(Context& context) {
  const size_t bytes = context.plan->bytes();
  context.arena = arenas_.take();
  if (context.arena && context.arena->memory->size() >= bytes) return;
  context.arena.reset();  // a larger one takes its place
  context.arena = std::make_unique<Arena>(Storage::allocate(bytes));
}

void Session::leave(std::unique_ptr<Context> context) {
  arenas_.give(std::move(context->arena));
  contexts_.give(std::move(context));
}

void Session::seed(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  const bool is_first = !generator_;
  generator_.emplace(seed);
  if (!is_first) return;  // what was prepared draws from where it lies
  // What was prepared without a generator has none.
  plans_.clear();
  while (contexts_.take()) {}
  interpreter_ = std::make_unique<Interpreter>(*this);
}

Result<std::vector<Datum>> Session::run(const std::vector<std::optional<Datum>>& inputs, const Observer& observer,
                                        std::span<Tensor> into) {
  Result<std::shared_ptr<Plan>> found = plan(inputs);
  if (!found) return found.error();
  std::unique_lock state_lock(running_, std::defer_lock);
  if (writes_state_ || generator_) state_lock.lock();
  // A run that is not done draws nothing: one that fails, and one that ends by an exception of a library.
  struct Draws {
    std::optional<Generator>& generator;
    const std::optional<Generator> before = generator;
    bool count = false;
    ~Draws() {
      if (!count) generator = before;
    }
  } draws{generator_};
  Result<std::vector<Datum>> outputs = run(*found, inputs, observer, into);
  draws.count = static_cast<bool>(outputs);
  return outputs;
}

Result<std::vector<Datum>> Session::run(const std::shared_ptr<Plan>& plan,
                                        const std::vector<std::optional<Datum>>& inputs, const Observer& observer,
                                        std::span<Tensor> into) {
  if (plan) {
    std::unique_ptr<Context> context = contexts_.take([&](const Context& idle) { return idle.plan == plan; });
    if (!context) context = Plan::make_context(plan, *this);
    enter(*context);
    Result<std::vector<Datum>> outputs = plan->run(*context, *this, inputs, observer, into);
    leave(std::move(context));
    return outputs;
  }
  shape::Bindings symbols;
  Result<const ir::Variant*> variant = choose(inputs, symbols);
  if (!variant) return variant.error();
  Result<std::vector<Datum>> results = interpret(**variant, inputs, symbols, observer);
  if (!results) return results;
  Finished finished = finish(std::move(*results));
  std::vector<Tensor> copies;  // nothing is written unless all fit
  for (size_t i = 0; i < into.size() && i < finished.outputs.size(); ++i) {
    copies.push_back(tensor_of(finished.outputs[i]).contiguous());
    if (Result<void> fits = check_room(i, into[i], copies[i].dtype, copies[i].sizes); !fits) return fits.error();
  }
  for (size_t i = 0; i < copies.size(); ++i) std::memcpy(into[i].mutable_data(), copies[i].data(), copies[i].nbytes());
  for (const auto& [i, rows] : finished.written)
    std::memcpy(state_[i].tensor.mutable_data(), rows.data(), rows.nbytes());
  return std::move(finished.outputs);
}

Result<bool> Session::run_again(std::span<const Rows> inputs, std::span<const Rows> outputs) {
  if (generator_) return false;
  std::unique_lock state_lock(running_, std::defer_lock);
  if (writes_state_) state_lock.lock();
  std::unique_ptr<Context> context =
      contexts_.take([&](const Context& idle) { return idle.plan->fits(inputs, outputs); });
  if (!context) return false;
  enter(*context);
  Result<void> ran = context->plan->run(*context, *this, inputs, outputs);
  leave(std::move(context));
  if (!ran) return ran.error();
  return true;
}

Result<void> Session::check_room(size_t output, const Tensor& room, ScalarType dtype,
                                 const std::vector<int64_t>& sizes) const {
  if (room.dtype == dtype && room.sizes == sizes) return {};
  return error(Status::violated, 603,
               "output '" + outputs_[output].path + "' is " + type_text(dtype, sizes) + ", and there is room for " +
                   type_text(room.dtype, room.sizes));
}

Result<std::vector<Datum>> Session::interpret(const ir::Variant& variant,
                                              const std::vector<std::optional<Datum>>& inputs,
                                              const shape::Bindings& symbols, const Observer& observer) {
  std::lock_guard lock(interpreting_);
  return interpreter_->run(variant, inputs, symbols, observer);
}

size_t Session::input_of(const ir::Variant& variant, const ir::Value& input) const {
  const auto& inputs = variant.graph.inputs();
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const auto& other) { return other.get() == &input; });
  assert(found != inputs.end());
  return sources_[static_cast<size_t>(found - inputs.begin())].index;
}

Session::Finished Session::finish(std::vector<Datum> results) const {
  // A result may be what a state was before this run.
  const auto changing = changing_state();
  for (Datum& result : results)
    if (Tensor* tensor = std::get_if<Tensor>(&result))
      for (const auto& [name, state] : changing)
        if (tensor->storage == state.storage) *tensor = copy_of(*tensor);
  Finished finished;
  finished.outputs.resize(outputs_.size());
  for (size_t i = 0; i < targets_.size(); ++i)
    if (targets_[i].is_state)
      finished.written.emplace_back(targets_[i].index, std::get<Tensor>(results[i]).contiguous());
    else
      finished.outputs[targets_[i].index] = std::move(results[i]);
  return finished;
}

Result<std::vector<std::optional<ir::Type>>> Session::infer_outputs(const std::vector<std::optional<Datum>>& inputs) {
  shape::Bindings symbols;
  Result<const ir::Variant*> variant = choose(inputs, symbols);
  if (!variant) return variant.error();
  std::vector<std::optional<ir::Type>> types(outputs_.size());
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (targets_[i].is_state) continue;
    std::optional<ir::Type>& type = types[targets_[i].index];
    const ir::Argument& output = (*variant)->graph.outputs()[i];
    const ir::Value* value = output.value();
    if (!value || !value->is_tensor()) {
      type = value ? value->type : kind_of_constant(output);
      continue;
    }
    ir::TensorMeta meta = value->meta();
    bool known = true;
    for (ir::SymInt& size : meta.sizes) {
      std::optional<int64_t> concrete = shape::evaluate(size, symbols);
      known = known && concrete;
      if (concrete) size = *concrete;
    }
    if (known) type = std::move(meta);
  }
  return types;
}

std::optional<std::vector<int64_t>> Session::input_sizes(size_t leaf, const shape::Bindings& symbols) const {
  const ir::Variant* fitting = nullptr;
  for (const ir::Variant& variant : entry_->variants)
    if (!fitting && check_assumptions(variant.assumptions, symbols)) fitting = &variant;
  if (!fitting) fitting = &entry_->variants.front();  // a run says what it assumes
  for (size_t i = 0; i < sources_.size(); ++i) {
    const ir::Value& input = *fitting->graph.inputs()[i];
    if (!sources_[i].is_state && sources_[i].index == leaf && input.is_tensor())
      return kernels::concrete(input.meta().sizes, symbols);
  }
  return std::nullopt;
}

Result<Memory> Session::memory(const std::vector<std::optional<Datum>>& inputs) {
  Result<std::shared_ptr<Plan>> found = plan(inputs);
  if (!found) return found.error();
  Memory memory = *found ? (*found)->memory() : Memory{};
  std::set<const Storage*> counted;
  for (const State& state : state_)
    if (!state.tensor.storage->is_absent() && counted.insert(state.tensor.storage.get()).second)
      memory.weights += state.tensor.storage->size();
  return memory;
}

Result<Memory> Session::memory(const shape::Bindings& symbols) {
  std::optional<Diagnostic> first;
  for (const ir::Variant& variant : entry_->variants) {
    if (Result<void> holds = check_assumptions(variant.assumptions, symbols); !holds) {
      if (!first) first = holds.error();
      continue;
    }
    // Inputs without bytes: a plan looks at types and numbers alone.
    std::vector<std::optional<Datum>> inputs(inputs_.size());
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].is_state) continue;
      const ir::Type& type = variant.graph.inputs()[i]->type;
      std::optional<Datum>& input = inputs[sources_[i].index];
      if (const ir::TensorMeta* meta = std::get_if<ir::TensorMeta>(&type)) {
        const std::optional<std::vector<int64_t>> sizes = kernels::concrete(meta->sizes, symbols);
        if (!sizes || !is_countable(meta->dtype, *sizes))
          return error(Status::violated, 604, "input '" + inputs_[sources_[i].index].path + "' has no such sizes");
        input = outline(meta->dtype, *sizes);
      } else {
        input = int64_t{0};
        for (const ir::Symbol& symbol : entry_->symbols)
          if (symbol.source == inputs_[sources_[i].index].path) input = symbols.at(symbol.name);
      }
    }
    return memory(inputs);
  }
  return std::move(*first);
}

std::vector<std::string> Session::notes() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> notes;
  for (const auto& plan : plans_) notes.insert(notes.end(), plan->notes().begin(), plan->notes().end());
  std::sort(notes.begin(), notes.end());
  notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  return notes;
}

}  // namespace atenon::run
