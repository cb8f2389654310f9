#include "capture/batching.h"

#include "capture/argument_object.h"
#include "capture/callstack.h"
#include "capture/convert.h"
#include "opset/elementwise.h"

namespace atenon::capture {
namespace {

class Batched {
 public:
  Batched(Session& session, Subgraph& body, PyObject* rules) : session_(session), body_(body), rules_(rules) {}

  // Decomposes until every node that has a batch is one that has a rule, or has nothing smaller in it.
  bool expand() {
    for (size_t i = 0; i < body_.own_inputs; ++i) batched_.insert(body_.graph.inputs()[i].get());
    for (bool again = true; again;) {
      again = false;
      for (ir::Node& node : body_.graph.forward()) {
        bool has_batch = false;
        for (const ir::Value* operand : node.operands()) has_batch |= batched_.contains(operand);
        if (!has_batch) continue;
        for (const auto& result : node.results()) batched_.insert(result.get());
        const opset::Operator* op = session_.opset.find(node.target());
        if (!op || op->derivation() != opset::Derivation::none || has_rule(*op)) continue;
        Result<opset::Call> call = opset::bind(*op, node.arguments(), node.keywords());
        if (!call) return session_.raise(call.error()) != nullptr;
        Result<opset::MeaningKind> kind = opset::meaning_kind(session_.opset, *call, session_.facts);
        if (!kind || *kind != opset::MeaningKind::decomposition) continue;
        if (!expand(node, *call)) return false;
        again = true;
      }
    }
    return true;
  }

  PyObject* describe() {
    const ArgumentObjects objects{
        .value = [](const ir::Value* value) { return Ref(Py_BuildValue("(s)", value->name.c_str())); },
        .subgraph = [](const std::string& name) { return new_text(name); }};
    const auto object = [&](const Argument& argument) { return object_of(session_, argument, objects); };
    Ref own(PyList_New(0)), outside(PyDict_New());
    for (const auto& input : body_.graph.inputs()) {
      if (!own || !outside) return nullptr;
      if (static_cast<size_t>(input->index) < body_.own_inputs) {
        if (PyList_Append(own.get(), new_text(input->name).get()) < 0) return nullptr;
        continue;
      }
      ir::Value* outer = nullptr;
      for (const auto& [from, to] : body_.inner_of)
        if (to == input.get()) outer = from;
      const Ref found = outer->is_tensor() ? session_.wrap(session_.fresh(outer)) : session_.number(outer);
      if (!found || PyDict_SetItemString(outside.get(), input->name.c_str(), found.get()) < 0) return nullptr;
    }
    const Ref nodes = list_of(body_.graph.forward(), [&](const ir::Node& node) {
      const opset::Operator* op = session_.opset.find(node.target());
      const Ref results = list_of(node.results(), [](const auto& value) {
        return Ref(value->is_tensor() ? Py_BuildValue("(sis)", value->name.c_str(), value->meta().rank(),
                                                      torch_name_of(value->meta().dtype))
                                      : Py_BuildValue("(sOO)", value->name.c_str(), Py_None, Py_None));
      });
      const Ref arguments = list_of(node.arguments(), object);
      const Ref keywords(PyDict_New());
      for (const Named& named : node.keywords()) {
        const Ref value = object(named.argument);
        if (!keywords || !value || PyDict_SetItemString(keywords.get(), named.name.c_str(), value.get()) < 0)
          return Ref();
      }
      if (!results || !arguments || !keywords) return Ref();
      return Ref(Py_BuildValue("(sNNOOOI)", node.target().c_str(), PyBool_FromLong(op && opset::is_elementwise(*op)),
                               PyBool_FromLong(op && op->has_tag("random")), results.get(), arguments.get(),
                               keywords.get(), node.provenance));
    });
    const Ref outputs = list_of(body_.graph.outputs(), object);
    return nodes && outputs ? PyTuple_Pack(4, own.get(), outside.get(), nodes.get(), outputs.get()) : nullptr;
  }

 private:
  bool has_rule(const opset::Operator& op) const { return PySet_Contains(rules_, new_text(op.target()).get()) == 1; }

  bool expand(ir::Node& node, const opset::Call& call) {
    Result<opset::Expansion> expansion =
        opset::expand(session_.opset, call, session_.facts, body_.graph, &node, node.provenance);
    if (!expansion) return session_.raise(expansion.error()) != nullptr;
    for (ir::Constraint& assumption : expansion->assumptions) session_.assume(std::move(assumption));
    for (ir::Symbol& symbol : expansion->unbacked) {
      session_.facts.declare(symbol.name, symbol.range);
      session_.symbols.push_back(std::move(symbol));
      ++session_.unbacked;
    }
    for (const auto& result : node.results()) batched_.erase(result.get());
    body_.graph.replace(node, expansion->results);
    return true;
  }

  Session& session_;
  Subgraph& body_;
  PyObject* rules_;
  std::set<const ir::Value*> batched_;
};

}  // namespace

PyObject* describe_subgraph(Session& session, PyObject* args) {
  Py_ssize_t number = 0;
  PyObject* rules = nullptr;
  if (!PyArg_ParseTuple(args, "nO!:describe_subgraph", &number, &PyFrozenSet_Type, &rules)) return nullptr;
  Batched batched(session, session.traced[static_cast<size_t>(number)], rules);
  return batched.expand() ? batched.describe() : nullptr;
}

PyObject* record_at(Session& session, PyObject* args) {
  unsigned provenance = 0;
  PyObject* function = nullptr;
  if (!PyArg_ParseTuple(args, "IO:record_at", &provenance, &function)) return nullptr;
  const ir::CallStack stack = session.program.provenance.at(provenance);
  const CallStacks::Pretence pretence(*session.call_stacks, stack);
  return PyObject_CallNoArgs(function);
}

}  // namespace atenon::capture
