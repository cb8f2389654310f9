// What the kernels over oneDNN share: descriptors of operands, weights in named layouts, post-ops, and a call made of
// primitives.
//
// A call is a short list of primitives: perhaps reorders of operands whose layout the main primitive does not take, the
// main one, perhaps a reorder of its result. They run on all threads, or, for a call in tiles, on one thread for each
// tile. All memory comes from the caller (scratchpads too), so calls can run side by side.
#pragma once

#include <algorithm>
#include <dnnl.hpp>
#include <functional>

#include "kernels/body.h"
#include "kernels/kernel.h"
#include "support/idle.h"

namespace atenon::kernels {

const dnnl::engine& onednn_engine();

// While one lives, plans that this thread makes, and gemms that a primitive calls, are for `count` threads, however
// many there are; 0: for those. More run no faster, fewer share the work out.
class PlannedThreads {
 public:
  explicit PlannedThreads(int count);
  ~PlannedThreads();
  PlannedThreads(const PlannedThreads&) = delete;
  PlannedThreads& operator=(const PlannedThreads&) = delete;
};

dnnl::memory::desc describe(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
dnnl::memory::desc describe_any(const std::vector<int64_t>& sizes);
// Dense, axes from slowest to fastest as in `order`.
dnnl::memory::desc describe_dense(const std::vector<int64_t>& sizes, const std::vector<int>& order);
bool is_dense_in_order(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                       const std::vector<int>& order);

// The layout of a weight whose axis axes[i] is axis i of `desc`; -1 marks an axis of size 1 that the weight does not
// have. Two axes of `desc` may be one of the weight's: groups, and the channels in each. nullopt where blocks do not
// say it all.
std::optional<ir::BlockedLayout> layout_of(const dnnl::memory::desc& desc, const std::vector<int>& axes, size_t rank);

// Bytes from one tile of a call to the next, along the outer and the inner axis that it is cut along.
struct TileStep {
  int64_t outer = 0, inner = 0;
  bool operator==(const TileStep&) const = default;
};

// Where a primitive finds an argument when the call runs.
struct Place {
  enum class Kind { buffer, scratch, owned };
  Kind kind = Kind::buffer;
  size_t index = 0;    // buffer: number; scratch: bytes from its start; owned: position in the call's storages
  TileStep step = {};  // of a buffer
};

class OnednnCall : public PreparedCall {
 public:
  struct Binding {
    int argument = 0;  // DNNL_ARG_SRC ...
    dnnl::memory::desc desc;
    Place place;
  };
  // Appends a primitive; its scratchpad is added to the bindings.
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, std::vector<Binding> bindings);
  // Copies between two layouts; between rows and channels last by loops of our own.
  void add_reorder(const dnnl::memory::desc& from, Place source, const dnnl::memory::desc& to, Place target);
  // Room in the scratch buffer that lives for the whole call.
  Place reserve(const dnnl::memory::desc& desc);
  Place own(std::shared_ptr<Storage> storage);
  // Elements that never change, brought into the wanted layout now.
  Place own(const Tensor& tensor, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted);
  // The weight or other operand `index` as `wanted`: its own bytes where they lie so, a copy made now for a weight that
  // all tiles read, else a reorder before the primitive. `axes` as in layout_of, `step` as in Place.
  Place operand(const CallSite& site, size_t index, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted,
                const std::vector<int>& axes, TileStep step = {});
  // Loops of our own instead of a primitive, which find their buffers at `places`: of a whole call, at most
  // most_buffers.
  void add_loops(std::unique_ptr<PreparedCall> loops, std::vector<Place> places);
  static constexpr size_t most_buffers = 24;
  // Whether loops of our own do everything.
  bool has_loops_alone() const {
    return std::ranges::all_of(steps_, [](const Step& step) { return step.turn || step.loops; });
  }
  // The primitives, planned for one thread, are a tile's.
  void run_in_tiles(int64_t outer, int64_t inner) { tiles_ = outer * inner, inner_tiles_ = inner; }

  size_t scratch_bytes() const override { return (reserved_ + scratchpad_) * static_cast<size_t>(workers()); }
  Result<void> run(std::span<void* const> buffers, void* scratch) override;

 private:
  // Matrices that are turned, in floats: rows of `from` that lie from_row apart are columns of `to`.
  struct Turn {
    int64_t batch, rows, columns, from_batch, from_row, to_batch, to_row;
    bool columns_are_pixels;  // else rows are
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<Binding> bindings;
    std::optional<Turn> turn;  // instead of a primitive: the first binding's bytes into the second's
    std::unique_ptr<PreparedCall> loops = nullptr;  // instead of a primitive
    std::vector<Place> places = {};                 // of their buffers
    bool calls_gemm = false;  // which cuts sums by the number of threads, whose members then wait for each other
  };
  // Memory objects of one running invocation: they hold pointers, so side-by-side runs need one set each.
  struct Memories {
    std::vector<std::vector<dnnl_exec_arg_t>> of_step;
    ~Memories();
  };
  static std::optional<Turn> turn_between(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  static void run_turn(const Turn& turn, const float* from, float* to);
  std::unique_ptr<Memories> make_memories() const;
  int64_t workers() const;
  void run_steps(std::span<void* const> buffers, void* scratch, int64_t tile);

  std::vector<Step> steps_;
  std::vector<std::shared_ptr<Storage>> owned_;
  size_t reserved_ = 0;
  size_t scratchpad_ = 0;  // one region for all steps, behind the reserved ones
  int64_t tiles_ = 0;      // 0: each step runs on all threads
  int64_t inner_tiles_ = 1;
  Idle<Memories> idle_;
};

// The post-ops of a primitive, and the operands that they read.
struct PostOps {
  dnnl::post_ops ops;
  struct Read {
    int position = 0;           // of the post-op in the chain
    int operand = 0;            // of the call
    dnnl::memory::desc lies;    // how the operand lies, in the destination's rank
    dnnl::memory::desc wanted;  // how the primitive wants it
  };
  std::vector<Read> reads;
};
// `described[i]` is operand i in the rank of `result`, the destination. An addition of operand `summed` (-1: none),
// whose buffer the result overwrites, becomes a sum.
PostOps make_post_ops(const std::vector<PostOp>& steps, const dnnl::memory::desc& result, int summed,
                      const std::vector<dnnl::memory::desc>& described);
// An operand with leading axes of size 1 added, as broadcasting does.
dnnl::memory::desc describe_broadcast(const Operand& operand, size_t rank);

// A call that wants its image `x`, an operand, and its result channels last, by what `prepare` makes of it so: what
// lies otherwise is copied before or behind it. Null where `prepare` gives none, or there are too many operands.
std::unique_ptr<PreparedCall> through_channels_last(
    const CallSite& site, size_t x, const std::function<std::unique_ptr<PreparedCall>(const CallSite&)>& prepare);

// An error where a primitive cannot be made: the program asks for what oneDNN does not have.
Diagnostic onednn_error(const char* kernel, const dnnl::error& cause);

}  // namespace atenon::kernels
