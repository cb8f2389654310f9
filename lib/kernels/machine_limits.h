// What this machine can do at best, measured: the scale on which a profile shows its calls.
#pragma once

namespace atenon::kernels {

struct Limits {
  int threads = 1;
  double flops = 0;  // a second, of products of f32 whose operands lie in the cache; by AMX, of bfloat16 there are more
  double bytes = 0;  // a second, read from memory
};

// Takes about a tenth of a second on all threads(), and 128 MiB for as long.
Limits measure_limits();

}  // namespace atenon::kernels
