// .safetensors (github.com/huggingface/safetensors): the header's length in 8 bytes, a JSON header with type, shape and
// place of each tensor, then the bytes, row-major and little-endian.
#include <algorithm>

#include "arrays/json_reader.h"
#include "arrays/member.h"

namespace atenon::arrays {
namespace {

constexpr uint64_t longest_header = 100'000'000;  // the reference implementation's cap

struct TypeName {
  const char* name;
  ScalarType dtype;
};
constexpr TypeName type_names[] = {{"F16", ScalarType::f16},      {"BF16", ScalarType::bf16}, {"F32", ScalarType::f32},
                                   {"F64", ScalarType::f64},      {"U8", ScalarType::u8},     {"I8", ScalarType::i8},
                                   {"I16", ScalarType::i16},      {"I32", ScalarType::i32},   {"I64", ScalarType::i64},
                                   {"BOOL", ScalarType::boolean}, {"C64", ScalarType::c64}};

const Json* find(const JsonObject& object, std::string_view key) {
  const auto found =
      std::find_if(object.begin(), object.end(), [&](const auto& member) { return member.first == key; });
  return found == object.end() ? nullptr : &found->second;
}

std::optional<std::vector<int64_t>> integers(const Json* json) {
  const JsonArray* items = json != nullptr ? json->as<JsonArray>() : nullptr;
  if (items == nullptr) return std::nullopt;
  std::vector<int64_t> out;
  for (const Json& item : *items) {
    const int64_t* number = item.as<int64_t>();
    if (number == nullptr || *number < 0) return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

}  // namespace

Result<std::vector<Array>> parse_safetensors(const Contents& contents, const std::string& file_name) {
  const std::string_view text = contents.text();
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
  if (text.size() < 8 || length > text.size() - 8 || length > longest_header) {
    return damaged(file_name, "the .safetensors header is cut off");
  }
  const std::optional<Json> header = read_json(text.substr(8, length));
  const JsonObject* entries = header ? header->as<JsonObject>() : nullptr;
  if (entries == nullptr) return damaged(file_name, "the .safetensors header is no JSON object");
  const Contents data = part(contents, 8 + length, text.size() - 8 - length);

  std::vector<Array> arrays;
  for (const auto& [name, json] : *entries) {
    if (name == "__metadata__") continue;
    const JsonObject* entry = json.as<JsonObject>();
    const Json* kind = entry != nullptr ? find(*entry, "dtype") : nullptr;
    const auto shape = entry != nullptr ? integers(find(*entry, "shape")) : std::nullopt;
    const auto place = entry != nullptr ? integers(find(*entry, "data_offsets")) : std::nullopt;
    const std::string* type_name = kind != nullptr ? kind->as<std::string>() : nullptr;
    if (type_name == nullptr || !shape || !place || place->size() != 2) {
      return damaged(file_name, "the .safetensors header does not describe '" + name + "'");
    }
    const auto* type = std::find_if(std::begin(type_names), std::end(type_names),
                                    [&](const TypeName& t) { return *type_name == t.name; });
    if (type == std::end(type_names)) {
      return error(Status::bad_input, 813, "'" + name + "' is of type " + *type_name + ", which is not supported")
          .at({.file = file_name});
    }
    const std::optional<int64_t> numel = checked_numel(*shape);
    const auto start = static_cast<uint64_t>((*place)[0]), end = static_cast<uint64_t>((*place)[1]);
    if (start > end || end > data.size || !numel ||
        static_cast<uint64_t>(*numel) * size_of(type->dtype) != end - start) {
      return damaged(file_name, "the bytes of '" + name + "' lie outside of the file, or its shape contradicts them");
    }
    arrays.push_back({name, to_tensor(part(data, start, end - start), type->dtype, *shape)});
  }
  return arrays;
}

Result<void> write_safetensors(OutputFile& file, const std::vector<Array>& arrays) {
  // Wide elements first keeps all aligned; then by name.
  std::vector<const Array*> order;
  for (const Array& array : arrays) order.push_back(&array);
  std::sort(order.begin(), order.end(), [](const Array* a, const Array* b) {
    const size_t x = size_of(a->tensor.dtype), y = size_of(b->tensor.dtype);
    return x != y ? x > y : a->name < b->name;
  });
  std::string header = "{";
  uint64_t offset = 0;
  for (const Array* array : order) {
    const Tensor& tensor = array->tensor;
    const auto* type = std::find_if(std::begin(type_names), std::end(type_names),
                                    [&](const TypeName& t) { return t.dtype == tensor.dtype; });
    if (type == std::end(type_names)) {
      return error(
          Status::usage, 814,
          ".safetensors has no type for the " + std::string(name_of(tensor.dtype)) + " tensor '" + array->name + "'");
    }
    header += (array == order.front() ? "" : ",") + json_string(array->name) + ":{\"dtype\":\"" + type->name +
              "\",\"shape\":[";
    for (size_t i = 0; i < tensor.sizes.size(); ++i) header += (i == 0 ? "" : ",") + std::to_string(tensor.sizes[i]);
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + tensor.nbytes()) + "]}";
    offset += tensor.nbytes();
  }
  header += "}";
  header.append((64 - (8 + header.size()) % 64) % 64, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  if (Result<void> out = file.write(length + header); !out) return out;
  for (const Array* array : order) {
    const Tensor tensor = array->tensor.contiguous();
    if (Result<void> out = file.write(tensor.data(), tensor.nbytes()); !out) return out;
  }
  return {};
}

}  // namespace atenon::arrays
