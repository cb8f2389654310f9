// See product.h.
#include "kernels/product.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <utility>

#include "kernels/convolution.h"
#include "kernels/list.h"

namespace atenon::kernels {

namespace {

constexpr int64_t tiny_product = 64;  // of a batch, and of rows along three axes: mostly scores of heads, lying turned
constexpr int64_t tiny_row = 4;       // generated code has a sum of so many terms without a loop
constexpr int64_t short_row = 48;     // is no sum over lines of memory: its dots take longer than half empty panels
constexpr int64_t many_rows = 64;
constexpr int64_t smallest_half_matrix = 64 * 1024;  // smaller ones stay in the caches, and are read as they are

bool is_product(const std::string& name) {
  return name == "aten::linear" || name == "aten::matmul" || name == "aten::mm" || name == "aten::bmm" ||
         name == "aten::addmm";
}

Matrix matrix_of(const Operand& operand, const View& view) {
  const bool blocked = operand.weight && operand.weight->layout;
  const std::vector<int64_t> strides = blocked ? contiguous_strides(operand.sizes) : operand.strides;
  Matrix matrix;
  for (int axis : view.axes) {
    matrix.sizes.push_back(operand.sizes[axis]);
    matrix.strides.push_back(strides[axis]);
  }
  return matrix;
}

// The axes of a result, or of what is broadcast to it, in this order; empty: as they are.
Matrix in_order(const Operand& operand, const std::vector<int>& order) {
  if (order.empty()) return {operand.sizes, operand.strides};
  Matrix matrix;
  const int missing = static_cast<int>(order.size()) - static_cast<int>(operand.sizes.size());
  for (int axis : order) {
    matrix.sizes.push_back(axis < missing ? 1 : operand.sizes[axis - missing]);
    matrix.strides.push_back(axis < missing ? 0 : operand.strides[axis - missing]);
  }
  return matrix;
}

void add_leading_axes(Matrix& matrix, size_t rank) {
  while (matrix.sizes.size() < rank) {
    matrix.sizes.insert(matrix.sizes.begin(), 1);
    matrix.strides.insert(matrix.strides.begin(), 0);
  }
}

// The same with its axes but the last in another order.
Matrix with_leading_axes(const Matrix& matrix, const std::vector<size_t>& order) {
  Matrix sorted = matrix;
  for (size_t i = 0; i < order.size(); ++i) {
    sorted.sizes[i] = matrix.sizes[order[i]];
    sorted.strides[i] = matrix.strides[order[i]];
  }
  return sorted;
}

// Whether axes i and i + 1 of one operand are one axis, given that the result is larger than 1 in both.
bool merges(const Matrix& matrix, size_t i) {
  const bool outer = matrix.sizes[i] > 1, inner = matrix.sizes[i + 1] > 1;
  return outer == inner && (!outer || matrix.strides[i] == matrix.sizes[i + 1] * matrix.strides[i + 1]);
}

void merge(Matrix& matrix, size_t i, bool drop_outer, bool drop_inner) {
  if (!drop_outer) {
    if (drop_inner) matrix.strides[i + 1] = matrix.strides[i];
    matrix.sizes[i + 1] *= matrix.sizes[i];
  }
  matrix.sizes.erase(matrix.sizes.begin() + i);
  matrix.strides.erase(matrix.strides.begin() + i);
}

std::string read_pointwise(const ir::Graph& body, const shape::Bindings& symbols, Product& found, ScalarType dtype) {
  Convolution convolution;
  if (std::string refusal = read_convolution(body, symbols, convolution, dtype); !refusal.empty()) return refusal;
  const std::vector<ir::SymInt>& filter = body.inputs()[convolution.weight]->meta().sizes;
  found.groups = std::exchange(convolution.groups, 1);
  if (!is_pointwise(convolution, filter)) return "the convolution is not pointwise";
  found.order = channels_last_order(filter.size());
  found.a = {convolution.x, found.order};
  found.b = {convolution.weight, {1, 0}};
  found.bias = convolution.bias;
  found.epilogue = convolution.epilogue;
  return "";
}

}  // namespace

std::string read_product(const ir::Graph& body, const shape::Bindings& symbols, Product& found, ScalarType dtype) {
  const ir::Node* anchor = nullptr;
  for (const ir::Node& node : body.forward()) {
    if (is_view_node(node)) continue;
    if (is_convolution(node)) return read_pointwise(body, symbols, found, dtype);
    if (!is_product(name_without_overload(node.target()))) return node.target() + " stands before a product";
    anchor = &node;
    break;
  }
  if (!anchor) return "no product in it";
  const std::string name = name_without_overload(anchor->target());
  Arguments arguments(*anchor, symbols);
  const bool addmm = name == "aten::addmm";
  const ir::Value* a = arguments.tensor(addmm ? 1 : 0, addmm ? "mat1" : "self");
  const ir::Value* b = arguments.tensor(addmm ? 2 : 1, addmm ? "mat2" : "other");
  const ir::Value* added = addmm                    ? arguments.tensor(0, "self")
                           : name == "aten::linear" ? arguments.tensor(2, "bias")
                                                    : nullptr;
  if (!a || !b) return "an operand is missing";
  for (const ir::Value* operand : {a, b, added})
    if (operand && operand->meta().dtype != dtype) return "not of " + std::string(name_of(dtype));
  if (addmm && (arguments.number(3, "beta", 1) != 1.0 || arguments.number(4, "alpha", 1) != 1.0))
    return "alpha or beta is not 1";
  found.a = view_of(a);
  found.b = view_of(b);
  if (found.a.input < 0 || found.b.input < 0) return "an operand is computed in the body";
  if (found.a.axes.size() < 2 || found.b.axes.size() < 2) return "a product with a vector";
  const std::vector<ir::SymInt>& matrix = body.inputs()[found.b.input]->meta().sizes;
  while (found.b.axes.size() > 2 && matrix[found.b.axes[0]] == ir::SymInt(1)) found.b.axes.erase(found.b.axes.begin());
  if (a->meta().sizes.back() == ir::SymInt(0)) return "it sums nothing";
  if (name == "aten::linear") std::swap(found.b.axes[0], found.b.axes[1]);
  if (added) {
    if (added->producer) return "the bias is computed in the body";
    if (added->meta().rank() == 1 && added->meta().sizes[0] == anchor->result()->meta().sizes.back())
      found.bias = added->index;
    else
      found.epilogue.push_back({PostOp::Kind::add, 0, 0, added->index});
  }
  const size_t rank = anchor->result()->meta().rank();
  return read_epilogue(body, anchor->result(), rank - 1, found.b.axes.size() == 2, symbols, found.epilogue);
}

namespace {

ir::SymInt size_of_operand(const ir::Graph& body, const View& view, size_t from_end) {
  return body.inputs()[static_cast<size_t>(view.input)]->meta().sizes[view.axes[view.axes.size() - from_end]];
}

}  // namespace

std::optional<int64_t> constant_products(const ir::Graph& body, const Product& product) {
  return (size_of_operand(body, product.a, 2) * size_of_operand(body, product.b, 1) *
          size_of_operand(body, product.a, 1))
      .constant();
}

std::string thin_refusal(const ir::Graph& body, const Product& product) {
  if (product.is_convolution()) return "";
  const ir::SymInt m = size_of_operand(body, product.a, 2), n = size_of_operand(body, product.b, 1);
  const bool has_batch = product.b.axes.size() > 2;
  if (n == ir::SymInt(1) || (has_batch && m == ir::SymInt(1))) return "a product with a vector";
  const std::optional<int64_t> products = constant_products(body, product);
  return has_batch && products && *products <= tiny_product ? "a batch of products of a few numbers" : "";
}

std::string thin_drawback(const ir::Graph& body, const Product& product) {
  if (product.is_convolution()) return "";
  // With batch axes, these composites become a batch of products, each with a copy of the matrix.
  const ir::TensorMeta& matrix = body.inputs()[static_cast<size_t>(product.b.input)]->meta();
  if (matrix.sizes.size() > 2 || (is_half(matrix.dtype) && product.a.axes.size() > 2)) return "";
  ir::SymInt all_rows = 1;
  for (size_t axis = 2; axis <= product.a.axes.size(); ++axis)
    all_rows = all_rows * size_of_operand(body, product.a, axis);
  const std::optional<int64_t> rows = all_rows.constant(), k = size_of_operand(body, product.a, 1).constant(),
                               n = size_of_operand(body, product.b, 1).constant();
  const bool has_heads = product.a.axes.size() > 3;
  const bool is_tiny = n && k && *n <= most_row_outputs && (*k <= tiny_row || (has_heads && *n * *k <= tiny_product));
  return is_tiny && rows.value_or(many_rows) >= many_rows ? "a matrix of a few numbers, for many rows" : "";
}

bool may_overwrite_addend(const ir::Graph& body, size_t operand) {
  Product product;
  if (!read_product(body, {}, product).empty()) return false;
  const int index = static_cast<int>(operand);
  if (index == product.a.input || index == product.b.input || index == product.bias) return false;
  int reads = 0;
  for (const PostOp& step : product.epilogue)
    if (step.operand == index) reads += step.kind == PostOp::Kind::add ? 1 : 2;
  return reads == 1 && body.inputs()[operand]->meta().sizes == body.outputs()[0].value()->meta().sizes;
}

bool RowsKernel::may_overwrite(const ir::Graph& body, size_t operand) const {
  return may_overwrite_addend(body, operand);
}

std::vector<int> RowsKernel::preferred_order(const ir::Graph& body) const {
  Product product;
  [[maybe_unused]] const std::string refusal = read_product(body, {}, product);
  assert(refusal.empty());
  return product.order;
}

bool RowsKernel::reads_rows(const ir::Graph& body, size_t operand) const {
  Product product;
  return read_product(body, {}, product).empty() && product.a.input == static_cast<int>(operand) &&
         product.a.axes.back() + 1 == static_cast<int>(product.a.axes.size());
}

bool RowsKernel::joins_rows(const ir::Graph& body, size_t operand) const {
  return reads_rows(body, operand) && preferred_order(body).empty();
}

std::optional<ir::BlockedLayout> RowsKernel::half_layout(const CallSite& site, size_t operand) const {
  Product product;
  const Operand& matrix = site.operands[operand];
  if (!read_product(*site.body, site.symbols, product).empty() || static_cast<int>(operand) != product.b.input ||
      product.is_convolution() || count(matrix.sizes) < smallest_half_matrix)
    return std::nullopt;
  return panel_layout(matrix.sizes, product.b.axes, ScalarType::bf16);
}

namespace {

// Whether the bias is dense, and the epilogue's operands can be read.
bool has_plain_addends(const Product& product, const Loops& loops, const CallSite& site) {
  return loops.fits && (product.bias < 0 || site.operands[product.bias].strides[0] == 1 || loops.n() == 1);
}

}  // namespace

bool lies_in_rows(const Product& product, const Loops& loops, const CallSite& site) {
  return loops.rank() == 2 && has_plain_addends(product, loops, site) && loops.a.in_rows() &&
         (loops.y.stride(1) == 1 || loops.n() == 1);
}

bool has_few_outputs(const Product& product, const CallSite& site) {
  const Operand& matrix = site.operands[product.b.input];
  return product.groups == 1 && product.b.axes.size() == 2 && product.b.axes[0] > product.b.axes[1] &&
         matrix.sizes[product.b.axes[1]] <= most_row_outputs &&
         (product.is_convolution() || matrix.sizes[product.b.axes[0]] >= short_row);
}

bool lies_in_lines(const Product& product, const Loops& loops, const CallSite& site) {
  return loops.rank() <= 3 && has_plain_addends(product, loops, site) && (loops.a.in_rows() || loops.a.in_columns()) &&
         (loops.b.stride(2) == 1 || loops.k() == 1) && loops.y.stride(2) == 1;
}

const Kernel& other_kernel(const Product& product) {
  return product.is_convolution() ? onednn_convolution() : onednn_matmul();
}

int64_t Loops::places() const {
  return std::accumulate(y.sizes.begin(), y.sizes.end() - 2, int64_t{1}, std::multiplies());
}

int64_t Loops::begin_of(const Matrix& matrix, int64_t place) const {
  int64_t begin = 0;
  for (size_t axis = rank() - 2; axis-- > 0; place /= y.sizes[axis])
    if (matrix.sizes[axis] > 1) begin += place % y.sizes[axis] * matrix.strides[axis];
  return begin;
}

Loops make_loops(const Product& product, const CallSite& site) {
  Loops loops;
  loops.a = matrix_of(site.operands[product.a.input], product.a);
  loops.a.sizes.back() /= product.groups;
  loops.b = matrix_of(site.operands[product.b.input], product.b);
  loops.y = in_order(site.results[0], product.order);
  for (const PostOp& step : product.epilogue) {
    Matrix matrix;
    if (step.is_binary()) {
      const Operand& operand = site.operands[step.operand];
      if (operand.sizes.size() > loops.rank()) loops.fits = false;
      matrix = in_order(operand, loops.fits ? product.order : std::vector<int>());
      add_leading_axes(matrix, loops.rank());
    }
    loops.epilogue.push_back(std::move(matrix));
  }
  add_leading_axes(loops.a, loops.rank());
  add_leading_axes(loops.b, loops.rank());
  if (!loops.fits) return loops;

  std::vector<Matrix*> all{&loops.a, &loops.b, &loops.y};
  for (Matrix& matrix : loops.epilogue)
    if (!matrix.sizes.empty()) all.push_back(&matrix);
  // Rows of one matrix may be taken in any order: as they lie.
  if (product.b.axes.size() == 2) {
    std::vector<size_t> order(loops.rank() - 1);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [strides = loops.a.strides](size_t i, size_t j) { return strides[i] > strides[j]; });
    for (Matrix* matrix : all)
      if (matrix != &loops.b) *matrix = with_leading_axes(*matrix, order);
  }
  // From the innermost pair of batch axes outwards; the last pair is (batch, m), where b must not depend on the batch
  // axis.
  for (size_t i = loops.rank() - 2; i-- > 0;) {
    const bool with_rows = i + 3 == loops.rank();
    const bool drop_outer = loops.y.sizes[i] == 1, drop_inner = loops.y.sizes[i + 1] == 1;
    bool possible = !(with_rows && !drop_outer && loops.b.sizes[i] > 1);
    if (!drop_outer && !drop_inner)
      for (Matrix* matrix : all)
        if (!(with_rows && matrix == &loops.b) && !merges(*matrix, i)) possible = false;
    if (!possible) continue;
    for (Matrix* matrix : all) {
      if (with_rows && matrix == &loops.b) {  // its axis i + 1 is k
        matrix->sizes.erase(matrix->sizes.begin() + i);
        matrix->strides.erase(matrix->strides.begin() + i);
      } else {
        merge(*matrix, i, drop_outer, drop_inner);
      }
    }
  }
  return loops;
}

void write_steps(const Product& product, const Loops& loops, std::span<void* const> buffers, int64_t row,
                 int64_t column, Step* steps) {
  for (size_t s = 0; s < product.epilogue.size(); ++s) {
    const Matrix& operand = loops.epilogue[s];
    const bool is_binary = product.epilogue[s].is_binary();
    const int64_t row_step = is_binary && operand.size(2) > 1 ? operand.stride(2) : 0;
    const int64_t column_step = is_binary && operand.size(1) > 1 ? operand.stride(1) : 0;
    steps[s] = make_step(product.epilogue[s], buffers, row * row_step + column * column_step, row_step, column_step);
  }
}

}  // namespace atenon::kernels
