// The spelling of types, as the text form has it.
#include "ir/types.h"

namespace atenon::ir {
namespace {

void append_list(std::string& out, const std::vector<SymInt>& items) {
  out += '[';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    out += items[i].to_string();
  }
  out += ']';
}

}  // namespace

std::string to_string(const TensorMeta& meta) {
  std::string out = name_of(meta.dtype);
  append_list(out, meta.sizes);
  const bool has_offset = !(meta.offset == SymInt(0));
  if (!meta.strides && !has_offset) return out;
  out += '{';
  if (meta.strides) {
    out += "strides=";
    append_list(out, *meta.strides);
    if (has_offset) out += ", ";
  }
  if (has_offset) out += "offset=" + meta.offset.to_string();
  return out + '}';
}

std::string to_string(const Type& type) {
  if (const auto* meta = std::get_if<TensorMeta>(&type)) return to_string(*meta);
  switch (std::get<ScalarKind>(type)) {
    case ScalarKind::integer:
      return "int";
    case ScalarKind::floating:
      return "float";
    case ScalarKind::boolean:
      return "bool";
  }
  return {};
}

}  // namespace atenon::ir
