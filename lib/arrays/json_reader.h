// As much of JSON as the header of a .safetensors file needs: objects, arrays, strings and integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace atenon::arrays {

struct Json;
using JsonArray = std::vector<Json>;
using JsonObject = std::vector<std::pair<std::string, Json>>;  // in the order of the text

struct Json : std::variant<std::monostate, int64_t, std::string, JsonArray, JsonObject> {
  using variant::variant;
  template <class T>
  const T* as() const {
    return std::get_if<T>(this);
  }
};

// nullopt if the text is not of that kind, or nested deeper than such a header ever is.
std::optional<Json> read_json(std::string_view text);
// The text as a JSON string with its quotes.
std::string json_string(std::string_view text);

}  // namespace atenon::arrays
