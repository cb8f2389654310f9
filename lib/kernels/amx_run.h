// Some rows by a run of panels, by the matrix unit: what products and convolutions have in common.
//
// A thread splits the rows of a tile into parts itself, even if others do the same for their panels: numbers that
// another core has just split arrive later than they are split. Then it goes through its panels, a stretch of k at a
// time, in which each panel has its turn; while one is used the next one is split. Rows and two stretches stay in the
// second-level cache. How k is cut changes no bit: sums on the way are f32, as they are in the unit.
#pragma once

#include <bitset>

#include "kernels/amx.h"
#include "support/parallel.h"

namespace atenon::kernels {

// Whether the unit does a call must not depend on how many threads there are, or its bits would: it is decided for as
// many as small machines have.
constexpr int decided_threads = 2;
constexpr int64_t part_bytes = part_count * static_cast<int64_t>(sizeof(uint16_t));
constexpr int64_t most_parts_bytes = 2560 * 1024;  // of a tile's rows

// One way to cut the rows of a call.
struct AmxTiles {
  int64_t tiles;               // of rows
  int64_t blocks, block_rows;  // of a tile, at most
  int64_t numbers;             // of a tile that are split
};

struct AmxPlan {
  PanelNumbers numbers = PanelNumbers::f32;
  int64_t steps = 0, stretch = 1;  // of k, and how many of them at a time
  int64_t panels = 1, runs = 1;    // of a run, at most, and how many of these
  int64_t sum_floats = 0;          // of a panel
  int64_t part_numbers = 0;        // of the tile's rows in parts
  bool is_made = false;            // stretches are made in `made`, not read from panels
  double cycles = 0;               // of each thread, about, as measured on a Granite Rapids

  // How to go about such tiles; `part_numbers` and `is_made` are left.
  static AmxPlan make(PanelNumbers numbers, int64_t steps, int64_t columns, const AmxTiles& tiles, int threads);

  // Whether a call of so many rows is better done so than by vectors, where this plan is for decided_threads.
  bool is_worth_it(int64_t rows, int64_t k, int64_t columns) const;

  int64_t stretches() const { return (steps + stretch - 1) / stretch; }
  int64_t stretch_numbers() const { return stretch * step_numbers(parts_of(numbers)); }
  int64_t all_sums() const { return sum_floats * (stretches() == 1 ? 1 : panels); }
  size_t bytes() const;  // that a thread needs
};

// The memory of a thread.
class AmxRoom {
 public:
  static constexpr size_t most_lines = 512, header_bytes = 128;
  // Before a run: no thread of `members` holds a tile, each of which has `bytes` of `memory`.
  static void clear(const AmxPlan& plan, void* memory, int64_t members, size_t bytes) {
    for (int64_t i = 0; i < members; ++i)
      AmxRoom(plan, static_cast<char*>(memory) + i * static_cast<int64_t>(bytes)).held().tile = -1;
  }
  AmxRoom(const AmxPlan& plan, void* memory) : plan_(plan), memory_(static_cast<char*>(memory)) {}

  // The tile whose rows are in parts(), -1: none; what they were; and if not all ordinary, which of them, or of the
  // lines that they read, are not.
  struct Held {
    int64_t tile;
    Split split;
    std::bitset<most_lines> others;
  };
  Held& held() { return *reinterpret_cast<Held*>(memory_); }
  uint16_t* parts() { return reinterpret_cast<uint16_t*>(memory_ + header_bytes); }
  uint16_t* stretches() { return parts() + plan_.part_numbers; }
  float* sums() { return reinterpret_cast<float*>(stretches() + 2 * plan_.stretch_numbers()); }
  float* made() { return sums() + plan_.all_sums(); }

 private:
  const AmxPlan& plan_;
  char* memory_;
};

// `rows` says where its rows are, and all its steps. Of a panel in [first, last), `stretch_of` gives the stretch whose
// `first` and `k` are set, perhaps made in the memory that it is given, and `finish` has the sums. Gives the panels
// that are not finished, as bits: those whose numbers are not all ordinary. `columns` is how many all panels have.
uint64_t multiply_run(const AmxPlan& plan, AmxTile rows, int64_t first, int64_t last, int64_t columns, AmxRoom room,
                      FunctionRef<int64_t, float*, PanelInParts&> stretch_of, FunctionRef<int64_t, float*> finish);

}  // namespace atenon::kernels
