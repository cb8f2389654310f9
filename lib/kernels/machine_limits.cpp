// See machine_limits.h. Both are measured with loops that kernels use, so what they reach is what a kernel could.
#include "kernels/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

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

double measure_flops() {
  constexpr int64_t rows = 96, k = 256, products = 100;
  const std::vector<float> a(rows * k, 1.0f), b(k * panel_columns, 1.0f);
  std::vector<std::vector<float>> sums(threads(), std::vector<float>(rows * panel_columns));
  const double seconds = least_seconds(10, [&](int64_t thread) {
    float* y = sums[thread].data();
    for (int64_t i = 0; i < products; ++i)
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
  return 2.0 * rows * k * panel_columns * products * threads() / seconds;
}

double measure_bytes() {
  constexpr int64_t columns = 1024, rows = 32 * 1024;  // 128 MiB: beyond most caches
  const std::vector<float> x(columns, 1.0f), matrix(rows * columns, 1.0f);
  std::vector<float> y(rows);
  const int64_t part = rows / threads();
  const double seconds = least_seconds(4, [&](int64_t thread) {
    lanes().dots(x.data(), 0, 1, matrix.data() + thread * part * columns, columns, part, columns,
                 y.data() + thread * part, 0);
  });
  return static_cast<double>(part * threads() * columns) * sizeof(float) / seconds;
}

}  // namespace

Limits measure_limits() { return {threads(), measure_flops(), measure_bytes()}; }

}  // namespace atenon::kernels
