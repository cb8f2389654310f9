// Operators as generated code against the reference interpreter, over sizes known only when the kernel runs.
#include "lower/lower.h"

#include <cmath>
#include <cstring>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "lower/generate.h"
#include "lower/lowering.h"
#include "lower/run_kernel.h"
#include "reference/reference.h"
#include "text/text.h"

namespace atenon::lower {
namespace {

struct Case {
  const char* inputs;  // as in the text form
  const char* nodes;
  const char* result;
  bool reads_base = false;  // a scatter, for what it writes or where
};

// Nodes that together make one kernel.
const Case cases[] = {
    {"%x: f32[n, 5], %y: f32[5]", "%r: f32[n, 5] = aten::add.Tensor(%x, %y, alpha=2)", "%r"},
    {"%x: f32[n, 1, 5], %y: f32[4, 1]", "%r: f32[n, 4, 5] = aten::mul.Tensor(%x, %y)", "%r"},
    {"%x: i64[n, 5], %y: i64[5]", "%r: i64[n, 5] = aten::sub.Tensor(%x, %y)", "%r"},
    {"%x: i32[n, 5]", "%r: f32[n, 5] = aten::div.Tensor(%x, 4)", "%r"},
    {"%x: f16[n, 7], %y: f16[7]", "%r: f16[n, 7] = aten::mul.Tensor(%x, %y)", "%r"},
    {"%x: bf16[n, 7]", "%r: bf16[n, 7] = aten::gelu(%x)", "%r"},
    {"%x: f64[n, 7]", "%r: f64[n, 7] = aten::exp(%x)", "%r"},
    {"%x: u8[n, 7], %y: u8[7]", "%r: bool[n, 7] = aten::lt.Tensor(%x, %y)", "%r"},
    {"%x: f32[n, 7]",
     "%g: f32[n, 7] = aten::gelu(%x, approximate=\"tanh\")\n    %r: f32[n, 7] = aten::mul.Tensor(%g, %x)", "%r"},
    {"%x: f32[n, 3, 7]", "%r: f32[n, 3, 7] = aten::_softmax(%x, -1, false)", "%r"},
    {"%x: f32[n, 3, 7]", "%r: f32[n, 3, 7] = aten::_softmax(%x, 1, false)", "%r"},
    {"%x: f32[3, n]", "%r: f32[3, n] = aten::_softmax(%x, 1, false)", "%r"},
    // Across memory: lanes in even blocks, with a rest, and of a symbolic number.
    {"%x: f32[n, 9, 96]", "%r: f32[n, 9, 96] = aten::_softmax(%x, 1, false)", "%r"},
    {"%x: f32[n, 9, 2]", "%r: f32[n, 9, 2] = aten::_softmax(%x, 1, false)", "%r"},
    {"%x: f32[n, 9, 14]", "%r: f32[n, 9, 14] = aten::_softmax(%x, 1, false)", "%r"},
    {"%x: f32[n, 9, 26]", "%r: f32[n, 9, 26] = aten::_softmax(%x, 1, false)", "%r"},
    {"%x: f32[n, 9, 3]", "%r: f32[n, 9, 3] = aten::cumsum(%x, 1)", "%r"},
    {"%x: f32[n, 11, 5]", "%v: f32[n, 5], %r: i64[n, 5] = aten::max.dim(%x, 1)", "%r"},
    {"%x: f32[6, 3], %i: i64[n], %y: f32[n, 3]", "%r: f32[6, 3] = aten::index_add(%x, 0, %i, %y)", "%r"},
    {"%x: f32[2, 9, 101]", "%r: f32[2, 1, 101] = aten::var.correction(%x, [1], correction=1, keepdim=true)", "%r"},
    {"%x: f32[12, 5*n]", "%r: f32[12, 5*n] = aten::_softmax(%x, 0, false)", "%r"},
    {"%x: f32[n, 11, 70]", "%v: f32[n, 70], %r: i64[n, 70] = aten::max.dim(%x, 1)", "%r"},
    {"%x: f16[n, 9, 96]", "%r: f16[n, 96] = aten::amax(%x, [1])", "%r"},
    {"%x: f32[n, 33], %w: f32[33], %b: f32[33]", "%r: f32[n, 33] = aten::layer_norm(%x, [33], %w, %b, 1e-05)", "%r"},
    {"%x: f32[n, 4, 6]", "%r: f32[n, 1, 6] = aten::mean.dim(%x, [1], true)", "%r"},
    {"%x: f32[n, 4, 6]", "%r: f32[4] = aten::sum.dim_IntList(%x, [0, 2])", "%r"},
    {"%x: f32[n, 9]", "%v: f32[n], %r: i64[n] = aten::max.dim(%x, 1)", "%r"},
    {"%x: f32[n, 9]", "%r: f32[n] = aten::amax(%x, [1])", "%r"},
    {"%x: bool[n, 9]", "%r: bool[n] = aten::any.dim(%x, 1)", "%r"},
    {"%x: f32[n, 4, 6]", "%r: f32[6, n, 4] = aten::permute(%x, [2, 0, 1])", "%r"},
    {"%x: f32[n, 4, 6]",
     "%p: f32[4, n, 6] = aten::permute(%x, [1, 0, 2])\n    %r: f32[4, 6*n] = aten::view(%p, [4, 6*n])", "%r"},
    {"%x: f32[n, 4], %y: f32[n, 2]", "%r: f32[n, 6] = aten::cat([%x, %y], 1)", "%r"},
    {"%x: f32[n, 4], %y: f32[3, 4]", "%r: f32[n + 3, 4] = aten::cat([%x, %y])", "%r"},
    {"%x: f32[n, 4]", "%r: f32[n + 3, 7] = aten::constant_pad_nd(%x, [1, 2, 0, 3], 9.5)", "%r"},
    {"%x: f32[n, 6]", "%r: f32[n, 2] = aten::slice.Tensor(%x, 1, 1, 5, 2)", "%r"},
    {"%x: f32[n, 6]", "%r: f32[n, 6] = aten::flip(%x, [1])", "%r"},
    {"%x: f32[7, 6], %i: i64[n]", "%r: f32[n, 6] = aten::index_select(%x, 0, %i)", "%r"},
    {"%x: f32[7, 6], %i: i64[n, 2]", "%r: f32[n, 2, 6] = aten::embedding(%x, %i)", "%r"},
    {"%x: f32[n, 6, 5], %i: i64[2], %y: f32[n, 2, 5]", "%r: f32[n, 6, 5] = aten::index_copy(%x, 1, %i, %y)", "%r"},
    {"%x: f32[6, 5], %i: i64[n], %y: f32[n, 5]", "%r: f32[6, 5] = aten::index_add(%x, 0, %i, %y)", "%r"},
    {"%x: f32[6, 5], %i: i64[6]", "%r: f32[6, 5] = aten::index_add(%x, 0, %i, %x)", "%r", true},
    {"%x: i64[6], %y: i64[6]", "%r: i64[6] = aten::index_put(%x, [%x], %y, true)", "%r", true},
    {"%x: f32[4, 6], %i: i64[6]",
     "%w: f32[6] = aten::select.int(%x, 0, 1)\n    %p: f32[6] = aten::index_put(%w, [%i], %w)\n"
     "    %r: f32[4, 6] = aten::select_scatter(%x, %p, 0, 1)",
     "%r", true},
    {"%x: f32[4, 6], %i: i64[n], %y: f32[n]",
     "%w: f32[6] = aten::select.int(%x, 0, 1)\n    %p: f32[6] = aten::index_put(%w, [%i], %y)\n"
     "    %r: f32[4, 6] = aten::select_scatter(%x, %p, 0, 1)",
     "%r"},
    {"%x: f32[6, 70], %i: i64[n], %y: f32[n, 70]", "%r: f32[6, 70] = aten::index_add(%x, 0, %i, %y)", "%r"},
    {"%x: f32[2, 6, n], %i: i64[9], %y: f32[2, 9, n]", "%r: f32[2, 6, n] = aten::index_add(%x, 1, %i, %y)", "%r"},
    {"%x: f32[6, 21], %i: i64[n, 21], %y: f32[n, 21]", "%r: f32[6, 21] = aten::scatter_add(%x, 0, %i, %y)", "%r"},
    {"%x: f32[n, 3, 8, 8]",
     "%r: f32[n, 3, 4, 4], %i: i64[n, 3, 4, 4] = aten::max_pool2d_with_indices(%x, [3, 3], [2, 2], [1, 1])", "%r"},
    {"%x: f32[n, 3, 8, 8]", "%r: f32[n, 3, 4, 4] = aten::avg_pool2d(%x, [2, 2])", "%r"},
    {"%x: f32[n, 3, 4, 4]", "%r: f32[n, 3, 8, 8] = aten::upsample_bilinear2d.vec(%x, None, false, [2.0, 2.0])", "%r"},
    // What does not depend on a loop is kept for its turns: parts with a rest, few rows, one value for all, and
    // choices.
    {"%x: f32[n, 5, 7, 6], %y: f32[n, 9, 37, 2]", "%r: f32[n, 5, 9, 37] = aten::grid_sampler(%x, %y, 0, 1, false)",
     "%r"},
    {"%x: f32[2, 4, 7, 6], %y: f32[2, n, 21, 2]", "%r: f32[2, 4, n, 21] = aten::grid_sampler(%x, %y, 2, 0, true)",
     "%r"},
    {"%x: f32[0, 4, 7, 6], %y: f32[0, 9, 37, 2]", "%r: f32[0, 4, 9, 37] = aten::grid_sampler(%x, %y, 0, 0, true)",
     "%r"},
    {"%x: f32[n, 6, 530], %y: f32[530]",
     "%e: f32[530] = aten::exp(%y)\n    %r: f32[n, 6, 530] = aten::mul.Tensor(%x, %e)", "%r"},
    {"%x: f32[n, 2, 40], %y: f32[n, 1, 40]",
     "%s: f32[n, 1, 40] = aten::sin(%y)\n    %c: f32[n, 1, 40] = aten::cos(%y)\n"
     "    %m: f32[n, 2, 40] = aten::mul.Tensor(%x, %s)\n    %r: f32[n, 2, 40] = aten::sub.Tensor(%m, %c)",
     "%r"},
    // Reads that come round or turn back, stretch by stretch; stretches that are too short for what they compute.
    {"%x: f32[n, 40]", "%r: f32[n, 40] = aten::roll(%x, [5], [1])", "%r"},
    {"%x: f32[n, 60]", "%r: f32[n, 66] = aten::pad(%x, [3, 3], \"reflect\")", "%r"},
    {"%x: f32[n, 40]", "%r: f32[n, 43] = aten::pad(%x, [1, 2], \"replicate\")", "%r"},
    {"%x: f32[n, 40]", "%r: f32[n, 63] = aten::pad(%x, [20, 3], \"circular\")", "%r"},
    {"%x: f32[n, 40]", "%f: f32[n, 40] = aten::flip(%x, [1])\n    %r: f32[n, 41] = aten::pad(%f, [2, -1], \"reflect\")",
     "%r"},
    {"%x: f32[n, 40]", "%p: f32[n, 46] = aten::pad(%x, [3, 3], \"reflect\")\n    %r: f32[n, 46] = aten::tanh(%p)",
     "%r"},
    {"%x: f32[n, 20], %y: f32[n, 40]",
     "%t: f32[n, 60] = aten::repeat(%x, [1, 3])\n    %c: f32[n, 100] = aten::cat([%t, %y], 1)\n"
     "    %r: f32[n, 100] = aten::roll(%c, [-30], [1])",
     "%r"},
    // The same along a size, smaller and larger than shifts and borders.
    {"%x: f32[4, n]", "%r: f32[4, n] = aten::roll(%x, [5], [1])", "%r"},
    {"%x: f32[n, 2*n]", "%l: f32[n, 2*n] = aten::roll(%x, [2, -1], [0, 1])\n    %r: f32[n, 2*n] = aten::tanh(%l)",
     "%r"},
    {"%x: f32[3, n + 3]", "%r: f32[3, n + 8] = aten::pad(%x, [3, 2], \"reflect\")", "%r"},
    {"%x: f32[3, n + 3]",
     "%f: f32[3, n + 3] = aten::flip(%x, [1])\n    %r: f32[3, n + 4] = aten::pad(%f, [2, -1], \"reflect\")", "%r"},
    {"%x: f32[n, n]", "%r: f32[n + 1, n + 23] = aten::pad(%x, [20, 3, 0, 1], \"replicate\")", "%r"},
    {"%x: f32[3, n + 4]", "%r: f32[3, n + 11] = aten::pad(%x, [5, 2], \"circular\")", "%r"},
    {"%x: f32[3, n]", "%t: f32[3, 3*n] = aten::repeat(%x, [1, 3])\n    %r: f32[3, 3*n] = aten::roll(%t, [-7], [1])",
     "%r"},
    {"%x: f32[3, n], %y: f32[3, 2*n], %z: f32[3, 4]",
     "%c: f32[3, 3*n + 4] = aten::cat([%x, %y, %z], 1)\n    %r: f32[3, 3*n + 4] = aten::roll(%c, [4], [1])", "%r"},
    {"%x: f32[4, n]", "%r: f32[7, n + 3] = aten::constant_pad_nd(%x, [1, 2, 0, 3], 9.5)", "%r"},
    {"%x: f32[n, n + 2]", "%r: f32[n, n + 2] = aten::tril(%x, 1)", "%r"},
    {"%x: f32[5, 2*n]", "%r: f32[5, 2*n] = aten::triu(%x, 2)", "%r"},
    // Loops over quotients and rests of a size.
    {"%x: f32[n, 8, 3, n]", "%r: f32[n, 2, 6, 2*n] = aten::pixel_shuffle(%x, 2)", "%r"},
    {"%x: f32[2, 3, 5, n]", "%r: f32[2, 27, 5*n] = aten::im2col(%x, [3, 3], [1, 1], [1, 1], [1, 1])", "%r"},
    {"%x: f32[2, 3, 5, n]",
     "%p: f32[2, 5, n, 3] = aten::permute(%x, [0, 2, 3, 1])\n    %v: f32[2, 15*n] = aten::view(%p, [2, 15*n])\n"
     "    %r: f32[2, 15*n] = aten::roll(%v, [2], [1])",
     "%r"},
    {"%x: f32[n, 9]", "%r: f32[n, 9] = aten::cumsum(%x, 1)", "%r"},
    {"%x: i64[n, 9, 2]", "%r: i64[n, 9, 2] = aten::cumsum(%x, 1)", "%r"},
    {"%x: f32[n, 4], %y: f32[4, 3]", "%r: f32[n, 3] = aten::mm(%x, %y)", "%r"},
    // Rows with a rest that fills no vector: kept values, guards, places, other types.
    {"%x: f32[n, 39]", "%r: f32[n, 39] = aten::_softmax(%x, 1, false)", "%r"},
    {"%x: f32[n, 60]", "%r: f32[n, 60] = aten::layer_norm(%x, [60], None, None)", "%r"},
    {"%x: f32[n, 105]", "%r: f32[n] = aten::nansum(%x, [1])", "%r"},
    {"%x: f32[n, 105], %y: f32[105]",
     "%c: bool[n, 105] = aten::gt.Tensor(%x, %y)\n    %r: bool[n] = aten::any.dim(%c, 1)", "%r"},
    {"%x: i32[n, 39]", "%m: i32[n], %r: i64[n] = aten::max.dim(%x, 1)", "%r"},
    {"%x: f64[n, 119]", "%r: f64[n] = aten::sum.dim_IntList(%x, [1])", "%r"},
    {"%x: f16[n, 119]", "%r: f16[n] = aten::amax(%x, [1])", "%r"},
    {"%x: f32[n, 520]", "%e: f32[n, 520] = aten::exp(%x)\n    %r: f32[n] = aten::amin(%e, [1])", "%r"},
    // Tiny reductions in a loop that is no row, of pairs and of small matrices.
    {"%x: f32[n, 1, 3], %y: f32[40, 3]",
     "%d: f32[n, 40, 3] = aten::sub.Tensor(%x, %y)\n    %r: f32[n, 40] = aten::linalg_vector_norm(%d, 2.0, [-1])",
     "%r"},
    {"%x: f32[n, 1, 3], %y: f32[2100, 3]",
     "%d: f32[n, 2100, 3] = aten::sub.Tensor(%x, %y)\n    %r: f32[n, 2100] = aten::linalg_vector_norm(%d, 2.0, [-1])",
     "%r"},
    {"%x: f32[n, 4, 4], %y: f32[n, 4, 3]", "%r: f32[n, 4, 3] = aten::bmm(%x, %y)", "%r"},
    {"%x: f32[n, 5, 4]",
     "%s: f32[n, 1, 4] = aten::amax(%x, [1], true)\n    %d: f32[n, 5, 4] = aten::sub.Tensor(%x, %s)\n"
     "    %r: f32[n, 5] = aten::sum.dim_IntList(%d, [2])",
     "%r"},
    {"%x: f64[n, 7]", "%r: f64[n, 7] = aten::gelu(%x)", "%r"},
    {"%x: f64[n, 7]", "%s: f64[n, 7] = aten::sin(%x)\n    %r: f64[n, 7] = aten::erfc(%s)", "%r"},
    // Each element adds up as many terms as it says.
    {"%x: f64[n, 7], %y: f64[7]", "%r: f64[n, 7] = aten::special_zeta(%x, %y)", "%r"},
    // Complex elements are pairs.
    {"%x: c64[n, 5], %y: c64[5]", "%r: c64[n, 5] = aten::mul.Tensor(%x, %y)", "%r"},
    {"%x: c64[n, 5], %y: f32[5]", "%r: c64[n, 5] = aten::add.Tensor(%x, %y, alpha=2)", "%r"},
    {"%x: c64[n, 5], %y: c64[n, 1]", "%r: c64[n, 5] = aten::div.Tensor(%x, %y)", "%r"},
    {"%x: c64[n, 5]", "%e: c64[n, 5] = aten::exp(%x)\n    %r: f32[n, 5] = aten::abs(%e)", "%r"},
    {"%x: c64[n, 5]", "%r: c64[n, 5] = aten::sqrt(%x)", "%r"},
    {"%x: c64[n, 5]", "%r: c64[n, 5] = aten::tanh(%x)", "%r"},
    {"%x: c64[n, 5], %y: c64[n, 5]", "%r: bool[n, 5] = aten::eq.Tensor(%x, %y)", "%r"},
    {"%x: c64[n, 4, 6]", "%r: c64[n, 1, 6] = aten::mean.dim(%x, [1], true)", "%r"},
    {"%x: c64[n, 2, 96]", "%r: c64[n, 96] = aten::prod.dim_int(%x, 1)", "%r"},
    {"%x: c64[n, 9]", "%r: c64[n, 9] = aten::cumsum(%x, 1)", "%r"},
    {"%x: c64[n, 4], %y: c64[4, 3]", "%r: c64[n, 3] = aten::mm(%x, %y)", "%r"},
    {"%x: c64[n, 4, 6]", "%p: c64[6, n, 4] = aten::permute(%x, [2, 0, 1])\n    %r: c64[6, n, 4] = aten::neg(%p)", "%r"},
    {"%x: c64[n, 6]", "%r: f32[n, 6, 2] = aten::view_as_real(%x)", "%r"},
    {"%x: c64[n, 3, 6], %y: c64[6]",
     "%m: c64[n, 3, 6] = aten::mul.Tensor(%x, %y)\n    %p: c64[3, n, 6] = aten::permute(%m, [1, 0, 2])\n"
     "    %v: f32[3, n, 6, 2] = aten::view_as_real(%p)\n    %f: f32[3, n, 12] = aten::flatten.using_ints(%v, 2)\n"
     "    %r: f32[3, n, 12] = aten::cumsum(%f, 2)",
     "%r"},
    {"%x: f32[n, 2, 6]",
     "%e: f32[n, 2, 6] = aten::exp(%x)\n    %p: f32[n, 6, 2] = aten::permute(%e, [0, 2, 1])\n"
     "    %c: c64[n, 6] = aten::view_as_complex(%p)\n    %r: c64[n, 6] = aten::cumsum(%c, 1)",
     "%r"},
    {"%x: f32[n, 12], %y: c64[6, 4]",
     "%e: f32[n, 12] = aten::exp(%x)\n    %p: f32[n, 6, 2] = aten::view(%e, [n, 6, 2])\n"
     "    %c: c64[n, 6] = aten::view_as_complex(%p)\n    %r: c64[n, 4] = aten::mm(%c, %y)",
     "%r"},
    {"%x: f32[n, 6, 2]", "%c: c64[n, 6] = aten::view_as_complex(%x)\n    %r: c64[n, 6] = aten::conj_physical(%c)",
     "%r"},
    {"%x: c64[7, 6], %i: i64[n]", "%r: c64[n, 6] = aten::index_select(%x, 0, %i)", "%r"},
    {"%x: c64[6, 5], %i: i64[n], %y: c64[n, 5]", "%r: c64[6, 5] = aten::index_add(%x, 0, %i, %y)", "%r"},
    {"%x: c64[n, 4], %y: c64[n, 2]", "%r: c64[n, 6] = aten::cat([%x, %y], 1)", "%r"},
};

// The same memory, its complex elements as pairs.
Tensor real_parts(Tensor tensor) {
  if (!is_complex(tensor.dtype)) return tensor;
  tensor.dtype = ScalarType::f32;
  tensor.sizes.push_back(2);
  tensor.strides = contiguous_strides(tensor.sizes);
  return tensor;
}

Tensor random_tensor(const ir::TensorMeta& meta, const shape::Bindings& symbols, int seed) {
  std::vector<int64_t> sizes;
  for (const SymInt& size : meta.sizes) sizes.push_back(*shape::evaluate(size, symbols));
  const Tensor whole = Tensor::empty(meta.dtype, sizes);
  Tensor tensor = real_parts(whole);
  uint64_t state = static_cast<uint64_t>(seed) * 977 + 12345;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int64_t draw = static_cast<int64_t>(state >> 40);
    if (is_floating(tensor.dtype))
      tensor.set(i, static_cast<double>(draw % 2001 - 1000) / 250);
    else
      tensor.set_int(i, meta.dtype == ScalarType::boolean ? draw % 2 : draw % 6);
  }
  return whole;
}

double tolerance(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::f16:
      return 2e-3;  // one unit in the last place: a sum in another order may round the other way
    case ScalarType::bf16:
      return 1.6e-2;
    case ScalarType::f64:
      return 1e-14;
    default:
      return 4e-6;  // sums of up to 33 terms, and functions within 4 units in the last place
  }
}

// A case as a program and as loops.
struct Lowered {
  ir::ExportedProgram program;
  ir::Graph original;
  Loops loops;
  shape::Facts facts;
};

std::unique_ptr<Lowered> lowered(const opset::Opset& opset, const Case& item) {
  std::string text = "program 1.0\nopset \"aten\" 1\n\nentry \"forward\"\n  symbol n: 1..64 hint 17\n";
  const std::string inputs = item.inputs;
  std::string tree;
  for (size_t at = inputs.find('%'); at != std::string::npos; at = inputs.find('%', at + 1)) {
    const std::string name = inputs.substr(at + 1, inputs.find(':', at) - at - 1);
    text += "  input %" + name + ": user_input \"" + name + "\"\n";
    tree += (tree.empty() ? "" : ", ") + name + ": *";
  }
  text += "  output user_output \"0\"\n  input_tree (" + tree + ")\n  output_tree *\n  graph(" + inputs + ")\n    " +
          item.nodes + "\n    return (" + item.result + ")\n";
  Result<ir::ExportedProgram> program = text::parse(text, "case");
  REQUIRE_MESSAGE(bool(program), (program ? "" : program.failure().render("test")));
  auto found = std::make_unique<Lowered>();
  found->program = std::move(*program);
  ir::EntryPoint& entry = found->program.entries[0];
  found->original = entry.variants[0].graph.clone();
  Options options;
  KernelLibrary library;
  Lowering lowering{opset, options, library, found->program, entry, entry.variants[0]};
  lowering.facts = entry.facts(entry.variants[0]);
  Result<void> expanded = expand_composites(lowering);
  REQUIRE_MESSAGE(bool(expanded), (expanded ? "" : expanded.failure().render("test")));
  Result<Loops> loops = compose(
      entry.variants[0].graph,
      [&](const ir::Node& node) { return lowering.meanings.count(&node) ? &lowering.meanings.at(&node) : nullptr; },
      [](const ir::Value& value) { return row_major(value.meta().sizes); }, lowering.facts, {{"n", 17}});
  REQUIRE_MESSAGE(bool(loops), (loops ? "" : loops.failure().message));
  found->loops = std::move(*loops);
  found->facts = lowering.facts;
  return found;
}

TEST_CASE("generated code computes what the operators mean") {
  Result<std::unique_ptr<opset::Opset>> opset = opset::Opset::load("opsets");
  REQUIRE(bool(opset));
  for (const Case& item : cases) {
    CAPTURE(std::string(item.nodes));
    const std::unique_ptr<Lowered> found = lowered(**opset, item);
    const ir::Graph& original = found->original;
    for (int64_t n : {1, 3, 17}) {
      const shape::Bindings symbols = {{"n", n}};
      std::vector<reference::Datum> operands;
      std::vector<void*> buffers;
      int seed = 0;
      for (const auto& input : original.inputs()) operands.push_back(random_tensor(input->meta(), symbols, ++seed));
      for (reference::Datum& operand : operands) buffers.push_back(std::get<Tensor>(operand).mutable_data());
      Result<std::vector<reference::Datum>> expected = reference::run(**opset, original, {}, operands, symbols);
      REQUIRE_MESSAGE(bool(expected), (expected ? "" : expected.failure().render("test")));
      const Tensor wanted = real_parts(std::get<Tensor>((*expected)[0]).contiguous());
      Tensor result = Tensor::empty(wanted.dtype, wanted.sizes);
      buffers.push_back(result.mutable_data());
      const auto check_run = [&] {
        testing::run_kernel(found->loops, buffers, symbols);
        double worst = 0;
        for (int64_t i = 0; i < wanted.numel(); ++i)
          worst = std::max(
              worst, std::abs(result.float_at(i) - wanted.float_at(i)) / std::max(1.0, std::abs(wanted.float_at(i))));
        CHECK_MESSAGE(worst <= (is_floating(wanted.dtype) ? tolerance(wanted.dtype) : 0), "n = ", n, ", off by ",
                      worst);
      };
      check_run();
      if (!found->loops.scatter) continue;
      // Again with the base where the result will be, unless what is written is read from it.
      const int base = base_of_scatter(found->loops);
      REQUIRE((base < 0) == item.reads_base);
      if (base < 0) continue;
      std::memcpy(result.mutable_data(), buffers[base], result.nbytes());
      buffers[base] = result.mutable_data();
      check_run();
    }
  }
}

// Loops inside of rows; with 16 numbers in a vector.
int64_t loops_in(const Loops& loops) {
  llvm::LLVMContext context;
  llvm::Module module("case", context);
  REQUIRE(bool(generate(module, loops, "k", 16)));
  int64_t count = 0;
  for (const llvm::Function& function : module)
    for (const llvm::BasicBlock& block : function) count += block.getName().starts_with("loop");
  return count;
}

TEST_CASE("loops run in stretches where that makes them wide, and rows leave the last loop to tiny reductions") {
  struct Shape {
    Case item;
    size_t rows;    // loops of the domain that are rows
    int64_t loops;  // in the code of a row
  };
  const Shape shapes[] = {
      {{"%x: f32[n, 40]", "%r: f32[n, 40] = aten::roll(%x, [5], [1])", "%r"}, 1, 2},
      {{"%x: f32[n, 60]", "%r: f32[n, 66] = aten::pad(%x, [3, 3], \"reflect\")", "%r"}, 1, 3},
      {{"%x: f32[n, 40]", "%r: f32[n, 46] = aten::pad(%x, [3, 3], \"reflect\")", "%r"}, 1, 3},
      {{"%x: f32[n, 40]", "%p: f32[n, 46] = aten::pad(%x, [3, 3], \"reflect\")\n    %r: f32[n, 46] = aten::tanh(%p)",
        "%r"},
       1,
       2},  // too short for what they compute: without the turns that fill no vector
      {{"%x: f32[n, 20*n]", "%r: f32[n, 20*n] = aten::roll(%x, [5], [1])", "%r"}, 1, 2},
      {{"%x: f32[n, 20*n]", "%r: f32[n, 20*n + 6] = aten::pad(%x, [3, 3], \"reflect\")", "%r"}, 1, 4},
      {{"%x: f32[n, 8, 3, n]", "%r: f32[n, 2, 6, 2*n] = aten::pixel_shuffle(%x, 2)", "%r"}, 4, 2},
      {{"%x: f32[n, 3], %y: f32[n, 2], %z: f32[n, 3]", "%r: f32[n, 8] = aten::cat([%x, %y, %z], 1)", "%r"}, 1, 3},
      {{"%x: f32[n, 60], %y: f32[60]", "%m: f32[n, 60] = aten::mul.Tensor(%x, %y)\n    %r: f32[n, 60] = aten::tanh(%m)",
        "%r"},
       1,
       2},
      {{"%x: f32[n, 64], %y: f32[64]", "%m: f32[n, 64] = aten::mul.Tensor(%x, %y)\n    %r: f32[n, 64] = aten::tanh(%m)",
        "%r"},
       1,
       1},
      {{"%x: f32[n, 100]", "%r: f32[n, 1] = aten::amax(%x, [1], true)", "%r"}, 1, 2},
      {{"%x: f32[n, 60]", "%r: f32[n, 1] = aten::amax(%x, [1], true)", "%r"}, 1, 1},  // too cheap
      {{"%x: f32[n, 1, 3], %y: f32[40, 3]",
        "%d: f32[n, 40, 3] = aten::sub.Tensor(%x, %y)\n    %r: f32[n, 40] = aten::linalg_vector_norm(%d, 2.0, [-1])",
        "%r"},
       1,
       2},
      {{"%x: f32[n, 1, 3], %y: f32[2100, 3]",
        "%d: f32[n, 2100, 3] = aten::sub.Tensor(%x, %y)\n    %r: f32[n, 2100] = aten::linalg_vector_norm(%d, 2.0, "
        "[-1])",
        "%r"},
       2,
       2},
      {{"%x: f32[n, 1, 30], %y: f32[40, 30]",
        "%d: f32[n, 40, 30] = aten::sub.Tensor(%x, %y)\n    %r: f32[n, 40] = aten::linalg_vector_norm(%d, 2.0, [-1])",
        "%r"},
       2,
       2},
  };
  Result<std::unique_ptr<opset::Opset>> opset = opset::Opset::load("opsets");
  REQUIRE(bool(opset));
  for (const Shape& shape : shapes) {
    CAPTURE(std::string(shape.item.nodes));
    const std::unique_ptr<Lowered> found = lowered(**opset, shape.item);
    CHECK(found->loops.rows == shape.rows);
    CHECK(loops_in(found->loops) == shape.loops);
  }
}

TEST_CASE("what is kept for a later loop is known to lie apart, also where its elements are of other sizes") {
  Result<std::unique_ptr<opset::Opset>> opset = opset::Opset::load("opsets");
  REQUIRE(bool(opset));
  const Case kept = {"%x: f32[n, 64, 8]",
                     "%e: f32[n, 64, 8] = aten::exp(%x)\n"
                     "    %w: f64[n, 64, 8] = aten::_to_copy(%x, dtype=f64)\n"
                     "    %p: f64[n, 64, 8] = aten::exp(%w)\n"
                     "    %s: f32[n, 1, 8] = aten::sum.dim_IntList(%e, [1], true)\n"
                     "    %q: f64[n, 1, 8] = aten::sum.dim_IntList(%p, [1], true)\n"
                     "    %a: f32[n, 64, 8] = aten::div.Tensor(%e, %s)\n"
                     "    %b: f64[n, 64, 8] = aten::div.Tensor(%p, %q)\n"
                     "    %r: f64[n, 64, 8] = aten::add.Tensor(%a, %b)",
                     "%r"};
  llvm::LLVMContext context;
  llvm::Module module("case", context);
  REQUIRE(bool(generate(module, lowered(**opset, kept)->loops, "k", 16)));
  std::map<const llvm::MDNode*, const llvm::MDNode*> scopes;  // and those that each one has nothing in common with
  for (const llvm::Function& function : module)
    for (const llvm::BasicBlock& block : function)
      for (const llvm::Instruction& instruction : block)
        if (const llvm::AAMDNodes aliases = instruction.getAAMetadata(); aliases.Scope)
          scopes.emplace(aliases.Scope, aliases.NoAlias);
  REQUIRE(scopes.size() == 2);
  int apart = 0;
  for (const auto& [scope, others] : scopes) apart += scopes.contains(others) && others != scope;
  CHECK(apart == 1);
}

}  // namespace
}  // namespace atenon::lower
