#include "capture/program_object.h"

#include <cstring>

#include "capture/argument_object.h"
#include "capture/failure.h"
#include "capture/replay.h"
#include "capture/state.h"
#include "capture/trace.h"
#include "decompose/decompose.h"
#include "program/program_file.h"
#include "pt2/pt2.h"
#include "text/text.h"
#include "text/words.h"
#include "verify/verify.h"

namespace atenon::capture {
namespace {

struct ProgramObject {
  PyObject_HEAD Session* session;
  ir::ExportedProgram* program;
};

ProgramObject& self_of(PyObject* self) { return *reinterpret_cast<ProgramObject*>(self); }
const ir::EntryPoint& entry_of(PyObject* self) { return self_of(self).program->entries[0]; }
const ir::Variant& variant_of(PyObject* self) { return entry_of(self).variants[0]; }

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete self_of(self).program;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* new_program(Session& session, ir::ExportedProgram program) {
  auto* object = PyObject_New(ProgramObject, reinterpret_cast<PyTypeObject*>(session.program_type.get()));
  if (!object) return nullptr;
  object->session = &session;
  object->program = new ir::ExportedProgram(std::move(program));
  return reinterpret_cast<PyObject*>(object);
}

// Values and subgraphs by name, in the classes that _atenon.register was given.
ArgumentObjects named_objects(Session& session) {
  return {.value =
              [&](const ir::Value* value) {
                return Ref(PyObject_CallFunction(session.value_class.get(), "s", value->name.c_str()));
              },
          .subgraph =
              [&](const std::string& name) {
                return Ref(PyObject_CallFunction(session.subgraph_class.get(), "s", name.c_str()));
              }};
}

// --- What a program consists of

// [(kind, name of the value, target, persistent, is constant, constant)]
PyObject* inputs(PyObject* self, PyObject*) {
  Session& session = *self_of(self).session;
  return list_of(entry_of(self).signature.inputs,
                 [&](const ir::InputSpec& spec) {
                   const Ref constant = object_of(session, spec.constant.value_or(ir::None{}), named_objects(session));
                   return Ref(constant ? Py_BuildValue("(sssNNO)", std::string(text::name_of(spec.kind)).c_str(),
                                                       spec.value.c_str(), spec.target.c_str(),
                                                       PyBool_FromLong(spec.persistent),
                                                       PyBool_FromLong(spec.constant.has_value()), constant.get())
                                       : nullptr);
                 })
      .release();
}

// [(kind, target)], in the order of the graph's outputs
PyObject* outputs(PyObject* self, PyObject*) {
  return list_of(
             entry_of(self).signature.outputs,
             [&](const ir::OutputSpec& spec) {
               return Ref(Py_BuildValue("(ss)", std::string(text::name_of(spec.kind)).c_str(), spec.target.c_str()));
             })
      .release();
}

PyObject* trees(PyObject* self, PyObject*) {
  const Ref input = object_of(entry_of(self).signature.input_tree),
            output = object_of(entry_of(self).signature.output_tree);
  return input && output ? PyTuple_Pack(2, input.get(), output.get()) : nullptr;
}

// [operator] of all nodes, subgraphs' too
PyObject* targets(PyObject* self, PyObject*) {
  std::vector<std::string> found;
  const auto add = [&](const ir::Graph& graph) {
    for (const ir::Node& node : graph.forward()) found.push_back(node.target());
  };
  add(variant_of(self).graph);
  for (const auto& [name, graph] : variant_of(self).subgraphs) add(graph);
  return list_of(found, new_text).release();
}

// [(name, lower, upper or None, hint or None, source)]
PyObject* symbols(PyObject* self, PyObject*) {
  return list_of(entry_of(self).symbols,
                 [&](const ir::Symbol& symbol) {
                   PyObject* upper = symbol.range.upper == shape::Range::highest
                                         ? new_none()
                                         : PyLong_FromLongLong(symbol.range.upper);
                   PyObject* hint = symbol.hint ? PyLong_FromLongLong(*symbol.hint) : new_none();
                   return Ref(Py_BuildValue("(sLNNs)", symbol.name.c_str(), static_cast<long long>(symbol.range.lower),
                                            upper, hint, symbol.source.c_str()));
                 })
      .release();
}

// [(truth, reason, "net.py:12")]
PyObject* assumptions(PyObject* self, PyObject*) {
  const ir::Provenance& provenance = self_of(self).program->provenance;
  return list_of(variant_of(self).assumptions,
                 [&](const ir::Constraint& constraint) {
                   const std::vector<ir::SharedFrame>& frames = provenance.at(constraint.provenance).frames;
                   const std::string place =
                       frames.empty() ? "" : frames.back()->file + ":" + std::to_string(frames.back()->line);
                   return Ref(Py_BuildValue("(sss)", constraint.truth.to_string().c_str(), constraint.reason.c_str(),
                                            place.c_str()));
                 })
      .release();
}

Ref described(Session& session, const ir::Value& value) {
  const Ref type = object_of(session, value.type);
  return Ref(type ? Py_BuildValue("(sO)", value.name.c_str(), type.get()) : nullptr);
}

// (target, results, arguments, keywords, frames, module path, module class)
Ref described(Session& session, const ir::Provenance& provenance, const ir::Node& node) {
  const ArgumentObjects objects = named_objects(session);
  const ir::CallStack& stack = provenance.at(node.provenance);
  const Ref results = list_of(node.results(), [&](const auto& value) { return described(session, *value); });
  const Ref arguments =
      list_of(node.arguments(), [&](const Argument& argument) { return object_of(session, argument, objects); });
  const Ref frames = list_of(stack.frames, [](const ir::SharedFrame& frame) {
    return Ref(Py_BuildValue("(siss)", frame->file.c_str(), frame->line, frame->function.c_str(), frame->code.c_str()));
  });
  const Ref keywords(PyDict_New());
  if (!results || !arguments || !frames || !keywords) return {};
  for (const Named& named : node.keywords()) {
    const Ref value = object_of(session, named.argument, objects);
    if (!value || PyDict_SetItemString(keywords.get(), named.name.c_str(), value.get()) < 0) return {};
  }
  return Ref(Py_BuildValue("(sOOOOss)", node.target().c_str(), results.get(), arguments.get(), keywords.get(),
                           frames.get(), stack.module_path.c_str(), stack.module_class.c_str()));
}

// graph(name): (inputs, nodes, outputs); "" is the main one.
PyObject* graph(PyObject* self, PyObject* name) {
  Session& session = *self_of(self).session;
  const ir::Variant& variant = variant_of(self);
  const std::string wanted = text_of(name);
  const auto subgraph = variant.subgraphs.find(wanted);
  if (!wanted.empty() && subgraph == variant.subgraphs.end()) {
    PyErr_Format(PyExc_KeyError, "there is no subgraph %s", wanted.c_str());
    return nullptr;
  }
  const ir::Graph& found = wanted.empty() ? variant.graph : subgraph->second;
  const Ref inputs = list_of(found.inputs(), [&](const auto& value) { return described(session, *value); });
  const Ref nodes = list_of(found.forward(), [&](const ir::Node& node) {
    return described(session, self_of(self).program->provenance, node);
  });
  const Ref outputs = list_of(
      found.outputs(), [&](const Argument& argument) { return object_of(session, argument, named_objects(session)); });
  return inputs && nodes && outputs ? PyTuple_Pack(3, inputs.get(), nodes.get(), outputs.get()) : nullptr;
}

// {name: tensor}; the tensors share the program's memory.
PyObject* weights(PyObject* self, PyObject*) {
  Session& session = *self_of(self).session;
  Ref found(PyDict_New());
  for (const ir::Weight& weight : self_of(self).program->weights) {
    const Ref tensor = session.wrap(TensorState{.real = weight.tensor});
    if (!found || !tensor || PyDict_SetItemString(found.get(), weight.name.c_str(), tensor.get()) < 0) return nullptr;
  }
  return found.release();
}

// --- What can be done with it

PyObject* call(PyObject* self, PyObject* args) {
  PyObject *leaves = nullptr, *state = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!:call", &PyList_Type, &leaves, &PyDict_Type, &state)) return nullptr;
  return replay(*self_of(self).session, *self_of(self).program, leaves, state).release();
}

PyObject* check(PyObject* self, PyObject* args) {
  PyObject *leaves = nullptr, *state = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!:check", &PyList_Type, &leaves, &PyDict_Type, &state)) return nullptr;
  return takes(*self_of(self).session, *self_of(self).program, leaves, state) ? new_none() : nullptr;
}

PyObject* as_text(PyObject* self, PyObject*) { return new_text(text::print(*self_of(self).program)).release(); }

// The program as it is written: complete, and marked by the tool that made it.
ir::ExportedProgram finished(const ir::ExportedProgram& program) {
  ir::ExportedProgram copy = program.clone();
  materialise(copy);
  return copy;
}

PyObject* as_bytes(PyObject* self, PyObject*) {
  Session& session = *self_of(self).session;
  ir::ExportedProgram program = finished(*self_of(self).program);
  program.history.push_back({"atenon-capture", ATENON_VERSION, {}});
  Result<std::string> bytes = program::serialize(program);
  if (!bytes) return session.raise(bytes.error());
  return PyBytes_FromStringAndSize(bytes->data(), static_cast<Py_ssize_t>(bytes->size()));
}

// save(path): to the file, or to where the tool's own output goes.
PyObject* save(PyObject* self, PyObject* path) {
  Session& session = *self_of(self).session;
  ir::ExportedProgram program = finished(*self_of(self).program);
  if (session.takes_saved) {
    session.saved.emplace_back(text_of(path), std::move(program));
    return new_none();
  }
  program.history.push_back({"atenon-capture", ATENON_VERSION, {}});
  if (Result<void> written = program::write(program, text_of(path)); !written) return session.raise(written.error());
  session.written.push_back(text_of(path));
  return new_none();
}

PyObject* validate(PyObject* self, PyObject*) {
  Session& session = *self_of(self).session;
  Result<void> valid = verify::check(*self_of(self).program, session.opset);
  return valid ? new_none() : session.raise(valid.error());
}

// decomposed(set, [operators to keep]): Program
PyObject* decomposed(PyObject* self, PyObject* args) {
  const char* set = nullptr;
  PyObject* keep = nullptr;
  if (!PyArg_ParseTuple(args, "sO!:decomposed", &set, &PyList_Type, &keep)) return nullptr;
  Session& session = *self_of(self).session;
  decompose::Options options{.to = set};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keep); ++i) options.keep.push_back(text_of(PyList_GET_ITEM(keep, i)));
  Result<ir::ExportedProgram> program = decompose::run(self_of(self).program->clone(), session.opset, options);
  return program ? new_program(session, std::move(*program)) : session.raise(program.error());
}

// {name: bytes}
PyObject* extra_files(PyObject* self, PyObject*) {
  Ref files(PyDict_New());
  for (const ir::ExtraFile& file : self_of(self).program->extra_files) {
    const Ref bytes(PyBytes_FromStringAndSize(static_cast<const char*>(file.bytes->data()),
                                              static_cast<Py_ssize_t>(file.bytes->size())));
    if (!files || !bytes || PyDict_SetItemString(files.get(), file.name.c_str(), bytes.get()) < 0) return nullptr;
  }
  return files.release();
}

// with_extra_files({name: bytes}): Program, with these and no others
PyObject* with_extra_files(PyObject* self, PyObject* files) {
  ir::ExportedProgram program = self_of(self).program->clone();
  program.extra_files.clear();
  PyObject *name = nullptr, *content = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(files, &position, &name, &content);) {
    auto bytes = Storage::allocate(static_cast<size_t>(PyBytes_GET_SIZE(content)));
    std::memcpy(bytes->mutable_data(), PyBytes_AS_STRING(content), bytes->size());
    program.extra_files.push_back({text_of(name), std::move(bytes)});
  }
  return new_program(*self_of(self).session, std::move(program));
}

PyMethodDef methods[] = {
    {"inputs", inputs, METH_NOARGS, nullptr},
    {"outputs", outputs, METH_NOARGS, nullptr},
    {"trees", trees, METH_NOARGS, nullptr},
    {"symbols", symbols, METH_NOARGS, nullptr},
    {"targets", targets, METH_NOARGS, nullptr},
    {"assumptions", assumptions, METH_NOARGS, nullptr},
    {"graph", graph, METH_O, nullptr},
    {"weights", weights, METH_NOARGS, nullptr},
    {"call", call, METH_VARARGS, nullptr},
    {"check", check, METH_VARARGS, nullptr},
    {"text", as_text, METH_NOARGS, nullptr},
    {"bytes", as_bytes, METH_NOARGS, nullptr},
    {"save", save, METH_O, nullptr},
    {"extra_files", extra_files, METH_NOARGS, nullptr},
    {"with_extra_files", with_extra_files, METH_O, nullptr},
    {"validate", validate, METH_NOARGS, nullptr},
    {"decomposed", decomposed, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy)}, {Py_tp_methods, methods}, {0, nullptr}};

// What the text of the file says is not trusted: it is held to the operators, and to those that it brings.
PyObject* checked(Session& session, Result<ir::ExportedProgram> program, const std::string& path) {
  if (!program) return session.raise(program.error());
  for (const std::string& block : program->custom_blocks)
    if (Result<void> added = session.opset.add(block, path); !added) return session.raise(added.error());
  if (Result<void> valid = verify::check(*program, session.opset); !valid) return session.raise(valid.error());
  if (program->entries.size() == 1 && program->entries[0].variants.size() == 1)
    return new_program(session, std::move(*program));
  return session.raise(331, path + " has several entry points or variants, which no ExportedProgram of Python's has",
                       "atenon run");
}

}  // namespace

bool add_program_type(Session& session) {
  PyType_Spec spec = {"_atenon.Program", sizeof(ProgramObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  session.program_type = Ref(PyType_FromSpec(&spec));
  return static_cast<bool>(session.program_type);
}

PyObject* export_model(Session& session, PyObject* args) {
  PyObject *model = nullptr, *positional = nullptr, *keywords = nullptr, *dynamic_shapes = nullptr;
  int is_draft = 0;
  if (!PyArg_ParseTuple(args, "OO!O!O|p:export", &model, &PyTuple_Type, &positional, &PyDict_Type, &keywords,
                        &dynamic_shapes, &is_draft))
    return nullptr;
  if (session.is_tracing)
    return session.raise(331, "torch.export.export is called inside of a capture",
                         "export the parts one after the other");
  const Example example{.args = Ref::borrow(positional),
                        .keywords = Ref::borrow(keywords),
                        .dynamic_shapes = Ref::borrow(dynamic_shapes)};
  std::optional<Traced> traced = trace(session, model, example, {.is_draft = is_draft != 0}, *session.report);
  if (!traced) return nullptr;
  const Ref program(new_program(session, std::move(traced->program)));
  const Ref findings = list_of(session.findings, [](const Diagnostic& finding) {
    const std::string place =
        finding.where.known() ? finding.where.file + ":" + std::to_string(finding.where.line) : "";
    const std::string fix = finding.notes.empty() ? "" : finding.notes.front().text;
    return Ref(
        Py_BuildValue("(ssss)", finding.code_name().c_str(), finding.message.c_str(), place.c_str(), fix.c_str()));
  });
  return program && findings ? PyTuple_Pack(3, program.get(), traced->result.get(), findings.get()) : nullptr;
}

PyObject* load_program(Session& session, PyObject* from) {
  if (PyBytes_Check(from)) {
    auto bytes = Storage::allocate(static_cast<size_t>(PyBytes_GET_SIZE(from)));
    std::memcpy(bytes->mutable_data(), PyBytes_AS_STRING(from), bytes->size());
    return checked(session, program::parse(std::move(bytes), "<bytes>"), "<bytes>");
  }
  const std::string path = text_of(from);
  for (const auto& [name, program] : session.saved)
    if (name == path) return new_program(session, program.clone());
  Result<Contents> contents = read_contents(path);
  if (!contents && contents.failure().code == 1) {  // what `except` of a script expects
    errno = ENOENT;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
  }
  if (contents && pt2::is_archive(*contents)) return checked(session, pt2::read(*contents, path, session.opset), path);
  return checked(session, program::read(path), path);
}

}  // namespace atenon::capture
