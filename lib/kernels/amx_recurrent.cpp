// See amx_recurrent.h.
#include "kernels/amx_recurrent.h"

#include <algorithm>
#include <atomic>

#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_depth = 64;

}  // namespace

bool AmxRecurrent::is_worth_it(int64_t floats) const {
  constexpr int64_t cached_floats = 1536 * 1024 / 6;
  // Cycles of a number of the weight, as measured on a Granite Rapids: of a step by vectors, for each entry; by the
  // unit, for each block of rows, and for each row; and once, to split it. With 8 rows both take as long in truth.
  constexpr double vectors = 1 / 22.7, of_block = 0.13, of_row = 0.0137, split = 0.6, at_most = 0.65;
  if (!amx() || floats > cached_floats || depth() > most_depth) return false;
  const double unit = static_cast<double>(blocks(block)) * (of_block + of_row * static_cast<double>(block_rows(block)));
  return unit + split / static_cast<double>(steps) <= at_most * vectors * static_cast<double>(block);
}

size_t AmxRecurrent::bytes() const {
  return in_lines(static_cast<size_t>(weight_numbers() + 2 * state_numbers()) * sizeof(uint16_t)) +
         in_lines(static_cast<size_t>(divide_up(batch, block)) * sizeof(int64_t));
}

AmxRecurrent::Parts AmxRecurrent::parts(void* memory) const {
  auto* weight = static_cast<uint16_t*>(memory);
  uint16_t* state = weight + weight_numbers();
  auto* vectors_from = reinterpret_cast<int64_t*>(state + 2 * state_numbers());
  return {weight, {state, state + state_numbers()}, vectors_from};
}

void AmxRecurrent::begin(const Parts& parts, const float* panels, const float* h) const {
  for (int64_t i = 0; i < divide_up(batch, block); ++i) parts.vectors_from[i] = steps;
  std::atomic<bool> is_ordinary = true;
  parallel_for(divide_up(width, panel_columns), [&](int64_t tile) {
    for (int64_t panel = tile * gates; panel < (tile + 1) * gates; ++panel) {
      const Split split = amx()->split_panel({.from = panels + panel * width * panel_columns,
                                              .run = width,
                                              .filled_run = depth() * amx_depth,
                                              .first = 0,
                                              .k = depth() * amx_depth,
                                              .columns = width - tile * panel_columns,
                                              .to = parts.weight + panel * panel_numbers(),
                                              .half = panel_numbers() / 2},
                                             PanelNumbers::f32);
      if (!split.is_ordinary) is_ordinary = false;
    }
  });
  for (int64_t entry = 0; entry < batch; entry += block) {
    split(parts, -1, entry, std::min(block, batch - entry), 0, width, h + entry * width, width);
    if (!is_ordinary) parts.vectors_from[entry / block] = 0;
  }
}

bool AmxRecurrent::multiply(const Parts& parts, int64_t step, int64_t entry, int64_t entries, int64_t tile,
                            float* sums) const {
  if (step >= std::atomic_ref(parts.vectors_from[entry / block]).load(std::memory_order_relaxed)) return false;
  int64_t steps_of[most_depth];
  for (int64_t i = 0; i < depth(); ++i) steps_of[i] = i * amx_depth;
  const uint16_t* a = parts.states[step % 2] + entry * state_row();
  // All at once, since half of it may lie in another core's cache.
  for (int64_t i = 0; i < entries * part_count; ++i)
    for (int64_t at = 0; at < depth(); ++at)
      __builtin_prefetch(a + i / entries * batch * state_row() + i % entries * state_row() + at * amx_depth);
  const int64_t rows = block_rows(entries), starts[] = {0, rows * state_row()};
  amx()->multiply({.a = a,
                   .a_row = state_row(),
                   .a_plane = batch * state_row(),
                   .blocks = starts,
                   .block_count = blocks(entries),
                   .block_rows = rows,
                   .steps = steps_of,
                   .step_count = depth(),
                   .numbers = PanelNumbers::f32,
                   .a_is_first = false,
                   .b_is_first = false,
                   .b = parts.weight + tile * gates * panel_numbers(),
                   .b_half = panel_numbers() / 2,
                   .columns = width - tile * panel_columns,
                   .begins = true,
                   .sums = sums,
                   .next = {},
                   .panels = gates});
  return true;
}

void AmxRecurrent::split(const Parts& parts, int64_t step, int64_t entry, int64_t entries, int64_t unit, int64_t units,
                         const float* h, int64_t row) const {
  const Split split = amx()->split_rows({.from = h,
                                         .from_row = row,
                                         .rows = entries,
                                         .k = units,
                                         .to = parts.states[(step + 1) % 2] + entry * state_row() + unit,
                                         .to_row = state_row(),
                                         .plane = batch * state_row()});
  if (split.is_ordinary) return;
  std::atomic_ref from(parts.vectors_from[entry / block]);
  if (step + 1 < from.load(std::memory_order_relaxed)) from.store(step + 1, std::memory_order_relaxed);
}

}  // namespace atenon::kernels
