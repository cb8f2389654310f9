// Convolutions whose sums have few terms: the first of a network, over an image or a sequence of up to four channels,
// those of sequences in groups, and those of up to some 50 channels in strides, or to outputs that fill no vectors. And
// those of short sequences, of any number of channels, for which oneDNN's call takes longer to begin.
//
// A tile is some lines of outputs of one group, or a part of a long line. What they read is copied once, with zeros for
// the padding, to where it stays in the nearest cache; then the terms of an output are at fixed distances from its
// first, whatever its place. Outputs that fill half a vector or less are joined with their neighbours', and those that
// lie in rows are left to the loops of kernel `line_filters`.
#include "kernels/few_channels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>

#include "kernels/amx.h"
#include "kernels/convolution.h"
#include "kernels/joined_pixels.h"
#include "kernels/lanes.h"
#include "kernels/list.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_outputs = 60;             // of a run
constexpr int64_t strip_floats = 12 * 1024;      // of the image, for a tile
constexpr int64_t serial_products = 128 * 1024;  // less than this is done before a second thread has woken up
constexpr int64_t tile_products = 64 * 1024;     // worth handing to a thread
constexpr int64_t enough_tiles = 16;             // of an image and a group: lines are cut where there are less
// Of a network's first, oneDNN 3 leaves lines with some 25 or more zeros before or behind them to sgemm, at a tenth of
// the speed.
constexpr int64_t far_padding = 20;
constexpr int64_t fewest_outputs_of_images = 8, fewest_outputs_of_sequences = 5;  // oneDNN has faster ones for less
constexpr int64_t most_terms_of_long = 1024, most_terms_of_signal = 8192;         // of a panel's outputs
constexpr int64_t enough_places = 32;                                             // of a signal
// Of more channels than a network's first has:
constexpr int64_t most_taps = 9;
constexpr int64_t large_image = 1024;  // pixels
constexpr int64_t most_terms = 400, most_terms_of_two_panels = 512;
// Of sequences for which oneDNN 3 takes 1.0 to 3 times as long, in chains of 24 alike. Lines of images are so short
// that weights are read again and again, and several sequences read them once each.
constexpr int64_t short_products = 512 * 1024, short_products_of_several = 256 * 1024;
constexpr int64_t short_weight = 28 * 1024;  // floats

using Sizes = std::vector<ir::SymInt>;

bool is_first(const Convolution& convolution, const Sizes& weight) {
  return convolution.groups == 1 && *weight[1].constant() <= most_channels_of_first;
}

bool pads_far(const Convolution& convolution) {
  return std::max(convolution.padding.back(), convolution.padding_end.back()) > far_padding;
}

// Of a signal that is read again for each output, which oneDNN copies for sgemm: it takes 1.2 to 4 times as long,
// except for few places, and where a stride goes over many numbers.
bool slides(const Convolution& convolution, const Sizes& weight, const Sizes& y) {
  if (!is_first(convolution, weight) || weight.size() != 3) return false;
  const int64_t stride = convolution.stride.back(), most = *weight[1].constant() <= 2 ? 2 : 1;
  return stride <= most && y[2].constant().value_or(enough_places) >= enough_places;
}

// Columns that lie side by side: a group's, or panels of 64.
int64_t panel_of(int64_t outputs) { return std::min(outputs, panel_columns); }

// Of an output's sum.
int64_t terms_of(const Sizes& weight) {
  return *std::accumulate(weight.begin() + 1, weight.end(), ir::SymInt(1), std::multiplies<>()).constant();
}

// Beyond which oneDNN is faster.
int64_t most_terms_of(const Convolution& convolution, const Sizes& weight, const Sizes& y) {
  const int64_t outputs = *weight[0].constant() / convolution.groups, panel = panel_of(outputs);
  if (slides(convolution, weight, y)) return most_terms_of_signal * panel_columns / panel;
  if (outputs > 2 * panel_columns) return most_terms;
  if (is_first(convolution, weight) && pads_far(convolution)) return most_terms_of_long * panel_columns / panel;
  return most_terms_of_two_panels;
}

// Whether it is one of a short sequence, of so many numbers in the result `y` whatever is left open.
bool is_short(const Convolution& convolution, const Sizes& weight, const Sizes& y) {
  const std::optional<std::vector<int64_t>> filter = concrete(weight, {});
  if (!filter || convolution.transposed || convolution.groups > 1 || filter->size() != 3 || filter->back() == 1)
    return false;
  const std::optional<int64_t> numbers = (y[1] * y[2]).constant();  // of one sequence
  const int64_t outputs = filter->front(), terms = terms_of(weight), all = y[0].constant().value_or(1);
  return numbers && outputs <= panel_columns && outputs * terms <= short_weight && *numbers <= short_products &&
         terms * *numbers * all <= (all == 1 ? short_products : short_products_of_several);
}

// The same of what a run is given.
struct SizesOfCall {
  Sizes weight, y;

  SizesOfCall(const Convolution& convolution, const CallSite& site) {
    const std::vector<int64_t>&filter = site.operands[static_cast<size_t>(convolution.weight)].sizes,
          &result = site.results[0].sizes;
    weight.assign(filter.begin(), filter.end());
    y.assign(result.begin(), result.end());
  }
};

bool is_short(const Convolution& convolution, const CallSite& site) {
  const SizesOfCall sizes(convolution, site);
  return is_short(convolution, sizes.weight, sizes.y);
}

// Panel by panel; in it term by term, channel by channel.
ir::BlockedLayout term_layout(const std::vector<int64_t>& sizes, int64_t groups) {
  ir::BlockedLayout layout = outputs_in_blocks(sizes, panel_of(sizes[0] / groups), 1);
  layout.padded_bytes += panel_columns * 4;  // behind the last row, what a whole vector reads of it
  return layout;
}

class FewChannelsCall : public LinesCall {
 public:
  std::vector<int64_t> taps;
  int64_t channels = 0, outputs = 0;  // of a group
  int64_t lines_a_tile = 1, line_tiles = 1, columns_a_tile = 1, column_tiles = 1;
  bool in_rows = false;         // the image, and so its strip; else channels lie side by side
  Tensor own_weight, own_bias;  // of joined pixels; else those of the call's buffers

  int64_t strip_width() const { return reach(1, std::max<int64_t>(columns_a_tile, 1)); }
  // Distances in a strip.
  int64_t column_step() const { return in_rows ? 1 : channels; }
  int64_t line_step() const { return strip_width() * column_step(); }
  int64_t channel_step() const { return in_rows ? reach(0, lines_a_tile) * line_step() : 1; }
  int64_t strip_size() const { return reach(0, lines_a_tile) * strip_width() * channels; }

  int64_t tiles() const override { return y_sizes[0] * convolution.groups * line_tiles * column_tiles; }
  int64_t workers() const override { return flops < 2 * serial_products ? 1 : std::min<int64_t>(tiles(), threads()); }
  size_t worker_bytes() const override {
    return static_cast<size_t>(divide_up(strip_size(), 16) * 16 + most_outputs * panel_columns) * sizeof(float);
  }

  // Whether image and result lie as the loops read and write them.
  bool fits(const Operand& weight) {
    channels = weight.sizes[1];
    outputs = weight.sizes[0] / convolution.groups;
    in_rows = x_strides[3] == 1;
    return (in_rows || x_strides[1] == 1 || channels == 1) && y_strides[1] == 1;
  }

  // Into tiles of so many lines; 0: as many as are good.
  void cut(int64_t lines) {
    const int64_t all = std::max<int64_t>(1, y_sizes[2]);
    const int64_t line_products = y_sizes[3] * outputs * channels * filter[0] * filter[1];
    lines_a_tile = std::max<int64_t>(1, lines);
    columns_a_tile = y_sizes[3];
    if (lines == 0) {
      // More lines where most of what one reads is read by the next one, too, and tiles are left for the threads.
      const auto is_worth_more = [&](int64_t at_once) {
        return at_once * line_products < tile_products ||
               (at_once * stride[0] < 2 * reach(0, 1) &&
                y_sizes[0] * convolution.groups * divide_up(all, at_once + 1) >= enough_tiles);
      };
      while (lines_a_tile < all && strip_size() < strip_floats && is_worth_more(lines_a_tile)) ++lines_a_tile;
      line_tiles = divide_up(all, lines_a_tile);
      lines_a_tile = divide_up(all, line_tiles);
      if (lines_a_tile == 1)
        column_tiles = std::clamp<int64_t>(enough_tiles / all, 1, 1 + line_products / (2 * tile_products));
      columns_a_tile = divide_up(y_sizes[3], column_tiles);
    }
    place_taps();
  }

  void place_taps() {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t h = 0; h < filter[0]; ++h)
        for (int64_t w = 0; w < filter[1]; ++w)
          taps.push_back(c * channel_step() + h * dilation[0] * line_step() + w * dilation[1] * column_step());
  }

  void run_lines(std::span<void* const> buffers, int64_t image, int64_t top, int64_t bottom, float* y,
                 void* scratch) const override {
    run_group(buffers, image, 0, {top, 0}, {bottom, y_sizes[3]}, y, static_cast<float*>(scratch));
  }

  // Some lines of outputs of one group, or a part of one.
  void run_tile(std::span<void* const> buffers, int64_t i, void* own) const override {
    const int64_t left = i % column_tiles * columns_a_tile, right = std::min(y_sizes[3], left + columns_a_tile);
    i /= column_tiles;
    const int64_t top = i % line_tiles * lines_a_tile, bottom = std::min(y_sizes[2], top + lines_a_tile);
    const int64_t group = i / line_tiles % convolution.groups, image = i / line_tiles / convolution.groups;
    float* y = static_cast<float*>(buffers[result]) + image * y_strides[0] + group * outputs * y_strides[1] +
               top * y_strides[2];
    run_group(buffers, image, group, {top, left}, {bottom, right}, y, static_cast<float*>(own));
  }

 private:
  // To `y`, where the first line lies. Places are lines and columns.
  void run_group(std::span<void* const> buffers, int64_t image, int64_t group, std::array<int64_t, 2> begin,
                 std::array<int64_t, 2> end, float* y, float* scratch) const {
    const auto* x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + image * x_strides[0] +
                    group * channels * x_strides[1];
    float* strip = scratch + most_outputs * panel_columns;
    copy_strip(x, begin[0] * stride[0] - padding[0], begin[1] * stride[1] - padding[1], reach(0, end[0] - begin[0]),
               strip);
    for (int64_t line = 0; line < end[0] - begin[0]; ++line)
      for (int64_t column = 0; column < outputs; column += panel_columns)
        for (int64_t first = begin[1]; first < end[1]; first += most_outputs)
          run_outputs(buffers, strip + line * stride[0] * line_step() + (first - begin[1]) * stride[1] * column_step(),
                      {image, group * outputs + column, begin[0] + line, first}, std::min(most_outputs, end[1] - first),
                      std::min(panel_columns, outputs - column),
                      y + column * y_strides[1] + line * y_strides[2] + first * y_strides[3], scratch);
  }

  // `lines` lines of the image from `top` and `start` on, with what stands left and right of it, as the strip.
  void copy_strip(const float* x, int64_t top, int64_t start, int64_t lines, float* strip) const {
    const int64_t width = strip_width(), from = std::max<int64_t>(start, 0);
    const int64_t left = std::min(from - start, width),
                  inside = std::clamp<int64_t>(x_sizes[3] - from, 0, width - left), right = width - left - inside;
    // Runs of memory: a line of a channel, or all channels of a line.
    const int64_t runs = in_rows ? channels : 1, step = column_step();
    for (int64_t c = 0; c < runs; ++c)
      for (int64_t l = 0; l < lines; ++l) {
        float* to = strip + c * channel_step() + l * line_step();
        const int64_t line = top + l;
        if (line < 0 || line >= x_sizes[2]) {
          std::fill_n(to, width * step, 0.f);
          continue;
        }
        const float* read = x + c * x_strides[1] + line * x_strides[2] + from * x_strides[3];
        to = std::fill_n(to, left * step, 0.f);
        if (in_rows || x_strides[3] == channels) {
          std::memcpy(to, read, static_cast<size_t>(inside * step) * sizeof(float));
          to += inside * step;
        } else {
          for (int64_t w = 0; w < inside; ++w, to += channels)
            for (int64_t k = 0; k < channels; ++k) to[k] = read[w * x_strides[3] + k];
        }
        std::fill_n(to, right * step, 0.f);
      }
  }

  // Outputs side by side of up to 64 channels; `at` is the first one's place, `x` where it reads.
  void run_outputs(std::span<void* const> buffers, const float* x, const std::array<int64_t, 4>& at, int64_t rows,
                   int64_t columns, float* y, float* scratch) const {
    TapsTile tile{};
    tile.x_step = stride[1] * column_step();
    tile.x = x;
    tile.taps = taps.data();
    tile.tap_count = static_cast<int64_t>(taps.size());
    const void* weight = own_weight.storage ? own_weight.data() : buffers[static_cast<size_t>(convolution.weight)];
    tile.w = static_cast<const float*>(weight) + at[1] * tile.tap_count;
    tile.w_row = panel_of(outputs);
    Step steps[most_steps];
    tile.out = tile_of_result(buffers, at, steps, scratch);
    if (own_bias.storage) tile.out.bias = own_bias.as<float>() + at[1];
    tile.out.rows = rows;
    tile.out.columns = columns;
    tile.out.y = y;
    lanes().taps(tile);
  }
};

}  // namespace

std::unique_ptr<LinesCall> prepare_lines(const CallSite& site, int64_t lines) {
  auto call = std::make_unique<FewChannelsCall>();
  call->read(site, 2);
  const Convolution& convolution = call->convolution;
  const Operand& weight = site.operands[static_cast<size_t>(convolution.weight)];
  // A column, such as a sequence with an axis more, is a line; weights stay as they are, so they are a column, too.
  if (lines == 0 && call->x_sizes[3] == 1 && call->y_sizes[3] == 1 && call->filter[1] == 1) {
    for (std::vector<int64_t>* of_image : {&call->x_sizes, &call->x_strides, &call->y_sizes, &call->y_strides})
      std::swap((*of_image)[2], (*of_image)[3]);
    for (std::vector<int64_t>& strides : call->operand_strides) std::swap(strides[2], strides[3]);
    for (std::vector<int64_t>* along : {&call->filter, &call->stride, &call->padding, &call->dilation})
      std::swap((*along)[0], (*along)[1]);
  }
  if (!call->fits(weight) || !has_plain_bias(convolution, site)) return nullptr;
  const ir::BlockedLayout layout = term_layout(weight.sizes, convolution.groups);
  if (!is_packed(weight, layout)) {
    if (!weight.weight || lines > 0 || !is_short(convolution, site)) return nullptr;
    call->own_weight = pack(weight.weight->layout ? unpack(*weight.weight) : weight.weight->tensor, layout);
    call->repacked = call->own_weight.storage->size();
    call->note = weight.weight->name + " repacked at load";
  }
  call->cut(lines);
  count_work(*call, convolution, site);
  call->detail = lanes().name;
  return call;
}

// Of a size that a run alone knows: else kernel `few_channels` has been chosen.
static bool is_short_in_a_run(const CallSite& site, const Convolution& convolution) {
  const Sizes& sizes = site.body->outputs()[0].value()->meta().sizes;
  const bool is_known = std::ranges::all_of(sizes, [](const ir::SymInt& size) { return size.is_constant(); });
  return !is_known && is_short(convolution, site) && site.results[0].sizes[1] >= fewest_outputs_of_sequences &&
         lanes_refusal(convolution.epilogue).empty();
}

std::optional<ir::BlockedLayout> short_layout(const CallSite& site, const Convolution& convolution) {
  if (!is_short_in_a_run(site, convolution) || joined_pixels(site, convolution) > 1) return std::nullopt;
  return term_layout(site.operands[static_cast<size_t>(convolution.weight)].sizes, 1);
}

std::unique_ptr<PreparedCall> prepare_short(const CallSite& site, const Convolution& convolution) {
  return is_short_in_a_run(site, convolution) ? prepare_lines(site, 0) : nullptr;
}

namespace {

// Null where pixels had best not be joined, or do not lie so, or oneDNN's joined ones are faster.
std::unique_ptr<PreparedCall> prepare_joined(const CallSite& site, const Convolution& convolution) {
  if (lies_channels_last(site.operands[static_cast<size_t>(convolution.x)]) && !pads_far(convolution) &&
      !is_short(convolution, site))
    return nullptr;
  const int64_t pixels = site.in_tile ? 1 : joined_pixels(site, convolution);
  if (pixels == 1) return nullptr;
  const JoinedPixels joined = join_pixels(site, convolution, pixels);
  auto call = std::make_unique<FewChannelsCall>();
  call->read(joined.site, 2);
  call->stride[1] = pixels;
  if (!call->fits(joined.site.operands[static_cast<size_t>(convolution.weight)])) return nullptr;
  const Tensor& weight = joined.made.at(convolution.weight);
  call->own_weight = pack(weight, term_layout(weight.sizes, 1));
  if (convolution.bias >= 0) call->own_bias = joined.made.at(convolution.bias);
  call->cut(0);
  count_work(*call, convolution, site);
  call->detail = std::string(lanes().name) + ", " + std::to_string(pixels) + " pixels joined";
  return call;
}

// Whether the result lies in rows, and kernel `line_filters` is faster there.
bool is_in_rows(const CallSite& site, const Convolution& convolution) {
  return !site.in_tile && convolution.groups == 1 && !lies_channels_last(site.results[0]) &&
         line_filters_fit(convolution, site);
}

// Why oneDNN had better run it, if it is not short; `y` is what a run, or any run, gives.
std::string drawback_of_long(const Convolution& convolution, const Sizes& weight, const Sizes& y) {
  if (convolution.groups > 1 || is_first(convolution, weight)) return "";
  const int64_t channels = *weight[1].constant(), outputs = *weight[0].constant(), terms = terms_of(weight);
  const bool is_image = y.size() == 4, is_strided = convolution.stride.back() > 1;
  const bool is_large = is_image && (y[2] * y[3]).constant().value_or(0) >= large_image;
  if (terms == channels) return "it has one tap";
  if (is_image && terms > most_taps * channels) return "oneDNN has faster ones for many taps";
  if (!is_large && y[0] != 1) return "oneDNN has faster ones for several small images, and sequences";
  const bool fills_vectors = outputs >= panel_columns || (outputs > widest_vector && outputs % widest_vector == 0);
  if (is_image && outputs <= widest_vector) return "oneDNN is faster where outputs fill one vector at most";
  return !is_strided && fills_vectors ? "oneDNN is as fast where outputs fill vectors" : "";
}

// Whether it is ours for another reason than that it is short. Images to outputs that fill two vectors at most, or that
// lie in lines of so few pixels, are oneDNN's (1.05 to 1.5 times as fast on Zen 4 and on a Xeon with AMX).
bool suits_long(const Convolution& convolution, const CallSite& site) {
  const SizesOfCall sizes(convolution, site);
  if (!drawback_of_long(convolution, sizes.weight, sizes.y).empty()) return false;
  const Operand& y = site.results[0];
  if (convolution.groups > 1 || is_first(convolution, sizes.weight) || y.sizes.size() != 4) return true;
  return y.sizes[lies_channels_last(y) ? 1 : 3] > 2 * widest_vector;
}

class FewChannels : public ConvolutionKernel {
 public:
  const char* name() const override { return "few_channels"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution); !refusal.empty()) return refusal;
    const Sizes& weight = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    if (convolution.transposed || weight.size() > 4) return "not forward, in 1 or 2 dimensions";
    const Sizes& y = body.outputs()[0].value()->meta().sizes;
    const int64_t channels = *weight[1].constant(), outputs = *weight[0].constant() / convolution.groups;
    if (terms_of(weight) > most_terms_of(convolution, weight, y) && !is_short(convolution, weight, y))
      return "its sums have many terms";
    if (convolution.groups > 1 && (channels < 2 || channels > panel_columns)) return "it has not few channels";
    if (convolution.groups > 1 && outputs > panel_columns && outputs % panel_columns != 0)
      return "outputs of its groups do not fill panels";
    return lanes_refusal(convolution.epilogue);
  }

  std::string drawback(const ir::Graph& body) const override {
    Convolution convolution;
    read_convolution(body, {}, convolution);
    const Sizes& weight = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    const int64_t outputs = *weight[0].constant() / convolution.groups;
    if (convolution.groups > 1 && weight.size() == 4) return "oneDNN has faster ones for images in groups";
    const Sizes& image = body.inputs()[static_cast<size_t>(convolution.x)]->meta().sizes;
    const Sizes& y = body.outputs()[0].value()->meta().sizes;
    if (image.back() != 1 && y.back() == 1) return "its lines have one output";
    if (!is_short(convolution, weight, y)) {
      if (std::string drawback = drawback_of_long(convolution, weight, y); !drawback.empty()) return drawback;
      if (amx() && weight.size() == 4 && *weight[1].constant() % amx_depth == 0) return "the matrix unit is faster";
    }
    const int64_t fewest =
        weight.size() == 4 && !pads_far(convolution) ? fewest_outputs_of_images : fewest_outputs_of_sequences;
    return outputs < fewest ? "its outputs do not fill vectors" : "";
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Convolution convolution;
    if (!read_convolution(*site.body, site.symbols, convolution).empty()) return std::nullopt;
    if (static_cast<int>(operand) != convolution.weight) return std::nullopt;
    if (const std::optional<ir::BlockedLayout> layout = overlapping_layout(site, operand)) return layout;
    const bool is_ours = suits_long(convolution, site);
    if (!is_ours && !is_short(convolution, site)) return onednn_convolution().weight_layout(site, operand);
    if (!site.in_tile && joined_pixels(site, convolution) > 1) return std::nullopt;  // see prepare_joined()
    if (is_ours && is_in_rows(site, convolution)) return std::nullopt;
    return term_layout(site.operands[operand].sizes, convolution.groups);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    if (std::unique_ptr<PreparedCall> call = prepare_overlapping(site)) return call;
    Convolution convolution;
    read_convolution(*site.body, site.symbols, convolution);
    const bool is_ours = suits_long(convolution, site);
    // It may have been chosen since one of several sequences is short.
    if (!is_ours && !is_short(convolution, site)) return onednn_convolution().prepare(site);
    if (std::unique_ptr<PreparedCall> call = prepare_joined(site, convolution)) return call;
    if (is_ours && is_in_rows(site, convolution))
      if (std::unique_ptr<PreparedCall> call = prepare_line_filters(site)) return call;
    if (std::unique_ptr<PreparedCall> call = prepare_lines(site, 0)) return call;
    return onednn_convolution().prepare(site);
  }
};

}  // namespace

const Kernel& few_channels() {
  static const FewChannels kernel;
  return kernel;
}

}  // namespace atenon::kernels
