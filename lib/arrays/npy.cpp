// NumPy's .npy (numpy/lib/format.py): magic, version, a Python literal of a dict that describes the array, then its
// bytes.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "arrays/member.h"

namespace atenon::arrays {
namespace {

constexpr size_t preamble = 8;  // magic and version
constexpr size_t longest_header = size_t{1} << 20;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the dict that NumPy prints: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> parse() {
    Header header;
    int seen = 0;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':')) return std::nullopt;
      if (key == "descr" && string(header.descr))
        seen |= 1;
      else if (key == "fortran_order" && boolean(header.fortran_order))
        seen |= 2;
      else if (key == "shape" && tuple(header.shape))
        seen |= 4;
      else
        return std::nullopt;
      if (!take(',') && !peek('}')) return std::nullopt;
    }
    return seen == 7 && rest_is_space() ? std::optional(header) : std::nullopt;
  }

 private:
  void skip_space() {
    while (next_ < text_.size() && std::string_view(" \t\n").find(text_[next_]) != std::string_view::npos) ++next_;
  }
  bool peek(char c) { return skip_space(), next_ < text_.size() && text_[next_] == c; }
  bool take(char c) { return peek(c) && ++next_; }
  bool rest_is_space() { return skip_space(), next_ == text_.size(); }

  bool string(std::string& out) {
    if (!peek('\'') && !peek('"')) return false;
    const char quote = text_[next_++];
    const size_t end = text_.find(quote, next_);
    if (end == std::string_view::npos) return false;
    out = text_.substr(next_, end - next_);
    next_ = end + 1;
    return true;
  }

  bool boolean(bool& out) {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(next_).starts_with(word)) continue;
      next_ += word.size();
      out = value;
      return true;
    }
    return false;
  }

  bool tuple(std::vector<int64_t>& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_space();
      int64_t value = 0;
      const auto [end, problem] = std::from_chars(text_.data() + next_, text_.data() + text_.size(), value);
      if (problem != std::errc() || out.size() >= 64) return false;
      next_ = static_cast<size_t>(end - text_.data());
      if (peek('L')) ++next_;  // Python 2 wrote 3L
      out.push_back(value);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t next_ = 0;
};

struct TypeName {
  const char* descr;
  ScalarType dtype;
};
// Without byte order. u2 is how bfloat16 is kept; V2 how ml_dtypes writes it.
constexpr TypeName type_names[] = {{"f2", ScalarType::f16},  {"u2", ScalarType::bf16},    {"V2", ScalarType::bf16},
                                   {"f4", ScalarType::f32},  {"f8", ScalarType::f64},     {"u1", ScalarType::u8},
                                   {"i1", ScalarType::i8},   {"i2", ScalarType::i16},     {"i4", ScalarType::i32},
                                   {"i8", ScalarType::i64},  {"b1", ScalarType::boolean}, {"c8", ScalarType::c64},
                                   {"c16", ScalarType::c128}};

// Bytes of every number reversed.
Contents swapped(const Contents& bytes, ScalarType dtype) {
  const size_t width = is_complex(dtype) ? size_of(dtype) / 2 : size_of(dtype);
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.bytes, bytes.bytes + bytes.size);
  for (size_t i = 0; i + width <= copy->size(); i += width) {
    std::reverse(copy->begin() + static_cast<ptrdiff_t>(i), copy->begin() + static_cast<ptrdiff_t>(i + width));
  }
  return {copy->data(), copy->size(), copy, false};
}

}  // namespace

Result<std::vector<Array>> parse_npy(const Contents& contents, const std::string& file_name) {
  const std::string_view text = contents.text();
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(text[i])); };
  if (!text.starts_with("\x93NUMPY") || text.size() < 12) return damaged(file_name, "this is no .npy file");
  const size_t major = byte(6);
  if (major < 1 || major > 3) {
    return error(Status::bad_input, 813, "version " + std::to_string(major) + " of the .npy format is not known")
        .at({.file = file_name});
  }
  const size_t start = preamble + (major == 1 ? 2 : 4);
  size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > longest_header || length > text.size() - start) return damaged(file_name, "the .npy header is cut off");
  std::optional<Header> header = HeaderParser(text.substr(start, length)).parse();
  if (!header) return damaged(file_name, "the .npy header cannot be read");

  const bool big_endian = header->descr.starts_with('>');
  const std::string kind = header->descr.find_first_of("<>|=") == 0 ? header->descr.substr(1) : header->descr;
  const auto* type =
      std::find_if(std::begin(type_names), std::end(type_names), [&](const TypeName& t) { return kind == t.descr; });
  if (type == std::end(type_names)) {
    return error(Status::bad_input, 813, "arrays of NumPy's type '" + header->descr + "' are not supported")
        .at({.file = file_name});
  }
  const std::optional<int64_t> numel = checked_numel(header->shape);
  const size_t available = text.size() - start - length;
  if (!numel || static_cast<size_t>(*numel) * size_of(type->dtype) != available) {
    return damaged(file_name,
                   "the .npy file has " + std::to_string(available) + " bytes of data, which its shape contradicts");
  }
  const Contents bytes = part(contents, start + length, available);
  Tensor tensor = to_tensor(big_endian ? swapped(bytes, type->dtype) : bytes, type->dtype, header->shape);
  if (header->fortran_order) {
    std::vector<int64_t> reversed(header->shape.rbegin(), header->shape.rend());
    tensor.strides = contiguous_strides(reversed);
    std::reverse(tensor.strides.begin(), tensor.strides.end());
  }
  return std::vector<Array>{{"", std::move(tensor)}};
}

std::string npy_header(const Tensor& tensor) {
  const auto* type = std::find_if(std::begin(type_names), std::end(type_names),
                                  [&](const TypeName& t) { return tensor.dtype == t.dtype; });
  const bool single_byte = size_of(tensor.dtype) == 1;
  std::string dict =
      std::string("{'descr': '") + (single_byte ? "|" : "<") + type->descr + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < tensor.sizes.size(); ++i) dict += (i == 0 ? "" : " ") + std::to_string(tensor.sizes[i]) + ",";
  if (tensor.sizes.size() > 1) dict.pop_back();  // (3, 4) but (3,)
  dict += "), }";
  // Padded so that the data starts at a multiple of 64, as NumPy does; the header ends in a newline.
  const size_t unpadded = preamble + 2 + dict.size() + 1;
  dict += std::string((64 - unpadded % 64) % 64, ' ') + "\n";
  std::string header = "\x93NUMPY";
  header += {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace atenon::arrays
