// A lowered variant at concrete sizes: where each value lies, and the calls in order.
#pragma once

#include "run/engine.h"
#include "run/lowered_call.h"
#include "support/parallel.h"

namespace atenon::run {

struct Context;

class Plan {
 public:
  // Fails where a kernel cannot be prepared, or a size is known only once the program runs.
  static Result<std::shared_ptr<Plan>> make(Session& session, const ir::Variant& variant, shape::Bindings symbols,
                                            const std::vector<std::optional<Datum>>& inputs);

  // Whether the inputs are what this plan was made for: tensors of these types, numbers of these values, and all there;
  // and as many threads, for each of which there is scratch.
  bool fits(const std::vector<std::optional<Datum>>& inputs) const;
  // With the state in its roots, and without an arena.
  static std::unique_ptr<Context> make_context(std::shared_ptr<const Plan> plan, const Session& session);

  Result<std::vector<Datum>> run(Context& context, Session& session, const std::vector<std::optional<Datum>>& inputs,
                                 const Observer& observer, std::span<Tensor> into) const;
  // The same for inputs and outputs in rows, without allocating; no where this plan is for others.
  bool fits(std::span<const Rows> inputs, std::span<const Rows> outputs) const;
  Result<void> run(Context& context, Session& session, std::span<const Rows> inputs, std::span<const Rows> outputs,
                   const Observer& observer = {}) const;
  Memory memory() const;
  size_t bytes() const;  // of the arena that a run needs
  const shape::Bindings& symbols() const { return symbols_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  // What a leaf was when the plan was made: a tensor's type, a number, or neither where it was left out.
  using Number = std::variant<std::monostate, int64_t, double, bool>;
  struct Given {
    std::optional<std::pair<ScalarType, std::vector<int64_t>>> tensor;
    Number number;
  };
  // A buffer: `root` is a position among the roots of a run.
  struct Place {
    uint32_t root = 0;
    int64_t offset = 0;  // bytes
    ScalarType dtype = ScalarType::f32;
    std::vector<int64_t> sizes, strides;
  };
  // An output of the graph: what a run leaves at its place, or a number, which is the same for all runs of this plan.
  struct Output {
    Session::Port target;
    ScalarType dtype = ScalarType::f32;
    std::vector<int64_t> sizes;
    std::optional<Place> place;  // in as few axes as can be
    bool is_there = false;       // written by its call where it belongs; otherwise it is copied there
    bool is_in_place = false;    // and that is where the state lies; otherwise it is written beside it
    Datum number;
  };
  struct Step {
    const ir::Node* node = nullptr;
    const char* kernel = "";
    std::unique_ptr<kernels::PreparedCall> call;  // null for an alias
    std::vector<std::pair<uint32_t, int64_t>> buffers;
    std::vector<Place> results;
    std::vector<Indices> indices;
  };

  std::optional<int64_t> overwritten(const ir::Node& node, size_t index) const;
  void find_homes();
  Result<void> place(Session& session);
  Result<void> place_outputs(const Session& session, const std::vector<std::optional<Datum>>& inputs);
  Result<std::vector<int64_t>> place_slots();
  Result<Place> place_result(const Session& session, const ir::Node& node, size_t index,
                             const std::vector<int64_t>& slots);
  bool enlarge_arena(int64_t bytes);  // no if that is more than an arena can have
  Result<void> prepare(Session& session);
  Result<kernels::CallSite> call_site(Session& session, const Step& step, const kernels::Kernel& kernel) const;
  Result<void> prepare_calls(const std::vector<const kernels::Kernel*>& kernels,
                             const std::vector<kernels::CallSite>& sites);
  // The roots of a run: the arena, then states, inputs and outputs.
  static uint32_t root_of_state(size_t i) { return static_cast<uint32_t>(1 + i); }
  uint32_t root_of_input(size_t i) const { return root_of_state(state_count_ + i); }
  uint32_t root_of_output(size_t i) const { return root_of_input(input_count_ + i); }
  Tensor view(const Context& context, const Place& place) const;
  Result<void> run_steps(Context& context, const Observer& observer) const;
  void copy_outputs(Context& context) const;

  const ir::Variant* variant_ = nullptr;
  shape::Bindings symbols_;
  std::vector<Given> inputs_;                 // one a leaf
  std::map<const ir::Value*, size_t> homes_;  // the output that each lies in, or what the output is made from in place
  std::map<const ir::Value*, Place> places_;
  std::vector<Step> steps_;
  std::vector<Output> outputs_;  // of the graph
  size_t arena_bytes_ = 0, scratch_bytes_ = 0;
  const int threads_ = threads();
  size_t state_count_ = 0, input_count_ = 0;
  std::vector<std::string> notes_;
};

// Memory that one run at a time works in, of whichever plan.
struct Arena {
  std::shared_ptr<Storage> memory;
};

// What one run at a time of a plan needs besides. It keeps its plan.
struct Context {
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<Arena> arena;  // while it runs
  std::vector<char*> roots;
  std::vector<void*> buffers;  // of the call that runs
};

}  // namespace atenon::run
