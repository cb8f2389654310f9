// Indexing in terms of operators, as PyTorch does it: ints select, slices slice, None unsqueezes, and what is left of
// tensors (integers or masks) is one `index`, or one `index_put` when written to. A slice of everything is nothing.
//
// Departures, where PyTorch would need the value of a tensor: a number that data decide selects by an `index` of its
// own, whose result counts as a view (states_of_results), and a mask that is written with one number is a masked_fill.
#include "capture/indexing.h"

#include <algorithm>

#include "capture/literal.h"
#include "capture/symbols.h"

namespace atenon::capture {
namespace {

bool is_mask(TensorObject& tensor) {
  const ScalarType type = tensor.session->meta(tensor).dtype;
  return type == ScalarType::boolean || type == ScalarType::u8;
}

bool is_written_down(TensorObject& tensor) {
  ir::Value* value = tensor.session->is_tracing ? tensor.session->read(tensor) : nullptr;
  return value && tensor.session->is_literal(value);
}

class Indexing {
 public:
  explicit Indexing(TensorObject& tensor)
      : session_(*tensor.session), current_(Ref::borrow(reinterpret_cast<PyObject*>(&tensor))) {}

  // Applies everything that is a view; index tensors are left in indices().
  bool apply(PyObject* index);
  PyObject* current() const { return current_.get(); }
  bool has_tensors() const { return !indices_.empty(); }
  // One mask and nothing else among the index tensors.
  TensorObject* only_mask() const;
  size_t mask_position() const { return indices_.size() - 1; }
  // The list for aten::index: None where an axis is kept. A mask beside other tensors is written as the positions where
  // it holds: their number then has a name, by which it is held to the others'. So is a mask that forward wrote down,
  // whose positions can be counted now.
  Ref indices() const;

 private:
  bool apply_item(PyObject* item, size_t specified);
  bool is_inside(PyObject* index);
  bool view(const char* name, std::initializer_list<PyObject*> args);
  size_t rank() { return session_.meta(*as_tensor(current_.get())).sizes.size(); }
  bool may_index(TensorObject& tensor);
  bool fits(TensorObject& mask);
  bool add_tensor(Ref index);
  bool add_truth(bool truth);
  bool select(PyObject* number);

  Session& session_;
  Ref current_;
  size_t axis_ = 0;           // of current_: what the next item indexes
  size_t slot_ = 0;           // in the list for aten::index, where a mask of several axes counts once
  std::vector<Ref> indices_;  // null: kept
};

// Python's own loops end at an IndexError: `for row in anything_with_getitem`.
bool Indexing::is_inside(PyObject* index) {
  const std::optional<SymInt> number = integer_of(index);
  const std::vector<SymInt> sizes = session_.meta(*as_tensor(current_.get())).sizes;
  const auto at = number ? number->constant() : std::nullopt;
  const auto size = axis_ < sizes.size() ? sizes[axis_].constant() : std::nullopt;
  if (!at || !size || (-*size <= *at && *at < *size)) return true;
  PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %zu with size %lld",
               static_cast<long long>(*at), axis_, static_cast<long long>(*size));
  return false;
}

bool Indexing::view(const char* name, std::initializer_list<PyObject*> args) {
  for (PyObject* arg : args)
    if (!arg) return false;
  Ref result(session_.call(name, args));
  if (!result) return false;
  current_ = std::move(result);
  return true;
}

bool Indexing::fits(TensorObject& mask) {
  const std::vector<SymInt> sizes = session_.meta(mask).sizes, all = session_.meta(*as_tensor(current())).sizes;
  for (size_t i = 0; i < sizes.size() && axis_ + i < all.size(); ++i) {
    if (session_.require(shape::equal(sizes[i], all[axis_ + i]), "a mask is as large as what it indexes")) continue;
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_IndexError, "a mask of size %s indexes dimension %zu of size %s", sizes[i].to_string().c_str(),
                   axis_ + i, all[axis_ + i].to_string().c_str());
    return false;
  }
  return true;
}

// Integers or a mask, which is as large as the axes that it indexes.
bool Indexing::may_index(TensorObject& tensor) {
  if (is_mask(tensor)) return fits(tensor);
  const ScalarType type = session_.meta(tensor).dtype;
  if (is_integral(type)) return true;
  PyErr_Format(PyExc_IndexError, "tensors used as indices are integers or bool, not %s", torch_name_of(type));
  return false;
}

bool Indexing::add_tensor(Ref index) {
  TensorObject* tensor = index ? as_tensor(index.get()) : nullptr;
  if (!tensor || !may_index(*tensor)) return false;
  axis_ += is_mask(*tensor) ? session_.meta(*tensor).sizes.size() : 1;
  if (session_.meta(*tensor).dtype == ScalarType::u8) {  // a mask of older days
    const Ref zero(PyLong_FromLong(0));
    index = Ref(session_.call("aten::ne", {index.get(), zero.get()}));
    if (!index) return false;
  }
  indices_.resize(slot_ + 1);
  indices_[slot_++] = std::move(index);
  return true;
}

// True and False are masks of no axes, which keep or drop all.
bool Indexing::add_truth(bool truth) {
  const Ref axis(PyLong_FromSize_t(axis_)), list(PyList_New(0)), zero(PyLong_FromLong(0));
  if (!list || (truth && PyList_Append(list.get(), zero.get()) < 0)) return false;
  return view("aten::unsqueeze", {current(), axis.get()}) &&
         add_tensor(Ref(tensor_from(session_, list.get(), ScalarType::i64)));
}

// By an integer tensor of no axes.
bool Indexing::select(PyObject* number) {
  TensorObject& tensor = *as_tensor(number);
  if (!may_index(tensor)) return false;
  if (!session_.is_tracing || is_written_down(tensor)) {
    const Ref known(session_.is_tracing ? PyObject_CallMethod(number, "item", nullptr) : PyNumber_Index(number));
    return known && apply_item(known.get(), 0);
  }
  ir::Value* value = session_.read(tensor);
  if (!value) return false;
  if (session_.is_of_example(value)) return add_tensor(Ref::borrow(number));  // each has its own: gathered
  const Ref list(PyList_New(0));
  for (size_t i = 0; i < axis_; ++i)
    if (PyList_Append(list.get(), Py_None) < 0) return false;
  return PyList_Append(list.get(), number) == 0 && view("aten::index", {current(), list.get()});
}

// A list of indices of several axes, as older NumPy took it: a list in which there is more than numbers. An array is
// one index.
bool is_several(PyObject* index) {
  if (PyTuple_Check(index)) return true;
  if (!PyList_Check(index) || PyList_GET_SIZE(index) >= 32) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(index); ++i) {
    PyObject* item = PyList_GET_ITEM(index, i);
    if (as_tensor(item) || PySequence_Check(item) || PySlice_Check(item) || item == Py_Ellipsis || item == Py_None)
      return true;
  }
  return false;
}

bool Indexing::apply_item(PyObject* item, size_t specified) {
  const Ref axis(PyLong_FromSize_t(axis_));
  if (item == Py_None) {
    ++slot_;
    return view("aten::unsqueeze", {current(), axis.get()}) && ++axis_;
  }
  if (item == Py_Ellipsis) {
    const size_t skipped = rank() - std::min(rank(), specified + axis_);
    axis_ += skipped;
    slot_ += skipped;
    return true;
  }
  if (PySlice_Check(item)) {
    auto* slice = reinterpret_cast<PySliceObject*>(item);
    const bool is_whole = (slice->start == Py_None || integer_of(slice->start) == SymInt(0)) &&
                          slice->stop == Py_None && (slice->step == Py_None || integer_of(slice->step) == SymInt(1));
    // A bound that is a tensor stands for the number in it; one beyond all numbers is the last, as in Python's slices.
    const auto number = [](PyObject* bound) {
      if (const TensorObject* tensor = as_tensor(bound))
        return Ref(tensor->state->is_traced() ? PyObject_CallMethod(bound, "item", nullptr) : PyNumber_Index(bound));
      int beyond = 0;
      if (PyLong_Check(bound)) PyLong_AsLongLongAndOverflow(bound, &beyond);
      return beyond ? Ref(PyLong_FromLongLong(beyond > 0 ? shape::Range::highest : shape::Range::lowest))
                    : Ref::borrow(bound);
    };
    const Ref start = number(slice->start), stop = number(slice->stop);
    const Ref step = slice->step == Py_None ? Ref(PyLong_FromLong(1)) : number(slice->step);
    if (!start || !stop || !step) return false;
    if (!is_whole && !view("aten::slice", {current(), axis.get(), start.get(), stop.get(), step.get()})) return false;
    ++axis_;
    ++slot_;
    return true;
  }
  if (PyBool_Check(item)) return add_truth(item == Py_True);
  if (TensorObject* tensor = as_tensor(item)) {
    if (!session_.meta(*tensor).sizes.empty()) return add_tensor(Ref::borrow(item));
    if (!is_mask(*tensor)) return select(item);
    // A mask of no axes keeps or drops all: it is one over a new axis.
    const Ref first(PyLong_FromLong(0));
    return view("aten::unsqueeze", {current(), axis.get()}) &&
           add_tensor(Ref(session_.call("aten::unsqueeze", {item, first.get()})));
  }
  if (integer_of(item)) return is_inside(item) && view("aten::select", {current(), axis.get(), item});
  if (PyLong_Check(item)) {
    PyErr_SetString(PyExc_IndexError, "an index of more than 64 bits");
    return false;
  }
  if (PySequence_Check(item) || PyObject_CheckBuffer(item)) {
    Ref index(tensor_from(session_, item, std::nullopt));
    if (index && session_.meta(*as_tensor(index.get())).numel() == SymInt(0))  // of [], no element says what it is
      index = Ref(tensor_from(session_, item, ScalarType::i64));
    return add_tensor(std::move(index));
  }
  PyErr_Format(PyExc_TypeError, "a tensor is indexed by integers, slices, None, Ellipsis and tensors, not %s",
               Py_TYPE(item)->tp_name);
  return false;
}

bool Indexing::apply(PyObject* given) {
  if (!is_several(given)) {
    const bool is_simple = given != Py_Ellipsis;
    return !is_simple || apply_item(given, 0);
  }
  const Ref items(PySequence_Tuple(given));
  PyObject* index = items.get();
  if (!index) return false;
  // How many axes the items behind an Ellipsis take.
  const Py_ssize_t count = PyTuple_GET_SIZE(index);
  std::vector<size_t> behind(static_cast<size_t>(count) + 1, 0);
  for (Py_ssize_t i = count; i-- > 0;) {
    PyObject* item = PyTuple_GET_ITEM(index, i);
    size_t taken = item == Py_None || item == Py_Ellipsis || PyBool_Check(item) ? 0 : 1;
    if (TensorObject* tensor = as_tensor(item); tensor && is_mask(*tensor)) taken = session_.meta(*tensor).sizes.size();
    behind[static_cast<size_t>(i)] = behind[static_cast<size_t>(i) + 1] + taken;
  }
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!apply_item(PyTuple_GET_ITEM(index, i), behind[static_cast<size_t>(i) + 1])) return false;
  return true;
}

TensorObject* Indexing::only_mask() const {
  TensorObject* mask = nullptr;
  for (const Ref& index : indices_) {
    if (!index) continue;
    if (mask || !is_mask(*as_tensor(index.get()))) return nullptr;
    mask = as_tensor(index.get());
  }
  return mask;
}

Ref Indexing::indices() const {
  Ref list(PyList_New(0));
  const auto append = [&](PyObject* item) { return item && PyList_Append(list.get(), item) == 0; };
  const bool has_others = !only_mask();
  for (const Ref& index : indices_) {
    TensorObject* tensor = index ? as_tensor(index.get()) : nullptr;
    if (!tensor || !is_mask(*tensor) || !(has_others || is_written_down(*tensor))) {
      if (!append(tensor ? index.get() : Py_None)) return {};
      continue;
    }
    const Ref axis(PyLong_FromLong(1)), positions(session_.call("aten::nonzero", {index.get()}));
    for (size_t j = 0; j < session_.meta(*tensor).sizes.size(); ++j) {
      const Ref at(PyLong_FromSize_t(j));
      if (!positions || !append(Ref(session_.call("aten::select", {positions.get(), axis.get(), at.get()})).get()))
        return {};
    }
  }
  return list;
}

// The mask with axes of size 1 behind its own, so that it broadcasts against all of `target`.
Ref spread_mask(Session& session, TensorObject& mask, size_t position, size_t rank) {
  Ref result = Ref::borrow(reinterpret_cast<PyObject*>(&mask));
  const size_t behind = rank - position - session.meta(mask).sizes.size();
  for (size_t i = 0; result && i < behind; ++i) {
    const Ref last(PyLong_FromLong(-1));
    result = Ref(session.call("aten::unsqueeze", {result.get(), last.get()}));
  }
  return result;
}

// A value with more axes than its place loses leading ones of size 1.
Ref without_leading_ones(Session& session, PyObject* value, size_t rank) {
  Ref result = Ref::borrow(value);
  while (result && session.meta(*as_tensor(result.get())).sizes.size() > rank) {
    const Ref zero(PyLong_FromLong(0));
    const ir::TensorMeta meta = session.meta(*as_tensor(result.get()));
    if (!(meta.sizes[0] == SymInt(1))) break;
    result = Ref(session.call("aten::select", {result.get(), zero.get(), zero.get()}));
  }
  return result;
}

// Do both show the same of one memory, as what `x[i] += y` stores and where?
bool are_one(const TensorObject& a, const TensorObject& b) {
  const auto is_keyword = [](const Named& x, const Named& y) { return x.name == y.name && x.argument == y.argument; };
  const auto is_step = [&](const Step& x, const Step& y) {
    return x.target == y.target && x.arguments == y.arguments && std::ranges::equal(x.keywords, y.keywords, is_keyword);
  };
  return a.state->is_traced() && a.state->base == b.state->base &&
         std::ranges::equal(a.state->chain, b.state->chain, is_step);
}

}  // namespace

PyObject* get_item(TensorObject& tensor, PyObject* index) {
  Indexing indexing(tensor);
  if (!indexing.apply(index)) return nullptr;
  if (indexing.has_tensors()) {
    const Ref indices = indexing.indices();
    return indices ? tensor.session->call("aten::index", {indexing.current(), indices.get()}) : nullptr;
  }
  // x[...] is a new object for the same memory.
  if (indexing.current() == reinterpret_cast<PyObject*>(&tensor)) {
    if (tensor.session->is_tracing && !tensor.session->read(tensor)) return nullptr;
    return tensor.session->wrap(*tensor.state).release();
  }
  return Py_NewRef(indexing.current());
}

bool set_item(TensorObject& tensor, PyObject* index, PyObject* value) {
  Session& session = *tensor.session;
  Indexing indexing(tensor);
  if (!indexing.apply(index)) return false;
  TensorObject& target = *as_tensor(indexing.current());
  const size_t rank = session.meta(target).sizes.size();
  Ref content = Ref::borrow(value);
  const bool is_number = integer_of(value) || float_of(value) || PyBool_Check(value) || PyComplex_Check(value);
  if (!as_tensor(value) && !is_number)
    content = Ref(tensor_from(session, value, std::nullopt));  // lists, NumPy's arrays
  if (!content) return false;

  if (!indexing.has_tensors()) {
    if (is_number) return static_cast<bool>(Ref(session.call("aten::fill_", {indexing.current(), content.get()})));
    if (are_one(target, *as_tensor(content.get()))) return true;
    content = without_leading_ones(session, content.get(), rank);
    return content && Ref(session.call("aten::copy_", {indexing.current(), content.get()}));
  }
  TensorObject* mask = indexing.only_mask();
  TensorObject* single = as_tensor(content.get());
  if (mask && session.meta(*mask).dtype == ScalarType::boolean &&
      (!single || shape::product(session.meta(*single).sizes) == SymInt(1))) {
    if (single) content = without_leading_ones(session, content.get(), 0);
    if (!content) return false;
    const Ref spread = spread_mask(session, *mask, indexing.mask_position(), rank);
    return spread && Ref(session.call("aten::masked_fill_", {indexing.current(), spread.get(), content.get()}));
  }
  if (!single) {
    const Ref dtype = session.dtypes.at(session.meta(target).dtype);
    const Ref name(PyUnicode_FromString("dtype"));
    const Ref names(PyTuple_Pack(1, name.get()));
    PyObject* const args[] = {content.get(), dtype.get()};
    content = Ref(session.call("aten::scalar_tensor", args, 1, names.get()));
    if (!content) return false;
  }
  const Ref indices = indexing.indices();
  return indices && Ref(session.call("aten::index_put_", {indexing.current(), indices.get(), content.get()}));
}

}  // namespace atenon::capture
