// Arguments, types and trees of a program as Python objects, for the Python of torch.export and torch.fx.
#pragma once

#include <functional>

#include "capture/session.h"

namespace atenon::capture {

// What stands for a Value, and for a subgraph's name, in Python. Null with a Python exception.
struct ArgumentObjects {
  std::function<Ref(const ir::Value*)> value;
  std::function<Ref(const std::string&)> subgraph;
};

// Lists become lists, symbolic numbers torch.SymInt and its like, constant ones Python's own, words texts.
Ref object_of(Session& session, const Argument& argument, const ArgumentObjects& objects);
// ("tensor", dtype, sizes, strides or None), or ("int",) ("float",) ("bool",).
Ref object_of(Session& session, const ir::Type& type);
// (kind, class name, keys, children)
Ref object_of(const ir::TreeSpec& tree);

Ref new_text(const std::string& text);
// list of what `make` gives for each item; null with a Python exception.
template <class Items, class Make>
Ref list_of(const Items& items, Make make) {
  Ref list(PyList_New(0));
  for (const auto& item : items) {
    const Ref object = make(item);
    if (!list || !object || PyList_Append(list.get(), object.get()) < 0) return {};
  }
  return list;
}

}  // namespace atenon::capture
