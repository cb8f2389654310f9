// Reads an ExportedProgram from the message. The message is untrusted: positions are checked against their tables,
// names and expressions against the rules of the text form, counts and depths against caps, before anything is built
// from them.
//
// The first problem ends the reading: fail() records it, after which every look-up gives a harmless value.
#include "program/encode.h"

#include "program/container.h"
#include "text/limits.h"

namespace atenon::program {
namespace {

class Decoder {
 public:
  Decoder(const wire::Program& message, const std::string& file_name,
          const std::function<std::shared_ptr<Storage>(const wire::Segment&)>& storage)
      : message_(message),
        file_name_(file_name),
        storage_(storage),
        scalars_(static_cast<size_t>(message.strings_size())) {}

  Result<ir::ExportedProgram> decode() {
    for (const wire::Opset& opset : message_.opsets()) {
      check(opset.version() <= 1u << 30, "a version is out of range");
      program_.opsets.push_back({string(opset.name()), static_cast<int>(opset.version())});
    }
    for (const std::string& block : message_.custom_blocks()) program_.custom_blocks.push_back(block);
    decode_stacks();
    decode_storages();
    for (const wire::Code& code : message_.code()) {
      check(code.segment() < segments(), "code is stored nowhere");
      if (failed_) break;
      for (const ir::CodeSegment& other : program_.code)
        check(other.name != code.name(), "code " + code.name() + " is there twice");
      program_.code.push_back({code.name(), code.target(),
                               storage_(message_.segments(static_cast<int>(code.segment()))), code.is_library()});
    }
    for (const wire::ExtraFile& file : message_.extra_files()) {
      check(file.segment() < segments(), "an extra file is stored nowhere");
      check(!file.name().empty() && !program_.extra_file(file.name()), "extra files need different names");
      if (failed_) break;
      program_.extra_files.push_back({file.name(), storage_(message_.segments(static_cast<int>(file.segment())))});
    }
    for (const wire::Entry& entry : message_.entries()) decode(entry);
    for (const wire::History& entry : message_.history()) {
      program_.history.push_back({entry.tool(), entry.version(), {entry.options().begin(), entry.options().end()}});
    }
    if (failed_) return *failed_;
    return std::move(program_);
  }

 private:
  void check(bool holds, const std::string& problem) {
    if (holds || failed_) return;
    failed_ = std::make_unique<Diagnostic>(damaged(234, file_name_, "this is no valid program: " + problem));
  }

  uint32_t segments() const { return static_cast<uint32_t>(message_.segments_size()); }

  const std::string& string(uint32_t position) {
    static const std::string nothing;
    const bool is_there = position < static_cast<uint32_t>(message_.strings_size());
    check(is_there, "a name lies outside of the table of names");
    return is_there ? message_.strings(static_cast<int>(position)) : nothing;
  }

  const std::string& name(uint32_t position, bool (*is_allowed)(std::string_view), const char* what) {
    const std::string& text = string(position);
    check(is_allowed(text), "'" + text.substr(0, 40) + "' cannot be the name of " + what);
    return text;
  }

  // Expressions repeat: each spelling is parsed once.
  const shape::Scalar& expression(uint32_t position) {
    static const shape::Scalar zero;
    const std::string& text = string(position);
    check(text.size() <= text::max_expression, "an expression is too long");
    if (failed_) return zero;
    std::optional<shape::Scalar>& scalar = scalars_[position];
    if (!scalar) {
      Result<shape::Scalar> parsed = shape::parse_scalar(text);
      check(static_cast<bool>(parsed), "'" + text.substr(0, 40) + "' is no expression");
      if (!parsed) return zero;
      scalar = std::move(*parsed);
    }
    return *scalar;
  }

  template <class Wanted>
  Wanted expression_as(uint32_t position) {
    const shape::Scalar& scalar = expression(position);
    const Wanted* wanted = std::get_if<Wanted>(&scalar);
    check(wanted, "an expression has another type than its use");
    return wanted ? *wanted : Wanted();
  }

  ScalarType dtype(uint32_t number) {
    check(number < std::size(all_scalar_types), "an element type is unknown");
    return failed_ ? ScalarType::f32 : all_scalar_types[number];
  }

  ir::ProvenanceId provenance(uint32_t number) {
    check(number < program_.provenance.size(), "a call stack is missing");
    return number;
  }

  void decode_stacks() {
    std::vector<ir::SharedFrame> frames;
    for (const wire::Frame& frame : message_.frames()) {
      check(frame.line() <= 1u << 30, "a line number is out of range");
      frames.push_back(std::make_shared<ir::Frame>(ir::Frame{string(frame.file()), static_cast<int>(frame.line()),
                                                             string(frame.function()), string(frame.code())}));
    }
    for (const wire::CallStack& stack : message_.stacks()) {
      ir::CallStack to;
      for (const uint32_t position : stack.frames()) {
        check(position < frames.size(), "a frame of a call stack is missing");
        if (failed_) return;
        to.frames.push_back(frames[position]);
      }
      to.module_path = string(stack.module_path());
      to.module_class = string(stack.module_class());
      for (const uint32_t target : stack.made_from()) to.made_from.push_back(string(target));
      const size_t before = program_.provenance.size();
      program_.provenance.intern(std::move(to));
      check(program_.provenance.size() > before, "a call stack is there twice");
    }
  }

  void decode_storages() {
    std::vector<std::shared_ptr<Storage>> storages;
    for (const uint32_t segment : message_.storages()) {
      check(segment < segments(), "a weight is stored nowhere");
      if (failed_) return;
      storages.push_back(storage_(message_.segments(static_cast<int>(segment))));
    }
    std::set<std::string> names;
    for (const wire::Weight& weight : message_.weights()) {
      check(weight.storage() < storages.size(), "a weight has no storage");
      check(names.insert(weight.name()).second, "weight " + weight.name() + " is there twice");
      if (failed_) return;
      ir::Weight to{weight.name(), Tensor{dtype(weight.dtype()), {}, {}, 0, storages[weight.storage()]}};
      for (const uint64_t size : weight.sizes()) to.tensor.sizes.push_back(number(size));
      for (const uint64_t stride : weight.strides()) to.tensor.strides.push_back(number(stride));
      if (weight.strides_size() == 0) to.tensor.strides = checked_strides(to.tensor);
      to.tensor.offset = number(weight.offset());
      if (weight.has_layout()) to.layout = layout(weight.layout());
      if (failed_) return;
      const std::optional<std::string> problem = text::weight_problem(to);
      check(!problem, "weight " + to.name + ": " + problem.value_or(""));
      program_.weights.push_back(std::move(to));
    }
  }

  // Row-major strides, once their product cannot overflow.
  std::vector<int64_t> checked_strides(const Tensor& tensor) {
    int64_t count = 1;
    for (const int64_t size : tensor.sizes) {
      check(!__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) && count <= text::max_bytes,
            "a weight is too large");
    }
    return failed_ ? std::vector<int64_t>{} : contiguous_strides(tensor.sizes);
  }

  int64_t number(uint64_t value) {
    check(value <= static_cast<uint64_t>(text::max_bytes), "a size is out of range");
    return failed_ ? 0 : static_cast<int64_t>(value);
  }

  ir::BlockedLayout layout(const wire::Layout& from) {
    ir::BlockedLayout to;
    for (const uint64_t stride : from.strides()) to.strides.push_back(number(stride));
    check(from.block_axes_size() == from.block_sizes_size(), "a layout has blocks without axis");
    for (int i = 0; i < from.block_axes_size() && !failed_; ++i) {
      check(from.block_axes(i) < text::max_rank, "a layout has a block of no axis");
      to.inner_blocks.emplace_back(static_cast<int>(from.block_axes(i)), number(from.block_sizes(i)));
    }
    to.padded_bytes = number(from.padded_bytes());
    return to;
  }

  void decode(const wire::Entry& from) {
    ir::EntryPoint to;
    to.name = from.name();
    check(!to.name.empty() && !program_.entry(to.name), "entry points need different names");
    for (const wire::Symbol& symbol : from.symbols()) {
      ir::Symbol out{name(symbol.name(), text::is_symbol_name, "a symbol"), {symbol.lower(), symbol.upper()}};
      check(out.range.lower <= out.range.upper && !to.symbol(out.name),
            "symbol " + out.name + " is there twice or has an empty range");
      if (symbol.has_hint()) out.hint = symbol.hint();
      out.source = string(symbol.source());
      to.symbols.push_back(std::move(out));
    }
    ir::GraphSignature& signature = to.signature;
    for (const wire::InputSpec& spec : from.inputs()) {
      check(spec.kind() <= static_cast<uint32_t>(ir::InputKind::token), "a kind of input is unknown");
      if (failed_) return;
      ir::InputSpec out{static_cast<ir::InputKind>(spec.kind()), string(spec.value()), string(spec.target()),
                        !spec.transient()};
      check(out.value.empty() || (text::is_name(out.value) && !signature.input(out.value)),
            "an input has no name of its own");
      if (spec.has_constant()) out.constant = argument(spec.constant(), nullptr, 0);
      signature.inputs.push_back(std::move(out));
    }
    for (const wire::OutputSpec& spec : from.outputs()) {
      check(spec.kind() <= static_cast<uint32_t>(ir::OutputKind::parameter_mutation), "a kind of output is unknown");
      if (failed_) return;
      signature.outputs.push_back({static_cast<ir::OutputKind>(spec.kind()), string(spec.target())});
    }
    signature.input_tree = tree(from.input_tree(), 0);
    signature.output_tree = tree(from.output_tree(), 0);
    for (const wire::Variant& variant : from.variants()) {
      for (const ir::Variant& other : to.variants)
        check(other.name != variant.name(), "two variants have the same name");
      to.variants.push_back(decode(variant));
      if (failed_) return;
    }
    program_.entries.push_back(std::move(to));
  }

  ir::TreeSpec tree(const wire::Tree& from, int depth) {
    using Kind = ir::TreeSpec::Kind;
    ir::TreeSpec to;
    check(from.kind() <= static_cast<uint32_t>(Kind::custom), "a kind of container is unknown");
    check(depth <= text::max_depth, "containers are nested too deeply");
    if (failed_) return to;
    to.kind = static_cast<Kind>(from.kind());
    to.type = string(from.type());
    const bool has_type = to.kind == Kind::named_tuple || to.kind == Kind::custom;
    check(has_type || to.type.empty(), "a plain container names a class");
    check(!to.is_leaf() || from.children_size() == 0, "a leaf of a pytree has members");
    check(from.keys_size() == 0 || from.keys_size() == from.children_size(), "some members of a container have no key");
    for (const uint32_t key : from.keys()) to.keys.push_back(string(key));
    for (const wire::Tree& child : from.children()) to.children.push_back(tree(child, depth + 1));
    return to;
  }

  ir::Variant decode(const wire::Variant& from) {
    ir::Variant to;
    to.name = from.name();
    for (const wire::Constraint& each : from.assumptions()) to.assumptions.push_back(constraint(each));
    for (const wire::Constraint& each : from.guarantees()) to.guarantees.push_back(constraint(each));
    to.graph = graph(from.graph());
    for (const wire::Subgraph& each : from.subgraphs()) {
      const std::string& subgraph = name(each.name(), text::is_name, "a subgraph");
      check(!to.subgraphs.contains(subgraph), "subgraph " + subgraph + " is there twice");
      if (failed_) break;
      ir::Graph& body = to.subgraphs[subgraph] = graph(each.graph());
      for (const wire::Constraint& assumption : each.assumptions()) body.assumptions.push_back(constraint(assumption));
    }
    to.annotations = annotations(from.annotations());
    return to;
  }

  ir::Constraint constraint(const wire::Constraint& from) {
    const ir::Argument truth = argument(from.truth(), nullptr, 0);
    check(truth.is<ir::SymBool>(), "a constraint is no truth");
    return {failed_ ? ir::SymBool() : truth.get<ir::SymBool>(), provenance(from.provenance()), from.reason()};
  }

  using Values = std::vector<ir::Value*>;

  ir::Graph graph(const wire::Graph& from) {
    ir::Graph to;
    Values values;
    for (const wire::Value& input : from.inputs()) {
      ir::Graph::Result declared = value(input, to);
      if (failed_) return to;
      values.push_back(to.add_input(std::move(declared.name), std::move(declared.type)));
    }
    for (const wire::Node& node : from.nodes()) {
      const std::string& target = name(node.target(), text::is_target, "an operator");
      std::vector<ir::Argument> arguments;
      for (const wire::Argument& each : node.arguments()) arguments.push_back(argument(each, &values, 0));
      std::vector<ir::Named> keywords = named(node.keywords(), &values);
      if (failed_) return to;
      ir::Node* added = to.add(target, std::move(arguments), std::move(keywords), {});
      for (const wire::Value& result : node.results()) {
        ir::Graph::Result declared = value(result, to);
        if (failed_) return to;
        values.push_back(to.add_result(*added, std::move(declared)));
      }
      added->annotations = annotations(node.annotations());
      added->provenance = provenance(node.provenance());
    }
    std::vector<ir::Argument> outputs;
    for (const wire::Argument& output : from.outputs()) outputs.push_back(argument(output, &values, 0));
    to.set_outputs(std::move(outputs));
    return to;
  }

  ir::Graph::Result value(const wire::Value& from, const ir::Graph& graph) {
    ir::Graph::Result to;
    to.name = name(from.name(), text::is_name, "a value");
    check(!graph.find(to.name), "value %" + to.name + " is defined twice");
    check(from.type() > 0, "a value has no type");
    if (from.type() < 4) {
      to.type = static_cast<ir::ScalarKind>(failed_ ? 0 : from.type() - 1);
      return to;
    }
    ir::TensorMeta meta{dtype(from.type() - 4), {}};
    check(static_cast<size_t>(from.sizes_size()) <= text::max_rank, "a tensor has too many dimensions");
    check(from.strides_size() == (from.strided() ? from.sizes_size() : 0), "a tensor has not as many strides as sizes");
    for (const uint64_t code : from.sizes()) meta.sizes.push_back(size(code));
    if (from.strided()) {
      meta.strides.emplace();
      for (const uint64_t code : from.strides()) meta.strides->push_back(size(code));
    }
    meta.offset = size(from.offset());
    to.type = std::move(meta);
    return to;
  }

  ir::SymInt size(uint64_t code) {
    if (code % 2 == 0) return static_cast<int64_t>(code / 2);
    check(code / 2 < static_cast<uint64_t>(message_.strings_size()), "an expression is missing");
    return failed_ ? ir::SymInt() : expression_as<ir::SymInt>(static_cast<uint32_t>(code / 2));
  }

  template <class Repeated>
  std::vector<ir::Named> named(const Repeated& from, const Values* values) {
    std::vector<ir::Named> to;
    for (const wire::Named& each : from) {
      const std::string& word = name(each.name(), text::is_word, "an argument");
      check(!ir::find(to, word), "argument " + word + " is there twice");
      to.push_back({word, argument(each.argument(), values, 0)});
    }
    return to;
  }

  // Annotations say things about a node; they do not use values.
  template <class Repeated>
  std::vector<ir::Named> annotations(const Repeated& from) {
    return named(from, nullptr);
  }

  ir::Argument argument(const wire::Argument& from, const Values* values, int depth) {
    check(depth <= text::max_depth, "lists are nested too deeply");
    if (failed_) return ir::None{};
    switch (from.kind_case()) {
      case wire::Argument::kNone:
        return ir::None{};
      case wire::Argument::kInteger:
        return int64_t{from.integer()};
      case wire::Argument::kFloating:
        return from.floating();
      case wire::Argument::kBoolean:
        return from.boolean();
      case wire::Argument::kIntExpression:
        return expression_as<ir::SymInt>(from.int_expression());
      case wire::Argument::kFloatExpression:
        return expression_as<ir::SymFloat>(from.float_expression());
      case wire::Argument::kBoolExpression:
        return expression_as<ir::SymBool>(from.bool_expression());
      case wire::Argument::kComplex:
        return std::complex<double>(from.complex().real(), from.complex().imaginary());
      case wire::Argument::kText:
        return string(from.text());
      case wire::Argument::kDtype:
        return dtype(from.dtype());
      case wire::Argument::kWord:
        return ir::Word{string(from.word())};
      case wire::Argument::kSubgraph:
        return ir::SubgraphRef{name(from.subgraph(), text::is_name, "a subgraph")};
      case wire::Argument::kValue: {
        const bool is_there = values && from.value() < values->size();
        check(is_there, "a node uses a value that is not defined before it");
        if (is_there) return (*values)[from.value()];
        return ir::None{};
      }
      case wire::Argument::kList: {
        ir::ArgumentList items;
        for (const wire::Argument& item : from.list().items()) items.push_back(argument(item, values, depth + 1));
        return items;
      }
      case wire::Argument::KIND_NOT_SET:
        break;
    }
    check(false, "it has a kind of argument that this version does not know");
    return ir::None{};
  }

  const wire::Program& message_;
  const std::string& file_name_;
  const std::function<std::shared_ptr<Storage>(const wire::Segment&)>& storage_;
  ir::ExportedProgram program_;
  std::vector<std::optional<shape::Scalar>> scalars_;  // by position in the table of strings
  std::unique_ptr<Diagnostic> failed_;
};

}  // namespace

Result<ir::ExportedProgram> decode(const wire::Program& message, const std::string& file_name,
                                   const std::function<std::shared_ptr<Storage>(const wire::Segment&)>& storage) {
  return Decoder(message, file_name, storage).decode();
}

}  // namespace atenon::program
