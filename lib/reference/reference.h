// Evaluates any operator from its meaning: correct, slow, the same bits everywhere.
//
// What capture uses for real tensors, specialize for folding, run for `--reference`, and every fast kernel's tests as
// truth. Floats of 16 bits are computed in f32 and rounded once; sums of floats accumulate in f64. Its transcendental
// functions are our own (support/math.h), compiled without contraction, so that results do not depend on the host's
// libm.
#pragma once

#include <variant>
#include <vector>

#include "opset/call.h"
#include "tensor/tensor.h"

namespace atenon {
class Generator;
}

namespace atenon::reference {

// A computed value: a tensor, or a number (item() and friends).
using Datum = std::variant<Tensor, int64_t, double, bool>;

struct Environment;

// What computes operators that are only declared: kernels that the user brought.
class DeclaredKernels {
 public:
  virtual ~DeclaredKernels() = default;
  // The node's results, from the call's arguments without symbols; nullopt if there is no kernel for the operator.
  virtual Result<std::optional<std::vector<Datum>>> call(const ir::Node& node, const opset::Call& call,
                                                         const Environment& environment) const = 0;
};

// Values of everything that is in scope: by Value for tensors and numbers, by name for symbols.
struct Environment {
  std::map<const ir::Value*, Datum> values;
  shape::Bindings symbols;
  Generator* generator = nullptr;  // what random operators draw from; without it they are E0635
  const DeclaredKernels* declared = nullptr;
};

// Evaluates one node; binds its results, and the symbols that it defines, in `environment`. Views alias their operand's
// storage where strides allow. Checks that were assumed are not repeated here; reads outside a tensor are E0611.
Result<void> evaluate(const opset::Opset& opset, const ir::Node& node, Environment& environment);

// Evaluates an operator on real tensors, outside any graph: `arguments` hold Values whose data is in `environment`. For
// capture's eager dispatch. The flattened results are returned. `add_` and `add.out` write into their operand's storage
// and return it.
Result<std::vector<Datum>> apply(const opset::Opset& opset, const opset::Call& call, const Environment& environment);

// Runs a whole graph on its inputs, in the graph's order; results are in the order of Graph::outputs (constants
// included).
Result<std::vector<Datum>> run(const opset::Opset& opset, const ir::Graph& graph,
                               const std::map<std::string, ir::Graph>& subgraphs, std::vector<Datum> inputs,
                               shape::Bindings symbols, Generator* generator = nullptr,
                               const DeclaredKernels* declared = nullptr);

}  // namespace atenon::reference
