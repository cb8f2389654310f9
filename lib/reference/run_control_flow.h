// Runs conditions and loops; how a subgraph is run is the caller's.
#pragma once

#include <functional>

#include "ir/control_flow.h"
#include "reference/reference.h"

namespace atenon::reference {

struct ControlFlowRunner {
  // The value of an argument.
  std::function<Result<Datum>(const ir::Argument&)> value;
  // The results of a subgraph.
  std::function<Result<std::vector<Datum>>(const std::string& name, std::vector<Datum> inputs)> run;
  // An empty tensor like result i of the node: what a loop without rounds gives.
  std::function<Result<Tensor>(size_t i)> empty;
};

// Such a tensor, at these sizes.
Result<Tensor> empty_result(const ir::Node& node, size_t i, const shape::Bindings& symbols);

Result<std::vector<Datum>> run_control_flow(const ir::ControlFlow& flow, const ControlFlowRunner& runner);

}  // namespace atenon::reference
