// Matrix products with bias and epilogue, by oneDNN.
//
// A weight on the right is taken in the blocks that it was packed into at `lower`, whatever the sizes of this call
// would have asked for: a program with dynamic sizes has one packed weight.
//
// A product is cut by its sizes into tiles that one thread computes. oneDNN itself cuts sums by the number of threads,
// and leaves out parts of batched ones: wrong numbers for 8 threads.
#include <numeric>
#include <string_view>

#include "kernels/list.h"
#include "kernels/onednn.h"
#include "kernels/product.h"

namespace atenon::kernels {

namespace {

using dnnl::memory;

memory::desc describe(const Matrix& matrix) {
  // The stride of an axis of size 1 means nothing, but oneDNN tells layouts by it.
  std::vector<int64_t> strides = matrix.strides;
  int64_t dense = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    if (matrix.sizes[axis] == 1) strides[axis] = dense;
    dense = std::max(dense, strides[axis] * matrix.sizes[axis]);
  }
  return kernels::describe(matrix.sizes, strides);
}

constexpr int64_t tile_products = 512 * 1024;  // at least: less is done before a second thread has woken up
constexpr int64_t tile_lines = 64;             // rows or columns, at least: each tile packs the other matrix anew
constexpr int64_t most_tiles = 64;
// A batch is cut first, since oneDNN's faster products do not read parts of its matrices. From so many tiles on, it
// alone is; else each of them is cut further, into so many in all.
constexpr int64_t enough_batches = 4;
constexpr int64_t most_in_batches = 16;

// The result, cut into equal tiles along a batch axis, and along rows or columns.
struct Cut {
  int64_t outer = 1, inner = 1;  // tiles
  TileStep a, b, y, bias;
  std::vector<TileStep> epilogue;  // one an operand of the call
};

struct Chosen {
  Product product;
  Loops loops;  // of a tile
  Cut cut;
  dnnl::matmul::primitive_desc primitive;
  memory::desc a_lies, a, b_lies, b, bias, y_lies, y;
  PostOps post_ops;
  bool in_place = true;         // computed where the result lies
  double flops = 0, bytes = 0;  // of all tiles
  bool is_empty = false;        // sums of nothing, which oneDNN does not write: of one product with zeros instead
};

memory::desc in_rows(const memory::desc& lies) {
  std::vector<int> order(lies.get_ndims());
  std::iota(order.begin(), order.end(), 0);
  return describe_dense(lies.get_dims(), order);
}

// Computes from and to where operands and result lie, or, if they are `copied`, in rows.
void make_primitive(Chosen& chosen, const CallSite& site, const memory::desc& b, bool copied = false) {
  const Loops& loops = chosen.loops;
  chosen.a_lies = describe(loops.a);
  chosen.y_lies = describe(loops.y);
  chosen.a = copied ? in_rows(chosen.a_lies) : chosen.a_lies;
  chosen.y = copied ? in_rows(chosen.y_lies) : chosen.y_lies;
  std::vector<memory::desc> described(site.operands.size());
  for (size_t i = 0; i < loops.epilogue.size(); ++i)
    if (!loops.epilogue[i].sizes.empty()) described[chosen.product.epilogue[i].operand] = describe(loops.epilogue[i]);
  // oneDNN's fast products take a sum as the first step of an epilogue only.
  const int overwritten = site.results[0].overwrites;
  chosen.in_place = chosen.y == chosen.y_lies && !(copied && overwritten >= 0);
  const int summed = chosen.in_place ? overwritten : -1;
  chosen.post_ops = make_post_ops(chosen.product.epilogue, chosen.y, summed, described);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(chosen.post_ops.ops);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (chosen.product.bias >= 0) {
    std::vector<int64_t> sizes(loops.rank(), 1);
    sizes.back() = loops.n();
    chosen.bias = in_rows(describe_any(sizes));
    chosen.primitive = dnnl::matmul::primitive_desc(onednn_engine(), chosen.a, b, chosen.bias, chosen.y, attributes);
  } else {
    chosen.primitive = dnnl::matmul::primitive_desc(onednn_engine(), chosen.a, b, chosen.y, attributes);
  }
  chosen.b = chosen.primitive.weights_desc();
}

// A hundred times slower than what oneDNN has else.
bool is_plain_loops(const Chosen& chosen) {
  return std::string_view(chosen.primitive.impl_info_str()).starts_with("ref");
}

// Whether oneDNN computes it from and to rows only: otherwise by plain loops, or, where the result is turned, with an
// operand of one number a column, which it would look for at a wrong address.
bool wants_copies(const Chosen& chosen) {
  const auto has_columns = [&](const PostOps::Read& read) {
    return read.wanted.get_dims() != chosen.y.get_dims() && read.wanted.get_dims().back() > 1;
  };
  return is_plain_loops(chosen) ||
         (chosen.y != in_rows(chosen.y_lies) &&
          std::any_of(chosen.post_ops.reads.begin(), chosen.post_ops.reads.end(), has_columns));
}

// The descriptor of a layout that oneDNN's products know, or an empty one. The weight has `rank` axes.
memory::desc describe_packed(const Loops& loops, const ir::BlockedLayout& layout, const std::vector<int>& axes,
                             size_t rank) {
  using tag = memory::format_tag;
  for (tag candidate : {tag::BA16a16b, tag::BA16a32b, tag::BA16a48b, tag::BA16a64b}) {
    memory::desc desc({loops.k(), loops.n()}, memory::data_type::f32, candidate);
    if (layout_of(desc, axes, rank) == layout) return desc;
  }
  return {};
}

// Makes `loops` those of a tile.
Cut make_cut(const Product& product, Loops& loops, size_t operands, bool keeps_columns) {
  Cut cut;
  cut.epilogue.resize(operands);
  const double products = count(loops.y.sizes) * static_cast<double>(loops.k());
  const auto most = static_cast<int64_t>(std::min<double>(most_tiles, products / tile_products));
  const size_t columns = loops.rank() - 1, rows = columns - 1;
  const auto choose_axis = [&](size_t first, size_t last, int64_t lines, int64_t at_most, int64_t& found) {
    size_t along = first;
    for (size_t axis = first; axis < last; ++axis)
      for (int64_t tiles = std::min(at_most, loops.y.sizes[axis] / lines); tiles > found; --tiles)
        if (loops.y.sizes[axis] % tiles == 0) found = tiles, along = axis;
    return along;
  };
  const size_t batch = choose_axis(0, rows, 1, most, cut.outer);
  const int64_t most_inside = cut.outer == 1               ? most
                              : cut.outer < enough_batches ? std::min(most, most_in_batches) / cut.outer
                                                           : 1;
  const size_t along = choose_axis(rows, columns + (keeps_columns ? 0 : 1), tile_lines, most_inside, cut.inner);
  const auto take_along = [](Matrix& matrix, size_t axis, int64_t tiles) {
    if (tiles == 1 || matrix.sizes.empty() || matrix.sizes[axis] == 1) return int64_t{0};
    matrix.sizes[axis] /= tiles;
    return matrix.sizes[axis] * matrix.strides[axis] * static_cast<int64_t>(sizeof(float));
  };
  const auto take = [&](Matrix& matrix, bool is_cut) {
    const int64_t outer = take_along(matrix, batch, cut.outer);
    return TileStep{outer, is_cut ? take_along(matrix, along, cut.inner) : 0};
  };
  cut.a = take(loops.a, along != columns);
  cut.b = take(loops.b, along != rows);
  cut.y = take(loops.y, true);
  if (along == columns) cut.bias.inner = loops.n() * static_cast<int64_t>(sizeof(float));
  for (size_t i = 0; i < loops.epilogue.size(); ++i)
    if (product.epilogue[i].is_binary()) cut.epilogue[product.epilogue[i].operand] = take(loops.epilogue[i], true);
  return cut;
}

Chosen read(const CallSite& site, bool pack) {
  Chosen chosen;
  [[maybe_unused]] std::string refusal = read_product(*site.body, site.symbols, chosen.product);
  assert(refusal.empty());
  chosen.loops = make_loops(chosen.product, site);
  chosen.is_empty = chosen.loops.k() == 0;
  if (chosen.is_empty) {
    chosen.loops.a.sizes.back() = *std::prev(chosen.loops.b.sizes.end(), 2) = 1;
    for (Matrix* zeros : {&chosen.loops.a, &chosen.loops.b}) zeros->strides = contiguous_strides(zeros->sizes);
  }
  chosen.flops = 2 * count(chosen.loops.y.sizes) * static_cast<double>(chosen.loops.k());
  chosen.bytes = 4 * (count(chosen.loops.a.sizes) + count(chosen.loops.b.sizes) + count(chosen.loops.y.sizes));
  const ir::Weight* weight = site.operands[chosen.product.b.input].weight;
  chosen.cut = make_cut(chosen.product, chosen.loops, site.operands.size(), pack || (weight && weight->layout));
  return chosen;
}

void choose(Chosen& chosen, const CallSite& site, bool pack) {
  const PlannedThreads alone(1);
  chosen.b_lies = describe(chosen.loops.b);
  const ir::Weight* weight = site.operands[chosen.product.b.input].weight;
  const bool packed = weight && weight->layout;
  if (chosen.loops.rank() > 2 || !(packed || pack)) {
    make_primitive(chosen, site, chosen.b_lies);
    if (wants_copies(chosen)) make_primitive(chosen, site, in_rows(chosen.b_lies), true);
    return;
  }
  const std::vector<int>& axes = chosen.product.b.axes;
  memory::desc blocks =
      packed ? describe_packed(chosen.loops, *weight->layout, axes, weight->tensor.sizes.size()) : memory::desc();
  if (blocks.is_zero()) blocks = describe_any({chosen.loops.k(), chosen.loops.n()});
  make_primitive(chosen, site, blocks);
  if (is_plain_loops(chosen)) make_primitive(chosen, site, blocks, true);
}

class OnednnMatmul : public Kernel {
 public:
  const char* name() const override { return "onednn.matmul"; }

  std::string refusal(const ir::Graph& body) const override {
    Product product;
    if (std::string refusal = read_product(body, {}, product); !refusal.empty()) return refusal;
    if (product.groups > 1) return "the convolution has groups";
    return thin_refusal(body, product);
  }

  std::string drawback(const ir::Graph& body) const override {
    Product product;
    read_product(body, {}, product);
    return thin_drawback(body, product);
  }

  bool may_overwrite(const ir::Graph& body, size_t operand) const override {
    return may_overwrite_addend(body, operand);
  }

  bool writes_along(size_t axis, size_t rank) const override { return axis + 1 == rank; }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    try {
      Chosen chosen = read(site, true);
      choose(chosen, site, true);
      if (static_cast<int>(operand) != chosen.product.b.input || chosen.loops.rank() > 2 || chosen.b == chosen.b_lies)
        return std::nullopt;
      return layout_of(chosen.b, chosen.product.b.axes, site.operands[operand].sizes.size());
    } catch (const dnnl::error&) {
      return std::nullopt;  // prepare() says it
    }
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override try {
    Chosen chosen = read(site, false);
    const Product& product = chosen.product;
    const bool is_batch = product.b.axes.size() > 2;
    if (is_batch && !constant_products(*site.body, product))
      if (std::unique_ptr<PreparedCall> call = prepare_small_matrices(site)) return call;  // a run knows that they are
    const Cut& cut = chosen.cut;
    choose(chosen, site, false);
    auto call = std::make_unique<OnednnCall>();
    call->run_in_tiles(cut.outer, cut.inner);
    const PlannedThreads alone(1);
    const Place result{Place::Kind::buffer, site.operands.size(), cut.y};
    const Place computed = chosen.in_place ? result : call->reserve(chosen.y);
    const auto place = [&](const View& view, const memory::desc& lies, const memory::desc& wanted, TileStep step) {
      if (chosen.is_empty) return call->own(Storage::zeros(wanted.get_size()));
      return call->operand(site, view.input, lies, wanted, view.axes, step);
    };
    std::vector<OnednnCall::Binding> bindings{
        {DNNL_ARG_SRC, chosen.a, place(product.a, chosen.a_lies, chosen.a, cut.a)},
        {DNNL_ARG_WEIGHTS, chosen.b, place(product.b, chosen.b_lies, chosen.b, cut.b)},
        {DNNL_ARG_DST, chosen.y, computed}};
    if (product.bias >= 0)
      bindings.push_back(
          {DNNL_ARG_BIAS, chosen.bias, {Place::Kind::buffer, static_cast<size_t>(product.bias), cut.bias}});
    for (const PostOps::Read& read : chosen.post_ops.reads)
      bindings.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(read.position) | DNNL_ARG_SRC_1, read.wanted,
                          call->operand(site, read.operand, read.lies, read.wanted, {}, cut.epilogue[read.operand])});
    call->add(dnnl::matmul(chosen.primitive), chosen.primitive.scratchpad_desc(), std::move(bindings));
    if (!chosen.in_place) call->add_reorder(chosen.y, computed, chosen.y_lies, result);

    call->flops = chosen.flops;
    call->bytes = chosen.bytes;
    call->detail = chosen.primitive.impl_info_str();
    return std::unique_ptr<PreparedCall>(std::move(call));
  } catch (const dnnl::error& cause) {
    return onednn_error(name(), cause);
  }
};

}  // namespace

const Kernel& onednn_matmul() {
  static const OnednnMatmul kernel;
  return kernel;
}

}  // namespace atenon::kernels
