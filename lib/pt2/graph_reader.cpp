#include "pt2/graph_reader.h"

#include <algorithm>
#include <array>

#include "pt2/archive.h"
#include "text/limits.h"

namespace atenon::pt2 {
namespace {

using ir::Argument;
using ir::ArgumentList;
using opset::Call;
using opset::Operator;
using shape::SymBool;
using shape::SymInt;

constexpr int deepest = 32;  // of regions within regions

// Operators that answer with the tensor itself, or with a copy whose content is the same. Of `to` and `contiguous` it
// depends on the tensor.
enum class Sameness { itself, copy, depends };
struct Same {
  std::string_view name;
  Sameness sameness;
};
constexpr std::array<Same, 6> same = {{{"aten::detach", Sameness::itself},
                                       {"aten::alias", Sameness::itself},
                                       {"aten::lift_fresh", Sameness::itself},
                                       {"aten::lift_fresh_copy", Sameness::copy},
                                       {"aten::to", Sameness::depends},
                                       {"aten::contiguous", Sameness::depends}}};

// Operators that are views where strides allow it, and copies elsewhere.
constexpr std::array<std::string_view, 4> views_if_possible = {"aten::reshape", "aten::flatten", "aten::reshape_as",
                                                               "aten::ravel"};

// Regions that run under a setting which changes no numbers: where in the arguments the graph stands, and the setting
// that must be false for that, if any.
struct Region {
  std::string_view name;
  size_t graph;
  int must_be_false;
};
constexpr std::array<Region, 2> regions = {{{"wrap_with_set_grad_enabled", 1, -1}, {"wrap_with_autocast", 4, 2}}};

template <class Table>
auto* find_in(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

bool has_alias(const Operator& op) {
  const opset::Schema& schema = op.schema();
  return !schema.parameters.empty() && !schema.returns.empty() && !schema.parameters[0].type.alias.empty() &&
         !schema.parameters[0].type.mutated && !schema.returns[0].type.alias.empty();
}

// Row by row, without gaps, as the archive declares it; a stride of an axis of size 1 says nothing.
bool is_contiguous(const Item& meta) {
  if (meta.is_null()) return false;
  const std::vector<Item> sizes = meta.at("sizes").items(), strides = meta.at("strides").items();
  int64_t expected = 1;
  for (size_t axis = std::min(sizes.size(), strides.size()); axis-- > 0;) {
    const Item size = sizes[axis].find("as_int"), stride = strides[axis].find("as_int");
    if (size.is_null()) return axis == 0 && !stride.is_null() && stride.integer() == expected;
    if (size.integer() == 1) continue;
    if (stride.is_null() || stride.integer() != expected || __builtin_mul_overflow(expected, size.integer(), &expected))
      return false;
  }
  return true;
}

}  // namespace

std::string text_at(const Item& node, const char* key) {
  const Item value = node.at("metadata").find(key);
  return value.is_null() ? "" : value.text();
}

bool is_symbolic(const std::string& kind) {
  return kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool";
}

// detach_ gives the tensor itself, as detach does.
const Operator* find_operator(const opset::Opset& opset, const std::string& target) {
  if (const Operator* op = opset.find(target)) return op;
  const std::string pure = target.ends_with('_') ? target.substr(0, target.size() - 1) : "";
  const Same* known = find_in(same, pure);
  return known && known->sameness == Sameness::itself ? opset.find(pure) : nullptr;
}

std::vector<Item> all_nodes(const Item& graph) {
  std::vector<Item> nodes, open{graph};
  while (!open.empty()) {
    const Item next = open.back();
    open.pop_back();
    for (const Item& node : next.at("nodes").items()) {
      nodes.push_back(node);
      for (const Item& input : node.at("inputs").items())
        if (const Item inner = input.at("arg").find("as_graph"); !inner.is_null()) open.push_back(inner.at("graph"));
    }
  }
  return nodes;
}

std::vector<Item> flattened(const Item& outputs) {
  std::vector<Item> flat;
  for (const Item& output : outputs.items()) {
    const auto [kind, value] = output.alternative();
    if (kind == "as_tensors" || kind == "as_optional_tensors")
      for (const Item& item : value.items()) flat.push_back(item);
    else if (kind != "as_none")
      flat.push_back(output);
  }
  return flat;
}

// The name of an output: of {as_tensor: {name}}, {name}, or {as_sym_int: {as_name}}.
std::string name_of(const Item& output) {
  const Item whole = output.find("name").is_null() ? output.alternative().second : output;
  const Item name = whole.at(whole.find("as_name").is_null() ? "name" : "as_name");
  if (!text::is_name(name.text())) name.fail("is no name of a value");
  return name.text();
}

std::string target_of(const std::string& text) {
  constexpr std::string_view prefix = "torch.ops.";
  if (!text.starts_with(prefix)) return "";
  const size_t first = text.find('.', prefix.size()),
               second = first == std::string::npos ? first : text.find('.', first + 1);
  if (first == std::string::npos) return "";
  std::string target = text.substr(prefix.size(), first - prefix.size()) + "::" + text.substr(first + 1);
  if (second != std::string::npos && target.ends_with(".default")) target.resize(target.size() - 8);
  return target;
}

GraphReader::GraphReader(const opset::Opset& opset, const CallStacks& call_stacks, std::string file_name,
                         ir::ExportedProgram& program, ir::EntryPoint& entry, ir::Variant& variant)
    : opset_(opset),
      call_stacks_(call_stacks),
      file_name_(std::move(file_name)),
      program_(program),
      entry_(entry),
      variant_(variant),
      aliases_(
          [this](const std::string& target, std::vector<Argument> arguments) -> Result<ir::Node*> {
            Result<Call> call = opset::resolve(opset_, target, arguments, {});
            if (!call) return call.error();
            return append(std::move(*call));
          },
          [this](const Call& call) { return append(call); }),
      graph_(&variant.graph) {}

Diagnostic GraphReader::at_node(Diagnostic diagnostic, const std::string& name) const {
  if (diagnostic.where.file.empty()) diagnostic.where.file = file_name_;
  diagnostic.notes.push_back({"in the node %" + name});
  if (!stack_.frames.empty()) {
    const ir::Frame& frame = *stack_.frames.back();
    diagnostic.notes.push_back({"captured from " + frame.file + ":" + std::to_string(frame.line) + ": " + frame.code});
  }
  return diagnostic;
}

// Arguments that say how memory is arranged, or where, have no meaning here.
Result<ir::Node*> GraphReader::append(Call call, const std::vector<std::string>& names) {
  const opset::Schema& schema = call.op->schema();
  for (size_t i = 0; i < schema.parameters.size(); ++i) {
    const opset::Parameter& parameter = schema.parameters[i];
    const bool is_layout = parameter.type.kind == opset::Kind::word || parameter.type.kind == opset::Kind::generator;
    if ((is_layout || parameter.name == "pin_memory") && parameter.fallback) call.arguments[i] = *parameter.fallback;
  }
  Result<opset::Inference> inference = opset::infer(opset_, call, facts_, unbacked_);
  if (!inference) return inference.error();
  for (const ir::Constraint& assumption : inference->assumptions)
    if (Result<void> assumed = assume(assumption.truth, assumption.reason); !assumed) return assumed.error();
  for (ir::Symbol& symbol : inference->unbacked) {
    facts_.declare(symbol.name, symbol.range);
    entry_.symbols.push_back(std::move(symbol));
    ++unbacked_;
  }
  std::vector<ir::Graph::Result> results;
  for (size_t i = 0; i < inference->types.size(); ++i)
    results.push_back({i < names.size() ? names[i] : "", std::move(inference->types[i])});
  return add_node(call, std::move(results));
}

ir::Node* GraphReader::add_node(const Call& call, std::vector<ir::Graph::Result> results) {
  const opset::Schema& schema = call.op->schema();
  std::vector<Argument> positional;
  std::vector<ir::Named> keywords;
  size_t given = 0;  // positional arguments up to the last that is not the default
  for (size_t i = 0; i < schema.parameters.size(); ++i) {
    const opset::Parameter& parameter = schema.parameters[i];
    const bool is_default = parameter.fallback && *parameter.fallback == call.arguments[i];
    if (parameter.keyword_only && !is_default) keywords.push_back({parameter.name, call.arguments[i]});
    if (parameter.keyword_only) continue;
    positional.push_back(call.arguments[i]);
    if (!is_default) given = positional.size();
  }
  positional.resize(given);
  // The numbers among them are symbols, whose names must differ in all graphs.
  for (ir::Graph::Result& result : results)
    if (std::holds_alternative<ir::ScalarKind>(result.type)) result.name = ir::unbacked_name(unbacked_++);
  ir::Node* node = graph_->add(call.op->target(), std::move(positional), std::move(keywords), std::move(results));
  node->provenance = program_.provenance.intern(stack_);
  return node;
}

// --- Arguments

Result<Argument> GraphReader::tensor(Scope& scope, const Item& argument) {
  const std::string name = argument.at("name").text();
  const auto found = scope.tensors.find(name);
  if (found == scope.tensors.end()) return damaged(file_name_, "the graph uses '" + name + "' before it is defined");
  Result<ir::Value*> value = aliases_.read(found->second);
  if (!value) return value.error();
  return Argument(*value);
}

Result<Argument> GraphReader::argument(Scope& scope, const Item& argument) {
  const auto [kind, value] = argument.alternative();
  const auto list_of = [&](const auto& convert) -> Result<Argument> {
    ArgumentList list;
    for (const Item& item : value.items()) {
      Result<Argument> converted = convert(item);
      if (!converted) return converted.error();
      list.push_back(std::move(*converted));
    }
    return Argument(std::move(list));
  };
  const auto optional_tensor = [&](const Item& item) -> Result<Argument> {
    const Item given = item.find("as_tensor");
    return given.is_null() ? Result<Argument>(ir::None{}) : tensor(scope, given);
  };
  if (kind == "as_none") return Argument(ir::None{});
  if (kind == "as_tensor") return tensor(scope, value);
  if (kind == "as_tensors") return list_of([&](const Item& item) { return tensor(scope, item); });
  if (kind == "as_optional_tensor") return optional_tensor(value);
  if (kind == "as_optional_tensors") return list_of(optional_tensor);
  if (kind == "as_int") return Argument(value.integer());
  if (kind == "as_float") return Argument(value.real());
  if (kind == "as_bool") return Argument(value.truth());
  if (kind == "as_string") return Argument(value.text());
  if (kind == "as_ints") return list_of([](const Item& item) { return Result<Argument>(item.integer()); });
  if (kind == "as_floats") return list_of([](const Item& item) { return Result<Argument>(item.real()); });
  if (kind == "as_bools") return list_of([](const Item& item) { return Result<Argument>(item.truth()); });
  if (kind == "as_strings") return list_of([](const Item& item) { return Result<Argument>(Argument(item.text())); });
  if (is_symbolic(kind)) return scalar(scope, kind, value);
  if (kind.starts_with("as_sym_") && kind.ends_with("s")) {
    const std::string one = kind.substr(0, kind.size() - 1);
    return list_of([&](const Item& item) { return scalar(scope, one, item); });
  }
  if (kind == "as_complex") return Argument(std::complex<double>(value.at("real").real(), value.at("imag").real()));
  if (kind == "as_device") return Argument(ir::Word{"cpu"});
  if (kind == "as_layout") return Argument(ir::Word{"strided"});
  if (kind == "as_memory_format") return Argument(ir::Word{"preserve_format"});
  if (kind == "as_scalar_type") {
    const std::optional<ScalarType> dtype = dtype_of(value.integer());
    if (dtype) return Argument(*dtype);
    return error(Status::unsupported, 823, "the graph uses an element type that is not supported");
  }
  return error(Status::unsupported, 825, "an argument of the kind '" + kind + "' is not supported");
}

// --- Nodes

Result<void> GraphReader::read_nodes(Scope& scope) {
  for (const Item& node : scope.graph.at("nodes").items())
    if (Result<void> read = read_node(scope, node); !read) return read;
  return {};
}

Result<void> GraphReader::read_node(Scope& scope, const Item& node) {
  stack_ = call_stacks_.stack(text_at(node, "stack_trace"), text_at(node, "nn_module_stack"));
  const std::string text = node.at("target").text(), target = target_of(text);
  const std::vector<Item> outputs = flattened(node.at("outputs"));
  const std::string name = outputs.empty() ? text : name_of(outputs.front());
  Result<void> read;
  if (text.starts_with(higher_order))
    read = read_region(scope, text.substr(higher_order.size()), node);
  else if (read_symbolic(scope, outputs))
    read = {};
  else if (const Operator* op = find_operator(opset_, target))
    read = read_call(scope, *op, node);
  else
    read = read_check(scope, target, node);
  if (!read) return at_node(read.error(), name);
  return {};
}

// Arithmetic of sizes: the archive says what comes out, so that no node is needed.
bool GraphReader::read_symbolic(Scope& scope, const std::vector<Item>& outputs) {
  for (const Item& output : outputs) {
    if (!output.find("name").is_null()) return false;
    const auto [kind, value] = output.alternative();
    if (!is_symbolic(kind)) return false;
    const Item symbolic = symbolic_value(scope, kind, value.at("as_name").text());
    if (symbolic.is_null() || !is_known(symbolic)) return false;
  }
  return !outputs.empty();
}

// What the export asserts of sizes and numbers.
Result<void> GraphReader::read_check(Scope& scope, const std::string& target, const Item& node) {
  const std::vector<Item> inputs = node.at("inputs").items();
  const auto unknown = [&] {
    const std::string name = target.empty() ? node.at("target").text() : target;  // empty: a Python function
    Diagnostic diagnostic = error(Status::unsupported, 824, "the operator " + name + " is in no operator set");
    if (name.starts_with("torch._functorch.")) diagnostic.notes.push_back({std::string(decompose_first)});
    return diagnostic;
  };
  if (inputs.empty()) return unknown();
  Result<Argument> first = argument(scope, inputs[0].at("arg"));
  if (!first) return first.error();
  if (target.starts_with("aten::sym_constrain_range") && first->is<SymInt>()) {
    for (size_t i = 1; i < inputs.size(); ++i) {
      Result<Argument> bound = argument(scope, inputs[i].at("arg"));
      if (!bound) return bound.error();
      if (!bound->is<SymInt>()) continue;
      const bool is_lower = inputs[i].at("name").text() == "min";
      const SymInt &x = first->get<SymInt>(), &limit = bound->get<SymInt>();
      Result<void> assumed =
          assume(is_lower ? shape::less_equal(limit, x) : shape::less_equal(x, limit), "torch.export asserts it");
      if (!assumed) return assumed;
    }
    return {};
  }
  return unknown();
}

// A graph that is called in place: its nodes become the caller's.
Result<void> GraphReader::read_region(Scope& scope, const std::string& target, const Item& node) {
  if (is_control_flow(target)) return read_control_flow(scope, target, node);
  if (target == "with_effects") return read_effect(scope, node);
  const Region* region = find_in(regions, target);
  const std::vector<Item> inputs = node.at("inputs").items();
  if (!region || inputs.size() <= region->graph)
    return error(Status::unsupported, 825, "control flow by torch.ops.higher_order." + target + " is not supported");
  if (region->must_be_false >= 0) {
    Result<Argument> setting = argument(scope, inputs[static_cast<size_t>(region->must_be_false)].at("arg"));
    if (!setting) return setting.error();
    if (!(*setting == Argument(false)))
      return error(Status::unsupported, 825, "a part of the program runs under torch.autocast")
          .note("fix: export the model without autocast, in the precision that it should run in")
          .note(std::string(decompose_first));
  }
  if (depth_ >= deepest) return damaged(file_name_, "regions are nested too deeply");
  Scope inner{.graph = inputs[region->graph].at("arg").at("as_graph").at("graph")};
  const std::vector<Item> names = inner.graph.at("inputs").items();
  if (names.size() != inputs.size() - region->graph - 1)
    return damaged(file_name_, "a region is called with another number of arguments than it takes");
  for (size_t i = 0; i < names.size(); ++i) {
    const Item given = inputs[region->graph + 1 + i].at("arg");
    if (const Item outer = given.find("as_tensor"); !outer.is_null()) {
      const auto found = scope.tensors.find(outer.at("name").text());
      if (found == scope.tensors.end()) return damaged(file_name_, "a region is called with what is not defined");
      inner.tensors[name_of(names[i])] = found->second;
    } else if (is_symbolic(names[i].alternative().first)) {
      Result<Argument> value = argument(scope, given);
      if (!value) return value.error();
      inner.scalars[name_of(names[i])] = *value;
    }
  }
  ++depth_;
  if (Result<void> read = read_nodes(inner); !read) return read;
  --depth_;
  std::vector<Item> results = flattened(node.at("outputs"));
  const std::vector<Item> returned = inner.graph.at("outputs").items();
  if (results.size() > returned.size()) return damaged(file_name_, "a region returns less than is used");
  for (size_t i = 0; i < results.size(); ++i) {
    const Item value = returned[i].find("as_tensor");
    if (value.is_null()) continue;
    const auto found = inner.tensors.find(value.at("name").text());
    if (found == inner.tensors.end()) return damaged(file_name_, "a region returns what it does not define");
    scope.tensors[name_of(results[i])] = found->second;
  }
  return {};
}

// A call that does something, and therefore takes a token and yields the next. They only say in which order such calls
// come, as the list of nodes does.
Result<void> GraphReader::read_effect(Scope& scope, const Item& node) {
  const std::vector<Item> inputs = node.at("inputs").items(), outputs = flattened(node.at("outputs"));
  if (inputs.size() < 2 || outputs.empty()) return damaged(file_name_, "a call with an effect lacks its token");
  const std::string target = target_of(inputs[1].at("arg").at("as_operator").text());
  const Operator* op = find_operator(opset_, target);
  if (!op || op->origin())
    return error(Status::unsupported, 825, "a call of " + target + " with an effect is not supported");
  Result<Call> call = bound(scope, *op, *op, std::span(inputs).subspan(2));
  if (!call) return call.error();
  tokens_.insert(name_of(outputs[0]));
  const std::vector<Item> results(outputs.begin() + 1, outputs.end());
  std::vector<std::string> names;
  for (const Item& result : results) names.push_back(name_of(result));
  Result<ir::Node*> made = append(*call, names);
  if (!made) return made.error();
  return bind_results(scope, results, **made, [&](size_t i) { return View::fresh((*made)->result(i)); });
}

// The arguments of a node, for `pure`, which `op` is or follows from.
Result<Call> GraphReader::bound(Scope& scope, const Operator& op, const Operator& pure, std::span<const Item> inputs) {
  std::vector<Argument> positional;
  std::vector<ir::Named> keywords;
  const std::vector<opset::Parameter>& parameters = op.schema().parameters;
  for (const Item& input : inputs) {
    Result<Argument> given = argument(scope, input.at("arg"));
    if (!given) return given.error();
    const Item kind = input.find("kind");  // absent before PyTorch 2.7
    const bool fits = kind.is_null() || op.is_declared()
                          ? positional.size() < parameters.size() && !parameters[positional.size()].keyword_only &&
                                parameters[positional.size()].name == input.at("name").text()
                          : kind.integer() != as_keyword;
    if (fits && keywords.empty())
      positional.push_back(std::move(*given));
    else
      keywords.push_back({input.at("name").text(), std::move(*given)});
  }
  return opset::bind(pure, positional, keywords);
}

// A node of an operator that only the archive tells of: its results are of the types that stand there.
Result<void> GraphReader::read_declared(Scope& scope, const Operator& op, const Item& node) {
  Result<Call> call = bound(scope, op, op, node.at("inputs").items());
  if (!call) return call.error();
  const std::vector<Item> outputs = flattened(node.at("outputs"));
  std::vector<ir::Graph::Result> results;
  for (const Item& output : outputs) {
    const std::string name = name_of(output);
    Result<ir::Type> type = promised_type(scope, output);
    if (!type) return type.error();
    results.push_back({name, std::move(*type)});
  }
  const ir::Node* made = add_node(*call, std::move(results));
  return bind_results(scope, outputs, *made, [&](size_t i) { return View::fresh(made->result(i)); });
}

Result<void> GraphReader::read_call(Scope& scope, const Operator& op, const Item& node) {
  if (op.is_declared()) return read_declared(scope, op, node);
  const Operator& pure = op.derivation() == opset::Derivation::inplace ? *op.origin() : op;
  const std::vector<Item> inputs = node.at("inputs").items();
  Result<Call> call = bound(scope, op, pure, inputs);
  if (!call) return call.error();
  const std::vector<Item> outputs = flattened(node.at("outputs"));
  const std::string first = inputs.empty() || inputs[0].at("arg").find("as_tensor").is_null()
                                ? ""
                                : inputs[0].at("arg").at("as_tensor").at("name").text();
  const auto viewed = scope.tensors.find(first);

  const std::string name = pure.schema().name;
  if (const Same* known = find_in(same, name); known && viewed != scope.tensors.end() && outputs.size() == 1) {
    // Whether `to` and `contiguous` copy shows in the type that they declare.
    const Item before = scope.graph.at("tensor_values").find(first);
    const Item after = scope.graph.at("tensor_values").find(name_of(outputs[0]));
    const bool is_itself = known->sameness != Sameness::depends || (before.find("dtype") == after.find("dtype") &&
                                                                    before.find("strides") == after.find("strides"));
    if (is_itself) {
      Result<ir::Value*> value = aliases_.read(viewed->second);
      if (!value) return value.error();
      scope.tensors[name_of(outputs[0])] = known->sameness == Sameness::copy ? View::fresh(*value) : viewed->second;
      return {};
    }
  }

  std::vector<std::string> names;
  for (const Item& output : outputs) names.push_back(name_of(output));
  Result<ir::Node*> made = append(*call, names);
  if (!made) return made.error();
  ir::Node& result = **made;
  if (&pure != &op) {
    if (viewed == scope.tensors.end()) return damaged(file_name_, op.target() + " updates no tensor");
    if (Result<void> written = aliases_.write(viewed->second, result.result()); !written) return written;
    if (!outputs.empty()) scope.tensors[names[0]] = viewed->second;
    return {};
  }
  for (const opset::Parameter& parameter : op.schema().parameters)
    if (parameter.type.mutated)
      return error(Status::unsupported, 825, op.target() + " updates '" + parameter.name + "', which is not supported")
          .note(std::string(decompose_first));
  const bool is_view = has_alias(op) && viewed != scope.tensors.end() && find_in(same, name) == nullptr;
  const bool is_doubtful =
      is_view && std::find(views_if_possible.begin(), views_if_possible.end(), name) != views_if_possible.end();
  return bind_results(scope, outputs, result, [&](size_t i) {
    View view = View::fresh(result.result(i));
    if (!is_view) return view;
    if (is_doubtful && !is_contiguous(scope.graph.at("tensor_values").find(first))) {
      view.memory->doubtful = viewed->second.memory->doubtful = op.target();
      return view;
    }
    view.memory = viewed->second.memory;
    view.seen = view.memory->version;
    view.chain = viewed->second.chain;
    view.chain.push_back({*call, i});
    return view;
  });
}

// Gives the results of a node the names that the archive has for them.
Result<void> GraphReader::bind_results(Scope& scope, const std::vector<Item>& outputs, const ir::Node& node,
                                       const std::function<View(size_t)>& view_of) {
  if (outputs.size() > node.results().size())
    return damaged(file_name_, node.target() + " has " + std::to_string(node.results().size()) + " results, not " +
                                   std::to_string(outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = name_of(outputs[i]);
    ir::Value* value = node.result(i);
    if (value->is_tensor()) {
      if (Result<void> same = adopt_sizes(scope, name, *value); !same) return same;
      scope.tensors[name] = view_of(i);
      continue;
    }
    if (!outputs[i].find("name").is_null()) return damaged(file_name_, "'" + name + "' is a number, not a tensor");
    if (Result<void> bound = bind_number(scope, outputs[i], *value); !bound) return bound;
  }
  return {};
}

Result<void> GraphReader::read(const Item& graph, const Item& ranges, const Item& guards) {
  scope_.graph = graph;
  ranges_ = ranges;
  if (Result<void> added = add_inputs(ranges); !added) return added;
  if (Result<void> assumed = assume_guards(guards); !assumed) return assumed;
  return read_nodes(scope_);
}

Result<void> GraphReader::finish() {
  ir::GraphSignature& signature = entry_.signature;
  std::vector<Argument> outputs, updated;
  std::vector<ir::OutputSpec> updated_specs;
  std::vector<Item> items = scope_.graph.at("outputs").items();
  std::erase_if(items,
                [&](const Item& item) { return !item.find("as_tensor").is_null() && tokens_.contains(name_of(item)); });
  if (items.size() != signature.outputs.size())
    return damaged(file_name_, "the graph has another number of outputs than its signature");
  for (const Item& item : items) {
    Result<Argument> output = argument(scope_, item);
    if (!output) return output.error();
    outputs.push_back(std::move(*output));
  }
  for (const ir::InputSpec& spec : signature.inputs) {
    const auto found = scope_.tensors.find(spec.value);
    if (found == scope_.tensors.end() || found->second.memory->version == 0) continue;
    if (spec.kind == ir::InputKind::constant_tensor)
      return error(Status::unsupported, 825, "the program updates '" + spec.target + "', which is a constant")
          .at({.file = file_name_})
          .note("fix: register it as a buffer of the model");
    updated.emplace_back(found->second.memory->content);
    updated_specs.push_back({spec.kind == ir::InputKind::buffer      ? ir::OutputKind::buffer_mutation
                             : spec.kind == ir::InputKind::parameter ? ir::OutputKind::parameter_mutation
                                                                     : ir::OutputKind::user_input_mutation,
                             spec.target});
  }
  outputs.insert(outputs.begin(), updated.begin(), updated.end());
  signature.outputs.insert(signature.outputs.begin(), updated_specs.begin(), updated_specs.end());
  variant_.graph.set_outputs(std::move(outputs));
  return {};
}

}  // namespace atenon::pt2
