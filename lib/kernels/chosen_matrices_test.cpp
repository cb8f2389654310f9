// Products with chosen matrices against three plain loops, on shapes and choices kept as data. Operands are small whole
// numbers, so that no tolerance is needed, and then others, whose sums depend on their order.
#include <doctest/doctest.h>

#include <algorithm>

#include "kernels/list.h"
#include "kernels/testing.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

using testing::Call;
using testing::list;

// How matrices are chosen for rows.
enum class Choice { sorted, mixed, all_of_one, outside };

Tensor choices(Choice choice, int64_t rows, int64_t matrices, ScalarType dtype) {
  Tensor chosen = Tensor::empty(dtype, {rows});
  for (int64_t i = 0; i < rows; ++i) {
    int64_t matrix = matrices - 1;
    if (choice == Choice::sorted) matrix = i * matrices / rows / 2 * 2;  // every other one
    if (choice == Choice::mixed) matrix = i / 3 * 7 % matrices;          // neighbours may have the same
    if (choice == Choice::outside) matrix = i * 5 % (3 * matrices) - matrices;
    chosen.set(i, static_cast<double>(matrix));
  }
  return chosen;
}

// How the stack lies.
enum class Lies { in_panels, in_bfloat_panels, in_half_panels, in_rows, in_columns };

struct Case {
  int64_t rows, inner, outer, matrices;
  Choice choice;
  Lies lies;
  int epilogue = 0;  // 1: relu, and a number for each row; 2: a residual
  ScalarType dtype = ScalarType::i64;
};

constexpr Case cases[] = {
    {1, 8, 5, 3, Choice::sorted, Lies::in_panels},
    {2, 70, 130, 8, Choice::mixed, Lies::in_panels, 1},
    {50, 67, 64, 4, Choice::sorted, Lies::in_panels},
    {50, 67, 150, 4, Choice::mixed, Lies::in_panels, 1},
    {50, 67, 150, 4, Choice::mixed, Lies::in_panels, 2, ScalarType::i32},
    {700, 40, 90, 2, Choice::all_of_one, Lies::in_panels, 2},
    {700, 40, 200, 3, Choice::mixed, Lies::in_panels},
    {30, 40, 90, 5, Choice::outside, Lies::in_panels, 1},
    {50, 1100, 90, 4, Choice::mixed, Lies::in_bfloat_panels, 1},
    {50, 70, 200, 4, Choice::sorted, Lies::in_half_panels},
    {300, 70, 200, 4, Choice::mixed, Lies::in_rows, 1},
    {3, 70, 200, 4, Choice::sorted, Lies::in_columns, 2},
    {300, 70, 200, 4, Choice::mixed, Lies::in_columns, 0, ScalarType::i32},
    {20, 1, 1, 4, Choice::mixed, Lies::in_panels},
};

// "" or what went wrong; with `is_turned` x lies column by column.
std::string compute(const Case& at, bool is_turned, bool is_whole, Tensor& result, Tensor* expected = nullptr) {
  const auto numbers = [&](std::vector<int64_t> sizes, uint32_t seed) {
    return is_whole ? testing::whole_numbers(std::move(sizes), seed) : testing::numbers(std::move(sizes), seed);
  };
  const bool is_transposed = at.lies == Lies::in_columns || at.lies == Lies::in_half_panels;
  Tensor x = numbers({at.rows, at.inner}, 1);
  const Tensor w = numbers(
      is_transposed ? std::vector{at.matrices, at.outer, at.inner} : std::vector{at.matrices, at.inner, at.outer}, 2);
  const Tensor chosen = choices(at.choice, at.rows, at.matrices, at.dtype),
               other = numbers({at.rows, at.epilogue == 1 ? 1 : at.outer}, 3);
  if (expected)
    for (int64_t i = 0; i < at.rows; ++i) {
      const int64_t matrix = std::clamp<int64_t>(chosen.int_at(i), 0, at.matrices - 1);
      for (int64_t j = 0; j < at.outer; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < at.inner; ++k) {
          const int64_t place = is_transposed ? j * at.inner + k : k * at.outer + j;
          sum += x.float_at(i * at.inner + k) * w.float_at(matrix * at.inner * at.outer + place);
        }
        if (at.epilogue == 1) sum = std::max(sum, 0.0) * other.float_at(i);
        if (at.epilogue == 2) sum += other.float_at(i * at.outer + j);
        expected->set(i * at.outer + j, sum);
      }
    }
  if (is_turned) x = testing::laid_out(x, {1, 0});
  const std::vector<int64_t> sizes = {at.rows, at.outer};
  Call call;
  ir::Value *px = call.input(x), *pc = call.input(chosen), *po = call.input(other), *pw = call.weight(w);
  if (is_transposed) pw = call.apply("aten::permute", {pw, list({0, 2, 1})}, {at.matrices, at.inner, at.outer});
  ir::Value* y = call.apply("atenon::product_by_row", {px, pw, pc}, sizes);
  if (at.epilogue == 1) y = call.apply("aten::mul.Tensor", {call.apply("aten::relu", {y}, sizes), po}, sizes);
  if (at.epilogue == 2) y = call.apply("aten::add.Tensor", {y, po}, sizes);
  call.body.set_outputs({y});
  const bool is_packed = at.lies != Lies::in_rows && at.lies != Lies::in_columns;
  if (is_packed) {
    call.site.body = &call.body;
    call.site.results = {{result.dtype, result.sizes, result.strides}};
    const bool is_half = at.lies != Lies::in_panels;
    const auto layout =
        is_half ? chosen_matrices().half_layout(call.site, 3) : chosen_matrices().weight_layout(call.site, 3);
    if (!layout) return "no layout";
    call.store_weight(*layout,
                      at.lies == Lies::in_bfloat_panels ? ScalarType::bf16
                      : is_half                         ? ScalarType::f16
                                                        : ScalarType::f32,
                      3);
  }
  return call.run(chosen_matrices(), result);
}

}  // namespace

TEST_CASE("products with chosen matrices equal plain loops, with the same bits for any number of threads") {
  for (const Case& at : cases)
    for (bool is_turned : {false, true}) {
      CAPTURE(&at - cases);
      CAPTURE(is_turned);
      Tensor expected = Tensor::zeros(ScalarType::f32, {at.rows, at.outer}),
             alone = Tensor::zeros(ScalarType::f32, {at.rows, at.outer});
      for (int count : {1, 2, 8}) {
        CAPTURE(count);
        set_threads(count);
        Tensor result = Tensor::zeros(ScalarType::f32, {at.rows, at.outer});
        REQUIRE(compute(at, is_turned, true, result, &expected) == "");
        CHECK(testing::difference(result, expected) == 0);
        REQUIRE(compute(at, is_turned, false, count == 1 ? alone : result) == "");
        if (count > 1) CHECK(testing::difference(result, alone) == 0);
      }
      set_threads(0);
    }
}

}  // namespace atenon::kernels
