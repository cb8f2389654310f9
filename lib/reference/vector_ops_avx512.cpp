// The loops of vector_ops_loops.h, compiled for AVX-512; run only where vector_ops() found it.
#if defined(__AVX512F__)
#include "reference/vector_ops_loops.h"

namespace atenon::reference {

const VectorOps vector_ops_avx512 = loops;

}  // namespace atenon::reference
#endif
