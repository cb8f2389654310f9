#include "capture/discharge.h"

#include <algorithm>

#include "capture/same_computation.h"
#include "capture/trace.h"
#include "decompose/decompose.h"
#include "verify/verify.h"

namespace atenon::capture {
namespace {

constexpr size_t most_depth = 2;         // of captures in the middle of captures
constexpr int64_t most_values = 2;       // that are looked at one by one
constexpr int64_t most_tests = 4;        // of which one capture for all that they keep out is made
constexpr size_t most_expressions = 64;  // of sizes, that are compared with each other
constexpr int64_t farthest = 1024;       // from the example's size, where one is looked for that is kept out
constexpr int64_t least_value = 1;       // a loop that halves a size ends at 1, and need not at 0

// Another capture in the middle of one, of which nothing is left: what the session knows of the first, and Python's
// outputs, are as they were.
class Aside {
 public:
  explicit Aside(Session& session) : session_(session), recording_(std::move(session)) {
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
  }
  Aside(const Aside&) = delete;

 private:
  Session& session_;
  Recording recording_;
  std::vector<std::pair<const char*, Ref>> streams_;
};

// Sizes of a dimension that an assumption keeps out: those for which `truth` holds.
struct Excluded {
  SymBool truth;
  std::string symbol;
  bool is_one;
};

// What an assumption about one size of the inputs keeps out: size by size, where they are few, or, of a test, all at
// once. Nothing where no other capture can say that it does not matter.
std::vector<Excluded> excluded_by(const ir::Constraint& assumption, const std::vector<ir::Symbol>& symbols,
                                  const std::vector<SymBool>& tested) {
  const std::set<std::string> names = assumption.truth.symbols();
  const auto symbol = std::ranges::find_if(
      symbols, [&](const ir::Symbol& known) { return names == std::set<std::string>{known.name}; });
  if (symbol == symbols.end() || symbol->source.empty() || !symbol->hint) return {};
  shape::Facts facts;
  facts.declare(symbol->name, symbol->range);
  const SymInt size = SymInt::symbol(symbol->name);
  SymBool contrary = shape::negate(assumption.truth);
  // That of s < 8*((s + 7)//8) is the equality, from which more follows.
  if (const shape::BoolNode* relation = contrary.node();
      relation && relation->kind == SymBool::Kind::le && facts.proves(shape::less_equal(0, relation->difference)))
    contrary = shape::equal(relation->difference, 0);
  if (!facts.assume(contrary)) return {};
  const shape::Range values = facts.bounds(size);
  std::vector<Excluded> excluded;
  if (values.upper <= values.lower + most_values - 1) {
    for (int64_t value = values.lower; value <= values.upper; ++value)
      excluded.push_back({shape::equal(size, value), symbol->name, true});
  } else if (std::ranges::find(tested, assumption.truth) != tested.end()) {
    excluded.push_back({contrary, symbol->name, false});
  }
  return excluded;
}

// The size of a dimension, next to what it is in `sizes`, for which the truths hold.
std::optional<int64_t> nearest(const ir::Symbol& symbol, const std::vector<SymBool>& truths, shape::Bindings sizes) {
  shape::Facts facts;
  facts.declare(symbol.name, symbol.range);
  facts.assume(truths.front());
  const shape::Range values = facts.bounds(SymInt::symbol(symbol.name));
  const auto is_so = [&](int64_t value) {
    if (value < least_value || !values.contains(value)) return false;
    sizes[symbol.name] = value;
    return std::ranges::all_of(truths, [&](const SymBool& truth) { return shape::evaluate(truth, sizes) == true; });
  };
  const int64_t from = std::clamp(*symbol.hint, values.lower, values.upper);
  for (int64_t distance = 0; distance <= farthest; ++distance)
    for (const int64_t value : {from - distance, from + distance})
      if (is_so(value)) return value;
  return std::nullopt;
}

// Lets expressions that are equal for the sizes of which the facts hold be the same one.
class Unify {
 public:
  explicit Unify(const shape::Facts& facts) : facts_(facts) {}

  void operator()(ir::Graph& graph) {
    for (const auto& input : graph.inputs()) unify(input->type);
    for (ir::Node& node : graph.forward()) {
      std::vector<Named> keywords = node.keywords();
      for (Named& keyword : keywords) keyword.argument = unified(keyword.argument);
      node.set_arguments(unified(node.arguments()), std::move(keywords));
      for (const auto& result : node.results()) unify(result->type);
    }
    graph.set_outputs(unified(graph.outputs()));
  }

 private:
  SymInt unified(const SymInt& x) {
    if (x.is_constant()) return x;
    if (const auto seen = std::ranges::find(seen_, x, &std::pair<SymInt, SymInt>::first); seen != seen_.end())
      return seen->second;
    SymInt same = facts_.simplify(x);
    if (seen_.size() < most_expressions)
      for (const auto& [other, first] : seen_)
        if (!same.is_constant() && facts_.proves(shape::equal(same, first))) {
          same = first;
          break;
        }
    return seen_.emplace_back(x, same).second;
  }

  ir::Argument unified(const ir::Argument& argument) {
    if (argument.is<SymInt>()) return unified(argument.get<SymInt>());
    if (argument.is<ir::ArgumentList>()) return unified(argument.get<ir::ArgumentList>());
    return argument;
  }

  ir::ArgumentList unified(ir::ArgumentList arguments) {
    for (ir::Argument& argument : arguments) argument = unified(argument);
    return arguments;
  }

  void unify(ir::Type& type) {
    if (auto* meta = std::get_if<ir::TensorMeta>(&type))
      for (SymInt& size : meta->sizes) size = unified(size);
  }

  const shape::Facts& facts_;
  std::vector<std::pair<SymInt, SymInt>> seen_{{0, 0}, {1, 1}};
};

class Discharge {
 public:
  Discharge(Session& session, PyObject* model, const Example& example, const Options& options)
      : session_(session), model_(model), example_(example), options_(options) {
    options_.weights.clear();  // the model has them by now
  }

  void run(ir::ExportedProgram& program) {
    std::vector<ir::Constraint>& assumptions = program.entries[0].variants[0].assumptions;
    int64_t tests = 0;
    for (const ir::Constraint& assumption : std::vector(assumptions)) {
      const std::vector<Excluded> excluded = excluded_by(assumption, program.entries[0].symbols, session_.tested);
      if (excluded.empty() || (!excluded[0].is_one && ++tests > most_tests)) continue;
      const std::vector<ir::Constraint> before = assumptions;
      std::erase_if(assumptions, [&](const ir::Constraint& other) { return other.truth == assumption.truth; });
      std::vector<ir::Constraint> kept;
      for (const Excluded& sizes : excluded)
        if (!agrees(program, sizes)) {
          kept.push_back(assumption);
          kept.back().truth = shape::negate(sizes.truth);
        }
      const bool lets_in = kept.size() < excluded.size();
      assumptions.insert(assumptions.end(), kept.begin(), kept.end());
      if (!lets_in || !verify::check(program, session_.opset))
        assumptions = before;
      else
        discharged_.push_back(assumption.truth);
    }
  }

 private:
  // A draw that is no part of what is computed, but of those behind it.
  bool has_unread_draw(const ir::ExportedProgram& program) const {
    for (const ir::Node& node : program.entries[0].variants[0].graph.forward())
      if (!node.has_users() && session_.opset.has_tag(node, "random")) return true;
    return false;
  }

  // Whether the program, under its assumptions, is right for these sizes: another capture, for them alone, assumes
  // nothing more, and computes the same.
  bool agrees(const ir::ExportedProgram& program, const Excluded& sizes) {
    if (has_unread_draw(program)) return false;
    const ir::EntryPoint& entry = program.entries[0];
    shape::Bindings hints;
    for (const ir::Symbol& symbol : entry.symbols)
      if (symbol.hint) hints[symbol.name] = *symbol.hint;
    Example example = example_;
    example.known = {sizes.truth};
    for (const ir::Constraint& assumption : entry.variants[0].assumptions)
      if (shape::evaluate(assumption.truth, hints)) example.known.push_back(assumption.truth);
    // Where tests that do not matter go as in the program, the two are most alike.
    std::vector<SymBool> wished = example.known;
    wished.insert(wished.end(), discharged_.begin(), discharged_.end());
    std::optional<int64_t> size = nearest(*entry.symbol(sizes.symbol), wished, hints);
    if (!size) size = nearest(*entry.symbol(sizes.symbol), example.known, hints);
    if (!size) return false;
    example.sizes[sizes.symbol] = *size;
    ++example.depth;
    Report unheard;
    const Aside aside(session_);
    std::optional<Traced> traced = trace(session_, model_, example, options_, unheard);
    if (!traced || has_unread_draw(traced->program)) return false;
    ir::ExportedProgram here = program.clone();
    std::vector<ir::Constraint>& assumptions = here.entries[0].variants[0].assumptions;
    assumptions.push_back({.truth = sizes.truth});
    const shape::Facts facts = here.entries[0].facts(here.entries[0].variants[0]);
    std::vector<ir::Constraint>& others = traced->program.entries[0].variants[0].assumptions;
    if (!std::ranges::all_of(others, [&](const ir::Constraint& other) { return facts.proves(other.truth); }))
      return false;
    // squeeze() leaves another rank where a size is 1, which nothing behind it was made for.
    if (!verify::check(here, session_.opset)) return false;
    others = assumptions;
    Unify unify(facts);
    for (ir::ExportedProgram* captured : {&here, &traced->program}) unify(captured->entries[0].variants[0].graph);
    // What only its decomposition shows to do nothing, as contiguous(), is gone then.
    Result<ir::ExportedProgram> ours = decompose::run(std::move(here), session_.opset, {}),
                                theirs = decompose::run(std::move(traced->program), session_.opset, {});
    if (!ours || !theirs) return false;
    for (ir::ExportedProgram* captured : {&*ours, &*theirs}) unify(captured->entries[0].variants[0].graph);
    return compute_the_same(*ours, *theirs, session_.opset);
  }

  Session& session_;
  PyObject* model_;
  const Example& example_;
  Options options_;
  std::vector<SymBool> discharged_;
};

}  // namespace

bool may_discharge(const Session& session, const ir::Constraint& assumption, const std::vector<ir::Symbol>& symbols,
                   const Example& example, const Options& options) {
  return !options.is_draft && example.depth < most_depth && !excluded_by(assumption, symbols, session.tested).empty();
}

void discharge(Session& session, PyObject* model, const Example& example, const Options& options,
               ir::ExportedProgram& program) {
  if (options.is_draft || example.depth >= most_depth) return;
  Discharge(session, model, example, options).run(program);
}

}  // namespace atenon::capture
