// What a call computes, as loops over scalar expressions: the one form that the reference interpreter, constant folding
// and LLVM code generation all read.
//
// A Meaning is what is left of an operator's block once everything static was evaluated: `when` guards chosen, lists
// and comprehensions unrolled, named functions inlined. It has one loop nest a result (over the result's shape, or over
// a scatter's extent) and scalar expressions in a DAG. Sizes stay symbolic.
//
// Example, aten::add.Tensor(f32[b, 1], i64[3], alpha=2):
//   %0 = index 0            %1 = index 1
//   %2 = read operand 0 at [%0, 0]          f32
//   %3 = read operand 1 at [%1]             i64
//   %4 = cast %3 f32; %5 = constant 2 f32; %6 = mul %5 %4; %7 = add %2 %6
//   result 0: f32[b, 3] = %7
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace atenon::opset {

using ScalarId = int32_t;  // position in Meaning::scalars; operands come before their users
inline constexpr ScalarId no_scalar = -1;

enum class ScalarOp : uint8_t {
  constant,    // `number` / `integer`
  size,        // `size`, an integer over symbols, i64
  size_float,  // `size_float`, a float over symbols, f64
  index,       // loop variable number `variable`, i64
  read,        // element of tensor operand `tensor` at index operands[0..rank), in the tensor's dtype
  cast,        // operands[0] converted to dtype, as C casts; to bool is != 0
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  trunc_div,
  pow,
  neg,
  minimum,
  maximum,  // a NaN operand gives NaN, as PyTorch
  eq,
  ne,
  lt,
  le,  // dtype is bool, operands share a dtype
  logical_and,
  logical_or,
  logical_not,  // lazily: operand 1 is only defined where operand 0 asks for it
  bit_and,
  bit_or,
  bit_not,
  shift_left,
  shift_right,
  bit_xor,
  select,  // operands[0] ? operands[1] : operands[2]; only the chosen one needs to be defined
  // Functions of one float.
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sqrt,
  rsqrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  lgamma,
  digamma,
  abs,
  floor,
  ceil,
  trunc,
  round /* half to even */,
  isnan,
  sigmoid,
  atan2,    // two floats
  complex,  // from its real and imaginary part
  real,
  imag,    // parts of a complex number
  reduce,  // component `component` of reduction number `reduction`
};

const char* name_of(ScalarOp op);

struct Scalar {
  ScalarOp op = ScalarOp::constant;
  ScalarType dtype = ScalarType::f32;  // of the value; floats of 16 bits are computed in f32
  std::vector<ScalarId> operands;
  double number = 0;        // constant, floating
  int64_t integer = 0;      // constant, integral or bool
  ir::SymInt size;          // size
  ir::SymFloat size_float;  // size_float
  int variable = -1;        // index; of a monoid's placeholder its own number, so that each is another scalar
  int tensor = -1;          // read: position in Meaning::tensors
  int reduction = -1;       // reduce
  int component = 0;        // reduce

  bool is_placeholder() const { return op == ScalarOp::constant && variable >= 0; }

  // Of an integer that neither data nor a loop decides, the number.
  std::optional<ir::SymInt> as_size() const;
};

// How partial results join. `joined[c]` is component c of join(a, b), written over the placeholders `left` and `right`
// (reads of component c of the two partial results), which are Scalars of op `constant` that the reader substitutes.
struct Monoid {
  std::string name;                   // "sum", "argmax": readers may recognise it
  std::vector<ScalarId> identity;     // one a component
  std::vector<ScalarId> left, right;  // placeholders
  std::vector<ScalarId> joined;
};

// `monoid{ element when guard }` over loop variables.
struct Reduction {
  Monoid monoid;
  std::vector<int> variables;     // loop variables, outermost first; the first runs slowest
  std::vector<ScalarId> extents;  // one a variable: i64, may depend on outer variables
  std::vector<ScalarId> element;  // one a component
  ScalarId guard = no_scalar;     // bool: elements where it is false are skipped
  bool prefix = false;  // keeps every partial result: the last variable equals the output index on `prefix_axis`
  int prefix_axis = -1;
};

// One result, and the loops that fill it.
struct LoopNest {
  ir::TensorMeta type;
  std::vector<int> variables;  // one an axis of the result
  ScalarId value = no_scalar;  // in type.dtype; for a scatter, of the base
};

// result := base; then, for every index in extent in row-major order, result[at] := value (or joined by `join`).
struct Scatter {
  int base = -1;  // tensor operand
  std::vector<int> variables;
  std::vector<ScalarId> extents;
  std::vector<ScalarId> at;  // one an axis of the result
  ScalarId value = no_scalar;
  std::optional<Monoid> join;
};

struct Meaning {
  std::vector<ir::Value*> tensors;  // operands that are read, each once
  std::vector<Scalar> scalars;
  std::vector<Reduction> reductions;
  std::vector<LoopNest> results;   // for a view: one, whose value is a plain read
  std::optional<Scatter> scatter;  // then results has one nest, without value
  int variable_count = 0;
  bool is_view = false;

  // `extern NAME(values)`: no loops; evaluated by the C++ kernel of that name.
  std::string extern_kernel;
  std::vector<ir::Argument> extern_arguments;
  std::vector<ir::Type> extern_types;

  std::string to_string() const;  // as in the example above
};

// Whether the loops of a scatter have just these sizes, in their order.
bool runs_over(const Meaning& meaning, const Scatter& scatter, const std::vector<ir::SymInt>& sizes);

// Whether `place`, one index an axis, names every element of a tensor of `sizes` where it is, as loops of `variables`
// over these sizes come to it. The index of an axis of size 1 may be 0 instead.
bool is_everywhere(const Meaning& meaning, const std::vector<ScalarId>& place, const std::vector<int>& variables,
                   const std::vector<ir::SymInt>& sizes);

}  // namespace atenon::opset
