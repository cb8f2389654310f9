// Attention as one kernel: scaled_dot_product_attention, or the same written out as product, softmax, product.
//
// Tiles are (batch, head, block of queries), so scores never leave the cache. Operands are read through their strides:
// views of one fused projection need no copies. Masks are of truths (true: seen) or added, broadcast as PyTorch does;
// what is added, and the softmax, may see the batch as images and their windows, or as texts and heads. Scores may have
// a factor for each head.
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "ir/readers.h"
#include "kernels/body.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_queries = 128;  // of a tile; by shape alone, so that results do not depend on the threads
// A lone tile is halved if it has enough of both to pay for waking a thread up, and for laying out the keys twice.
constexpr int64_t halved_queries = 16;
constexpr double halved_flops = 4e6;

struct Attention {
  View q, k, v;  // [..., queries or keys, depth]
  struct Mask {
    int input;
    bool sees_parts;  // the batch's axis `split` is two for it
  };
  std::vector<Mask> masks;                                   // at most as many as a tile has
  bool has_truths = false;                                   // the last mask is of truths that are written out
  bool truths_hide = false;                                  // true is not seen
  double hidden = -std::numeric_limits<double>::infinity();  // the score of what truths do not let see
  int split = -1;                                            // an axis of the batch; -1: none is split
  ir::SymInt parts = 1;                                      // the size of the second of its two
  std::optional<double> scale;                               // nullopt: 1 / sqrt(depth)
  int factor = -1;  // input of the body by whose number the scores of a head are multiplied, too; -1: none
  bool causal = false;
  bool empty_is_zero = true;
  bool turned = false;  // the result's last two axes are swapped, as values times the turned softmax give it
  const ir::Value* result = nullptr;
};

// What `value` repeats along an axis of heads, each as often as it has to be seen by several queries' heads in a row;
// null where it repeats nothing: repeat_interleave, or a new axis that is expanded and joined.
const ir::Value* repeated_by(const ir::Value* value, size_t& axis) {
  const auto from = [](const ir::Value* of, std::initializer_list<const char*> names) -> const ir::Value* {
    if (!of || !of->producer) return nullptr;
    const std::string name = name_without_overload(of->producer->target());
    const bool is_named = std::any_of(names.begin(), names.end(), [&](const char* wanted) { return name == wanted; });
    return is_named ? of->producer->arguments()[0].value() : nullptr;
  };
  const ir::Value* single = from(value, {"aten::repeat_interleave"});
  if (!single) {
    const ir::Value* expanded = from(value, {"aten::view", "aten::reshape", "aten::_unsafe_view"});
    if (const ir::Value* copied = from(expanded, {"aten::clone", "aten::contiguous"})) expanded = copied;
    const ir::Value* added = from(expanded, {"aten::expand"});
    single = from(added, {"aten::unsqueeze"});
    if (!single) return nullptr;
    // The new axis stands behind the heads, and nothing else is expanded.
    const std::vector<ir::SymInt>&sizes = single->meta().sizes, &wide = expanded->meta().sizes;
    const std::optional<int64_t> place = Arguments(*added->producer, {}).integer(1, "dim", 0);
    if (!place || wide.size() != sizes.size() + 1) return nullptr;
    axis = static_cast<size_t>(*place < 0 ? *place + static_cast<int64_t>(wide.size()) : *place);
    if (axis == 0) return nullptr;
    std::vector<ir::SymInt> joined = sizes;
    joined.insert(joined.begin() + static_cast<int64_t>(axis), wide[axis]);
    if (joined != wide) return nullptr;
    --axis;
  } else {
    const std::optional<int64_t> place = Arguments(*value->producer, {}).integer(2, "dim", -1);
    const bool is_of_all = !Arguments(*value->producer, {}).find(2, "dim");
    if (!place || is_of_all || !value->producer->arguments()[1].is<ir::SymInt>()) return nullptr;
    axis = static_cast<size_t>(*place < 0 ? *place + value->meta().rank() : *place);
  }
  // One axis alone is longer, by a factor.
  const std::vector<ir::SymInt>&sizes = single->meta().sizes, &longer = value->meta().sizes;
  if (sizes.size() != longer.size() || axis >= sizes.size()) return nullptr;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (i != axis && sizes[i] != longer[i]) return nullptr;
  const std::optional<int64_t> heads = sizes[axis].constant(), all = longer[axis].constant();
  return heads && all && *heads > 0 && *all % *heads == 0 ? single : nullptr;
}

// A view of what another view shows.
View seen_through(const View& outer, View inner) {
  const std::vector<int> axes = std::exchange(inner.axes, {});
  for (const int i : outer.axes) inner.axes.push_back(axes[static_cast<size_t>(i)]);
  return inner;
}

// A view of keys or values; where heads are repeated, of what is repeated: the call knows which head sees which.
View heads_of(const ir::Value* value) {
  const ir::Value* repeated = value;
  while (repeated->producer && is_view_node(*repeated->producer)) repeated = repeated->producer->arguments()[0].value();
  size_t axis = 0;
  const ir::Value* single = repeated_by(repeated, axis);
  if (!single) return view_of(value);
  const View outer = view_of(value, repeated);
  View view = view_of(single);
  if (view.input < 0 || outer.axes.size() < 3) return {};
  const size_t inner = outer.axes.size() - 2;
  if (outer.axes[inner] == static_cast<int>(axis) || outer.axes[inner + 1] == static_cast<int>(axis)) return {};
  return seen_through(outer, std::move(view));
}

// A view of queries; where these are multiplied by a number, of what is multiplied, and `scale` is.
View queries_of(const ir::Value* value, const shape::Bindings& symbols, double& scale) {
  const ir::Value* scaled = value;
  while (scaled->producer && is_view_node(*scaled->producer)) scaled = scaled->producer->arguments()[0].value();
  if (!scaled->producer || name_without_overload(scaled->producer->target()) != "aten::mul") return view_of(value);
  const std::optional<double> number = number_of(scaled->producer->arguments()[1], symbols);
  View view = view_of(scaled->producer->arguments()[0].value());
  if (!number || view.input < 0) return {};
  scale *= *number;
  return seen_through(view_of(value, scaled), std::move(view));
}

std::string read_operator(const ir::Node& node, const shape::Bindings& symbols, Attention& found) {
  Arguments arguments(node, symbols);
  found.q = view_of(arguments.tensor(0, "query"));
  found.k = heads_of(arguments.tensor(1, "key"));
  found.v = heads_of(arguments.tensor(2, "value"));
  if (found.q.input < 0 || found.k.input < 0 || found.v.input < 0) return "an operand is computed in the body";
  found.result = node.result();
  if (const ir::Value* mask = arguments.tensor(3, "attn_mask")) {
    if (mask->producer) return "the mask is computed in the body";
    found.masks.push_back({mask->index, false});
  }
  if (arguments.number(4, "dropout_p", 0) != 0.0) return "dropout";
  std::optional<bool> causal = arguments.boolean(5, "is_causal", false);
  if (!causal) return "is_causal is symbolic";
  found.causal = *causal;
  if (arguments.find(6, "scale")) {
    found.scale = arguments.number(6, "scale", 0);
    if (!found.scale) return "its scale is symbolic";
  }
  return "";
}

bool is_matmul(const ir::Node& node) {
  const std::string name = name_without_overload(node.target());
  return name == "aten::matmul" || name == "aten::bmm";
}

bool is_attention(const ir::Node& node) {
  return name_without_overload(node.target()) == "aten::scaled_dot_product_attention";
}

bool is_reshape(const ir::Node& node) {
  const std::string name = name_without_overload(node.target());
  return name == "aten::view" || name == "aten::reshape" || name == "aten::_unsafe_view";
}

// Whether a view gives scores of these sizes with one axis of the batch as two, of which the second has `parts`.
bool splits_batch(const ir::Node& node, const std::vector<ir::SymInt>& whole, int& axis, ir::SymInt& parts) {
  if (!is_reshape(node)) return false;
  const std::vector<ir::SymInt>& sizes = node.result()->meta().sizes;
  if (sizes.size() != whole.size() + 1) return false;
  size_t same = 0;
  while (same < whole.size() && sizes[same] == whole[same]) ++same;
  if (same + 2 >= whole.size() || !std::equal(whole.begin() + same + 1, whole.end(), sizes.begin() + same + 2))
    return false;
  axis = static_cast<int>(same);
  parts = sizes[same + 1];
  return true;
}

// Whether a view gives scores whose batch was split back the sizes that they had.
bool joins_batch(const ir::Node& node, const std::vector<ir::SymInt>& whole) {
  return is_reshape(node) && node.result()->meta().sizes == whole;
}

bool is_one_for_all_keys(const ir::TensorMeta& meta) {
  const size_t rank = meta.sizes.size();
  return meta.dtype == ScalarType::f32 && rank >= 2 && meta.sizes[rank - 1] == ir::SymInt(1) &&
         meta.sizes[rank - 2] == ir::SymInt(1);
}

// An operand's size on an axis of the scores; 0 where it has others in number.
ir::SymInt size_on(const ir::Graph& body, const View& view, size_t axis, size_t rank) {
  if (view.axes.size() != rank) return 0;
  return body.inputs()[view.input]->meta().sizes[view.axes[axis]];
}

// masked_fill(scores, truths, number), or where(truths, scores, number).
std::string read_truths(const ir::Node& node, const ir::Value* scores, bool hides, bool sees_parts,
                        const shape::Bindings& symbols, Attention& found) {
  if (node.arguments().size() != 3 || node.arguments()[hides ? 0 : 1].value() != scores || found.has_truths)
    return node.target() + " is no mask of scores";
  const ir::Value* truths = node.arguments()[hides ? 1 : 0].value();
  const std::optional<double> hidden = number_of(node.arguments()[2], symbols);
  if (!truths || truths->producer || truths->meta().dtype != ScalarType::boolean || !hidden)
    return "what is hidden is computed in the body";
  if (node.result()->meta().sizes != scores->meta().sizes) return node.target() + " changes the shape";
  found.has_truths = true;
  found.masks.push_back({truths->index, sees_parts});
  found.truths_hide = hides;
  found.hidden = *hidden;
  return "";
}

// softmax times values, or the same turned: turned values times the turned softmax.
std::string read_values(const ir::Value* softmax, Attention& found) {
  const ir::Value* weights = softmax;
  const ir::Node* last = ir::sole_reader(*weights);
  while (last && is_view_node(*last)) {
    weights = last->result();
    last = ir::sole_reader(*weights);
  }
  if (!last || !is_matmul(*last)) return "no product after softmax";
  found.turned = last->arguments()[1].value() == weights;
  std::vector<int> axes = view_of(weights, softmax).axes;
  if (axes.size() < 2) return "softmax of one row";
  const auto turn = [](std::vector<int>& of) { std::swap(of[of.size() - 1], of[of.size() - 2]); };
  if (found.turned) turn(axes);
  if (!std::is_sorted(axes.begin(), axes.end())) return "the product after softmax adds up queries";
  found.v = heads_of(last->arguments()[found.turned ? 0 : 1].value());
  if (found.v.input < 0 || found.v.axes.size() < 2) return "an operand is computed in the body";
  if (found.turned) turn(found.v.axes);
  found.result = last->result();
  return "";
}

// product, numbers times or divided, masks added, some hidden, softmax, product.
std::string read_written_out(const ir::Graph& body, const ir::Node& first, const shape::Bindings& symbols,
                             Attention& found) {
  found.scale = 1;
  found.q = queries_of(first.arguments()[0].value(), symbols, *found.scale);
  found.k = heads_of(first.arguments()[1].value());
  if (found.q.input < 0 || found.k.input < 0 || found.k.axes.size() < 2) return "an operand is computed in the body";
  std::swap(found.k.axes[found.k.axes.size() - 1], found.k.axes[found.k.axes.size() - 2]);
  found.empty_is_zero = false;
  const ir::Value* chain = first.result();
  const std::vector<ir::SymInt>& whole = chain->meta().sizes;
  bool is_split = false;
  while (const ir::Node* node = ir::sole_reader(*chain)) {
    const std::string name = name_without_overload(node->target());
    Arguments arguments(*node, symbols);
    if (found.split < 0 && splits_batch(*node, whole, found.split, found.parts)) {
      is_split = true;
      chain = node->result();
      continue;
    }
    if (is_split && joins_batch(*node, whole)) {
      is_split = false;
      chain = node->result();
      continue;
    }
    if (name == "aten::softmax" || name == "aten::_softmax") {
      const std::optional<int64_t> axis = arguments.integer(1, "dim", -1);
      if (!axis || (*axis != -1 && *axis != chain->meta().rank() - 1)) return "softmax over another axis";
      if (node->result()->meta().dtype != ScalarType::f32) return "softmax changes the element type";
      const ir::Value* softmax = node->result();
      if (is_split) {
        const ir::Node* joined = ir::sole_reader(*softmax);
        if (!joined || !joins_batch(*joined, whole)) return "softmax of scores of another shape";
        softmax = joined->result();
      }
      if (std::string refusal = read_values(softmax, found); !refusal.empty()) return refusal;
      for (const View* view : {&found.q, &found.k, &found.v})
        if (found.split >= 0 && size_on(body, *view, found.split, whole.size()) != whole[found.split])
          return "an operand is broadcast over an axis that is split";
      return "";
    }
    if (name == "aten::masked_fill" || name == "aten::where") {
      const bool hides = name == "aten::masked_fill";
      if (std::string refusal = read_truths(*node, chain, hides, is_split, symbols, found); !refusal.empty())
        return refusal;
      chain = node->result();
      continue;
    }
    if (found.has_truths) return node->target() + " follows a mask of truths";
    const bool multiply = name == "aten::mul", divide = name == "aten::div", add = name == "aten::add";
    if (!(multiply || divide || add) || node->arguments().size() < 2 || node->keyword("rounding_mode"))
      return node->target() + " is no part of attention";
    const bool is_first = node->arguments()[0].value() == chain;
    const ir::Argument& other = node->arguments()[is_first ? 1 : 0];
    if (add) {
      const ir::Value* mask = other.value();
      if (!mask || mask->producer || found.masks.size() == std::size(AttentionTile{}.added) ||
          mask->meta().dtype != ScalarType::f32 || arguments.number(2, "alpha", 1) != 1.0)
        return "what is added is no mask, or one too many";
      found.masks.push_back({mask->index, is_split});
    } else {
      const ir::Value* factor = other.value();
      if (factor && multiply && !factor->producer && found.factor < 0 && found.masks.empty() && found.split < 0 &&
          node->result()->meta().sizes == whole && is_one_for_all_keys(factor->meta())) {
        found.factor = factor->index;
        chain = node->result();
        continue;
      }
      const std::optional<double> number = number_of(other, symbols);
      if (!number || !found.masks.empty() || (divide && !is_first))
        return "scores are scaled by something else than a number";
      *found.scale = multiply ? *found.scale * *number : *found.scale / *number;
    }
    if (node->result()->meta().sizes != chain->meta().sizes) return node->target() + " changes the shape";
    chain = node->result();
  }
  return "no softmax after the product";
}

std::string read_attention(const ir::Graph& body, const shape::Bindings& symbols, Attention& found) {
  if (body.outputs().size() != 1) return "it has more than one result";
  const ir::Node* anchor = nullptr;
  for (const ir::Node& node : body.forward()) {
    if (!is_matmul(node) && !is_attention(node)) continue;
    anchor = &node;
    break;
  }
  if (!anchor || anchor->results().size() != 1) return "no attention in it";
  const bool is_operator = is_attention(*anchor);
  std::string refusal =
      is_operator ? read_operator(*anchor, symbols, found) : read_written_out(body, *anchor, symbols, found);
  if (!refusal.empty()) return refusal;
  if (body.outputs()[0].value() != found.result) return "something follows the attention";
  for (const View* view : {&found.q, &found.k, &found.v}) {
    if (body.inputs()[view->input]->meta().dtype != ScalarType::f32) return "only f32 so far";
    if (view->axes.size() < 2) return "an operand has less than two axes";
  }
  for (const Attention::Mask& mask : found.masks) {
    const ScalarType dtype = body.inputs()[mask.input]->meta().dtype;
    if (dtype != ScalarType::f32 && dtype != ScalarType::boolean) return "a mask that is neither f32 nor bool";
  }
  return "";
}

// Sizes and distances of an operand over the result's leading axes, then its last two.
struct Strides {
  std::vector<int64_t> sizes, strides;
  int64_t row() const { return strides[strides.size() - 2]; }
  int64_t column() const { return strides.back(); }
  // An axis becomes two, the second of `parts`.
  void split(int axis, int64_t parts) {
    const bool is_one = sizes[axis] == 1;
    sizes.insert(sizes.begin() + axis + 1, is_one ? 1 : parts);
    strides.insert(strides.begin() + axis + 1, strides[axis]);
    if (is_one) return;
    sizes[axis] /= parts;
    strides[axis] *= parts;
  }
};

class AttentionCall : public TiledCall {
 public:
  Attention attention;
  size_t operands = 0;
  Strides q, k, v, y, factor;
  struct Mask {
    int input;
    bool is_added;
    Strides at;
  };
  std::vector<Mask> masks;
  int64_t queries = 0, keys = 0, depth = 0, value_depth = 0;
  int64_t tile_queries = most_queries;

  // One query a head, and heads in a row that see the same keys: they are queries of one tile, which then reads its
  // keys once. Not where hardly any tiles would be left.
  void share_keys() {
    constexpr int64_t enough_tiles = 4;
    const size_t rows = y.sizes.size() - 2;
    if (rows == 0 || y.sizes[rows] != 1 || attention.causal) return;
    const size_t head = rows - 1;
    const int64_t heads = y.sizes[head], shared = k.sizes[head];
    if (shared == heads || v.sizes[head] != shared || q.sizes[head] != heads || outer() / heads * shared < enough_tiles)
      return;
    if (attention.factor >= 0 ||
        std::any_of(masks.begin(), masks.end(), [&](const Mask& mask) { return mask.at.sizes[head] != 1; }))
      return;
    for (Strides* strides : {&q, &y}) {
      strides->sizes[rows] = heads / shared;
      strides->strides[rows] = strides->strides[head];
      strides->sizes[head] = shared;
      strides->strides[head] *= heads / shared;
    }
    for (Mask& mask : masks) mask.at.strides[rows] = 0;
  }

  void cut() {
    if (tiles() == 1 && queries >= halved_queries && flops >= halved_flops) tile_queries = divide_up(queries, 2);
  }

  int64_t outer() const { return std::accumulate(y.sizes.begin(), y.sizes.end() - 2, int64_t{1}, std::multiplies<>()); }
  int64_t blocks() const { return divide_up(queries, tile_queries); }
  int64_t tiles() const override { return outer() * blocks(); }
  size_t worker_bytes() const override {
    return in_lines(static_cast<size_t>(lanes().attention_scratch(keys, depth, value_depth)) * 4);
  }

 private:
  // Distance of the first element of outer index `index`; axes of size 1 are broadcast, and grouped heads share.
  int64_t base(const Strides& of, int64_t index) const {
    int64_t place = 0;
    for (size_t axis = y.sizes.size() - 2; axis-- > 0; index /= y.sizes[axis]) {
      const int64_t own = index % y.sizes[axis] * of.sizes[axis] / y.sizes[axis];
      place += own * of.strides[axis];
    }
    return place;
  }

  void run_tile(std::span<void* const> buffers, int64_t i, void* scratch) const override {
    const int64_t index = i / blocks(), first = i % blocks() * tile_queries;
    auto at = [&](int input, const Strides& of) { return static_cast<const float*>(buffers[input]) + base(of, index); };
    AttentionTile tile{};
    tile.q = at(attention.q.input, q) + first * q.row();
    tile.k = at(attention.k.input, k);
    tile.v = at(attention.v.input, v);
    tile.y = static_cast<float*>(buffers[operands]) + base(y, index) + first * y.row();
    tile.q_row = q.row(), tile.q_column = q.column();
    tile.k_row = k.row(), tile.k_column = k.column();
    tile.v_row = v.row(), tile.v_column = v.column();
    tile.y_row = y.row(), tile.y_column = y.column();
    tile.first_query = first;
    tile.queries = std::min(tile_queries, queries - first);
    tile.keys = keys, tile.depth = depth, tile.value_depth = value_depth;
    tile.scale = static_cast<float>(*attention.scale);
    if (attention.factor >= 0) tile.scale *= *at(attention.factor, factor);
    tile.causal = attention.causal;
    tile.truths_hide = attention.truths_hide;
    tile.hidden = static_cast<float>(attention.hidden);
    tile.empty_is_zero = attention.empty_is_zero || keys == 0;  // the product with no values
    auto* added = tile.added;
    for (const Mask& mask : masks) {
      const int64_t row = mask.at.row(), column = mask.at.column(), place = base(mask.at, index) + first * row;
      if (mask.is_added)
        *added++ = {static_cast<const float*>(buffers[mask.input]) + place, row, column};
      else
        tile.truths = {static_cast<const unsigned char*>(buffers[mask.input]) + place, row, column};
    }
    tile.scratch = static_cast<float*>(scratch);
    lanes().attention(tile);
  }
};

Strides strides_of(const Operand& operand, const std::vector<int>& axes, size_t rank) {
  Strides strides;
  strides.sizes.assign(rank - axes.size(), 1);
  strides.strides.assign(rank - axes.size(), 0);
  for (int axis : axes) {
    strides.sizes.push_back(operand.sizes[axis]);
    strides.strides.push_back(operand.sizes[axis] == 1 ? 0 : operand.strides[axis]);
  }
  return strides;
}

class AttentionKernel : public Kernel {
 public:
  const char* name() const override { return "attention"; }

  std::string refusal(const ir::Graph& body) const override {
    Attention ignored;
    return read_attention(body, {}, ignored);
  }

  bool may_begin(const ir::Node& node) const override { return is_matmul(node); }

  // As between channels: the scores are small beside what they are computed from.
  std::string drawback(const ir::Graph& body) const override {
    constexpr int64_t long_head = 1024;
    Attention found;
    if (!read_attention(body, {}, found).empty()) return "";
    const auto size = [&](const View& view, size_t from_last) {
      const int axis = view.axes[view.axes.size() - from_last];
      return body.inputs()[view.input]->meta().sizes[axis].constant().value_or(0);
    };
    const int64_t depth = size(found.q, 1), keys = size(found.k, 2);
    return depth > long_head && 0 < keys && keys <= depth ? "heads are longer than there are keys" : "";
  }

  // Masks: a few numbers that all tiles of a head read.
  bool reads_rows(const ir::Graph& body, size_t operand) const override {
    Attention found;
    if (!read_attention(body, {}, found).empty()) return false;
    return std::any_of(found.masks.begin(), found.masks.end(),
                       [&](const Attention::Mask& mask) { return mask.input == static_cast<int>(operand); });
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<AttentionCall>();
    [[maybe_unused]] std::string refusal = read_attention(*site.body, site.symbols, call->attention);
    assert(refusal.empty());
    Attention& attention = call->attention;
    const size_t rank = site.results[0].sizes.size();
    auto all_axes = [](const Operand& operand) {
      std::vector<int> axes(operand.sizes.size());
      std::iota(axes.begin(), axes.end(), 0);
      return axes;
    };
    call->operands = site.operands.size();
    call->q = strides_of(site.operands[attention.q.input], attention.q.axes, rank);
    call->k = strides_of(site.operands[attention.k.input], attention.k.axes, rank);
    call->v = strides_of(site.operands[attention.v.input], attention.v.axes, rank);
    std::vector<int> result_axes = all_axes(site.results[0]);
    if (attention.turned) std::swap(result_axes[rank - 1], result_axes[rank - 2]);
    call->y = strides_of(site.results[0], result_axes, rank);
    if (attention.factor >= 0) {
      const Operand& factor = site.operands[attention.factor];
      call->factor = strides_of(factor, all_axes(factor), rank);
    }
    for (const Attention::Mask& mask : attention.masks) {
      const Operand& operand = site.operands[mask.input];
      call->masks.push_back({mask.input, operand.dtype == ScalarType::f32,
                             strides_of(operand, all_axes(operand), rank + mask.sees_parts)});
    }
    if (attention.split >= 0) {
      const int64_t count = *shape::evaluate(attention.parts, site.symbols);
      for (Strides* strides : {&call->q, &call->k, &call->v, &call->y, &call->factor})
        if (!strides->sizes.empty()) strides->split(attention.split, count);
      for (size_t i = 0; i < call->masks.size(); ++i)
        if (!attention.masks[i].sees_parts) call->masks[i].at.split(attention.split, count);
    }
    call->share_keys();
    call->queries = call->q.sizes.end()[-2];
    call->keys = call->k.sizes.end()[-2];
    call->depth = call->q.sizes.back();
    call->value_depth = call->v.sizes.back();
    // A lone key or query has no distance to the next; any will do, but columns are told dense by theirs.
    for (Strides* strides : {&call->q, &call->k, &call->v, &call->y})
      if (strides->sizes.back() == 1) strides->strides.back() = 1;
    if (!attention.scale) attention.scale = 1 / std::sqrt(static_cast<double>(call->depth));
    const double products = static_cast<double>(call->outer() * call->queries * call->keys);
    call->flops = 2 * products * static_cast<double>(call->depth + call->value_depth);
    for (const Strides* strides : {&call->q, &call->k, &call->v, &call->y}) call->bytes += 4 * count(strides->sizes);
    call->cut();
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& attention() {
  static const AttentionKernel kernel;
  return kernel;
}

}  // namespace atenon::kernels
