// A function is recorded in a graph of its own. Values of the graphs around it that it reads become inputs of its
// graph, after the inputs that its loop or branch gives it; symbols are seen through all graphs.
#include "capture/trace_control_flow.h"

#include <algorithm>

#include "capture/callstack.h"
#include "capture/convert.h"
#include "capture/symbols.h"
#include "capture/tensor_data.h"
#include "capture/tensor_object.h"
#include "ir/control_flow.h"

namespace atenon::capture {
namespace {

using ir::ScalarKind;
using ir::TensorMeta;
using ir::Type;

bool belongs(const ir::Graph& graph, const ir::Value& value) {
  return value.producer ? &value.producer->graph() == &graph : graph.find(value.name) == &value;
}

// The type of an argument that is passed into, or returned by, a subgraph.
std::optional<Type> type_of(const Argument& argument) {
  if (argument.value()) return argument.value()->type;
  if (argument.is<SymInt>()) return ScalarKind::integer;
  if (argument.is<SymFloat>()) return ScalarKind::floating;
  if (argument.is<SymBool>()) return ScalarKind::boolean;
  return std::nullopt;
}

// One call of control_flow.
class Builder {
 public:
  explicit Builder(Session& session) : session_(session) {}

  PyObject* build(const std::string& kind, PyObject* condition, PyObject* subgraphs, PyObject* names, PyObject* carried,
                  PyObject* xs);

 private:
  bool read_list(PyObject* list, ArgumentList& into);
  void share_operands();
  bool infer();
  bool join_branches();
  bool keep_carried(size_t body);
  bool stack_slices(size_t first, const ArgumentList& xs);
  bool same(const Type& expected, size_t body, const Argument& given, const std::string& what);
  bool require(size_t body, const SymBool& truth, const std::string& reason);
  const std::vector<Argument>& outputs(size_t body) const { return bodies_[body]->graph.outputs(); }
  bool fail(const std::string& message, const std::string& fix) { return session_.raise(317, message, fix) != nullptr; }

  Session& session_;
  ir::ControlFlow flow_;
  std::vector<Subgraph*> bodies_;
  std::vector<Type> results_;
  std::map<size_t, shape::Range> ranges_;  // of the integers among the results
};

bool Builder::read_list(PyObject* list, ArgumentList& into) {
  Arguments arguments(session_);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
    if (!arguments.add(PyList_GET_ITEM(list, i))) return false;
  into = std::move(arguments.positional);
  return true;
}

// All subgraphs of a node take the same operands.
void Builder::share_operands() {
  std::vector<ir::Value*> operands;
  for (const Subgraph* body : bodies_)
    for (ir::Value* value : body->captured)
      if (std::find(operands.begin(), operands.end(), value) == operands.end()) operands.push_back(value);
  for (Subgraph* body : bodies_) {
    std::vector<std::string> order;
    for (size_t i = 0; i < body->own_inputs; ++i) order.push_back(body->graph.inputs()[i]->name);
    for (ir::Value* operand : operands) {
      const auto found = body->inner_of.find(operand);
      ir::Value* input =
          found == body->inner_of.end() ? body->graph.add_input(operand->name, operand->type) : found->second;
      order.push_back(input->name);
    }
    body->graph.order_inputs(order);
  }
  flow_.operands.assign(operands.begin(), operands.end());
}

// Of what a body returns: what is known inside decides, and what symbols of its own ask for is assumed there.
bool Builder::require(size_t body, const SymBool& truth, const std::string& reason) {
  Subgraph& inside = *bodies_[body];
  const shape::Truth known = inside.facts.decide(truth);
  if (known != shape::Truth::open) return known == shape::Truth::proven;
  const std::set<std::string> symbols = truth.symbols();
  if (std::none_of(symbols.begin(), symbols.end(), [&](const auto& name) { return inside.defines.contains(name); }))
    return session_.require(truth, reason);
  inside.facts.assume(truth);
  inside.graph.assumptions.push_back(
      {.truth = truth, .provenance = session_.call_stacks->current(session_.program.provenance), .reason = reason});
  return true;
}

// `given`, which a body returns, may take the place of a value of type `expected`: sizes are promised to agree.
bool Builder::same(const Type& expected, size_t body, const Argument& given, const std::string& what) {
  const std::optional<Type> type = type_of(given);
  const auto* a = std::get_if<TensorMeta>(&expected);
  const auto* b = type ? std::get_if<TensorMeta>(&*type) : nullptr;
  bool fits = type && (a && b ? a->dtype == b->dtype && a->rank() == b->rank() : *type == expected);
  for (int axis = 0; fits && a && axis < a->rank(); ++axis)
    fits = require(body, shape::equal(a->sizes[static_cast<size_t>(axis)], b->sizes[static_cast<size_t>(axis)]), what);
  if (fits) return true;
  if (PyErr_Occurred()) return false;
  return fail(what + ": expected " + ir::to_string(expected) + ", not " + (type ? ir::to_string(*type) : "no number"),
              "make both the same, by .to(dtype), expand() or a number of the same type");
}

// What cond gives: the type that both branches have; sizes in which they differ are known when it has run.
bool Builder::join_branches() {
  if (outputs(0).size() != outputs(1).size())
    return fail("the branches of torch.cond return " + std::to_string(outputs(0).size()) + " and " +
                    std::to_string(outputs(1).size()) + " values",
                "return the same structure from both");
  for (size_t i = 0; i < outputs(0).size(); ++i) {
    const std::optional<Type> a = type_of(outputs(0)[i]), b = type_of(outputs(1)[i]);
    const auto* x = a ? std::get_if<TensorMeta>(&*a) : nullptr;
    const auto* y = b ? std::get_if<TensorMeta>(&*b) : nullptr;
    if (!a || !b || (x && y ? x->dtype != y->dtype || x->rank() != y->rank() : *a != *b))
      return fail("the branches of torch.cond return " + (a ? ir::to_string(*a) : "no number") + " and " +
                      (b ? ir::to_string(*b) : "no number") + " as value " + std::to_string(i),
                  "return tensors of one dtype and rank from both, by .to(dtype) or unsqueeze()");
    Type joined = *a;
    if (outputs(0)[i].is<SymInt>() && outputs(1)[i].is<SymInt>()) {
      const shape::Range m = bodies_[0]->facts.bounds(outputs(0)[i].get<SymInt>()),
                         n = bodies_[1]->facts.bounds(outputs(1)[i].get<SymInt>());
      ranges_[i] = {std::min(m.lower, n.lower), std::max(m.upper, n.upper)};
    }
    if (x) {
      TensorMeta meta{.dtype = x->dtype, .sizes = x->sizes};
      for (size_t axis = 0; axis < meta.sizes.size(); ++axis)
        if (session_.facts.decide(shape::equal(x->sizes[axis], y->sizes[axis])) != shape::Truth::proven)
          meta.sizes[axis] = SymInt::symbol(session_.new_symbol({0, shape::Range::highest}));
      joined = meta;
    }
    results_.push_back(std::move(joined));
  }
  return true;
}

bool Builder::keep_carried(size_t body) {
  if (outputs(body).size() < flow_.carried.size())
    return fail("the loop carries " + std::to_string(flow_.carried.size()) + " values, and its body returns " +
                    std::to_string(outputs(body).size()),
                "return as many values as the loop starts with");
  for (size_t i = 0; i < flow_.carried.size(); ++i) {
    Type type = *type_of(flow_.carried[i]);
    if (auto* meta = std::get_if<TensorMeta>(&type)) meta->strides.reset();
    if (!same(type, body, outputs(body)[i], "the loop's value " + std::to_string(i) + " keeps its type")) return false;
    results_.push_back(std::move(type));
  }
  return true;
}

// Outputs from `first` on are one slice of a result each.
bool Builder::stack_slices(size_t first, const ArgumentList& xs) {
  const SymInt rounds = xs[0].value()->meta().sizes[0];
  if (!session_.require(shape::less(0, rounds), "a loop over slices has at least one"))
    return PyErr_Occurred() ? false : fail("a loop runs over slices of nothing", "an example with one slice at least");
  for (const Argument& x : xs)
    if (!session_.require(shape::equal(rounds, x.value()->meta().sizes[0]), "a loop runs over tensors of one length"))
      return PyErr_Occurred() ? false
                              : fail("a loop runs over tensors of different lengths", "slice them to one length");
  for (size_t i = first; i < outputs(0).size(); ++i) {
    const ir::Value* value = outputs(0)[i].value();
    if (!value || !value->is_tensor())
      return fail("the body of a loop over slices returns a number", "return a tensor: torch.full((), number)");
    TensorMeta meta{.dtype = value->meta().dtype, .sizes = value->meta().sizes};
    for (const SymInt& size : meta.sizes)
      for (const std::string& symbol : size.symbols())
        if (bodies_[0]->defines.contains(symbol))
          return fail("the size of a slice that the loop returns depends on data, so slices differ",
                      "return slices of one size");
    meta.sizes.insert(meta.sizes.begin(), rounds);
    results_.push_back(std::move(meta));
  }
  return true;
}

bool Builder::infer() {
  using Kind = ir::ControlFlow::Kind;
  switch (flow_.kind) {
    case Kind::cond:
      return join_branches();
    case Kind::while_loop:
      return keep_carried(1);
    case Kind::scan:
      return keep_carried(0) && stack_slices(flow_.carried.size(), flow_.xs);
    case Kind::map:
      return stack_slices(0, flow_.xs);
    case Kind::associative_scan:
      for (size_t i = 0; i < flow_.xs.size(); ++i) {
        TensorMeta slice = flow_.xs[i].value()->meta();
        slice.sizes.erase(slice.sizes.begin());
        if (!same(slice, 0, i < outputs(0).size() ? outputs(0)[i] : Argument(ir::None{}),
                  "an associative scan joins two slices into one alike"))
          return false;
      }
      return stack_slices(0, flow_.xs);
  }
  return false;
}

PyObject* Builder::build(const std::string& kind, PyObject* condition, PyObject* subgraphs, PyObject* names,
                         PyObject* carried, PyObject* xs) {
  const std::string target = "higher_order::" + kind;
  flow_.kind = *ir::control_flow_kind(target);
  Arguments given(session_);
  if (!given.add(condition) || !read_list(carried, flow_.carried) || !read_list(xs, flow_.xs)) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subgraphs); ++i)
    bodies_.push_back(&session_.traced[static_cast<size_t>(PyLong_AsLong(PyList_GET_ITEM(subgraphs, i)))]);
  share_operands();
  if (!infer()) return nullptr;

  std::vector<Argument> arguments;
  if (flow_.kind == ir::ControlFlow::Kind::cond) arguments.push_back(given.positional[0]);
  for (size_t i = 0; i < bodies_.size(); ++i) {
    const std::string wish = text_of(PyList_GET_ITEM(names, static_cast<Py_ssize_t>(i)));
    std::string name;
    for (int number = 0; name.empty() || session_.subgraphs.contains(name); ++number)
      name = wish + "_" + std::to_string(number);
    session_.subgraphs.emplace(name, std::move(bodies_[i]->graph));
    arguments.push_back(ir::SubgraphRef{name});
  }
  for (const auto& [list, is_taken] :
       {std::pair(&flow_.carried, PyList_GET_SIZE(carried) > 0 || kind == "while_loop" || kind == "scan"),
        {&flow_.xs, PyList_GET_SIZE(xs) > 0},
        {&flow_.operands, true}})
    if (is_taken) arguments.push_back(*list);
  std::vector<ir::Graph::Result> results;
  for (Type& type : results_) results.push_back({"", std::move(type)});
  ir::Node* node = session_.graph.add(target, std::move(arguments), {}, std::move(results));
  node->provenance = session_.call_stacks->current(session_.program.provenance);

  Ref list(PyList_New(0));
  for (size_t i = 0; i < node->results().size(); ++i) {
    ir::Value* result = node->result(i);
    const Ref object =
        result->is_tensor() ? session_.wrap(session_.fresh(result)) : session_.number(result, ranges_[i]);
    if (!list || !object || PyList_Append(list.get(), object.get()) < 0) return nullptr;
  }
  return list.release();
}

// A new input of the graph that is recorded, as Python sees it.
Ref new_input(Session& session, PyObject* example, bool sliced) {
  if (TensorObject* tensor = as_tensor(example)) {
    TensorMeta meta = session.meta(*tensor);
    meta.strides.reset();
    meta.offset = 0;
    if (!sliced) return session.wrap(session.fresh(session.graph.add_input("arg", std::move(meta))));
    if (meta.sizes.empty()) {
      PyErr_SetString(PyExc_RuntimeError, "a loop over slices needs tensors of at least one dimension");
      return {};
    }
    meta.sizes.erase(meta.sizes.begin());
    std::vector<SymInt> strides = strides_of(*tensor);
    strides.erase(strides.begin());
    const bool is_in_rows = strides == row_major(meta.sizes);
    TensorState slice = session.fresh(session.graph.add_input("arg", std::move(meta)));
    if (!is_in_rows) slice.strides = std::move(strides);
    return session.wrap(std::move(slice));
  }
  Arguments arguments(session);
  if (!arguments.add(example)) return {};
  const std::optional<Type> type = type_of(arguments.positional[0]);
  if (!type) {
    PyErr_Format(PyExc_RuntimeError, "a loop carries tensors and numbers, not %s", Py_TYPE(example)->tp_name);
    return {};
  }
  return session.number(session.graph.add_input("arg", *type));
}

}  // namespace

bool Session::is_here(const ir::Value& value) const { return belongs(graph, value); }

ir::Value* Session::captured_by(const ir::Value* input) const {
  if (scopes.empty() || !is_here(*input)) return nullptr;
  for (const auto& [outer, inner] : scopes.back().inner_of)
    if (inner == input) return outer;
  return nullptr;
}

bool Session::is_of_example(ir::Value* value) const {
  if (scopes.empty()) return false;
  const Ref modes(PyImport_ImportModule("torch._modes"));
  const Ref active(modes ? PyObject_CallMethod(modes.get(), "are_transforms_active", nullptr) : nullptr);
  if (!active) PyErr_Clear();
  return active.get() == Py_True && !is_made_of(value, [&](const ir::Value& source) {
           return source.producer || belongs(scopes.front().outer, source);
         });
}

ir::Value* Session::here(ir::Value* value) {
  if (!value || is_here(*value)) return value;
  size_t level = scopes.size();  // the scope around which the value lies
  while (level > 0 && !belongs(scopes[level - 1].outer, *value)) --level;
  if (level == 0)
    return raise(317, "a tensor that a branch or loop body made is used outside of it",
                 "return it from the function that makes it");
  for (size_t i = level - 1; i < scopes.size(); ++i) {
    ir::Graph& inner = i + 1 < scopes.size() ? scopes[i + 1].outer : graph;
    ir::Value*& input = scopes[i].inner_of[value];
    if (!input) {
      input = inner.add_input(value->name, value->type);
      scopes[i].captured.push_back(value);
    }
    value = input;
  }
  return value;
}

namespace {

// What holds whenever the subgraph runs: a truth, or, where a loop's condition is given by its number, that condition
// of the inputs.
std::optional<SymBool> condition_of(const Session& session, PyObject* given) {
  if (SymbolObject* symbol = as_symbol(given))
    return std::holds_alternative<SymBool>(*symbol->value) ? std::optional(std::get<SymBool>(*symbol->value))
                                                           : std::nullopt;
  if (!PyLong_Check(given) || PyBool_Check(given)) return std::nullopt;
  const ir::Graph& condition = session.traced[static_cast<size_t>(PyLong_AsLong(given))].graph;
  if (condition.outputs().size() != 1 || !condition.outputs()[0].is<SymBool>()) return std::nullopt;
  shape::Substitution names;
  for (size_t i = 0; i < session.graph.inputs().size(); ++i)
    if (!condition.inputs()[i]->is_tensor())
      names.emplace(condition.inputs()[i]->name, SymInt::symbol(session.graph.inputs()[i]->name));
  return shape::substitute(condition.outputs()[0].get<SymBool>(), names);
}

}  // namespace

PyObject* trace_subgraph(Session& session, PyObject* function, PyObject* examples, Py_ssize_t whole, PyObject* given) {
  session.scopes.push_back({.outer = std::move(session.graph), .outside = session.facts});
  session.graph = ir::Graph();
  session.graph.assumptions = session.scopes.back().outer.assumptions;  // inside of a subgraph, they hold, too
  const std::set<std::string> known = [&] {
    std::set<std::string> names;
    for (const ir::Symbol& symbol : session.symbols) names.insert(symbol.name);
    return names;
  }();
  Ref inputs(PyList_New(0));
  bool is_well = static_cast<bool>(inputs);
  for (Py_ssize_t i = 0; is_well && i < PyList_GET_SIZE(examples); ++i) {
    const Ref input = new_input(session, PyList_GET_ITEM(examples, i), i >= whole);
    is_well = input && PyList_Append(inputs.get(), input.get()) == 0;
  }
  const size_t own_inputs = session.graph.inputs().size();
  if (const std::optional<SymBool> condition = is_well ? condition_of(session, given) : std::nullopt) {
    session.scopes.back().is_chosen = true;
    session.assume({.truth = *condition,
                    .provenance = session.call_stacks->current(session.program.provenance),
                    .reason = "it runs where this holds"});
  }
  const Ref results(is_well ? PyObject_CallOneArg(function, inputs.get()) : nullptr);
  Arguments outputs(session);
  is_well = results && PyList_Check(results.get());
  for (Py_ssize_t i = 0; is_well && i < PyList_GET_SIZE(inputs.get()); ++i)
    if (TensorObject* input = as_tensor(PyList_GET_ITEM(inputs.get(), i)); input && input->state->base->is_written()) {
      session.raise(312, "a loop body updates its own input in place, which the tensor outside would not see",
                    "clone() it inside, and return the new value");
      is_well = false;
    }
  for (Py_ssize_t i = 0; is_well && i < PyList_GET_SIZE(results.get()); ++i)
    is_well = outputs.add(PyList_GET_ITEM(results.get(), i));
  if (is_well) session.graph.set_outputs(std::move(outputs.positional));

  Scope scope = std::move(session.scopes.back());
  session.scopes.pop_back();
  // Kept where the function failed, too: Python may hold tensors of it.
  session.traced.push_back({.graph = std::move(session.graph),
                            .own_inputs = own_inputs,
                            .facts = session.facts,
                            .inner_of = std::move(scope.inner_of),
                            .captured = std::move(scope.captured)});
  session.graph = std::move(scope.outer);
  session.facts = std::move(scope.outside);
  for (const ir::Symbol& symbol : session.symbols)
    if (!known.contains(symbol.name)) session.facts.declare(symbol.name, symbol.range);
  if (!is_well) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a branch or body returns tensors and numbers");
    return nullptr;
  }
  for (const ir::Symbol& symbol : session.symbols)
    if (!known.contains(symbol.name)) session.traced.back().defines.insert(symbol.name);
  return PyLong_FromSize_t(session.traced.size() - 1);
}

PyObject* control_flow(Session& session, PyObject* const* args, size_t count) {
  const bool fits = count == 6 && PyUnicode_Check(args[0]) && PyList_Check(args[2]) && PyList_Check(args[3]) &&
                    PyList_Check(args[4]) && PyList_Check(args[5]);
  if (!fits || !ir::is_control_flow("higher_order::" + text_of(args[0]))) {
    PyErr_SetString(PyExc_TypeError, "control_flow(kind, condition, subgraphs, names, carried, xs)");
    return nullptr;
  }
  return Builder(session).build(text_of(args[0]), args[1], args[2], args[3], args[4], args[5]);
}

}  // namespace atenon::capture
