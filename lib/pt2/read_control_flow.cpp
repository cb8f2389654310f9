// Conditions and loops of an archive. A branch or body is a graph among the node's arguments there, and a subgraph of
// the variant here; what it takes and what the node gives is laid out alike (ir/control_flow.h).
#include <algorithm>
#include <array>

#include "ir/control_flow.h"
#include "pt2/archive.h"
#include "pt2/graph_reader.h"

namespace atenon::pt2 {
namespace {

using ir::Argument;
using ir::ArgumentList;
using ir::TensorMeta;
using Kind = ir::ControlFlow::Kind;

constexpr size_t deepest = 32;  // of bodies within bodies

// PyTorch's name, ours, and the arguments in order: c condition, b body, i carried, x xs, o operands.
struct Form {
  std::string_view name, target, arguments;
};
constexpr std::array<Form, 6> forms = {{{"cond", "higher_order::cond", "cbbo"},
                                        {"while_loop", "higher_order::while_loop", "bbio"},
                                        {"map_impl", "higher_order::map", "bxo"},
                                        {"map", "higher_order::map", "bxo"},
                                        {"scan", "higher_order::scan", "bixo"},
                                        {"associative_scan", "higher_order::associative_scan", "bxo"}}};

Diagnostic refuse(const std::string& why) { return error(Status::unsupported, 825, why); }

TensorMeta plain(const TensorMeta& meta) { return {.dtype = meta.dtype, .sizes = meta.sizes}; }

TensorMeta slice(TensorMeta meta) {
  meta.sizes.erase(meta.sizes.begin());
  return meta;
}

std::vector<TensorMeta> metas_of(const ArgumentList& list) {
  std::vector<TensorMeta> metas;
  for (const Argument& argument : list) metas.push_back(plain(argument.value()->meta()));
  return metas;
}

}  // namespace

bool GraphReader::is_control_flow(std::string_view name) {
  return std::any_of(forms.begin(), forms.end(), [&](const Form& form) { return form.name == name; });
}

Result<std::string> GraphReader::read_body(const Item& named, const std::vector<TensorMeta>& inputs,
                                           std::vector<TensorMeta>& outputs) {
  if (static_cast<size_t>(depth_) >= deepest) return damaged(file_name_, "control flow is nested too deeply");
  const Item item = named.at("graph");
  const std::vector<Item> names = item.at("inputs").items();
  if (names.size() != inputs.size())
    return damaged(file_name_, "a branch or body takes another number of arguments than it is given");
  ir::Graph graph;
  ir::Graph* const outer = std::exchange(graph_, &graph);
  const shape::Facts outside = facts_;
  const std::map<std::string, shape::Scalar> symbols = symbols_;
  Scope scope{.graph = item};
  ++depth_;
  const auto read = [&]() -> Result<ArgumentList> {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].find("as_tensor").is_null()) return refuse("a branch or body takes a number");
      const std::string name = name_of(names[i]);
      ir::Value* value = graph.add_input(name, inputs[i]);
      if (Result<void> same = adopt_sizes(scope, name, *value); !same) return same.error();
      scope.tensors[name] = View::fresh(value);
    }
    const std::map<std::string, View> given = scope.tensors;
    if (Result<void> done = read_nodes(scope); !done) return done.error();
    for (const auto& [name, view] : given)
      if (view.memory->version > 0) return refuse("a branch or body updates '" + name + "', which it is given");
    ArgumentList results;
    for (const Item& output : item.at("outputs").items()) {
      Result<Argument> result = argument(scope, output);
      if (!result) return result.error();
      if (!result->value() || !result->value()->is_tensor()) return refuse("a branch or body returns a number");
      results.push_back(*result);
    }
    return results;
  };
  Result<ArgumentList> results = read();
  --depth_;
  graph_ = outer;
  // What a body assumes holds in it alone, as do the symbols that its nodes define: the archive uses their names anew.
  facts_ = outside;
  symbols_ = symbols;
  for (const ir::Symbol& symbol : entry_.symbols)
    if (!outside.ranges().contains(symbol.name)) facts_.declare(symbol.name, symbol.range);
  if (!results) return results.error();
  outputs = metas_of(*results);
  graph.set_outputs(std::move(*results));
  std::string name = "body";
  if (const Item wish = named.find("name"); !wish.is_null()) name = ir::as_name(wish.text());
  for (int number = 0; name.empty() || variant_.subgraphs.contains(name); ++number)
    name = "body_" + std::to_string(number);
  variant_.subgraphs.emplace(name, std::move(graph));
  return name;
}

// The types that both branches have; sizes in which they differ are known when one has run.
Result<std::vector<TensorMeta>> GraphReader::joined(const std::vector<TensorMeta>& a,
                                                    const std::vector<TensorMeta>& b) {
  if (a.size() != b.size()) return refuse("the branches of torch.cond return different numbers of tensors");
  std::vector<TensorMeta> result = a;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype != b[i].dtype || a[i].rank() != b[i].rank())
      return refuse("the branches of torch.cond return " + ir::to_string(ir::Type(a[i])) + " and " +
                    ir::to_string(ir::Type(b[i])));
    for (size_t axis = 0; axis < a[i].sizes.size(); ++axis) {
      if (facts_.decide(shape::equal(a[i].sizes[axis], b[i].sizes[axis])) == shape::Truth::proven) continue;
      ir::Symbol symbol{.name = ir::unbacked_name(unbacked_++), .range = {0, shape::Range::highest}};
      result[i].sizes[axis] = shape::SymInt::symbol(symbol.name);
      facts_.declare(symbol.name, symbol.range);
      entry_.symbols.push_back(std::move(symbol));
    }
  }
  return result;
}

Result<void> GraphReader::read_control_flow(Scope& scope, const std::string& name, const Item& node) {
  const Form& form = *std::find_if(forms.begin(), forms.end(), [&](const Form& f) { return f.name == name; });
  const Kind kind = *ir::control_flow_kind(std::string(form.target));
  const std::vector<Item> given = node.at("inputs").items();
  if (given.size() > form.arguments.size() || given.size() + 1 < form.arguments.size())
    return damaged(file_name_, "torch.ops.higher_order." + name + " has another number of arguments");
  std::vector<Argument> arguments(form.arguments.size());
  std::vector<Item> bodies;
  ArgumentList carried, xs, operands;
  for (size_t i = 0; i < form.arguments.size(); ++i) {
    const char part = form.arguments[i];
    if (part == 'b') {
      bodies.push_back(given[i].at("arg").at("as_graph"));
      continue;
    }
    Result<Argument> value = i < given.size() ? argument(scope, given[i].at("arg")) : Argument(ArgumentList());
    if (!value) return value.error();
    arguments[i] = *value;
    if (part == 'c') {
      if (!value->value() && !value->is<shape::SymBool>()) return refuse("the condition of torch.cond is no truth");
      continue;
    }
    if (!value->is<ArgumentList>()) return damaged(file_name_, "the operands of control flow are no list");
    ArgumentList& list = part == 'i' ? carried : part == 'x' ? xs : operands;
    list = value->get<ArgumentList>();
    if (!std::all_of(list.begin(), list.end(), [](const Argument& a) { return a.value() && a.value()->is_tensor(); }))
      return refuse("a branch or body takes a number");
  }
  const auto is_scalar = [](const Argument& x) { return x.value()->meta().sizes.empty(); };
  const bool runs_over_slices = form.arguments.find('x') != std::string_view::npos;
  if (runs_over_slices && (xs.empty() || std::any_of(xs.begin(), xs.end(), is_scalar)))
    return damaged(file_name_, "a loop runs over no tensors with slices");

  // What a body takes, in order.
  std::vector<TensorMeta> inputs = metas_of(carried);
  for (int side = 0; side < (kind == Kind::associative_scan ? 2 : 1); ++side)
    for (const Argument& x : xs) inputs.push_back(slice(plain(x.value()->meta())));
  for (TensorMeta& meta : metas_of(operands)) inputs.push_back(std::move(meta));
  std::vector<std::vector<TensorMeta>> outputs(bodies.size());
  for (size_t i = 0, body = 0; i < form.arguments.size(); ++i) {
    if (form.arguments[i] != 'b') continue;
    Result<std::string> subgraph = read_body(bodies[body], inputs, outputs[body]);
    if (!subgraph) return subgraph.error();
    arguments[i] = ir::SubgraphRef{*subgraph};
    ++body;
  }

  std::vector<TensorMeta> results = metas_of(carried);
  const std::vector<TensorMeta>& last = outputs.back();
  if (kind == Kind::cond) {
    Result<std::vector<TensorMeta>> both = joined(outputs[0], outputs[1]);
    if (!both) return both.error();
    results = *both;
  } else if (last.size() < carried.size()) {
    return damaged(file_name_, "the body of a loop returns less than the loop carries");
  }
  if (runs_over_slices)
    for (size_t i = carried.size(); i < last.size(); ++i) {
      results.push_back(last[i]);
      results.back().sizes.insert(results.back().sizes.begin(), xs[0].value()->meta().sizes[0]);
    }
  std::vector<ir::Graph::Result> made;
  const std::vector<Item> names = flattened(node.at("outputs"));
  for (size_t i = 0; i < results.size(); ++i)
    made.push_back({i < names.size() ? name_of(names[i]) : "", std::move(results[i])});
  ir::Node* result = graph_->add(std::string(form.target), std::move(arguments), {}, std::move(made));
  result->provenance = program_.provenance.intern(stack_);
  return bind_results(scope, names, *result, [&](size_t i) { return View::fresh(result->result(i)); });
}

}  // namespace atenon::pt2
