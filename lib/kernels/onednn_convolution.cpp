// Convolutions and transposed ones in 1 to 3 dimensions, with bias and epilogue, by oneDNN.
//
// Activations are channels-last: oneDNN is as fast there as in its blocked layouts, and layer after layer needs no
// reorders. Operands that lie otherwise are reordered on the way in and out. Source of the formulas: oneDNN's developer
// guide, "Convolution"; its dilation counts from 0 where PyTorch's counts from 1.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>

#include "kernels/convolution.h"
#include "kernels/joined_pixels.h"
#include "kernels/list.h"
#include "kernels/onednn.h"
#include "kernels/product.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

using dnnl::memory;

// oneDNN plans a call for a number of threads. Where the plan cuts sums, and with them decides the bits of the result,
// it is always for `fixed_threads`. Else it is for those that there are, as far as filters then lie as they do where
// the plan is for `usual_threads`: a lowered program has them so.
constexpr int fixed_threads = 16, usual_threads = 4;

// Of convolutions in groups:
constexpr int64_t strip_bytes = 256 * 1024;        // of the image, for a strip
constexpr int64_t most_filter_bytes = 512 * 1024;  // which each strip reads
constexpr int64_t enough_strips = 16;              // of all images, for the threads

// Which axis of an image, a filter and a result oneDNN's axis i is: its loops run along the last one, over lines of
// outputs with all their channels.
struct Axes {
  std::vector<int> x, filter, y;
};

Axes choose_axes(const Convolution& convolution, const Operand& x, const Operand& filter, const Operand& y) {
  Axes axes;
  for (size_t axis = 0; axis < y.sizes.size(); ++axis) axes.y.push_back(static_cast<int>(axis));
  axes.x = axes.filter = axes.y;
  const size_t last = y.sizes.size() - 1;
  // A column, such as a sequence with an axis more, is a line.
  if (last > 2 && x.sizes[last] == 1 && y.sizes[last] == 1)
    for (std::vector<int>* order : {&axes.x, &axes.filter, &axes.y})
      std::rotate(order->begin() + 2, order->end() - 1, order->end());
  // Where the filter of one channel is as wide as the image, such as a text of embedded words, columns are channels.
  const auto is_as_wide = [&](size_t axis) {
    return x.sizes[axis] > 1 && filter.sizes[axis] == x.sizes[axis] && y.sizes[axis] == 1 &&
           convolution.padding[axis - 2] == 0 && convolution.padding_end[axis - 2] == 0;
  };
  for (size_t i = 2; i <= last && !convolution.transposed && x.sizes[1] == 1; ++i)
    if (is_as_wide(static_cast<size_t>(axes.y[i]))) {
      const auto first = [i](std::vector<int>& order, int64_t to) {
        std::rotate(order.begin() + to, order.begin() + static_cast<int64_t>(i),
                    order.begin() + static_cast<int64_t>(i) + 1);
      };
      first(axes.x, 1), first(axes.filter, 1), first(axes.y, 2);
      break;
    }
  return axes;
}

// Whether oneDNN computes each sum in one piece for any number of threads: always where a sum is over channels or taps
// alone. Else, by its jit_brgemm_conv_utils.cpp (select_ic_block; exec_vpad in init_conf), where all that a block of
// outputs reads fits the caches, and lines of outputs begin and end next to those of the image.
bool sums_are_whole(const CallSite& site, const Convolution& convolution) {
  constexpr int64_t most_pixels = 28, most_outputs = 64;                 // of a block
  constexpr int64_t first_level = 32 * 1024, second_level = 480 * 1024;  // bytes: the smallest where there is AVX-512
  const Operand &x = site.operands[static_cast<size_t>(convolution.x)],
                &filter = site.operands[static_cast<size_t>(convolution.weight)], &y = site.results[0];
  if (convolution.transposed) return false;
  const int64_t taps = std::accumulate(filter.sizes.begin() + 2, filter.sizes.end(), int64_t{1}, std::multiplies<>());
  if (taps == 1 || (filter.sizes[1] == 1 && filter.sizes[0] == convolution.groups)) return true;
  if (convolution.groups > 1 || filter.sizes[0] < widest_vector || y.sizes.size() > 4 ||
      std::string_view(lanes().name) != "avx512")
    return false;
  const Axes axes = choose_axes(convolution, x, filter, y);
  const auto line = static_cast<size_t>(axes.y.back()) - 2;
  const int64_t width = x.sizes[static_cast<size_t>(axes.x.back())], stride = convolution.stride[line];
  const int64_t window = filter.sizes[static_cast<size_t>(axes.filter.back())];
  const int64_t last = (y.sizes[line + 2] - 1) * stride;
  if (width <= last || width == 1 || convolution.padding[line] > 1 || convolution.padding_end[line] > 1) return false;
  const int64_t channels = divide_up(filter.sizes[1], widest_vector) * widest_vector;
  const int64_t read = std::min(width, (most_pixels - 1) * stride + (window - 1) * convolution.dilation[line] + 1);
  return channels * read * 4 <= first_level &&
         channels * (taps * most_outputs + taps / window * read) * 4 <= second_level;
}

template <class T>
std::vector<T> taken(const std::vector<T>& values, const std::vector<int>& axes) {
  std::vector<T> found;
  for (int axis : axes) found.push_back(values[static_cast<size_t>(axis)]);
  return found;
}

// The primitive for a call, and how its operands lie.
struct Chosen {
  dnnl::primitive_desc primitive;
  int threads;  // that it is planned for
  memory::desc x_lies, x, weight_lies, weight, bias, y_lies, y;
  std::vector<int> weight_axes;  // axis of the weight for each axis of oneDNN's
  PostOps post_ops;
};

// How an image lies, its axes those of `seen`, and how the primitive is to have it: channels last.
void describe_image(const Operand& operand, const std::vector<int>& seen, memory::desc& lies, memory::desc& wanted) {
  const std::vector<int> order = channels_last_order(operand.sizes.size());
  const std::vector<int64_t> sizes = taken(operand.sizes, seen), strides = taken(operand.strides, seen);
  wanted = describe_dense(sizes, order);
  lies = is_dense_in_order(sizes, strides, order) ? wanted : describe(sizes, strides);
}

// Sets how the weight lies. oneDNN's are [groups,] outputs, inputs, ...; PyTorch's transposed ones have inputs first.
// Gives its sizes as oneDNN has them.
std::vector<int64_t> describe_weight(const Operand& weight, const Convolution& convolution, const Axes& axes,
                                     Chosen& chosen) {
  const std::vector<int64_t>& sizes = weight.sizes;
  const std::vector<int64_t> plain =
      weight.weight && weight.weight->layout ? contiguous_strides(sizes) : weight.strides;
  std::vector<int64_t> filter, strides;
  const int64_t groups = convolution.groups;
  const int outputs = convolution.transposed ? 1 : 0, inputs = convolution.transposed ? 0 : axes.filter[1];
  if (groups > 1) {
    filter = {groups, convolution.transposed ? sizes[1] : sizes[0] / groups,
              convolution.transposed ? sizes[0] / groups : sizes[1]};
    strides = {sizes[0] / groups * plain[0], plain[outputs], plain[inputs]};
    chosen.weight_axes = {0, outputs, convolution.transposed ? 0 : 1};
  } else {
    filter = {sizes[outputs], sizes[inputs]};
    strides = {plain[outputs], plain[inputs]};
    chosen.weight_axes = {outputs, inputs};
  }
  for (size_t i = 2; i < sizes.size(); ++i) {
    const int axis = axes.filter[i];
    filter.push_back(sizes[axis]);
    strides.push_back(plain[axis]);
    chosen.weight_axes.push_back(axis);
  }
  chosen.weight_lies = describe(filter, strides);
  return filter;
}

// The operands as post-ops may read them: of the result's rank, its axes those of `seen`.
std::vector<memory::desc> describe_operands(const CallSite& site, const std::vector<int>& seen) {
  const size_t rank = site.results[0].sizes.size();
  std::vector<memory::desc> described;
  for (Operand operand : site.operands) {
    if (operand.sizes.size() > rank) {
      described.emplace_back();
      continue;
    }
    const size_t missing = rank - operand.sizes.size();
    operand.sizes.insert(operand.sizes.begin(), missing, 1);
    operand.strides.insert(operand.strides.begin(), missing, 0);
    operand.sizes = taken(operand.sizes, seen);
    operand.strides = taken(operand.strides, seen);
    described.push_back(describe_broadcast(operand, rank));
  }
  return described;
}

Chosen choose(const CallSite& site, const Convolution& convolution) {
  Chosen chosen;
  const Operand &x = site.operands[convolution.x], &weight = site.operands[convolution.weight], &y = site.results[0];
  const Axes axes = choose_axes(convolution, x, weight, y);
  describe_image(x, axes.x, chosen.x_lies, chosen.x);
  describe_image(y, axes.y, chosen.y_lies, chosen.y);
  const std::vector<int64_t> filter = describe_weight(weight, convolution, axes, chosen);
  const bool in_place = chosen.y == chosen.y_lies;
  chosen.post_ops =
      make_post_ops(convolution.epilogue, chosen.y, in_place ? y.overwrites : -1, describe_operands(site, axes.y));
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(chosen.post_ops.ops);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  if (convolution.bias >= 0) chosen.bias = describe_dense(site.operands[convolution.bias].sizes, {0});
  const auto along = [&axes](const std::vector<int64_t>& values) {
    std::vector<int64_t> found;
    for (size_t i = 2; i < axes.y.size(); ++i) found.push_back(values[static_cast<size_t>(axes.y[i]) - 2]);
    return found;
  };
  const std::vector<int64_t> stride = along(convolution.stride), padding = along(convolution.padding),
                             padding_end = along(convolution.padding_end);
  std::vector<int64_t> dilation = along(convolution.dilation);
  for (int64_t& value : dilation) --value;
  const auto inference = dnnl::prop_kind::forward_inference;
  const auto plan = [&](int count, const memory::desc& weight) -> dnnl::primitive_desc {
    const PlannedThreads planned(count);
    if (convolution.transposed)
      return dnnl::deconvolution_forward::primitive_desc(
          onednn_engine(), inference, dnnl::algorithm::deconvolution_direct, chosen.x, weight, chosen.bias, chosen.y,
          stride, dilation, padding, padding_end, attributes);
    return dnnl::convolution_forward::primitive_desc(onednn_engine(), inference, dnnl::algorithm::convolution_direct,
                                                     chosen.x, weight, chosen.bias, chosen.y, stride, dilation, padding,
                                                     padding_end, attributes);
  };
  const bool is_free = !site.in_tile && sums_are_whole(site, convolution);
  chosen.threads = site.in_tile ? 1 : is_free ? usual_threads : fixed_threads;
  chosen.primitive = plan(chosen.threads, describe_any(filter));
  if (is_free && threads() != usual_threads) {
    dnnl::primitive_desc other = plan(threads(), chosen.primitive.weights_desc(0));
    if (std::string_view(other.impl_info_str()) == chosen.primitive.impl_info_str()) {
      chosen.primitive = std::move(other);
      chosen.threads = threads();
    }
  }
  // "conv:any" adds the bias in a pass of its own. Each implementation is a plan anew.
  const PlannedThreads planned(chosen.threads);
  while (convolution.is_deep && convolution.bias >= 0 &&
         !std::string_view(chosen.primitive.impl_info_str()).starts_with("conv:any") && chosen.primitive.next_impl()) {}
  chosen.weight = chosen.primitive.weights_desc(0);
  return chosen;
}

// oneDNN goes through all that it is given for each group, and so reads every line of an image again and again. In
// strips of lines these stay in a core's second-level cache: one thread fetches a strip and computes all groups of it.
// Where filters are too large to be read for each strip, images are taken one by one, by all threads.
class StripsCall : public PreparedCall {
 public:
  static constexpr size_t most_buffers = OnednnCall::most_buffers;
  struct Strip {
    PreparedCall* call;
    std::vector<int64_t> offsets;  // bytes from the image's begin, for each buffer
    int64_t read;                  // bytes of x
  };
  std::vector<std::unique_ptr<PreparedCall>> calls;
  std::vector<Strip> strips;
  std::vector<int64_t> steps;  // bytes from one image to the next, for each buffer
  int64_t images = 0;
  size_t x = 0;  // buffer

  size_t scratch_bytes() const override { return worker_bytes() * static_cast<size_t>(workers()); }
  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    if (strips.size() == 1)
      for (int64_t i = 0; i < images; ++i) run_strip(buffers, i, scratch);
    else
      parallel_for(tiles(), workers(), scratch, worker_bytes(),
                   [&](int64_t i, void* own) { run_strip(buffers, i, own); });
    return {};
  }

 private:
  int64_t tiles() const { return images * static_cast<int64_t>(strips.size()); }
  int64_t workers() const { return strips.size() == 1 ? 1 : std::min<int64_t>(tiles(), threads()); }
  size_t worker_bytes() const {
    size_t most = 0;
    for (const auto& call : calls) most = std::max(most, call->scratch_bytes());
    return in_lines(most);
  }
  void run_strip(std::span<void* const> buffers, int64_t i, void* own) const {
    const auto count = static_cast<int64_t>(strips.size());
    const Strip& strip = strips[static_cast<size_t>(i % count)];
    std::array<void*, most_buffers> at{};
    for (size_t b = 0; b < steps.size(); ++b)
      at[b] = static_cast<char*>(buffers[b]) + i / count * steps[b] + strip.offsets[b];
    for (int64_t byte = 0; count > 1 && byte < strip.read; byte += 64)
      __builtin_prefetch(static_cast<const char*>(at[x]) + byte);
    [[maybe_unused]] const Result<void> ran = strip.call->run({at.data(), steps.size()}, own);
    assert(ran);  // only calls by meanings fail
  }
};

// Some lines of one image of a convolution's result, and what they read, as a convolution of its own.
struct StripSite {
  CallSite site;
  Convolution convolution;
  std::vector<int64_t> offsets, steps;  // as StripsCall has them
};

StripSite strip_of(const CallSite& site, const Convolution& whole, int64_t first, int64_t last) {
  StripSite strip{site, whole, {}, {}};
  const std::vector<int64_t>& y = site.results[0].sizes;
  const int64_t window = (site.operands[static_cast<size_t>(whole.weight)].sizes[2] - 1) * whole.dilation[0] + 1;
  const int64_t above = first * whole.stride[0] - whole.padding[0],
                below = (last - 1) * whole.stride[0] - whole.padding[0] + window;
  const auto cut = [&](Operand& operand, int64_t begin, int64_t end) {
    const bool is_image = operand.sizes.size() == y.size() && operand.sizes[0] == y[0];
    const size_t axis = operand.sizes.size() + 2 - y.size();  // of lines; beyond the last one where there are none
    const bool has_lines = axis < operand.sizes.size() && operand.sizes[axis] > 1;
    strip.steps.push_back(is_image ? operand.strides[0] * static_cast<int64_t>(sizeof(float)) : 0);
    strip.offsets.push_back(has_lines ? begin * operand.strides[axis] * static_cast<int64_t>(sizeof(float)) : 0);
    if (is_image) operand.sizes[0] = 1;
    if (has_lines) operand.sizes[axis] = end - begin;
  };
  for (size_t i = 0; i < site.operands.size(); ++i) {
    const int position = static_cast<int>(i);
    Operand& operand = strip.site.operands[i];
    if (position == whole.weight || position == whole.bias) {
      strip.steps.push_back(0);
      strip.offsets.push_back(0);
    } else if (position == whole.x) {
      strip.convolution.padding[0] = std::max<int64_t>(0, -above);
      strip.convolution.padding_end[0] = std::max<int64_t>(0, below - operand.sizes[2]);
      cut(operand, std::max<int64_t>(0, above), std::min(below, operand.sizes[2]));
    } else {
      cut(operand, first, last);
    }
  }
  cut(strip.site.results[0], first, last);
  return strip;
}

// Into how many strips each image is cut; 0: all images are one call.
int64_t strips_of(const CallSite& site, const Convolution& convolution) {
  const Operand &x = site.operands[static_cast<size_t>(convolution.x)],
                &weight = site.operands[static_cast<size_t>(convolution.weight)];
  const int64_t images = site.results[0].sizes[0], lines = site.results[0].sizes[2];
  if (convolution.groups == 1 || convolution.transposed || weight.sizes[1] == 1 || images < 2 || x.sizes[2] == 0 ||
      site.operands.size() >= StripsCall::most_buffers || reads_twice(convolution))
    return 0;
  const auto bytes_of = [](const Operand& operand) {
    return std::accumulate(operand.sizes.begin() + 1, operand.sizes.end(), operand.sizes[0], std::multiplies<>()) * 4;
  };
  const int64_t window = (weight.sizes[2] - 1) * convolution.dilation[0] + 1;
  const bool is_in_image = convolution.padding[0] < window && convolution.padding_end[0] < window;
  // Without AVX-512, oneDNN wants the weight of inner strips in another layout than that of outer ones.
  if (bytes_of(weight) > most_filter_bytes || !is_in_image || std::string_view(lanes().name) != "avx512") return 1;
  const int64_t line_bytes = bytes_of(x) / (images * x.sizes[2]);
  const int64_t fitting = std::max<int64_t>(0, strip_bytes / line_bytes - window) / convolution.stride[0] + 1;
  return std::min(lines, std::max(divide_up(lines, fitting), divide_up(enough_strips, images)));
}

class OnednnConvolution : public ConvolutionKernel {
 public:
  const char* name() const override { return "onednn.convolution"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution ignored;
    return read_convolution(body, {}, ignored, ScalarType::f32, true);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    if (const std::optional<ir::BlockedLayout> layout = overlapping_layout(site, operand)) return layout;
    try {
      const Convolution convolution = read(site);
      if (static_cast<int>(operand) != convolution.weight || joined_pixels(site, convolution) > 1) return std::nullopt;
      if (const std::optional<ir::BlockedLayout> layout = short_layout(site, convolution)) return layout;
      const int64_t strips = strips_of(site, convolution), lines = site.results[0].sizes[2];
      const StripSite strip =
          strips == 0 ? StripSite{site, convolution, {}, {}} : strip_of(site, convolution, 0, lines / strips);
      const Chosen chosen = choose(strip.site, strip.convolution);
      if (chosen.weight == chosen.weight_lies) return std::nullopt;
      return layout_of(chosen.weight, chosen.weight_axes, site.operands[operand].sizes.size());
    } catch (const dnnl::error&) {
      return std::nullopt;  // prepare() says it
    }
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    if (std::unique_ptr<PreparedCall> call = prepare_amx_convolution(site)) return call;
    if (std::unique_ptr<PreparedCall> large = prepare_pointwise(site)) return large;
    if (std::unique_ptr<PreparedCall> call = prepare_overlapping(site)) return call;
    const Convolution convolution = read(site);
    if (std::unique_ptr<PreparedCall> call = prepare_short(site, convolution)) return call;
    if (const int64_t strips = strips_of(site, convolution)) return prepare_strips(site, convolution, strips);
    const int64_t pixels = joined_pixels(site, convolution);
    if (pixels == 1) return prepare_call(site, convolution);
    const JoinedPixels joined = join_pixels(site, convolution, pixels);
    Result<std::unique_ptr<PreparedCall>> call = prepare_call(joined.site, joined.convolution, joined.made);
    if (!call) return call;
    count_work(**call, convolution, site);
    (*call)->detail += ", " + std::to_string(pixels) + " pixels joined";
    return call;
  }

 private:
  static Convolution read(const CallSite& site) {
    Convolution convolution;
    [[maybe_unused]] std::string refusal = read_convolution(*site.body, site.symbols, convolution);
    assert(refusal.empty());
    return convolution;
  }

  Result<std::unique_ptr<PreparedCall>> prepare_strips(const CallSite& site, const Convolution& convolution,
                                                       int64_t count) const {
    auto call = std::make_unique<StripsCall>();
    call->images = site.results[0].sizes[0];
    call->x = static_cast<size_t>(convolution.x);
    const int64_t lines = site.results[0].sizes[2];
    std::map<std::array<int64_t, 3>, PreparedCall*> calls;  // by lines of the result, and of zeros above and below
    for (int64_t i = 0; i < count; ++i) {
      StripSite strip = strip_of(site, convolution, lines * i / count, lines * (i + 1) / count);
      strip.site.in_tile = site.in_tile || count > 1;
      const Operand& x = strip.site.operands[call->x];
      PreparedCall*& of_strip =
          calls[{strip.site.results[0].sizes[2], strip.convolution.padding[0], strip.convolution.padding_end[0]}];
      if (!of_strip) {
        Result<std::unique_ptr<PreparedCall>> made = prepare_call(strip.site, strip.convolution);
        if (!made) return made;
        if (!(*made)->note.empty()) call->note = (*made)->note;
        call->repacked += (*made)->repacked;
        call->detail = (*made)->detail;
        of_strip = made->get();
        call->calls.push_back(std::move(*made));
      }
      call->strips.push_back({of_strip, std::move(strip.offsets), x.sizes[2] * x.strides[2] * 4});
      call->steps = std::move(strip.steps);
    }
    count_work(*call, convolution, site);
    return std::unique_ptr<PreparedCall>(std::move(call));
  }

  // Operands in `made` are these tensors, whatever the call's buffers are.
  Result<std::unique_ptr<PreparedCall>> prepare_call(const CallSite& site, const Convolution& convolution,
                                                     const std::map<int, Tensor>& made = {}) const try {
    Chosen chosen = choose(site, convolution);
    auto call = std::make_unique<OnednnCall>();
    std::vector<OnednnCall::Binding> bindings;
    auto bind = [&](int argument, int operand, const memory::desc& lies, const memory::desc& wanted,
                    const std::vector<int>& axes) {
      const auto own = made.find(operand);
      bindings.push_back({argument, wanted,
                          own == made.end() ? call->operand(site, operand, lies, wanted, axes)
                                            : call->own(own->second, lies, wanted)});
    };
    bind(DNNL_ARG_SRC, convolution.x, chosen.x_lies, chosen.x, {});
    bind(DNNL_ARG_WEIGHTS, convolution.weight, chosen.weight_lies, chosen.weight, chosen.weight_axes);
    if (convolution.bias >= 0) {
      const Operand& bias = site.operands[convolution.bias];
      bind(DNNL_ARG_BIAS, convolution.bias, describe(bias.sizes, bias.strides), chosen.bias, {});
    }
    for (const PostOps::Read& read : chosen.post_ops.reads)
      bind(DNNL_ARG_ATTR_MULTIPLE_POST_OP(read.position) | DNNL_ARG_SRC_1, read.operand, read.lies, read.wanted, {});
    const Place result{Place::Kind::buffer, site.operands.size()};
    const bool in_place = chosen.y == chosen.y_lies;
    const Place computed = in_place ? result : call->reserve(chosen.y);
    bindings.push_back({DNNL_ARG_DST, chosen.y, computed});
    const PlannedThreads planned(chosen.threads);
    call->add(dnnl::primitive(chosen.primitive), chosen.primitive.scratchpad_desc(), std::move(bindings));
    if (!in_place) call->add_reorder(chosen.y, computed, chosen.y_lies, result);

    count_work(*call, convolution, site);
    call->detail = chosen.primitive.impl_info_str();
    return std::unique_ptr<PreparedCall>(std::move(call));
  } catch (const dnnl::error& cause) {
    return onednn_error(name(), cause);
  }
};

}  // namespace

const Kernel& onednn_convolution() {
  static const OnednnConvolution kernel;
  return kernel;
}

}  // namespace atenon::kernels
