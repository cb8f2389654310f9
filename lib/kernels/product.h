// Matrix products as loops see them: linear, matmul, mm, bmm, addmm and pointwise convolutions brought to one form.
//
// y[batch..., m, n] = epilogue(sum over k of a[batch..., m, k] * b[batch..., k, n] + bias[n]). Views inside the body
// become strides. Batch axes that lie evenly in every operand are merged, with each other and, where b does not depend
// on them, with m: a linear layer on [batch, sequence, width] is one product of two matrices, and so is a pointwise
// convolution on an image that lies channels last.
#pragma once

#include <optional>

#include "kernels/body.h"
#include "kernels/kernel.h"

namespace atenon::kernels {

// What the body says, before sizes are known.
struct Product {
  View a, b;      // b is a matrix where its batch axes are of size 1: they are left out
  int bias = -1;  // input of the body with n elements; -1: none
  std::vector<PostOp> epilogue;
  // The axes of the result, and of what the epilogue reads, from batch to n; empty: as they are numbered.
  std::vector<int> order;

  // Of a pointwise convolution: columns of the matrix that each read a part of the rows, side by side.
  int64_t groups = 1;

  bool is_convolution() const { return !order.empty(); }
};

// "" and `found`, or why the body is no product of this type.
std::string read_product(const ir::Graph& body, const shape::Bindings& symbols, Product& found,
                         ScalarType dtype = ScalarType::f32);

// m * n * k of one product, if these sizes are known.
std::optional<int64_t> constant_products(const ir::Graph& body, const Product& product);

// Why plain loops are faster, or "": products with vectors, and of matrices of a few numbers each in a batch. Reading
// them is what takes time, and a library starts anew for each.
std::string thin_refusal(const ir::Graph& body, const Product& product);
// Why plain loops are expected to be faster, or "": rows times a matrix of a few numbers, 3 to 10 times (AVX2,
// AVX-512). They read rows as they lie, along however many axes, and write them so.
std::string thin_drawback(const ir::Graph& body, const Product& product);

// Whether the result of a product may take over the buffer of this operand: it is added once, elsewhere unread, and as
// large.
bool may_overwrite_addend(const ir::Graph& body, size_t operand);

// What kernels of our own for products with one matrix wish: a in rows, which may have many axes but for a
// convolution's, whose result has channels last; a large matrix in 16 bits in panels.
class RowsKernel : public Kernel {
 public:
  bool may_overwrite(const ir::Graph& body, size_t operand) const override;
  std::vector<int> preferred_order(const ir::Graph& body) const override;
  bool reads_rows(const ir::Graph& body, size_t operand) const override;
  bool joins_rows(const ir::Graph& body, size_t operand) const override;
  bool keeps_order(const ir::Graph& body) const override { return joins_rows(body, 0); }
  bool writes_along(size_t axis, size_t rank) const override { return axis + 1 == rank; }
  std::optional<ir::BlockedLayout> half_layout(const CallSite& site, size_t operand) const override;
};

// So few rows are multiplied by a matrix that lies column by column as it lies: making panels of it takes longer.
constexpr int64_t most_dots_rows = 16;

// Sizes and strides of an operand over [batch..., rows, columns]; size 1 where it is broadcast.
struct Matrix {
  std::vector<int64_t> sizes, strides;
  int64_t size(int from_end) const { return sizes[sizes.size() - from_end]; }
  int64_t stride(int from_end) const { return strides[strides.size() - from_end]; }
  bool in_rows() const { return stride(1) == 1 || size(1) == 1; }
  bool in_columns() const { return stride(2) == 1 || size(2) == 1; }
};

struct Loops {
  Matrix a, b, y;
  std::vector<Matrix> epilogue;  // one a step; empty sizes for steps without an operand
  bool fits = true;              // false: an operand of the epilogue cannot be broadcast to the result
  int64_t m() const { return y.size(2); }
  int64_t n() const { return y.size(1); }
  int64_t k() const { return a.size(1); }
  size_t rank() const { return y.sizes.size(); }
  int64_t places() const;  // of the batch, each of a product
  // Where the matrix of a place begins, in elements.
  int64_t begin_of(const Matrix& matrix, int64_t place) const;
};

Loops make_loops(const Product& product, const CallSite& site);

// Whether it is one product of two matrices, and rows of a and y, and the bias, are dense.
bool lies_in_rows(const Product& product, const Loops& loops, const CallSite& site);

// So many outputs leave most of a panel's vectors empty: of deep products, and of convolutions, each is a sum over two
// lines of memory, for any number of rows. The matrix lies output by output then.
constexpr int64_t most_row_outputs = 8;
bool has_few_outputs(const Product& product, const CallSite& site);
// Whether each output is a line of the result: an image's channel; in as many images as there are. Inputs lie pixel by
// pixel, or in lines, too.
bool lies_in_lines(const Product& product, const Loops& loops, const CallSite& site);

// The kernel behind those of our own, where operands lie as these do not read them: oneDNN's.
const Kernel& other_kernel(const Product& product);

// The steps of the epilogue from (row, column) of the result on; `steps` has room for most_steps.
void write_steps(const Product& product, const Loops& loops, std::span<void* const> buffers, int64_t row,
                 int64_t column, Step* steps);

// A matrix in panels (lanes.h): axes[0] is k, axes[1] counts the columns.
ir::BlockedLayout panel_layout(const std::vector<int64_t>& sizes, const std::vector<int>& axes,
                               ScalarType dtype = ScalarType::f32);

// The call of a pointwise convolution by panels where its images turn out to be of a size at which oneDNN is slower,
// and its filter lies in panels, as oneDNN mostly wants it, too; else null.
std::unique_ptr<PreparedCall> prepare_pointwise(const CallSite& site);

// The call of a batch of products by the loops of kernel `small_matrices`; null where they do not fit, or oneDNN is
// faster.
std::unique_ptr<PreparedCall> prepare_small_matrices(const CallSite& site);

}  // namespace atenon::kernels
