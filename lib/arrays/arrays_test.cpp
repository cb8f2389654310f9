// Arrays: files written by NumPy 2, PyTorch 2.13 and safetensors, read and written back; and files that lie.
#include "arrays/arrays.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "arrays/json_reader.h"

using namespace atenon;
using namespace atenon::arrays;
namespace fs = std::filesystem;

namespace {

const std::string folder = "testdata/arrays/";

std::vector<Array> arrays_of(const std::string& name) {
  auto arrays = read(folder + name);
  if (!arrays) FAIL(arrays.failure().render("test"));
  return std::move(*arrays);
}

// "fc.weight f32[2,3] = 0 1 2 3 4 5"
std::string text_of(const Array& array) {
  std::string text = array.name + " " + name_of(array.tensor.dtype) + "[";
  for (const int64_t size : array.tensor.sizes) text += (text.back() == '[' ? "" : ",") + std::to_string(size);
  text += "] =";
  for (int64_t i = 0; i < std::min<int64_t>(array.tensor.numel(), 8); ++i) {
    char value[32];
    std::snprintf(value, sizeof value, " %g", array.tensor.float_at(i));
    text += value;
  }
  return text;
}

std::string text_of(const std::vector<Array>& arrays) {
  std::string text;
  for (const Array& array : arrays) text += text_of(array) + "\n";
  return text;
}

Contents contents_of(std::string text) {
  const auto owned = std::make_shared<std::string>(std::move(text));
  return {reinterpret_cast<std::byte*>(owned->data()), owned->size(), owned, false};
}

}  // namespace

TEST_CASE("files of other programs") {
  const struct {
    const char *file, *expected;
  } rows[] = {
      {"f32.npy", " f32[2,3] = 0 1 2 3 4 5\n"},
      {"fortran.npy", " i64[2,3] = 0 1 2 3 4 5\n"},
      {"big_endian.npy", " f64[2] = 1.5 -2\n"},
      {"scalar.npy", " bool[] = 1\n"},
      {"bf16.npy", " bf16[2] = 1.5 -2\n"},
      {"two.npz", "x i8[3] = 0 1 2\ny c64[1,1] = 1\n"},
      {"deflated.npz", "x f32[100,100] = 0 0 0 0 0 0 0 0\ny u8[5] = 0 1 2 3 4\n"},
      {"state.safetensors",
       "empty f32[0,3] =\nw f32[2,3] = 0 1 2 3 4 5\nb bf16[2] = 1.5 -2\nn\xC3\xA4me \"q\" bool[1] = 1\n"},
      {"state.pt",
       "fc.weight f32[2,3] = 0 1 2 3 4 5\ntied.weight f32[2,3] = 0 1 2 3 4 5\nfc.transposed f32[3,2] = 0 3 1 4 2 5\n"
       "half bf16[1] = 1.5\nflag bool[2] = 1 0\nsteps i64[] = 7\n"},
      {"legacy.pt",
       "fc.weight f32[2,3] = 0 1 2 3 4 5\ntied.weight f32[2,3] = 0 1 2 3 4 5\nfc.transposed f32[3,2] = 0 3 1 4 2 5\n"
       "half bf16[1] = 1.5\nflag bool[2] = 1 0\nsteps i64[] = 7\n"},
      {"checkpoint.pt", "model.w f32[2] = 1 1\nlist.0 f32[1] = 0\n"},
      {"evil.pt", "w f32[1] = 1\n"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.file);
    CHECK(text_of(arrays_of(row.file)) == row.expected);
  }
  CHECK(!fs::exists("/tmp/atenon-was-here"));  // what evil.pt would do in Python
  std::string names;
  for (const Array& array : arrays_of("module.pt")) names += array.name + " ";
  CHECK(names == "0.weight 0.bias 1.weight 1.bias 1.running_mean 1.running_var 1.num_batches_tracked ");
}

TEST_CASE("tensors that share a storage in a .pt file share it here") {
  for (const char* file : {"state.pt", "legacy.pt"}) {
    const std::vector<Array> arrays = arrays_of(file);
    CHECK(arrays[0].tensor.storage == arrays[1].tensor.storage);
    CHECK(arrays[0].tensor.storage == arrays[2].tensor.storage);
    CHECK(arrays[0].tensor.storage != arrays[3].tensor.storage);
  }
}

TEST_CASE("what is written reads back, and the same arrays give the same bytes") {
  char name[] = "/tmp/atenon-test-XXXXXX";
  const fs::path temporary = mkdtemp(name);
  std::vector<Array> all;
  for (const ScalarType dtype : all_scalar_types) {
    Tensor tensor = Tensor::empty(dtype, {2, 3});
    for (int i = 0; i < 6; ++i) tensor.set(i, i % 2);
    all.push_back({name_of(dtype), tensor});
  }
  Tensor transposed = all[2].tensor;
  transposed.sizes = {3, 2};
  transposed.strides = {1, 3};
  all.push_back({"transposed \"t\"", transposed});
  all.push_back({"empty", Tensor::empty(ScalarType::f32, {0, 4})});
  all.push_back({"rank 0", Tensor::scalar(3, ScalarType::f64)});

  const std::string npz = temporary / "all.npz", again = temporary / "again.npz";
  REQUIRE(write(npz, all));
  REQUIRE(write(again, all));
  CHECK(text_of(*read(npz)) == text_of(all));
  CHECK(read_contents(npz)->text() == read_contents(again)->text());

  CHECK(write(temporary / "x.safetensors", all).failure().message ==
        ".safetensors has no type for the c128 tensor 'c128'");
  std::erase_if(all, [](const Array& array) { return array.tensor.dtype == ScalarType::c128; });
  const std::string safetensors = temporary / "all.safetensors";
  REQUIRE(write(safetensors, all));
  auto back = read(safetensors);
  REQUIRE(back);
  const auto by_name = [](const Array& a, const Array& b) { return a.name < b.name; };
  std::sort(all.begin(), all.end(), by_name);
  std::sort(back->begin(), back->end(), by_name);
  CHECK(text_of(*back) == text_of(all));

  for (const Array& array : all) {
    const std::string npy = temporary / "one.npy";
    REQUIRE(write(npy, {{"", array.tensor}}));
    CHECK(text_of({"", (*read(npy))[0].tensor}) == text_of({"", array.tensor}));
  }
  CHECK(write(temporary / "x.npy", all).failure().code == 814);
  CHECK(write(temporary / "x.png", all).failure().code == 814);
  fs::remove_all(temporary);
}

TEST_CASE("our .npy is NumPy's, byte for byte") {
  char name[] = "/tmp/atenon-test-XXXXXX";
  const fs::path temporary = mkdtemp(name);
  for (const char* file : {"f32.npy", "scalar.npy", "bf16.npy"}) {
    REQUIRE(write(temporary / "x.npy", arrays_of(file)));
    CHECK(read_contents(temporary / "x.npy")->text() == read_contents(folder + file)->text());
  }
  fs::remove_all(temporary);
}

TEST_CASE("files that lie are refused") {
  const auto failure = [](const std::string& text) {
    auto arrays = parse(contents_of(text), "f");
    return arrays ? std::string("accepted") : arrays.failure().render("t");
  };
  const auto npy = [](const std::string& header) {
    return std::string("\x93NUMPY\x01", 7) + '\0' + static_cast<char>(header.size()) + '\0' + header;
  };
  const auto safetensors = [](const std::string& header) {
    return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "12345678";
  };
  const std::string shape_lies = "which its shape contradicts\n";
  const struct {
    std::string text, expected;
  } rows[] = {
      {"", "t: f: error[E0811]: this is no .npy, .npz, .safetensors or .pt file\n"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"),
       "t: f: error[E0812]: the .npy file has 0 bytes of data, " + shape_lies},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 4), }"),
       "t: f: error[E0812]: the .npy file has 0 bytes of data, " + shape_lies},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 0), }"),
       "t: f: error[E0812]: the .npy file has 0 bytes of data, " + shape_lies},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
       "t: f: error[E0813]: arrays of NumPy's type '|O' are not supported\n"},
      {npy("{'descr': '<f4', 'shape': (1,), }"), "t: f: error[E0812]: the .npy header cannot be read\n"},
      {npy("__import__('os').system('x')"), "t: f: error[E0812]: the .npy header cannot be read\n"},
      {safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"), "accepted"},
      {safetensors(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})"),
       "t: f: error[E0812]: the bytes of 'w' lie outside of the file, or its shape contradicts them\n"},
      {safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}})"),
       "t: f: error[E0812]: the bytes of 'w' lie outside of the file, or its shape contradicts them\n"},
      {safetensors(R"({"w":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})"),
       "t: f: error[E0813]: 'w' is of type F8, which is not supported\n"},
      {safetensors(
           R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
       "t: f: error[E0812]: two arrays are named 'w'\n"},
      {safetensors(R"({"w":[]})"), "t: f: error[E0812]: the .safetensors header does not describe 'w'\n"},
      {safetensors("{[[[[[[[["), "t: f: error[E0812]: the .safetensors header is no JSON object\n"},
      {std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{", 9), "t: f: error[E0812]: the .safetensors header is cut off\n"},
      {"PK\x03\x04 nothing else",
       "t: f: error[E0812]: the zip archive is cut off or damaged: its directory cannot be read\n"},
  };
  for (const auto& row : rows) CHECK(failure(row.text) == row.expected);
  CHECK(read(folder + "text.npy").failure().code == 813);
}

TEST_CASE("damaged and cut off files are errors, never crashes") {
  std::mt19937 random(3);
  for (const char* file :
       {"f32.npy", "two.npz", "deflated.npz", "state.safetensors", "state.pt", "legacy.pt", "module.pt"}) {
    const std::string whole(read_contents(folder + file)->text());
    const auto try_out = [&](std::string text) {
      auto arrays = parse(contents_of(std::move(text)), file);
      if (!arrays) return;
      for (const Array& array : *arrays) {
        if (array.tensor.numel() > 0) (void)array.tensor.float_at(array.tensor.numel() - 1);
      }
    };
    for (size_t size = 0; size < whole.size(); size += 7) {
      try_out(whole.substr(0, size));
      CHECK_MESSAGE(!parse(contents_of(whole.substr(0, size)), file), file << " cut off at " << size);
    }
    for (int i = 0; i < 3000; ++i) {
      std::string text = whole;
      for (int j = 0; j < 1 + i % 4; ++j) text[random() % text.size()] = static_cast<char>(random());
      try_out(std::move(text));
    }
  }
}

TEST_CASE("JSON as far as headers need it") {
  CHECK(json_string("a\"\\\n") == R"("a\"\\\u000a")");
  const auto text = [](const char* json) {
    const std::optional<Json> value = read_json(json);
    return value && value->as<std::string>() ? *value->as<std::string>() : "refused";
  };
  CHECK(text(R"("\u00e4\ud83d\ude00\n")") == "\xC3\xA4\xF0\x9F\x98\x80\n");
  for (const char* bad : {"\"", "\"\\x\"", "\"\\u12\"", "\"\\ud83d\"", "{\"a\" 1}", "[1,]", "[1", "1 2"})
    CHECK(text(bad) == "refused");
}
