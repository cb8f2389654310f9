// Elements of tensors as C++ types, and conversions between them that give the same result on every machine.
//
//   visit_element_type(tensor.dtype, [&]<class T>(T) { sum += convert<double>(tensor.as<T>()[i]); });
//
// 16-bit floats have storage types of their own; arithmetic on them is done in float. bool is a byte that is 0 or 1.
#pragma once

#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/scalar_type.h"
#include "tensor/tensor.h"

namespace atenon {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<std::complex<T>> = true;

// Calls `visit` with a value of the element's type; only the type matters.
template <class Visit>
auto visit_element_type(ScalarType type, Visit visit) {
  switch (type) {
    case ScalarType::f16:
      return visit(Half{});
    case ScalarType::bf16:
      return visit(BFloat16{});
    case ScalarType::f32:
      return visit(float{});
    case ScalarType::f64:
      return visit(double{});
    case ScalarType::u8:
      return visit(uint8_t{});
    case ScalarType::i8:
      return visit(int8_t{});
    case ScalarType::i16:
      return visit(int16_t{});
    case ScalarType::i32:
      return visit(int32_t{});
    case ScalarType::i64:
      return visit(int64_t{});
    case ScalarType::boolean:
      return visit(bool{});
    case ScalarType::c64:
      return visit(std::complex<float>{});
    case ScalarType::c128:
      break;
  }
  return visit(std::complex<double>{});
}

// As PyTorch on x86: toward zero; NaN and what is out of range give the lowest int64, or the lowest int32 for the
// narrower types, which then keep its low bits.
template <class To, class From>
To truncate(From value) {
  using Wide = std::conditional_t<sizeof(To) == 8, int64_t, int32_t>;
  constexpr From limit = sizeof(To) == 8 ? From(9223372036854775808.0) : From(2147483648.0);
  const bool in_range =
      sizeof(To) == 8 || sizeof(From) == 4 ? value >= -limit && value < limit : value > -limit - 1 && value < limit;
  return static_cast<To>(in_range ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min());
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Half>) {
    return convert<To>(half_to_float(value.bits));
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return convert<To>(bfloat16_to_float(value.bits));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (is_complex_type<From>) {
    if constexpr (is_complex_type<To>) {
      return To(value);
    } else {
      return convert<To>(value.real());
    }
  } else if constexpr (std::is_same_v<To, Half>) {
    return {float_to_half(convert<float>(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {float_to_bfloat16(convert<float>(value))};
  } else if constexpr (is_complex_type<To>) {
    return To(static_cast<typename To::value_type>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return truncate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace atenon
