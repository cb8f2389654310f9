// The Python types dtype and device.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

bool add_scalar_types(Session& session);  // false with a Python exception
// The torch.dtype of every element type that PyTorch has, by name; null with a Python exception.
Ref all_dtypes(const Session& session);
// False, and E0320, for an element type that programs do not have. Other objects are well.
bool check_dtype(Session& session, PyObject* object);
// A device by object, text ("cpu", "cpu:0") or None. False, and E0304, for anything but the CPU.
bool check_device(Session& session, PyObject* object);

}  // namespace atenon::capture
