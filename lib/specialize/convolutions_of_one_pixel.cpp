// A convolution that makes one pixel is a product of all that its kernel covers:
//
//     y[n, o, 0, 0] = sum of x[n, c, h + i, w + j] * k[o, c, i, j] = sum of x'[n, cij] * k'[o, cij]
//
// where only the taps that meet the image count. A product, here a convolution of single pixels, reads its weight once
// for all rows; kernels of convolutions read every tap's part again. Nothing here knows the operator: taps and pixels
// are read off its meaning.
#include <algorithm>
#include <utility>

#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

using ir::SymInt;

// Along an axis of the plane: the taps that meet the image, from `tap` on, meet its pixels from `pixel` on.
struct Covered {
  int64_t tap = 0, pixel = 0, count = 0;
};

std::optional<Covered> covered(const SymInt& index, size_t axis, int64_t taps, int64_t pixels) {
  Covered found;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const std::optional<int64_t> pixel = shape::evaluate(index, {{*summed_index(axis).as_symbol(), tap}});
    if (!pixel) return std::nullopt;
    if (*pixel < 0 || *pixel >= pixels) continue;
    if (found.count == 0) found = {tap, *pixel, 0};
    if (tap - found.tap != found.count || *pixel - found.pixel != found.count) return std::nullopt;
    ++found.count;
  }
  return found.count > 0 ? std::optional(found) : std::nullopt;
}

// Whether the sum's guard holds for the taps that meet the image and for no others.
bool guards_the_image(const ProductIndices& indices, const std::vector<Covered>& plane,
                      const std::vector<int64_t>& kernel) {
  int64_t taps = 1;
  for (int64_t size : kernel) taps *= size;
  constexpr int64_t most = 1 << 12;
  if (taps > most) return false;
  for (int64_t tap = 0; tap < taps; ++tap) {
    shape::Bindings bindings;
    bool meets = true;
    int64_t left = tap;
    for (size_t i = kernel.size(); i-- > 0; left /= kernel[i]) {
      const int64_t at = left % kernel[i] - plane[i].tap;
      meets &= at >= 0 && at < plane[i].count;
      bindings[*summed_index(i + 2).as_symbol()] = left % kernel[i];
    }
    if (shape::evaluate(indices.guard, bindings) != meets) return false;
  }
  return true;
}

bool is_one_pixel(const std::vector<SymInt>& sizes) {
  return sizes.size() > 2 &&
         std::all_of(sizes.begin() + 2, sizes.end(), [](const SymInt& n) { return n == SymInt(1); });
}

// One for each axis of the plane, if the product is a convolution in one group of several taps.
std::optional<std::vector<Covered>> read_plane(const ChannelProduct& product, const ProductIndices& indices) {
  const std::vector<SymInt>&weight = product.weight->meta().sizes, &image = indices.operand->meta().sizes;
  const size_t rank = weight.size();
  if (image.size() != rank || product.weight_axis != 0 || product.channel_axis != 1) return std::nullopt;
  const auto is = [&](const SymInt& index, const SymInt& wanted) {
    return indices.facts.decide(shape::equal(index, wanted)) == shape::Truth::proven;
  };
  const SymInt input = weight[1] == SymInt(1) ? SymInt(0) : summed_index(1);
  if (!is(indices.x[0], result_index(0)) || !is(indices.x[1], input) || !is(indices.weight[0], result_index(1)) ||
      !is(indices.weight[1], input) || image[1] != weight[1])
    return std::nullopt;
  std::vector<Covered> plane;
  std::vector<int64_t> kernel;
  int64_t taps = 1;
  for (size_t axis = 2; axis < rank; ++axis) {
    const std::optional<int64_t> size = image[axis].constant();
    kernel.push_back(*weight[axis].constant());
    taps *= kernel.back();
    if (!size || !indices.is_summed[axis]) return std::nullopt;
    const std::optional<Covered> found = covered(indices.x[axis], axis, kernel.back(), *size);
    if (!found) return std::nullopt;
    plane.push_back(*found);
  }
  return taps > 1 && guards_the_image(indices, plane, kernel) ? std::optional(plane) : std::nullopt;
}

// [outputs, inputs and taps, 1..] of the taps that meet the image.
Tensor flat_weight(Tensor weight, const std::vector<Covered>& plane) {
  for (size_t i = 0; i < plane.size(); ++i) weight = part_of(weight, i + 2, plane[i].tap, plane[i].count);
  Tensor flat = weight.contiguous();
  for (size_t axis = 2; axis < flat.sizes.size(); ++axis) flat.sizes[1] *= std::exchange(flat.sizes[axis], 1);
  flat.strides = contiguous_strides(flat.sizes);
  return flat;
}

Result<ir::Value*> as_product(Scope& scope, ir::Node& node, const ChannelProduct& product, ir::Value* x,
                              const std::vector<Covered>& plane) {
  for (size_t i = 0; i < plane.size(); ++i) {
    if (x->meta().sizes[i + 2] == SymInt(plane[i].count)) continue;
    Result<ir::Value*> part = append_before(
        scope, node, "aten::slice.Tensor",
        {x, SymInt(static_cast<int64_t>(i + 2)), SymInt(plane[i].pixel), SymInt(plane[i].pixel + plane[i].count)});
    if (!part) return part;
    x = *part;
  }
  Tensor flat = flat_weight(*constant_behind(scope, product.weight), plane);
  std::vector<SymInt> sizes(flat.sizes.size(), 1);
  sizes[0] = x->meta().sizes[0];
  sizes[1] = flat.sizes[1];
  if (x->meta().sizes != sizes) {
    Result<ir::Value*> rows = append_before(scope, node, "aten::reshape", {x, list_of(sizes)});
    if (!rows) return rows;
    x = *rows;
  }
  ir::Value* const weight = add_constant(scope, weight_name(scope, *product.weight) + ".flat", std::move(flat));
  ir::Argument bias;
  if (product.bias) bias = product.bias;
  const std::vector<SymInt> ones(plane.size(), 1), zeros(plane.size(), 0);
  return append_before(
      scope, node, "aten::convolution",
      {x, weight, bias, list_of(ones), list_of(zeros), list_of(ones), false, list_of(zeros), SymInt(1)});
}

}  // namespace

Result<Changed> flatten_convolutions_of_one_pixel(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (!has_one_result(node) || !is_one_pixel(node.result()->meta().sizes)) continue;
    const std::optional<ChannelProduct> product = channel_product(scope, node);
    if (!product) continue;
    const std::optional<ProductIndices> indices = product_indices(scope, node, product->weight);
    if (!indices) continue;
    const std::optional<std::vector<Covered>> plane = read_plane(*product, *indices);
    if (!plane) continue;
    Result<ir::Value*> made = as_product(scope, node, *product, indices->operand, *plane);
    if (!made) return made.error();
    scope.report("flattened " + node.target() + " %" + node.result()->name);
    scope.variant.graph.replace_uses(node.result(), *made);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
