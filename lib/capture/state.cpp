#include "capture/state.h"

#include <algorithm>
#include <set>

#include "arrays/arrays.h"
#include "capture/callstack.h"
#include "capture/failure.h"
#include "capture/recursion.h"
#include "capture/tensor_data.h"
#include "support/parallel.h"

namespace atenon::capture {
namespace {

std::string below(const std::string& path, PyObject* name) {
  return path.empty() ? text_of(name) : path + "." + text_of(name);
}

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

// Calls `visit(path, module)` for every path to a module, as load_state_dict goes; false with an exception.
template <class Visit>
bool for_each_path(PyObject* module, const std::string& path, const Visit& visit) {
  const Recursion level(" in the modules of the model");
  if (!level) return false;
  visit(path, module);
  const Ref children = attribute(module, "_modules");
  if (!children || !PyDict_Check(children.get())) return true;
  PyObject *name = nullptr, *child = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(children.get(), &position, &name, &child);)
    if (child != Py_None && !for_each_path(child, below(path, name), visit)) return false;
  return true;
}

// Calls `visit(name, tensor)` for the tensors in a dict attribute of a module.
template <class Visit>
void for_each_tensor(PyObject* module, const char* attribute_name, const std::string& path, Visit visit) {
  const Ref tensors = attribute(module, attribute_name);
  if (!tensors || !PyDict_Check(tensors.get())) return;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(tensors.get(), &position, &key, &value);)
    if (TensorObject* tensor = as_tensor(value)) visit(below(path, key), key, *tensor);
}

bool is_persistent(PyObject* module, PyObject* buffer_name) {
  const Ref temporary = attribute(module, "_non_persistent_buffers_set");
  return !temporary || PySequence_Contains(temporary.get(), buffer_name) != 1;
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
    for_each_tensor(module, "_parameters", path, [&](std::string name, PyObject*, TensorObject& tensor) {
      session.state.push_back(
          {.name = std::move(name), .kind = ir::InputKind::parameter, .tensor = tensor.state->real, .object = &tensor});
    });
    for_each_tensor(module, "_buffers", path, [&](std::string name, PyObject* key, TensorObject& tensor) {
      buffers.push_back({.name = std::move(name),
                         .kind = ir::InputKind::buffer,
                         .persistent = is_persistent(module, key),
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

// One name of the model's state_dict; tied tensors and shared modules have several.
struct Slot {
  std::string name;
  StateEntry* entry;
};

// In the order in which load_state_dict copies; nothing with a Python exception.
std::optional<std::vector<Slot>> slots_of(Session& session, PyObject* model) {
  std::map<const TensorObject*, StateEntry*> entries;
  for (StateEntry& entry : session.state)
    if (is_in_file(entry)) entries.emplace(entry.object, &entry);
  std::vector<Slot> slots;
  const auto visit = [&](const std::string& path, PyObject* module) {
    const auto add = [&](std::string name, PyObject*, TensorObject& tensor) {
      if (const auto found = entries.find(&tensor); found != entries.end())
        slots.push_back({std::move(name), found->second});
    };
    for_each_tensor(module, "_parameters", path, add);
    for_each_tensor(module, "_buffers", path, [&](std::string name, PyObject* key, TensorObject& tensor) {
      if (is_persistent(module, key)) add(std::move(name), key, tensor);
    });
  };
  return for_each_path(model, "", visit) ? std::optional(std::move(slots)) : std::nullopt;
}

Tensor converted(const Tensor& tensor, ScalarType dtype) {
  return tensor.dtype == dtype ? tensor : cast(tensor.contiguous(), dtype);
}

std::string type_of(const Tensor& tensor) {
  return ir::to_string(ir::TensorMeta{.dtype = tensor.dtype, .sizes = {tensor.sizes.begin(), tensor.sizes.end()}});
}

using Arrays = std::map<std::string, Tensor>;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What a file has instead of one of the model's names: none of the others, which are right where they are.
Diagnostic has_nothing_for(const std::string& name, const std::string& file, const Arrays& given,
                           const std::vector<std::string>& model_names) {
  Diagnostic missing = error(Status::usage, 307, file + " has nothing for '" + name + "'");
  std::vector<std::string> names;
  std::string first;
  constexpr size_t most = 5;
  for (const auto& [key, tensor] : given) {
    if (contains(model_names, key)) continue;
    if (key.ends_with("." + name)) {
      const std::string prefix = key.substr(0, key.size() - name.size());
      return std::move(missing)
          .note("it has '" + key + "'")
          .note("fix: save it again, without the '" + prefix + "' in front of its names");
    }
    names.push_back(key);
    if (names.size() <= most)
      first += (first.empty() ? "" : ", ") + (key.empty() ? "one array, without a name" : "'" + key + "'");
  }
  if (const std::string near = nearest(name, names); !near.empty())
    missing.notes.push_back({"it has '" + near + "'"});
  else if (names.empty())
    missing.notes.push_back({given.empty() ? "it has no arrays" : "it has only others of the model's names"});
  else
    missing.notes.push_back(
        {"it has " + first + (names.size() > most ? " and " + std::to_string(names.size() - most) + " more" : "")});
  return std::move(missing).note("the model's names are those of its state_dict()");
}

}  // namespace

Result<void> load_weights(Session& session, PyObject* model, const std::string& file,
                          std::vector<Diagnostic>& warnings) {
  Result<std::vector<arrays::Array>> read = arrays::read(file);
  if (!read) {
    Diagnostic problem = read.error();
    if (!problem.where.file.empty())
      problem.message = file + ": " + problem.message;  // Python has no other place for it
    return problem;
  }
  Arrays given;
  for (arrays::Array& array : *read) given.emplace(std::move(array.name), std::move(array.tensor));
  const std::optional<std::vector<Slot>> slots = slots_of(session, model);
  if (!slots) return diagnostic_of_exception(session);
  const std::set<const Storage*> views = storages_of_views(session.state);
  // Of tied names the last that the file has is taken. Views of one memory are no such names: each has its own part.
  const auto tie = [&](const StateEntry& entry) -> const void* {
    return views.contains(entry.tensor.storage.get()) ? static_cast<const void*>(entry.object)
                                                      : entry.tensor.storage.get();
  };
  struct Taken {
    std::string name;
    Tensor tensor;
  };
  std::map<const void*, Taken> taken;
  std::vector<std::string> names;
  for (const auto& [name, entry] : *slots) {
    names.push_back(name);
    const auto found = given.find(name);
    if (found == given.end()) continue;
    Tensor& in_file = found->second;
    // Numbers of a module were arrays of one element before PyTorch 0.4; load_state_dict takes them, too.
    if (entry->tensor.sizes.empty() && in_file.sizes == std::vector<int64_t>{1}) in_file.sizes = in_file.strides = {};
    if (in_file.sizes != entry->tensor.sizes)
      return error(
          Status::usage, 307,
          "'" + name + "' is " + type_of(in_file) + " in " + file + " and " + type_of(entry->tensor) + " in the model");
    Taken last{name, converted(in_file, entry->tensor.dtype)};
    const auto [before, is_first] = taken.try_emplace(tie(*entry), last);
    if (!is_first && !hold_the_same(before->second.tensor, last.tensor))
      warnings.push_back(
          error(Status::usage, 307,
                "'" + before->second.name + "' and '" + name + "' are one tensor of the model and two in " + file)
              .note("'" + name + "' is taken, as by load_state_dict()"));
    before->second = std::move(last);
  }
  for (const auto& [name, entry] : *slots)
    if (!taken.contains(tie(*entry)) && !name.ends_with("num_batches_tracked"))
      return has_nothing_for(name, file, given, names);
  for (const auto& [name, entry] : *slots)  // written where it lies, for all who see it
    if (const auto found = taken.find(tie(*entry));
        found != taken.end() && found->second.name == name && views.contains(entry->tensor.storage.get()))
      assign(entry->tensor, found->second.tensor);
  for (StateEntry& entry : session.state)
    if (const auto found = taken.find(tie(entry)); found != taken.end() && !views.contains(entry.tensor.storage.get()))
      entry.tensor = entry.object->state->real = found->second.tensor;
  for (const auto& [name, tensor] : given)
    if (!contains(names, name)) {
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
