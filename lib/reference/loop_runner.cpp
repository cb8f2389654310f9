#include "reference/loop_runner.h"

#include <algorithm>
#include <atomic>

#include "opset/scalar_values.h"
#include "reference/complex_parts.h"
#include "reference/loop_compiler.h"
#include "support/parallel.h"
#include "tensor/real_parts.h"

namespace atenon::reference {

using opset::add_wrapping;
using opset::maximum;
using opset::Meaning;
using opset::minimum;
using opset::multiply_wrapping;
using opset::ScalarOp;

namespace {

// Numbers for a Meaning's symbolic scalars, at one binding.
struct Sizes {
  std::vector<int64_t> integers;
  std::vector<double> floats;
};

Result<Sizes> sizes_of(const Meaning& meaning, const shape::Bindings& symbols) {
  Sizes sizes{std::vector<int64_t>(meaning.scalars.size()), std::vector<double>(meaning.scalars.size())};
  for (size_t i = 0; i < meaning.scalars.size(); ++i) {
    const opset::Scalar& scalar = meaning.scalars[i];
    if (scalar.op == ScalarOp::size) {
      const auto value = shape::evaluate(scalar.size, symbols);
      if (!value) return error(Status::violated, 632, "the size " + scalar.size.to_string() + " has no value");
      sizes.integers[i] = *value;
    } else if (scalar.op == ScalarOp::size_float) {
      const auto value = shape::evaluate(scalar.size_float, symbols);
      if (!value) return error(Status::violated, 632, "the number " + scalar.size_float.to_string() + " has no value");
      sizes.floats[i] = *value;
    }
  }
  return sizes;
}

Result<std::vector<int64_t>> extents_of(const ir::TensorMeta& type, const shape::Bindings& symbols) {
  std::vector<int64_t> extents;
  for (const ir::SymInt& size : type.sizes) {
    const auto value = shape::evaluate(size, symbols);
    if (!value || *value < 0) return error(Status::violated, 632, "the size " + size.to_string() + " has no value");
    extents.push_back(*value);
  }
  return extents;
}

void declare_reductions(const Meaning& meaning, IndexForms& forms) {
  for (const opset::Reduction& reduction : meaning.reductions)
    for (size_t i = 0; i < reduction.variables.size(); ++i)
      forms.set_range(reduction.variables[i],
                      {0, std::max<int64_t>(forms.interval(reduction.extents[i]).upper - 1, 0)});
}

Diagnostic describe(const LoopProgram& program, int64_t fault) {
  const Check& check = program.checks[static_cast<size_t>((fault >> 48) - 1)];
  if (check.kind == Check::Kind::zero) return error(Status::violated, 631, "an integer is divided by zero");
  const int64_t index = (fault << 16) >> 16;
  return error(Status::violated, 611,
               "index " + std::to_string(index) + " is out of range for axis " + std::to_string(check.axis) +
                   " of size " + std::to_string(check.size));
}

// An index space as blocks of lanes: some whole rows each, or a part of one; for products a part of some rows, since
// these share what is read along the columns.
struct Blocks {
  struct Block {
    int64_t first = 0;
    int n = 0;
    int64_t width = 0;  // 0: whole rows
  };
  int64_t rows = 1, length = 1;
  int64_t rows_together = 1, parts = 1, width = 1;
  bool columns_outside = false;
  int64_t count = 0;

  explicit Blocks(const LoopProgram& program) : columns_outside(program.columns_outside) {
    const Scope& scope = program.scopes[0];
    if (!scope.lane_extents.empty()) length = scope.lane_extents.back();
    for (size_t axis = 0; axis + 1 < scope.lane_extents.size(); ++axis) rows *= scope.lane_extents[axis];
    if (length == 0 || rows == 0) return;
    const bool multiplies = std::any_of(program.reductions.begin(), program.reductions.end(),
                                        [](const ReductionPlan& plan) { return plan.product.has_value(); });
    const int64_t widest = multiplies && rows > 1 ? lanes / 8 : lanes;
    parts = (length + widest - 1) / widest;
    width = parts == 1 ? length : ((length + parts - 1) / parts + 15) / 16 * 16;  // whole vectors
    rows_together = std::min(rows, lanes / width);
    count = row_groups() * parts;
  }
  int64_t row_groups() const { return (rows + rows_together - 1) / rows_together; }
  Block at(int64_t block) const {
    const int64_t group = columns_outside ? block % row_groups() : block / parts;
    const int64_t part = columns_outside ? block / row_groups() : block % parts;
    const int64_t row = group * rows_together, column = part * width;
    const int64_t columns = std::min(width, length - column);
    const int64_t n = std::min(rows_together, rows - row) * columns;
    return {row * length + column, static_cast<int>(n), parts == 1 ? 0 : columns};
  }
};

LoopData data_of(const std::vector<Tensor>& operands, std::vector<Tensor>& results) {
  LoopData data;
  for (const Tensor& tensor : operands) {
    data.operands.push_back(static_cast<const std::byte*>(tensor.data()));
    data.operand_types.push_back(tensor.dtype);
  }
  for (Tensor& tensor : results) {
    data.results.push_back(static_cast<std::byte*>(tensor.mutable_data()));
    data.result_types.push_back(tensor.dtype);
  }
  return data;
}

// What a scatter leaves where `old` was; `value` where it joins nothing.
template <class T>
T joined(MonoidKind join, T old, T value) {
  constexpr bool is_whole = std::is_integral_v<T>;
  switch (join) {
    case MonoidKind::sum:
      if constexpr (is_whole) return add_wrapping(old, value);
      return old + value;
    case MonoidKind::product:
      if constexpr (is_whole) return multiply_wrapping(old, value);
      return old * value;
    case MonoidKind::maximum:
      if constexpr (is_whole) return std::max(old, value);
      return maximum(old, value);
    case MonoidKind::minimum:
      if constexpr (is_whole) return std::min(old, value);
      return minimum(old, value);
    case MonoidKind::any:
      return old != 0 || value != 0;
    case MonoidKind::all:
      return old != 0 && value != 0;
    default:
      return value;
  }
}

// In row-major order of the extent, one after the other: of several writes to one place the last wins.
Result<void> run_scatter(const LoopProgram& program, const std::vector<Tensor>& operands, Tensor& result) {
  int64_t count = 1;
  for (const int64_t n : program.scopes[0].lane_extents) count *= n;
  std::vector<Tensor> none;
  const LoopData data = data_of(operands, none);
  Frame frame(program);
  frame.start(data, 0);
  for (int64_t first = 0; first < count; first += lanes) {
    const int n = static_cast<int>(std::min<int64_t>(lanes, count - first));
    frame.run(first, n);
    for (int i = 0; i < n; ++i) {
      int64_t place = 0;
      for (size_t axis = 0; axis < program.at.size(); ++axis) {
        if (const int64_t* bad = frame.faults(program.at[axis]); bad && bad[i]) return describe(program, bad[i]);
        const int64_t index = frame.integers(program.at[axis])[i];
        if (index < 0 || index >= result.sizes[axis])
          return error(Status::violated, 611,
                       "index " + std::to_string(index) + " is out of range for axis " + std::to_string(axis) +
                           " of size " + std::to_string(result.sizes[axis]));
        place += index * result.strides[axis];
      }
      if (const int64_t* bad = frame.faults(program.value); bad && bad[i]) return describe(program, bad[i]);
      visit_element_type(result.dtype, [&]<class T>(T) {
        if constexpr (!is_complex_type<T>) {
          T& to = result.mutable_as<T>()[place];
          const auto put = [&]<class Value>(Value value) {
            to = convert<T>(joined(program.join, convert<Value>(to), value));
          };
          if (program.floating)
            put(program.is_single[static_cast<size_t>(program.value)] ? frame.singles(program.value)[i]
                                                                      : frame.doubles(program.value)[i]);
          else
            put(frame.integers(program.value)[i]);
        }
      });
    }
  }
  return {};
}

Result<void> check_operands(const Meaning& meaning, const std::vector<Tensor>& operands) {
  if (meaning.variable_count > 64) return error(Status::unsupported, 634, "more than 64 loops in one operator");
  for (const Tensor& tensor : operands) {
    if (tensor.numel() > 0 && !tensor.data())
      return error(Status::bad_input, 633,
                   "a tensor's bytes are not here: the program was read as text, without --segments");
  }
  return {};
}

// Parts in rows as complex numbers again.
Tensor as_complex(Tensor tensor) {
  tensor.dtype = pair_of(tensor.dtype);
  tensor.sizes.pop_back();
  tensor.strides = contiguous_strides(tensor.sizes);
  return tensor;
}

Result<std::vector<Tensor>> run_complex_loops(const Meaning& meaning, const std::vector<Tensor>& operands,
                                              const shape::Bindings& symbols) {
  Result<Meaning> parts = in_real_parts(meaning);
  if (!parts) return parts.error();
  std::vector<Tensor> real;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_base = meaning.scatter && meaning.scatter->base == static_cast<int>(i);
    real.push_back(as_parts(is_base ? cast(operands[i], meaning.results[0].type.dtype) : operands[i]));
  }
  Result<std::vector<Tensor>> results = run_loops(*parts, real, symbols);
  if (!results) return results;
  for (size_t i = 0; i < results->size(); ++i)
    if (is_complex(meaning.results[i].type.dtype)) (*results)[i] = as_complex(std::move((*results)[i]));
  return results;
}

}  // namespace

// Every element is computed by itself, so how blocks are dealt out to threads does not show.
Result<void> run_program(const LoopProgram& program, const LoopData& data, Idle<Frame>& frames) {
  const Scope& outer = program.scopes[0];
  int64_t serial = 1;
  for (const int64_t n : program.serial_extents) serial *= n;
  if (program.numel == 0) return {};
  const bool prefix = outer.owns_lanes && serial > 1;
  const Blocks blocks(program);
  // Lanes over results: blocks of results (a prefix walks its axis inside). Lanes over reductions: one result at a
  // time.
  const int64_t units = outer.owns_lanes ? blocks.count : serial;
  const int64_t per_tile = std::max<int64_t>(1, units / 64);
  const int64_t tiles = (units + per_tile - 1) / per_tile;
  static std::atomic<int64_t> last_number = 0;
  const int64_t number = ++last_number;
  const auto run_units = [&](int64_t from, int64_t to) {
    std::unique_ptr<Frame> frame = frames.take();
    if (!frame) frame = std::make_unique<Frame>(program);
    frame->start(data, number);
    const auto set_serial = [&](int64_t position) {
      for (size_t i = program.serial_variables.size(); i-- > 0; position /= program.serial_extents[i])
        frame->variables[static_cast<size_t>(program.serial_variables[i])] = position % program.serial_extents[i];
    };
    for (int64_t unit = from; unit < to; ++unit) {
      if (!outer.owns_lanes) {
        set_serial(unit);
        frame->run(0, 1);
        frame->store(1);
        continue;
      }
      const auto [first, n, width] = blocks.at(unit);
      for (int64_t position = 0; position < (prefix ? serial : 1); ++position) {
        set_serial(position);
        frame->run(first, n, width);
        frame->store(n);
      }
    }
    const int64_t found = frame->fault;
    frames.give(std::move(frame));
    return found;
  };
  // Waking a thread costs some microseconds: worth it for reductions, and for many elements.
  const bool is_small = program.numel < 4 * lanes || (program.scopes.size() == 1 && program.numel < 64 * lanes);
  if (tiles == 1 || is_small) {
    const int64_t found = run_units(0, units);
    return found ? describe(program, found) : Result<void>();
  }
  std::vector<int64_t> faults(static_cast<size_t>(tiles), 0);
  parallel_for(tiles, [&](int64_t tile) {
    faults[static_cast<size_t>(tile)] = run_units(tile * per_tile, std::min(units, (tile + 1) * per_tile));
  });
  for (const int64_t found : faults)
    if (found) return describe(program, found);
  return {};
}

Result<std::vector<LoopProgram>> compile_loops(const Meaning& meaning, const std::vector<Tensor>& operands,
                                               const std::vector<std::optional<Lying>>& results,
                                               const shape::Bindings& symbols) {
  Result<Sizes> sizes = sizes_of(meaning, symbols);
  if (!sizes) return sizes.error();
  IndexForms forms(meaning, sizes->integers);
  for (size_t i = 0; i < meaning.results.size(); ++i)
    for (size_t axis = 0; results[i] && axis < results[i]->sizes.size(); ++axis)
      forms.set_extent(meaning.results[i].variables[axis], results[i]->sizes[axis]);
  declare_reductions(meaning, forms);
  std::vector<LoopProgram> programs;
  std::vector<bool> done(meaning.results.size(), false);
  for (size_t i = 0; i < meaning.results.size(); ++i) {
    if (done[i] || !results[i]) continue;
    std::vector<int> together;
    for (size_t j = i; j < meaning.results.size(); ++j) {
      if (!results[j] || meaning.results[j].variables != meaning.results[i].variables || *results[j] != *results[i])
        continue;
      together.push_back(static_cast<int>(j));
      done[j] = true;
    }
    LoopCompiler compiler(meaning, operands, forms, sizes->integers, sizes->floats);
    auto program = compiler.nests(together, results[i]->sizes, results[i]->strides);
    if (!program) return program.error();
    programs.push_back(std::move(*program));
  }
  return programs;
}

Result<std::vector<Tensor>> run_loops(const Meaning& meaning, const std::vector<Tensor>& operands,
                                      const shape::Bindings& symbols) {
  if (has_complex(meaning)) return run_complex_loops(meaning, operands, symbols);
  if (auto ok = check_operands(meaning, operands); !ok) return ok.error();
  std::vector<Tensor> results;
  std::vector<std::optional<Lying>> lying;
  for (const opset::LoopNest& nest : meaning.results) {
    auto extents = extents_of(nest.type, symbols);
    if (!extents) return extents.error();
    results.push_back(Tensor::empty(nest.type.dtype, *extents));
    lying.push_back(Lying{results.back().sizes, results.back().strides});
  }

  if (meaning.scatter) {
    Result<Sizes> sizes = sizes_of(meaning, symbols);
    if (!sizes) return sizes.error();
    IndexForms forms(meaning, sizes->integers);
    const opset::Scatter& scatter = *meaning.scatter;
    std::vector<int64_t> extent;
    for (size_t i = 0; i < scatter.variables.size(); ++i) {
      extent.push_back(forms.interval(scatter.extents[i]).upper);
      forms.set_extent(scatter.variables[i], extent.back());
    }
    results[0] = cast(operands[static_cast<size_t>(scatter.base)], meaning.results[0].type.dtype);
    Tensor fresh = Tensor::empty(results[0].dtype, results[0].sizes);
    const Tensor rows = results[0].contiguous();
    std::copy_n(static_cast<const std::byte*>(rows.data()), rows.nbytes(),
                static_cast<std::byte*>(fresh.mutable_data()));
    results[0] = std::move(fresh);
    LoopCompiler compiler(meaning, operands, forms, sizes->integers, sizes->floats);
    auto program = compiler.scatter(extent);
    if (!program) return program.error();
    if (auto ok = run_scatter(*program, operands, results[0]); !ok) return ok.error();
    return results;
  }

  Result<std::vector<LoopProgram>> programs = compile_loops(meaning, operands, lying, symbols);
  if (!programs) return programs.error();
  const LoopData data = data_of(operands, results);
  for (const LoopProgram& program : *programs) {
    Idle<Frame> frames;
    if (auto ok = run_program(program, data, frames); !ok) return ok.error();
  }
  return results;
}

std::optional<Tensor> alias(const Meaning& meaning, const Tensor& operand, const shape::Bindings& symbols) {
  const opset::LoopNest& nest = meaning.results[0];
  const opset::Scalar& read = meaning.scalars[static_cast<size_t>(nest.value)];
  if (read.op != ScalarOp::read || read.dtype != nest.type.dtype) return std::nullopt;
  Result<Sizes> sizes = sizes_of(meaning, symbols);
  auto extents = extents_of(nest.type, symbols);
  if (!sizes || !extents) return std::nullopt;
  IndexForms forms(meaning, sizes->integers);
  for (size_t axis = 0; axis < extents->size(); ++axis) forms.set_extent(nest.variables[axis], (*extents)[axis]);
  LinearForm place;
  for (size_t axis = 0; axis < operand.sizes.size(); ++axis)
    place = sum(place, forms.form(read.operands[axis]), operand.strides[axis]);
  if (!forms.is_affine(place)) return std::nullopt;
  Tensor window = operand;
  window.offset += place.constant;
  window.sizes = *extents;
  window.strides.assign(extents->size(), 0);
  for (size_t axis = extents->size(); axis-- > 0;) {
    const auto term = place.terms.find(nest.variables[axis]);
    // An axis of size 1 has no stride of its own: the one that keeps the window contiguous if it is.
    if (term != place.terms.end())
      window.strides[axis] = term->second;
    else if ((*extents)[axis] <= 1)
      window.strides[axis] =
          axis + 1 < extents->size() ? window.strides[axis + 1] * std::max<int64_t>(window.sizes[axis + 1], 1) : 1;
  }
  return window;
}

}  // namespace atenon::reference
