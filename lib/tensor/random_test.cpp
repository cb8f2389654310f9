// Random numbers: digests of what PyTorch 2.13 fills tensors with after torch.manual_seed(7), and the generator's own
// laws.
#include "tensor/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "support/hash.h"

using namespace atenon;
using enum ScalarType;
using Kind = Distribution::Kind;

TEST_CASE("fills have PyTorch's bits, and skipping leaves the same generator") {
  const struct {
    Distribution distribution;
    ScalarType dtype;
    int64_t count;
    const char* digest;
    int64_t next;  // what torch.empty(1, dtype=torch.int64).random_() gives afterwards
  } rows[] = {
      {{.kind = Kind::uniform, .a = -0.3, .b = 2.5},
       f32,
       1000,
       "0fe2390515f82936a7da804e4506d242",
       8570676688701209309},
      {{.kind = Kind::uniform, .a = -0.3, .b = 2.5},
       f16,
       1000,
       "53b1706c17ee60c730d70a91cbbcfdf4",
       8570676688701209309},
      {{.kind = Kind::uniform, .a = -0.3, .b = 2.5},
       bf16,
       1000,
       "14ba4692246525c20a7c68882d1bba22",
       8570676688701209309},
      {{.kind = Kind::uniform, .a = 0, .b = 1}, f64, 1000, "f2c11de17fdef0f1426c75218da37e53", 1545576486291623000},
      {{.kind = Kind::uniform, .a = 0, .b = 1}, bf16, 1000, "7d0d1abbe1b457e6e39ea498c5f15d96", 8570676688701209309},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f32, 1, "5c429e80a7be63b00030809724b3b033", 8087222774582268115},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f32, 15, "e44b336bdd998b4ad6ce830ae8b2685f", 3936265012042116799},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f32, 16, "b2a311d72916c5562dd89df713d80d2b", 4951825274897609608},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f32, 17, "5007cbdd78b2ccb1fe20e14c7f2df210", 6382074284264547653},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f32, 31, "e27d8bcdc2056ab8bc71c79d56e4afaf", 5363639988753572612},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f32, 5000, "97e9b8c62375a9dc9c68ba6b3f7b23f4", 7589289589509944653},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f32, 10001, "8ef9a72fff3a8645b8ad4439d9e52054", 6625801216499425098},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f16, 7, "5f081d2d632104cd6540329bb5ba4ac0", 4951825274897609608},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f16, 16, "418e819ad5e80af8f87c690c0e1720a3", 4951825274897609608},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, f16, 1001, "67eda3f831272446b3a2dc409bfc5809", 293495358585023809},
      {{.kind = Kind::normal, .a = 0.5, .b = 1.7}, bf16, 33, "979983518e0a4d8844953864bd2a9640", 7547086317168392686},
      {{.kind = Kind::log_normal, .a = 0.1, .b = 0.5},
       f32,
       100,
       "d3729ebf4a15d57d55d03602c4fe7a2c",
       1277475184659069259},
      {{.kind = Kind::exponential, .a = 1.5}, f32, 1000, "5de78c287910412544f7cb3a70b05e76", 1545576486291623000},
      {{.kind = Kind::cauchy, .a = 0.1, .b = 2}, f32, 1000, "270092d2bf909a4673b1ea1425379a83", 1545576486291623000},
      {{.kind = Kind::geometric, .a = 0.1}, f32, 1000, "e82780045ecf6cb19272054aced68ee1", 1545576486291623000},
      {{.kind = Kind::bernoulli, .a = 0.3}, f32, 1000, "df52fa9b82c60a23c043ddc32707e166", 1545576486291623000},
      {{.kind = Kind::bernoulli, .a = 0.3}, i64, 1000, "f21fb272b74b70259f0704533ccf647a", 1545576486291623000},
      {{.kind = Kind::bernoulli, .a = 0.3}, boolean, 1000, "c1c7db0354b3ffd34b2e38ed50dea56d", 1545576486291623000},
      {{.kind = Kind::all_integers}, f32, 1000, "906952ae1aa56f1226fefcc8989c55b7", 8570676688701209309},
      {{.kind = Kind::all_integers}, f64, 1000, "e04c338845d55f79dc5b8c0c77e6c8d2", 1545576486291623000},
      {{.kind = Kind::all_integers}, f16, 1000, "4c6ecbf3c5dd21b5210f0bfae80031f8", 8570676688701209309},
      {{.kind = Kind::all_integers}, bf16, 1000, "5296152a24110c04f23ca3235fdbfd39", 8570676688701209309},
      {{.kind = Kind::all_integers}, u8, 1000, "600b05cb7c416e9286425de62e69f414", 8570676688701209309},
      {{.kind = Kind::all_integers}, i8, 1000, "234c1a9e0b10fcfcf01ec2055f31ee79", 8570676688701209309},
      {{.kind = Kind::all_integers}, i32, 1000, "60190cb05fcc9503b5b4f47558c89527", 8570676688701209309},
      {{.kind = Kind::all_integers}, i64, 1000, "30cc09b0076414cddbbd8e2a4dbbacf7", 1545576486291623000},
      {{.kind = Kind::all_integers}, boolean, 1000, "8d4965fc2b312ce12ce370d21d1b27ee", 8570676688701209309},
      {{.kind = Kind::integers, .low = -5, .range = 10},
       i64,
       1000,
       "189b5851299d26536571cc24bc7f8399",
       8570676688701209309},
      {{.kind = Kind::integers, .low = -5, .range = 268435455},
       i64,
       1000,
       "8e4ff876862e05ea5a67e4d872ed2d28",
       8570676688701209309},
      {{.kind = Kind::integers, .low = -5, .range = 268435456},
       i64,
       1000,
       "65fcd95df6d0aa3ddc7a31823787702a",
       1545576486291623000},
      {{.kind = Kind::integers, .low = -5, .range = 1099511627779},
       i64,
       1000,
       "955add5aa7a62d9832d357bc3f09d927",
       1545576486291623000},
      {{.kind = Kind::integers, .low = -5, .range = 1073741824},
       i32,
       1000,
       "59c24d1da2c8e8018070664e0643e53d",
       1545576486291623000},
      {{.kind = Kind::integers, .low = -5, .range = 100},
       f32,
       1000,
       "b4f289374314206f518a8027dbef5eaa",
       8570676688701209309},
      {{.kind = Kind::integers, .low = 0, .range = 50},
       u8,
       1000,
       "b7bd5f7d1c2431031bc27d1e6a084cb7",
       8570676688701209309},
      {{.kind = Kind::all_64_bits}, i64, 1000, "0744b5de570ae6fcef3b5449519f1a6b", 1545576486291623000},
  };
  for (const auto& row : rows) {
    CAPTURE(static_cast<int>(row.distribution.kind));
    CAPTURE(name_of(row.dtype));
    CAPTURE(row.count);
    Generator generator(7), skipped(7);
    Tensor tensor = Tensor::empty(row.dtype, {row.count});
    fill(generator, row.distribution, row.dtype, row.count, tensor.mutable_data());
    CHECK(xxh3_128(tensor.data(), tensor.nbytes()) == row.digest);
    skip(skipped, row.distribution, row.dtype, row.count);
    CHECK(skipped == generator);
    CHECK(static_cast<int64_t>(generator.draw64() & INT64_MAX) == row.next);
  }
}

TEST_CASE("double normals are within one unit in the last place") {
  const auto near = [](double a, double b) { return std::abs(a - b) <= std::abs(std::nextafter(b, 2 * b) - b); };
  double blocks[40], few[5];
  Generator generator(7);
  fill(generator, {.kind = Kind::normal}, f64, 40, blocks);
  generator.manual_seed(7);
  fill(generator, {.kind = Kind::normal}, f64, 5, few);
  const std::pair<double, double> rows[] = {
      {blocks[0], 0.066267539664499428}, {blocks[1], 0.046991555243924087}, {blocks[8], -0.80678154363679633},
      {blocks[15], -1.0492146121597965}, {blocks[16], 0.12877206565947644}, {blocks[39], -0.43939483943079871},
      {few[0], -0.1467950974849952},     {few[1], 0.78614129872353578},     {few[2], 0.9468216090039564},
      {few[3], -1.1143440212610307},     {few[4], 1.6907901257942333},
  };
  for (const auto& [ours, torch] : rows) CHECK_MESSAGE(near(ours, torch), ours << " and " << torch);
}

TEST_CASE("the generator") {
  Generator generator(7), wide((uint64_t{1} << 40) + 7);
  float x[4];
  fill(generator, {}, f32, 4, x);
  CHECK(x[0] == 0.5349225401878357f);
  CHECK(x[3] == 0.6568902730941772f);
  CHECK(wide.draw() == Generator(7).draw());  // only the low 32 bits of a seed count
  CHECK(wide.initial_seed() == (uint64_t{1} << 40) + 7);
  for (const int64_t count : {0, 1, 623, 624, 625, 100000}) {
    Generator drawn(3), skipped(3);
    for (int64_t i = 0; i < count; ++i) drawn.draw();
    skipped.skip(count);
    CHECK(drawn.draw() == skipped.draw());
  }
  Generator normal(1);
  normal.normal();
  CHECK(normal != Generator(1));
  const Generator snapshot = normal;
  CHECK(Generator(snapshot).normal() == normal.normal());  // the kept one
}

TEST_CASE("a lazy fill is made on first read, from the state of its time") {
  Generator generator(7), eager(7);
  const auto storage = lazy_fill(generator, {.kind = Kind::normal}, f32, 100);
  float expected[100];
  fill(eager, {.kind = Kind::normal}, f32, 100, expected);
  CHECK(storage->is_lazy());
  CHECK(generator == eager);
  generator.draw();
  CHECK(std::memcmp(storage->data(), expected, sizeof expected) == 0);
}

TEST_CASE("permutations and probabilities for each element") {
  Generator generator(7);
  const Tensor order = *random_permutation(generator, 10, i64);
  const int64_t expected[] = {5, 0, 3, 4, 1, 7, 9, 6, 8, 2};
  for (int i = 0; i < 10; ++i) CHECK(order.int_at(i) == expected[i]);
  CHECK(random_permutation(generator, 0, i64)->numel() == 0);
  CHECK(random_permutation(generator, 256, u8)->numel() == 256);
  CHECK(random_permutation(generator, 257, u8).failure().code == 801);

  Tensor p = Tensor::empty(f32, {12}), out = p;
  for (int i = 0; i < 12; ++i) p.set(i, i / 11.0);
  for (const auto& [dtype, ones] : {std::pair(f32, "000011111011"), std::pair(f64, "000000110111")}) {
    generator.manual_seed(7);
    out = Tensor::empty(f32, {12});
    fill_bernoulli(generator, cast(p, dtype), out);
    for (int i = 0; i < 12; ++i) CHECK(out.float_at(i) == ones[i] - '0');
  }
}
