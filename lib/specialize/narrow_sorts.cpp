// What is sorted for its first elements alone, as the neighbours of a point are, is not sorted to the end:
//
//     sort(x)[0][.., :k] = sort_first(x, k)[0]
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

constexpr const char *sort = "aten::sort", *stable_sort = "aten::sort.stable", *first = "atenon::sort_first";

// How many elements along an axis a node shows of its only operand, from the first on, and nothing else; nullopt where
// it shows something else, or all.
std::optional<ir::SymInt> shown_along(const Scope& scope, const ir::Node& node, int axis) {
  if (node.operands().size() != 1 || !has_one_result(node)) return std::nullopt;
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  if (!meaning || !meaning->is_view) return std::nullopt;
  const std::vector<ir::SymInt>&from = node.operands()[0]->meta().sizes, &to = node.result()->meta().sizes;
  const opset::Scalar& read = at(*meaning, meaning->results[0].value);
  if (read.op != opset::ScalarOp::read || from.size() != to.size()) return std::nullopt;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool is_shown = static_cast<int>(i) == axis;
    if (from[i] == ir::SymInt(1) && to[i] == from[i]) continue;  // read at zero
    if (result_axis(*meaning, read.operands[i]) != static_cast<int>(i) || (from[i] != to[i]) != is_shown)
      return std::nullopt;
  }
  return to[static_cast<size_t>(axis)];
}

// How many all readers of a sort's results keep; nullopt where one keeps all or they differ.
std::optional<ir::SymInt> kept(const Scope& scope, const ir::Node& node, int axis) {
  std::optional<ir::SymInt> count;
  for (const auto& result : node.results()) {
    if (result->returned > 0) return std::nullopt;
    for (const ir::Node* reader : result->users) {
      const std::optional<ir::SymInt> shown = shown_along(scope, *reader, axis);
      if (!shown || (count && *count != *shown)) return std::nullopt;
      count = shown;
    }
  }
  return count;
}

}  // namespace

Result<Changed> narrow_sorts(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (node.target() != sort && node.target() != stable_sort) continue;
    Result<opset::Call> call = opset::bind(scope.opset, node);
    if (!call) return call.error();
    const size_t last = call->arguments.size() - 1;  // both end with the axis and the order
    const ir::Argument &self = call->arguments[0], &dim = call->arguments[last - 1],
                       &descending = call->arguments[last];
    const int rank = self.value()->meta().rank();
    const auto given = dim.get<ir::SymInt>().constant();
    if (!given || rank == 0) continue;
    const int axis = static_cast<int>(*given < 0 ? *given + rank : *given);
    const std::optional<ir::SymInt> count = kept(scope, node, axis);
    if (!count || depends_on_data(scope, count->symbols())) continue;  // which may be known behind the sort alone
    const ir::SymBool is_part = shape::less_equal(*count, self.value()->meta().sizes[static_cast<size_t>(axis)]);
    if (scope.facts.decide(is_part) != shape::Truth::proven) continue;
    Result<ir::Value*> made = append_before(scope, node, first, {self, *count, int64_t{axis}, descending});
    if (!made) return made.error();
    for (size_t i = 0; i < node.results().size(); ++i) {
      const std::vector<ir::Node*> readers = node.result(i)->users;
      for (ir::Node* reader : readers) scope.variant.graph.replace_uses(reader->result(), (*made)->producer->result(i));
    }
    scope.report("sorted %" + node.result()->name + " no further than its readers look");
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
