// Parameters, buffers and constant tensors of a model: by name before tracing, as weights of the program after it.
#pragma once

#include <set>

#include "capture/session.h"

namespace atenon::capture {

// Notes every tensor that the model holds, and the names of its modules for call stacks; false with a Python exception.
bool collect_state(Session& session, PyObject* module);

// Puts the tensors of a file (.pt, .safetensors, .npz) in place of the model's. E0307: nothing for a tensor by any of
// its names, or a shape differs; warnings: a name that the model lacks, and tied names whose values differ.
Result<void> load_weights(Session& session, PyObject* model, const std::string& file,
                          std::vector<Diagnostic>& warnings);

// Makes the state that forward may read inputs of the graph, parameters first, as torch.export orders them.
void lift_state(Session& session);

// After forward: inputs that nobody reads are dropped, unless they are `updated`; the rest become weights.
void keep_used_state(Session& session, ir::Graph& graph, const std::set<std::string>& updated);

// What Python's objects hold before forward runs (torch/_python_state.py): to see whether it changes numbers and texts
// (`self.calls`), which a program cannot, and to put everything back, so that a model can be used after its capture.
class PythonState {
 public:
  explicit PythonState(PyObject* model);                      // as it is now
  std::vector<Diagnostic> changes(CallStacks& stacks) const;  // warnings: what has another value
  void restore() const;

 private:
  Ref state_;
};

// A buffer or parameter that forward has assigned anew (`self.cache = ...`): name and new content.
struct Assigned {
  std::string name;
  ir::InputKind kind;
  ir::Value* value;
};
std::optional<std::vector<Assigned>> assigned_state(Session& session, PyObject* module);

// Makes what is still pending, on all threads.
void materialise(const ir::ExportedProgram& program);

}  // namespace atenon::capture
