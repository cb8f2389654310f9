// Sorting, and the first of what it gives, against std::stable_sort, topk against move_first: equal elements, NaN, both
// orders, lines side by side and apart.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "kernels/list.h"
#include "kernels/testing.h"
#include "tensor/largest.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("sorting keeps the order of equal elements, topk that of move_first, and NaN is last") {
  struct Case {
    int64_t n, k;  // k 0: all, sorted
    ScalarType dtype;
    bool descending, is_sorting = false;  // the first k of it
  };
  const Case cases[] = {{1, 0, ScalarType::f32, false},          {7, 0, ScalarType::f32, true},
                        {300, 0, ScalarType::f32, false},        {300, 0, ScalarType::f32, true},
                        {300, 5, ScalarType::f32, true},         {300, 200, ScalarType::f32, false},
                        {300, 0, ScalarType::i32, true},         {50, 0, ScalarType::i64, false},
                        {300, 0, ScalarType::f64, true},         {300, 9, ScalarType::f64, false},
                        {300, 300, ScalarType::f32, true},       {3000, 100, ScalarType::f32, true},
                        {3000, 4, ScalarType::f32, false},       {2000, 30, ScalarType::i32, false},
                        {64, 8, ScalarType::i64, true},          {3000, 9, ScalarType::f32, false, true},
                        {3000, 20, ScalarType::i64, true, true}, {40, 30, ScalarType::f32, true, true},
                        {300, 9, ScalarType::i32, false, true}};
  for (const Case& c : cases)
    for (int64_t axis : {0, 1}) {
      CAPTURE(c.n);
      CAPTURE(c.k);
      CAPTURE(axis);
      const int64_t lines = 20, k = c.k > 0 ? c.k : c.n;
      const std::vector<int64_t> sizes = axis == 0 ? std::vector{c.n, lines} : std::vector{lines, c.n};
      Tensor x = Tensor::empty(c.dtype, sizes);
      const Tensor numbers = testing::whole_numbers(sizes, 7);
      for (int64_t i = 0; i < x.numel(); ++i) {
        const double number = numbers.float_at(i);
        x.set(i, !is_floating(c.dtype) ? number : number == 3 ? NAN : number == 0 && i % 2 ? -0.0 : number);
      }
      for (int which : {0, 1}) {
        Call call;
        ir::Value* px = call.input(x);
        std::vector<int64_t> out = sizes;
        out[static_cast<size_t>(axis)] = k;
        const std::vector<ir::SymInt> sym(out.begin(), out.end());
        ir::Node* node =
            c.is_sorting
                ? call.body.add("atenon::sort_first", {px, k, axis, ir::Argument(ir::SymBool(c.descending))}, {},
                                {{"v", ir::TensorMeta{c.dtype, sym}}, {"i", ir::TensorMeta{ScalarType::i64, sym}}})
            : c.k > 0
                ? call.body.add("aten::topk", {px, k, axis, ir::Argument(ir::SymBool(c.descending))}, {},
                                {{"v", ir::TensorMeta{c.dtype, sym}}, {"i", ir::TensorMeta{ScalarType::i64, sym}}})
                : call.body.add("aten::sort", {px, axis, ir::Argument(ir::SymBool(c.descending))}, {},
                                {{"v", ir::TensorMeta{c.dtype, sym}}, {"i", ir::TensorMeta{ScalarType::i64, sym}}});
        call.body.set_outputs({node->result(static_cast<size_t>(which))});
        Tensor result = Tensor::zeros(which == 0 ? c.dtype : ScalarType::i64, out);
        REQUIRE(call.run(sorting(), result) == "");
        const int64_t step = axis == 0 ? lines : 1, line_step = axis == 0 ? 1 : c.n;
        const int64_t result_line = axis == 0 ? 1 : k;
        for (int64_t line = 0; line < lines; ++line) {
          std::vector<int64_t> order(static_cast<size_t>(c.n));
          std::iota(order.begin(), order.end(), 0);
          auto at = [&](int64_t i) { return x.float_at(line * line_step + i * step); };
          const auto before = [&](int64_t a, int64_t b) {
            if (c.descending) return std::isnan(at(a)) ? !std::isnan(at(b)) : at(a) > at(b);
            return std::isnan(at(b)) ? !std::isnan(at(a)) : at(a) < at(b);
          };
          if (c.k > 0 && !c.is_sorting)
            move_first(order.data(), k, c.n, true, before);
          else
            std::stable_sort(order.begin(), order.end(), before);
          for (int64_t i = 0; i < k; ++i) {
            const double got = result.float_at(line * result_line + i * step),
                         want = which == 1 ? static_cast<double>(order[static_cast<size_t>(i)])
                                           : at(order[static_cast<size_t>(i)]);
            CHECK((got == want || (std::isnan(got) && std::isnan(want))));
          }
        }
      }
    }
}

}  // namespace atenon::kernels
