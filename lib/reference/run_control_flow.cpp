#include "reference/run_control_flow.h"

#include <algorithm>
#include <cstring>
#include <optional>

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

// Tensors of all rounds as one whole, written as they come: a loop may have many rounds.
class Stack {
 public:
  explicit Stack(int64_t rounds) : rounds_(rounds) {}

  // False if the tensor is of another type than those before it.
  bool add(const Tensor& slice) {
    if (!whole_) {
      std::vector<int64_t> sizes = slice.sizes;
      sizes.insert(sizes.begin(), rounds_);
      whole_ = Tensor::empty(slice.dtype, std::move(sizes));
    } else if (slice.dtype != whole_->dtype ||
               !std::equal(slice.sizes.begin(), slice.sizes.end(), whole_->sizes.begin() + 1, whole_->sizes.end())) {
      return false;
    }
    const Tensor rows = slice.contiguous();
    const size_t bytes = rows.nbytes();
    if (bytes > 0) std::memcpy(static_cast<std::byte*>(whole_->mutable_data()) + used_, rows.data(), bytes);
    used_ += bytes;
    return true;
  }

  const std::optional<Tensor>& whole() const { return whole_; }  // null without rounds

 private:
  int64_t rounds_;
  std::optional<Tensor> whole_;
  size_t used_ = 0;  // bytes
};

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

  // Puts `results` from the first on to the stacks.
  Result<void> stack(const Data& results, size_t first) {
    for (size_t i = 0; i < stacks_.size(); ++i)
      if (!stacks_[i].add(std::get<Tensor>(results[first + i])))
        return error(Status::violated, 637, "the rounds of a loop give results of different types");
    return {};
  }

  // Behind `results`, the stacks.
  Result<Data> joined(Data results) {
    for (const Stack& stack : stacks_) {
      Result<Tensor> whole = stack.whole() ? *stack.whole() : runner_.empty(results.size());
      if (!whole) return whole.error();
      results.push_back(std::move(*whole));
    }
    return results;
  }

  Result<Data> scan() {
    const size_t count = carried_.size();  // results before the slices; none for map
    if (flow_.results < count)
      return error(Status::bad_input, 637, "a loop carries more than it gives: " + flow_.bodies[0]);
    stacks_.assign(flow_.results - count, Stack(rounds()));
    for (int64_t i = 0; i < rounds(); ++i) {
      Data inputs = std::move(carried_);
      for (const Datum& x : xs_) inputs.push_back(slice(std::get<Tensor>(x), i));
      Result<Data> results = call(0, std::move(inputs), flow_.results, count);
      if (!results) return results;
      if (Result<void> stacked = stack(*results, count); !stacked) return stacked.error();
      results->resize(count);
      carried_ = std::move(*results);
    }
    return joined(carried_);
  }

  Result<Data> associative_scan() {
    stacks_.assign(xs_.size(), Stack(rounds()));
    Data last;
    for (int64_t i = 0; i < rounds(); ++i) {
      Data inputs = std::move(last);
      for (const Datum& x : xs_) inputs.push_back(slice(std::get<Tensor>(x), i));
      if (i == 0) {
        last = std::move(inputs);
      } else {
        Result<Data> results = call(0, std::move(inputs), xs_.size(), 0);
        if (!results) return results;
        last = std::move(*results);
      }
      if (Result<void> stacked = stack(last, 0); !stacked) return stacked.error();
    }
    return joined({});
  }

  const ir::ControlFlow& flow_;
  const ControlFlowRunner& runner_;
  Data carried_, xs_, operands_;
  std::vector<Stack> stacks_;
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
