// From an archive to a program: its JSON is read record by record, and its graph built anew with our own operators.
#include <set>

#include "opset/dead_nodes.h"
#include "opset/versions.h"
#include "pt2/archive.h"
#include "pt2/graph_reader.h"
#include "pt2/pt2.h"
#include "pt2/read_signature.h"

namespace atenon::pt2 {
namespace {

constexpr int64_t schema_major = 8;  // since PyTorch 2.6

Result<void> check_version(const Item& root, const std::string& file_name) {
  const Item version = root.at("schema_version");
  const int64_t major = version.at("major").integer(), minor = version.at("minor").integer();
  if (major == schema_major) return {};
  const Item torch = root.find("torch_version");
  const std::string writer = torch.is_text() ? torch.text() : "an unknown version";
  return error(Status::unsupported, 823,
               "the archive has schema " + std::to_string(major) + "." + std::to_string(minor) +
                   ", written by PyTorch " + writer)
      .at({.file = file_name})
      .note("schema 8 is read: PyTorch 2.6 to 2.13; export the model again with one of these");
}

Result<void> take_weights(const Archive& archive, const ir::GraphSignature& signature, ir::ExportedProgram& program) {
  std::set<std::string> taken;
  for (const ir::InputSpec& spec : signature.inputs) {
    if (spec.kind == ir::InputKind::user_input || !taken.insert(spec.target).second) continue;
    const auto weight = archive.weights.find(spec.target), constant = archive.constants.find(spec.target);
    const bool is_weight = weight != archive.weights.end();
    if (!is_weight && constant == archive.constants.end())
      return damaged(archive.file_name, "the archive lacks the tensor '" + spec.target + "'");
    program.weights.push_back({spec.target, is_weight ? weight->second : constant->second});
  }
  return {};
}

}  // namespace

Result<ir::ExportedProgram> read(const Contents& contents, const std::string& file_name, opset::Opset& opset) {
  Result<Archive> archive = open(contents, file_name);
  if (!archive) return archive.error();
  return read_program(*archive, opset);
}

Result<ir::ExportedProgram> read_program(const Archive& archive, opset::Opset& opset) {
  const std::string& file_name = archive.file_name;
  Result<Document> document = Document::parse(archive.program.text(), file_name, "the program");
  if (!document) return document.error();
  const Item root = document->root();
  if (Result<void> known = check_version(root, file_name); !known) return known.error();
  const auto sound = [&](Diagnostic otherwise) {  // what is wrong with the JSON explains all else
    if (otherwise.where.file.empty()) otherwise.where.file = file_name;
    Result<void> checked = document->check();
    return checked ? otherwise : checked.error();
  };

  const Item module = root.at("graph_module"), graph = module.at("graph");
  CallStacks call_stacks;
  for (const Item& node : all_nodes(graph))
    if (const Item trace = node.at("metadata").find("stack_trace"); trace.is_text()) call_stacks.note(trace.text());
  Result<std::vector<std::string>> declared = declarations(graph, opset, call_stacks, file_name);
  if (!declared) return sound(declared.error());
  for (const std::string& block : *declared)
    if (Result<void> added = opset.add(block, file_name); !added) return sound(added.error());
  ir::ExportedProgram program;
  program.custom_blocks = std::move(*declared);
  ir::EntryPoint entry;
  Result<ir::GraphSignature> signature = read_signature(module, file_name);
  if (!signature) return sound(signature.error());
  if (Result<void> checked = document->check(); !checked) return checked.error();
  entry.signature = std::move(*signature);
  if (Result<void> taken = take_weights(archive, entry.signature, program); !taken) return taken.error();

  program.extra_files = archive.extra_files;
  ir::Variant variant;
  GraphReader reader(opset, call_stacks, file_name, program, entry, variant);
  Result<void> done = reader.read(graph, root.at("range_constraints"), root.find("guards_code"));
  if (done) done = reader.finish();
  if (!done) return sound(done.error());
  if (Result<void> checked = document->check(); !checked) return checked.error();

  std::set<std::string> namespaces{"aten"};
  opset::eliminate_dead_nodes(opset, variant);
  const auto name_namespaces = [&](const ir::Graph& body) {
    for (const ir::Node& node : body.forward()) namespaces.insert(node.target().substr(0, node.target().find("::")));
  };
  for (const auto& [name, body] : variant.subgraphs) name_namespaces(body);
  name_namespaces(variant.graph);
  for (const std::string& name : namespaces) program.opsets.push_back({name, opset::newest_version});
  entry.variants.push_back(std::move(variant));
  program.entries.push_back(std::move(entry));
  return program;
}

}  // namespace atenon::pt2
