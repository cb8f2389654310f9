// Where numbers belong in a sorted sequence: searchsorted and bucketize.
//
// By halves, several numbers at a time: each waits for the element that it meets next, but not for those that the
// others meet. All take the same steps, so that nothing has to be foretold.
#include <algorithm>
#include <cassert>

#include "kernels/body.h"
#include "kernels/lines.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

struct Searching {
  int sequence = -1, x = -1;  // inputs of the body
  bool right = false;         // behind what is equal
};

std::string read_searching(const ir::Graph& body, const shape::Bindings& symbols, Searching& found) {
  if (body.size() != 1) return "needs a body of one node";
  const ir::Node& node = *body.forward().begin();
  const std::string name = name_without_overload(node.target());
  const bool is_bucketize = name == "aten::bucketize";
  if (name != "aten::searchsorted" && !is_bucketize) return node.target() + " searches nothing";
  const Arguments arguments(node, symbols);
  const ir::Value *sequence = is_bucketize ? arguments.tensor(1, "boundaries") : arguments.tensor(0, "sorted_sequence"),
                  *x = arguments.tensor(is_bucketize ? 0 : 1, "self");
  if (!sequence || !x || sequence->producer || x->producer) return "needs two tensors";
  if (arguments.find(5, "sorter")) return "it sorts first";
  const ScalarType dtype = x->meta().dtype;
  if (sequence->meta().dtype != dtype) return "its operands are of two types";
  if (dtype != ScalarType::f32 && dtype != ScalarType::f64 && dtype != ScalarType::i32 && dtype != ScalarType::i64)
    return "has no code for " + std::string(name_of(dtype));
  if (sequence->meta().rank() > 1 && sequence->meta().rank() != x->meta().rank()) return "an operand has other axes";
  const auto right = arguments.boolean(3, "right", false);
  if (!right) return "its side is symbolic";
  found.sequence = sequence->index;
  found.x = x->index;
  found.right = *right || arguments.text(4, "side", "left") == "right";
  return "";
}

constexpr int64_t few = 64;      // elements of a sequence
constexpr int64_t several = 16;  // numbers that are looked for together
constexpr int64_t tile_numbers = 4096;

// How many elements there are before the NaN at the end of a sequence: no number has its place among those.
template <class T>
int64_t numbers_of(const T* elements, int64_t step, int64_t n) {
  const auto is_number = [&](int64_t at) { return elements[at * step] == elements[at * step]; };
  if (n == 0 || is_number(n - 1)) return n;
  int64_t begin = 0;
  for (int64_t left = n - 1; left > 0;) {
    const int64_t half = (left + 1) / 2;
    if (is_number(begin + half - 1)) begin += half;
    left -= half;
  }
  return begin;
}

// How many of n elements, `step` apart, stand before each of `several` numbers.
template <bool right, class T>
void find_places(const T* elements, int64_t step, int64_t n, const T* numbers, int64_t* places) {
  std::fill(places, places + several, 0);
  for (int64_t left = n, half; left > 0; left -= half) {
    half = (left + 1) / 2;
    for (int64_t j = 0; j < several; ++j) {
      const T met = elements[(places[j] + half - 1) * step];
      const bool is_before = !(right ? met > numbers[j] : met >= numbers[j]);
      places[j] += half & -static_cast<int64_t>(is_before);
    }
  }
}

class SearchingCall : public TiledCall {
 public:
  Searching searching;
  Operand sequence, x, y;
  int64_t n = 0;                  // elements of a sequence
  int64_t length = 1, count = 1;  // numbers of a line, and in all
  std::vector<size_t> axes;       // that count the lines

  int64_t tiles() const override { return divide_up(count, tile_numbers); }
  size_t worker_bytes() const override { return 0; }

  void run_tile(std::span<void* const> buffers, int64_t tile, void*) const override {
    const int64_t end = std::min(count, (tile + 1) * tile_numbers);
    for (int64_t at = tile * tile_numbers, next; at < end; at = next) {
      next = std::min(end, (at / length + 1) * length);
      x.dtype == ScalarType::f32   ? search_line<float>(buffers, at, next - at)
      : x.dtype == ScalarType::f64 ? search_line<double>(buffers, at, next - at)
      : x.dtype == ScalarType::i32 ? search_line<int32_t>(buffers, at, next - at)
                                   : search_line<int64_t>(buffers, at, next - at);
    }
  }

 private:
  // Where a line of numbers begins in an operand, or the sequence in which they are looked for; one may serve all.
  int64_t place(const Operand& operand, int64_t line) const {
    return operand.sizes.size() == x.sizes.size() ? begin_of_line(operand, axes, line) : 0;
  }
  static int64_t distance(const Operand& operand) { return operand.strides.empty() ? 1 : operand.strides.back(); }

  template <class T>
  void search_line(std::span<void* const> buffers, int64_t at, int64_t numbers) const {
    y.dtype == ScalarType::i64 ? search_line<T, int64_t>(buffers, at, numbers)
                               : search_line<T, int32_t>(buffers, at, numbers);
  }

  template <class T, class Place>
  void search_line(std::span<void* const> buffers, int64_t at, int64_t numbers) const {
    const int64_t line = at / length, first = at % length;
    const T* from = static_cast<const T*>(buffers[static_cast<size_t>(searching.x)]) + place(x, line);
    const T* elements = static_cast<const T*>(buffers[static_cast<size_t>(searching.sequence)]) + place(sequence, line);
    Place* to = static_cast<Place*>(buffers.back()) + place(y, line) + first * distance(y);
    from += first * distance(x);
    const int64_t last = numbers_of(elements, distance(sequence), n);
    for (int64_t i = 0; i < numbers; i += several) {
      const int64_t here = std::min(several, numbers - i);
      T number[several] = {};
      int64_t places[several];
      for (int64_t j = 0; j < here; ++j) number[j] = from[(i + j) * distance(x)];
      searching.right ? find_places<true>(elements, distance(sequence), last, number, places)
                      : find_places<false>(elements, distance(sequence), last, number, places);
      for (int64_t j = 0; j < here; ++j)
        to[(i + j) * distance(y)] = static_cast<Place>(places[j] < last ? places[j] : n);
    }
  }
};

class SearchingKernel : public Kernel {
 public:
  const char* name() const override { return "searching"; }

  std::string refusal(const ir::Graph& body) const override {
    Searching ignored;
    return read_searching(body, {}, ignored);
  }

  std::string drawback(const ir::Graph& body) const override {
    Searching searching;
    read_searching(body, {}, searching);
    const ir::SymInt& n = body.inputs()[static_cast<size_t>(searching.sequence)]->meta().sizes.back();
    return n.is_constant() && *n.constant() <= few ? "looking at all of so few elements is as fast" : "";
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<SearchingCall>();
    [[maybe_unused]] std::string refusal = read_searching(*site.body, site.symbols, call->searching);
    assert(refusal.empty());
    call->sequence = site.operands[static_cast<size_t>(call->searching.sequence)];
    call->x = site.operands[static_cast<size_t>(call->searching.x)];
    call->y = site.results[0];
    call->n = call->sequence.sizes.back();
    if (!call->x.sizes.empty()) call->length = call->x.sizes.back();
    call->axes = axes_but(call->x.sizes.size(), call->x.sizes.size() - 1);
    for (const int64_t size : call->x.sizes) call->count *= size;
    call->bytes =
        static_cast<double>(call->count) * static_cast<double>(size_of(call->x.dtype) + size_of(call->y.dtype));
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& searching() {
  static const SearchingKernel kernel;
  return kernel;
}

}  // namespace atenon::kernels
