// What a call looks up: which of its operands are indices, and how far they reach.
//
// Generated code cannot fail, and takes an index beyond its axis for the nearest one. So a call says which operands it
// looks up with, as `indices=[[operand, lowest, end, "node"], ..]`: each element lies in [lowest, end), or a run
// refuses it before; or only the one at a position, `[.., "node", [0]]`. Those are operands of which a node of the body
// reads every element as an index, whatever else it reads: what the caller gives, and what the program computes where
// looking at it costs next to nothing. What an earlier call has looked at is not looked at again.
#include <algorithm>

#include "ir/call_body.h"
#include "kernels/body.h"
#include "lower/lowering.h"

namespace atenon::lower {

namespace {

using opset::Meaning;
using opset::Scalar;
using opset::ScalarId;

// A tensor whose elements are indices of an axis, counted from its end, too, where `lowest` is negative.
struct Lookup {
  const ir::Value* index;
  SymInt lowest, end;
};

// A tensor, or its element at a position.
struct Part {
  const ir::Value* tensor = nullptr;
  std::optional<ir::ArgumentList> position = std::nullopt;
};

// What a meaning looks up with.
class Search {
 public:
  explicit Search(const Meaning& meaning) : meaning_(meaning), seen_(meaning.scalars.size()) {}

  std::vector<Lookup> run() {
    if (const std::optional<opset::Scatter>& scatter = meaning_.scatter) {
      for (size_t i = 0; i < scatter->variables.size(); ++i) {
        const std::optional<SymInt> extent = at(scatter->extents[i]).as_size();
        if (extent) extents_[scatter->variables[i]] = *extent;
      }
      for (size_t axis = 0; axis < scatter->at.size(); ++axis)
        look(scatter->at[axis], meaning_.results[0].type.sizes[axis]);
      visit(scatter->value);
      return std::move(found_);
    }
    for (const opset::LoopNest& nest : meaning_.results) {
      enter(nest);
      std::fill(seen_.begin(), seen_.end(), false);
      visit(nest.value);
    }
    return std::move(found_);
  }

  // The tensor of whose elements the result is a view, or as integers of another type, or the one that it is; else
  // null.
  Part viewed() {
    if (meaning_.results.size() != 1 || meaning_.results[0].value == opset::no_scalar) return {};
    const opset::LoopNest& nest = meaning_.results[0];
    enter(nest);
    const Scalar& scalar = *without_casts(nest.value);
    if (scalar.op != ScalarOp::read || !is_integral(scalar.dtype)) return {};
    const ir::Value* tensor = meaning_.tensors[scalar.tensor];
    const bool shows_all = meaning_.is_view ? tensor->meta().numel() == nest.type.numel() : reads_all(scalar);
    if (shows_all) return {tensor};
    ir::ArgumentList position;
    for (const ScalarId index : scalar.operands) {
      if (at(index).op != ScalarOp::constant || at(index).is_placeholder()) return {};
      position.emplace_back(at(index).integer);
    }
    return {tensor, std::move(position)};
  }

 private:
  const Scalar& at(ScalarId id) const { return meaning_.scalars[id]; }

  void enter(const opset::LoopNest& nest) {
    extents_.clear();
    for (size_t axis = 0; axis < nest.variables.size(); ++axis) extents_[nest.variables[axis]] = nest.type.sizes[axis];
  }

  // All that is computed whatever the data say: not what a condition or a reduction may skip.
  void visit(ScalarId id) {
    if (id == opset::no_scalar || seen_[id]) return;
    seen_[id] = true;
    const Scalar& scalar = at(id);
    if (scalar.op == ScalarOp::reduce) return;
    if (scalar.op == ScalarOp::read)
      for (size_t axis = 0; axis < scalar.operands.size(); ++axis)
        look(scalar.operands[axis], meaning_.tensors[scalar.tensor]->meta().sizes[axis]);
    const size_t certain = is_choice(scalar.op) ? 1 : scalar.operands.size();
    for (size_t i = 0; i < certain; ++i) visit(scalar.operands[i]);
  }

  // Notes what an index of an axis of `size` is read from.
  void look(ScalarId id, const SymInt& size) {
    const Scalar* scalar = without_casts(id);
    const bool wraps = scalar->op == ScalarOp::select && counts_from_end(*scalar);
    if (wraps) scalar = without_casts(scalar->operands[2]);
    if (scalar->op != ScalarOp::read || !is_integral(scalar->dtype) || !reads_all(*scalar)) return;
    found_.push_back({meaning_.tensors[scalar->tensor], wraps ? -size : SymInt(0), size});
  }

  const Scalar* without_casts(ScalarId id) const {
    const Scalar* scalar = &at(id);
    while (scalar->op == ScalarOp::cast && is_integral(scalar->dtype)) scalar = &at(scalar->operands[0]);
    return scalar;
  }

  // x + n if x < 0 else x
  bool counts_from_end(const Scalar& select) const {
    const Scalar *condition = &at(select.operands[0]), *sum = &at(select.operands[1]);
    if (condition->op != ScalarOp::lt || sum->op != ScalarOp::add) return false;
    const Scalar* index = without_casts(select.operands[2]);
    const auto is_index = [&](ScalarId id) {
      const Scalar* other = without_casts(id);
      return index->op == ScalarOp::read && other->op == ScalarOp::read && other->tensor == index->tensor &&
             other->operands == index->operands;
    };
    return is_index(condition->operands[0]) && is_index(sum->operands[0]);
  }

  // Whether the loops reach every element of the tensor: each axis has a loop of its own and of its size.
  bool reads_all(const Scalar& read) const {
    const std::vector<SymInt>& sizes = meaning_.tensors[read.tensor]->meta().sizes;
    std::set<int> taken;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] == SymInt(1)) continue;
      const Scalar& index = at(read.operands[axis]);
      const auto extent = index.op == ScalarOp::index ? extents_.find(index.variable) : extents_.end();
      if (extent == extents_.end() || extent->second != sizes[axis] || !taken.insert(index.variable).second)
        return false;
    }
    return true;
  }

  const Meaning& meaning_;
  std::map<int, SymInt> extents_;  // of the loops at hand
  std::vector<bool> seen_;
  std::vector<Lookup> found_;
};

bool has_integers(const ir::Node& node) {
  const std::vector<ir::Value*> operands = node.operands();
  return std::any_of(operands.begin(), operands.end(), [](const ir::Value* operand) {
    return operand->is_tensor() &&
           (operand->meta().dtype == ScalarType::i64 || operand->meta().dtype == ScalarType::i32);
  });
}

// The input of the body that an index is, perhaps by views and casts, or an element of it; null where it is computed.
Part input_behind(const Lowering& lowering, const ir::Value* index) {
  Part part{index};
  while (part.tensor && part.tensor->producer) {
    if (part.position) return {};
    const Result<Meaning> meaning = loops_of(lowering.opset, *part.tensor->producer, lowering.facts);
    part = meaning ? Search(*meaning).viewed() : Part();
  }
  return part;
}

constexpr int64_t many_elements = 16;  // that one index looks up: looking at it takes far less time

// Whether a value is an input of the program, or a view of one.
bool is_given(const ir::Value* value) {
  while (value->producer && kernels::kernel_of(*value->producer) == "alias") value = value->producer->operands()[0];
  return !value->producer;
}

// Tensors of which every element, or the one at a position, was found to lie in a range.
struct Checked {
  const ir::Value* tensor;
  std::optional<ir::ArgumentList> position;
  SymInt lowest, end;
};

bool follows(const std::vector<Checked>& all, const Checked& wanted, const shape::Facts& facts) {
  const auto implies = [&](const Checked& checked) {
    if (checked.position && (checked.tensor != wanted.tensor || checked.position != wanted.position)) return false;
    if (checked.tensor->meta().dtype != wanted.tensor->meta().dtype) return false;
    for (const ir::Value* shown = wanted.tensor; shown != checked.tensor; shown = shown->producer->operands()[0])
      if (!shown->producer || kernels::kernel_of(*shown->producer) != "alias") return false;
    return facts.proves(shape::less_equal(wanted.lowest, checked.lowest)) &&
           facts.proves(shape::less_equal(checked.end, wanted.end));
  };
  return std::any_of(all.begin(), all.end(), implies);
}

// Of a constant that is at hand.
bool lies_within(const ir::Weight& weight, const SymInt& lowest, const SymInt& end) {
  if (weight.tensor.storage->is_absent() || !lowest.is_constant() || !end.is_constant()) return false;
  for (int64_t i = 0; i < weight.tensor.numel(); ++i)
    if (const double index = weight.tensor.float_at(i);
        index < static_cast<double>(*lowest.constant()) || index >= static_cast<double>(*end.constant()))
      return false;
  return true;
}

}  // namespace

void find_indices(Lowering& lowering) {
  std::vector<Checked> checked;
  for (ir::Node& call : lowering.graph().forward()) {
    if (!call.annotation("code_key")) continue;
    const ir::Graph& body = *ir::body_of(call, lowering.variant);
    const std::vector<ir::Value*> operands = call.operands();
    ir::ArgumentList indices;
    for (const ir::Node& node : body.forward()) {
      if (!has_integers(node)) continue;
      const Result<Meaning> meaning = loops_of(lowering.opset, node, lowering.facts);
      if (!meaning) continue;
      for (const auto& [read, lowest, end] : Search(*meaning).run()) {
        const auto [index, position] = input_behind(lowering, read);
        if (!index) continue;
        const ir::Value& operand = *operands[index->index];
        const bool is_cheap = position || lowering.typical(operand.meta().numel()) * many_elements <=
                                              lowering.typical(node.results()[0]->meta().numel());
        if (!is_given(&operand) && !is_cheap) continue;
        const ir::Weight* weight = constant_weight(lowering, operand);
        if (weight && lies_within(*weight, lowest, end)) continue;
        Checked range{&operand, position, lowest, end};
        if (follows(checked, range, lowering.facts)) continue;
        checked.push_back(std::move(range));
        ir::ArgumentList entry{int64_t{index->index}, lowest, end, node.results()[0]->name};
        if (position) entry.emplace_back(*position);
        indices.emplace_back(std::move(entry));
      }
    }
    if (!indices.empty()) call.annotate("indices", std::move(indices));
  }
}

}  // namespace atenon::lower
