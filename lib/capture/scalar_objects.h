// The Python types dtype and device.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

bool add_scalar_types(Session& session);  // false with a Python exception
// A device by object, text ("cpu", "cpu:0") or None. False, and E0304, for anything but the CPU.
bool check_device(Session& session, PyObject* object);

}  // namespace atenon::capture
