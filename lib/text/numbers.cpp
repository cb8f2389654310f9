// Exact spelling of numbers: std::to_chars gives the shortest decimal that reads back as the same bits.
#include "text/numbers.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace atenon::text {
namespace {

template <class Float, class Bits>
std::string spell_float(Float value) {
  if (std::isnan(value)) {
    const Bits bits = std::bit_cast<Bits>(value);
    if (bits == std::bit_cast<Bits>(std::numeric_limits<Float>::quiet_NaN())) return "nan";
    char text[24];
    const auto end = std::to_chars(text, text + sizeof text, bits, 16);
    return "nan:0x" + std::string(text, end.ptr);
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  std::string out(text, std::to_chars(text, text + sizeof text, value).ptr);
  if (out.find_first_of(".e") == out.npos) out += ".0";
  return out;
}

template <class Float, class Bits>
std::optional<Float> read_float(std::string_view text) {
  if (text == "nan") return std::numeric_limits<Float>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<Float>::infinity();
  if (text == "-inf") return -std::numeric_limits<Float>::infinity();
  const char* end = text.data() + text.size();
  if (text.starts_with("nan:0x")) {
    Bits bits = 0;
    const auto read = std::from_chars(text.data() + 6, end, bits, 16);
    const Float value = std::bit_cast<Float>(bits);
    if (read.ec != std::errc() || read.ptr != end || !std::isnan(value)) return std::nullopt;
    return value;
  }
  Float value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ptr != end || text.empty()) return std::nullopt;
  // What is too small for the format rounds to zero; what is too large is refused, since inf is spelled inf.
  if (read.ec == std::errc::result_out_of_range) {
    if (text.find("e-") == text.npos && text.find("E-") == text.npos) return std::nullopt;
    return text[0] == '-' ? Float(-0.0) : Float(0);
  }
  if (read.ec != std::errc()) return std::nullopt;
  return value;
}

template <class Integer>
bool read_integer(std::string_view text, void* bytes) {
  Integer value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return false;
  std::memcpy(bytes, &value, sizeof value);
  return true;
}

template <class T>
T load(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class T>
bool store(void* bytes, const std::optional<T>& value) {
  if (value) std::memcpy(bytes, &*value, sizeof *value);
  return value.has_value();
}

// Halves pass through float, which holds each of them exactly; a NaN keeps its own bits.
std::string spell_half(uint16_t bits, uint16_t usual_nan, float value) {
  if (!std::isnan(value) || bits == usual_nan) return spell_float<float, uint32_t>(value);
  char text[8];
  return "nan:0x" + std::string(text, std::to_chars(text, text + sizeof text, bits, 16).ptr);
}

bool read_half(std::string_view text, uint16_t usual_nan, float (*widen)(uint16_t), uint16_t (*narrow)(float),
               void* bytes) {
  if (text == "nan") return store<uint16_t>(bytes, usual_nan);
  if (text.starts_with("nan:0x")) {
    uint16_t bits = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + 6, end, bits, 16);
    return read.ec == std::errc() && read.ptr == end && std::isnan(widen(bits)) && store<uint16_t>(bytes, bits);
  }
  const std::optional<float> value = read_float<float, uint32_t>(text);
  return value && store<uint16_t>(bytes, narrow(*value));
}

template <class Float, class Bits>
std::string spell_complex(const void* bytes) {
  const auto* parts = static_cast<const char*>(bytes);
  return "complex(" + spell_float<Float, Bits>(load<Float>(parts)) + ", " +
         spell_float<Float, Bits>(load<Float>(parts + sizeof(Float))) + ")";
}

template <class Float, class Bits>
bool read_complex(std::string_view text, void* bytes) {
  const size_t comma = text.find(',');
  if (!text.starts_with("complex(") || !text.ends_with(")") || comma == text.npos) return false;
  std::string_view imaginary = text.substr(comma + 1, text.size() - comma - 2);
  while (imaginary.starts_with(' ')) imaginary.remove_prefix(1);
  return store(bytes, read_float<Float, Bits>(text.substr(8, comma - 8))) &&
         store(static_cast<char*>(bytes) + sizeof(Float), read_float<Float, Bits>(imaginary));
}

// The length of the UTF-8 sequence at `text[i]`, or 0 if there is none.
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char first = byte(i);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xc2 && first < 0xe0 ? 2
                        : (first & 0xf0) == 0xe0        ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = i + 1; k < i + length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string spell(double value) { return spell_float<double, uint64_t>(value); }
std::string rounded(double value, int digits) {
  if (std::isnan(value)) return "nan";
  char text[32];
  snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::optional<double> read_double(std::string_view text) { return read_float<double, uint64_t>(text); }

std::string quote(std::string_view text, char mark) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out(1, mark);
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t length = utf8_length(text, i);
    if (c == mark || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += {'\\', c == '\n' ? 'n' : c == '\t' ? 't' : 'r'};
    } else if (length == 0 || (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f))) {
      out += {'\\', 'x', digits[static_cast<unsigned char>(c) >> 4], digits[c & 15]};
    } else {
      out += text.substr(i, length);
      i += length;
      continue;
    }
    ++i;
  }
  return out + mark;
}

std::optional<std::string> unquote(std::string_view text) {
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '"':
      case '\'':
      case '\\':
        out += text[i];
        break;
      case 'x': {
        uint8_t byte = 0;
        const char* digits = text.data() + i + 1;
        if (i + 3 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
          return std::nullopt;
        out += static_cast<char>(byte);
        i += 2;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return out;
}

std::string spell_element(ScalarType dtype, const void* bytes) {
  switch (dtype) {
    case ScalarType::f16:
      return spell_half(load<uint16_t>(bytes), 0x7e00, half_to_float(load<uint16_t>(bytes)));
    case ScalarType::bf16:
      return spell_half(load<uint16_t>(bytes), 0x7fc0, bfloat16_to_float(load<uint16_t>(bytes)));
    case ScalarType::f32:
      return spell_float<float, uint32_t>(load<float>(bytes));
    case ScalarType::f64:
      return spell(load<double>(bytes));
    case ScalarType::u8:
      return std::to_string(load<uint8_t>(bytes));
    case ScalarType::i8:
      return std::to_string(load<int8_t>(bytes));
    case ScalarType::i16:
      return std::to_string(load<int16_t>(bytes));
    case ScalarType::i32:
      return std::to_string(load<int32_t>(bytes));
    case ScalarType::i64:
      return std::to_string(load<int64_t>(bytes));
    case ScalarType::boolean: {
      const uint8_t byte = load<uint8_t>(bytes);
      return byte == 0 ? "false" : byte == 1 ? "true" : std::to_string(byte);
    }
    case ScalarType::c64:
      return spell_complex<float, uint32_t>(bytes);
    case ScalarType::c128:
      return spell_complex<double, uint64_t>(bytes);
  }
  return {};
}

bool read_element(ScalarType dtype, std::string_view text, void* bytes) {
  switch (dtype) {
    case ScalarType::f16:
      return read_half(text, 0x7e00, &half_to_float, &float_to_half, bytes);
    case ScalarType::bf16:
      return read_half(text, 0x7fc0, &bfloat16_to_float, &float_to_bfloat16, bytes);
    case ScalarType::f32:
      return store(bytes, read_float<float, uint32_t>(text));
    case ScalarType::f64:
      return store(bytes, read_double(text));
    case ScalarType::u8:
      return read_integer<uint8_t>(text, bytes);
    case ScalarType::i8:
      return read_integer<int8_t>(text, bytes);
    case ScalarType::i16:
      return read_integer<int16_t>(text, bytes);
    case ScalarType::i32:
      return read_integer<int32_t>(text, bytes);
    case ScalarType::i64:
      return read_integer<int64_t>(text, bytes);
    case ScalarType::boolean:
      if (text == "false" || text == "true") return store<uint8_t>(bytes, text == "true");
      return read_integer<uint8_t>(text, bytes);
    case ScalarType::c64:
      return read_complex<float, uint32_t>(text, bytes);
    case ScalarType::c128:
      return read_complex<double, uint64_t>(text, bytes);
  }
  return false;
}

}  // namespace atenon::text
