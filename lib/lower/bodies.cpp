// Bodies of calls, and the order of groups.
#include <algorithm>
#include <cassert>

#include "ir/control_flow.h"
#include "lower/lowering.h"

namespace atenon::lower {

using ir::Value;

Layout Lowering::layout(const Value& value) const {
  auto found = layouts.find(&value);
  return found == layouts.end() ? row_major(value.meta().sizes) : found->second;
}

const Value* Lowering::handed(const Value& input) const {
  if (!runner) return nullptr;
  const ir::ControlFlow flow = *ir::control_flow(*runner);
  for (size_t i = 0; i < flow.operands.size(); ++i)
    if (ir::input_of_operand(flow, body->second, i) == &input) return flow.operands[i].value();
  return nullptr;
}

void find_boundary(const std::vector<ir::Node*>& nodes, std::vector<Value*>& operands, std::vector<Value*>& results) {
  const std::set<const ir::Node*> inside(nodes.begin(), nodes.end());
  operands.clear();
  results.clear();
  for (ir::Node* node : nodes) {
    for (Value* operand : node->operands())
      if (!inside.count(operand->producer) && std::find(operands.begin(), operands.end(), operand) == operands.end())
        operands.push_back(operand);
    for (const auto& result : node->results()) {
      bool is_read_outside = result->returned > 0 || !node->has_users();  // an unread draw gives what it draws
      for (const ir::Node* user : result->users) is_read_outside |= !inside.count(user);
      if (is_read_outside) results.push_back(result.get());
    }
  }
}

ir::Graph make_body(const std::vector<ir::Node*>& nodes, const std::vector<Value*>& operands,
                    const std::vector<Value*>& results) {
  ir::Graph body;
  std::map<const Value*, Value*> inner;
  for (Value* operand : operands) inner[operand] = body.add_input(operand->name, operand->type);
  auto replace = [&](Value* value) { return ir::Argument(inner.at(value)); };
  for (const ir::Node* node : nodes) {
    const ir::Node* copy = body.add_copy(*node, replace);
    for (size_t i = 0; i < node->results().size(); ++i) inner[node->result(i)] = copy->result(i);
  }
  std::vector<ir::Argument> outputs;
  for (Value* result : results) outputs.push_back(inner.at(result));
  body.set_outputs(std::move(outputs));
  return body;
}

Positions find_segments(ir::Graph& graph) {
  Positions segments;
  size_t segment = 0;
  for (const ir::Node& node : graph.forward()) {
    segments.emplace(&node, segment);
    if (stays(node)) ++segment;
  }
  return segments;
}

std::map<const ir::Node*, const ir::Node*> find_next_draws(const opset::Opset& opset, ir::Graph& graph) {
  std::map<const ir::Node*, const ir::Node*> next;
  const ir::Node* last = nullptr;
  for (const ir::Node& node : graph.forward()) {
    if (!opset.has_tag(node, "random")) continue;
    if (last) next.emplace(last, &node);
    last = &node;
  }
  return next;
}

void order_groups(Lowering& lowering) {
  std::map<const ir::Node*, size_t> position;
  for (const ir::Node& node : lowering.graph().forward()) position.emplace(&node, position.size());
  const Positions segments = find_segments(lowering.graph());
  // Of the last node: where the group would stand, all of a segment before the next.
  std::map<const Group*, std::pair<size_t, size_t>> rank;
  for (auto& group : lowering.groups) {
    std::sort(group->nodes.begin(), group->nodes.end(),
              [&](const ir::Node* a, const ir::Node* b) { return position[a] < position[b]; });
    find_boundary(group->nodes, group->operands, group->results);
    rank[group.get()] = {segments.at(group->nodes.back()), position[group->nodes.back()]};
  }
  // The ready group that stands first is next.
  std::map<const Group*, size_t> waiting;
  std::map<const Group*, std::vector<Group*>> readers;
  auto later = [&](const Group* a, const Group* b) { return rank[a] < rank[b]; };
  std::set<Group*, decltype(later)> ready(later);
  std::map<const Group*, Group*> draws_before;
  for (const auto& [draw, next] : find_next_draws(lowering.opset, lowering.graph()))
    draws_before[lowering.group_of.at(next)] = lowering.group_of.at(draw);
  for (auto& group : lowering.groups) {
    std::set<Group*> producers;
    if (const auto draw = draws_before.find(group.get()); draw != draws_before.end()) producers.insert(draw->second);
    for (Value* operand : group->operands)
      if (operand->producer) producers.insert(lowering.group_of.at(operand->producer));
    waiting[group.get()] = producers.size();
    for (Group* producer : producers) readers[producer].push_back(group.get());
    if (producers.empty()) ready.insert(group.get());
  }
  std::vector<Group*> order;
  while (!ready.empty()) {
    Group* next = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(next);
    for (Group* reader : readers[next])
      if (--waiting[reader] == 0) ready.insert(reader);
  }
  assert(order.size() == lowering.groups.size() && "groups depend on each other in a circle");
  std::map<const Group*, size_t> place;
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::sort(lowering.groups.begin(), lowering.groups.end(),
            [&](const auto& a, const auto& b) { return place[a.get()] < place[b.get()]; });
}

}  // namespace atenon::lower
