// What is known during one capture, and the C++ side of the Python objects that belong to it.
//
// A tensor is *real* (it has data) or *traced* (it stands for a value of the graph). Before forward runs, everything is
// real and computed at once. While forward runs, every operator is recorded: a real tensor that one meets becomes an
// input of the graph (`lift`), and its data stays as it was, so that state is captured as it is before the first call.
//
// Aliases: all traced tensors that share memory point to one Base, which holds the value of the whole memory now. A
// view is a Base and the chain of view calls that lead to it; an update through a view makes a new value of the view,
// writes it back along the chain, and bumps the Base's version, by which every other view sees that it must be made
// again.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/python.h"
#include "ir/program.h"
#include "opset/call.h"
#include "opset/opset.h"
#include "reference/reference.h"
#include "shape/facts.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

namespace atenon::capture {

class Session;
class CallStacks;
class NumbersOfSizes;
struct Report;

using ir::Argument;
using ir::ArgumentList;
using ir::Named;
using shape::SymBool;
using shape::SymFloat;
using shape::SymInt;

// --- Tensors

// The memory that some traced tensors share.
struct Base {
  ir::Value* value = nullptr;  // its content now
  uint64_t version = 0;        // counts updates
  uint64_t recording = 0;      // the capture that it belongs to
  ir::Value* input = nullptr;  // the graph input that it was at first, if it was one
  // An update of a memory that may be this one (Session::sharings) has reached it where `way` holds.
  struct Staleness {
    SymBool way;
    ir::ProvenanceId update = 0;
  };
  std::vector<Staleness> stale_if;
  bool is_written() const { return version > 0; }
};

// What was copied from one memory to the other because of its strides, and is a view in PyTorch where `way` holds.
struct Sharing {
  SymBool way;
  std::shared_ptr<Base> from, to;
};

// One elementary view: how it is made from what it views, and so how a new content of it is written back.
struct Step {
  std::string target;               // "aten::slice.Tensor"
  std::vector<Argument> arguments;  // without the viewed tensor
  std::vector<Named> keywords;
  std::vector<SymInt> viewed_sizes;
};

// What a Python tensor stands for. Exactly one of `real.storage` and `base` is set.
struct TensorState {
  Tensor real = {};
  std::shared_ptr<Base> base = nullptr;
  std::vector<Step> chain = {};
  ir::Value* value = nullptr;  // of this view, when the base was at version `seen`
  uint64_t seen = 0;
  std::optional<std::vector<SymInt>> strides = std::nullopt;  // traced; absent where row-major
  SymInt offset = 0;                                          // traced; in the memory of the Base
  bool is_meta = false;  // made before forward with device="meta": nothing is drawn for it
  bool is_used = false;  // made before forward: its graph reads this, or what forward made of the same memory

  bool is_traced() const { return base != nullptr; }
};

struct TensorObject {
  PyObject_HEAD Session* session;
  TensorState* state;
  bool requires_grad;
};

// --- Other Python objects

// SymInt, SymFloat and SymBool of Python. Constants never stay in one: they become Python's own numbers.
struct SymbolObject {
  PyObject_HEAD Session* session;
  std::variant<SymInt, SymFloat, SymBool>* value;
};

// torch.dtype. Any of PyTorch's may be named; no tensor has a `foreign` one.
struct ForeignType;
struct DtypeObject {
  PyObject_HEAD ScalarType type;
  const ForeignType* foreign;  // null, or what it is instead of `type`
};

// torch.device. Any may be named; only the CPU has data.
struct DeviceObject {
  PyObject_HEAD PyObject* type;  // str
  PyObject* index;               // int or None
};

struct GeneratorObject {
  PyObject_HEAD Session* session;
  Generator* generator;
};

// A callable bound to the name of an operator.
struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Session* session;
  std::string* name;  // "aten::add", "aten::add.Tensor"
};

// Null unless the object is (a subclass of) the type.
TensorObject* as_tensor(PyObject* object);
SymbolObject* as_symbol(PyObject* object);
std::optional<ScalarType> dtype_of(PyObject* object);  // of a torch.dtype of ours, and of Python's types of numbers
DeviceObject* as_device(PyObject* object);
GeneratorObject* as_generator(PyObject* object);

// --- The session

struct StateEntry {  // a parameter or buffer of the model, by name, in PyTorch's order
  std::string name;
  ir::InputKind kind = ir::InputKind::parameter;
  bool persistent = true;
  Tensor tensor = {};
  TensorObject* object = nullptr;  // the model's; alive as long as the model
};

// Something real that became an input of the graph.
struct Lifted {
  Tensor tensor;
  std::shared_ptr<Base> base;
  ir::InputSpec spec;
};

// What surrounds a subgraph while it is recorded. A value of the outer graph that the subgraph reads becomes an input.
struct Scope {
  ir::Graph outer;
  shape::Facts outside;    // what is known around it
  bool is_chosen = false;  // it runs where sizes or data say so, and what it assumes is asked for there only
  std::map<ir::Value*, ir::Value*> inner_of;
  std::vector<ir::Value*> captured;  // values of `outer`, in the order of their inputs
};

// A function that was recorded, before a node takes it.
struct Subgraph {
  ir::Graph graph;
  size_t own_inputs = 0;  // before those that stand for captured values
  shape::Facts facts;     // what is known inside
  std::map<ir::Value*, ir::Value*> inner_of;
  std::vector<ir::Value*> captured;
  std::set<std::string> defines;  // symbols
};

// What one capture has found out so far. Empty again when the next one begins.
struct Recording {
  uint64_t recording_number = 0;  // of those that were begun
  bool is_tracing = false;
  ir::ExportedProgram program;
  ir::Graph graph;                             // that is being recorded: the program's, or a subgraph
  std::vector<Scope> scopes;                   // the graphs around it, outermost first
  std::deque<Subgraph> traced;                 // functions that were recorded
  std::map<std::string, ir::Graph> subgraphs;  // that nodes run
  shape::Facts facts;
  std::vector<ir::Symbol> symbols;
  shape::Bindings hints;
  std::set<std::string> invented;  // of the symbols in `hints`: no example gave a size
  std::vector<ir::Constraint> assumptions;
  std::vector<SymBool> tested;  // those of them of which forward has a way for the other answer, too
  std::vector<StateEntry> state;
  std::vector<Lifted> lifted;
  std::set<const ir::Value*> literal_inputs;  // numbers that forward itself writes down: the same in every call
  std::unordered_map<const Storage*, std::vector<size_t>> lifted_by_storage;  // looked up only
  std::vector<Sharing> sharings;
  int constants = 0;                                                       // numbers the constants without a name
  reference::Environment constants_known;                                  // what constant_value has evaluated
  std::vector<std::pair<std::shared_ptr<Base>, SourceSpan>> buffers_read;  // by constant_value: they must not change
  std::shared_ptr<NumbersOfSizes> numbers_of_sizes;  // what number_of_sizes has found in the program's own graph
  // A constant whose memory forward has as an array of NumPy's, which it may write, or such an array of which it has
  // made a tensor: no reader may see it change.
  struct Shared {
    ir::Value* value;  // null for such an array
    Tensor before;
    SourceSpan line;
    std::optional<Tensor> array = {};  // of which a tensor was made
  };
  std::vector<Shared> arrays;
  std::vector<std::pair<std::shared_ptr<Base>, ir::InputSpec>> user_inputs;
  int unbacked = 0;
  // Symbols of Dim.AUTO and Dim.DYNAMIC: those that others give are replaced, and those that are one number, if they
  // may.
  std::map<std::string, bool> automatic;
  // Symbols of sizes that were derived from a dimension which no size is itself: factor * root + offset.
  struct Derived {
    std::string root;
    int64_t factor, offset;
  };
  std::map<std::string, Derived> derived;
  // A draft goes on where a capture is refused, with what the example inputs give there; nothing holds its program to
  // the model then.
  bool is_draft = false;
  std::map<const ir::Value*, Tensor> examples;  // of user inputs
  std::vector<Diagnostic> findings;             // what was refused, once a line
};

// Lives as long as Python does; the captures of one process follow each other in it.
class Session : public Recording {
 public:
  Session(opset::Opset& opset, std::string model_file, std::string python_folder);
  ~Session();
  Session(const Session&) = delete;

  opset::Opset& opset;

  // Python classes that results are wrapped in, set by _atenon.register, and the native types.
  Ref tensor_class, parameter_class, size_class, pytree, value_class, subgraph_class;
  Ref tensor_type, symint_type, symfloat_type, symbool_type, dtype_type, device_type, generator_type, function_type,
      method_type, program_type, capture_error;
  std::map<ScalarType, Ref> dtypes;
  Ref default_generator;
  Ref decompositions;  // dict: operator -> Python function that stands in for it while an exported module runs
  Ref autocast;        // while torch.autocast is on: called with an operator's name and arguments in its place
  Ref overriding;      // while classes or modes have a __torch_function__: called with a function and its arguments
  ScalarType default_dtype = ScalarType::f32;
  bool grad_enabled = true;

  std::unique_ptr<CallStacks> call_stacks;
  uint64_t recordings = 0;
  Report* report = nullptr;
  // Programs that the user's script saves, by path, where they are the tool's own output.
  bool takes_saved = false;
  std::vector<std::pair<std::string, ir::ExportedProgram>> saved;
  std::vector<std::string> written;         // paths of those that it saves by itself
  std::map<std::string, Ref> result_types;  // named tuples, by operator and names of results

  // Forgets the capture before: its traced tensors can no longer be read (E0311).
  void start_recording();
  bool is_stale(const Base& base) const { return base.recording != recording_number; }

  // operator_call.cpp: one call. Null with a Python exception on failure.
  // `called`: what Python called, where that is known.
  PyObject* call(const std::string& name, PyObject* const* args, size_t count, PyObject* keyword_names,
                 PyObject* called = nullptr);
  PyObject* call(const std::string& name, std::initializer_list<PyObject*> args);
  // Asks the hook `overriding`, which is set, what a method of torch.Tensor is.
  PyObject* call_overriding(const char* method, std::initializer_list<PyObject*> args);
  // The same as a node of a graph: what a custom operator updates stays, and is among the results.
  PyObject* call_node(const std::string& target, PyObject* const* args, size_t count, PyObject* keyword_names);
  // Appends a node while tracing; null with a Python exception on failure.
  ir::Node* record(const std::string& target, std::vector<Argument> arguments, std::vector<Named> keywords = {});
  // Data of a value that does not depend on inputs: evaluates the nodes behind it. Null without an exception where it
  // does depend on them.
  std::optional<reference::Datum> known_value(ir::Value* value);
  // Whether it depends on nothing but numbers that forward itself writes down: neither inputs nor state.
  bool is_literal(ir::Value* value) const;
  // Whether what it is made of, nodes' results and inputs, may all be that. Not if there is very much of it.
  bool is_made_of(ir::Value* value, const std::function<bool(const ir::Value&)>& may_be) const;
  // The same as known_value, with E0311 where it depends on inputs.
  std::optional<reference::Datum> constant_value(ir::Value* value, const std::string& purpose, const std::string& fix);
  // The only element of an integer or bool tensor that is made of sizes and constants alone (numbers_of_sizes.cpp): an
  // expression of them, or a truth about them. Null without an exception of any other tensor.
  Ref number_of_sizes(ir::Value* tensor);
  // A number that a node yields, for Python: itself where it is known, else a symbol of the value's name, with what is
  // known of an integer.
  Ref number(ir::Value* value, shape::Range range = {});
  // A fresh symbol that no input decides, with a name that is free in the graph, too.
  std::string new_symbol(shape::Range range);

  // Decides a truth about sizes: by what is known, else by the example, which is then an assumption with the user's
  // line.
  bool decide(const SymBool& truth, const std::string& reason);
  // The same where the user promises the truth, or only one answer goes on: what data decide is assumed to hold, and is
  // checked when the data is there.
  bool require(const SymBool& truth, const std::string& reason);
  // What the example says, which is assumed; `is_test`: forward has a way for the other answer, too.
  bool decide_by_example(const SymBool& truth, const std::string& reason, bool is_test);
  // Of the innermost graph around that it concerns: inside of a subgraph, what data decide, and what only matters where
  // a condition on sizes holds, is assumed by the subgraph alone.
  void assume(ir::Constraint constraint);

  // Wraps.
  Ref wrap(TensorState state);
  Ref wrap(const SymInt& value);
  Ref wrap(const SymFloat& value);
  Ref wrap(const SymBool& value);
  Ref truth(const SymBool& value);                   // Python's own bool where what is known of the symbols decides it
  Ref wrap_all(const std::vector<SymInt>& sizes);    // a tuple
  Ref wrap_sizes(const std::vector<SymInt>& sizes);  // torch.Size

  // control_flow.cpp. The value as the graph that is being recorded sees it; null with an exception where it belongs to
  // a branch that has ended.
  ir::Value* here(ir::Value* value);
  bool is_here(const ir::Value& value) const;            // no value of an outer graph
  ir::Value* captured_by(const ir::Value* input) const;  // the outer value behind a subgraph's input, or null
  bool is_of_example(ir::Value* value) const;            // one of a batch, while torch.vmap calls a function
  ir::Graph& program_graph() { return scopes.empty() ? graph : scopes.front().outer; }

  // functionalize.cpp. read(): the Value that a tensor is now (lifting and regenerating as needed); write(): an update
  // in place.
  ir::Value* read(TensorObject& tensor);
  bool write(TensorObject& tensor, ir::Value* value);
  bool write_real(TensorObject& tensor, const Tensor& value);
  TensorState fresh(ir::Value* value);
  TensorState literal(const Tensor& tensor);  // memory of its own that each call makes anew, with these numbers
  std::shared_ptr<Base> lift(const Tensor& tensor);
  std::shared_ptr<Base> base_of(TensorState& state);  // lifting where that was made before forward, which is now used
  // What another object for the same memory holds.
  const TensorState& share(TensorObject& tensor) const;
  // Not what PyTorch forbids, nor what the model does not own: false with an exception. `base` is the tensor's memory.
  bool may_update(const TensorObject& tensor, const Base& base);
  bool spread_update(Base& updated);
  bool settle(Base& base);
  ir::TensorMeta meta(const TensorObject& tensor);

  // draft.cpp. In a draft takes what was just raised as a finding, and is true; false leaves the exception.
  bool tolerate();
  // What a value, or a size, is for the example inputs. Null with a Python exception.
  std::optional<reference::Datum> example_value(ir::Value* value);
  std::optional<int64_t> example_value(const SymInt& size);
  // Raises a Diagnostic as Python exception; returns null, to be returned.
  std::nullptr_t raise(Diagnostic diagnostic);
  std::nullptr_t raise(int code, std::string message, std::string fix = "");
};

// What PyTorch stores in place and by out= (c10::canCast): no float as an integer, and no integer as a truth. Otherwise
// false with an exception.
bool require_castable(ScalarType result, ScalarType target);

}  // namespace atenon::capture
