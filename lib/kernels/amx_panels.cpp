// Products with a matrix in panels by the matrix unit. Rows or panels whose numbers are not ordinary go by vectors.
#include <algorithm>

#include "kernels/amx_run.h"
#include "kernels/panels.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_parts_bytes = 2560 * 1024;  // of a tile's rows
constexpr int64_t fewest_rows = 16;
constexpr int64_t part_bytes = part_count * static_cast<int64_t>(sizeof(uint16_t));
constexpr double worth_it = 0.85;  // of what vectors take

// Of a row in parts. They lie an odd number of cache lines apart, or they would push each other out.
int64_t row_numbers(int64_t k) { return (divide_up(k, amx_depth) | 1) * amx_depth; }

class AmxPanelsCall : public PanelsCall {
 public:
  std::vector<int64_t> blocks, steps;  // where blocks of a tile's rows begin, and steps in a row
  AmxPlan plan;

  size_t scratch_bytes() const override { return own_bytes() * static_cast<size_t>(team()); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    for (int64_t i = 0; i < team(); ++i)
      AmxRoom(plan, static_cast<char*>(scratch) + i * static_cast<int64_t>(own_bytes())).held().tile = -1;
    parallel_for(row_tiles * plan.runs, team(), scratch, own_bytes(), [&](int64_t i, void* own) {
      const int64_t first = i % plan.runs * plan.panels;
      run_unit(buffers, i / plan.runs, first, std::min(first + plan.panels, panels), own);
    });
    return {};
  }

 private:
  int64_t team() const { return std::min<int64_t>(workers(), row_tiles * plan.runs); }
  size_t own_bytes() const { return in_lines(std::max(worker_bytes() + 64, plan.bytes())); }
  int64_t row() const { return row_numbers(product.groups * loops.k()); }
  int64_t plane() const { return tile_rows() * row(); }

  // Some rows by panels [first, last).
  void run_unit(std::span<void* const> buffers, int64_t row_tile, int64_t first, int64_t last, void* own) const {
    AmxRoom room(plan, own);
    if (room.held().tile != row_tile) room.held() = {row_tile, split_rows(buffers, row_tile, room.parts())};
    const bool are_split = room.held().split.is_ordinary;
    const uint64_t left =
        are_split ? multiply(buffers, row_tile, first, last, room) : (uint64_t{1} << (last - first)) - 1;
    if (left == 0) return;
    room.held().tile = -1;
    for (int64_t number = first; number < last; ++number)
      if (left >> (number - first) & 1) run_tile(buffers, number, row_tile, reinterpret_cast<float*>(room.parts()));
  }

  Split split_rows(std::span<void* const> buffers, int64_t row_tile, uint16_t* parts) const {
    const int64_t first = first_row(row_tile);
    return amx()->split_rows({.from = static_cast<const float*>(buffers[product.a.input]) + first * loops.a.stride(2),
                              .from_row = loops.a.stride(2),
                              .rows = first_row(row_tile + 1) - first,
                              .k = product.groups * loops.k(),
                              .to = parts,
                              .to_row = row(),
                              .plane = plane()});
  }

  // Gives the panels that are left to vectors, as bits.
  uint64_t multiply(std::span<void* const> buffers, int64_t row_tile, int64_t first, int64_t last, AmxRoom room) const {
    const AmxTile tile{.a = room.parts() + first * panel_columns * product.groups / loops.n() * loops.k(),
                       .a_row = row(),
                       .a_plane = plane(),
                       .blocks = blocks.data(),
                       .block_count = divide_up(first_row(row_tile + 1) - first_row(row_tile), amx_rows),
                       .block_rows = amx_rows,
                       .steps = steps.data()};
    const auto stretch_of = [&](int64_t number, float* made, PanelInParts& panel) {
      panel.from = static_cast<const char*>(buffers[product.b.input]) +
                   number * loops.k() * panel_columns * static_cast<int64_t>(size_of(stored));
      panel.run = loops.k();
      panel.filled_run = plan.steps * amx_depth;
      if (in_panels) return;
      panel.run = std::min(panel.k, loops.k() - panel.first);
      make_panel(buffers, number, panel.first, panel.run, made);
      panel.from = made;
      panel.first = 0;
    };
    return multiply_run(plan, tile, first, last, loops.n(), room, stretch_of, [&](int64_t number, float* sums) {
      Step epilogue[most_steps];
      lanes().finish(tile_of(buffers, number, row_tile, epilogue, sums));
    });
  }
};

// Cuts rows so that they take the least time.
void choose_tiles(AmxPanelsCall& call, const Product& product, const Loops& loops, ScalarType stored, int threads) {
  const PanelNumbers numbers = stored == ScalarType::f32   ? PanelNumbers::f32
                               : stored == ScalarType::f16 ? PanelNumbers::f16
                                                           : PanelNumbers::bf16;
  const int64_t m = loops.m(), k = product.groups * loops.k(), steps = divide_up(loops.k(), amx_depth),
                fitting = std::clamp(most_parts_bytes / (row_numbers(k) * part_bytes), amx_rows, most_panel_rows);
  call.row_tiles = 0;
  for (int64_t tiles = divide_up(m, fitting), last = tiles + 4 * threads;
       tiles <= last && (call.row_tiles == 0 || m / tiles >= fewest_rows); ++tiles) {
    const int64_t rows = divide_up(m, tiles);
    const AmxTiles cut{tiles, divide_up(rows, amx_rows), amx_rows, rows * k};
    const AmxPlan plan = AmxPlan::make(numbers, steps, loops.n(), cut, threads);
    if (call.row_tiles == 0 || plan.cycles < call.plan.cycles) call.row_tiles = tiles, call.plan = plan;
  }
}

}  // namespace

std::unique_ptr<PanelsCall> make_amx_panels(const Product& product, const Loops& loops, ScalarType stored,
                                            bool in_panels, int threads) {
  if (!amx() || loops.m() * loops.k() * loops.n() < serial_products ||
      (product.groups > 1 && loops.k() % amx_depth != 0))
    return nullptr;
  auto call = std::make_unique<AmxPanelsCall>();
  choose_tiles(*call, product, loops, stored, decided_threads);
  const auto m = static_cast<double>(loops.m()), k = static_cast<double>(loops.k());
  if (call->plan.cycles > worth_it * cycles_by_vectors(m, k, loops.n(), decided_threads)) return nullptr;
  choose_tiles(*call, product, loops, stored, threads);
  const int64_t row = row_numbers(product.groups * loops.k()), rows = divide_up(loops.m(), call->row_tiles);
  for (int64_t i = 0; i < rows; i += amx_rows) call->blocks.push_back(i * row);
  for (int64_t step = 0; step < call->plan.steps; ++step) call->steps.push_back(step * amx_depth);
  if (product.groups > 1) {  // panels of one group read the same part of a row
    call->plan.panels = 1;
    call->plan.runs = divide_up(loops.n(), panel_columns);
  }
  call->plan.part_numbers =
      (rows * part_count + amx_rows) * row;  // and the rows that the last block may read behind them
  call->plan.is_made = !in_panels;
  call->detail = "amx";
  return call;
}

}  // namespace atenon::kernels
