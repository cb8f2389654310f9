// Weights and code as tables, and the line that sums up a program.
#include <algorithm>
#include <cstdio>
#include <set>

#include "show/forms.h"
#include "text/text.h"

namespace atenon::show {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two spaces apart; nothing trails.
std::string align(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string plural(size_t count, const std::string& noun) {
  const bool ends_in_y = noun.ends_with('y');
  return std::to_string(count) + " " +
         (count == 1  ? noun
          : ends_in_y ? noun.substr(0, noun.size() - 1) + "ies"
                      : noun + "s");
}

std::string type_of(const Tensor& tensor) {
  ir::TensorMeta meta{tensor.dtype, {tensor.sizes.begin(), tensor.sizes.end()}};
  if (tensor.strides != contiguous_strides(tensor.sizes))
    meta.strides.emplace(tensor.strides.begin(), tensor.strides.end());
  meta.offset = tensor.offset;
  return ir::to_string(meta);
}

}  // namespace

std::string human_bytes(size_t bytes) {
  static constexpr const char* units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text,
                unit == 0 || value >= 99.5 ? "%.0f %s"
                : value >= 9.95            ? "%.1f %s"
                                           : "%.2f %s",
                value, units[unit]);
  return text;
}

size_t distinct_bytes(const ir::ExportedProgram& program) {
  std::set<const Storage*> seen;
  size_t bytes = 0;
  for (const ir::Weight& weight : program.weights) {
    if (seen.insert(weight.tensor.storage.get()).second) bytes += weight.tensor.storage->size();
  }
  return bytes;
}

std::string weight_table(const ir::ExportedProgram& program) {
  std::map<const Storage*, std::string> first_user;
  std::vector<Row> rows = {{"weight", "type", "bytes", "xxh3", "layout"}};
  for (const ir::Weight& weight : program.weights) {
    Storage& storage = *weight.tensor.storage;
    const auto [found, is_new] = first_user.try_emplace(&storage, weight.name);
    rows.push_back({weight.name, type_of(weight.tensor), std::to_string(storage.size()),
                    text::digest_of(storage).substr(0, 16), weight.layout ? weight.layout->to_string() : "row-major"});
    if (!is_new) rows.back().push_back("tied to " + found->second);
    if (storage.is_absent()) rows.back().push_back("bytes absent");
  }
  return align(rows) + plural(program.weights.size(), "weight") + ", " + human_bytes(distinct_bytes(program)) + " in " +
         plural(first_user.size(), "storage") + "\n";
}

std::string code_table(const ir::ExportedProgram& program) {
  std::map<std::string, int> uses;
  for (const NamedGraph& named : graphs_of(program, {})) {
    for (const ir::Node& node : named.graph->forward()) {
      const ir::Argument* code = node.annotation("code");
      if (code && code->is<std::string>()) ++uses[code->get<std::string>()];
    }
  }
  std::vector<Row> rows = {{"code", "target", "bytes", "xxh3", "calls"}};
  for (const ir::CodeSegment& code : program.code) {
    rows.push_back({code.name, code.target, std::to_string(code.bytes->size()),
                    text::digest_of(*code.bytes).substr(0, 16), std::to_string(uses[code.name])});
  }
  return align(rows);
}

std::string summary(const ir::ExportedProgram& program) {
  size_t nodes = 0, variants = 0;
  for (const ir::EntryPoint& entry : program.entries) variants += entry.variants.size();
  for (const NamedGraph& named : graphs_of(program, {})) nodes += named.entry ? named.graph->size() : 0;
  std::string out = plural(program.entries.size(), "entry point");
  if (variants != program.entries.size()) out += " in " + plural(variants, "variant");
  out += ", " + plural(nodes, "node") + ", " + plural(program.weights.size(), "weight") + " (" +
         human_bytes(distinct_bytes(program)) + ")";
  if (!program.code.empty()) out += ", " + plural(program.code.size(), "code segment");
  if (!program.extra_files.empty()) out += ", " + plural(program.extra_files.size(), "extra file");
  return out;
}

}  // namespace atenon::show
