// Scalar expressions as instructions: where they stand, and what they are.
#include <algorithm>
#include <cassert>
#include <cmath>

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include "kernels/lanes.h"
#include "lower/generator.h"
#include "lower/inline_functions.h"

namespace atenon::lower {

using llvm::BasicBlock;
using llvm::Value;

namespace {

constexpr int64_t least_wide_loop = 8;  // turns that fill a vector
constexpr int64_t least_vector = 4;     // numbers, of one that is no better cut
constexpr int most_whole_power = 64;    // six squarings and as many products: still less than a logarithm

}  // namespace

// --- Types

llvm::Type* Generator::memory_type(ScalarType type) {
  switch (type) {
    case ScalarType::f16:
      return b_.getHalfTy();
    case ScalarType::bf16:
      return b_.getInt16Ty();
    case ScalarType::boolean:
      return b_.getInt8Ty();
    default:
      return register_type(type);
  }
}

llvm::Type* Generator::register_type(ScalarType type) {
  switch (type) {
    case ScalarType::f16:
    case ScalarType::bf16:
    case ScalarType::f32:
      return b_.getFloatTy();
    case ScalarType::f64:
      return b_.getDoubleTy();
    case ScalarType::u8:
    case ScalarType::i8:
      return b_.getInt8Ty();
    case ScalarType::i16:
      return b_.getInt16Ty();
    case ScalarType::i32:
      return b_.getInt32Ty();
    case ScalarType::i64:
      return b_.getInt64Ty();
    case ScalarType::boolean:
      return b_.getInt1Ty();
    case ScalarType::c64:
    case ScalarType::c128:
      break;
  }
  fail("it computes with complex numbers");
  return b_.getInt64Ty();
}

Value* Generator::load(Value* pointer, ScalarType type, const llvm::AAMDNodes& aliases) {
  llvm::Instruction* raw = b_.CreateAlignedLoad(memory_type(type), pointer, llvm::Align(size_of(type)));
  raw->setAAMetadata(aliases);
  if (type == ScalarType::boolean) return b_.CreateICmpNE(raw, b_.getInt8(0));
  if (is_half(type)) return widen(raw, type);
  return raw;
}

void Generator::store(Value* value, Value* pointer, ScalarType type, const llvm::AAMDNodes& aliases) {
  if (type == ScalarType::boolean) value = b_.CreateZExt(value, b_.getInt8Ty());
  if (is_half(type)) value = narrow(value, type);
  b_.CreateAlignedStore(value, pointer, llvm::Align(size_of(type)))->setAAMetadata(aliases);
}

// Between f32 and 16 bits in memory. bf16 is converted by integer arithmetic, since most CPUs have no instruction for
// it.
Value* Generator::widen(Value* x, ScalarType type) {
  if (type == ScalarType::f16) return b_.CreateFPExt(x, b_.getFloatTy());
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(x, b_.getInt32Ty()), b_.getInt32(16)), b_.getFloatTy());
}

Value* Generator::narrow(Value* x, ScalarType type) {
  if (type == ScalarType::f16) return b_.CreateFPTrunc(x, memory_type(type));
  Value* bits = b_.CreateBitCast(x, b_.getInt32Ty());
  Value* high = b_.CreateLShr(bits, b_.getInt32(16));
  // Half to even: adds just less than half of the last place, and one more where it is odd.
  Value* odd = b_.CreateAnd(high, b_.getInt32(1));
  Value* rounded = b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(odd, b_.getInt32(0x7fff))), b_.getInt32(16));
  Value* quiet = b_.CreateOr(high, b_.getInt32(0x40));
  return b_.CreateTrunc(b_.CreateSelect(b_.CreateFCmpUNO(x, x), quiet, rounded), b_.getInt16Ty());
}

// --- Placement

size_t Generator::scope_of(const Placement& wanted) const {
  if (wanted.is_branching) return scopes_.size() - 1;
  for (size_t i = scopes_.size(); i-- > 1;)
    if (scopes_[i].loops & wanted.loops || (wanted.is_partial && scopes_[i].is_conditional)) return i;
  // What depends on no loop may still read a reduction of the row, so it stands no further out than the row.
  return scopes_.size() > 1 ? 1 : 0;
}

// The scope from which on a value of these loops holds: a loop may run inside of itself, as in a reduction over k of
// what is a reduction over j at k, and what was computed further out is of another turn of it.
size_t Generator::valid_from(LoopSet loops) const {
  size_t scope = scopes_.size() - 1;
  while (scope > 0 && !(scopes_[scope].loops & loops)) --scope;
  return scope;
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

Generator::Placement Generator::placement(const SymInt& x) const {
  Placement wanted;
  if (x.is_constant()) return wanted;
  for (const std::string& symbol : x.symbols()) {
    if (const std::optional<int> loop = loop_of(symbol)) wanted.loops |= bit(*loop);
    if (const std::optional<ExprId> value = value_of(symbol)) wanted |= placement(loops_.exprs[*value]);
  }
  return wanted;
}

void Generator::open_loop(int loop) { open_loop(loop, 0, extent(loop)); }

void Generator::open_loop(int loop, const SymInt& first, const SymInt& last) {
  Value *begin = index(first), *extent = index(last);
  enter(scopes_.size() - 1);
  BasicBlock* before = scopes_.back().block;
  Scope scope{.loops = bit(loop)};
  scope.body = BasicBlock::Create(context_, "loop", function_);
  scope.exit = BasicBlock::Create(context_, "after", function_);
  scope.block = scope.body;
  scope.first = first.constant().value_or(0);
  scope.end = extent;
  if (first.constant() && last.constant() && *last.constant() > *first.constant()) {
    b_.CreateBr(scope.body);
  } else {
    b_.CreateCondBr(b_.CreateICmpSGT(extent, begin), scope.body, scope.exit);
  }
  b_.SetInsertPoint(scope.body);
  scope.counter = b_.CreatePHI(b_.getInt64Ty(), 2);
  scope.counter->addIncoming(begin, before);
  scope.variables[loop] = scope.counter;
  scopes_.push_back(std::move(scope));
}

// In how many vectors a reduction of so many terms is computed, so that one does not wait for the other. Terms that
// fill none of them wait for each other, one by one: there must be few, and no more than one vector would leave over.
static uint32_t partial_sums(int64_t terms) {
  constexpr int64_t width = kernels::widest_vector, many = 512, very_many = 8192;
  const auto fits = [&](int64_t vectors) {
    return terms >= very_many || ((terms % width == 0 || terms >= many) && terms % (vectors * width) == terms % width);
  };
  return fits(4) ? 4 : fits(2) ? 2 : 1;
}

void Generator::close_loop() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  b_.SetInsertPoint(scope.block);
  Value* next = b_.CreateAdd(scope.counter, constant(1), "", true, true);
  scope.counter->addIncoming(next, scope.block);
  llvm::Instruction* back = b_.CreateCondBr(b_.CreateICmpSLT(next, scope.end), scope.body, scope.exit);
  advise(back, scope);
  scopes_.back().block = scope.exit;
}

// LLVM would write out a loop of some dozen turns before it tries to make it wide. Lanes are written out then, so that
// accumulators stay in registers; those that fill no widest vectors fill narrower ones, with no rest. Lanes that fill
// none are written out at once. Few turns at the end of a long loop are not written out either: they are one vector.
void Generator::advise(llvm::Instruction* back, const Scope& scope) {
  using llvm::MDNode;
  const auto name_of = [&](const char* name) { return llvm::MDString::get(context_, name); };
  const auto note = [&](const char* name) { return MDNode::get(context_, name_of(name)); };
  const auto number = [&](const char* name, Value* value) {
    return MDNode::get(context_, {name_of(name), llvm::ValueAsMetadata::get(value)});
  };
  const auto count = [&](const char* name, int64_t n) { return number(name, b_.getInt32(static_cast<uint32_t>(n))); };
  const bool is_lane = scope.loops == lane_loop();
  const auto is_wide = [&](int64_t turns) {
    return turns >= (is_lane && turns % least_wide_loop != 0 ? kernels::widest_vector : least_wide_loop);
  };
  llvm::SmallVector<llvm::Metadata*> notes = {nullptr, note("llvm.loop.unroll.disable")};
  if (scope.part != Part::all) {
    notes.push_back(count("llvm.loop.vectorize.width", scope.part == Part::single ? 1 : vector_width_));
    notes.push_back(count("llvm.loop.interleave.count", scope.part == Part::vectors ? vectors_at_once : 1));
    if (scope.part == Part::rest) {
      notes.push_back(number("llvm.loop.vectorize.enable", b_.getTrue()));
      notes.push_back(number("llvm.loop.vectorize.predicate.enable", b_.getTrue()));
    }
  } else {
    const auto* end = llvm::dyn_cast<llvm::ConstantInt>(scope.end);
    if (!end || !is_wide(end->getSExtValue())) return;
    if (scope.accumulates && !is_lane)
      notes.push_back(count("llvm.loop.interleave.count", partial_sums(end->getSExtValue() - scope.first)));
    if (is_lane) {
      const int64_t whole = end->getSExtValue() & -end->getSExtValue();
      if (whole >= least_vector && whole < kernels::widest_vector)
        notes.push_back(count("llvm.loop.vectorize.width", whole));
      notes.push_back(
          MDNode::get(context_, {name_of("llvm.loop.vectorize.followup_vectorized"), note("llvm.loop.unroll.full")}));
    }
  }
  MDNode* loop = MDNode::getDistinct(context_, notes);
  loop->replaceOperandWith(0, loop);
  back->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

// --- Integers

// A polynomial is summed from the outermost loop inwards, so that each loop adds only what changes in it.
Value* Generator::index(const SymInt& x) {
  if (x.is_constant()) return constant(*x.constant());
  const size_t scope = scope_of(placement(x));
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
        depth = std::max(depth, scope_of(placement(symbols)));
      } else {
        if (!factor.atom->floats.empty()) depth = std::max(depth, scope_of({}));  // of sizes alone
        for (const SymInt& operand : factor.atom->operands) depth = std::max(depth, scope_of(placement(operand)));
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
    if (const std::optional<ExprId> id = value_of(atom.spelling)) return value(*id);
    if (const std::optional<int> loop = loop_of(atom.spelling)) {
      for (size_t i = scopes_.size(); i-- > 0;)
        if (auto found = scopes_[i].variables.find(*loop); found != scopes_[i].variables.end()) return found->second;
      assert(false && "a loop variable outside its loop");
    }
    return symbols_.at(atom.spelling);
  }
  for (const Scope& scope : scopes_)
    if (auto found = scope.lines.find(atom.spelling); found != scope.lines.end()) return index(found->second);
  if (!atom.floats.empty()) {
    const ScalarOp op = atom.kind == AtomKind::floor   ? ScalarOp::floor
                        : atom.kind == AtomKind::ceil  ? ScalarOp::ceil
                        : atom.kind == AtomKind::trunc ? ScalarOp::trunc
                                                       : ScalarOp::round;
    const std::vector<Value*> x = {size_float(atom.floats[0])};
    enter(scope_of({}));
    return cast(emit_function(b_, op, x), ScalarType::f64, ScalarType::i64);
  }
  if (atom.operands.empty()) {
    fail("a size is too large for 64 bits");
    return constant(0);
  }
  Placement wanted;
  std::vector<Value*> operands;
  for (const SymInt& operand : atom.operands) {
    operands.push_back(index(operand));
    wanted |= placement(operand);
  }
  enter(scope_of(wanted));
  Value *a = operands[0], *n = operands[1];
  switch (atom.kind) {
    case AtomKind::min:
    case AtomKind::max:
      for (size_t i = 1; i < operands.size(); ++i)
        a = b_.CreateBinaryIntrinsic(atom.kind == AtomKind::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, a,
                                     operands[i]);
      return a;
    case AtomKind::floor_div:
    case AtomKind::mod: {
      // Rounds down. A constant divisor is positive; one such as s - t, which is spelt in an order of its own, may not
      // be, and is 0 perhaps where nothing is computed with it.
      if (!atom.operands[1].is_constant()) n = b_.CreateSelect(b_.CreateICmpEQ(n, constant(0)), constant(1), n);
      Value* quotient = b_.CreateSDiv(a, n);
      Value* rest = b_.CreateSub(a, b_.CreateMul(quotient, n));
      Value* is_below = b_.CreateICmpSLT(rest, constant(0));
      if (!atom.operands[1].is_constant()) {
        is_below = b_.CreateICmpSLT(b_.CreateXor(rest, n), constant(0));
        is_below = b_.CreateAnd(is_below, b_.CreateICmpNE(rest, constant(0)));
      }
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
  const size_t scope = scope_of({});  // where index() puts what no loop changes
  if (node.op == "from") {
    Value* whole = index(node.integer);
    enter(scope);
    return b_.CreateSIToFP(whole, b_.getDoubleTy());
  }
  if (node.op == "number") {
    Value* bits = index(node.integer);
    enter(scope);
    return b_.CreateBitCast(bits, b_.getDoubleTy());
  }
  std::vector<Value*> operands;
  for (const SymFloat& operand : node.operands) operands.push_back(size_float(operand));
  enter(scope);
  if (node.op == "+") return b_.CreateFAdd(operands[0], operands[1]);
  if (node.op == "-") return b_.CreateFSub(operands[0], operands[1]);
  if (node.op == "*") return b_.CreateFMul(operands[0], operands[1]);
  if (node.op == "/") return b_.CreateFDiv(operands[0], operands[1]);
  if (node.op == "sqrt") return emit_function(b_, ScalarOp::sqrt, operands);
  if (node.op == "abs") return emit_function(b_, ScalarOp::abs, operands);
  if (node.op == "exp") return emit_function(b_, ScalarOp::exp, operands);
  if (node.op == "log") return emit_function(b_, ScalarOp::log, operands);
  if (node.op == "log2") return emit_function(b_, ScalarOp::log2, operands);
  if (node.op == "pow") return emit_function(b_, ScalarOp::pow, operands);
  if (node.op == "min") return b_.CreateSelect(b_.CreateFCmpOLT(operands[1], operands[0]), operands[1], operands[0]);
  if (node.op == "max") return b_.CreateSelect(b_.CreateFCmpOGT(operands[1], operands[0]), operands[1], operands[0]);
  fail("a number computed from sizes has no code: " + node.op);
  return operands[0];
}

// --- Scalars

Value* Generator::address(int buffer, ScalarType type, const SymInt& at) {
  Value* offset = index(at);
  enter(scope_of(placement(at)));
  return b_.CreateGEP(memory_type(type), buffers_[buffer], offset);
}

// What is kept lies behind all that was kept before. LLVM cannot tell that of elements of other sizes, which a loop may
// go over at once: it would not make the loop wide.
void Generator::keep(ExprId id, const std::vector<int>& loops) {
  SymInt bytes = static_cast<int64_t>(size_of(widened(loops_.exprs[id].dtype)));
  for (int loop : loops) bytes = bytes * room(loop);
  llvm::MDBuilder metadata(context_);
  if (!kept_domain_) kept_domain_ = metadata.createAnonymousAliasScopeDomain();
  llvm::Metadata* own = metadata.createAnonymousAliasScope(kept_domain_);
  Kept kept{.offset = scratch_bytes_, .loops = loops, .scopes = scopes_.size()};
  kept.aliases.Scope = llvm::MDNode::get(context_, own);
  kept.aliases.NoAlias = llvm::MDNode::get(context_, kept_scopes_);
  kept_scopes_.push_back(own);
  scratch_bytes_ = scratch_bytes_ + shape::floor_div(bytes + 63, 64) * 64;
  kept_[id] = std::move(kept);
}

Value* Generator::kept_address(const Kept& kept, ScalarType type, size_t scope) {
  SymInt position = 0;
  for (int loop : kept.loops) position = position * room(loop) + loops_.loops[loop].variable();
  Value* offset = index(position);
  Value* start = index(kept.offset);
  enter(scope);
  return b_.CreateGEP(memory_type(type), b_.CreateGEP(b_.getInt8Ty(), scratch_, start), offset);
}

Value* Generator::value(ExprId id) {
  const Expr& expr = loops_.exprs[id];
  if (expr.placeholder >= 0) return placeholders_.at({expr.placeholder, expr.component});
  if (expr.op == ScalarOp::size) return index(expr.index);
  std::vector<Value*>* arrays = nullptr;
  if (expr.op == ScalarOp::reduce) {
    const size_t first = valid_from(expr.loops), first_in_lanes = valid_from(expr.loops & ~lane_loop());
    for (size_t i = scopes_.size(); i-- > first_in_lanes && !arrays;) {
      if (auto found = scopes_[i].reduced.find(expr.reduction); i >= first && found != scopes_[i].reduced.end())
        return found->second[expr.component];
      if (auto found = scopes_[i].in_lanes.find(expr.reduction); found != scopes_[i].in_lanes.end())
        arrays = &found->second;
    }
    assert(arrays && "a reduction is read before it is computed");
  }
  const size_t outermost = scope_of({.loops = expr.loops});
  const size_t scope = scope_of(placement(expr));
  for (size_t i = scope + 1; i-- > outermost;)
    if (auto found = scopes_[i].values.find(id); found != scopes_[i].values.end()) return found->second;
  Value* result;
  if (arrays) {
    const ScalarType type = accumulator_type(expr.reduction, static_cast<size_t>(expr.component));
    Value* pointer = lane_of((*arrays)[expr.component], type);
    enter(scope);
    result = as_type(read_slot(pointer, type), register_type(expr.dtype));
  } else if (auto kept = kept_.find(id); kept != kept_.end() && kept->second.is_readable &&
                                         valid_from(expr.loops & ~set_of(kept->second.loops)) < kept->second.scopes) {
    result = load(kept_address(kept->second, expr.dtype, scope), expr.dtype, kept->second.aliases);
  } else {
    result = expr.is_lazy ? lazily(expr) : compute(expr, scope);
  }
  // A lazy value may have moved its scope to another block, which the scope goes on from.
  scopes_[scope].values[id] = result;
  return result;
}

// Evaluates an operand under its condition, with a branch that LLVM turns into a masked load.
Value* Generator::lazily(const Expr& expr) {
  constexpr int most_branches = 20000;
  Value* condition = value(expr.operands[0]);
  const bool is_select = expr.op == ScalarOp::select;
  auto under = [&](Value* truth, ExprId operand) -> Value* {
    if (++branches_ > most_branches) {
      fail("it branches too often");
      return llvm::Constant::getNullValue(register_type(loops_.exprs[operand].dtype));
    }
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
    return phi;
  };
  auto operand = [&](size_t i, bool when) -> Value* {
    if (!loops_.exprs[expr.operands[i]].is_open) return value(expr.operands[i]);
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
    const P p = op == ScalarOp::eq   ? P::FCMP_OEQ
                : op == ScalarOp::ne ? P::FCMP_UNE
                : op == ScalarOp::lt ? P::FCMP_OLT
                                     : P::FCMP_OLE;
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
    return from_float ? b_.CreateFCmpUNE(x, llvm::ConstantFP::get(x->getType(), 0))
                      : b_.CreateICmpNE(x, llvm::ConstantInt::get(x->getType(), 0));
  }
  if (is_half(to)) {
    if (!from_float)
      x = from == ScalarType::boolean || from == ScalarType::u8 ? b_.CreateUIToFP(x, type) : b_.CreateSIToFP(x, type);
    if (x->getType()->isDoubleTy()) x = b_.CreateFPTrunc(x, type);
    return widen(narrow(x, to), to);
  }
  if (from_float && to_float) return b_.CreateFPCast(x, type);
  if (to_float)
    return from == ScalarType::boolean || from == ScalarType::u8 ? b_.CreateUIToFP(x, type) : b_.CreateSIToFP(x, type);
  if (!from_float)
    return from == ScalarType::boolean || from == ScalarType::u8 ? b_.CreateZExtOrTrunc(x, type)
                                                                 : b_.CreateSExtOrTrunc(x, type);
  llvm::Type* wide = to == ScalarType::i64 ? b_.getInt64Ty() : b_.getInt32Ty();
  const double limit = to == ScalarType::i64 ? 0x1p63 : 0x1p31;
  Value* low = llvm::ConstantFP::get(x->getType(), -limit);
  Value* in_range =
      b_.CreateAnd(b_.CreateFCmpOGE(x, low), b_.CreateFCmpOLT(x, llvm::ConstantFP::get(x->getType(), limit)));
  Value* whole = b_.CreateFPToSI(b_.CreateSelect(in_range, x, low), wide);
  return b_.CreateTrunc(whole, type);
}

Value* Generator::integer_operation(const Expr& expr, std::span<Value* const> x) {
  const bool is_unsigned = expr.dtype == ScalarType::u8 || expr.dtype == ScalarType::boolean;
  llvm::Type* type = x[0]->getType();
  auto number = [&](int64_t value) { return llvm::ConstantInt::get(type, value, true); };
  switch (expr.op) {
    case ScalarOp::add:
      return b_.CreateAdd(x[0], x[1]);
    case ScalarOp::sub:
      return b_.CreateSub(x[0], x[1]);
    case ScalarOp::mul:
      return b_.CreateMul(x[0], x[1]);
    case ScalarOp::neg:
      return b_.CreateNeg(x[0]);
    case ScalarOp::abs:
      return is_unsigned ? x[0] : b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], b_.getFalse());
    case ScalarOp::minimum:
      return b_.CreateBinaryIntrinsic(is_unsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, x[0], x[1]);
    case ScalarOp::maximum:
      return b_.CreateBinaryIntrinsic(is_unsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, x[0], x[1]);
    case ScalarOp::bit_and:
      return b_.CreateAnd(x[0], x[1]);
    case ScalarOp::bit_or:
      return b_.CreateOr(x[0], x[1]);
    case ScalarOp::bit_xor:
      return b_.CreateXor(x[0], x[1]);
    case ScalarOp::bit_not:
      return b_.CreateNot(x[0]);
    case ScalarOp::isnan:
      return b_.getFalse();
    case ScalarOp::pow: {
      // By squaring, a step for each bit that the exponent may have.
      const auto* known = llvm::dyn_cast<llvm::ConstantInt>(x[1]);
      const unsigned width = type->getIntegerBitWidth();
      const unsigned bits = known && !known->isNegative() ? known->getValue().getActiveBits() : width - !is_unsigned;
      Value* result = number(1);
      Value* square = x[0];
      for (unsigned bit = 0; bit < bits; ++bit) {
        Value* is_set = b_.CreateTrunc(b_.CreateLShr(x[1], number(bit)), b_.getInt1Ty());
        result = b_.CreateMul(result, b_.CreateSelect(is_set, square, number(1)));
        if (bit + 1 < bits) square = b_.CreateMul(square, square);
      }
      if (is_unsigned || (known && !known->isNegative())) return result;
      // 1 / base^n: of 1 and -1 the base or 1, of all others 0.
      Value* is_odd = b_.CreateTrunc(x[1], b_.getInt1Ty());
      Value* is_minus_one = b_.CreateICmpEQ(x[0], number(-1));
      Value* inverse =
          b_.CreateSelect(b_.CreateICmpEQ(x[0], number(1)), number(1),
                          b_.CreateSelect(is_minus_one, b_.CreateSelect(is_odd, x[0], number(1)), number(0)));
      return b_.CreateSelect(b_.CreateICmpSLT(x[1], number(0)), inverse, result);
    }
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
      // Nothing traps: the divisor 0, which the program has no business with, acts as 1; so does -1 on the lowest
      // integer.
      Value* n = b_.CreateSelect(b_.CreateICmpEQ(x[1], number(0)), number(1), x[1]);
      if (is_unsigned) return expr.op == ScalarOp::mod ? b_.CreateURem(x[0], n) : b_.CreateUDiv(x[0], n);
      Value* is_minus_one = b_.CreateICmpEQ(n, number(-1));
      Value* safe = b_.CreateSelect(is_minus_one, number(1), n);
      Value* quotient = b_.CreateSDiv(x[0], safe);
      Value* rest = b_.CreateSub(x[0], b_.CreateMul(quotient, safe));
      quotient = b_.CreateSelect(is_minus_one, b_.CreateNeg(x[0]), quotient);
      if (expr.op == ScalarOp::trunc_div) return quotient;
      Value* is_apart =
          b_.CreateAnd(b_.CreateICmpNE(rest, number(0)), b_.CreateICmpSLT(b_.CreateXor(rest, n), number(0)));
      if (expr.op == ScalarOp::mod) return b_.CreateAdd(rest, b_.CreateSelect(is_apart, n, number(0)));
      return b_.CreateSub(quotient, b_.CreateZExt(is_apart, type));
    }
    default:
      fail("an operation on integers has no code");
      return number(0);
  }
}

// Of an f32, by squaring in f64, whose range is enough where the result's is.
Value* Generator::whole_power(Value* x, int exponent) {
  Value* square = b_.CreateFPExt(x, b_.getDoubleTy());
  Value* result = llvm::ConstantFP::get(b_.getDoubleTy(), 1);
  for (int rest = std::abs(exponent); rest > 0; rest /= 2) {
    if (rest % 2 == 1) result = b_.CreateFMul(result, square);
    if (rest > 1) square = b_.CreateFMul(square, square);
  }
  if (exponent < 0) result = b_.CreateFDiv(llvm::ConstantFP::get(b_.getDoubleTy(), 1), result);
  return b_.CreateFPTrunc(result, x->getType());
}

Value* Generator::float_operation(const Expr& expr, std::span<Value* const> x) {
  switch (expr.op) {
    case ScalarOp::add:
      return b_.CreateFAdd(x[0], x[1]);
    case ScalarOp::sub:
      return b_.CreateFSub(x[0], x[1]);
    case ScalarOp::mul:
      return b_.CreateFMul(x[0], x[1]);
    case ScalarOp::div:
      return b_.CreateFDiv(x[0], x[1]);
    case ScalarOp::neg:
      return b_.CreateFNeg(x[0]);
    case ScalarOp::minimum:
    case ScalarOp::maximum: {
      // NaN stays; which of two zeros comes out nobody asks, and LLVM's answer costs five instructions.
      llvm::Value* chosen = b_.CreateBinaryIntrinsic(
          expr.op == ScalarOp::minimum ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, x[0], x[1]);
      if (auto* call = llvm::dyn_cast<llvm::Instruction>(chosen)) call->setHasNoSignedZeros(true);
      return chosen;
    }
    case ScalarOp::trunc_div:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b_.CreateFDiv(x[0], x[1]));
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
        if (x[0]->getType()->isFloatTy() && std::trunc(exponent.number) == exponent.number &&
            std::abs(exponent.number) <= most_whole_power)
          return whole_power(x[0], static_cast<int>(exponent.number));
      }
      return emit_function(b_, ScalarOp::pow, x);
    }
    default:
      break;
  }
  if (Value* result = emit_function(b_, expr.op, x)) return result;
  fail("a function has no code");
  return x[0];
}

}  // namespace atenon::lower
