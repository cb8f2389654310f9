// Maximum and average pooling, and means over all spatial axes: channels last, as convolutions are, averages by oneDNN,
// and the rest by loops of our own.
#include "kernels/pooling.h"

#include <numeric>

#include "kernels/convolution.h"
#include "kernels/list.h"
#include "kernels/onednn.h"

namespace atenon::kernels {

namespace {

using dnnl::memory;

// max_pool and avg_pool. "" or why they cannot be.
std::string read_windows(const Arguments& arguments, bool is_max, size_t spatial, Pooling& found) {
  auto window = arguments.integers(1, "kernel_size", spatial, 1);
  auto padding = arguments.integers(3, "padding", spatial, 0);
  auto dilation = is_max ? arguments.integers(4, "dilation", spatial, 1) : std::vector<int64_t>(spatial, 1);
  auto ceil_mode = arguments.boolean(is_max ? 5 : 4, "ceil_mode", false);
  if (!window || !padding || !dilation || !ceil_mode) return "its window is symbolic";
  const ir::Argument* stride_argument = arguments.find(2, "stride");
  const bool own_stride =
      stride_argument && !(stride_argument->is<ir::ArgumentList>() && stride_argument->get<ir::ArgumentList>().empty());
  auto stride = own_stride ? arguments.integers(2, "stride", spatial, 1) : window;
  if (!stride) return "its stride is symbolic";
  found.window = *window;
  found.stride = *stride;
  found.padding = *padding;
  found.dilation = *dilation;
  if (is_max) return "";
  std::optional<bool> with_padding = arguments.boolean(5, "count_include_pad", true);
  if (*ceil_mode || !with_padding || arguments.find(6, "divisor_override")) return "ceil_mode or a divisor of its own";
  found.kind = *with_padding ? Pooling::Kind::average_with_padding : Pooling::Kind::average;
  return "";
}

// Adaptive pooling to sizes that divide the image's.
std::string read_adaptive(const Arguments& arguments, bool is_max, const std::vector<ir::SymInt>& image,
                          const shape::Bindings& symbols, Pooling& found) {
  const size_t spatial = image.size() - 2;
  if (!is_max) found.kind = Pooling::Kind::average;
  auto sizes = arguments.integers(1, "output_size", spatial, 1);
  if (!sizes) return "its output is symbolic";
  found.global = !is_max && *sizes == std::vector<int64_t>(spatial, 1);
  if (found.global) return "";
  for (size_t axis = 0; axis < spatial; ++axis) {
    std::optional<std::vector<int64_t>> size = concrete({image[axis + 2]}, symbols);
    if (!size || (*sizes)[axis] == 0 || size->front() % (*sizes)[axis] != 0) return "its windows differ in size";
    found.window.push_back(size->front() / (*sizes)[axis]);
  }
  found.stride = found.window;
  found.padding.assign(spatial, 0);
  found.dilation.assign(spatial, 1);
  return "";
}

// A mean over the image.
std::string read_mean(const Arguments& arguments, int rank, const shape::Bindings& symbols, Pooling& found) {
  found.global = true;
  found.kind = Pooling::Kind::average;
  const ir::Argument* axes = arguments.find(1, "dim");
  if (!axes || !axes->is<ir::ArgumentList>() || arguments.find(3, "dtype"))
    return "a mean that is not over the spatial axes";
  std::vector<bool> reduced(rank, false);
  for (const ir::Argument& axis : axes->get<ir::ArgumentList>()) {
    std::optional<double> number = number_of(axis, symbols);
    if (!number || *number < -rank || *number >= rank) return "a mean over symbolic axes";
    reduced[(static_cast<int>(*number) + rank) % rank] = true;
  }
  for (int axis = 0; axis < rank; ++axis)
    if (reduced[axis] != (axis >= 2)) return "a mean that is not over the spatial axes";
  return "";
}

std::string read_pooling(const ir::Graph& body, const shape::Bindings& symbols, Pooling& found) {
  if (body.size() != 1) return "needs a body of one node";
  const ir::Node& node = *body.forward().begin();
  const std::string name = name_without_overload(node.target());
  Arguments arguments(node, symbols);
  const ir::Value* x = arguments.tensor(0, "self");
  if (!x || x->producer || x->meta().dtype != ScalarType::f32) return "needs an f32 tensor";
  if (body.outputs().size() != 1 || body.outputs()[0].value() != node.result(0)) return "its indices are wanted";
  found.x = x->index;
  const int rank = x->meta().rank(), spatial = rank - 2;
  if (spatial < 1 || spatial > 3) return "needs a batch axis and 1 to 3 spatial axes";
  const bool is_max = name.starts_with("aten::max_pool"), is_adaptive_max = name.starts_with("aten::adaptive_max_pool");
  if (is_max || name.starts_with("aten::avg_pool")) return read_windows(arguments, is_max, spatial, found);
  if (is_adaptive_max || name.starts_with("aten::adaptive_avg_pool"))
    return read_adaptive(arguments, is_adaptive_max, x->meta().sizes, symbols, found);
  if (name == "aten::mean") return read_mean(arguments, rank, symbols, found);
  return node.target() + " is no pooling";
}

dnnl::algorithm average_of(Pooling::Kind kind) {
  return kind == Pooling::Kind::average ? dnnl::algorithm::pooling_avg_exclude_padding
                                        : dnnl::algorithm::pooling_avg_include_padding;
}

class OnednnPooling : public Kernel {
 public:
  const char* name() const override { return "onednn.pooling"; }

  std::string refusal(const ir::Graph& body) const override {
    Pooling ignored;
    return read_pooling(body, {}, ignored);
  }

  std::vector<int> preferred_order(const ir::Graph& body) const override {
    return channels_last_order(body.inputs()[0]->meta().rank());
  }

  // Windows over volumes are several times as fast across channels that lie side by side.
  bool keeps_order(const ir::Graph& body) const override {
    Pooling pooling;
    return body.inputs()[0]->meta().rank() < 5 || (read_pooling(body, {}, pooling).empty() && pooling.global);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override try {
    Pooling pooling;
    [[maybe_unused]] std::string refusal = read_pooling(*site.body, site.symbols, pooling);
    assert(refusal.empty());
    if (std::unique_ptr<PreparedCall> in_rows = prepare_pooling_in_rows(pooling, site)) return in_rows;
    const Operand& x = site.operands[pooling.x];
    const size_t rank = x.sizes.size();
    // A mean without keepdim has lost axes of size 1.
    std::vector<int64_t> sizes = site.results[0].sizes, strides = site.results[0].strides;
    sizes.resize(rank, 1);
    strides.resize(rank, 1);
    if (pooling.global) {
      pooling.window.assign(x.sizes.begin() + 2, x.sizes.end());
      pooling.stride = pooling.dilation = std::vector<int64_t>(rank - 2, 1);
      pooling.padding.assign(rank - 2, 0);
    }
    std::vector<int64_t> padding_end, dilation;
    for (size_t i = 0; i + 2 < rank; ++i) {
      // What is missing at the end for this result; ceil_mode asks for more than `padding`, and floors leave some
      // unread.
      const int64_t reach = (sizes[i + 2] - 1) * pooling.stride[i] + (pooling.window[i] - 1) * pooling.dilation[i] + 1;
      padding_end.push_back(reach - x.sizes[i + 2] - pooling.padding[i]);
      dilation.push_back(pooling.dilation[i] - 1);
    }
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    if (!pooling.global || !is_dense_in_order(x.sizes, x.strides, order)) order = channels_last_order(rank);
    const memory::desc x_wanted = describe_dense(x.sizes, order), y_wanted = describe_dense(sizes, order);
    const bool x_fits = is_dense_in_order(x.sizes, x.strides, order), y_fits = is_dense_in_order(sizes, strides, order);
    if (pooling.global && x_fits && y_fits) return means_of_images(x.sizes, order != channels_last_order(rank));
    auto call = std::make_unique<OnednnCall>();
    const Place from = call->operand(site, pooling.x, x_fits ? x_wanted : describe(x.sizes, x.strides), x_wanted, {});
    const Place result{Place::Kind::buffer, site.operands.size()}, computed = y_fits ? result : call->reserve(y_wanted);
    if (pooling.kind == Pooling::Kind::max) {
      std::unique_ptr<PreparedCall> loops = largest_of_windows(pooling, x.sizes, sizes);
      call->detail = loops->detail;
      call->add_loops(std::move(loops), {from, computed});
    } else {
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      const dnnl::pooling_forward::primitive_desc primitive(
          onednn_engine(), dnnl::prop_kind::forward_inference, average_of(pooling.kind), x_wanted, y_wanted,
          pooling.stride, pooling.window, dilation, pooling.padding, padding_end, attributes);
      call->detail = primitive.impl_info_str();
      call->add(dnnl::pooling_forward(primitive), primitive.scratchpad_desc(),
                {{DNNL_ARG_SRC, x_wanted, from}, {DNNL_ARG_DST, y_wanted, computed}});
    }
    if (!y_fits) call->add_reorder(y_wanted, computed, describe(sizes, strides), result);
    call->bytes = 4 * (count(x.sizes) + count(sizes));
    call->flops = count(sizes) * count(pooling.window);
    return std::unique_ptr<PreparedCall>(std::move(call));
  } catch (const dnnl::error& cause) {
    return onednn_error(name(), cause);
  }
};

}  // namespace

const Kernel& onednn_pooling() {
  static const OnednnPooling kernel;
  return kernel;
}

}  // namespace atenon::kernels
