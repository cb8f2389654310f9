#include "reference/run_control_flow.h"

#include <algorithm>
#include <cstring>

namespace atenon::reference {
namespace {

using Data = std::vector<Datum>;
using Kind = ir::ControlFlow::Kind;

bool is_true(const Datum& datum) {
  if (const Tensor* tensor = std::get_if<Tensor>(&datum)) return tensor->numel() > 0 && tensor->float_at(0) != 0;
  if (const int64_t* integer = std::get_if<int64_t>(&datum)) return *integer != 0;
  if (const double* real = std::get_if<double>(&datum)) return *real != 0;
  return std::get<bool>(datum);
}

Tensor slice(const Tensor& tensor, int64_t at) {
  Tensor part = tensor;
  part.offset += at * tensor.strides[0];
  part.sizes.erase(part.sizes.begin());
  part.strides.erase(part.strides.begin());
  return part.contiguous();
}

Tensor stack(const std::vector<Tensor>& slices) {
  std::vector<int64_t> sizes = slices[0].sizes;
  sizes.insert(sizes.begin(), static_cast<int64_t>(slices.size()));
  Tensor whole = Tensor::empty(slices[0].dtype, std::move(sizes));
  const size_t bytes = slices[0].nbytes();
  for (size_t i = 0; i < slices.size(); ++i) {
    const Tensor rows = slices[i].contiguous();
    if (bytes > 0) std::memcpy(static_cast<std::byte*>(whole.mutable_data()) + i * bytes, rows.data(), bytes);
  }
  return whole;
}

class Loop {
 public:
  Loop(const ir::ControlFlow& flow, const ControlFlowRunner& runner) : flow_(flow), runner_(runner) {}

  Result<Data> run() {
    for (const auto& [list, data] :
         {std::pair(&flow_.carried, &carried_), {&flow_.xs, &xs_}, {&flow_.operands, &operands_}})
      for (const ir::Argument& argument : *list) {
        Result<Datum> value = runner_.value(argument);
        if (!value) return value.error();
        data->push_back(std::move(*value));
      }
    for (const Datum& x : xs_) {
      const Tensor* tensor = std::get_if<Tensor>(&x);
      if (!tensor || tensor->sizes.empty() || tensor->sizes[0] != std::get<Tensor>(xs_[0]).sizes[0])
        return error(Status::violated, 637, "the tensors that a loop runs over differ in the size of axis 0");
    }
    switch (flow_.kind) {
      case Kind::cond:
        return cond();
      case Kind::while_loop:
        return while_loop();
      case Kind::map:
      case Kind::scan:
        return scan();
      case Kind::associative_scan:
        return associative_scan();
    }
    return Data();
  }

 private:
  // A subgraph on some values, and the operands behind them. The file may say anything, so its results are counted, and
  // those behind the first `numbers` must be tensors.
  Result<Data> call(size_t body, Data inputs, size_t count, size_t numbers) {
    inputs.insert(inputs.end(), operands_.begin(), operands_.end());
    Result<Data> results = runner_.run(flow_.bodies[body], std::move(inputs));
    if (!results) return results;
    bool fits = results->size() == count;
    for (size_t i = numbers; i < results->size(); ++i) fits = fits && std::holds_alternative<Tensor>((*results)[i]);
    if (!fits) return error(Status::bad_input, 637, "@" + flow_.bodies[body] + " does not give what its loop carries");
    return results;
  }

  Result<Data> cond() {
    Result<Datum> condition = runner_.value(flow_.condition);
    if (!condition) return condition.error();
    return call(is_true(*condition) ? 0 : 1, {}, flow_.results, flow_.results);
  }

  Result<Data> while_loop() {
    for (;;) {
      Result<Data> condition = call(0, carried_, 1, 1);
      if (!condition) return condition;
      if (!is_true((*condition)[0])) return carried_;
      Result<Data> next = call(1, carried_, carried_.size(), carried_.size());
      if (!next) return next;
      carried_ = std::move(*next);
    }
  }

  int64_t rounds() const { return xs_.empty() ? 0 : std::get<Tensor>(xs_[0]).sizes[0]; }

  // Behind `results`, the slices of all rounds as whole tensors.
  Result<Data> joined(Data results, const std::vector<std::vector<Tensor>>& slices) {
    for (const std::vector<Tensor>& rounds : slices) {
      for (const Tensor& slice : rounds)
        if (slice.sizes != rounds[0].sizes || slice.dtype != rounds[0].dtype)
          return error(Status::violated, 637, "the rounds of a loop give results of different types");
      if (!rounds.empty()) {
        results.push_back(stack(rounds));
        continue;
      }
      Result<Tensor> empty = runner_.empty(results.size());
      if (!empty) return empty.error();
      results.push_back(std::move(*empty));
    }
    return results;
  }

  Result<Data> scan() {
    const size_t count = carried_.size();  // results before the slices; none for map
    std::vector<std::vector<Tensor>> slices(std::max(flow_.results, count) - count);
    for (int64_t i = 0; i < rounds(); ++i) {
      Data inputs = carried_;
      for (const Datum& x : xs_) inputs.push_back(slice(std::get<Tensor>(x), i));
      Result<Data> results = call(0, std::move(inputs), flow_.results, count);
      if (!results) return results;
      for (size_t j = 0; j < slices.size(); ++j) slices[j].push_back(std::get<Tensor>((*results)[count + j]));
      carried_.assign(results->begin(), results->begin() + static_cast<std::ptrdiff_t>(count));
    }
    return joined(carried_, slices);
  }

  Result<Data> associative_scan() {
    std::vector<std::vector<Tensor>> slices(xs_.size());
    for (int64_t i = 0; i < rounds(); ++i) {
      Data inputs;
      if (i > 0)
        for (const auto& done : slices) inputs.push_back(done.back());
      for (const Datum& x : xs_) inputs.push_back(slice(std::get<Tensor>(x), i));
      if (i > 0) {
        Result<Data> results = call(0, std::move(inputs), xs_.size(), 0);
        if (!results) return results;
        inputs = std::move(*results);
      }
      for (size_t j = 0; j < xs_.size(); ++j) slices[j].push_back(std::get<Tensor>(inputs[j]));
    }
    return joined({}, slices);
  }

  const ir::ControlFlow& flow_;
  const ControlFlowRunner& runner_;
  Data carried_, xs_, operands_;
};

}  // namespace

Result<Tensor> empty_result(const ir::Node& node, size_t i, const shape::Bindings& symbols) {
  if (i >= node.results().size() || !node.result(i)->is_tensor())
    return error(Status::bad_input, 632, node.target() + " does not have the results that it gives");
  std::vector<int64_t> sizes;
  for (const ir::SymInt& size : node.result(i)->meta().sizes)
    sizes.push_back(sizes.empty() ? 0 : shape::evaluate(size, symbols).value_or(0));
  return Tensor::empty(node.result(i)->meta().dtype, std::move(sizes));
}

Result<std::vector<Datum>> run_control_flow(const ir::ControlFlow& flow, const ControlFlowRunner& runner) {
  return Loop(flow, runner).run();
}

}  // namespace atenon::reference
