// The whole run: start Python, run the file, build the model, trace forward, write down what was recorded.
#include <chrono>
#include <climits>
#include <cstdlib>
#include <set>

#include "capture/callstack.h"
#include "capture/capture.h"
#include "capture/depfile.h"
#include "capture/embed.h"
#include "capture/inputs.h"
#include "capture/native.h"
#include "capture/pytree.h"
#include "capture/session.h"
#include "capture/state.h"
#include "support/streams.h"

namespace atenon::capture {
namespace {

// --- Python's exceptions as diagnostics
// -----------------------------------------------------------------------------------

// A file that does not parse has its place in the exception, not in a traceback.
SourceSpan syntax_error_place(Session& session, PyObject* exception) {
  SourceSpan span{.file = session.call_stacks->relative(text_of(attribute(exception, "filename").get()))};
  if (const Ref line = attribute(exception, "lineno"); line && PyLong_Check(line.get()))
    span.line = static_cast<int>(PyLong_AsLong(line.get()));
  if (const Ref column = attribute(exception, "offset"); column && PyLong_Check(column.get()))
    span.column = static_cast<int>(PyLong_AsLong(column.get()));
  span.text = text_of(attribute(exception, "text").get());
  while (!span.text.empty() && span.text.back() == '\n') span.text.pop_back();
  return span;
}

// Takes the exception that is set.
Diagnostic diagnostic_of_exception(Session& session) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref owned_type(type), exception(value), frames(traceback);
  if (!exception) return error(Status::bug, 0, "Python failed without an exception");
  if (PyErr_GivenExceptionMatches(exception.get(), session.capture_error.get())) {
    const Ref code = attribute(exception.get(), "code"), status = attribute(exception.get(), "status"),
              notes = attribute(exception.get(), "notes");
    if (code && status && notes) {
      Diagnostic diagnostic = error(static_cast<Status>(PyLong_AsLong(status.get())),
                                    static_cast<int>(PyLong_AsLong(code.get())), str_of(exception.get()));
      if (diagnostic.status != Status::usage) diagnostic.where = session.call_stacks->user_line(frames.get());
      if (diagnostic.status == Status::bad_input)
        diagnostic.status = Status::unsupported;  // the model's doing, not a file's
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(notes.get()); ++i)
        diagnostic.notes.push_back({text_of(PyList_GET_ITEM(notes.get(), i))});
      return diagnostic;
    }
  }
  const std::string name = reinterpret_cast<PyTypeObject*>(Py_TYPE(exception.get()))->tp_name;
  const std::string text = str_of(exception.get());
  Diagnostic diagnostic = error(Status::unsupported, 301, name + (text.empty() ? "" : ": " + text));
  if (PyErr_GivenExceptionMatches(exception.get(), PyExc_SyntaxError)) {
    diagnostic.where = syntax_error_place(session, exception.get());
    return diagnostic;
  }
  diagnostic.where = session.call_stacks->user_line(frames.get());
  std::vector<Note> stack = session.call_stacks->user_frames(frames.get());
  if (!stack.empty()) stack.pop_back();  // the innermost is the place itself
  for (size_t i = stack.size(); i-- > 0;) diagnostic.notes.push_back({"called " + stack[i].text});
  return diagnostic;
}

// --- The stages of a run
// --------------------------------------------------------------------------------------------------

class Run {
 public:
  Run(const Options& options, const opset::Opset& opset, Report& report, std::string path)
      : options_(options), report_(report), path_(std::move(path)), session_(opset, path_, options.python_folder) {}

  Result<ir::ExportedProgram> operator()(const std::string& text);

 private:
  void note_time(const char* stage);
  Result<Ref> build_model(PyObject* file);
  bool write_outputs(PyObject* result, PyObject* model, const Inputs& inputs);
  bool add_mutations(PyObject* model, const Inputs& inputs);
  bool add_result(PyObject* result);
  bool check_buffers_read();
  void eliminate_unread_nodes();
  void minimise_assumptions();
  ir::ExportedProgram finish(const Inputs& inputs);
  Diagnostic failure() { return diagnostic_of_exception(session_); }

  const Options& options_;
  Report& report_;
  std::string path_;
  Session session_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<Argument> outputs_;
  ir::GraphSignature signature_;
};

void Run::note_time(const char* stage) {
  const auto now = std::chrono::steady_clock::now();
  report_.milliseconds.emplace_back(stage, std::chrono::duration<double, std::milli>(now - last_).count());
  last_ = now;
}

Result<Ref> Run::build_model(PyObject* file) {
  const Ref found = attribute(file, options_.name.c_str());
  if (!found) {
    std::vector<std::string> names;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(PyModule_GetDict(file), &position, &key, &value);)
      if (PyCallable_Check(value)) names.push_back(text_of(key));
    Diagnostic missing = error(Status::usage, 303, options_.file + " has no '" + options_.name + "'");
    const std::string near = nearest(options_.name, names);
    if (!near.empty()) missing.notes.push_back({"did you mean '" + near + "'?"});
    missing.notes.push_back({"name what gives the model: capture " + options_.file + ":NAME"});
    return missing;
  }
  const Ref nn(PyImport_ImportModule("torch.nn"));
  const Ref module_class(nn ? PyObject_GetAttrString(nn.get(), "Module") : nullptr);
  if (!module_class) return failure();
  if (PyObject_IsInstance(found.get(), module_class.get()) == 1) return found;
  if (!PyCallable_Check(found.get()))
    return error(Status::usage, 303,
                 "'" + options_.name + "' is a " + Py_TYPE(found.get())->tp_name +
                     ", not a model nor a function that gives one");
  const Ref model(PyObject_CallNoArgs(found.get()));
  if (!model) return failure();
  if (!PyCallable_Check(model.get()))
    return error(Status::usage, 303,
                 options_.name + "() gives a " + Py_TYPE(model.get())->tp_name + ", not a model nor a function");
  return model;
}

bool Run::add_result(PyObject* result) {
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
    } else if (PyLong_Check(leaf)) {
      output = SymInt(static_cast<int64_t>(PyLong_AsLongLong(leaf)));
    } else if (PyFloat_Check(leaf)) {
      output = SymFloat(PyFloat_AS_DOUBLE(leaf));
    } else if (PyUnicode_Check(leaf)) {
      output = text_of(leaf);
    } else {
      session_.raise(315,
                     std::string("forward returns a ") + Py_TYPE(leaf)->tp_name +
                         (leaves[i].path.empty() ? "" : " at " + leaves[i].path) + ", which no program can give",
                     "return tensors, numbers, and tuples, lists and dicts of them; or register the class with "
                     "torch.utils._pytree.register_pytree_node");
      return false;
    }
    outputs_.push_back(std::move(output));
    signature_.outputs.push_back({ir::OutputKind::user_output, i < paths.size() ? paths[i] : std::to_string(i)});
  }
  return true;
}

// Updated state and inputs are outputs, before all others.
bool Run::add_mutations(PyObject* model, const Inputs& inputs) {
  std::optional<std::vector<Assigned>> assigned = assigned_buffers(session_, model);
  if (!assigned) return false;
  for (Lifted& entry : session_.lifted) {
    if (!entry.base->is_written()) continue;
    // A plain attribute that forward updates is state: it becomes a buffer that no state dict has.
    if (entry.spec.kind == ir::InputKind::constant_tensor) {
      entry.spec.kind = ir::InputKind::buffer;
      entry.spec.persistent = false;
    }
    outputs_.push_back(entry.base->value);
    signature_.outputs.push_back({ir::OutputKind::buffer_mutation, entry.spec.target});
  }
  for (const Assigned& buffer : *assigned) {
    outputs_.push_back(buffer.value);
    signature_.outputs.push_back({ir::OutputKind::buffer_mutation, buffer.name});
  }
  for (size_t i = 0; i < inputs.bases.size(); ++i) {
    if (!inputs.bases[i] || !inputs.bases[i]->is_written()) continue;
    outputs_.push_back(inputs.bases[i]->value);
    signature_.outputs.push_back({ir::OutputKind::user_input_mutation, inputs.specs[i].target});
  }
  return true;
}

bool Run::check_buffers_read() {
  for (const std::shared_ptr<Base>& base : session_.buffers_read)
    if (base->is_written()) {
      session_.raise(311,
                     "a number was read from a buffer that forward updates: it would be another one at the next call",
                     "compute with tensors instead");
      return false;
    }
  return true;
}

bool Run::write_outputs(PyObject* result, PyObject* model, const Inputs& inputs) {
  return check_buffers_read() && add_mutations(model, inputs) && add_result(result);
}

// Views that were only written through, and what Python computed and forgot.
void Run::eliminate_unread_nodes() {
  for (ir::Node& node : session_.graph.backward()) {
    if (node.has_users()) continue;
    const opset::Operator* op = session_.opset.find(node.target());
    const bool matters = op && (op->has_tag("keep") || op->has_tag("random"));
    std::set<std::string> unbacked;
    for (const auto& result : node.results())
      if (result->is_tensor())
        for (const SymInt& size : result->meta().sizes)
          for (const std::string& symbol : size.symbols())
            if (!session_.hints.contains(symbol)) unbacked.insert(symbol);
    if (!matters && unbacked.empty()) session_.graph.erase(node);
  }
}

// Drops what the ranges and the others imply.
void Run::minimise_assumptions() {
  const auto facts_of = [&](const std::vector<ir::Constraint>& constraints, size_t without) {
    shape::Facts facts;
    for (const ir::Symbol& symbol : session_.symbols) facts.declare(symbol.name, symbol.range);
    for (size_t i = 0; i < constraints.size(); ++i)
      if (i != without) facts.assume(constraints[i].truth);
    return facts;
  };
  for (size_t i = session_.assumptions.size(); i-- > 0;)
    if (facts_of(session_.assumptions, i).decide(session_.assumptions[i].truth) == shape::Truth::proven)
      session_.assumptions.erase(session_.assumptions.begin() + static_cast<ptrdiff_t>(i));
}

ir::ExportedProgram Run::finish(const Inputs& inputs) {
  session_.graph.set_outputs(std::move(outputs_));
  eliminate_unread_nodes();
  std::set<std::string> updated;
  for (const ir::OutputSpec& output : signature_.outputs)
    if (output.kind == ir::OutputKind::buffer_mutation) updated.insert(output.target);
  keep_used_state(session_, updated);
  minimise_assumptions();

  std::map<std::string, ir::InputSpec> specs;  // by graph input
  for (const Lifted& entry : session_.lifted) specs[entry.spec.value] = entry.spec;
  // In the graph's order: parameters and buffers, user inputs, then constants, which forward made. A user input without
  // a Value (a number, None) keeps its place in the call.
  auto next = inputs.specs.begin();
  for (const auto& input : session_.graph.inputs()) {
    if (const auto found = specs.find(input->name); found != specs.end()) {
      signature_.inputs.push_back(found->second);
      continue;
    }
    while (next->value != input->name) signature_.inputs.push_back(*next++);
    signature_.inputs.push_back(*next++);
  }
  signature_.inputs.insert(signature_.inputs.end(), next, inputs.specs.end());
  signature_.input_tree = inputs.tree;

  std::set<std::string> namespaces{"aten"};
  for (const ir::Node& node : session_.graph.forward())
    namespaces.insert(node.target().substr(0, node.target().find("::")));

  ir::ExportedProgram program = std::move(session_.program);
  for (const std::string& name : namespaces) program.opsets.push_back({name, 1});
  ir::EntryPoint entry{.symbols = std::move(session_.symbols), .signature = std::move(signature_)};
  entry.variants.push_back({.assumptions = std::move(session_.assumptions), .graph = std::move(session_.graph)});
  program.entries.push_back(std::move(entry));
  return program;
}

Result<ir::ExportedProgram> Run::operator()(const std::string& text) {
  if (Result<void> started =
          start({options_.python_folder, path_.substr(0, path_.rfind('/')), options_.virtual_environment});
      !started)
    return started.error();
  const Ref native(PyImport_ImportModule("_atenon"));
  if (!native || !fill_native_module(native.get(), session_)) return failure();
  note_time("start");

  // Byte code of our own package is kept beside it where that can be written; the user's folders stay as they are.
  PySys_SetObject("dont_write_bytecode", Py_False);
  const Ref torch(PyImport_ImportModule("torch"));
  PySys_SetObject("dont_write_bytecode", Py_True);
  if (!torch) return failure();
  const std::set<std::string> ours = imported_modules();
  const Ref file = run_file(path_, text);
  if (!file) return failure();
  note_time("import");

  Result<Ref> model = build_model(file.get());
  if (!model) return model.error();
  note_time("construct");

  if (!collect_state(session_, model->get())) return failure();
  if (!options_.weights.empty())
    if (Result<void> loaded = load_weights(session_, options_.weights, report_.warnings); !loaded)
      return loaded.error();
  lift_state(session_);
  const Ref forward = attribute(model->get(), "forward");
  const std::optional<Inputs> inputs =
      make_inputs(session_, file.get(), forward ? forward.get() : model->get(), options_);
  if (!inputs) return failure();
  const PythonState python_state(model->get());
  session_.is_tracing = true;
  const Ref result(PyObject_Call(model->get(), inputs->args.get(), inputs->keywords.get()));
  if (!result || !write_outputs(result.get(), model->get(), *inputs)) return failure();
  session_.is_tracing = false;
  std::vector<Diagnostic> changes = python_state.changes();
  for (Diagnostic& change : changes) report_.warnings.push_back(std::move(change));
  ir::ExportedProgram program = finish(*inputs);
  note_time("trace");

  if (!options_.depfile.empty())
    if (Result<void> written = write_depfile(options_.depfile, options_.depfile_target, options_.file, path_,
                                             imported_files(options_.python_folder, ours));
        !written)
      return written.error();
  materialise(program);
  note_time("initialise");
  return program;
}

}  // namespace

void Options::complete(const std::string& share_folder, const char* environment) {
  if (const size_t colon = file.rfind(".py:"); colon != std::string::npos) {
    name = file.substr(colon + 4);
    file.resize(colon + 3);
  }
  python_folder = share_folder + "/python";
  char path[PATH_MAX];
  if (realpath(python_folder.c_str(), path)) python_folder = path;
  if (environment) virtual_environment = environment;
}

Result<ir::ExportedProgram> run(const Options& options, const opset::Opset& opset, Report& report) {
  Result<Contents> text = read_contents(options.file);
  if (!text) return text.error();
  char path[PATH_MAX];
  if (!realpath(options.file.c_str(), path)) return error(Status::usage, 303, "there is no file " + options.file);
  // The session's Python objects live as long as the interpreter, which is never finalised: so does the session.
  auto* run = new Run(options, opset, report, path);
  return (*run)(std::string(text->text()));
}

}  // namespace atenon::capture
