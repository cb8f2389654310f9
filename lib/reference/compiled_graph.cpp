#include "reference/compiled_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "opset/call.h"
#include "reference/complex_parts.h"
#include "reference/inline_producers.h"
#include "support/parallel.h"

namespace atenon::reference {

using ir::Argument;
using ir::Value;
using opset::Meaning;
using opset::ScalarOp;

namespace {

using Meanings = std::map<const ir::Node*, Meaning>;

constexpr size_t most_nodes = 200;  // of a decomposition: one that unrolls a loop is evaluated instead

Diagnostic refuse(const std::string& why) { return error(Status::unsupported, 0, why); }

// The graph again, over operands of these sizes and without symbols, decomposed down to meanings.
class Flattened {
 public:
  Flattened(const opset::Opset& opset, const shape::Bindings& symbols) : opset_(opset), symbols_(symbols) {}

  Result<void> build(const ir::Graph& from, const std::vector<Tensor>& operands) {
    for (size_t i = 0; i < operands.size(); ++i) {
      ir::TensorMeta meta{operands[i].dtype, {operands[i].sizes.begin(), operands[i].sizes.end()}};
      values_[from.inputs()[i].get()] = graph.add_input("a" + std::to_string(i), std::move(meta));
    }
    for (const ir::Node& node : from.forward()) {
      std::vector<Argument> arguments;
      for (const Argument& argument : node.arguments()) {
        Result<Argument> known = concrete(argument);
        if (!known) return known.error();
        arguments.push_back(std::move(*known));
      }
      std::vector<ir::Named> keywords;
      for (const ir::Named& keyword : node.keywords()) {
        Result<Argument> known = concrete(keyword.argument);
        if (!known) return known.error();
        keywords.push_back({keyword.name, std::move(*known)});
      }
      auto copy = opset::append(opset_, graph, node.target(), std::move(arguments), std::move(keywords), {}, 0);
      if (!copy) return copy.error();
      for (size_t i = 0; i < node.results().size() && i < (*copy)->results().size(); ++i)
        values_[node.result(i)] = (*copy)->result(i);
    }
    std::vector<Argument> outputs;
    for (const Argument& output : from.outputs()) {
      Value* value = output.value() ? values_[output.value()] : nullptr;
      if (!value || !value->is_tensor()) return refuse("an output is no tensor");
      outputs.push_back(value);
    }
    graph.set_outputs(std::move(outputs));
    return decompose();
  }

  ir::Graph graph;
  Meanings meanings;

 private:
  Result<Argument> concrete(const Argument& argument) {
    if (argument.is<ir::SymInt>()) {
      const auto value = shape::evaluate(argument.get<ir::SymInt>(), symbols_);
      return value ? Result<Argument>(Argument(*value)) : refuse("a size has no value");
    }
    if (argument.is<ir::SymFloat>()) {
      const auto value = shape::evaluate(argument.get<ir::SymFloat>(), symbols_);
      return value ? Result<Argument>(Argument(*value)) : refuse("a number has no value");
    }
    if (argument.is<ir::SymBool>()) {
      const auto value = shape::evaluate(argument.get<ir::SymBool>(), symbols_);
      return value ? Result<Argument>(Argument(*value)) : refuse("a truth has no value");
    }
    if (argument.is<ir::SubgraphRef>()) return refuse("a subgraph is called");
    if (argument.is<ir::ArgumentList>()) {
      ir::ArgumentList list;
      for (const Argument& item : argument.get<ir::ArgumentList>()) {
        Result<Argument> value = concrete(item);
        if (!value) return value;
        list.push_back(std::move(*value));
      }
      return Argument(std::move(list));
    }
    if (!argument.value()) return argument;
    const auto found = values_.find(argument.value());
    return found == values_.end() ? Result<Argument>(refuse("a value is not there")) : Argument(found->second);
  }

  Result<void> decompose() {
    for (bool changed = true; changed;) {
      changed = false;
      if (graph.size() > most_nodes) return refuse("it is decomposed into too many nodes");
      for (ir::Node& node : graph.forward()) {
        Result<opset::Call> call = opset::bind(opset_, node);
        if (!call) return call.error();
        Result<opset::MeaningKind> kind = opset::meaning_kind(opset_, *call, {});
        if (!kind) return kind.error();
        if (call->op->derivation() != opset::Derivation::none) return refuse("it writes to its operand, or copies");
        if (*kind != opset::MeaningKind::decomposition) continue;
        Result<opset::Expansion> expansion = opset::expand(opset_, *call, {}, graph, &node, 0);
        if (!expansion) return expansion.error();
        if (!expansion->unbacked.empty()) return refuse("its sizes depend on data");
        graph.replace(node, expansion->results);
        changed = true;
      }
    }
    for (const ir::Node& node : graph.forward()) {
      Result<opset::Call> call = opset::bind(opset_, node);
      if (!call) return call.error();
      Result<Meaning> meaning = opset::meaning(opset_, *call, {});
      if (!meaning) return meaning.error();
      if (!meaning->extern_kernel.empty() || meaning->scatter || has_complex(*meaning))
        return refuse(node.target() + " has no loops, scatters or is complex");
      meanings[&node] = std::move(*meaning);
    }
    return {};
  }

  const opset::Opset& opset_;
  const shape::Bindings& symbols_;
  std::map<const Value*, Value*> values_;
};

bool is_function(ScalarOp op) {
  return op == ScalarOp::pow ||
         (op >= ScalarOp::exp && op <= ScalarOp::digamma && op != ScalarOp::sqrt && op != ScalarOp::rsqrt) ||
         op == ScalarOp::sigmoid || op == ScalarOp::atan2;
}

// Whether the meaning computes more than a few arithmetic operations an element.
bool is_costly(const Meaning& meaning) {
  return std::any_of(meaning.scalars.begin(), meaning.scalars.end(),
                     [](const opset::Scalar& scalar) { return is_function(scalar.op); });
}

std::vector<int64_t> sizes_of(const Value& value) {
  std::vector<int64_t> sizes;
  for (const ir::SymInt& size : value.meta().sizes) sizes.push_back(size.constant().value_or(0));
  return sizes;
}

int64_t count(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t n : sizes) product *= n;
  return product;
}

using Outputs = std::map<const Value*, size_t>;  // what is returned, and as which output

// Producers go into their readers, in order, so that a producer has its own producers inside. What is read twice is
// worth the memory, unless it only moves elements; so is what costs much and would be computed again for each element
// that it is broadcast to. An output has to be in memory whatever else reads it.
void fuse(const ir::Graph& graph, const Outputs& outputs, Meanings& meanings) {
  std::map<const Value*, int> reads;
  for (const auto& [node, meaning] : meanings)
    for (const opset::Scalar& scalar : meaning.scalars)
      if (scalar.op == ScalarOp::read) ++reads[meaning.tensors[static_cast<size_t>(scalar.tensor)]];
  for (const ir::Node& node : graph.forward()) {
    const int64_t numel = node.results().empty() ? 0 : count(sizes_of(*node.result(0)));
    const bool reduces = !meanings.at(&node).reductions.empty();
    meanings[&node] = inline_producers(meanings.at(&node), [&](const Value* value) -> Producer {
      if (!value->producer || outputs.contains(value)) return {};
      const Meaning& producer = meanings.at(value->producer);
      if (!producer.reductions.empty()) return {};
      const bool is_move = producer.scalars.empty() || producer.is_view || producer.tensors.empty();
      if (!is_move && reads[value] > 1) return {};
      if (!reduces && is_costly(producer) && count(sizes_of(*value)) < numel) return {};
      return {&producer, value->index};
    });
  }
}

// The values that have to be computed: outputs, and what is still read for them.
std::set<const Value*> find_wanted(ir::Graph& graph, const Outputs& outputs, const Meanings& meanings) {
  std::set<const Value*> wanted;
  for (const auto& [value, position] : outputs) wanted.insert(value);
  for (const ir::Node& node : graph.backward()) {
    const bool is_read = std::any_of(node.results().begin(), node.results().end(),
                                     [&](const auto& result) { return wanted.contains(result.get()); });
    if (is_read) wanted.insert(meanings.at(&node).tensors.begin(), meanings.at(&node).tensors.end());
  }
  return wanted;
}

}  // namespace

Result<std::unique_ptr<CompiledGraph>> CompiledGraph::compile(const opset::Opset& opset, const ir::Graph& source,
                                                              const std::vector<Tensor>& operands,
                                                              const std::vector<Lying>& results,
                                                              const shape::Bindings& symbols) {
  Flattened flat(opset, symbols);
  if (Result<void> built = flat.build(source, operands); !built) return built.error();
  Meanings& meanings = flat.meanings;
  Outputs outputs;
  for (size_t i = 0; i < flat.graph.outputs().size(); ++i) {
    const Value* value = flat.graph.outputs()[i].value();
    if (!value->producer || meanings.at(value->producer).is_view || !outputs.emplace(value, i).second)
      return refuse("an output is an input, a view, or another output");
  }
  fuse(flat.graph, outputs, meanings);
  const std::set<const Value*> wanted = find_wanted(flat.graph, outputs, meanings);

  auto made = std::make_unique<CompiledGraph>();
  std::map<const Value*, Place> places;
  std::map<const Value*, Tensor> lying;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value* input = flat.graph.inputs()[i].get();
    places[input] = {false, i};
    lying[input] = operands[i];
  }
  for (const ir::Node& node : flat.graph.forward()) {
    const Meaning& meaning = meanings.at(&node);
    std::vector<std::optional<Lying>> where(meaning.results.size());
    for (size_t i = 0; i < where.size(); ++i) {
      const Value* value = node.result(i);
      if (!wanted.contains(value)) continue;
      const std::vector<int64_t> sizes = sizes_of(*value);
      if (const auto output = outputs.find(value); output != outputs.end()) {
        if (results[output->second].sizes != sizes) return refuse("an output has another size than is written");
        where[i] = results[output->second];
        places[value] = {false, operands.size() + output->second};
      } else {
        where[i] = Lying{sizes, contiguous_strides(sizes)};
        places[value] = {true, made->scratch_bytes_};
        made->scratch_bytes_ += in_lines(static_cast<size_t>(count(sizes)) * size_of(value->meta().dtype));
      }
      lying[value] = Tensor{value->meta().dtype, where[i]->sizes, where[i]->strides, 0, nullptr};
    }
    std::vector<Tensor> read;
    for (const Value* tensor : meaning.tensors) read.push_back(lying.contains(tensor) ? lying.at(tensor) : Tensor{});
    auto programs = compile_loops(meaning, read, where, {});
    if (!programs) return programs.error();
    for (LoopProgram& program : *programs) {
      auto pass = std::make_unique<Pass>(std::move(program));
      for (size_t i = 0; i < read.size(); ++i) {
        pass->operands.push_back(places[meaning.tensors[i]]);
        pass->operand_types.push_back(read[i].dtype);
      }
      for (size_t i = 0; i < where.size(); ++i) {
        pass->results.push_back(places[node.result(i)]);
        pass->result_types.push_back(node.result(i)->meta().dtype);
      }
      made->passes_.push_back(std::move(pass));
    }
  }
  return made;
}

Result<void> CompiledGraph::run(std::span<void* const> buffers, void* scratch) const {
  for (const auto& pass : passes_) {
    std::unique_ptr<LoopData> data = pass->data.take();
    if (!data) {
      data = std::make_unique<LoopData>();
      data->operands.resize(pass->operands.size());
      data->results.resize(pass->results.size());
      data->operand_types = pass->operand_types;
      data->result_types = pass->result_types;
    }
    const auto find = [&](Place place) {
      return place.is_scratch ? static_cast<std::byte*>(scratch) + place.at
                              : static_cast<std::byte*>(buffers[place.at]);
    };
    for (size_t i = 0; i < pass->operands.size(); ++i) data->operands[i] = find(pass->operands[i]);
    for (size_t i = 0; i < pass->results.size(); ++i) data->results[i] = find(pass->results[i]);
    Result<void> done = run_program(pass->program, *data, pass->frames);
    if (!done) return done;
    pass->data.give(std::move(data));
  }
  return {};
}

}  // namespace atenon::reference
