// Tensors: promotion, casts at the edges, 16-bit floats exhaustively, storages of every kind.
#include "tensor/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <thread>

using namespace atenon;
using enum ScalarType;

TEST_CASE("names are found in every spelling") {
  for (const ScalarType type : all_scalar_types) {
    CHECK(scalar_type_named(name_of(type)) == type);
    CHECK(scalar_type_named(std::string("torch.") + torch_name_of(type)) == type);
  }
  CHECK(!scalar_type_named("f8"));
}

TEST_CASE("promotion is c10::promoteTypes") {
  // Rows and columns in the order of all_scalar_types; printed by torch.promote_types.
  const char* const table[] = {"f16  f32  f32  f64  f16  f16  f16  f16  f16  f16  c64  c128",  //
                               "f32  bf16 f32  f64  bf16 bf16 bf16 bf16 bf16 bf16 c64  c128",  //
                               "f32  f32  f32  f64  f32  f32  f32  f32  f32  f32  c64  c128",  //
                               "f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128",  //
                               "f16  bf16 f32  f64  u8   i16  i16  i32  i64  u8   c64  c128",  //
                               "f16  bf16 f32  f64  i16  i8   i16  i32  i64  i8   c64  c128",  //
                               "f16  bf16 f32  f64  i16  i16  i16  i32  i64  i16  c64  c128",  //
                               "f16  bf16 f32  f64  i32  i32  i32  i32  i64  i32  c64  c128",  //
                               "f16  bf16 f32  f64  i64  i64  i64  i64  i64  i64  c64  c128",  //
                               "f16  bf16 f32  f64  u8   i8   i16  i32  i64  bool c64  c128",  //
                               "c64  c64  c64  c128 c64  c64  c64  c64  c64  c64  c64  c128",  //
                               "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128"};
  for (const ScalarType a : all_scalar_types) {
    for (const ScalarType b : all_scalar_types) {
      const std::string expected = std::string(table[static_cast<size_t>(a)]).substr(static_cast<size_t>(b) * 5, 4);
      CHECK(expected.substr(0, expected.find(' ')) == name_of(promote(a, b)));
    }
  }
}

TEST_CASE("16-bit floats: every value survives, ties go to even") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float wide = half_to_float(half);
    if (!std::isnan(wide) && float_to_half(wide) != half) FAIL("half " << bits);
    if (std::isnan(wide) != ((half & 0x7FFF) > 0x7C00)) FAIL("half NaN " << bits);
    const float brain = bfloat16_to_float(half);
    if (!std::isnan(brain) && float_to_bfloat16(brain) != half) FAIL("bfloat16 " << bits);
  }
  struct Row {
    float value;
    uint16_t half, brain;
  };
  for (const Row& row :
       {Row{1.f, 0x3C00, 0x3F80}, Row{65519.f, 0x7BFF, 0x4780}, Row{65520.f, 0x7C00, 0x4780}, Row{0x1p-25f, 0, 0x3300},
        Row{0x1.8p-25f, 1, 0x3340}, Row{0x1.002p0f, 0x3C00, 0x3F80}, Row{0x1.006p0f, 0x3C02, 0x3F80},
        Row{0x1.01p0f, 0x3C04, 0x3F80}, Row{0x1.03p0f, 0x3C0C, 0x3F82}, Row{-INFINITY, 0xFC00, 0xFF80},
        Row{NAN, 0x7E00, 0x7FC0}, Row{3.4e38f, 0x7C00, 0x7F80}}) {
    CHECK(float_to_half(row.value) == row.half);
    CHECK(float_to_bfloat16(row.value) == row.brain);
  }
}

TEST_CASE("casts at the edges") {
  struct Row {
    double value;
    ScalarType to;
    int64_t expected;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Row& row :
       {Row{2.9, i32, 2}, Row{-2.9, i64, -2}, Row{300, u8, 44}, Row{-1, u8, 255}, Row{200, i8, -56},
        Row{3e9, i32, -2147483648}, Row{-2147483648.5, i32, -2147483648}, Row{1e30, i64, INT64_MIN},
        Row{nan, i64, INT64_MIN}, Row{nan, u8, 0}, Row{nan, boolean, 1}, Row{0.1, boolean, 1}, Row{-0.0, boolean, 0}}) {
    CAPTURE(row.value);
    CHECK(cast(Tensor::scalar(row.value, f64), row.to).int_at(0) == row.expected);
  }
  Tensor big = Tensor::zeros(i64, {1});
  big.set_int(0, INT64_MAX);
  CHECK(big.int_at(0) == INT64_MAX);
  CHECK(cast(big, f32).float_at(0) == 0x1p63);
  CHECK(cast(Tensor::scalar(65504, f32), c128).float_at(0) == 65504);
}

TEST_CASE("strides: transposed, overlapping, empty") {
  Tensor x = Tensor::empty(f32, {2, 3});
  for (int i = 0; i < 6; ++i) x.set(i, i);
  Tensor t = x;
  t.sizes = {3, 2};
  t.strides = {1, 3};
  CHECK(x.is_contiguous());
  CHECK(!t.is_contiguous());
  CHECK(t.float_at(1) == 3);
  const Tensor copy = t.contiguous();
  CHECK(copy.storage != x.storage);
  for (int i = 0; i < 6; ++i) CHECK(copy.float_at(i) == t.float_at(i));
  CHECK(cast(t, i16).int_at(5) == 5);
  Tensor broadcast = x;
  broadcast.sizes = {2, 2, 3};
  broadcast.strides = {0, 3, 1};
  CHECK(broadcast.contiguous().float_at(11) == 5);
  t.set(1, 30);  // through the view
  CHECK(x.float_at(3) == 30);
  Tensor none = x;
  none.sizes = {2, 0};
  none.strides = {7, 7};
  CHECK(none.is_contiguous());
  CHECK(none.numel() == 0);
  CHECK(contiguous_strides(std::vector<int64_t>{2, 0, 3}) == std::vector<int64_t>{3, 3, 1});
}

TEST_CASE("a lazy storage is filled once, on first read, by whichever thread comes first") {
  int fills = 0;
  auto storage = Storage::lazy(4, [&](void* data) { ++fills, *static_cast<int*>(data) = 42; });
  CHECK(storage->is_lazy());
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 4; ++i) readers.emplace_back([&] { (void)storage->data(); });
  }
  CHECK(fills == 1);
  CHECK(*static_cast<const int*>(storage->data()) == 42);
  auto dropped = Storage::lazy(4, [&](void*) { ++fills; });
  dropped->discard_pending();
  CHECK(dropped->data() != nullptr);
  CHECK(fills == 1);
}

TEST_CASE("bytes that must not be written are copied before the first write") {
  int shared = 7;
  auto view = Storage::view(&shared, sizeof shared, nullptr, false);
  view->set_digest("d");
  CHECK(view->data() == &shared);
  *static_cast<int*>(view->mutable_data()) = 8;
  CHECK(shared == 7);
  CHECK(*static_cast<const int*>(view->data()) == 8);
  CHECK(view->digest().empty());
  CHECK(Storage::absent(4, "d")->data() == nullptr);
  CHECK(Storage::allocate(0)->data() != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(Storage::zeros(3)->data()) % 64 == 0);
}
