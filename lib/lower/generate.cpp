// Scopes, placement and the grouping of reductions behind generate.h.
#include "lower/generate.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <set>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "lower/math.h"

namespace atenon::lower {

namespace {

using llvm::BasicBlock;
using llvm::Value;

constexpr int worth_keeping = 16;  // additions: what it costs to compute a value twice rather than to keep it

LoopSet bit(int loop) { return LoopSet(1) << loop; }
LoopSet set_of(const std::vector<int>& loops) {
  LoopSet set = 0;
  for (int loop : loops) set |= bit(loop);
  return set;
}

class Generator {
 public:
  Generator(llvm::Module& module, const Loops& loops) : module_(module), context_(module.getContext()), b_(context_), loops_(loops) {}

  Result<SymInt> run(const std::string& symbol);

 private:
  // A stretch of code that runs once for each value of its loops' variables, or under a condition.
  struct Scope {
    LoopSet loops = 0;
    bool is_conditional = false;
    BasicBlock* block = nullptr;  // where code of this scope goes: at its end, before the terminator once an inner loop is open
    std::map<int, Value*> variables = {};
    std::map<ExprId, Value*> values = {};
    std::map<std::string, Value*> indices = {};
    std::map<int, std::vector<Value*>> reduced = {};
    // Of an open loop:
    BasicBlock* body = nullptr;
    BasicBlock* exit = nullptr;
    llvm::PHINode* counter = nullptr;
    Value* end = nullptr;
  };
  // A value that an earlier loop of a level has put into scratch.
  struct Kept {
    SymInt offset;            // bytes
    std::vector<int> loops;   // position = row-major over these
    bool is_readable = false; // the loop that fills it has run
  };
  // Reductions of one level that share their loops; the last phase of a level is what comes after all reductions.
  struct Phase {
    std::vector<int> reductions;
    std::vector<int> loops;
    std::vector<ExprId> roots;
    std::vector<ExprId> keep;
    std::set<ExprId> visited;
  };

  // Types.
  llvm::Type* memory_type(ScalarType type);
  llvm::Type* register_type(ScalarType type);
  Value* load(Value* pointer, ScalarType type);
  void store(Value* value, Value* pointer, ScalarType type);
  void fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
  }

  // Placement.
  size_t scope_of(LoopSet loops, bool is_partial) const;
  void enter(size_t scope);
  LoopSet open_loops() const;
  LoopSet loops_of(const SymInt& x) const;
  bool is_partial(const SymInt& x) const;
  void open_loop(int loop);
  void close_loop();

  // Code.
  Value* constant(int64_t value) { return llvm::ConstantInt::get(b_.getInt64Ty(), value, true); }
  Value* index(const SymInt& x);
  Value* factor(const shape::Atom& atom);
  Value* size_float(const SymFloat& x);
  Value* value(ExprId id);
  Value* compute(const Expr& expr, size_t scope);
  Value* lazily(const Expr& expr);
  Value* integer_operation(const Expr& expr, std::span<Value* const> x);
  Value* float_operation(const Expr& expr, std::span<Value* const> x);
  Value* compare(ScalarOp op, ScalarType type, Value* a, Value* b);
  Value* cast(Value* x, ScalarType from, ScalarType to);
  Value* address(int buffer, ScalarType type, const SymInt& at);

  // Levels.
  void level(size_t depth, const std::vector<ExprId>& roots, const std::vector<int>& inner, const std::function<void()>& innermost);
  void domain(size_t depth, const std::vector<Store>& stores);
  void scatter();
  std::vector<Phase> plan(const std::vector<ExprId>& roots, const std::vector<int>& inner);
  void find_reductions(ExprId id, bool under_condition, std::set<std::pair<ExprId, bool>>& seen, std::vector<int>& found);
  int group_of(int reduction, std::map<int, int>& groups, const std::vector<int>& here);
  void visit_phase(ExprId id, Phase& phase, size_t number, std::vector<Phase>& phases);
  int cost(ExprId id, LoopSet inner, std::set<ExprId>& seen) const;
  void each_operand(ExprId id, const std::function<void(ExprId)>& visit) const;
  void run_phase(const Phase& phase);
  std::vector<ExprId> run_phases(const std::vector<ExprId>& roots, const std::vector<int>& inner);
  bool has_fixed_size(const std::vector<int>& loops) const;
  void accumulate(int reduction, std::span<Value* const> accumulators);
  Value* kept_address(const Kept& kept, ScalarType type);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  const Loops& loops_;
  llvm::Function* function_ = nullptr;
  BasicBlock* entry_ = nullptr;
  std::vector<Value*> buffers_;
  std::map<std::string, Value*> symbols_;
  Value* scratch_ = nullptr;
  std::vector<Scope> scopes_;
  std::map<ExprId, Kept> kept_;  // of the open levels
  std::map<std::pair<int, int>, Value*> placeholders_;  // side, component
  SymInt scratch_bytes_ = 0;
  std::string failure_;
};

// --- Types ------------------------------------------------------------------------------------------------------------

llvm::Type* Generator::memory_type(ScalarType type) {
  switch (type) {
    case ScalarType::f16: return b_.getHalfTy();
    case ScalarType::bf16: return b_.getBFloatTy();
    case ScalarType::boolean: return b_.getInt8Ty();
    default: return register_type(type);
  }
}

llvm::Type* Generator::register_type(ScalarType type) {
  switch (type) {
    case ScalarType::f16:
    case ScalarType::bf16:
    case ScalarType::f32: return b_.getFloatTy();
    case ScalarType::f64: return b_.getDoubleTy();
    case ScalarType::u8:
    case ScalarType::i8: return b_.getInt8Ty();
    case ScalarType::i16: return b_.getInt16Ty();
    case ScalarType::i32: return b_.getInt32Ty();
    case ScalarType::i64: return b_.getInt64Ty();
    case ScalarType::boolean: return b_.getInt1Ty();
    case ScalarType::c64:
    case ScalarType::c128: break;
  }
  fail("it computes with complex numbers");
  return b_.getInt64Ty();
}

Value* Generator::load(Value* pointer, ScalarType type) {
  Value* raw = b_.CreateAlignedLoad(memory_type(type), pointer, llvm::Align(size_of(type)));
  if (type == ScalarType::boolean) return b_.CreateICmpNE(raw, b_.getInt8(0));
  if (type == ScalarType::f16 || type == ScalarType::bf16) return b_.CreateFPExt(raw, b_.getFloatTy());
  return raw;
}

void Generator::store(Value* value, Value* pointer, ScalarType type) {
  if (type == ScalarType::boolean) value = b_.CreateZExt(value, b_.getInt8Ty());
  if (type == ScalarType::f16 || type == ScalarType::bf16) value = b_.CreateFPTrunc(value, memory_type(type));
  b_.CreateAlignedStore(value, pointer, llvm::Align(size_of(type)));
}

// --- Placement --------------------------------------------------------------------------------------------------------

size_t Generator::scope_of(LoopSet loops, bool is_partial) const {
  for (size_t i = scopes_.size(); i-- > 1;)
    if (scopes_[i].loops & loops || (is_partial && scopes_[i].is_conditional)) return i;
  return 0;
}

void Generator::enter(size_t scope) {
  BasicBlock* block = scopes_[scope].block;
  if (llvm::Instruction* terminator = block->getTerminator()) {
    b_.SetInsertPoint(terminator);
  } else {
    b_.SetInsertPoint(block);
  }
}

LoopSet Generator::open_loops() const {
  LoopSet open = 0;
  for (const Scope& scope : scopes_) open |= scope.loops;
  return open;
}

LoopSet Generator::loops_of(const SymInt& x) const {
  LoopSet set = 0;
  if (x.is_constant()) return set;
  for (const std::string& symbol : x.symbols()) {
    if (symbol.front() == '$') set |= bit(std::stoi(symbol.substr(1)));
    if (symbol.front() == '%') set |= loops_.exprs[std::stoi(symbol.substr(1))].loops;
  }
  return set;
}

bool Generator::is_partial(const SymInt& x) const {
  if (x.is_constant()) return false;
  for (const std::string& symbol : x.symbols())
    if (symbol.front() == '%' && loops_.exprs[std::stoi(symbol.substr(1))].is_partial) return true;
  return false;
}

void Generator::open_loop(int loop) {
  Value* extent = index(loops_.loops[loop].extent);
  enter(scopes_.size() - 1);
  BasicBlock* before = scopes_.back().block;
  Scope scope{.loops = bit(loop)};
  scope.body = BasicBlock::Create(context_, "loop", function_);
  scope.exit = BasicBlock::Create(context_, "after", function_);
  scope.block = scope.body;
  scope.end = extent;
  std::optional<int64_t> known = loops_.loops[loop].extent.constant();
  if (known && *known > 0) {
    b_.CreateBr(scope.body);
  } else {
    b_.CreateCondBr(b_.CreateICmpSGT(extent, constant(0)), scope.body, scope.exit);
  }
  b_.SetInsertPoint(scope.body);
  scope.counter = b_.CreatePHI(b_.getInt64Ty(), 2);
  scope.counter->addIncoming(constant(0), before);
  scope.variables[loop] = scope.counter;
  scopes_.push_back(std::move(scope));
}

void Generator::close_loop() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  b_.SetInsertPoint(scope.block);
  Value* next = b_.CreateAdd(scope.counter, constant(1), "", true, true);
  scope.counter->addIncoming(next, scope.block);
  b_.CreateCondBr(b_.CreateICmpSLT(next, scope.end), scope.body, scope.exit);
  scopes_.back().block = scope.exit;
}

// --- Integers ---------------------------------------------------------------------------------------------------------

// A polynomial is summed from the outermost loop inwards, so that each loop adds only what changes in it.
Value* Generator::index(const SymInt& x) {
  if (x.is_constant()) return constant(*x.constant());
  const size_t scope = scope_of(loops_of(x), is_partial(x));
  const std::string spelling = x.to_string();
  if (auto found = scopes_[scope].indices.find(spelling); found != scopes_[scope].indices.end()) return found->second;
  struct Part {
    size_t scope;
    const shape::Term* term;
  };
  std::vector<Part> parts;
  for (const shape::Term& term : x.polynomial()->terms) {
    size_t depth = 0;
    for (const shape::Factor& factor : term.factors) {
      SymInt symbols = 0;
      if (factor.atom->kind == shape::AtomKind::symbol) {
        symbols = SymInt::symbol(factor.atom->spelling);
        depth = std::max(depth, scope_of(loops_of(symbols), is_partial(symbols)));
      } else {
        for (const SymInt& operand : factor.atom->operands)
          depth = std::max(depth, scope_of(loops_of(operand), is_partial(operand)));
      }
    }
    parts.push_back({depth, &term});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.scope < b.scope; });
  Value* sum = nullptr;
  for (const Part& part : parts) {
    Value* product = nullptr;
    std::vector<Value*> factors;
    for (const shape::Factor& power : part.term->factors)
      for (int i = 0; i < power.power; ++i) factors.push_back(factor(*power.atom));
    enter(part.scope);
    for (Value* one : factors) product = product ? b_.CreateMul(product, one, "", false, true) : one;
    if (!product) {
      product = constant(part.term->coefficient);
    } else if (part.term->coefficient != 1) {
      product = b_.CreateMul(product, constant(part.term->coefficient), "", false, true);
    }
    sum = sum ? b_.CreateAdd(sum, product, "", false, true) : product;
  }
  scopes_[scope].indices[spelling] = sum;
  return sum;
}

Value* Generator::factor(const shape::Atom& atom) {
  using shape::AtomKind;
  if (atom.kind == AtomKind::symbol) {
    if (atom.spelling.front() == '%') return value(std::stoi(atom.spelling.substr(1)));
    if (atom.spelling.front() == '$') {
      const int loop = std::stoi(atom.spelling.substr(1));
      for (size_t i = scopes_.size(); i-- > 0;)
        if (auto found = scopes_[i].variables.find(loop); found != scopes_[i].variables.end()) return found->second;
      assert(false && "a loop variable outside its loop");
    }
    return symbols_.at(atom.spelling);
  }
  if (atom.operands.size() < 2) {
    fail("a size is the integer part of a float");
    return constant(0);
  }
  LoopSet loops = 0;
  bool partial = false;
  std::vector<Value*> operands;
  for (const SymInt& operand : atom.operands) {
    operands.push_back(index(operand));
    loops |= loops_of(operand);
    partial |= is_partial(operand);
  }
  enter(scope_of(loops, partial));
  Value *a = operands[0], *n = operands[1];
  switch (atom.kind) {
    case AtomKind::min:
    case AtomKind::max:
      for (size_t i = 1; i < operands.size(); ++i)
        a = b_.CreateBinaryIntrinsic(atom.kind == AtomKind::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, a, operands[i]);
      return a;
    case AtomKind::floor_div:
    case AtomKind::mod: {
      // Rounds down; the divisor is positive.
      Value* quotient = b_.CreateSDiv(a, n);
      Value* rest = b_.CreateSub(a, b_.CreateMul(quotient, n));
      Value* is_below = b_.CreateICmpSLT(rest, constant(0));
      if (atom.kind == AtomKind::mod) return b_.CreateAdd(rest, b_.CreateSelect(is_below, n, constant(0)));
      return b_.CreateSub(quotient, b_.CreateZExt(is_below, b_.getInt64Ty()));
    }
    default:
      fail("a size has no code");
      return constant(0);
  }
}

Value* Generator::size_float(const SymFloat& x) {
  if (x.constant()) return llvm::ConstantFP::get(b_.getDoubleTy(), *x.constant());
  const shape::FloatNode& node = *x.node();
  if (node.op == "from") {
    Value* whole = index(node.integer);
    enter(0);
    return b_.CreateSIToFP(whole, b_.getDoubleTy());
  }
  std::vector<Value*> operands;
  for (const SymFloat& operand : node.operands) operands.push_back(size_float(operand));
  enter(0);
  if (node.op == "+") return b_.CreateFAdd(operands[0], operands[1]);
  if (node.op == "-") return b_.CreateFSub(operands[0], operands[1]);
  if (node.op == "*") return b_.CreateFMul(operands[0], operands[1]);
  if (node.op == "/") return b_.CreateFDiv(operands[0], operands[1]);
  if (node.op == "sqrt") return emit_function(b_, ScalarOp::sqrt, operands);
  if (node.op == "abs") return emit_function(b_, ScalarOp::abs, operands);
  fail("a number computed from sizes has no code: " + node.op);
  return operands[0];
}

// --- Scalars ----------------------------------------------------------------------------------------------------------

Value* Generator::address(int buffer, ScalarType type, const SymInt& at) {
  Value* offset = index(at);
  enter(scope_of(loops_of(at), is_partial(at)));
  return b_.CreateGEP(memory_type(type), buffers_[buffer], offset);
}

Value* Generator::kept_address(const Kept& kept, ScalarType type) {
  SymInt position = 0;
  for (int loop : kept.loops) position = position * loops_.loops[loop].extent + SymInt::symbol(loops_.loops[loop].symbol);
  Value* offset = index(position);
  Value* start = index(kept.offset);
  enter(scopes_.size() - 1);
  return b_.CreateGEP(memory_type(type), b_.CreateGEP(b_.getInt8Ty(), scratch_, start), offset);
}

Value* Generator::value(ExprId id) {
  const Expr& expr = loops_.exprs[id];
  if (expr.placeholder >= 0) return placeholders_.at({expr.placeholder, expr.component});
  if (expr.op == ScalarOp::size) return index(expr.index);
  if (expr.op == ScalarOp::reduce) {
    for (size_t i = scopes_.size(); i-- > 0;)
      if (auto found = scopes_[i].reduced.find(expr.reduction); found != scopes_[i].reduced.end())
        return found->second[expr.component];
    assert(false && "a reduction is read before it is computed");
  }
  const size_t innermost = scope_of(expr.loops, false);
  const bool is_lazy = expr.is_partial && (expr.op == ScalarOp::select || expr.op == ScalarOp::logical_and || expr.op == ScalarOp::logical_or);
  const size_t scope = is_lazy ? scopes_.size() - 1 : scope_of(expr.loops, expr.is_partial);
  for (size_t i = scope + 1; i-- > innermost;)
    if (auto found = scopes_[i].values.find(id); found != scopes_[i].values.end()) return found->second;
  Value* result;
  if (auto kept = kept_.find(id); kept != kept_.end() && kept->second.is_readable) {
    Value* pointer = kept_address(kept->second, expr.dtype);
    result = load(pointer, expr.dtype);
  } else {
    result = is_lazy ? lazily(expr) : compute(expr, scope);
  }
  // A lazy value may have moved its scope to another block, which the scope goes on from.
  scopes_[scope].values[id] = result;
  return result;
}

// Evaluates an operand under its condition, with a branch that LLVM turns into a masked load.
Value* Generator::lazily(const Expr& expr) {
  Value* condition = value(expr.operands[0]);
  const bool is_select = expr.op == ScalarOp::select;
  auto under = [&](Value* truth, ExprId operand) {
    const size_t outer = scopes_.size() - 1;
    enter(outer);
    BasicBlock* then = BasicBlock::Create(context_, "then", function_);
    BasicBlock* merge = BasicBlock::Create(context_, "merge", function_);
    BasicBlock* before = scopes_[outer].block;
    b_.CreateCondBr(truth, then, merge);
    scopes_.push_back({.is_conditional = true, .block = then});
    Value* result = value(operand);
    BasicBlock* end = scopes_.back().block;
    scopes_.pop_back();
    b_.SetInsertPoint(end);
    b_.CreateBr(merge);
    scopes_[outer].block = merge;
    b_.SetInsertPoint(merge);
    llvm::PHINode* phi = b_.CreatePHI(result->getType(), 2);
    phi->addIncoming(result, end);
    phi->addIncoming(llvm::Constant::getNullValue(result->getType()), before);
    return static_cast<Value*>(phi);
  };
  auto operand = [&](size_t i, bool when) -> Value* {
    if (!loops_.exprs[expr.operands[i]].is_partial) return value(expr.operands[i]);
    Value* truth = condition;
    if (!when) {
      enter(scopes_.size() - 1);
      truth = b_.CreateNot(condition);
    }
    return under(truth, expr.operands[i]);
  };
  if (is_select) {
    Value* chosen = operand(1, true);
    Value* other = operand(2, false);
    enter(scopes_.size() - 1);
    return b_.CreateSelect(condition, chosen, other);
  }
  Value* second = operand(1, expr.op == ScalarOp::logical_and);
  enter(scopes_.size() - 1);
  return expr.op == ScalarOp::logical_and ? b_.CreateSelect(condition, second, b_.getFalse())
                                          : b_.CreateSelect(condition, b_.getTrue(), second);
}

Value* Generator::compute(const Expr& expr, size_t scope) {
  switch (expr.op) {
    case ScalarOp::constant:
      if (expr.dtype == ScalarType::boolean) return b_.getInt1(expr.integer != 0);
      return is_floating(expr.dtype) ? llvm::ConstantFP::get(register_type(expr.dtype), expr.number)
                                     : llvm::ConstantInt::get(register_type(expr.dtype), expr.integer, true);
    case ScalarOp::size_float: {
      Value* number = size_float(expr.size_float);
      enter(0);
      return expr.dtype == ScalarType::f64 ? number : b_.CreateFPTrunc(number, register_type(expr.dtype));
    }
    case ScalarOp::read: {
      Value* pointer = address(expr.buffer, expr.dtype, expr.index);
      enter(scope);
      return load(pointer, expr.dtype);
    }
    default:
      break;
  }
  std::vector<Value*> x;
  for (ExprId operand : expr.operands) x.push_back(value(operand));
  enter(scope);
  const ScalarType type = loops_.exprs[expr.operands[0]].dtype;
  switch (expr.op) {
    case ScalarOp::cast:
      return cast(x[0], type, expr.dtype);
    case ScalarOp::select:
      return b_.CreateSelect(x[0], x[1], x[2]);
    case ScalarOp::logical_and:
      return b_.CreateAnd(x[0], x[1]);
    case ScalarOp::logical_or:
      return b_.CreateOr(x[0], x[1]);
    case ScalarOp::logical_not:
      return b_.CreateNot(x[0]);
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::lt:
    case ScalarOp::le:
      return compare(expr.op, type, x[0], x[1]);
    default:
      return is_floating(type) ? float_operation(expr, x) : integer_operation(expr, x);
  }
}

Value* Generator::compare(ScalarOp op, ScalarType type, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  const bool is_unsigned = type == ScalarType::u8 || type == ScalarType::boolean;
  if (is_floating(type)) {
    const P p = op == ScalarOp::eq ? P::FCMP_OEQ : op == ScalarOp::ne ? P::FCMP_UNE : op == ScalarOp::lt ? P::FCMP_OLT : P::FCMP_OLE;
    return b_.CreateFCmp(p, a, b);
  }
  const P p = op == ScalarOp::eq   ? P::ICMP_EQ
              : op == ScalarOp::ne ? P::ICMP_NE
              : op == ScalarOp::lt ? (is_unsigned ? P::ICMP_ULT : P::ICMP_SLT)
                                   : (is_unsigned ? P::ICMP_ULE : P::ICMP_SLE);
  return b_.CreateICmp(p, a, b);
}

// As lib/tensor/elements.h: floats to integers truncate, and what is out of range gives the lowest integer.
Value* Generator::cast(Value* x, ScalarType from, ScalarType to) {
  llvm::Type* type = register_type(to);
  const bool from_float = is_floating(from), to_float = is_floating(to);
  if (to == ScalarType::boolean) {
    if (from == ScalarType::boolean) return x;
    return from_float ? b_.CreateFCmpUNE(x, llvm::ConstantFP::get(x->getType(), 0)) : b_.CreateICmpNE(x, llvm::ConstantInt::get(x->getType(), 0));
  }
  if (to == ScalarType::f16 || to == ScalarType::bf16) {
    if (!from_float) x = from == ScalarType::boolean || from == ScalarType::u8 ? b_.CreateUIToFP(x, type) : b_.CreateSIToFP(x, type);
    if (x->getType()->isDoubleTy()) x = b_.CreateFPTrunc(x, type);
    return b_.CreateFPExt(b_.CreateFPTrunc(x, memory_type(to)), type);
  }
  if (from_float && to_float) return b_.CreateFPCast(x, type);
  if (to_float) return from == ScalarType::boolean || from == ScalarType::u8 ? b_.CreateUIToFP(x, type) : b_.CreateSIToFP(x, type);
  if (!from_float) return from == ScalarType::boolean || from == ScalarType::u8 ? b_.CreateZExtOrTrunc(x, type) : b_.CreateSExtOrTrunc(x, type);
  llvm::Type* wide = to == ScalarType::i64 ? b_.getInt64Ty() : b_.getInt32Ty();
  const double limit = to == ScalarType::i64 ? 0x1p63 : 0x1p31;
  Value* low = llvm::ConstantFP::get(x->getType(), -limit);
  Value* in_range = b_.CreateAnd(b_.CreateFCmpOGE(x, low), b_.CreateFCmpOLT(x, llvm::ConstantFP::get(x->getType(), limit)));
  Value* whole = b_.CreateFPToSI(b_.CreateSelect(in_range, x, low), wide);
  return b_.CreateTrunc(whole, type);
}

Value* Generator::integer_operation(const Expr& expr, std::span<Value* const> x) {
  const bool is_unsigned = expr.dtype == ScalarType::u8 || expr.dtype == ScalarType::boolean;
  llvm::Type* type = x[0]->getType();
  auto number = [&](int64_t value) { return llvm::ConstantInt::get(type, value, true); };
  switch (expr.op) {
    case ScalarOp::add: return b_.CreateAdd(x[0], x[1]);
    case ScalarOp::sub: return b_.CreateSub(x[0], x[1]);
    case ScalarOp::mul: return b_.CreateMul(x[0], x[1]);
    case ScalarOp::neg: return b_.CreateNeg(x[0]);
    case ScalarOp::abs: return is_unsigned ? x[0] : b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], b_.getFalse());
    case ScalarOp::minimum: return b_.CreateBinaryIntrinsic(is_unsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, x[0], x[1]);
    case ScalarOp::maximum: return b_.CreateBinaryIntrinsic(is_unsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, x[0], x[1]);
    case ScalarOp::bit_and: return b_.CreateAnd(x[0], x[1]);
    case ScalarOp::bit_or: return b_.CreateOr(x[0], x[1]);
    case ScalarOp::bit_xor: return b_.CreateXor(x[0], x[1]);
    case ScalarOp::bit_not: return b_.CreateNot(x[0]);
    case ScalarOp::isnan: return b_.getFalse();
    case ScalarOp::shift_left:
    case ScalarOp::shift_right: {
      // Beyond the width everything is shifted out.
      const int width = static_cast<int>(type->getIntegerBitWidth());
      Value* fits = b_.CreateICmpULT(x[1], number(width));
      Value* amount = b_.CreateSelect(fits, x[1], number(width - 1));
      if (expr.op == ScalarOp::shift_right && !is_unsigned) return b_.CreateAShr(x[0], amount);
      Value* shifted = expr.op == ScalarOp::shift_left ? b_.CreateShl(x[0], amount) : b_.CreateLShr(x[0], amount);
      return b_.CreateSelect(fits, shifted, number(0));
    }
    case ScalarOp::floor_div:
    case ScalarOp::trunc_div:
    case ScalarOp::mod: {
      // Nothing traps: the divisor 0, which the program has no business with, acts as 1; so does -1 on the lowest integer.
      Value* n = b_.CreateSelect(b_.CreateICmpEQ(x[1], number(0)), number(1), x[1]);
      if (is_unsigned) return expr.op == ScalarOp::mod ? b_.CreateURem(x[0], n) : b_.CreateUDiv(x[0], n);
      Value* is_minus_one = b_.CreateICmpEQ(n, number(-1));
      Value* safe = b_.CreateSelect(is_minus_one, number(1), n);
      Value* quotient = b_.CreateSDiv(x[0], safe);
      Value* rest = b_.CreateSub(x[0], b_.CreateMul(quotient, safe));
      quotient = b_.CreateSelect(is_minus_one, b_.CreateNeg(x[0]), quotient);
      if (expr.op == ScalarOp::trunc_div) return quotient;
      Value* is_apart = b_.CreateAnd(b_.CreateICmpNE(rest, number(0)), b_.CreateICmpSLT(b_.CreateXor(rest, n), number(0)));
      if (expr.op == ScalarOp::mod) return b_.CreateAdd(rest, b_.CreateSelect(is_apart, n, number(0)));
      return b_.CreateSub(quotient, b_.CreateZExt(is_apart, type));
    }
    default:
      fail("an operation on integers has no code");
      return number(0);
  }
}

Value* Generator::float_operation(const Expr& expr, std::span<Value* const> x) {
  switch (expr.op) {
    case ScalarOp::add: return b_.CreateFAdd(x[0], x[1]);
    case ScalarOp::sub: return b_.CreateFSub(x[0], x[1]);
    case ScalarOp::mul: return b_.CreateFMul(x[0], x[1]);
    case ScalarOp::div: return b_.CreateFDiv(x[0], x[1]);
    case ScalarOp::neg: return b_.CreateFNeg(x[0]);
    case ScalarOp::minimum: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, x[0], x[1]);
    case ScalarOp::maximum: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x[0], x[1]);
    case ScalarOp::trunc_div: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b_.CreateFDiv(x[0], x[1]));
    case ScalarOp::floor_div:
    case ScalarOp::mod: {
      // In f64 the quotient of two f32 is exact enough that its floor is right wherever an f32 can hold the result.
      llvm::Type* type = x[0]->getType();
      Value* a = b_.CreateFPCast(x[0], b_.getDoubleTy());
      Value* n = b_.CreateFPCast(x[1], b_.getDoubleTy());
      Value* whole = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(a, n));
      if (expr.op == ScalarOp::floor_div) return b_.CreateFPCast(whole, type);
      Value* rest = b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {b_.CreateFNeg(whole), n, a});
      return b_.CreateFPCast(rest, type);
    }
    case ScalarOp::pow: {
      // Small whole powers are products, as in PyTorch.
      const Expr& exponent = loops_.exprs[expr.operands[1]];
      if (exponent.op == ScalarOp::constant && exponent.placeholder < 0) {
        if (exponent.number == 1) return x[0];
        if (exponent.number == 2) return b_.CreateFMul(x[0], x[0]);
        if (exponent.number == 3) return b_.CreateFMul(b_.CreateFMul(x[0], x[0]), x[0]);
        if (exponent.number == -1) return b_.CreateFDiv(llvm::ConstantFP::get(x[0]->getType(), 1), x[0]);
        if (exponent.number == 0.5) return emit_function(b_, ScalarOp::sqrt, x.first(1));
        if (exponent.number == -0.5) return emit_function(b_, ScalarOp::rsqrt, x.first(1));
      }
      return emit_function(b_, ScalarOp::pow, x);
    }
    default:
      break;
  }
  const ScalarType type = loops_.exprs[expr.operands[0]].dtype;
  Value* result = has_function(expr.op, type) ? emit_function(b_, expr.op, x) : nullptr;
  if (result) return result;
  fail("a function has no code for " + std::string(name_of(type)));
  return x[0];
}

// --- Levels -----------------------------------------------------------------------------------------------------------

void Generator::each_operand(ExprId id, const std::function<void(ExprId)>& visit) const {
  const Expr& expr = loops_.exprs[id];
  for (ExprId operand : expr.operands) visit(operand);
  if (!expr.index.is_constant())
    for (const std::string& symbol : expr.index.symbols())
      if (symbol.front() == '%') visit(std::stoi(symbol.substr(1)));
}

// Every reduction that `id` needs, inner ones included, each after those that it needs.
void Generator::find_reductions(ExprId id, bool under_condition, std::set<std::pair<ExprId, bool>>& seen, std::vector<int>& found) {
  if (!seen.insert({id, under_condition}).second) return;
  const Expr& expr = loops_.exprs[id];
  if (expr.op == ScalarOp::reduce) {
    const BoundReduction& reduction = loops_.reductions[expr.reduction];
    // A reduction is computed before its level's conditions are known.
    if (under_condition && expr.is_partial) fail("a reduction is only defined under a condition");
    for (ExprId part : reduction.element) find_reductions(part, false, seen, found);
    for (ExprId part : reduction.identity) find_reductions(part, false, seen, found);
    if (reduction.guard != no_expr) find_reductions(reduction.guard, false, seen, found);
    if (std::find(found.begin(), found.end(), expr.reduction) == found.end()) found.push_back(expr.reduction);
    return;
  }
  const bool is_lazy = expr.op == ScalarOp::select || expr.op == ScalarOp::logical_and || expr.op == ScalarOp::logical_or;
  bool first = true;
  each_operand(id, [&](ExprId operand) {
    find_reductions(operand, under_condition || (is_lazy && !first), seen, found);
    first = false;
  });
}

int Generator::group_of(int number, std::map<int, int>& groups, const std::vector<int>& here) {
  if (auto found = groups.find(number); found != groups.end()) return found->second;
  const BoundReduction& reduction = loops_.reductions[number];
  std::vector<int> needs;
  std::set<std::pair<ExprId, bool>> seen;
  for (ExprId part : reduction.element) find_reductions(part, false, seen, needs);
  for (ExprId part : reduction.identity) find_reductions(part, false, seen, needs);
  if (reduction.guard != no_expr) find_reductions(reduction.guard, false, seen, needs);
  int group = 0;
  for (int need : needs)
    if (std::find(here.begin(), here.end(), need) != here.end()) group = std::max(group, group_of(need, groups, here) + 1);
  groups[number] = group;
  return group;
}

int Generator::cost(ExprId id, LoopSet inner, std::set<ExprId>& seen) const {
  const Expr& expr = loops_.exprs[id];
  if (!(expr.loops & inner) || expr.op == ScalarOp::reduce || !seen.insert(id).second) return 0;
  int sum = expr.cost;
  each_operand(id, [&](ExprId operand) { sum += cost(operand, inner, seen); });
  return sum;
}

// Walks what a phase computes for each element, down to what an earlier phase could have kept.
void Generator::visit_phase(ExprId id, Phase& phase, size_t number, std::vector<Phase>& phases) {
  const Expr& expr = loops_.exprs[id];
  const LoopSet inner = set_of(phase.loops);
  if (!(expr.loops & inner) || expr.op == ScalarOp::reduce || phase.visited.count(id) || kept_.count(id)) return;
  std::set<ExprId> seen;
  if (expr.op != ScalarOp::size && !expr.is_partial && (expr.loops & inner) == inner && has_fixed_size(phase.loops) &&
      cost(id, inner, seen) >= worth_keeping) {
    for (size_t earlier = 0; earlier < number; ++earlier) {
      Phase& other = phases[earlier];
      if (set_of(other.loops) != inner || !other.visited.count(id)) continue;
      if (std::find(other.keep.begin(), other.keep.end(), id) == other.keep.end()) other.keep.push_back(id);
      return;
    }
  }
  phase.visited.insert(id);
  each_operand(id, [&](ExprId operand) { visit_phase(operand, phase, number, phases); });
}

// The reductions that can be computed here, grouped, and after them the loops that are left.
std::vector<Generator::Phase> Generator::plan(const std::vector<ExprId>& roots, const std::vector<int>& inner) {
  const LoopSet open = open_loops();
  std::vector<int> found, here;
  std::set<std::pair<ExprId, bool>> seen;
  for (ExprId root : roots) find_reductions(root, false, seen, found);
  for (int number : found) {
    const BoundReduction& reduction = loops_.reductions[number];
    const bool is_done = std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& scope) { return scope.reduced.count(number); });
    if (!is_done && !(reduction.outer & ~open)) here.push_back(number);
  }
  std::map<int, int> groups;
  std::vector<std::pair<int, Phase>> phases;
  for (int number : here) {
    const BoundReduction& reduction = loops_.reductions[number];
    const int group = group_of(number, groups, here);
    auto same = std::find_if(phases.begin(), phases.end(), [&](const auto& phase) {
      return phase.first == group && phase.second.loops == reduction.loops;
    });
    if (same == phases.end()) same = phases.insert(phases.end(), {group, Phase{.loops = reduction.loops}});
    same->second.reductions.push_back(number);
    for (ExprId part : reduction.element) same->second.roots.push_back(part);
    if (reduction.guard != no_expr) same->second.roots.push_back(reduction.guard);
  }
  std::stable_sort(phases.begin(), phases.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Phase> result;
  for (auto& [group, phase] : phases) result.push_back(std::move(phase));
  result.push_back(Phase{.loops = inner, .roots = roots});
  for (size_t number = 0; number < result.size(); ++number)
    for (ExprId root : result[number].roots) visit_phase(root, result[number], number, result);
  return result;
}

void Generator::accumulate(int number, std::span<Value* const> accumulators) {
  const BoundReduction& reduction = loops_.reductions[number];
  std::vector<Value*> element, before;
  for (ExprId part : reduction.element) element.push_back(value(part));
  const size_t scope = scopes_.size() - 1;
  enter(scope);
  for (size_t c = 0; c < element.size(); ++c) {
    const ScalarType dtype = loops_.exprs[reduction.identity[c]].dtype;
    before.push_back(b_.CreateLoad(register_type(dtype), accumulators[c]));
  }
  const ScalarType dtype = loops_.exprs[reduction.identity[0]].dtype;
  const bool is_float = is_floating(dtype);
  if (element.size() == 1 && is_float && (reduction.monoid == "sum" || reduction.monoid == "prod")) {
    // Only here may the order change: the loop is wide because its partial sums are.
    llvm::FastMathFlags flags;
    flags.setAllowReassoc();
    flags.setAllowContract();
    Value* joined = reduction.monoid == "sum" ? b_.CreateFAdd(before[0], element[0]) : b_.CreateFMul(before[0], element[0]);
    if (auto* operation = llvm::dyn_cast<llvm::Instruction>(joined)) operation->setFastMathFlags(flags);
    b_.CreateStore(joined, accumulators[0]);
    return;
  }
  std::vector<Value*> joined;
  for (size_t c = 0; c < element.size(); ++c) {
    placeholders_[{0, static_cast<int>(c)}] = before[c];
    placeholders_[{1, static_cast<int>(c)}] = element[c];
  }
  // What the monoid computes is of these placeholders alone.
  scopes_.push_back({.loops = placeholder_loop, .block = scopes_[scope].block});
  for (ExprId part : reduction.joined) joined.push_back(value(part));
  scopes_[scope].block = scopes_.back().block;
  scopes_.pop_back();
  enter(scope);
  for (size_t c = 0; c < joined.size(); ++c) b_.CreateStore(joined[c], accumulators[c]);
}

void Generator::run_phase(const Phase& phase) {
  // Accumulators are stack slots, which LLVM turns into registers.
  std::vector<std::vector<Value*>> accumulators;
  for (int number : phase.reductions) {
    const BoundReduction& reduction = loops_.reductions[number];
    accumulators.emplace_back();
    for (ExprId part : reduction.identity) {
      Value* first = value(part);
      b_.SetInsertPoint(entry_, entry_->begin());
      accumulators.back().push_back(b_.CreateAlloca(first->getType()));
      enter(scopes_.size() - 1);
      b_.CreateStore(first, accumulators.back().back());
    }
  }
  level(0, phase.roots, phase.loops, [&] {
    for (size_t i = 0; i < phase.reductions.size(); ++i) {
      const BoundReduction& reduction = loops_.reductions[phase.reductions[i]];
      if (reduction.guard == no_expr) {
        accumulate(phase.reductions[i], accumulators[i]);
        continue;
      }
      Value* truth = value(reduction.guard);
      const size_t outer = scopes_.size() - 1;
      enter(outer);
      BasicBlock* then = BasicBlock::Create(context_, "then", function_);
      BasicBlock* merge = BasicBlock::Create(context_, "merge", function_);
      b_.CreateCondBr(truth, then, merge);
      scopes_.push_back({.is_conditional = true, .block = then});
      accumulate(phase.reductions[i], accumulators[i]);
      BasicBlock* end = scopes_.back().block;
      scopes_.pop_back();
      b_.SetInsertPoint(end);
      b_.CreateBr(merge);
      scopes_[outer].block = merge;
    }
    for (ExprId id : phase.keep) {
      Value* computed = value(id);
      Value* pointer = kept_address(kept_.at(id), loops_.exprs[id].dtype);
      store(computed, pointer, loops_.exprs[id].dtype);
    }
  });
  for (size_t i = 0; i < phase.reductions.size(); ++i) {
    enter(scopes_.size() - 1);
    std::vector<Value*>& results = scopes_.back().reduced[phase.reductions[i]];
    const BoundReduction& reduction = loops_.reductions[phase.reductions[i]];
    for (size_t c = 0; c < accumulators[i].size(); ++c)
      results.push_back(b_.CreateLoad(register_type(loops_.exprs[reduction.identity[c]].dtype), accumulators[i][c]));
  }
}

bool Generator::has_fixed_size(const std::vector<int>& loops) const {
  return std::all_of(loops.begin(), loops.end(), [&](int loop) { return loops_of(loops_.loops[loop].extent) == 0; });
}

// Computes the reductions of the innermost open level. Returns what it keeps in scratch until the level ends.
std::vector<ExprId> Generator::run_phases(const std::vector<ExprId>& roots, const std::vector<int>& inner) {
  std::vector<Phase> phases = plan(roots, inner);
  std::vector<ExprId> keeps;
  for (size_t i = 0; i + 1 < phases.size(); ++i) {
    for (ExprId id : phases[i].keep) {
      const ScalarType dtype = loops_.exprs[id].dtype;
      SymInt bytes = static_cast<int64_t>(dtype == ScalarType::f16 || dtype == ScalarType::bf16 ? 4 : size_of(dtype));
      for (int loop : phases[i].loops) bytes = bytes * loops_.loops[loop].extent;
      kept_[id] = {scratch_bytes_, phases[i].loops};
      scratch_bytes_ = scratch_bytes_ + shape::floor_div(bytes + 63, 64) * 64;
      keeps.push_back(id);
    }
    run_phase(phases[i]);
    for (ExprId id : phases[i].keep) kept_[id].is_readable = true;
  }
  return keeps;
}

// Opens loops inner[depth..] one in the other; at each level, the reductions that depend on nothing deeper come first.
void Generator::level(size_t depth, const std::vector<ExprId>& roots, const std::vector<int>& inner, const std::function<void()>& innermost) {
  std::vector<ExprId> keeps;
  if (depth > 0) keeps = run_phases(roots, {inner.begin() + depth, inner.end()});
  if (depth == inner.size()) {
    innermost();
  } else {
    open_loop(inner[depth]);
    level(depth + 1, roots, inner, innermost);
    close_loop();
  }
  for (ExprId id : keeps) kept_.erase(id);
}

// Stores what depends on the open loops alone, and opens the next loop of the domain for the others.
void Generator::domain(size_t depth, const std::vector<Store>& stores) {
  std::vector<ExprId> roots;
  for (const Store& store : stores) roots.push_back(store.value);
  const std::vector<ExprId> keeps = run_phases(roots, {loops_.domain.begin() + depth, loops_.domain.end()});
  std::vector<Store> deeper;
  const LoopSet open = open_loops();
  for (const Store& store : stores) {
    if ((store.loops | loops_.exprs[store.value].loops) & ~open) {
      deeper.push_back(store);
      continue;
    }
    Value* computed = value(store.value);
    Value* pointer = address(store.buffer, store.dtype, store.address);
    enter(scopes_.size() - 1);
    this->store(computed, pointer, store.dtype);
  }
  if (!deeper.empty()) {
    assert(depth < loops_.domain.size());
    LoopSet needed = 0;
    for (const Store& store : deeper) needed |= store.loops | loops_.exprs[store.value].loops;
    const bool is_needed = needed & bit(loops_.domain[depth]);
    if (is_needed) open_loop(loops_.domain[depth]);
    domain(depth + 1, deeper);
    if (is_needed) close_loop();
  }
  for (ExprId id : keeps) kept_.erase(id);
}

// The ordered stores after those of a row.
void Generator::scatter() {
  const ScatterLoops& loops = *loops_.scatter;
  const Store& target = loops_.stores[0];
  std::vector<int> inner;
  const LoopSet open = open_loops();
  for (int loop : loops.loops)
    if (!(open & bit(loop))) inner.push_back(loop);
  std::vector<ExprId> roots = {loops.value};
  const std::vector<ExprId> keeps = run_phases(roots, inner);
  level(0, roots, inner, [&] {
    Value* result = value(loops.value);
    Value* pointer = address(target.buffer, target.dtype, loops.address);
    if (loops.joined != no_expr) {
      enter(scopes_.size() - 1);
      placeholders_[{0, 0}] = load(pointer, target.dtype);
      placeholders_[{1, 0}] = result;
      scopes_.push_back({.loops = placeholder_loop, .block = scopes_.back().block});
      result = value(loops.joined);
      BasicBlock* block = scopes_.back().block;
      scopes_.pop_back();
      scopes_.back().block = block;
    }
    enter(scopes_.size() - 1);
    store(result, pointer, target.dtype);
  });
  for (ExprId id : keeps) kept_.erase(id);
}

Result<SymInt> Generator::run(const std::string& symbol) {
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* word = b_.getInt64Ty();
  // The inner function: buffers that do not alias, sizes, begin, end, scratch.
  std::vector<llvm::Type*> parameters(loops_.buffers.size(), pointer);
  parameters.insert(parameters.end(), loops_.symbols.size() + 2, word);
  parameters.push_back(pointer);
  function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), parameters, false), llvm::Function::InternalLinkage,
                                     symbol + ".loops", module_);
  function_->addFnAttr(llvm::Attribute::NoInline);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->isPointerTy()) continue;
    function_->addParamAttr(i, llvm::Attribute::NoAlias);
    function_->addParamAttr(i, llvm::Attribute::NoCapture);
  }
  for (size_t i = 0; i < loops_.buffers.size(); ++i) buffers_.push_back(function_->getArg(i));
  size_t argument = loops_.buffers.size();
  for (const std::string& name : loops_.symbols) symbols_[name] = function_->getArg(argument++);
  Value* begin = function_->getArg(argument++);
  Value* end = function_->getArg(argument++);
  scratch_ = function_->getArg(argument);

  // Stack slots stand in `entry`, which then goes on to the code outside all loops.
  entry_ = BasicBlock::Create(context_, "entry", function_);
  BasicBlock* start = BasicBlock::Create(context_, "start", function_);
  BasicBlock* rows = BasicBlock::Create(context_, "rows", function_);
  BasicBlock* done = BasicBlock::Create(context_, "done", function_);
  b_.SetInsertPoint(entry_);
  b_.CreateBr(start);
  scopes_.push_back({.block = start});
  std::vector<Value*> extents;
  for (size_t i = 0; i < loops_.rows; ++i) extents.push_back(index(loops_.loops[loops_.domain[i]].extent));
  enter(0);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), rows, done);
  b_.SetInsertPoint(rows);
  Scope scope{.block = rows, .body = rows, .exit = done};
  scope.counter = b_.CreatePHI(word, 2);
  scope.counter->addIncoming(begin, start);
  scope.end = end;
  Value* rest = scope.counter;
  for (size_t i = loops_.rows; i-- > 0;) {
    const int loop = loops_.domain[i];
    scope.loops |= bit(loop);
    scope.variables[loop] = i == 0 ? rest : b_.CreateURem(rest, extents[i]);
    if (i > 0) rest = b_.CreateUDiv(rest, extents[i]);
  }
  scopes_.push_back(std::move(scope));
  domain(loops_.rows, loops_.stores);
  if (loops_.scatter) scatter();
  close_loop();
  b_.SetInsertPoint(done);
  b_.CreateRetVoid();
  if (!failure_.empty()) {
    function_->eraseFromParent();
    return error(Status::unsupported, 0, failure_);
  }

  // The function that is seen from outside unpacks its arguments.
  llvm::Function* outer = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, word, word, pointer}, false),
                                                 llvm::Function::ExternalLinkage, symbol, module_);
  outer->addFnAttr(llvm::Attribute::NoUnwind);
  b_.SetInsertPoint(BasicBlock::Create(context_, "entry", outer));
  std::vector<Value*> arguments;
  for (size_t i = 0; i < loops_.buffers.size(); ++i)
    arguments.push_back(b_.CreateLoad(pointer, b_.CreateConstGEP1_64(pointer, outer->getArg(0), i)));
  for (size_t i = 0; i < loops_.symbols.size(); ++i)
    arguments.push_back(b_.CreateLoad(word, b_.CreateConstGEP1_64(word, outer->getArg(1), i)));
  for (unsigned i : {2u, 3u, 4u}) arguments.push_back(outer->getArg(i));
  b_.CreateCall(function_, arguments);
  b_.CreateRetVoid();
  return scratch_bytes_;
}

}  // namespace

Result<SymInt> generate(llvm::Module& module, const Loops& loops, const std::string& symbol) {
  return Generator(module, loops).run(symbol);
}

}  // namespace atenon::lower
