// See amx_run.h.
#include "kernels/amx_run.h"

#include <algorithm>

#include "kernels/kernel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t cached_bytes = 1280 * 1024;  // of rows and panels in parts
constexpr double at_most = 0.85;               // of what vectors take
constexpr int64_t least_stretch = 4;
constexpr int64_t most_panels = 6;  // whose sums wait for the next stretch
constexpr int64_t most_bits = 32;   // of those of a run that are left

}  // namespace

AmxPlan AmxPlan::make(PanelNumbers numbers, int64_t steps, int64_t columns, const AmxTiles& tiles, int threads) {
  AmxPlan plan{.numbers = numbers, .steps = steps};
  const int64_t rows = tiles.blocks * tiles.block_rows, row_bytes = amx_depth * static_cast<int64_t>(sizeof(uint16_t)),
                panel_bytes = 2 * panel_columns * parts_of(numbers) * row_bytes, all_rows = tiles.numbers * part_bytes;
  // Rows of a stretch, or all that is there of them.
  const int64_t fitting = std::max({cached_bytes / (rows * part_count * row_bytes + panel_bytes),
                                    (cached_bytes - all_rows) / panel_bytes, least_stretch});
  plan.stretch = divide_up(steps, divide_up(steps, fitting));
  plan.sum_floats = rows * panel_columns;

  // Cycles of a half of a panel's step: of a block, of each of its rows, and of splitting the half, which blocks hide;
  // of the end of a block; of a run, and a half of a step that is split before anything else; of a number of the rows.
  constexpr double block = 140, row = 9, split_half = 550, hidden_by_block = 42, end_block = 600, run = 2500,
                   split_step = 575, split_number = 0.8;
  const bool is_bfloat = numbers == PanelNumbers::bf16;
  const double of_block = (block + row * static_cast<double>(tiles.block_rows)) / (is_bfloat ? 2 : 1);
  const auto blocks = static_cast<double>(tiles.blocks);
  const double of_half = blocks * of_block + (is_bfloat ? 0 : std::max(0.0, split_half - blocks * hidden_by_block));
  const int64_t panels = divide_up(columns, panel_columns);
  const double halves = static_cast<double>(divide_up(columns, panel_columns / 2)) / static_cast<double>(panels);
  for (int64_t count = 1; count <= std::min(panels, plan.stretch < steps ? most_panels : most_bits); ++count) {
    const int64_t runs = divide_up(panels, count), own = divide_up(tiles.tiles * runs, std::max(1, threads));
    const double of_panels = static_cast<double>(count) * halves *
                             (static_cast<double>(steps) * of_half + static_cast<double>(tiles.blocks) * end_block);
    const double cycles =
        static_cast<double>(own) * (of_panels + run + static_cast<double>(plan.stretch) * halves * split_step) +
        static_cast<double>(divide_up(own, runs) * tiles.numbers) * split_number;
    if (count == 1 || cycles < plan.cycles) plan.panels = count, plan.runs = runs, plan.cycles = cycles;
  }
  return plan;
}

bool AmxPlan::is_worth_it(int64_t rows, int64_t k, int64_t columns) const {
  constexpr double products_a_cycle = 27;  // of vectors
  const auto products = static_cast<double>(rows * k * divide_up(columns, 16) * 16);
  return cycles <= at_most * products / products_a_cycle / decided_threads;
}

size_t AmxPlan::bytes() const {
  const int64_t floats = all_sums() + (is_made ? stretch * amx_depth * panel_columns : 0);
  return in_lines(AmxRoom::header_bytes + static_cast<size_t>(floats) * sizeof(float) +
                  static_cast<size_t>(part_numbers + 2 * stretch_numbers()) * sizeof(uint16_t));
}

uint64_t multiply_run(const AmxPlan& plan, AmxTile rows, int64_t first, int64_t last, int64_t columns, AmxRoom room,
                      FunctionRef<int64_t, float*, PanelInParts&> stretch_of, FunctionRef<int64_t, float*> finish) {
  const int64_t count = last - first, turns = count * plan.stretches();
  const int64_t* const steps = rows.steps;
  const auto at_turn = [&](int64_t turn) {
    PanelInParts panel{};
    if (turn == turns) return panel;
    const int64_t step = turn / count * plan.stretch;
    panel.first = step * amx_depth;
    panel.k = std::min(plan.stretch, plan.steps - step) * amx_depth;
    panel.columns = columns - (first + turn % count) * panel_columns;
    panel.to = room.stretches() + turn % 2 * plan.stretch_numbers();
    panel.half = plan.stretch_numbers() / 2;
    stretch_of(first + turn % count, room.made(), panel);
    return panel;
  };
  uint64_t others = 0;
  rows.numbers = plan.numbers;
  rows.next = at_turn(0);
  Split split = amx()->split_panel(rows.next, plan.numbers);
  if (!split.is_ordinary) others |= 1;
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t panel = turn % count, step = turn / count * plan.stretch;
    rows.steps = steps + step;
    rows.step_count = rows.next.k / amx_depth;
    rows.b = rows.next.to;
    rows.b_half = rows.next.half;
    rows.columns = std::min(panel_columns, columns - (first + panel) * panel_columns);
    rows.begins = step == 0;
    rows.sums = room.sums() + (plan.stretches() == 1 ? 0 : panel * plan.sum_floats);
    rows.next = at_turn(turn + 1);
    rows.a_is_first = room.held().split.is_first;
    rows.b_is_first = split.is_first;
    split = amx()->multiply(rows);
    if (!split.is_ordinary) others |= uint64_t{1} << (turn + 1) % count;
    if (turn + count >= turns && !(others >> panel & 1)) finish(first + panel, rows.sums);
  }
  return others;
}

}  // namespace atenon::kernels
