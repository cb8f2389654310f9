// Prints programs. The order of sections: header, operator sets, entry points (symbols, signature, variants with their
// assumptions, graph and subgraphs), weights, call stacks, code, extra files, history.
#include <algorithm>

#include "support/hash.h"
#include "text/limits.h"
#include "text/numbers.h"
#include "text/text.h"
#include "text/words.h"

namespace atenon::text {
namespace {

std::string join(const std::vector<std::string>& items, const std::string& open, const std::string& close) {
  std::string out = open;
  for (const std::string& item : items) out += (&item == items.data() ? "" : ", ") + item;
  return out + close;
}

std::string print_named(const std::vector<ir::Named>& named, const std::string& open, const std::string& close) {
  std::vector<std::string> items;
  for (const ir::Named& entry : named) items.push_back(entry.name + "=" + print(entry.argument));
  return join(items, open, close);
}

std::string print_typed(const ir::Value& value) { return "%" + value.name + ": " + ir::to_string(value.type); }

// Plain where it cannot be taken for anything else.
std::string key_text(const std::string& key) {
  const bool is_number = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
  const bool is_taken = key == "None" || key == "namedtuple" || key == "custom";
  return is_number || (is_word(key) && !is_taken) ? key : quote(key);
}

std::string tree_text(const ir::TreeSpec& tree) {
  const TreeWords& words = words_of(tree.kind);
  std::string out(words.name);
  if (!tree.type.empty()) out += " " + quote(tree.type) + " ";
  if (tree.is_leaf()) return out;
  out += words.open;
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (i) out += ", ";
    if (i < tree.keys.size()) out += key_text(tree.keys[i]) + ": ";
    out += tree_text(tree.children[i]);
  }
  return out + std::string(words.close);
}

// The caller sees the Python line without looking into the table of call stacks.
std::string provenance_mark(const ir::Provenance* provenance, ir::ProvenanceId id) {
  if (id == 0) return "";
  std::string out = "  @" + std::to_string(id);
  if (!provenance || provenance->at(id).frames.empty()) return out;
  const ir::Frame& frame = *provenance->at(id).frames.back();
  if (frame.file.find_first_of("\n\r") != std::string::npos) return out;
  return out + "  # " + frame.file + ":" + std::to_string(frame.line);
}

void print_constraints(std::string& out, const std::string& head, const std::vector<ir::Constraint>& constraints) {
  for (const ir::Constraint& constraint : constraints) {
    out += head + " " + constraint.truth.to_string();
    if (constraint.provenance != 0) out += "  @" + std::to_string(constraint.provenance);
    if (!constraint.reason.empty()) out += "  " + quote(constraint.reason);
    out += "\n";
  }
}

std::string print_graph(const ir::Graph& graph, const std::string& indent, const std::string& head,
                        const ir::Provenance* provenance) {
  std::vector<std::string> inputs;
  size_t width = indent.size() + head.size();
  for (const auto& input : graph.inputs()) {
    inputs.push_back(print_typed(*input));
    width += inputs.back().size() + 2;
  }
  std::string out = indent + head + "(";
  const std::string separator = width <= 110 ? ", " : ",\n" + indent + std::string(head.size() + 1, ' ');
  for (size_t i = 0; i < inputs.size(); ++i) out += (i ? separator : "") + inputs[i];
  out += ")\n";
  print_constraints(out, indent + "  assume", graph.assumptions);
  for (const ir::Node& node : graph.forward()) {
    out += indent + "  " + print(node) + provenance_mark(provenance, node.provenance) + "\n";
  }
  std::vector<std::string> outputs;
  for (const ir::Argument& output : graph.outputs()) outputs.push_back(print(output));
  return out + indent + "  return " + join(outputs, "(", ")") + "\n";
}

void print_signature(std::string& out, const ir::GraphSignature& signature) {
  for (const ir::InputSpec& spec : signature.inputs) {
    out += "  input ";
    if (!spec.value.empty()) out += "%" + spec.value + ": ";
    out += std::string(name_of(spec.kind)) + " " + quote(spec.target);
    if (!spec.persistent) out += " transient";
    if (spec.constant) out += " = " + print(*spec.constant);
    out += "\n";
  }
  for (const ir::OutputSpec& spec : signature.outputs) {
    out += "  output " + std::string(name_of(spec.kind)) + " " + quote(spec.target) + "\n";
  }
  out += "  input_tree " + tree_text(signature.input_tree) + "\n";
  out += "  output_tree " + tree_text(signature.output_tree) + "\n";
}

// The line that separates variants, where it is needed, and what must hold.
void print_variant_head(std::string& out, const ir::EntryPoint& entry, const ir::Variant& variant) {
  if (!variant.name.empty() || &variant != entry.variants.data()) out += "  variant " + quote(variant.name) + "\n";
  print_constraints(out, "  assume", variant.assumptions);
  print_constraints(out, "  guarantee", variant.guarantees);
}

void print_entry_head(std::string& out, const ir::EntryPoint& entry) {
  out += "entry " + quote(entry.name) + "\n";
  for (const ir::Symbol& symbol : entry.symbols) {
    out += "  symbol " + symbol.name + ": " + symbol.range.to_string();
    if (symbol.hint) out += " hint " + std::to_string(*symbol.hint);
    if (!symbol.source.empty()) out += " from " + quote(symbol.source);
    out += "\n";
  }
  print_signature(out, entry.signature);
}

void print_entry(std::string& out, const ir::EntryPoint& entry, const ir::Provenance& provenance) {
  out += "\n";
  print_entry_head(out, entry);
  for (const ir::Variant& variant : entry.variants) {
    print_variant_head(out, entry, variant);
    if (!variant.annotations.empty()) out += "  annotate " + print_named(variant.annotations, "{", "}") + "\n";
    out += print_graph(variant.graph, "  ", "graph", &provenance);
    for (const auto& [name, graph] : variant.subgraphs) {
      out += print_graph(graph, "  ", "subgraph @" + name, &provenance);
    }
  }
}

std::string print_digest(Storage& storage) {
  return "xxh3:" + digest_of(storage) + " " + std::to_string(storage.size());
}

// Elements from the start of the storage, in nested lists of the given sizes.
std::string print_elements(ScalarType dtype, const std::vector<int64_t>& sizes, const char* bytes) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return "[]";
  size_t position = 0;
  const auto print_axis = [&](const auto& self, size_t axis) -> std::string {
    if (axis == sizes.size()) return spell_element(dtype, bytes + size_of(dtype) * position++);
    std::vector<std::string> items;
    for (int64_t i = 0; i < sizes[axis]; ++i) items.push_back(self(self, axis + 1));
    return join(items, "[", "]");
  };
  return print_axis(print_axis, 0);
}

std::string print_bytes(Storage& storage, ScalarType dtype, const std::vector<int64_t>& sizes, bool may_inline) {
  const bool fits =
      storage.size() <= static_cast<size_t>(inline_elements) * size_of(dtype) && sizes.size() <= max_depth;
  if (!may_inline || storage.is_absent() || !fits) return print_digest(storage);
  return print_elements(dtype, sizes, static_cast<const char*>(storage.data()));
}

// Storages that several weights look at, or that one looks at through a window, have a line of their own and a number.
void print_weights(std::string& out, const std::vector<ir::Weight>& weights, bool may_inline) {
  std::map<const Storage*, int> uses, numbers;
  for (const ir::Weight& weight : weights) ++uses[weight.tensor.storage.get()];
  for (const ir::Weight& weight : weights) {
    const Tensor& tensor = weight.tensor;
    Storage& storage = *tensor.storage;
    out += "\n";
    const bool fills = weight.layout ? storage.size() == static_cast<size_t>(weight.layout->padded_bytes)
                                     : storage.size() == tensor.nbytes();
    const bool is_row_major = tensor.strides == contiguous_strides(tensor.sizes);
    const bool is_whole = fills && is_row_major && tensor.offset == 0 && uses[&storage] == 1;
    const auto [number, is_new] = numbers.try_emplace(&storage, static_cast<int>(numbers.size()));
    const size_t count = storage.size() / size_of(tensor.dtype);
    const std::vector<int64_t> flat = {static_cast<int64_t>(count)};
    const bool is_divisible = count * size_of(tensor.dtype) == storage.size();
    if (is_whole) {
      numbers.erase(number);
    } else if (is_new) {
      out += "storage " + std::to_string(number->second);
      if (is_divisible) out += std::string(": ") + name_of(tensor.dtype);
      out +=
          " = " + (is_divisible ? print_bytes(storage, tensor.dtype, flat, may_inline) : print_digest(storage)) + "\n";
    }
    ir::TensorMeta meta{tensor.dtype, {tensor.sizes.begin(), tensor.sizes.end()}};
    if (!is_row_major) meta.strides.emplace(tensor.strides.begin(), tensor.strides.end());
    meta.offset = tensor.offset;
    out += "weight " + quote(weight.name) + ": " + ir::to_string(meta);
    if (weight.layout) {
      out += " layout " + weight.layout->to_string() + " padded " + std::to_string(weight.layout->padded_bytes);
    }
    if (!is_whole) {
      out += " in storage " + std::to_string(number->second);
    } else {
      const bool is_strided = !weight.layout;
      out += " = " + (is_divisible ? print_bytes(storage, tensor.dtype, is_strided ? tensor.sizes : flat, may_inline)
                                   : print_digest(storage));
    }
  }
  if (!weights.empty()) out += "\n";
}

void print_stacks(std::string& out, const ir::Provenance& provenance) {
  for (ir::ProvenanceId id = 1; id < provenance.size(); ++id) {
    const ir::CallStack& stack = provenance.at(id);
    out += "\nstack @" + std::to_string(id);
    if (!stack.module_path.empty()) out += " module " + quote(stack.module_path);
    if (!stack.module_class.empty()) out += " class " + quote(stack.module_class);
    for (const std::string& target : stack.made_from)
      out += (&target == stack.made_from.data() ? " from " : " ") + quote(target);
    for (const ir::SharedFrame& frame : stack.frames) {
      out += "\n  at " + quote(frame->file) + ":" + std::to_string(frame->line) + " in " + quote(frame->function) +
             ": " + quote(frame->code);
    }
  }
  if (provenance.size() > 1) out += "\n";
}

void print_extra_files(std::string& out, const std::vector<ir::ExtraFile>& files, bool may_inline) {
  for (const ir::ExtraFile& file : files) {
    Storage& bytes = *file.bytes;
    const bool fits = may_inline && !bytes.is_absent() && bytes.size() <= inline_file_bytes;
    const std::string content =
        fits ? quote({static_cast<const char*>(bytes.data()), bytes.size()}) : print_digest(bytes);
    out += (&file == files.data() ? "\nextra_file " : "extra_file ") + quote(file.name) + " = " + content + "\n";
  }
}

}  // namespace

std::string digest_of(Storage& storage) {
  if (storage.digest().empty()) storage.set_digest(xxh3_128(storage.data(), storage.size()));
  return storage.digest();
}

std::string print(const ir::Argument& argument) {
  struct Printer {
    std::string operator()(const ir::None&) const { return "None"; }
    std::string operator()(const ir::SymInt& x) const { return x.to_string(); }
    std::string operator()(const ir::SymFloat& x) const { return x.constant() ? spell(*x.constant()) : x.to_string(); }
    std::string operator()(const ir::SymBool& x) const {
      return x.constant() ? (*x.constant() ? "true" : "false") : x.to_string();
    }
    std::string operator()(const std::complex<double>& x) const {
      return "complex(" + spell(x.real()) + ", " + spell(x.imag()) + ")";
    }
    std::string operator()(const std::string& x) const { return quote(x); }
    std::string operator()(ScalarType x) const { return name_of(x); }
    std::string operator()(const ir::Word& x) const { return quote(x.text, '\''); }
    std::string operator()(const ir::SubgraphRef& x) const { return "@" + x.name; }
    std::string operator()(const ir::Value* x) const { return "%" + x->name; }
    std::string operator()(const ir::ArgumentList& list) const {
      std::vector<std::string> items;
      for (const ir::Argument& item : list) items.push_back(print(item));
      return join(items, "[", "]");
    }
  };
  return std::visit(Printer{}, static_cast<const ir::Argument::variant&>(argument));
}

std::string print(const ir::Node& node) {
  std::vector<std::string> results, arguments;
  for (const auto& result : node.results()) results.push_back(print_typed(*result));
  for (const ir::Argument& argument : node.arguments()) arguments.push_back(print(argument));
  for (const ir::Named& keyword : node.keywords()) arguments.push_back(keyword.name + "=" + print(keyword.argument));
  std::string out = join(results, "", results.empty() ? "" : " = ") + node.target() + join(arguments, "(", ")");
  if (!node.annotations.empty()) out += print_named(node.annotations, " {", "}");
  return out;
}

std::string print(const ir::Graph& graph, const std::string& indent) {
  return print_graph(graph, indent, "graph", nullptr);
}

std::string print_signature(const ir::EntryPoint& entry) {
  std::string out;
  print_entry_head(out, entry);
  for (const ir::Variant& variant : entry.variants) print_variant_head(out, entry, variant);
  return out;
}

std::string print_tree(const ir::TreeSpec& tree) { return tree_text(tree); }

std::string print(const ir::ExportedProgram& program, const PrintOptions& options) {
  std::string out = "program " + std::to_string(format_major) + "." + std::to_string(format_minor) + "\n";
  for (const ir::OpsetUse& opset : program.opsets) {
    out += "opset " + quote(opset.name) + " " + std::to_string(opset.version) + "\n";
  }
  for (const std::string& block : program.custom_blocks) {
    out += "\noperators\n";
    for (size_t start = 0, stop; start <= block.size(); start = stop + 1) {
      stop = std::min(block.find('\n', start), block.size());
      out += "  | " + block.substr(start, stop - start) + "\n";
    }
  }
  for (const ir::EntryPoint& entry : program.entries) print_entry(out, entry, program.provenance);
  print_weights(out, program.weights, options.inline_tensors);
  print_stacks(out, program.provenance);
  for (const ir::CodeSegment& code : program.code) {
    out += (code.is_library ? "\nkernels " : "\ncode ") + quote(code.name) + " for " + quote(code.target) + " = " +
           print_digest(*code.bytes) + "\n";
  }
  print_extra_files(out, program.extra_files, options.inline_tensors);
  if (!program.history.empty()) out += "\n";
  for (const ir::HistoryEntry& entry : program.history) {
    out += "ran " + quote(entry.tool) + " " + quote(entry.version);
    for (const std::string& option : entry.options) out += " " + quote(option);
    out += "\n";
  }
  return out;
}

std::vector<Note> provenance_notes(const ir::ExportedProgram& program, const ir::Node& node) {
  std::vector<Note> notes;
  const ir::CallStack& stack = program.provenance.at(node.provenance);
  if (!stack.frames.empty()) {
    const ir::Frame& frame = *stack.frames.back();
    notes.push_back({"captured from " + frame.file + ":" + std::to_string(frame.line) + ": " + frame.code});
  }
  if (!stack.made_from.empty()) notes.push_back({"made from " + join(stack.made_from, "", "")});
  return notes;
}

}  // namespace atenon::text
