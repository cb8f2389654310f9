#include "run/profile.h"

#include <algorithm>

namespace atenon::run {

double Profile::Row::median() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

double Profile::Row::of_limit(const kernels::Limits& limits) const {
  return std::max(flops / limits.flops, bytes / limits.bytes) / std::max(median(), 1e-9);
}

void Profile::add(const Observation& seen) {
  auto [found, is_new] = index_.try_emplace(&seen.node, rows_.size());
  if (is_new) {
    std::string name = seen.node.results().empty() ? seen.node.target() : "%" + seen.node.result()->name;
    std::string kernel = seen.kernel;
    if (seen.detail && !seen.detail->empty()) kernel += " (" + *seen.detail + ")";
    if (seen.rounds > 1) kernel += ", " + std::to_string(seen.rounds) + " times";
    rows_.push_back({std::move(name), std::move(kernel), python_line(program_, seen.node), {}, seen.flops, seen.bytes});
  }
  rows_[found->second].seconds.push_back(seen.seconds);
}

std::vector<const Profile::Row*> Profile::slowest_first() const {
  std::vector<const Row*> order;
  for (const Row& row : rows_) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const Row* a, const Row* b) { return a->median() > b->median(); });
  return order;
}

std::string Profile::to_text(const kernels::Limits& limits) const {
  double total = 0;
  std::map<std::string, std::pair<double, int>> by_kernel;
  for (const Row& row : rows_) {
    total += row.median();
    auto& sum = by_kernel[row.kernel.substr(0, row.kernel.find_first_of(" ,"))];
    sum.first += row.median();
    ++sum.second;
  }
  char line[192];
  snprintf(line, sizeof line, "limits of this machine with %d threads: %.1f GFLOP/s, %.1f GB/s from memory\n",
           limits.threads, limits.flops / 1e9, limits.bytes / 1e9);
  std::string text = line;
  text += "      ms     %  GFLOP/s   GB/s  % of limit  result            kernel\n";
  for (const Row* row : slowest_first()) {
    double seconds = std::max(row->median(), 1e-9);
    snprintf(line, sizeof line, "%8.3f %5.1f %8.1f %6.1f %11.0f  %-16s  ", seconds * 1e3,
             100 * seconds / std::max(total, 1e-9), row->flops / seconds / 1e9, row->bytes / seconds / 1e9,
             100 * row->of_limit(limits), row->name.c_str());
    text += line + row->kernel + (row->line.empty() ? "" : "  # " + row->line) + "\n";
  }
  for (const auto& [kernel, sum] : by_kernel) {
    snprintf(line, sizeof line, "%8.3f %5.1f  all %d of %s\n", sum.first * 1e3, 100 * sum.first / std::max(total, 1e-9),
             sum.second, kernel.c_str());
    text += line;
  }
  return text;
}

nlohmann::ordered_json Profile::to_json(const kernels::Limits& limits) const {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    calls.push_back({{"result", row.name},
                     {"kernel", row.kernel},
                     {"seconds", row.median()},
                     {"flops", row.flops},
                     {"bytes", row.bytes},
                     {"of_limit", row.of_limit(limits)},
                     {"line", row.line}});
  }
  return {{"limits", {{"threads", limits.threads}, {"flops", limits.flops}, {"bytes", limits.bytes}}},
          {"calls", calls}};
}

}  // namespace atenon::run
