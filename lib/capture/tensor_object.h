// The Python type _atenon.Tensor, which torch.Tensor subclasses.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

bool add_tensor_type(Session& session);  // false with a Python exception

// A tensor of class `type`, which must be a subclass of _atenon.Tensor.
Ref new_tensor(Session& session, PyTypeObject* type, TensorState state, bool requires_grad);

// In elements.
std::vector<SymInt> strides_of(TensorObject& tensor);

// The data of a tensor, wherever it does not depend on the model's inputs. `purpose` goes into the error: "bool()".
inline constexpr const char* compute_with_tensors =
    "compute with tensors instead: torch.where(condition, a, b) chooses by element, torch.cond(condition, f, g, (x,)) "
    "runs one of two functions; .item() gives a number that stays symbolic";
std::optional<Tensor> data_of(TensorObject& tensor, const char* purpose, const char* fix = compute_with_tensors);

}  // namespace atenon::capture
