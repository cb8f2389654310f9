// The program as JSON, schema 1. Numbers, texts, None and lists are JSON's own; every other argument is an object with
// one key: value, expression, float (inf, -inf, nan), complex, dtype, word, subgraph.
#include <cmath>

#include "show/forms.h"
#include "support/json.h"
#include "text/numbers.h"
#include "text/text.h"
#include "text/words.h"

namespace atenon::show {
namespace {

using Json = nlohmann::ordered_json;

Json floating(double value) { return std::isfinite(value) ? Json(value) : Json{{"float", text::spell(value)}}; }

template <class Symbolic>
Json symbolic(const Symbolic& value) {
  return {{"expression", value.to_string()}};
}

Json to_json(const ir::Argument& argument) {
  struct Visitor {
    Json operator()(const ir::None&) const { return nullptr; }
    Json operator()(const ir::SymInt& x) const { return x.constant() ? Json(*x.constant()) : symbolic(x); }
    Json operator()(const ir::SymFloat& x) const { return x.constant() ? floating(*x.constant()) : symbolic(x); }
    Json operator()(const ir::SymBool& x) const { return x.constant() ? Json(*x.constant()) : symbolic(x); }
    Json operator()(const std::complex<double>& x) const {
      return {{"complex", {floating(x.real()), floating(x.imag())}}};
    }
    Json operator()(const std::string& x) const { return x; }
    Json operator()(ScalarType x) const { return {{"dtype", name_of(x)}}; }
    Json operator()(const ir::Word& x) const { return {{"word", x.text}}; }
    Json operator()(const ir::SubgraphRef& x) const { return {{"subgraph", x.name}}; }
    Json operator()(const ir::Value* x) const { return {{"value", x->name}}; }
    Json operator()(const ir::ArgumentList& list) const {
      Json items = Json::array();
      for (const ir::Argument& item : list) items.push_back(to_json(item));
      return items;
    }
  };
  return std::visit(Visitor{}, static_cast<const ir::Argument::variant&>(argument));
}

Json to_json(const std::vector<ir::Named>& named) {
  Json out = Json::object();
  for (const ir::Named& entry : named) out[entry.name] = to_json(entry.argument);
  return out;
}

Json to_json(const ir::Type& type) {
  const auto* meta = std::get_if<ir::TensorMeta>(&type);
  if (!meta) return {{"scalar", ir::to_string(type)}};
  const auto sizes = [](const std::vector<ir::SymInt>& items) {
    Json out = Json::array();
    for (const ir::SymInt& item : items) out.push_back(to_json(ir::Argument(item)));
    return out;
  };
  Json out = {{"dtype", name_of(meta->dtype)}, {"sizes", sizes(meta->sizes)}};
  if (meta->strides) out["strides"] = sizes(*meta->strides);
  if (!(meta->offset == ir::SymInt(0))) out["offset"] = to_json(ir::Argument(meta->offset));
  return out;
}

Json to_json(const ir::Value& value) { return {{"name", value.name}, {"type", to_json(value.type)}}; }

Json to_json(const ir::Graph& graph) {
  Json inputs = Json::array(), nodes = Json::array(), outputs = Json::array();
  for (const auto& input : graph.inputs()) inputs.push_back(to_json(*input));
  for (const ir::Node& node : graph.forward()) {
    Json arguments = Json::array(), results = Json::array();
    for (const ir::Argument& argument : node.arguments()) arguments.push_back(to_json(argument));
    for (const auto& result : node.results()) results.push_back(to_json(*result));
    Json out = {{"target", node.target()},
                {"arguments", arguments},
                {"keywords", to_json(node.keywords())},
                {"results", results}};
    if (!node.annotations.empty()) out["annotations"] = to_json(node.annotations);
    if (node.provenance != 0) out["stack"] = node.provenance;
    nodes.push_back(std::move(out));
  }
  for (const ir::Argument& output : graph.outputs()) outputs.push_back(to_json(output));
  return {{"inputs", inputs}, {"nodes", nodes}, {"outputs", outputs}};
}

Json to_json(const std::vector<ir::Constraint>& constraints) {
  Json out = Json::array();
  for (const ir::Constraint& constraint : constraints) {
    out.push_back(
        {{"truth", constraint.truth.to_string()}, {"reason", constraint.reason}, {"stack", constraint.provenance}});
  }
  return out;
}

Json to_json(const ir::EntryPoint& entry) {
  Json symbols = Json::array(), inputs = Json::array(), outputs = Json::array(), variants = Json::array();
  for (const ir::Symbol& symbol : entry.symbols) {
    Json out = {{"name", symbol.name}};
    if (symbol.range.lower != shape::Range::lowest) out["lowest"] = symbol.range.lower;
    if (symbol.range.upper != shape::Range::highest) out["highest"] = symbol.range.upper;
    if (symbol.hint) out["hint"] = *symbol.hint;
    if (!symbol.source.empty()) out["source"] = symbol.source;
    symbols.push_back(std::move(out));
  }
  for (const ir::InputSpec& spec : entry.signature.inputs) {
    Json out = {{"kind", text::name_of(spec.kind)}, {"target", spec.target}};
    if (!spec.value.empty()) out["value"] = spec.value;
    if (spec.kind == ir::InputKind::buffer) out["persistent"] = spec.persistent;
    if (spec.constant) out["constant"] = to_json(*spec.constant);
    inputs.push_back(std::move(out));
  }
  for (const ir::OutputSpec& spec : entry.signature.outputs) {
    outputs.push_back({{"kind", text::name_of(spec.kind)}, {"target", spec.target}});
  }
  for (const ir::Variant& variant : entry.variants) {
    Json subgraphs = Json::object();
    for (const auto& [name, graph] : variant.subgraphs) {
      subgraphs[name] = to_json(graph);
      subgraphs[name]["assumptions"] = to_json(graph.assumptions);
    }
    variants.push_back({{"name", variant.name},
                        {"assumptions", to_json(variant.assumptions)},
                        {"guarantees", to_json(variant.guarantees)},
                        {"annotations", to_json(variant.annotations)},
                        {"graph", to_json(variant.graph)},
                        {"subgraphs", subgraphs}});
  }
  return {{"name", entry.name},
          {"symbols", symbols},
          {"inputs", inputs},
          {"outputs", outputs},
          {"input_tree", text::print_tree(entry.signature.input_tree)},
          {"output_tree", text::print_tree(entry.signature.output_tree)},
          {"variants", variants}};
}

Json weights(const ir::ExportedProgram& program) {
  std::map<const Storage*, size_t> storages;
  Json out = Json::array();
  for (const ir::Weight& weight : program.weights) {
    const Tensor& tensor = weight.tensor;
    Json item = {{"name", weight.name},
                 {"dtype", name_of(tensor.dtype)},
                 {"sizes", tensor.sizes},
                 {"strides", tensor.strides},
                 {"offset", tensor.offset}};
    if (weight.layout) item["layout"] = weight.layout->to_string();
    item["storage"] = storages.try_emplace(tensor.storage.get(), storages.size()).first->second;
    item["bytes"] = tensor.storage->size();
    item["xxh3"] = text::digest_of(*tensor.storage);
    out.push_back(std::move(item));
  }
  return out;
}

// By number; 0 is the empty one.
Json stacks(const ir::Provenance& provenance) {
  Json out = Json::array();
  for (ir::ProvenanceId id = 0; id < provenance.size(); ++id) {
    const ir::CallStack& stack = provenance.at(id);
    Json frames = Json::array();
    for (const ir::SharedFrame& frame : stack.frames) {
      frames.push_back(
          {{"file", frame->file}, {"line", frame->line}, {"function", frame->function}, {"code", frame->code}});
    }
    out.push_back({{"frames", frames},
                   {"module", stack.module_path},
                   {"class", stack.module_class},
                   {"made_from", stack.made_from}});
  }
  return out;
}

}  // namespace

std::string to_json(const ir::ExportedProgram& program, const Options& options) {
  Json opsets = Json::array(), entries = Json::array(), code = Json::array(), extra_files = Json::array(),
       history = Json::array();
  for (const ir::OpsetUse& opset : program.opsets) opsets.push_back({{"name", opset.name}, {"version", opset.version}});
  for (const ir::EntryPoint& entry : program.entries) {
    if (options.entry.empty() || options.entry == entry.name) entries.push_back(to_json(entry));
  }
  for (const ir::CodeSegment& each : program.code) {
    code.push_back({{"name", each.name},
                    {"target", each.target},
                    {"is_library", each.is_library},
                    {"bytes", each.bytes->size()},
                    {"xxh3", text::digest_of(*each.bytes)}});
  }
  for (const ir::ExtraFile& file : program.extra_files) {
    extra_files.push_back({{"name", file.name}, {"bytes", file.bytes->size()}, {"xxh3", text::digest_of(*file.bytes)}});
  }
  for (const ir::HistoryEntry& entry : program.history) {
    history.push_back({{"tool", entry.tool}, {"version", entry.version}, {"options", entry.options}});
  }
  const Json out = {{"schema", 1},
                    {"opsets", opsets},
                    {"operators", program.custom_blocks},
                    {"entries", entries},
                    {"weights", weights(program)},
                    {"stacks", stacks(program.provenance)},
                    {"code", code},
                    {"extra_files", extra_files},
                    {"history", history}};
  return json_text(out, 1) + "\n";
}

}  // namespace atenon::show
