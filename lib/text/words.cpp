// Tables of words; positions are the values of the enumerations.
#include "text/words.h"

#include <array>

namespace atenon::text {
namespace {

constexpr std::array<std::string_view, 6> input_kinds = {"user_input",      "parameter",     "buffer",
                                                         "constant_tensor", "custom_object", "token"};
constexpr std::array<std::string_view, 8> output_kinds = {
    "user_output", "buffer_mutation",       "user_input_mutation",
    "loss_output", "gradient_to_parameter", "gradient_to_user_input",
    "token",       "parameter_mutation"};
constexpr std::array<TreeWords, 7> tree_kinds = {{
    {"*", "", ""},             // leaf
    {"None", "", ""},          // none
    {"", "(", ")"},            // tuple
    {"", "[", "]"},            // list
    {"", "{", "}"},            // dict
    {"namedtuple", "(", ")"},  // named_tuple
    {"custom", "(", ")"},      // custom
}};

template <class Kind, size_t count>
std::optional<Kind> position(const std::array<std::string_view, count>& names, std::string_view name) {
  for (size_t i = 0; i < count; ++i) {
    if (names[i] == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(ir::InputKind kind) { return input_kinds[static_cast<size_t>(kind)]; }
std::string_view name_of(ir::OutputKind kind) { return output_kinds[static_cast<size_t>(kind)]; }
std::optional<ir::InputKind> input_kind_named(std::string_view name) {
  return position<ir::InputKind>(input_kinds, name);
}
std::optional<ir::OutputKind> output_kind_named(std::string_view name) {
  return position<ir::OutputKind>(output_kinds, name);
}
std::vector<std::string> input_kind_names() { return {input_kinds.begin(), input_kinds.end()}; }
std::vector<std::string> output_kind_names() { return {output_kinds.begin(), output_kinds.end()}; }
const TreeWords& words_of(ir::TreeSpec::Kind kind) { return tree_kinds[static_cast<size_t>(kind)]; }

}  // namespace atenon::text
