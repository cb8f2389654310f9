#include "lower/loops.h"

namespace atenon::lower {

void each_operand(const Loops& loops, ExprId id, const std::function<void(ExprId)>& visit) {
  const Expr& expr = loops.exprs[id];
  for (ExprId operand : expr.operands) visit(operand);
  if (!expr.index.is_constant())
    for (const std::string& symbol : expr.index.symbols())
      if (symbol.front() == '%') visit(std::stoi(symbol.substr(1)));
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

RealForm real_form(const ir::TensorMeta& meta, Layout layout) {
  RealForm form{meta.dtype, meta.sizes, std::move(layout)};
  if (!is_complex(meta.dtype)) return form;
  form.dtype = meta.dtype == ScalarType::c128 ? ScalarType::f64 : ScalarType::f32;
  form.sizes.emplace_back(2);
  form.layout.offset = form.layout.offset * 2;
  for (SymInt& stride : form.layout.strides) stride = stride * 2;
  form.layout.strides.emplace_back(1);
  return form;
}

SymInt address_of(const Layout& layout, const std::vector<SymInt>& index) {
  SymInt address = layout.offset;
  for (size_t axis = 0; axis < index.size(); ++axis) address = address + index[axis] * layout.strides[axis];
  return address;
}

std::vector<std::string> symbols_of(const Loops& loops) {
  std::set<std::string> symbols;
  const auto collect = [&](const SymInt& x) {
    if (x.is_constant()) return;
    for (const std::string& symbol : x.symbols())
      if (symbol.front() != '$' && symbol.front() != '%') symbols.insert(symbol);
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

}  // namespace atenon::lower
