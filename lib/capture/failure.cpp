#include "capture/failure.h"

#include <algorithm>
#include <map>

#include "capture/callstack.h"

namespace atenon::capture {
namespace {

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

// Notes the calls, innermost first. A recursion, of one function or of several in turn, is noted once.
void add_calls(Diagnostic& diagnostic, const std::vector<Note>& calls) {
  constexpr size_t longest = 8, fewest = 3;  // frames in a turn, turns that are worth folding
  const auto turns = [&](size_t start, size_t length) {
    size_t end = start + length;
    while (end < calls.size() && calls[end].text == calls[end - length].text) ++end;
    return (end - start) / length;
  };
  for (size_t i = 0; i < calls.size();) {
    size_t length = 1;
    while (length < longest && turns(i, length) < fewest) ++length;
    const size_t count = turns(i, length);
    if (count < fewest) {
      diagnostic.notes.push_back({"called " + calls[i++].text});
      continue;
    }
    for (size_t k = 0; k < length; ++k) diagnostic.notes.push_back({"called " + calls[i + k].text});
    diagnostic.notes.push_back({(length == 1 ? "" : "these " + std::to_string(length) + " ") + "repeated " +
                                std::to_string(count - 1) + " more times"});
    i += length * count;
  }
}

// What the package index calls a package that Python imports by another name.
std::string distribution(const std::string& package) {
  static const std::map<std::string, std::string> names = {
      {"Bio", "biopython"},        {"PIL", "pillow"},  {"attr", "attrs"},           {"cv2", "opencv-python-headless"},
      {"skimage", "scikit-image"}, {"yaml", "PyYAML"}, {"sklearn", "scikit-learn"},
  };
  const auto found = names.find(package);
  return found == names.end() ? package : found->second;
}

}  // namespace

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
      if (diagnostic.status == Status::bad_input && !diagnostic.where.file.empty())
        diagnostic.status = Status::unsupported;  // the model's doing, not that of a file which the user named
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
  if (const Ref notes = attribute(exception.get(), "__notes__"); notes && PyList_Check(notes.get()))
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(notes.get()); ++i)
      diagnostic.notes.push_back({text_of(PyList_GET_ITEM(notes.get(), i))});
  const std::string module = text_of(attribute(exception.get(), "name").get());
  const bool is_missing = PyErr_GivenExceptionMatches(exception.get(), PyExc_ModuleNotFoundError);
  const std::string package = module.substr(0, module.find('.'));
  if (is_missing && text.ends_with("is not a package"))
    diagnostic.notes.push_back({"fix: rename " + package + ".py, if another '" + package + "' is meant, a package"});
  else if (is_missing && package != module && package != "torch" &&
           PyDict_GetItemString(PyImport_GetModuleDict(), package.c_str()))
    diagnostic.notes.push_back({"fix: install a version of " + distribution(package) + " that has " + module +
                                ": the one of the active environment has not"});
  else if (is_missing && !module.empty() && !module.starts_with("torch."))
    diagnostic.notes.push_back({"fix: python3 -m venv ENV; ENV/bin/pip install " + distribution(package) +
                                "; VIRTUAL_ENV=ENV atenon capture ...: packages are those of the active environment"});
  std::vector<Note> stack = session.call_stacks->user_frames(frames.get());
  if (!stack.empty()) stack.pop_back();  // the innermost is the place itself
  std::reverse(stack.begin(), stack.end());
  add_calls(diagnostic, stack);
  return diagnostic;
}

}  // namespace atenon::capture
