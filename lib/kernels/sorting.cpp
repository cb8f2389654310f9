// Sorting along an axis, and the k largest or smallest elements of it, or the first k of them sorted.
//
// A line becomes words (tensor/sort_words.h). Of equal elements sorting keeps the order; which of them topk takes,
// move_first says.
#include <algorithm>
#include <cassert>
#include <utility>

#include "kernels/body.h"
#include "kernels/lines.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"
#include "tensor/largest.h"
#include "tensor/sort_words.h"

namespace atenon::kernels {

namespace {

struct Sorting {
  int64_t axis = 0;
  bool descending = false;
  bool is_first = false;                // k elements as sorting has them
  bool is_topk = false, sorted = true;  // sorted: of topk
  int values = -1, indices = -1;        // results of the body; -1: nobody reads them
};

std::string read_sorting(const ir::Graph& body, const shape::Bindings& symbols, Sorting& found) {
  if (body.size() != 1) return "needs a body of one node";
  const ir::Node& node = *body.forward().begin();
  const std::string name = name_without_overload(node.target());
  const bool is_topk = name == "aten::topk", is_stable = node.target() == "aten::sort.stable",
             is_first = name == "atenon::sort_first";
  if (name != "aten::sort" && !is_topk && !is_first) return node.target() + " sorts nothing";
  Arguments arguments(node, symbols);
  const ir::Value* x = arguments.tensor(0, "self");
  if (!x || x->producer) return "needs a tensor";
  const ScalarType dtype = x->meta().dtype;
  if (dtype != ScalarType::f32 && dtype != ScalarType::f64 && dtype != ScalarType::i32 && dtype != ScalarType::i64)
    return "has no code for " + std::string(name_of(dtype));
  const size_t first = is_topk || is_stable || is_first ? 2 : 1;
  const auto axis = arguments.integer(first, "dim", -1);
  const auto largest =
      is_topk ? arguments.boolean(3, "largest", true) : arguments.boolean(first + 1, "descending", false);
  const auto sorted = is_topk ? arguments.boolean(4, "sorted", true) : true;
  if (!axis || !largest || !sorted) return "its axis or its order is symbolic";
  found.is_first = is_first;
  found.is_topk = is_topk;
  found.sorted = *sorted;
  found.axis = *axis < 0 ? *axis + x->meta().rank() : *axis;
  found.descending = *largest;
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    if (body.outputs()[i].value() == node.result(0)) found.values = static_cast<int>(i);
    if (body.outputs()[i].value() == node.result(1)) found.indices = static_cast<int>(i);
  }
  return "";
}

struct IsBefore {  // equal elements are not before each other
  template <class W>
  bool operator()(const W& a, const W& b) const {
    return key(a) < key(b);
  }
};
constexpr IsBefore is_before;

constexpr int64_t block = 64;  // elements that are looked at together

class SortingCall : public TiledCall {
 public:
  Sorting sorting;
  Operand x;
  std::vector<Operand> results;
  int64_t n = 1, k = 1, lines = 1, grain = 1;
  std::vector<size_t> axes;  // that count the lines

  bool is_wide() const { return size_of(x.dtype) == 8; }
  bool keeps_few() const { return (k + 1) * 8 <= n && (sorting.sorted || is_few(k, n)); }
  int64_t room() const { return 2 * (k + 1 + block); }  // words that are looked through for few
  int64_t tiles() const override { return divide_up(lines, grain); }
  size_t worker_bytes() const override {
    return static_cast<size_t>(sorting.is_topk ? std::max(n, room()) : 2 * n) *
           (is_wide() ? sizeof(WideWord) : sizeof(Word));
  }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* own) const override {
    for (int64_t line = tile * grain; line < std::min(lines, (tile + 1) * grain); ++line)
      x.dtype == ScalarType::f32   ? sort_line<float, Word>(buffers, line, own)
      : x.dtype == ScalarType::f64 ? sort_line<double, WideWord>(buffers, line, own)
      : x.dtype == ScalarType::i32 ? sort_line<int32_t, Word>(buffers, line, own)
                                   : sort_line<int64_t, WideWord>(buffers, line, own);
  }

 private:
  template <class W, class T>
  W word_at(const T* source, int64_t step, int64_t i) const {
    const auto found = key_of(source[i * step]);
    return word(sorting.descending ? ~found : found, i);
  }

  // The first k words of a line, sorted, found among the elements before the last of those so far, which most are not;
  // a NaN may be before it. Words are all different, so of equal elements the first are found; topk refuses them
  // (false), as its order of them is move_first's.
  template <bool descending, class T, class W>
  bool find_few(const T* source, int64_t step, W* words) const {
    T last{};
    bool knows_last = false;
    const auto may_be = [&](T x) { return descending ? !(x <= last) : !(x >= last); };
    const int64_t few = k + 1;
    for (int64_t i = 0, count = 0; i < n;) {
      const int64_t end = std::min(n, i + block);
      if (knows_last && step == 1 && end == i + block) {
        int any = 0;
        for (int64_t j = 0; j < block; ++j) any |= may_be(source[i + j]);
        if (!any) i = end;
      }
      for (; i < end; ++i) {
        words[count] = word_at<W>(source, step, i);
        count += !knows_last || may_be(source[i * step]);
      }
      if (i < n && (knows_last ? count + block <= room() : count < 2 * few)) continue;
      std::nth_element(words, words + k, words + count);
      count = few;
      last = source[position(words[k]) * step];
      knows_last = true;
    }
    std::sort(words, words + few);
    return sorting.is_first || std::adjacent_find(words, words + few, [](const W& a, const W& b) {
                                 return !is_before(a, b);
                               }) == words + few;
  }

  // Where the line begins in an operand, and the distance of its elements.
  std::pair<int64_t, int64_t> place(const Operand& operand, int64_t line) const {
    return {begin_of_line(operand, axes, line),
            x.sizes.empty() ? 1 : operand.strides[static_cast<size_t>(sorting.axis)]};
  }

  template <class T, class W>
  void sort_line(std::span<void* const> buffers, int64_t line, void* scratch) const {
    const auto [from, step] = place(x, line);
    const T* source = static_cast<const T*>(buffers[0]) + from;
    W* words = static_cast<W*>(scratch);
    const bool is_done =
        (sorting.is_topk || sorting.is_first) && keeps_few() &&
        (sorting.descending ? find_few<true>(source, step, words) : find_few<false>(source, step, words));
    if (!is_done) {
      for (int64_t i = 0; i < n; ++i) words[i] = word_at<W>(source, step, i);
      if (sorting.is_topk)
        move_first(words, k, n, sorting.sorted, is_before);
      else
        words = sort_words(words, words + n, n);
    }
    if (sorting.values >= 0) {
      const auto [to, distance] = place(results[static_cast<size_t>(sorting.values)], line);
      T* values = static_cast<T*>(buffers[1 + static_cast<size_t>(sorting.values)]) + to;
      for (int64_t i = 0; i < k; ++i) values[i * distance] = source[position(words[i]) * step];
    }
    if (sorting.indices >= 0) {
      const auto [to, distance] = place(results[static_cast<size_t>(sorting.indices)], line);
      int64_t* indices = static_cast<int64_t*>(buffers[1 + static_cast<size_t>(sorting.indices)]) + to;
      for (int64_t i = 0; i < k; ++i) indices[i * distance] = position(words[i]);
    }
  }
};

class SortingKernel : public Kernel {
 public:
  const char* name() const override { return "sorting"; }

  std::string refusal(const ir::Graph& body) const override {
    Sorting ignored;
    return read_sorting(body, {}, ignored);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<SortingCall>();
    [[maybe_unused]] std::string refusal = read_sorting(*site.body, site.symbols, call->sorting);
    assert(refusal.empty() && site.operands.size() == 1);
    call->x = site.operands[0];
    call->results = site.results;
    call->axes = axes_but(call->x.sizes.size(), static_cast<size_t>(call->sorting.axis));
    for (size_t axis = 0; axis < call->x.sizes.size(); ++axis) {
      const bool is_sorted = static_cast<int64_t>(axis) == call->sorting.axis;
      (is_sorted ? call->n : call->lines) *= call->x.sizes[axis];
      if (is_sorted) call->k = site.results[0].sizes[axis];
    }
    call->grain = 1 + 2048 / std::max<int64_t>(call->n, 1);
    const auto count = static_cast<double>(call->lines);
    call->bytes = count * (static_cast<double>(call->n) + static_cast<double>(call->k)) *
                  static_cast<double>(size_of(call->x.dtype));
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& sorting() {
  static const SortingKernel kernel;
  return kernel;
}

}  // namespace atenon::kernels
