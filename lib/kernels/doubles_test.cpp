// Products and convolutions of f64 against plain loops: sizes that fill no vector and no panel, more terms and rows
// than are done at once, batches, matrices that lie column by column, strides, dilation, padding, groups.
#include <doctest/doctest.h>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

namespace {

// Whole ones: sums of them are exact.
Tensor doubles_of(const std::vector<int64_t>& sizes, uint32_t seed) {
  return cast(testing::whole_numbers(sizes, seed), ScalarType::f64);
}

void apply(Call& call, const char* target, std::vector<ir::Argument> arguments, const Tensor& result) {
  call.body.set_outputs({call.body.add(target, std::move(arguments), {}, {{"y", testing::meta_of(result)}})->result()});
}

}  // namespace

TEST_CASE("products of f64 equal plain loops") {
  struct Case {
    const char* target;
    std::vector<int64_t> batch;
    int64_t m, n, k;
    bool has_bias = false, is_turned = false;  // a lies column by column
  };
  const Case cases[] = {
      {"aten::mm", {}, 4, 8, 1},
      {"aten::mm", {}, 7, 33, 5, false, true},
      {"aten::mm", {}, 200, 31, 129},
      {"aten::mm", {}, 13, 70, 300, false, true},
      {"aten::linear", {}, 5, 9, 130, true},
      {"aten::linear", {}, 385, 40, 3, true},
      {"aten::linear", {2, 3}, 5, 65, 17, false},
      {"aten::bmm", {3}, 6, 12, 20},
      {"aten::matmul", {2, 3}, 19, 21, 128, false, true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.target);
    CAPTURE(c.m);
    CAPTURE(c.n);
    CAPTURE(c.k);
    const bool is_linear = std::string(c.target) == "aten::linear";
    const auto in_batch = [&](int64_t rows, int64_t columns) {
      std::vector<int64_t> sizes = c.batch;
      sizes.insert(sizes.end(), {rows, columns});
      return sizes;
    };
    const int64_t rows = c.is_turned ? c.k : c.m, columns = c.is_turned ? c.m : c.k;
    const Tensor a = doubles_of(in_batch(rows, columns), 1),
                 b = doubles_of(is_linear ? std::vector<int64_t>{c.n, c.k} : in_batch(c.k, c.n), 2),
                 bias = doubles_of({c.n}, 3);
    Tensor result = Tensor::zeros(ScalarType::f64, in_batch(c.m, c.n));
    Call call;
    ir::Value* left = call.input(a);
    if (c.is_turned)
      left = call.body
                 .add("aten::transpose.int", {left, -2, -1}, {},
                      {{"t", testing::meta_of(Tensor::zeros(ScalarType::f64, in_batch(c.m, c.k)))}})
                 ->result();
    std::vector<ir::Argument> arguments{left, call.input(b)};
    if (c.has_bias) arguments.emplace_back(call.input(bias));
    apply(call, c.target, arguments, result);
    REQUIRE(call.run(double_products(), result) == "");
    int64_t wrong = 0;
    for (int64_t i = 0; i < result.numel(); ++i) {
      const int64_t place = i / c.n / c.m, row = i / c.n % c.m, column = i % c.n;
      double sum = c.has_bias ? bias.float_at(column) : 0;
      for (int64_t k = 0; k < c.k; ++k)
        sum += a.float_at(place * c.m * c.k + (c.is_turned ? k * c.m + row : row * c.k + k)) *
               b.float_at(is_linear ? column * c.k + k : (place * c.k + k) * c.n + column);
      wrong += result.float_at(i) != sum;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("convolutions of f64 equal plain loops") {
  struct Case {
    int64_t images, channels, outputs;
    std::vector<int64_t> size, filter, stride, padding, dilation;
    int64_t groups;
    bool has_bias;
  };
  const Case cases[] = {
      {1, 3, 4, {9}, {3}, {1}, {0}, {1}, 1, false},
      {2, 5, 7, {70}, {4}, {3}, {2}, {2}, 1, true},
      {1, 16, 200, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
      {2, 8, 12, {11, 40}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true},
      {3, 12, 8, {10, 13}, {3, 2}, {2, 1}, {1, 1}, {1, 3}, 2, true},
      {1, 2, 5, {4, 5, 6}, {2, 3, 3}, {1, 2, 1}, {1, 0, 2}, {2, 1, 1}, 1, false},
      {1, 4, 4, {3, 3}, {3, 3}, {1, 1}, {2, 2}, {1, 1}, 1, false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.size);
    CAPTURE(c.filter);
    const auto at_end = [](std::vector<int64_t> values, int64_t absent) {
      values.insert(values.begin(), 3 - values.size(), absent);
      return values;
    };
    const std::vector<int64_t> size = at_end(c.size, 1), filter = at_end(c.filter, 1), stride = at_end(c.stride, 1),
                               padding = at_end(c.padding, 0), dilation = at_end(c.dilation, 1);
    std::vector<int64_t> x_sizes{c.images, c.channels}, w_sizes{c.outputs, c.channels / c.groups},
        y_sizes{c.images, c.outputs}, out;
    for (size_t axis = 0; axis < 3; ++axis)
      out.push_back((size[axis] + 2 * padding[axis] - dilation[axis] * (filter[axis] - 1) - 1) / stride[axis] + 1);
    x_sizes.insert(x_sizes.end(), c.size.begin(), c.size.end());
    w_sizes.insert(w_sizes.end(), c.filter.begin(), c.filter.end());
    y_sizes.insert(y_sizes.end(), out.end() - static_cast<int64_t>(c.size.size()), out.end());
    const Tensor x = doubles_of(x_sizes, 1), w = doubles_of(w_sizes, 2), bias = doubles_of({c.outputs}, 3);
    Tensor result = Tensor::zeros(ScalarType::f64, y_sizes);
    Call call;
    const auto values = [](const std::vector<int64_t>& from) { return ir::ArgumentList(from.begin(), from.end()); };
    std::vector<ir::Argument> arguments{call.input(x), call.input(w)};
    arguments.push_back(c.has_bias ? ir::Argument(call.input(bias)) : ir::Argument());
    for (const std::vector<int64_t>* numbers : {&c.stride, &c.padding, &c.dilation})
      arguments.emplace_back(values(*numbers));
    for (ir::Argument& more :
         std::vector<ir::Argument>{ir::SymBool(false), values(std::vector<int64_t>(c.size.size(), 0)), c.groups})
      arguments.push_back(more);
    apply(call, "aten::convolution", arguments, result);
    REQUIRE(call.run(double_convolutions(), result) == "");
    const int64_t pixels = out[0] * out[1] * out[2], taps = filter[0] * filter[1] * filter[2],
                  inputs = c.channels / c.groups;
    int64_t wrong = 0;
    for (int64_t i = 0; i < result.numel(); ++i) {
      const int64_t image = i / pixels / c.outputs, output = i / pixels % c.outputs,
                    group = output / (c.outputs / c.groups);
      const int64_t at[3] = {i % pixels / out[2] / out[1], i % pixels / out[2] % out[1], i % out[2]};
      double sum = c.has_bias ? bias.float_at(output) : 0;
      for (int64_t term = 0; term < inputs * taps; ++term) {
        int64_t tap[3] = {term % taps / filter[2] / filter[1], term % taps / filter[2] % filter[1], term % filter[2]};
        int64_t place = image * c.channels + group * inputs + term / taps;
        bool is_inside = true;
        for (size_t axis = 0; axis < 3; ++axis) {
          const int64_t read = at[axis] * stride[axis] - padding[axis] + tap[axis] * dilation[axis];
          is_inside &= read >= 0 && read < size[axis];
          place = place * size[axis] + read;
        }
        if (is_inside) sum += x.float_at(place) * w.float_at(output * inputs * taps + term);
      }
      wrong += result.float_at(i) != sum;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("panels of f64 of all widths of vectors agree") {
  std::vector<const Lanes*> widths{&lanes_portable};
  if (lanes().name != lanes_portable.name) widths.push_back(&lanes_avx2);
  if (lanes().name == lanes_avx512.name) widths.push_back(&lanes_avx512);
  const int64_t most = 13, k = 9;
  const Tensor a = doubles_of({most, k}, 1), b = doubles_of({k, double_columns}, 2), start = doubles_of({most, 1}, 3);
  for (const Lanes* width : widths)
    for (int64_t rows = 1; rows <= most; ++rows)
      for (int64_t columns = 1; columns <= double_columns; ++columns)
        for (const bool adds : {false, true}) {
          std::vector<double> sums(static_cast<size_t>(rows * double_columns));
          for (size_t i = 0; i < sums.size(); ++i) sums[i] = start.float_at(static_cast<int64_t>(i) / double_columns);
          width->double_panel({.a = a.as<double>(),
                               .a_row = k,
                               .a_column = 1,
                               .rows = rows,
                               .k = k,
                               .b = b.as<double>(),
                               .columns = columns,
                               .adds = adds,
                               .sums = sums.data()});
          int64_t wrong = 0;
          for (int64_t i = 0; i < rows * columns; ++i) {
            double sum = adds ? start.float_at(i / columns) : 0;
            for (int64_t l = 0; l < k; ++l)
              sum += a.float_at(i / columns * k + l) * b.float_at(l * double_columns + i % columns);
            wrong += sums[static_cast<size_t>(i / columns * double_columns + i % columns)] != sum;
          }
          CHECK(wrong == 0);
        }
}

}  // namespace atenon::kernels
