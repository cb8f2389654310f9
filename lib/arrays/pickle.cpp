// The stack machine (Lib/pickletools.py has its instructions), protocols 0 to 5 as far as torch.save and checkpoints
// use them.
#include "arrays/pickle.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <map>

#include "arrays/member.h"

namespace atenon::arrays {

const PickleValue* PickleValue::at(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name->kind == Kind::text && name->text == key) return value;
  }
  return nullptr;
}

bool PickleValue::is_call_of(std::string_view name) const {
  return kind == Kind::call && !items.empty() && items[0]->kind == Kind::name && items[0]->text == name;
}

class Unpickler {
 public:
  using Kind = PickleValue::Kind;
  Unpickler(std::string_view text, Pickle& pickle) : text_(text), pickle_(pickle) {}

  bool run() {
    while (!failed_ && !done_) {
      const char opcode = static_cast<char>(byte());
      if (!failed_) step(opcode);
    }
    pickle_.size_ = next_;
    return !failed_;
  }
  const std::string& reason() const { return reason_; }

 private:
  void fail(const std::string& reason) {
    if (!failed_) reason_ = reason;
    failed_ = true;
  }

  // --- Input

  uint64_t little_endian(size_t bytes) {
    if (text_.size() - next_ < bytes) return fail("the pickle is cut off"), 0;
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text_[next_ + i]);
    next_ += bytes;
    return value;
  }
  uint8_t byte() { return static_cast<uint8_t>(little_endian(1)); }

  std::string_view take(uint64_t size) {
    if (size > text_.size() - next_) return fail("the pickle is cut off"), std::string_view();
    next_ += size;
    return text_.substr(next_ - size, size);
  }

  std::string_view line() {
    const size_t end = text_.find('\n', next_);
    if (end == std::string_view::npos) return fail("the pickle is cut off"), std::string_view();
    const std::string_view out = text_.substr(next_, end - next_);
    next_ = end + 1;
    return out;
  }

  // --- Stack

  PickleValue* make(Kind kind) {
    PickleValue& value = pickle_.values_.emplace_back();
    value.kind = kind;
    return &value;
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  void push_integer(int64_t x, Kind kind = Kind::integer) {
    PickleValue* value = make(kind);
    value->integer = x;
    push(value);
  }
  void push_text(std::string_view x, Kind kind = Kind::text) {
    PickleValue* value = make(kind);
    value->text = x;
    push(value);
  }

  PickleValue* pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
      return fail("the pickle takes more from its stack than is there"), make(Kind::none);
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    PickleValue* value = pop();
    if (!failed_) push(value);
    return value;
  }
  std::vector<PickleValue*> pop_to_mark() {
    if (marks_.empty()) return fail("the pickle lacks a mark"), std::vector<PickleValue*>();
    const auto start = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> items(start, stack_.end());
    stack_.erase(start, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_list(std::vector<PickleValue*> items) {
    PickleValue* value = make(Kind::list);
    value->items = std::move(items);
    push(value);
  }
  void push_tuple(size_t count) {
    std::vector<PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }
  void push_call(PickleValue* callee, PickleValue* arguments) {
    PickleValue* value = make(Kind::call);
    value->items = {callee, arguments};
    push(value);
  }
  void set_entries(PickleValue* target, const std::vector<PickleValue*>& flat) {
    if (flat.size() % 2 != 0) return fail("the pickle sets a key without a value");
    for (size_t i = 0; i + 1 < flat.size(); i += 2) target->entries.emplace_back(flat[i], flat[i + 1]);
  }
  void append(PickleValue* target, const std::vector<PickleValue*>& items) {
    target->items.insert(target->items.end(), items.begin(), items.end());
  }
  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return fail("the pickle refers to what it did not remember");
    push(found->second);
  }

  // Two's complement of up to 8 bytes; longer ones have no use in a file of tensors.
  void push_long(uint64_t size) {
    const std::string_view digits = take(size);
    if (size > 8) return push_text(digits, Kind::bytes);
    uint64_t value =
        size > 0 && (static_cast<uint8_t>(digits.empty() ? 0 : digits.back()) & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = digits.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(digits[i]);
    push_integer(static_cast<int64_t>(value));
  }

  void push_decimal(std::string_view text) {
    if (text == "00" || text == "01") return push_integer(text == "01", Kind::boolean);
    if (text.ends_with('L')) text.remove_suffix(1);
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size())
      return fail("the pickle has a number that cannot be read");
    push_integer(value);
  }

  void push_real(double x) {
    PickleValue* value = make(Kind::real);
    value->real = x;
    push(value);
  }

  // --- Instructions

  void step(char opcode) {
    switch (static_cast<uint8_t>(opcode)) {
      case 0x80:  // the protocol's number
        if (byte() > 5) fail("the pickle is of an unknown protocol");
        return;
      case 0x95:
        little_endian(8);
        return;  // a frame's size
      case '.':
        return stop();
      case '(':
        return marks_.push_back(stack_.size());
      case '0':
        pop();
        return;
      case '1':
        pop_to_mark();
        return;
      case '2':
        return push(top());

      case 'N':
        return push(make(Kind::none));
      case 0x88:
        return push_integer(1, Kind::boolean);
      case 0x89:
        return push_integer(0, Kind::boolean);
      case 'J':
        return push_integer(static_cast<int32_t>(little_endian(4)));
      case 'K':
        return push_integer(static_cast<int64_t>(little_endian(1)));
      case 'M':
        return push_integer(static_cast<int64_t>(little_endian(2)));
      case 0x8a:
        return push_long(little_endian(1));
      case 0x8b:
        return push_long(little_endian(4));
      case 'I':
      case 'L':
        return push_decimal(line());
      case 'G':
        return push_real(std::bit_cast<double>(__builtin_bswap64(little_endian(8))));

      case 'X':
        return push_text(take(little_endian(4)));
      case 0x8c:
        return push_text(take(little_endian(1)));
      case 0x8d:
        return push_text(take(little_endian(8)));
      case 'V':
        return push_text(line());
      case 'U':
        return push_text(take(little_endian(1)));  // Python 2's str
      case 'T':
        return push_text(take(little_endian(4)));
      case 'C':
        return push_text(take(little_endian(1)), Kind::bytes);
      case 'B':
        return push_text(take(little_endian(4)), Kind::bytes);
      case 0x8e:
        return push_text(take(little_endian(8)), Kind::bytes);
      case 0x96:
        return push_text(take(little_endian(8)), Kind::bytes);

      case ']':
      case ')':
      case 0x8f:
        return push_list({});
      case 'l':
      case 't':
      case 0x91:
        return push_list(pop_to_mark());
      case 0x85:
        return push_tuple(1);
      case 0x86:
        return push_tuple(2);
      case 0x87:
        return push_tuple(3);
      case 'a': {
        PickleValue* item = pop();
        return append(top(), {item});
      }
      case 'e':
      case 0x90: {
        const std::vector<PickleValue*> items = pop_to_mark();
        return append(top(), items);
      }
      case '}':
        return push(make(Kind::dict));
      case 'd': {
        const std::vector<PickleValue*> flat = pop_to_mark();
        push(make(Kind::dict));
        return set_entries(top(), flat);
      }
      case 's': {
        PickleValue *value = pop(), *key = pop();
        return set_entries(top(), {key, value});
      }
      case 'u': {
        const std::vector<PickleValue*> flat = pop_to_mark();
        return set_entries(top(), flat);
      }

      case 'q':
        memo_[little_endian(1)] = top();
        return;
      case 'r':
        memo_[little_endian(4)] = top();
        return;
      case 0x94: {
        const uint64_t index = memo_.size();
        memo_[index] = top();
        return;
      }
      case 'h':
        return recall(little_endian(1));
      case 'j':
        return recall(little_endian(4));

      case 'c': {
        const std::string module(line());
        return push_text(module + "." + std::string(line()), Kind::name);
      }
      case 0x93: {
        PickleValue *name = pop(), *module = pop();
        return push_text(module->text + "." + name->text, Kind::name);
      }
      case 'R':
      case 0x81: {
        PickleValue *arguments = pop(), *callee = pop();
        return push_call(callee, arguments);
      }
      case 0x92: {
        pop();
        PickleValue *arguments = pop(), *callee = pop();
        return push_call(callee, arguments);
      }
      case 'b': {
        PickleValue* state = pop();
        top()->state = state;
        return;
      }
      case 'Q': {
        PickleValue* value = make(Kind::persistent);
        value->items = pop()->items;
        return push(value);
      }
      default:
        return fail("the pickle has an instruction that is not known (" + std::to_string(static_cast<uint8_t>(opcode)) +
                    ")");
    }
  }

  void stop() {
    pickle_.root_ = pop();
    done_ = true;
  }

  std::string_view text_;
  Pickle& pickle_;
  size_t next_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PickleValue*> memo_;
  std::string reason_;
  bool failed_ = false;
  bool done_ = false;
};

Result<Pickle> Pickle::read(std::string_view text, const std::string& file_name) {
  Pickle pickle;
  Unpickler unpickler(text, pickle);
  if (!unpickler.run()) return damaged(file_name, unpickler.reason());
  return pickle;
}

}  // namespace atenon::arrays
