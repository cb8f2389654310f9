// The loops of one generated kernel: the meanings of a whole body, composed into scalar expressions.
//
// Every result of the body is an expression over loop variables. Producers inside the body are inlined at the index at
// which they are read, so views vanish into addresses, and equal expressions are one (hash consing): the mean that
// layer norm takes twice is computed once. A reduction binds loop variables of its own; where extents agree it binds
// the loops of the domain, so that what is computed for the reduction and again for the result is the same expression,
// and can be kept.
//
//   domain     the loops over the first result: first those that reductions depend on, then the others
//   rows       how many of the first domain loops the kernel's [begin, end) runs over
//   sharing    how many of the domain's loops behind the rows share, with the last one inside them, what does not
//              depend on them: it is computed once for all their turns, and kept
//   lane       a reduction across memory, such as a softmax over channels that lie apart, is computed for many
//              neighbours at once: their loop is the innermost everywhere, inside the reductions' own
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"
#include "lower/index.h"
#include "opset/meaning.h"

namespace atenon::lower {

using opset::ScalarOp;
using shape::SymFloat;

using ExprId = int32_t;
inline constexpr ExprId no_expr = -1;
using LoopSet = uint64_t;  // a bit a loop
inline constexpr LoopSet bit(int loop) { return LoopSet(1) << loop; }
inline constexpr LoopSet placeholder_loop = bit(63);  // what depends on a monoid's placeholders
inline constexpr size_t most_loops = 60;              // before some are cut

// The symbols that indices and addresses have beside sizes: "$N", the variable of loop N, and "%N", the value of
// expression N. nullopt of any other symbol.
std::optional<int> loop_of(const std::string& symbol);
std::optional<ExprId> value_of(const std::string& symbol);
// The values that an index is computed from.
std::vector<ExprId> values_in(const SymInt& index);

struct Expr {
  ScalarOp op = ScalarOp::constant;
  ScalarType dtype = ScalarType::f32;
  std::vector<ExprId> operands = {};
  double number = 0;    // constant, floating
  int64_t integer = 0;  // constant, integral or bool
  // size: the value, over sizes, loop variables and values of expressions; read: the address
  SymInt index = 0;
  SymFloat size_float = {};
  int buffer = -1;            // read
  int reduction = -1;         // reduce
  int component = 0;          // reduce, placeholder
  int placeholder = -1;       // 0, 1: constant that stands for the left or right side of a monoid
  bool is_partial = false;    // defined only where a condition holds; also if an operand is
  bool is_open = false;       // partial, and that condition is still to come, around it
  bool is_lazy = false;       // select, and, or: the operands behind the first are computed only where they are chosen
  bool is_branching = false;  // lazy, or an operand is
  LoopSet loops = 0;          // that it depends on
  int cost = 0;               // of it alone, in additions
};

// Operations of which the first operand may say that others do not matter.
constexpr bool is_choice(ScalarOp op) {
  return op == ScalarOp::select || op == ScalarOp::logical_and || op == ScalarOp::logical_or;
}

struct Loop {
  std::string symbol;
  SymInt extent;
  SymInt most = extent;  // turns: of a part of a loop, what the largest has

  SymInt variable() const { return SymInt::symbol(symbol); }
};

struct BoundReduction {
  std::string monoid;
  std::vector<ExprId> identity, joined;  // joined: over placeholders
  std::vector<int> loops;                // outermost first
  std::vector<ExprId> element;
  ExprId guard = no_expr;
  LoopSet outer = 0;       // loops that it depends on, without its own
  bool is_prefix = false;  // keeps every partial result: its loop is the domain's last, but for lanes
};

// Terms from which a sum that is added up one after the other is kept in double.
inline constexpr int64_t long_sum = 1024;

struct Store {
  ExprId value = no_expr;
  ScalarType dtype = ScalarType::f32;
  int buffer = -1;
  SymInt address = 0;
  LoopSet loops = 0;
};

// After the stores of a row: for every value of `loops`, in order, buffer[address] := value, or joined with what is
// there.
struct ScatterLoops {
  std::vector<int> loops;  // beyond the rows, outermost first
  ExprId value = no_expr;
  SymInt address = 0;
  ExprId joined = no_expr;  // over placeholders 0 (what is there) and 1 (value)
  SymInt count = 1;         // of the values
};

struct Loops {
  std::vector<Expr> exprs;
  std::vector<BoundReduction> reductions;
  std::vector<Loop> loops;
  std::vector<int> domain;
  size_t rows = 0;
  size_t sharing = 0;
  int lane = -1;  // the domain's last loop then; -1: none
  std::vector<Store> stores;
  std::optional<ScatterLoops> scatter;  // into the buffer of stores[0]
  std::vector<ScalarType> buffers;      // element types: operands, then results
  std::vector<std::string> symbols;     // program symbols that are read, sorted: the kernel's `sizes`

  SymInt row_count() const;
  LoopSet loops_of(const SymInt& index) const;  // that it depends on, by the values in it, too
};

// The buffer of which a scatter keeps all that it does not write, where it lies as the result does: one buffer may be
// both. -1: none.
int base_of_scatter(const Loops& loops);

// How many terms a reduction has; at least `long_sum` where only a run knows.
int64_t terms_of(const Loops& loops, const BoundReduction& reduction);

// Program symbols that the loops read, sorted.
std::vector<std::string> symbols_of(const Loops& loops);

// What an expression is computed from, the values in its index included.
void each_operand(const Loops& loops, ExprId id, const std::function<void(ExprId)>& visit);

// Additions: what a value costs to compute twice rather than to keep.
inline constexpr int worth_keeping = 16;
// What `id` costs for each turn of the loops `inner`, in additions, without what is in `seen`, which it joins, nor what
// is not chosen where conditions have these truths.
int cost_of(const Loops& loops, ExprId id, LoopSet inner, std::set<ExprId>& seen,
            const std::map<ExprId, bool>& truths = {});

// A size at the hints; 64 for a symbol without one.
int64_t typical(const SymInt& x, const shape::Bindings& hints);

// Where the elements of an operand or a result lie.
struct Layout {
  std::vector<SymInt> strides;
  SymInt offset = 0;
  // Of a packed weight, as in ir::BlockedLayout: axis and size, the innermost last; the strides are those of whole
  // blocks then.
  std::vector<std::pair<int, int64_t>> inner_blocks = {};
  std::optional<ScalarType> stored = {};  // of a weight that is packed in 16 bits: the type in memory
  bool operator==(const Layout&) const = default;
};
Layout row_major(const std::vector<SymInt>& sizes);
Layout packed_layout(const ir::Weight& weight);  // of one that has a layout
SymInt address_of(const Layout& layout, std::vector<SymInt> index);

// A tensor as loops see it: complex elements are pairs of real ones, along a last axis.
struct RealForm {
  ScalarType dtype;
  std::vector<SymInt> sizes;
  Layout layout;
};
RealForm real_form(const ir::TensorMeta& meta, Layout layout);

// The meaning of a node of the body; null where it has none in loops.
using MeaningOf = std::function<const opset::Meaning*(const ir::Node&)>;

// How one node reads its operands: what tells elementwise operators, reductions and views from the rest.
struct Access {
  const ir::Value* tensor = nullptr;
  std::vector<SymInt> index;  // over "$i": axis i of the result, and beyond its rank the loops of reductions
  LoopSet looked_up = 0;      // loops on which places depend that are computed from data or numbers
};
struct Accesses {
  std::vector<Access> reads;
  std::vector<Loop> loops;    // axes of the result, then loops of reductions
  std::string refusal;        // "" or why the node has no code
  bool stands_alone = false;  // a scatter or a prefix: the order of its loops matters
};
Accesses accesses_of(const opset::Meaning& meaning, const shape::Facts& facts);
// Where the last of several views, each of the one before it, reads what the first one views, over the last one's axes;
// nullopt where one of them is no view.
std::optional<Access> access_of(const std::vector<const opset::Meaning*>& views, const shape::Facts& facts);

// Where a scatter writes to, over the loops of what it writes as in an Access; nullopt where data decide it.
std::optional<std::vector<SymInt>> written_place(const opset::Meaning& meaning, const shape::Facts& facts);

// Where the operands and results of a body lie.
using LayoutOf = std::function<Layout(const ir::Value&)>;

// Composes a body. Refuses (as an error without code) what loops cannot say: a scatter whose extents depend on data, or
// with other operators around it than the windows of its base that it is written back through.
Result<Loops> compose(const ir::Graph& body, const MeaningOf& meaning_of, const LayoutOf& layout_of,
                      const shape::Facts& facts, const shape::Bindings& hints);

// Orders the domain for memory, merges loops that are contiguous everywhere, and chooses the rows. Sizes that are
// symbols are judged by their hints.
void arrange(Loops& loops, const shape::Facts& facts, const shape::Bindings& hints);

}  // namespace atenon::lower
