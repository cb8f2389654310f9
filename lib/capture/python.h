// What this folder adds to CPython's C interface: owned references, and failures that cross the border both ways.
//
// Functions that Python calls return a new reference, or null with a Python exception set. C++ in between passes
// failures on as null too (Ref, bool), so that an exception of the user's own Python code goes through us unharmed. A
// Diagnostic becomes a Python exception by raise(), of class _atenon.CaptureError, and is taken out again by the
// driver.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <string>
#include <utility>

namespace atenon::capture {

// An owned reference; null means that a Python exception is set.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

inline PyObject* new_none() { return Py_NewRef(Py_None); }

// The text of a str; "" with no exception if it is not one.
inline std::string text_of(PyObject* object) {
  if (!object || !PyUnicode_Check(object)) return "";
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text) {
    PyErr_Clear();
    return "";
  }
  return std::string(text, static_cast<size_t>(size));
}

// str(object), or its type's name where that fails.
inline std::string str_of(PyObject* object) {
  Ref text(PyObject_Str(object));
  if (!text) {
    PyErr_Clear();
    return Py_TYPE(object)->tp_name;
  }
  return text_of(text.get());
}

// getattr(object, name), or null without an exception if there is none.
inline Ref attribute(PyObject* object, const char* name) {
  Ref value(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

}  // namespace atenon::capture
