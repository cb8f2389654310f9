// The report of `atenon diff`, as text and as JSON.
#include "diff/diff.h"
#include "support/json.h"
#include "text/numbers.h"

namespace atenon::diff {
namespace {

std::string shortest(double x) { return text::rounded(x, 3); }

std::string place(const Difference& difference) {
  std::string text = "[";
  for (size_t i = 0; i < difference.at.size(); ++i) text += (i ? ", " : "") + std::to_string(difference.at[i]);
  return text + "]: " + text::rounded(difference.left, 9) + " | " + text::rounded(difference.right, 9);
}

nlohmann::ordered_json json(const Difference& difference) {
  return {{"largest", difference.largest},
          {"excess", difference.excess},
          {"at", difference.at},
          {"left", difference.left},
          {"right", difference.right}};
}

}  // namespace

std::string to_text(const Report& report) {
  std::string text;
  for (const std::string& line : report.structure) text += "structure  " + line + "\n";
  for (const Inexact& call : report.inexact)
    text += "inexact    " + call.call + " by " + call.kernel + ": errors up to " + shortest(call.error) +
            " of the largest result on a sample (direct: " + shortest(call.direct_error) + ")" +
            (call.line.empty() ? "" : "  # " + call.line) + "\n";
  if (!report.compared) return text + (report.same() ? "the same structure\n" : "");
  for (const auto& [name, difference] : report.outputs) {
    text += "output     " + name + ": largest difference " + shortest(difference.largest) + ", " +
            shortest(100 * difference.excess) + " % of what is allowed\n";
  }
  text += "nodes      " + std::to_string(report.matched) + " values compared, of " + std::to_string(report.nodes) +
          " nodes\n";
  if (report.first) {
    text += "departs    " + report.first->left + (report.first->line.empty() ? "" : "  # " + report.first->line) +
            "\n" + "           " + report.first->right + "\n" + "           at " + place(report.first->difference) +
            "\n";
  }
  return text + (report.same() ? "the same within the tolerance\n" : "they differ\n");
}

std::string to_json(const Report& report) {
  nlohmann::ordered_json outputs = nlohmann::ordered_json::object();
  for (const auto& [name, difference] : report.outputs) outputs[name] = json(difference);
  nlohmann::ordered_json root = {{"schema", 1},
                                 {"same", report.same()},
                                 {"structure", report.structure},
                                 {"outputs", outputs},
                                 {"matched", report.matched}};
  for (const Inexact& call : report.inexact)
    root["inexact"].push_back({{"call", call.call},
                               {"kernel", call.kernel},
                               {"error", call.error},
                               {"direct_error", call.direct_error},
                               {"line", call.line}});
  if (report.first) {
    root["departs"] = {{"left", report.first->left},
                       {"right", report.first->right},
                       {"line", report.first->line},
                       {"difference", json(report.first->difference)}};
  }
  return json_text(root, 1) + "\n";
}

}  // namespace atenon::diff
