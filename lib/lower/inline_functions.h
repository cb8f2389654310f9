// Mathematical functions as straight-line LLVM IR: no calls, no branches, so that LLVM's vectoriser takes them at any
// width.
//
// Functions are within 4 units in the last place of the exact value over their whole range, special values included;
// + - * / and sqrt are rounded once (generate_test.cpp measures, in f32 and in f64). The rarer ones of f32 are computed
// in f64, where a simple formula is exact enough; f64 itself lacks erf and the trigonometric ones.
#pragma once

#include <span>

#include "opset/meaning.h"

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace atenon::lower {

// `op` of floats (all of one type, float or double); null if there is no such function for that type.
llvm::Value* emit_function(llvm::IRBuilderBase& builder, opset::ScalarOp op, std::span<llvm::Value* const> operands);
// What an operation costs, in additions.
int cost_of(opset::ScalarOp op);
// Whether emit_function has it.
bool has_function(opset::ScalarOp op, ScalarType dtype);

}  // namespace atenon::lower
