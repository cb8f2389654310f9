// For tests of kernels: a body by hand, operands with data, and one run of the call.
#pragma once

#include <atomic>
#include <cstring>

#include "kernels/kernel.h"
#include "support/parallel.h"

namespace atenon::kernels::testing {

// Small whole numbers: products of a few hundred of them are exact in f32, so that results can be compared exactly.
inline Tensor whole_numbers(std::vector<int64_t> sizes, uint32_t seed) {
  Tensor tensor = Tensor::empty(ScalarType::f32, std::move(sizes));
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    tensor.mutable_as<float>()[i] = static_cast<float>(static_cast<int>(state >> 28) - 8);
  }
  return tensor;
}

// Numbers in [-scale, scale).
inline Tensor numbers(std::vector<int64_t> sizes, uint32_t seed, float scale = 1) {
  Tensor tensor = Tensor::empty(ScalarType::f32, std::move(sizes));
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    tensor.mutable_as<float>()[i] = (static_cast<float>(state >> 8) * 0x1p-23f - 1) * scale;
  }
  return tensor;
}

inline ir::TensorMeta meta_of(const Tensor& tensor) {
  return {tensor.dtype, std::vector<ir::SymInt>(tensor.sizes.begin(), tensor.sizes.end())};
}

inline ir::ArgumentList list(const std::vector<int64_t>& values) {
  return ir::ArgumentList(values.begin(), values.end());
}

// Of all threads, as allocations_test.cpp sees them.
inline std::atomic<bool> counts_allocations = false;
inline std::atomic<int> allocations = 0;

// A run of a call that ran before: it allocates nothing where oneDNN is not used, whose parts are named with a colon
// ("jit:avx512_core"). "" or what went wrong.
inline std::string run_again(PreparedCall& call, const Kernel& kernel, std::span<void* const> buffers, void* scratch) {
  allocations = 0;
  counts_allocations = true;
  const Result<void> ran = call.run(buffers, scratch);
  counts_allocations = false;
  if (!ran) return ran.failure().message;
  const std::string name = kernel.name();
  const bool is_ours = !name.starts_with("onednn.") && name != "strips" && call.detail.find(':') == std::string::npos;
  return is_ours && allocations > 0 ? name + " allocates in a run" : "";
}

// The same elements with axes from slowest to fastest as in `order`.
inline Tensor laid_out(const Tensor& tensor, const std::vector<int>& order) {
  Tensor moved = Tensor::empty(tensor.dtype, tensor.sizes);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    moved.strides[order[i]] = stride;
    stride *= tensor.sizes[order[i]];
  }
  for (int64_t i = 0; i < tensor.numel(); ++i) moved.set(i, tensor.float_at(i));
  return moved;
}

// A call under construction: inputs, then nodes, then one run.
struct Call {
  ir::Graph body;
  CallSite site;
  std::vector<Tensor> operands;
  std::list<ir::Weight> weights;
  std::string note, detail;

  ir::Value* input(const Tensor& tensor) {
    operands.push_back(tensor);
    site.operands.push_back({tensor.dtype, tensor.sizes, tensor.strides});
    return body.add_input("x" + std::to_string(operands.size()), meta_of(tensor));
  }
  ir::Value* weight(const Tensor& tensor) {
    ir::Value* value = input(tensor);
    weights.push_back({value->name, tensor});
    site.operands.back().weight = &weights.back();
    return value;
  }
  // Stores the last weight as `kernel` wants it.
  bool pack_weight(const Kernel& kernel, size_t operand, const Tensor& result) {
    site.body = &body;
    site.results = {{result.dtype, result.sizes, result.strides}};
    std::optional<ir::BlockedLayout> layout = kernel.weight_layout(site, operand);
    if (layout) store_weight(*layout, ScalarType::f32, operand);
    return layout.has_value();
  }
  void store_weight(const ir::BlockedLayout& layout, ScalarType dtype, size_t operand) {
    ir::Weight& weight = weights.back();
    weight.tensor = cast(weight.tensor, dtype);
    weight.tensor.storage = operands[operand].storage = pack(weight.tensor, layout).storage;
    weight.layout = layout;
  }
  ir::Value* apply(std::string target, std::vector<ir::Argument> arguments, std::vector<int64_t> sizes,
                   std::vector<ir::Named> keywords = {}) {
    ir::TensorMeta meta{ScalarType::f32, std::vector<ir::SymInt>(sizes.begin(), sizes.end())};
    return body.add(std::move(target), std::move(arguments), std::move(keywords), {{"", meta}})->result();
  }
  // Stores every weight as `kernel` wants it, counts those in `packed`, and runs into `results`; "" or what went wrong.
  std::string run_packed(const Kernel& kernel, const std::vector<Tensor*>& results, int& packed) {
    site.body = &body;
    for (Tensor* result : results) site.results.push_back({result->dtype, result->sizes, result->strides});
    std::string refusal = kernel.refusal(body);
    if (!refusal.empty()) return refusal;
    packed = 0;
    for (size_t i = 0; i < site.operands.size(); ++i) {
      const ir::Weight* weight = site.operands[i].weight;
      std::optional<ir::BlockedLayout> layout = weight ? kernel.weight_layout(site, i) : std::nullopt;
      if (!layout) continue;
      ++packed;
      for (ir::Weight& stored : weights) {
        if (&stored != weight) continue;
        stored.layout = layout;
        stored.tensor.storage = operands[i].storage = pack(stored.tensor, *layout).storage;
      }
    }
    return run_prepared(kernel, results, -1);
  }
  // Runs into `result` (whose layout is that of the call's result); "" or what went wrong.
  std::string run(const Kernel& kernel, Tensor& result, int overwrites = -1) {
    site.body = &body;
    site.results = {{result.dtype, result.sizes, result.strides}};
    site.results[0].overwrites = overwrites;
    std::string refusal = kernel.refusal(body);
    if (!refusal.empty()) return refusal;
    return run_prepared(kernel, {&result}, overwrites);
  }

 private:
  // Runs twice, as the second run meets what the first left behind, and then with other numbers of threads, which give
  // the same bits.
  std::string run_prepared(const Kernel& kernel, const std::vector<Tensor*>& results, int overwrites) {
    auto prepared = kernel.prepare(site);
    if (!prepared) return prepared.failure().message;
    note = (*prepared)->note;
    detail = (*prepared)->detail;
    std::vector<void*> buffers;
    for (Tensor& tensor : operands) buffers.push_back(tensor.mutable_data());
    for (Tensor* result : results) buffers.push_back(result->mutable_data());
    if (overwrites >= 0) buffers[overwrites] = results[0]->mutable_data();
    const auto give_addend = [&] {
      if (overwrites >= 0) std::memcpy(buffers[overwrites], operands[overwrites].data(), results[0]->nbytes());
    };
    Tensor scratch = scratch_of(**prepared);
    give_addend();
    if (auto ran = (*prepared)->run(buffers, scratch.mutable_data()); !ran) return ran.failure().message;
    give_addend();
    if (std::string why = run_again(**prepared, kernel, buffers, scratch.mutable_data()); !why.empty()) return why;
    std::vector<std::string> first;
    for (Tensor* result : results) first.emplace_back(static_cast<const char*>(result->data()), result->nbytes());
    const int usual = threads();
    std::string why;
    for (const int count : {1, 3}) {
      if (!why.empty()) break;
      set_threads(count);
      why = run_with(count, kernel, buffers, give_addend);
      for (size_t i = 0; why.empty() && i < results.size(); ++i)
        if (std::memcmp(results[i]->data(), first[i].data(), first[i].size()) != 0)
          why = std::string(kernel.name()) + " gives other bits with " + std::to_string(count) + " threads";
    }
    set_threads(usual);
    return why;
  }
  // Prepares for `count` threads, which there are, and runs.
  std::string run_with(int count, const Kernel& kernel, std::vector<void*>& buffers, const auto& give_addend) {
    CallSite other = site;
    other.threads = count;
    auto prepared = kernel.prepare(other);
    if (!prepared) return prepared.failure().message;
    Tensor scratch = scratch_of(**prepared);
    give_addend();
    auto ran = (*prepared)->run(buffers, scratch.mutable_data());
    return ran ? "" : ran.failure().message;
  }
  static Tensor scratch_of(const PreparedCall& call) {
    return Tensor::empty(ScalarType::u8, {static_cast<int64_t>(call.scratch_bytes())});
  }
};

// The largest |a - b| over elements.
inline double difference(const Tensor& a, const Tensor& b) {
  double largest = a.sizes == b.sizes ? 0 : 1e30;
  for (int64_t i = 0; largest < 1e30 && i < a.numel(); ++i) {
    const double apart = std::abs(a.float_at(i) - b.float_at(i));
    if (!(apart <= largest)) largest = apart;
  }
  return largest;
}

}  // namespace atenon::kernels::testing
