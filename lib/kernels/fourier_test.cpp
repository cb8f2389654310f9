// Transforms of many lengths against the sums that define them, in double.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("transforms equal the sums that define them") {
  for (int64_t n : {1, 2, 3, 4, 5, 8, 12, 16, 30, 49, 64, 101, 131, 240, 262, 512, 864, 4192})
    for (int64_t axis : {0, 1})
      for (bool to_real : {false, true}) {
        CAPTURE(n);
        CAPTURE(axis);
        CAPTURE(to_real);
        // Lines of real numbers forward, of half spectra back; some elements are missing, and count as zero.
        const int64_t lines = n > 256      ? 3
                              : n % 3 == 0 ? 11
                                           : 41,
                      half = n / 2 + 1, given = to_real ? half : std::max<int64_t>(1, n - 1);
        auto sizes = [&](int64_t size) {
          return axis == 0 ? std::vector<int64_t>{size, lines} : std::vector<int64_t>{lines, size};
        };
        const Tensor parts = testing::numbers({given * lines * 2}, 5);
        Tensor x = Tensor::empty(to_real ? ScalarType::c64 : ScalarType::f32, sizes(given));
        std::memcpy(x.mutable_data(), parts.data(), x.nbytes());
        Tensor y = Tensor::zeros(to_real ? ScalarType::f32 : ScalarType::c64, sizes(to_real ? n : half));
        Call call;
        ir::Value* px = call.input(x);
        const std::vector<ir::SymInt> symbolic(y.sizes.begin(), y.sizes.end());
        std::vector<ir::Argument> arguments = {px, axis, n};
        if (!to_real) arguments.emplace_back(half);
        arguments.emplace_back(ir::SymFloat(to_real ? 1. : -1.));
        arguments.emplace_back(ir::SymFloat(0.5));
        ir::Node* node = call.body.add(to_real ? "atenon::real_dft" : "atenon::dft", std::move(arguments), {},
                                       {{"", ir::TensorMeta{y.dtype, symbolic}}});
        call.body.set_outputs({node->result()});
        REQUIRE(call.run(fourier(), y) == "");
        std::vector<double> cosines, sines;
        for (int64_t k = 0; k < n; ++k) {
          const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
          cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
        }
        const float *in = static_cast<const float*>(x.data()), *out = static_cast<const float*>(y.data());
        const int64_t step = axis == 0 ? lines : 1;
        double worst = 0;
        for (int64_t line = 0; line < lines; ++line)
          for (int64_t o = 0; o < y.sizes[static_cast<size_t>(axis)]; ++o) {
            double re = 0, im = 0;
            for (int64_t k = 0; k < given; ++k) {
              const double cosine = cosines[static_cast<size_t>(o * k % n)],
                           sine = (to_real ? 1 : -1) * sines[static_cast<size_t>(o * k % n)];
              const int64_t at = (axis == 0 ? line : line * given) + k * step;
              const double times = k == 0 || 2 * k == n ? 1 : 2;
              if (to_real)
                re += times * (in[2 * at] * cosine - (k == 0 ? 0 : in[2 * at + 1]) * sine);
              else
                re += in[at] * cosine, im += in[at] * sine;
            }
            const int64_t at = (axis == 0 ? line : line * y.sizes[1]) + o * step;
            worst = std::max(worst, std::abs((to_real ? out[at] : out[2 * at]) - 0.5 * re));
            if (!to_real) worst = std::max(worst, std::abs(out[2 * at + 1] - 0.5 * im));
          }
        // Rounding of log2(n) steps on sums of up to n numbers below 1.
        CHECK(worst < 1e-6 * std::sqrt(static_cast<double>(n)) * 4);
      }
}

}  // namespace atenon::kernels
