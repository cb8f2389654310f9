// Sums of a number and what makes it even, as windows and strides of two pad images.
#pragma once

#include "shape/symint.h"

namespace atenon::shape {

// x + x % 2 as 2*((x + 1)//2): one term where there were several, which products of such sums and their quotients keep.
// Apart from SymInt's own sums: facts open and close quotients as they search.
SymInt close_halves(SymInt sum);

}  // namespace atenon::shape
