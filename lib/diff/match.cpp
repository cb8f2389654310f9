#include "diff/match.h"

#include "ir/call_body.h"

namespace atenon::diff {
namespace {

// A value, and what it stands for.
struct Origin {
  const ir::Value* value = nullptr;  // none where it stays inside a call
  std::string type;
  std::string place;  // call stack and module
  std::string root;   // the operator as captured
  std::string chain;  // all operators from the captured one to this
};

std::string type_key(const ir::Value& value) {
  return value.is_tensor() ? std::to_string(value.meta().rank()) : "number";
}

// Of what `node` computes as `made`, which is `value` of the main graph, if anything.
Origin origin_of(const ir::ExportedProgram& program, const ir::Value* value, const ir::Value& made) {
  const ir::Node& node = *made.producer;
  const ir::CallStack& stack = program.provenance.at(node.provenance);
  Origin origin{value, type_key(made), stack.module_path,
                stack.made_from.empty() ? node.target() : stack.made_from.front()};
  for (const ir::SharedFrame& frame : stack.frames)
    origin.place += "|" + frame->file + ":" + std::to_string(frame->line) + ":" + frame->function;
  for (const std::string& target : stack.made_from) origin.chain += target + ">";
  origin.chain += node.target() + "#" + std::to_string(made.index);
  return origin;
}

// A lowered call stands for the nodes of its body: the main graph has the values of those that the body returns. The
// others are there once, though several calls may compute them anew.
std::vector<Origin> origins(const ir::ExportedProgram& program, const ir::Variant& variant) {
  std::vector<Origin> all;
  std::set<std::string> inside;  // names
  for (const ir::Node& call : variant.graph.forward()) {
    const ir::Graph* body = ir::body_of(call, variant);
    if (!body) {
      for (const auto& result : call.results()) all.push_back(origin_of(program, result.get(), *result));
      continue;
    }
    std::map<const ir::Value*, const ir::Value*> returned;
    for (size_t i = 0; i < std::min(call.results().size(), body->outputs().size()); ++i)
      returned[body->outputs()[i].value()] = call.results()[i].get();
    for (const ir::Node& node : body->forward())
      for (const auto& made : node.results()) {
        const auto value = returned.find(made.get());
        if (value != returned.end())
          all.push_back(origin_of(program, value->second, *made));
        else if (inside.insert(made->name).second)
          all.push_back(origin_of(program, nullptr, *made));
      }
  }
  return all;
}

// Pairs equal keys in order, where both sides have as many, or one side has a whole multiple: then a decomposition
// turned each node into several, and the last of each group is its result.
void pair_up(const std::vector<Origin>& left, const std::vector<Origin>& right,
             const std::function<std::string(const Origin&)>& key, Matches& matches,
             std::set<const ir::Value*>& taken) {
  std::map<std::string, std::pair<std::vector<const Origin*>, std::vector<const Origin*>>> groups;
  for (const Origin& origin : left)
    if (!matches.contains(origin.value)) groups[key(origin)].first.push_back(&origin);
  for (const Origin& origin : right)
    if (!taken.contains(origin.value)) groups[key(origin)].second.push_back(&origin);
  for (const auto& [name, group] : groups) {
    const auto& [a, b] = group;
    if (a.empty() || b.empty()) continue;
    size_t count = std::min(a.size(), b.size());
    if (a.size() % count != 0 || b.size() % count != 0) continue;
    for (size_t i = 0; i < count; ++i) {
      const Origin& x = *a[(i + 1) * (a.size() / count) - 1];
      const Origin& y = *b[(i + 1) * (b.size() / count) - 1];
      if (!x.value || !y.value || x.type != y.type) continue;
      matches.emplace(x.value, y.value);
      taken.insert(y.value);
    }
  }
}

}  // namespace

Matches match(const ir::ExportedProgram& left_program, const ir::Variant& left,
              const ir::ExportedProgram& right_program, const ir::Variant& right) {
  std::vector<Origin> a = origins(left_program, left), b = origins(right_program, right);
  Matches matches;
  std::set<const ir::Value*> taken;
  // First what is the same operator by the same way, then what comes from the same captured node.
  pair_up(a, b, [](const Origin& o) { return o.place + "@" + o.chain; }, matches, taken);
  pair_up(a, b, [](const Origin& o) { return o.place + "@" + o.root + "@" + o.type; }, matches, taken);
  return matches;
}

}  // namespace atenon::diff
