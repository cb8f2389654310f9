// `atenon run --memory`: what a program plans to take at the sizes of its inputs, or at any that a user names.
//
// The arena is a formula of the symbols, which lower has written down. Scratch has none: a library says what it wants
// of one call at one size for one number of threads. So it is the very calls that a run would make that are asked, and
// what is printed is what a run allocates.
#include "run/memory.h"

#include <algorithm>
#include <charconv>

#include "support/parallel.h"

namespace atenon::run {
namespace {

constexpr int64_t most_lines = 10'000;  // each is a plan

struct SizeRange {
  std::string symbol;
  int64_t lower = 0, upper = 0;
};

Diagnostic unreadable(const std::string& word) {
  return error(Status::usage, 628, "cannot read the size '" + word + "'").note("write batch=8 or batch=1..64");
}

Result<SizeRange> read_size(const ir::EntryPoint& entry, const std::string& word) {
  SizeRange size;
  const size_t equals = word.find('='), dots = word.find("..", std::min(equals, word.size()));
  if (equals == std::string::npos) return unreadable(word);
  const auto number = [&](size_t begin, size_t end, int64_t& value) {
    const auto [rest, problem] = std::from_chars(word.data() + begin, word.data() + end, value);
    return problem == std::errc() && rest == word.data() + end;
  };
  const bool is_range = dots != std::string::npos;
  if (!number(equals + 1, is_range ? dots : word.size(), size.lower)) return unreadable(word);
  if (!number(is_range ? dots + 2 : equals + 1, word.size(), size.upper) || size.upper < size.lower)
    return unreadable(word);

  const std::string name = word.substr(0, equals);
  std::vector<std::string> names;
  for (const ir::Symbol& symbol : entry.symbols) {
    if (symbol.source.empty()) continue;
    if (name == symbol.name || name == symbol.source) size.symbol = symbol.name;
    names.push_back(symbol.name);
  }
  if (!size.symbol.empty()) return size;
  Diagnostic unknown = error(Status::usage, 628, "no size of the program's inputs is named '" + name + "'");
  for (const std::string& known : names) unknown.notes.push_back({"it has '" + known + "'"});
  return unknown;
}

std::string bytes(size_t count) { return std::to_string(count) + " bytes"; }

std::string scratch_of(const Memory& memory) { return memory.scratch_of.empty() ? "" : ", of " + memory.scratch_of; }

}  // namespace

nlohmann::ordered_json to_json(const Memory& memory) {
  nlohmann::ordered_json json = {{"weights", memory.weights}, {"copies", memory.repacked}};
  if (memory.formula.empty()) return json;
  json.update({{"arena", memory.arena},
               {"formula", memory.formula},
               {"scratch", memory.scratch},
               {"threads", threads()},
               {"total", memory.total()}});
  return json;
}

std::string to_text(const Memory& memory) {
  std::string text = "weights " + bytes(memory.weights) + "\n";
  if (memory.repacked > 0) text += "copies  " + bytes(memory.repacked) + ": weights in another layout\n";
  if (memory.formula.empty()) return text + "the rest is not planned: the program is not lowered\n";
  text += "arena   " + bytes(memory.arena) + " = " + memory.formula + "\n";
  text +=
      "scratch " + bytes(memory.scratch) + scratch_of(memory) + ", with --threads " + std::to_string(threads()) + "\n";
  return text + "total   " + bytes(memory.total()) + "\n";
}

Result<std::string> memory_at(Session& session, const std::vector<std::string>& sizes, bool json) {
  shape::Bindings symbols;
  for (const ir::Symbol& symbol : session.entry().symbols)
    symbols[symbol.name] = symbol.hint.value_or(symbol.range.lower);
  std::vector<SizeRange> ranges;
  int64_t lines = 1;
  for (const std::string& word : sizes) {
    Result<SizeRange> range = read_size(session.entry(), word);
    if (!range) return range.error();
    for (const SizeRange& other : ranges)
      if (other.symbol == range->symbol)
        return error(Status::usage, 628, "the size '" + range->symbol + "' is given twice")
            .note("write " + range->symbol + "=1..64 for a line each");
    symbols[range->symbol] = range->lower;
    int64_t steps = 0;  // past the first
    if (__builtin_sub_overflow(range->upper, range->lower, &steps) || steps >= most_lines / lines)
      return error(Status::usage, 628, "'" + word + "' makes more than " + std::to_string(most_lines) + " lines")
          .note("give a smaller range");
    lines *= steps + 1;
    ranges.push_back(std::move(*range));
  }
  if (lines == 1) {
    Result<Memory> memory = session.memory(symbols);
    if (!memory) return memory.error();
    if (!json) return to_text(*memory);
    nlohmann::ordered_json report = {{"schema", 1}};
    report.update(to_json(*memory));
    return json_text(report, 1) + "\n";
  }

  std::string text;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (bool is_done = false; !is_done;) {
    nlohmann::ordered_json& here = list.emplace_back();
    for (const SizeRange& range : ranges) here["sizes"][range.symbol] = symbols[range.symbol];
    for (const SizeRange& range : ranges)
      text += (&range == ranges.data() ? "" : ", ") + range.symbol + "=" + std::to_string(symbols[range.symbol]);
    Result<Memory> memory = session.memory(symbols);
    if (memory)
      here.update(to_json(*memory));
    else
      here["refused"] = memory.failure().message;
    if (memory)
      text += ": arena " + std::to_string(memory->arena) + ", scratch " + std::to_string(memory->scratch) +
              scratch_of(*memory) + ", total " + bytes(memory->total()) + "\n";
    else if (memory.failure().status == Status::violated)
      text += ": " + memory.failure().message + "\n";
    else
      return memory.error();
    is_done = true;
    for (size_t i = ranges.size(); is_done && i-- > 0;) {  // the last one varies first
      int64_t& value = symbols[ranges[i].symbol];
      is_done = value == ranges[i].upper;
      value = is_done ? ranges[i].lower : value + 1;
    }
  }
  return json ? json_text({{"schema", 1}, {"memory", list}}, 1) + "\n" : text;
}

}  // namespace atenon::run
