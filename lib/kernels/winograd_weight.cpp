// What is computed once for a Winograd convolution: its transformed weight, and how large its errors are.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/lanes.h"
#include "kernels/winograd.h"
#include "kernels/winograd_transforms.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

// The filter's side of the transforms: its values at the points, each by the product of the point's distances from the
// other points.
void filter(Winograd2, const double* g, int g_step, double* u, int u_step) {
  const double even = (g[0] + g[2 * g_step]) / 2, odd = g[g_step] / 2;
  u[0] = g[0];
  u[u_step] = even + odd;
  u[2 * u_step] = even - odd;
  u[3 * u_step] = g[2 * g_step];
}

void filter(Winograd4, const double* g, int g_step, double* u, int u_step) {
  constexpr double a = Winograd4::a, b = Winograd4::b, aa = a * a, bb = b * b;
  const double g0 = g[0], g1 = g[g_step], g2 = g[2 * g_step];
  u[0] = g0 / (aa * bb);
  u[u_step] = (g0 + a * g1 + aa * g2) / (2 * aa * (aa - bb));
  u[2 * u_step] = (g0 - a * g1 + aa * g2) / (2 * aa * (aa - bb));
  u[3 * u_step] = (g0 + b * g1 + bb * g2) / (2 * bb * (bb - aa));
  u[4 * u_step] = (g0 - b * g1 + bb * g2) / (2 * bb * (bb - aa));
  u[5 * u_step] = g2;
}

// A number of f32 with the operations of a vector, rounded as a vector's lanes are. A product is exact in double, and
// its sum, rounded to double and then to float, is what fma gives, but for rare ties.
struct Number {
  float v = 0;
  static Number all(float x) { return {x}; }
};
Number operator+(Number a, Number b) { return {a.v + b.v}; }
Number operator-(Number a, Number b) { return {a.v - b.v}; }
Number operator*(Number a, Number b) { return {a.v * b.v}; }
Number fma(Number a, Number b, Number c) {
  return {static_cast<float>(static_cast<double>(a.v) * static_cast<double>(b.v) + static_cast<double>(c.v))};
}

// All points of a filter, row by row.
template <class F>
void transform_filter(const float* g, float* u) {
  constexpr int n = F::points;
  double exact[9], columns[n * 3], points[n * n];
  std::copy(g, g + 9, exact);
  for (int j = 0; j < 3; ++j) filter(F{}, exact + j, 3, columns + j, 3);
  for (int i = 0; i < n; ++i) filter(F{}, columns + i * 3, 1, points + i * n, 1);
  std::copy(points, points + n * n, u);
}

template <class F>
void transform_image(const Number* d, Number* v) {
  constexpr int n = F::points;
  Number columns[n * n];
  for (int j = 0; j < n; ++j) F::in(d + j, n, columns + j, n);
  for (int i = 0; i < n; ++i) F::in(columns + i * n, 1, v + i * n, 1);
}

template <class F>
void transform_sums(const Number* s, Number* y) {
  constexpr int n = F::points, m = F::outputs;
  Number columns[m * n];
  for (int j = 0; j < n; ++j) F::out(s + j, n, columns + j, n);
  for (int i = 0; i < m; ++i) F::out(columns + i * n, 1, y + i * m, 1);
}

template <class F>
void write_weight(const Tensor& weight, float* u) {
  constexpr int64_t points = F::points * F::points;
  const int64_t outputs = weight.sizes[0], channels = weight.sizes[1];
  parallel_for(outputs, [&](int64_t k) {
    float own[points];
    float* panel = u + k / panel_columns * points * channels * panel_columns + k % panel_columns;
    for (int64_t c = 0; c < channels; ++c) {
      transform_filter<F>(weight.as<float>() + (k * channels + c) * 9, own);
      for (int64_t p = 0; p < points; ++p) panel[(p * channels + c) * panel_columns] = own[p];
    }
  });
}

constexpr int64_t sample_tiles = 8, sample_outputs = 16;

template <class F>
WinogradError measure(const Tensor& weight) {
  constexpr int n = F::points, m = F::outputs;
  const int64_t outputs = weight.sizes[0], channels = weight.sizes[1], taken = std::min(outputs, sample_outputs);
  uint32_t state = 1;
  double largest = 0;
  WinogradError error;
  std::vector<Number> image(static_cast<size_t>(channels * n * n)), points(image.size());
  for (int64_t tile = 0; tile < sample_tiles; ++tile) {
    for (Number& pixel : image) {
      state = state * 1664525u + 1013904223u;
      pixel = {static_cast<float>(state >> 8) * 0x1p-23f - 1};
    }
    for (int64_t c = 0; c < channels; ++c) transform_image<F>(&image[c * n * n], &points[c * n * n]);
    for (int64_t i = 0; i < taken; ++i) {
      const float* filters = weight.as<float>() + i * outputs / taken * channels * 9;
      Number sums[n * n], y[m * m], direct[m * m];
      double exact[m * m] = {};
      for (int64_t c = 0; c < channels; ++c) {
        const float* g = filters + c * 9;
        const Number* d = &image[c * n * n];
        float u[n * n];
        transform_filter<F>(g, u);
        for (int p = 0; p < n * n; ++p) sums[p] = fma(points[c * n * n + p], {u[p]}, sums[p]);
        for (int p = 0; p < m * m; ++p)
          for (int k = 0; k < 9; ++k) {
            const Number pixel = d[(p / m + k / 3) * n + p % m + k % 3];
            direct[p] = fma(pixel, {g[k]}, direct[p]);
            exact[p] += static_cast<double>(pixel.v) * static_cast<double>(g[k]);
          }
      }
      transform_sums<F>(sums, y);
      for (int p = 0; p < m * m; ++p) {
        largest = std::max(largest, std::abs(exact[p]));
        error.winograd = std::max(error.winograd, std::abs(static_cast<double>(y[p].v) - exact[p]));
        error.direct = std::max(error.direct, std::abs(static_cast<double>(direct[p].v) - exact[p]));
      }
    }
  }
  if (largest > 0) error = {error.winograd / largest, error.direct / largest};
  return error;
}

}  // namespace

Tensor winograd_weight(const Tensor& weight, int64_t outputs) {
  const Tensor rows = weight.contiguous();
  const int64_t points = (outputs + 2) * (outputs + 2), panels = divide_up(rows.sizes[0], panel_columns);
  Tensor u = Tensor::zeros(ScalarType::f32, {panels, points, rows.sizes[1], panel_columns});
  outputs == 2 ? write_weight<Winograd2>(rows, u.mutable_as<float>())
               : write_weight<Winograd4>(rows, u.mutable_as<float>());
  return u;
}

WinogradError winograd_error(const Tensor& weight, int64_t outputs) {
  const Tensor rows = weight.contiguous();
  return outputs == 2 ? measure<Winograd2>(rows) : measure<Winograd4>(rows);
}

}  // namespace atenon::kernels
