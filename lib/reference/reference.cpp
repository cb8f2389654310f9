// Every call is made concrete first: its tensors get the sizes that they have now, its scalars their values. So `when`
// guards and sizes of a block are plain numbers, decompositions expand into a scratch graph that is run on the spot,
// and nothing that was open when the program was made is open here.
#include "reference/reference.h"

#include <algorithm>
#include <bit>
#include <map>

#include "ir/call_body.h"
#include "reference/extern_kernels.h"
#include "reference/loop_runner.h"
#include "reference/run_control_flow.h"
#include "tensor/elements.h"
#include "text/text.h"

namespace atenon::reference {

using ir::Argument;
using ir::Value;
using opset::Call;

namespace {

using Results = Result<std::vector<Datum>>;
using Subgraphs = std::map<std::string, ir::Graph>;

// Writes `source`, broadcast and converted, over the elements of `target`, whatever its strides.
Result<void> write(const Tensor& source, Tensor target) {
  Tensor from = cast(source, target.dtype);
  const size_t missing = target.sizes.size() - std::min(target.sizes.size(), from.sizes.size());
  std::vector<int64_t> strides(target.sizes.size(), 0);
  for (size_t axis = 0; axis < from.sizes.size(); ++axis) {
    if (from.sizes[axis] != 1 && from.sizes[axis] != target.sizes[missing + axis])
      return error(Status::unsupported, 634, "a result does not have the shape of what it is written to");
    if (from.sizes[axis] != 1) strides[missing + axis] = from.strides[axis];
  }
  from.sizes = target.sizes;
  from.strides = strides;
  from = from.contiguous();
  const size_t width = size_of(target.dtype);
  const auto* bytes = static_cast<const std::byte*>(from.data());
  auto* to = static_cast<std::byte*>(target.mutable_data());
  if (target.is_contiguous()) {
    std::copy_n(bytes, from.nbytes(), to);
    return {};
  }
  std::vector<int64_t> index(target.sizes.size(), 0);
  const int64_t numel = target.numel();
  for (int64_t i = 0; i < numel; ++i) {
    int64_t place = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) place += index[axis] * target.strides[axis];
    std::copy_n(bytes + static_cast<size_t>(i) * width, width, to + place * static_cast<int64_t>(width));
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < target.sizes[axis]) break;
      index[axis] = 0;
    }
  }
  return {};
}

ir::TensorMeta meta_of(const Tensor& tensor) {
  ir::TensorMeta meta;
  meta.dtype = tensor.dtype;
  for (const int64_t n : tensor.sizes) meta.sizes.push_back(n);
  return meta;
}

class Evaluation {
 public:
  Evaluation(const opset::Opset& opset, const Subgraphs* subgraphs, Generator* generator,
             const DeclaredKernels* declared)
      : opset_(opset), subgraphs_(subgraphs), generator_(generator), declared_(declared) {}

  Result<void> evaluate(const ir::Node& node, Environment& environment) {
    Results results = ir::is_call(node)                    ? call_subgraph(node, environment)
                      : ir::is_control_flow(node.target()) ? call_control_flow(node, environment)
                                                           : call_operator(node, environment);
    if (!results) return std::move(results.error()).note("in " + text::print(node));
    for (size_t i = 0; i < results->size() && i < node.results().size(); ++i)
      bind(*node.result(i), (*results)[i], environment);
    return {};
  }

  Results run(const ir::Graph& graph, std::vector<Datum> inputs, shape::Bindings symbols) {
    if (inputs.size() != graph.inputs().size())
      return error(
          Status::bug, 0,
          "a graph of " + std::to_string(graph.inputs().size()) + " inputs is run on " + std::to_string(inputs.size()));
    Environment environment{{}, std::move(symbols), generator_};
    for (size_t i = 0; i < inputs.size(); ++i) bind(*graph.inputs()[i], inputs[i], environment);
    // What nobody reads any more is dropped, so that a big model's intermediates do not pile up.
    std::map<const Value*, size_t> uses;
    for (const ir::Node& node : graph.forward())
      for (const Value* operand : node.operands()) ++uses[operand];
    for (const ir::Node& node : graph.forward()) {
      if (auto done = evaluate(node, environment); !done) return done.error();
      for (const Value* operand : node.operands())
        if (--uses[operand] == 0 && operand->returned == 0) environment.values.erase(operand);
    }
    std::vector<Datum> outputs;
    for (const Argument& output : graph.outputs()) {
      Result<Argument> value = concrete(output, environment, nullptr);
      if (!value) return value.error();
      outputs.push_back(
          datum_of(*value, environment));  // None, a text are false: the caller reads those from the graph
    }
    return outputs;
  }

  Results apply(const Call& call, const Environment& environment) {
    switch (call.op->derivation()) {
      case opset::Derivation::none:
        return apply_concrete(call, environment);
      case opset::Derivation::inplace:
        return write_result(call, 0, call.arguments.size(), environment);
      case opset::Derivation::out:
        return write_result(call, call.arguments.size() - call.op->schema().returns.size(),
                            call.arguments.size() - call.op->schema().returns.size(), environment);
      case opset::Derivation::copy: {
        Results views = apply(Call{call.op->origin(), call.arguments}, environment);
        if (!views) return views;
        for (Datum& view : *views) view = fresh_copy(std::get<Tensor>(view));
        return views;
      }
      case opset::Derivation::scatter:
        return scatter(call, environment);
    }
    return error(Status::bug, 0, "unknown derivation");
  }

 private:
  static Tensor fresh_copy(const Tensor& tensor) {
    Tensor copy = Tensor::empty(tensor.dtype, tensor.sizes);
    const Tensor rows = tensor.contiguous();
    if (rows.nbytes() > 0)
      std::copy_n(static_cast<const std::byte*>(rows.data()), rows.nbytes(),
                  static_cast<std::byte*>(copy.mutable_data()));
    return copy;
  }

  // Sizes that the value's type names but nobody has bound yet are what the data turned out to be.
  static void bind(const Value& value, const Datum& datum, Environment& environment) {
    environment.values[&value] = datum;
    if (const Tensor* tensor = std::get_if<Tensor>(&datum)) {
      if (!value.is_tensor()) return;
      const auto& sizes = value.meta().sizes;
      for (size_t axis = 0; axis < sizes.size() && axis < tensor->sizes.size(); ++axis)
        if (const auto symbol = sizes[axis].as_symbol()) environment.symbols.emplace(*symbol, tensor->sizes[axis]);
    } else if (const int64_t* number = std::get_if<int64_t>(&datum)) {
      environment.symbols.insert_or_assign(value.name, *number);
    } else if (const double* real = std::get_if<double>(&datum)) {
      environment.symbols.insert_or_assign(value.name, std::bit_cast<int64_t>(*real));
    } else if (const bool* truth = std::get_if<bool>(&datum)) {
      environment.symbols.insert_or_assign(value.name, *truth);
    }
  }

  // An argument without symbols. Tensors become inputs of `scratch` (as they are, if null).
  struct Scratch {
    ir::Graph graph;
    std::map<const Value*, Value*> inputs;
    Environment environment;
  };
  Result<Argument> concrete(const Argument& argument, const Environment& environment, Scratch* scratch) {
    const auto unbound = [](const std::string& what) {
      return error(Status::violated, 632, "the number " + what + " has no value");
    };
    if (argument.is<ir::SymInt>()) {
      const auto value = shape::evaluate(argument.get<ir::SymInt>(), environment.symbols);
      return value ? Result<Argument>(Argument(*value)) : unbound(argument.get<ir::SymInt>().to_string());
    }
    if (argument.is<ir::SymFloat>()) {
      const auto value = shape::evaluate(argument.get<ir::SymFloat>(), environment.symbols);
      return value ? Result<Argument>(Argument(*value)) : unbound(argument.get<ir::SymFloat>().to_string());
    }
    if (argument.is<ir::SymBool>()) {
      const auto value = shape::evaluate(argument.get<ir::SymBool>(), environment.symbols);
      return value ? Result<Argument>(Argument(*value)) : unbound(argument.get<ir::SymBool>().to_string());
    }
    if (argument.is<ir::ArgumentList>()) {
      ir::ArgumentList list;
      for (const Argument& item : argument.get<ir::ArgumentList>()) {
        Result<Argument> value = concrete(item, environment, scratch);
        if (!value) return value.error();
        list.push_back(std::move(*value));
      }
      return Argument(std::move(list));
    }
    const Value* value = argument.value();
    if (!value) return argument;
    const auto found = environment.values.find(value);
    if (found == environment.values.end()) return unbound("%" + value->name);
    if (const Tensor* tensor = std::get_if<Tensor>(&found->second)) {
      if (!scratch) return argument;
      Value*& input = scratch->inputs[value];
      if (!input) {
        input = scratch->graph.add_input("a" + std::to_string(scratch->inputs.size() - 1), meta_of(*tensor));
        scratch->environment.values[input] = *tensor;
      }
      return Argument(input);
    }
    if (const int64_t* integer = std::get_if<int64_t>(&found->second)) return Argument(*integer);
    if (const double* number = std::get_if<double>(&found->second)) return Argument(*number);
    return Argument(std::get<bool>(found->second));
  }

  Results call_operator(const ir::Node& node, const Environment& environment) {
    Result<Call> call = opset::bind(opset_, node);
    if (!call) return call.error();
    if (!call->op->is_declared() || !declared_) return apply(*call, environment);
    for (Argument& argument : call->arguments) {
      Result<Argument> value = concrete(argument, environment, nullptr);
      if (!value) return value.error();
      argument = std::move(*value);
    }
    Result<std::optional<std::vector<Datum>>> results = declared_->call(node, *call, environment);
    if (!results) return results.error();
    return *results ? Results(std::move(**results)) : apply(*call, environment);
  }

  Results call_subgraph(const ir::Node& node, const Environment& environment) {
    const std::string& name = node.arguments()[0].get<ir::SubgraphRef>().name;
    const auto body = subgraphs_ ? subgraphs_->find(name) : Subgraphs::const_iterator{};
    if (!subgraphs_ || body == subgraphs_->end()) return error(Status::bad_input, 632, "there is no subgraph @" + name);
    std::vector<Datum> inputs;
    for (size_t i = 1; i < node.arguments().size(); ++i) {
      Result<Argument> value = concrete(node.arguments()[i], environment, nullptr);
      if (!value) return value.error();
      inputs.push_back(datum_of(*value, environment));
    }
    return run(body->second, std::move(inputs), environment.symbols);
  }

  Results call_control_flow(const ir::Node& node, const Environment& environment) {
    const std::optional<ir::ControlFlow> flow = ir::control_flow(node);
    if (!flow) return error(Status::bad_input, 632, node.target() + " does not have the arguments that it takes");
    ControlFlowRunner runner;
    runner.value = [&](const Argument& argument) -> Result<Datum> {
      Result<Argument> value = concrete(argument, environment, nullptr);
      if (!value) return value.error();
      return datum_of(*value, environment);
    };
    runner.run = [&](const std::string& name, std::vector<Datum> inputs) -> Results {
      const auto body = subgraphs_ ? subgraphs_->find(name) : Subgraphs::const_iterator{};
      if (!subgraphs_ || body == subgraphs_->end())
        return error(Status::bad_input, 632, "there is no subgraph @" + name);
      return run(body->second, std::move(inputs), environment.symbols);
    };
    runner.empty = [&](size_t i) -> Result<Tensor> { return empty_result(node, i, environment.symbols); };
    return run_control_flow(*flow, runner);
  }

  // A number, or the tensor of a Value, from an argument without symbols.
  static Datum datum_of(const Argument& argument, const Environment& environment) {
    if (const Value* value = argument.value()) return environment.values.at(value);
    if (argument.is<ir::SymFloat>()) return argument.get<ir::SymFloat>().constant().value_or(0);
    if (argument.is<ir::SymInt>()) return argument.get<ir::SymInt>().constant().value_or(0);
    return argument.is<ir::SymBool>() && argument.get<ir::SymBool>().constant().value_or(false);
  }

  Results apply_concrete(const Call& call, const Environment& environment) {
    Scratch scratch;
    scratch.environment.generator = environment.generator ? environment.generator : generator_;
    Call at_hand{call.op, {}};
    for (const Argument& argument : call.arguments) {
      Result<Argument> value = concrete(argument, environment, &scratch);
      if (!value) return value.error();
      at_hand.arguments.push_back(std::move(*value));
    }
    const shape::Facts nothing;
    Result<opset::MeaningKind> kind = opset::meaning_kind(opset_, at_hand, nothing);
    if (!kind) return kind.error();
    if (*kind == opset::MeaningKind::decomposition) return expand(at_hand, scratch);
    Result<opset::Meaning> meaning = opset::meaning(opset_, at_hand, nothing);
    if (!meaning) return meaning.error();
    if (*kind == opset::MeaningKind::extern_kernel) {
      const ExternKernel kernel = find_extern_kernel(meaning->extern_kernel);
      if (!kernel)
        return error(Status::unsupported, 634,
                     call.op->target() + " has no meaning here: there is no kernel '" + meaning->extern_kernel + "'");
      const ExternCall extern_call{meaning->extern_arguments, scratch.environment.values, meaning->extern_types,
                                   scratch.environment.generator};
      return kernel(extern_call);
    }
    std::vector<Tensor> operands;
    for (const Value* tensor : meaning->tensors)
      operands.push_back(std::get<Tensor>(scratch.environment.values.at(tensor)));
    if (meaning->is_view && operands.size() == 1)
      if (std::optional<Tensor> window = alias(*meaning, operands[0], {}))
        return std::vector<Datum>{std::move(*window)};
    Result<std::vector<Tensor>> tensors = run_loops(*meaning, operands, {});
    if (!tensors) return tensors.error();
    return std::vector<Datum>(tensors->begin(), tensors->end());
  }

  Results expand(const Call& call, Scratch& scratch) {
    Result<opset::Expansion> expansion = opset::expand(opset_, call, shape::Facts(), scratch.graph, nullptr, 0);
    if (!expansion) return expansion.error();
    for (const ir::Node& node : scratch.graph.forward()) {
      // A step of the expansion is no place that the user knows: its own node is, which the caller names.
      Results results = call_operator(node, scratch.environment);
      if (!results) return results;
      for (size_t i = 0; i < results->size(); ++i) bind(*node.result(i), (*results)[i], scratch.environment);
    }
    std::vector<Datum> results;
    for (const Value* value : expansion->results) results.push_back(scratch.environment.values.at(value));
    return results;
  }

  // `add_` and `add.out`: the origin's results, written over the operands from `first` on.
  Results write_result(const Call& call, size_t first, size_t argument_count, const Environment& environment) {
    Results results =
        apply(Call{call.op->origin(),
                   {call.arguments.begin(), call.arguments.begin() + static_cast<std::ptrdiff_t>(argument_count)}},
              environment);
    if (!results) return results;
    for (size_t i = 0; i < results->size(); ++i) {
      Tensor target = std::get<Tensor>(environment.values.at(call.arguments[first + i].value()));
      Tensor& result = std::get<Tensor>((*results)[i]);
      const bool whole = target.is_contiguous() && target.offset == 0 && target.storage->size() == target.nbytes();
      if (whole && result.storage->is_lazy() && result.dtype == target.dtype && result.sizes == target.sizes) {
        // A fill that nobody reads need not happen.
        target.storage->fill_later([source = result.storage](void* data) {
          std::copy_n(static_cast<const std::byte*>(source->data()), source->size(), static_cast<std::byte*>(data));
        });
      } else {
        if (whole) target.storage->discard_pending();
        if (auto written = write(result, target); !written) return written.error();
      }
      result = target;
    }
    return results;
  }

  // `slice_scatter(self, src, ...)`: a copy of self whose window `slice(self, ...)` is src.
  Results scatter(const Call& call, const Environment& environment) {
    Environment inside = environment;
    const Value* self = call.arguments[0].value();
    inside.values[self] = fresh_copy(std::get<Tensor>(environment.values.at(self)));
    Call view{call.op->origin(), {call.arguments[0]}};
    view.arguments.insert(view.arguments.end(), call.arguments.begin() + 2, call.arguments.end());
    Results windows = apply(view, inside);
    if (!windows) return windows;
    const Tensor& whole = std::get<Tensor>(inside.values.at(self));
    const Tensor& window = std::get<Tensor>((*windows)[0]);
    if (window.storage != whole.storage)
      return error(Status::unsupported, 634, call.op->target() + ": strides cannot say where the elements go");
    const Tensor& source = std::get<Tensor>(environment.values.at(call.arguments[1].value()));
    if (auto written = write(source, window); !written) return written.error();
    return std::vector<Datum>{whole};
  }

  const opset::Opset& opset_;
  const Subgraphs* subgraphs_;
  Generator* generator_;
  const DeclaredKernels* declared_;
};

}  // namespace

Result<void> evaluate(const opset::Opset& opset, const ir::Node& node, Environment& environment) {
  return Evaluation(opset, nullptr, environment.generator, environment.declared).evaluate(node, environment);
}

Result<std::vector<Datum>> apply(const opset::Opset& opset, const opset::Call& call, const Environment& environment) {
  return Evaluation(opset, nullptr, environment.generator, environment.declared).apply(call, environment);
}

Result<std::vector<Datum>> run(const opset::Opset& opset, const ir::Graph& graph,
                               const std::map<std::string, ir::Graph>& subgraphs, std::vector<Datum> inputs,
                               shape::Bindings symbols, Generator* generator, const DeclaredKernels* declared) {
  return Evaluation(opset, &subgraphs, generator, declared).run(graph, std::move(inputs), std::move(symbols));
}

}  // namespace atenon::reference
