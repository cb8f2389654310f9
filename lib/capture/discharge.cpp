#include "capture/discharge.h"

#include "capture/same_computation.h"
#include "capture/trace.h"
#include "decompose/decompose.h"
#include "verify/verify.h"

namespace atenon::capture {
namespace {

constexpr size_t most_sizes = 2;    // that are given at once: each is another capture
constexpr int64_t most_values = 2;  // of a dimension, kept out by one assumption
constexpr int64_t least_value = 1;  // a loop that halves a size ends at 1, and need not at 0

// Another capture in the middle of one, of which nothing is left: what the session knows of the first, and Python's
// outputs, are as they were.
class Aside {
 public:
  explicit Aside(Session& session)
      : session_(session), recording_(std::move(session)), number_(session.recording_number) {
    const Ref io(PyImport_ImportModule("io"));
    for (const char* name : {"stdout", "stderr"}) {
      streams_.emplace_back(name, Ref::borrow(PySys_GetObject(name)));
      if (const Ref nowhere(io ? PyObject_CallMethod(io.get(), "StringIO", nullptr) : nullptr); nowhere)
        PySys_SetObject(name, nowhere.get());
    }
  }
  ~Aside() {
    PyErr_Clear();
    for (const auto& [name, stream] : streams_) PySys_SetObject(name, stream.get());
    static_cast<Recording&>(session_) = std::move(recording_);
    session_.recording_number = number_;
  }
  Aside(const Aside&) = delete;

 private:
  Session& session_;
  Recording recording_;
  uint64_t number_;
  std::vector<std::pair<const char*, Ref>> streams_;
};

struct Excluded {
  std::string symbol;
  shape::Range values;
};

// What an assumption about one size of the inputs keeps out of its range.
std::optional<Excluded> excluded_by(const SymBool& truth, const std::vector<ir::Symbol>& symbols) {
  const std::set<std::string> names = truth.symbols();
  const auto symbol = std::ranges::find_if(
      symbols, [&](const ir::Symbol& known) { return names == std::set<std::string>{known.name}; });
  if (symbol == symbols.end() || symbol->source.empty()) return std::nullopt;
  shape::Facts facts;
  facts.declare(symbol->name, symbol->range);
  if (!facts.assume(shape::negate(truth))) return std::nullopt;
  const shape::Range values = facts.bounds(SymInt::symbol(symbol->name));
  if (values.upper > values.lower + most_values - 1) return std::nullopt;
  return Excluded{symbol->name, values};
}

class Discharge {
 public:
  Discharge(Session& session, PyObject* model, const Example& example, const Options& options)
      : session_(session), model_(model), example_(example), options_(options) {
    options_.weights.clear();  // the model has them by now
  }

  void run(ir::ExportedProgram& program) {
    std::vector<ir::Constraint>& assumptions = program.entries[0].variants[0].assumptions;
    for (const ir::Constraint& assumption : std::vector(assumptions)) {
      const std::optional<Excluded> excluded = excluded_by(assumption.truth, program.entries[0].symbols);
      if (!excluded) continue;
      const std::vector<ir::Constraint> before = assumptions;
      std::erase_if(assumptions, [&](const ir::Constraint& other) { return other.truth == assumption.truth; });
      std::vector<ir::Constraint> kept;
      for (int64_t value = excluded->values.lower; value <= excluded->values.upper; ++value)
        if (value < least_value || !agrees(program, excluded->symbol, value)) {
          kept.push_back(assumption);
          kept.back().truth = shape::not_equal(SymInt::symbol(excluded->symbol), value);
        }
      const bool lets_in = static_cast<int64_t>(kept.size()) <= excluded->values.upper - excluded->values.lower;
      assumptions.insert(assumptions.end(), kept.begin(), kept.end());
      if (!lets_in || !verify::check(program, session_.opset)) assumptions = before;
    }
  }

 private:
  // Whether the program, under its assumptions, is right where the size is `value`.
  bool agrees(const ir::ExportedProgram& program, const std::string& symbol, int64_t value) {
    Example example = example_;
    example.sizes[symbol] = value;
    Report unheard;
    const Aside aside(session_);
    std::optional<Traced> traced = trace(session_, model_, example, options_, unheard);
    if (!traced) return false;
    ir::ExportedProgram here = program.clone();
    for (ir::ExportedProgram* captured : {&here, &traced->program}) {
      ir::EntryPoint& entry = captured->entries[0];
      entry.variants[0].substitute({{symbol, SymInt(value)}});
      std::erase_if(entry.symbols, [&](const ir::Symbol& known) { return known.name == symbol; });
    }
    const shape::Facts facts = here.entries[0].facts(here.entries[0].variants[0]);
    for (const ir::Constraint& assumption : traced->program.entries[0].variants[0].assumptions)
      if (facts.decide(assumption.truth) != shape::Truth::proven) return false;
    // squeeze() leaves another rank where a size is 1, which nothing behind it was made for.
    if (!verify::check(here, session_.opset)) return false;
    // What only its decomposition shows to do nothing, as contiguous(), is gone then.
    const Result<ir::ExportedProgram> ours = decompose::run(std::move(here), session_.opset, {}),
                                      theirs = decompose::run(std::move(traced->program), session_.opset, {});
    return ours && theirs && compute_the_same(*ours, *theirs, session_.opset);
  }

  Session& session_;
  PyObject* model_;
  const Example& example_;
  Options options_;
};

}  // namespace

bool may_discharge(const ir::Constraint& assumption, const std::vector<ir::Symbol>& symbols, const Example& example,
                   const Options& options) {
  return !options.is_draft && example.sizes.size() < most_sizes && excluded_by(assumption.truth, symbols);
}

void discharge(Session& session, PyObject* model, const Example& example, const Options& options,
               ir::ExportedProgram& program) {
  if (options.is_draft || example.sizes.size() >= most_sizes) return;
  Discharge(session, model, example, options).run(program);
}

}  // namespace atenon::capture
