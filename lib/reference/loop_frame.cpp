#include <algorithm>

#include "opset/scalar_values.h"
#include "reference/loop_program.h"

namespace atenon::reference {

using opset::evaluate_float;
using opset::evaluate_integer;
using opset::narrow;
using opset::ScalarOp;
using opset::truncate_to;
using opset::wrap;

namespace {

constexpr int fault_shift = 48;

int64_t fault_word(int check, int64_t index) {
  return (static_cast<int64_t>(check) + 1) << fault_shift | (index & ((int64_t{1} << fault_shift) - 1));
}

}  // namespace

Frame::Frame(const LoopProgram& program)
    : variables(static_cast<size_t>(program.variable_count), 0),
      program_(program),
      words_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(program.register_count) * lanes * 8)),
      faults_(static_cast<size_t>(program.fault_count) * lanes, 0),
      computed_(program.scopes[0].steps.size(), 0) {
  for (Register r = 0; r < program.register_count; ++r) at_.push_back(words_of(r));
}

void Frame::start(const LoopData& data, int64_t number) {
  data_ = &data;
  fault = 0;
  if (number == run_) return;
  run_ = number;
  row_ = column_ = -1;
  for (size_t i = 0; i < computed_.size(); ++i)
    if (program_.scopes[0].steps[i].kind != Step::Kind::constant) computed_[i] = 0;
}

int64_t Frame::address(const Address& address) const {
  int64_t sum = address.constant;
  for (const auto& [variable, coefficient] : address.uniform)
    sum += coefficient * variables[static_cast<size_t>(variable)];
  return sum;
}

const int64_t* Frame::lane_part(const Address& address) {
  if (address.lane_form < 0) return nullptr;
  LanePart& part = lane_parts_[static_cast<size_t>(address.lane_form)];
  if (!part.spelled) {
    part.value.resize(lanes);
    for (size_t s = 0; s < segments_.size(); ++s)
      for (int i = 0; i < segments_[s].count; ++i)
        part.value[static_cast<size_t>(segments_[s].begin + i)] = part.starts[s] + i * part.stride;
    part.spelled = true;
  }
  return part.value.data();
}

// The rows that the lanes lie in, and where each form starts in them.
void Frame::fill_lanes(const Scope& scope, int64_t first, int n, int64_t width) {
  const size_t rank = scope.lane_extents.size();
  const int64_t length = rank == 0 ? 1 : scope.lane_extents[rank - 1];
  const size_t outer = rank == 0 ? 0 : rank - 1;
  const int64_t first_column = width > 0 ? first % length : 0;  // of all rows but the first
  int64_t column = first % length;
  int64_t row = first / length;
  digits_.resize(outer);
  for (size_t axis = outer; axis-- > 0; row /= scope.lane_extents[axis]) digits_[axis] = row % scope.lane_extents[axis];
  segments_.clear();
  lane_parts_.resize(std::max(lane_parts_.size(), scope.lane_forms.size()));
  for (size_t f = 0; f < scope.lane_forms.size(); ++f) {
    LanePart& part = lane_parts_[f];
    part.starts.clear();
    part.stride = rank == 0 ? 0 : scope.lane_forms[f][outer];
    part.strided = true;
    part.spelled = false;
  }
  for (int begin = 0; begin < n;) {
    const int count = static_cast<int>(std::min<int64_t>(width > 0 ? width : length - column, n - begin));
    segments_.push_back({begin, count});
    for (size_t f = 0; f < scope.lane_forms.size(); ++f) {
      LanePart& part = lane_parts_[f];
      int64_t start = column * part.stride;
      for (size_t axis = 0; axis < outer; ++axis) start += digits_[axis] * scope.lane_forms[f][axis];
      part.starts.push_back(start);
      part.strided = part.strided && start == part.starts[0] + begin * part.stride;
    }
    begin += count;
    column = first_column;
    for (size_t axis = outer; axis-- > 0;) {
      if (++digits_[axis] < scope.lane_extents[axis]) break;
      digits_[axis] = 0;
    }
  }
}

template <class Visit>
void Frame::for_runs(const LanePart* part, int n, Visit visit) const {
  if (!part) return visit(int64_t{0}, 0, n, int64_t{0});
  if (part->strided) return visit(part->starts[0], 0, n, part->stride);
  for (size_t s = 0; s < segments_.size(); ++s)
    visit(part->starts[s], segments_[s].begin, segments_[s].count, part->stride);
}

void Frame::run(int64_t first, int n, int64_t width) {
  const Scope& scope = program_.scopes[0];
  if (!scope.owns_lanes) return execute(scope.steps, n);
  fill_lanes(scope, first, n, width);
  // A serial variable changes what any step computes.
  const int64_t length = scope.lane_extents.empty() ? 1 : scope.lane_extents.back();
  const bool anew = !program_.serial_variables.empty();
  // Of another width, other lanes lie in other rows; and where lanes run on into the next row, from another column on.
  const bool runs_on = width == 0 && first % length != 0;
  const bool row_changed = anew || first / length != row_ || width != width_ || runs_on;
  const bool column_changed = anew || first % length != column_;
  row_ = first / length;
  column_ = first % length;
  width_ = width;
  const uint8_t changed = static_cast<uint8_t>((row_changed ? Step::by_row : 0) | (column_changed ? Step::in_rows : 0));
  for (size_t i = 0; i < scope.steps.size(); ++i) {
    if (!anew && !(scope.steps[i].varies & changed) && n <= computed_[i]) continue;
    if (program_.last_step_stores && i + 1 == scope.steps.size())
      compute_in_place(scope.steps[i], n);
    else
      execute(scope.steps[i], n);
    computed_[i] = n;
  }
}

// The last step, straight into the result where that lies as the lanes do.
void Frame::compute_in_place(const Step& step, int n) {
  const Store& store = program_.stores[0];
  const LanePart* part = part_of(store.address);
  const ScalarType type = data_->result_types[static_cast<size_t>(store.result)];
  const bool is_same = type == (is_single(step.out) ? ScalarType::f32
                                : store.floating    ? ScalarType::f64
                                                    : ScalarType::i64);
  stored_ = is_same && part && part->strided && (part->stride == 1 || n == 1);
  at_[static_cast<size_t>(step.out)] =
      stored_ ? data_->results[static_cast<size_t>(store.result)] +
                    (address(store.address) + part->starts[0]) * static_cast<int64_t>(size_of(type))
              : words_of(step.out);
  execute(step, n);
}

void Frame::execute(const std::vector<Step>& steps, int n) {
  for (const Step& step : steps) execute(step, n);
}

void Frame::execute(const Step& step, int n) {
  switch (step.kind) {
    case Step::Kind::constant:
      if (!step.floating)
        std::fill_n(integers(step.out), n, step.integer);
      else if (is_single(step.out))
        std::fill_n(singles(step.out), n, static_cast<float>(step.number));
      else
        std::fill_n(doubles(step.out), n, step.number);
      break;
    case Step::Kind::linear:
      linear(step, n);
      break;
    case Step::Kind::read:
      read(step, n);
      break;
    case Step::Kind::checked_read:
      checked_read(step, n);
      break;
    case Step::Kind::reduce: {
      const ReductionPlan& plan = program_.reductions[static_cast<size_t>(step.reduction)];
      if (plan.spread)
        reduce_spread(plan);
      else
        reduce(plan, n);
      break;
    }
    case Step::Kind::compute:
      compute(step, n);
      break;
  }
}

void Frame::linear(const Step& step, int n) {
  int64_t* out = integers(step.out);
  const int64_t base = address(step.address);
  const LanePart* part = part_of(step.address);
  for_runs(part, n, [&](int64_t start, int lane, int count, int64_t stride) {
    for (int i = 0; i < count; ++i) out[lane + i] = base + start + i * stride;
  });
}

// Calls load(out) with the step's register: float, double or int64_t, as T's elements are held.
template <class T, class Load>
void Frame::load_as(const Step& step, Load load) {
  if constexpr (std::is_integral_v<T>)
    load(integers(step.out));
  else if constexpr (std::is_same_v<T, double>)
    load(doubles(step.out));
  else
    load(singles(step.out));
}

void Frame::read(const Step& step, int n) {
  const int64_t base = address(step.address);
  const LanePart* part = part_of(step.address);
  const int64_t* inside = step.mask == no_register ? nullptr : integers(step.mask);
  visit_element_type(data_->operand_types[static_cast<size_t>(step.tensor)], [&]<class T>(T) {
    if constexpr (!is_complex_type<T>) {
      const T* from = reinterpret_cast<const T*>(data_->operands[static_cast<size_t>(step.tensor)]) + base;
      load_as<T>(step, [&]<class To>(To* out) {
        if constexpr (std::is_same_v<T, To>) {
          const bool is_row = !inside && part && part->strided && part->stride == 1;
          at_[static_cast<size_t>(step.out)] =
              is_row ? reinterpret_cast<std::byte*>(const_cast<T*>(from + part->starts[0])) : words_of(step.out);
          if (is_row) return;
          out = reinterpret_cast<To*>(words_of(step.out));
        }
        for_runs(part, n, [&](int64_t start, int lane, int count, int64_t stride) {
          const T* at = from + start;
          if (inside)
            for (int i = 0; i < count; ++i) out[lane + i] = inside[lane + i] ? convert<To>(at[i * stride]) : To(0);
          else if (stride == 0)
            std::fill_n(out + lane, count, convert<To>(*at));
          else if (stride == 1)
            for (int i = 0; i < count; ++i) out[lane + i] = convert<To>(at[i]);
          else
            for (int i = 0; i < count; ++i) out[lane + i] = convert<To>(at[i * stride]);
        });
      });
    }
  });
}

void Frame::checked_read(const Step& step, int n) {
  int64_t place[lanes] = {};
  int64_t* fault_out = faults(step.out);
  if (fault_out) std::fill_n(fault_out, n, 0);
  for (size_t a = 0; a < step.axes.size(); ++a) {
    const Step::Axis& axis = step.axes[a];
    const int64_t* index = integers(axis.index);
    const int64_t* fault_in = faults(axis.index);
    for (int i = 0; i < n; ++i) {
      if (fault_in && fault_in[i] && !fault_out[i]) fault_out[i] = fault_in[i];
      const bool outside = !axis.safe && (index[i] < 0 || index[i] >= axis.size);
      if (outside && fault_out && !fault_out[i]) fault_out[i] = fault_word(step.check + static_cast<int>(a), index[i]);
      place[i] += index[i] * axis.stride;
    }
  }
  visit_element_type(data_->operand_types[static_cast<size_t>(step.tensor)], [&]<class T>(T) {
    if constexpr (!is_complex_type<T>) {
      const T* from = reinterpret_cast<const T*>(data_->operands[static_cast<size_t>(step.tensor)]);
      const int64_t* inside = step.mask == no_register ? nullptr : integers(step.mask);
      load_as<T>(step, [&]<class To>(To* out) {
        for (int i = 0; i < n; ++i)
          out[i] = (fault_out && fault_out[i]) || (inside && !inside[i]) ? To(0) : convert<To>(from[place[i]]);
      });
    }
  });
}

void Frame::spread_faults(const Step& step, int n) {
  int64_t* out = faults(step.out);
  if (!out) return;
  std::fill_n(out, n, 0);
  for (const Register in : step.in) {
    if (in == no_register) continue;
    if (const int64_t* from = faults(in))
      for (int i = 0; i < n; ++i)
        if (!out[i]) out[i] = from[i];
  }
  if (step.check < 0) return;
  const int64_t* divisor = integers(step.in[1]);
  for (int i = 0; i < n; ++i)
    if (divisor[i] == 0 && !out[i]) out[i] = fault_word(step.check, 0);
}

// The fault of the chosen operand, and of what it was chosen by.
void Frame::select(const Step& step, int n) {
  const int64_t* chooses = integers(step.in[0]);
  if (is_single(step.out))
    ops_.choose_singles(chooses, singles(step.in[1]), singles(step.in[2]), singles(step.out), n);
  else
    ops_.choose_words(chooses, integers(step.in[1]), integers(step.in[2]), integers(step.out), n);
  if (int64_t* out = faults(step.out)) {
    const int64_t *condition = faults(step.in[0]), *a = faults(step.in[1]), *b = faults(step.in[2]);
    for (int i = 0; i < n; ++i) {
      const int64_t* chosen = chooses[i] ? a : b;
      out[i] = condition && condition[i] ? condition[i] : chosen ? chosen[i] : 0;
    }
  }
}

void Frame::cast(const Step& step, int n) {
  const Register in = step.in[0];
  // To a register of `step.out`'s kind, by way of double, which holds every f32.
  const auto put = [&](auto value) {
    if (is_single(step.out))
      for (int i = 0; i < n; ++i) singles(step.out)[i] = static_cast<float>(value(i));
    else
      for (int i = 0; i < n; ++i) doubles(step.out)[i] = value(i);
  };
  if (!is_floating(step.dtype)) {
    int64_t* out = integers(step.out);
    if (!step.floating)
      for (int i = 0; i < n; ++i) out[i] = wrap(integers(in)[i], step.dtype);
    else if (is_single(in))
      for (int i = 0; i < n; ++i) out[i] = truncate_to(singles(in)[i], step.dtype);
    else
      for (int i = 0; i < n; ++i) out[i] = truncate_to(doubles(in)[i], step.dtype);
  } else if (!step.floating) {
    const int64_t* from = integers(in);
    if (step.dtype == ScalarType::f64)
      put([&](int i) { return static_cast<double>(from[i]); });
    else
      put([&](int i) { return narrow(static_cast<double>(static_cast<float>(from[i])), step.dtype); });
  } else if (is_half(step.dtype)) {
    if (is_single(in))
      put([&](int i) { return narrow(singles(in)[i], step.dtype); });
    else
      put([&](int i) { return narrow(doubles(in)[i], step.dtype); });
  } else if (is_single(in)) {
    if (is_single(step.out))
      std::copy_n(singles(in), n, singles(step.out));
    else
      ops_.widen(singles(in), doubles(step.out), n);
  } else if (is_single(step.out)) {
    ops_.narrow(doubles(in), singles(step.out), n);
  } else {
    std::copy_n(doubles(in), n, doubles(step.out));
  }
}

void Frame::compute(const Step& step, int n) {
  if (step.op == ScalarOp::select) return select(step, n);
  if (step.op == ScalarOp::logical_and || step.op == ScalarOp::logical_or) {
    const bool is_and = step.op == ScalarOp::logical_and;
    const int64_t *a = integers(step.in[0]), *b = integers(step.in[1]);
    int64_t* out = integers(step.out);
    if (int64_t* fault_out = faults(step.out)) {
      const int64_t *fault_a = faults(step.in[0]), *fault_b = faults(step.in[1]);
      for (int i = 0; i < n; ++i) {
        const bool asks = is_and ? a[i] != 0 : a[i] == 0;
        fault_out[i] = fault_a && fault_a[i] ? fault_a[i] : asks && fault_b ? fault_b[i] : 0;
      }
    }
    for (int i = 0; i < n; ++i) out[i] = is_and ? a[i] && b[i] : a[i] || b[i];
    return;
  }
  spread_faults(step, n);
  if (step.op == ScalarOp::cast) return cast(step, n);

  const Register first = step.in[0], second = step.in[1] == no_register ? step.in[0] : step.in[1];
  const auto each = [n](auto* out, auto value) {
    for (int i = 0; i < n; ++i) out[i] = static_cast<std::remove_pointer_t<decltype(out)>>(value(i));
  };
  if (!step.floating) {
    const int64_t *a = integers(first), *b = integers(second);
    if (is_floating(step.dtype)) {  // a function of a number: its argument is a float in all but name
      const auto value = [&](int i) {
        const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        return step.op == ScalarOp::div ? x / y : evaluate_float(step.op, x, y);
      };
      return is_single(step.out) ? each(singles(step.out), value) : each(doubles(step.out), value);
    }
    int64_t* out = integers(step.out);
    if (step.dtype == ScalarType::boolean && ops_.tests_of_integers(step.op, a, b, out, n)) return;
    if (step.op == ScalarOp::bit_not && step.dtype == ScalarType::boolean)
      return each(out, [&](int i) -> int64_t { return !a[i]; });
    if (step.op == ScalarOp::minimum || step.op == ScalarOp::maximum)
      return each(out, [&, least = step.op == ScalarOp::minimum](int i) {
        return least ? std::min(a[i], b[i]) : std::max(a[i], b[i]);
      });
    return each(out, [&](int i) { return wrap(evaluate_integer(step.op, a[i], b[i]), step.dtype); });
  }

  if (!is_floating(step.dtype)) {
    int64_t* out = integers(step.out);
    if (is_single(first)) {
      const float *a = singles(first), *b = singles(second);
      if (ops_.tests_of_singles(step.op, a, b, out, n)) return;
      return each(out, [&](int i) { return truncate_to(evaluate_float(step.op, a[i], b[i]), step.dtype); });
    }
    const double *a = doubles(first), *b = doubles(second);
    if (ops_.tests_of_doubles(step.op, a, b, out, n)) return;
    return each(out,  // floor(x) as an integer
                [&](int i) { return truncate_to(evaluate_float(step.op, a[i], b[i]), step.dtype); });
  }
  if (is_single(step.out)) {
    const float *a = singles(first), *b = singles(second);
    if (ops_.of_singles(step.op, a, b, singles(step.out), n)) return;
    return each(singles(step.out), [&](int i) { return evaluate_float(step.op, a[i], b[i]); });
  }
  const double *a = doubles(first), *b = doubles(second);
  if (ops_.of_doubles(step.op, a, b, doubles(step.out), n)) return;
  each(doubles(step.out), [&](int i) { return evaluate_float(step.op, a[i], b[i]); });
}

void Frame::store(int n) {
  for (const Store& store : program_.stores) {
    if (const int64_t* bad = faults(store.value))
      for (int i = 0; i < n; ++i)
        if (bad[i] && !fault) fault = bad[i];
    if (stored_) break;
    const int64_t base = address(store.address);
    const LanePart* part = part_of(store.address);
    visit_element_type(data_->result_types[static_cast<size_t>(store.result)], [&]<class T>(T) {
      if constexpr (!is_complex_type<T>) {
        T* to = reinterpret_cast<T*>(data_->results[static_cast<size_t>(store.result)]) + base;
        const auto put = [&](const auto* from) {
          for_runs(part, n, [&](int64_t start, int lane, int count, int64_t stride) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*from)>, T>)
              if (stride == 1) {
                std::copy_n(from + lane, count, to + start);
                return;
              }
            for (int i = 0; i < count; ++i) to[start + i * stride] = convert<T>(from[lane + i]);
          });
        };
        if (!store.floating)
          put(integers(store.value));
        else if (is_single(store.value))
          put(singles(store.value));
        else
          put(doubles(store.value));
      }
    });
  }
}

}  // namespace atenon::reference
