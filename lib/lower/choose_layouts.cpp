// Where values lie.
//
// A kernel may wish an order of axes (channels last), loops keep the order of what they read, and a value that only
// views read is written so that the last of them lies as its reader wishes, or in rows. A view is then an alias, if
// strides can say it.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "ir/readers.h"
#include "lower/lowering.h"

namespace atenon::lower {

namespace {

using ir::Value;
using Role = Group::Role;

constexpr int64_t far_smaller = 8;

// The axis along which neighbours lie; -1 where there is none. An empty order is rows.
int innermost(const std::vector<int>& order, const std::vector<SymInt>& sizes) {
  for (size_t i = sizes.size(); i-- > 0;)
    if (const int axis = order.empty() ? static_cast<int>(i) : order[i]; sizes[axis] != SymInt(1)) return axis;
  return -1;
}

class LayoutChoice {
 public:
  explicit LayoutChoice(Lowering& lowering) : lowering_(lowering) {}
  Result<void> run();

 private:
  std::optional<Access> read_through(const std::vector<ir::Node*>& views) const;
  std::optional<Layout> view_layout(const std::vector<ir::Node*>& views, std::optional<Layout> from = {}) const;
  std::optional<Layout> strided_layout(const std::vector<ir::Node*>& views, std::optional<Layout> from) const;
  std::optional<Layout> layout_of_parts(const ir::Node& node, const Layout& from) const;
  bool join_views(Group& group);
  void place_results(Group& group);
  bool ends_in_order_of_its_own(const Value& value, bool through_loops = false) const;
  bool is_read_in_rows(const Value& value) const;
  std::vector<int> wished_by_reader(const Value& value) const;
  std::vector<int> order_of(const Layout& layout, const std::vector<SymInt>& sizes) const;
  std::vector<SymInt> stored_sizes(const Value& value) const;
  std::vector<int> axes_of(const Group& group, const Value& result, const Value& operand) const;
  std::optional<std::vector<int>> order_as(const Group& group, const Value& result, const Value& operand,
                                           std::vector<int> operand_order = {}) const;
  std::optional<std::vector<int>> order_of_operands(const Group& group, const Value& result) const;
  bool turns(const Group& group) const;
  Layout dense(const std::vector<SymInt>& sizes, const std::vector<int>& order) const;
  bool is_overlapping(const Layout& layout, const std::vector<SymInt>& sizes) const;
  bool lies_joined(const Layout& layout, const std::vector<SymInt>& sizes, bool in_rows) const;
  bool is_readable(const Group& group, size_t operand) const;
  bool is_worth_turning(const Group& group, const Value& operand) const;
  std::vector<int> order_for_lookups(const Group& group, const Value& operand) const;
  void give_to_kernel(Group& group) const;
  Result<Value*> copy_before(Group& group, Value* value, const std::vector<int>& order);

  Lowering& lowering_;
  std::vector<std::unique_ptr<Group>> copies_;  // to stand before the group at hand
};

// What views of views read of the operand of the first.
std::optional<Access> LayoutChoice::read_through(const std::vector<ir::Node*>& views) const {
  std::vector<const opset::Meaning*> meanings;
  for (const ir::Node* view : views) meanings.push_back(&lowering_.meanings.at(view));
  return access_of(meanings, lowering_.facts);
}

// Where the parts of complex numbers lie, or complex numbers of the parts that lie so; nullopt where these are no
// neighbours.
std::optional<Layout> LayoutChoice::layout_of_parts(const ir::Node& node, const Layout& from) const {
  if (!(from.offset == SymInt(0))) return std::nullopt;  // which counts other elements
  Layout layout{{}, 0};
  if (is_complex(node.operands()[0]->meta().dtype)) {
    for (const SymInt& stride : from.strides) layout.strides.push_back(stride * SymInt(2));
    layout.strides.push_back(1);
  } else {
    if (!(from.strides.back() == SymInt(1))) return std::nullopt;
    for (size_t axis = 0; axis + 1 < from.strides.size(); ++axis) {
      if (!lowering_.facts.proves(shape::equal(shape::mod(from.strides[axis], 2), 0))) return std::nullopt;
      layout.strides.push_back(lowering_.facts.simplify(shape::floor_div(from.strides[axis], 2)));
    }
  }
  return layout;
}

// The strides at which a view of views of a strided operand lies (as `from`, where that is not chosen yet): the factors
// of its index variables in the operand's address; nullopt where strides do not say it.
std::optional<Layout> LayoutChoice::view_layout(const std::vector<ir::Node*>& views, std::optional<Layout> from) const {
  std::optional<Layout> layout = strided_layout(views, std::move(from));
  // Outputs lie in rows, so a view that is one is copied, by code that was made for it.
  const Value& result = *views.back()->result();
  if (layout && result.returned > 0 && layout->strides != row_major(result.meta().sizes).strides) return std::nullopt;
  return layout;
}

// The same, wherever the result goes.
std::optional<Layout> LayoutChoice::strided_layout(const std::vector<ir::Node*>& views,
                                                   std::optional<Layout> from) const {
  if (std::ranges::any_of(views, [&](const ir::Node* view) { return reinterprets(lowering_, *view); })) {
    if (views.size() > 1) return std::nullopt;  // an address of one is none of the other
    return layout_of_parts(*views[0], from ? *from : lowering_.layout(*views[0]->operands()[0]));
  }
  const std::optional<Access> access = read_through(views);
  if (!access) return std::nullopt;
  if (!from) from = lowering_.layout(*access->tensor);
  const std::vector<SymInt>& sizes = views.back()->result()->meta().sizes;
  SymInt address = address_of(*from, access->index);
  Layout layout{std::vector<SymInt>(sizes.size(), 1), address};
  for (size_t axis = sizes.size(); axis-- > 0;) {
    const std::string symbol = "$" + std::to_string(axis);
    std::optional<SymInt> stride = coefficient(address, symbol);
    if (!stride) return std::nullopt;
    layout.strides[axis] = *stride;
    layout.offset = shape::substitute(layout.offset, {{symbol, SymInt(0)}});
    // An axis of size 1 steps over what is inside it.
    if (sizes[axis] == SymInt(1))
      layout.strides[axis] = axis + 1 < sizes.size() ? layout.strides[axis + 1] * sizes[axis + 1] : SymInt(1);
  }
  // Everything but sizes must be gone: an index taken from data or a quotient has no stride.
  const auto is_of_sizes = [](const SymInt& part) {
    const std::set<std::string> symbols = part.symbols();
    return std::none_of(symbols.begin(), symbols.end(),
                        [](const std::string& symbol) { return loop_of(symbol) || value_of(symbol); });
  };
  if (!is_of_sizes(layout.offset) || !std::all_of(layout.strides.begin(), layout.strides.end(), is_of_sizes))
    return std::nullopt;
  for (const SymInt& stride : layout.strides)
    if (lowering_.facts.decide(shape::less_equal(0, stride)) != shape::Truth::proven) return std::nullopt;
  return layout;
}

// Lets the views that only read a view that strides do not say, and each other, be one with it where strides say that:
// attention that joins its heads with the batch takes them apart again.
bool LayoutChoice::join_views(Group& group) {
  std::vector<ir::Node*> views = group.nodes;
  std::vector<Group*> joined = {&group};
  for (;;) {
    const Value& value = *views.back()->result();
    const ir::Node* next = ir::sole_reader(value);
    if (!next) return false;
    Group& reader = *lowering_.group_of.at(next);
    if (reader.role != Role::alias) return false;
    views.insert(views.end(), reader.nodes.begin(), reader.nodes.end());
    if (view_layout(views)) {
      for (Group* part : joined) part->nodes.clear();
      for (const ir::Node* view : views) lowering_.group_of[view] = &reader;
      reader.nodes = std::move(views);
      find_boundary(reader.nodes, reader.operands, reader.results);
      return true;
    }
    joined.push_back(&reader);
  }
}

// Axes from the slowest to the fastest. Those of size 1 lie anywhere: the first one stays the first, others go with the
// axis behind them, so that both can be taken as one.
std::vector<int> LayoutChoice::order_of(const Layout& layout, const std::vector<SymInt>& sizes) const {
  std::vector<int> order;
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] != SymInt(1)) order.push_back(static_cast<int>(axis));
  std::ranges::stable_sort(order, std::greater(), [&](int axis) { return lowering_.typical(layout.strides[axis]); });
  for (int axis = static_cast<int>(sizes.size()); axis-- > 0;)
    if (sizes[axis] == SymInt(1)) order.insert(axis == 0 ? order.begin() : std::ranges::find(order, axis + 1), axis);
  return order;
}

// The sizes of what lies in memory: 1 where an axis repeats what is there.
std::vector<SymInt> LayoutChoice::stored_sizes(const Value& value) const {
  std::vector<SymInt> sizes = value.meta().sizes;
  const Layout layout = lowering_.layout(value);
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (layout.strides[axis] == SymInt(0)) sizes[axis] = 1;
  return sizes;
}

// For each axis of an operand, the axis of the result along which it is read, perhaps through permutations inside the
// group; -1: none. Empty where the operand is not read.
std::vector<int> LayoutChoice::axes_of(const Group& group, const Value& result, const Value& operand) const {
  std::map<const Value*, std::vector<int>> axes_along;
  axes_along[&result].resize(result.meta().sizes.size());
  std::iota(axes_along[&result].begin(), axes_along[&result].end(), 0);
  for (auto node = group.nodes.rbegin(); node != group.nodes.rend(); ++node) {
    auto reader = axes_along.find((*node)->result());
    auto accesses = lowering_.accesses.find(*node);
    if (reader == axes_along.end() || accesses == lowering_.accesses.end()) continue;
    const std::vector<int> outer = reader->second;
    for (const Access& access : accesses->second.reads) {
      std::vector<int> axes;
      for (const SymInt& index : access.index) {
        const std::set<std::string> symbols = index.is_constant() ? std::set<std::string>() : index.symbols();
        const std::optional<int> axis = symbols.size() == 1 ? loop_of(*symbols.begin()) : std::nullopt;
        axes.push_back(axis && *axis < static_cast<int>(outer.size()) ? outer[*axis] : -1);
      }
      std::vector<int>& known = axes_along[access.tensor];
      if (known.empty() || std::count(axes.begin(), axes.end(), -1) < std::count(known.begin(), known.end(), -1))
        known = axes;
    }
  }
  return axes_along[&operand];
}

// The order of the result's axes in which an operand lies (or would lie) that it reads; empty where that is rows,
// nullopt where it reads the operand in another way.
std::optional<std::vector<int>> LayoutChoice::order_as(const Group& group, const Value& result, const Value& operand,
                                                       std::vector<int> operand_order) const {
  if (operand_order.empty()) operand_order = order_of(lowering_.layout(operand), stored_sizes(operand));
  std::vector<int> axes = axes_of(group, result, operand);
  std::vector<int> order;
  const std::vector<SymInt>& sizes = result.meta().sizes;
  // What is read at computed places, as in resizing an image, follows the axis of its own number.
  for (size_t axis = 0; axis < axes.size() && axes.size() == sizes.size(); ++axis)
    if (axes[axis] < 0 && std::find(axes.begin(), axes.end(), static_cast<int>(axis)) == axes.end())
      axes[axis] = static_cast<int>(axis);
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (std::find(axes.begin(), axes.end(), static_cast<int>(axis)) == axes.end()) {
      if (sizes[axis] != SymInt(1)) return std::nullopt;
      order.push_back(static_cast<int>(axis));
    }
  for (int axis : operand_order)
    if (!axes.empty() && axes[axis] >= 0 && std::find(order.begin(), order.end(), axes[axis]) == order.end())
      order.push_back(axes[axis]);
  std::vector<int> long_axes = order;
  std::erase_if(long_axes, [&](int axis) { return sizes[axis] == SymInt(1); });
  if (order.size() != sizes.size()) return std::nullopt;
  return std::is_sorted(long_axes.begin(), long_axes.end()) ? std::vector<int>() : order;
}

Layout LayoutChoice::dense(const std::vector<SymInt>& sizes, const std::vector<int>& order) const {
  Layout layout{std::vector<SymInt>(sizes.size(), 1), 0};
  SymInt stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    layout.strides[order[i]] = stride;
    stride = stride * sizes[order[i]];
  }
  return layout;
}

// Whether all readers of a value, through views and perhaps loops, are kernels that wish an order other than rows.
bool LayoutChoice::ends_in_order_of_its_own(const Value& value, bool through_loops) const {
  std::vector<const Value*> open = {&value};
  std::set<const Value*> seen;
  while (!open.empty()) {
    const Value* last = open.back();
    open.pop_back();
    if (!seen.insert(last).second) continue;
    if (last->users.empty() || last->returned > 0) return false;
    for (const ir::Node* user : last->users) {
      const Group& reader = *lowering_.group_of.at(user);
      if (reader.role == Role::alias || (through_loops && reader.role == Role::loops)) {
        open.insert(open.end(), reader.results.begin(), reader.results.end());
      } else if (reader.role != Role::kernel ||
                 reader.kernel->preferred_order(make_body(reader.nodes, reader.operands, reader.results)).empty()) {
        return false;
      }
    }
  }
  return true;
}

// The order in which `value`, which only a view reads, must lie so that what views make of it lies as the kernels
// behind them wish, else in rows: from the axis along which that is the last to move on. Empty for no wish but rows.
std::vector<int> LayoutChoice::wished_by_reader(const Value& value) const {
  if (!ir::sole_reader(value)) return {};
  const bool kernels_wish = ends_in_order_of_its_own(value);
  const Value* last = &value;
  std::vector<ir::Node*> views;
  const auto reader = [&]() -> const Group& { return *lowering_.group_of.at(last->users[0]); };
  while ((kernels_wish || ir::sole_reader(*last)) && reader().role == Role::alias) {
    views.insert(views.end(), reader().nodes.begin(), reader().nodes.end());
    last = reader().results[0];
  }
  const std::vector<int> for_lookups = ir::sole_reader(*last) ? order_for_lookups(reader(), *last) : std::vector<int>();
  if (views.empty()) return for_lookups;
  const std::vector<SymInt>& sizes = last->meta().sizes;
  std::vector<int> wished(sizes.size());
  std::iota(wished.begin(), wished.end(), 0);
  if (!for_lookups.empty()) wished = for_lookups;
  if (kernels_wish)
    wished = reader().kernel->preferred_order(make_body(reader().nodes, reader().operands, reader().results));
  const std::optional<Access> access = read_through(views);
  if (wished.size() != sizes.size() || !access) return {};
  Layout steps;  // until an axis of the value moves on
  for (size_t axis = 0; axis < access->index.size(); ++axis) {
    int64_t elements = 1, first = 0;  // of the axes inside
    const SymInt& index = access->index[axis];
    for (size_t i = wished.size(); i-- > 0 && first == 0; elements *= lowering_.typical(sizes[wished[i]])) {
      if (index.is_constant() || !index.symbols().count("$" + std::to_string(wished[i]))) continue;
      shape::Bindings at = lowering_.hints;
      for (size_t other = 0; other < sizes.size(); ++other) at["$" + std::to_string(other)] = 0;
      const int64_t begin = typical(index, at);
      int64_t& place = at["$" + std::to_string(wished[i])];
      for (const int64_t size = lowering_.typical(sizes[wished[i]]); first == 0 && ++place < size;)
        if (typical(index, at) != begin) first = place * elements;
    }
    steps.strides.push_back(first == 0 ? elements : first);
  }
  std::vector<int> order = order_of(steps, value.meta().sizes);
  // Kernels that read any strides need no others as neighbours.
  const auto is_kernel = [&](const ir::Node* user) { return lowering_.group_of.at(user)->role == Role::kernel; };
  if (!kernels_wish && last->returned == 0 && std::ranges::all_of(last->users, is_kernel) && !is_read_in_rows(*last)) {
    const auto neighbours = std::ranges::find(order, innermost({}, value.meta().sizes));
    if (neighbours != order.end()) std::rotate(neighbours, neighbours + 1, order.end());
  }
  if (last->returned > 0 && !view_layout(views, dense(value.meta().sizes, order))) return {};
  return kernels_wish || !std::is_sorted(order.begin(), order.end()) ? order : std::vector<int>();
}

// Whether a kernel reads the value, and reads nothing but rows.
bool LayoutChoice::is_read_in_rows(const Value& value) const {
  return std::any_of(value.users.begin(), value.users.end(), [&](const ir::Node* user) {
    const Group& reader = *lowering_.group_of.at(user);
    if (reader.role != Role::kernel) return false;
    const auto operand = std::find(reader.operands.begin(), reader.operands.end(), &value);
    return operand != reader.operands.end() &&
           reader.kernel->reads_rows(make_body(reader.nodes, reader.operands, reader.results),
                                     static_cast<size_t>(operand - reader.operands.begin()));
  });
}

// The order in which loops write a result that nobody wishes otherwise: as the largest operand lies that says it, of
// those of the same rank, of a higher one, of which axes are reduced, or of as many elements. Empty for rows, nullopt
// where none says it, or it matters little.
std::optional<std::vector<int>> LayoutChoice::order_of_operands(const Group& group, const Value& result) const {
  const std::vector<SymInt>& sizes = result.meta().sizes;
  if (sizes.size() < 3) return std::nullopt;
  std::vector<const Value*> operands;
  for (const Value* operand : group.operands)
    if (operand->is_tensor() &&
        (operand->meta().sizes.size() >= sizes.size() || operand->meta().numel() == result.meta().numel()))
      operands.push_back(operand);
  std::ranges::stable_sort(operands, std::greater(), [&](const Value* operand) {
    return lowering_.typical(shape::product(stored_sizes(*operand)));
  });
  // What is far smaller is quickly written in any order, and may be read again and again.
  const auto is_far_smaller = [&](const Value& a, const Value& b) {
    return lowering_.typical(a.meta().numel()) * far_smaller <= lowering_.typical(b.meta().numel());
  };
  if (operands.empty() || is_far_smaller(result, *operands[0])) return std::nullopt;
  std::optional<std::vector<int>> order;
  for (const Value* operand : operands)
    if (!order) order = order_as(group, result, *operand);
  // If that is rows and nobody wishes them, as another one.
  for (const Value* operand : group.operands)
    if (order && order->empty() && operand->is_tensor() && !is_far_smaller(*operand, result) &&
        ends_in_order_of_its_own(result, true))
      order = order_as(group, result, *operand).value_or(std::vector<int>());
  return order;
}

// Whether loops may write along another axis than they read: a copy that turns does so by blocks, but a reduction and
// what writes several results follow what they read.
bool LayoutChoice::turns(const Group& group) const {
  return group.results.size() == 1 && std::ranges::none_of(group.nodes, [&](const ir::Node* node) {
           const auto accesses = lowering_.accesses.find(node);
           return accesses != lowering_.accesses.end() &&
                  accesses->second.loops.size() > node->result()->meta().sizes.size();
         });
}

void LayoutChoice::place_results(Group& group) {
  if (group.role == Role::kernel && group.kernel->needs_rows()) return;
  // What loops write at once lies alike: in rows, where a kernel would copy it otherwise.
  const bool rows_are_read =
      group.role == Role::loops && std::any_of(group.results.begin(), group.results.end(),
                                               [&](const Value* result) { return is_read_in_rows(*result); });
  for (Value* result : group.results) {
    const std::vector<SymInt>& sizes = result->meta().sizes;
    std::vector<int> order;
    const auto is_writable = [&] {
      return group.role != Role::kernel || order.empty() ||
             group.kernel->writes_along(static_cast<size_t>(order.back()), sizes.size());
    };
    if (group.role == Role::kernel) {
      const ir::Graph body = make_body(group.nodes, group.operands, group.results);
      order = group.kernel->preferred_order(body);
      const Value* first = group.operands.empty() ? nullptr : group.operands[0];
      if (first && group.kernel->keeps_order(body) && first->meta().sizes.size() == sizes.size()) {
        order = order_of(lowering_.layout(*first), first->meta().sizes);
        if (!is_writable()) order.clear();
      }
    }
    if (order.size() != sizes.size()) {
      order = wished_by_reader(*result);
      if (!is_writable()) continue;
    }
    if (group.role == Role::loops && !rows_are_read && (order.empty() || !turns(group))) {
      const std::optional<std::vector<int>> kept = order_of_operands(group, *result);
      if (kept && (order.empty() || innermost(order, sizes) != innermost(*kept, sizes))) order = *kept;
    }
    const bool is_reference = group.role == Role::kernel && std::string(group.kernel->name()) == "reference";
    if (result->returned > 0 || order.empty() || is_reference) continue;  // rows
    lowering_.layouts[result] = dense(sizes, order);
  }
}

// Whether two elements lie at one place, as those of sliding windows do.
bool LayoutChoice::is_overlapping(const Layout& layout, const std::vector<SymInt>& sizes) const {
  std::vector<int> order = order_of(layout, sizes);
  std::erase_if(order, [&](int axis) { return sizes[axis] == SymInt(1); });
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const SymInt inside = layout.strides[order[i + 1]] * sizes[order[i + 1]], &step = layout.strides[order[i]];
    if (lowering_.typical(inside) > lowering_.typical(step) &&
        lowering_.facts.decide(shape::less_equal(inside, step)) != shape::Truth::proven)
      return true;
  }
  return false;
}

// Whether all axes but the last lie as one, in their order where `in_rows`, else in the one in which they lie.
bool LayoutChoice::lies_joined(const Layout& layout, const std::vector<SymInt>& sizes, bool in_rows) const {
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (!in_rows) order = order_of(layout, sizes);
  std::erase_if(order,
                [&](int axis) { return axis + 1 == static_cast<int>(sizes.size()) || sizes[axis] == SymInt(1); });
  for (size_t i = 0; i + 1 < order.size(); ++i)
    if (layout.strides[order[i]] != layout.strides[order[i + 1]] * sizes[order[i + 1]]) return false;
  return true;
}

// Libraries read strides, but no overlapping ones, and want one axis to be dense, some of them the last.
bool LayoutChoice::is_readable(const Group& group, size_t operand) const {
  const Value& value = *group.operands[operand];
  const kernels::Kernel& kernel = *group.kernel;
  auto found = lowering_.layouts.find(&value);
  if (found == lowering_.layouts.end() || std::string(kernel.name()) == "reference") return true;
  const std::vector<SymInt>& sizes = value.meta().sizes;
  if (kernel.needs_rows()) return found->second.strides == row_major(sizes).strides;
  if (is_overlapping(found->second, sizes)) return false;
  bool is_dense = sizes.empty();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == SymInt(1)) continue;
    if (found->second.strides[axis] == SymInt(0)) return false;
    is_dense |= found->second.strides[axis] == SymInt(1);
  }
  const ir::Graph body = make_body(group.nodes, group.operands, group.results);
  if (!sizes.empty() && sizes.back() != SymInt(1) && found->second.strides.back() != SymInt(1) &&
      kernel.reads_rows(body, operand))
    return false;
  if (kernel.joins_rows(body, operand)) {
    const bool is_returned = std::any_of(group.results.begin(), group.results.end(),
                                         [](const Value* result) { return result->returned > 0; });
    if (!lies_joined(found->second, sizes, is_returned)) return false;
  }
  return is_dense || value.meta().numel() == SymInt(1);
}

// Whether loops make so much of an operand (windows of an image) that it pays to copy it into rows first: along the
// innermost axis of what they write, they would read it far apart.
bool LayoutChoice::is_worth_turning(const Group& group, const Value& operand) const {
  const std::vector<SymInt>& sizes = operand.meta().sizes;
  const int now = innermost(order_of(lowering_.layout(operand), sizes), sizes), in_rows = innermost({}, sizes);
  if (now == in_rows || group.results.size() != 1 || order_as(group, *group.results[0], operand) ||
      !wished_by_reader(*group.results[0]).empty())
    return false;
  return std::ranges::any_of(group.nodes, [&](const ir::Node* node) {
    const auto accesses = lowering_.accesses.find(node);
    const ir::TensorMeta& made = node->result()->meta();
    if (accesses == lowering_.accesses.end() ||
        lowering_.typical(operand.meta().numel()) * far_smaller > lowering_.typical(made.numel()))
      return false;
    const std::string along = "$" + std::to_string(innermost({}, made.sizes));
    return std::ranges::any_of(accesses->second.reads, [&](const Access& access) {
      const auto moves = [&](int axis) {
        return !access.index[axis].is_constant() && access.index[axis].symbols().contains(along);
      };
      return access.tensor == &operand && moves(in_rows) && !moves(now);
    });
  });
}

// The order in which loops wish an operand of which they look up each element's neighbourhood, such as the images of
// grid_sample: last an axis along which the places are the same, so that what lies there is read together, if they can
// write along it, or write one number. Empty for no wish.
std::vector<int> LayoutChoice::order_for_lookups(const Group& group, const Value& operand) const {
  constexpr int64_t least_neighbours = 8;
  constexpr int least_reads = 4;
  if (group.role != Role::loops || group.results.size() != 1) return {};
  const Value& result = *group.results[0];
  const std::vector<SymInt>& sizes = operand.meta().sizes;
  for (const ir::Node* node : group.nodes) {
    const auto accesses = lowering_.accesses.find(node);
    if (accesses == lowering_.accesses.end()) continue;
    int reads = 0, neighbours = -1;
    for (const Access& access : accesses->second.reads) {
      if (access.tensor != &operand || access.looked_up == 0) continue;
      ++reads;
      for (size_t axis = 0; axis < access.index.size(); ++axis) {
        const std::set<std::string> symbols = access.index[axis].symbols();
        const std::optional<int> loop = symbols.size() == 1 ? loop_of(*symbols.begin()) : std::nullopt;
        if (loop && !(access.looked_up & bit(*loop)) && lowering_.typical(sizes[axis]) >= least_neighbours)
          neighbours = static_cast<int>(axis);
      }
    }
    if (reads < least_reads || neighbours < 0 ||
        lowering_.typical(node->result()->meta().numel()) < lowering_.typical(operand.meta().numel()))
      continue;
    if (result.returned > 0 || is_read_in_rows(result)) return {};
    std::vector<int> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + neighbours, order.begin() + neighbours + 1, order.end());
    const std::vector<int> wished = wished_by_reader(result), axes = axes_of(group, result, operand);
    const std::vector<int> written = wished.empty() ? order_as(group, result, operand, order).value_or(wished) : wished;
    if (!axes.empty() && axes[neighbours] == innermost(written, result.meta().sizes)) return order;
  }
  return {};
}

// Loops over a single node are left to a kernel that wishes the order in which the operand happens to lie: the mean of
// an image that lies channels last.
void LayoutChoice::give_to_kernel(Group& group) const {
  if (group.nodes.size() != 1 || group.operands.size() != 1 || group.results.size() != 1) return;
  const Value& operand = *group.operands[0];
  if (!operand.is_tensor() || lowering_.layout(operand) == row_major(operand.meta().sizes)) return;
  const ir::Graph body = make_body(group.nodes, group.operands, group.results);
  for (const kernels::Kernel* kernel : library_kernels()) {
    const std::vector<int> wished =
        kernels::objection(*kernel, body).empty() ? kernel->preferred_order(body) : std::vector<int>();
    if (wished.empty() || lowering_.layout(operand) != dense(operand.meta().sizes, wished)) continue;
    group.role = Role::kernel;
    group.kernel = kernel;
    return;
  }
}

// A copy in this order that `group` reads instead of `value`.
Result<Value*> LayoutChoice::copy_before(Group& group, Value* value, const std::vector<int>& order) {
  ir::Node* first = group.nodes.front();
  Result<ir::Node*> copy = opset::append(lowering_.opset, lowering_.graph(), "aten::clone", {value}, {},
                                         lowering_.facts, first->provenance, first);
  if (!copy) return copy.error();
  Result<opset::Meaning> meaning = loops_of(lowering_.opset, **copy, lowering_.facts);
  if (!meaning) return meaning.error();
  lowering_.accesses[*copy] = accesses_of(*meaning, lowering_.facts);
  lowering_.meanings[*copy] = std::move(*meaning);
  for (ir::Node* node : group.nodes) {
    node->replace_operand(value, (*copy)->result());
    if (const auto accesses = lowering_.accesses.find(node); accesses != lowering_.accesses.end())
      for (Access& access : accesses->second.reads)
        if (access.tensor == value) access.tensor = (*copy)->result();
  }
  find_boundary(group.nodes, group.operands, group.results);
  auto added = std::make_unique<Group>();
  added->nodes = {*copy};
  find_boundary(added->nodes, added->operands, added->results);
  lowering_.group_of[*copy] = added.get();
  copies_.push_back(std::move(added));
  if (!order.empty()) lowering_.layouts[(*copy)->result()] = dense(value->meta().sizes, order);
  return (*copy)->result();
}

Result<void> LayoutChoice::run() {
  lowering_.layouts.clear();
  std::vector<std::unique_ptr<Group>> placed;
  for (auto& group : lowering_.groups) {
    if (group->nodes.empty()) continue;  // joined with a later view
    if (group->role == Role::alias) {
      if (std::optional<Layout> layout = view_layout(group->nodes)) {
        lowering_.layouts[group->results[0]] = *layout;
      } else if (join_views(*group)) {
        continue;
      } else {
        group->role = Role::loops;
      }
    }
    if (group->role == Role::loops) give_to_kernel(*group);
    if (group->role == Role::kernel || group->role == Role::loops) {
      const std::vector<Value*> operands = group->operands;
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i]->is_tensor()) continue;
        const std::vector<SymInt>& sizes = operands[i]->meta().sizes;
        const std::vector<int> order = order_for_lookups(*group, *operands[i]);
        const bool lies_well = !order.empty()
                                   ? innermost(order_of(lowering_.layout(*operands[i]), sizes), sizes) == order.back()
                               : group->role == Role::kernel ? is_readable(*group, i)
                                                             : !is_worth_turning(*group, *operands[i]);
        if (lies_well) continue;
        if (Result<Value*> copy = copy_before(*group, operands[i], order); !copy) return copy.error();
      }
    }
    if (group->role != Role::alias && group->role != Role::node) place_results(*group);
    for (auto& copy : copies_) placed.push_back(std::move(copy));
    copies_.clear();
    placed.push_back(std::move(group));
  }
  lowering_.groups = std::move(placed);
  // What lies in rows needs no mention.
  std::erase_if(lowering_.layouts,
                [](const auto& entry) { return entry.second == row_major(entry.first->meta().sizes); });
  return {};
}

}  // namespace

Result<void> choose_layouts(Lowering& lowering) { return LayoutChoice(lowering).run(); }

}  // namespace atenon::lower
