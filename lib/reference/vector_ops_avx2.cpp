// The loops of vector_ops_loops.h, compiled for AVX2; run only where vector_ops() found it.
#if defined(__AVX2__)
#include "reference/vector_ops_loops.h"

namespace atenon::reference {

const VectorOps vector_ops_avx2 = loops;

}  // namespace atenon::reference
#endif
