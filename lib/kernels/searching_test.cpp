// Searching by halves against looking at all: both sides, equal elements, NaN in either operand, one sequence for all
// lines and one for each, sequences of no and of one element, operands that do not lie in rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("searching finds where numbers belong, before or behind what is equal") {
  struct Case {
    std::vector<int64_t> sequence, x;
    ScalarType dtype, result;
    bool right, is_bucketize = false, is_turned = false;
    int64_t nans = 0;  // at the end of each sequence
  };
  const Case cases[] = {{{13}, {50}, ScalarType::f32, ScalarType::i64, false},
                        {{13}, {50}, ScalarType::f32, ScalarType::i64, true},
                        {{300}, {3, 7, 5000}, ScalarType::f32, ScalarType::i32, false},
                        {{16}, {}, ScalarType::i64, ScalarType::i64, true},
                        {{0}, {9}, ScalarType::f64, ScalarType::i64, true},
                        {{1}, {9}, ScalarType::i32, ScalarType::i32, false},
                        {{31}, {4, 33}, ScalarType::f64, ScalarType::i64, true, true},
                        {{4, 33}, {4, 33}, ScalarType::i32, ScalarType::i64, false},
                        {{3, 2, 40}, {3, 2, 9}, ScalarType::f32, ScalarType::i64, true},
                        {{3, 2, 40}, {3, 2, 9}, ScalarType::i64, ScalarType::i64, false, false, true},
                        {{13}, {50}, ScalarType::f32, ScalarType::i64, false, true, false, 1},
                        {{13}, {50}, ScalarType::f32, ScalarType::i32, true, false, false, 12},
                        {{13}, {50}, ScalarType::f64, ScalarType::i64, true, false, false, 13},
                        {{1}, {9}, ScalarType::f64, ScalarType::i64, false, false, false, 1},
                        {{2}, {70}, ScalarType::f32, ScalarType::i64, false, false, false, 1},
                        {{100}, {4, 33}, ScalarType::f64, ScalarType::i32, false, true, false, 37},
                        {{3, 2, 40}, {3, 2, 9}, ScalarType::f32, ScalarType::i64, true, false, true, 7}};
  for (const Case& c : cases) {
    CAPTURE(c.sequence);
    CAPTURE(c.x);
    CAPTURE(c.right);
    const auto filled = [&](const std::vector<int64_t>& sizes, uint32_t seed) {
      const Tensor numbers = testing::whole_numbers(sizes, seed);
      Tensor filled = Tensor::empty(c.dtype, sizes);
      for (int64_t i = 0; i < filled.numel(); ++i) filled.set(i, numbers.float_at(i));
      return filled;
    };
    Tensor sequence = filled(c.sequence, 3), x = filled(c.x, 5);
    if (is_floating(c.dtype) && x.numel() > 3) x.set(3, NAN);
    const int64_t n = c.sequence.back(), length = c.x.empty() ? 1 : c.x.back();
    for (int64_t first = 0; n > 0 && first < sequence.numel(); first += n) {
      std::vector<double> line;
      for (int64_t i = 0; i < n; ++i) line.push_back(sequence.float_at(first + i));
      std::sort(line.begin(), line.end());
      for (int64_t i = 0; i < n; ++i) sequence.set(first + i, i < n - c.nans ? line[static_cast<size_t>(i)] : NAN);
    }
    Tensor result = Tensor::zeros(c.result, c.x);
    const auto turned = [&](const Tensor& tensor) {
      return c.is_turned ? testing::laid_out(tensor, {2, 0, 1}) : tensor;
    };
    Call call;
    ir::Value *s = call.input(turned(sequence)), *v = call.input(turned(x));
    const ir::Argument right(ir::SymBool(c.right)), narrow(ir::SymBool(c.result == ScalarType::i32));
    const std::vector<ir::Named> keywords = {{"out_int32", narrow}, {"right", right}};
    const ir::TensorMeta meta = testing::meta_of(result);
    ir::Node* node = c.is_bucketize ? call.body.add("aten::bucketize.Tensor", {v, s}, keywords, {{"y", meta}})
                                    : call.body.add("aten::searchsorted.Tensor", {s, v}, keywords, {{"y", meta}});
    call.body.set_outputs({node->result()});
    REQUIRE(call.run(searching(), result) == "");
    for (int64_t i = 0; i < x.numel(); ++i) {
      const int64_t line = c.sequence.size() == 1 ? 0 : i / length;
      int64_t want = 0;  // the first that is not before the number
      for (const double number = x.float_at(i); want < n; ++want)
        if (const double met = sequence.float_at(line * n + want); c.right ? met > number : met >= number) break;
      CHECK(result.int_at(i) == want);
    }
  }
}

}  // namespace atenon::kernels
