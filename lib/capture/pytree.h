// Nested Python containers, taken apart and put together again as torch.utils._pytree does.
#pragma once

#include <functional>

#include "capture/session.h"

namespace atenon::capture {

struct Leaf {
  std::string path;  // "cache.0.1"; "" for a lone leaf
  Ref object;
};

// Appends the leaves of `object` in order; false with a Python exception. None is a leaf of kind none.
bool flatten(Session& session, PyObject* object, const std::string& path, ir::TreeSpec& tree,
             std::vector<Leaf>& leaves);

// The same containers, of tensors of the program, with each leaf replaced by what `replace` gives; null with a Python
// exception.
Ref rebuild(Session& session, PyObject* object, const std::string& path,
            const std::function<Ref(const std::string&, PyObject*)>& replace);

}  // namespace atenon::capture
