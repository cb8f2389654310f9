// Convolutions of 3 x 3 by Winograd's algorithm, where that is expected to be faster; `lower --winograd`.
//
// A call that changes its kernel keeps its meaning and its layouts. It gains an operand, the transformed weight, and
// says how large its errors are on a sample (kernels/winograd.h).
#include "kernels/winograd.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "ir/written_state.h"
#include "kernels/body.h"
#include "kernels/list.h"
#include "lower/lowering.h"

namespace atenon::lower {

namespace {

std::string two_digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", x);
  return text;
}

std::string in_words(const kernels::WinogradError& error) {
  return two_digits(error.winograd) + " of the largest result on a sample (direct: " + two_digits(error.direct) + ")";
}

// Why a convolution stays as it is, or "" and the size of its tiles.
std::string refusal(const kernels::CallSite& site, const std::set<std::string>& written, int64_t& outputs) {
  if (std::string refusal = kernels::winograd_refusal(*site.body); !refusal.empty()) return refusal;
  const ir::Weight* weight = site.operands[kernels::winograd_filter(*site.body)].weight;
  if (!weight || written.contains(weight->name)) return "its weight is not constant";
  if (weight->tensor.storage->is_absent()) return "the bytes of its weight are absent";
  outputs = kernels::winograd_outputs(site);
  return outputs == 0 ? "the direct convolution is expected to be as fast at these sizes and layouts" : "";
}

kernels::WinogradError take(Lowering& lowering, ir::Node& call, const kernels::CallSite& site, int64_t outputs) {
  const size_t filter = kernels::winograd_filter(*site.body);
  const ir::Weight& weight = *site.operands[filter].weight;
  const std::string side = std::to_string(outputs), name = weight.name + "::F" + side + "x" + side;
  const kernels::WinogradError error = kernels::winograd_error(weight.tensor, outputs);
  if (!lowering.program.weight(name)) {
    ir::Weight made{name, kernels::winograd_weight(weight.tensor, outputs)};
    lowering.program.weights.push_back(std::move(made));
  }
  ir::Value* input = input_made_from(lowering, *call.operands()[filter], *lowering.program.weight(name), "_points");
  std::vector<ir::Argument> arguments = call.arguments();
  arguments.emplace_back(input);
  call.set_arguments(std::move(arguments), call.keywords());
  lowering.variant.subgraphs.at(call.arguments()[0].get<ir::SubgraphRef>().name).add_input(input->name, input->type);
  call.annotate("kernel", kernels::winograd().name());
  call.annotate("unread", ir::ArgumentList{static_cast<int64_t>(filter)});
  call.annotate("error", std::strtod(two_digits(error.winograd).c_str(), nullptr));
  call.annotate("direct_error", std::strtod(two_digits(error.direct).c_str(), nullptr));
  return error;
}

// What --explain says of the call.
void explain(Report& report, const Lowering& lowering, const ir::Node& call, const std::string& refusal,
             const std::string& note) {
  for (Decision& decision : report.decisions) {
    if (decision.entry != lowering.entry.name || decision.variant != lowering.variant.name ||
        decision.body != lowering.body_name() || decision.call != call.result()->name)
      continue;
    const std::string name = kernels::winograd().name();
    std::erase_if(decision.refusals, [&](const auto& known) { return known.first == name; });
    if (refusal.empty()) {
      decision.kernel = name;
      decision.note = note;
    } else {
      decision.refusals.emplace_back(name, refusal);
    }
  }
}

}  // namespace

void choose_winograd(Lowering& lowering) {
  const std::set<std::string> written = ir::written_state(lowering.program);
  Report unread;
  Report& report = lowering.options.report ? *lowering.options.report : unread;
  for (ir::Node& call : lowering.graph().forward()) {
    if (kernels::kernel_of(call) != kernels::onednn_convolution().name()) continue;
    ++report.convolutions;
    const kernels::CallSite site = site_of(lowering, call);
    int64_t outputs = 0;
    const std::string reason = refusal(site, written, outputs);
    std::string note;
    if (reason.empty()) {
      const kernels::WinogradError error = take(lowering, call, site, outputs);
      note = "its errors are up to " + in_words(error);
      report.winograd_error = std::max(report.winograd_error, error.winograd);
      report.direct_error = std::max(report.direct_error, error.direct);
      ++report.by_winograd;
    }
    explain(report, lowering, call, reason, note);
  }
}

std::string winograd_text(const Report& report) {
  std::string text = std::to_string(report.by_winograd) + " of " + std::to_string(report.convolutions) +
                     " convolutions by Winograd's algorithm";
  if (report.by_winograd > 0)
    text += "; the errors of one are up to " + in_words({report.winograd_error, report.direct_error});
  return text;
}

}  // namespace atenon::lower
