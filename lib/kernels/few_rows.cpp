// Products of one row, such as linear layers at batch 1, with a matrix that lies row by row; of some more where the
// matrix is computed, or others read its rows; and of any number with few outputs. One in panels is left to these.
//
// Time goes into reading the matrix, or else the rows, once; starting a library would cost more than the product. For
// small products the whole kernel is one tile, run by the caller's thread.
#include <utility>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t far_matrix = 8 * 1024 * 1024;  // floats: stays in no cache
constexpr int64_t long_row = 128;
constexpr int64_t tile_elements = 32 * 1024;  // of the matrix or the rows: reading more is worth a second thread

class FewRowsCall : public PreparedCall {
 public:
  Product product;
  Loops loops;
  size_t result = 0;                        // buffer
  int64_t tile_columns = 0, tile_rows = 0;  // all, of the one or the other

  Result<void> run(std::span<void* const> buffers, void*) override {
    const int64_t column_tiles = divide_up(loops.n(), tile_columns), tiles = column_tiles * row_tiles();
    if (tiles <= 1)
      tile(buffers, 0, 0);
    else
      parallel_for(tiles, [&](int64_t i) { tile(buffers, i % row_tiles(), i / row_tiles()); });
    return {};
  }

 private:
  // Of many, as many as a core reads ahead of: long ones one by one, so that memory is read in order.
  int64_t rows_at_once() const {
    if (loops.m() <= most_dots_rows) return most_dots_rows;
    return loops.k() < long_row ? 4 : 1;
  }
  int64_t row_tiles() const { return divide_up(loops.m(), tile_rows); }

  void tile(std::span<void* const> buffers, int64_t of_rows, int64_t of_columns) const {
    const int64_t end = std::min(loops.m(), (of_rows + 1) * tile_rows);
    for (int64_t row = of_rows * tile_rows; row < end; row += most_dots_rows)
      multiply(buffers, row, std::min(most_dots_rows, end - row), of_columns * tile_columns);
  }

  // A tile's columns of some rows.
  void multiply(std::span<void* const> buffers, int64_t row, int64_t rows, int64_t first) const {
    const int64_t last = std::min(loops.n(), first + tile_columns);
    const auto* x = static_cast<const float*>(buffers[product.a.input]) + row * loops.a.stride(2);
    const auto* w = static_cast<const float*>(buffers[product.b.input]);
    const auto* bias = product.bias < 0 ? nullptr : static_cast<const float*>(buffers[product.bias]);
    const bool is_far = loops.n() * loops.k() >= far_matrix;
    alignas(64) float sums[most_dots_rows * panel_columns];
    Step steps[most_steps];
    PanelTile out{};
    out.rows = rows;
    out.steps = steps;
    out.step_count = static_cast<int64_t>(product.epilogue.size());
    out.y_row = loops.y.stride(2);
    out.scratch = sums;
    for (int64_t j = first; j < last; j += panel_columns) {
      out.columns = std::min(panel_columns, last - j);
      for (int64_t i = 0; i < rows; i += rows_at_once())
        lanes().dots(x + i * loops.a.stride(2), loops.a.stride(2), std::min(rows_at_once(), rows - i),
                     w + j * loops.b.stride(1), loops.b.stride(1), out.columns, loops.k(), sums + i * panel_columns,
                     panel_columns, is_far);
      out.bias = bias ? bias + j : nullptr;
      write_steps(product, loops, buffers, row, j, steps);
      out.y = static_cast<float*>(buffers[result]) + row * out.y_row + j;
      lanes().finish(out);
    }
  }
};

// The same of few outputs where each is a line of the result: a pointwise convolution, channel by channel. Its sums are
// those of as few rows, the filter's, with pixels for a matrix, which lie one by one or in lines, too.
class FewLinesCall : public TiledCall {
 public:
  Product product;
  Loops loops;        // [images, pixels, outputs], or without images
  size_t result = 0;  // buffer

  int64_t tiles() const override { return loops.places() * tiles_of_image(); }
  size_t worker_bytes() const override { return 0; }

  void run_tile(std::span<void* const> buffers, int64_t i, void*) const override {
    const int64_t image = i / tiles_of_image(), first = i % tiles_of_image() * pixels_a_tile();
    for (int64_t pixel = first; pixel < std::min(loops.m(), first + pixels_a_tile()); pixel += panel_columns)
      multiply(buffers, image, pixel, std::min(panel_columns, loops.m() - pixel));
  }

 private:
  int64_t pixels_a_tile() const {
    return divide_up(tile_elements, std::max<int64_t>(1, loops.k()) * panel_columns) * panel_columns;
  }
  int64_t tiles_of_image() const { return divide_up(loops.m(), pixels_a_tile()); }

  void multiply(std::span<void* const> buffers, int64_t image, int64_t pixel, int64_t pixels) const {
    const auto* x = static_cast<const float*>(buffers[product.a.input]) + loops.begin_of(loops.a, image) +
                    pixel * loops.a.stride(2);
    alignas(64) float sums[most_row_outputs * panel_columns];
    const auto* w = static_cast<const float*>(buffers[product.b.input]);
    if (loops.a.in_rows())
      lanes().dots(w, loops.b.stride(1), loops.n(), x, loops.a.stride(2), pixels, loops.k(), sums, panel_columns,
                   false);
    else
      lanes().product(loops.n(), pixels, loops.k(), w, loops.b.stride(1), x, loops.a.stride(1), sums, panel_columns);
    // Rows of the tile are columns of the product.
    Step steps[most_steps + 1];
    const size_t biases = product.bias < 0 ? 0 : 1;
    if (biases > 0) steps[0] = {StepKind::add, 1, 0, static_cast<const float*>(buffers[product.bias]), 1, 0};
    write_steps(product, loops, buffers, pixel, 0, steps + biases);
    for (size_t s = 0; s < product.epilogue.size(); ++s) {
      Step& step = steps[biases + s];
      if (step.operand) step.operand += loops.begin_of(loops.epilogue[s], image);
      std::swap(step.row, step.column);
    }
    PanelTile out{};
    out.rows = loops.n();
    out.columns = pixels;
    out.steps = steps;
    out.step_count = static_cast<int64_t>(biases + product.epilogue.size());
    out.y = static_cast<float*>(buffers[result]) + loops.begin_of(loops.y, image) + pixel * loops.y.stride(2);
    out.y_row = loops.y.stride(1);
    out.scratch = sums;
    lanes().finish(out);
  }
};

class FewRows : public RowsKernel {
 public:
  const char* name() const override { return "few_rows"; }

  std::string refusal(const ir::Graph& body) const override {
    Product product;
    if (std::string refusal = read_product(body, {}, product); !refusal.empty()) return refusal;
    if (product.b.axes.size() != 2) return "the matrix has batch axes";
    if (product.groups > 1) return "the convolution has groups";
    std::vector<ir::SymInt> a;
    for (int axis : product.a.axes) a.push_back(body.inputs()[product.a.input]->meta().sizes[axis]);
    const std::optional<int64_t> rows = shape::product({a.begin(), a.end() - 1}).constant();
    if (!rows || *rows > 1) return "more than one row, or nobody knows how many";
    if (product.b.axes[0] < product.b.axes[1]) return "the matrix does not lie output by output";
    if (body.inputs()[product.a.input]->meta().strides || body.inputs()[product.b.input]->meta().strides)
      return "an operand is strided";
    return lanes_refusal(product.epilogue);
  }

  bool takes_rows() const override { return true; }

  // A small matrix comes from the caches, where panels, which have no lanes to add up, are 1.1 to 1.5 times as fast
  // (Zen 5); mostly empty ones are not. A large one is as fast in panels where they are read in streams, and so is
  // stored once where programs for more rows share it; elsewhere its rows are (an Intel Xeon with AVX2: 1.05 to 1.1
  // times).
  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Product product;
    if (!read_product(*site.body, site.symbols, product).empty()) return std::nullopt;
    const Loops loops = make_loops(product, site);
    const int64_t empty = divide_up(loops.n(), panel_columns) * panel_columns - loops.n();  // columns
    const bool is_small = loops.n() * loops.k() <= tile_elements;
    if (is_small ? empty >= panel_columns / 2 : !lanes().has_streams || empty * 16 > loops.n()) return std::nullopt;
    return panels().weight_layout(site, operand);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<FewRowsCall>();
    [[maybe_unused]] std::string refusal = read_product(*site.body, site.symbols, call->product);
    assert(refusal.empty());
    call->loops = make_loops(call->product, site);
    const Loops& loops = call->loops;
    const ir::Weight* weight = site.operands[call->product.b.input].weight;
    if (weight && weight->layout) return panels().prepare(site);
    if (has_few_outputs(call->product, site) && lies_in_lines(call->product, loops, site))
      return make_lines(*call, site);
    // Else lower laid the operands out in another way than this kernel reads them.
    const bool has_few = loops.m() <= most_dots_rows || has_few_outputs(call->product, site);
    if (!lies_in_rows(call->product, loops, site) || !has_few || (loops.b.stride(2) != 1 && loops.k() != 1))
      return other_kernel(call->product).prepare(site);
    call->result = site.operands.size();
    // A multiple of 64 columns, so that no two threads write one cache line.
    call->tile_columns = std::max<int64_t>(1, tile_elements / std::max<int64_t>(loops.k(), 1) / 64) * 64;
    if (loops.n() * loops.k() <= tile_elements) call->tile_columns = std::max<int64_t>(loops.n(), 1);
    call->tile_rows = std::max<int64_t>(1, loops.m());
    if (loops.m() > most_dots_rows)
      call->tile_rows = divide_up(tile_elements, std::max<int64_t>(loops.k(), 1) * most_dots_rows) * most_dots_rows;
    describe(*call, loops);
    return std::unique_ptr<PreparedCall>(std::move(call));
  }

 private:
  static void describe(PreparedCall& call, const Loops& loops) {
    const int64_t rows = count(loops.y.sizes) / std::max<int64_t>(1, loops.n());
    call.flops = 2.0 * static_cast<double>(rows * loops.n() * loops.k());
    call.bytes = 4.0 * static_cast<double>(loops.n() * loops.k() + rows * (loops.n() + loops.k()));
    call.detail = lanes().name;
  }

  static std::unique_ptr<PreparedCall> make_lines(FewRowsCall& of, const CallSite& site) {
    auto call = std::make_unique<FewLinesCall>();
    call->product = std::move(of.product);
    call->loops = std::move(of.loops);
    call->result = site.operands.size();
    describe(*call, call->loops);
    return call;
  }
};

}  // namespace

const Kernel& few_rows() {
  static const FewRows kernel;
  return kernel;
}

}  // namespace atenon::kernels
