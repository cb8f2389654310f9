#include "pt2/json_items.h"

#include <algorithm>
#include <limits>

namespace atenon::pt2 {
namespace {

constexpr int deepest = 200;  // control flow nests a graph in an argument of a node: seven levels each

// Brackets outside of strings: nlohmann's parser has no limit of its own.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > deepest) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Diagnostic damaged(const std::string& file_name, const std::string& what) {
  return error(Status::bad_input, 822, what).at({.file = file_name});
}

Result<Document> Document::parse(std::string_view text, const std::string& file_name, const std::string& name) {
  if (is_too_deep(text)) return damaged(file_name, name + " is nested too deeply");
  Document document;
  document.name_ = name;
  document.value_ = std::make_unique<nlohmann::json>(nlohmann::json::parse(text, nullptr, false));
  document.trouble_ = std::make_unique<Item::Trouble>();
  document.trouble_->file_name = file_name;
  if (document.value_->is_discarded()) return damaged(file_name, name + " is no JSON, or cut off");
  return document;
}

Result<void> Document::check() const {
  if (trouble_->first) return Diagnostic(*trouble_->first);
  return {};
}

bool Item::operator==(const Item& other) const {
  return value_ == other.value_ || (value_ && other.value_ && *value_ == *other.value_);
}

void Item::fail(const std::string& what) const {
  if (!trouble_->first)
    trouble_->first = std::make_unique<Diagnostic>(damaged(trouble_->file_name, path_ + " " + what));
}

Item Item::find(const std::string& key) const {
  const nlohmann::json* found = nullptr;
  if (value_ && value_->is_object())
    if (const auto member = value_->find(key); member != value_->end()) found = &*member;
  return {found, path_ + "." + key, trouble_};
}

Item Item::at(const char* key) const {
  Item member = find(key);
  if (member.is_null()) member.fail("is missing");
  return member;
}

std::string Item::text() const {
  if (is_text()) return value_->get<std::string>();
  fail("is no text");
  return "";
}

int64_t Item::integer() const {
  if (is_integer() && !(value_->is_number_unsigned() &&
                        value_->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())))
    return value_->get<int64_t>();
  fail("is no integer of 64 bits");
  return 0;
}

double Item::real() const {
  if (value_ && value_->is_number()) return value_->get<double>();
  if (is_text()) {
    const std::string text = value_->get<std::string>();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  fail("is no number");
  return 0;
}

bool Item::truth() const {
  if (value_ && value_->is_boolean()) return value_->get<bool>();
  fail("is neither true nor false");
  return false;
}

std::vector<Item> Item::items() const {
  std::vector<Item> result;
  if (!value_ || !value_->is_array()) {
    fail("is no list");
    return result;
  }
  for (size_t i = 0; i < value_->size(); ++i)
    result.push_back({&(*value_)[i], path_ + "[" + std::to_string(i) + "]", trouble_});
  return result;
}

std::vector<std::pair<std::string, Item>> Item::members() const {
  std::vector<std::pair<std::string, Item>> result;
  if (!is_object()) {
    fail("is no object");
    return result;
  }
  for (const auto& [key, value] : value_->items()) result.push_back({key, {&value, path_ + "." + key, trouble_}});
  return result;
}

std::pair<std::string, Item> Item::alternative() const {
  // Older writers spell the alternatives that are not chosen as null.
  std::vector<std::pair<std::string, Item>> chosen;
  for (auto& member : members())
    if (!member.second.is_null()) chosen.push_back(std::move(member));
  if (chosen.size() == 1) return chosen.front();
  fail("does not say which one of several kinds it is");
  return {"", {nullptr, path_, trouble_}};
}

}  // namespace atenon::pt2
