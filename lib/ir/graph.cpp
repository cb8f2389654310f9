// Graphs: ownership of nodes and values, names, copies and substitution.
#include "ir/graph.h"

#include <algorithm>
#include <cassert>
#include <cctype>

#include "ir/call_body.h"

namespace atenon::ir {
namespace {

// "aten::add.Tensor" -> "add"
std::string name_from_target(const std::string& target) {
  const size_t colons = target.rfind("::");
  const size_t start = colons == std::string::npos ? 0 : colons + 2;
  return target.substr(start, target.find('.', start) - start);
}

// Splits "add_12" into "add" and 12; a name without a number has number 0.
std::pair<std::string, int> split_number(const std::string& name) {
  size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  const bool has_number =
      digits > 1 && digits < name.size() && name.size() - digits < 9 && name[digits - 1] == '_' && name[digits] != '0';
  if (!has_number) return {name, 0};
  return {name.substr(0, digits - 1), std::stoi(name.substr(digits))};
}

std::vector<SymInt> substitute(const std::vector<SymInt>& items, const shape::Substitution& by) {
  std::vector<SymInt> out;
  out.reserve(items.size());
  for (const SymInt& item : items) out.push_back(shape::substitute(item, by));
  return out;
}

void collect(const Type& type, std::set<std::string>& out) {
  const auto* meta = std::get_if<TensorMeta>(&type);
  if (!meta) return;
  for (const SymInt& size : meta->sizes) out.merge(size.symbols());
  if (meta->strides) {
    for (const SymInt& stride : *meta->strides) out.merge(stride.symbols());
  }
  out.merge(meta->offset.symbols());
}

void collect(const Argument& argument, std::set<std::string>& out) {
  for_each(argument, [&out](const Argument& leaf) {
    if (leaf.is<SymInt>()) out.merge(leaf.get<SymInt>().symbols());
    if (leaf.is<SymFloat>()) out.merge(leaf.get<SymFloat>().symbols());
    if (leaf.is<SymBool>()) out.merge(leaf.get<SymBool>().symbols());
  });
}

}  // namespace

Type substitute(const Type& type, const shape::Substitution& by) {
  const auto* meta = std::get_if<TensorMeta>(&type);
  if (!meta) return type;
  TensorMeta out = *meta;
  out.sizes = substitute(meta->sizes, by);
  if (meta->strides) out.strides = substitute(*meta->strides, by);
  out.offset = shape::substitute(meta->offset, by);
  return out;
}

Argument substitute(const Argument& argument, const shape::Substitution& by) {
  if (argument.is<SymInt>()) return shape::substitute(argument.get<SymInt>(), by);
  if (argument.is<SymFloat>()) return shape::substitute(argument.get<SymFloat>(), by);
  if (argument.is<SymBool>()) return shape::substitute(argument.get<SymBool>(), by);
  if (!argument.is<ArgumentList>()) return argument;
  ArgumentList items;
  for (const Argument& item : argument.get<ArgumentList>()) items.push_back(substitute(item, by));
  return items;
}

Graph::Graph(Graph&& other) noexcept { *this = std::move(other); }

Graph& Graph::operator=(Graph&& other) noexcept {
  if (this == &other) return *this;
  nodes_ = std::move(other.nodes_);
  inputs_ = std::move(other.inputs_);
  outputs_ = std::move(other.outputs_);
  names_ = std::move(other.names_);
  first_free_ = std::move(other.first_free_);
  assumptions = std::exchange(other.assumptions, {});
  other.nodes_.clear();
  other.inputs_.clear();
  other.outputs_.clear();
  other.names_.clear();
  other.first_free_.clear();
  for (auto node = nodes_.begin(); node != nodes_.end(); ++node) {
    (*node)->graph_ = this;
    (*node)->position_ = node;
  }
  return *this;
}

Graph Graph::clone() const {
  Graph copy;
  std::map<const Value*, Value*> twin;
  const auto map = [&twin](Value* value) -> Argument { return twin.at(value); };
  for (const auto& input : inputs_) twin[input.get()] = copy.add_input(input->name, input->type);
  for (const auto& node : nodes_) {
    Node* to = copy.add_copy(*node, map);
    for (size_t i = 0; i < node->results().size(); ++i) twin[node->result(i)] = to->result(i);
  }
  copy.set_outputs(map_values(outputs_, map));
  copy.assumptions = assumptions;
  return copy;
}

Value* Graph::add_input(std::string name, Type type) {
  auto value = std::make_unique<Value>(unique_name(name.empty() ? "input" : name), std::move(type));
  value->index = static_cast<int>(inputs_.size());
  names_[value->name] = value.get();
  return inputs_.emplace_back(std::move(value)).get();
}

void Graph::erase_input(Value* input) {
  assert(!input->has_users() && !input->producer);
  forget_name(input->name);
  inputs_.erase(inputs_.begin() + input->index);
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->index = static_cast<int>(i);
}

void Graph::order_inputs(const std::vector<std::string>& names) {
  assert(names.size() == inputs_.size());
  std::vector<std::unique_ptr<Value>> ordered;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(inputs_.begin(), inputs_.end(), [&](const auto& input) { return input && input->name == name; });
    assert(found != inputs_.end());
    ordered.push_back(std::move(*found));
    ordered.back()->index = static_cast<int>(ordered.size()) - 1;
  }
  inputs_ = std::move(ordered);
}

void Graph::rename(Value* value, const std::string& name) {
  assert(!names_.contains(name));
  forget_name(value->name);
  value->name = name;
  names_[name] = value;
}

void Graph::set_outputs(std::vector<Argument> outputs) {
  const auto count = [](const std::vector<Argument>& arguments, int step) {
    for (const Argument& argument : arguments) {
      for_each(argument, [step](const Argument& leaf) {
        if (Value* value = leaf.value()) value->returned += step;
      });
    }
  };
  count(outputs_, -1);
  outputs_ = std::move(outputs);
  count(outputs_, +1);
}

Node* Graph::add(std::string target, std::vector<Argument> arguments, std::vector<Named> keywords,
                 std::vector<Result> results, Node* before) {
  std::unique_ptr<Node> node(new Node);
  Node* added = node.get();
  added->graph_ = this;
  added->target_ = std::move(target);
  added->set_arguments(std::move(arguments), std::move(keywords));
  added->position_ = nodes_.insert(before ? before->position_ : nodes_.end(), std::move(node));
  for (Result& result : results) add_result(*added, std::move(result));
  return added;
}

Node* Graph::add_copy(const Node& node, const std::function<Argument(Value*)>& map, Node* before) {
  std::vector<Argument> arguments = map_values(node.arguments(), map);
  std::vector<Named> keywords = map_values(node.keywords(), map);
  std::vector<Result> results;
  for (const auto& result : node.results()) results.push_back({result->name, result->type});
  Node* copy = add(node.target(), std::move(arguments), std::move(keywords), std::move(results), before);
  copy->annotations = map_values(node.annotations, map);
  copy->provenance = node.provenance;
  return copy;
}

Value* Graph::add_result(Node& node, Result result) {
  const std::string wish = result.name.empty() ? name_from_target(node.target()) : result.name;
  auto value = std::make_unique<Value>(unique_name(wish), std::move(result.type));
  value->producer = &node;
  value->index = static_cast<int>(node.results_.size());
  names_[value->name] = value.get();
  return node.results_.emplace_back(std::move(value)).get();
}

void Graph::erase(Node& node) {
  assert(!node.has_users());
  node.count_uses(false);
  for (const auto& result : node.results_) forget_name(result->name);
  nodes_.erase(node.position_);
}

void Graph::move_before(Node& node, Node& other) { nodes_.splice(other.position_, nodes_, node.position_); }

void Graph::replace_uses(Value* from, const Argument& to) {
  if (to.value() == from) return;
  while (!from->users.empty()) from->users.back()->replace_operand(from, to);
  if (from->returned == 0) return;
  set_outputs(map_values(outputs_, [&](Value* value) { return value == from ? to : Argument(value); }));
}

Graph::Span Graph::forward() { return {&nodes_, false}; }
Graph::Span Graph::backward() { return {&nodes_, true}; }
Graph::Span Graph::forward() const { return {&nodes_, false}; }

Value* Graph::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : found->second;
}

std::set<std::string> Graph::symbols() const {
  std::set<std::string> out;
  for (const auto& input : inputs_) collect(input->type, out);
  for (const auto& node : nodes_) {
    for (const Argument& argument : node->arguments()) collect(argument, out);
    for (const Named& keyword : node->keywords()) collect(keyword.argument, out);
    for (const auto& result : node->results()) collect(result->type, out);
  }
  for (const Argument& output : outputs_) collect(output, out);
  for (const Constraint& constraint : assumptions) out.merge(constraint.truth.symbols());
  return out;
}

void Graph::replace(Node& node, const std::vector<Value*>& values) {
  std::vector<std::pair<Value*, std::string>> numbers;
  for (size_t i = 0; i < node.results().size() && i < values.size(); ++i) {
    Value* result = node.result(i);
    replace_uses(result, values[i]);
    if (!result->is_tensor() && values[i]->producer) numbers.emplace_back(values[i], result->name);
  }
  erase(node);
  for (const auto& [value, name] : numbers) rename(value, name);
}

std::set<std::string> symbols_of(const Argument& argument) {
  std::set<std::string> out;
  collect(argument, out);
  return out;
}

std::set<std::string> symbols_read(const Node& node) {
  std::set<std::string> out;
  for (const Argument& argument : node.arguments()) collect(argument, out);
  for (const Named& keyword : node.keywords()) collect(keyword.argument, out);
  return out;
}

std::set<std::string> symbols_defined(const Node& node) {
  std::set<std::string> defined;
  if (is_call(node)) return defined;
  std::set<std::string> known = symbols_read(node);
  for (const Value* operand : node.operands()) collect(operand->type, known);
  for (const auto& result : node.results()) {
    if (!result->is_tensor()) {
      defined.insert(result->name);
      continue;
    }
    for (const SymInt& size : result->meta().sizes)
      if (const auto symbol = size.as_symbol(); symbol && !known.contains(*symbol)) defined.insert(*symbol);
  }
  return defined;
}

void Graph::substitute(const shape::Substitution& by) {
  for (const auto& input : inputs_) input->type = ir::substitute(input->type, by);
  for (const auto& node : nodes_) {  // Values stay where they are, so users need no recount
    for (Argument& argument : node->arguments_) argument = ir::substitute(argument, by);
    for (Named& keyword : node->keywords_) keyword.argument = ir::substitute(keyword.argument, by);
    for (Named& annotation : node->annotations) annotation.argument = ir::substitute(annotation.argument, by);
    for (const auto& result : node->results_) result->type = ir::substitute(result->type, by);
  }
  for (Argument& output : outputs_) output = ir::substitute(output, by);
  for (Constraint& constraint : assumptions) constraint.truth = shape::substitute(constraint.truth, by);
}

std::string as_name(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return !is_name_character(c); }, '_');
  return text;
}

// The smallest free number is a function of the names that are there now, so a stage that reads its input from a pipe
// names values exactly as one that is handed the graph in process.
std::string Graph::unique_name(const std::string& wish) {
  std::string name = wish.empty() ? "value" : as_name(wish);
  if (!names_.contains(name)) return name;
  const std::string stem = split_number(name).first;
  int& number = first_free_.try_emplace(stem, 1).first->second;
  while (names_.contains(stem + "_" + std::to_string(number))) ++number;
  return stem + "_" + std::to_string(number);
}

void Graph::forget_name(const std::string& name) {
  const auto [stem, number] = split_number(name);
  const auto found = first_free_.find(stem);
  if (number > 0 && found != first_free_.end()) found->second = std::min(found->second, number);
  names_.erase(name);
}

Graph::Iterator::Iterator(const Nodes* nodes, Nodes::const_iterator current, bool backward)
    : nodes_(nodes), current_(current), next_(current), backward_(backward) {
  look_ahead();
}

Graph::Iterator& Graph::Iterator::operator++() {
  current_ = next_;
  look_ahead();
  return *this;
}

void Graph::Iterator::look_ahead() {
  if (current_ == nodes_->end()) return;
  if (backward_) {
    next_ = current_ == nodes_->begin() ? nodes_->end() : std::prev(current_);
  } else {
    next_ = std::next(current_);
  }
}

Graph::Iterator Graph::Span::begin() const {
  const bool from_back = backward_ && !nodes_->empty();
  return {nodes_, from_back ? std::prev(nodes_->end()) : backward_ ? nodes_->end() : nodes_->begin(), backward_};
}

Graph::Iterator Graph::Span::end() const { return {nodes_, nodes_->end(), backward_}; }

}  // namespace atenon::ir
