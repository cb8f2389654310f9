// The Python type _atenon.Program: what torch.export.export gives, behind torch.export.ExportedProgram.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

bool add_program_type(Session& session);  // false with a Python exception

// export(model, args, keywords, dynamic_shapes, is draft): (Program, what forward gave, findings of a draft as (code,
// message, place, fix)). Null with a Python exception.
PyObject* export_model(Session& session, PyObject* args);
// load(path or bytes): Program.
PyObject* load_program(Session& session, PyObject* from);

}  // namespace atenon::capture
