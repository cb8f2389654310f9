#include "capture/strides.h"

#include <algorithm>
#include <span>

#include "capture/tensor_data.h"

namespace atenon::capture {
namespace {

SymInt number(const Step& step, size_t position, const char* name, int64_t fallback) {
  const Argument* argument = position < step.arguments.size() ? &step.arguments[position] : nullptr;
  for (const Named& keyword : step.keywords)
    if (keyword.name == name) argument = &keyword.argument;
  return argument && argument->is<SymInt>() ? argument->get<SymInt>() : SymInt(fallback);
}

std::optional<int64_t> integer(const Step& step, size_t position, const char* name, int64_t fallback) {
  return number(step, position, name, fallback).constant();
}

// An axis as an index, for something of `rank` axes.
size_t axis(std::optional<int64_t> value, size_t rank) {
  const int64_t at = value.value_or(0);
  return static_cast<size_t>(at < 0 ? at + static_cast<int64_t>(rank) : at);
}

std::vector<SymInt> without(std::vector<SymInt> strides, size_t at) {
  if (at < strides.size()) strides.erase(strides.begin() + static_cast<ptrdiff_t>(at));
  return strides;
}

std::vector<SymInt> follow(const Step& step, const std::vector<SymInt>& viewed, const std::vector<SymInt>& sizes) {
  const std::string name = step.target.substr(0, step.target.find('.'));
  const size_t rank = viewed.size();
  const auto axis_at = [&](size_t position, const char* keyword, int64_t fallback) {
    return axis(integer(step, position, keyword, fallback), rank);
  };
  std::vector<SymInt> strides = viewed;
  if (rank > 0 && name == "aten::transpose") {
    std::swap(strides[axis_at(0, "dim0", 0)], strides[axis_at(1, "dim1", 0)]);
    return strides;
  }
  if (name == "aten::permute" && !step.arguments.empty() && step.arguments[0].is<ArgumentList>()) {
    const ArgumentList& order = step.arguments[0].get<ArgumentList>();
    for (size_t i = 0; i < order.size(); ++i) strides[i] = viewed[axis(order[i].get<SymInt>().constant(), rank)];
    return strides;
  }
  if (name == "aten::select") return without(strides, axis_at(0, "dim", 0));
  if (name == "aten::index") return without(strides, step.arguments[0].get<ArgumentList>().size() - 1);
  if (name == "aten::slice") {
    const size_t at = axis_at(0, "dim", 0);
    strides[at] = strides[at] * SymInt(integer(step, 3, "step", 1).value_or(1));
    return strides;
  }
  if (name == "aten::diagonal") {
    const size_t down = axis_at(1, "dim1", 0), right = axis_at(2, "dim2", 1);
    strides = without(without(strides, std::max(down, right)), std::min(down, right));
    strides.push_back(viewed[down] + viewed[right]);
    return strides;
  }
  if (name == "aten::unfold" && rank > 0) {
    const size_t at = axis_at(0, "dimension", 0);
    strides[at] = viewed[at] * SymInt(integer(step, 2, "step", 1).value_or(1));
    strides.push_back(viewed[at]);
    return strides;
  }
  if (name == "aten::as_strided" && step.arguments.size() > 1) {
    const ArgumentList& given = step.arguments[1].get<ArgumentList>();
    strides.clear();
    for (const Argument& stride : given) strides.push_back(stride.get<SymInt>());
    return strides;
  }
  if (name == "aten::view_as_real" || name == "aten::real" || name == "aten::imag") {  // two numbers an element
    for (SymInt& stride : strides) stride = 2 * stride;
    if (name == "aten::view_as_real") strides.push_back(1);
    return strides;
  }
  if (name == "aten::view_as_complex") {
    strides.pop_back();
    for (SymInt& stride : strides) stride = shape::floor_div(stride, 2);
    return strides;
  }
  if (name == "aten::unsqueeze") {
    const size_t at = axis(integer(step, 0, "dim", 0), rank + 1);
    const SymInt stride = at < rank ? step.viewed_sizes[at] * viewed[at] : SymInt(1);
    strides.insert(strides.begin() + static_cast<ptrdiff_t>(at), stride);
    return strides;
  }
  if (name == "aten::expand") {
    std::vector<SymInt> expanded(sizes.size(), 0);
    const size_t more = sizes.size() - rank;
    for (size_t i = 0; i < rank; ++i)
      if (step.viewed_sizes[i] == sizes[i + more]) expanded[i + more] = viewed[i];
    return expanded;
  }
  if (sizes == step.viewed_sizes) return strides;
  // view and its like; anything else counts as row-major.
  if (const auto reshaped = strides_of_reshape(step.viewed_sizes, viewed, sizes)) return *reshaped;
  return row_major(sizes);
}

// A place on an axis of `size` elements, which may be counted from its end.
SymInt from_begin(const SymInt& place, const SymInt& size) {
  return place.constant().value_or(0) < 0 ? size + place : place;
}

}  // namespace

SymInt offset_of_view(const Step& step, const SymInt& offset, const std::vector<SymInt>& viewed) {
  const std::string name = step.target.substr(0, step.target.find('.'));
  const size_t rank = viewed.size();
  if (name == "aten::select" || name == "aten::slice") {
    const size_t at = axis(integer(step, 0, "dim", 0), rank);
    const SymInt &size = step.viewed_sizes[at], begin = from_begin(number(step, 1, "start", 0), size);
    const bool is_whole = begin == SymInt(0);  // a slice may begin outside
    return is_whole ? offset
                    : offset + viewed[at] * (name == "aten::select" ? begin : shape::max(0, shape::min(begin, size)));
  }
  if (name == "aten::diagonal") {
    const SymInt above = number(step, 0, "offset", 0);
    const bool is_below = above.constant().value_or(0) < 0;
    const size_t along = is_below ? axis(integer(step, 1, "dim1", 0), rank) : axis(integer(step, 2, "dim2", 1), rank);
    return offset + viewed[along] * (is_below ? -above : above);
  }
  if (name == "aten::as_strided") return number(step, 2, "storage_offset", offset.constant().value_or(0));
  if (name == "aten::view_as_real" || name == "aten::real") return 2 * offset;
  if (name == "aten::imag") return 2 * offset + 1;
  if (name == "aten::view_as_complex") return shape::floor_div(offset, 2);
  return offset;
}

std::optional<std::vector<SymInt>> strides_of_view(const Step& step, const std::vector<SymInt>& viewed,
                                                   const std::vector<SymInt>& sizes) {
  std::vector<SymInt> strides = follow(step, viewed, sizes);
  if (strides.size() != sizes.size() || strides == row_major(sizes)) return std::nullopt;
  return strides;
}

std::optional<std::vector<SymInt>> strides_of_reshape(const std::vector<SymInt>& sizes,
                                                      const std::vector<SymInt>& strides,
                                                      const std::vector<SymInt>& reshaped) {
  // As at::detail::computeStride: axes that one stride can walk form a chunk, and each chunk must be cut into whole new
  // axes.
  std::vector<SymInt> result(reshaped.size(), 1);
  size_t next = reshaped.size();  // new axes from here on are placed
  SymInt chunk = 1, placed = 1;
  SymInt innermost = strides.empty() ? SymInt(1) : strides.back();  // of the chunk
  for (size_t axis = sizes.size(); axis-- > 0;) {
    chunk = chunk * sizes[axis];
    if (axis > 0 && (sizes[axis - 1] == SymInt(1) || strides[axis - 1] == chunk * innermost)) continue;
    while (next > 0 && (!(placed == chunk) || reshaped[next - 1] == SymInt(1))) {
      --next;
      result[next] = placed * innermost;
      placed = placed * reshaped[next];
    }
    if (!(placed == chunk)) return std::nullopt;
    if (axis > 0) innermost = strides[axis - 1];
    chunk = placed = 1;
  }
  if (next != 0) return std::nullopt;
  return result;
}

// Between two axes that no one stride walks there is an edge, and the elements behind it must be whole new axes. One
// edge that is none of the new ones is enough for a copy; under the same sizes, one stride that is not the row-major
// one. That with the fewest exceptions is taken; where there is none, nothing shows that it is a copy.
std::vector<SymBool> ways_to_reshape(const std::vector<SymInt>& given_sizes, const std::vector<SymInt>& given_strides,
                                     const std::vector<SymInt>& reshaped) {
  std::vector<SymInt> sizes, strides, new_edges{1};
  for (size_t axis = 0; axis < given_sizes.size(); ++axis) {  // an axis of size 1 may have any stride
    if (given_sizes[axis] == SymInt(1)) continue;
    sizes.push_back(given_sizes[axis]);
    strides.push_back(given_strides[axis]);
  }
  for (size_t next = reshaped.size(); next-- > 1;) new_edges.push_back(new_edges.back() * reshaped[next]);
  std::optional<std::vector<SymBool>> ways;
  SymInt behind = 1;
  for (size_t axis = sizes.size(); axis-- > 0; behind = behind * sizes[axis]) {
    std::vector<SymBool> edge;
    const auto add = [&](const SymBool& way) {
      if (way.constant() != false && std::find(edge.begin(), edge.end(), way) == edge.end()) edge.push_back(way);
    };
    add(shape::equal(sizes[axis], 1));
    if (given_sizes == reshaped) {
      add(shape::equal(strides[axis], behind));
    } else if (axis + 1 < sizes.size()) {
      add(shape::equal(sizes[axis + 1], 1));
      add(shape::equal(strides[axis], sizes[axis + 1] * strides[axis + 1]));
      for (const SymInt& other : new_edges) add(shape::equal(other, behind));
    } else {
      continue;
    }
    const auto holds = [](const SymBool& way) { return way.constant() == true; };
    if (std::any_of(edge.begin(), edge.end(), holds)) continue;
    if (!ways || edge.size() < ways->size()) ways = edge;
  }
  return ways.value_or(std::vector<SymBool>{true});
}

namespace {

enum class Lying { in_rows, as_operands, as_first, as_image };

// Elementwise ones lie as their operands do; of others a tag says it where it is not in rows, as found by running
// PyTorch's own operators on permuted operands.
Lying results_lie(const opset::Operator& op) {
  if (op.has_tag("in_rows")) return Lying::in_rows;
  if (op.has_tag("as_image")) return Lying::as_image;
  if (op.has_tag("as_first") || op.derivation() == opset::Derivation::scatter) return Lying::as_first;
  if (op.has_tag("as_operands") || op.schema().name.ends_with("_like")) return Lying::as_operands;
  const std::string kind = op.meaning_kind();
  const bool is_elementwise =
      kind == "pointwise" || (op.has_tag("inplace") && (kind == "decompose" || kind == "extern"));
  return is_elementwise ? Lying::as_operands : Lying::in_rows;
}

// Which of two strides, or sizes, is the smaller. An empty tensor has no order, so that sizes count as 1 or more.
class Order {
 public:
  explicit Order(const shape::Facts& facts) : facts_(facts) {}

  // The first (-1), the second (1), or (0) either.
  int operator()(const SymInt& a, const SymInt& b) {
    if (a == b) return 0;
    if (divides(a, b)) return -1;
    if (divides(b, a)) return 1;
    if (!nonempty_) nonempty_ = facts_;
    for (const SymInt& stride : {a, b})
      for (const std::string& symbol : stride.symbols())
        nonempty_->assume(shape::less_equal(1, SymInt::symbol(symbol)));
    if (nonempty_->proves(shape::less_equal(a, b))) return -1;
    return nonempty_->proves(shape::less_equal(b, a)) ? 1 : 0;
  }

 private:
  // Mostly the one is the other times sizes, and needs no proof.
  static bool divides(const SymInt& a, const SymInt& b) {
    return a != SymInt(0) && b != SymInt(0) && shape::floor_div(b, a) * a == b;
  }

  const shape::Facts& facts_;
  std::optional<shape::Facts> nonempty_;  // what is asked of it is remembered
};

// The axes of an elementwise result from the innermost out, as at::TensorIterator sorts them: by the strides of the
// first operand that tells, then by size. Operands have the result's rank; the stride of what is repeated is 0.
std::vector<size_t> sorted_axes(const std::vector<std::vector<SymInt>>& operands, const std::vector<SymInt>& sizes,
                                const shape::Facts& facts) {
  Order compare(facts);
  const auto is_out_of_order = [&](size_t inner, size_t outer) {  // 1 if so, -1 if not, 0 if nothing says
    for (const std::vector<SymInt>& strides : operands) {
      if (strides[inner] == SymInt(0) || strides[outer] == SymInt(0)) continue;
      if (const int order = compare(strides[inner], strides[outer])) return order;
      if (strides[inner] == strides[outer] && compare(sizes[inner], sizes[outer]) > 0) return 1;
    }
    return 0;
  };
  std::vector<size_t> axes(sizes.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = axes.size() - 1 - i;
  for (size_t next = 1; next < axes.size(); ++next)
    for (size_t at = next, before = next; before-- > 0;) {
      const int order = is_out_of_order(axes[before], axes[at]);
      if (order < 0) break;
      if (order > 0) std::swap(axes[before], axes[at]), at = before;
    }
  return axes;
}

std::optional<std::vector<SymInt>> dense_in_order(const std::vector<size_t>& axes, const std::vector<SymInt>& sizes) {
  std::vector<SymInt> strides(sizes.size());
  SymInt step = 1;
  for (const size_t axis : axes) {
    strides[axis] = step;
    step = step * sizes[axis];
  }
  return strides == row_major(sizes) ? std::nullopt : std::optional(std::move(strides));
}

// From the innermost out.
std::vector<size_t> channels_last_axes(size_t rank) {
  std::vector<size_t> axes{1};
  for (size_t axis = rank; --axis > 1;) axes.push_back(axis);
  axes.push_back(0);
  return axes;
}

// Strides of an image or a volume; nullopt of all else, and where they are row-major.
std::optional<std::vector<SymInt>> channels_last(const std::vector<SymInt>& sizes) {
  if (sizes.size() != 4 && sizes.size() != 5) return std::nullopt;
  return dense_in_order(channels_last_axes(sizes.size()), sizes);
}

// As at::Tensor::suggest_memory_format() tells it: there may be gaps, and nothing is repeated.
bool has_channels_last(const Laid& tensor, const shape::Facts& facts) {
  const size_t rank = tensor.sizes.size();
  if ((rank != 4 && rank != 5) || tensor.strides == row_major(tensor.sizes)) return false;
  if (std::ranges::find(tensor.strides, SymInt(0)) != tensor.strides.end()) return false;
  Order compare(facts);
  SymInt behind = 1;
  for (const size_t axis : channels_last_axes(rank)) {
    if (!(behind == tensor.strides[axis]) && compare(behind, tensor.strides[axis]) >= 0) return false;
    behind = tensor.strides[axis] * tensor.sizes[axis];
  }
  return true;
}

// A stack is a concatenation that is viewed, except along a last axis of its own.
std::optional<std::vector<SymInt>> strides_of_stack(size_t axis, const std::vector<SymInt>& sizes) {
  if (axis + 1 >= sizes.size()) return std::nullopt;
  std::vector<SymInt> joined = without(sizes, axis);
  joined[axis] = sizes[axis] * sizes[axis + 1];
  const std::optional<std::vector<SymInt>> strides = channels_last(joined);
  return strides ? strides_of_reshape(joined, *strides, sizes) : std::nullopt;
}

// A roll joins two parts along each axis; where one of them is empty, or all axes are one, it is in rows. So is what is
// padded with its other end.
bool leaves_rows(const opset::Call& call, const std::vector<SymInt>& sizes) {
  if (call.op->schema().name == "aten::pad") return call.arguments[2] == Argument(std::string("circular"));
  if (call.op->schema().name != "aten::roll") return false;
  const ArgumentList &shifts = call.arguments[1].get<ArgumentList>(), &axes = call.arguments[2].get<ArgumentList>();
  for (size_t i = 0; i < axes.size(); ++i) {
    const SymInt& size = sizes[axis(axes[i].get<SymInt>().constant(), sizes.size())];
    if (shape::mod(shifts[i].get<SymInt>(), size) == SymInt(0)) return true;
  }
  return axes.empty();
}

}  // namespace

std::optional<std::vector<SymInt>> strides_of_format(const std::string& format, const std::vector<SymInt>& sizes) {
  const bool is_of_images = format == "torch.channels_last" && sizes.size() == 4;
  const bool is_of_volumes = format == "torch.channels_last_3d" && sizes.size() == 5;
  return is_of_images || is_of_volumes ? channels_last(sizes) : std::nullopt;
}

bool lie_alike(const std::optional<std::vector<SymInt>>& a, const std::optional<std::vector<SymInt>>& b,
               const std::vector<SymInt>& sizes) {
  if (a == b || shape::product(sizes) == SymInt(0)) return true;
  const std::vector<SymInt> rows = row_major(sizes);
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (!(sizes[axis] == SymInt(1)) && !(a.value_or(rows)[axis] == b.value_or(rows)[axis])) return false;
  return true;
}

SymBool lies_in_rows(const std::vector<SymInt>& sizes, const std::vector<SymInt>& strides) {
  const std::vector<SymInt> rows = row_major(sizes);
  SymBool every = true;
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    every = shape::both(every, shape::either(shape::equal(sizes[axis], 1), shape::equal(strides[axis], rows[axis])));
  return every;
}

Tensor empty_with_strides(ScalarType dtype, const std::vector<int64_t>& sizes, const std::vector<SymInt>& strides) {
  Tensor memory = Tensor::empty(dtype, sizes);
  for (size_t axis = 0; axis < strides.size(); ++axis) memory.strides[axis] = *strides[axis].constant();
  return memory;
}

std::optional<std::vector<SymInt>> strides_of_result(const opset::Call& call, const std::vector<Laid>& operands,
                                                     const std::vector<SymInt>& sizes, const shape::Facts& facts,
                                                     size_t index) {
  if (call.op->has_tag("by_time"))  // what is given batch first is turned, and so is what it gives
    return index == 0 && sizes.size() == 3 && call.arguments.back() == Argument(SymBool(true))
               ? dense_in_order({2, 0, 1}, sizes)
               : std::nullopt;
  for (size_t i = 0; i < call.arguments.size(); ++i)
    if (call.op->schema().parameters[i].name == "memory_format" && call.arguments[i].is<ir::Word>() &&
        call.arguments[i].get<ir::Word>().text != "torch.preserve_format")
      return strides_of_format(call.arguments[i].get<ir::Word>().text, sizes);
  const auto is_in_rows = [](const Laid& tensor) { return tensor.strides == row_major(tensor.sizes); };
  if (std::all_of(operands.begin(), operands.end(), is_in_rows)) return std::nullopt;
  const Lying lying = results_lie(*call.op);
  if (lying == Lying::in_rows) return std::nullopt;
  if (lying == Lying::as_image) {
    const std::string& name = call.op->schema().name;
    const auto is_image = [&](const Laid& tensor) { return has_channels_last(tensor, facts); };
    const bool needs_all = name == "aten::cat" || name == "aten::stack";
    if (std::count_if(operands.begin(), operands.end(), is_image) < (needs_all ? std::ssize(operands) : 1))
      return std::nullopt;
    if (name == "aten::stack")
      return strides_of_stack(axis(call.arguments[1].get<SymInt>().constant(), sizes.size()), sizes);
    return leaves_rows(call, sizes) ? std::nullopt : channels_last(sizes);
  }
  // The result of one operand may be a part of it (glu): the order of its axes is kept.
  const std::span<const Laid> like(operands.data(), lying == Lying::as_first ? 1 : operands.size());
  const bool may_be_cut = call.op->has_tag("as_operands") && like.size() == 1;
  std::vector<std::vector<SymInt>> strides;
  for (const Laid& tensor : like) {
    if (tensor.sizes.size() > sizes.size()) return std::nullopt;
    std::vector<SymInt>& aligned = strides.emplace_back(sizes.size(), SymInt(0));
    const size_t missing = sizes.size() - tensor.sizes.size();
    for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
      if (tensor.sizes[axis] == sizes[axis + missing] || (may_be_cut && missing == 0))
        aligned[axis + missing] = tensor.strides[axis];
      else if (!(tensor.sizes[axis] == SymInt(1)))
        return std::nullopt;  // not element by element
    }
  }
  return dense_in_order(sorted_axes(strides, sizes, facts), sizes);
}

std::vector<size_t> order_of_memory(const Laid& tensor, const shape::Facts& facts) {
  std::vector<size_t> axes = sorted_axes({tensor.strides}, tensor.sizes, facts);
  std::reverse(axes.begin(), axes.end());
  return axes;
}

}  // namespace atenon::capture
