// Convolutions as kernels see them: conv1d to conv3d, transposed ones and aten::convolution brought to one form.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/body.h"
#include "kernels/kernel.h"
#include "kernels/lanes.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

struct Convolution {
  int x = -1, weight = -1, bias = -1;  // inputs of the body; bias -1: none
  std::vector<int64_t> stride, padding, padding_end, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
  // Strided and transposed, with more terms in a sum than oneDNN 3.2's first choice (brgconv_strided) adds at once: it
  // then applies bias and post-ops to partial sums, and is wrong. Seen from 4000 terms on, never up to 3800.
  bool is_deep = false;
  std::vector<PostOp> epilogue;
};

bool is_convolution(const ir::Node& node);

// "" and `found`, or why this is no convolution of this type that we can run. Zeros that a node before it writes around
// its image are padding. `in_any_groups`: also groups that only a run knows, as where each image of a batch has filters
// of its own; `found` has 0 of them then.
std::string read_convolution(const ir::Graph& body, const shape::Bindings& symbols, Convolution& found,
                             ScalarType dtype = ScalarType::f32, bool in_any_groups = false);

// Does the epilogue read what the convolution itself reads (conv(x) + x)? Then what lies otherwise for one of the two
// does so for the other.
bool reads_twice(const Convolution& convolution);

// 1 x 1, of all channels, without stride and padding: each pixel by itself.
bool is_pointwise(const Convolution& convolution, const std::vector<ir::SymInt>& filter);

// What all kernels of convolutions wish: channels last, and a residual added in place.
class ConvolutionKernel : public Kernel {
 public:
  std::vector<int> preferred_order(const ir::Graph& body) const override;
  bool may_overwrite(const ir::Graph& body, size_t operand) const override;
};

// Numbers of an image's batch, channels and axes, or of its axes alone, for `axes` of these (depth, height, width from
// the last one on): `absent` for those that it has not.
std::vector<int64_t> spread(std::vector<int64_t> values, int64_t absent, size_t axes);
std::vector<int64_t> spatial(std::vector<int64_t> values, int64_t absent, size_t axes);

// Are the channels of a pixel neighbours?
bool lies_channels_last(const Operand& image);
// None, or one whose outputs are neighbours.
bool has_plain_bias(const Convolution& convolution, const CallSite& site);

// Does a weight lie in the program as `layout` says?
bool is_packed(const Operand& weight, const ir::BlockedLayout& layout);
// Says in the call how many operations it is and how many bytes it reads and writes.
void count_work(PreparedCall& call, const Convolution& convolution, const CallSite& site);

// Blocks of `columns` outputs, in them the axes from `first_axis` on as they are numbered.
ir::BlockedLayout outputs_in_blocks(const std::vector<int64_t>& sizes, int64_t columns, size_t first_axis);
// Blocks of `columns` outputs, in them place by place of the window one row a channel.
ir::BlockedLayout windows_in_blocks(const std::vector<int64_t>& sizes, int64_t columns);
// Of filters that belong to one channel each: blocks of 64 channels, in them tap by tap.
ir::BlockedLayout channel_layout(const std::vector<int64_t>& sizes);

// What kernels `onednn.convolution` and `few_channels` leave to the loops of kernel `overlapping` where the CPU's
// vectors have 8 floats: how the filter is to lie, or nullopt; and the call if it lies so, or null.
std::optional<ir::BlockedLayout> overlapping_layout(const CallSite& site, size_t operand);
std::unique_ptr<PreparedCall> prepare_overlapping(const CallSite& site);

// What kernel `onednn.convolution` leaves to the loops of `few_channels`: sequences that a run alone knows to be short.
// How the filter is to lie, or nullopt; and the call, or null where it is none, or its operands do not lie so.
std::optional<ir::BlockedLayout> short_layout(const CallSite& site, const Convolution& convolution);
std::unique_ptr<PreparedCall> prepare_short(const CallSite& site, const Convolution& convolution);

// Whether kernel `line_filters` can run a call, of any number of channels: the filter lies as it was given, neighbours
// on the last axis of the result lie side by side, and those of what the epilogue reads do or are one.
bool line_filters_fit(const Convolution& convolution, const CallSite& site);
// Its call, or null where it cannot.
std::unique_ptr<PreparedCall> prepare_line_filters(const CallSite& site);

// How far apart the operand of each step of the epilogue lies along each axis of the result; 0 where it has one element
// for all of them.
std::vector<std::vector<int64_t>> operand_strides(const std::vector<PostOp>& epilogue, const CallSite& site);
inline std::vector<std::vector<int64_t>> operand_strides(const Convolution& convolution, const CallSite& site) {
  return operand_strides(convolution.epilogue, site);
}

// What calls by loops of our own know of a convolution. Axes are counted from the last one on (depth, height, width);
// those that an image has not have size 1.
struct ConvolutionSizes {
  Convolution convolution;
  std::vector<int64_t> x_sizes, x_strides, y_sizes, y_strides;  // batch, channels and axes
  std::vector<int64_t> filter, stride, padding, dilation;       // axes
  std::vector<std::vector<int64_t>> operand_strides;            // of the epilogue's steps
  size_t result = 0;                                            // buffer

  // Takes these from a site whose body is a convolution, for `axes` axes.
  void read(const CallSite& site, size_t axes, ScalarType dtype = ScalarType::f32);

  // How many places of an axis, in the image and beyond it, so many outputs side by side read.
  int64_t reach(size_t axis, int64_t outputs) const {
    return (outputs - 1) * stride[axis] + (filter[axis] - 1) * dilation[axis] + 1;
  }

  // A tile of a panel's channels of the result from `at` on, whose rows lie `step` apart on the last axis: its columns,
  // bias, epilogue and place, which is null where the result has no buffer. `steps` has room for most_steps.
  PanelTile tile_of_result(std::span<void* const> buffers, std::span<const int64_t> at, Step* steps, float* scratch,
                           int64_t step = 1) const;
};

// The call of a convolution by the matrix unit (amx.h) where that is there and faster, and the filter lies in
// windows_in_blocks of 16, 32, 48 or 64 outputs, of which oneDNN chooses one; else null.
std::unique_ptr<PreparedCall> prepare_amx_convolution(const CallSite& site);

class ConvolutionCall : public TiledCall, public ConvolutionSizes {};

}  // namespace atenon::kernels
