// A tensor that is written part by part, as loops over time fill their results, is the concatenation of its parts:
//
//     select_scatter(select_scatter(zeros, a, 1, 0), b, 1, 1) = cat([unsqueeze(a, 1), unsqueeze(b, 1)], 1)
//
// Each write copies the whole, so n of them take n * n steps. What reads a part in between reads what was written
// there, or what was written to. Nothing here knows the operators: a write is a scatter, and a read a view, whose
// indices are the result's, along one axis perhaps moved, or at one place.
#include <algorithm>

#include "ir/readers.h"
#include "ir/written_state.h"
#include "specialize/channel_affine.h"
#include "specialize/concatenation.h"
#include "specialize/index_expressions.h"

namespace atenon::specialize {
namespace {

constexpr size_t most_parts = 16;  // of what is read between two writes

// Places [start, end) of an axis of a tensor; all of its other axes.
struct Places {
  size_t axis = 0;
  int64_t start = 0, end = 0;
  bool drops_axis = false;  // there is one place, and the part has no such axis

  bool contains(const Places& other) const { return start <= other.start && other.end <= end; }
  bool meets(const Places& other) const { return start < other.end && other.start < end; }
};

// The places of `whole` that loops over `variables`, of the sizes `part`, go to at `index`; nullopt where they are not
// such, or not known.
std::optional<Places> places_of(const opset::Meaning& meaning, const std::vector<opset::ScalarId>& index,
                                const std::vector<int>& variables, const std::vector<ir::SymInt>& part,
                                const std::vector<ir::SymInt>& whole) {
  if (whole.size() != part.size() && whole.size() != part.size() + 1) return std::nullopt;
  const std::map<int, ir::SymInt> symbols = result_indices(variables);
  const IndexExpressions expressions(meaning, symbols);
  std::optional<Places> found;
  for (size_t axis = 0, of_part = 0; axis < whole.size(); ++axis) {
    const std::optional<ir::SymInt> at_axis = expressions.integer(index[axis]);
    if (!at_axis) return std::nullopt;
    const bool is_all = of_part < part.size() && part[of_part] == whole[axis];
    if (is_all && (*at_axis == result_index(of_part) || (whole[axis] == ir::SymInt(1) && *at_axis == ir::SymInt(0)))) {
      ++of_part;
      continue;
    }
    if (found) return std::nullopt;
    found.emplace();
    found->axis = axis;
    found->drops_axis = whole.size() > part.size();
    const std::optional<int64_t> start = (found->drops_axis ? *at_axis : *at_axis - result_index(of_part)).constant(),
                                 size = found->drops_axis ? 1 : part[of_part].constant();
    if (!start || !size || *size == 0) return std::nullopt;
    found->start = *start;
    found->end = *start + *size;
    if (!found->drops_axis) ++of_part;
  }
  return found;
}

// What puts `part` at some places of a copy of `base`.
struct Write {
  ir::Node* node = nullptr;
  ir::Value *base = nullptr, *part = nullptr;
  Places places;
};

std::optional<Write> write_of(const Scope& scope, ir::Node& node) {
  if (!has_one_result(node)) return std::nullopt;
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  if (!meaning || !meaning->scatter || meaning->scatter->join) return std::nullopt;
  const opset::Scatter& scatter = *meaning->scatter;
  const opset::Scalar& value = at(*meaning, scatter.value);
  if (value.op != opset::ScalarOp::read) return std::nullopt;
  Write write{&node, meaning->tensors[static_cast<size_t>(scatter.base)], tensor_of(*meaning, value), {}};
  const std::vector<ir::SymInt>&whole = write.base->meta().sizes, &part = write.part->meta().sizes;
  if (part.size() != scatter.variables.size()) return std::nullopt;
  // Each element of the part is written, in its own place.
  for (size_t i = 0; i < part.size(); ++i) {
    const opset::Scalar& read = at(*meaning, value.operands[i]);
    const bool is_read_in_place =
        read.op == opset::ScalarOp::index ? read.variable == scatter.variables[i] : part[i] == ir::SymInt(1);
    if (!is_read_in_place || IndexExpressions(*meaning, {}).integer(scatter.extents[i]) != part[i]) return std::nullopt;
  }
  const std::optional<Places> places = places_of(*meaning, scatter.at, scatter.variables, part, whole);
  if (!places) return std::nullopt;
  write.places = *places;
  return write;
}

std::optional<Places> read_of(const Scope& scope, const ir::Node& node) {
  if (node.operands().size() != 1 || !has_one_result(node)) return std::nullopt;
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  if (!meaning || !meaning->is_view) return std::nullopt;
  const opset::LoopNest& nest = meaning->results[0];
  return places_of(*meaning, at(*meaning, nest.value).operands, nest.variables, nest.type.sizes,
                   node.operands()[0]->meta().sizes);
}

Result<ir::Value*> part_between(Scope& scope, ir::Node& node, ir::Value* whole, size_t axis, int64_t start,
                                int64_t end) {
  if (start == 0 && whole->meta().sizes[axis] == ir::SymInt(end)) return whole;
  return append_before(scope, node, "aten::slice.Tensor", {whole, int64_t(axis), start, end});
}

class Writes {
 public:
  explicit Writes(Scope& scope) : scope_(scope) {}

  Result<Changed> run() {
    for (size_t i = 0; i < scope_.variant.graph.outputs().size(); ++i)
      states_.insert(ir::state_before(scope_.entry.signature, scope_.variant.graph, i));
    collect();
    for (ir::Node& node : scope_.variant.graph.forward())
      if (!write_at(&node))
        if (Result<void> moved = move_read(node); !moved) return moved.error();
    if (changed_ == Changed::yes) {
      remove_unused(scope_);  // reads that have moved
      collect();
    }
    for (ir::Node& node : scope_.variant.graph.forward())
      if (const Write* write = write_at(&node))
        if (Result<void> joined = join(*write); !joined) return joined.error();
    return changed_;
  }

 private:
  void collect() {
    writes_.clear();
    for (ir::Node& node : scope_.variant.graph.forward()) note(node);
  }

  void note(ir::Node& node) {
    if (const std::optional<Write> write = write_of(scope_, node)) writes_[&node] = *write;
  }

  const Write* write_at(const ir::Node* node) const {
    const auto found = writes_.find(node);
    return found == writes_.end() ? nullptr : &found->second;
  }

  // The write that made `value`; null where there is none.
  const Write* write_to(const ir::Value& value) const { return value.producer ? write_at(value.producer) : nullptr; }

  // What the first of the writes that made `value` wrote to.
  const ir::Value* first_base(const ir::Value* value) const {
    while (const Write* write = write_to(*value)) value = write->base;
    return value;
  }

  void replace(ir::Value* old, ir::Value* made) {
    const std::vector<ir::Node*> readers(old->users.begin(), old->users.end());
    scope_.variant.graph.replace_uses(old, made);
    for (ir::Node* reader : readers)
      if (writes_.erase(reader) > 0) note(*reader);
    changed_ = Changed::yes;
  }

  // Lets a view of what was written look behind the writes that do not concern it, or read what was written there: of
  // a few writes where the next one follows, as a filter reads what it gave last.
  Result<void> move_read(ir::Node& node) {
    if (node.operands().size() != 1) return {};
    ir::Value* const whole = node.operands()[0];
    const Write* write = write_to(*whole);
    const std::optional<Places> read = write ? read_of(scope_, node) : std::nullopt;
    if (!read) return {};
    std::vector<const Write*> met;  // the last first
    ir::Value *source = whole, *behind_disjoint = whole;
    for (; write && write->places.axis == read->axis && met.size() < most_parts; write = write_to(*source)) {
      source = write->base;
      if (write->places.meets(*read)) met.push_back(write);
      if (met.empty()) behind_disjoint = source;
      if (!met.empty() && met.back()->places.contains(*read)) break;
    }
    if (behind_disjoint != whole && states_.contains(first_base(whole))) behind_disjoint = whole;
    const bool is_of_one = met.size() == 1 && met[0]->places.contains(*read);
    const bool is_whole = is_of_one
                              ? met[0]->places.drops_axis || !read->drops_axis
                              : !met.empty() && !read->drops_axis && met.size() < most_parts && is_written_to(*whole);
    Result<ir::Value*> made = behind_disjoint;
    if (is_whole && read->drops_axis)
      made = met[0]->part;
    else if (is_whole)
      made = assemble(node, met, source, read->axis, read->start, read->end);
    else if (behind_disjoint != whole)
      made = append_copy(scope_, node, node, [&](size_t, const ir::Argument& argument) -> ir::Argument {
        return argument.value() == whole ? behind_disjoint : argument;
      });
    else
      return {};
    if (!made) return made.error();
    scope_.report("read %" + node.result()->name + " from " +
                  (is_whole ? "what was written there" : "before it was written elsewhere"));
    replace(node.result(), *made);
    return {};
  }

  bool is_written_to(const ir::Value& value) const {
    return std::ranges::any_of(value.users, [&](const ir::Node* user) {
      const Write* write = write_at(user);
      return write && write->base == &value;
    });
  }

  // Whether a write along the same axis alone reads the result of this one, and writes to it.
  bool has_next(const Write& write) const {
    const Write* next = write_at(ir::sole_reader(*write.node->result()));
    return next && next->base == write.node->result() && next->places.axis == write.places.axis;
  }

  Result<void> join(const Write& last) {
    if (has_next(last)) return {};
    std::vector<const Write*> chain = {&last};  // the last first
    for (const Write* before; (before = write_to(*chain.back()->base)) && has_next(*before);) chain.push_back(before);
    if (chain.size() < 2) return {};
    ir::Value* const base = chain.back()->base;
    if (states_.contains(base)) return {};
    const size_t axis = last.places.axis;
    const std::optional<int64_t> size = base->meta().sizes[axis].constant();
    if (!size) return {};
    // Few writes to much that stays may be made where it lies.
    int64_t stays = 0;
    for (const Run& run : runs_of(chain, 0, *size)) stays += run.write ? 0 : run.end - run.start;
    if (stays * 2 > *size) return {};
    scope_.report("concatenated what was written to %" + last.node->result()->name);
    Result<ir::Value*> whole = assemble(*last.node, chain, base, axis, 0, *size);
    if (!whole) return whole.error();
    replace(last.node->result(), *whole);
    return {};
  }

  // Places [start, end) and the last write to them; null: there is none.
  struct Run {
    int64_t start = 0, end = 0;
    const Write* write = nullptr;
  };

  // Places [start, end), in order. The last of `chain` was the first write.
  static std::vector<Run> runs_of(const std::vector<const Write*>& chain, int64_t start, int64_t end) {
    std::map<int64_t, const Write*> writers = {{start, nullptr}, {end, nullptr}};  // each of the places up to the next
    for (auto write = chain.rbegin(); write != chain.rend(); ++write) {
      const int64_t from = std::max(start, (*write)->places.start), to = std::min(end, (*write)->places.end);
      if (from >= to) continue;
      const Write* behind = std::prev(writers.upper_bound(to))->second;
      writers.erase(writers.lower_bound(from), writers.upper_bound(to));
      writers[from] = *write;
      writers[to] = behind;
    }
    std::vector<Run> runs;
    for (auto at = writers.begin(); std::next(at) != writers.end(); ++at)
      runs.push_back({at->first, std::next(at)->first, at->second});
    return runs;
  }

  // Places [start, end) of what the chain of writes made of `base`, put before `node`.
  Result<ir::Value*> assemble(ir::Node& node, const std::vector<const Write*>& chain, ir::Value* base, size_t axis,
                              int64_t start, int64_t end) {
    ir::ArgumentList parts;
    for (const auto& [from, to, write] : runs_of(chain, start, end)) {
      const int64_t first = write ? write->places.start : 0;
      Result<ir::Value*> part =
          write && write->places.drops_axis
              ? append_before(scope_, node, "aten::unsqueeze", {write->part, int64_t(axis)})
              : part_between(scope_, node, write ? write->part : base, axis, from - first, to - first);
      if (!part) return part.error();
      parts.emplace_back(*part);
    }
    return append_concatenation(scope_, node, std::move(parts), int64_t(axis));
  }

  Scope& scope_;
  std::map<const ir::Node*, Write> writes_;
  // State that the program writes: writes to it, one after the other, are made where it lies, and what it was before
  // them is not there any more.
  std::set<const ir::Value*> states_;
  Changed changed_ = Changed::no;
};

}  // namespace

Result<Changed> concatenate_writes(Scope& scope) { return Writes(scope).run(); }

}  // namespace atenon::specialize
