// The execution engine: a program is loaded once and run any number of times, from any number of threads.
//
// A lowered variant runs by plans. A plan belongs to one set of input sizes: concrete shapes, places in one arena,
// prepared calls; it is made at the first run with these sizes and kept. Each run that is under way has an arena of its
// own. Any other variant is interpreted: node by node, by fast kernels where they are known, else by the meanings of
// the operators (interpreter.h). Assumptions are checked before either.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"
#include "kernels/kernel.h"
#include "reference/reference.h"
#include "support/idle.h"
#include "tensor/random.h"

namespace atenon::run {

using reference::Datum;

struct LoadOptions {
  bool reference = false;  // by the meanings alone, no fast kernels
  // Asked once, when a node first needs the meaning of its operators; a program that is lowered throughout never asks.
  std::function<Result<const opset::Opset*>()> opset;
  std::optional<uint64_t> seed = std::nullopt;  // of random operators, which are E0635 without it
};

// One leaf of the inputs or outputs, in flattened order.
struct Leaf {
  std::string path;                      // `cache.0.1`
  ir::Type type;                         // symbolic
  std::optional<ir::Argument> constant;  // an input that the program was specialised to, an output that is a constant
};

// What an observer sees after each node: nodes that compute nothing (aliases) too. A node of a body of control flow is
// seen once, before the node that runs it: what all its rounds took together, which that node then did not take, and no
// results.
struct Observation {
  const ir::Node& node;
  const char* kernel;
  double seconds = 0, flops = 0, bytes = 0;
  const std::string* detail = nullptr;  // what the kernel's library chose
  std::span<const Datum> results;       // valid during the call
  size_t rounds = 1;
};
using Observer = std::function<Result<void>(const Observation&)>;

// A tensor in rows that belongs to the caller.
struct Rows {
  ScalarType dtype = ScalarType::f32;
  std::span<const int64_t> sizes;
  void* data = nullptr;
};

// In bytes. Each run under way has an arena and scratch of its own.
struct Memory {
  std::string formula;          // of the arena, over the program's symbols; "" where the program is not lowered
  size_t arena = 0;             // at these inputs
  size_t scratch = 0;           // the same for this number of threads
  std::string scratch_of = {};  // the call that needs most: "%add (strips)"
  size_t weights = 0;           // and once more what is written of them beside what they are
  size_t repacked = 0;          // weights that calls of these sizes keep in another layout, too

  size_t total() const { return weights + repacked + arena + scratch; }
};

class Plan;
struct Arena;
struct Context;
class Interpreter;

// State of a program: a parameter, buffer or constant tensor, ready to be read.
struct State {
  const ir::Weight* weight = nullptr;
  const ir::Weight* fixed = nullptr;  // the same, if its bytes never change and lie as those of `tensor`
  Tensor tensor;                      // row-major, or the packed bytes
  Tensor next;  // where a planned run writes what it becomes, unless in place, and with which it then changes places
};

class Session {
 public:
  // `entry` "" is the first. The program stays with the session.
  static Result<std::unique_ptr<Session>> load(ir::ExportedProgram program, const std::string& entry,
                                               LoadOptions options = {});
  ~Session();

  const ir::ExportedProgram& program() const { return program_; }
  const ir::EntryPoint& entry() const { return *entry_; }
  const std::vector<Leaf>& inputs() const { return inputs_; }
  const std::vector<Leaf>& outputs() const { return outputs_; }

  // One value for each leaf of the inputs; a leaf with a constant may be left out (nullopt). Outputs in flattened
  // order, then inputs that the program writes to. Where `into` is not empty, output i is written to into[i], in rows:
  // E0603 unless it has the output's type, or a number's (rank 0 of i64, f64 or bool). A run that fails changes no
  // state, unless its observer ends it, and draws no random numbers.
  Result<std::vector<Datum>> run(const std::vector<std::optional<Datum>>& inputs, const Observer& observer = {},
                                 std::span<Tensor> into = {});
  // Runs again with sizes of an earlier run, allocating nothing; no where nothing is known of these sizes, or the
  // program draws: then run() does it.
  Result<bool> run_again(std::span<const Rows> inputs, std::span<const Rows> outputs);
  // Concrete output types for these inputs; nullopt for a size that only the run can tell.
  Result<std::vector<std::optional<ir::Type>>> infer_outputs(const std::vector<std::optional<Datum>>& inputs);
  // Of an input that is a tensor, at these values of the symbols; nullopt where they do not follow from them.
  std::optional<std::vector<int64_t>> input_sizes(size_t leaf, const shape::Bindings& symbols) const;
  // What is planned for such inputs; and for sizes that are only named, a value for each symbol. Nothing is run.
  Result<Memory> memory(const std::vector<std::optional<Datum>>& inputs);
  Result<Memory> memory(const shape::Bindings& symbols);
  // Buffers that this entry point reads or writes and some entry point of the program writes, by name, as they are
  // between two runs; and sets one (E0625 where it does not fit).
  std::vector<std::pair<std::string, Tensor>> changing_state() const;
  bool has_state(const std::string& name) const;  // of any kind
  Result<void> restore(const std::string& name, const Tensor& tensor);
  // What random operators draw from. Not while a run is under way.
  void seed(uint64_t seed);
  // What was noted while plans were made: weights that were repacked. Sorted.
  std::vector<std::string> notes() const;

 private:
  friend class Plan;
  friend class Interpreter;
  Session();
  Result<void> connect();
  void connect_leaf(const ir::InputSpec& spec);
  // The state of this name in state_, where it is added if it is not there.
  Result<size_t> connect_state(const std::string& name, const std::set<std::string>& unread);
  Result<void> connect_outputs();
  Result<size_t> connect_written(const std::string& name, size_t output);
  void add_output(const ir::OutputSpec& spec, size_t index);
  // The first variant whose assumptions hold, and the symbols' values.
  Result<const ir::Variant*> choose(const std::vector<std::optional<Datum>>& inputs, shape::Bindings& symbols) const;
  Result<void> bind(const ir::Variant& variant, const std::vector<std::optional<Datum>>& inputs,
                    shape::Bindings& symbols) const;
  // Those of which enough is known: the others wait for the nodes that define their symbols.
  Result<void> check_assumptions(const std::vector<ir::Constraint>& assumptions, const shape::Bindings& symbols) const;
  // By `plan`, or interpreted where there is none. What may not run at the same time is locked.
  Result<std::vector<Datum>> run(const std::shared_ptr<Plan>& plan, const std::vector<std::optional<Datum>>& inputs,
                                 const Observer& observer, std::span<Tensor> into);
  Result<std::shared_ptr<Plan>> plan(const std::vector<std::optional<Datum>>& inputs);
  void enter(Context& context);  // lends it an arena
  void leave(std::unique_ptr<Context> context);
  Result<const opset::Opset*> opset();
  Generator* generator() { return generator_ ? &*generator_ : nullptr; }
  // Everything of a lowered call's site but its operands and results.
  Result<kernels::CallSite> call_site(const ir::Variant& variant, const ir::Node& node, const ir::Graph& body,
                                      const shape::Bindings& symbols);
  Result<std::vector<Datum>> interpret(const ir::Variant& variant, const std::vector<std::optional<Datum>>& inputs,
                                       const shape::Bindings& symbols, const Observer& observer);
  // What the graph returned in the caller's order, and what it writes to state_, by the position there.
  struct Finished {
    std::vector<Datum> outputs;
    std::vector<std::pair<size_t, Tensor>> written;
  };
  Finished finish(std::vector<Datum> results) const;
  // The leaf that an input of the graph is, which is no state.
  size_t input_of(const ir::Variant& variant, const ir::Value& input) const;
  Result<void> check_room(size_t output, const Tensor& room, ScalarType dtype, const std::vector<int64_t>& sizes) const;

  // Where input i of the graph comes from, or output i goes to.
  struct Port {
    bool is_state = false;
    size_t index = 0;  // of state_, or of inputs_ or outputs_
  };

  ir::ExportedProgram program_;
  LoadOptions options_;
  const ir::EntryPoint* entry_ = nullptr;
  std::vector<Leaf> inputs_, outputs_;
  std::vector<Port> sources_, targets_;
  std::vector<State> state_;
  std::set<std::string> changing_;  // names of state that the program writes
  bool writes_state_ = false;       // a buffer is an output
  std::shared_ptr<const kernels::Code> code_;
  std::unique_ptr<const reference::DeclaredKernels> declared_;
  std::optional<Generator> generator_;  // goes on from run to run

  // A run takes one of each. Where a context fits, it looks at nothing else; an arena serves all plans, so that memory
  // is that of the largest sizes so far, for as many runs as there were at once, and not of all sizes.
  Idle<Context> contexts_;
  Idle<Arena> arenas_;

  mutable std::mutex mutex_;  // of what follows
  std::mutex running_;        // held through a run where the program writes its own state, or draws
  std::mutex interpreting_;
  std::vector<std::shared_ptr<Plan>> plans_;  // the latest first
  std::unique_ptr<Interpreter> interpreter_;
  const opset::Opset* opset_ = nullptr;
};

// Whether the engine plans this variant: every node is a call with a kernel, every size follows from the inputs.
bool is_lowered(const ir::Variant& variant);

// How the user sees a node's place in the Python: `net.py:12: h = F.gelu(y)`, or "".
std::string python_line(const ir::ExportedProgram& program, const ir::Node& node);

}  // namespace atenon::run
