// Complex numbers as pairs of real ones.
//
// Blocks say what complex operators mean with the same scalars as for real ones. What runs a Meaning knows real numbers
// only: here every complex scalar becomes two, its real and its imaginary part, and every complex tensor a real one
// with a last axis of size 2, which is how it lies in memory.
#pragma once

#include "opset/meaning.h"
#include "support/result.h"

namespace atenon::reference {

bool has_complex(const opset::Meaning& meaning);

// The same loops over real numbers. Reads of complex operands have one index more, and so have complex results, whose
// types change accordingly. E0634 for functions that are not known of complex numbers.
Result<opset::Meaning> in_real_parts(const opset::Meaning& meaning);

}  // namespace atenon::reference
