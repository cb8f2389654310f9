#include "capture/callstack.h"

#include <fstream>

namespace atenon::capture {
namespace {

bool is_below(const std::string& path, const std::string& folder) {
  return !folder.empty() && path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 &&
         path[folder.size()] == '/';
}

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\f");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r\f") - first + 1);
}

// A class as "module.Name"; of the file that runs as __main__, the name alone.
std::string class_name(PyObject* object) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const std::string module = text_of(attribute(type, "__module__").get());
  const std::string name = text_of(attribute(type, "__qualname__").get());
  return module.empty() || module == "__main__" ? name : module + "." + name;
}

}  // namespace

CallStacks::CallStacks(std::string model_file, std::string python_folder) : python_folder_(std::move(python_folder)) {
  const size_t slash = model_file.rfind('/');
  model_folder_ = slash == std::string::npos ? "" : model_file.substr(0, slash);
}

std::string CallStacks::relative(const std::string& file) {
  if (is_below(file, model_folder_)) return file.substr(model_folder_.size() + 1);
  std::string best;
  if (PyObject* path = PySys_GetObject("path"); path && PyList_Check(path))
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(path); ++i) {
      const std::string folder = text_of(PyList_GET_ITEM(path, i));
      if (is_below(file, folder) && folder.size() > best.size()) best = folder;
    }
  if (!best.empty()) return file.substr(best.size() + 1);
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? file : file.substr(slash + 1);
}

CallStacks::Code& CallStacks::code_of(PyCodeObject* code) {
  const auto found = codes_.find(code);
  if (found != codes_.end()) return found->second;
  Code& entry = codes_[code];
  entry.object = Ref::borrow(reinterpret_cast<PyObject*>(code));
  entry.path = text_of(code->co_filename);
  entry.is_user = !is_below(entry.path, python_folder_) && !entry.path.starts_with('<');
  entry.file = relative(entry.path);
  entry.function = text_of(code->co_qualname);
  return entry;
}

const std::string& CallStacks::line_of(const std::string& path, int line) {
  static const std::string none;
  auto [entry, is_new] = lines_.try_emplace(path);
  if (is_new) {
    std::ifstream file(path);
    for (std::string text; std::getline(file, text);) entry->second.push_back(text);
  }
  const size_t index = static_cast<size_t>(line) - 1;
  return line > 0 && index < entry->second.size() ? entry->second[index] : none;
}

uint32_t CallStacks::frame_at(Code& code, int instruction) {
  const auto found = code.positions.find(instruction);
  if (found != code.positions.end()) return found->second;
  const int line = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code.object.get()), instruction);
  const uint32_t id = static_cast<uint32_t>(frames_.size());
  frames_.push_back(
      std::make_shared<ir::Frame>(ir::Frame{code.file, line, code.function, trimmed(line_of(code.path, line))}));
  code.positions.emplace(instruction, id);
  return id;
}

template <class Visit>
void CallStacks::each_user_frame(Visit visit) {
  for (PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get()); frame;) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    Code& entry = code_of(code);
    Py_DECREF(code);
    if (entry.is_user) visit(entry, PyFrame_GetLasti(frame));
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
}

ir::ProvenanceId CallStacks::current(ir::Provenance& provenance) {
  if (pretended_) return provenance.intern(*pretended_);
  std::vector<uint32_t> key;  // frames, innermost first, then the module
  each_user_frame([&](Code& code, int instruction) { key.push_back(frame_at(code, instruction)); });
  const Running* running = running_.empty() || !running_.back() ? nullptr : &*running_.back();
  const size_t depth = key.size();
  key.push_back(running
                    ? module_numbers_.emplace(running->call + "|" + running->module->type, module_numbers_.size() + 1)
                          .first->second
                    : 0);
  const auto found = stacks_.find(key);
  if (found != stacks_.end()) return found->second;

  ir::CallStack stack;
  for (size_t i = depth; i-- > 0;) stack.frames.push_back(frames_[key[i]]);
  if (running) {
    stack.module_path = running->call;
    stack.module_class = running->module->type;
  }
  const ir::ProvenanceId id = provenance.intern(std::move(stack));
  stacks_.emplace(std::move(key), id);
  return id;
}

SourceSpan CallStacks::span_at(Code& code, int instruction) {
  int line = 0, column = 0, end_line = 0, end_column = 0;
  auto* object = reinterpret_cast<PyCodeObject*>(code.object.get());
  if (!PyCode_Addr2Location(object, instruction, &line, &column, &end_line, &end_column) || line <= 0)
    line = PyCode_Addr2Line(object, instruction), column = -1;
  SourceSpan span{.file = code.file, .line = line, .text = line_of(code.path, line)};
  if (column >= 0) {
    span.column = column + 1;
    const int end = end_line == line && end_column > column ? end_column : static_cast<int>(span.text.size());
    span.width = std::max(1, end - column);
  }
  return span;
}

SourceSpan CallStacks::user_line() {
  SourceSpan span;
  each_user_frame([&](Code& code, int instruction) {
    if (!span.known()) span = span_at(code, instruction);
  });
  return span;
}

std::string CallStacks::definition(PyObject* callable) {
  const Ref forward = attribute(callable, "forward");
  const Ref code = attribute(forward ? forward.get() : callable, "__code__");
  if (!code || !PyCode_Check(code.get())) return "";
  Code& entry = code_of(reinterpret_cast<PyCodeObject*>(code.get()));
  const int line = reinterpret_cast<PyCodeObject*>(code.get())->co_firstlineno;
  return entry.is_user ? entry.file + ":" + std::to_string(line) : "";
}

SourceSpan CallStacks::line_of(PyObject* module, PyObject* name, bool is_assigned) {
  const Ref finder(PyImport_ImportModule("torch._python_state"));
  const Ref places(finder ? PyObject_CallMethod(finder.get(), "places", "OOi", module, name, is_assigned) : nullptr);
  for (Py_ssize_t i = 0; places && i < PyList_GET_SIZE(places.get()); ++i) {
    PyObject* place = PyList_GET_ITEM(places.get(), i);
    Code& code = code_of(reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(place, 0)));
    if (code.is_user) return span_at(code, static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(place, 1))));
  }
  PyErr_Clear();
  return {};
}

std::string CallStacks::to_string(const SourceSpan& line) {
  return line.file + ":" + std::to_string(line.line) + ": " + trimmed(line.text);
}

SourceSpan CallStacks::user_line(PyObject* traceback) {
  SourceSpan span;
  for (auto* entry = reinterpret_cast<PyTracebackObject*>(traceback); entry; entry = entry->tb_next) {
    PyCodeObject* object = PyFrame_GetCode(entry->tb_frame);
    Code& code = code_of(object);
    Py_DECREF(object);
    if (code.is_user) span = span_at(code, entry->tb_lasti);
  }
  return span;
}

std::vector<Note> CallStacks::user_frames(PyObject* traceback) {
  std::vector<Note> notes;
  for (auto* entry = reinterpret_cast<PyTracebackObject*>(traceback); entry; entry = entry->tb_next) {
    PyCodeObject* object = PyFrame_GetCode(entry->tb_frame);
    Code& code = code_of(object);
    Py_DECREF(object);
    if (!code.is_user) continue;
    const SourceSpan span = span_at(code, entry->tb_lasti);
    notes.push_back({"in " + code.function + " at " + to_string(span)});
  }
  return notes;
}

namespace {

// The number of an instruction of this Python's; -1 if it has none of the name.
int opcode_of(const char* name) {
  const Ref module(PyImport_ImportModule("opcode"));
  const Ref opcodes(module ? PyObject_GetAttrString(module.get(), "opmap") : nullptr);
  PyObject* number = opcodes ? PyDict_GetItemString(opcodes.get(), name) : nullptr;
  PyErr_Clear();
  return number ? static_cast<int>(PyLong_AsLong(number)) : -1;
}

bool is_jump(int opcode) {
  const Ref module(PyImport_ImportModule("opcode"));
  const Ref jumps(module ? PyObject_GetAttrString(module.get(), "hasjrel") : nullptr), number(PyLong_FromLong(opcode));
  const bool found = jumps && number && PySequence_Contains(jumps.get(), number.get()) == 1;
  PyErr_Clear();
  return found;
}

}  // namespace

// `assert a`, `assert not a and b` and `if a: raise X`: a jump by a's truth, behind which, or where it leads, an
// exception is raised. A jump is two bytes (four with EXTENDED_ARG), its argument counts such pairs.
std::optional<bool> CallStacks::asserted() const {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (!frame) return std::nullopt;
  const auto at = static_cast<Py_ssize_t>(PyFrame_GetLasti(frame));
  const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  Py_DECREF(frame);
  const Ref bytes(PyCode_GetCode(reinterpret_cast<PyCodeObject*>(code.get())));
  if (!bytes || at < 0) return std::nullopt;
  const auto* text = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes.get()));
  const Py_ssize_t size = PyBytes_GET_SIZE(bytes.get());
  const auto is = [&](Py_ssize_t place, const char* name) { return text[place] == opcode_of(name); };
  const auto raises = [&](Py_ssize_t place) {
    for (; place < size && !is(place, "RETURN_VALUE") && !is_jump(text[place]); place += 2)
      if (is(place, "RAISE_VARARGS")) return true;
    return false;
  };
  const bool goes_back = is(at, "POP_JUMP_BACKWARD_IF_TRUE") || is(at, "POP_JUMP_BACKWARD_IF_FALSE"),
             if_true = is(at, "POP_JUMP_FORWARD_IF_TRUE") || is(at, "POP_JUMP_IF_TRUE") ||
                       is(at, "POP_JUMP_BACKWARD_IF_TRUE"),
             if_false = is(at, "POP_JUMP_FORWARD_IF_FALSE") || is(at, "POP_JUMP_IF_FALSE") ||
                        is(at, "POP_JUMP_BACKWARD_IF_FALSE");
  if (!if_true && !if_false) return std::nullopt;
  const Py_ssize_t next = at + 2, high = at >= 2 && is(at - 2, "EXTENDED_ARG") ? text[at - 1] << 8 : 0;
  if (raises(next)) return if_true;
  if (!goes_back && raises(next + 2 * (high + text[at + 1]))) return if_false;
  return std::nullopt;
}

void CallStacks::name_module(PyObject* module, std::string path) {
  modules_.try_emplace(module, Module{std::move(path), class_name(module)});
}

void CallStacks::enter_module(PyObject* module) {
  const auto found = modules_.find(module);
  // A module that the model does not own (made in forward): it counts as a part of the one that runs.
  if (found == modules_.end()) return running_.push_back(running_.empty() ? std::nullopt : running_.back());
  const Module& entered = found->second;
  std::string call = entered.path;
  if (!running_.empty() && running_.back()) {  // inside of the call that runs, where it lies there
    const auto& [outer, outer_call] = *running_.back();
    if (entered.path.starts_with(outer->path + ".")) call = outer_call + entered.path.substr(outer->path.size());
  }
  const int before = call.empty() ? 0 : calls_[call]++;
  if (before > 0) call += "@" + std::to_string(before);
  running_.push_back(Running{&entered, std::move(call)});
}

void CallStacks::forget_modules() {
  modules_.clear();
  running_.clear();
  calls_.clear();
  stacks_.clear();
}

void CallStacks::leave_module() {
  if (!running_.empty()) running_.pop_back();
}

}  // namespace atenon::capture
