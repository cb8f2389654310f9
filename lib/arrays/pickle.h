// Python's pickles as plain values, without running anything.
//
// A pickle is a program for a stack machine. Where Python would import and call, this keeps a note of what would be
// called with which arguments; readers pick out the few calls whose meaning they know (torch._utils._rebuild_tensor_v2)
// and leave the rest alone. So any pickle can be looked at, and none can do harm.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/result.h"

namespace atenon::arrays {

struct PickleValue {
  enum class Kind {
    none,
    boolean,
    integer,
    real,
    text,
    bytes,
    list,        // list, tuple, set: `items`
    dict,        // `entries`, in order
    name,        // a class or function: `text` is "module.name"
    call,        // `items`: what is called, and a list of arguments; `state` is what Python would set afterwards
    persistent,  // an object outside of the pickle: `items` holds what identifies it
  };
  Kind kind = Kind::none;
  int64_t integer = 0;  // booleans, too
  double real = 0;
  std::string text;
  std::vector<PickleValue*> items;
  std::vector<std::pair<PickleValue*, PickleValue*>> entries;  // dicts, and what was set in a call's result
  PickleValue* state = nullptr;

  // The value of a text key.
  const PickleValue* at(std::string_view key) const;
  bool is_call_of(std::string_view name) const;
};

// Owns its values; they may refer to each other in cycles.
class Pickle {
 public:
  // Reads one pickle from the start of `text`. The reason, if it is damaged or has an unknown instruction.
  static Result<Pickle> read(std::string_view text, const std::string& file_name);
  Pickle(Pickle&&) = default;
  const PickleValue& root() const { return *root_; }
  const std::deque<PickleValue>& values() const { return values_; }
  size_t size() const { return size_; }  // bytes of the pickle

 private:
  friend class Unpickler;
  Pickle() = default;
  std::deque<PickleValue> values_;
  PickleValue* root_ = nullptr;
  size_t size_ = 0;
};

}  // namespace atenon::arrays
