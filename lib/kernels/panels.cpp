// Products with a matrix in panels of 64 columns: linear layers of any number of rows.
//
// A panel is read in order, once for each block of rows, and the next one is fetched while it is used, so that large
// products run at the speed of arithmetic and those of few rows at the speed of memory. The layout depends on the
// matrix alone: a program with dynamic sizes has one packed weight. Which thread computes a panel changes nothing in
// it. Where the CPU has a matrix unit, many rows go through that: amx_panels.cpp.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/panels.h"
#include "kernels/product.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

// Of a tile, where a product is cut into more of them for its threads: how rows are cut then changes no bit.
constexpr int64_t least_rows = tallest_block + 1;
constexpr int64_t cached_matrix = 320 * 1024;  // stays in each core's cache
constexpr int64_t cached_tile = 384 * 1024;    // so do rows of a tile
// Of a tile, of a matrix that stays there and of one that does not: while they are multiplied by a panel, the next
// arrives.
constexpr int64_t cached_rows = 24, streamed_rows = 96;
constexpr int64_t large_filter = 256 * 1024;  // of a pointwise convolution: reading it takes a good part of the time
// Of what a pointwise convolution takes and gives: where it does not stay in the caches, what is added to the result is
// fetched in time here, and not by oneDNN.
constexpr int64_t large_images = 3 * 1024 * 1024;
constexpr int64_t few_pixels = 800;         // of a pointwise convolution's result: oneDNN cuts them into uneven parts
constexpr int64_t few_pixels_of_each = 64;  // image, where their number is left open; many are as fast by oneDNN
constexpr int64_t deep = 64;                // so many inputs of a pointwise convolution
constexpr int64_t full_sum = 16;            // and so many fill vectors, where each output is a sum over them
constexpr int64_t small_matrix = 8 * 1024;
constexpr int64_t reading_rows = 7;            // the matrix is read in the time of the products of so many rows
constexpr int64_t fetched_matrix = 32 * 1024;  // smaller ones arrive by themselves, and fetching takes time of its own

}  // namespace

size_t PanelsCall::worker_bytes() const {
  const int64_t made = in_halves() ? std::min(loops.k(), panel_depth) : in_panels ? 0 : loops.k();
  return static_cast<size_t>((tile_rows() + made) * panel_columns) * sizeof(float);
}

int64_t PanelsCall::workers() const {
  const int64_t products = (loops.m() + reading_rows) * loops.n() * loops.k();
  return products < serial_products ? 1 : std::min<int64_t>(panels * row_tiles, threads());
}

Result<void> PanelsCall::run(std::span<void* const> buffers, void* scratch) {
  // A panel that is made serves all rows, where there are enough of them for all threads.
  const int64_t team = workers();
  const bool is_made_once = !in_panels && panels >= 4 * team;
  const auto run_one = [&](int64_t i, float* own) {
    const int64_t row_tile = row_tiles == 1 || is_made_once ? 0 : i / panels, number = i - row_tile * panels;
    if (!in_panels) make_panel(buffers, number, own);
    for (int64_t tile = row_tile; tile < (is_made_once ? row_tiles : row_tile + 1); ++tile)
      multiply(buffers, number, first_row(tile), first_row(tile + 1) - first_row(tile), own);
  };
  const int64_t tiles = is_made_once ? panels : panels * row_tiles;
  if (team <= 1) {
    for (int64_t i = 0; i < tiles; ++i) run_one(i, static_cast<float*>(scratch));
    return {};
  }
  // Runs of neighbouring panels, so that what a thread fetches ahead is mostly its own; shorter ones towards the end,
  // so that all finish together.
  parallel_for(
      tiles, team, scratch, worker_bytes(), [&](int64_t i, void* own) { run_one(i, static_cast<float*>(own)); }, 2);
  return {};
}

void PanelsCall::make_panel(std::span<void* const> buffers, int64_t number, int64_t k, int64_t count,
                            float* panel) const {
  const int64_t column = number * panel_columns, columns = std::min(panel_columns, loops.n() - column);
  const float* b =
      static_cast<const float*>(buffers[product.b.input]) + column * loops.b.stride(1) + k * loops.b.stride(2);
  if (loops.b.in_columns()) return lanes().make_panel(b, loops.b.stride(1), count, columns, panel, panel_columns);
  for (int64_t i = 0; i < count; ++i, b += loops.b.stride(2), panel += panel_columns) {
    std::copy_n(b, columns, panel);
    std::fill(panel + columns, panel + panel_columns, 0.0f);
  }
}

PanelTile PanelsCall::tile_of(std::span<void* const> buffers, int64_t number, int64_t row, int64_t rows, Step* steps,
                              float* scratch) const {
  const int64_t column = number * panel_columns;
  const auto* b = static_cast<const float*>(buffers[product.b.input]);
  write_steps(product, loops, buffers, row, column, steps);
  PanelTile tile = common;
  if (in_halves()) {
    tile.halves = {static_cast<const uint16_t*>(buffers[product.b.input]) + column * loops.k(),
                   stored == ScalarType::bf16, made_panel(scratch)};
  } else if (in_panels) {
    tile.b = b + column * loops.k();
    if (loops.k() * loops.n() > fetched_matrix)
      tile.next = number + 1 < panels ? tile.b + panel_columns * loops.k() : row_tiles > 1 ? b : nullptr;
  } else {
    tile.b = made_panel(scratch);
    // Where columns follow each other, those of the next panel are as many bytes as the panel itself.
    if (loops.b.in_columns() && loops.b.stride(1) == loops.k() && column + 2 * panel_columns <= loops.n())
      tile.next = b + (column + panel_columns) * loops.k();
  }
  const int64_t group = column * product.groups / loops.n();
  tile.a = static_cast<const float*>(buffers[product.a.input]) + row * loops.a.stride(2) +
           group * loops.k() * loops.a.stride(1);
  tile.rows = rows;
  tile.columns = std::min(panel_columns, loops.n() - column);
  tile.bias = product.bias < 0 ? nullptr : static_cast<const float*>(buffers[product.bias]) + column;
  tile.steps = steps;
  tile.y = static_cast<float*>(buffers[result]) + row * loops.y.stride(2) + column;
  tile.scratch = scratch;
  return tile;
}

void PanelsCall::multiply(std::span<void* const> buffers, int64_t number, int64_t row, int64_t rows,
                          float* scratch) const {
  Step steps[most_steps];
  lanes().panel(tile_of(buffers, number, row, rows, steps, scratch));
}

namespace {

// Into how many tiles rows are cut, so that threads finish together: the fewest, as each of them reads every panel. A
// tile for each thread where that reading is hidden: then the thread that writes rows is the one that reads them in the
// next call. What another core has written arrives at a tenth of the speed of a core's own cache.
int64_t choose_row_tiles(const Loops& loops, bool in_panels, int threads) {
  const int64_t rows = loops.m(), columns = loops.n(), depth = std::max<int64_t>(1, loops.k());
  const int64_t least = columns * depth <= cached_matrix ? cached_rows : streamed_rows;
  const int64_t fitting = std::clamp(cached_tile / depth, streamed_rows, most_panel_rows);
  const int64_t fewest =
      std::max(divide_up(rows, fitting), in_panels ? std::clamp<int64_t>(rows / least, 1, threads) : 1);
  int64_t best = fewest, shortest = INT64_MAX;
  for (int64_t tiles = fewest; tiles == fewest || rows / tiles >= least_rows; ++tiles) {
    // A tile takes as long as its blocks of rows, one more for the panel, times its vectors.
    const int64_t height = (rows / tiles + 5) / 6 + 1;
    std::vector<int64_t> busy(static_cast<size_t>(std::max(1, threads)));
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t column = 0; column < columns; column += panel_columns)
        *std::min_element(busy.begin(), busy.end()) += height * ((std::min(panel_columns, columns - column) + 15) / 16);
    const int64_t longest = *std::max_element(busy.begin(), busy.end());
    if (longest < shortest) best = tiles, shortest = longest;
    const int64_t total = std::accumulate(busy.begin(), busy.end(), int64_t{0});
    if (longest * threads * 20 <= total * 21 || tiles >= fewest + 2 * threads) break;
  }
  return best;
}

// As panel_layout() says; strides of axes of size 1 say nothing.
bool is_panels(const Operand& matrix, const std::vector<int>& axes) {
  if (!matrix.weight || !matrix.weight->layout) return false;
  ir::BlockedLayout layout = *matrix.weight->layout;
  const ir::BlockedLayout wanted = panel_layout(matrix.sizes, axes, matrix.weight->tensor.dtype);
  for (size_t axis = 0; axis < matrix.sizes.size(); ++axis)
    if (matrix.sizes[axis] == 1) layout.strides[axis] = wanted.strides[axis];
  return layout == wanted;
}

// Of a matrix that lies row by row: oneDNN is as fast, but starts slowly, and falls back to plain loops where a step of
// the epilogue has one number for each row.
bool is_for_own_panels(const Loops& loops) {
  for (const Matrix& matrix : loops.epilogue)
    if (!matrix.sizes.empty() && matrix.size(1) < loops.n() && matrix.size(2) == loops.m()) return true;
  return loops.k() * loops.n() <= small_matrix;
}

std::unique_ptr<PanelsCall> make_call(Product product, Loops loops, const CallSite& site) {
  const ir::Weight* weight = site.operands[product.b.input].weight;
  const bool in_panels = weight && weight->layout;
  const ScalarType stored = in_panels ? weight->tensor.dtype : ScalarType::f32;
  std::unique_ptr<PanelsCall> call =
      site.in_tile ? nullptr : make_amx_panels(product, loops, stored, in_panels, site.threads);
  if (!call) {
    call = std::make_unique<PanelsCall>();
    call->row_tiles = choose_row_tiles(loops, in_panels, site.threads);
    call->detail = lanes().name;
  }
  call->in_panels = in_panels;
  call->stored = stored;
  call->result = site.operands.size();
  call->panels = divide_up(loops.n(), panel_columns);
  call->flops = 2.0 * static_cast<double>(loops.m() * loops.n() * loops.k());
  call->bytes = static_cast<double>(size_of(call->stored)) * static_cast<double>(loops.n() * loops.k()) +
                4.0 * static_cast<double>(loops.m() * (loops.n() + loops.k()));
  call->common.a_row = loops.a.stride(2);
  call->common.k = loops.k();
  call->common.is_made = !call->in_panels;
  call->common.step_count = static_cast<int64_t>(product.epilogue.size());
  call->common.y_row = loops.y.stride(2);
  call->product = std::move(product);
  call->loops = std::move(loops);
  return call;
}

// Functions for which oneDNN takes up to twice as long as loops of our own.
bool has_exponentials(const std::vector<PostOp>& epilogue) {
  static constexpr StepKind exponentials[] = {StepKind::gelu_erf, StepKind::gelu_tanh, StepKind::silu,
                                              StepKind::sigmoid,  StepKind::tanh,      StepKind::elu,
                                              StepKind::exp};
  return std::any_of(epilogue.begin(), epilogue.end(), [](const PostOp& step) {
    return std::find(std::begin(exponentials), std::end(exponentials), step.kind) != std::end(exponentials);
  });
}

// Of many inputs oneDNN is no faster, unless it reads each for many more outputs.
bool is_deep(const ir::TensorMeta& filter) {
  const int64_t outputs = *filter.sizes[0].constant(), inputs = *filter.sizes[1].constant();
  return inputs >= deep && outputs >= panel_columns && outputs <= 2 * inputs;
}

class Panels : public RowsKernel {
 public:
  const char* name() const override { return "panels"; }

  std::string refusal(const ir::Graph& body) const override {
    Product product;
    if (std::string refusal = read_product(body, {}, product); !refusal.empty()) return refusal;
    if (product.b.axes.size() != 2) return "the matrix has batch axes";
    if (std::string refusal = thin_refusal(body, product); !refusal.empty()) return refusal;
    if (product.groups > 1 &&
        *body.inputs()[product.b.input]->meta().sizes[0].constant() % (product.groups * panel_columns) != 0)
      return "outputs of its groups do not fill panels";
    return lanes_refusal(product.epilogue);
  }

  std::string drawback(const ir::Graph& body) const override {
    Product product;
    read_product(body, {}, product);
    if (!product.is_convolution()) return thin_drawback(body, product);
    if (product.groups > 1) return "";
    const ir::TensorMeta &filter = body.inputs()[product.b.input]->meta(), &x = body.inputs()[product.a.input]->meta();
    const ir::TensorMeta& y = body.outputs()[0].value()->meta();
    const std::optional<int64_t> images = (x.numel() + y.numel()).constant(),
                                 pixels = shape::floor_div(y.numel(), y.sizes[1]).constant(),
                                 of_each = shape::floor_div(y.numel(), y.sizes[0] * y.sizes[1]).constant();
    const bool has_few_pixels = pixels ? *pixels <= few_pixels : of_each && *of_each <= few_pixels_of_each;
    const bool is_fast = *filter.numel().constant() >= large_filter || images.value_or(0) >= large_images ||
                         has_few_pixels || has_exponentials(product.epilogue) || is_deep(filter) ||
                         (*filter.sizes[0].constant() <= most_row_outputs && *filter.sizes[1].constant() >= full_sum);
    return is_fast ? "" : "oneDNN is as fast for a filter so small and images of this size";
  }

  // Making a panel costs little beside its use by many rows, and few rows read the matrix as it lies.
  bool takes_rows() const override { return true; }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Product product;
    if (!read_product(*site.body, site.symbols, product).empty() || static_cast<int>(operand) != product.b.input)
      return std::nullopt;
    const bool has_few = has_few_outputs(product, site);
    if (product.is_convolution()) {
      const Loops loops = make_loops(product, site);
      if (!lies_in_rows(product, loops, site) && !(has_few && lies_in_lines(product, loops, site)))
        return other_kernel(product).weight_layout(site, operand);
    }
    if (has_few) return std::nullopt;
    return panel_layout(site.operands[operand].sizes, product.b.axes);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    Product product;
    [[maybe_unused]] std::string refusal = read_product(*site.body, site.symbols, product);
    assert(refusal.empty());
    Loops loops = make_loops(product, site);
    const Operand& matrix = site.operands[product.b.input];
    const bool is_packed = matrix.weight && matrix.weight->layout;
    const bool is_read = is_packed ? is_panels(matrix, product.b.axes)
                                   : loops.b.in_columns() || (loops.b.in_rows() && is_for_own_panels(loops));
    const bool has_few = has_few_outputs(product, site);
    if (!is_packed && has_few && lies_in_lines(product, loops, site)) return few_rows().prepare(site);
    if (!lies_in_rows(product, loops, site) || !is_read) return other_kernel(product).prepare(site);
    if (!is_packed && loops.b.in_columns() && (has_few || loops.m() <= most_dots_rows) && product.groups == 1)
      return few_rows().prepare(site);
    return std::unique_ptr<PreparedCall>(make_call(std::move(product), std::move(loops), site));
  }
};

}  // namespace

ir::BlockedLayout panel_layout(const std::vector<int64_t>& sizes, const std::vector<int>& axes, ScalarType dtype) {
  const int64_t k = sizes[axes[0]], n = sizes[axes[1]];
  ir::BlockedLayout layout;
  layout.strides.assign(sizes.size(), 0);
  layout.strides[axes[0]] = panel_columns;
  layout.strides[axes[1]] = k * panel_columns;
  layout.inner_blocks = {{axes[1], panel_columns}};
  layout.padded_bytes = divide_up(n, panel_columns) * panel_columns * k * static_cast<int64_t>(size_of(dtype));
  return layout;
}

std::unique_ptr<PreparedCall> prepare_pointwise(const CallSite& site) {
  Product product;
  if (!read_product(*site.body, site.symbols, product).empty() || !product.is_convolution() || product.groups > 1 ||
      !lanes_refusal(product.epilogue).empty() || !is_panels(site.operands[product.b.input], product.b.axes))
    return nullptr;
  Loops loops = make_loops(product, site);
  const bool is_large = loops.m() * (loops.n() + loops.k()) >= large_images;
  if (!lies_in_rows(product, loops, site) || (!is_large && loops.m() > few_pixels)) return nullptr;
  return make_call(std::move(product), std::move(loops), site);
}

const Kernel& panels() {
  static const Panels kernel;
  return kernel;
}

}  // namespace atenon::kernels
