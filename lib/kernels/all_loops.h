// All loops over the vector type V that the including file defines, and the table of them.
#pragma once

#include "kernels/lanes_loops.h"
// What builds on them.
#include "kernels/attention_loops.h"
#include "kernels/bilinear_loops.h"
#include "kernels/depthwise_loops.h"
#include "kernels/double_loops.h"
#include "kernels/fourier_loops.h"
#include "kernels/groups_loops.h"
#include "kernels/line_filter_loops.h"
#include "kernels/panel_loops.h"
#include "kernels/pooling_loops.h"
#include "kernels/winograd_loops.h"

namespace {

constexpr Lanes lanes_of(const char* name) {
  return {name,
          V::width,
          has_streams,
          attention_scratch,
          attention,
          dots,
          lstm_cell,
          panel,
          double_panel,
          product,
          row_by_panels,
          finish,
          make_panel,
          turn,
          add_lines,
          filter_lines,
          depthwise,
          set_apart,
          taps,
          grouped,
          in_turn,
          winograd_in,
          winograd_out,
          blend,
          blend_places,
          pool,
          add_rows,
          largest_of_windows,
          transform_lines<float>,
          transform_lines<double>,
          mix_pairs<float>,
          mix_pairs<double>,
          mix_pairs<float, 1>,
          mix_pairs<double, 1>,
          copy_lines<float>,
          copy_lines<double>};
}

}  // namespace
