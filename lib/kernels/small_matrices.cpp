// Products of small matrices, one at each place of a batch: oneDNN takes longer to start on each than the product
// takes. Its code for AVX-512 goes from one to the next sooner, and is left to do large batches.
//
// The matrix on the right becomes panels of 64 columns in the nearest cache, and so does one on the left that lies
// column by column; the loops are those of panels.cpp.
#include <algorithm>
#include <string_view>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

// Of one of them: from here on oneDNN is as fast.
constexpr int64_t most_products = 32 * 32 * 32;
constexpr int64_t most_places = 4;  // with AVX-512: for more, oneDNN 3 is as fast or faster
constexpr int64_t tile_products = 64 * 1024;
constexpr int64_t serial_products = 128 * 1024;  // less than this is done before a second thread has woken up

class SmallMatricesCall : public TiledCall {
 public:
  Product product;
  Loops loops;
  size_t result = 0;  // buffer
  int64_t count = 1;  // of the batch

  bool is_turned() const { return !loops.a.in_rows(); }  // a becomes a panel
  int64_t products() const { return loops.m() * loops.n() * loops.k(); }
  int64_t tiles() const override {
    return std::clamp<int64_t>(count * products() / tile_products, 1, std::max<int64_t>(1, count));
  }
  int64_t workers() const override { return count * products() < serial_products ? 1 : TiledCall::workers(); }
  size_t worker_bytes() const override {
    return static_cast<size_t>(loops.m() * (is_turned() ? 2 : 1) + loops.k()) * panel_columns * sizeof(float);
  }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* own) const override {
    for (int64_t i = count * tile / tiles(); i < count * (tile + 1) / tiles(); ++i)
      multiply(buffers, i, static_cast<float*>(own));
  }

 private:
  void multiply(std::span<void* const> buffers, int64_t place, float* own) const {
    const auto operand = [&](const View& view, const Matrix& matrix) {
      return static_cast<const float*>(buffers[static_cast<size_t>(view.input)]) + loops.begin_of(matrix, place);
    };
    const float *a = operand(product.a, loops.a), *b = operand(product.b, loops.b);
    float* y = static_cast<float*>(buffers[result]) + loops.begin_of(loops.y, place);
    float *panel = own + loops.m() * panel_columns, *turned = panel + loops.k() * panel_columns;
    if (is_turned()) turn(a, loops.a.stride(1), loops.k(), loops.m(), turned);
    for (int64_t column = 0; column < loops.n(); column += panel_columns) {
      Step steps[most_steps];
      write_steps(product, loops, buffers, 0, column, steps);
      for (size_t s = 0; s < product.epilogue.size(); ++s)
        if (product.epilogue[s].is_binary()) steps[s].operand += loops.begin_of(loops.epilogue[s], place);
      PanelTile tile{};
      tile.rows = loops.m();
      tile.k = loops.k();
      tile.columns = std::min(panel_columns, loops.n() - column);
      make_panel(b + column * loops.b.stride(1), tile.columns, panel);
      tile.a = is_turned() ? turned : a;
      tile.a_row = is_turned() ? panel_columns : loops.a.stride(2);
      tile.b = panel;
      tile.is_made = true;
      tile.bias = product.bias < 0 ? nullptr : static_cast<const float*>(buffers[product.bias]) + column;
      tile.steps = steps;
      tile.step_count = static_cast<int64_t>(product.epilogue.size());
      tile.y = y + column;
      tile.y_row = loops.y.stride(2);
      tile.scratch = own;
      lanes().panel(tile);
    }
  }

  // to[j * panel_columns + i] = from[i * from_row + j] for i < rows and j < columns.
  static void turn(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to) {
    if (rows >= widest_vector) return lanes().turn(from, from_row, rows, columns, to, panel_columns);
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) to[j * panel_columns + i] = from[i * from_row + j];
  }

  // Whole vectors of it are read.
  void make_panel(const float* b, int64_t columns, float* panel) const {
    if (!loops.b.in_rows()) turn(b, loops.b.stride(1), columns, loops.k(), panel);
    const int64_t padded = divide_up(columns, widest_vector) * widest_vector;
    for (int64_t i = 0; i < loops.k(); ++i, b += loops.b.stride(2), panel += panel_columns) {
      if (loops.b.in_rows()) std::copy_n(b, columns, panel);
      std::fill(panel + columns, panel + padded, 0.0f);
    }
  }
};

// Whether each matrix is small and lies as it is read, and oneDNN is slower.
bool takes(const Product& product, const Loops& loops, const CallSite& site) {
  const ir::Weight* weight = site.operands[static_cast<size_t>(product.b.input)].weight;
  if (!loops.fits || loops.k() == 0 || (weight && weight->layout) ||
      loops.m() * loops.n() * loops.k() > most_products ||
      (std::string_view(lanes().name) == "avx512" && loops.places() > most_places))
    return false;
  if (product.bias >= 0 && site.operands[static_cast<size_t>(product.bias)].strides[0] != 1) return false;
  return (loops.a.in_rows() || (loops.a.in_columns() && loops.k() <= panel_columns)) &&
         (loops.b.in_rows() || loops.b.in_columns()) && loops.y.in_rows();
}

class SmallMatrices : public Kernel {
 public:
  const char* name() const override { return "small_matrices"; }

  std::string refusal(const ir::Graph& body) const override {
    Product product;
    if (std::string refusal = read_product(body, {}, product); !refusal.empty()) return refusal;
    if (product.is_convolution() || product.b.axes.size() == 2) return "the matrix has no batch axes";
    if (std::string refusal = thin_refusal(body, product); !refusal.empty()) return refusal;
    return lanes_refusal(product.epilogue);
  }

  std::string drawback(const ir::Graph& body) const override {
    Product product;
    read_product(body, {}, product);
    return constant_products(body, product).value_or(most_products + 1) > most_products
               ? "oneDNN is as fast for matrices of this size"
               : "";
  }

  bool may_overwrite(const ir::Graph& body, size_t operand) const override {
    return may_overwrite_addend(body, operand);
  }

  bool writes_along(size_t axis, size_t rank) const override { return axis + 1 == rank; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    if (std::unique_ptr<PreparedCall> call = prepare_small_matrices(site)) return call;
    Product product;
    read_product(*site.body, site.symbols, product);
    return other_kernel(product).prepare(site);
  }
};

}  // namespace

std::unique_ptr<PreparedCall> prepare_small_matrices(const CallSite& site) {
  auto call = std::make_unique<SmallMatricesCall>();
  if (!read_product(*site.body, site.symbols, call->product).empty()) return nullptr;
  call->loops = make_loops(call->product, site);
  const Loops& loops = call->loops;
  if (!lanes_refusal(call->product.epilogue).empty() || !takes(call->product, loops, site)) return nullptr;
  call->count = loops.places();
  call->result = site.operands.size();
  call->flops = 2.0 * static_cast<double>(call->count * call->products());
  call->bytes = 4.0 * static_cast<double>(call->count) *
                static_cast<double>(loops.m() * loops.k() + loops.k() * loops.n() + loops.m() * loops.n());
  call->detail = lanes().name;
  return call;
}

const Kernel& small_matrices() {
  static const SmallMatrices kernel;
  return kernel;
}

}  // namespace atenon::kernels
