// What a Meaning becomes at concrete sizes: straight-line steps over registers of `lanes` elements.
//
// Elements of the result are numbered in the order in which they lie and computed `lanes` at a time, one a lane.
// Reductions loop over their own variables, in order, around such steps: every lane adds up its own sum, so the order
// of a sum does not depend on how lanes were filled. Where there are few results, lanes run over the reduction's
// elements instead and are added up in the same order.
//
// A block of lanes is a part of a row (of the innermost loop), or of some rows, or some whole rows; what does not
// depend on the place in a row, or on the row, is computed again only where that changes.
//
// Steps of a reduction's body that do not depend on its variables move out of it. Integer expressions that are sums of
// loop variables are a lane part, made once a block, plus a number; a read at such an address is a strided load. A read
// outside its tensor, or an integer division by zero, only matters where its value does: such registers carry a fault
// a lane, which `select`, `and`, `or` and guards drop together with the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "opset/meaning.h"
#include "reference/vector_ops.h"
#include "tensor/tensor.h"

namespace atenon::reference {

inline constexpr int lanes = 512;
using Register = int;
inline constexpr Register no_register = -1;

// constant + lane part (a register made once a block) + coefficient * variable for variables that are the same in all
// lanes.
struct Address {
  int64_t constant = 0;
  int lane_form = -1;  // in Scope::lane_forms of the scope that owns the lanes
  std::vector<std::pair<int, int64_t>> uniform;
};

struct Step {
  enum class Kind : uint8_t { constant, linear, read, checked_read, reduce, compute };
  struct Axis {  // of a checked read
    Register index = no_register;
    int64_t size = 0;
    int64_t stride = 0;
    bool safe = false;  // proven to lie inside
  };
  Kind kind = Kind::compute;
  opset::ScalarOp op = opset::ScalarOp::constant;
  ScalarType dtype = ScalarType::f32;  // of the result
  bool floating = false;               // operands are floats
  Register out = no_register;
  Register in[3] = {no_register, no_register, no_register};
  double number = 0;
  int64_t integer = 0;
  Address address;                    // linear, read
  Register mask = no_register;        // of reads that are only inside where this holds
  int tensor = -1;                    // read, checked_read
  std::vector<Axis> axes;             // checked_read
  int reduction = -1;                 // reduce: in LoopProgram::reductions
  int check = -1;                     // in LoopProgram::checks, for steps that can fail by themselves
  uint8_t varies = in_rows | by_row;  // of steps among the lanes of scope 0: with what
  static constexpr uint8_t in_rows = 1, by_row = 2;
};

// A sum over the variables of the lanes, one coefficient each.
using LaneForm = std::vector<int64_t>;

struct Scope {
  bool owns_lanes = false;
  std::vector<int> lane_variables;  // outermost first
  std::vector<int64_t> lane_extents;
  std::vector<LaneForm> lane_forms;
  std::vector<Step> steps;
  std::vector<std::pair<Register, Register>> imports;  // one lane of an outer register, spread over all lanes of a copy
};

enum class MonoidKind : uint8_t { sum, product, maximum, minimum, any, all, argmax, argmin, windowmax, custom };

// A sum of products of two reads: what convolutions and matrix products spend their time with.
struct Product {
  int tensors[2] = {-1, -1};
  Address addresses[2];
  Register offsets[2] = {no_register, no_register};  // what an address has beside that, a number a lane: of divisions
  std::vector<int64_t> extents;                      // of the plan's variables
  size_t outer = 0;  // the first so many variables decide the guard, the others run inside
};

struct ReductionPlan {
  MonoidKind kind = MonoidKind::custom;
  int scope = -1;
  std::vector<int> variables;
  std::vector<Register> extents;  // per lane of the enclosing scope
  std::vector<Register> identity, element, accumulator;
  std::vector<Register> joined;  // custom: new accumulators, from the join scope's steps
  int join_scope = -1;
  std::vector<bool> floating;  // per component
  Register guard = no_register;
  bool prefix = false;
  bool spread = false;             // lanes run over the reduction
  std::optional<Product> product;  // then there are no elements; the scope holds steps of guard and offsets
};

struct Check {
  enum class Kind : uint8_t { range, zero } kind = Kind::range;
  int axis = 0;
  int64_t size = 0;
};

struct Store {
  int result = 0;
  Register value = no_register;
  bool floating = false;
  Address address;  // elements from the start of the result
};

// One pass over an index space: the nests of results that share their variables, or a scatter.
struct LoopProgram {
  std::vector<Scope> scopes;  // 0 is the outermost
  std::vector<ReductionPlan> reductions;
  std::vector<Check> checks;
  std::vector<Store> stores;
  bool columns_outside = false;   // blocks go down the rows first: more hangs on the place in a row than on the row
  bool last_step_stores = false;  // scope 0's last step makes the only result, anew in each block
  int64_t numel = 0;              // of the result
  int variable_count = 0;
  int register_count = 0;
  std::vector<bool> is_single;  // register -> holds floats of 32 bits: what has a narrower type than f64
  std::vector<int> fault_of;    // register -> slot of its fault, or -1
  int fault_count = 0;
  // Variables that are the same in all lanes and loop around the steps of scope 0 (all of the result's, where lanes run
  // over reductions; the axis of a prefix).
  std::vector<int> serial_variables;
  std::vector<int64_t> serial_extents;
  // Scatter: the place and value of each lane; applied in order.
  std::vector<Register> at;
  Register value = no_register;
  bool floating = false;
  MonoidKind join = MonoidKind::custom;  // custom: replace
};

// Where the elements of a program's operands and results lie: each pointer at the first one.
struct LoopData {
  std::vector<const std::byte*> operands;
  std::vector<ScalarType> operand_types;
  std::vector<std::byte*> results;
  std::vector<ScalarType> result_types;
};

// Registers and loop variables of one thread that runs a program.
class Frame {
 public:
  explicit Frame(const LoopProgram& program);

  // Before a part of a run, whose number no other run of this program has; `data` lives as long as the run.
  void start(const LoopData& data, int64_t number);

  double* doubles(Register r) { return reinterpret_cast<double*>(at_[size_t(r)]); }
  float* singles(Register r) { return reinterpret_cast<float*>(at_[size_t(r)]); }
  int64_t* integers(Register r) { return reinterpret_cast<int64_t*>(at_[size_t(r)]); }
  // 0 is well; else 1 + number of the check, in the upper 16 bits, above the offending index.
  int64_t* faults(Register r) {
    const int slot = program_.fault_of[size_t(r)];
    return slot < 0 ? nullptr : faults_.data() + size_t(slot) * lanes;
  }

  // Runs scope 0 for n lanes of its index space, in order from `first` on; or, with a width, for so many columns of
  // each row from there on.
  void run(int64_t first, int n, int64_t width = 0);
  void store(int n);
  int64_t address(const Address& address) const;  // without its lane part
  // The lane part, a number a lane; null where there is none.
  const int64_t* lane_part(const Address& address);

  std::vector<int64_t> variables;
  int64_t fault = 0;  // the first one that mattered

 private:
  // Lanes [begin, begin + count) lie in one row.
  struct Segment {
    int begin = 0;
    int count = 0;
  };
  struct LanePart {
    std::vector<int64_t> starts;  // one a segment
    int64_t stride = 0;
    bool strided = false;        // over all segments
    std::vector<int64_t> value;  // one a lane, if `spelled`
    bool spelled = false;
  };
  void fill_lanes(const Scope& scope, int64_t first, int n, int64_t width);
  void execute(const Step& step, int n);
  void execute(const std::vector<Step>& steps, int n);
  // Calls visit(from, lane, count, stride) for runs of lanes whose elements are `stride` apart.
  template <class Visit>
  void for_runs(const LanePart* part, int n, Visit visit) const;
  bool is_single(Register r) const { return program_.is_single[size_t(r)]; }
  template <class T, class Load>
  void load_as(const Step& step, Load load);
  void linear(const Step& step, int n);
  void read(const Step& step, int n);
  void checked_read(const Step& step, int n);
  void compute(const Step& step, int n);
  void select(const Step& step, int n);
  void cast(const Step& step, int n);
  void spread_faults(const Step& step, int n);
  void reduce(const ReductionPlan& plan, int n);
  void reduce_spread(const ReductionPlan& plan);
  // One operand of a sum of products.
  struct Factor {
    int tensor = -1;
    int64_t base = 0;    // of lane 0 at the first term
    int64_t stride = 0;  // from term to term
  };
  struct Run {
    int side = 0;  // whose places are the same
    int lane = 0, width = 0;
    bool is_beside = false;  // the other's lie side by side, and are read there
  };
  void reduce_products(const ReductionPlan& plan, int n);
  void find_runs(const Factor (&factors)[2]);
  void add_products(const Factor (&factors)[2], int64_t count);
  template <class T>
  void gather(const Factor& from, std::span<const int64_t> places, int64_t first, int64_t count, T* to) const;
  void join(const ReductionPlan& plan, const uint8_t* active, int n);
  void join_lane(const ReductionPlan& plan, int into, int from);

  const LoopProgram& program_;
  const VectorOps& ops_ = vector_ops();
  const LoopData* data_ = nullptr;
  std::byte* words_of(Register r) { return words_.get() + size_t(r) * lanes * 8; }
  const LanePart* part_of(const Address& address) const {
    return address.lane_form < 0 ? nullptr : &lane_parts_[static_cast<size_t>(address.lane_form)];
  }
  void compute_in_place(const Step& step, int n);

  std::unique_ptr<std::byte[]> words_;
  // Where each register is: among the words, or, without a copy, where its elements are read from or go to.
  std::vector<std::byte*> at_;
  bool stored_ = false;  // the last step has written the result
  std::vector<int64_t> faults_;
  std::vector<Segment> segments_;     // of the scope that owns the lanes just now
  std::vector<LanePart> lane_parts_;  // of its forms
  std::vector<int64_t> digits_;       // of a segment's row
  // Of sums of products: the lanes that take part, their sums and places in either operand; the factors of a stretch of
  // lanes, and its rows where they had to be gathered.
  std::vector<int> active_;
  std::vector<double> sums_, factors_;
  std::vector<int64_t> places_[2];
  std::vector<Run> runs_;
  std::vector<float> rows_;
  // What scope 0's steps were computed for.
  std::vector<int> computed_;  // lanes, a step; 0: never
  int64_t row_ = -1, column_ = -1, width_ = 0;
  int64_t run_ = -1;
};

}  // namespace atenon::reference
