// Numbers and strings as the text form spells them: so that reading gives back the same bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace atenon::text {

// The shortest decimal that reads back as the same number, with a `.` or an `e` in it; inf, -inf, nan, and
// nan:0x7ff8000000000001 for a NaN that is not the usual one.
std::string spell(double value);
std::optional<double> read_double(std::string_view text);
// For people: so many digits, and nan without a sign.
std::string rounded(double value, int digits);

// "...", with \" \\ \n \t \r and \xNN for other control characters and for bytes that are no UTF-8.
std::string quote(std::string_view text, char mark = '"');
// The content of a quoted text, marks included in `text`; nullopt where an escape is wrong.
std::optional<std::string> unquote(std::string_view text);

// One element of a storage in the spelling of its dtype, and back. `bytes` points at size_of(dtype) bytes.
std::string spell_element(ScalarType dtype, const void* bytes);
bool read_element(ScalarType dtype, std::string_view text, void* bytes);

}  // namespace atenon::text
