// Random operators: PyTorch's draws, in PyTorch's order. Fills are lazy: what is overwritten unread is never made.

#include "reference/extern_kernels.h"
#include "tensor/random.h"

namespace atenon::reference {

namespace {

using Results = Result<std::vector<Datum>>;

Diagnostic no_generator() {
  return error(Status::unsupported, 635, "a random operator is run, and the run has no seed")
      .note("fix: atenon run --seed N; for dropout, model.eval() before the capture");
}

Results filled(const ExternCall& call, const Distribution& distribution) {
  if (!call.generator) return no_generator();
  Tensor result = call.result(0);
  result.storage = lazy_fill(*call.generator, distribution, result.dtype, result.numel());
  return std::vector<Datum>{result};
}

}  // namespace

// (from, to)
Results uniform(const ExternCall& call) {
  return filled(call, {.kind = Distribution::Kind::uniform, .a = call.number(0), .b = call.number(1)});
}

// (mean, standard deviation): for a contiguous tensor; or (.., .., is it contiguous)
Results normal(const ExternCall& call) {
  const bool one_by_one = call.has(2) && !call.truth(2);
  return filled(
      call, {.kind = Distribution::Kind::normal, .a = call.number(0), .b = call.number(1), .one_by_one = one_by_one});
}

// (self, rate)
Results exponential(const ExternCall& call) {
  return filled(call, {.kind = Distribution::Kind::exponential, .a = call.number(1)});
}

// (low, high): from low up to but not including high
Results randint(const ExternCall& call) {
  const int64_t low = call.integer(0);
  const auto range = static_cast<uint64_t>(call.integer(1)) - static_cast<uint64_t>(low);
  return filled(call, {.kind = Distribution::Kind::integers, .low = low, .range = range});
}

// (self): what the type can hold
Results random_all(const ExternCall& call) { return filled(call, {.kind = Distribution::Kind::all_integers}); }

// (self): a probability for each element; (p): one for all, by other draws
Results bernoulli(const ExternCall& call) {
  if (!call.arguments[0].value()) return filled(call, {.kind = Distribution::Kind::bernoulli, .a = call.number(0)});
  if (!call.generator) return no_generator();
  Tensor result = call.result(0);
  fill_bernoulli(*call.generator, call.tensor(0).contiguous(), result);
  return std::vector<Datum>{result};
}

// (n)
Results randperm(const ExternCall& call) {
  if (!call.generator) return no_generator();
  Result<Tensor> result =
      random_permutation(*call.generator, call.integer(0), std::get<ir::TensorMeta>(call.types[0]).dtype);
  if (!result) return result.error();
  return std::vector<Datum>{*result};
}

}  // namespace atenon::reference
