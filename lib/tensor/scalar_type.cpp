// Names, sizes and promotion of element types.
#include "tensor/scalar_type.h"

#include <array>

namespace atenon {
namespace {

enum class Category : unsigned char { boolean, integral, floating, complex };

struct Traits {
  const char* name;
  const char* torch_name;
  size_t size;
  Category category;
};

constexpr std::array<Traits, 12> traits = {{
    {"f16", "float16", 2, Category::floating},
    {"bf16", "bfloat16", 2, Category::floating},
    {"f32", "float32", 4, Category::floating},
    {"f64", "float64", 8, Category::floating},
    {"u8", "uint8", 1, Category::integral},
    {"i8", "int8", 1, Category::integral},
    {"i16", "int16", 2, Category::integral},
    {"i32", "int32", 4, Category::integral},
    {"i64", "int64", 8, Category::integral},
    {"bool", "bool", 1, Category::boolean},
    {"c64", "complex64", 8, Category::complex},
    {"c128", "complex128", 16, Category::complex},
}};

const Traits& of(ScalarType type) { return traits[static_cast<size_t>(type)]; }

}  // namespace

size_t size_of(ScalarType type) { return of(type).size; }
bool is_floating(ScalarType type) { return of(type).category == Category::floating; }
bool is_complex(ScalarType type) { return of(type).category == Category::complex; }
bool is_integral(ScalarType type) { return of(type).category == Category::integral; }
const char* name_of(ScalarType type) { return of(type).name; }
const char* torch_name_of(ScalarType type) { return of(type).torch_name; }

std::optional<ScalarType> scalar_type_named(const std::string& name) {
  const std::string bare = name.starts_with("torch.") ? name.substr(6) : name;
  for (const ScalarType type : all_scalar_types) {
    if (bare == name_of(type) || bare == torch_name_of(type)) return type;
  }
  return std::nullopt;
}

// The table of c10/core/ScalarType.cpp as rules.
ScalarType promote(ScalarType a, ScalarType b) {
  if (a == b) return a;
  if (of(a).category > of(b).category) std::swap(a, b);  // b has the higher category
  if (is_complex(b)) {
    const bool wide = a == ScalarType::f64 || a == ScalarType::c128 || b == ScalarType::c128;
    return wide ? ScalarType::c128 : ScalarType::c64;
  }
  if (of(a).category != of(b).category) return b;
  if (size_of(a) != size_of(b)) return size_of(a) > size_of(b) ? a : b;
  // Same size, neither holds the other's values: f16 and bf16, u8 and i8.
  return is_floating(a) ? ScalarType::f32 : ScalarType::i16;
}

}  // namespace atenon
