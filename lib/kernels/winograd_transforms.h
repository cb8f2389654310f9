// Winograd's F(m x m, 3 x 3) along one axis: m outputs of a filter of 3 from m + 2 pixels, with m + 2 multiplications
// where plain loops need 3 m.
//
//   y = out(filter(g) * in(d)), each a small matrix. in() and out() are here, over vectors of channels or over single
//   numbers; filter() is in winograd_weight.cpp, because it is computed once.
//
// The matrices are Cook's and Toom's for polynomials at m + 1 points and infinity (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015, appendix). m = 2 has the points 0, 1, -1. m = 4 is usually written for 0, 1,
// -1, 2, -2; ours are 0, 5/8, -5/8, 3/2, -3/2: the errors of the sums are half as large, and all entries of both
// transforms of the image are exact in float32.
#pragma once

namespace atenon::kernels {

struct Winograd2 {
  static constexpr int outputs = 2, points = 4;

  // d[0], d[d_step], ... to v[0], v[v_step], ...
  template <class T>
  static inline void in(const T* d, int d_step, T* v, int v_step) {
    const T d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step];
    v[0] = d0 - d2;
    v[v_step] = d1 + d2;
    v[2 * v_step] = d2 - d1;
    v[3 * v_step] = d1 - d3;
  }

  template <class T>
  static inline void out(const T* s, int s_step, T* y, int y_step) {
    y[0] = s[0] + (s[s_step] + s[2 * s_step]);
    y[y_step] = (s[s_step] - s[2 * s_step]) - s[3 * s_step];
  }
};

struct Winograd4 {
  static constexpr int outputs = 4, points = 6;
  static constexpr float a = 0.625f, b = 1.5f;  // the points are 0, a, -a, b, -b and infinity

  template <class T>
  static inline void in(const T* d, int d_step, T* v, int v_step) {
    const T minus_aa = T::all(-a * a), minus_bb = T::all(-b * b), minus_sum = T::all(-(a * a + b * b));
    const T product = T::all(a * a * b * b);
    const T d0 = d[0], d1 = d[d_step], d2 = d[2 * d_step], d3 = d[3 * d_step], d4 = d[4 * d_step], d5 = d[5 * d_step];
    const T even_a = fma(minus_bb, d2, d4), odd_a = T::all(a) * fma(minus_bb, d1, d3);
    const T even_b = fma(minus_aa, d2, d4), odd_b = T::all(b) * fma(minus_aa, d1, d3);
    v[0] = fma(product, d0, fma(minus_sum, d2, d4));
    v[v_step] = even_a + odd_a;
    v[2 * v_step] = even_a - odd_a;
    v[3 * v_step] = even_b + odd_b;
    v[4 * v_step] = even_b - odd_b;
    v[5 * v_step] = fma(product, d1, fma(minus_sum, d3, d5));
  }

  template <class T>
  static inline void out(const T* s, int s_step, T* y, int y_step) {
    const T at_a = s[s_step], at_minus_a = s[2 * s_step], at_b = s[3 * s_step], at_minus_b = s[4 * s_step];
    const T even_a = at_a + at_minus_a, odd_a = at_a - at_minus_a;
    const T even_b = at_b + at_minus_b, odd_b = at_b - at_minus_b;
    y[0] = (s[0] + even_a) + even_b;
    y[y_step] = fma(T::all(a), odd_a, T::all(b) * odd_b);
    y[2 * y_step] = fma(T::all(a * a), even_a, T::all(b * b) * even_b);
    y[3 * y_step] = fma(T::all(a * a * a), odd_a, fma(T::all(b * b * b), odd_b, s[5 * s_step]));
  }
};

}  // namespace atenon::kernels
