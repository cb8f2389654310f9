// The widening of a mobile network strip by strip of the image: a pointwise convolution, or the network's first one,
// the depthwise one behind it and, where there is one, the pointwise one that narrows again. What lies between, the
// largest tensors of such a network, so stays in a core's second-level cache.
//
// Each part runs by the kernel that takes it alone, at the sizes of a strip; rows at the border of two strips are
// computed for both.
#include <array>
#include <cassert>
#include <cstring>

#include "kernels/convolution.h"
#include "kernels/few_channels.h"
#include "kernels/list.h"
#include "kernels/onednn.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t strip_bytes = 1 << 20;  // of the wide tensor, at most: less means more rows that are computed twice
constexpr int64_t least_bytes = 1 << 20;  // of the whole of it: less stays in the cache anyway
// Of the terms of a sum of the first convolution, times the share of its rows that are computed again: more takes
// longer than the wide tensor does on its way through memory (measured at 18: the same, at 58 to 165: 1.1 to 1.45
// times).
constexpr int64_t most_again = 30;
constexpr size_t most_buffers = 24;  // of a part: its inputs and the result

// A convolution with its epilogue, cut out of a body.
struct Part {
  ir::Graph body;
  std::vector<int> inputs;  // of the whole body, one an input of this one; -1: the result of the part before
  Convolution convolution;
  const Kernel* kernel = &onednn_convolution();

  bool is_first() const { return kernel == &few_channels(); }  // of a network
  const std::vector<ir::SymInt>& filter() const {
    return body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
  }
  // Whether an input is added to the result, or the like, element by element: it is cut into strips as the result is.
  bool is_image(size_t input) const {
    const std::vector<PostOp>& steps = convolution.epilogue;
    return std::any_of(steps.begin(), steps.end(),
                       [&](const PostOp& step) { return step.is_binary() && step.operand == static_cast<int>(input); });
  }
};

// How many rows of the result a strip is, and how many there are, where a row of the wide tensor has `row` numbers.
struct Cut {
  int64_t window, stride, strip, strips;
  Cut(int64_t row, int64_t y_rows, int64_t window, int64_t stride) : window(window), stride(stride) {
    const int64_t fitting = std::max<int64_t>(1, (strip_bytes / 4 / std::max<int64_t>(1, row) - window) / stride + 1);
    strips = divide_up(divide_up(y_rows, fitting), 4) * 4;  // so that threads finish together
    strip = strips == 0 ? 1 : divide_up(y_rows, strips);
    strips = divide_up(y_rows, strip);
  }
  int64_t window_rows(int64_t outputs) const { return (outputs - 1) * stride + window; }
  int64_t rows() const { return strips * window_rows(strip); }  // of the wide tensor that are computed
};

using Parts = std::vector<Part>;  // widening, depthwise, perhaps narrowing

// Nodes [first, last) as a body of their own, whose first input is `before` if that is not null. Returns the result.
const ir::Value* cut_out(const ir::Graph& whole, int first, int last, const ir::Value* before, Part& part) {
  std::map<const ir::Value*, ir::Value*> inner;
  const auto add_input = [&](const ir::Value* value) {
    if (inner.contains(value)) return;
    inner[value] = part.body.add_input(value->name, value->type);
    part.inputs.push_back(value == before ? -1 : value->index);
  };
  if (before) add_input(before);
  const auto replace = [&](ir::Value* value) {
    if (!value->producer) add_input(value);
    return ir::Argument(inner.at(value));
  };
  const ir::Value* result = nullptr;
  int position = 0;
  for (const ir::Node& node : whole.forward()) {
    const int at = position++;
    if (at < first || at >= last) continue;
    result = node.result();
    const ir::Node* copy = part.body.add_copy(node, replace);
    inner[result] = copy->result();
    part.body.set_outputs({copy->result()});
  }
  return result;
}

Cut cut_of(const Parts& parts, int64_t y_rows) {
  const std::vector<ir::SymInt>& wide = parts[1].body.inputs()[0]->meta().sizes;
  return Cut(*wide[1].constant() * *wide[3].constant(), y_rows, *parts[1].filter()[2].constant(),
             parts[1].convolution.stride[0]);
}

bool is_pointwise(const Part& part) { return is_pointwise(part.convolution, part.filter()); }

// "" and `found`, or why the body is no such chain.
std::string read_parts(const ir::Graph& body, Parts& found) {
  std::vector<int> begins;
  std::vector<const ir::Value*> results;
  std::map<const ir::Node*, int> positions;
  for (const ir::Node& node : body.forward()) {
    if (node.results().size() != 1) return "a node has several results";
    positions[&node] = static_cast<int>(results.size());
    if (is_convolution(node)) begins.push_back(static_cast<int>(results.size()));
    results.push_back(node.result());
  }
  if (begins.size() < 2 || begins.size() > 3 || begins[0] != 0) return "no two or three convolutions in it";
  if (body.outputs().size() != 1 || body.outputs()[0].value() != results.back())
    return "something else is read outside";
  begins.push_back(static_cast<int>(results.size()));
  const ir::Value* before = nullptr;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    if (before && before->users.size() != 1) return "something else is read outside";
    Part& part = found.emplace_back();
    for (int at = begins[i]; at + 1 < begins[i + 1]; ++at)
      for (const ir::Node* user : results[static_cast<size_t>(at)]->users)
        if (positions.at(user) >= begins[i + 1]) return "something else is read outside";
    before = cut_out(body, begins[i], begins[i + 1], before, part);
    if (part.inputs.size() >= most_buffers) return "the chain behind it is too long";
    if (std::string refusal = read_convolution(part.body, {}, part.convolution); !refusal.empty()) return refusal;
    if (part.convolution.transposed || part.convolution.stride.size() != 2) return "no image, or transposed";
    if (i > 0 && part.convolution.x != 0) return "the second convolution reads something else";
    for (const PostOp& step : part.convolution.epilogue)
      if (step.is_binary() && (i < 2 || part.body.inputs()[static_cast<size_t>(step.operand)]->type != before->type))
        return "a step behind a convolution reads another tensor";
  }
  const Part& filter = found[1];
  const Convolution& depthwise = filter.convolution;
  const ir::TensorMeta& wide = filter.body.inputs()[0]->meta();
  if (!is_pointwise(found[0])) {
    if (found[0].convolution.groups != 1 || *found[0].filter()[1].constant() > most_channels_of_first ||
        !few_channels().refusal(found[0].body).empty())
      return "the first convolution is not pointwise, nor a network's first";
    found[0].kernel = &few_channels();
  }
  for (Part& part : found)  // as they would run alone
    if (is_pointwise(part) && objection(panels(), part.body).empty()) part.kernel = &panels();
  if (filter.filter()[1] != ir::SymInt(1) || filter.filter()[0] != ir::SymInt(depthwise.groups) ||
      wide.sizes[1] != filter.filter()[0] || depthwise.dilation != std::vector<int64_t>{1, 1} ||
      depthwise.padding != depthwise.padding_end)
    return "the second convolution is not depthwise";
  if (objection(kernels::depthwise(), filter.body).empty()) found[1].kernel = &kernels::depthwise();
  if (found.size() > 2 && !is_pointwise(found[2])) return "the third convolution is not pointwise";
  if (!wide.sizes[2].constant() || !wide.sizes[3].constant()) return "the size of the image is not known";
  return "";
}

// Why the parts had better run one after the other, if so.
std::string drawback_of(const Parts& parts, const ir::TensorMeta& y) {
  const ir::TensorMeta& wide = parts[1].body.inputs()[0]->meta();
  if (4 * *(wide.sizes[1] * wide.sizes[2] * wide.sizes[3]).constant() < least_bytes)
    return "what lies between fits into the cache";
  if (parts[0].is_first()) return few_channels().drawback(parts[0].body);
  const int64_t rows = *wide.sizes[2].constant(), again = cut_of(parts, *y.sizes[2].constant()).rows() - rows;
  return again * *parts[0].filter()[1].constant() > most_again * rows
             ? "rows that two strips compute take longer than they spare"
             : "";
}

int x_of(const Parts& parts) { return parts[0].inputs[static_cast<size_t>(parts[0].convolution.x)]; }

Operand image(std::vector<int64_t> sizes) {
  const int64_t channels = sizes[1], columns = sizes[3], pixels = sizes[2] * columns;
  return {ScalarType::f32, std::move(sizes), {pixels * channels, 1, columns * channels, channels}};
}

// A strip counts rows of the result.
struct Plan : Cut {
  int64_t batch, channels;         // of the wide tensor
  int64_t x_rows, x_columns;       // of the input
  int64_t rows, columns;           // of the wide tensor
  int64_t y_rows, y_columns;       // of the result
  int64_t x_channels, y_channels;  // of the input and of the result
  int64_t padding;

  Plan(const Parts& parts, const CallSite& site) : Cut(cut_of(parts, site.results[0].sizes[2])) {
    const std::vector<int64_t>&x = site.operands[static_cast<size_t>(x_of(parts))].sizes, &y = site.results[0].sizes;
    batch = x[0], x_channels = x[1], x_rows = x[2], x_columns = x[3];
    const std::vector<ir::SymInt>& wide = parts[1].body.inputs()[0]->meta().sizes;
    rows = *wide[2].constant(), columns = *wide[3].constant();
    y_channels = y[1], y_rows = y[2], y_columns = y[3];
    const Convolution& filter = parts[1].convolution;
    channels = filter.groups;
    padding = filter.padding[0];
  }

  int64_t outputs(int64_t i) const { return std::min(strip, y_rows - i * strip); }
  // The first row that strip i reads, and that behind its last one, in the image and beyond it.
  int64_t begin(int64_t i) const { return i * strip * stride - padding; }
  int64_t end(int64_t i) const { return begin(i) + window_rows(outputs(i)); }
  int64_t first(int64_t i) const { return std::max<int64_t>(begin(i), 0); }
  int64_t last(int64_t i) const { return std::max(first(i), std::min(end(i), rows)); }

  // What a part takes, if it is pointwise or depthwise, and gives for so many rows of its result.
  Operand x_of_part(size_t part, int64_t n, int64_t count) const {
    if (part == 0) return image({n, x_channels, count, columns});
    if (part == 1) return image({n, channels, window_rows(count), columns});
    return image({n, channels, count, y_columns});
  }
  Operand y_of_part(size_t part, size_t parts, int64_t n, int64_t count) const {
    if (part == 0) return image({n, channels, count, columns});
    return image({n, part + 1 == parts ? y_channels : channels, count, y_columns});
  }
};

CallSite site_of(const Part& part, const CallSite& whole, const Operand& x, const Operand& y) {
  CallSite site;
  site.body = &part.body;
  site.annotations = whole.annotations;
  site.symbols = whole.symbols;
  site.threads = 1;
  site.in_tile = true;
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    const bool is_strip = part.is_image(i);
    site.operands.push_back(is_strip             ? y
                            : part.inputs[i] < 0 ? x
                                                 : whole.operands[static_cast<size_t>(part.inputs[i])]);
  }
  site.operands[static_cast<size_t>(part.convolution.x)] = x;
  site.results = {y};
  return site;
}

// For `rows` rows of a part's result; a network's first convolution reads the whole image.
CallSite site_of(const Parts& parts, size_t i, const CallSite& whole, const Plan& plan, int64_t rows) {
  if (parts[i].is_first())
    return site_of(parts[i], whole, whole.operands[static_cast<size_t>(x_of(parts))],
                   plan.y_of_part(i, parts.size(), plan.batch, plan.rows));
  return site_of(parts[i], whole, plan.x_of_part(i, 1, rows), plan.y_of_part(i, parts.size(), 1, rows));
}

// The depthwise convolution over strips that hold the rows of zeros around the image.
void leave_out_row_padding(Part& filter) {
  ir::Node& node = *filter.body.forward().begin();
  std::vector<ir::Argument> arguments = node.arguments();
  std::vector<ir::Named> keywords = node.keywords();
  const ir::Argument padding = ir::ArgumentList{ir::Argument(0), ir::Argument(filter.convolution.padding[1])};
  std::erase_if(keywords, [](const ir::Named& keyword) { return keyword.name == "padding"; });
  if (arguments.size() > 4)
    arguments[4] = padding;
  else
    keywords.push_back({"padding", padding});
  node.set_arguments(std::move(arguments), std::move(keywords));
}

using Buffers = std::array<void*, most_buffers>;

// Those of one part from x to y; images are read `offset` floats behind their begin.
Buffers buffers_of(const Part& part, std::span<void* const> buffers, void* x, void* y, int64_t offset) {
  Buffers own{};
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    if (part.inputs[i] < 0) continue;
    own[i] = buffers[static_cast<size_t>(part.inputs[i])];
    if (part.is_image(i)) own[i] = static_cast<float*>(own[i]) + offset;
  }
  own[static_cast<size_t>(part.convolution.x)] = x;
  own[part.inputs.size()] = y;
  return own;
}

Result<void> run_part(const Part& part, PreparedCall& call, std::span<void* const> buffers, void* x, void* y,
                      int64_t offset, void* scratch) {
  const Buffers own = buffers_of(part, buffers, x, y, offset);
  return call.run(std::span(own).first(part.inputs.size() + 1), scratch);
}

using Prepared = std::unique_ptr<PreparedCall>;

class StripsCall : public TiledCall {
 public:
  StripsCall(Parts parts, const CallSite& site)
      : parts(std::move(parts)), plan(this->parts, site), result(site.operands.size()) {}
  Parts parts;
  Plan plan;
  size_t result;
  std::array<std::map<int64_t, Prepared>, 3> calls;  // of each part, by rows of its result
  std::unique_ptr<LinesCall> first;                  // instead of the first part's, where it is a network's first

  int64_t tiles() const override { return plan.batch * plan.strips; }
  size_t wide_bytes() const {
    return in_lines(static_cast<size_t>(plan.window_rows(plan.strip) * plan.columns * plan.channels) * sizeof(float));
  }
  size_t between_bytes() const {
    if (parts.size() == 2) return wide_bytes();
    return wide_bytes() + in_lines(static_cast<size_t>(plan.strip * plan.y_columns * plan.channels) * sizeof(float));
  }
  size_t worker_bytes() const override {
    size_t most = first ? first->worker_bytes() : 0;
    for (const auto& of_part : calls)
      for (const auto& [rows, call] : of_part) most = std::max(most, call->scratch_bytes());
    return between_bytes() + in_lines(most);
  }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* memory) const override {
    auto* scratch = static_cast<char*>(memory);
    const int64_t i = tile % plan.strips, number = tile / plan.strips;
    const int64_t above = plan.first(i) - plan.begin(i), rows = plan.last(i) - plan.first(i);
    const int64_t below = plan.end(i) - plan.begin(i) - above - rows, row = plan.columns * plan.channels;
    auto* wide = reinterpret_cast<float*>(scratch);
    std::memset(wide, 0, static_cast<size_t>(above * row) * sizeof(float));
    std::memset(wide + (above + rows) * row, 0, static_cast<size_t>(below * row) * sizeof(float));
    auto* x = static_cast<float*>(buffers[static_cast<size_t>(x_of(parts))]);
    const int64_t offset = (number * plan.y_rows + i * plan.strip) * plan.y_columns * plan.y_channels;
    float* y = static_cast<float*>(buffers[result]) + offset;
    float* filtered = parts.size() == 2 ? y : reinterpret_cast<float*>(scratch + wide_bytes());
    char* own = scratch + between_bytes();
    const int64_t outputs = plan.outputs(i);
    Result<void> ran;
    if (rows > 0 && first) {
      const Buffers places = buffers_of(parts[0], buffers, x, nullptr, 0);
      first->run_lines(places, number, plan.first(i), plan.last(i), wide + above * row, own);
    } else if (rows > 0) {
      x += (number * plan.rows + plan.first(i)) * plan.columns * plan.x_channels;
      ran = run_part(parts[0], *calls[0].at(rows), buffers, x, wide + above * row, 0, own);
    }
    if (ran) ran = run_part(parts[1], *calls[1].at(outputs), buffers, wide, filtered, 0, own);
    if (ran && parts.size() > 2) ran = run_part(parts[2], *calls[2].at(outputs), buffers, filtered, y, offset, own);
    assert(ran);  // only calls by meanings fail
  }
};

// One after the other over the whole batch: where an image does not lie channels last.
class InTurnCall : public PreparedCall {
 public:
  Parts parts;
  std::vector<Prepared> calls;
  size_t result = 0, between_bytes[2] = {0, 0};  // of the wide tensor before and behind the depthwise convolution

  size_t scratch_bytes() const override {
    size_t most = 0;
    for (const Prepared& call : calls) most = std::max(most, call->scratch_bytes());
    return between_bytes[0] + between_bytes[1] + most;
  }
  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    auto* first = static_cast<char*>(scratch);
    char* const places[] = {first, first + between_bytes[0]};
    void* x = buffers[static_cast<size_t>(x_of(parts))];
    for (size_t i = 0; i < parts.size(); ++i) {
      void* y = i + 1 == parts.size() ? buffers[result] : places[i];
      if (Result<void> ran = run_part(parts[i], *calls[i], buffers, x, y, 0, places[1] + between_bytes[1]); !ran)
        return ran;
      x = y;
    }
    return {};
  }
};

// Prepares a part; its note is the call's, and what it keeps.
Result<Prepared> prepare_part(const Part& part, const CallSite& site, PreparedCall& call) {
  Result<Prepared> prepared = part.kernel->prepare(site);
  if (prepared && !(*prepared)->note.empty()) call.note = (*prepared)->note;
  if (prepared) call.repacked += (*prepared)->repacked;
  return prepared;
}

class Strips : public Kernel {
 public:
  const char* name() const override { return "strips"; }

  std::string refusal(const ir::Graph& body) const override {
    Parts parts;
    return read_parts(body, parts);
  }

  std::string drawback(const ir::Graph& body) const override {
    Parts parts;
    read_parts(body, parts);
    return drawback_of(parts, body.outputs()[0].value()->meta());
  }

  bool may_begin(const ir::Node& node) const override { return is_convolution(node); }

  std::vector<int> preferred_order(const ir::Graph& body) const override {
    return onednn_convolution().preferred_order(body);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Parts parts = read(site);
    const Plan plan(parts, site);
    leave_out_row_padding(parts[1]);
    for (size_t i = 0; i < parts.size(); ++i) {
      const int weight = parts[i].convolution.weight;
      if (parts[i].inputs[static_cast<size_t>(weight)] != static_cast<int>(operand)) continue;
      const int64_t rows = i == 0 ? plan.last(0) - plan.first(0) : plan.strip;
      return parts[i].kernel->weight_layout(site_of(parts, i, site, plan, rows), static_cast<size_t>(weight));
    }
    return std::nullopt;
  }

  Result<Prepared> prepare(const CallSite& site) const override {
    Parts parts = read(site);
    if (!lies_channels_last(parts, site)) return in_turn(std::move(parts), site);
    auto call = std::make_unique<StripsCall>(std::move(parts), site);
    leave_out_row_padding(call->parts[1]);
    const Plan& plan = call->plan;
    if (call->parts[0].is_first()) {
      call->first = prepare_lines(site_of(call->parts, 0, site, plan, plan.rows), plan.window_rows(plan.strip));
      if (!call->first) return in_turn(read(site), site);
      call->flops = call->first->flops;
    }
    for (int64_t strip = 0; strip < plan.strips; ++strip)
      for (size_t i = call->first ? 1 : 0; i < call->parts.size(); ++i) {
        const int64_t rows = i == 0 ? plan.last(strip) - plan.first(strip) : plan.outputs(strip);
        if (rows == 0) continue;
        Prepared& prepared = call->calls[i][rows];
        if (!prepared) {
          Result<Prepared> made = prepare_part(call->parts[i], site_of(call->parts, i, site, plan, rows), *call);
          if (!made) return made.error();
          prepared = std::move(*made);
        }
        call->flops += static_cast<double>(plan.batch) * prepared->flops;
      }
    call->bytes = 4.0 * static_cast<double>(plan.batch) *
                  static_cast<double>(plan.x_rows * plan.x_columns * plan.x_channels +
                                      plan.y_rows * plan.y_columns * plan.y_channels);
    call->detail = std::to_string(plan.strips) + " an image";
    return Prepared(std::move(call));
  }

 private:
  static Parts read(const CallSite& site) {
    Parts parts;
    [[maybe_unused]] const std::string refusal = read_parts(*site.body, parts);
    assert(refusal.empty());
    return parts;
  }

  // The input, the result, and what is added to it. A network's first convolution reads images in rows, too.
  static bool lies_channels_last(const Parts& parts, const CallSite& site) {
    std::vector<const Operand*> images = {&site.results[0]};
    if (!parts[0].is_first()) images.push_back(&site.operands[static_cast<size_t>(x_of(parts))]);
    for (size_t i = 0; i < parts.back().inputs.size(); ++i)
      if (parts.back().is_image(i)) images.push_back(&site.operands[static_cast<size_t>(parts.back().inputs[i])]);
    return std::all_of(images.begin(), images.end(), [](const Operand* operand) {
      return is_dense_in_order(operand->sizes, operand->strides, channels_last_order(4));
    });
  }

  static Result<Prepared> in_turn(Parts parts, const CallSite& site) {
    auto call = std::make_unique<InTurnCall>();
    call->parts = std::move(parts);
    call->result = site.operands.size();
    const Plan plan(call->parts, site);
    Operand x = site.operands[static_cast<size_t>(x_of(call->parts))];
    for (size_t i = 0; i < call->parts.size(); ++i) {
      const Part& part = call->parts[i];
      const bool is_last = i + 1 == call->parts.size();
      const Operand y = is_last ? site.results[0]
                                : plan.y_of_part(i, call->parts.size(), plan.batch, i == 0 ? plan.rows : plan.y_rows);
      CallSite whole = site_of(part, site, x, y);
      whole.threads = site.threads;
      whole.in_tile = false;
      for (size_t input = 0; input < part.inputs.size(); ++input)
        if (part.is_image(input)) whole.operands[input] = site.operands[static_cast<size_t>(part.inputs[input])];
      Result<Prepared> prepared = prepare_part(part, whole, *call);
      if (!prepared) return prepared.error();
      call->flops += (*prepared)->flops;
      call->bytes += (*prepared)->bytes;
      call->calls.push_back(std::move(*prepared));
      if (!is_last) call->between_bytes[i] = in_lines(static_cast<size_t>(y.sizes[0] * y.strides[0]) * sizeof(float));
      x = y;
    }
    call->detail = "in turn";
    return Prepared(std::move(call));
  }
};

}  // namespace

const Kernel& strips() {
  static const Strips kernel;
  return kernel;
}

}  // namespace atenon::kernels
