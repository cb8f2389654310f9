#include "capture/trace.h"

#include <algorithm>
#include <set>

#include "capture/callstack.h"
#include "capture/dimensions.h"
#include "capture/discharge.h"
#include "capture/promises.h"
#include "capture/pytree.h"
#include "capture/state.h"
#include "capture/symbols.h"
#include "capture/tensor_data.h"
#include "ir/written_state.h"
#include "opset/dead_nodes.h"
#include "opset/versions.h"

namespace atenon::capture {
namespace {

// Another capture, for some of the sizes, is held against the first one.
bool promises_nothing(const Example& example) { return example.depth > 0; }

class Trace {
 public:
  Trace(Session& session, PyObject* model) : session_(session), model_(model) {}

  std::optional<Traced> run(const Example& example, const Options& options, Report& report);

 private:
  bool write_outputs(PyObject* result, const Inputs& inputs);
  bool add_mutations(const Inputs& inputs, const std::vector<Assigned>& assigned);
  bool add_result(PyObject* result);
  bool stays(const Lifted& state, ir::Value* left);
  bool check_buffers_read(const std::vector<Assigned>& assigned);
  bool check_arrays();
  bool may_keep_promises(const Example& example, const Options& options);
  void eliminate_unread_nodes();
  void unify_automatic_symbols();
  void minimise_assumptions();
  void prefer_user_names(Inputs& inputs);
  ir::ExportedProgram finish(const Inputs& inputs);

  Session& session_;
  PyObject* model_;
  std::vector<Argument> outputs_;
  std::vector<Diagnostic> tables_;  // E0316, of state that each call makes anew
  ir::GraphSignature signature_;
  ir::Variant variant_;
};

bool Trace::add_result(PyObject* result) {
  std::vector<Leaf> leaves;
  if (!flatten(session_, result, "", signature_.output_tree, leaves)) return false;
  const std::vector<std::string> paths = signature_.output_tree.leaf_paths();
  for (size_t i = 0; i < leaves.size(); ++i) {
    PyObject* leaf = leaves[i].object.get();
    Argument output;
    if (TensorObject* tensor = as_tensor(leaf)) {
      ir::Value* value = session_.read(*tensor);
      if (!value) return false;
      output = value;
    } else if (SymbolObject* symbol = as_symbol(leaf)) {
      std::visit([&](const auto& value) { output = value; }, *symbol->value);
    } else if (leaf == Py_None) {
      output = ir::None{};
    } else if (PyBool_Check(leaf)) {
      output = SymBool(leaf == Py_True);
    } else if (const auto integer = PyLong_Check(leaf) ? integer_of(leaf) : std::nullopt) {
      output = *integer;
    } else if (PyFloat_Check(leaf)) {
      output = SymFloat(PyFloat_AS_DOUBLE(leaf));
    } else if (PyUnicode_Check(leaf)) {
      output = text_of(leaf);
    } else {
      Diagnostic refused =
          error(Status::unsupported, 315,
                (PyLong_Check(leaf) ? "forward returns an int of more than 64 bits"
                                    : std::string("forward returns a ") + Py_TYPE(leaf)->tp_name) +
                    (leaves[i].path.empty() ? "" : " at " + leaves[i].path) + ", which no program can give");
      // A class of Python's own cannot be registered: a generator, a set, the keys of a dict.
      const bool is_own = !(Py_TYPE(leaf)->tp_flags & Py_TPFLAGS_HEAPTYPE),
                 is_series = is_own && Py_TYPE(leaf)->tp_iter;
      refused.notes.push_back(
          {is_series ? "fix: list(...) around it, or tuple(...)"
                     : std::string("fix: return tensors, numbers, and tuples, lists and dicts of them") +
                           (is_own ? "" : "; or register the class with torch.utils._pytree.register_pytree_node")});
      if (const std::string place = session_.call_stacks->definition(model_); !place.empty())
        refused.notes.push_back({"forward is defined at " + place});
      session_.raise(std::move(refused));
      if (!session_.tolerate()) return false;
      output = ir::None{};
    }
    outputs_.push_back(std::move(output));
    signature_.outputs.push_back({ir::OutputKind::user_output, i < paths.size() ? paths[i] : std::to_string(i)});
  }
  return true;
}

ir::OutputKind mutation_of(ir::InputKind kind) {
  return kind == ir::InputKind::parameter ? ir::OutputKind::parameter_mutation : ir::OutputKind::buffer_mutation;
}

// State has one type from call to call. "from f32[1] to f32[3]" where the assigned content has another one, else "".
std::string change_of_type(const Session& session, const Assigned& state) {
  const auto entry = std::ranges::find(session.state, state.name, &StateEntry::name);
  if (entry == session.state.end()) return "";
  const ir::TensorMeta was{.dtype = entry->tensor.dtype,
                           .sizes = {entry->tensor.sizes.begin(), entry->tensor.sizes.end()}};
  const ir::TensorMeta& now = state.value->meta();
  const bool is_same = now.dtype == was.dtype && now.sizes == was.sizes;
  return is_same ? "" : "from " + ir::to_string(was) + " to " + ir::to_string(now);
}

// What forward has put in the place of this state, whatever was written into it before; null where it has not.
const Assigned* replacement(const std::vector<Assigned>& assigned, const std::string& name) {
  const auto found = std::ranges::find(assigned, name, &Assigned::name);
  return found == assigned.end() ? nullptr : &*found;
}

// The input of the graph that a parameter or buffer is, or null where forward never met it.
const Lifted* input_of(const Session& session, const std::string& name) {
  for (const Lifted& entry : session.lifted)
    if (entry.spec.target == name) return &entry;
  return nullptr;
}

// Of a buffer that a number was read from.
const Lifted& input_with(const Session& session, const std::shared_ptr<Base>& base) {
  return *std::ranges::find(session.lifted, base, &Lifted::base);
}

// Was there nothing that forward read, and is what it made the same in all calls? Such is a table that is made when it
// is first needed, or too small: each call may make it anew.
bool is_table(Session& session, const std::vector<Assigned>& assigned, const Assigned& state) {
  const Lifted* before = input_of(session, state.name);
  const size_t read_before = session.buffers_read.size();
  if ((before && before->base->input->has_users()) || !session.known_value(state.value)) return false;
  const auto changes = [&](const Lifted& entry) {
    return entry.base->is_written() || replacement(assigned, entry.spec.target);
  };
  return std::none_of(session.buffers_read.begin() + static_cast<ptrdiff_t>(read_before), session.buffers_read.end(),
                      [&](const auto& read) { return changes(input_with(session, read.first)); });
}

// The name of other state in the same memory as one that forward replaces, where forward also reads or writes it, or
// replaces both: one input of the program stands for both, and they would no longer be the same. "" where there is
// none.
std::string shares_memory(const Session& session, const std::vector<Assigned>& assigned, const Assigned& state) {
  const auto own = std::ranges::find(session.state, state.name, &StateEntry::name);
  if (own == session.state.end() || !own->tensor.storage) return "";
  const bool is_met = std::ranges::any_of(session.lifted, [&](const Lifted& entry) {
    return same_geometry(entry.tensor, own->tensor) &&
           (entry.base->is_written() || entry.base->input->has_users() || entry.base->input->returned > 0);
  });
  for (const StateEntry& other : session.state)
    if (other.name != state.name && same_geometry(other.tensor, own->tensor) &&
        (is_met || replacement(assigned, other.name)))
      return other.name;
  return "";
}

// Is it the same content in another dtype, and did forward read that only (self.table = self.table.to(x.dtype))? A call
// that finds what this one leaves converts it to what it is, so each call may convert anew.
bool is_converted(const Session& session, const Assigned& state) {
  const Lifted* before = input_of(session, state.name);
  const ir::Node* made_by = state.value->producer;
  if (!before || !made_by) return false;
  const ir::Value* input = before->base->input;
  const auto is_same_cast = [&](const ir::Node* node) {
    return session.opset.has_tag(*node, "converts") && node->operands().front() == input &&
           node->result()->meta().dtype == state.value->meta().dtype;
  };
  return is_same_cast(made_by) && input->returned == 0 && std::ranges::all_of(input->users, is_same_cast) &&
         std::ranges::none_of(session.buffers_read, [&](const auto& read) { return read.first == before->base; });
}

void tell_place(const Session& session, const Assigned& state, Diagnostic& refused) {
  if (const ir::Node* node = state.value->producer)
    if (const std::string place = session.program.provenance.at(node->provenance).place(); !place.empty())
      refused.notes.push_back({"it is made at " + place});
}

constexpr const char *fix_of_conversion = "fix: convert the model before it is captured",
                     *fix_of_growth = "fix: keep a buffer of the largest size, and write into a slice of it";

// E0312. What is first empty and then as large as an input asks for keeps its type once it is there.
Diagnostic changes_type(const Session& session, const Assigned& state, const std::string& said) {
  Diagnostic refused = error(Status::unsupported, 312, said);
  tell_place(session, state, refused);
  const std::vector<SymInt>& sizes = state.value->meta().sizes;
  const Lifted* before = input_of(session, state.name);
  if (before && before->base->input->meta().sizes == sizes) {
    refused.notes.push_back({fix_of_conversion});
    return refused;
  }
  refused.notes.push_back({fix_of_growth});
  if (std::ranges::all_of(sizes, [](const SymInt& size) { return size.constant().has_value(); }))
    refused.notes.push_back({"fix: call the model once before it is captured, if the type is then what it stays"});
  return refused;
}

// Updated state and inputs are outputs, before all others.
bool Trace::add_mutations(const Inputs& inputs, const std::vector<Assigned>& assigned) {
  for (Lifted& entry : session_.lifted) {
    const bool is_replaced = replacement(assigned, entry.spec.target);
    if (!entry.base->is_written() && !is_replaced) continue;
    // A plain attribute that forward updates is state: it becomes a buffer that no state dict has.
    if (entry.spec.kind == ir::InputKind::constant_tensor) {
      entry.spec.kind = ir::InputKind::buffer;
      entry.spec.persistent = false;
    }
    if (is_replaced) continue;
    outputs_.push_back(entry.base->value);
    signature_.outputs.push_back({mutation_of(entry.spec.kind), entry.spec.target});
  }
  for (const Assigned& state : assigned) {
    if (const std::string other = shares_memory(session_, assigned, state); !other.empty()) {
      Diagnostic refused = error(Status::unsupported, 312,
                                 "forward replaces `" + state.name + "`, which shares its memory with `" + other + "`");
      tell_place(session_, state, refused);
      refused.notes.push_back({"fix: let each have its own: self.register_buffer(NAME, tensor.clone())"});
      return session_.raise(std::move(refused)), false;
    }
    if (const std::string change = change_of_type(session_, state); !change.empty()) {
      const std::string said = "forward changes the type of `" + state.name + "` " + change;
      const bool is_conversion = is_converted(session_, state);
      if (!is_conversion && !is_table(session_, assigned, state))
        return session_.raise(changes_type(session_, state, said)), false;
      tables_.push_back(error(Status::unsupported, 316,
                              said + ", which the program does not: it computes what the first call computes")
                            .note(is_conversion ? fix_of_conversion : fix_of_growth));
      continue;
    }
    outputs_.push_back(state.value);
    signature_.outputs.push_back({mutation_of(state.kind), state.name});
  }
  for (size_t i = 0; i < inputs.bases.size(); ++i) {
    if (!inputs.bases[i] || !inputs.bases[i]->is_written()) continue;
    outputs_.push_back(inputs.bases[i]->value);
    signature_.outputs.push_back({ir::OutputKind::user_input_mutation, inputs.specs[i].target});
  }
  return true;
}

// Does state end each call as it began it? What forward leaves in it must follow from state alone that does so, too.
bool Trace::stays(const Lifted& state, ir::Value* left) {
  const std::optional<reference::Datum> datum = session_.known_value(left);
  return datum && hold_the_same(state.tensor, std::get<Tensor>(*datum));
}

bool Trace::check_buffers_read(const std::vector<Assigned>& assigned) {
  // stays() reads numbers as well, at no line, which are looked at in turn.
  const SourceSpan first_line = session_.buffers_read.empty() ? SourceSpan() : session_.buffers_read.front().second;
  for (size_t i = 0; i < session_.buffers_read.size(); ++i) {
    const auto [base, line] = session_.buffers_read[i];
    const Lifted& entry = input_with(session_, base);
    const Assigned* replaced = replacement(assigned, entry.spec.target);
    // What has another type then is told of by itself: E0312, E0316.
    const bool is_replaced = replaced && change_of_type(session_, *replaced).empty();
    if (!is_replaced && !base->is_written()) continue;
    if (stays(entry, is_replaced ? replaced->value : base->value)) continue;
    if (PyErr_Occurred()) return false;
    session_.raise(error(Status::unsupported, 311,
                         "a number was read from a buffer that forward updates: it would be another one at the next "
                         "call")
                       .note("read at " + CallStacks::to_string(line.known() ? line : first_line))
                       .note("fix: compute with tensors instead"));
    return session_.tolerate();
  }
  return true;
}

// What the graph reads holds what it held before forward wrote into an array of it.
bool Trace::check_arrays() {
  for (const auto& [value, before, line, array] : session_.arrays) {
    const Tensor& now = array ? *array : std::get<Tensor>(session_.constants_known.values.at(value));
    const bool is_read = array || value->has_users() || std::ranges::count(outputs_, Argument(value)) > 0;
    if (!is_read || hold_the_same(before, now)) continue;
    session_.raise(error(Status::unsupported, 312, "forward writes into an array of a tensor that it also reads")
                       .note("the array is made at " + CallStacks::to_string(line))
                       .note("fix: .numpy().copy() there, and torch.from_numpy(array) once it is written"));
    if (!session_.tolerate()) return false;
  }
  return true;
}

bool Trace::write_outputs(PyObject* result, const Inputs& inputs) {
  const std::optional<std::vector<Assigned>> assigned = assigned_state(session_, model_);
  return assigned && check_buffers_read(*assigned) && add_mutations(inputs, *assigned) && add_result(result) &&
         check_arrays();
}

// Whether what stays an assumption, whatever other captures find, breaks no promise: they take their time.
bool Trace::may_keep_promises(const Example& example, const Options& options) {
  std::vector<ir::Constraint> staying = session_.assumptions;
  std::erase_if(staying, [&](const ir::Constraint& assumption) {
    return may_discharge(session_, assumption, session_.symbols, example, options);
  });
  return promises_nothing(example) || keeps_promises(session_, {.symbols = session_.symbols,
                                                                .assumptions = staying,
                                                                .provenance = session_.program.provenance,
                                                                .is_all = false});
}

// Views that were only written through, and what Python computed and forgot.
void Trace::eliminate_unread_nodes() {
  opset::eliminate_dead_nodes(session_.opset, variant_);
  std::set<std::string> mentioned = variant_.graph.symbols();
  for (const auto& [name, graph] : variant_.subgraphs) mentioned.merge(graph.symbols());
  for (const ir::Constraint& constraint : variant_.assumptions) mentioned.merge(constraint.truth.symbols());
  std::erase_if(session_.symbols,
                [&](const ir::Symbol& symbol) { return symbol.source.empty() && !mentioned.contains(symbol.name); });
}

// Drops what is known already, or what the others imply.
void minimise(std::vector<ir::Constraint>& constraints, const shape::Facts& known) {
  for (size_t i = constraints.size(); i-- > 0;) {
    std::vector<shape::SymBool> others;
    for (size_t other = 0; other < constraints.size(); ++other)
      if (other != i) others.push_back(constraints[other].truth);
    const shape::SymBool& truth = constraints[i].truth;
    if (known.about(truth, others).decide(truth) == shape::Truth::proven)
      constraints.erase(constraints.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Trace::minimise_assumptions() {
  shape::Facts known;
  for (const ir::Symbol& symbol : session_.symbols) known.declare(symbol.name, symbol.range);
  minimise(session_.assumptions, known);
  for (const ir::Constraint& constraint : session_.assumptions) known.assume(constraint.truth);
  for (auto& [name, graph] : session_.subgraphs) minimise(graph.assumptions, known);
}

ir::ExportedProgram Trace::finish(const Inputs& inputs) {
  session_.graph.set_outputs(std::move(outputs_));
  minimise_assumptions();
  variant_.graph = std::move(session_.graph);
  variant_.subgraphs = std::move(session_.subgraphs);
  variant_.assumptions = std::move(session_.assumptions);
  eliminate_unread_nodes();
  keep_used_state(session_, variant_.graph, ir::written_state(signature_));

  // State first, with the constants that forward has made, then what the user passes; some of that has no Value (a
  // number, None).
  for (const Lifted& entry : session_.lifted) signature_.inputs.push_back(entry.spec);
  signature_.inputs.insert(signature_.inputs.end(), inputs.specs.begin(), inputs.specs.end());
  std::vector<std::string> order;
  for (const ir::InputSpec& spec : signature_.inputs)
    if (!spec.value.empty()) order.push_back(spec.value);
  variant_.graph.order_inputs(order);
  signature_.input_tree = inputs.tree;

  std::set<std::string> namespaces{"aten"}, blocks;
  const auto note_operators = [&](const ir::Graph& graph) {
    for (const ir::Node& node : graph.forward()) {
      namespaces.insert(node.target().substr(0, node.target().find("::")));
      const opset::Operator* op = session_.opset.find(node.target());
      if (op && op->brought_by()) blocks.insert(*op->brought_by());
    }
  };
  note_operators(variant_.graph);
  for (const auto& [name, graph] : variant_.subgraphs) note_operators(graph);

  ir::ExportedProgram program = std::move(session_.program);
  for (const std::string& name : namespaces) program.opsets.push_back({name, opset::newest_version});
  program.custom_blocks.assign(blocks.begin(), blocks.end());
  ir::EntryPoint entry{.symbols = std::move(session_.symbols), .signature = std::move(signature_)};
  entry.variants.push_back(std::move(variant_));
  program.entries.push_back(std::move(entry));
  return program;
}

// A dimension that was to be found out is the example's size where the program relies on that (Dim.AUTO only), the same
// symbol as another where it relies on both being equal, or what others give where it relies on that: s0 - 1.
void Trace::unify_automatic_symbols() {
  constexpr shape::Range any_size{0, shape::Range::highest};
  std::vector<ir::Symbol>& symbols = session_.symbols;
  for (size_t i = symbols.size(); i-- > 0;) {
    const ir::Symbol symbol = symbols[i];
    const auto is_of_inputs = [&](const SymInt& given) {  // that are still there
      const std::set<std::string> names = given.symbols();
      return !names.empty() && !names.contains(symbol.name) &&
             std::all_of(names.begin(), names.end(), [&](const auto& name) {
               return std::any_of(symbols.begin(), symbols.end(),
                                  [&](const ir::Symbol& other) { return other.name == name && other.hint; });
             });
    };
    const auto automatic = session_.automatic.find(symbol.name);
    if (automatic == session_.automatic.end()) continue;
    const SymInt size = SymInt::symbol(symbol.name);
    const auto is_known = [&](const SymInt& other) {
      return session_.facts.decide(shape::equal(size, other)) == shape::Truth::proven;
    };
    std::optional<SymInt> same;
    if (automatic->second && is_known(*symbol.hint)) same = SymInt(*symbol.hint);
    for (size_t other = 0; other < i && !same; ++other)
      if (symbols[other].hint && is_known(SymInt::symbol(symbols[other].name))) {
        same = SymInt::symbol(symbols[other].name);
        shape::Range& range = symbols[other].range;
        range = {std::max(range.lower, symbol.range.lower), std::min(range.upper, symbol.range.upper)};
      }
    if (const SymInt given = session_.facts.simplify(size); !same && symbol.range == any_size && is_of_inputs(given)) {
      same = given;
      // The symbol was known to be a size by its range.
      session_.assumptions.push_back(
          {.truth = shape::less_equal(0, given), .reason = symbol.source + " is " + given.to_string()});
    }
    if (!same) continue;
    const shape::Substitution substitution{{symbol.name, *same}};
    session_.graph.substitute(substitution);
    for (auto& [name, graph] : session_.subgraphs) graph.substitute(substitution);
    for (Argument& output : outputs_) output = ir::substitute(output, substitution);
    for (ir::Constraint& constraint : session_.assumptions)
      constraint.truth = shape::substitute(constraint.truth, substitution);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i));
  }
}

// What the user passes keeps its own name, and state of that name steps aside.
void Trace::prefer_user_names(Inputs& inputs) {
  for (ir::InputSpec& spec : inputs.specs) {
    const std::string wish = value_name(spec.target);
    const auto holder = std::find_if(session_.lifted.begin(), session_.lifted.end(),
                                     [&](const Lifted& entry) { return entry.spec.value == wish; });
    if (spec.value.empty() || spec.value == wish || holder == session_.lifted.end()) continue;
    ir::Value *state = session_.graph.find(wish), *input = session_.graph.find(spec.value);
    session_.graph.rename(state, wish + "_of_state");
    session_.graph.rename(input, wish);
    session_.graph.rename(state, spec.value);
    std::swap(holder->spec.value, spec.value);
  }
}

std::optional<Traced> Trace::run(const Example& example, const Options& options, Report& report) {
  session_.start_recording();
  session_.is_draft = options.is_draft;
  if (!collect_state(session_, model_)) return std::nullopt;
  if (!options.weights.empty())
    if (Result<void> loaded = load_weights(session_, model_, options.weights, report.warnings); !loaded) {
      session_.raise(loaded.error());
      return std::nullopt;
    }
  lift_state(session_);
  std::optional<Inputs> inputs = make_inputs(session_, example, model_, options);
  if (!inputs) return std::nullopt;
  prefer_user_names(*inputs);
  const PythonState python_state(model_);
  session_.is_tracing = true;
  const Ref result(PyObject_Call(model_, inputs->args.get(), inputs->keywords.get()));
  const bool is_well = result && write_outputs(result.get(), *inputs) && may_keep_promises(example, options);
  session_.is_tracing = false;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  std::vector<Diagnostic> changes = python_state.changes(*session_.call_stacks);
  python_state.restore();
  for (const Diagnostic& finding : session_.findings) report.warnings.push_back(finding);
  PyErr_Restore(type, value, traceback);
  if (!is_well) return std::nullopt;
  changes.insert(changes.end(), tables_.begin(), tables_.end());
  for (Diagnostic& change : changes) report.warnings.push_back(std::move(change));
  unify_automatic_symbols();
  return Traced{finish(*inputs), result};
}

}  // namespace

std::optional<Traced> trace(Session& session, PyObject* model, const Example& example, const Options& options,
                            Report& report) {
  std::optional<Traced> traced = Trace(session, model).run(example, options, report);
  if (!traced) return std::nullopt;
  discharge(session, model, example, options, traced->program);
  if (promises_nothing(example)) return traced;
  const ir::EntryPoint& entry = traced->program.entries[0];
  const size_t told = session.findings.size();
  if (!keeps_promises(session, {.symbols = entry.symbols,
                                .assumptions = entry.variants[0].assumptions,
                                .provenance = traced->program.provenance}))
    return std::nullopt;
  report.warnings.insert(report.warnings.end(), session.findings.begin() + static_cast<ptrdiff_t>(told),
                         session.findings.end());
  return traced;
}

}  // namespace atenon::capture
