// A draft goes on where a capture is refused, so that all problems of a model are reported at once.
#include <algorithm>

#include "capture/callstack.h"
#include "capture/failure.h"
#include "capture/session.h"

namespace atenon::capture {

bool Session::tolerate() {
  if (!is_draft || !PyErr_Occurred() || !PyErr_ExceptionMatches(capture_error.get())) return false;
  Diagnostic finding = diagnostic_of_exception(*this);
  finding.where = call_stacks->user_line();
  const bool is_known = std::any_of(findings.begin(), findings.end(), [&](const Diagnostic& other) {
    return other.where.file == finding.where.file && other.where.line == finding.where.line &&
           other.message == finding.message;
  });
  if (!is_known) findings.push_back(std::move(finding));
  return true;
}

std::optional<reference::Datum> Session::example_value(ir::Value* value) {
  reference::Environment environment{.symbols = hints};
  for (const Lifted& entry : lifted) environment.values.emplace(entry.base->input, entry.tensor);
  for (const auto& [input, tensor] : examples) environment.values.emplace(input, tensor);
  // Operands before their readers: a node is met a second time when all of them are there.
  std::vector<ir::Value*> open{value};
  while (!open.empty()) {
    ir::Value* next = open.back();
    if (environment.values.contains(next)) {
      open.pop_back();
      continue;
    }
    if (!next->producer) return raise(311, "this needs example inputs: an inputs() in the file"), std::nullopt;
    std::vector<ir::Value*> missing;
    for (ir::Value* operand : next->producer->operands())
      if (!environment.values.contains(operand)) missing.push_back(operand);
    open.insert(open.end(), missing.begin(), missing.end());
    if (!missing.empty()) continue;
    if (Result<void> done = reference::evaluate(opset, *next->producer, environment); !done)
      return raise(done.error()), std::nullopt;
  }
  return environment.values.at(value);
}

std::optional<int64_t> Session::example_value(const SymInt& size) {
  shape::Bindings bindings = hints;
  for (const std::string& symbol : size.symbols()) {
    ir::Value* value = bindings.contains(symbol) ? nullptr : graph.find(symbol);
    const std::optional<reference::Datum> datum = value ? example_value(value) : std::nullopt;
    if (const auto* number = datum ? std::get_if<int64_t>(&*datum) : nullptr) bindings[symbol] = *number;
  }
  std::optional<int64_t> known = shape::evaluate(size, bindings);
  if (!known) raise(311, "what `" + size.to_string() + "` is for the example inputs is not known");
  return known;
}

}  // namespace atenon::capture
