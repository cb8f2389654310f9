// The passes of specialize, one file each. A pass works on one variant; `Scope` is what it may look at and change
// around it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/call.h"
#include "opset/dead_nodes.h"
#include "specialize/specialize.h"

namespace atenon::specialize {

using opset::Changed;

struct Scope {
  ir::ExportedProgram& program;
  ir::EntryPoint& entry;
  ir::Variant& variant;
  const opset::Opset& opset;
  const Options& options;
  shape::Facts facts;  // of the variant

  void report(std::string line) const {
    if (options.report) options.report->push_back(std::move(line));
  }
};

// Applies the options' bindings: substitutes symbols, narrows ranges, makes a variant for each of several values.
Result<void> bind(ir::ExportedProgram& program, const Options& options);

// Puts the branch that runs in the place of a condition whose truth is known.
Changed inline_conditions(Scope& scope);
// Removes nodes that give back an operand unchanged: clone, a dropout that does nothing, a view to the same shape.
Result<Changed> remove_identities(Scope& scope);
// Lets what is read and written at the elements that a mask names be chosen by the mask.
Result<Changed> select_by_masks(Scope& scope);
// Lets concatenations that others alone read be part of those.
Result<Changed> flatten_concatenations(Scope& scope);
// Lets what is written part by part be the concatenation of the parts.
Result<Changed> concatenate_writes(Scope& scope);
// Computes nodes whose operands are all constants, with the reference kernels. Results become constant tensors.
Result<Changed> fold_constants(Scope& scope);
// Folds what scales and shifts channels (batch norms in inference) into the weights and bias of the product before it.
Result<Changed> fold_batch_norms(Scope& scope);
// Lets a sum of products of one operand, as the branches of RepVGG are, be one product.
Result<Changed> merge_parallel_products(Scope& scope);
// Lets what else scales and shifts channels be one product and one sum.
Result<Changed> shorten_affine_maps(Scope& scope);
// Concatenates after what makes less of each part, such as a pooling, not before.
Result<Changed> postpone_concatenations(Scope& scope);
// Replaces a product of concatenated tensors by the sum of their products where that moves fewer bytes.
Result<Changed> split_concatenations(Scope& scope);
// Lets a concatenation of very many parts be one of concatenations.
Result<Changed> nest_concatenations(Scope& scope);
// Replaces transposed convolutions by ordinary ones, and where they are strided interleaves what these give.
Result<Changed> untranspose_convolutions(Scope& scope);
// Replaces convolutions whose kernels cover all of an image by products of its pixels.
Result<Changed> flatten_convolutions_of_one_pixel(Scope& scope);
// Lets an activation of a view of a product be a view of the activated product.
Result<Changed> activate_before_views(Scope& scope);
// Computes only the columns of a product that a gather can name.
Result<Changed> narrow_gathered_products(Scope& scope);
// Sorts only as much as slices keep.
Result<Changed> narrow_sorts(Scope& scope);
// Lets products read what is repeated for each matrix of a batch, not copies of it.
Result<Changed> multiply_before_repeating(Scope& scope);
// Lets products with matrices that are gathered from a constant stack read them there.
Result<Changed> multiply_chosen_matrices(Scope& scope);
// Writes weights of one element as numbers into the sums and products that read them.
void write_numbers(Scope& scope);
// Lets nodes with the same operator and arguments be one.
Changed merge_duplicates(Scope& scope);
// Drops nodes, state inputs and weights that nobody reads.
Changed remove_unused(Scope& scope);
// Drops assumptions that follow from the ranges and the other assumptions.
void discharge_assumptions(Scope& scope);

// --- Weights as constants

// The tensor behind a graph input, if it is state that no entry point mutates and that has plain strides.
std::optional<Tensor> constant_behind(const Scope& scope, const ir::Value* value);
// A new constant: a weight named after `wish` (made unique) and the graph input that holds it, in every variant of the
// entry.
ir::Value* add_constant(Scope& scope, const std::string& wish, Tensor tensor);
// A new constant, named so too, of what a chain of nodes, of one operand each, makes of one. The nodes go.
Result<ir::Value*> computed_constant(Scope& scope, const std::string& wish, ir::Value* value);
// The weight that a graph input holds, by name.
const std::string& weight_name(const Scope& scope, const ir::Value& value);
// Values in rows, each rounded once.
Tensor as_tensor(const std::vector<double>& values, ScalarType dtype, const std::vector<int64_t>& sizes);
// `size` places of a tensor along an axis, from `start` on, in its memory.
Tensor part_of(Tensor tensor, size_t axis, int64_t start, int64_t size);
// Sizes, strides or paddings as an argument.
ir::ArgumentList list_of(const std::vector<ir::SymInt>& values);

// --- Sizes that only data decide

// Whether one of these symbols is defined by a node, not by the size of an input.
bool depends_on_data(const Scope& scope, const std::set<std::string>& symbols);

// --- New nodes

// The first result of `target(arguments...)`, put before `node` in its place in the Python.
Result<ir::Value*> append_before(Scope& scope, ir::Node& node, const std::string& target,
                                 std::vector<ir::Argument> arguments, std::vector<ir::Named> keywords = {});

}  // namespace atenon::specialize
