// Products and convolutions of f64, for which oneDNN has no code.
//
// Both are products of rows with a matrix that becomes panels, some terms at a time, which stay in the nearest cache: a
// convolution's rows are its outputs, its columns the pixels, and a term is what one tap reads of one channel. How a
// product is cut follows from its sizes alone.
#include <algorithm>
#include <cassert>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t panel_terms = 128;  // made at once
constexpr int64_t tile_rows = 192;    // at most, of which each meets a panel that is made once for them
constexpr int64_t serial_terms = 64 * 1024;
constexpr int64_t least_rows = 4;      // for which a panel is worth making
constexpr int64_t least_columns = 8;   // that fill a vector
constexpr int64_t least_terms = 4096;  // of all sums: else a few loops are as fast

class DoublesCall : public TiledCall {
 public:
  int64_t m = 0, n = 0, k = 0, places = 1;  // of each product, and how many there are
  size_t a = 0, b = 0, result = 0;          // buffers
  int bias = -1;
  int64_t a_row = 0, a_column = 0, y_row = 0, y_column = 0, bias_row = 0, bias_column = 0;

  int64_t tiles() const override { return places * row_tiles() * divide_up(n, double_columns); }
  int64_t workers() const override { return places * m * n * k < serial_terms ? 1 : TiledCall::workers(); }
  size_t worker_bytes() const override {
    return static_cast<size_t>((rows_a_tile() + std::min(k, panel_terms)) * double_columns) * sizeof(double);
  }

  void run_tile(std::span<void* const> buffers, int64_t i, void* own) const override {
    const int64_t panels = divide_up(n, double_columns), place = i / panels / row_tiles();
    const int64_t column = i % panels * double_columns, row = i / panels % row_tiles() * rows_a_tile();
    DoubleTile tile{};
    tile.rows = std::min(rows_a_tile(), m - row);
    tile.columns = std::min(double_columns, n - column);
    tile.a_row = a_row;
    tile.a_column = a_column;
    tile.sums = static_cast<double*>(own);
    double* panel = tile.sums + rows_a_tile() * double_columns;
    tile.b = panel;
    const double* rows = static_cast<const double*>(buffers[a]) + begin_of(Part::a, place) + row * a_row;
    if (k == 0) std::fill_n(tile.sums, tile.rows * double_columns, 0.0);
    for (int64_t term = 0; term < k; term += panel_terms) {
      tile.k = std::min(panel_terms, k - term);
      make_panel(static_cast<const double*>(buffers[b]) + begin_of(Part::b, place), column, tile.columns, term, tile.k,
                 panel);
      tile.a = rows + term * a_column;
      tile.adds = term > 0;
      lanes().double_panel(tile);
    }
    const double* added = bias < 0 ? nullptr
                                   : static_cast<const double*>(buffers[static_cast<size_t>(bias)]) +
                                         begin_of(Part::bias, place) + row * bias_row;
    auto* y = static_cast<double*>(buffers[result]) + begin_of(Part::result, place) + row * y_row + column * y_column;
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < tile.columns; ++c)
        y[r * y_row + c * y_column] =
            tile.sums[r * double_columns + c] + (added ? added[r * bias_row + (column + c) * bias_column] : 0);
  }

 protected:
  enum class Part { a, b, result, bias };
  // Where a part of a product begins.
  virtual int64_t begin_of(Part part, int64_t place) const = 0;
  // Some terms of some columns of b, rows of double_columns; 0 where there is none.
  virtual void make_panel(const double* b, int64_t column, int64_t columns, int64_t term, int64_t terms,
                          double* panel) const = 0;

 private:
  int64_t row_tiles() const { return divide_up(m, tile_rows); }
  int64_t rows_a_tile() const { return m == 0 ? 0 : divide_up(m, row_tiles()); }
};

class DoubleProductCall : public DoublesCall {
 public:
  Loops loops;

 protected:
  int64_t begin_of(Part part, int64_t place) const override {
    if (part == Part::bias) return 0;
    return loops.begin_of(part == Part::a ? loops.a : part == Part::b ? loops.b : loops.y, place);
  }

  void make_panel(const double* b, int64_t column, int64_t columns, int64_t term, int64_t terms,
                  double* panel) const override {
    const int64_t row_step = loops.b.stride(2), column_step = loops.b.stride(1);
    b += column * column_step + term * row_step;
    std::fill_n(panel, columns < double_columns ? terms * double_columns : 0, 0.0);
    if (column_step == 1)
      for (int64_t i = 0; i < terms; ++i) std::copy_n(b + i * row_step, columns, panel + i * double_columns);
    else
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < terms; ++i) panel[i * double_columns + j] = b[j * column_step + i * row_step];
  }
};

class DoubleConvolutionCall : public DoublesCall {
 public:
  ConvolutionSizes sizes;
  int64_t channels = 0, groups = 1;  // of a group
  struct Tap {
    int64_t place, depth, height, width;  // from where a window begins in a group's first channel
  };
  std::vector<Tap> taps;  // of all terms

  void find_taps() {
    for (int64_t channel = 0; channel < channels; ++channel)
      for (int64_t i = 0; i < sizes.filter[0]; ++i)
        for (int64_t j = 0; j < sizes.filter[1]; ++j)
          for (int64_t l = 0; l < sizes.filter[2]; ++l) {
            const int64_t depth = i * sizes.dilation[0], height = j * sizes.dilation[1], width = l * sizes.dilation[2];
            taps.push_back(
                {channel * sizes.x_strides[1] + depth * sizes.x_strides[2] + height * sizes.x_strides[3] + width, depth,
                 height, width});
          }
  }

 protected:
  int64_t begin_of(Part part, int64_t place) const override {
    const int64_t group = place % groups;
    switch (part) {
      case Part::a:
        return group * m * k;
      case Part::b:
        return place / groups * sizes.x_strides[0] + group * channels * sizes.x_strides[1];
      case Part::result:
        return place / groups * sizes.y_strides[0] + group * m * sizes.y_strides[1];
      default:
        return group * m;
    }
  }

  void make_panel(const double* x, int64_t column, int64_t columns, int64_t term, int64_t terms,
                  double* panel) const override {
    std::fill_n(panel, terms * double_columns, 0.0);
    const int64_t width = sizes.y_sizes[4], step = sizes.stride[2];
    for (int64_t j = 0, next; j < columns; j = next) {  // outputs side by side in a line
      const int64_t line = (column + j) / width, from = (column + j) % width;
      next = std::min(columns, j + width - from);
      const int64_t depth = begin_of_window(0, line / sizes.y_sizes[3]),
                    height = begin_of_window(1, line % sizes.y_sizes[3]), left = begin_of_window(2, from);
      const double* window = x + depth * sizes.x_strides[2] + height * sizes.x_strides[3] + left;
      for (int64_t i = 0; i < terms; ++i) {
        const Tap& tap = taps[static_cast<size_t>(term + i)];
        if (!is_inside(depth + tap.depth, sizes.x_sizes[2]) || !is_inside(height + tap.height, sizes.x_sizes[3]))
          continue;
        const int64_t at = left + tap.width, behind = sizes.x_sizes[4] - at;
        const int64_t first = at >= 0 ? 0 : divide_up(-at, step),
                      last = std::min(next - j, behind <= 0 ? 0 : divide_up(behind, step));
        double* to = panel + i * double_columns + j;
        if (step == 1)
          std::copy(window + tap.place + first, window + tap.place + std::max(first, last), to + first);
        else
          for (int64_t c = first; c < last; ++c) to[c] = window[tap.place + c * step];
      }
    }
  }

 private:
  static bool is_inside(int64_t place, int64_t size) { return place >= 0 && place < size; }
  int64_t begin_of_window(size_t axis, int64_t output) const {
    return output * sizes.stride[axis] - sizes.padding[axis];
  }
};

// What is known of a call as soon as its sizes are.
std::unique_ptr<PreparedCall> described(std::unique_ptr<DoublesCall> call, const CallSite& site) {
  call->result = site.operands.size();
  call->flops =
      2.0 * static_cast<double>(call->places) * static_cast<double>(call->m * call->n) * static_cast<double>(call->k);
  for (const Operand& operand : site.operands) call->bytes += 8 * count(operand.sizes);
  call->bytes += 8 * count(site.results[0].sizes);
  call->detail = lanes().name;
  return call;
}

class DoubleProducts : public Kernel {
 public:
  const char* name() const override { return "double_products"; }

  std::string refusal(const ir::Graph& body) const override {
    Product product;
    if (std::string refusal = read_product(body, {}, product, ScalarType::f64); !refusal.empty()) return refusal;
    if (product.is_convolution()) return "a convolution";
    return product.epilogue.empty() ? thin_refusal(body, product) : "it has no code for what follows";
  }

  std::string drawback(const ir::Graph& body) const override {
    Product product;
    read_product(body, {}, product, ScalarType::f64);
    const ir::TensorMeta &a = body.inputs()[static_cast<size_t>(product.a.input)]->meta(),
                         &b = body.inputs()[static_cast<size_t>(product.b.input)]->meta();
    const auto from_end = [](const ir::TensorMeta& meta, const View& view, size_t place) {
      return meta.sizes[static_cast<size_t>(view.axes[view.axes.size() - place])];
    };
    const bool has_batch = product.b.axes.size() > 2;
    const auto rows = (has_batch ? from_end(a, product.a, 2) : shape::floor_div(a.numel(), from_end(a, product.a, 1)))
                          .constant(),
               columns = from_end(b, product.b, 1).constant();
    if (rows && *rows < least_rows) return "a panel would serve too few rows";
    if (columns && *columns < least_columns) return "its columns fill no vector";
    const auto terms = constant_products(body, product);
    return has_batch && terms && *terms < least_terms ? "a batch of small products" : "";
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    Product product;
    [[maybe_unused]] const std::string refusal = read_product(*site.body, site.symbols, product, ScalarType::f64);
    assert(refusal.empty());
    auto call = std::make_unique<DoubleProductCall>();
    call->loops = make_loops(product, site);
    const Loops& loops = call->loops;
    call->places = loops.places();
    call->m = loops.m();
    call->n = loops.n();
    call->k = loops.k();
    call->a = static_cast<size_t>(product.a.input);
    call->b = static_cast<size_t>(product.b.input);
    call->bias = product.bias;
    call->a_row = loops.a.stride(2);
    call->a_column = loops.a.stride(1);
    call->y_row = loops.y.stride(2);
    call->y_column = loops.y.stride(1);
    if (product.bias >= 0) call->bias_column = site.operands[static_cast<size_t>(product.bias)].strides[0];
    return described(std::move(call), site);
  }
};

class DoubleConvolutions : public Kernel {
 public:
  const char* name() const override { return "double_convolutions"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution, ScalarType::f64); !refusal.empty())
      return refusal;
    if (convolution.transposed) return "it has no code for transposed convolutions";
    return convolution.epilogue.empty() ? "" : "it has no code for what follows";
  }

  std::string drawback(const ir::Graph& body) const override {
    Convolution convolution;
    read_convolution(body, {}, convolution, ScalarType::f64);
    const ir::TensorMeta &filter = body.inputs()[static_cast<size_t>(convolution.weight)]->meta(),
                         &y = body.outputs()[0].value()->meta();
    const auto pixels = shape::floor_div(y.numel(), y.sizes[0] * y.sizes[1]).constant();
    if (*filter.sizes[0].constant() / convolution.groups < least_rows) return "a panel would serve too few outputs";
    return pixels && *pixels < least_columns ? "its pixels fill no vector" : "";
  }

  bool needs_rows() const override { return true; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<DoubleConvolutionCall>();
    ConvolutionSizes& sizes = call->sizes;
    sizes.read(site, 3, ScalarType::f64);
    call->groups = sizes.convolution.groups;
    call->channels = sizes.x_sizes[1] / call->groups;
    call->m = sizes.y_sizes[1] / call->groups;
    call->n = sizes.y_sizes[2] * sizes.y_sizes[3] * sizes.y_sizes[4];
    call->k = call->channels * sizes.filter[0] * sizes.filter[1] * sizes.filter[2];
    call->places = sizes.y_sizes[0] * call->groups;
    call->find_taps();
    call->a = static_cast<size_t>(sizes.convolution.weight);
    call->b = static_cast<size_t>(sizes.convolution.x);
    call->bias = sizes.convolution.bias;
    call->a_row = call->k;
    call->a_column = 1;
    call->y_row = call->n;
    call->y_column = 1;
    call->bias_row = 1;
    return described(std::move(call), site);
  }
};

}  // namespace

const Kernel& double_products() {
  static const DoubleProducts kernel;
  return kernel;
}

const Kernel& double_convolutions() {
  static const DoubleConvolutions kernel;
  return kernel;
}

}  // namespace atenon::kernels
