#include <algorithm>
#include <cassert>
#include <cstring>

#include "reference/lane_ops.h"
#include "reference/loop_program.h"

namespace atenon::reference {

using opset::ScalarOp;

namespace {

constexpr int fault_shift = 48;

int64_t fault_word(int check, int64_t index) {
  return (static_cast<int64_t>(check) + 1) << fault_shift | (index & ((int64_t{1} << fault_shift) - 1));
}

}  // namespace

Frame::Frame(const LoopProgram& program, const std::vector<Tensor>& operands)
    : variables(static_cast<size_t>(program.variable_count), 0), program_(program) {
  for (const Tensor& tensor : operands) {
    data_.push_back(static_cast<const std::byte*>(tensor.data()));
    dtypes_.push_back(tensor.dtype);
  }
  words_ = std::make_unique<std::byte[]>(static_cast<size_t>(program.register_count) * lanes * 8);
  faults_.assign(static_cast<size_t>(program.fault_count) * lanes, 0);
}

int64_t Frame::address(const Address& address) const {
  int64_t sum = address.constant;
  for (const auto& [variable, coefficient] : address.uniform)
    sum += coefficient * variables[static_cast<size_t>(variable)];
  return sum;
}

const int64_t* Frame::lane_part(const Address& address) const {
  return address.lane_form < 0 ? nullptr : lane_parts_[static_cast<size_t>(address.lane_form)].value.data();
}

// Digits of the lanes' positions, then every sum over them.
void Frame::fill_lanes(const Scope& scope, int64_t first, int n) {
  const size_t rank = scope.lane_variables.size();
  digits_.resize(std::max(digits_.size(), rank));
  std::vector<int64_t> digit(rank);
  for (size_t axis = rank; axis-- > 0;) {
    digits_[axis].resize(lanes);
    digit[axis] = first % scope.lane_extents[axis];
    first /= scope.lane_extents[axis];
  }
  for (int i = 0; i < n; ++i) {
    for (size_t axis = 0; axis < rank; ++axis) digits_[axis][static_cast<size_t>(i)] = digit[axis];
    for (size_t axis = rank; axis-- > 0;) {
      if (++digit[axis] < scope.lane_extents[axis]) break;
      digit[axis] = 0;
    }
  }
  lane_parts_.resize(std::max(lane_parts_.size(), scope.lane_forms.size()));
  for (size_t f = 0; f < scope.lane_forms.size(); ++f) {
    LanePart& part = lane_parts_[f];
    part.value.assign(lanes, 0);
    for (const auto& [variable, coefficient] : scope.lane_forms[f].terms) {
      const auto axis =
          std::find(scope.lane_variables.begin(), scope.lane_variables.end(), variable) - scope.lane_variables.begin();
      const std::vector<int64_t>& position = digits_[static_cast<size_t>(axis)];
      for (int i = 0; i < n; ++i) part.value[static_cast<size_t>(i)] += coefficient * position[static_cast<size_t>(i)];
    }
    part.stride = n > 1 ? part.value[1] - part.value[0] : 0;
    part.strided = true;
    for (int i = 0; i < n && part.strided; ++i)
      part.strided = part.value[static_cast<size_t>(i)] == part.value[0] + i * part.stride;
  }
}

void Frame::run(int64_t first, int n) {
  const Scope& scope = program_.scopes[0];
  if (scope.owns_lanes) fill_lanes(scope, first, n);
  execute(scope.steps, n);
}

void Frame::execute(const std::vector<Step>& steps, int n) {
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::constant:
        if (step.floating)
          std::fill_n(floats(step.out), n, step.number);
        else
          std::fill_n(integers(step.out), n, step.integer);
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
}

void Frame::linear(const Step& step, int n) {
  int64_t* out = integers(step.out);
  const int64_t base = address(step.address);
  if (const int64_t* part = lane_part(step.address)) {
    for (int i = 0; i < n; ++i) out[i] = part[i] + base;
  } else {
    std::fill_n(out, n, base);
  }
}

void Frame::read(const Step& step, int n) {
  const int64_t base = address(step.address);
  const LanePart* part =
      step.address.lane_form < 0 ? nullptr : &lane_parts_[static_cast<size_t>(step.address.lane_form)];
  visit_element_type(dtypes_[static_cast<size_t>(step.tensor)], [&]<class T>(T) {
    if constexpr (!is_complex_type<T>) {
      const T* from = reinterpret_cast<const T*>(data_[static_cast<size_t>(step.tensor)]) + base;
      const auto load = [&]<class To>(To* out) {
        if (step.mask != no_register) {
          const int64_t* inside = integers(step.mask);
          for (int i = 0; i < n; ++i)
            out[i] = inside[i] ? convert<To>(from[part ? part->value[static_cast<size_t>(i)] : 0]) : To(0);
        } else if (!part)
          std::fill_n(out, n, convert<To>(*from));
        else if (part->strided && part->stride == 1)
          for (int i = 0; i < n; ++i) out[i] = convert<To>(from[part->value[0] + i]);
        else if (part->strided)
          for (int i = 0; i < n; ++i) out[i] = convert<To>(from[part->value[0] + i * part->stride]);
        else
          for (int i = 0; i < n; ++i) out[i] = convert<To>(from[part->value[static_cast<size_t>(i)]]);
      };
      if constexpr (std::is_integral_v<T>)
        load(integers(step.out));
      else
        load(floats(step.out));
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
  visit_element_type(dtypes_[static_cast<size_t>(step.tensor)], [&]<class T>(T) {
    if constexpr (!is_complex_type<T>) {
      const T* from = reinterpret_cast<const T*>(data_[static_cast<size_t>(step.tensor)]);
      const int64_t* inside = step.mask == no_register ? nullptr : integers(step.mask);
      const auto load = [&]<class To>(To* out) {
        for (int i = 0; i < n; ++i)
          out[i] = (fault_out && fault_out[i]) || (inside && !inside[i]) ? To(0) : convert<To>(from[place[i]]);
      };
      if constexpr (std::is_integral_v<T>)
        load(integers(step.out));
      else
        load(floats(step.out));
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
  if (step.floating) {
    const double *a = floats(step.in[1]), *b = floats(step.in[2]);
    double* out = floats(step.out);
    for (int i = 0; i < n; ++i) out[i] = chooses[i] ? a[i] : b[i];
  } else {
    const int64_t *a = integers(step.in[1]), *b = integers(step.in[2]);
    int64_t* out = integers(step.out);
    for (int i = 0; i < n; ++i) out[i] = chooses[i] ? a[i] : b[i];
  }
  if (int64_t* out = faults(step.out)) {
    const int64_t *condition = faults(step.in[0]), *a = faults(step.in[1]), *b = faults(step.in[2]);
    for (int i = 0; i < n; ++i) {
      const int64_t* chosen = chooses[i] ? a : b;
      out[i] = condition && condition[i] ? condition[i] : chosen ? chosen[i] : 0;
    }
  }
}

void Frame::cast(const Step& step, int n) {
  const bool to_float = is_floating(step.dtype);
  if (step.floating) {
    const double* from = floats(step.in[0]);
    if (to_float) {
      double* out = floats(step.out);
      for (int i = 0; i < n; ++i) out[i] = narrow(from[i], step.dtype);
    } else {
      int64_t* out = integers(step.out);
      for (int i = 0; i < n; ++i) out[i] = truncate_to(from[i], step.dtype);
    }
  } else {
    const int64_t* from = integers(step.in[0]);
    if (to_float) {
      double* out = floats(step.out);
      if (step.dtype == ScalarType::f64)
        for (int i = 0; i < n; ++i) out[i] = static_cast<double>(from[i]);
      else
        for (int i = 0; i < n; ++i) out[i] = narrow(static_cast<double>(static_cast<float>(from[i])), step.dtype);
    } else {
      int64_t* out = integers(step.out);
      for (int i = 0; i < n; ++i) out[i] = wrap(from[i], step.dtype);
    }
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

  const Register second = step.in[1] == no_register ? step.in[0] : step.in[1];
  if (!step.floating) {
    const int64_t *a = integers(step.in[0]), *b = integers(second);
    if (is_floating(step.dtype)) {  // a function of a number: its argument is a float in all but name
      double* out = floats(step.out);
      for (int i = 0; i < n; ++i)
        out[i] = round_to(step.op == ScalarOp::div
                              ? static_cast<double>(a[i]) / static_cast<double>(b[i])
                              : evaluate_float(step.op, static_cast<double>(a[i]), static_cast<double>(b[i])),
                          step.dtype);
      return;
    }
    int64_t* out = integers(step.out);
    const auto apply = [&](auto f) {
      for (int i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
    };
    switch (step.op) {  // the frequent ones as loops of their own
      case ScalarOp::le:
        return apply([](int64_t x, int64_t y) -> int64_t { return x <= y; });
      case ScalarOp::lt:
        return apply([](int64_t x, int64_t y) -> int64_t { return x < y; });
      case ScalarOp::eq:
        return apply([](int64_t x, int64_t y) -> int64_t { return x == y; });
      case ScalarOp::minimum:
        return apply([](int64_t x, int64_t y) { return y < x ? y : x; });
      case ScalarOp::maximum:
        return apply([](int64_t x, int64_t y) { return y > x ? y : x; });
      case ScalarOp::bit_not:
        if (step.dtype == ScalarType::boolean) return apply([](int64_t x, int64_t) -> int64_t { return !x; });
        [[fallthrough]];
      default:
        return apply([&](int64_t x, int64_t y) { return wrap(evaluate_integer(step.op, x, y), step.dtype); });
    }
  }

  const double *a = floats(step.in[0]), *b = floats(second);
  if (!is_floating(step.dtype)) {
    int64_t* out = integers(step.out);
    const auto test = [&](auto f) {
      for (int i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
    };
    switch (step.op) {
      case ScalarOp::eq:
        return test([](double x, double y) { return x == y; });
      case ScalarOp::ne:
        return test([](double x, double y) { return x != y; });
      case ScalarOp::lt:
        return test([](double x, double y) { return x < y; });
      case ScalarOp::le:
        return test([](double x, double y) { return x <= y; });
      case ScalarOp::isnan:
        return test([](double x, double) { return x != x; });
      case ScalarOp::logical_not:
        return test([](double x, double) { return x == 0; });
      default:  // floor(x) as an integer
        for (int i = 0; i < n; ++i) out[i] = truncate_to(evaluate_float(step.op, a[i], b[i]), step.dtype);
        return;
    }
  }
  double* out = floats(step.out);
  const auto apply = [&](auto f) {
    if (step.dtype == ScalarType::f64)
      for (int i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
    else
      for (int i = 0; i < n; ++i) out[i] = static_cast<double>(static_cast<float>(f(a[i], b[i])));
  };
  switch (step.op) {
    case ScalarOp::add:
      return apply([](double x, double y) { return x + y; });
    case ScalarOp::sub:
      return apply([](double x, double y) { return x - y; });
    case ScalarOp::mul:
      return apply([](double x, double y) { return x * y; });
    case ScalarOp::div:
      return apply([](double x, double y) { return x / y; });
    default:
      return apply([&](double x, double y) { return evaluate_float(step.op, x, y); });
  }
}

void Frame::store(std::vector<Tensor>& results, int n) {
  for (const Store& store : program_.stores) {
    if (const int64_t* bad = faults(store.value))
      for (int i = 0; i < n; ++i)
        if (bad[i] && !fault) fault = bad[i];
    const int64_t base = address(store.address);
    const int64_t* part = lane_part(store.address);
    Tensor& result = results[static_cast<size_t>(store.result)];
    visit_element_type(result.dtype, [&]<class T>(T) {
      if constexpr (!is_complex_type<T>) {
        T* to = result.mutable_as<T>() + base;
        const auto put = [&](const auto* from) {
          for (int i = 0; i < n; ++i) to[part ? part[i] : 0] = convert<T>(from[i]);
        };
        if (store.floating)
          put(floats(store.value));
        else
          put(integers(store.value));
      }
    });
  }
}

}  // namespace atenon::reference
