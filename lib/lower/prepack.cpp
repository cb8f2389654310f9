// Weights in the layouts that kernels want, packed once and named by their layout.
#include <algorithm>
#include <bit>

#include "ir/call_body.h"
#include "ir/control_flow.h"
#include "ir/written_state.h"
#include "kernels/body.h"
#include "lower/lowering.h"
#include "program/program_file.h"
#include "support/parallel.h"
#include "text/text.h"

namespace atenon::lower {

namespace {

using ir::Value;

std::vector<int64_t> typical_all(const Lowering& lowering, const std::vector<SymInt>& sizes) {
  std::vector<int64_t> values;
  for (const SymInt& size : sizes) values.push_back(lowering.typical(size));
  return values;
}

Layout layout_of(const Value& value) {
  return value.producer ? layout_of_result(*value.producer, value.index) : row_major(value.meta().sizes);
}

kernels::Operand operand_of(const Lowering& lowering, const Value& value) {
  const Layout layout = layout_of(value);
  return {value.meta().dtype, typical_all(lowering, value.meta().sizes), typical_all(lowering, layout.strides)};
}

const ir::InputSpec* spec_of(const Lowering& lowering, const Value& value) {
  if (value.producer) return nullptr;
  if (lowering.body) {
    const Value* outside = lowering.handed(value);
    return outside ? spec_of(*lowering.around, *outside) : nullptr;
  }
  for (const ir::InputSpec& spec : lowering.entry.signature.inputs)
    if (spec.kind != ir::InputKind::user_input && spec.value == value.name) return &spec;
  return nullptr;
}

const ir::Weight* weight_of(const Lowering& lowering, const Value& value) {
  const ir::InputSpec* spec = spec_of(lowering, value);
  return spec ? lowering.program.weight(spec->target) : nullptr;
}

// Whether the type holds every element exactly.
bool is_exact_in(const Tensor& tensor, ScalarType half) {
  if (tensor.dtype != ScalarType::f32 || tensor.storage->is_absent()) return false;
  const Tensor rows = tensor.contiguous();
  const float* const elements = rows.as<float>();
  return std::all_of(elements, elements + rows.numel(), [half](float x) {
    const float back =
        half == ScalarType::bf16 ? bfloat16_to_float(float_to_bfloat16(x)) : half_to_float(float_to_half(x));
    return std::bit_cast<uint32_t>(back) == std::bit_cast<uint32_t>(x);
  });
}

struct Packing {
  ir::BlockedLayout layout;
  ScalarType dtype;
};

// How the kernel wants a weight: in 16 bits where that `may_narrow`, the kernel reads them, and they lose nothing.
// Nullopt: as it is.
std::optional<Packing> packing_of(const kernels::Kernel& kernel, const kernels::CallSite& site, size_t operand,
                                  bool may_narrow) {
  const Tensor& tensor = site.operands[operand].weight->tensor;
  if (may_narrow)
    if (const std::optional<ir::BlockedLayout> layout = kernel.half_layout(site, operand))
      for (ScalarType half : {ScalarType::bf16, ScalarType::f16})
        if (is_exact_in(tensor, half)) return Packing{*layout, half};
  const std::optional<ir::BlockedLayout> layout = kernel.weight_layout(site, operand);
  return layout ? std::optional(Packing{*layout, tensor.dtype}) : std::nullopt;
}

// The kernel that says how a call's weights are to lie; null where they are read in rows.
const kernels::Kernel* packing_kernel(const ir::Node& call) {
  const std::string name = kernels::kernel_of(call);
  return name == "llvm" || name == "reference" ? nullptr : kernels::find(name);
}

// Of elements that lie apart, fetching one costs as much as packing so many.
constexpr double cost_of_lookup = 8;

// Whether the call, as an embedding does, reads so few elements of a weight that it may as well look for them in
// blocks.
bool looks_up(const Lowering& lowering, const ir::Node& call, size_t operand) {
  const ir::Argument* key = call.annotation("code_key");
  if (!key) return false;
  const Loops& loops = lowering.library.kernels.at(key->get<std::string>()).loops;
  double elements = 0;
  for (const Expr& expr : loops.exprs) {
    if (expr.op != ScalarOp::read || expr.buffer != static_cast<int>(operand)) continue;
    double places = 1;
    const LoopSet varying = loops.loops_of(expr.index);
    for (size_t loop = 0; loop < loops.loops.size(); ++loop)
      if (varying & bit(static_cast<int>(loop)))
        places *= static_cast<double>(lowering.typical(loops.loops[loop].extent));
    elements += places;
  }
  return elements * cost_of_lookup <= static_cast<double>(lowering.typical(call.operands()[operand]->meta().numel()));
}

// A weight and the name of the one that was made from it.
using PackedWeights = std::vector<std::pair<const ir::Weight*, std::string>>;

// Lets a call of generated code read what was packed for others where they packed it.
void read_packed(Lowering& lowering, ir::Node& call, const PackedWeights& packed) {
  const std::vector<Value*> operands = call.operands();
  std::vector<Layout> layouts;
  for (const Value* operand : operands) layouts.push_back(layout_of(*operand));
  for (const auto& result : call.results()) layouts.push_back(layout_of(*result));
  std::map<Value*, Value*> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::Weight* weight = weight_of(lowering, *operands[i]);
    if (!weight || !looks_up(lowering, call, i)) continue;
    const auto found = std::find_if(packed.begin(), packed.end(), [&](const auto& entry) {
      const Tensor &rows = weight->tensor, &other = entry.first->tensor;
      return rows.storage == other.storage && rows.offset == other.offset && rows.sizes == other.sizes &&
             rows.strides == other.strides;
    });
    if (found == packed.end()) continue;
    const ir::Weight& made = *lowering.program.weight(found->second);
    layouts[i] = packed_layout(made);
    inputs[operands[i]] = input_made_from(lowering, *operands[i], made, "_packed");
  }
  if (inputs.empty()) return;
  const Result<std::string> key = generated_kernel(lowering, ir::body_of(call, lowering.variant)->clone(), layouts);
  if (!key) return;  // it goes on reading the rows
  call.annotate("code_key", *key);
  for (const auto& [rows, input] : inputs) call.replace_operand(rows, input);
}

}  // namespace

kernels::CallSite site_of(const Lowering& lowering, const ir::Node& call) {
  const ir::Graph& body = *ir::body_of(call, lowering.variant);
  kernels::CallSite site{
      .body = &body, .annotations = &call.annotations, .symbols = lowering.hints, .threads = threads()};
  for (const Value* operand : call.operands()) {
    site.operands.push_back(operand_of(lowering, *operand));
    site.operands.back().weight = weight_of(lowering, *operand);
  }
  for (const auto& result : call.results()) site.results.push_back(operand_of(lowering, *result));
  return site;
}

const ir::Weight* constant_weight(const Lowering& lowering, const Value& value) {
  const ir::InputSpec* spec = spec_of(lowering, value);
  return spec && !ir::is_written(lowering.program, spec->target) ? lowering.program.weight(spec->target) : nullptr;
}

// One more operand of the node that runs a body; the body's input.
static Value* hand(Lowering& lowering, Value* outside) {
  ir::ControlFlow flow = *ir::control_flow(*lowering.runner);
  const auto known = std::find(flow.operands.begin(), flow.operands.end(), ir::Argument(outside));
  const auto i = static_cast<size_t>(known - flow.operands.begin());
  if (known == flow.operands.end()) {
    flow.operands.push_back(outside);
    for (const std::string& name : flow.bodies) {
      ir::Graph& body = lowering.variant.subgraphs.at(name);
      body.add_input(body.unique_name(outside->name), outside->type);
    }
    ir::set_operands(*lowering.runner, flow.operands);
  }
  return ir::input_of_operand(flow, lowering.graph(), i);
}

Value* input_made_from(Lowering& lowering, const Value& from, const ir::Weight& made, const std::string& suffix) {
  if (lowering.body) return hand(lowering, input_made_from(*lowering.around, *lowering.handed(from), made, suffix));
  std::vector<ir::InputSpec>& inputs = lowering.entry.signature.inputs;
  const ir::InputSpec spec = *spec_of(lowering, from);
  for (const ir::InputSpec& other : inputs)
    if (other.kind != ir::InputKind::user_input && other.target == made.name) return lowering.graph().find(other.value);
  // Signatures are per entry point: every variant gets the input.
  std::vector<ir::Variant>& variants = lowering.entry.variants;
  std::string name = from.name + suffix;
  while (std::any_of(variants.begin(), variants.end(), [&](ir::Variant& v) { return v.graph.find(name); })) name += "_";
  const ir::TensorMeta meta{made.dtype(), {made.tensor.sizes.begin(), made.tensor.sizes.end()}};
  for (ir::Variant& variant : variants) variant.graph.add_input(name, meta);
  inputs.push_back({spec.kind, name, made.name, spec.persistent});
  return lowering.graph().find(name);
}

bool fits_caches(const Lowering& lowering) {
  constexpr size_t cached_weights = size_t{32} << 20;
  std::map<const Storage*, size_t> bytes;  // tied weights count once
  for (const ir::InputSpec& spec : lowering.entry.signature.inputs) {
    if (!ir::is_state(spec.kind) || !lowering.variant.graph.find(spec.value)->has_users()) continue;
    const ir::Weight* weight = lowering.program.weight(spec.target);
    if (!weight->layout) bytes.emplace(weight->tensor.storage.get(), weight->tensor.storage->size());
  }
  size_t all = 0;
  for (const auto& [storage, size] : bytes) all += size;
  return all < cached_weights;
}

Result<void> prepack_weights(Lowering& lowering) {
  const std::set<std::string> written = ir::written_state(lowering.program);  // is not packed
  // Calls hold pointers to weights while packed ones are added: room for all of them is made first.
  size_t most = lowering.program.weights.size();
  for (ir::Node& call : lowering.graph().forward()) most += call.operands().size();
  lowering.program.weights.reserve(most);

  // What somebody reads in rows: all of it, or by its meaning.
  std::set<const Storage*> in_rows;
  for (const ir::Node& call : lowering.graph().forward()) {
    if (packing_kernel(call)) continue;
    const std::vector<Value*> operands = call.operands();
    for (size_t i = 0; i < operands.size(); ++i)
      if (const ir::Weight* weight = weight_of(lowering, *operands[i]); weight && !looks_up(lowering, call, i))
        in_rows.insert(weight->tensor.storage.get());
  }

  PackedWeights packed_weights;
  for (ir::Node& call : lowering.graph().forward()) {
    const kernels::Kernel* kernel = packing_kernel(call);
    if (!kernel) continue;
    const kernels::CallSite site = site_of(lowering, call);
    const std::vector<Value*> operands = call.operands();
    for (size_t i = 0; i < operands.size(); ++i) {
      const ir::Weight* weight = site.operands[i].weight;
      if (!weight || weight->layout || written.count(weight->name)) continue;
      const std::optional<Packing> packing = packing_of(*kernel, site, i, lowering.may_narrow);
      if (!packing) continue;
      const bool is_narrowed = packing->dtype != weight->tensor.dtype;
      // A copy in 16 bits is read in half the time; of the rows, a run touches few.
      if (!is_narrowed && kernel->takes_rows() && in_rows.count(weight->tensor.storage.get())) continue;
      if (weight->tensor.storage->is_absent())
        return error(Status::usage, 504,
                     "the bytes of weight '" + weight->name + "' are absent, so it cannot be packed")
            .note("give them with --segments FILE, or leave packing to the run with --no-prepack");
      const std::string packed_name =
          weight->name + "::" + (is_narrowed ? name_of(packing->dtype) : "") + packing->layout.to_string();
      if (!lowering.program.weight(packed_name)) {
        ir::Weight packed{packed_name, is_narrowed ? cast(weight->tensor, packing->dtype) : weight->tensor,
                          packing->layout};
        packed.tensor.storage = kernels::pack(packed.tensor, packing->layout).storage;
        packed.tensor.offset = 0;
        packed.tensor.strides = contiguous_strides(packed.tensor.sizes);
        lowering.program.weights.push_back(std::move(packed));
      }
      // A graph input of its own; one that nobody reads any more goes below.
      Value* input = input_made_from(lowering, *operands[i], *lowering.program.weight(packed_name), "_packed");
      call.replace_operand(operands[i], input);
      packed_weights.emplace_back(weight, packed_name);
    }
  }
  for (ir::Node& call : lowering.graph().forward())
    if (call.annotation("code_key")) read_packed(lowering, call, packed_weights);
  return {};
}

void drop_unread_weights(ir::ExportedProgram& program) {
  std::set<std::string> read;
  for (ir::EntryPoint& entry : program.entries) {
    // An input goes if no variant reads it and no output is written back to it.
    std::set<std::string> kept;
    for (const ir::OutputSpec& output : entry.signature.outputs) kept.insert(output.target);
    std::erase_if(entry.signature.inputs, [&](const ir::InputSpec& spec) {
      if (spec.kind == ir::InputKind::user_input || kept.count(spec.target)) return false;
      for (ir::Variant& variant : entry.variants)
        if (Value* value = variant.graph.find(spec.value); value && value->has_users()) return false;
      for (ir::Variant& variant : entry.variants)
        if (Value* value = variant.graph.find(spec.value)) variant.graph.erase_input(value);
      return true;
    });
    for (const ir::InputSpec& spec : entry.signature.inputs) read.insert(spec.target);
    read.merge(kept);
  }
  std::erase_if(program.weights, [&](const ir::Weight& weight) { return !read.count(weight.name); });

  // What only a meaning reads keeps its digest.
  const std::set<std::string> unread = program::unread_weights(program);
  std::set<const Storage*> needed;
  for (const ir::Weight& weight : program.weights)
    if (!unread.contains(weight.name)) needed.insert(weight.tensor.storage.get());
  std::map<const Storage*, std::shared_ptr<Storage>> absent;  // tied ones stay tied
  for (ir::Weight& weight : program.weights) {
    const std::shared_ptr<Storage> storage = weight.tensor.storage;
    if (needed.contains(storage.get()) || storage->is_absent()) continue;
    std::shared_ptr<Storage>& left = absent[storage.get()];
    if (!left) left = Storage::absent(storage->size(), text::digest_of(*storage));
    weight.tensor.storage = left;
  }
}

void store_in_rows(ir::ExportedProgram& program) {
  for (ir::Weight& weight : program.weights) {
    const bool is_expanded = weight.tensor.nbytes() > weight.tensor.storage->size();
    if (!weight.layout && !weight.tensor.storage->is_absent() && !is_expanded)
      weight.tensor = weight.tensor.contiguous();
  }
}

}  // namespace atenon::lower
