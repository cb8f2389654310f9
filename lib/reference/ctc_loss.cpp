// Connectionist temporal classification: minus the log of the probability that the classes of all times, repetitions
// joined and blanks dropped, spell the target (Graves et al., 2006, equations 6 to 8).
//
// Arguments: log-probabilities [T, N, C] or [T, C], targets [N, S] or one after the other, lengths of inputs and of
// targets (lists, or tensors), blank, reduction, zero_infinity.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/extern_kernels.h"
#include "support/math.h"

namespace atenon::reference {

namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

double log_of_sum(double a, double b, double c = nothing) {
  const double most = std::max({a, b, c});
  if (most == nothing) return nothing;
  return most + math::log(math::exp(a - most) + math::exp(b - most) + math::exp(c - most));
}

std::vector<int64_t> lengths_of(const ExternCall& call, size_t i) {
  std::vector<int64_t> lengths;
  if (call.arguments[i].is<ir::ArgumentList>()) {
    for (const ir::Argument& item : call.arguments[i].get<ir::ArgumentList>())
      lengths.push_back(item.get<ir::SymInt>().constant().value_or(0));
  } else {
    const Tensor& tensor = call.tensor(i);
    for (int64_t n = 0; n < tensor.numel(); ++n) lengths.push_back(tensor.int_at(n));
  }
  return lengths;
}

}  // namespace

Result<std::vector<Datum>> ctc_loss(const ExternCall& call) {
  const Tensor scores = call.tensor(0).contiguous(), targets = call.tensor(1).contiguous();
  const int64_t times = scores.sizes[0], classes = scores.sizes.back();
  const int64_t samples = scores.sizes.size() == 3 ? scores.sizes[1] : 1;
  const std::vector<int64_t> input_lengths = lengths_of(call, 2), target_lengths = lengths_of(call, 3);
  const int64_t blank = call.integer(4), reduction = call.integer(5);
  const auto refuse = [](const std::string& what) { return error(Status::violated, 611, "ctc_loss: " + what); };
  if (static_cast<int64_t>(input_lengths.size()) != samples || static_cast<int64_t>(target_lengths.size()) != samples)
    return refuse("there must be one length a sample");
  if (blank < 0 || blank >= classes) return refuse("the blank is none of the classes");

  Tensor result = call.result(0);
  double total = 0;
  int64_t first = 0;  // of the sample's target
  for (int64_t n = 0; n < samples; ++n) {
    const int64_t length = target_lengths[static_cast<size_t>(n)], end = input_lengths[static_cast<size_t>(n)];
    if (targets.sizes.size() == 2) first = n * targets.sizes[1];
    if (length < 0 || first + length > targets.numel() || (targets.sizes.size() == 2 && length > targets.sizes[1]))
      return refuse("a target is longer than what is given");
    if (end < 0 || end > times) return refuse("an input is longer than what is given");
    // Blanks stand between the target's classes and at both ends: state s is a class where s is odd.
    const int64_t states = 2 * length + 1;
    std::vector<int64_t> spelled(static_cast<size_t>(states), blank);
    for (int64_t s = 0; s < length; ++s) {
      const int64_t at = targets.int_at(first + s);
      if (at < 0 || at >= classes) return refuse("a target is none of the classes");
      spelled[static_cast<size_t>(2 * s + 1)] = at;
    }
    first += length;
    const auto score = [&](int64_t t, int64_t s) {
      return scores.float_at((t * samples + n) * classes + spelled[static_cast<size_t>(s)]);
    };
    std::vector<double> alpha(static_cast<size_t>(states), nothing), before;
    for (int64_t t = 0; t < end; ++t) {
      before = alpha;
      for (int64_t s = 0; s < states; ++s) {
        const auto i = static_cast<size_t>(s);
        // A blank may be left out, but between two equal classes.
        const bool may_skip = s > 1 && spelled[i] != blank && spelled[i] != spelled[i - 2];
        const double reached =
            t == 0 ? (s < 2 ? 0 : nothing)
                   : log_of_sum(before[i], s > 0 ? before[i - 1] : nothing, may_skip ? before[i - 2] : nothing);
        alpha[i] = reached == nothing ? nothing : reached + score(t, s);
      }
    }
    double loss = -log_of_sum(alpha.back(), states > 1 ? alpha[alpha.size() - 2] : nothing);
    if (end == 0) loss = length == 0 ? 0 : -nothing;
    if (call.truth(6) && std::isinf(loss)) loss = 0;
    if (reduction == 0) result.set(n, loss);
    total += reduction == 1 ? loss / static_cast<double>(std::max<int64_t>(length, 1)) : loss;
  }
  if (reduction != 0) result.set(0, reduction == 1 ? total / static_cast<double>(samples) : total);
  return std::vector<Datum>{result};
}

}  // namespace atenon::reference
