// Scalar operations over arrays, compiled once for each vector width and chosen by the CPU at hand.
//
// They are the frequent ones of opset/scalar_values.h, with the same bits: IEEE operations only, never contracted, each
// function computed in double and rounded. The loops are in vector_ops_loops.h; vector_ops_avx512.cpp,
// vector_ops_avx2.cpp and vector_ops_portable.cpp are compiled for their instruction set, so they must not instantiate
// anything that others could share.
#pragma once

#include <cstdint>

#include "opset/meaning.h"

namespace atenon::reference {

struct VectorOps {
  // out[i] = op(a[i], b[i]); b is a where op takes one operand. False where there is no loop for op, or not for these
  // elements; what is in `out` is then worth nothing.
  bool (*of_singles)(opset::ScalarOp op, const float* a, const float* b, float* out, int n);
  bool (*of_doubles)(opset::ScalarOp op, const double* a, const double* b, double* out, int n);
  bool (*tests_of_singles)(opset::ScalarOp op, const float* a, const float* b, int64_t* out, int n);
  bool (*tests_of_doubles)(opset::ScalarOp op, const double* a, const double* b, int64_t* out, int n);
  bool (*tests_of_integers)(opset::ScalarOp op, const int64_t* a, const int64_t* b, int64_t* out, int n);
  // out[i] = chooses[i] ? a[i] : b[i]
  void (*choose_singles)(const int64_t* chooses, const float* a, const float* b, float* out, int n);
  void (*choose_words)(const int64_t* chooses, const int64_t* a, const int64_t* b, int64_t* out, int n);
  void (*widen)(const float* from, double* to, int n);
  void (*narrow)(const double* from, float* to, int n);
  void (*add_to)(double* totals, const double* elements, int n);
  // totals[i] += factors[k] * rows[k * stride + i], in order of k < count. `factors` were floats, too.
  void (*add_products)(double* totals, const double* factors, const float* rows, int64_t stride, int64_t count, int n);
  // best[i] = the larger (smaller) of the two; a NaN wins.
  void (*raise_to)(double* best, const double* elements, int n);
  void (*lower_to)(double* best, const double* elements, int n);
};

extern const VectorOps vector_ops_portable;
extern const VectorOps vector_ops_avx2;
extern const VectorOps vector_ops_avx512;  // AVX-512 F, BW, DQ, VL

// The widest that this CPU has.
const VectorOps& vector_ops();

}  // namespace atenon::reference
