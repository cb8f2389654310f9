// The recurrent product of a layer's direction by the matrix unit (amx.h): what lstm.cpp and gru.cpp have in common.
//
// The weight is split into parts once a call, which steps pay back as long as it stays in the cores' caches. Of the
// state, who computes some units splits them, for all.
#pragma once

#include "kernels/amx.h"
#include "kernels/kernel.h"

namespace atenon::kernels {

class AmxRecurrent {
 public:
  // What one direction needs.
  struct Parts {
    uint16_t* weight;       // tile by tile of units, the panels of all gates
    uint16_t* states[2];    // before and after a step, in turn
    int64_t* vectors_from;  // of each block of the batch, the step from which on its state is not ordinary
  };

  int64_t gates = 0, width = 0, steps = 0, batch = 0;
  int64_t block = 0;  // entries of the batch that a tile has at once

  // Whether the unit takes less time than vectors where a core reads so many floats of the weight in each step.
  bool is_worth_it(int64_t floats) const;
  size_t bytes() const;  // of a direction
  Parts parts(void* memory) const;
  // Splits a weight in panels and the first state, whose entries lie side by side.
  void begin(const Parts& parts, const float* panels, const float* h) const;
  // sums := the state before a step, entries [entry, entry + entries) of one block, times all gates of a tile of units:
  // for each gate sum_rows(entries) rows of panel_columns. False: these are not for the unit.
  bool multiply(const Parts& parts, int64_t step, int64_t entry, int64_t entries, int64_t tile, float* sums) const;
  static int64_t sum_rows(int64_t entries) { return blocks(entries) * block_rows(entries); }
  // Splits units [unit, unit + units) of the state after a step, whose entries lie `row` apart.
  void split(const Parts& parts, int64_t step, int64_t entry, int64_t entries, int64_t unit, int64_t units,
             const float* h, int64_t row) const;

 private:
  static int64_t blocks(int64_t entries) { return divide_up(entries, amx_rows); }
  static int64_t block_rows(int64_t entries) { return divide_up(entries, blocks(entries)); }
  int64_t depth() const { return divide_up(width, amx_depth); }
  int64_t panel_numbers() const { return depth() * step_numbers(part_count); }
  int64_t weight_numbers() const { return divide_up(width, panel_columns) * gates * panel_numbers(); }
  // Of an entry of a state in one part: an odd number of cache lines, or they would push each other out.
  int64_t state_row() const { return (depth() | 1) * amx_depth; }
  int64_t state_numbers() const {
    return (part_count * batch + amx_rows) * state_row();
  }  // and what a block reads more
};

}  // namespace atenon::kernels
