// The loops of bilinear resizing over a vector type V, behind lanes_loops.h.

namespace {

inline V blended(V a, V b, V weight) { return fma(weight, b, (V::all(1) - weight) * a); }

void blend(const float* a, const float* b, float weight, int64_t count, float* y) {
  const V w = V::all(weight);
  int64_t i = 0;
  for (; i + V::width <= count; i += V::width) blended(V::load(a + i), V::load(b + i), w).store(y + i);
  if (const int rest = static_cast<int>(count - i))
    blended(V::load_first(a + i, rest), V::load_first(b + i, rest), w).store_first(y + i, rest);
}

void blend_places(const float* line, const int32_t* places, const float* weights, int64_t count, float* y) {
  for (int64_t i = 0; i < count; i += V::width) {
    const V value = blended(V::pick(line, places + i), V::pick(line + 1, places + i), V::load(weights + i));
    if (i + V::width <= count)
      value.store(y + i);
    else
      value.store_first(y + i, static_cast<int>(count - i));
  }
}

}  // namespace
