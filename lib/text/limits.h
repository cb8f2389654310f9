// What a program may hold at most, and which names it may use: every reader, of text and of files, checks it.
//
// The caps are far above what models need and far below what would exhaust a stack or make a small file claim the
// memory of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace atenon::text {

inline constexpr int max_depth = 32;               // of lists in arguments and of containers in pytrees
inline constexpr int max_expression_depth = 64;    // of parentheses in a symbolic expression
inline constexpr size_t max_expression = 1 << 14;  // bytes of a symbolic expression
inline constexpr size_t max_name = 1 << 12;        // bytes
inline constexpr size_t max_rank = 64;
inline constexpr int64_t max_bytes = int64_t{1} << 46;  // of a storage
inline constexpr int64_t inline_elements = 64;          // larger tensors are named by their digest
inline constexpr size_t inline_file_bytes = 256;        // larger extra files likewise

bool is_name(std::string_view text);  // of values and subgraphs: letters, digits, `_` and `.`
bool is_word(std::string_view text);  // of keywords and annotations: the same, not starting with a digit or `.`
// A Python identifier that is no word of the text form (f32, None, min, ...).
bool is_symbol_name(std::string_view text);
bool is_target(std::string_view text);  // namespace::operator, with or without .overload
bool is_digest(std::string_view text);  // 32 hex digits in lower case

// What is wrong with a weight: sizes, strides, offset or layout that do not fit together or leave its storage.
std::optional<std::string> weight_problem(const ir::Weight& weight);

}  // namespace atenon::text
