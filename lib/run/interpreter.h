// Runs any graph node by node: by a fast kernel that does not refuse the node, else by the compiled loops of its
// meaning, else by evaluating that.
//
// What a captured or decomposed program runs by, and what `--reference` is. Values are dropped after their last reader.
// One run at a time: the session sees to it.
#pragma once

#include "run/engine.h"
#include "run/lowered_call.h"

namespace atenon::run {

class Interpreter {
 public:
  explicit Interpreter(Session& session) : session_(session) {}

  // Results are in the order of the graph's outputs.
  Result<std::vector<Datum>> run(const ir::Variant& variant, const std::vector<std::optional<Datum>>& inputs,
                                 const shape::Bindings& symbols, const Observer& observer);

 private:
  struct Scope;
  class Rounds;
  // A node, or a call that lower made: prepared anew where its operands or the numbers that it reads are others.
  struct Prepared {
    ir::Graph body;  // of this one node; empty for a call, which has its own
    std::vector<ir::Value*> operands;
    std::set<std::string> symbols;            // that it reads
    const kernels::Kernel* kernel = nullptr;  // null: by the loops of its meaning
    bool by_evaluation = false;               // neither can: the meaning is evaluated anew in each run
    std::vector<kernels::Operand> given;      // operands as they lay; the site's may have been made rows:
    std::vector<bool> needs_rows;
    kernels::CallSite site;  // that the call was prepared for
    std::unique_ptr<kernels::PreparedCall> call;
    std::vector<Indices> indices = {};  // of a lowered call
  };

  // The nodes in order, each with what nobody reads after it.
  using Walk = std::vector<std::pair<const ir::Node*, std::vector<const ir::Value*>>>;
  // What an operand is just now; without tensor if it is a number.
  struct Given {
    const Tensor* tensor = nullptr;
    const ir::Weight* weight = nullptr;
    void* data = nullptr;
  };

  Result<std::vector<Datum>> run_graph(Scope& scope, const ir::Graph& graph, std::vector<Datum> inputs,
                                       const Observer& observer);
  Result<void> run_node(Scope& scope, const ir::Node& node, Observation& seen, const Observer& observer);
  Result<void> run_body(Scope& scope, const ir::Node& node, const ir::Graph& body);
  // A view of its operand at the strides that lower wrote.
  Result<void> run_alias(Scope& scope, const ir::Node& node);
  Result<void> run_control_flow(Scope& scope, const ir::Node& node, Observation& seen, const Observer& observer);
  // False where neither a fast kernel nor compiled loops take the node.
  Result<bool> run_fast(Scope& scope, const ir::Node& node, Observation& seen);
  Result<bool> prepare_fast(Scope& scope, const ir::Node& node, Prepared& prepared);
  // A lowered call by its kernel, where the program could not be planned: results are allocated when their sizes are
  // known.
  Result<void> run_call(Scope& scope, const ir::Node& node, const ir::Graph& body, Observation& seen);
  Result<void> prepare_call(Scope& scope, const ir::Node& node, const ir::Graph& body, Prepared& prepared);
  bool is_prepared(const Scope& scope, const Prepared& prepared);
  const Walk& walk(const ir::Graph& graph);
  static Given given(const Scope& scope, const ir::Value* operand);
  // Operands as they lie now; E0618 where one is not of the type that the program says. What was prepared before is
  // gone.
  Result<void> describe_operands(Scope& scope, const ir::Node& node, Prepared& prepared, kernels::CallSite& site);
  Result<void> prepare(Prepared& prepared, const ir::Node& node, kernels::CallSite site);
  // Runs what is prepared.
  Result<void> execute(Scope& scope, const ir::Node& node, const Prepared& prepared, Observation& seen);
  // Bytes that nobody holds any more are used again: fresh ones cost a page fault each 4 kB. What a run did not need is
  // given back at its end.
  std::shared_ptr<Storage> allocate(size_t bytes);

  // Whether a packed weight, an input of a graph, is read in rows: by others than the kernels that it was packed for.
  bool is_read_in_rows(const ir::Variant& variant, const ir::Value& input) const;
  // What the run assumed of numbers that only now are known.
  Result<void> check_assumptions(const Scope& scope) const;

  Session& session_;
  std::map<const ir::Node*, Prepared> prepared_;
  std::map<const ir::Graph*, Walk> walks_;
  std::map<const ir::Value*, Tensor> unpacked_;  // inputs that are packed weights, in rows where these are read
  struct Kept {
    std::shared_ptr<Storage> storage;
    int64_t last_run;  // that used it
  };
  std::vector<Kept> kept_;
  int64_t runs_ = 0;
};

}  // namespace atenon::run
