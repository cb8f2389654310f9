// Products with a matrix in panels by the matrix unit. Rows whose numbers are not all ordinary go by vectors, each by
// itself, whatever tile it is in; so do panels.
#include <algorithm>

#include "kernels/amx_run.h"
#include "kernels/panels.h"

namespace atenon::kernels {

namespace {

constexpr int64_t fewest_rows = 16;

// Of a row in parts. They lie an odd number of cache lines apart, or they would push each other out.
int64_t numbers_of_row(int64_t k) { return (divide_up(k, amx_depth) | 1) * amx_depth; }

class AmxPanelsCall : public PanelsCall {
 public:
  std::vector<int64_t> blocks, steps;  // where blocks of a tile's rows begin, and steps in a row
  AmxPlan plan;

  size_t scratch_bytes() const override { return own_bytes() * static_cast<size_t>(team()); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    AmxRoom::clear(plan, scratch, team(), own_bytes());
    parallel_for(row_tiles * plan.runs, team(), scratch, own_bytes(), [&](int64_t i, void* own) {
      const int64_t first = i % plan.runs * plan.panels;
      run_unit(buffers, i / plan.runs, first, std::min(first + plan.panels, panels), own);
    });
    return {};
  }

 private:
  int64_t team() const { return std::min<int64_t>(workers(), row_tiles * plan.runs); }
  size_t own_bytes() const { return in_lines(std::max(worker_bytes() + AmxRoom::header_bytes, plan.bytes())); }
  int64_t row_numbers() const { return numbers_of_row(product.groups * loops.k()); }
  int64_t plane() const { return tile_rows() * row_numbers(); }

  // Some rows by panels [first, last).
  void run_unit(std::span<void* const> buffers, int64_t row_tile, int64_t first, int64_t last, void* own) const {
    AmxRoom room(plan, own);
    AmxRoom::Held& held = room.held();
    const int64_t begin = first_row(row_tile), rows = first_row(row_tile + 1) - begin;
    if (held.tile != row_tile) {
      held.tile = row_tile;
      held.split = split_rows(buffers, begin, rows, room.parts());
      held.others.reset();
      for (int64_t row = 0; !held.split.is_ordinary && row < rows; ++row)
        held.others[row] = !split_rows(buffers, begin + row, 1, room.parts() + row * row_numbers()).is_ordinary;
    }
    const uint64_t left = multiply_tile(buffers, row_tile, first, last, room);
    if (left == 0 && held.split.is_ordinary) return;
    held.tile = -1;
    auto* scratch = reinterpret_cast<float*>(room.parts());
    for (int64_t number = first; number < last; ++number) {
      if (!in_panels) make_panel(buffers, number, scratch);
      if (left >> (number - first) & 1)
        multiply(buffers, number, begin, rows, scratch);
      else
        for (int64_t row = 0; row < rows; ++row)
          if (held.others[row]) multiply(buffers, number, begin + row, 1, scratch);
    }
  }

  Split split_rows(std::span<void* const> buffers, int64_t first, int64_t rows, uint16_t* parts) const {
    return amx()->split_rows({.from = static_cast<const float*>(buffers[product.a.input]) + first * loops.a.stride(2),
                              .from_row = loops.a.stride(2),
                              .rows = rows,
                              .k = product.groups * loops.k(),
                              .to = parts,
                              .to_row = row_numbers(),
                              .plane = plane()});
  }

  // Gives the panels that are left to vectors, as bits.
  uint64_t multiply_tile(std::span<void* const> buffers, int64_t row_tile, int64_t first, int64_t last,
                         AmxRoom room) const {
    const AmxTile tile{.a = room.parts() + first * panel_columns * product.groups / loops.n() * loops.k(),
                       .a_row = row_numbers(),
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
    // What lies between rows that are not ordinary.
    const auto finish = [&](int64_t number, float* sums) {
      const int64_t begin = first_row(row_tile), rows = first_row(row_tile + 1) - begin;
      for (int64_t row = 0, count = 0; row < rows; row += count + 1) {
        for (count = 0; row + count < rows && !room.held().others[row + count];) ++count;
        if (count == 0) continue;
        Step epilogue[most_steps];
        lanes().finish(tile_of(buffers, number, begin + row, count, epilogue, sums + row * panel_columns));
      }
    };
    return multiply_run(plan, tile, first, last, loops.n(), room, stretch_of, finish);
  }
};

// Cuts rows so that they take the least time.
void choose_tiles(AmxPanelsCall& call, const Product& product, const Loops& loops, ScalarType stored, int threads) {
  const PanelNumbers numbers = stored == ScalarType::f32   ? PanelNumbers::f32
                               : stored == ScalarType::f16 ? PanelNumbers::f16
                                                           : PanelNumbers::bf16;
  const int64_t m = loops.m(), k = product.groups * loops.k(), steps = divide_up(loops.k(), amx_depth),
                fitting = std::clamp(most_parts_bytes / (numbers_of_row(k) * part_bytes), amx_rows, most_panel_rows);
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
  if (!call->plan.is_worth_it(loops.m(), loops.k(), loops.n())) return nullptr;
  if (threads != decided_threads) choose_tiles(*call, product, loops, stored, threads);
  const int64_t row = numbers_of_row(product.groups * loops.k()), rows = divide_up(loops.m(), call->row_tiles);
  for (int64_t i = 0; i < rows; i += amx_rows) call->blocks.push_back(i * row);
  for (int64_t step = 0; step < call->plan.steps; ++step) call->steps.push_back(step * amx_depth);
  if (product.groups > 1) {  // panels of one group read the same part of a row
    call->plan.panels = 1;
    call->plan.runs = divide_up(loops.n(), panel_columns);
  }
  // And the rows that the last block may read behind them.
  call->plan.part_numbers = (rows * part_count + amx_rows) * row;
  call->plan.is_made = !in_panels;
  call->detail = "amx";
  return call;
}

}  // namespace atenon::kernels
