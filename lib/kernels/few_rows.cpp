// Products of at most four rows with a matrix that lies row by row, such as linear layers at batch 1.
//
// Time goes into reading the matrix once; packing it, or starting a library, would cost more than the product. For
// products that small the whole kernel is one tile, run by the caller's thread.
#include <cmath>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_rows = 4;
constexpr int64_t tile_elements = 64 * 1024;  // of the matrix

float apply(const PostOp& step, float x, float operand) {
  using Kind = PostOp::Kind;
  auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  switch (step.kind) {
    case Kind::relu:
      return x < 0 ? 0 : x;  // NaN stays
    case Kind::clamp:
      return x < step.alpha ? step.alpha : x > step.beta ? step.beta : x;
    case Kind::gelu_erf:
      return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    case Kind::gelu_tanh:
      return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case Kind::silu:
      return x * sigmoid(x);
    case Kind::sigmoid:
      return sigmoid(x);
    case Kind::tanh:
      return std::tanh(x);
    case Kind::hardswish:
      return x * std::fmin(std::fmax(x + 3, 0.f), 6.f) / 6;
    case Kind::hardsigmoid:
      return std::fmin(std::fmax(x + 3, 0.f), 6.f) / 6;
    case Kind::leaky_relu:
      return x < 0 ? step.alpha * x : x;
    case Kind::elu:
      return x < 0 ? step.alpha * std::expm1(x) : x;
    case Kind::exp:
      return std::exp(x);
    case Kind::abs:
      return std::fabs(x);
    case Kind::sqrt:
      return std::sqrt(x);
    case Kind::affine:
      return step.alpha * x + step.beta;
    case Kind::add:
      return x + operand;
    case Kind::subtract:
      return x - operand;
    case Kind::multiply:
      return x * operand;
    case Kind::divide:
      return x / operand;
  }
  return x;
}

class FewRowsCall : public PreparedCall {
 public:
  Product product;
  Loops loops;
  size_t result = 0;  // buffer
  int64_t bias_stride = 1;
  int64_t tile_columns = 0;

  Result<void> run(std::span<void* const> buffers, void*) override {
    const int64_t tiles = (loops.n() + tile_columns - 1) / tile_columns;
    if (tiles <= 1)
      tile(buffers, 0);
    else
      parallel_for(tiles, [&](int64_t i) { tile(buffers, i); });
    return {};
  }

 private:
  void tile(std::span<void* const> buffers, int64_t i) const {
    const int64_t first = i * tile_columns, last = std::min(loops.n(), first + tile_columns), y_row = loops.y.stride(2);
    const auto* x = static_cast<const float*>(buffers[product.a.input]);
    const auto* w = static_cast<const float*>(buffers[product.b.input]);
    auto* y = static_cast<float*>(buffers[result]);
    if (product.epilogue.empty()) {
      lanes().dots(x, loops.a.stride(2), loops.m(), w + first * loops.b.stride(1), loops.b.stride(1), last - first,
                   loops.k(), y + first, y_row);
      add_bias(buffers, y, y_row, first, last, 0);
      return;
    }
    // The result may lie in the buffer of a residual that is still to be read: dots go through a small buffer.
    constexpr int64_t chunk = 64;
    float dots[most_rows * chunk];
    for (int64_t j = first; j < last; j += chunk) {
      const int64_t count = std::min(chunk, last - j);
      lanes().dots(x, loops.a.stride(2), loops.m(), w + j * loops.b.stride(1), loops.b.stride(1), count, loops.k(),
                   dots, chunk);
      add_bias(buffers, dots, chunk, j, j + count, j);
      for (size_t step = 0; step < product.epilogue.size(); ++step) {
        const Matrix& matrix = loops.epilogue[step];
        const auto* operand =
            matrix.sizes.empty() ? nullptr : static_cast<const float*>(buffers[product.epilogue[step].operand]);
        const int64_t row = operand && matrix.size(2) > 1 ? matrix.stride(2) : 0,
                      column = operand && matrix.size(1) > 1 ? matrix.stride(1) : 0;
        for (int64_t m = 0; m < loops.m(); ++m)
          for (int64_t c = 0; c < count; ++c)
            dots[m * chunk + c] =
                apply(product.epilogue[step], dots[m * chunk + c], operand ? operand[m * row + (j + c) * column] : 0);
      }
      for (int64_t m = 0; m < loops.m(); ++m)
        for (int64_t c = 0; c < count; ++c) y[m * y_row + j + c] = dots[m * chunk + c];
    }
  }

  // To columns first..last of the result; `y` starts at column `origin`.
  void add_bias(std::span<void* const> buffers, float* y, int64_t y_row, int64_t first, int64_t last,
                int64_t origin) const {
    if (product.bias < 0) return;
    const auto* bias = static_cast<const float*>(buffers[product.bias]);
    for (int64_t m = 0; m < loops.m(); ++m)
      for (int64_t j = first; j < last; ++j) y[m * y_row + j - origin] += bias[j * bias_stride];
  }
};

class FewRows : public Kernel {
 public:
  const char* name() const override { return "few_rows"; }

  std::string refusal(const ir::Graph& body) const override {
    Product product;
    if (std::string refusal = read_product(body, {}, product); !refusal.empty()) return refusal;
    auto known = [](const View& view, const ir::Graph& graph) {
      std::vector<ir::SymInt> sizes;
      for (int axis : view.axes) sizes.push_back(graph.inputs()[view.input]->meta().sizes[axis]);
      return sizes;
    };
    const std::vector<ir::SymInt> a = known(product.a, body), b = known(product.b, body);
    for (size_t axis = 0; axis + 2 < b.size(); ++axis)
      if (b[axis] != ir::SymInt(1)) return "the matrix has batch axes";
    const std::optional<int64_t> rows = shape::product({a.begin(), a.end() - 1}).constant();
    if (!rows || *rows > most_rows) return "more than 4 rows, or nobody knows how many";
    if (product.b.axes.back() + 2 != static_cast<int>(product.b.axes.size()))
      return "the matrix does not lie output by output";
    if (body.inputs()[product.a.input]->meta().strides || body.inputs()[product.b.input]->meta().strides)
      return "an operand is strided";
    return "";
  }

  bool may_overwrite(const ir::Graph& body, size_t operand) const override {
    return may_overwrite_addend(body, operand);
  }

  std::vector<int> preferred_order(const ir::Graph& body) const override { return preferred_order_of_product(body); }
  bool reads_rows(const ir::Graph& body, size_t operand) const override { return is_left_operand(body, operand); }
  bool writes_rows() const override { return true; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<FewRowsCall>();
    [[maybe_unused]] std::string refusal = read_product(*site.body, site.symbols, call->product);
    assert(refusal.empty());
    call->loops = make_loops(call->product, site);
    const Loops& loops = call->loops;
    const ir::Weight* weight = site.operands[call->product.b.input].weight;
    const bool dense = (loops.b.stride(2) == 1 || loops.k() == 1) && (loops.a.stride(1) == 1 || loops.k() == 1) &&
                       (loops.y.stride(1) == 1 || loops.n() == 1);
    if (loops.rank() != 2 || !loops.fits || loops.m() > most_rows || !dense || (weight && weight->layout))
      return other_kernel(call->product)
          .prepare(site);  // lower laid the operands out in another way than this reads them
    call->result = site.operands.size();
    if (call->product.bias >= 0) call->bias_stride = site.operands[call->product.bias].strides[0];
    // A multiple of 64 columns, so that no two threads write one cache line.
    call->tile_columns = std::max<int64_t>(1, tile_elements / std::max<int64_t>(loops.k(), 1) / 64) * 64;
    if (loops.n() * loops.k() <= tile_elements) call->tile_columns = std::max<int64_t>(loops.n(), 1);
    call->flops = 2.0 * static_cast<double>(loops.m() * loops.n() * loops.k());
    call->bytes = 4.0 * static_cast<double>(loops.n() * loops.k() + loops.m() * (loops.n() + loops.k()));
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& few_rows() {
  static const FewRows kernel;
  return kernel;
}

}  // namespace atenon::kernels
