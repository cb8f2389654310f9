// Nodes: arguments, and the users that they keep in step.
#include <algorithm>
#include <cassert>

#include "ir/graph.h"

namespace atenon::ir {
namespace {

bool mentions(const Argument& argument, const Value* value) {
  bool found = false;
  for_each(argument, [&](const Argument& leaf) { found |= leaf.value() == value; });
  return found;
}

}  // namespace

void for_each(const Argument& argument, const std::function<void(const Argument&)>& visit) {
  visit(argument);
  if (!argument.is<ArgumentList>()) return;
  for (const Argument& item : argument.get<ArgumentList>()) for_each(item, visit);
}

Argument map_values(const Argument& argument, const std::function<Argument(Value*)>& map) {
  if (Value* value = argument.value()) return map(value);
  if (!argument.is<ArgumentList>()) return argument;
  return map_values(argument.get<ArgumentList>(), map);
}

std::vector<Argument> map_values(const std::vector<Argument>& arguments, const std::function<Argument(Value*)>& map) {
  std::vector<Argument> out;
  out.reserve(arguments.size());
  for (const Argument& argument : arguments) out.push_back(map_values(argument, map));
  return out;
}

std::vector<Named> map_values(const std::vector<Named>& named, const std::function<Argument(Value*)>& map) {
  std::vector<Named> out;
  out.reserve(named.size());
  for (const Named& entry : named) out.push_back({entry.name, map_values(entry.argument, map)});
  return out;
}

const Argument* find(const std::vector<Named>& named, const std::string& name) {
  for (const Named& entry : named) {
    if (entry.name == name) return &entry.argument;
  }
  return nullptr;
}

const Argument* Node::keyword(const std::string& name) const { return find(keywords_, name); }
const Argument* Node::annotation(const std::string& name) const { return find(annotations, name); }

void Node::annotate(const std::string& name, Argument value) {
  for (Named& entry : annotations) {
    if (entry.name == name) {
      entry.argument = std::move(value);
      return;
    }
  }
  annotations.push_back({name, std::move(value)});
}

void Node::set_arguments(std::vector<Argument> arguments, std::vector<Named> keywords) {
  count_uses(false);
  arguments_ = std::move(arguments);
  keywords_ = std::move(keywords);
  count_uses(true);
}

std::vector<Value*> Node::operands() const {
  std::vector<Value*> out;
  const auto collect = [&out](const Argument& argument) {
    if (Value* value = argument.value()) out.push_back(value);
  };
  for (const Argument& argument : arguments_) for_each(argument, collect);
  for (const Named& keyword : keywords_) for_each(keyword.argument, collect);
  return out;
}

void Node::replace_operand(Value* from, const Argument& to) {
  const auto map = [from, &to](Value* value) { return value == from ? to : Argument(value); };
  count_uses(false);
  for (Argument& argument : arguments_) {
    if (mentions(argument, from)) argument = map_values(argument, map);
  }
  for (Named& keyword : keywords_) {
    if (mentions(keyword.argument, from)) keyword.argument = map_values(keyword.argument, map);
  }
  count_uses(true);
}

bool Node::has_users() const {
  return std::any_of(results_.begin(), results_.end(), [](const auto& result) { return result->has_users(); });
}

void Node::count_uses(bool add) {
  for (Value* value : operands()) {
    if (add) {
      value->users.push_back(this);
    } else {
      // The latest entry first: a node that is being built or erased is usually the last user.
      const auto found = std::find(value->users.rbegin(), value->users.rend(), this);
      assert(found != value->users.rend());
      value->users.erase(std::next(found).base());
    }
  }
}

}  // namespace atenon::ir
