// Where in the user's Python a node comes from.
//
// Walks the interpreter's frames, drops our own, and interns what is left: a code object is looked at once, a position
// in it once, and a whole stack is a short list of numbers that is looked up in a table. A walk costs about a
// microsecond.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/python.h"
#include "ir/program.h"

namespace atenon::capture {

class CallStacks {
 public:
  // Files are named relative to the model's folder, else to the folder of sys.path that they lie in.
  CallStacks(std::string model_file, std::string python_folder);

  // The stack at this moment. Positions are added to `provenance`.
  ir::ProvenanceId current(ir::Provenance& provenance);
  // The innermost user frame with the columns of its expression, for messages.
  SourceSpan user_line();
  // The same for the innermost user frame of a traceback, and all of them, outermost first, as notes.
  SourceSpan user_line(PyObject* traceback);
  std::vector<Note> user_frames(PyObject* traceback);

  // What the truth that Python asks for now must be, if it raises an exception otherwise.
  std::optional<bool> asserted() const;
  // Where a function, or a module's forward, is defined: "net.py:12", or "" where that is not Python of the user's.
  std::string definition(PyObject* callable);

  // Where a method of a module other than __init__ assigns self.NAME, or reads it; unknown where none of the user's
  // does.
  SourceSpan line_of(PyObject* module, PyObject* name, bool is_assigned);
  static std::string to_string(const SourceSpan& line);  // "net.py:12: self.last = x"

  // Modules by the object's address, kept alive by the model. nn.Module.__call__ enters and leaves. A node's module is
  // the call that it belongs to: "block.relu" the first time that the module runs, "block.relu@1" the second.
  void name_module(PyObject* module, std::string path);
  void enter_module(PyObject* module);
  void leave_module();
  // Before the next capture, whose provenance is another one.
  void forget_modules();

  // While one lives, the stack is taken to be another: that of a node which is recorded again.
  class Pretence {
   public:
    Pretence(CallStacks& stacks, const ir::CallStack& stack)
        : stacks_(stacks), outer_(std::exchange(stacks.pretended_, &stack)) {}
    ~Pretence() { stacks_.pretended_ = outer_; }
    Pretence(const Pretence&) = delete;

   private:
    CallStacks& stacks_;
    const ir::CallStack* outer_;
  };

  std::string relative(const std::string& file);

 private:
  struct Code {
    Ref object;
    bool is_user = false;
    std::string path;  // as Python knows it
    std::string file;  // as programs name it
    std::string function;
    std::unordered_map<int, uint32_t> positions;  // offset of the instruction -> frames_
  };
  struct Module {
    std::string path;
    std::string type;
  };

  Code& code_of(PyCodeObject* code);
  // visit(code, instruction), from the innermost on.
  template <class Visit>
  void each_user_frame(Visit visit);
  uint32_t frame_at(Code& code, int instruction);
  SourceSpan span_at(Code& code, int instruction);
  const std::string& line_of(const std::string& path, int line);

  const ir::CallStack* pretended_ = nullptr;
  std::string model_folder_;
  std::string python_folder_;
  std::unordered_map<PyCodeObject*, Code> codes_;  // looked up only, never iterated
  std::vector<ir::SharedFrame> frames_;
  std::map<std::vector<uint32_t>, ir::ProvenanceId> stacks_;
  std::unordered_map<PyObject*, Module> modules_;  // looked up only
  struct Running {
    const Module* module;
    std::string call;  // its path, with the numbers of repeated calls
  };
  std::vector<std::optional<Running>> running_;  // nullopt: no module of the model's
  std::map<std::string, int> calls_;             // so far, by path
  std::map<std::string, uint32_t> module_numbers_;
  std::map<std::string, std::vector<std::string>> lines_;
};

}  // namespace atenon::capture
