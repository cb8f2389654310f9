#include "pt2/graph_writer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/control_flow.h"
#include "pt2/archive.h"

namespace atenon::pt2 {
namespace {

using ir::Argument;
using shape::SymInt;

constexpr int keyword = 2, strided = 7, contiguous_format = 1, preserve_format = 4;

// What PyTorch calls operators of ours. Its view refuses what is not laid out as it needs, and here are no strides; a
// number that is found may be of any kind only from item.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> spoken = {
    {{"aten::view", "aten::reshape"},
     {"aten::_unsafe_view", "aten::reshape"},
     {"aten::view_as", "aten::reshape_as"},
     {"aten::_local_scalar_dense", "aten::item"}}};

std::string spoken_target(const std::string& target) {
  for (const auto& [ours, theirs] : spoken)
    if (target == ours) return std::string(theirs);
  return target;
}

// The results that are floats: PyTorch tells them by the names of their symbols.
std::set<std::string> floats_found(const ir::Variant& variant) {
  std::set<std::string> names;
  const auto collect = [&](const ir::Graph& graph) {
    for (const ir::Node& node : graph.forward())
      for (const auto& result : node.results())
        if (!result->is_tensor() && std::get<ir::ScalarKind>(result->type) == ir::ScalarKind::floating)
          names.insert(result->name);
  };
  collect(variant.graph);
  for (const auto& [name, graph] : variant.subgraphs) collect(graph);
  return names;
}

std::optional<shape::Scalar> scalar_of(const Argument& argument) {
  if (argument.is<SymInt>()) return argument.get<SymInt>();
  if (argument.is<shape::SymFloat>()) return argument.get<shape::SymFloat>();
  if (argument.is<shape::SymBool>()) return argument.get<shape::SymBool>();
  return std::nullopt;
}

OutputJson real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

// L['d'][0]: how guards call an input.
std::string guard_path(const std::string& path) {
  std::string out = "L";
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    const std::string key = path.substr(start, dot - start);
    const bool is_position = start > 0 && !key.empty() && std::all_of(key.begin(), key.end(), ::isdigit);
    out += is_position ? "[" + key + "]" : "['" + key + "']";
    start = dot + 1;
  }
  return out;
}

std::string target_text(const std::string& target) {  // torch.ops.aten.add.Tensor
  const size_t colons = target.find("::");
  const std::string name = target.substr(colons + 2);
  return "torch.ops." + target.substr(0, colons) + "." + name + (name.find('.') == std::string::npos ? ".default" : "");
}

}  // namespace

Diagnostic unsupported(const std::string& what) {
  return error(Status::unsupported, 826, "this program cannot be an archive of torch.export: " + what);
}

OutputJson tensor_argument(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

std::string graph_input_name(const ir::InputSpec& spec) {
  if (!spec.value.empty()) return spec.value;
  std::string name = spec.target;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

OutputJson constant_value(const Argument& constant) {
  if (constant.is<SymInt>()) return {{"as_int", constant.get<SymInt>().constant().value_or(0)}};
  if (constant.is<shape::SymFloat>())
    return {{"as_float", real(constant.get<shape::SymFloat>().constant().value_or(0))}};
  if (constant.is<shape::SymBool>()) return {{"as_bool", constant.get<shape::SymBool>().constant().value_or(false)}};
  if (constant.is<std::string>()) return {{"as_string", constant.get<std::string>()}};
  return {{"as_none", true}};
}

GraphWriter::GraphWriter(const ir::ExportedProgram& program, const ir::EntryPoint& entry, const opset::Opset& opset)
    : program_(program), entry_(entry), variant_(entry.variants.front()), opset_(opset) {
  const std::set<std::string> are_floats = floats_found(variant_);
  int sizes = 0, found = 0, floats = 0;
  for (const ir::Symbol& symbol : entry_.symbols) {
    const bool is_input = !symbol.source.empty();
    const std::string name = is_input                           ? "s" + std::to_string(sizes++)
                             : are_floats.contains(symbol.name) ? "zuf" + std::to_string(floats++)
                                                                : "u" + std::to_string(found++);
    facts_.declare(symbol.name, symbol.range);
    renamed_.emplace(symbol.name, SymInt::symbol(name));
    // PyTorch takes sizes of 0 and 1 for constants, so an example must not have them.
    const int64_t least = std::max<int64_t>(symbol.range.lower, std::min<int64_t>(2, symbol.range.upper));
    if (is_input) hints_[name] = std::max(symbol.hint.value_or(least), least);
  }
  for (const ir::Constraint& assumption : variant_.assumptions) facts_.assume(assumption.truth);
  traits_.is_positive = [](const std::string& name) { return name[0] == 's'; };
}

std::string GraphWriter::fresh_name(const std::string& stem) {
  std::string name = stem;
  for (int i = 1; !tables_.taken.insert(name).second; ++i) name = stem + "_" + std::to_string(i);
  return name;
}

// FX renames what is a word of Python (sum, max): those have neither a digit nor an underscore.
std::string GraphWriter::name_of(const ir::Value& value) {
  const auto known = value_names_.find(&value);
  if (known != value_names_.end()) return known->second;
  std::string name = value.name;
  std::replace(name.begin(), name.end(), '.', '_');
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) { return c != '_' && (c < '0' || c > '9'); });
  if (value.producer && (is_plain || std::isdigit(static_cast<unsigned char>(name[0]))))
    name = is_plain ? name + "_0" : "v" + name;
  return value_names_[&value] = fresh_name(name);
}

// --- Types

Result<OutputJson> GraphWriter::sym_int(const SymInt& value) const {
  const SymInt renamed = shape::substitute(value, renamed_);
  if (const std::optional<int64_t> constant = renamed.constant()) return OutputJson{{"as_int", *constant}};
  const std::optional<std::string> text = print_expression(renamed, traits_);
  if (!text) return unsupported("it has the size " + value.to_string());
  const std::optional<int64_t> hint = shape::evaluate(renamed, hints_);
  return OutputJson{
      {"as_expr", {{"expr_str", *text}, {"hint", hint ? OutputJson{{"as_int", *hint}} : OutputJson(nullptr)}}}};
}

Result<OutputJson> GraphWriter::tensor_meta(const ir::TensorMeta& meta) const {
  OutputJson sizes = OutputJson::array(), strides = OutputJson::array();
  std::vector<SymInt> steps(meta.sizes.size(), 1);
  for (size_t i = steps.size(); i-- > 1;) steps[i - 1] = steps[i] * shape::max(meta.sizes[i], 1);
  if (meta.strides) steps = *meta.strides;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    Result<OutputJson> size = sym_int(meta.sizes[i]);
    // The size of an input is at least 1 there, and one that a node finds is not compared with 1.
    Result<OutputJson> stride =
        sym_int(meta.strides ? steps[i]
                             : shape::product({meta.sizes.begin() + static_cast<ptrdiff_t>(i) + 1, meta.sizes.end()}));
    if (!size) return size.error();
    if (!stride) return stride.error();
    sizes.push_back(*size);
    strides.push_back(*stride);
  }
  Result<OutputJson> offset = sym_int(meta.offset);
  if (!offset) return offset.error();
  return OutputJson{{"dtype", number_of(meta.dtype)},
                    {"sizes", sizes},
                    {"requires_grad", false},
                    {"device", {{"type", "cpu"}, {"index", nullptr}}},
                    {"strides", strides},
                    {"storage_offset", *offset},
                    {"layout", strided}};
}

// --- Arguments and nodes

Result<OutputJson> GraphWriter::list(const ir::ArgumentList& items, const opset::Parameter& parameter) {
  const auto all = [&](const auto& holds) { return std::all_of(items.begin(), items.end(), holds); };
  OutputJson values = OutputJson::array();
  if (parameter.type.kind == opset::Kind::tensor) {
    for (const Argument& item : items) {
      if (!item.value() && !parameter.type.optional_items) return unsupported("a list has numbers among its tensors");
      OutputJson tensor = item.value() ? tensor_argument(name_of(*item.value())) : OutputJson{{"as_none", true}};
      values.push_back(parameter.type.optional_items ? tensor : tensor["as_tensor"]);
    }
    return OutputJson{{parameter.type.optional_items ? "as_optional_tensors" : "as_tensors", values}};
  }
  const std::string kind = all([](const Argument& item) { return item.is<SymInt>(); }) ? "int"
                           : parameter.type.kind == opset::Kind::boolean               ? "bool"
                                                                                       : "float";
  bool is_symbolic = false;
  for (const Argument& item : items) {
    std::optional<shape::Scalar> number = scalar_of(item);
    if (!number) return unsupported("a list of arguments is of mixed kinds");
    if (kind == "float" && item.is<SymInt>()) number = shape::SymFloat::from(item.get<SymInt>());
    Result<OutputJson> value = number_argument(*number);
    if (!value) return value;
    is_symbolic |= value->begin().value().is_object();
    values.push_back(*value);
  }
  for (OutputJson& value : values)
    if (!is_symbolic || value.contains("as_sym_" + kind)) value = OutputJson(value.begin().value());
  return OutputJson{{is_symbolic ? "as_sym_" + kind + "s" : "as_" + kind + "s", values}};
}

Result<OutputJson> GraphWriter::argument(const Argument& argument, const opset::Parameter& parameter) {
  if (const ir::Value* value = argument.value()) return tensor_argument(name_of(*value));
  if (argument.is<ir::ArgumentList>()) return list(argument.get<ir::ArgumentList>(), parameter);
  if (argument.is<ScalarType>()) return OutputJson{{"as_scalar_type", number_of(argument.get<ScalarType>())}};
  if (argument.is<std::complex<double>>()) {
    const auto& value = argument.get<std::complex<double>>();
    return OutputJson{{"as_complex", {{"real", real(value.real())}, {"imag", real(value.imag())}}}};
  }
  if (parameter.type.kind == opset::Kind::word && !argument.is<ir::None>()) {
    if (parameter.name == "device") return OutputJson{{"as_device", {{"type", "cpu"}, {"index", nullptr}}}};
    if (parameter.name == "layout") return OutputJson{{"as_layout", strided}};
    return OutputJson{{"as_memory_format", parameter.type.optional ? preserve_format : contiguous_format}};
  }
  if (argument.is<ir::SubgraphRef>()) return unsupported("it calls the graph @" + argument.get<ir::SubgraphRef>().name);
  if (const std::optional<shape::Scalar> number = scalar_of(argument)) return number_argument(*number);
  return constant_value(argument);
}

OutputJson GraphWriter::metadata(ir::ProvenanceId provenance) const {
  const ir::CallStack& stack = program_.provenance.at(provenance);
  OutputJson out = OutputJson::object();
  std::string trace;
  for (const ir::SharedFrame& frame : stack.frames)
    trace += (trace.empty() ? "File \"" : "\n  File \"") + frame->file + "\", line " + std::to_string(frame->line) +
             ", in " + frame->function + "\n    " + frame->code;
  if (!trace.empty()) out["stack_trace"] = trace;
  const bool is_plain = (stack.module_path + stack.module_class).find_first_of(";,()[]") == std::string::npos;
  if (!stack.module_class.empty() && is_plain)
    out["nn_module_stack"] = "L__self__" + stack.module_path + "," + stack.module_path + "," + stack.module_class;
  return out;
}

void GraphWriter::note_sizes(const ir::Value& value) {
  for (size_t axis = 0; axis < value.meta().sizes.size(); ++axis)
    if (const std::optional<std::string> symbol = value.meta().sizes[axis].as_symbol())
      tables_.sources.emplace(*symbol, std::pair(&value, axis));
}

Result<void> GraphWriter::write_result(const ir::Value& result, OutputJson& outputs) {
  if (!result.is_tensor()) {
    outputs.push_back(found_number(result));
    return {};
  }
  Result<OutputJson> type = tensor_meta(result.meta());
  if (!type) return type.error();
  const std::string name = name_of(result);
  tables_.tensors[name] = *type;
  outputs.push_back(tensor_argument(name));
  note_sizes(result);
  return {};
}

// A branch or body: names, sizes and tables of its own.
Result<OutputJson> GraphWriter::body(const std::string& name, bool is_predicate) {
  const ir::Graph& graph = variant_.subgraphs.at(name);
  Tables outer = std::exchange(tables_, {});
  const auto write = [&]() -> Result<OutputJson> {
    OutputJson inputs = OutputJson::array();
    for (const auto& input : graph.inputs())
      if (Result<void> written = write_result(*input, inputs); !written) return written.error();
    Result<OutputJson> whole = nodes_and_outputs(graph, inputs);
    if (whole) (*whole)["is_single_tensor_return"] = is_predicate;
    return whole;
  };
  Result<OutputJson> written = write();
  tables_ = std::move(outer);
  if (!written) return written;
  return OutputJson{{"as_graph", {{"name", name}, {"graph", *written}}}};
}

Result<void> GraphWriter::write_control_flow(const ir::Node& node, const ir::ControlFlow& flow) {
  const bool is_map = flow.kind == ir::ControlFlow::Kind::map;
  const std::string target = is_map ? "map_impl" : node.target().substr(node.target().find("::") + 2);
  OutputJson inputs = OutputJson::array(), outputs = OutputJson::array();
  const opset::Parameter tensors{.name = "operands", .type = {.kind = opset::Kind::tensor, .list = true}};
  size_t bodies = 0;
  for (const Argument& given : node.arguments()) {
    const auto* subgraph = std::get_if<ir::SubgraphRef>(&given);
    const bool is_predicate = bodies == 0 && flow.kind == ir::ControlFlow::Kind::while_loop;
    Result<OutputJson> value = subgraph ? body(subgraph->name, is_predicate) : argument(given, tensors);
    if (!value) return value.error();
    bodies += subgraph != nullptr;
    inputs.push_back({{"name", ""}, {"arg", *value}, {"kind", positional}});
  }
  for (const auto& result : node.results())
    if (Result<void> written = write_result(*result, outputs); !written) return written;
  tables_.nodes.push_back({{"target", "torch.ops.higher_order." + target},
                           {"inputs", inputs},
                           {"outputs", outputs},
                           {"metadata", metadata(node.provenance)},
                           {"is_hop_single_tensor_return", false},
                           {"name", fresh_name("flow_" + std::to_string(bodies))}});
  return {};
}

Result<void> GraphWriter::write_node(const ir::Node& node) {
  if (const std::optional<ir::ControlFlow> flow = ir::control_flow(node)) return write_control_flow(node, *flow);
  const opset::Operator* op = opset_.find(spoken_target(node.target()));
  if (!op || node.target().starts_with("atenon::"))
    return unsupported("it is lowered, or uses " + node.target() + ", which PyTorch does not know")
        .note("fix: write the program as captured: atenon capture net.py | atenon pack --format pt2 -o net.pt2");
  if (op->is_declared() && node.results().size() > 0 &&
      std::any_of(op->schema().parameters.begin(), op->schema().parameters.end(),
                  [](const opset::Parameter& parameter) { return parameter.type.mutated; }))
    return unsupported(node.target() + " updates an argument, and what that holds afterwards has no name there");
  OutputJson inputs = OutputJson::array(), outputs = OutputJson::array();
  const std::vector<opset::Parameter>& parameters = op->schema().parameters;
  for (size_t i = 0; i < node.arguments().size() && i < parameters.size(); ++i) {
    Result<OutputJson> value = argument(node.arguments()[i], parameters[i]);
    if (!value) return value.error();
    inputs.push_back({{"name", parameters[i].name}, {"arg", *value}, {"kind", positional}});
  }
  for (const ir::Named& named : node.keywords()) {
    const opset::Parameter* parameter = op->schema().parameter(named.name);
    if (!parameter) return unsupported(node.target() + " has no argument " + named.name);
    Result<OutputJson> value = argument(named.argument, *parameter);
    if (!value) return value.error();
    inputs.push_back({{"name", named.name}, {"arg", *value}, {"kind", keyword}});
  }
  for (const auto& result : node.results())
    if (Result<void> written = write_result(*result, outputs); !written) return written;
  const bool is_list = op->schema().returns.size() == 1 && op->schema().returns[0].type.list;
  if (is_list) {
    OutputJson names = OutputJson::array();
    for (const OutputJson& output : outputs) names.push_back(output.at("as_tensor"));
    outputs = OutputJson::array({OutputJson{{"as_tensors", names}}});
  }
  const bool is_one = node.results().size() == 1 && !is_list;
  const std::string name =
      is_one ? name_of(*node.result()) : fresh_name("call_" + (node.results().empty() ? "0" : name_of(*node.result())));
  add_node(target_text(op->target()), inputs, outputs, metadata(node.provenance), name);
  return {};
}

void GraphWriter::add_node(const std::string& target, OutputJson inputs, OutputJson outputs, OutputJson metadata,
                           const std::string& name) {
  tables_.nodes.push_back({{"target", target},
                           {"inputs", std::move(inputs)},
                           {"outputs", std::move(outputs)},
                           {"metadata", std::move(metadata)},
                           {"is_hop_single_tensor_return", nullptr},
                           {"name", name}});
}

Result<OutputJson> GraphWriter::graph() {
  OutputJson inputs = OutputJson::array();
  for (const ir::InputSpec& spec : entry_.signature.inputs) tables_.taken.insert(graph_input_name(spec));
  for (const ir::InputSpec& spec : entry_.signature.inputs) {
    const ir::Value* value = spec.value.empty() ? nullptr : variant_.graph.find(spec.value);
    if (!value) {
      inputs.push_back(constant_value(spec.constant.value_or(ir::None{})));
      continue;
    }
    if (!value->is_tensor()) return unsupported("the input " + spec.target + " is a number");
    value_names_[value] = spec.value;
    Result<OutputJson> type = tensor_meta(value->meta());
    if (!type) return type.error();
    tables_.tensors[spec.value] = *type;
    inputs.push_back(tensor_argument(spec.value));
    note_sizes(*value);
  }
  Result<OutputJson> whole = nodes_and_outputs(variant_.graph, inputs);
  if (!whole) return whole;
  outputs_ = whole->at("outputs");
  for (const OutputJson& output : outputs_)
    if (output.contains("as_sym_bool"))
      return unsupported("it returns a truth that it finds, and torch.export.load reads none")
          .note("fix: return the tensor, without item()");
  return whole;
}

Result<OutputJson> GraphWriter::nodes_and_outputs(const ir::Graph& graph, const OutputJson& inputs) {
  OutputJson outputs = OutputJson::array();
  std::vector<ir::Constraint> open = &graph == &variant_.graph ? variant_.assumptions : graph.assumptions;
  for (const ir::Node& node : graph.forward()) {
    if (Result<void> written = write_node(node); !written) return written.error();
    if (Result<void> written = write_asserts(open); !written) return written.error();
  }
  const opset::Parameter any{.name = "output"};
  for (const Argument& output : graph.outputs()) {
    Result<OutputJson> value = argument(output, any);
    if (!value) return value.error();
    outputs.push_back(*value);
  }
  return OutputJson{{"inputs", inputs},
                    {"outputs", outputs},
                    {"nodes", tables_.nodes},
                    {"tensor_values", tables_.tensors},
                    {"sym_int_values", tables_.numbers[0]},
                    {"sym_bool_values", tables_.numbers[2]},
                    {"is_single_tensor_return", false},
                    {"custom_obj_values", OutputJson::object()},
                    {"sym_float_values", tables_.numbers[1]}};
}

OutputJson GraphWriter::range_constraints() const {
  OutputJson ranges = OutputJson::object();
  for (const ir::Symbol& symbol : entry_.symbols) {
    // What PyTorch may use of a number that is found must be in its range: it does not read the asserts.
    const shape::Range range = symbol.source.empty() ? facts_.bounds(SymInt::symbol(symbol.name)) : symbol.range;
    ranges[*renamed_.at(symbol.name).as_symbol()] = {
        {"min_val", range.lower == shape::Range::lowest ? OutputJson(nullptr) : OutputJson(range.lower)},
        {"max_val", range.upper == shape::Range::highest ? OutputJson(nullptr) : OutputJson(range.upper)}};
  }
  return ranges;
}

OutputJson GraphWriter::guards() const {
  OutputJson guards = OutputJson::array();
  for (const ir::Constraint& assumption : variant_.assumptions) {
    if (is_of_found(assumption.truth)) continue;  // asserted in the graph
    std::string text = assumption.truth.to_string(), out;
    for (size_t i = 0; i < text.size();) {  // each name is a symbol, or a function of Python
      size_t end = i;
      while (end < text.size() && ir::is_name_character(text[end])) ++end;
      const std::string word = text.substr(i, end - i);
      const ir::Symbol* symbol = word.empty() ? nullptr : entry_.symbol(word);
      if (symbol && !symbol->source.empty()) {
        const size_t bracket = symbol->source.rfind('[');
        out += guard_path(symbol->source.substr(0, bracket)) + ".size()" + symbol->source.substr(bracket);
      } else {
        out += word.empty() ? text.substr(i, 1) : word;
      }
      i = std::max(end, i + 1);
    }
    guards.push_back(out);
  }
  return guards;
}

OutputJson GraphWriter::signature() const {
  OutputJson inputs = OutputJson::array(), outputs = OutputJson::array();
  std::map<std::string, std::string> user_inputs;  // graph names by path
  for (const ir::InputSpec& spec : entry_.signature.inputs) {
    const OutputJson arg{{"name", graph_input_name(spec)}};
    if (spec.kind == ir::InputKind::user_input) {
      user_inputs[spec.target] = graph_input_name(spec);
      if (spec.value.empty())
        inputs.push_back({{"constant_input",
                           {{"name", arg["name"]}, {"value", constant_value(spec.constant.value_or(ir::None{}))}}}});
      else
        inputs.push_back({{"user_input", {{"arg", {{"as_tensor", arg}}}}}});
    } else if (spec.kind == ir::InputKind::parameter) {
      inputs.push_back({{"parameter", {{"arg", arg}, {"parameter_name", spec.target}}}});
    } else if (spec.kind == ir::InputKind::buffer) {
      inputs.push_back({{"buffer", {{"arg", arg}, {"buffer_name", spec.target}, {"persistent", spec.persistent}}}});
    } else {
      inputs.push_back({{"tensor_constant", {{"arg", arg}, {"tensor_constant_name", spec.target}}}});
    }
  }
  for (size_t i = 0; i < entry_.signature.outputs.size(); ++i) {
    const ir::OutputSpec& spec = entry_.signature.outputs[i];
    const Argument& output = variant_.graph.outputs()[i];
    const ir::Value* value = output.value();
    const OutputJson arg{{"name", value ? value_names_.at(value) : ""}};
    if (spec.kind == ir::OutputKind::parameter_mutation) {
      outputs.push_back({{"parameter_mutation", {{"arg", arg}, {"parameter_name", spec.target}}}});
    } else if (spec.kind == ir::OutputKind::buffer_mutation) {
      outputs.push_back({{"buffer_mutation", {{"arg", arg}, {"buffer_name", spec.target}}}});
    } else if (spec.kind == ir::OutputKind::user_input_mutation) {
      outputs.push_back({{"user_input_mutation", {{"arg", arg}, {"user_input_name", user_inputs[spec.target]}}}});
    } else {
      outputs.push_back({{"user_output", {{"arg", outputs_[i]}}}});
    }
  }
  return {{"input_specs", inputs}, {"output_specs", outputs}};
}

}  // namespace atenon::pt2
