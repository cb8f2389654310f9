// Bilinear resizing of images: upsample_bilinear2d, in rows or channels last.
//
// Two lines of the image are blended into one, and then its neighbours into a line of the result. Where the result lies
// otherwise than the image, as at the end of a network, the lines that a tile needs are copied first in the result's
// order, so that both steps work on neighbours.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t tile_elements = 32 * 1024;  // of the result
constexpr int64_t most_copied = 64 * 1024;    // elements of the image that a tile copies, if it has more than one line
constexpr int64_t line_alignment = 16;
constexpr int64_t fewest_channels = 8;  // side by side
constexpr int64_t most_pixels = 16;     // whose epilogue is done at once

int64_t padded(int64_t floats) { return divide_up(floats, line_alignment) * line_alignment; }

struct Resize {
  int x = -1;
  bool corners = false;
  std::array<double, 2> scales{};  // 0: by the sizes
  std::vector<PostOp> epilogue;
};

std::string read_resize(const ir::Graph& body, const shape::Bindings& symbols, Resize& found) {
  if (body.size() == 0) return "needs a node";
  const ir::Node& node = *body.forward().begin();
  if (name_without_overload(node.target()) != "aten::upsample_bilinear2d") return node.target() + " is no resizing";
  const Arguments arguments(node, symbols);
  const ir::Value* x = arguments.tensor(0, "input");
  if (!x || x->producer || x->meta().dtype != ScalarType::f32) return "needs an f32 tensor";
  found.x = x->index;
  const std::optional<bool> corners = arguments.boolean(2, "align_corners", false);
  if (!corners) return "whether corners are aligned is symbolic";
  found.corners = *corners;
  if (const ir::Argument* scales = arguments.find(3, "scale_factors")) {
    if (!scales->is<ir::ArgumentList>() || scales->get<ir::ArgumentList>().size() != 2)
      return "needs two scale factors";
    for (size_t axis = 0; axis < 2; ++axis) {
      const std::optional<double> scale = number_of(scales->get<ir::ArgumentList>()[axis], symbols);
      if (!scale || !(*scale > 0)) return "a scale factor is symbolic";
      found.scales[axis] = *scale;
    }
  }
  return read_epilogue(body, node.result(0), 1, false, symbols, found.epilogue);
}

// Along one axis, where each element of the result lies: between place and place + 1, nearer to the latter the larger
// its weight. Both go on for a vector behind the end.
struct Places {
  std::vector<int32_t> place;
  std::vector<float> weight;
};

// As PyTorch does, in f32.
Places make_places(int64_t from, int64_t to, bool corners, double scale) {
  Places places;
  const auto ratio =
      static_cast<float>(corners ? to == 1 ? 0. : static_cast<double>(from - 1) / static_cast<double>(to - 1)
                         : scale > 0 && from != to ? 1 / scale
                                                   : static_cast<double>(from) / static_cast<double>(to));
  for (int64_t i = 0; i < to; ++i) {
    const auto number = static_cast<float>(i);
    const float at = std::max(0.f, corners ? ratio * number : ratio * (number + 0.5f) - 0.5f);
    const float low = std::min(std::floor(at), static_cast<float>(from - 1));
    places.place.push_back(static_cast<int32_t>(low));
    places.weight.push_back(at - low);
  }
  places.place.insert(places.place.end(), widest_vector, places.place.back());
  places.weight.insert(places.weight.end(), widest_vector, 0.f);
  return places;
}

class BilinearCall : public TiledCall {
 public:
  Resize resize;
  std::vector<int64_t> x_sizes, x_strides, y_sizes, y_strides;
  std::vector<std::vector<int64_t>> operand_strides;  // of the epilogue's steps
  Places lines, columns;
  int64_t lines_a_tile = 1, line_tiles = 1;
  size_t result = 0;
  bool in_rows = false;    // the result; else its channels lie side by side
  bool is_copied = false;  // the image lies otherwise

  int64_t channels() const { return y_sizes[1]; }
  int64_t x_width() const { return x_sizes[3]; }
  // Lines of the image that lines [top, bottom) of the result are made of.
  int64_t first_line(int64_t top) const { return lines.place[static_cast<size_t>(top)]; }
  int64_t last_line(int64_t bottom) const {
    return std::min<int64_t>(lines.place[static_cast<size_t>(bottom - 1)] + 1, x_sizes[2] - 1);
  }
  int64_t most_lines() const {
    int64_t most = 0;
    for (int64_t top = 0; top < y_sizes[2]; top += lines_a_tile)
      most = std::max(most, last_line(std::min(y_sizes[2], top + lines_a_tile)) - first_line(top) + 1);
    return most;
  }
  // Floats of a blended line and what is read behind it.
  int64_t line_floats() const {
    return in_rows ? padded(x_width() + 1 + widest_vector) : padded((x_width() + 1) * channels());
  }
  int64_t copied_floats() const { return is_copied ? padded(most_lines() * x_width() * channels()) : 0; }
  int64_t tiles() const override { return y_sizes[0] * line_tiles; }
  size_t worker_bytes() const override {
    return static_cast<size_t>(copied_floats() + line_floats() + most_pixels * panel_columns) * sizeof(float);
  }

 private:
  // Lines of the image: `channel` and `line` are distances; channels last, a line's pixels follow each other.
  struct Image {
    const float* at;
    int64_t channel, line;
  };

  void run_tile(std::span<void* const> buffers, int64_t i, void* own) const override {
    auto* scratch = static_cast<float*>(own);
    const int64_t image = i / line_tiles, top = i % line_tiles * lines_a_tile;
    const int64_t bottom = std::min(y_sizes[2], top + lines_a_tile), first = first_line(top);
    const float* x =
        static_cast<const float*>(buffers[static_cast<size_t>(resize.x)]) + image * x_strides[0] + first * x_strides[2];
    Image from{x, x_strides[1], x_strides[2]};
    if (is_copied) {
      const int64_t count = last_line(bottom) - first + 1;
      from = in_rows ? Image{scratch, count * x_width(), x_width()} : Image{scratch, 1, x_width() * channels()};
      const int64_t column = in_rows ? 1 : channels();
      for (int64_t line = 0; line < count; ++line)
        for (int64_t w = 0; w < x_width(); ++w)
          for (int64_t c = 0; c < channels(); ++c)
            scratch[c * from.channel + line * from.line + w * column] =
                x[c * x_strides[1] + line * x_strides[2] + w * x_strides[3]];
    }
    float* line = scratch + copied_floats();
    for (int64_t y = top; y < bottom; ++y) {
      const int64_t low = lines.place[static_cast<size_t>(y)], high = std::min<int64_t>(low + 1, x_sizes[2] - 1);
      const float* a = from.at + (low - first) * from.line;
      const float* b = from.at + (high - first) * from.line;
      const float weight = lines.weight[static_cast<size_t>(y)];
      if (in_rows) {
        for (int64_t c = 0; c < channels(); ++c) {
          lanes().blend(a + c * from.channel, b + c * from.channel, weight, x_width(), line);
          line[x_width()] = line[x_width() - 1];
          run_row(buffers, {image, c, y, 0}, line, scratch);
        }
      } else {
        const int64_t floats = x_width() * channels();
        lanes().blend(a, b, weight, floats, line);
        std::copy_n(line + floats - channels(), channels(), line + floats);
        run_pixels(buffers, {image, 0, y, 0}, line, scratch);
      }
    }
  }

  using At = std::array<int64_t, 4>;

  float* place(std::span<void* const> buffers, const At& at) const {
    return static_cast<float*>(buffers[result]) +
           std::inner_product(at.begin(), at.end(), y_strides.begin(), int64_t{0});
  }

  // A row of one channel of the result.
  void run_row(std::span<void* const> buffers, At at, const float* line, float* scratch) const {
    if (resize.epilogue.empty())
      return lanes().blend_places(line, columns.place.data(), columns.weight.data(), y_sizes[3], place(buffers, at));
    float* values = scratch + copied_floats() + line_floats();
    for (; at[3] < y_sizes[3]; at[3] += panel_columns) {
      const int64_t count = std::min(panel_columns, y_sizes[3] - at[3]);
      lanes().blend_places(line, columns.place.data() + at[3], columns.weight.data() + at[3], count, values);
      finish(buffers, at, 3, 1, count, values);
    }
  }

  // A line of pixels of the result.
  void run_pixels(std::span<void* const> buffers, At at, const float* line, float* scratch) const {
    const auto run_pixel = [&](int64_t w, int64_t channel, int64_t count, float* y) {
      const float* pixel = line + columns.place[static_cast<size_t>(w)] * channels() + channel;
      lanes().blend(pixel, pixel + channels(), columns.weight[static_cast<size_t>(w)], count, y);
    };
    if (resize.epilogue.empty()) {
      for (; at[3] < y_sizes[3]; ++at[3]) run_pixel(at[3], 0, channels(), place(buffers, at));
      return;
    }
    float* values = scratch + copied_floats() + line_floats();
    for (; at[3] < y_sizes[3]; at[3] += most_pixels)
      for (at[1] = 0; at[1] < channels(); at[1] += panel_columns) {
        const int64_t pixels = std::min(most_pixels, y_sizes[3] - at[3]),
                      count = std::min(panel_columns, channels() - at[1]);
        for (int64_t i = 0; i < pixels; ++i) run_pixel(at[3] + i, at[1], count, values + i * panel_columns);
        finish(buffers, at, 1, pixels, count, values);
      }
  }

  // The epilogue of some pixels and some neighbours of each along an axis.
  void finish(std::span<void* const> buffers, const At& at, size_t axis, int64_t pixels, int64_t count,
              float* values) const {
    Step steps[most_steps];
    for (size_t s = 0; s < resize.epilogue.size(); ++s) {
      const std::vector<int64_t>& strides = operand_strides[s];
      const int64_t offset = std::inner_product(at.begin(), at.end(), strides.begin(), int64_t{0});
      steps[s] = make_step(resize.epilogue[s], buffers, offset, strides[3], strides[axis]);
    }
    PanelTile out{};
    out.rows = pixels;
    out.columns = count;
    out.steps = steps;
    out.step_count = static_cast<int64_t>(resize.epilogue.size());
    out.y = place(buffers, at);
    out.y_row = y_strides[3];
    out.scratch = values;
    lanes().finish(out);
  }
};

// A step along an axis of one element means nothing.
int64_t step(const Operand& operand, size_t axis, int64_t fallback) {
  return operand.sizes[axis] == 1 ? fallback : operand.strides[axis];
}

class Bilinear : public Kernel {
 public:
  const char* name() const override { return "bilinear"; }

  std::string refusal(const ir::Graph& body) const override {
    Resize resize;
    if (std::string refusal = read_resize(body, {}, resize); !refusal.empty()) return refusal;
    return lanes_refusal(resize.epilogue);
  }

  // Few channels, such as classes of pixels, fill no vector: pixels do, in rows.
  bool keeps_order(const ir::Graph& body) const override {
    return body.outputs()[0].value()->meta().sizes[1].constant().value_or(fewest_channels) >= fewest_channels;
  }

  bool writes_along(size_t axis, size_t) const override { return axis == 1 || axis == 3; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<BilinearCall>();
    Resize& resize = call->resize;
    [[maybe_unused]] std::string refusal = read_resize(*site.body, site.symbols, resize);
    assert(refusal.empty());
    const Operand &x = site.operands[static_cast<size_t>(resize.x)], &y = site.results[0];
    const int64_t channels = y.sizes[1];
    call->in_rows = step(y, 3, 1) == 1;
    // An image of nothing, and a result in an order that nobody asks for: the meaning says what they are.
    if (count(x.sizes) == 0 || (!call->in_rows && step(y, 1, 1) != 1)) return reference_kernel().prepare(site);
    call->is_copied = call->in_rows ? step(x, 3, 1) != 1 : step(x, 1, 1) != 1 || step(x, 3, channels) != channels;
    call->x_sizes = x.sizes;
    call->x_strides = x.strides;
    call->y_sizes = y.sizes;
    call->y_strides = y.strides;
    call->operand_strides = operand_strides(resize.epilogue, site);
    call->lines = make_places(x.sizes[2], y.sizes[2], resize.corners, resize.scales[0]);
    call->columns = make_places(x.sizes[3], y.sizes[3], resize.corners, resize.scales[1]);
    call->result = site.operands.size();
    const int64_t line = channels * y.sizes[3];
    call->lines_a_tile = std::clamp<int64_t>(tile_elements / line, 1, y.sizes[2]);
    while (call->lines_a_tile > 1 && call->copied_floats() > most_copied) call->lines_a_tile /= 2;
    call->line_tiles = divide_up(y.sizes[2], call->lines_a_tile);
    call->bytes = 4 * (count(x.sizes) + count(y.sizes));
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& bilinear() {
  static const Bilinear kernel;
  return kernel;
}

}  // namespace atenon::kernels
