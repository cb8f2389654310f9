// The state of generating one kernel: scopes, placement and levels. Private to generate.cpp and generate_scalars.cpp.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Metadata.h>
#include <llvm/IR/Module.h>

#include "lower/loops.h"
#include "support/result.h"

namespace atenon::lower {

inline LoopSet set_of(const std::vector<int>& loops) {
  LoopSet set = 0;
  for (int loop : loops) set |= bit(loop);
  return set;
}

class Generator {
 public:
  Generator(llvm::Module& module, const Loops& loops, int vector_width)
      : module_(module), context_(module.getContext()), b_(context_), loops_(loops), vector_width_(vector_width) {}

  // The function that is seen from outside, and those that it calls. Returns the bytes of scratch that a call needs.
  Result<SymInt> run(const std::string& symbol);

 private:
  using BasicBlock = llvm::BasicBlock;
  using Value = llvm::Value;

  // Of the turns of a loop: all, those that fill vectors, those that are left, or one.
  enum class Part { all, vectors, rest, single };
  static constexpr int64_t vectors_at_once = 2;  // so that one does not wait for the other

  // A stretch of code that runs once for each value of its loops' variables, or under a condition.
  struct Scope {
    LoopSet loops = 0;
    bool is_conditional = false;
    // Where code of this scope goes: at its end, before the terminator once an inner loop is open.
    BasicBlock* block = nullptr;
    std::map<int, Value*> variables = {};
    std::map<ExprId, Value*> values = {};
    std::map<std::string, Value*> indices = {};
    std::map<std::string, SymInt> lines = {};  // what parts of indices are in this stretch of a loop, by spelling
    std::map<int, std::vector<Value*>> reduced = {};
    std::map<int, std::vector<Value*>> in_lanes = {};  // reductions that have an array of results, one a lane
    // Of an open loop:
    BasicBlock* body = nullptr;
    BasicBlock* exit = nullptr;
    llvm::PHINode* counter = nullptr;
    int64_t first = 0;
    Value* end = nullptr;
    bool accumulates = false;  // the terms of a reduction
    Part part = Part::all;
  };
  // A value that an earlier loop of a level has put into scratch.
  struct Kept {
    SymInt offset;                                // bytes
    std::vector<int> loops;                       // position = row-major over these
    size_t scopes = 0;                            // that were open around them
    llvm::AAMDNodes aliases = llvm::AAMDNodes();  // of its own, apart from what was kept before
    bool is_readable = false;                     // the loop that fills it has run
  };
  // Reductions of one level that share their loops; the last phase of a level is what comes after all reductions. One
  // without reductions before it only keeps values for it.
  struct Phase {
    std::vector<int> reductions;
    std::vector<int> loops;
    bool is_in_lanes = false;  // the last loop is the lanes'
    std::vector<ExprId> roots;
    std::vector<ExprId> keep;
    std::set<ExprId> visited;
  };

  // Types.
  llvm::Type* memory_type(ScalarType type);
  llvm::Type* register_type(ScalarType type);
  Value* load(Value* pointer, ScalarType type, const llvm::AAMDNodes& aliases = llvm::AAMDNodes());
  void store(Value* value, Value* pointer, ScalarType type, const llvm::AAMDNodes& aliases = llvm::AAMDNodes());
  Value* widen(Value* x, ScalarType type);
  Value* narrow(Value* x, ScalarType type);
  void fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
  }

  // Placement.
  // Where a value may be computed: inside the loops that it depends on, under the conditions that it needs; and what
  // takes branches to compute, or comes of such, where the code stands.
  struct Placement {
    LoopSet loops = 0;
    bool is_partial = false, is_branching = false;
    Placement& operator|=(const Placement& other) {
      loops |= other.loops;
      is_partial |= other.is_partial;
      is_branching |= other.is_branching;
      return *this;
    }
  };
  static Placement placement(const Expr& expr) { return {expr.loops, expr.is_partial, expr.is_branching}; }
  Placement placement(const SymInt& x) const;
  size_t scope_of(const Placement& wanted) const;
  size_t valid_from(LoopSet loops) const;
  void enter(size_t scope);
  LoopSet open_loops() const;
  SymInt extent(int loop) const {
    return loop == loops_.lane && lanes_are_full_ ? room(loop) : loops_.loops[loop].extent;
  }
  void open_loop(int loop);
  void open_loop(int loop, const SymInt& first, const SymInt& last);
  void close_loop();
  void advise(llvm::Instruction* back, const Scope& scope);

  // Code.
  Value* constant(int64_t value) { return llvm::ConstantInt::get(b_.getInt64Ty(), value, true); }
  Value* index(const SymInt& x);
  Value* factor(const shape::Atom& atom);
  Value* size_float(const SymFloat& x);
  Value* value(ExprId id);
  Value* compute(const Expr& expr, size_t scope);
  Value* lazily(const Expr& expr);
  Value* integer_operation(const Expr& expr, std::span<Value* const> x);
  Value* whole_power(Value* x, int exponent);
  Value* float_operation(const Expr& expr, std::span<Value* const> x);
  Value* compare(ScalarOp op, ScalarType type, Value* a, Value* b);
  Value* cast(Value* x, ScalarType from, ScalarType to);
  Value* address(int buffer, ScalarType type, const SymInt& at);

  // Functions.
  void generate_loops(const std::string& symbol, llvm::Function* of_short_sums);
  std::optional<SymInt> open_terms(const BoundReduction& reduction) const;
  std::vector<SymInt> terms_of_open_sums() const;
  void row();

  // Levels.
  void level(size_t depth, const std::vector<ExprId>& roots, const std::vector<int>& inner,
             const std::function<void()>& innermost);
  void domain(size_t depth, const std::vector<Store>& stores);
  void in_stretches(int loop, const std::vector<Store>& stores, const std::function<void()>& body);
  void in_open_stretches(int loop, const std::vector<Store>& stores, const std::function<void()>& body);
  void copy_base(Value* is_absent);
  void scatter();
  std::vector<Phase> plan(const std::vector<ExprId>& roots, const std::vector<int>& inner);
  void find_reductions(ExprId id, std::set<ExprId>& seen, std::vector<int>& found);
  int group_of(int reduction, std::map<int, int>& groups, const std::vector<int>& here);
  void visit_phase(ExprId id, Phase& phase, size_t number, std::vector<Phase>& phases);
  void run_phase(const Phase& phase);
  std::vector<ExprId> run_phases(const std::vector<ExprId>& roots, const std::vector<int>& inner);
  int64_t masked_rest(int64_t extent, int cost) const;
  void in_vectors(int loop, const std::function<void()>& body);
  bool is_innermost(int loop) const;
  bool can_be_wide(int loop) const;
  bool has_fixed_size(const std::vector<int>& loops) const;
  const SymInt& room(int loop) const { return loops_.loops[loop].most; }
  LoopSet lane_loop() const { return loops_.lane >= 0 ? bit(loops_.lane) : 0; }
  bool lanes_are_closed() const { return loops_.lane >= 0 && !(open_loops() & bit(loops_.lane)); }
  ScalarType accumulator_type(int reduction, size_t component) const;
  Value* as_type(Value* x, llvm::Type* type);  // of floating point
  // Accumulators lie in slots: truths as bytes, since no loop over single bits in memory becomes wide.
  llvm::Type* slot_type(ScalarType accumulator);
  Value* read_slot(Value* slot, ScalarType accumulator);
  void write_slot(Value* value, Value* slot, ScalarType accumulator);
  std::vector<Value*> start_accumulating(int reduction);
  void accumulate(int reduction, std::span<Value* const> accumulators);
  void read_accumulators(int reduction, std::span<Value* const> accumulators);
  std::vector<Value*> start_lanes(int reduction);
  Value* lane_of(Value* array, ScalarType type);
  std::vector<int> prefixes_over(int loop) const;
  void keep(ExprId id, const std::vector<int>& loops);
  Value* kept_address(const Kept& kept, ScalarType type, size_t scope);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  const Loops& loops_;
  const int vector_width_;
  llvm::Function* function_ = nullptr;
  BasicBlock* entry_ = nullptr;
  std::vector<Value*> buffers_;
  std::map<std::string, Value*> symbols_;
  Value* scratch_ = nullptr;
  std::vector<Scope> scopes_;
  std::map<ExprId, Kept> kept_;                         // of the open levels
  std::map<std::pair<int, int>, Value*> placeholders_;  // side, component
  SymInt scratch_bytes_ = 0;
  bool sums_are_short_ = false;  // also those of which only a run knows the number of terms
  bool lanes_are_full_ = false;
  llvm::MDNode* kept_domain_ = nullptr;
  std::vector<llvm::Metadata*> kept_scopes_;  // of aliases: one for all that was ever kept
  int branches_ = 0;
  std::string failure_;
};

}  // namespace atenon::lower
