// What integer tensors are made of, where that is sizes and constants alone: `torch.as_tensor([x.shape[2:], ...])`,
// its rows, products and running sums. A number that Python asks for is then an expression of sizes, and not a symbol
// that only the run knows.
//
// An element is looked at where it is asked for, by its index: the loops that a node means are evaluated over symbolic
// integers, back to the sizes; composite operators by what they decompose into. Nothing is found where data, floats, a
// choice that sizes leave open, or more than a few elements to be joined are on the way.
#include <algorithm>

#include "capture/session.h"
#include "capture/symbols.h"

namespace atenon::capture {
namespace {

using opset::ScalarId;
using opset::ScalarOp;

using Number = std::variant<SymInt, SymBool>;  // of an integer and of a bool tensor
using Index = std::vector<SymInt>;             // one an axis

constexpr int most_elements = 64;  // of a list of sizes, as a loop walks it
constexpr int deepest = 256;       // results that one is computed from, one after the other

// Where in the loops of a meaning a scalar is looked at.
struct Place {
  const opset::Meaning& meaning;
  std::map<int, SymInt> variables = {};
  std::map<ScalarId, Number> joined = {};  // what a monoid's placeholders stand for
};

}  // namespace

class NumbersOfSizes {
 public:
  explicit NumbersOfSizes(Session& session) : session_(session) {}

  std::optional<Number> element(ir::Value* tensor, const Index& index) {
    if (const auto known = known_.find({tensor, index}); known != known_.end()) return known->second;
    if (depth_ == deepest) {
      is_cut_off_ = true;
      return std::nullopt;
    }
    if (depth_ == 0) is_cut_off_ = false;
    ++depth_;
    const std::optional<Number> number = computed(tensor, index);
    --depth_;
    if (!number && is_cut_off_) return std::nullopt;  // who asks from nearer may find it
    return known_[{tensor, index}] = number && fits(*number, tensor->meta().dtype) ? number : std::nullopt;
  }

 private:
  // How a node's results come about: by loops, or as values of an expansion. Neither where there is more to it.
  struct Made {
    std::optional<opset::Meaning> meaning = std::nullopt;
    ir::Graph expansion = {};
    std::vector<ir::Value*> results = {};
  };

  const Made& made_by(const ir::Node& node) {
    const auto [found, is_new] = made_.try_emplace(&node);
    Made& made = found->second;
    const auto is_number = [](const ir::Value* value) { return !value->is_tensor(); };  // that a node yields
    if (!is_new || std::ranges::any_of(node.operands(), is_number)) return made;
    const Result<opset::Call> call = opset::bind(session_.opset, node);
    if (!call) return made;
    const Result<opset::MeaningKind> kind = opset::meaning_kind(session_.opset, *call, session_.facts);
    if (kind && *kind == opset::MeaningKind::decomposition) expand(*call, made);
    if (!kind || *kind != opset::MeaningKind::loops) return made;
    if (Result<opset::Meaning> meaning = opset::meaning(session_.opset, *call, session_.facts))
      made.meaning = std::move(*meaning);
    return made;
  }

  // In a graph of its own, so that the one that is recorded does not see who reads its values.
  void expand(opset::Call call, Made& made) {
    call.arguments = ir::map_values(call.arguments, [&](ir::Value* value) {
      ir::Value* input = made.expansion.add_input(made.expansion.unique_name("argument"), value->type);
      stands_for_[input] = value;
      return Argument(input);
    });
    Result<opset::Expansion> expansion =
        opset::expand(session_.opset, call, session_.facts, made.expansion, nullptr, 0);
    if (expansion && expansion->assumptions.empty() && expansion->unbacked.empty())
      made.results = std::move(expansion->results);
  }

  std::optional<Number> computed(ir::Value* tensor, const Index& index) {
    if (!tensor->is_tensor() || !(is_integral(tensor->meta().dtype) || tensor->meta().dtype == ScalarType::boolean))
      return std::nullopt;
    if (!tensor->producer) return of_input(tensor, index);
    const Made& made = made_by(*tensor->producer);
    const auto at = static_cast<size_t>(tensor->index);
    if (at < made.results.size() && made.results[at]) return element(made.results[at], index);
    if (!made.meaning || at >= made.meaning->results.size()) return std::nullopt;
    Place place{.meaning = *made.meaning};
    if (place.meaning.scatter) return of_scatter(*place.meaning.scatter, place, index);
    const opset::LoopNest& nest = place.meaning.results[at];
    for (size_t axis = 0; axis < index.size(); ++axis) place.variables[nest.variables[axis]] = index[axis];
    return scalar(nest.value, place);
  }

  // An argument of an expansion, what a branch captured, or numbers that forward writes down.
  std::optional<Number> of_input(ir::Value* input, const Index& index) {
    const auto outer = stands_for_.find(input);
    ir::Value* outside = outer == stands_for_.end() ? session_.captured_by(input) : outer->second;
    if (outside) return element(outside, index);
    if (!session_.literal_inputs.contains(input)) return std::nullopt;
    const std::optional<reference::Datum> known = session_.known_value(input);
    const Tensor* tensor = known ? std::get_if<Tensor>(&*known) : nullptr;
    int64_t position = 0;
    for (size_t axis = 0; tensor && axis < index.size(); ++axis) {
      const std::optional<int64_t> at = index[axis].constant();
      if (!at || *at < 0 || *at >= tensor->sizes[axis]) return std::nullopt;
      position = position * tensor->sizes[axis] + *at;
    }
    if (!tensor) return std::nullopt;
    const int64_t number = tensor->int_at(position);
    return tensor->dtype == ScalarType::boolean ? Number(SymBool(number != 0)) : Number(SymInt(number));
  }

  // The last that was written there, or what was there before.
  std::optional<Number> of_scatter(const opset::Scatter& scatter, Place& place, const Index& index) {
    if (scatter.join) return std::nullopt;
    ir::Value* base = place.meaning.tensors[static_cast<size_t>(scatter.base)];
    bool is_overwritten = false;
    std::optional<Number> written;
    const bool is_told = for_each(scatter.variables, scatter.extents, place, [&] {
      const std::optional<Index> at = integers(scatter.at, place);
      if (!at || !is_inside(*at, base->meta())) return false;
      SymBool is_there(true);
      for (size_t axis = 0; axis < index.size(); ++axis)
        is_there = shape::both(is_there, shape::equal((*at)[axis], index[axis]));
      const std::optional<bool> hit = decided(is_there);
      if (hit == true) {
        is_overwritten = true;
        written = scalar(scatter.value, place);
      }
      return hit.has_value();
    });
    if (!is_told) return std::nullopt;
    return is_overwritten ? written : element(base, index);
  }

  std::optional<Number> of_reduction(const opset::Reduction& reduction, size_t component, const Place& outer) {
    Place place = outer;
    std::optional<SymInt> count;  // of a prefix
    if (reduction.prefix) {
      const opset::LoopNest& nest = place.meaning.results[0];
      count = place.variables.at(nest.variables[static_cast<size_t>(reduction.prefix_axis)]) + 1;
    }
    std::vector<Number> joined;
    const auto all = [&](const std::vector<ScalarId>& ids) -> std::optional<std::vector<Number>> {
      std::vector<Number> numbers;
      for (const ScalarId id : ids) {
        const std::optional<Number> number = scalar(id, place);
        if (!number) return std::nullopt;
        numbers.push_back(*number);
      }
      return numbers;
    };
    const bool is_told = for_each(
        reduction.variables, reduction.extents, place,
        [&] {
          if (reduction.guard != opset::no_scalar) {
            const std::optional<bool> counts = decided(reduction.guard, place);
            if (counts != true) return counts.has_value();
          }
          std::optional<std::vector<Number>> next = all(reduction.element);
          if (next && !joined.empty()) {
            for (size_t c = 0; c < joined.size(); ++c) {
              place.joined.insert_or_assign(reduction.monoid.left[c], joined[c]);
              place.joined.insert_or_assign(reduction.monoid.right[c], (*next)[c]);
            }
            next = all(reduction.monoid.joined);
          }
          if (next) joined = std::move(*next);
          return next.has_value();
        },
        count);
    if (!is_told) return std::nullopt;
    return joined.empty() ? scalar(reduction.monoid.identity[component], place) : std::optional(joined[component]);
  }

  // Calls `visit` for what loops over few elements reach, until it returns false. False, too, where they are many.
  // `last` is the extent of the innermost, if that is not the one in `extents`.
  bool for_each(const std::vector<int>& variables, const std::vector<ScalarId>& extents, Place& place,
                const std::function<bool()>& visit, const std::optional<SymInt>& last = std::nullopt) {
    int visited = 0;
    const std::function<bool(size_t)> walk = [&](size_t axis) {
      if (axis == variables.size()) return ++visited <= most_elements && visit();
      const std::optional<SymInt> extent = last && axis + 1 == variables.size() ? last : integer(extents[axis], place);
      const std::optional<int64_t> count = extent ? session_.facts.value_of(*extent) : std::nullopt;
      if (!count || *count > most_elements) return false;
      for (int64_t i = 0; i < *count; ++i) {
        place.variables.insert_or_assign(variables[axis], i);
        if (!walk(axis + 1)) return false;
      }
      return true;
    };
    return walk(0);
  }

  std::optional<SymInt> integer(ScalarId id, Place& place) {
    const std::optional<Number> number = scalar(id, place);
    const SymInt* integer = number ? std::get_if<SymInt>(&*number) : nullptr;
    return integer ? std::optional(*integer) : std::nullopt;
  }

  std::optional<std::vector<SymInt>> integers(const std::vector<ScalarId>& ids, Place& place) {
    std::vector<SymInt> found;
    for (const ScalarId id : ids) {
      const std::optional<SymInt> number = integer(id, place);
      if (!number) return std::nullopt;
      found.push_back(number->is_constant() ? *number : session_.facts.simplify(*number));
    }
    return found;
  }

  std::optional<SymBool> truth(ScalarId id, Place& place) {
    const std::optional<Number> number = scalar(id, place);
    const SymBool* truth = number ? std::get_if<SymBool>(&*number) : nullptr;
    return truth ? std::optional(*truth) : std::nullopt;
  }

  // Whether a tensor is known to have that element: a run refuses an index beyond it.
  bool is_inside(const Index& index, const ir::TensorMeta& tensor) const {
    for (size_t axis = 0; axis < index.size(); ++axis)
      if (decided(shape::both(shape::less_equal(0, index[axis]), shape::less(index[axis], tensor.sizes[axis]))) != true)
        return false;
    return true;
  }

  std::optional<bool> decided(const SymBool& truth) const {
    const shape::Truth known = session_.facts.decide(truth);
    return known == shape::Truth::open ? std::nullopt : std::optional(known == shape::Truth::proven);
  }
  std::optional<bool> decided(ScalarId id, Place& place) {
    const std::optional<SymBool> known = truth(id, place);
    return known ? decided(*known) : std::nullopt;
  }

  std::optional<Number> scalar(ScalarId id, Place& place) {
    if (const auto joined = place.joined.find(id); joined != place.joined.end()) return joined->second;
    const opset::Scalar& scalar = place.meaning.scalars[static_cast<size_t>(id)];
    const std::optional<Number> number =
        scalar.dtype == ScalarType::boolean ? boolean(scalar, place) : whole(scalar, place);
    return number && fits(*number, scalar.dtype) ? number : std::nullopt;
  }

  // What both kinds of scalars may be.
  std::optional<Number> read(const opset::Scalar& scalar, Place& place) {
    const std::vector<ScalarId>& operands = scalar.operands;
    switch (scalar.op) {
      case ScalarOp::read: {
        ir::Value* tensor = place.meaning.tensors[static_cast<size_t>(scalar.tensor)];
        const std::optional<Index> index = integers(operands, place);
        return index && is_inside(*index, tensor->meta()) ? element(tensor, *index) : std::nullopt;
      }
      case ScalarOp::reduce:
        return of_reduction(place.meaning.reductions[static_cast<size_t>(scalar.reduction)],
                            static_cast<size_t>(scalar.component), place);
      case ScalarOp::select: {
        const std::optional<bool> condition = decided(operands[0], place);
        return condition ? this->scalar(operands[*condition ? 1 : 2], place) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  std::optional<Number> whole(const opset::Scalar& scalar, Place& place) {
    if (!is_integral(scalar.dtype)) return std::nullopt;
    const std::vector<ScalarId>& operands = scalar.operands;
    switch (scalar.op) {
      case ScalarOp::constant:
        return scalar.is_placeholder() ? std::nullopt : std::optional<Number>(SymInt(scalar.integer));
      case ScalarOp::size:
        return scalar.size;
      case ScalarOp::index:
        return place.variables.at(scalar.variable);
      case ScalarOp::read:
      case ScalarOp::reduce:
      case ScalarOp::select:
        return read(scalar, place);
      case ScalarOp::cast: {
        if (place.meaning.scalars[static_cast<size_t>(operands[0])].dtype != ScalarType::boolean)
          return integer(operands[0], place);
        const std::optional<bool> truth = decided(operands[0], place);
        return truth ? std::optional<Number>(SymInt(*truth ? 1 : 0)) : std::nullopt;
      }
      default:
        break;
    }
    const std::optional<std::vector<SymInt>> x = integers(operands, place);
    if (!x || x->empty()) return std::nullopt;
    const SymInt &a = x->front(), &b = x->back();
    switch (scalar.op) {
      case ScalarOp::neg:
        return -a;
      case ScalarOp::abs:
        return session_.facts.simplify(shape::max(a, -a));
      case ScalarOp::add:
        return a + b;
      case ScalarOp::sub:
        return a - b;
      case ScalarOp::mul:
        return a * b;
      case ScalarOp::trunc_div:
        if (session_.facts.bounds(a).lower < 0 || session_.facts.bounds(b).lower < 0) return std::nullopt;
        [[fallthrough]];
      case ScalarOp::floor_div:
        return shape::floor_div(a, b);
      case ScalarOp::mod:
        return shape::mod(a, b);
      case ScalarOp::minimum:
        return session_.facts.simplify(shape::min(a, b));
      case ScalarOp::maximum:
        return session_.facts.simplify(shape::max(a, b));
      default:
        return std::nullopt;
    }
  }

  std::optional<Number> boolean(const opset::Scalar& scalar, Place& place) {
    const std::vector<ScalarId>& operands = scalar.operands;
    const auto is_truth = [&](ScalarId id) {
      return place.meaning.scalars[static_cast<size_t>(id)].dtype == ScalarType::boolean;
    };
    const auto joined = [&](SymBool (*join)(const SymBool&, const SymBool&)) -> std::optional<Number> {
      const std::optional<SymBool> a = truth(operands[0], place), b = a ? truth(operands[1], place) : a;
      return b ? std::optional<Number>(join(*a, *b)) : std::nullopt;
    };
    const auto compared = [&](SymBool (*compare)(const SymInt&, const SymInt&)) -> std::optional<Number> {
      const std::optional<SymInt> a = integer(operands[0], place), b = a ? integer(operands[1], place) : a;
      return b ? std::optional<Number>(compare(*a, *b)) : std::nullopt;
    };
    switch (scalar.op) {
      case ScalarOp::constant:
        return scalar.is_placeholder() ? std::nullopt : std::optional<Number>(SymBool(scalar.integer != 0));
      case ScalarOp::read:
      case ScalarOp::reduce:
      case ScalarOp::select:
        return read(scalar, place);
      case ScalarOp::cast: {
        if (is_truth(operands[0])) return this->scalar(operands[0], place);
        const std::optional<SymInt> number = integer(operands[0], place);
        return number ? std::optional<Number>(shape::not_equal(*number, 0)) : std::nullopt;
      }
      case ScalarOp::eq:
        return compared(shape::equal);
      case ScalarOp::ne:
        return compared(shape::not_equal);
      case ScalarOp::lt:
        return compared(shape::less);
      case ScalarOp::le:
        return compared(shape::less_equal);
      case ScalarOp::logical_and:
      case ScalarOp::bit_and:
        return joined(shape::both);
      case ScalarOp::logical_or:
      case ScalarOp::bit_or:
        return joined(shape::either);
      case ScalarOp::logical_not:
      case ScalarOp::bit_not: {
        const std::optional<SymBool> known = truth(operands[0], place);
        return known ? std::optional<Number>(shape::negate(*known)) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  // A narrow integer that might wrap is another number than the sizes make.
  bool fits(const Number& number, ScalarType dtype) const {
    const SymInt* integer = std::get_if<SymInt>(&number);
    if (!integer) return true;
    if (shape::is_overflow(*integer)) return false;
    if (dtype == ScalarType::i64) return true;
    const shape::Range may_be = session_.facts.bounds(*integer), holds = range_of(dtype);
    return holds.contains(may_be.lower) && holds.contains(may_be.upper);
  }

  Session& session_;
  std::map<std::pair<const ir::Value*, Index>, std::optional<Number>> known_;
  std::map<const ir::Node*, Made> made_;               // of expansions, too
  std::map<const ir::Value*, ir::Value*> stands_for_;  // inputs of expansions, of the call's arguments
  int depth_ = 0;                                      // of elements that wait for others
  bool is_cut_off_ = false;                            // one of them lay too deep
};

Ref Session::number_of_sizes(ir::Value* tensor) {
  if (!tensor->is_tensor() || facts.value_of(tensor->meta().numel()) != 1) return {};
  // What is found inside of a subgraph may hold there only.
  const bool is_outermost = scopes.empty();
  const auto known = is_outermost && numbers_of_sizes ? numbers_of_sizes : std::make_shared<NumbersOfSizes>(*this);
  if (is_outermost) numbers_of_sizes = known;
  const std::optional<Number> number = known->element(tensor, Index(tensor->meta().sizes.size(), 0));
  if (!number) return {};
  // A number that goes in stays data, which may take every case of a slice, not just the example's.
  const auto is_size = [&](const std::string& name) {
    const auto symbol = std::ranges::find(symbols, name, &ir::Symbol::name);
    return symbol != symbols.end() && symbol->range.lower >= 0 && !symbol->source.empty();
  };
  if (!std::ranges::all_of(std::visit([](const auto& x) { return x.symbols(); }, *number), is_size)) return {};
  const SymInt* integer = std::get_if<SymInt>(&*number);
  return integer ? wrap(facts.simplify(*integer)) : truth(std::get<SymBool>(*number));
}

}  // namespace atenon::capture
