// Parameters, buffers and constant tensors of a model: by name before tracing, as weights of the program after it.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// Notes every tensor that the model holds, and the names of its modules for call stacks; false with a Python exception.
bool collect_state(Session& session, PyObject* module);

// Makes the state that forward may read inputs of the graph, parameters first, as torch.export orders them.
void lift_state(Session& session);

// After forward: inputs that nobody reads are dropped, the rest become weights and input specs.
void keep_used_state(Session& session);

// A buffer that forward has assigned anew (`self.cache = ...`): name and new content.
struct Assigned {
  std::string name;
  ir::Value* value;
};
std::optional<std::vector<Assigned>> assigned_buffers(Session& session, PyObject* module);

// Makes what is still pending, on all threads.
void materialise(const ir::ExportedProgram& program);

}  // namespace atenon::capture
