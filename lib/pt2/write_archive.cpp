// From a program to an archive: the JSON of its graph and one file for each storage, in a zip file whose bytes follow
// from the program alone.
#include "arrays/zip_archive.h"
#include "pt2/archive.h"
#include "pt2/graph_writer.h"
#include "pt2/pt2.h"
#include "support/json.h"

namespace atenon::pt2 {
namespace {

using Kind = ir::TreeSpec::Kind;

constexpr int schema_major = 8, schema_minor = 20, aten_version = 10, tree_version = 1;
constexpr const char* torch_version = "2.13.0";
constexpr const char* root = "model/";

// A pytree of containers that PyTorch has itself: classes of a model are written as the dicts and tuples they are made
// of.
OutputJson tree_json(const ir::TreeSpec& tree) {
  if (tree.is_leaf()) return {{"type", nullptr}, {"context", nullptr}, {"children_spec", OutputJson::array()}};
  OutputJson children = OutputJson::array();
  for (const ir::TreeSpec& child : tree.children) children.push_back(tree_json(child));
  if (tree.kind == Kind::list) return {{"type", "builtins.list"}, {"context", "null"}, {"children_spec", children}};
  const bool is_dict = tree.kind == Kind::dict || (tree.kind == Kind::custom && !tree.keys.empty());
  if (!is_dict) return {{"type", "builtins.tuple"}, {"context", "null"}, {"children_spec", children}};
  return {{"type", "builtins.dict"}, {"context", json_text(tree.keys)}, {"children_spec", children}};
}

std::string tree_text(const OutputJson& tree) { return json_text(OutputJson::array({tree_version, tree})); }

OutputJson call_signature(const ir::GraphSignature& signature) {
  ir::TreeSpec positional = signature.input_tree;
  positional.kind = Kind::tuple;
  const OutputJson none = {{"type", "builtins.dict"}, {"context", "[]"}, {"children_spec", OutputJson::array()}};
  const OutputJson inputs = {{"type", "builtins.tuple"},
                             {"context", "null"},
                             {"children_spec", OutputJson::array({tree_json(positional), none})}};
  return {{"inputs", OutputJson::array()},
          {"outputs", OutputJson::array()},
          {"in_spec", tree_text(inputs)},
          {"out_spec", tree_text(tree_json(signature.output_tree))},
          {"forward_arg_names", signature.input_tree.keys}};
}

OutputJson weight_meta(const Tensor& tensor, bool is_parameter) {
  const auto integers = [](const std::vector<int64_t>& values) {
    OutputJson list = OutputJson::array();
    for (const int64_t value : values) list.push_back({{"as_int", value}});
    return list;
  };
  return {{"dtype", number_of(tensor.dtype)},
          {"sizes", integers(tensor.sizes)},
          {"requires_grad", is_parameter && (is_floating(tensor.dtype) || is_complex(tensor.dtype))},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"strides", integers(tensor.strides)},
          {"storage_offset", {{"as_int", tensor.offset}}},
          {"layout", 7}};
}

class ArchiveWriter {
 public:
  explicit ArchiveWriter(OutputFile& file) : zip_(file) {}

  Result<void> add(const std::string& name, const std::string& text) { return zip_.add(root + name, text, "", 0); }

  // Weights (what a state dict has) or constants, and the table of them.
  Result<void> add_tensors(const ir::ExportedProgram& program, const ir::GraphSignature& signature, bool weights) {
    const std::string folder = weights ? "data/weights/" : "data/constants/";
    const std::string stem = weights ? "weight_" : "tensor_";
    OutputJson table = OutputJson::object();
    std::map<Storage*, std::string> files;
    for (const ir::InputSpec& spec : signature.inputs) {
      const bool is_parameter = spec.kind == ir::InputKind::parameter;
      const bool is_weight = is_parameter || (spec.kind == ir::InputKind::buffer && spec.persistent);
      if (spec.kind == ir::InputKind::user_input || is_weight != weights || table.contains(spec.target)) continue;
      const ir::Weight* weight = program.weight(spec.target);
      if (!weight || weight->layout) return unsupported("the weight " + spec.target + " is laid out for kernels");
      Storage& storage = *weight->tensor.storage;
      const auto [file, is_new] = files.emplace(&storage, stem + std::to_string(files.size()));
      if (is_new)
        if (Result<void> added = zip_.add(root + folder + file->second, "", storage.data(), storage.size()); !added)
          return added;
      table[spec.target] = {{"path_name", file->second},
                            {"is_param", is_parameter},
                            {"use_pickle", false},
                            {"tensor_meta", weight_meta(weight->tensor, is_parameter)}};
    }
    return add(folder + (weights ? "model_weights_config.json" : "model_constants_config.json"),
               json_text({{"config", table}}));
  }

  Result<void> add_extra_files(const ir::ExportedProgram& program) {
    for (const ir::ExtraFile& file : program.extra_files)
      if (Result<void> added = zip_.add(root + ("extra/" + file.name), "", file.bytes->data(), file.bytes->size());
          !added)
        return added;
    return {};
  }

  Result<void> finish() { return zip_.finish(); }

 private:
  arrays::ZipWriter zip_;
};

}  // namespace

Result<void> write(const ir::ExportedProgram& program, const opset::Opset& opset, const std::string& path) {
  if (program.entries.size() != 1) return unsupported("it has several entry points");
  const ir::EntryPoint& entry = program.entries.front();
  if (entry.variants.size() != 1) return unsupported("it has several variants");
  GraphWriter writer(program, entry, opset);
  Result<OutputJson> graph = writer.graph();
  if (!graph) return graph.error();
  const OutputJson module = {
      {"graph", *graph},
      {"signature", writer.signature()},
      {"module_call_graph", OutputJson::array({{{"fqn", ""}, {"signature", call_signature(entry.signature)}}})},
      {"metadata", OutputJson::object()},
      {"treespec_namedtuple_fields", OutputJson::object()}};
  const OutputJson json = {{"graph_module", module},
                           {"opset_version", {{"aten", aten_version}}},
                           {"range_constraints", writer.range_constraints()},
                           {"schema_version", {{"major", schema_major}, {"minor", schema_minor}}},
                           {"verifiers", OutputJson::array({"TRAINING"})},
                           {"torch_version", torch_version},
                           {"guards_code", writer.guards()}};

  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.error();
  ArchiveWriter archive(*file);
  Result<void> done = archive.add("archive_format", "pt2");
  if (done) done = archive.add("archive_version", "0");
  if (done) done = archive.add("byteorder", "little");
  if (done) done = archive.add(".data/version", "6\n");
  if (done) done = archive.add("models/model.json", json_text(json));
  if (done) done = archive.add_tensors(program, entry.signature, true);
  if (done) done = archive.add_tensors(program, entry.signature, false);
  if (done) done = archive.add("data/sample_inputs/model.pt", "");
  if (done) done = archive.add_extra_files(program);
  if (done) done = archive.finish();
  if (!done) return done;
  return file->commit();
}

}  // namespace atenon::pt2
