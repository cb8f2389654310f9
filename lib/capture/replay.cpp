#include "capture/replay.h"

#include <algorithm>
#include <bit>
#include <list>

#include "capture/argument_object.h"
#include "capture/callstack.h"
#include "capture/symbols.h"
#include "ir/control_flow.h"

namespace atenon::capture {
namespace {

// What the symbol of a number is bound to: the integer, the bits of the double, the symbol of a truth or a float that
// is traced. Nothing for a tensor.
std::optional<SymInt> binding_of(PyObject* number) {
  if (PyFloat_Check(number)) return SymInt(std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(number)));
  SymbolObject* symbol = as_symbol(number);
  if (const auto* real = symbol ? std::get_if<SymFloat>(symbol->value) : nullptr)
    return real->node()->op == "number" ? std::optional(real->node()->integer) : std::nullopt;
  if (const auto* truth = symbol ? std::get_if<SymBool>(symbol->value) : nullptr)
    return truth->node()->kind == SymBool::Kind::ne ? std::optional(truth->node()->difference) : std::nullopt;
  return integer_of(number);
}

// What is in scope while a graph runs.
class Replay {
 public:
  Replay(Session& session, const ir::ExportedProgram& program)
      : session_(session), program_(program), entry_(program.entries[0]), variant_(entry_.variants[0]) {}

  Ref run(PyObject* leaves, PyObject* state);
  bool take_inputs(PyObject* leaves, PyObject* state);

 private:
  bool take(const ir::InputSpec& spec, PyObject* object);
  bool take_constant(const ir::InputSpec& spec, PyObject* object);
  bool check_ranges();
  bool check_sizes();
  bool check_assumptions(const std::vector<ir::Constraint>& assumptions, const std::set<std::string>* bound);
  bool holds(const SymBool& truth, const std::string& reason = "an assumption of an exported module");
  bool run_node(const ir::Node& node);
  Ref run_control_flow(const ir::Node& node, const std::vector<PyObject*>& arguments);
  Ref function_of(const std::string& subgraph);
  static PyObject* call_function(PyObject* self, PyObject* arguments);
  Ref call(const ir::Graph& graph, PyObject* arguments);
  bool bind_results(const ir::Node& node, PyObject* result);
  Ref object(const Argument& argument);
  bool violated(const std::string& message) {
    Diagnostic diagnostic = error(Status::violated, 330, message);
    diagnostic.notes.push_back({"fix: an input that fits, or an export with dynamic_shapes that allow this one"});
    session_.raise(std::move(diagnostic));
    return false;
  }

  Session& session_;
  const ir::ExportedProgram& program_;
  const ir::EntryPoint& entry_;
  const ir::Variant& variant_;
  const ir::Graph* graph_ = nullptr;  // the subgraph that runs, if one does
  std::map<const ir::Value*, Ref> values_;
  shape::Substitution symbols_;
  struct Size {
    std::string place;
    SymInt expected, actual;
  };
  std::vector<Size> sizes_;  // those that are not a symbol of their own
  struct Function {
    Replay* replay;
    const ir::Graph* graph;
  };
  std::list<Function> functions_;  // what the Python of function_of() points to
};

bool Replay::take_constant(const ir::InputSpec& spec, PyObject* object_given) {
  const Ref expected = object(*spec.constant);
  if (!expected) return false;
  const int same = PyObject_RichCompareBool(expected.get(), object_given, Py_EQ);
  if (same < 0) return false;
  return same || violated(spec.target + " is " + str_of(object_given) + ", but the program was made for " +
                          str_of(expected.get()));
}

bool Replay::take(const ir::InputSpec& spec, PyObject* given) {
  ir::Value* value = variant_.graph.find(spec.value);
  TensorObject* tensor = as_tensor(given);
  if (const auto number = value->is_tensor() ? std::nullopt : integer_of(given)) {
    symbols_.emplace(value->name, *number);
    values_[value] = Ref::borrow(given);
    return true;
  }
  if (!tensor)
    return violated(spec.target + " is a " + Py_TYPE(given)->tp_name + ", and the program takes " +
                    ir::to_string(value->type));
  const ir::TensorMeta meta = session_.meta(*tensor), &expected = value->meta();
  if (meta.dtype != expected.dtype)
    return violated(spec.target + " is " + ir::to_string(meta) + ", but the program takes " + ir::to_string(expected));
  if (meta.sizes.size() != expected.sizes.size())
    return violated(spec.target + " has " + std::to_string(meta.sizes.size()) + " dimensions, not " +
                    std::to_string(expected.sizes.size()));
  for (size_t axis = 0; axis < meta.sizes.size(); ++axis) {
    const auto symbol = expected.sizes[axis].as_symbol();
    if (symbol && symbols_.emplace(*symbol, meta.sizes[axis]).second) continue;
    sizes_.push_back({spec.target + "[" + std::to_string(axis) + "]", expected.sizes[axis], meta.sizes[axis]});
  }
  values_[value] = Ref::borrow(given);
  return true;
}

bool Replay::take_inputs(PyObject* leaves, PyObject* state) {
  Py_ssize_t next = 0;
  for (const ir::InputSpec& spec : entry_.signature.inputs) {
    if (spec.kind == ir::InputKind::user_input) {
      if (next >= PyList_GET_SIZE(leaves)) return violated("there is no " + spec.target);
      PyObject* leaf = PyList_GET_ITEM(leaves, next++);
      if (!(spec.constant ? take_constant(spec, leaf) : take(spec, leaf))) return false;
      continue;
    }
    PyObject* tensor = PyDict_GetItemString(state, spec.target.c_str());
    if (!tensor) return violated("the state has no `" + spec.target + "`");
    if (!take(spec, tensor)) return false;
  }
  return check_ranges() && check_sizes() && check_assumptions(variant_.assumptions, nullptr);
}

bool Replay::check_sizes() {
  for (const Size& size : sizes_) {
    const bool same = session_.decide(shape::equal(shape::substitute(size.expected, symbols_), size.actual),
                                      "an exported module takes this size");
    if (PyErr_Occurred()) return false;
    if (!same)
      return violated(
          size.place + " is " + size.actual.to_string() + ", not " + size.expected.to_string() +
          (size.expected.is_constant() ? "" : ", which is " + shape::substitute(size.expected, symbols_).to_string()));
  }
  return true;
}

bool Replay::holds(const SymBool& truth, const std::string& reason) {
  return session_.require(shape::substitute(truth, symbols_), reason);
}

bool Replay::check_ranges() {
  for (const ir::Symbol& symbol : entry_.symbols) {
    if (symbol.source.empty()) continue;
    const SymInt size = SymInt::symbol(symbol.name);
    const bool is_inside =
        (symbol.range.lower == shape::Range::lowest || holds(shape::less_equal(symbol.range.lower, size))) &&
        (symbol.range.upper == shape::Range::highest || holds(shape::less_equal(size, symbol.range.upper)));
    if (PyErr_Occurred()) return false;
    if (!is_inside)
      return violated(symbol.source + " is " + symbols_.at(symbol.name).to_string() + ", outside of " +
                      symbol.range.to_string());
  }
  return true;
}

// Those that mention one of the symbols just bound (all, if null) and no symbol that is still open.
bool Replay::check_assumptions(const std::vector<ir::Constraint>& assumptions, const std::set<std::string>* bound) {
  for (const ir::Constraint& assumption : assumptions) {
    const std::set<std::string> symbols = assumption.truth.symbols();
    const auto any_is = [&](const auto& condition) { return std::any_of(symbols.begin(), symbols.end(), condition); };
    if (any_is([&](const std::string& symbol) { return !symbols_.contains(symbol); })) continue;
    if (bound && !any_is([&](const std::string& symbol) { return bound->contains(symbol); })) continue;
    const bool is_true = holds(assumption.truth, assumption.reason);
    if (PyErr_Occurred()) return false;
    if (!is_true)
      return violated("the program assumes " + assumption.truth.to_string() +
                      (assumption.reason.empty() ? "" : " (" + assumption.reason + ")"));
  }
  return true;
}

Ref Replay::object(const Argument& argument) {
  return object_of(session_, ir::substitute(argument, symbols_),
                   {.value = [&](const ir::Value* value) { return values_.at(value); },
                    .subgraph = [&](const std::string& name) { return function_of(name); }});
}

// A subgraph as a function of its inputs, which gives the list of its outputs. Nobody keeps it longer than the Replay
// lives.
Ref Replay::function_of(const std::string& subgraph) {
  static PyMethodDef method{"subgraph", call_function, METH_VARARGS, nullptr};
  functions_.push_back({this, &variant_.subgraphs.at(subgraph)});
  const Ref self(PyCapsule_New(&functions_.back(), nullptr, nullptr));
  return Ref(self ? PyCFunction_New(&method, self.get()) : nullptr);
}

PyObject* Replay::call_function(PyObject* self, PyObject* arguments) {
  const auto* function = static_cast<Function*>(PyCapsule_GetPointer(self, nullptr));
  return function->replay->call(*function->graph, arguments).release();
}

Ref Replay::call(const ir::Graph& graph, PyObject* arguments) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Value& input = *graph.inputs()[i];
    PyObject* given = PyTuple_GetItem(arguments, static_cast<Py_ssize_t>(i));
    if (!given) return {};
    values_[&input] = Ref::borrow(given);
    if (const auto number = input.is_tensor() ? std::nullopt : binding_of(given)) symbols_[input.name] = *number;
  }
  const ir::Graph* const around = std::exchange(graph_, &graph);
  bool is_well = check_assumptions(graph.assumptions, nullptr);
  for (const ir::Node& node : graph.forward()) is_well = is_well && run_node(node);
  graph_ = around;
  if (!is_well) return {};
  return list_of(graph.outputs(), [&](const Argument& output) { return object(output); });
}

// By the Python that traces conditions and loops, or runs them.
Ref Replay::run_control_flow(const ir::Node& node, const std::vector<PyObject*>& arguments) {
  const Ref module(PyImport_ImportModule("torch._higher_order_ops"));
  const Ref kind = new_text(node.target().substr(node.target().find("::") + 2));
  const Ref list = list_of(arguments, [](PyObject* argument) { return Ref::borrow(argument); });
  if (!module || !kind || !list) return {};
  return Ref(PyObject_CallMethod(module.get(), "_run_node", "OO", kind.get(), list.get()));
}

// Sizes that only data decides are known now.
bool Replay::bind_results(const ir::Node& node, PyObject* result) {
  std::vector<Ref> flat;
  std::vector<Ref> open{Ref::borrow(result)};
  while (!open.empty()) {
    const Ref next = std::move(open.back());
    open.pop_back();
    if (!PyTuple_Check(next.get()) && !PyList_Check(next.get())) {
      flat.push_back(next);
      continue;
    }
    for (Py_ssize_t i = PySequence_Fast_GET_SIZE(next.get()); i-- > 0;)
      open.push_back(Ref::borrow(PySequence_Fast_GET_ITEM(next.get(), i)));
  }
  std::set<std::string> bound;
  for (size_t i = 0; i < node.results().size() && i < flat.size(); ++i) {
    const ir::Value* value = node.result(i);
    values_[value] = flat[i];
    if (const auto number = value->is_tensor() ? std::nullopt : binding_of(flat[i].get())) {
      symbols_[value->name] = *number;
      bound.insert(value->name);
    }
    TensorObject* tensor = as_tensor(flat[i].get());
    if (!tensor || !value->is_tensor()) continue;
    const std::vector<SymInt> actual = session_.meta(*tensor).sizes;
    for (size_t axis = 0; axis < actual.size() && axis < value->meta().sizes.size(); ++axis)
      if (const auto symbol = value->meta().sizes[axis].as_symbol()) {
        const auto [place, is_new] = symbols_.emplace(*symbol, actual[axis]);
        if (!is_new && place->second == actual[axis]) continue;
        place->second = actual[axis];
        bound.insert(*symbol);
      }
  }
  return bound.empty() || (check_assumptions(variant_.assumptions, &bound) &&
                           (!graph_ || check_assumptions(graph_->assumptions, &bound)));
}

bool Replay::run_node(const ir::Node& node) {
  std::vector<Ref> owned;
  for (const Argument& argument : node.arguments()) owned.push_back(object(argument));
  Ref names(PyTuple_New(static_cast<Py_ssize_t>(node.keywords().size())));
  for (size_t i = 0; i < node.keywords().size(); ++i) {
    owned.push_back(object(node.keywords()[i].argument));
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), new_text(node.keywords()[i].name).release());
  }
  std::vector<PyObject*> arguments;
  for (const Ref& argument : owned) {
    if (!argument) return false;
    arguments.push_back(argument.get());
  }
  const CallStacks::Pretence pretence(*session_.call_stacks, program_.provenance.at(node.provenance));
  PyObject* own =
      session_.decompositions ? PyDict_GetItemString(session_.decompositions.get(), node.target().c_str()) : nullptr;
  const size_t count = node.arguments().size();
  const Ref result = ir::is_control_flow(node.target()) ? run_control_flow(node, arguments)
                     : own ? Ref(PyObject_Vectorcall(own, arguments.data(), count, names.get()))
                           : Ref(session_.call_node(node.target(), arguments.data(), count, names.get()));
  return result && bind_results(node, result.get());
}

Ref Replay::run(PyObject* leaves, PyObject* state) {
  if (!take_inputs(leaves, state)) return {};
  for (const ir::Node& node : variant_.graph.forward())
    if (!run_node(node)) return {};
  return list_of(variant_.graph.outputs(), [&](const Argument& output) { return object(output); });
}

}  // namespace

Ref replay(Session& session, const ir::ExportedProgram& program, PyObject* leaves, PyObject* state) {
  return Replay(session, program).run(leaves, state);
}

bool takes(Session& session, const ir::ExportedProgram& program, PyObject* leaves, PyObject* state) {
  return Replay(session, program).take_inputs(leaves, state);
}

}  // namespace atenon::capture
