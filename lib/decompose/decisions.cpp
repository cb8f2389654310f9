// `decompose --explain`: why each node was kept or rewritten, as text and as JSON.
#include "decompose/decompose.h"
#include "support/json.h"

namespace atenon::decompose {

std::string to_text(const Report& report) {
  std::string text;
  for (const Decision& decision : report.decisions) {
    text += (decision.rewritten ? "rewrite %" : "keep    %") + decision.node + " = " + decision.target + ": " +
            decision.reason;
    if (!decision.line.empty()) text += "  # " + decision.line;
    text += "\n";
  }
  return text;
}

std::string to_json(const Report& report) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const Decision& decision : report.decisions) {
    nodes.push_back({{"node", decision.node},
                     {"target", decision.target},
                     {"rewritten", decision.rewritten},
                     {"reason", decision.reason},
                     {"line", decision.line}});
  }
  return json_text({{"schema", 1}, {"nodes", nodes}}, 1) + "\n";
}

}  // namespace atenon::decompose
