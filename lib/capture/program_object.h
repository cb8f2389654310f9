// The Python type _atenon.Program: what torch.export.export gives, behind torch.export.ExportedProgram.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

bool add_program_type(Session& session);  // false with a Python exception

// export(model, args, keywords, dynamic_shapes): (Program, what forward gave). Null with a Python exception.
PyObject* export_model(Session& session, PyObject* args);
// load(path or bytes): Program.
PyObject* load_program(Session& session, PyObject* from);

}  // namespace atenon::capture
