// Products of f32 by the matrix unit of Intel's CPUs (AMX), which multiplies bfloat16 and adds in f32.
//
// A float is the sum of three bfloat16, each the one nearest to what those before it leave: 8 bits three times are all
// its 24. Of the nine products of two such sums three lie below the last place of an f32 product; the other six take
// the unit a third of the time that vectors take for the one (from the nearest cache; from the next one, half of it).
// So nothing is rounded that vectors would not round, and sums have fewer roundings: the unit adds up 32 products
// before it adds them to the rest.
//
// Numbers that came from bfloat16 are their first part: products with parts that are all 0 are left out, which changes
// no bit.
//
// It takes what is smaller than 2^-126 for 0, and infinity has no second part. So only ordinary numbers come here,
// those below 2^63: whatever else turns up, vectors do the product. In each product an error of up to 2^-126 times the
// larger factor may be left.
#pragma once

#include <cstdint>

#include "kernels/lanes.h"

namespace atenon::kernels {

// The unit's registers hold 16 rows of 64 bytes.
constexpr int64_t amx_rows = 16;
constexpr int64_t amx_depth = 32;  // bfloat16
constexpr int64_t part_count = 3;
// Numbers of one step of a panel of which `parts` parts are there: amx_depth of its rows.
constexpr int64_t step_numbers(int64_t parts) { return amx_depth * panel_columns * parts; }

// What numbers were that have been split.
struct Split {
  bool is_ordinary;  // else what was written is of no use
  bool is_first;     // their first parts are all of them
};

// Rows of f32 that become three planes: of their first, second and third parts. The two halves of each amx_depth
// numbers lie in turn, so that a vector of each is one of parts; what is missing of the last ones is 0.
struct RowsInParts {
  const float* from;
  int64_t from_row, rows, k;
  uint16_t* to;
  int64_t to_row, plane;
};

// How numbers of a panel are stored.
enum class PanelNumbers { f32, f16, bf16 };

// A stretch of a panel that becomes parts. The panel's rows are in runs, each of which is filled up with zeros to whole
// steps, as the rows of the other operand are: rows [first, first + k) of these, whole steps, are the stretch.
struct PanelInParts {
  const void* from;  // the panel
  int64_t run, filled_run;
  int64_t first, k;
  int64_t columns;  // that are there: the other half may be left out
  uint16_t* to;     // for each step and part the tiles of two vectors of columns
  int64_t half;     // from the panel's first two vectors to the other two
  // Numbers from one row to the next, and from `from` to the vectors of the first: they may lie in several blocks.
  int64_t row = panel_columns, vectors[panel_columns / amx_rows] = {0, 16, 32, 48};
};

// Sums of rows times a stretch of a panel, or of some panels one after the other, both in parts.
struct AmxTile {
  const uint16_t* a;
  int64_t a_row, a_plane;
  // Blocks of at most amx_rows rows: where each begins, from a on. Their sums follow each other, `block_rows` each, and
  // so do those of panels.
  const int64_t* blocks;
  int64_t block_count, block_rows;
  // Where each step of k begins in a row.
  const int64_t* steps;
  int64_t step_count;
  PanelNumbers numbers;
  bool a_is_first, b_is_first;  // first parts are all
  const uint16_t* b;
  int64_t b_half;   // as in PanelInParts; the next panel is two of them away
  int64_t columns;  // of a panel that are there
  bool begins;      // sums begin at 0, not at what is there
  float* sums;      // panel_columns a row
  // What is split meanwhile, of the same kind; k is 0: nothing.
  PanelInParts next;
  int64_t panels = 1;
};

struct Amx {
  Split (*split_rows)(const RowsInParts& rows);
  Split (*split_panel)(const PanelInParts& panel, PanelNumbers numbers);
  // The same of `next`.
  Split (*multiply)(const AmxTile& tile);
};

// Parts of them that are written.
constexpr int64_t parts_of(PanelNumbers numbers) { return numbers == PanelNumbers::bf16 ? 1 : part_count; }

extern const Amx amx_loops;

// Null where this CPU, its system, or what oneDNN is allowed to use (ONEDNN_MAX_CPU_ISA) has none.
const Amx* amx();

}  // namespace atenon::kernels
