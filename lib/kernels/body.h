// Reading the body of a call: arguments of its nodes, and the chain of cheap operators after the expensive one.
//
// A body that a kernel takes has one anchor (the convolution, the product) and an epilogue: operators on the anchor's
// result that a kernel applies while the result is still in registers. Bodies may be written in composite operators
// (conv2d, linear) or in core ones (convolution, addmm); no operator set is needed to read them, so a packed program
// runs without.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kernels/lanes.h"

namespace atenon::kernels {

// "aten::add" of "aten::add.Tensor".
std::string name_without_overload(const std::string& target);

// The arguments of a node as its schema would bind them: by position, else by keyword, else the fallback. Sizes are
// evaluated; nullopt means that the value is not known with these bindings, or has another kind.
class Arguments {
 public:
  Arguments(const ir::Node& node, const shape::Bindings& symbols) : node_(node), symbols_(symbols) {}

  const ir::Argument* find(size_t position, const char* name) const;  // null where absent or None
  ir::Value* tensor(size_t position, const char* name) const;         // null where absent, None or a number
  std::optional<int64_t> integer(size_t position, const char* name, int64_t fallback) const;
  std::optional<double> number(size_t position, const char* name, double fallback) const;
  std::optional<bool> boolean(size_t position, const char* name, bool fallback) const;
  // A list of `count` integers; one value stands for all.
  std::optional<std::vector<int64_t>> integers(size_t position, const char* name, size_t count, int64_t fallback) const;
  std::string text(size_t position, const char* name, const std::string& fallback) const;

 private:
  const ir::Node& node_;
  const shape::Bindings& symbols_;
};

// The kernel that lower chose for a call; "" where it chose none.
std::string kernel_of(const ir::Node& call);
std::optional<double> number_of(const ir::Argument& argument, const shape::Bindings& symbols);
// All sizes at these bindings, or nullopt.
std::optional<std::vector<int64_t>> concrete(const std::vector<ir::SymInt>& sizes, const shape::Bindings& symbols);

// One step of an epilogue: x := f(x), or x := x op operand.
struct PostOp {
  using Kind = StepKind;
  Kind kind = Kind::relu;
  float alpha = 0;
  float beta = 0;
  int operand = -1;  // of add to divide: position among the body's inputs

  bool is_binary() const { return kind >= Kind::add; }
};

// Follows the chain from `start` to the body's only output. Returns "" and fills `steps`, or the reason why a node does
// not fit. An operand of a step is as large as the result, one number, or one for each place on axis `channel`, or,
// where `takes_rows`, on all axes but the last: for others libraries fall back to code that is a hundred times slower.
std::string read_epilogue(const ir::Graph& body, const ir::Value* start, size_t channel, bool takes_rows,
                          const shape::Bindings& symbols, std::vector<PostOp>& steps);

// Why loops of our own cannot do such an epilogue, or "".
constexpr size_t most_steps = 16;
std::string lanes_refusal(const std::vector<PostOp>& steps);
// A step for those loops. Its operand, if it has one, is read from `offset` on, at these distances.
inline Step make_step(const PostOp& op, std::span<void* const> buffers, int64_t offset, int64_t row, int64_t column) {
  if (!op.is_binary()) return {op.kind, op.alpha, op.beta, nullptr, 0, 0};
  const auto* operand = static_cast<const float*>(buffers[static_cast<size_t>(op.operand)]);
  return {op.kind, op.alpha, op.beta, operand + offset, row, column};
}

// Elements of a tensor of these sizes, for a profile.
double count(const std::vector<int64_t>& sizes);

// An operand as a node in the body sees it: an input of the body, its axes perhaps permuted (t, transpose, permute).
struct View {
  int input = -1;         // -1: not of this form
  std::vector<int> axes;  // axis i of the view is axis axes[i] of the input
};
View view_of(const ir::Value* value, const ir::Value* origin = nullptr);  // of `origin`, where it is met on the way
// Batch, spatial axes, channels: {0, 2, 3, 1} for rank 4.
std::vector<int> channels_last_order(size_t rank);
bool is_view_node(const ir::Node& node);  // of the kind that view_of() sees through

}  // namespace atenon::kernels
