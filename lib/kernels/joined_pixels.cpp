#include "kernels/joined_pixels.h"

#include <algorithm>
#include <string_view>

#include "kernels/lanes.h"
#include "kernels/onednn.h"

namespace atenon::kernels {

namespace {

const Operand& operand_of(const CallSite& site, int operand) { return site.operands[static_cast<size_t>(operand)]; }

bool lies_in_pixels(const Operand& image) {
  return is_dense_in_order(image.sizes, image.strides, channels_last_order(image.sizes.size()));
}

}  // namespace

int64_t joined_pixels(const CallSite& site, const Convolution& convolution) {
  const Operand &weight = operand_of(site, convolution.weight), &y = site.results[0];
  if (convolution.transposed || convolution.groups > 1 || convolution.stride.back() > 1 ||
      convolution.dilation.back() > 1 || y.sizes[1] == 0 || !lies_in_pixels(y) || reads_twice(convolution))
    return 1;
  if (!weight.weight || (convolution.bias >= 0 && !operand_of(site, convolution.bias).weight)) return 1;
  for (const PostOp& step : convolution.epilogue) {
    if (!step.is_binary()) continue;
    const Operand& operand = operand_of(site, step.operand);
    if (count(operand.sizes) != 1 && (operand.sizes != y.sizes || !lies_in_pixels(operand))) return 1;
  }
  const int64_t vector = std::string_view(lanes().name) == "avx512" ? 16 : 8, width = weight.sizes.back();
  int64_t pixels = vector / y.sizes[1];
  while (pixels > 1 && y.sizes.back() % pixels != 0) --pixels;
  const bool pays = 4 * (width + pixels - 1) <= 3 * pixels * width;  // columns of all filters are read by each pixel
  return pixels > 1 && pays ? pixels : 1;
}

JoinedPixels join_pixels(const CallSite& site, const Convolution& convolution, int64_t pixels) {
  JoinedPixels joined{site, convolution, {}};
  joined.convolution.stride.back() = pixels;
  const auto join = [pixels](Operand& image) {
    image.sizes[1] *= pixels;
    image.strides[1] = 1;
    image.sizes.back() /= pixels;
    image.strides.back() *= pixels;
  };
  join(joined.site.results[0]);
  for (size_t i = 0; i < site.operands.size(); ++i)
    if (std::any_of(convolution.epilogue.begin(), convolution.epilogue.end(), [&](const PostOp& step) {
          return step.is_binary() && step.operand == static_cast<int>(i) && count(site.operands[i].sizes) != 1;
        }))
      join(joined.site.operands[i]);

  const auto rows_of = [&site](int operand) {
    const ir::Weight& weight = *operand_of(site, operand).weight;
    return weight.layout ? unpack(weight) : weight.tensor.contiguous();
  };
  const auto make = [&joined](int operand, const Tensor& tensor) {
    joined.site.operands[static_cast<size_t>(operand)] = {tensor.dtype, tensor.sizes, tensor.strides};
    joined.made.emplace(operand, tensor);
  };
  const Tensor filter = rows_of(convolution.weight);
  std::vector<int64_t> sizes = filter.sizes;
  const int64_t width = sizes.back(), wide = width + pixels - 1, lines = filter.numel() / width;
  sizes[0] *= pixels;
  sizes.back() = wide;
  Tensor moved = Tensor::zeros(ScalarType::f32, sizes);
  for (int64_t line = 0; line < pixels * lines; ++line)
    std::copy_n(filter.as<float>() + line % lines * width, width,
                moved.mutable_as<float>() + line * wide + line / lines);
  make(convolution.weight, moved);
  if (convolution.bias >= 0) {
    const Tensor bias = rows_of(convolution.bias);
    Tensor repeated = Tensor::empty(ScalarType::f32, {pixels * bias.numel()});
    for (int64_t i = 0; i < repeated.numel(); ++i) repeated.mutable_as<float>()[i] = bias.as<float>()[i % bias.numel()];
    make(convolution.bias, repeated);
  }
  return joined;
}

}  // namespace atenon::kernels
