#include "capture/state.h"

#include <algorithm>
#include <set>

#include "arrays/arrays.h"
#include "capture/callstack.h"
#include "capture/tensor_data.h"
#include "support/parallel.h"

namespace atenon::capture {
namespace {

// Calls `visit(path, module)` for every module of the model, in the order of named_modules(); false with an exception.
template <class Visit>
bool for_each_module(PyObject* model, Visit visit) {
  if (!PyObject_HasAttrString(model, "named_modules")) return true;
  const Ref pairs(PyObject_CallMethod(model, "named_modules", nullptr));
  const Ref list(pairs ? PySequence_Fast(pairs.get(), "named_modules() gives pairs") : nullptr);
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    PyObject* pair = PySequence_Fast_GET_ITEM(list.get(), i);
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) continue;
    if (!visit(text_of(PyTuple_GET_ITEM(pair, 0)), PyTuple_GET_ITEM(pair, 1))) return false;
  }
  return true;
}

// Calls `visit(name, tensor)` for the tensors in a dict attribute of a module.
template <class Visit>
void for_each_tensor(PyObject* module, const char* attribute_name, const std::string& path, Visit visit) {
  const Ref tensors = attribute(module, attribute_name);
  if (!tensors || !PyDict_Check(tensors.get())) return;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(tensors.get(), &position, &key, &value);)
    if (TensorObject* tensor = as_tensor(value))
      visit(path.empty() ? text_of(key) : path + "." + text_of(key), key, *tensor);
}

// Whether a state_dict has the entry.
bool is_in_file(const StateEntry& entry) { return entry.kind != ir::InputKind::constant_tensor && entry.persistent; }

// Is this a number or a text of Python's own, which is compared by value?
bool is_plain(PyObject* object) {
  return PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) || object == Py_None;
}

// Does the graph read what the tensor held before forward? Another tensor of the same memory may be read.
bool is_read(const TensorObject& tensor) {
  const TensorState& state = *tensor.state;
  if (state.is_traced() || !state.is_used) return state.is_traced();
  const std::vector<Lifted>& lifted = tensor.session->lifted;
  return std::any_of(lifted.begin(), lifted.end(), [&](const Lifted& entry) {
    return entry.tensor.storage == state.real.storage && entry.base->input->has_users();
  });
}

bool is_literal(const TensorObject& tensor) {
  return tensor.state->value && tensor.session->is_literal(tensor.state->value);
}

}  // namespace

PythonState::PythonState(PyObject* model) {
  const Ref module(PyImport_ImportModule("torch._python_state"));
  if (module) state_ = Ref(PyObject_CallMethod(module.get(), "State", "O", model));
  PyErr_Clear();
}

std::vector<Diagnostic> PythonState::changes(CallStacks& stacks) const {
  std::vector<Diagnostic> changes;
  std::set<std::string> told;
  const Ref found(state_ ? PyObject_CallMethod(state_.get(), "changes", nullptr) : nullptr);
  for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(found.get()); ++i) {
    PyObject *module = nullptr, *name = nullptr, *before = nullptr, *after = nullptr;
    int is_own = 0, is_registered = 0;
    const char *place = nullptr, *text = nullptr;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(found.get(), i), "OOppssOO", &module, &name, &is_own, &is_registered, &place,
                          &text, &before, &after))
      break;
    const auto tell = [&](const std::string& what, const std::string& fix) {
      if (!told.insert(place).second) return;
      Diagnostic diagnostic = error(Status::unsupported, 316, what);
      if (const SourceSpan line = stacks.line_of(module, name, is_own); line.known())
        diagnostic.notes.push_back({(is_own ? "assigned at " : "used at ") + CallStacks::to_string(line)});
      diagnostic.notes.push_back({"fix: " + fix});
      changes.push_back(std::move(diagnostic));
    };
    const std::string quoted = "`" + std::string(text) + "`";
    const TensorObject *was = as_tensor(before), *left = as_tensor(after);
    const bool is_left = left && left->state->is_traced();
    // What is registered with a tensor is state; what is not has no place in a program, and stays what it was.
    if (is_registered) {
      if (is_left && before == Py_None)
        tell("forward leaves a tensor in " + quoted + ", which the program does not keep",
             "register it before, with a tensor of its size");
      else if (was && after == Py_None)
        tell("forward removes " + quoted + ", which the program does not: it computes what the first call computes",
             "write zeros into it instead");
    } else if (is_plain(before) && is_plain(after) && PyObject_RichCompareBool(before, after, Py_EQ) == 0) {
      tell("forward changes " + quoted + " from " + str_of(before) + " to " + str_of(after) +
               ", which the program does not: it computes what the first call computes",
           "a registered buffer is state that a program keeps");
    } else if (is_left && !(was && !is_read(*was)) && !(!is_own && before == Py_None && is_literal(*left))) {
      // Numbers that forward writes down, where there was nothing: a table, which later calls find as the first made
      // it. What was there and is read by none is made anew by each call: the weight of weight_norm and spectral_norm.
      tell("forward leaves a tensor in " + quoted + ", which the program does not keep",
           "a registered buffer is state that a program keeps; or return the tensor");
    }
  }
  PyErr_Clear();
  return changes;
}

void PythonState::restore() const {
  const Ref done(state_ ? PyObject_CallMethod(state_.get(), "restore", nullptr) : nullptr);
  PyErr_Clear();
}

bool collect_state(Session& session, PyObject* model) {
  std::vector<StateEntry> buffers, constants;
  const bool walked = for_each_module(model, [&](const std::string& path, PyObject* module) {
    session.call_stacks->name_module(module, path);
    const Ref temporary = attribute(module, "_non_persistent_buffers_set");
    for_each_tensor(module, "_parameters", path, [&](std::string name, PyObject*, TensorObject& tensor) {
      session.state.push_back(
          {.name = std::move(name), .kind = ir::InputKind::parameter, .tensor = tensor.state->real, .object = &tensor});
    });
    for_each_tensor(module, "_buffers", path, [&](std::string name, PyObject* key, TensorObject& tensor) {
      const bool persistent = !temporary || PySequence_Contains(temporary.get(), key) != 1;
      buffers.push_back({.name = std::move(name),
                         .kind = ir::InputKind::buffer,
                         .persistent = persistent,
                         .tensor = tensor.state->real,
                         .object = &tensor});
    });
    for_each_tensor(module, "__dict__", path, [&](std::string name, PyObject*, TensorObject& tensor) {
      constants.push_back({.name = std::move(name),
                           .kind = ir::InputKind::constant_tensor,
                           .tensor = tensor.state->real,
                           .object = &tensor});
    });
    return true;
  });
  PyErr_Clear();
  session.state.insert(session.state.end(), buffers.begin(), buffers.end());
  session.state.insert(session.state.end(), constants.begin(), constants.end());
  return walked;
}

namespace {

// Storages that are more than one tensor, known by one or several names: views of parts, or what no file holds.
std::set<const Storage*> storages_of_views(const std::vector<StateEntry>& state) {
  std::map<const Storage*, const StateEntry*> first;
  std::set<const Storage*> views;
  for (const StateEntry& entry : state) {
    const Storage* storage = entry.tensor.storage.get();
    const StateEntry& known = *first.emplace(storage, &entry).first->second;
    if (!same_geometry(known.tensor, entry.tensor) || is_in_file(known) != is_in_file(entry)) views.insert(storage);
  }
  return views;
}

}  // namespace

Result<void> load_weights(Session& session, const std::string& file, std::vector<Diagnostic>& warnings) {
  Result<std::vector<arrays::Array>> read = arrays::read(file);
  if (!read) {
    Diagnostic problem = read.error();
    if (!problem.where.file.empty())
      problem.message = file + ": " + problem.message;  // Python has no other place for it
    return problem;
  }
  std::map<std::string, Tensor> given;
  for (arrays::Array& array : *read) given.emplace(std::move(array.name), std::move(array.tensor));
  std::vector<std::string> names;
  std::map<const Storage*, Tensor> replaced;  // what tied names of the model share now
  const std::set<const Storage*> views = storages_of_views(session.state);
  for (StateEntry& entry : session.state) {
    if (!is_in_file(entry)) continue;
    names.push_back(entry.name);
    const auto found = given.find(entry.name);
    const Storage* before = entry.tensor.storage.get();
    if (found == given.end()) {
      if (const auto tied = replaced.find(before); tied != replaced.end())
        entry.tensor = entry.object->state->real = tied->second;
      else if (!entry.name.ends_with("num_batches_tracked"))
        return error(Status::usage, 307, file + " has nothing for '" + entry.name + "'")
            .note("the model's names are those of its state_dict()");
      continue;
    }
    if (found->second.sizes != entry.tensor.sizes)
      return error(Status::usage, 307, "'" + entry.name + "' has another shape in " + file + " than in the model");
    if (views.contains(before)) {  // written where it lies, for all who see it
      assign(entry.tensor, found->second);
      continue;
    }
    const ScalarType dtype = entry.tensor.dtype;
    const auto tied = replaced.find(before);
    entry.tensor = entry.object->state->real = tied != replaced.end()         ? tied->second
                                               : found->second.dtype == dtype ? found->second
                                                                              : cast(found->second.contiguous(), dtype);
    replaced.emplace(before, entry.tensor);
  }
  for (const auto& [name, tensor] : given)
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      Diagnostic unused = error(Status::usage, 307, file + " has '" + name + "', which the model has not");
      const std::string near = nearest(name, names);
      if (!near.empty()) unused.notes.push_back({"the nearest of the model's names is '" + near + "'"});
      warnings.push_back(std::move(unused));
    }
  return {};
}

void lift_state(Session& session) {
  for (const StateEntry& entry : session.state)
    if (entry.tensor.storage) session.lift(entry.tensor);
}

void keep_used_state(Session& session, ir::Graph& graph, const std::set<std::string>& updated) {
  std::vector<Lifted> used;
  for (Lifted& entry : session.lifted) {
    if (!entry.base->input->has_users() && !updated.contains(entry.spec.target)) {
      graph.erase_input(entry.base->input);
      continue;
    }
    session.program.weights.push_back({.name = entry.spec.target, .tensor = entry.tensor});
    used.push_back(std::move(entry));
  }
  session.lifted = std::move(used);
}

std::optional<std::vector<Assigned>> assigned_state(Session& session, PyObject* model) {
  std::vector<Assigned> assigned;
  const bool walked = for_each_module(model, [&](const std::string& path, PyObject* module) {
    bool is_well = true;
    const auto look = [&](const std::string& name, PyObject*, TensorObject& tensor) {
      const auto entry =
          std::find_if(session.state.begin(), session.state.end(), [&](const StateEntry& e) { return e.name == name; });
      if (!is_well || entry == session.state.end()) return;
      const bool is_same = !tensor.state->is_traced() && tensor.state->real.storage == entry->tensor.storage;
      if (is_same) return;
      ir::Value* value = session.read(tensor);
      if (value) assigned.push_back({name, entry->kind, value});
      is_well = value != nullptr;
    };
    for_each_tensor(module, "_parameters", path, look);
    for_each_tensor(module, "_buffers", path, look);
    // A plain attribute is state where what it holds is replaced (`self.cache.data = ...`), not the tensor itself.
    for_each_tensor(module, "__dict__", path, [&](const std::string& name, PyObject* key, TensorObject& tensor) {
      const bool was_there = std::ranges::any_of(
          session.state, [&](const StateEntry& entry) { return entry.name == name && entry.object == &tensor; });
      if (was_there) look(name, key, tensor);
    });
    return is_well;
  });
  if (!walked) return std::nullopt;
  return assigned;
}

void materialise(const ir::ExportedProgram& program) {
  std::vector<Storage*> pending;
  for (const ir::Weight& weight : program.weights) {
    Storage* storage = weight.tensor.storage.get();
    if (storage->is_lazy() && std::find(pending.begin(), pending.end(), storage) == pending.end())
      pending.push_back(storage);
  }
  // The largest first, so that the threads end together.
  std::stable_sort(pending.begin(), pending.end(),
                   [](const Storage* a, const Storage* b) { return a->size() > b->size(); });
  parallel_for(static_cast<int64_t>(pending.size()), [&](int64_t i) { pending[static_cast<size_t>(i)]->data(); });
}

}  // namespace atenon::capture
