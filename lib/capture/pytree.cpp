#include "capture/pytree.h"

#include <utility>

#include "capture/recursion.h"

namespace atenon::capture {
namespace {

std::string child_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

bool is_named_tuple(PyObject* object) { return PyTuple_Check(object) && PyObject_HasAttrString(object, "_fields"); }

// torch.Size is a tuple, too: of the numbers in it.
bool is_plain_tuple(Session& session, PyObject* object) {
  return PyTuple_CheckExact(object) || reinterpret_cast<PyObject*>(Py_TYPE(object)) == session.size_class.get();
}

// How a class is taken apart: torch.utils._pytree.SUPPORTED_NODES[type], or by its attributes; null, without an
// exception, if it is a leaf.
Ref node_of(Session& session, PyObject* object) {
  if (!session.pytree || as_tensor(object) || as_symbol(object)) return {};
  const Ref nodes = attribute(session.pytree.get(), "SUPPORTED_NODES");
  if (!nodes) return {};
  PyObject* found = PyDict_GetItemWithError(nodes.get(), reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (found || PyErr_Occurred()) return Ref::borrow(found);
  Ref node(PyObject_CallMethod(session.pytree.get(), "node_of_attributes", "O", object));
  return node.get() == Py_None ? Ref() : std::move(node);
}

std::string class_name(PyObject* object) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return text_of(attribute(type, "__module__").get()) + "." + text_of(attribute(type, "__qualname__").get());
}

// The parts of one container: its children and their keys.
struct Parts {
  bool is_container = false;
  ir::TreeSpec::Kind kind = ir::TreeSpec::Kind::leaf;
  std::string type;
  std::vector<std::string> keys;  // names for paths; positions where there are none
  std::vector<Ref> children;
  Ref node, context;  // of a custom class
};

bool take_apart(Session& session, PyObject* object, Parts& parts) {
  using Kind = ir::TreeSpec::Kind;
  const bool is_tuple = is_plain_tuple(session, object), is_list = PyList_CheckExact(object),
             has_names = is_named_tuple(object);
  if (is_tuple || is_list || has_names) {
    parts.is_container = true;
    parts.kind = has_names ? Kind::named_tuple : is_list ? Kind::list : Kind::tuple;
    const Ref fields = has_names ? attribute(object, "_fields") : Ref();
    if (has_names) parts.type = class_name(object);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      // A class may give fields that its tuple does not hold, as our PackedSequence does.
      parts.children.push_back(has_names ? Ref(PySequence_GetItem(object, i))
                                         : Ref::borrow(PySequence_Fast_GET_ITEM(object, i)));
      if (!parts.children.back()) return false;
      parts.keys.push_back(has_names ? text_of(PyTuple_GetItem(fields.get(), i)) : std::to_string(i));
    }
    return true;
  }
  const std::string type_name = Py_TYPE(object)->tp_name;
  if (PyDict_CheckExact(object) || type_name == "collections.OrderedDict") {
    parts.is_container = true;
    parts.kind = Kind::dict;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value);) {
      parts.keys.push_back(str_of(key));
      parts.children.push_back(Ref::borrow(value));
    }
    return true;
  }
  parts.node = node_of(session, object);
  if (!parts.node) return !PyErr_Occurred();
  const Ref function(PyObject_GetAttrString(parts.node.get(), "flatten_fn"));
  const Ref pair(function ? PyObject_CallOneArg(function.get(), object) : nullptr);
  if (!pair) return false;
  const Ref children(PySequence_Fast(PyTuple_GetItem(pair.get(), 0), "the children of a pytree node"));
  if (!children) return false;
  parts.is_container = true;
  parts.kind = Kind::custom;
  parts.type = class_name(object);
  parts.context = Ref::borrow(PyTuple_GetItem(pair.get(), 1));
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(children.get());
  for (Py_ssize_t i = 0; i < count; ++i) {
    parts.children.push_back(Ref::borrow(PySequence_Fast_GET_ITEM(children.get(), i)));
    parts.keys.push_back(std::to_string(i));
  }
  // Names from the class itself where it can give them: an ordered dict's keys, or (key, child) pairs.
  if (const Ref with_keys = attribute(parts.node.get(), "flatten_with_keys_fn");
      with_keys && with_keys.get() != Py_None) {
    const Ref named(PyObject_CallOneArg(with_keys.get(), object));
    const Ref pairs(named ? PySequence_Fast(PyTuple_GetItem(named.get(), 0), "pairs") : nullptr);
    if (!pairs) return false;
    for (Py_ssize_t i = 0; i < count && i < PySequence_Fast_GET_SIZE(pairs.get()); ++i) {
      PyObject* key = PyTuple_GetItem(PySequence_Fast_GET_ITEM(pairs.get(), i), 0);
      for (const char* name : {"key", "name", "idx"})
        if (const Ref text = key ? attribute(key, name) : Ref()) {
          parts.keys[static_cast<size_t>(i)] = str_of(text.get());
          break;
        }
    }
  } else if (PyDict_Check(object) && PyDict_GET_SIZE(object) == count) {
    PyObject *key = nullptr, *value = nullptr;
    size_t i = 0;
    for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value);) parts.keys[i++] = str_of(key);
  }
  return true;
}

}  // namespace

bool flatten(Session& session, PyObject* object, const std::string& path, ir::TreeSpec& tree,
             std::vector<Leaf>& leaves) {
  using Kind = ir::TreeSpec::Kind;
  const Recursion level(" in a tree of inputs or outputs");
  if (!level) return false;
  tree = {};
  if (object == Py_None) {
    tree.kind = Kind::none;
    leaves.push_back({path, Ref::borrow(object)});
    return true;
  }
  Parts parts;
  if (!take_apart(session, object, parts)) return false;
  if (!parts.is_container) {
    tree.kind = Kind::leaf;
    leaves.push_back({path, Ref::borrow(object)});
    return true;
  }
  tree.kind = parts.kind;
  tree.type = parts.type;
  if (parts.kind == Kind::dict || parts.kind == Kind::named_tuple || parts.kind == Kind::custom) tree.keys = parts.keys;
  for (size_t i = 0; i < parts.children.size(); ++i)
    if (!flatten(session, parts.children[i].get(), child_path(path, parts.keys[i]), tree.children.emplace_back(),
                 leaves))
      return false;
  return true;
}

Ref rebuild(Session& session, PyObject* object, const std::string& path,
            const std::function<Ref(const std::string&, PyObject*)>& replace) {
  if (object == Py_None) return replace(path, object);
  Parts parts;
  if (!take_apart(session, object, parts)) return {};
  if (!parts.is_container) return replace(path, object);
  Ref list(PyList_New(0));
  for (size_t i = 0; list && i < parts.children.size(); ++i) {
    const Ref child = rebuild(session, parts.children[i].get(), child_path(path, parts.keys[i]), replace);
    if (!child || PyList_Append(list.get(), child.get()) < 0) return {};
  }
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  switch (parts.kind) {
    case ir::TreeSpec::Kind::list:
      return list;
    case ir::TreeSpec::Kind::tuple: {
      const Ref tuple(PyList_AsTuple(list.get()));
      return !tuple || PyTuple_CheckExact(object) ? tuple : Ref(PyObject_CallOneArg(type, tuple.get()));
    }
    case ir::TreeSpec::Kind::named_tuple:
      return Ref(PyObject_CallMethod(type, "_make", "O", list.get()));
    case ir::TreeSpec::Kind::dict: {
      Ref copy(PyObject_CallMethod(object, "copy", nullptr));
      PyObject *key = nullptr, *value = nullptr;
      Py_ssize_t position = 0;
      for (Py_ssize_t i = 0; copy && PyDict_Next(object, &position, &key, &value); ++i)
        if (PyObject_SetItem(copy.get(), key, PyList_GET_ITEM(list.get(), i)) < 0) return {};
      return copy;
    }
    default: {
      const Ref function(PyObject_GetAttrString(parts.node.get(), "unflatten_fn"));
      // What a class computes of its leaves, when it is made of them, is part of the program.
      const bool was_tracing = std::exchange(session.is_tracing, true);
      Ref made(function ? PyObject_CallFunctionObjArgs(function.get(), list.get(), parts.context.get(), nullptr)
                        : nullptr);
      session.is_tracing = was_tracing;
      return made;
    }
  }
}

}  // namespace atenon::capture
