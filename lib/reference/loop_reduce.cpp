// Reductions: elements join their lane's partial result one after the other, in row-major order of the reduction's
// variables.
#include <algorithm>

#include "opset/scalar_values.h"
#include "reference/loop_program.h"

namespace atenon::reference {

using opset::add_wrapping;
using opset::maximum;
using opset::minimum;
using opset::multiply_wrapping;

namespace {

template <class T>
bool is_nan(T x) {
  return x != x;
}

// Is the new element ahead of the best one? NaN beats everything, and of equals the earlier position wins, but of NaN
// in a window the later one.
template <class T>
bool beats(T element, T best, MonoidKind kind, int64_t position, int64_t best_position) {
  if (is_nan(element) && is_nan(best))
    return kind == MonoidKind::windowmax ? position > best_position : position < best_position;
  if (is_nan(element) || is_nan(best)) return is_nan(element);
  if (element == best) return position < best_position;
  return kind == MonoidKind::argmin ? element < best : element > best;
}

}  // namespace

// Adds the element in lane `from` to the accumulator in lane `into`.
void Frame::join_lane(const ReductionPlan& plan, int into, int from) {
  const bool floating = plan.floating[0];
  switch (plan.kind) {
    case MonoidKind::sum:
      if (floating)
        doubles(plan.accumulator[0])[into] += doubles(plan.element[0])[from];
      else
        integers(plan.accumulator[0])[into] =
            add_wrapping(integers(plan.accumulator[0])[into], integers(plan.element[0])[from]);
      break;
    case MonoidKind::product:
      if (floating)
        doubles(plan.accumulator[0])[into] *= doubles(plan.element[0])[from];
      else
        integers(plan.accumulator[0])[into] =
            multiply_wrapping(integers(plan.accumulator[0])[into], integers(plan.element[0])[from]);
      break;
    case MonoidKind::maximum:
    case MonoidKind::minimum: {
      const bool largest = plan.kind == MonoidKind::maximum;
      if (floating) {
        double& best = doubles(plan.accumulator[0])[into];
        const double element = doubles(plan.element[0])[from];
        best = largest ? maximum(best, element) : minimum(best, element);
      } else {
        int64_t& best = integers(plan.accumulator[0])[into];
        const int64_t element = integers(plan.element[0])[from];
        best = largest ? std::max(best, element) : std::min(best, element);
      }
      break;
    }
    case MonoidKind::any:
      integers(plan.accumulator[0])[into] |= integers(plan.element[0])[from] != 0;
      break;
    case MonoidKind::all:
      integers(plan.accumulator[0])[into] &= integers(plan.element[0])[from] != 0;
      break;
    case MonoidKind::argmax:
    case MonoidKind::argmin:
    case MonoidKind::windowmax: {
      int64_t& place = integers(plan.accumulator[1])[into];
      const int64_t position = integers(plan.element[1])[from];
      const auto replace = [&](auto* best, const auto* element) {
        if (!beats(element[from], best[into], plan.kind, position, place)) return;
        best[into] = element[from];
        place = position;
      };
      if (floating)
        replace(doubles(plan.accumulator[0]), doubles(plan.element[0]));
      else
        replace(integers(plan.accumulator[0]), integers(plan.element[0]));
      break;
    }
    case MonoidKind::custom:
      for (size_t c = 0; c < plan.joined.size(); ++c) {
        if (plan.floating[c])
          doubles(plan.accumulator[c])[into] = doubles(plan.joined[c])[from];
        else
          integers(plan.accumulator[c])[into] = integers(plan.joined[c])[from];
      }
      break;
  }
}

void Frame::join(const ReductionPlan& plan, const uint8_t* active, int n) {
  const int64_t* guard = plan.guard == no_register ? nullptr : integers(plan.guard);
  if (plan.kind == MonoidKind::custom) execute(program_.scopes[static_cast<size_t>(plan.join_scope)].steps, n);
  if (!active && !guard && plan.kind == MonoidKind::sum &&
      plan.floating[0]) {  // products of matrices spend their time here
    ops_.add_to(doubles(plan.accumulator[0]), doubles(plan.element[0]), n);
  } else if (!active && !guard && plan.floating[0] &&
             (plan.kind == MonoidKind::maximum || plan.kind == MonoidKind::minimum)) {
    (plan.kind == MonoidKind::maximum ? ops_.raise_to : ops_.lower_to)(doubles(plan.accumulator[0]),
                                                                       doubles(plan.element[0]), n);
  } else if (plan.kind == MonoidKind::sum && plan.floating[0]) {
    double* total = doubles(plan.accumulator[0]);
    const double* element = doubles(plan.element[0]);
    for (int i = 0; i < n; ++i)
      if ((!active || active[i]) && (!guard || guard[i])) total[i] += element[i];
  } else {
    for (int i = 0; i < n; ++i)
      if ((!active || active[i]) && (!guard || guard[i])) join_lane(plan, i, i);
  }
  int64_t* bad = faults(plan.accumulator[0]);
  if (!bad) return;
  const int64_t* bad_guard = plan.guard == no_register ? nullptr : faults(plan.guard);
  for (const Register element : plan.element) {
    const int64_t* bad_element = faults(element);
    for (int i = 0; i < n; ++i) {
      if (bad[i] || (active && !active[i])) continue;
      if (bad_guard && bad_guard[i])
        bad[i] = bad_guard[i];
      else if (bad_element && (!guard || guard[i]))
        bad[i] = bad_element[i];
    }
  }
  for (size_t c = 1; c < plan.accumulator.size(); ++c) std::copy_n(bad, n, faults(plan.accumulator[c]));
}

void Frame::reduce(const ReductionPlan& plan, int n) {
  if (plan.product) return reduce_products(plan, n);
  const Scope& body = program_.scopes[static_cast<size_t>(plan.scope)];
  // A prefix continues where the previous step along its axis stopped.
  const bool starts = !plan.prefix || variables[static_cast<size_t>(program_.serial_variables[0])] == 0;
  if (starts) {
    for (size_t c = 0; c < plan.accumulator.size(); ++c) {
      std::copy_n(integers(plan.identity[c]), n, integers(plan.accumulator[c]));
      if (int64_t* bad = faults(plan.accumulator[c])) std::fill_n(bad, n, 0);
    }
  }
  if (plan.prefix) {
    variables[static_cast<size_t>(plan.variables.back())] =
        variables[static_cast<size_t>(program_.serial_variables[0])];
    execute(body.steps, n);
    return join(plan, nullptr, n);
  }

  // Extents may differ from lane to lane: loop to the largest, and leave out the lanes that are done.
  const size_t rank = plan.variables.size();
  std::vector<int64_t> extent(rank);
  bool ragged = false;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t* of_lane = integers(plan.extents[axis]);
    extent[axis] = *std::max_element(of_lane, of_lane + n);
    ragged = ragged || std::any_of(of_lane, of_lane + n, [&](int64_t e) { return e != extent[axis]; });
    if (extent[axis] <= 0) return;
  }
  uint8_t active[lanes];
  std::vector<int64_t> at(rank, 0);
  for (;;) {
    bool any = true;
    for (size_t axis = 0; axis < rank; ++axis) variables[static_cast<size_t>(plan.variables[axis])] = at[axis];
    if (ragged) {
      any = false;
      for (int i = 0; i < n; ++i) {
        active[i] = 1;
        for (size_t axis = 0; axis < rank; ++axis) active[i] &= at[axis] < integers(plan.extents[axis])[i];
        any = any || active[i];
      }
    }
    if (any) {
      execute(body.steps, n);
      join(plan, ragged ? active : nullptr, n);
    }
    size_t axis = rank;
    while (axis-- > 0) {
      if (++at[axis] < extent[axis]) break;
      at[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return;
  }
}

// Lanes over the reduction's own elements; they join lane 0 one after the other, so sums are the same as above.
void Frame::reduce_spread(const ReductionPlan& plan) {
  Scope body = program_.scopes[static_cast<size_t>(plan.scope)];
  int64_t count = 1;
  for (size_t c = 0; c < plan.accumulator.size(); ++c) {
    integers(plan.accumulator[c])[0] = integers(plan.identity[c])[0];
    if (int64_t* bad = faults(plan.accumulator[c])) bad[0] = 0;
  }
  for (size_t axis = 0; axis < plan.extents.size(); ++axis) {
    body.lane_extents[axis] = integers(plan.extents[axis])[0];
    count *= std::max<int64_t>(body.lane_extents[axis], 0);
  }
  for (const auto& [from, to] : body.imports) {
    if (is_single(to))
      std::fill_n(singles(to), lanes, singles(from)[0]);
    else
      std::fill_n(integers(to), lanes, integers(from)[0]);
    if (int64_t* bad = faults(to)) std::fill_n(bad, lanes, faults(from)[0]);
  }
  const int64_t* guard = plan.guard == no_register ? nullptr : integers(plan.guard);
  for (int64_t first = 0; first < count; first += lanes) {
    const int n = static_cast<int>(std::min<int64_t>(lanes, count - first));
    fill_lanes(body, first, n, 0);
    execute(body.steps, n);
    int64_t* bad = faults(plan.accumulator[0]);
    for (int i = 0; i < n; ++i) {
      const int64_t* bad_guard = plan.guard == no_register ? nullptr : faults(plan.guard);
      if (bad && !bad[0] && bad_guard) bad[0] = bad_guard[i];
      if (guard && !guard[i]) continue;
      for (const Register element : plan.element)
        if (const int64_t* bad_element = faults(element); bad && bad_element && !bad[0]) bad[0] = bad_element[i];
      join_lane(plan, 0, i);
    }
  }
  if (const int64_t* bad = faults(plan.accumulator[0]))
    for (size_t c = 1; c < plan.accumulator.size(); ++c) faults(plan.accumulator[c])[0] = bad[0];
}

}  // namespace atenon::reference
