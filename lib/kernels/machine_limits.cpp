// See machine_limits.h. Both are measured with loops that kernels use, so what they reach is what a kernel could.
#include "kernels/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/amx.h"
#include "kernels/lanes.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

// The fastest of some repetitions: others may use the machine, too.
template <class Work>
double least_seconds(int repetitions, Work work) {
  double least = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads(), work);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

constexpr int64_t rows = 96, k = 256;

// `multiply` adds up a product of so many rows by one panel into the memory that it is given.
template <class Multiply>
double measure_products(Multiply multiply) {
  constexpr int64_t products = 100;
  std::vector<std::vector<float>> sums(threads(), std::vector<float>(rows * panel_columns));
  const double seconds = least_seconds(10, [&](int64_t thread) {
    for (int64_t i = 0; i < products; ++i) multiply(sums[thread].data());
  });
  return 2.0 * rows * k * panel_columns * products * threads() / seconds;
}

double measure_vectors() {
  const std::vector<float> a(rows * k, 1.0f), b(k * panel_columns, 1.0f);
  return measure_products([&](float* y) {
    lanes().panel({.a = a.data(),
                   .a_row = k,
                   .rows = rows,
                   .k = k,
                   .b = b.data(),
                   .columns = panel_columns,
                   .y = y,
                   .y_row = panel_columns,
                   .scratch = y});
  });
}

double measure_amx() {
  constexpr int64_t steps = k / amx_depth, plane = rows * k, half = steps * step_numbers(part_count) / 2;
  struct alignas(64) Row {
    uint16_t parts[amx_depth] = {};
  };
  const std::vector<Row> a(plane * part_count / amx_depth), b(2 * half / amx_depth);
  int64_t blocks[rows / amx_rows], places[steps];
  for (int64_t i = 0; i < rows / amx_rows; ++i) blocks[i] = i * amx_rows * k;
  for (int64_t i = 0; i < steps; ++i) places[i] = i * amx_depth;
  return measure_products([&](float* sums) {
    amx()->multiply({.a = a.front().parts,
                     .a_row = k,
                     .a_plane = plane,
                     .blocks = blocks,
                     .block_count = rows / amx_rows,
                     .block_rows = amx_rows,
                     .steps = places,
                     .step_count = steps,
                     .numbers = PanelNumbers::f32,
                     .b = b.front().parts,
                     .b_half = half,
                     .columns = panel_columns,
                     .begins = true,
                     .sums = sums,
                     .next = {}});
  });
}

double measure_flops() { return amx() ? measure_amx() : measure_vectors(); }

double measure_bytes() {
  constexpr int64_t columns = 1024, rows = 32 * 1024;  // 128 MiB: beyond most caches
  const std::vector<float> x(columns, 1.0f), matrix(rows * columns, 1.0f);
  std::vector<float> y(rows);
  const int64_t part = rows / threads();
  const double seconds = least_seconds(4, [&](int64_t thread) {
    lanes().dots(x.data(), 0, 1, matrix.data() + thread * part * columns, columns, part, columns,
                 y.data() + thread * part, 0, true);
  });
  return static_cast<double>(part * threads() * columns) * sizeof(float) / seconds;
}

}  // namespace

Limits measure_limits() { return {threads(), measure_flops(), measure_bytes()}; }

}  // namespace atenon::kernels
