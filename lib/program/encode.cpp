// Writes an ExportedProgram into the message. Tables are filled in the order of first use, so equal programs give equal
// bytes.
#include "program/encode.h"

#include <cassert>
#include <unordered_map>

#include "program/container.h"
#include "text/text.h"

namespace atenon::program {
namespace {

class Encoder {
 public:
  explicit Encoder(const ir::ExportedProgram& program) : program_(program) { string(""); }

  Encoded encode() {
    for (const ir::OpsetUse& opset : program_.opsets) {
      wire::Opset& to = *out_.add_opsets();
      to.set_name(string(opset.name));
      to.set_version(static_cast<uint32_t>(opset.version));
    }
    for (const std::string& block : program_.custom_blocks) out_.add_custom_blocks(block);
    for (ir::ProvenanceId id = 1; id < program_.provenance.size(); ++id)
      encode(program_.provenance.at(id), *out_.add_stacks());
    for (const ir::Weight& weight : program_.weights) encode(weight, *out_.add_weights());
    for (const ir::CodeSegment& code : program_.code) {
      wire::Code& to = *out_.add_code();
      to.set_name(code.name);
      to.set_target(code.target);
      to.set_segment(segment(code.bytes));
      to.set_is_library(code.is_library);
    }
    for (const ir::ExtraFile& file : program_.extra_files) {
      wire::ExtraFile& to = *out_.add_extra_files();
      to.set_name(file.name);
      to.set_segment(segment(file.bytes));
    }
    for (const ir::EntryPoint& entry : program_.entries) encode(entry, *out_.add_entries());
    for (const ir::HistoryEntry& entry : program_.history) {
      wire::History& to = *out_.add_history();
      to.set_tool(entry.tool);
      to.set_version(entry.version);
      for (const std::string& option : entry.options) to.add_options(option);
    }
    return {std::move(out_), std::move(segments_)};
  }

 private:
  // Tables
  uint32_t string(const std::string& text) {
    const auto [found, is_new] = strings_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
    if (is_new) out_.add_strings(text);
    return found->second;
  }

  uint32_t frame(const ir::Frame& frame) {
    // One after the other: the order in which arguments of a call are evaluated differs between compilers.
    const uint32_t code = string(frame.code);
    const uint32_t function = string(frame.function);
    const uint32_t file = string(frame.file);
    const auto [found, is_new] =
        frames_.try_emplace(std::tuple(file, frame.line, function, code), static_cast<uint32_t>(frames_.size()));
    if (is_new) {
      wire::Frame& to = *out_.add_frames();
      to.set_file(file);
      to.set_line(static_cast<uint32_t>(frame.line));
      to.set_function(function);
      to.set_code(code);
    }
    return found->second;
  }

  // Equal content is stored once.
  uint32_t segment(const std::shared_ptr<Storage>& storage) {
    const std::string digest = text::digest_of(*storage);
    const auto [found, is_new] =
        segment_index_.try_emplace(std::pair(digest, storage->size()), static_cast<uint32_t>(segments_.size()));
    if (is_new) {
      wire::Segment& to = *out_.add_segments();
      to.set_digest(digest_bytes(digest));
      to.set_size(storage->size());
      segments_.push_back(storage);
    } else if (segments_[found->second]->is_absent()) {
      segments_[found->second] = storage;  // bytes are better than none
    }
    return found->second;
  }

  uint32_t storage(const std::shared_ptr<Storage>& storage) {
    const auto [found, is_new] = storages_.try_emplace(storage.get(), static_cast<uint32_t>(storages_.size()));
    if (is_new) out_.add_storages(segment(storage));
    return found->second;
  }

  // Parts
  void encode(const ir::CallStack& stack, wire::CallStack& to) {
    for (const ir::SharedFrame& each : stack.frames) to.add_frames(frame(*each));
    to.set_module_path(string(stack.module_path));
    to.set_module_class(string(stack.module_class));
    for (const std::string& target : stack.made_from) to.add_made_from(string(target));
  }

  void encode(const ir::Weight& weight, wire::Weight& to) {
    const Tensor& tensor = weight.tensor;
    to.set_name(weight.name);
    to.set_dtype(static_cast<uint32_t>(tensor.dtype));
    for (const int64_t size : tensor.sizes) to.add_sizes(static_cast<uint64_t>(size));
    if (tensor.strides != contiguous_strides(tensor.sizes)) {
      for (const int64_t stride : tensor.strides) to.add_strides(static_cast<uint64_t>(stride));
    }
    to.set_offset(static_cast<uint64_t>(tensor.offset));
    to.set_storage(storage(tensor.storage));
    if (!weight.layout) return;
    wire::Layout& layout = *to.mutable_layout();
    for (const int64_t stride : weight.layout->strides) layout.add_strides(static_cast<uint64_t>(stride));
    for (const auto& [axis, size] : weight.layout->inner_blocks) {
      layout.add_block_axes(static_cast<uint32_t>(axis));
      layout.add_block_sizes(static_cast<uint64_t>(size));
    }
    layout.set_padded_bytes(static_cast<uint64_t>(weight.layout->padded_bytes));
  }

  void encode(const ir::EntryPoint& entry, wire::Entry& to) {
    to.set_name(entry.name);
    for (const ir::Symbol& symbol : entry.symbols) {
      wire::Symbol& out = *to.add_symbols();
      out.set_name(string(symbol.name));
      out.set_lower(symbol.range.lower);
      out.set_upper(symbol.range.upper);
      if (symbol.hint) out.set_hint(*symbol.hint);
      out.set_source(string(symbol.source));
    }
    for (const ir::InputSpec& spec : entry.signature.inputs) {
      wire::InputSpec& out = *to.add_inputs();
      out.set_kind(static_cast<uint32_t>(spec.kind));
      out.set_value(string(spec.value));
      out.set_target(string(spec.target));
      out.set_transient(!spec.persistent);
      if (spec.constant) encode(*spec.constant, *out.mutable_constant());
    }
    for (const ir::OutputSpec& spec : entry.signature.outputs) {
      wire::OutputSpec& out = *to.add_outputs();
      out.set_kind(static_cast<uint32_t>(spec.kind));
      out.set_target(string(spec.target));
    }
    encode(entry.signature.input_tree, *to.mutable_input_tree());
    encode(entry.signature.output_tree, *to.mutable_output_tree());
    for (const ir::Variant& variant : entry.variants) encode(variant, *to.add_variants());
  }

  void encode(const ir::TreeSpec& tree, wire::Tree& to) {
    to.set_kind(static_cast<uint32_t>(tree.kind));
    to.set_type(string(tree.type));
    for (const std::string& key : tree.keys) to.add_keys(string(key));
    for (const ir::TreeSpec& child : tree.children) encode(child, *to.add_children());
  }

  void encode(const ir::Variant& variant, wire::Variant& to) {
    to.set_name(variant.name);
    for (const ir::Constraint& constraint : variant.assumptions) encode(constraint, *to.add_assumptions());
    for (const ir::Constraint& constraint : variant.guarantees) encode(constraint, *to.add_guarantees());
    encode(variant.graph, *to.mutable_graph());
    for (const auto& [name, graph] : variant.subgraphs) {
      wire::Subgraph& out = *to.add_subgraphs();
      out.set_name(string(name));
      encode(graph, *out.mutable_graph());
      for (const ir::Constraint& constraint : graph.assumptions) encode(constraint, *out.add_assumptions());
    }
    for (const ir::Named& annotation : variant.annotations) encode(annotation, *to.add_annotations());
  }

  void encode(const ir::Constraint& constraint, wire::Constraint& to) {
    encode(ir::Argument(constraint.truth), *to.mutable_truth());
    to.set_provenance(constraint.provenance);
    to.set_reason(constraint.reason);
  }

  void encode(const ir::Graph& graph, wire::Graph& to) {
    values_.clear();
    for (const auto& input : graph.inputs()) encode(*input, *to.add_inputs());
    for (const ir::Node& node : graph.forward()) {
      wire::Node& out = *to.add_nodes();
      out.set_target(string(node.target()));
      for (const ir::Argument& argument : node.arguments()) encode(argument, *out.add_arguments());
      for (const ir::Named& keyword : node.keywords()) encode(keyword, *out.add_keywords());
      for (const auto& result : node.results()) encode(*result, *out.add_results());
      for (const ir::Named& annotation : node.annotations) encode(annotation, *out.add_annotations());
      out.set_provenance(node.provenance);
    }
    for (const ir::Argument& output : graph.outputs()) encode(output, *to.add_outputs());
  }

  void encode(const ir::Value& value, wire::Value& to) {
    values_.try_emplace(&value, static_cast<uint32_t>(values_.size()));
    to.set_name(string(value.name));
    if (!value.is_tensor()) {
      to.set_type(1 + static_cast<uint32_t>(std::get<ir::ScalarKind>(value.type)));
      return;
    }
    const ir::TensorMeta& meta = value.meta();
    to.set_type(4 + static_cast<uint32_t>(meta.dtype));
    for (const ir::SymInt& size : meta.sizes) to.add_sizes(size_code(size));
    to.set_strided(meta.strides.has_value());
    if (meta.strides) {
      for (const ir::SymInt& stride : *meta.strides) to.add_strides(size_code(stride));
    }
    to.set_offset(size_code(meta.offset));
  }

  uint64_t size_code(const ir::SymInt& size) {
    const std::optional<int64_t> number = size.constant();
    if (number && *number >= 0 && *number < int64_t{1} << 62) return static_cast<uint64_t>(*number) * 2;
    return uint64_t{string(size.to_string())} * 2 + 1;
  }

  void encode(const ir::Named& named, wire::Named& to) {
    to.set_name(string(named.name));
    encode(named.argument, *to.mutable_argument());
  }

  void encode(const ir::Argument& argument, wire::Argument& to) {
    struct Visitor {
      Encoder& encoder;
      wire::Argument& to;
      void operator()(const ir::None&) { to.set_none(true); }
      void operator()(const ir::SymInt& x) {
        if (x.constant()) {
          to.set_integer(*x.constant());
        } else {
          to.set_int_expression(encoder.string(x.to_string()));
        }
      }
      void operator()(const ir::SymFloat& x) {
        if (x.constant()) {
          to.set_floating(*x.constant());
        } else {
          to.set_float_expression(encoder.string(x.to_string()));
        }
      }
      void operator()(const ir::SymBool& x) {
        if (x.constant()) {
          to.set_boolean(*x.constant());
        } else {
          to.set_bool_expression(encoder.string(x.to_string()));
        }
      }
      void operator()(const std::complex<double>& x) {
        to.mutable_complex()->set_real(x.real());
        to.mutable_complex()->set_imaginary(x.imag());
      }
      void operator()(const std::string& x) { to.set_text(encoder.string(x)); }
      void operator()(ScalarType x) { to.set_dtype(static_cast<uint32_t>(x)); }
      void operator()(const ir::Word& x) { to.set_word(encoder.string(x.text)); }
      void operator()(const ir::SubgraphRef& x) { to.set_subgraph(encoder.string(x.name)); }
      void operator()(const ir::Value* x) {
        assert(encoder.values_.contains(x));  // graphs are in topological order
        to.set_value(encoder.values_.at(x));
      }
      void operator()(const ir::ArgumentList& list) {
        to.mutable_list();
        for (const ir::Argument& item : list) encoder.encode(item, *to.mutable_list()->add_items());
      }
    };
    std::visit(Visitor{*this, to}, static_cast<const ir::Argument::variant&>(argument));
  }

  const ir::ExportedProgram& program_;
  wire::Program out_;
  std::vector<std::shared_ptr<Storage>> segments_;
  std::unordered_map<std::string, uint32_t> strings_;
  std::map<std::tuple<uint32_t, int, uint32_t, uint32_t>, uint32_t> frames_;
  std::map<std::pair<std::string, size_t>, uint32_t> segment_index_;
  std::unordered_map<const Storage*, uint32_t> storages_;
  std::unordered_map<const ir::Value*, uint32_t> values_;  // of the graph at hand
};

}  // namespace

Encoded encode(const ir::ExportedProgram& program) { return Encoder(program).encode(); }

}  // namespace atenon::program
