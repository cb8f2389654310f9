// Element types, named as in PyTorch's ScalarType; spelled f32, i64, bool ... in texts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace atenon {

enum class ScalarType : unsigned char { f16, bf16, f32, f64, u8, i8, i16, i32, i64, boolean, c64, c128 };

inline constexpr ScalarType all_scalar_types[] = {
    ScalarType::f16, ScalarType::bf16, ScalarType::f32, ScalarType::f64,     ScalarType::u8,  ScalarType::i8,
    ScalarType::i16, ScalarType::i32,  ScalarType::i64, ScalarType::boolean, ScalarType::c64, ScalarType::c128};

size_t size_of(ScalarType type);  // bytes of one element
bool is_floating(ScalarType type);
constexpr bool is_half(ScalarType type) { return type == ScalarType::f16 || type == ScalarType::bf16; }
// What its numbers are computed in: f32 for those of 16 bits.
constexpr ScalarType widened(ScalarType type) { return is_half(type) ? ScalarType::f32 : type; }
bool is_complex(ScalarType type);
bool is_integral(ScalarType type);           // u8 to i64; bool is not
const char* name_of(ScalarType type);        // "f32", "bool"
const char* torch_name_of(ScalarType type);  // "float32", "bool"
// Understands both spellings and "torch.float32".
std::optional<ScalarType> scalar_type_named(const std::string& name);
// PyTorch's promotion of two element types of the same category precedence (c10::promoteTypes).
ScalarType promote(ScalarType a, ScalarType b);

}  // namespace atenon
