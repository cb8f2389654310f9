// A recursive descent of bounded depth.
#include "arrays/json_reader.h"

#include <charconv>

namespace atenon::arrays {
namespace {

constexpr int deepest = 8;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<Json> read() {
    std::optional<Json> value = any(0);
    skip_space();
    return next_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_space() {
    while (next_ < text_.size() && std::string_view(" \t\r\n").find(text_[next_]) != std::string_view::npos) ++next_;
  }
  bool take(char c) {
    skip_space();
    if (next_ >= text_.size() || text_[next_] != c) return false;
    ++next_;
    return true;
  }

  std::optional<Json> any(int depth) {
    if (depth > deepest) return std::nullopt;
    if (take('{')) return object(depth);
    if (take('[')) return array(depth);
    if (take('"')) {
      std::optional<std::string> text = string();
      return text ? std::optional<Json>(std::move(*text)) : std::nullopt;
    }
    int64_t number = 0;
    const auto [end, problem] = std::from_chars(text_.data() + next_, text_.data() + text_.size(), number);
    if (problem != std::errc()) return std::nullopt;
    next_ = static_cast<size_t>(end - text_.data());
    return Json(number);
  }

  std::optional<Json> array(int depth) {
    JsonArray items;
    while (!take(']')) {
      if (!items.empty() && !take(',')) return std::nullopt;
      std::optional<Json> item = any(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    }
    return Json(std::move(items));
  }

  std::optional<Json> object(int depth) {
    JsonObject members;
    while (!take('}')) {
      if (!members.empty() && !take(',')) return std::nullopt;
      if (!take('"')) return std::nullopt;
      std::optional<std::string> key = string();
      if (!key || !take(':')) return std::nullopt;
      std::optional<Json> value = any(depth + 1);
      if (!value) return std::nullopt;
      members.emplace_back(std::move(*key), std::move(*value));
    }
    return Json(std::move(members));
  }

  // The rest of a string after its opening quote.
  std::optional<std::string> string() {
    std::string out;
    while (next_ < text_.size()) {
      const char c = text_[next_++];
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (next_ >= text_.size()) break;
      const char escape = text_[next_++];
      constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
      if (const size_t at = from.find(escape); at != std::string_view::npos) {
        out += to[at];
      } else if (escape != 'u' || !code_point(out)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::optional<uint32_t> hex4() {
    uint32_t value = 0;
    if (text_.size() - next_ < 4) return std::nullopt;
    const auto [end, problem] = std::from_chars(text_.data() + next_, text_.data() + next_ + 4, value, 16);
    if (problem != std::errc() || end != text_.data() + next_ + 4) return std::nullopt;
    next_ += 4;
    return value;
  }

  bool code_point(std::string& out) {
    std::optional<uint32_t> unit = hex4();
    if (!unit) return false;
    uint32_t point = *unit;
    if (point >= 0xD800 && point < 0xDC00) {  // the first of a surrogate pair
      if (!text_.substr(next_).starts_with("\\u")) return false;
      next_ += 2;
      const std::optional<uint32_t> second = hex4();
      if (!second || *second < 0xDC00 || *second > 0xDFFF) return false;
      point = 0x10000 + ((point - 0xD800) << 10) + (*second - 0xDC00);
    }
    const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xC0 | point >> 6), put(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
      put(0xE0 | point >> 12), put(0x80 | (point >> 6 & 0x3F)), put(0x80 | (point & 0x3F));
    } else {
      put(0xF0 | point >> 18), put(0x80 | (point >> 12 & 0x3F)), put(0x80 | (point >> 6 & 0x3F)),
          put(0x80 | (point & 0x3F));
    }
    return true;
  }

  std::string_view text_;
  size_t next_ = 0;
};

}  // namespace

std::optional<Json> read_json(std::string_view text) { return Reader(text).read(); }

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char digits[] = "0123456789abcdef";
      out += {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace atenon::arrays
