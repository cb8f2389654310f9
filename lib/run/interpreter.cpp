// See interpreter.h.
#include "run/interpreter.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <numeric>

#include "ir/call_body.h"
#include "ir/control_flow.h"
#include "kernels/body.h"
#include "reference/run_control_flow.h"
#include "run/leaves.h"
#include "support/parallel.h"
#include "text/text.h"

namespace atenon::run {

namespace {

// A graph of this one node, whose inputs are the node's tensors.
ir::Graph body_of(const ir::Node& node, std::vector<ir::Value*>& operands) {
  ir::Graph body;
  std::map<const ir::Value*, ir::Value*> inputs;
  auto map = [&](ir::Value* value) -> ir::Argument {
    auto [found, added] = inputs.try_emplace(value, nullptr);
    if (added) {
      found->second = body.add_input(value->name, value->type);
      operands.push_back(value);
    }
    return found->second;
  };
  const ir::Node* copy = body.add_copy(node, map);
  std::vector<ir::Argument> outputs;
  for (const auto& result : copy->results()) outputs.push_back(result.get());
  body.set_outputs(std::move(outputs));
  return body;
}

// Axes from slowest to fastest, without gaps.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, const std::vector<int>& order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= std::max<int64_t>(sizes[static_cast<size_t>(order[i])], 1))
    strides[static_cast<size_t>(order[i])] = stride;
  return strides;
}

// A result lies as its kernel wants it, or as the first operand of its size does: what a convolution wrote channels
// last stays so.
std::vector<int64_t> result_strides(const kernels::Kernel* kernel, const ir::Graph& body, const kernels::CallSite& site,
                                    const std::vector<int64_t>& sizes) {
  std::vector<int> order;
  if (kernel) {
    order = kernel->preferred_order(body);
  } else {
    const auto like = std::find_if(site.operands.begin(), site.operands.end(),
                                   [&](const kernels::Operand& operand) { return operand.sizes == sizes; });
    if (like != site.operands.end()) {
      order.resize(sizes.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return like->strides[static_cast<size_t>(a)] > like->strides[static_cast<size_t>(b)];
      });
    }
  }
  return order.size() == sizes.size() ? dense_strides(sizes, order) : contiguous_strides(sizes);
}

// What nodes of a graph can ask for: sizes and numbers of its values and arguments, also of subgraphs that they run.
// What it assumes is no matter of theirs.
std::set<std::string> symbols_read(const ir::Graph& graph, const ir::Variant& variant) {
  std::set<std::string> symbols;
  const auto add = [&](const ir::Value& value) {
    if (!value.is_tensor()) return;
    for (const ir::SymInt& size : value.meta().sizes) symbols.merge(size.symbols());
  };
  for (const auto& input : graph.inputs()) add(*input);
  for (const ir::Node& node : graph.forward()) {
    symbols.merge(ir::symbols_read(node));
    for (const auto& result : node.results()) add(*result);
    if (const std::optional<ir::ControlFlow> flow = ir::control_flow(node))
      for (const std::string& name : flow->bodies)
        if (const auto body = variant.subgraphs.find(name); body != variant.subgraphs.end())
          symbols.merge(symbols_read(body->second, variant));
  }
  return symbols;
}

// Whether a value is what the program says of it.
bool is_of_type(const Tensor* tensor, const ir::Value& value, const shape::Bindings& symbols) {
  if (!tensor || !value.is_tensor()) return !tensor && !value.is_tensor();
  return tensor->dtype == value.meta().dtype && tensor->sizes == kernels::concrete(value.meta().sizes, symbols);
}

shape::Bindings only(const std::set<std::string>& names, const shape::Bindings& all) {
  shape::Bindings some;
  for (const std::string& name : names)
    if (const auto found = all.find(name); found != all.end()) some.insert(*found);
  return some;
}

bool has_call(const ir::Graph& graph) {
  for (const ir::Node& node : graph.forward())
    if (ir::is_call(node)) return true;
  return false;
}

Diagnostic misfit(const ir::Node& node, const std::string& what) {
  return error(Status::bad_input, 618, what + ": " + text::print(node));
}

}  // namespace

// The values and symbols of a graph that is being run.
struct Interpreter::Scope {
  const ir::Variant& variant;
  const ir::Graph& graph;
  reference::Environment environment;
  std::map<const ir::Value*, const State*> states = {};
  bool is_lowered = has_call(graph);

  // A subgraph that runs inside: it sees the symbols, and none of the values.
  Scope inside(const ir::Graph& subgraph) const {
    return {variant, subgraph, {{}, environment.symbols, environment.generator, environment.declared}};
  }

  // A number is a symbol by its name, and a size that is still free is what the data turned out to be.
  void bind(const ir::Value& value, const Datum& datum) {
    if (const Tensor* tensor = std::get_if<Tensor>(&datum)) {
      if (!value.is_tensor()) return;
      const std::vector<ir::SymInt>& sizes = value.meta().sizes;
      for (size_t axis = 0; axis < std::min(sizes.size(), tensor->sizes.size()); ++axis)
        if (const auto symbol = sizes[axis].as_symbol()) environment.symbols.emplace(*symbol, tensor->sizes[axis]);
    } else if (const double* real = std::get_if<double>(&datum)) {
      environment.symbols[value.name] = std::bit_cast<int64_t>(*real);
    } else {
      const bool* truth = std::get_if<bool>(&datum);
      environment.symbols[value.name] = truth ? *truth : std::get<int64_t>(datum);
    }
  }
};

Result<std::vector<Datum>> Interpreter::run(const ir::Variant& variant, const std::vector<std::optional<Datum>>& inputs,
                                            const shape::Bindings& symbols, const Observer& observer) {
  Scope scope{variant, variant.graph, {{}, symbols, session_.generator(), session_.declared_.get()}};
  std::vector<Datum> values;
  for (size_t i = 0; i < session_.sources_.size(); ++i) {
    const Session::Port source = session_.sources_[i];
    if (!source.is_state) {
      values.push_back(*inputs[source.index]);
      if (Tensor* tensor = std::get_if<Tensor>(&values.back())) *tensor = tensor->contiguous();
      continue;
    }
    const State& state = session_.state_[source.index];
    const ir::Value& input = *variant.graph.inputs()[i];
    scope.states[&input] = &state;
    if (state.weight->layout && !unpacked_.contains(&input))
      unpacked_[&input] = is_read_in_rows(variant, input)
                              ? kernels::unpack(*state.weight)
                              : outline(state.weight->tensor.dtype, state.weight->tensor.sizes);
    values.push_back(state.weight->layout ? unpacked_[&input] : state.tensor);
  }
  Result<std::vector<Datum>> results = run_graph(scope, variant.graph, std::move(values), observer);
  std::erase_if(kept_, [&](const Kept& kept) { return kept.last_run != runs_; });
  ++runs_;
  return results;
}

bool Interpreter::is_read_in_rows(const ir::Variant& variant, const ir::Value& input) const {
  if (session_.options_.reference || input.returned > 0) return true;
  const auto is_it = [&](const ir::Argument& argument) { return argument.value() == &input; };
  return std::any_of(input.users.begin(), input.users.end(), [&](const ir::Node* node) {
    const std::string kernel = kernels::kernel_of(*node);
    if (ir::is_call(*node)) return kernel.empty() || kernel == "reference" || kernel == "alias";
    const std::optional<ir::ControlFlow> flow = ir::control_flow(*node);
    if (!flow || is_it(flow->condition) || std::any_of(flow->carried.begin(), flow->carried.end(), is_it) ||
        std::any_of(flow->xs.begin(), flow->xs.end(), is_it))
      return true;
    return std::any_of(flow->bodies.begin(), flow->bodies.end(), [&](const std::string& name) {
      const auto body = variant.subgraphs.find(name);
      if (body == variant.subgraphs.end()) return true;
      for (size_t i = 0; i < flow->operands.size(); ++i) {
        if (!is_it(flow->operands[i])) continue;
        const ir::Value* inner = ir::input_of_operand(*flow, body->second, i);
        if (!inner || is_read_in_rows(variant, *inner)) return true;
      }
      return false;
    });
  });
}

Result<std::vector<Datum>> Interpreter::run_graph(Scope& scope, const ir::Graph& graph, std::vector<Datum> inputs,
                                                  const Observer& observer) {
  std::map<const ir::Value*, Datum>& values = scope.environment.values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].get()] = std::move(inputs[i]);

  for (const auto& [at, last_reads] : walk(graph)) {
    const ir::Node& node = *at;
    Observation seen{node, "reference"};
    const auto start = observer ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    if (Result<void> done = run_node(scope, node, seen, observer); !done) {
      Diagnostic diagnostic = done.error();
      if (ir::is_control_flow(node.target()) && diagnostic.notes.size() > 1)
        return diagnostic;  // the body's node is named
      const std::string place = "in " + text::print(node);
      // Of a call, the operator in its body says more.
      const bool is_said = std::any_of(diagnostic.notes.begin(), diagnostic.notes.end(), [&](const Note& note) {
        return ir::is_call(node) ? note.text.starts_with("in ") : note.text == place;
      });
      if (!is_said) diagnostic.notes.push_back({place});
      if (std::string line = python_line(session_.program_, node); !line.empty())
        diagnostic.notes.push_back({"captured from " + line});
      return diagnostic;
    }
    if (observer) {
      // What control flow hands to its bodies was taken off.
      seen.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::vector<Datum> results;
      for (const auto& result : node.results()) results.push_back(values.at(result.get()));
      seen.results = results;
      if (Result<void> observed = observer(seen); !observed) return observed.error();
    }
    for (const ir::Value* operand : last_reads) values.erase(operand);
  }

  std::vector<Datum> results;
  for (const ir::Argument& output : graph.outputs()) {
    const ir::Value* value = output.value();
    Result<Datum> result = value ? values.at(value) : output_of(output, scope.environment.symbols);
    if (!result) return result.error();
    results.push_back(std::move(*result));
  }
  return results;
}

const Interpreter::Walk& Interpreter::walk(const ir::Graph& graph) {
  if (const auto found = walks_.find(&graph); found != walks_.end()) return found->second;
  Walk walk;
  std::map<const ir::Value*, size_t> last;  // the position of each value's last reader
  for (const ir::Node& node : graph.forward()) {
    for (const ir::Value* operand : node.operands())
      if (!operand->returned) last[operand] = walk.size();
    walk.push_back({&node, {}});
  }
  for (const auto& [value, position] : last) walk[position].second.push_back(value);
  return walks_.emplace(&graph, std::move(walk)).first->second;
}

Result<void> Interpreter::run_node(Scope& scope, const ir::Node& node, Observation& seen, const Observer& observer) {
  if (ir::is_call(node)) {
    const ir::Graph* body = ir::body_of(node, scope.variant);
    if (!body) return error(Status::bad_input, 617, "a call names no subgraph of its variant");
    const std::string kernel = kernels::kernel_of(node);
    if (session_.options_.reference || kernel.empty()) return run_body(scope, node, *body);
    if (kernel != "alias") return run_call(scope, node, *body, seen);
    seen.kernel = "alias";
    return run_alias(scope, node);
  }
  if (ir::is_control_flow(node.target())) {
    seen.kernel = "control flow";
    return run_control_flow(scope, node, seen, observer);
  }
  // Among lowered calls a node that is none is read as lying in rows.
  const auto lay_in_rows = [&] {
    for (const auto& result : node.results())
      if (Tensor* tensor = std::get_if<Tensor>(&scope.environment.values.at(result.get())))
        *tensor = tensor->contiguous();
  };
  if (!session_.options_.reference) {
    Result<bool> done = run_fast(scope, node, seen);
    if (!done) return done.error();
    if (*done && scope.is_lowered) lay_in_rows();
    if (*done) return {};
  }
  Result<const opset::Opset*> opset = session_.opset();
  if (!opset) return opset.error();
  const size_t known = scope.environment.symbols.size();
  if (Result<void> done = reference::evaluate(**opset, node, scope.environment); !done) return done;
  if (scope.is_lowered) lay_in_rows();
  return scope.environment.symbols.size() == known ? Result<void>() : check_assumptions(scope);
}

Result<void> Interpreter::check_assumptions(const Scope& scope) const {
  const shape::Bindings& symbols = scope.environment.symbols;
  if (Result<void> done = session_.check_assumptions(scope.variant.assumptions, symbols); !done) return done;
  return session_.check_assumptions(scope.graph.assumptions, symbols);
}

// What the nodes of bodies took, all rounds together.
class Interpreter::Rounds {
 public:
  Result<void> add(const Observation& seen) {
    const auto [found, is_new] = index_.try_emplace(&seen.node, rounds_.size());
    if (is_new) {
      rounds_.push_back({{seen.node, seen.kernel}, seen.detail ? *seen.detail : ""});
      rounds_.back().first.rounds = 0;
    }
    Observation& sum = rounds_[found->second].first;
    sum.seconds += seen.seconds;
    sum.flops += seen.flops;
    sum.bytes += seen.bytes;
    sum.rounds += seen.rounds;
    return {};
  }

  // Takes it from what the node that runs the bodies has taken.
  Result<void> report(const Observer& observer, Observation& runner) {
    for (auto& [seen, detail] : rounds_) {
      seen.detail = &detail;
      runner.seconds -= seen.seconds;
      if (Result<void> observed = observer(seen); !observed) return observed;
    }
    return {};
  }

 private:
  std::vector<std::pair<Observation, std::string>> rounds_;  // in the order in which they began
  std::map<const ir::Node*, size_t> index_;
};

Result<void> Interpreter::run_control_flow(Scope& scope, const ir::Node& node, Observation& seen,
                                           const Observer& observer) {
  const std::optional<ir::ControlFlow> flow = ir::control_flow(node);
  if (!flow) return error(Status::bad_input, 617, node.target() + " does not have the arguments that it takes");
  const shape::Bindings& symbols = scope.environment.symbols;
  Rounds rounds;
  const Observer of_bodies = [&](const Observation& inside) { return rounds.add(inside); };
  reference::ControlFlowRunner runner;
  runner.value = [&](const ir::Argument& argument) -> Result<Datum> {
    if (const ir::Value* value = argument.value()) {
      Datum given = scope.environment.values.at(value);
      // Lowered bodies read rows: laid so here, once for all rounds.
      if (Tensor* tensor = std::get_if<Tensor>(&given); tensor && scope.is_lowered) *tensor = tensor->contiguous();
      return given;
    }
    if (std::optional<Datum> number = number_of(argument, symbols)) return std::move(*number);
    return error(Status::violated, 632, "the number " + text::print(argument) + " has no value");
  };
  runner.run = [&](const std::string& name, std::vector<Datum> inputs) -> Result<std::vector<Datum>> {
    const auto body = scope.variant.subgraphs.find(name);
    if (body == scope.variant.subgraphs.end() || body->second.inputs().size() != inputs.size())
      return error(Status::bad_input, 617, node.target() + " and its subgraph @" + name + " differ in operands");
    Scope inner = scope.inside(body->second);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (Tensor* tensor = std::get_if<Tensor>(&inputs[i]); tensor && inner.is_lowered) *tensor = tensor->contiguous();
      inner.bind(*body->second.inputs()[i], inputs[i]);
    }
    for (size_t i = 0; i < flow->operands.size(); ++i)
      if (const auto state = scope.states.find(flow->operands[i].value()); state != scope.states.end())
        inner.states[ir::input_of_operand(*flow, body->second, i)] = state->second;
    if (Result<void> holds = check_assumptions(inner); !holds) return holds.error();
    return run_graph(inner, body->second, std::move(inputs), observer ? of_bodies : Observer());
  };
  runner.empty = [&](size_t i) { return reference::empty_result(node, i, symbols); };
  Result<std::vector<Datum>> results = reference::run_control_flow(*flow, runner);
  if (!results) return results.error();
  if (observer)
    if (Result<void> reported = rounds.report(observer, seen); !reported) return reported;
  if (results->size() != node.results().size())
    return error(Status::bad_input, 617, node.target() + " and its subgraphs differ in results");
  const size_t known = symbols.size();
  for (size_t i = 0; i < results->size(); ++i) {
    Datum& result = (*results)[i];
    Tensor* const given = std::get_if<Tensor>(&result);
    // What follows may read it at the strides that are written for it: none.
    if (given) *given = given->contiguous();
    scope.bind(*node.result(i), result);
    if (!is_of_type(given, *node.result(i), symbols))
      return error(Status::bad_input, 617, node.target() + " and its subgraphs differ in results");
    scope.environment.values[node.result(i)] = std::move(result);
  }
  return symbols.size() == known ? Result<void>() : check_assumptions(scope);
}

// A call by its meaning: the body is a graph like any other.
Result<void> Interpreter::run_body(Scope& scope, const ir::Node& node, const ir::Graph& body) {
  std::vector<Datum> inputs;
  for (size_t i = 1; i < node.arguments().size(); ++i)
    if (const ir::Value* value = node.arguments()[i].value()) inputs.push_back(scope.environment.values.at(value));
  if (inputs.size() != body.inputs().size() || body.outputs().size() != node.results().size())
    return error(Status::bad_input, 617, "a call and its body differ in operands or results");
  Scope inner = scope.inside(body);
  if (Result<void> holds = check_assumptions(inner); !holds) return holds.error();
  Result<std::vector<Datum>> results = run_graph(inner, body, std::move(inputs), {});
  if (!results) return results.error();
  for (size_t i = 0; i < results->size(); ++i) scope.environment.values[node.result(i)] = std::move((*results)[i]);
  return {};
}

Result<void> Interpreter::run_alias(Scope& scope, const ir::Node& node) {
  const std::vector<ir::Value*> operands = node.operands();
  const Tensor* whole = operands.empty() ? nullptr : std::get_if<Tensor>(&scope.environment.values.at(operands[0]));
  std::optional<Tensor> view = whole && node.results().size() == 1 && node.result()->is_tensor()
                                   ? geometry_of(node, 0, scope.environment.symbols)
                                   : std::nullopt;
  if (!view) return misfit(node, "an alias does not say what it views");
  const std::optional<int64_t> elements = offset_of_alias(node, *whole, *view, scope.environment.symbols);
  if (!elements) return misfit(node, "an alias reaches beyond its operand");
  const auto from = static_cast<int64_t>(size_of(whole->dtype)), to = static_cast<int64_t>(size_of(view->dtype));
  view->offset = whole->offset * from / to + *elements;
  view->storage = whole->storage;
  scope.environment.values[node.result()] = std::move(*view);
  return {};
}

Interpreter::Given Interpreter::given(const Scope& scope, const ir::Value* operand) {
  const Tensor* tensor = std::get_if<Tensor>(&scope.environment.values.at(operand));
  if (!tensor) return {};
  auto state = scope.states.find(operand);
  const ir::Weight* weight = state == scope.states.end() ? nullptr : state->second->fixed;
  const Tensor& used = weight ? state->second->tensor : *tensor;
  return {tensor, weight, const_cast<void*>(used.data())};
}

Result<void> Interpreter::describe_operands(Scope& scope, const ir::Node& node, Prepared& prepared,
                                            kernels::CallSite& site) {
  prepared.call.reset();  // it is for others
  prepared.given.clear();
  prepared.needs_rows.assign(prepared.operands.size(), false);
  for (const ir::Value* operand : prepared.operands) {
    const Given found = given(scope, operand);
    if (!found.tensor || !is_of_type(found.tensor, *operand, scope.environment.symbols))
      return misfit(node, "'" + operand->name + "' is not of the type that the program says");
    prepared.given.push_back({found.tensor->dtype, found.tensor->sizes, found.tensor->strides, found.weight});
  }
  site.operands = prepared.given;
  return {};
}

Result<void> Interpreter::prepare(Prepared& prepared, const ir::Node& node, kernels::CallSite site) {
  if (!prepared.kernel) {
    Result<const opset::Opset*> opset = session_.opset();
    if (!opset) return opset.error();
    site.opset = *opset;
  }
  Result<std::unique_ptr<kernels::PreparedCall>> call =
      prepared.kernel ? kernels::prepare(*prepared.kernel, site) : kernels::prepare_loops(site);
  if (!call) return call.error();
  Result<std::vector<Indices>> indices = indices_of(session_.program_, node, site);
  if (!indices) return indices.error();
  prepared.call = std::move(*call);
  prepared.indices = std::move(*indices);
  prepared.site = std::move(site);
  return {};
}

bool Interpreter::is_prepared(const Scope& scope, const Prepared& prepared) {
  if (!prepared.call || prepared.site.threads != threads()) return false;
  for (const auto& [name, value] : prepared.site.symbols) {
    const auto now = scope.environment.symbols.find(name);
    if (now == scope.environment.symbols.end() || now->second != value) return false;
  }
  for (size_t i = 0; i < prepared.operands.size(); ++i) {
    const Given found = given(scope, prepared.operands[i]);
    const kernels::Operand& known = prepared.given[i];
    if (!found.tensor || found.tensor->dtype != known.dtype || found.tensor->sizes != known.sizes ||
        found.tensor->strides != known.strides || found.weight != known.weight)
      return false;
  }
  return true;
}

Result<void> Interpreter::execute(Scope& scope, const ir::Node& node, const Prepared& prepared, Observation& seen) {
  std::vector<void*> buffers;
  std::vector<Tensor> rows;  // operands that were made so
  for (size_t i = 0; i < prepared.operands.size(); ++i) {
    const Given found = given(scope, prepared.operands[i]);
    buffers.push_back(found.data);
    if (!prepared.needs_rows[i]) continue;
    rows.push_back(found.tensor->contiguous());
    buffers.back() = rows.back().mutable_data();
  }
  if (Result<void> inside = check_indices(prepared.indices, buffers); !inside) return inside;
  std::vector<std::shared_ptr<Storage>> storages;
  for (const kernels::Operand& result : prepared.site.results) {
    storages.push_back(allocate(static_cast<size_t>(*extent(result.sizes, result.strides, result.dtype))));
    buffers.push_back(storages.back()->mutable_data());
  }
  const size_t bytes = prepared.call->scratch_bytes();
  const std::shared_ptr<Storage> scratch = bytes > 0 ? allocate(bytes) : nullptr;
  if (Result<void> done = prepared.call->run(buffers, scratch ? scratch->mutable_data() : nullptr); !done) return done;
  for (size_t i = 0; i < storages.size(); ++i) {
    const kernels::Operand& result = prepared.site.results[i];
    scope.environment.values[node.result(i)] =
        Tensor{result.dtype, result.sizes, result.strides, 0, std::move(storages[i])};
  }
  if (prepared.kernel) seen.kernel = prepared.kernel->name();
  seen.flops = prepared.call->flops;
  seen.bytes = prepared.call->bytes;
  seen.detail = &prepared.call->detail;
  return {};
}

Result<void> Interpreter::run_call(Scope& scope, const ir::Node& node, const ir::Graph& body, Observation& seen) {
  auto found = prepared_.find(&node);
  if (found == prepared_.end()) {
    Prepared made;
    made.kernel = kernels::find(kernels::kernel_of(node));
    made.operands = node.operands();
    made.symbols = symbols_read(body, scope.variant);
    for (const ir::Named& annotation : node.annotations) made.symbols.merge(ir::symbols_of(annotation.argument));
    for (const auto& result : node.results())
      for (size_t axis = 0; result->is_tensor() && axis < result->meta().sizes.size(); ++axis)
        made.symbols.merge(result->meta().sizes[axis].symbols());
    found = prepared_.emplace(&node, std::move(made)).first;
  }
  Prepared& prepared = found->second;
  if (!prepared.kernel)
    return error(Status::unsupported, 619,
                 "this version has no kernel '" + kernels::kernel_of(node) + "', which the program asks for");
  if (!is_prepared(scope, prepared))
    if (Result<void> ready = prepare_call(scope, node, body, prepared); !ready) return ready;
  return execute(scope, node, prepared, seen);
}

Result<void> Interpreter::prepare_call(Scope& scope, const ir::Node& node, const ir::Graph& body, Prepared& prepared) {
  Result<kernels::CallSite> started =
      session_.call_site(scope.variant, node, body, only(prepared.symbols, scope.environment.symbols));
  if (!started) return started.error();
  kernels::CallSite site = std::move(*started);
  if (Result<void> described = describe_operands(scope, node, prepared, site); !described) return described;
  if (Result<void> checked = check_call(*prepared.kernel, site, node); !checked) return checked;
  for (size_t i = 0; i < node.results().size(); ++i) {
    const std::optional<Tensor> result =
        node.result(i)->is_tensor() ? geometry_of(node, i, site.symbols) : std::nullopt;
    if (!result || !extent(result->sizes, result->strides, result->dtype))
      return misfit(node, "a size of a lowered call does not follow from the inputs");
    site.results.push_back({result->dtype, result->sizes, result->strides});
  }
  return prepare(prepared, node, std::move(site));
}

std::shared_ptr<Storage> Interpreter::allocate(size_t bytes) {
  for (Kept& kept : kept_) {
    if (kept.storage.use_count() != 1 || kept.storage->size() < bytes || kept.storage->size() / 2 > bytes) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // after what its last holder did, on whichever thread
    kept.last_run = runs_;
    return kept.storage;
  }
  // What nobody holds and is too small would pile up where sizes grow.
  std::erase_if(kept_, [&](const Kept& kept) { return kept.storage.use_count() == 1 && kept.storage->size() < bytes; });
  return kept_.emplace_back(Storage::allocate(bytes), runs_).storage;
}

Result<bool> Interpreter::run_fast(Scope& scope, const ir::Node& node, Observation& seen) {
  auto found = prepared_.find(&node);
  if (found == prepared_.end()) {
    Prepared made;
    made.body = body_of(node, made.operands);
    made.symbols = symbols_read(made.body, scope.variant);
    bool tensors = !node.results().empty();
    for (const ir::Value* operand : made.operands) tensors = tensors && operand->is_tensor();
    for (const auto& result : node.results()) tensors = tensors && result->is_tensor();
    made.by_evaluation = !tensors;
    for (const kernels::Kernel* kernel : kernels::all()) {
      if (!tensors || std::string(kernel->name()) == "reference") break;
      if (!kernels::objection(*kernel, made.body).empty()) continue;
      made.kernel = kernel;
      break;
    }
    found = prepared_.emplace(&node, std::move(made)).first;
  }
  Prepared& prepared = found->second;
  if (prepared.by_evaluation) return false;
  if (!is_prepared(scope, prepared)) {
    Result<bool> ready = prepare_fast(scope, node, prepared);
    if (!ready || !*ready) return ready;
  }

  if (Result<void> done = execute(scope, node, prepared, seen); !done) return done.error();
  return true;
}

// Libraries read strides, but no overlapping ones, and want one axis to be dense.
static bool is_strided_only(const kernels::Operand& operand) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride and size
  for (size_t axis = 0; axis < operand.sizes.size(); ++axis)
    if (operand.sizes[axis] != 1) axes.emplace_back(operand.strides[axis], operand.sizes[axis]);
  std::ranges::sort(axes);
  int64_t end = 1;  // of what the axes so far reach over
  for (const auto& [stride, size] : axes) {
    if (stride < end) return false;
    end = stride * size;
  }
  return axes.empty() || axes[0].first == 1;
}

Result<bool> Interpreter::prepare_fast(Scope& scope, const ir::Node& node, Prepared& prepared) {
  kernels::CallSite site;
  site.body = &prepared.body;
  site.symbols = only(prepared.symbols, scope.environment.symbols);
  site.threads = threads();
  for (const ir::Value* operand : prepared.operands)
    if (!kernels::concrete(operand->meta().sizes, site.symbols)) return false;  // a size that nobody names
  if (Result<void> described = describe_operands(scope, node, prepared, site); !described) return described.error();
  for (size_t i = 0; prepared.kernel && i < site.operands.size(); ++i) {
    kernels::Operand& operand = site.operands[i];
    if (operand.sizes.empty() || operand.weight) continue;
    const bool is_plain = operand.strides == contiguous_strides(operand.sizes);
    const bool is_row = operand.strides.back() == 1 || !prepared.kernel->reads_rows(prepared.body, i);
    if (is_plain || (is_row && !prepared.kernel->needs_rows() && is_strided_only(operand))) continue;
    prepared.needs_rows[i] = true;
    operand.strides = contiguous_strides(operand.sizes);
  }
  for (const auto& result : node.results()) {
    std::optional<std::vector<int64_t>> sizes = kernels::concrete(result->meta().sizes, site.symbols);
    if (!sizes) return false;
    std::vector<int64_t> strides = result_strides(prepared.kernel, prepared.body, site, *sizes);
    if (!extent(*sizes, strides, result->meta().dtype)) return false;
    site.results.push_back({result->meta().dtype, std::move(*sizes), std::move(strides)});
  }
  Result<void> ready = prepare(prepared, node, std::move(site));
  if (!ready && prepared.kernel) {  // the meaning does what the library cannot
    prepared.kernel = nullptr;
    return prepare_fast(scope, node, prepared);
  }
  prepared.by_evaluation = !ready;
  return static_cast<bool>(ready);
}

}  // namespace atenon::run
