#include "lower/loops.h"

#include "tensor/real_parts.h"

namespace atenon::lower {

std::optional<int> loop_of(const std::string& symbol) {
  return symbol.front() == '$' ? std::optional(std::stoi(symbol.substr(1))) : std::nullopt;
}

std::optional<ExprId> value_of(const std::string& symbol) {
  return symbol.front() == '%' ? std::optional(std::stoi(symbol.substr(1))) : std::nullopt;
}

std::vector<ExprId> values_in(const SymInt& index) {
  std::vector<ExprId> values;
  if (index.is_constant()) return values;
  for (const std::string& symbol : index.symbols())
    if (const std::optional<ExprId> value = value_of(symbol)) values.push_back(*value);
  return values;
}

int base_of_scatter(const Loops& loops) {
  if (!loops.scatter) return -1;
  const Expr& base = loops.exprs[loops.stores[0].value];
  if (base.op != ScalarOp::read || base.index != loops.stores[0].address) return -1;
  // What is written, and where, must not be read from what is being written.
  std::vector<ExprId> roots = values_in(loops.scatter->address);
  roots.insert(roots.end(), {loops.scatter->value, loops.scatter->joined});
  for (int loop : loops.scatter->loops)
    for (ExprId id : values_in(loops.loops[loop].extent)) roots.push_back(id);
  std::set<ExprId> seen;
  const std::function<bool(ExprId)> reads_base = [&](ExprId id) {
    if (id == no_expr || !seen.insert(id).second) return false;
    const Expr& expr = loops.exprs[id];
    bool found = expr.op == ScalarOp::read && expr.buffer == base.buffer;
    each_operand(loops, id, [&](ExprId operand) { found = found || reads_base(operand); });
    if (expr.op == ScalarOp::reduce) {
      const BoundReduction& reduction = loops.reductions[expr.reduction];
      for (const std::vector<ExprId>* parts : {&reduction.identity, &reduction.joined, &reduction.element})
        for (ExprId part : *parts) found = found || reads_base(part);
      found = found || reads_base(reduction.guard);
    }
    return found;
  };
  return std::any_of(roots.begin(), roots.end(), reads_base) ? -1 : base.buffer;
}

int64_t terms_of(const Loops& loops, const BoundReduction& reduction) {
  int64_t terms = 1;
  for (int loop : reduction.loops) terms *= loops.loops[loop].extent.constant().value_or(long_sum);
  return terms;
}

void each_operand(const Loops& loops, ExprId id, const std::function<void(ExprId)>& visit) {
  for (ExprId operand : loops.exprs[id].operands) visit(operand);
  for (ExprId value : values_in(loops.exprs[id].index)) visit(value);
}

int cost_of(const Loops& loops, ExprId id, LoopSet inner, std::set<ExprId>& seen,
            const std::map<ExprId, bool>& truths) {
  const Expr& expr = loops.exprs[id];
  if (!(expr.loops & inner) || expr.op == ScalarOp::reduce || !seen.insert(id).second) return 0;
  if (expr.op == ScalarOp::select)
    if (const auto truth = truths.find(expr.operands[0]); truth != truths.end())
      return cost_of(loops, expr.operands[truth->second ? 1 : 2], inner, seen, truths);
  int sum = expr.cost;
  each_operand(loops, id, [&](ExprId operand) { sum += cost_of(loops, operand, inner, seen, truths); });
  return sum;
}

int64_t typical(const SymInt& x, const shape::Bindings& hints) {
  constexpr int64_t unknown_size = 64;
  if (x.is_constant()) return *x.constant();
  shape::Bindings bindings = hints;
  for (const std::string& symbol : x.symbols()) bindings.emplace(symbol, unknown_size);
  return shape::evaluate(x, bindings).value_or(unknown_size);
}

Layout row_major(const std::vector<SymInt>& sizes) {
  Layout layout{std::vector<SymInt>(sizes.size(), 1), 0};
  for (size_t axis = sizes.size(); axis-- > 1;) layout.strides[axis - 1] = layout.strides[axis] * sizes[axis];
  return layout;
}

Layout packed_layout(const ir::Weight& weight) {
  const ir::BlockedLayout& blocked = *weight.layout;
  Layout layout{.strides = {blocked.strides.begin(), blocked.strides.end()}, .inner_blocks = blocked.inner_blocks};
  if (weight.tensor.dtype != weight.dtype()) layout.stored = weight.tensor.dtype;
  return layout;
}

RealForm real_form(const ir::TensorMeta& meta, Layout layout) {
  RealForm form{meta.dtype, meta.sizes, std::move(layout)};
  if (!is_complex(meta.dtype)) return form;
  form.dtype = part_of(meta.dtype);
  form.sizes.emplace_back(2);
  form.layout.offset = form.layout.offset * 2;
  for (SymInt& stride : form.layout.strides) stride = stride * 2;
  form.layout.strides.emplace_back(1);
  return form;
}

SymInt address_of(const Layout& layout, std::vector<SymInt> index) {
  SymInt address = layout.offset;
  int64_t inside = 1;
  for (auto block = layout.inner_blocks.rbegin(); block != layout.inner_blocks.rend(); ++block) {
    SymInt& at = index[block->first];
    const SymInt outer = shape::floor_div(at, block->second);
    address = address + (at - outer * block->second) * inside;
    at = outer;
    inside *= block->second;
  }
  for (size_t axis = 0; axis < index.size(); ++axis) address = address + index[axis] * layout.strides[axis];
  return address;
}

std::vector<std::string> symbols_of(const Loops& loops) {
  std::set<std::string> symbols;
  const auto collect = [&](const SymInt& x) {
    if (x.is_constant()) return;
    for (const std::string& symbol : x.symbols())
      if (!loop_of(symbol) && !value_of(symbol)) symbols.insert(symbol);
  };
  for (const Expr& expr : loops.exprs) {
    collect(expr.index);
    if (expr.op == ScalarOp::size_float) symbols.merge(expr.size_float.symbols());
  }
  for (const Loop& loop : loops.loops) collect(loop.extent);
  for (const Store& store : loops.stores) collect(store.address);
  if (loops.scatter) collect(loops.scatter->address);
  return {symbols.begin(), symbols.end()};
}

SymInt Loops::row_count() const {
  SymInt count = 1;
  for (size_t i = 0; i < rows; ++i) count = count * loops[domain[i]].extent;
  return count;
}

LoopSet Loops::loops_of(const SymInt& index) const {
  LoopSet set = 0;
  if (index.is_constant()) return set;
  for (const std::string& symbol : index.symbols()) {
    if (const std::optional<int> loop = loop_of(symbol); loop && *loop < static_cast<int>(loops.size()))
      set |= bit(*loop);
    if (const std::optional<ExprId> value = value_of(symbol)) set |= exprs[*value].loops;
  }
  return set;
}

}  // namespace atenon::lower
