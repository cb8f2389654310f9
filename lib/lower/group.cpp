// Which nodes become one call.
//
// First the operators that a library kernel wants, each with the chain of cheap operators behind it that the kernel can
// apply while its result is in registers. Then loops: a node joins the group of a producer that it reads element by
// element, where both run over the same axes and reduce the same of them, so that a softmax, a layer norm or a chain of
// activations is one kernel. Views stay apart; they become aliases.
#include <algorithm>
#include <numeric>

#include "ir/readers.h"
#include "lower/lowering.h"

namespace atenon::lower {

namespace {

using ir::Node;
using ir::Value;
using Role = Group::Role;

// Of a group of loops. Composing is a recursion over what reads what, and compiling takes longer than in proportion: a
// loop of the model's that was written out thousands of times is several kernels.
constexpr size_t most_nodes = 128;

// How a node runs over its axes. `full` are the sizes other than 1 of what it iterates over; `reduced` which of them it
// joins.
struct Shape {
  std::vector<SymInt> full;
  std::vector<bool> reduced;
  bool is_reduction = false;
};

// A read of an operand, element by element: the operand's axes other than 1 are these axes of `full`.
struct Edge {
  const Value* operand;
  std::vector<int> axes;
};

class Grouper {
 public:
  explicit Grouper(Lowering& lowering) : lowering_(lowering) {}
  void run();

 private:
  void classify(Node& node);
  void add_group(Group group);
  void take_kernels();
  std::vector<Node*> epilogue(Node* anchor, const kernels::Kernel& kernel);
  bool is_reduction(const Node& node) const;
  bool stays_apart(const Node& node, const Value& operand) const;
  void take_weight_views(Group& group);
  void take_repeats(Group& group);
  std::optional<std::pair<Node*, Node*>> written_back(const Node& node) const;
  void join_writes();
  void form_loops();
  bool can_join(const Node& node, const Group& group) const;
  bool would_close_circle(const Group& a, const Group& b) const;
  void join(Group& into, Group& from);
  bool reaches(const Group& from, const Group& to, const Group& also, std::set<const Group*>& seen, bool direct) const;
  bool is_shared_expansion(const Group& group, const Node& view) const;
  void release_views();

  Lowering& lowering_;
  Positions position_, segment_;
  std::map<const Node*, const Node*> next_draw_;
  std::map<const Node*, Shape> shapes_;
  std::map<const Node*, std::vector<Edge>> edges_;
  std::map<const Group*, Shape> group_shapes_;
};

std::vector<SymInt> rows_of(const Shape& shape) {
  std::vector<SymInt> rows;
  for (size_t axis = 0; axis < shape.full.size(); ++axis)
    if (!shape.reduced[axis]) rows.push_back(shape.full[axis]);
  return rows;
}

bool is_view(const Lowering& lowering, const Node& node) {
  auto meaning = lowering.meanings.find(&node);
  return meaning != lowering.meanings.end() && meaning->second.is_view && node.results().size() == 1;
}

// Finds the axes that the node runs over, and which operands it reads along them.
void Grouper::classify(Node& node) {
  auto found = lowering_.accesses.find(&node);
  if (found == lowering_.accesses.end() || !found->second.refusal.empty() || found->second.stands_alone) return;
  const Accesses& accesses = found->second;
  const std::vector<SymInt>& sizes = node.result()->meta().sizes;
  auto loop_at = [&](const SymInt& index) {
    std::optional<std::string> symbol = index.as_symbol();
    return symbol ? loop_of(*symbol).value_or(-1) : -1;
  };
  // An operand that is read by plain loop variables, in all its reads alike.
  auto plain_axes = [&](const Access& access) -> std::optional<std::vector<int>> {
    std::vector<int> loops;
    for (size_t axis = 0; axis < access.index.size(); ++axis) {
      if (access.tensor->meta().sizes[axis] == SymInt(1)) continue;
      const int loop = loop_at(access.index[axis]);
      if (loop < 0 || std::find(loops.begin(), loops.end(), loop) != loops.end()) return std::nullopt;
      if (accesses.loops[loop].extent != access.tensor->meta().sizes[axis]) return std::nullopt;
      loops.push_back(loop);
    }
    return loops;
  };

  Shape shape;
  const size_t rank = sizes.size();
  shape.is_reduction = accesses.loops.size() > rank;
  std::vector<int> order;  // the loops of `full`
  if (shape.is_reduction) {
    // The operand that is reduced gives the order of all axes.
    for (const Access& access : accesses.reads) {
      std::optional<std::vector<int>> loops = plain_axes(access);
      if (loops && loops->size() > order.size()) order = *loops;
    }
    for (size_t loop = 0; loop < accesses.loops.size(); ++loop) {
      const bool is_one = accesses.loops[loop].extent == SymInt(1);
      if (!is_one && std::find(order.begin(), order.end(), static_cast<int>(loop)) == order.end())
        return;  // a product, a window
    }
  } else {
    for (size_t axis = 0; axis < rank; ++axis)
      if (sizes[axis] != SymInt(1)) order.push_back(static_cast<int>(axis));
  }
  for (int loop : order) {
    shape.full.push_back(accesses.loops[loop].extent);
    shape.reduced.push_back(loop >= static_cast<int>(rank));
  }

  std::map<const Value*, std::optional<std::vector<int>>> operands;
  for (const Access& access : accesses.reads) {
    std::optional<std::vector<int>> axes;
    if (std::optional<std::vector<int>> loops = plain_axes(access)) {
      axes.emplace();
      for (int loop : *loops)
        axes->push_back(static_cast<int>(std::find(order.begin(), order.end(), loop) - order.begin()));
      if (!std::is_sorted(axes->begin(), axes->end())) axes.reset();
    }
    auto [known, is_new] = operands.emplace(access.tensor, axes);
    if (!is_new && known->second != axes) known->second.reset();
  }
  shapes_[&node] = shape;
  for (auto& [operand, axes] : operands)
    if (axes) edges_[&node].push_back({operand, *axes});
}

void Grouper::add_group(Group group) {
  lowering_.groups.push_back(std::make_unique<Group>(std::move(group)));
  for (const Node* node : lowering_.groups.back()->nodes) lowering_.group_of[node] = lowering_.groups.back().get();
}

// --- Kernels of libraries

// The anchor and the longest chain behind it that the kernel takes.
std::vector<Node*> Grouper::epilogue(Node* anchor, const kernels::Kernel& kernel) {
  std::vector<Node*> taken = {anchor};
  if (!lowering_.options.fuse) return taken;
  std::vector<Node*> tried = taken;
  constexpr size_t longest_miss = 2;  // x * sigmoid(x) is only taken whole
  while (tried.size() - taken.size() <= longest_miss) {
    Node* next = next_reader(tried, position_);
    if (!next || segment_[next] != segment_[anchor] || lowering_.group_of.count(next) || !edges_.count(next) ||
        is_view(lowering_, *next))
      break;
    tried.push_back(next);
    std::vector<Value*> operands, results;
    find_boundary(tried, operands, results);
    if (results.size() == 1 && kernels::objection(kernel, make_body(tried, operands, results)).empty()) taken = tried;
  }
  return taken;
}

// Sums, means and the like are loops: steps of a softmax or a norm, or the end of what they read. A product reduces two
// operands, and is none of them, though one of a single row may run over the same axes.
bool Grouper::is_reduction(const Node& node) const {
  auto shape = shapes_.find(&node);
  if (shape == shapes_.end() || !shape->second.is_reduction) return false;
  const Accesses& accesses = lowering_.accesses.at(&node);
  const size_t rank = node.result()->meta().sizes.size();
  std::set<const Value*> reduced;
  for (const Access& access : accesses.reads)
    for (const SymInt& index : access.index)
      for (const std::string& symbol : index.is_constant() ? std::set<std::string>() : index.symbols())
        if (loop_of(symbol).value_or(-1) >= static_cast<int>(rank)) reduced.insert(access.tensor);
  return reduced.size() < 2;
}

// Are its operands the parts of its result? Loops find out at each element which of them it lies in.
bool joins_parts(const Node& node) {
  const std::vector<Value*> parts = node.operands();
  if (parts.size() < 2 || node.results().size() != 1) return false;
  SymInt elements = 0;
  for (const Value* part : parts) {
    if (!part->is_tensor()) return false;
    elements = elements + part->meta().numel();
  }
  return elements == node.result()->meta().numel();
}

// An image that others read as well lies in memory anyway: its mean reads it there, so that what makes it runs in
// order; unless what reads the mean reads the image, too, as a norm does, there are channels enough to share, and it
// was not joined of parts.
bool Grouper::stays_apart(const Node& node, const Value& operand) const {
  if (!is_reduction(node) || operand.users.size() < 2) return false;
  if (operand.meta().rank() >= 3 && operand.producer && joins_parts(*operand.producer)) return true;
  if (operand.meta().rank() <= 3) return false;
  constexpr int64_t few_channels = 64, large_image = 1 << 16;
  int64_t channels = 1;
  for (const SymInt& size : node.result()->meta().sizes) channels *= lowering_.typical(size);
  if (channels < few_channels && lowering_.typical(operand.meta().numel()) >= large_image) return true;
  const std::vector<Node*>& readers = node.result()->users;
  return std::none_of(readers.begin(), readers.end(), [&](const Node* reader) {
    const std::vector<Value*> read = reader->operands();
    return std::find(read.begin(), read.end(), &operand) != read.end();
  });
}

// A permuted weight is seen through by the kernel, which can then have it packed.
void Grouper::take_weight_views(Group& group) {
  for (Value* operand : group.nodes.front()->operands()) {
    Node* view = operand->producer;
    if (!view || !ir::sole_reader(*operand) || !is_view(lowering_, *view) || lowering_.group_of.count(view)) continue;
    if (view->operands()[0]->producer) continue;
    std::vector<Node*> tried = group.nodes;
    tried.insert(tried.begin(), view);
    std::vector<Value*> operands, results;
    find_boundary(tried, operands, results);
    if (kernels::objection(*group.kernel, make_body(tried, operands, results)).empty()) group.nodes = tried;
  }
}

// What only makes an operand longer, as heads of keys that several heads of queries see, or multiplies it by a number,
// is seen through by a kernel that can do so: nothing is written out.
void Grouper::take_repeats(Group& group) {
  constexpr size_t longest_chain = 5;  // a new axis, expanded, copied, joined, turned
  std::vector<Value*> reads, results;
  find_boundary(group.nodes, reads, results);
  for (const Value* operand : reads) {
    std::vector<Node*> tried = group.nodes;
    const Value* value = operand;
    while (value->is_tensor() && ir::sole_reader(*value) && value->producer &&
           tried.size() < group.nodes.size() + longest_chain) {
      Node* node = value->producer;
      if (node->operands().size() != 1 || lowering_.group_of.count(node) || segment_[node] != segment_[group.nodes[0]])
        break;
      tried.insert(tried.begin(), node);
      value = node->operands()[0];
      if (value->meta().numel() == operand->meta().numel() && is_view(lowering_, *node)) continue;
      std::vector<Value*> operands;
      find_boundary(tried, operands, results);
      if (!kernels::objection(*group.kernel, make_body(tried, operands, results)).empty()) continue;
      group.nodes = tried;
      break;
    }
  }
}

void Grouper::take_kernels() {
  for (Group& chain : lowering_.chains) {
    take_repeats(chain);
    add_group(std::move(chain));
  }
  lowering_.chains.clear();
  // From the last: what an anchor takes is not left to loops when the chains before it are judged.
  std::vector<Node*> nodes;
  for (Node& node : lowering_.graph().forward()) nodes.push_back(&node);
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    Node* node = *at;
    if (lowering_.group_of.count(node)) continue;
    if (stays(*node)) {
      add_group({.role = Role::node, .nodes = {node}});
      continue;
    }
    Group group{.role = Role::kernel, .nodes = {node}};
    std::vector<Value*> operands, results;
    find_boundary(group.nodes, operands, results);
    const ir::Graph body = make_body(group.nodes, operands, results);
    for (const kernels::Kernel* kernel : library_kernels()) {
      const std::string refusal =
          is_reduction(*node) ? "loops reduce on the way of what reads or makes it" : kernels::objection(*kernel, body);
      if (refusal.empty()) {
        group.kernel = kernel;
        break;
      }
      group.refusals.emplace_back(kernel->name(), refusal);
    }
    if (group.kernel) {
      group.nodes = epilogue(node, *group.kernel);
      take_weight_views(group);
      take_repeats(group);
    } else if (!lowering_.meanings.count(node)) {
      auto accesses = lowering_.accesses.find(node);
      group.refusals.emplace_back(
          "llvm", accesses == lowering_.accesses.end() ? "its meaning is C++" : accesses->second.refusal);
      group.kernel = kernels::find("reference");
    } else {
      continue;  // loops; the refusals are found again where they are reported
    }
    add_group(std::move(group));
  }
}

// --- Writes

// The scatter whose whole result `node` writes back to the window of its own base that the scatter started from, and
// the view that is that window.
std::optional<std::pair<Node*, Node*>> Grouper::written_back(const Node& node) const {
  const auto scatter_of = [&](const Node* writer) -> const opset::Meaning* {
    const auto found = writer ? lowering_.meanings.find(writer) : lowering_.meanings.end();
    return found != lowering_.meanings.end() && found->second.scatter ? &found->second : nullptr;
  };
  const opset::Meaning* outer = scatter_of(&node);
  if (!outer || outer->scatter->join) return std::nullopt;
  const opset::Scatter& scatter = *outer->scatter;
  const opset::Scalar& read = outer->scalars[scatter.value];
  if (read.op != opset::ScalarOp::read) return std::nullopt;
  const Value* written = outer->tensors[read.tensor];
  const std::vector<SymInt>& sizes = written->meta().sizes;
  if (!opset::runs_over(*outer, scatter, sizes) ||
      !opset::is_everywhere(*outer, read.operands, scatter.variables, sizes))
    return std::nullopt;
  const opset::Meaning* inner = scatter_of(written->producer);
  if (!inner) return std::nullopt;
  const Value* window = inner->tensors[inner->scatter->base];
  const Value* base = outer->tensors[scatter.base];
  Node* const view = window->producer;
  if (!view || !is_view(lowering_, *view) || view->operands()[0] != base) return std::nullopt;
  for (const Node* taken : {view, written->producer})
    if (lowering_.group_of.count(taken) || segment_.at(taken) != segment_.at(&node)) return std::nullopt;
  const std::optional<Access> shown = access_of({&lowering_.meanings.at(view)}, lowering_.facts);
  const std::optional<std::vector<SymInt>> place = written_place(*outer, lowering_.facts);
  if (!shown || !place || shown->index != *place) return std::nullopt;
  return std::pair(written->producer, view);
}

// What is written into a window of a tensor, and with it back into the tensor, is written there at once, as in
// x[0][:, i] = y.
void Grouper::join_writes() {
  if (!lowering_.options.fuse) return;
  std::vector<Node*> nodes;
  for (Node& node : lowering_.graph().forward()) nodes.push_back(&node);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (lowering_.group_of.count(*node)) continue;
    std::vector<Node*> writes = {*node};
    for (auto inner = written_back(**node); inner; inner = written_back(*inner->first))
      writes.insert(writes.end(), {inner->first, inner->second});
    // Nobody else may read what is in between.
    const auto is_inside = [&](const Node* taken) {
      const std::vector<Node*>& readers = taken->result()->users;
      return taken->result()->returned == 0 && std::ranges::all_of(readers, [&](Node* reader) {
               return std::ranges::find(writes, reader) != writes.end();
             });
    };
    while (!std::all_of(writes.begin() + 1, writes.end(), is_inside)) writes.resize(writes.size() - 2);
    if (writes.size() == 1) continue;
    std::sort(writes.begin(), writes.end(), [&](Node* a, Node* b) { return position_[a] < position_[b]; });
    add_group({.role = Role::loops, .nodes = std::move(writes)});
  }
}

// --- Loops

// Is there a path from one of `from`'s nodes to `to` (or `also`) by way of some other group?
bool Grouper::reaches(const Group& from, const Group& to, const Group& also, std::set<const Group*>& seen,
                      bool direct) const {
  for (const Node* node : from.nodes) {
    std::vector<const Node*> behind;
    for (const auto& result : node->results()) behind.insert(behind.end(), result->users.begin(), result->users.end());
    if (const auto draw = next_draw_.find(node); draw != next_draw_.end()) behind.push_back(draw->second);
    for (const Node* user : behind) {
      auto found = lowering_.group_of.find(user);
      const Group* next = found == lowering_.group_of.end() ? nullptr : found->second;
      if (!next || next == &from) continue;
      if (next == &to || next == &also) {
        if (!direct) return true;
        continue;
      }
      if (!seen.insert(next).second) continue;
      if (reaches(*next, to, also, seen, false)) return true;
    }
  }
  return false;
}

bool Grouper::would_close_circle(const Group& a, const Group& b) const {
  std::set<const Group*> seen;
  if (reaches(a, b, a, seen, true)) return true;
  seen.clear();
  return reaches(b, a, b, seen, true);
}

// May the node be computed in the loops of the group, as far as it reads what the group computes?
bool Grouper::can_join(const Node& node, const Group& group) const {
  auto accesses = lowering_.accesses.find(&node);
  if (accesses == lowering_.accesses.end()) return false;
  std::set<const Value*> read;
  for (const Access& access : accesses->second.reads)
    if (const Node* producer = access.tensor->producer)
      if (auto found = lowering_.group_of.find(producer); found != lowering_.group_of.end() && found->second == &group)
        read.insert(access.tensor);
  if (read.empty()) return true;
  auto own = shapes_.find(&node);
  auto theirs = group_shapes_.find(&group);
  auto edges = edges_.find(&node);
  if (own == shapes_.end() || theirs == group_shapes_.end() || edges == edges_.end()) return false;
  const Shape &shape = own->second, &loops = theirs->second;
  const bool over_all = shape.full == loops.full;
  const bool over_rows = loops.is_reduction && !shape.is_reduction && shape.full == rows_of(loops);
  if (!over_all && !over_rows) return false;
  if (shape.is_reduction && loops.is_reduction && shape.reduced != loops.reduced) return false;
  std::vector<int> kept;
  for (size_t axis = 0; axis < loops.full.size(); ++axis)
    if (!loops.reduced[axis]) kept.push_back(static_cast<int>(axis));
  // A value over all axes is read along all of them, one over rows along the rows.
  std::vector<int> all(shape.full.size());
  std::iota(all.begin(), all.end(), 0);
  return std::all_of(read.begin(), read.end(), [&](const Value* value) {
    auto edge =
        std::find_if(edges->second.begin(), edges->second.end(), [&](const Edge& e) { return e.operand == value; });
    if (edge == edges->second.end()) return false;
    const bool is_row_value = loops.is_reduction && edge->axes.size() < loops.full.size();
    return edge->axes == (over_all && is_row_value ? kept : all);
  });
}

void Grouper::join(Group& into, Group& from) {
  Shape& shape = group_shapes_[&into];
  const Shape other = group_shapes_[&from];
  if (other.full.size() > shape.full.size()) shape.full = other.full, shape.reduced.resize(shape.full.size());
  if (other.is_reduction) shape = other;
  for (Node* node : from.nodes) {
    into.nodes.push_back(node);
    lowering_.group_of[node] = &into;
  }
  std::sort(into.nodes.begin(), into.nodes.end(),
            [&](const Node* a, const Node* b) { return position_[a] < position_[b]; });
  group_shapes_.erase(&from);
  std::erase_if(lowering_.groups, [&](const auto& group) { return group.get() == &from; });
}

void Grouper::form_loops() {
  for (Node& node : lowering_.graph().forward()) {
    if (lowering_.group_of.count(&node)) continue;
    add_group({.role = Role::loops, .nodes = {&node}});
    Group* own = lowering_.groups.back().get();
    auto shape = shapes_.find(&node);
    if (shape == shapes_.end() || !lowering_.options.fuse) continue;
    group_shapes_[own] = shape->second;
    std::vector<Value*> operands = node.operands();
    // The widest operand first: its group's axes decide.
    std::stable_sort(operands.begin(), operands.end(), [](const Value* a, const Value* b) {
      return a->is_tensor() && b->is_tensor() && a->meta().rank() > b->meta().rank();
    });
    for (Value* operand : operands) {
      auto found = operand->producer ? lowering_.group_of.find(operand->producer) : lowering_.group_of.end();
      if (found == lowering_.group_of.end() || found->second == own) continue;
      Group& producer = *found->second;
      if (own->nodes.size() + producer.nodes.size() > most_nodes) continue;
      // The group so far must also agree as a whole.
      const bool agrees = own->nodes.size() == 1 ||
                          (group_shapes_.count(&producer) && group_shapes_[&producer].full == group_shapes_[own].full &&
                           (!group_shapes_[&producer].is_reduction || !group_shapes_[own].is_reduction ||
                            group_shapes_[&producer].reduced == group_shapes_[own].reduced));
      // So must all that has joined it before: a step of a loop may read another's result in two ways.
      const auto joins = [&](const Node* member) { return can_join(*member, producer); };
      if (producer.role != Role::loops || segment_.at(&node) != segment_.at(producer.nodes.front()) || !agrees ||
          stays_apart(node, *operand) || !std::all_of(own->nodes.begin(), own->nodes.end(), joins) ||
          would_close_circle(producer, *own))
        continue;
      join(producer, *own);
      own = &producer;
    }
  }
}

// Whether the view shows what comes from outside of the group several times, in the order in which that lies, and is
// read outside as well: written out for others to read, it would be as many times as large.
bool Grouper::is_shared_expansion(const Group& group, const Node& view) const {
  const auto is_outside = [&](const Node* other) { return !other || lowering_.group_of.at(other) != &group; };
  const std::vector<Node*>& readers = view.result()->users;
  const Value* shown = view.operands()[0];
  if (std::none_of(readers.begin(), readers.end(), is_outside) || !is_outside(shown->producer) ||
      lowering_.typical(view.result()->meta().numel()) <= lowering_.typical(shown->meta().numel()))
    return false;
  for (const Node* at = &view; at && is_view(lowering_, *at); at = at->operands()[0]->producer)
    if (auto edges = edges_.find(at); edges == edges_.end() || edges->second.empty()) return false;
  return true;
}

// Views whose group does not need them inside become groups of their own: nothing has to be computed for them.
void Grouper::release_views() {
  const auto is_released = [&](const Group& group, const Node& node) {
    if (!is_view(lowering_, node) && !reinterprets(lowering_, node)) return false;
    const bool is_last = std::none_of(node.result()->users.begin(), node.result()->users.end(),
                                      [&](const Node* user) { return lowering_.group_of.at(user) == &group; });
    return group.nodes.size() == 1 || is_last || is_shared_expansion(group, node);
  };
  for (size_t i = 0; i < lowering_.groups.size(); ++i) {
    Group& group = *lowering_.groups[i];
    while (group.role == Role::loops) {
      const auto found = std::ranges::find_if(group.nodes, [&](const Node* node) { return is_released(group, *node); });
      if (found == group.nodes.end()) break;
      if (group.nodes.size() == 1) {
        group.role = Role::alias;
        break;
      }
      Node* const view = *found;
      group.nodes.erase(found);
      add_group({.role = Role::alias, .nodes = {view}});
    }
  }
}

void Grouper::run() {
  segment_ = find_segments(lowering_.graph());
  next_draw_ = find_next_draws(lowering_.opset, lowering_.graph());
  for (Node& node : lowering_.graph().forward()) {
    position_.emplace(&node, position_.size());
    classify(node);
  }
  take_kernels();
  join_writes();
  form_loops();
  release_views();
}

}  // namespace

// Whether a scalar is the operand's element at the result's own index, and then at `part`, if there is one.
static bool reads_in_place(const opset::Meaning& meaning, opset::ScalarId id, std::optional<int64_t> part) {
  const opset::Scalar& read = meaning.scalars[id];
  const std::vector<int>& variables = meaning.results[0].variables;
  if (read.op != opset::ScalarOp::read || read.operands.size() > variables.size() + (part ? 1 : 0)) return false;
  for (size_t axis = 0; axis < read.operands.size(); ++axis) {
    const opset::Scalar& index = meaning.scalars[read.operands[axis]];
    const bool is_part = part && axis + 1 == read.operands.size();
    if (is_part ? index.op != opset::ScalarOp::constant || index.integer != *part
                : index.op != opset::ScalarOp::index || index.variable != variables[axis])
      return false;
  }
  return true;
}

bool reinterprets(const Lowering& lowering, const Node& node) {
  const auto found = lowering.meanings.find(&node);
  if (found == lowering.meanings.end()) return false;
  const opset::Meaning& meaning = found->second;
  if (meaning.tensors.size() != 1 || meaning.results.size() != 1 || meaning.results[0].value == opset::no_scalar)
    return false;
  const std::vector<opset::Scalar>& scalars = meaning.scalars;
  const opset::Scalar& value = scalars[meaning.results[0].value];
  if (value.op == opset::ScalarOp::complex)
    return meaning.tensors[0]->meta().rank() == node.result()->meta().rank() + 1 &&
           reads_in_place(meaning, value.operands[0], 0) && reads_in_place(meaning, value.operands[1], 1);
  if (value.op != opset::ScalarOp::select || meaning.tensors[0]->meta().rank() + 1 != node.result()->meta().rank())
    return false;
  const opset::Scalar &is_first = scalars[value.operands[0]], &first = scalars[value.operands[1]],
                      &second = scalars[value.operands[2]];
  if (is_first.op != opset::ScalarOp::eq || first.op != opset::ScalarOp::real || second.op != opset::ScalarOp::imag)
    return false;
  const opset::Scalar &part = scalars[is_first.operands[0]], &zero = scalars[is_first.operands[1]];
  return part.op == opset::ScalarOp::index && part.variable == meaning.results[0].variables.back() &&
         zero.op == opset::ScalarOp::constant && zero.integer == 0 && node.result()->meta().sizes.back() == SymInt(2) &&
         reads_in_place(meaning, first.operands[0], {}) && reads_in_place(meaning, second.operands[0], {});
}

void group_nodes(Lowering& lowering) { Grouper(lowering).run(); }

}  // namespace atenon::lower
