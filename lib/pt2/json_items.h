// JSON of an untrusted archive, read without exceptions: an Item asks for what must be there, and the first thing that
// is not is remembered, with its path, while the reading goes on with zeros and empty texts.
//
// So code that reads a record reads like the record; whoever began the reading asks for the failure at the end, and
// uses nothing before.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/result.h"

namespace atenon::pt2 {

class Item {
 public:
  // A member that must be there; missing or null is a failure.
  Item at(const char* key) const;
  // A member that may be missing or null: then is_null().
  Item find(const std::string& key) const;
  static Item none() { return {nullptr, "", nullptr}; }
  bool is_null() const { return value_ == nullptr || value_->is_null(); }

  std::string text() const;
  int64_t integer() const;
  double real() const;  // also "Infinity", "-Infinity", "NaN"
  bool truth() const;
  std::vector<Item> items() const;                            // of an array
  std::vector<std::pair<std::string, Item>> members() const;  // of an object, by name
  std::pair<std::string, Item> alternative() const;           // the one member of a union that is set
  bool is_text() const { return value_ && value_->is_string(); }
  bool is_integer() const { return value_ && value_->is_number_integer(); }
  bool is_list() const { return value_ && value_->is_array(); }
  bool is_object() const { return value_ && value_->is_object(); }

  bool operator==(const Item& other) const;  // the same JSON

  // Remembers a failure at this place, unless there is one.
  void fail(const std::string& what) const;

 private:
  friend class Document;
  struct Trouble {
    std::unique_ptr<Diagnostic> first;
    std::string file_name;
  };
  Item(const nlohmann::json* value, std::string path, Trouble* trouble)
      : value_(value), path_(std::move(path)), trouble_(trouble) {}

  const nlohmann::json* value_;
  std::string path_;
  Trouble* trouble_;
};

class Document {
 public:
  // E0822 if the text is not JSON, or nested deeper than an export ever is. `name` is how messages call it.
  static Result<Document> parse(std::string_view text, const std::string& file_name, const std::string& name);
  Item root() const { return {value_.get(), name_, trouble_.get()}; }
  // The first failure of any Item of this document.
  Result<void> check() const;

 private:
  Document() = default;
  std::string name_;
  std::unique_ptr<nlohmann::json> value_;
  std::unique_ptr<Item::Trouble> trouble_;
};

// E0822, naming the file.
Diagnostic damaged(const std::string& file_name, const std::string& what);

}  // namespace atenon::pt2
