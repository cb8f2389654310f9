#include "capture/embed.h"

#include <csignal>
#include <set>

#include "capture/native.h"

namespace atenon::capture {
namespace {

bool append_path(PyObject* path, const std::string& folder, Py_ssize_t position) {
  const Ref text(PyUnicode_DecodeFSDefault(folder.c_str()));
  return text && PyList_Insert(path, position, text.get()) == 0;
}

std::string version_folder() {
  return "python" + std::to_string(PY_MAJOR_VERSION) + "." + std::to_string(PY_MINOR_VERSION);
}

std::string stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.rfind('.'));
}

Diagnostic failed(const std::string& what) { return error(Status::unsupported, 302, "Python did not start: " + what); }

}  // namespace

Result<void> start(const Interpreter& options) {
  if (PyImport_AppendInittab("_atenon", make_native_module) < 0) return failed("no memory");
  PyPreConfig before;
  PyPreConfig_InitIsolatedConfig(&before);
  before.utf8_mode = 1;  // whatever the locale
  if (PyStatus begun = Py_PreInitialize(&before); PyStatus_Exception(begun))
    return failed(begun.err_msg ? begun.err_msg : "no reason was given");
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  // Isolated: no environment variables, no user's site folder. Sets are iterated in the same order on every run, and
  // nothing is written beside the user's files.
  config.use_hash_seed = 1;
  config.hash_seed = 0;
  config.write_bytecode = 0;
  config.install_signal_handlers = 0;
  config.site_import = options.virtual_environment.empty();
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, ATENON_PYTHON);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) return failed(status.err_msg ? status.err_msg : "no reason was given");

  // Ctrl-C ends the tool, as it ends any. This module makes a KeyboardInterrupt of it as soon as it is imported, and
  // who saves and restores the handler gets the one that the module knows: it is told, too.
  struct sigaction interrupt{};
  sigaction(SIGINT, nullptr, &interrupt);
  const Ref signals(PyImport_ImportModule("_signal"));
  if (!signals) return failed("signals");
  const Ref none = attribute(signals.get(), "SIG_DFL");
  if (interrupt.sa_handler == SIG_DFL && !Ref(PyObject_CallMethod(signals.get(), "signal", "iO", SIGINT, none.get())))
    return failed("signals");

  // Standard output is the program's: what the model prints is a message.
  if (!options.keeps_output && PySys_SetObject("stdout", PySys_GetObject("stderr")) < 0)
    return failed("no standard error");
  PyObject* path = PySys_GetObject("path");
  if (!append_path(path, options.python_folder, 0) || !append_path(path, options.model_folder, 1))
    return failed("sys.path");
  if (!options.virtual_environment.empty()) {
    const Ref site(PyImport_ImportModule("site"));
    const std::string folder = options.virtual_environment + "/lib/" + version_folder() + "/site-packages";
    if (!site || !Ref(PyObject_CallMethod(site.get(), "addsitedir", "s", folder.c_str())))
      return failed("the virtual environment " + folder);
  }
  return {};
}

namespace {

Ref run_module(const std::string& name, const std::string& path, const std::string& text) {
  const Ref code(Py_CompileString(text.c_str(), path.c_str(), Py_file_input));
  if (!code) return {};
  const Ref module(PyModule_New(name.c_str()));
  if (!module) return {};
  // In sys.modules first, as for an import: dataclasses and pickles look their module up.
  PyObject* names = PyModule_GetDict(module.get());
  const Ref file(PyUnicode_DecodeFSDefault(path.c_str()));
  if (PyDict_SetItemString(PyImport_GetModuleDict(), name.c_str(), module.get()) < 0 ||
      PyDict_SetItemString(names, "__file__", file.get()) < 0 ||
      PyDict_SetItemString(names, "__atenon_entry__", Py_True) < 0 ||  // lets placeholders tell it from what it imports
      PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) < 0)
    return {};
  return Ref(PyEval_EvalCode(code.get(), names, names)) ? module : Ref();
}

// Takes a SystemExit that means success.
bool is_good_exit() {
  if (!PyErr_ExceptionMatches(PyExc_SystemExit)) return false;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref code = attribute(value, "code");
  const bool is_good = !code || code.get() == Py_None || (PyLong_Check(code.get()) && PyLong_AsLong(code.get()) == 0);
  if (!is_good) {
    PyErr_Restore(type, value, traceback);
    return false;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return true;
}

}  // namespace

Ref run_file(const std::string& path, const std::string& text) { return run_module(stem(path), path, text); }

bool run_as_main(const std::string& path, const std::string& text, const std::vector<std::string>& arguments) {
  PyObject* argv = PySys_GetObject("argv");
  if (!argv || PyList_SetSlice(argv, 0, PyList_GET_SIZE(argv), nullptr) < 0 || !append_path(argv, path, 0))
    return false;
  for (const std::string& argument : arguments)
    if (!append_path(argv, argument, PyList_GET_SIZE(argv))) return false;
  const bool is_well = static_cast<bool>(run_module("__main__", path, text)) || is_good_exit();
  // The interpreter is never finalised: what the script printed is still in its buffer.
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyObject* output = PySys_GetObject("stdout")) Ref(PyObject_CallMethod(output, "flush", nullptr));
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return is_well;
}

std::set<std::string> imported_modules() {
  std::set<std::string> names;
  PyObject *key = nullptr, *module = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(PyImport_GetModuleDict(), &position, &key, &module);)
    names.insert(text_of(key));
  return names;
}

std::vector<std::string> imported_files(const std::string& python_folder, const std::set<std::string>& before) {
  const Ref sysconfig(PyImport_ImportModule("sysconfig"));
  const Ref standard(sysconfig ? PyObject_CallMethod(sysconfig.get(), "get_path", "s", "stdlib") : nullptr);
  PyErr_Clear();
  const std::string library = text_of(standard.get());
  std::set<std::string> files;
  PyObject *key = nullptr, *module = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(PyImport_GetModuleDict(), &position, &key, &module);) {
    const std::string file = text_of(attribute(module, "__file__").get());
    if (before.contains(text_of(key)) || !file.starts_with('/') || !file.ends_with(".py")) continue;
    const bool is_standard =
        !library.empty() && file.starts_with(library + "/") && file.find("-packages/") == std::string::npos;
    if (is_standard || file.starts_with(python_folder + "/")) continue;
    files.insert(file);
  }
  const Ref serialization(PyImport_ImportModule("torch.serialization"));
  const Ref loaded(serialization ? PyObject_GetAttrString(serialization.get(), "files_loaded") : nullptr);
  for (Py_ssize_t i = 0; loaded && i < PyList_GET_SIZE(loaded.get()); ++i)
    files.insert(text_of(PyList_GET_ITEM(loaded.get(), i)));
  PyErr_Clear();
  return {files.begin(), files.end()};
}

}  // namespace atenon::capture

// Read by the address sanitizer as the process starts: CPython keeps what it allocates until the end, under stacks that
// no list of suppressions names reliably. The tools that do not embed it are checked for leaks.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
