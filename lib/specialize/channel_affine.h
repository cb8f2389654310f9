// What a product and the nodes after it do to channels, read off their meanings.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "specialize/passes.h"

namespace atenon::specialize {

inline const opset::Scalar& at(const opset::Meaning& meaning, opset::ScalarId id) {
  return meaning.scalars[static_cast<size_t>(id)];
}

inline ir::Value* tensor_of(const opset::Meaning& meaning, const opset::Scalar& read) {
  return meaning.tensors[static_cast<size_t>(read.tensor)];
}

// The axis of the result whose index is this scalar at every index, or -1.
int result_axis(const opset::Meaning& meaning, opset::ScalarId id);

// The meaning of a call that is loops; nullopt where it is something else.
std::optional<opset::Meaning> loops(const Scope& scope, const opset::Call& call);
std::optional<opset::Meaning> loops(const Scope& scope, const ir::Node& node);

// Expands every decomposition in a scratch graph. False where one cannot be.
bool expand_all(const Scope& scope, ir::Graph& graph);

// A node in a graph of its own, which gives the node's first result, decomposed as far as it goes.
struct Alone {
  ir::Graph graph;
  std::map<const ir::Value*, ir::Value*> operands;  // of the node, by the graph's inputs
};
// nullopt where a decomposition cannot be expanded.
std::optional<Alone> alone(const Scope& scope, const ir::Node& node);

// Whether the first result is a tensor and nobody reads the others.
bool has_one_result(const ir::Node& node);

// Whether each element of the result is computed from the operands' at the same index, of any shape.
bool is_pointwise(const Scope& scope, const ir::Node& node);

// What a node takes: a call's arguments after `replace(position in the schema, argument)`.
struct NodeArguments {
  std::vector<ir::Argument> positional;
  std::vector<ir::Named> keywords;
};
using Replace = std::function<ir::Argument(size_t, const ir::Argument&)>;
NodeArguments with_replaced(const opset::Call& call, const Replace& replace);
// The first result of such a copy of `node`, put before `place`.
Result<ir::Value*> append_copy(Scope& scope, ir::Node& place, const ir::Node& node, const Replace& replace);
// Copies of views of one operand each, of `value`, put before `place`; the last of `views` is the first to be applied.
Result<ir::Value*> append_views(Scope& scope, ir::Node& place, const std::vector<ir::Node*>& views, ir::Value* value);

// A product whose result can be scaled channel by channel by scaling a weight: result[.., c, ..] is a sum of products
// in which the weight is read at c along `weight_axis`, plus bias[c] where there is a bias.
struct ChannelProduct {
  ir::Value* weight = nullptr;
  int weight_axis = 0;
  int channel_axis = 0;       // of the result
  size_t bias_argument = 0;   // position of the optional bias in the schema
  ir::Value* bias = nullptr;  // null where the argument is None
};

// nullopt where `node` is no such product, or the weight or bias is no constant.
std::optional<ChannelProduct> channel_product(const Scope& scope, const ir::Node& node);

// The axes along which a product pairs the elements of an operand and of a weight and sums over them, each from its
// first index to its last: result = sum over c, .. of x[.., c, ..] * weight[.., c, ..].
struct SummedAxes {
  int x = 0, weight = 0;
};
// nullopt where there is no such pair, or more of x's index or of the sum's bounds depends on c.
std::optional<SummedAxes> summed_axes(const Scope& scope, const ir::Node& node, const ir::Value* x,
                                      const ir::Value* weight);

// Where a product reads, written as sizes are written, over two kinds of symbols besides the program's own: the index
// in the result along axis i, and the place in the sum along axis i of the weight.
//
//     result[o] = sum over k of x[x(o, k)] * weight[weight(o, k)] where guard(o, k)
struct ProductIndices {
  ir::Value* operand = nullptr;
  std::vector<ir::SymInt> x, weight;  // one an axis
  std::vector<bool> is_summed;        // one an axis of the weight: its index is the place in the sum, all of it
  std::vector<ir::SymInt> extents;    // one an axis of the weight: of the sum along it, 1 where there is none
  shape::SymBool guard = true;
  shape::Facts facts;  // the program's, and the ranges of the indices in the result
};
ir::SymInt result_index(size_t axis);
ir::SymInt summed_index(size_t weight_axis);
// nullopt where an index cannot be written so, or what is summed along is no axis of the weight.
std::optional<ProductIndices> product_indices(const Scope& scope, const opset::Meaning& meaning,
                                              const ir::Value* weight);
std::optional<ProductIndices> product_indices(const Scope& scope, const ir::Node& node, const ir::Value* weight);

// y[.., c, ..] = scale[c] * x[.., c, ..] + shift[c]
struct ChannelAffine {
  std::vector<double> scale;
  std::vector<double> shift;
};

// The affine map by channel that `node` applies to its operand `x`, all its other operands being constants.
// Decompositions are looked through (a batch norm in inference is such a map). nullopt where it is none.
std::optional<ChannelAffine> channel_affine(const Scope& scope, const ir::Node& node, const ir::Value* x,
                                            int channel_axis);

}  // namespace atenon::specialize
