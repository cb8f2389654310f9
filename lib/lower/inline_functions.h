// Mathematical functions as straight-line LLVM IR: no calls, no branches, so that LLVM's vectoriser takes them at any
// width.
//
// + - * / and sqrt are rounded once. Functions are within 4 units in the last place of the exact value for every
// argument, denormal, huge and special ones included (inline_functions_test.cpp measures, in f32 and in f64). Two have
// zeros around which terms cancel: lgamma and digamma of f64 are within 32 units of 1 there. The rarer functions of f32
// are computed in f64, where a simple formula is exact enough. Half precision is computed in f32 and rounded.
#pragma once

#include <span>

#include "opset/meaning.h"

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace atenon::lower {

// `op` of floats (all of one type, float or double); null if that is no function.
llvm::Value* emit_function(llvm::IRBuilderBase& builder, opset::ScalarOp op, std::span<llvm::Value* const> operands);

}  // namespace atenon::lower
