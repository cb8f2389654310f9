#include "capture/session.h"

#include <algorithm>
#include <array>

#include "capture/callstack.h"

namespace atenon::capture {

Session::Session(opset::Opset& opset, std::string model_file, std::string python_folder)
    : opset(opset), call_stacks(std::make_unique<CallStacks>(std::move(model_file), std::move(python_folder))) {}

Session::~Session() = default;

void Session::start_recording() {
  static_cast<Recording&>(*this) = Recording();
  recording_number = ++recordings;
  call_stacks->forget_modules();
}

namespace {

// What a truth is of all numbers above 0, if it tells just 0 (of a size; of what may be a count) from them, as
// numel() > 0 does.
std::optional<bool> if_there_are_any(const SymBool& truth, const shape::Facts& facts) {
  const std::set<std::string> names = truth.symbols();
  const auto range = names.size() == 1 ? facts.ranges().find(*names.begin()) : facts.ranges().end();
  if (range == facts.ranges().end() || range->second.lower > 0 || range->second.upper < 2) return std::nullopt;
  const auto at = [&](int64_t n) { return shape::evaluate(truth, {{*names.begin(), n}}); };
  const bool tells_none = at(0) && at(1) && *at(0) != *at(1) && at(1) == at(2) && at(1) == at(1000);
  return tells_none ? at(1) : std::nullopt;
}

// The test in a line of Python, as it stands there; "test" where the line shows none, or a part of one.
std::string test_in(const SourceSpan& line) {
  const size_t start = static_cast<size_t>(std::max(line.column, 1)) - 1;
  if (start > line.text.size()) return "test";
  const std::string before = line.text.substr(0, start),
                    found = line.text.substr(start, static_cast<size_t>(line.width));
  const bool is_test = std::ranges::any_of(std::array{"if ", "while ", "not ", "and ", "or "},
                                           [&](const char* word) { return before.ends_with(word); });
  return is_test && std::ranges::count(found, '(') == std::ranges::count(found, ')') ? found : "test";
}

std::string shortened(const std::string& formula) {
  constexpr size_t most = 120;
  return formula.size() > most ? formula.substr(0, most) + "..." : formula;
}

}  // namespace

bool Session::decide(const SymBool& truth, const std::string& reason) { return decide_by_example(truth, reason, true); }

bool Session::decide_by_example(const SymBool& truth, const std::string& reason, bool is_test) {
  if (const auto constant = truth.constant()) return *constant;
  const shape::Truth known = facts.decide(truth);
  if (known != shape::Truth::open) return known == shape::Truth::proven;
  const std::optional<bool> example = shape::evaluate(truth, hints);
  if (example && !is_tracing) return *example;  // a look at a finished program
  const std::optional<bool> asserted = example || !is_tracing ? std::nullopt : call_stacks->asserted();
  if (asserted) return require(*asserted ? truth : shape::negate(truth), "asserted") == *asserted;
  if (!example) {
    const std::optional<bool> if_any = if_there_are_any(truth, facts);
    const std::string test = test_in(call_stacks->user_line());
    const std::string promise = if_any == false ? "torch._check of its opposite"
                                                : "torch._check(" + test + ")" + (if_any ? "" : " or of its opposite");
    std::string fix = "torch.cond(" + test + ", f, g, operands) runs one of two functions, " + promise +
                      " promises one answer; torch.sym_min, torch.sym_max and // need none";
    if (if_any) {
      const bool is_count = facts.ranges().at(*truth.symbols().begin()).lower >= 0;
      fix = std::string(is_count ? "leave a test for no elements out" : "where it counts, leave a test for none out") +
            ", since operators take tensors without elements. Or " + fix;
    }
    raise(311, "whether `" + shortened(truth.to_string()) + "` holds depends on data, and Python needs to know it here",
          fix);
    return false;
  }
  ir::Constraint constraint{.truth = *example ? truth : shape::negate(truth), .reason = reason};
  constraint.provenance = call_stacks->current(program.provenance);
  // The contrary of s % 3 > 0 is said as s % 3 == 0.
  const shape::BoolNode& relation = *constraint.truth.node();
  if (relation.kind == SymBool::Kind::le && facts.bounds(relation.difference).lower == 0)
    constraint.truth = shape::equal(relation.difference, 0);
  if (is_test) tested.push_back(constraint.truth);
  assume(std::move(constraint));
  return *example;
}

bool Session::require(const SymBool& truth, const std::string& reason) {
  const shape::Truth known = facts.decide(truth);
  if (known != shape::Truth::open) return known == shape::Truth::proven;
  if (shape::evaluate(truth, hints)) return decide_by_example(truth, reason, false);
  ir::Constraint constraint{.truth = truth, .reason = reason};
  constraint.provenance = call_stacks->current(program.provenance);
  assume(std::move(constraint));
  return true;
}

void Session::assume(ir::Constraint constraint) {
  if (facts.decide(constraint.truth) == shape::Truth::proven) return;
  facts.assume(constraint.truth);
  const bool is_of_inputs = shape::evaluate(constraint.truth, hints).has_value();
  for (size_t level = scopes.size(); level-- > 0;) {
    if (scopes[level].is_chosen || !is_of_inputs) {
      ir::Graph& inner = level + 1 < scopes.size() ? scopes[level + 1].outer : graph;
      inner.assumptions.push_back(std::move(constraint));
      return;
    }
    scopes[level].outside.assume(constraint.truth);
  }
  assumptions.push_back(std::move(constraint));
}

std::nullptr_t Session::raise(Diagnostic diagnostic) {
  if (PyErr_Occurred()) return nullptr;  // the cause is known already
  const Ref exception(PyObject_CallFunction(capture_error.get(), "s", diagnostic.message.c_str()));
  if (!exception) return nullptr;
  const Ref code(PyLong_FromLong(diagnostic.code)), status(PyLong_FromLong(static_cast<long>(diagnostic.status)));
  Ref notes(PyList_New(0));
  for (const Note& note : diagnostic.notes)
    if (const Ref text(PyUnicode_FromString(note.text.c_str())); text) PyList_Append(notes.get(), text.get());
  PyObject_SetAttrString(exception.get(), "code", code.get());
  PyObject_SetAttrString(exception.get(), "status", status.get());
  PyObject_SetAttrString(exception.get(), "notes", notes.get());
  PyErr_SetObject(capture_error.get(), exception.get());
  return nullptr;
}

std::nullptr_t Session::raise(int code, std::string message, std::string fix) {
  Diagnostic diagnostic = error(Status::unsupported, code, std::move(message));
  if (!fix.empty()) diagnostic.notes.push_back({"fix: " + fix});
  return raise(std::move(diagnostic));
}

}  // namespace atenon::capture
