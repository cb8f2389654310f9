// The words of the text form for kinds of inputs, outputs and containers, and its version: shared by printer and
// parser.
#pragma once

#include <optional>
#include <string_view>

#include "ir/program.h"

namespace atenon::text {

// Of both spellings, text and file. A newer minor version only adds; readers refuse a newer major one.
inline constexpr int format_major = 1;
inline constexpr int format_minor = 0;

// user_input, parameter, buffer_mutation, ...
std::string_view name_of(ir::InputKind kind);
std::string_view name_of(ir::OutputKind kind);
std::optional<ir::InputKind> input_kind_named(std::string_view name);
std::optional<ir::OutputKind> output_kind_named(std::string_view name);
std::vector<std::string> input_kind_names();
std::vector<std::string> output_kind_names();

// How a container is written: (a, b), [a, b], {key: a}, namedtuple "module.Class" (x: a), custom "module.Class" (a).
struct TreeWords {
  std::string_view name;  // "" where brackets say it; leaves have a name and no brackets
  std::string_view open;
  std::string_view close;
};
const TreeWords& words_of(ir::TreeSpec::Kind kind);

}  // namespace atenon::text
