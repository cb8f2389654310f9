// Convolutions by the matrix unit: where channels lie last, rows of the product are pixels of the image, some apart,
// and a tap of the window is a place from which they are counted.
//
// A thread takes some lines of outputs, of one image or several, and a run of panels: it splits what they read, zeros
// around the image included. Lines of outputs that read numbers which are not ordinary go by vectors, each by itself,
// whatever tile it is in; so do panels. A panel of the unit may lie in several blocks of the filter, as oneDNN wants
// it.
#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/amx_run.h"
#include "kernels/convolution.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_rows = 256;             // of a part of a line
constexpr int64_t most_lines = 64;             // of a tile
constexpr int64_t cached_bytes = 1024 * 1024;  // of parts and sums, where a tile could be smaller
// Of a block: the unit begins a product before it ends the last, if that is this long.
constexpr int64_t shortest_rows = 13;
// Pixels so many cache lines apart push each other out, and are laid one more apart.
constexpr int64_t crowded_lines = 8;
constexpr int64_t least_products = 512 * 1024;

// How lines of outputs become blocks of rows.
struct Cut {
  int64_t block_rows = 0, line_blocks = 0;  // of a line; or
  bool is_flat = false;                     // lines follow each other with what lies around them between, as one

  // Rows from one line to the next, and blocks of several.
  int64_t line_rows(int64_t pitch) const { return is_flat ? pitch : line_blocks * block_rows; }
  int64_t blocks(int64_t lines, int64_t width, int64_t pitch) const {
    return is_flat ? divide_up((lines - 1) * pitch + width, block_rows) : lines * line_blocks;
  }
};

Cut choose_cut(int64_t width, int64_t pitch, bool may_be_flat) {
  Cut lines;
  lines.line_blocks = divide_up(width, amx_rows);
  lines.block_rows = divide_up(width, lines.line_blocks);
  const bool is_better = lines.line_blocks * std::max(lines.block_rows, shortest_rows) > pitch;
  return may_be_flat && is_better ? Cut{amx_rows, 0, true} : lines;
}

class AmxConvolutionCall : public ConvolutionCall {
 public:
  AmxPlan plan;
  Cut cut;
  std::vector<int64_t> blocks, steps;
  std::vector<int64_t> taps;       // of the padded image in f32
  int64_t block = 0;               // outputs of a block of the filter
  std::array<int64_t, 2> image{};  // of a tile: lines, and pixels in each, that windows read
  int64_t pixel = 0;               // numbers
  int64_t images_a_tile = 1, lines_a_tile = 1, line_parts = 1;
  bool is_one_line = false;  // outputs, and what is read with them, lie as one line

  int64_t tiles() const override { return row_tiles() * plan.runs; }
  size_t worker_bytes() const override {
    return plan.bytes() + in_lines(static_cast<size_t>(terms()) * sizeof(int64_t));
  }
  void begin(void* memory) const override { AmxRoom::clear(plan, memory, workers(), worker_bytes()); }

  void run_tile(std::span<void* const> buffers, int64_t i, void* own) const override {
    AmxRoom room(plan, own);
    const Rows rows = rows_of(i / plan.runs);
    const int64_t first = i % plan.runs * plan.panels, last = std::min(first + plan.panels, panels());
    AmxRoom::Held& held = room.held();
    if (held.tile != i / plan.runs) {
      held.tile = i / plan.runs;
      held.split = {true, true};
      held.others.reset();
      for (int64_t line = 0; line < rows.images * image[0]; ++line) {
        const Split split = split_line(buffers, rows, line, room.parts());
        held.split.is_ordinary &= split.is_ordinary;
        held.split.is_first &= split.is_first;
        held.others[line] = !split.is_ordinary;
      }
    }
    const uint64_t left = multiply(buffers, rows, first, last, room);
    if (left == 0 && held.split.is_ordinary) return;
    held.tile = -1;
    auto* padded = reinterpret_cast<float*>(room.parts());  // which takes more
    pad_rows(buffers, rows, padded);
    auto* places = reinterpret_cast<int64_t*>(static_cast<char*>(own) + plan.bytes());
    for (int64_t term = 0; term < terms(); ++term)
      places[term] = taps[static_cast<size_t>(term / x_sizes[1])] + term % x_sizes[1];
    for (int64_t number = first; number < last; ++number)
      for (int64_t line = 0; line < rows.images * rows.lines; ++line)
        if (left >> (number - first) & 1 || reads_others(held, rows, line))
          multiply_by_vectors(buffers, rows, line, number, padded, places, room.sums());
  }

  // Numbers of a line, of an image and of a plane in parts, and of the rows that the last block may read behind them.
  int64_t line_numbers() const { return image[1] * pixel; }
  int64_t plane() const { return images_a_tile * image[0] * line_numbers(); }
  int64_t behind() const { return (2 * amx_rows * stride[1] + filter[1] * dilation[1]) * pixel; }
  int64_t line_tiles() const { return divide_up(y_sizes[2], lines_a_tile); }
  int64_t row_tiles() const { return divide_up(x_sizes[0], images_a_tile) * line_tiles() * line_parts; }
  int64_t panels() const { return divide_up(y_sizes[1], panel_columns); }
  int64_t terms() const { return x_sizes[1] * filter[0] * filter[1]; }  // of an output's sum

 private:
  // Some outputs: lines of images, or a part of a line.
  struct Rows {
    int64_t image, images, line, lines, column, width;
  };
  Rows rows_of(int64_t i) const {
    const int64_t part = i % line_parts, tile = i / line_parts % line_tiles(), images = i / line_parts / line_tiles();
    Rows rows{};
    rows.column = y_sizes[3] * part / line_parts;
    rows.width = y_sizes[3] * (part + 1) / line_parts - rows.column;
    rows.line = tile * lines_a_tile;
    rows.lines = std::min(lines_a_tile, y_sizes[2] - rows.line);
    rows.image = images * images_a_tile;
    rows.images = std::min(images_a_tile, x_sizes[0] - rows.image);
    return rows;
  }

  // Line i of what rows read: where its pixels are in x, how many there are, and the zeros before and behind them.
  struct Line {
    const float* from;
    int64_t before, pixels, after;
  };
  Line line_of(std::span<void* const> buffers, const Rows& rows, int64_t i) const {
    const int64_t number = rows.image + i / image[0], line = rows.line * stride[0] + i % image[0] - padding[0],
                  column = rows.column * stride[1] - padding[1];
    if (line < 0 || line >= x_sizes[2]) return {nullptr, image[1], 0, 0};
    const int64_t before = std::clamp<int64_t>(-column, 0, image[1]), from = column + before,
                  pixels = std::clamp<int64_t>(x_sizes[3] - from, 0, image[1] - before);
    return {static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + number * x_strides[0] +
                line * x_strides[2] + from * x_strides[3],
            before, pixels, image[1] - before - pixels};
  }

  Split split_line(std::span<void* const> buffers, const Rows& rows, int64_t i, uint16_t* parts) const {
    const Line line = line_of(buffers, rows, i);
    uint16_t* to = parts + i * line_numbers();
    for (int64_t part = 0; part < part_count; ++part) {
      std::fill_n(to + part * plane(), line.before * pixel, uint16_t{0});
      std::fill_n(to + part * plane() + (line.before + line.pixels) * pixel, line.after * pixel, uint16_t{0});
    }
    return amx()->split_rows({.from = line.from,
                              .from_row = x_strides[3],
                              .rows = line.pixels,
                              .k = x_sizes[1],
                              .to = to + line.before * pixel,
                              .to_row = pixel,
                              .plane = plane()});
  }

  // Where in the tile begins what a line of its outputs reads, counted image by image; and whether not all of that is
  // ordinary.
  int64_t first_read(const Rows& rows, int64_t line) const {
    return line / rows.lines * image[0] + line % rows.lines * stride[0];
  }
  bool reads_others(const AmxRoom::Held& held, const Rows& rows, int64_t line) const {
    bool found = false;
    for (int64_t tap = 0; tap < filter[0]; ++tap)
      found |= held.others[static_cast<size_t>(first_read(rows, line) + tap * dilation[0])];
    return found;
  }

  // Gives the panels that are left to vectors, as bits.
  uint64_t multiply(std::span<void* const> buffers, const Rows& rows, int64_t first, int64_t last, AmxRoom room) const {
    const int64_t image_blocks = cut.blocks(rows.lines, rows.width, image[1]);
    const AmxTile tile{.a = room.parts(),
                       .a_row = stride[1] * pixel,
                       .a_plane = plane(),
                       .blocks = blocks.data(),
                       .block_count = rows.images * image_blocks,
                       .block_rows = cut.block_rows,
                       .steps = steps.data()};
    const auto stretch_of = [&](int64_t number, float*, PanelInParts& panel) {
      panel.from = buffers[static_cast<size_t>(convolution.weight)];
      panel.row = block;
      for (int64_t& vector : panel.vectors)
        vector = place_in_filter(number * panel_columns + (&vector - panel.vectors) * widest_vector);
      panel.run = x_sizes[1];
      panel.filled_run = divide_up(x_sizes[1], amx_depth) * amx_depth;
    };
    const auto finish = [&](int64_t number, float* sums) {
      const int64_t pitch = cut.line_rows(image[1]), image_rows = image_blocks * cut.block_rows;
      const bool is_whole = is_one_line && pitch == rows.width && line_parts == 1 && room.held().split.is_ordinary;
      for (int64_t line = 0; line < rows.images * rows.lines; line += is_whole ? rows.lines : 1) {
        if (!is_whole && reads_others(room.held(), rows, line)) continue;
        const int64_t row = line / rows.lines * image_rows + line % rows.lines * pitch;
        Step epilogue[most_steps];
        PanelTile out =
            tile_of_result(buffers, place_of(rows, line, number * panel_columns), epilogue, sums + row * panel_columns);
        out.rows = is_whole ? rows.lines * rows.width : rows.width;
        lanes().finish(out);
      }
    };
    return multiply_run(plan, tile, first, last, y_sizes[1], room, stretch_of, finish);
  }

  // Of a line of outputs and a channel, in the result.
  std::array<int64_t, 4> place_of(const Rows& rows, int64_t line, int64_t channel) const {
    return {rows.image + line / rows.lines, channel, rows.line + line % rows.lines, rows.column};
  }

  // Of the vector that begins with an output, or the last one that is there.
  int64_t place_in_filter(int64_t output) const {
    const int64_t there = std::min(output, divide_up(y_sizes[1], block) * block - widest_vector);
    return there / block * block * terms() + there % block;
  }

  void pad_rows(std::span<void* const> buffers, const Rows& rows, float* to) const {
    const int64_t channels = x_sizes[1];
    for (int64_t i = 0; i < rows.images * image[0]; ++i) {
      const Line line = line_of(buffers, rows, i);
      to = std::fill_n(to, line.before * channels, 0.f);
      for (int64_t at = 0; at < line.pixels; ++at) to = std::copy_n(line.from + at * x_strides[3], channels, to);
      to = std::fill_n(to, line.after * channels, 0.f);
    }
  }

  void multiply_by_vectors(std::span<void* const> buffers, const Rows& rows, int64_t line, int64_t panel,
                           const float* padded, const int64_t* places, float* sums) const {
    const auto* weight = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]);
    const int64_t first = panel * panel_columns, last = std::min(first + panel_columns, y_sizes[1]);
    for (int64_t output = first; output < last; output += widest_vector) {
      Step epilogue[most_steps];
      TapsTile tile{.x = padded + first_read(rows, line) * image[1] * x_sizes[1],
                    .x_step = stride[1] * x_sizes[1],
                    .taps = places,
                    .tap_count = terms(),
                    .w = weight + place_in_filter(output),
                    .w_row = block,
                    .out = tile_of_result(buffers, place_of(rows, line, output), epilogue, sums)};
      tile.out.columns = std::min(widest_vector, last - output);
      tile.out.rows = rows.width;
      lanes().taps(tile);
    }
  }
};

// Whether operands lie as this reads them, weights aside.
bool fits(const ConvolutionSizes& sizes, const CallSite& site) {
  const Convolution& convolution = sizes.convolution;
  return !convolution.transposed && convolution.groups == 1 &&
         lies_channels_last(site.operands[static_cast<size_t>(convolution.x)]) && lies_channels_last(site.results[0]) &&
         has_plain_bias(convolution, site) && lanes_refusal(convolution.epilogue).empty();
}

// Cuts a call into tiles so that it takes the least time.
void choose_tiles(AmxConvolutionCall& call, int threads) {
  const int64_t channels = call.x_sizes[1], outputs = call.y_sizes[1], images = call.x_sizes[0],
                height = call.y_sizes[2], width = call.y_sizes[3], taps = call.filter[0] * call.filter[1],
                steps_of_pixel = divide_up(channels, amx_depth);
  call.pixel = (steps_of_pixel >= crowded_lines ? steps_of_pixel | 1 : steps_of_pixel) * amx_depth;
  call.line_parts = divide_up(width, most_rows);
  const int64_t part = divide_up(width, call.line_parts);
  call.image[1] = call.reach(1, part);
  call.cut = choose_cut(part, call.image[1], call.stride[0] == 1 && call.stride[1] == 1 && call.line_parts == 1);
  // Some lines of an image, or all of some images.
  const auto consider = [&](int64_t lines, int64_t some_images) {
    const int64_t read = call.reach(0, lines), numbers = some_images * read * call.image[1] * call.pixel,
                  blocks = some_images * call.cut.blocks(lines, part, call.image[1]),
                  tiles = divide_up(images, some_images) * divide_up(height, lines) * call.line_parts;
    const bool is_least = lines == 1 && some_images == 1;
    const int64_t bytes = numbers * part_bytes,
                  sum_bytes = blocks * call.cut.block_rows * panel_columns * static_cast<int64_t>(sizeof(float));
    if (bytes > most_parts_bytes || some_images * read > static_cast<int64_t>(AmxRoom::most_lines)) return;
    if (bytes + sum_bytes > cached_bytes && !is_least) return;
    const AmxTiles cut{tiles, blocks, call.cut.block_rows, numbers};
    const AmxPlan plan = AmxPlan::make(PanelNumbers::f32, taps * steps_of_pixel, outputs, cut, threads);
    if (call.lines_a_tile > 0 && plan.cycles >= call.plan.cycles) return;
    call.lines_a_tile = lines, call.images_a_tile = some_images, call.image[0] = read, call.plan = plan;
  };
  call.lines_a_tile = 0;
  for (int64_t lines = std::min(height, most_lines); lines > 0; --lines)
    if (lines == divide_up(height, divide_up(height, lines))) consider(lines, 1);  // of tiles as large as each other
  if (call.line_parts == 1)
    for (int64_t some = 2; some <= std::min(images, most_rows / std::max<int64_t>(1, height)); ++some)
      consider(height, some);
}

// Of a filter in windows_in_blocks; 0: it lies otherwise.
int64_t outputs_of_block(const Operand& weight) {
  for (int64_t outputs = widest_vector; outputs <= panel_columns; outputs += widest_vector)
    if (is_packed(weight, windows_in_blocks(weight.sizes, outputs))) return outputs;
  return 0;
}

// The call, cut; null where there is no unit or vectors are faster, or the filter lies otherwise.
std::unique_ptr<AmxConvolutionCall> make_call(const CallSite& site) {
  if (!amx() || site.in_tile || site.results[0].sizes.size() > 4) return nullptr;
  auto call = std::make_unique<AmxConvolutionCall>();
  call->read(site, 2);
  call->block = outputs_of_block(site.operands[static_cast<size_t>(call->convolution.weight)]);
  if (call->block == 0) return nullptr;
  const int64_t rows = call->x_sizes[0] * call->y_sizes[2] * call->y_sizes[3],
                k = call->x_sizes[1] * call->filter[0] * call->filter[1], outputs = call->y_sizes[1];
  if (!fits(*call, site) || rows * k * outputs < least_products) return nullptr;
  choose_tiles(*call, decided_threads);
  if (call->lines_a_tile == 0 || !call->plan.is_worth_it(rows, k, outputs)) return nullptr;
  if (site.threads != decided_threads) choose_tiles(*call, site.threads);
  return call;
}

}  // namespace

std::unique_ptr<PreparedCall> prepare_amx_convolution(const CallSite& site) {
  std::unique_ptr<AmxConvolutionCall> call = make_call(site);
  if (!call) return nullptr;
  const auto is_line = [&](const std::vector<int64_t>& strides) {
    return call->y_sizes[2] == 1 || strides[2] == strides[3] * call->y_sizes[3];
  };
  call->is_one_line =
      is_line(call->y_strides) && std::all_of(call->operand_strides.begin(), call->operand_strides.end(), is_line);
  const int64_t channels = call->x_sizes[1], width = divide_up(call->y_sizes[3], call->line_parts);
  for (int64_t i = 0; i < call->filter[0]; ++i)
    for (int64_t j = 0; j < call->filter[1]; ++j) {
      const int64_t pixels = i * call->dilation[0] * call->image[1] + j * call->dilation[1];
      call->taps.push_back(pixels * channels);
      for (int64_t c = 0; c < channels; c += amx_depth) call->steps.push_back(pixels * call->pixel + c);
    }
  const int64_t image_blocks = call->cut.blocks(call->lines_a_tile, width, call->image[1]);
  for (int64_t i = 0; i < call->images_a_tile; ++i)
    for (int64_t block = 0; block < image_blocks; ++block) {
      const int64_t across = call->cut.is_flat ? block : block % call->cut.line_blocks,
                    down = call->cut.is_flat ? 0 : block / call->cut.line_blocks;
      call->blocks.push_back((i * call->image[0] + down * call->stride[0]) * call->line_numbers() +
                             across * call->cut.block_rows * call->stride[1] * call->pixel);
    }
  // So that all images of a tile have as many blocks.
  assert(call->images_a_tile == 1 || call->lines_a_tile == call->y_sizes[2]);
  call->plan.part_numbers = part_count * call->plane() + call->behind();
  count_work(*call, call->convolution, site);
  call->detail = "amx";
  return call;
}

}  // namespace atenon::kernels
