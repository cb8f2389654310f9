#include "pt2/read_signature.h"

#include <algorithm>

namespace atenon::pt2 {
namespace {

using ir::InputKind;
using ir::OutputKind;
using Kind = ir::TreeSpec::Kind;

// The keys that a context lists, if it lists one for each child. A context is JSON in a text, or JSON as it is.
std::vector<std::string> keys_of(const Item& context, size_t children, const std::string& file_name) {
  std::vector<std::string> keys;
  if (!context.is_text()) return keys;
  Result<Document> document = Document::parse(context.text(), file_name, "a pytree's context");
  if (!document || !document->root().is_list()) return keys;
  std::vector<Item> items = document->root().items();
  // A defaultdict's context starts with what makes its values.
  if (items.size() == 2 && items[1].is_list() && !items[0].is_list()) items = items[1].items();
  if (items.size() != children) return keys;
  for (const Item& item : items) {
    if (!item.is_text() && !item.is_integer()) return {};
    keys.push_back(item.is_text() ? item.text() : std::to_string(item.integer()));
  }
  return keys;
}

class TreeReader {
 public:
  TreeReader(const Item& fields, std::string file_name) : fields_(fields), file_name_(std::move(file_name)) {}

  ir::TreeSpec read(const Item& spec) {
    ir::TreeSpec tree;
    if (spec.find("type").is_null()) return tree;
    const std::string type = spec.find("type").text();
    for (const Item& child : spec.at("children_spec").items()) tree.children.push_back(read(child));
    const Item context = spec.find("context");
    if (type == "builtins.tuple") {
      tree.kind = Kind::tuple;
    } else if (type == "builtins.list") {
      tree.kind = Kind::list;
    } else if (type == "builtins.dict" || type == "collections.OrderedDict" || type == "collections.defaultdict") {
      tree.kind = Kind::dict;
      tree.keys = keys_of(context, tree.children.size(), file_name_);
      if (tree.keys.size() != tree.children.size()) spec.fail("has keys that are neither texts nor integers");
    } else if (type == "collections.namedtuple") {
      tree.kind = Kind::named_tuple;
      tree.type = context.is_text() ? unquoted(context.text()) : "";
      if (const Item known = fields_.find(tree.type); !known.is_null())
        for (const Item& field : known.at("field_names").items()) tree.keys.push_back(field.text());
    } else {
      tree.kind = Kind::custom;
      tree.type = type;
      tree.keys = keys_of(context, tree.children.size(), file_name_);
    }
    if (tree.keys.size() != tree.children.size()) tree.keys.clear();
    return tree;
  }

 private:
  static std::string unquoted(const std::string& text) {
    return text.size() >= 2 && text.front() == '"' && text.back() == '"' ? text.substr(1, text.size() - 2) : text;
  }

  Item fields_;  // of named tuples, by class
  std::string file_name_;
};

// A pytree as text: `[1, {...}]`, where 1 is the version of the format.
Result<ir::TreeSpec> parse_tree(const std::string& text, const Item& fields, const std::string& file_name) {
  Result<Document> document = Document::parse(text, file_name, "a pytree");
  if (!document) return document.error();
  const std::vector<Item> parts = document->root().items();
  if (parts.size() != 2 || !parts[0].is_integer() || parts[0].integer() != 1)
    return damaged(file_name, "a pytree is of an unknown version");
  ir::TreeSpec tree = TreeReader(fields, file_name).read(parts[1]);
  if (Result<void> sound = document->check(); !sound) return sound.error();
  return tree;
}

// Positional arguments and keywords as one tree, whose keys are the names of forward's parameters.
Result<ir::TreeSpec> input_tree(ir::TreeSpec pair, const Item& names, const std::string& file_name) {
  if (pair.kind != Kind::tuple || pair.children.size() != 2 || pair.children[0].kind != Kind::tuple ||
      pair.children[1].kind != Kind::dict)
    return damaged(file_name, "the pytree of inputs is not one of positional arguments and keywords");
  ir::TreeSpec tree = std::move(pair.children[0]);
  const size_t positional = tree.children.size();
  std::vector<std::string> known;
  if (!names.is_null())
    for (const Item& name : names.items()) known.push_back(name.text());
  tree.keys.clear();
  for (size_t i = 0; i < positional; ++i)
    tree.keys.push_back(i < known.size() ? known[i] : "args_" + std::to_string(i));
  for (size_t i = 0; i < pair.children[1].children.size(); ++i) {
    tree.keys.push_back(pair.children[1].keys[i]);
    tree.children.push_back(std::move(pair.children[1].children[i]));
  }
  return tree;
}

ir::Argument constant_of(const Item& value) {
  const auto [kind, constant] = value.alternative();
  if (kind == "as_none") return ir::None{};
  if (kind == "as_int") return constant.integer();
  if (kind == "as_float") return constant.real();
  if (kind == "as_bool") return constant.truth();
  return constant.text();
}

// What user inputs and constants are called: the leaves of the pytree, in order.
class Paths {
 public:
  explicit Paths(const ir::TreeSpec& tree) : paths_(tree.leaf_paths()) {}
  std::string next(const std::string& otherwise = "") {
    return next_++ < paths_.size() ? paths_[next_ - 1] : otherwise;
  }
  size_t taken() const { return next_; }
  bool are_all_taken() const { return next_ == paths_.size(); }

 private:
  std::vector<std::string> paths_;
  size_t next_ = 0;
};

Diagnostic unsupported(const std::string& file_name, const std::string& what) {
  return error(Status::unsupported, 823, what).at({.file = file_name});
}

// What orders the calls that do something: the list of nodes does so here.
bool is_token(const Item& spec) { return spec.alternative().first == "token"; }

Result<ir::InputSpec> read_input(const Item& spec, Paths& paths, const std::string& file_name) {
  const auto [kind, body] = spec.alternative();
  ir::InputSpec input;
  if (kind == "user_input") {
    const auto [sort, argument] = body.at("arg").alternative();
    input.target = paths.next();
    if (sort == "as_tensor") {
      input.value = argument.at("name").text();
    } else if ((sort == "as_sym_int" || sort == "as_sym_float" || sort == "as_sym_bool") &&
               !argument.find("as_name").is_null()) {
      input.value = argument.at("as_name").text();
    } else if (sort == "as_custom_obj") {
      return unsupported(file_name, "the input '" + input.target + "' is an object of a class of its own");
    } else {
      input.constant = constant_of(body.at("arg"));
    }
  } else if (kind == "constant_input") {
    input.target = paths.next();
    input.constant = constant_of(body.at("value"));
  } else if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
    input.kind = kind == "parameter" ? InputKind::parameter
                 : kind == "buffer"  ? InputKind::buffer
                                     : InputKind::constant_tensor;
    input.value = body.at("arg").at("name").text();
    input.target = body.at((kind + "_name").c_str()).text();
    if (kind == "buffer") input.persistent = body.at("persistent").truth();
  } else {
    return unsupported(file_name, "the program takes an input of the kind '" + kind + "', which is not supported");
  }
  return input;
}

Result<ir::OutputSpec> read_output(const Item& spec, Paths& paths, const std::vector<ir::InputSpec>& inputs,
                                   const std::string& file_name) {
  const auto [kind, body] = spec.alternative();
  if (kind == "user_output") return ir::OutputSpec{.target = paths.next(std::to_string(paths.taken()))};
  if (kind == "buffer_mutation") return ir::OutputSpec{OutputKind::buffer_mutation, body.at("buffer_name").text()};
  if (kind == "parameter_mutation")
    return ir::OutputSpec{OutputKind::parameter_mutation, body.at("parameter_name").text()};
  if (kind != "user_input_mutation")
    return unsupported(file_name, "the program has an output of the kind '" + kind + "', which is not supported");
  ir::OutputSpec output{.kind = OutputKind::user_input_mutation};
  const std::string name = body.at("user_input_name").text();
  for (const ir::InputSpec& input : inputs)
    if (input.kind == InputKind::user_input && input.value == name) output.target = input.target;
  return output;
}

}  // namespace

Result<ir::GraphSignature> read_signature(const Item& graph_module, const std::string& file_name) {
  ir::GraphSignature signature;
  const std::vector<Item> modules = graph_module.at("module_call_graph").items();
  const auto whole =
      std::find_if(modules.begin(), modules.end(), [](const Item& m) { return m.at("fqn").text() == ""; });
  if (whole == modules.end()) return damaged(file_name, "the archive does not say how the model is called");
  const Item call = whole->at("signature"), fields = graph_module.find("treespec_namedtuple_fields");
  Result<ir::TreeSpec> inputs = parse_tree(call.at("in_spec").text(), fields, file_name);
  if (inputs) inputs = input_tree(std::move(*inputs), call.find("forward_arg_names"), file_name);
  if (!inputs) return inputs.error();
  Result<ir::TreeSpec> outputs = parse_tree(call.at("out_spec").text(), fields, file_name);
  if (!outputs) return outputs.error();
  signature.input_tree = std::move(*inputs);
  signature.output_tree = std::move(*outputs);

  Paths input_paths(signature.input_tree);
  for (const Item& spec : graph_module.at("signature").at("input_specs").items()) {
    if (is_token(spec)) continue;
    Result<ir::InputSpec> input = read_input(spec, input_paths, file_name);
    if (!input) return input.error();
    signature.inputs.push_back(std::move(*input));
  }
  if (!input_paths.are_all_taken()) return damaged(file_name, "the signature has other inputs than its pytree");
  Paths output_paths(signature.output_tree);
  for (const Item& spec : graph_module.at("signature").at("output_specs").items()) {
    if (is_token(spec)) continue;
    Result<ir::OutputSpec> output = read_output(spec, output_paths, signature.inputs, file_name);
    if (!output) return output.error();
    signature.outputs.push_back(std::move(*output));
  }
  if (!output_paths.are_all_taken()) return damaged(file_name, "the signature has other outputs than its pytree");
  return signature;
}

}  // namespace atenon::pt2
