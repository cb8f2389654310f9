// See onednn.h. Descriptors are compared as oneDNN compares them; a layout that blocks and strides do not describe is
// never used for a weight that is stored.
#include "kernels/onednn.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <optional>
#include <string_view>

#include "support/parallel.h"
#include "support/shared_object.h"

namespace atenon::kernels {

namespace {

// Execution on a CPU stream keeps no state in it, so one serves all threads.
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

const Library& library() {
  static const Library instance;
  return instance;
}

}  // namespace

const dnnl::engine& onednn_engine() { return library().engine; }

void end_preparing() { unmap_code_of(reinterpret_cast<const void*>(&dnnl_version)); }

// --- Descriptors ----------------------------------------------------------------------------------------------------

dnnl::memory::desc describe(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  return dnnl::memory::desc(sizes, dnnl::memory::data_type::f32, strides);
}

dnnl::memory::desc describe_any(const std::vector<int64_t>& sizes) {
  return dnnl::memory::desc(sizes, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
}

dnnl::memory::desc describe_dense(const std::vector<int64_t>& sizes, const std::vector<int>& order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return describe(sizes, strides);
}

bool is_dense_in_order(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                       const std::vector<int>& order) {
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (sizes[order[i]] == 1) continue;
    if (strides[order[i]] != stride) return false;
    stride *= sizes[order[i]];
  }
  return true;
}

dnnl::memory::desc describe_broadcast(const Operand& operand, size_t rank) {
  std::vector<int64_t> sizes(rank - operand.sizes.size(), 1), strides;
  sizes.insert(sizes.end(), operand.sizes.begin(), operand.sizes.end());
  int64_t stride = 1;
  for (size_t axis = rank; axis-- > 0; stride *= sizes[axis]) {
    const size_t own = axis + operand.sizes.size() - rank;
    strides.insert(strides.begin(),
                   axis + operand.sizes.size() >= rank && sizes[axis] > 1 ? operand.strides[own] : stride);
  }
  return describe(sizes, strides);
}

std::optional<ir::BlockedLayout> layout_of(const dnnl::memory::desc& desc, const std::vector<int>& axes, size_t rank) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return std::nullopt;
  const dnnl::memory::dims sizes = desc.get_dims(), padded = desc.get_padded_dims(), strides = desc.get_strides();
  const dnnl::memory::dims blocks = desc.get_inner_blks(), blocked_axes = desc.get_inner_idxs();
  dnnl::memory::dims outer = padded;  // blocks along each axis
  for (size_t i = 0; i < blocks.size(); ++i) outer[blocked_axes[i]] /= blocks[i];
  ir::BlockedLayout layout;
  layout.strides.assign(rank, 0);
  std::vector<int> first(rank, -1);  // axis of `desc` for each of the weight's
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    if (axes[i] >= 0 && first[axes[i]] < 0) {
      first[axes[i]] = i;
      layout.strides[axes[i]] = strides[i];
    } else if (padded[i] != 1) {
      if (axes[i] < 0) return std::nullopt;
      // Groups and what is in each of them are one axis where the steps from block to block are even.
      const int groups = first[axes[i]];
      const bool is_even = outer[i] == 1 || strides[groups] == outer[i] * strides[i];
      if (outer[groups] != padded[groups] || padded[i] != sizes[i] || !is_even) return std::nullopt;
      layout.strides[axes[i]] = strides[groups] / outer[i];
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (axes[blocked_axes[i]] < 0) return std::nullopt;
    layout.inner_blocks.push_back({axes[blocked_axes[i]], blocks[i]});
  }
  layout.padded_bytes = static_cast<int64_t>(desc.get_size());
  return layout;
}

// --- Post-ops -------------------------------------------------------------------------------------------------------

PostOps make_post_ops(const std::vector<PostOp>& steps, const dnnl::memory::desc& result, int summed,
                      const std::vector<dnnl::memory::desc>& described) {
  using Kind = PostOp::Kind;
  using dnnl::algorithm;
  PostOps made;
  auto eltwise = [&](algorithm which, float alpha = 0, float beta = 0) { made.ops.append_eltwise(which, alpha, beta); };
  auto binary = [&](algorithm which, int operand) {
    const dnnl::memory::desc& lies = described[operand];
    // Full operands must lie as the destination does; broadcast ones are dense and may stay.
    const dnnl::memory::desc& wanted = lies.get_dims() == result.get_dims() ? result : lies;
    made.reads.push_back({made.ops.len(), operand, lies, wanted});
    made.ops.append_binary(which, wanted);
  };
  for (const PostOp& step : steps) {
    switch (step.kind) {
      case Kind::relu:
        eltwise(algorithm::eltwise_relu);
        break;
      case Kind::clamp:
        eltwise(algorithm::eltwise_clip, step.alpha, step.beta);
        break;
      case Kind::gelu_erf:
        eltwise(algorithm::eltwise_gelu_erf);
        break;
      case Kind::gelu_tanh:
        eltwise(algorithm::eltwise_gelu_tanh);
        break;
      case Kind::silu:
        eltwise(algorithm::eltwise_swish, 1);
        break;
      case Kind::sigmoid:
        eltwise(algorithm::eltwise_logistic);
        break;
      case Kind::tanh:
        if (lanes().width < widest_vector) {  // 2 / (1 + e^-2x) - 1, to 2e-7 as tanh_of; the other gathers
          eltwise(algorithm::eltwise_linear, 2);
          eltwise(algorithm::eltwise_logistic);
          eltwise(algorithm::eltwise_linear, 2, -1);
        } else {
          eltwise(algorithm::eltwise_tanh);
        }
        break;
      case Kind::hardswish:
        eltwise(algorithm::eltwise_hardswish, 1.0f / 6, 0.5f);
        break;
      case Kind::hardsigmoid:
        eltwise(algorithm::eltwise_hardsigmoid, 1.0f / 6, 0.5f);
        break;
      case Kind::leaky_relu:
        eltwise(algorithm::eltwise_relu, step.alpha);
        break;
      case Kind::elu:
        eltwise(algorithm::eltwise_elu, step.alpha);
        break;
      case Kind::exp:
        eltwise(algorithm::eltwise_exp);
        break;
      case Kind::abs:
        eltwise(algorithm::eltwise_abs);
        break;
      case Kind::sqrt:
        eltwise(algorithm::eltwise_sqrt);
        break;
      case Kind::affine:
        eltwise(algorithm::eltwise_linear, step.alpha, step.beta);
        break;
      case Kind::add:
        if (step.operand == summed) {
          made.ops.append_sum(1.0f);
          summed = -1;  // the buffer holds the operand only until the sum is taken
        } else {
          binary(algorithm::binary_add, step.operand);
        }
        break;
      case Kind::subtract:
        binary(algorithm::binary_sub, step.operand);
        break;
      case Kind::multiply:
        binary(algorithm::binary_mul, step.operand);
        break;
      case Kind::divide:
        binary(algorithm::binary_div, step.operand);
        break;
    }
  }
  return made;
}

// --- Calls ----------------------------------------------------------------------------------------------------------

OnednnCall::Memories::~Memories() {
  for (std::vector<dnnl_exec_arg_t>& arguments : of_step)
    for (dnnl_exec_arg_t& argument : arguments) dnnl_memory_destroy(argument.memory);
}

void OnednnCall::add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                     std::vector<Binding> bindings) {
  if (scratchpad.get_size() > 0) {
    bindings.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, {Place::Kind::scratch, SIZE_MAX}});
    scratchpad_ = std::max(scratchpad_, in_lines(scratchpad.get_size()));
  }
  const char* name = "";
  dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0, &name);
  steps_.push_back({primitive,
                    std::move(bindings),
                    std::nullopt,
                    nullptr,
                    {},
                    std::string_view(name).find("gemm:") != std::string_view::npos});
}

// Between rows and channels last, which oneDNN turns element by element.
std::optional<OnednnCall::Turn> OnednnCall::turn_between(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  const std::vector<int64_t> sizes = from.get_dims(), a = from.get_strides(), b = to.get_strides();
  if (sizes.size() < 3 || from.get_inner_nblks() > 0 || to.get_inner_nblks() > 0 ||
      from.get_data_type() != dnnl::memory::data_type::f32)
    return std::nullopt;
  // Pixels in order, `step` apart.
  const auto lie_apart = [&](const std::vector<int64_t>& strides, int64_t step) {
    for (size_t axis = sizes.size(); axis-- > 2; step *= sizes[axis])
      if (sizes[axis] != 1 && strides[axis] != step) return false;
    return true;
  };
  const int64_t channels = sizes[1];
  const int64_t pixels = std::accumulate(sizes.begin() + 2, sizes.end(), int64_t{1}, std::multiplies<>());
  size_t last = sizes.size() - 1;
  while (last > 2 && sizes[last] == 1) --last;
  std::optional<Turn> turn;
  if (lie_apart(a, 1) && b[1] == 1 && lie_apart(b, b[last]))
    turn = {sizes[0], channels, pixels, a[0], a[1], b[0], b[last], true};
  else if (lie_apart(b, 1) && a[1] == 1 && lie_apart(a, a[last]))
    turn = {sizes[0], pixels, channels, a[0], a[last], b[0], b[1], false};
  constexpr int64_t longest_row = INT32_MAX / widest_vector;
  if (turn && (turn->rows < widest_vector || turn->columns < 4 || turn->from_row > longest_row)) turn.reset();
  return turn;
}

void OnednnCall::run_turn(const Turn& turn, const float* from, float* to) {
  constexpr int64_t most_rows = 256, most_columns = 64;  // of a tile, which fits into a core's cache
  const int64_t row_tiles = std::max<int64_t>(1, turn.rows / most_rows),
                column_tiles = divide_up(turn.columns, most_columns);
  parallel_for(turn.batch * row_tiles * column_tiles, [&](int64_t tile) {
    // All channels of some pixels in turn: these are one thread's in the convolution, too.
    const int64_t batch = tile / column_tiles / row_tiles, place = tile % (column_tiles * row_tiles);
    const int64_t number = turn.columns_are_pixels ? place % row_tiles : place / column_tiles;
    const int64_t column = (turn.columns_are_pixels ? place / row_tiles : place % column_tiles) * most_columns;
    const int64_t first = turn.rows * number / row_tiles, last = turn.rows * (number + 1) / row_tiles;
    lanes().turn(from + batch * turn.from_batch + first * turn.from_row + column, turn.from_row, last - first,
                 std::min(most_columns, turn.columns - column),
                 to + batch * turn.to_batch + column * turn.to_row + first, turn.to_row);
  });
}

void OnednnCall::add_reorder(const dnnl::memory::desc& from, Place source, const dnnl::memory::desc& to, Place target) {
  if (const std::optional<Turn> turn = turn_between(from, to)) {
    steps_.push_back({{}, {{DNNL_ARG_FROM, from, source}, {DNNL_ARG_TO, to, target}}, turn});
    return;
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::reorder::primitive_desc reorder(onednn_engine(), from, onednn_engine(), to, attributes);
  add(dnnl::reorder(reorder), reorder.scratchpad_desc(), {{DNNL_ARG_FROM, from, source}, {DNNL_ARG_TO, to, target}});
}

void OnednnCall::add_loops(std::unique_ptr<PreparedCall> loops, std::vector<Place> places) {
  assert(places.size() <= most_buffers);
  scratchpad_ = std::max(scratchpad_, in_lines(loops->scratch_bytes()));
  Step& step = steps_.emplace_back();
  step.loops = std::move(loops);
  step.places = std::move(places);
}

Place OnednnCall::reserve(const dnnl::memory::desc& desc) {
  Place place{Place::Kind::scratch, reserved_};
  reserved_ += in_lines(desc.get_size());
  return place;
}

Place OnednnCall::own(std::shared_ptr<Storage> storage) {
  owned_.push_back(std::move(storage));
  return {Place::Kind::owned, owned_.size() - 1};
}

Place OnednnCall::own(const Tensor& tensor, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted) {
  std::shared_ptr<Storage> packed = Storage::allocate(wanted.get_size());
  repacked += packed->size();
  dnnl::memory from(plain, onednn_engine(), const_cast<void*>(tensor.data()));
  dnnl::memory to(wanted, onednn_engine(), packed->mutable_data());
  dnnl::stream stream = library().stream;
  dnnl::reorder(from, to).execute(stream, from, to);
  return own(std::move(packed));
}

Place OnednnCall::operand(const CallSite& site, size_t index, const dnnl::memory::desc& plain,
                          const dnnl::memory::desc& wanted, const std::vector<int>& axes, TileStep step) {
  const Place as_it_is{Place::Kind::buffer, index, step};
  const Operand& operand = site.operands[index];
  if (!operand.weight || step != TileStep{}) {
    if (plain == wanted) return as_it_is;
    Place copy = reserve(wanted);
    add_reorder(plain, as_it_is, wanted, copy);
    return copy;
  }
  if (operand.weight->layout) {
    if (layout_of(wanted, axes, operand.sizes.size()) == operand.weight->layout) return as_it_is;
  } else if (plain == wanted) {
    return as_it_is;
  }
  note = operand.weight->name + " repacked at load";
  return own(operand.weight->layout ? unpack(*operand.weight) : operand.weight->tensor, plain, wanted);
}

std::unique_ptr<OnednnCall::Memories> OnednnCall::make_memories() const {
  auto memories = std::make_unique<Memories>();
  for (const Step& step : steps_) {
    std::vector<dnnl_exec_arg_t> arguments;
    for (const Binding& binding : step.bindings) {
      dnnl_memory_t memory = nullptr;
      dnnl_memory_create(&memory, binding.desc.get(), onednn_engine().get(), DNNL_MEMORY_NONE);
      arguments.push_back({binding.argument, memory});
    }
    memories->of_step.push_back(std::move(arguments));
  }
  return memories;
}

int64_t OnednnCall::workers() const { return tiles_ == 0 ? 1 : std::min<int64_t>(tiles_, threads()); }

Result<void> OnednnCall::run(std::span<void* const> buffers, void* scratch) {
  if (tiles_ == 0)
    run_steps(buffers, scratch, 0);
  else
    parallel_for(tiles_, workers(), scratch, reserved_ + scratchpad_,
                 [&](int64_t tile, void* own) { run_steps(buffers, own, tile); });
  return {};
}

void OnednnCall::run_steps(std::span<void* const> buffers, void* scratch, int64_t tile) {
  std::unique_ptr<Memories> memories = idle_.take();
  if (!memories) memories = make_memories();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const std::vector<dnnl_exec_arg_t>& arguments = memories->of_step[i];
    const auto find = [&](const Place& place) -> void* {
      switch (place.kind) {
        case Place::Kind::buffer:
          return static_cast<char*>(buffers[place.index]) + tile / inner_tiles_ * place.step.outer +
                 tile % inner_tiles_ * place.step.inner;
        case Place::Kind::scratch:
          return static_cast<char*>(scratch) + (place.index == SIZE_MAX ? reserved_ : place.index);
        case Place::Kind::owned:
          return owned_[place.index]->mutable_data();
      }
      return nullptr;
    };
    if (step.turn) {
      run_turn(*step.turn, static_cast<const float*>(find(step.bindings[0].place)),
               static_cast<float*>(find(step.bindings[1].place)));
      continue;
    }
    if (step.loops) {
      std::array<void*, most_buffers> found{};
      std::ranges::transform(step.places, found.begin(), find);
      [[maybe_unused]] const Result<void> done =
          step.loops->run({found.data(), step.places.size()}, find({Place::Kind::scratch, SIZE_MAX}));
      assert(done);
      continue;
    }
    for (size_t j = 0; j < step.bindings.size(); ++j)
      dnnl_memory_set_data_handle(arguments[j].memory, find(step.bindings[j].place));
    std::optional<PlannedThreads> alone;
    if (step.calls_gemm) alone.emplace(1);
    [[maybe_unused]] dnnl_status_t status = dnnl_primitive_execute(
        step.primitive.get(), library().stream.get(), static_cast<int>(arguments.size()), arguments.data());
    assert(status == dnnl_success);
  }
  idle_.give(std::move(memories));
}

std::unique_ptr<PreparedCall> through_channels_last(
    const CallSite& site, size_t x, const std::function<std::unique_ptr<PreparedCall>(const CallSite&)>& prepare) {
  CallSite inner = site;
  const size_t result = site.operands.size();
  if (result >= OnednnCall::most_buffers) return nullptr;
  const auto wanted = [](Operand& operand) {
    const bool fits = operand.strides[1] == 1 || operand.sizes[1] == 1;
    const dnnl::memory::desc dense = describe_dense(operand.sizes, channels_last_order(operand.sizes.size()));
    if (!fits) operand.strides = dense.get_strides();
    return std::pair(dense, fits);
  };
  const auto [x_wanted, x_fits] = wanted(inner.operands[x]);
  const auto [y_wanted, y_fits] = wanted(inner.results[0]);
  if (!y_fits) inner.results[0].overwrites = -1;
  std::unique_ptr<PreparedCall> loops = prepare(inner);
  if (!loops || (x_fits && y_fits)) return loops;
  auto call = std::make_unique<OnednnCall>();
  call->flops = loops->flops;
  call->bytes = loops->bytes;
  call->detail = loops->detail;
  std::vector<Place> places;
  for (size_t i = 0; i <= result; ++i) places.push_back({Place::Kind::buffer, i});
  if (!x_fits)
    places[x] = call->operand(site, x, describe(site.operands[x].sizes, site.operands[x].strides), x_wanted, {});
  if (!y_fits) places[result] = call->reserve(y_wanted);
  const Place computed = places[result];
  call->add_loops(std::move(loops), std::move(places));
  if (!y_fits)
    call->add_reorder(y_wanted, computed, describe(site.results[0].sizes, site.results[0].strides),
                      {Place::Kind::buffer, result});
  if (!call->has_loops_alone()) call->detail += ", copied by jit:uni";  // oneDNN's reorder
  return call;
}

Diagnostic onednn_error(const char* kernel, const dnnl::error& cause) {
  return error(Status::unsupported, 613,
               std::string(kernel) + ": oneDNN cannot do this call: " + cause.what() + " (status " +
                   std::to_string(cause.status) + ")");
}

}  // namespace atenon::kernels
