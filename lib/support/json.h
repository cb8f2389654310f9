// JSON as text.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace atenon {

// What a program names itself may be no UTF-8: such bytes become U+FFFD. One line, or indented by so many blanks.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace atenon
