// The C functions on a small lowered program, from memory.
#include <doctest/doctest.h>

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <list>
#include <new>
#include <string>
#include <vector>

#include "program/program_file.h"
#include "run/atenon.h"
#include "run/wide_linear.h"
#include "text/text.h"

namespace {

// Of all threads, while it counts.
std::atomic<bool> counts = false;
std::atomic<int> allocations = 0, locks = 0;
std::atomic<int> failing = 0;  // which allocation fails

}  // namespace

// All of this test binary's; malloc itself stays as it is, for the sanitizers.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (counts && ++allocations == failing) return nullptr;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#ifdef __clang__
constexpr bool sees_locks = false;  // its sanitizers have this function themselves
#else
constexpr bool sees_locks = true;
// std::mutex is locked by it.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto lock = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counts) ++locks;
  return lock(mutex);
}
#endif

namespace atenon::run {

namespace {

const char* const lowered = R"text(program 1.0
opset "aten" 1

entry "forward"
  symbol b: 1..8 hint 2 from "x[0]"
  input %w: parameter "w"
  input %x: user_input "x"
  output user_output "y"
  input_tree (x: *)
  output_tree {y: *}
  annotate {slots=[], arena=0}
  graph(%w: f32[3, 2], %x: f32[b, 2])
    %y: f32[b, 3] = atenon::call(@linear, %x, %w) {kernel="panels", slots=[-1]}
    return (%y)
  subgraph @linear(%x: f32[b, 2], %w: f32[3, 2])
    %linear: f32[b, 3] = aten::linear(%x, %w)
    return (%linear)

weight "w": f32[3, 2] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
)text";

atenon_status load(const std::string& text, atenon_session** session, const char* entry = nullptr) {
  static std::list<std::string> programs;  // sessions read them in place
  auto program = text::parse(text, "test");
  REQUIRE(program);
  auto bytes = program::serialize(*program);
  REQUIRE(bytes);
  const std::string& kept = programs.emplace_back(std::move(*bytes));
  const atenon_options options = {entry, "opsets"};
  return atenon_load_memory(kept.data(), kept.size(), &options, session, nullptr);
}

}  // namespace

TEST_CASE("a program runs from C") {
  atenon_session* session = nullptr;
  char* message = nullptr;
  REQUIRE(load(lowered, &session) == ATENON_OK);
  CHECK(atenon_input_count(session) == 1);
  CHECK(std::string(atenon_input_name(session, 0)) == "x");
  CHECK(atenon_find_input(session, "x") == 0);
  CHECK(atenon_find_output(session, "0") == 0);
  CHECK(atenon_find_output(session, "z") == -1);
  atenon_dtype dtype = ATENON_BOOL;
  int64_t sizes[2] = {0, 0};
  CHECK(atenon_input_type(session, 0, &dtype, sizes, 2) == 2);
  CHECK(dtype == ATENON_F32);
  CHECK(sizes[0] == -1);
  CHECK(sizes[1] == 2);

  const int64_t x_sizes[] = {2, 2};
  int64_t y_sizes[] = {2, 3};
  float x_data[] = {1, 0, 0, 1}, y_data[6] = {};
  atenon_tensor x = {ATENON_F32, 2, x_sizes, x_data}, y = {ATENON_F32, 2, y_sizes, y_data};
  int rank = 0;
  CHECK(atenon_output_sizes(session, &x, 1, 0, sizes, 2, &rank, &message) == ATENON_OK);
  CHECK(rank == 2);
  CHECK(sizes[0] == 2);
  CHECK(sizes[1] == 3);
  REQUIRE(atenon_run(session, &x, 1, &y, 1, &message) == ATENON_OK);
  CHECK(std::vector<float>(y_data, y_data + 6) == std::vector<float>{1, 3, 5, 2, 4, 6});

  // Sizes that were seen before: nothing is allocated.
  x_data[0] = 2;
  allocations = 0;
  counts = true;
  const atenon_status again = atenon_run(session, &x, 1, &y, 1, &message);
  counts = false;
  CHECK(again == ATENON_OK);
  CHECK(allocations == 0);
  CHECK(std::vector<float>(y_data, y_data + 6) == std::vector<float>{2, 6, 10, 2, 4, 6});

  const int64_t impossible[] = {int64_t{1} << 62, 8};
  const atenon_tensor huge = {ATENON_F32, 2, impossible, x_data}, negative = {ATENON_F32, -1, x_sizes, x_data};
  for (const atenon_tensor* wrong : {&huge, &negative}) {
    CHECK(atenon_run(session, wrong, 1, &y, 1, nullptr) == ATENON_USAGE);
    CHECK(atenon_output_sizes(session, wrong, 1, 0, sizes, 2, &rank, nullptr) == ATENON_USAGE);
  }
  CHECK(atenon_run(session, &x, 0, &y, 1, nullptr) == ATENON_USAGE);  // though a plan for these sizes is there
  atenon_tensor unset_x = {ATENON_F32, 2, x_sizes, nullptr}, unset_y = {ATENON_F32, 2, y_sizes, nullptr};
  CHECK(atenon_output_sizes(session, &unset_x, 1, 0, sizes, 2, &rank, nullptr) == ATENON_OK);
  CHECK(atenon_run(session, &unset_x, 1, &y, 1, nullptr) == ATENON_USAGE);
  CHECK(atenon_run(session, &x, 1, &unset_y, 1, nullptr) == ATENON_USAGE);

  y_sizes[1] = 4;
  CHECK(atenon_run(session, &x, 1, &y, 1, &message) == ATENON_VIOLATED);
  CHECK(std::string(message) == "atenon: error[E0603]: output 'y' is f32[2, 3], and there is room for f32[2, 4]\n");
  atenon_free_message(message);
  atenon_free(session);
}

TEST_CASE("a call on several threads allocates and locks nothing") {
  atenon_session* session = nullptr;
  REQUIRE(load(wide_linear(64), &session) == ATENON_OK);
  atenon_set_threads(3);
  const int64_t x_sizes[] = {64, 128}, w_sizes[] = {512, 128}, y_sizes[] = {64, 512};
  std::vector<float> x(64 * 128, 1), w(512 * 128, 1), y(64 * 512);
  const atenon_tensor inputs[] = {{ATENON_F32, 2, x_sizes, x.data()}, {ATENON_F32, 2, w_sizes, w.data()}};
  atenon_tensor output = {ATENON_F32, 2, y_sizes, y.data()};
  for (const bool is_first : {true, false}) {  // the first run makes a plan
    allocations = locks = 0;
    counts = true;
    const atenon_status status = atenon_run(session, inputs, 2, &output, 1, nullptr);
    counts = false;
    CHECK(status == ATENON_OK);
    CHECK((allocations > 0) == is_first);
    CHECK((locks > 0) == (is_first && sees_locks));
  }
  CHECK(y == std::vector<float>(64 * 512, 128));
  atenon_set_threads(0);
  atenon_free(session);
}

TEST_CASE("a call allocates nothing, whatever it returns, keeps and how much of it") {
  constexpr size_t many = 40;  // inputs, which are returned, too
  std::string specs, leaves, values, types;
  for (size_t i = 0; i < many; ++i) {
    const std::string x = "x" + std::to_string(i);
    specs += "  input %" + x + ": user_input \"" + x + "\"\n";
    leaves += (i > 0 ? ", " : "") + x + ": *";
    values += ", %" + x;
    types += ", %" + x + ": f32[2, 2]";
  }
  std::string outputs;
  for (const char* name : {"old", "y", "y2", "turned", "part", "n", "half", "flag", "none"})
    outputs += std::string("  output user_output \"") + name + "\"\n";
  for (size_t i = 0; i < many; ++i) outputs += "  output user_output \"same" + std::to_string(i) + "\"\n";
  std::string output_leaves;
  for (size_t i = 0; i < 9 + many; ++i) output_leaves += i > 0 ? ", *" : "*";
  atenon_session* session = nullptr;
  REQUIRE(load(R"text(program 1.0
opset "aten" 1

entry "forward"
  input %w: parameter "w"
  input %last: buffer "last"
)text" + specs + R"text(  input %n: user_input "n"
  output buffer_mutation "last"
)text" + outputs + "  input_tree (" +
                   leaves + ", n: *)\n  output_tree (" + output_leaves + R"text()
  annotate {slots=[], arena=0}
  graph(%w: f32[3, 2], %last: f32[2, 3])text" +
                   types + R"text(, %n: float)
    %y: f32[2, 3] = atenon::call(@linear, %x0, %w) {kernel="panels", slots=[-1]}
    %t: f32[3, 2] = atenon::call(@turn, %y) {kernel="alias", slots=[-1], strides=[[1, 3]], offset=[0]}
    %p: f32[2, 2] = atenon::call(@part, %y) {kernel="alias", slots=[-1], strides=[[3, 1]], offset=[1]}
    return (%y, %last, %y, %y, %t, %p, %n, 0.5, true, None)text" +
                   values + R"text()
  subgraph @linear(%x: f32[2, 2], %w: f32[3, 2])
    %linear: f32[2, 3] = aten::linear(%x, %w)
    return (%linear)
  subgraph @part(%y: f32[2, 3])
    %slice: f32[2, 2] = aten::slice.Tensor(%y, 1, 1, 3)
    return (%slice)
  subgraph @turn(%y: f32[2, 3])
    %t: f32[3, 2] = aten::t(%y)
    return (%t)

weight "w": f32[3, 2] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
weight "last": f32[2, 3] = [[-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]]
)text",
               &session) == ATENON_OK);

  const int64_t square[] = {2, 2}, wide[] = {2, 3}, high[] = {3, 2};
  std::vector<std::vector<float>> x(many, std::vector<float>(4)), same = x;
  std::vector<float> old(6), y(6), y2(6), turned(6), part(4);
  double n_in = 0, n = 1, half = 0;
  bool flag = false;
  int64_t none = -1;
  std::vector<atenon_tensor> inputs,
      results = {
          {ATENON_F32, 2, wide, old.data()},    {ATENON_F32, 2, wide, y.data()},      {ATENON_F32, 2, wide, y2.data()},
          {ATENON_F32, 2, high, turned.data()}, {ATENON_F32, 2, square, part.data()}, {ATENON_F64, 0, nullptr, &n},
          {ATENON_F64, 0, nullptr, &half},      {ATENON_BOOL, 0, nullptr, &flag},     {ATENON_I64, 0, nullptr, &none}};
  for (size_t i = 0; i < many; ++i) {
    inputs.push_back({ATENON_F32, 2, square, x[i].data()});
    results.push_back({ATENON_F32, 2, square, same[i].data()});
  }
  inputs.push_back({ATENON_F64, 0, nullptr, &n_in});

  std::vector<float> last(6, -1);
  // A plan for each number, bit for bit.
  for (const auto& [number, is_new] : std::initializer_list<std::pair<double, bool>>{
           {0.0, true}, {0.0, false}, {-0.0, true}, {-0.0, false}, {2.5, true}, {2.5, false}, {0.0, false}}) {
    n_in = number;
    for (size_t i = 0; i < many; ++i) x[i] = {last[0] + 2, 0, 0, static_cast<float>(i)};
    allocations = 0;
    counts = true;
    const atenon_status status =
        atenon_run(session, inputs.data(), inputs.size(), results.data(), results.size(), nullptr);
    counts = false;
    REQUIRE(status == ATENON_OK);
    CHECK((allocations > 0) == is_new);
    const float a = x[0][0];
    CHECK(y == std::vector<float>{a, 3 * a, 5 * a, 0, 0, 0});
    CHECK(y2 == y);
    CHECK(turned == std::vector<float>{a, 0, 3 * a, 0, 5 * a, 0});
    CHECK(part == std::vector<float>{3 * a, 5 * a, 0, 0});
    CHECK(old == last);
    CHECK(same == x);
    CHECK(std::signbit(n) == std::signbit(number));
    CHECK(n == number);
    CHECK(half == 0.5);
    CHECK(flag);
    CHECK(none == 0);
    last = y;
  }
  atenon_free(session);
}

TEST_CASE("numbers pass from and to C as tensors of rank 0 of their types") {
  atenon_session* session = nullptr;
  REQUIRE(load(R"text(program 1.0

entry "forward"
  input user_input "scale" = 2.5
  input %n: user_input "n"
  output user_output "scale"
  output user_output "n"
  input_tree (scale: *, n: *)
  output_tree (*, *)
  graph(%n: int)
    return (2.5, %n)
)text",
               &session) == ATENON_OK);
  atenon_dtype dtype = ATENON_BOOL;
  CHECK(atenon_input_type(session, 0, &dtype, nullptr, 0) == 0);
  CHECK(dtype == ATENON_F64);
  CHECK(atenon_output_type(session, 0, &dtype, nullptr, 0) == 0);
  CHECK(dtype == ATENON_F64);

  double scale_in = 2.5, scale = 0;
  int64_t n_in = 3, n = 0;
  float half = 0.5;
  const atenon_tensor inputs[] = {{ATENON_F64, 0, nullptr, &scale_in}, {ATENON_I64, 0, nullptr, &n_in}};
  atenon_tensor outputs[] = {{ATENON_F64, 0, nullptr, &scale}, {ATENON_I64, 0, nullptr, &n}};
  int rank = -1;
  CHECK(atenon_output_sizes(session, inputs, 2, 0, nullptr, 0, &rank, nullptr) == ATENON_OK);
  CHECK(rank == 0);
  CHECK(atenon_run(session, inputs, 2, outputs, 2, nullptr) == ATENON_OK);
  CHECK(scale == 2.5);
  CHECK(n == 3);

  const atenon_tensor unset[] = {inputs[0], {ATENON_I64, 0, nullptr, nullptr}};
  CHECK(atenon_output_sizes(session, unset, 2, 0, nullptr, 0, &rank, nullptr) == ATENON_USAGE);

  const int64_t none[] = {0};
  const atenon_tensor fraction[] = {inputs[0], {ATENON_F32, 0, nullptr, &half}};
  CHECK(atenon_run(session, fraction, 2, outputs, 2, nullptr) == ATENON_VIOLATED);
  outputs[1] = {ATENON_I64, 1, none, nullptr};
  CHECK(atenon_run(session, inputs, 2, outputs, 2, nullptr) == ATENON_VIOLATED);
  atenon_free(session);
}

TEST_CASE("sizes that no memory has are an error, and nothing is thrown at C") {
  for (const char* size :
       {"4611686018427387904", "1152921504606846976"}) {  // of f32: 2^64 bytes, which wraps, and 2^62
    std::string text = R"text(program 1.0

entry "forward"
  output user_output "y"
  input_tree ()
  output_tree *
  graph()
    %y: f32[SIZE] = aten::ones([SIZE])
    return (%y)
)text";
    for (size_t at = 0; (at = text.find("SIZE")) != std::string::npos;) text.replace(at, 4, size);
    atenon_session* session = nullptr;
    if (load(text, &session) != ATENON_OK) continue;  // a file of such a size is not read either
    float room = 0;
    const int64_t sizes[] = {1};
    atenon_tensor y = {ATENON_F32, 1, sizes, &room};
    CHECK(atenon_run(session, nullptr, 0, &y, 1, nullptr) == ATENON_UNSUPPORTED);
    atenon_free(session);
  }
}

TEST_CASE("random numbers from C are those of the seed") {
  std::string nodes;
  SUBCASE("captured") { nodes = "%y: f32[3] = aten::rand([3])"; }
  SUBCASE("lowered") { nodes = "%y: f32[3] = atenon::call(@rand) {kernel=\"reference\", slots=[-1]}"; }
  SUBCASE("lowered in part") {
    nodes = "%r: f32[3] = atenon::call(@rand) {kernel=\"reference\"}\n    %y: f32[3] = aten::abs(%r)";
  }
  atenon_session* session = nullptr;
  REQUIRE(load(R"text(program 1.0
opset "aten" 1

entry "forward"
  output user_output "y"
  input_tree ()
  output_tree *
  annotate {slots=[], arena=0}
  graph()
    )text" + nodes +
                   R"text(
    return (%y)
  subgraph @rand()
    %rand: f32[3] = aten::rand([3])
    return (%rand)
)text",
               &session) == ATENON_OK);
  const int64_t sizes[] = {3};
  std::vector<float> first(3), second(3), again(3);
  const auto run = [&](std::vector<float>& numbers) {
    atenon_tensor y = {ATENON_F32, 1, sizes, numbers.data()};
    return atenon_run(session, nullptr, 0, &y, 1, nullptr);
  };
  CHECK(run(first) == ATENON_UNSUPPORTED);
  atenon_seed(session, 5);
  CHECK(run(first) == ATENON_OK);
  const int64_t fewer[] = {2};
  atenon_tensor small = {ATENON_F32, 1, fewer, second.data()};
  CHECK(atenon_run(session, nullptr, 0, &small, 1, nullptr) == ATENON_VIOLATED);  // and draws nothing
  CHECK(run(second) == ATENON_OK);
  CHECK(first[0] == doctest::Approx(0.8302519).epsilon(1e-6));  // PyTorch's
  CHECK(first != second);
  int allocations_of_a_run[2];
  for (const bool is_seeded : {false, true}) {  // another seed is no reason for another plan
    allocations = 0;
    counts = true;
    if (is_seeded) atenon_seed(session, 5);
    const atenon_status status = run(again);
    counts = false;
    CHECK(status == ATENON_OK);
    allocations_of_a_run[is_seeded] = allocations;
  }
  CHECK(allocations_of_a_run[0] == allocations_of_a_run[1]);
  CHECK(first == again);
  CHECK(run(again) == ATENON_OK);
  CHECK(second == again);
  atenon_seed(session, 5);
  for (atenon_status status = ATENON_USAGE; status != ATENON_OK;) {  // wherever memory ends, nothing is drawn
    ++failing;
    allocations = 0;
    counts = true;
    status = run(again);
    counts = false;
  }
  CHECK(failing > 1);
  failing = 0;
  CHECK(first == again);
  atenon_free(session);
}

TEST_CASE("sessions keep their buffers, and hand them over from C") {
  const auto entry = [](const std::string& name, bool reads, bool writes) {
    return "\nentry \"" + name + "\"\n" + (reads ? "  input %total: buffer \"total\"\n" : "") +
           "  input %x: user_input \"x\"\n" + (writes ? "  output buffer_mutation \"total\"\n" : "") +
           "  output user_output \"y\"\n  input_tree (x: *)\n  output_tree {y: *}\n  graph(" +
           (reads ? "%total: f32[1], " : "") +
           "%x: f32[1])\n    %sum: f32[1] = " + (reads ? "aten::add.Tensor(%total, %x)" : "aten::clone(%x)") +
           "\n    %y: f32[1] = aten::neg(%sum)\n" + "    return (" + (writes ? "%sum, " : "") + "%y)\n";
  };
  const std::string text = "program 1.0\nopset \"aten\" 1\n" + entry("first", true, true) + entry("then", true, true) +
                           entry("writes", false, true) + entry("reads", true, false) +
                           "\nweight \"total\": f32[1] = [10.0]\n";
  atenon_session *first = nullptr, *then = nullptr, *writes = nullptr, *reads = nullptr;
  REQUIRE(load(text, &first) == ATENON_OK);
  REQUIRE(load(text, &then, "then") == ATENON_OK);
  REQUIRE(load(text, &writes, "writes") == ATENON_OK);
  REQUIRE(load(text, &reads, "reads") == ATENON_OK);
  const auto add = [](atenon_session* session, float number) {
    const int64_t sizes[] = {1};
    float result = 0;
    const atenon_tensor x = {ATENON_F32, 1, sizes, &number};
    atenon_tensor y = {ATENON_F32, 1, sizes, &result};
    CHECK(atenon_run(session, &x, 1, &y, 1, nullptr) == ATENON_OK);
    return -result;
  };
  CHECK(add(first, 1) == 11);
  CHECK(add(first, 2) == 13);
  CHECK(add(then, 3) == 13);  // a session of its own
  CHECK(atenon_copy_state(then, first, nullptr) == ATENON_OK);
  CHECK(add(then, 3) == 16);
  CHECK(add(first, 1) == 14);
  CHECK(atenon_copy_state(then, nullptr, nullptr) == ATENON_OK);
  CHECK(add(then, 3) == 13);

  // One entry point writes what only another one reads.
  CHECK(add(reads, 1) == 11);
  CHECK(add(writes, 5) == 5);
  CHECK(atenon_copy_state(reads, writes, nullptr) == ATENON_OK);
  CHECK(add(reads, 1) == 6);
  CHECK(add(reads, 1) == 6);
  CHECK(atenon_copy_state(reads, nullptr, nullptr) == ATENON_OK);
  CHECK(add(reads, 1) == 11);

  // A run that fails for want of room has not been.
  const int64_t sizes[] = {1};
  float number = 1;
  double result = 7;
  const atenon_tensor x = {ATENON_F32, 1, sizes, &number};
  atenon_tensor y = {ATENON_F64, 1, sizes, &result};
  CHECK(atenon_run(first, &x, 1, &y, 1, nullptr) == ATENON_VIOLATED);
  CHECK(result == 7);
  CHECK(add(first, 1) == 15);

  atenon_session* other = nullptr;  // of another program, in which the buffer is larger
  std::string wider = text;
  for (size_t at = 0; (at = wider.find("f32[1]", at)) != std::string::npos;) wider.replace(at, 6, "f32[2]");
  wider.replace(wider.find("[10.0]"), 6, "[1.0, 2.0]");
  REQUIRE(load(wider, &other) == ATENON_OK);
  CHECK(atenon_copy_state(other, first, nullptr) == ATENON_USAGE);
  atenon_session* unlike = nullptr;  // whose buffer has another name
  std::string renamed = text;
  for (size_t at = 0; (at = renamed.find("\"total\"", at)) != std::string::npos;) renamed.replace(at, 7, "\"count\"");
  REQUIRE(load(renamed, &unlike) == ATENON_OK);
  CHECK(atenon_copy_state(unlike, first, nullptr) == ATENON_USAGE);
  for (atenon_session* session : {first, then, writes, reads, other, unlike}) atenon_free(session);
}

TEST_CASE("a planned run that fails has written no buffer") {
  atenon_session* session = nullptr;
  REQUIRE(load(R"text(program 1.0
opset "aten" 1

entry "forward"
  input %total: buffer "total"
  input %x: user_input "x"
  input %i: user_input "i"
  output buffer_mutation "total"
  output user_output "y"
  input_tree (x: *, i: *)
  output_tree {y: *}
  annotate {slots=[], arena=0}
  graph(%total: f32[2], %x: f32[2], %i: i64[1])
    %sum: f32[2] = atenon::call(@add, %total, %x) {kernel="reference", slots=[-1]}
    %y: f32[1] = atenon::call(@pick, %sum, %i) {kernel="reference", slots=[-1], indices=[[1, 0, 2, "y"]]}
    return (%sum, %y)
  subgraph @add(%total: f32[2], %x: f32[2])
    %sum: f32[2] = aten::add.Tensor(%total, %x)
    return (%sum)
  subgraph @pick(%sum: f32[2], %i: i64[1])
    %y: f32[1] = aten::index_select(%sum, 0, %i)
    return (%y)

weight "total": f32[2] = [10.0, 20.0]
)text",
               &session) == ATENON_OK);
  const int64_t two[] = {2}, one[] = {1};
  float x_data[] = {1, 2}, result = 0;
  const auto run = [&](int64_t i) {
    const atenon_tensor inputs[] = {{ATENON_F32, 1, two, x_data}, {ATENON_I64, 1, one, &i}};
    atenon_tensor y = {ATENON_F32, 1, one, &result};
    return atenon_run(session, inputs, 2, &y, 1, nullptr);
  };
  CHECK(run(2) == ATENON_VIOLATED);  // after the sum was computed
  CHECK(run(1) == ATENON_OK);
  CHECK(result == 22);
  CHECK(run(2) == ATENON_VIOLATED);
  atenon_seed(session, 1);                                           // with which plans are made anew
  for (atenon_status status = ATENON_USAGE; status != ATENON_OK;) {  // wherever memory ends
    ++failing;
    allocations = 0;
    counts = true;
    status = run(1);
    counts = false;
  }
  CHECK(failing > 1);
  failing = 0;
  CHECK(result == 24);
  CHECK(run(0) == ATENON_OK);
  CHECK(result == 13);
  atenon_free(session);
}

TEST_CASE("what is no program is refused from C") {
  atenon_session* session = nullptr;
  char* message = nullptr;
  CHECK(atenon_load_file("/no/such/file.atn", nullptr, &session, &message) == ATENON_USAGE);
  CHECK(session == nullptr);
  atenon_free_message(message);
}

TEST_CASE("meanings of another version are not taken for those known from C") {
  atenon_session* session = nullptr;
  REQUIRE(load(R"text(program 1.0
opset "aten" 7

entry "forward"
  output user_output "y"
  input_tree ()
  output_tree *
  graph()
    %y: f32[1] = aten::ones([1])
    return (%y)
)text",
               &session) == ATENON_OK);
  float room = 0;
  const int64_t sizes[] = {1};
  atenon_tensor y = {ATENON_F32, 1, sizes, &room};
  CHECK(atenon_run(session, nullptr, 0, &y, 1, nullptr) == ATENON_BAD_INPUT);
  atenon_free(session);
}

}  // namespace atenon::run
