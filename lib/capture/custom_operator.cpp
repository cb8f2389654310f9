// See custom_operator.h. The functions behind an operator are kept by torch/_custom_operators.py, which finds them by
// its name.
//
// A fake function computes with tensors of the arguments' types. What it records goes to a graph that nobody reads: of
// its results only types and strides count, and what it relied on is assumed like anything else in forward.
#include "capture/custom_operator.h"

#include <algorithm>

#include "capture/argument_object.h"
#include "capture/callstack.h"
#include "capture/operator_call.h"
#include "capture/symbols.h"

namespace atenon::capture {
namespace {

using opset::Call;
using opset::Kind;
using opset::Parameter;
using opset::Return;

// What is recorded while one lives goes to a graph of its own. That is kept, because Python may hold tensors of it.
class Aside {
 public:
  explicit Aside(Session& session) : session_(session) {
    session.scopes.push_back({.outer = std::move(session.graph)});
    session.graph = ir::Graph();
  }
  ~Aside() {
    session_.traced.push_back({.graph = std::move(session_.graph)});
    session_.graph = std::move(session_.scopes.back().outer);
    session_.scopes.pop_back();
  }
  Aside(const Aside&) = delete;

 private:
  Session& session_;
};

// One result of a fake function.
struct Promise {
  Ref object;
  ir::Type type;
  std::optional<std::vector<SymInt>> strides = std::nullopt;
};

class DeclaredCall {
 public:
  DeclaredCall(Session& session, const Call& call, const Arguments& arguments)
      : session_(session), call_(call), schema_(call.op->schema()), arguments_(arguments) {}

  PyObject* evaluate(Updates updates);
  PyObject* trace(Updates updates);

 private:
  using Objects = std::function<Ref(const ir::Value*)>;

  Ref function(const char* role);
  Ref run(const Ref& function, const Objects& objects);
  Ref own(const ir::Value* value) const;
  std::vector<ir::Value*> updated() const;
  bool check_aliases();
  bool promise();
  bool take_promises(PyObject* result);
  bool take_promise(const Return& expected, PyObject* item);
  void settle_symbols(const std::set<std::string>& known, size_t assumptions);
  ir::Node* record();
  Ref result_of(ir::Node& node, size_t i);
  bool wrong(PyObject* result);

  Session& session_;
  const Call& call_;
  const opset::Schema& schema_;
  const Arguments& arguments_;
  std::vector<Promise> promises_;
  std::vector<size_t> counts_;  // of results, one a return
  std::set<std::string> made_;  // symbols that the node defines
};

// The user's function of this role; None where there is none.
Ref DeclaredCall::function(const char* role) {
  const Ref module(PyImport_ImportModule("torch._custom_operators"));
  return Ref(module ? PyObject_CallMethod(module.get(), role, "s", schema_.target().c_str()) : nullptr);
}

// Calls a function with the arguments in the schema's order, keywords by name.
Ref DeclaredCall::run(const Ref& function, const Objects& objects) {
  const auto count = static_cast<size_t>(std::count_if(schema_.parameters.begin(), schema_.parameters.end(),
                                                       [](const Parameter& p) { return !p.keyword_only; }));
  const Ref positional(PyTuple_New(static_cast<Py_ssize_t>(count))), keywords(PyDict_New());
  if (!positional || !keywords) return {};
  for (size_t i = 0; i < schema_.parameters.size(); ++i) {
    Ref object = object_of(session_, call_.arguments[i], {.value = objects, .subgraph = {}});
    if (!object) return {};
    if (i < count)
      PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), object.release());
    else if (PyDict_SetItemString(keywords.get(), schema_.parameters[i].name.c_str(), object.get()) < 0)
      return {};
  }
  return Ref(PyObject_Call(function.get(), positional.get(), keywords.get()));
}

// The tensor that was passed.
Ref DeclaredCall::own(const ir::Value* value) const {
  const auto found = std::find_if(arguments_.tensors.begin(), arguments_.tensors.end(),
                                  [&](const auto& passed) { return passed.first == value; });
  return Ref::borrow(found->second);
}

std::vector<ir::Value*> DeclaredCall::updated() const {
  std::vector<ir::Value*> values;
  for (const size_t i : schema_.updated())
    ir::for_each(call_.arguments[i], [&](const Argument& item) {
      if (item.value()) values.push_back(item.value());
    });
  return values;
}

PyObject* DeclaredCall::evaluate(Updates updates) {
  const Ref kernel = function("kernel_of");
  if (!kernel) return nullptr;
  std::map<const ir::Value*, Ref> copies;
  if (updates == Updates::to_results)
    for (const ir::Value* value : updated()) {
      copies[value] = Ref(session_.call("aten::clone", {own(value).get()}));
      if (!copies[value]) return nullptr;
    }
  Ref result = run(kernel, [&](const ir::Value* value) {
    const auto copy = copies.find(value);
    return copy == copies.end() ? own(value) : copy->second;
  });
  if (!result || updates == Updates::to_arguments) return result.release();
  Ref all(PyList_New(0));
  if (!schema_.returns.empty() && PyList_Append(all.get(), result.get()) < 0) return nullptr;
  for (const ir::Value* value : updated())
    if (PyList_Append(all.get(), copies[value].get()) < 0) return nullptr;
  return all.release();
}

// What is updated must be reached by no other argument: a kernel may read and write in any order.
bool DeclaredCall::check_aliases() {
  std::set<PyObject*> written;
  for (size_t i = 0; i < schema_.parameters.size(); ++i)
    if (schema_.parameters[i].type.mutated)
      ir::for_each(call_.arguments[i], [&](const Argument& item) {
        if (item.value()) written.insert(own(item.value()).get());
      });
  for (PyObject* target : written) {
    TensorState& state = *as_tensor(target)->state;
    size_t aliases = 0;
    for (const auto& [value, tensor] : arguments_.tensors) {
      TensorState& other = *as_tensor(tensor)->state;
      const bool are_real = !state.is_traced() && !other.is_traced();
      aliases +=
          are_real ? other.real.storage == state.real.storage : session_.base_of(other) == session_.base_of(state);
    }
    if (aliases == 1) continue;
    session_.raise(318, schema_.target() + " updates an argument that shares memory with another one",
                   "clone() one of the two");
    return false;
  }
  return true;
}

bool DeclaredCall::wrong(PyObject* result) {
  if (PyErr_Occurred()) return false;
  session_.raise(318,
                 "the fake function of " + schema_.target() + " returns a " + Py_TYPE(result)->tp_name +
                     ", which its schema does not: " + schema_.to_string(),
                 "return tensors of the types that the operator gives, such as torch.empty_like(x)");
  return false;
}

bool DeclaredCall::take_promise(const Return& expected, PyObject* item) {
  Promise made{.object = Ref::borrow(item), .type = ir::ScalarKind::integer};
  TensorObject* tensor = as_tensor(item);
  if ((expected.type.kind == Kind::tensor) != (tensor != nullptr)) return wrong(item);
  if (tensor) {
    ir::TensorMeta meta = session_.meta(*tensor);
    meta.strides.reset();
    meta.offset = 0;
    made.strides = tensor->state->strides;
    made.type = std::move(meta);
  } else if (expected.type.kind == Kind::boolean) {
    made.type = ir::ScalarKind::boolean;
  } else if (expected.type.kind == Kind::floating) {
    made.type = ir::ScalarKind::floating;
  } else if (expected.type.kind != Kind::integer || !integer_of(item)) {
    return wrong(item);
  }
  promises_.push_back(std::move(made));
  return true;
}

bool DeclaredCall::take_promises(PyObject* result) {
  if (schema_.returns.empty()) return true;
  const bool is_one = schema_.returns.size() == 1;
  if (!is_one && !PyTuple_Check(result) && !PyList_Check(result)) return wrong(result);
  const Ref items(is_one ? Py_BuildValue("(O)", result) : PySequence_Tuple(result));
  if (!items || static_cast<size_t>(PyTuple_GET_SIZE(items.get())) != schema_.returns.size()) return wrong(result);
  for (size_t i = 0; i < schema_.returns.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
    const size_t before = promises_.size();
    if (!schema_.returns[i].type.list) {
      if (!take_promise(schema_.returns[i], item)) return false;
    } else {
      if (!PyTuple_Check(item) && !PyList_Check(item)) return wrong(item);
      for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(item); ++j)
        if (!take_promise(schema_.returns[i], PySequence_Fast_GET_ITEM(item, j))) return false;
    }
    counts_.push_back(promises_.size() - before);
  }
  return true;
}

// Symbols that the fake function made are sizes that the node defines, each where it stands alone. Another expression
// of one is a size of its own, and what is left is forgotten.
void DeclaredCall::settle_symbols(const std::set<std::string>& known, size_t assumptions) {
  std::set<std::string> fresh;
  for (const ir::Symbol& symbol : session_.symbols)
    if (!known.contains(symbol.name)) fresh.insert(symbol.name);
  const auto for_each_size = [&](const auto& use) {
    for (Promise& made : promises_)
      if (auto* meta = std::get_if<ir::TensorMeta>(&made.type))
        std::for_each(meta->sizes.begin(), meta->sizes.end(), use);
  };
  for_each_size([&](const SymInt& size) {
    if (const auto symbol = size.as_symbol(); symbol && fresh.contains(*symbol)) made_.insert(*symbol);
  });
  for (const Promise& made : promises_)
    if (SymbolObject* number = as_symbol(made.object.get()))
      if (const auto* integer = std::get_if<SymInt>(number->value))
        if (const auto symbol = integer->as_symbol(); symbol && fresh.contains(*symbol)) made_.insert(*symbol);
  const auto is_open = [&](const std::string& symbol) { return fresh.contains(symbol) && !made_.contains(symbol); };
  for_each_size([&](SymInt& size) {
    const std::set<std::string> symbols = size.symbols();
    if (std::any_of(symbols.begin(), symbols.end(), is_open)) {
      const std::string name = session_.new_symbol({0, session_.facts.bounds(size).upper});
      size = SymInt::symbol(name);
      made_.insert(name);
    }
  });
  const auto first = session_.assumptions.begin() + static_cast<ptrdiff_t>(assumptions);
  session_.assumptions.erase(std::remove_if(first, session_.assumptions.end(),
                                            [&](const ir::Constraint& constraint) {
                                              const std::set<std::string> symbols = constraint.truth.symbols();
                                              return std::any_of(symbols.begin(), symbols.end(), is_open);
                                            }),
                             session_.assumptions.end());
}

// The results' types, from the fake function.
bool DeclaredCall::promise() {
  if (schema_.returns.empty()) return true;
  const Ref fake = function("fake_of");
  if (!fake) return false;
  std::set<std::string> known;
  for (const ir::Symbol& symbol : session_.symbols) known.insert(symbol.name);
  const size_t assumptions = session_.assumptions.size();
  {
    const Aside aside(session_);
    std::map<const ir::Value*, Ref> stand_ins;
    const Ref result = run(fake, [&](const ir::Value* value) {
      Ref& stand_in = stand_ins[value];
      if (stand_in) return stand_in;
      TensorState state = session_.fresh(session_.graph.add_input(value->name, value->type));
      state.strides = as_tensor(own(value).get())->state->strides;
      stand_in = session_.wrap(std::move(state));
      return stand_in;
    });
    if (!result || !take_promises(result.get())) return false;
  }
  settle_symbols(known, assumptions);
  return true;
}

ir::Node* DeclaredCall::record() {
  std::vector<ir::Graph::Result> results;
  for (const Promise& made : promises_) results.push_back({"", made.type});
  for (const ir::Value* value : updated()) {
    ir::Type type = value->type;
    if (auto* meta = std::get_if<ir::TensorMeta>(&type)) meta->strides.reset();
    results.push_back({"", std::move(type)});
  }
  Spelling spelling = spell(call_);
  ir::Node* node = session_.graph.add(schema_.target(), std::move(spelling.positional), std::move(spelling.keywords),
                                      std::move(results));
  node->provenance = session_.call_stacks->current(session_.program.provenance);
  return node;
}

// A number is the symbol that the fake function made for it, or what that says of it; else only the run knows it.
Ref DeclaredCall::result_of(ir::Node& node, size_t i) {
  ir::Value* value = node.result(i);
  const Promise& made = promises_[i];
  if (value->is_tensor()) {
    TensorState state = session_.fresh(value);
    state.strides = made.strides;
    return session_.wrap(std::move(state));
  }
  SymbolObject* symbol = as_symbol(made.object.get());
  if (!symbol) return made.object;
  const auto* integer = std::get_if<SymInt>(symbol->value);
  if (!integer) return session_.number(value);
  if (const auto name = integer->as_symbol(); name && made_.contains(*name) && !session_.graph.find(*name))
    session_.graph.rename(value, *name);
  return made.object;
}

PyObject* DeclaredCall::trace(Updates updates) {
  const Ref composite = function("composite_of");
  if (!composite) return nullptr;
  if (composite.get() != Py_None) return run(composite, [&](const ir::Value* value) { return own(value); }).release();
  for (const Return& expected : schema_.returns)
    if (!expected.type.alias.empty() && !expected.type.mutated)
      return session_.raise(318, schema_.target() + " returns a view of its argument, which a node cannot say",
                            "return a tensor of its own, without the alias in the schema");
  if (!check_aliases() || !promise()) return nullptr;
  ir::Node* node = record();
  const std::vector<ir::Value*> targets = updated();
  const size_t returned = promises_.size();
  const bool writes = updates == Updates::to_arguments;

  Ref given(PyList_New(0));
  size_t next = 0;
  for (size_t i = 0; i < schema_.returns.size(); ++i) {
    const Return& expected = schema_.returns[i];
    Ref object;
    if (expected.type.list) {
      object = Ref(PyList_New(0));
      for (size_t j = 0; object && j < counts_[i]; ++j)
        if (const Ref item = result_of(*node, next++); !item || PyList_Append(object.get(), item.get()) < 0)
          return nullptr;
    } else if (const auto target = std::find_if(
                   schema_.parameters.begin(), schema_.parameters.end(),
                   [&](const Parameter& p) { return p.type.mutated && p.type.alias == expected.type.alias; });
               writes && expected.type.mutated && target != schema_.parameters.end()) {
      object = own(call_.arguments[static_cast<size_t>(target - schema_.parameters.begin())].value());
      if (!session_.write(*as_tensor(object.get()), node->result(next++))) return nullptr;
    } else {
      object = result_of(*node, next++);
    }
    if (!given || !object || PyList_Append(given.get(), object.get()) < 0) return nullptr;
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    ir::Value* value = node->result(returned + i);
    if (writes) {
      if (!session_.write(*as_tensor(own(targets[i]).get()), value)) return nullptr;
    } else if (const Ref object = session_.wrap(session_.fresh(value));
               !object || PyList_Append(given.get(), object.get()) < 0) {
      return nullptr;
    }
  }
  if (!writes) return given.release();
  if (schema_.returns.empty()) return new_none();
  return schema_.returns.size() == 1 ? Py_NewRef(PyList_GET_ITEM(given.get(), 0)) : PyList_AsTuple(given.get());
}

}  // namespace

PyObject* call_declared(Session& session, const Call& call, const Arguments& arguments, Updates updates) {
  DeclaredCall declared(session, call, arguments);
  return session.is_tracing ? declared.trace(updates) : declared.evaluate(updates);
}

}  // namespace atenon::capture
