// The whole run: start Python, run the file, build the model, trace forward, write down what was recorded.
#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "arrays/arrays.h"
#include "capture/capture.h"
#include "capture/depfile.h"
#include "capture/embed.h"
#include "capture/failure.h"
#include "capture/inputs.h"
#include "capture/native.h"
#include "capture/session.h"
#include "capture/state.h"
#include "capture/trace.h"
#include "program/container.h"
#include "pt2/pt2.h"
#include "support/streams.h"

namespace atenon::capture {
namespace {

Diagnostic no_target() {
  return error(Status::usage, 5, "--depfile: its rule is of a file, and none is written").note("fix: -o FILE");
}

bool replaces(const std::string& written, const std::vector<std::string>& files) {
  std::error_code not_there;
  return std::ranges::any_of(
      files, [&](const std::string& file) { return std::filesystem::equivalent(written, file, not_there); });
}

// What is no Python, and is there already what a capture makes or takes.
std::optional<Diagnostic> other_kind(const Options& options, const Contents& contents) {
  const std::string_view text = contents.text();
  if (program::has_magic(text) || text.starts_with("program 1"))
    return error(Status::usage, 303, options.file + " is a program already, not a model's Python")
        .note("fix: atenon show " + options.file + "; the stages after capture take it");
  if (arrays::parse(contents, options.file))
    return error(Status::usage, 303, options.file + " is a file of arrays, not a model's Python")
        .note("fix: atenon capture MODEL.py --weights " + options.file + ", or --input NAME=@" + options.file);
  return std::nullopt;
}

// --- The stages of a run

class Run {
 public:
  Run(const Options& options, opset::Opset& opset, Report& report, std::string path)
      : options_(options), report_(report), path_(std::move(path)), session_(opset, path_, options.python_folder) {
    session_.report = &report;
    session_.takes_saved = options.takes_saved;
  }

  Result<std::optional<ir::ExportedProgram>> operator()(const std::string& text);

 private:
  void note_time(const char* stage);
  Result<std::optional<ir::ExportedProgram>> capture_model(const std::string& text);
  Result<Ref> build_model(PyObject* file);
  Result<std::optional<ir::ExportedProgram>> run_script(const std::string& text);
  Diagnostic failed_trace();
  Diagnostic failure() { return diagnostic_of_exception(session_); }

  const Options& options_;
  Report& report_;
  std::string path_;
  Session session_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void Run::note_time(const char* stage) {
  const auto now = std::chrono::steady_clock::now();
  const double time = std::chrono::duration<double, std::milli>(now - last_).count();
  report_.said.push_back(std::string(stage) + " " + std::to_string(time) + " ms");
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
                 "'" + options_.name + "' is of type " + Py_TYPE(found.get())->tp_name +
                     ", not a model nor a function that gives one");
  const Ref model(PyObject_CallNoArgs(found.get()));
  if (!model) return failure();
  if (!PyCallable_Check(model.get()))
    return error(
        Status::usage, 303,
        options_.name + "() gives an object of type " + Py_TYPE(model.get())->tp_name + ", not a model nor a function");
  return model;
}

// Where a line of the model failed, sizes that nobody chose may be why: says which they were, and how to choose others.
// An exception of Python's own (E0301), or a size that must be a number (E0310), comes of them where a test was
// decided.
Diagnostic Run::failed_trace() {
  Diagnostic failed = failure();
  if (!failed.where.known() || session_.invented.empty()) return failed;
  const bool is_decided =
      std::any_of(session_.assumptions.begin(), session_.assumptions.end(), [&](const ir::Constraint& assumption) {
        const std::set<std::string> symbols = assumption.truth.symbols();
        return std::any_of(symbols.begin(), symbols.end(),
                           [&](auto& name) { return session_.invented.contains(name); });
      });
  if (!is_decided && (failed.code == 301 || failed.code == 310)) return failed;
  std::string sizes;
  for (const std::string& name : session_.invented)
    sizes += (sizes.empty() ? "" : ", ") + name + " = " + std::to_string(session_.hints[name]);
  return std::move(failed)
      .note("no example gave a size: tried with " + sizes)
      .note("fix: --dynamic " + *session_.invented.rbegin() + "=64.. for one from 64 on, or inputs() in the file");
}

Result<std::optional<ir::ExportedProgram>> Run::capture_model(const std::string& text) {
  if (!Ref(PyUnicode_FromString(std::filesystem::path(path_).filename().c_str()))) {
    PyErr_Clear();
    return error(Status::usage, 303, "the name of " + options_.file + " is no UTF-8, as names of Python's modules are")
        .note("give the file another name");
  }
  const Ref file = run_file(path_, text);
  if (!file) return failure();
  note_time("import");
  Result<Ref> model = build_model(file.get());
  if (!model) return model.error();
  note_time("construct");
  const std::optional<Example> example = example_of_file(file.get());
  if (!example) return failure();
  std::optional<Traced> traced = trace(session_, model->get(), *example, options_, report_);
  if (!traced) return failed_trace();
  note_time("trace");
  for (const ir::Constraint& assumption : traced->program.entry("")->variants[0].assumptions)
    report_.said.push_back("assumed " + assumption.truth.to_string() + ": " + assumption.reason + ", at " +
                           traced->program.provenance.at(assumption.provenance).place());
  materialise(traced->program);
  note_time("initialise");
  return std::optional(std::move(traced->program));
}

Result<std::optional<ir::ExportedProgram>> Run::run_script(const std::string& text) {
  if (!options_.inputs.empty() || !options_.dynamic.empty() || !options_.weights.empty() || options_.is_draft)
    return error(Status::usage, 305,
                 "--input, --dynamic, --weights and --draft are for a model file, not for a --script")
        .note("fix: the script itself says what goes in; torch.export.draft_export makes a draft");
  const bool is_well = run_as_main(path_, text, options_.script_arguments);
  note_time("script");
  if (!is_well) return failure();
  if (!options_.takes_saved) return std::optional<ir::ExportedProgram>();
  if (session_.saved.size() == 1) return std::optional(std::move(session_.saved.front().second));
  return error(Status::usage, 332,
               session_.saved.empty()
                   ? options_.file + " saves no program"
                   : options_.file + " saves " + std::to_string(session_.saved.size()) + " programs, and -o takes one")
      .note(session_.saved.empty() ? "fix: torch.export.save(exported_program, \"model.atn\") at its end"
                                   : "fix: leave -o out: each is written to the path that the script names");
}

Result<std::optional<ir::ExportedProgram>> Run::operator()(const std::string& text) {
  if (Result<void> started = start({.python_folder = options_.python_folder,
                                    .model_folder = path_.substr(0, path_.rfind('/')),
                                    .virtual_environment = options_.virtual_environment,
                                    .keeps_output = options_.is_script && !options_.takes_saved});
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
  Result<std::optional<ir::ExportedProgram>> program = options_.is_script ? run_script(text) : capture_model(text);
  if (!program) return program.error();
  const std::vector<std::string> files = imported_files(options_.python_folder, ours);
  for (const auto& [option, written] : {std::pair("-o ", options_.output), std::pair("--depfile ", options_.depfile)})
    if (replaces(written, files))
      return error(Status::usage, 5, option + written + " would replace a file that the model reads")
          .note("name another file");
  if (options_.depfile.empty()) return program;
  std::vector<std::string> targets;  // each once, though a script saves it again
  for (const std::string& path : session_.written)
    if (std::ranges::find(targets, path) == targets.end()) targets.push_back(path);
  if (options_.output != "-") targets.push_back(options_.output);
  if (targets.empty()) return no_target();
  if (Result<void> written = write_depfile(options_.depfile, targets, options_.file, path_, files); !written)
    return written.error();
  return program;
}

// An archive of torch.export has its inputs and weights inside, and needs no Python.
Result<std::optional<ir::ExportedProgram>> import_archive(const Options& options, opset::Opset& opset,
                                                          const Contents& contents) {
  if (!options.inputs.empty() || !options.dynamic.empty() || !options.weights.empty() || !options.depfile.empty() ||
      options.is_script)
    return error(Status::usage, 305, options.file + " is an archive of torch.export, which says itself what goes in")
        .note("fix: leave out --input, --dynamic, --weights, --depfile and --script");
  Result<ir::ExportedProgram> program = pt2::read(contents, options.file, opset);
  if (!program) return program.error();
  return std::optional(std::move(*program));
}

}  // namespace

void Options::complete(const std::string& share_folder, const char* environment, const std::string& output,
                       bool output_is_given) {
  this->output = output;
  takes_saved = is_script && output_is_given;
  if (const size_t colon = file.rfind(".py:"); colon != std::string::npos) {
    name = file.substr(colon + 4);
    file.resize(colon + 3);
  }
  python_folder = share_folder + "/python";
  char path[PATH_MAX];
  if (realpath(python_folder.c_str(), path)) python_folder = path;
  if (environment) virtual_environment = environment;
}

Result<std::optional<ir::ExportedProgram>> run(const Options& options, opset::Opset& opset, Report& report) {
  Result<Contents> text = read_contents(options.file);
  if (!text) return text.error();
  if (!options.is_script && !options.script_arguments.empty())
    return error(Status::usage, 5, "unexpected argument '" + options.script_arguments.front() + "'")
        .note("arguments are those of a --script");
  if (pt2::is_archive(*text)) return import_archive(options, opset, *text);
  if (std::optional<Diagnostic> other = other_kind(options, *text)) return *other;
  if (!options.depfile.empty() && !options.is_script && options.output == "-") return no_target();
  char path[PATH_MAX];
  if (!realpath(options.file.c_str(), path)) return error(Status::usage, 303, "there is no file " + options.file);
  // The session's Python objects live as long as the interpreter, which is never finalised: so does the session.
  auto* run = new Run(options, opset, report, path);
  return (*run)(std::string(text->text()));
}

}  // namespace atenon::capture
