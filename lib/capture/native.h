// The Python module `_atenon`.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// For PyImport_AppendInittab: the module, empty.
PyObject* make_native_module();
// Puts everything into it that belongs to `session`; false with a Python exception.
bool fill_native_module(PyObject* module, Session& session);

}  // namespace atenon::capture
