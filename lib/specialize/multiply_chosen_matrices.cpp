// A product with matrices that are gathered from a constant stack, as mixtures of experts write it, reads each where it
// lies:
//
//     matmul(x[row], stack[chosen[row]]) = product_by_row(x, stack, chosen)[row]
//
// Gathered, a matrix is copied for each row that chose it. Nothing here knows how matrices are gathered, turned and
// multiplied: the meanings say it, and a copy of the gather, from the numbers of the matrices, says which were chosen.
#include <algorithm>
#include <numeric>

#include "specialize/index_expressions.h"

namespace atenon::specialize {
namespace {

using ir::SymInt;
using opset::Meaning;
using opset::Scalar;
using opset::ScalarOp;

// A tensor, and where it is read.
struct Place {
  ir::Value* value = nullptr;
  std::vector<SymInt> index;
};

// result[choices.., p, q] = stack[of the choices, p, q]
struct Gather {
  ir::Node* node = nullptr;
  ir::Value* stack = nullptr;
};

std::optional<Gather> gather_of(const Scope& scope, ir::Node& node) {
  const std::vector<ir::Value*> operands = node.operands();
  const auto is_stack = [&](const ir::Value* value) {
    return value->is_tensor() && value->meta().rank() == 3 && constant_behind(scope, value);
  };
  if (!has_one_result(node) || std::none_of(operands.begin(), operands.end(), is_stack)) return std::nullopt;
  const std::optional<Meaning> meaning = loops(scope, node);
  if (!meaning || meaning->scatter || meaning->is_view || !meaning->reductions.empty() ||
      meaning->results[0].value == opset::no_scalar)
    return std::nullopt;
  const Scalar& read = at(*meaning, meaning->results[0].value);
  const std::vector<int>& axes = meaning->results[0].variables;
  if (read.op != ScalarOp::read || !is_stack(tensor_of(*meaning, read)) || axes.size() < 2) return std::nullopt;
  const int last = static_cast<int>(axes.size()) - 1;
  if (result_axis(*meaning, read.operands[1]) != last - 1 || result_axis(*meaning, read.operands[2]) != last ||
      depends_on(*meaning, read.operands[0], axes[static_cast<size_t>(last)]) ||
      depends_on(*meaning, read.operands[0], axes[static_cast<size_t>(last - 1)]))
    return std::nullopt;
  return Gather{&node, tensor_of(*meaning, read)};
}

// Where an operand is read at which a node is read, over a symbol for each loop variable.
std::optional<std::vector<SymInt>> index_of(const Meaning& meaning, const Scalar& read,
                                            const std::map<int, SymInt>& variables, const shape::Facts& facts) {
  const IndexExpressions expressions(meaning, variables);
  std::vector<SymInt> index;
  for (const opset::ScalarId operand : read.operands) {
    const std::optional<SymInt> expression = expressions.integer(operand);
    if (!expression) return std::nullopt;
    index.push_back(facts.simplify(*expression));
  }
  return index;
}

std::map<int, SymInt> variables_of(const Meaning& meaning, const std::vector<SymInt>& index) {
  std::map<int, SymInt> variables;
  for (size_t axis = 0; axis < index.size(); ++axis) variables[meaning.results[0].variables[axis]] = index[axis];
  return variables;
}

// What the views before a place show, and where.
Place behind_views(const Scope& scope, Place place, const shape::Facts& facts) {
  while (place.value->producer) {
    const std::optional<Meaning> meaning = loops(scope, *place.value->producer);
    if (!meaning || !meaning->is_view) return place;
    const Scalar& read = at(*meaning, meaning->results[0].value);
    std::optional<std::vector<SymInt>> index = index_of(*meaning, read, variables_of(*meaning, place.index), facts);
    if (!index) return place;
    place = {tensor_of(*meaning, read), std::move(*index)};
  }
  return place;
}

// result[result indices] = sum over k of left * right, each read at a place that the result's indices and k say.
struct Product {
  Place left, right;
  shape::Facts facts;  // the program's, and the ranges of the indices
};
SymInt summed() { return summed_index(0); }

std::optional<Product> product_of(const Scope& scope, const ir::Node& node) {
  std::optional<Alone> steps = alone(scope, node);
  if (!steps) return std::nullopt;
  Product found{{}, {}, scope.facts};
  const auto declare = [&](const SymInt& index, const SymInt& extent) {
    found.facts.declare(*index.as_symbol(), {0, extent.constant().value_or(shape::Range::highest) - 1});
    found.facts.assume(shape::less(index, extent));
  };
  Place place{steps->graph.outputs()[0].value(), {}};
  for (size_t axis = 0; axis < place.value->meta().sizes.size(); ++axis) {
    place.index.push_back(result_index(axis));
    declare(place.index.back(), place.value->meta().sizes[axis]);
  }
  place = behind_views(scope, std::move(place), found.facts);
  const std::optional<Meaning> meaning = place.value->producer ? loops(scope, *place.value->producer) : std::nullopt;
  const std::optional<SumOfProducts> sum = meaning ? sum_of_products(*meaning) : std::nullopt;
  if (!sum || sum->bias || sum->reduction->variables.size() != 1 || sum->reduction->guard != opset::no_scalar)
    return std::nullopt;
  std::map<int, SymInt> variables = variables_of(*meaning, place.index);
  const std::optional<SymInt> terms = IndexExpressions(*meaning, variables).integer(sum->reduction->extents[0]);
  if (!terms) return std::nullopt;
  declare(summed(), *terms);
  variables[sum->reduction->variables[0]] = summed();
  for (const bool is_left : {true, false}) {
    const Scalar& read = is_left ? *sum->left : *sum->right;
    std::optional<std::vector<SymInt>> index = index_of(*meaning, read, variables, found.facts);
    if (!index) return std::nullopt;
    Place side = behind_views(scope, {tensor_of(*meaning, read), std::move(*index)}, found.facts);
    if (side.value->producer) return std::nullopt;
    side.value = steps->operands.at(side.value);
    (is_left ? found.left : found.right) = std::move(side);
  }
  return found;
}

// The place in the graph itself that a chain of views, decomposed or not, shows.
Place behind_nodes(const Scope& scope, Place place, const shape::Facts& facts) {
  while (place.value->producer && place.value->producer->operands().size() == 1) {
    std::optional<Alone> steps = alone(scope, *place.value->producer);
    if (!steps || steps->graph.outputs()[0].value()->type != place.value->type) return place;
    Place shown = behind_views(scope, {steps->graph.outputs()[0].value(), place.index}, facts);
    if (shown.value->producer) return place;
    place = {steps->operands.at(shown.value), std::move(shown.index)};
  }
  return place;
}

// The loops of a product with chosen matrices: over choices, rows of x for each, and columns of a matrix. An axis of
// the result is one of them, or several, joined.
struct Loops {
  std::vector<SymInt> sizes, index;  // choices.., rows, columns
  std::vector<size_t> order;         // of the loops, in the result
  std::vector<size_t> of_x;          // of each axis of x: 0 where it has one place, 1 + its loop, or `sum()`
  size_t rows() const { return sizes.size() - 2; }
  size_t columns() const { return sizes.size() - 1; }
  size_t sum() const { return sizes.size() + 1; }
};

// Whether an axis of the result is these loops, joined in this order.
bool is_joined(const Loops& loops, const std::vector<size_t>& order, const SymInt& axis, const SymInt& size,
               const shape::Facts& facts) {
  SymInt inside = 1;
  for (size_t i = order.size(); i-- > 0; inside = inside * loops.sizes[order[i]]) {
    SymInt place = shape::floor_div(axis, inside);
    if (i > 0) place = shape::mod(place, loops.sizes[order[i]]);
    if (facts.simplify(place) != loops.index[order[i]]) return false;
  }
  return facts.simplify(inside) == facts.simplify(size);
}

// Finds which loops each axis of the result is; what no matrix depends on counts the rows. False where an axis is
// something else.
bool order_loops(Loops& loops, const ir::TensorMeta& result, const shape::Facts& facts) {
  std::vector<size_t> joined;
  for (size_t axis = 0; axis < result.sizes.size(); ++axis) {
    if (result.sizes[axis] == SymInt(1)) continue;
    const SymInt index = result_index(axis);
    std::vector<size_t> mine;
    for (size_t i = 0; i < loops.index.size(); ++i)
      if (loops.index[i].symbols().contains(*index.as_symbol())) mine.push_back(i);
    if (mine.empty()) {
      if (loops.index[loops.rows()] != SymInt(0)) return false;
      loops.index[loops.rows()] = index;
      loops.sizes[loops.rows()] = result.sizes[axis];
      mine = {loops.rows()};
    }
    while (!is_joined(loops, mine, index, result.sizes[axis], facts))
      if (!std::next_permutation(mine.begin(), mine.end())) return false;
    joined.insert(joined.end(), mine.begin(), mine.end());
  }
  for (size_t i = 0; i < loops.sizes.size(); ++i) {  // of one turn: they may stand anywhere
    if (std::find(joined.begin(), joined.end(), i) != joined.end()) continue;
    if (loops.sizes[i] != SymInt(1)) return false;
    loops.order.push_back(i);
  }
  loops.order.insert(loops.order.end(), joined.begin(), joined.end());
  return true;
}

// Finds which loop, or the sum, moves along each axis of x. False where it is none, or the columns.
bool read_x(Loops& loops, const Place& x) {
  for (size_t axis = 0; axis < x.index.size(); ++axis) {
    if (x.value->meta().sizes[axis] == SymInt(1)) {
      loops.of_x.push_back(0);
      continue;
    }
    size_t of = loops.sum();
    if (x.index[axis] != summed())
      for (of = 1; of <= loops.rows() + 1 && loops.index[of - 1] != x.index[axis];) ++of;
    if (of == loops.rows() + 2 || std::find(loops.of_x.begin(), loops.of_x.end(), of) != loops.of_x.end()) return false;
    loops.of_x.push_back(of);
  }
  return true;
}

// `is_turned` where a matrix is [columns, k].
std::optional<Loops> loops_of(const Product& product, const Place& matrices, const Place& x,
                              const ir::TensorMeta& result, bool& is_turned) {
  Loops loops{matrices.value->meta().sizes, matrices.index, {}, {}};
  is_turned = loops.index[loops.columns()] == summed();
  if (is_turned) {
    std::swap(loops.index[loops.rows()], loops.index[loops.columns()]);
    std::swap(loops.sizes[loops.rows()], loops.sizes[loops.columns()]);
  }
  if (loops.index[loops.rows()] != summed()) return std::nullopt;
  loops.index[loops.rows()] = 0;
  loops.sizes[loops.rows()] = 1;
  if (!order_loops(loops, result, product.facts) || !read_x(loops, x)) return std::nullopt;
  return loops;
}

// Puts nodes before `place`, one after the other; the first that cannot be made is the result.
class Builder {
 public:
  Builder(Scope& scope, ir::Node& place, ir::Value* value) : scope_(scope), place_(place), value_(value) {}

  Builder& then(const std::string& target, std::vector<ir::Argument> arguments) {
    if (!value_) return *this;
    arguments.insert(arguments.begin(), *value_);
    value_ = append_before(scope_, place_, target, std::move(arguments));
    return *this;
  }
  // An order that differs by axes of size 1 alone is left to the view that follows.
  Builder& permute(const std::vector<size_t>& order) {
    if (!value_) return *this;
    std::vector<size_t> moved;
    for (const size_t axis : order)
      if ((*value_)->meta().sizes[axis] != SymInt(1)) moved.push_back(axis);
    if (std::is_sorted(moved.begin(), moved.end())) return *this;
    ir::ArgumentList list;
    for (const size_t axis : order) list.push_back(static_cast<int64_t>(axis));
    return then("aten::permute", {std::move(list)});
  }
  Builder& view(const std::vector<SymInt>& sizes) {
    if (!value_ || (*value_)->meta().sizes == sizes) return *this;
    return then("aten::reshape", {list_of(sizes)});
  }
  Builder& expand(const std::vector<SymInt>& from, const std::vector<SymInt>& to) {
    return from == to ? *this : view(from).then("aten::expand", {list_of(to)});
  }
  Result<ir::Value*> result() { return std::move(value_); }

 private:
  Scope& scope_;
  ir::Node& place_;
  Result<ir::Value*> value_;
};

SymInt count_of(const std::vector<SymInt>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), SymInt(1), [](const SymInt& a, const SymInt& b) { return a * b; });
}

// [rows of the product, k]
Result<ir::Value*> rows_of(Scope& scope, ir::Node& place, const Loops& loops, ir::Value* x, const SymInt& terms) {
  std::vector<size_t> axes(loops.of_x.size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) { return loops.of_x[a] < loops.of_x[b]; });
  std::vector<SymInt> all(loops.sizes.begin(), loops.sizes.end() - 1), own = all;
  for (size_t i = 0; i < own.size(); ++i)
    if (std::find(loops.of_x.begin(), loops.of_x.end(), i + 1) == loops.of_x.end()) own[i] = 1;
  const SymInt count = count_of(all);
  all.push_back(terms);
  own.push_back(terms);
  return Builder(scope, place, x).permute(axes).expand(own, all).view({count, terms}).result();
}

// The number of the matrix that each row meets: what the gather gives where each matrix is its number. An error without
// code where the gather cannot be made of a vector, as with an axis that is counted from the end.
Result<ir::Value*> choices_of(Scope& scope, ir::Node& place, const Loops& loops, const Gather& gather) {
  const std::optional<int64_t> matrices = gather.stack->meta().sizes[0].constant();
  std::vector<double> numbers(static_cast<size_t>(*matrices));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  ir::Value* each = add_constant(scope, weight_name(scope, *gather.stack) + ".numbers",
                                 as_tensor(numbers, ScalarType::i64, {*matrices}));
  Result<ir::Value*> chosen = append_copy(scope, place, *gather.node, [&](size_t, const ir::Argument& argument) {
    return argument.value() == gather.stack ? ir::Argument(each) : argument;
  });
  if (!chosen) return chosen;
  std::vector<SymInt> all(loops.sizes.begin(), loops.sizes.end() - 1), own = all;
  own.pop_back();
  if ((*chosen)->meta().sizes != own) return error(Status::unsupported, 0, "the gather says something else of numbers");
  own.emplace_back(1);
  return Builder(scope, place, *chosen).expand(own, all).view({count_of(all)}).result();
}

Result<ir::Value*> multiplied(Scope& scope, ir::Node& node, const Loops& loops, const Gather& gather, ir::Value* x,
                              bool is_turned) {
  const SymInt terms = gather.stack->meta().sizes[is_turned ? 2 : 1];
  Result<ir::Value*> rows = rows_of(scope, node, loops, x, terms), chosen = choices_of(scope, node, loops, gather);
  if (!rows) return rows;
  if (!chosen) return chosen;
  Result<ir::Value*> stack = Builder(scope, node, gather.stack)
                                 .permute(is_turned ? std::vector<size_t>{0, 2, 1} : std::vector<size_t>{})
                                 .result();
  if (!stack) return stack;
  return Builder(scope, node, *rows)
      .then("atenon::product_by_row", {*stack, *chosen})
      .view(loops.sizes)
      .permute(loops.order)
      .view(node.result()->meta().sizes)
      .result();
}

}  // namespace

Result<Changed> multiply_chosen_matrices(Scope& scope) {
  Changed changed = Changed::no;
  std::map<const ir::Value*, Gather> gathers;
  std::set<const ir::Value*> shown;  // gathered matrices, and what may be views of them
  for (ir::Node& node : scope.variant.graph.forward()) {
    const std::vector<ir::Value*> operands = node.operands();
    if (const std::optional<Gather> gather = gather_of(scope, node)) {
      gathers.emplace(node.result(), *gather);
      shown.insert(node.result());
      continue;
    }
    const bool reads =
        std::any_of(operands.begin(), operands.end(), [&](ir::Value* value) { return shown.contains(value); });
    if (!reads || !has_one_result(node)) continue;
    if (operands.size() == 1) {
      shown.insert(node.result());
      continue;
    }
    const std::optional<Product> product = product_of(scope, node);
    if (!product) continue;
    for (const bool is_left : {true, false}) {
      const Place matrices = behind_nodes(scope, is_left ? product->left : product->right, product->facts);
      const Place& x = is_left ? product->right : product->left;
      const auto gather = gathers.find(matrices.value);
      if (gather == gathers.end()) continue;
      bool is_turned = false;
      const std::optional<Loops> loops = loops_of(*product, matrices, x, node.result()->meta(), is_turned);
      if (!loops) continue;
      Result<ir::Value*> made = multiplied(scope, node, *loops, gather->second, x.value, is_turned);
      if (!made || (*made)->type != node.result()->type) continue;  // dead nodes
      scope.report("let %" + node.result()->name + " read " + weight_name(scope, *gather->second.stack) +
                   " where it lies");
      scope.variant.graph.replace_uses(node.result(), *made);
      changed = Changed::yes;
      break;
    }
  }
  return changed;
}

}  // namespace atenon::specialize
