// See interpreter.h.
#include "run/interpreter.h"

#include <cassert>
#include <chrono>

#include "kernels/body.h"
#include "support/parallel.h"
#include "text/text.h"

namespace atenon::run {

namespace {

std::string kernel_of(const ir::Node& node) {
  const ir::Argument* kernel = node.annotation("kernel");
  return kernel && kernel->is<std::string>() ? kernel->get<std::string>() : "";
}

// A graph of this one node, whose inputs are the node's tensors.
ir::Graph body_of(const ir::Node& node, std::vector<const ir::Value*>& operands) {
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
  std::vector<ir::Argument> arguments;
  for (const ir::Argument& argument : node.arguments()) arguments.push_back(ir::map_values(argument, map));
  std::vector<ir::Named> keywords;
  for (const ir::Named& keyword : node.keywords())
    keywords.push_back({keyword.name, ir::map_values(keyword.argument, map)});
  std::vector<ir::Graph::Result> results;
  for (const auto& result : node.results()) results.push_back({result->name, result->type});
  ir::Node* copy = body.add(node.target(), std::move(arguments), std::move(keywords), std::move(results));
  std::vector<ir::Argument> outputs;
  for (const auto& result : copy->results()) outputs.push_back(result.get());
  body.set_outputs(std::move(outputs));
  return body;
}

bool same(const std::vector<kernels::Operand>& a, const std::vector<kernels::Operand>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].sizes != b[i].sizes || a[i].strides != b[i].strides || a[i].weight != b[i].weight) return false;
  return a.size() == b.size();
}

}  // namespace

// The values and symbols of a graph that is being run.
struct Interpreter::Scope {
  const ir::Variant& variant;
  shape::Facts facts;
  reference::Environment environment;
  std::map<const ir::Value*, const State*> states = {};
};

Result<std::vector<Datum>> Interpreter::run(const ir::Variant& variant, const std::vector<std::optional<Datum>>& inputs,
                                            const shape::Bindings& symbols, const Observer& observer) {
  Scope scope{variant, session_.entry_->facts(variant), {{}, symbols}};
  std::vector<Datum> values;
  for (size_t i = 0; i < session_.sources_.size(); ++i) {
    const Session::Source source = session_.sources_[i];
    if (!source.is_state) {
      values.push_back(*inputs[source.index]);
      continue;
    }
    const State& state = session_.state_[source.index];
    scope.states[variant.graph.inputs()[i].get()] = &state;
    if (state.weight->layout && !unpacked_.contains(&state)) unpacked_[&state] = kernels::unpack(*state.weight);
    values.push_back(state.weight->layout ? unpacked_[&state] : state.tensor);
  }
  return run_graph(scope, variant.graph, std::move(values), observer);
}

Result<std::vector<Datum>> Interpreter::run_graph(Scope& scope, const ir::Graph& graph, std::vector<Datum> inputs,
                                                  const Observer& observer) {
  std::map<const ir::Value*, Datum>& values = scope.environment.values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].get()] = std::move(inputs[i]);
  std::map<const ir::Value*, size_t> readers;  // that are still to come
  for (const ir::Node& node : graph.forward())
    for (const ir::Value* operand : node.operands()) ++readers[operand];

  for (const ir::Node& node : graph.forward()) {
    Observation seen{node, "reference"};
    const auto start = std::chrono::steady_clock::now();
    if (Result<void> done = run_node(scope, node, seen); !done) {
      Diagnostic diagnostic = done.error();
      diagnostic.notes.push_back({"in " + text::print(node)});
      if (std::string line = python_line(session_.program_, node); !line.empty())
        diagnostic.notes.push_back({"captured from " + line});
      return diagnostic;
    }
    if (observer) {
      seen.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::vector<Datum> results;
      for (const auto& result : node.results()) results.push_back(values.at(result.get()));
      seen.results = results;
      if (Result<void> observed = observer(seen); !observed) return observed.error();
    }
    for (const ir::Value* operand : node.operands())
      if (--readers[operand] == 0 && !operand->returned) values.erase(operand);
  }

  std::vector<Datum> results;
  for (const ir::Argument& output : graph.outputs()) {
    if (const ir::Value* value = output.value()) {
      results.push_back(values.at(value));
    } else if (output.is<ir::SymInt>()) {
      results.push_back(shape::evaluate(output.get<ir::SymInt>(), scope.environment.symbols).value_or(0));
    } else if (output.is<ir::SymBool>()) {
      results.push_back(shape::evaluate(output.get<ir::SymBool>(), scope.environment.symbols).value_or(false));
    } else {
      results.push_back(kernels::number_of(output, scope.environment.symbols).value_or(0.0));
    }
  }
  return results;
}

Result<void> Interpreter::run_node(Scope& scope, const ir::Node& node, Observation& seen) {
  if (node.target() == "atenon::call") {
    if (kernel_of(node) == "alias") {
      seen.kernel = "alias";
      return run_alias(scope, node);
    }
    const ir::SubgraphRef* body = node.arguments().empty() || !node.arguments()[0].is<ir::SubgraphRef>()
                                      ? nullptr
                                      : &node.arguments()[0].get<ir::SubgraphRef>();
    auto found = body ? scope.variant.subgraphs.find(body->name) : scope.variant.subgraphs.end();
    if (found == scope.variant.subgraphs.end())
      return error(Status::bad_input, 617, "a call names no subgraph of its variant");
    return run_body(scope, node, found->second);
  }
  if (!session_.options_.reference) {
    Result<bool> done = run_fast(scope, node, seen);
    if (!done) return done.error();
    if (*done) return {};
  }
  Result<const opset::Opset*> opset = session_.opset();
  if (!opset) return opset.error();
  return reference::evaluate(**opset, node, scope.facts, scope.environment);
}

// A call by its meaning: the body is a graph like any other.
Result<void> Interpreter::run_body(Scope& scope, const ir::Node& node, const ir::Graph& body) {
  std::vector<Datum> inputs;
  for (size_t i = 1; i < node.arguments().size(); ++i)
    if (const ir::Value* value = node.arguments()[i].value()) inputs.push_back(scope.environment.values.at(value));
  if (inputs.size() != body.inputs().size() || body.outputs().size() != node.results().size())
    return error(Status::bad_input, 617, "a call and its body differ in operands or results");
  Scope inner{scope.variant, scope.facts, {{}, scope.environment.symbols}};
  Result<std::vector<Datum>> results = run_graph(inner, body, std::move(inputs), {});
  if (!results) return results.error();
  for (size_t i = 0; i < results->size(); ++i) scope.environment.values[node.result(i)] = std::move((*results)[i]);
  return {};
}

Result<void> Interpreter::run_alias(Scope& scope, const ir::Node& node) {
  // By its body, so that the strides which lower wrote are held to the meaning.
  auto body = scope.variant.subgraphs.find(node.arguments()[0].get<ir::SubgraphRef>().name);
  if (body == scope.variant.subgraphs.end())
    return error(Status::bad_input, 617, "a call names no subgraph of its variant");
  return run_body(scope, node, body->second);
}

Result<bool> Interpreter::run_fast(Scope& scope, const ir::Node& node, Observation& seen) {
  auto [entry, is_new] = prepared_.try_emplace(&node);
  Prepared& prepared = entry->second;
  if (is_new) {
    prepared.body = body_of(node, prepared.operands);
    bool tensors = !node.results().empty();
    for (const ir::Value* operand : prepared.operands) tensors = tensors && operand->is_tensor();
    for (const auto& result : node.results()) tensors = tensors && result->is_tensor();
    for (const kernels::Kernel* kernel : kernels::all()) {
      if (!tensors || std::string(kernel->name()) == "reference") break;
      if (!kernel->refusal(prepared.body).empty()) continue;
      prepared.kernel = kernel;
      break;
    }
  }
  if (!prepared.kernel) return false;

  kernels::CallSite site;
  site.body = &prepared.body;
  site.symbols = scope.environment.symbols;
  site.threads = threads();
  std::vector<void*> buffers;
  std::vector<Tensor> kept;
  for (const ir::Value* operand : prepared.operands) {
    const Datum& datum = scope.environment.values.at(operand);
    const Tensor* tensor = std::get_if<Tensor>(&datum);
    if (!tensor) return false;
    auto state = scope.states.find(operand);
    const ir::Weight* weight = state == scope.states.end() ? nullptr : state->second->weight;
    const Tensor& used = weight ? state->second->tensor : *tensor;
    // A weight that lies oddly was made row-major; kernels read the row-major copy as an ordinary operand.
    if (weight && !weight->layout && !weight->tensor.is_contiguous()) weight = nullptr;
    site.operands.push_back({tensor->dtype, tensor->sizes, tensor->strides, weight});
    buffers.push_back(const_cast<void*>(used.data()));
  }
  for (const auto& result : node.results()) {
    std::optional<std::vector<int64_t>> sizes = kernels::concrete(result->meta().sizes, site.symbols);
    if (!sizes) return false;
    kept.push_back(Tensor::empty(result->meta().dtype, *sizes));
    site.results.push_back({kept.back().dtype, kept.back().sizes, kept.back().strides});
    buffers.push_back(kept.back().mutable_data());
  }
  if (!prepared.call || !same(prepared.sites, site.operands)) {
    Result<std::unique_ptr<kernels::PreparedCall>> call = prepared.kernel->prepare(site);
    if (!call) {
      prepared.kernel = nullptr;  // the meaning does what the library cannot
      return false;
    }
    prepared.call = std::move(*call);
    prepared.sites = site.operands;
  }
  std::shared_ptr<Storage> scratch = Storage::allocate(prepared.call->scratch_bytes());
  if (Result<void> ran = prepared.call->run(buffers, scratch->mutable_data()); !ran) return ran.error();
  for (size_t i = 0; i < kept.size(); ++i) scope.environment.values[node.result(i)] = std::move(kept[i]);
  seen.kernel = prepared.kernel->name();
  seen.flops = prepared.call->flops;
  seen.bytes = prepared.call->bytes;
  seen.detail = &prepared.call->detail;
  return true;
}

}  // namespace atenon::run
