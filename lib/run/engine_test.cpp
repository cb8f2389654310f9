// The engine on small programs in text form: planned and interpreted runs agree, checks name what is wrong, callers do
// not meet.
#include <doctest/doctest.h>

#include <thread>

#include "run/engine.h"
#include "run/wide_linear.h"
#include "support/parallel.h"
#include "text/text.h"

namespace atenon::run {

namespace {

// Arena, alias, in-place residual, an output that is an alias, an output that is an input.
const char* const lowered = R"text(program 1.0
opset "aten" 1

entry "forward"
  symbol b: 1..8 hint 2 from "x[0]"
  input %w: parameter "w"
  input %bias: parameter "bias"
  input %x: user_input "x"
  output user_output "product"
  output user_output "turned"
  output user_output "same"
  input_tree (x: *)
  output_tree {product: *, turned: *, same: *}
  assume b != 7  "seven is bad luck"
  annotate {slots=[12*b, 12*b], arena=24*b + 128}
  graph(%w: f32[3, 2], %bias: f32[3], %x: f32[b, 2])
    %h: f32[b, 3] = atenon::call(@linear, %x, %w, %bias) {kernel="onednn.matmul", slots=[0]}  @1
    %r: f32[b, 3] = atenon::call(@residual, %x, %w, %h) {kernel="onednn.matmul", slots=[0]}
    %t: f32[3, b] = atenon::call(@turn, %r) {kernel="alias", slots=[-1], strides=[[1, 3]], offset=[0]}
    %p: f32[3, 2] = atenon::call(@product, %t, %x) {kernel="onednn.matmul", slots=[-1]}
    return (%p, %t, %x)
  subgraph @linear(%x: f32[b, 2], %w: f32[3, 2], %bias: f32[3])
    %linear: f32[b, 3] = aten::linear(%x, %w, %bias)
    %relu: f32[b, 3] = aten::relu(%linear)
    return (%relu)
  subgraph @product(%t: f32[3, b], %x: f32[b, 2])
    %mm: f32[3, 2] = aten::mm(%t, %x)
    return (%mm)
  subgraph @residual(%x: f32[b, 2], %w: f32[3, 2], %h: f32[b, 3])
    %linear: f32[b, 3] = aten::linear(%x, %w)
    %add: f32[b, 3] = aten::add.Tensor(%h, %linear)
    return (%add)
  subgraph @turn(%r: f32[b, 3])
    %t: f32[3, b] = aten::t(%r)
    return (%t)

weight "w": f32[3, 2] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
weight "bias": f32[3] = [-1.0, 0.0, 1.0]

stack @1
  at "net.py":12 in "forward": "h = F.relu(self.a(x))"
)text";

std::unique_ptr<Session> session_of(const char* text) {
  auto program = text::parse(text, "test");
  REQUIRE_MESSAGE(program, (program ? "" : program.failure().render("test")));
  auto session = Session::load(std::move(*program), "");
  REQUIRE(session);
  return std::move(*session);
}

Tensor tensor(std::vector<int64_t> sizes, float first) {
  Tensor made = Tensor::empty(ScalarType::f32, std::move(sizes));
  for (int64_t i = 0; i < made.numel(); ++i) made.mutable_as<float>()[i] = first + static_cast<float>(i);
  return made;
}

std::vector<float> values(const Datum& datum) {
  const Tensor rows = std::get<Tensor>(datum).contiguous();
  return {rows.as<float>(), rows.as<float>() + rows.numel()};
}

}  // namespace

TEST_CASE("a lowered program runs by its plan: arena, aliases, in-place results") {
  auto session = session_of(lowered);
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int64_t b : {2, 1, 3}) {
      auto results = session->run({tensor({b, 2}, 1)});
      REQUIRE(results);
      std::vector<float> x = values((*results)[2]), turned, product(6, 0);
      const float w[3][2] = {{1, 2}, {3, 4}, {5, 6}}, bias[3] = {-1, 0, 1};
      for (int j = 0; j < 3; ++j)
        for (int64_t i = 0; i < b; ++i) {
          const float dot = x[2 * i] * w[j][0] + x[2 * i + 1] * w[j][1];
          turned.push_back(std::max(dot + bias[j], 0.f) + dot);
          for (int k = 0; k < 2; ++k) product[2 * j + k] += turned.back() * x[2 * i + k];
        }
      CHECK(values((*results)[0]) == product);
      CHECK(values((*results)[1]) == turned);
      CHECK(x == values(tensor({b, 2}, 1)));
    }
}

TEST_CASE("outputs are written where the caller says") {
  auto session = session_of(lowered);
  std::vector<Tensor> into{Tensor::zeros(ScalarType::f32, {3, 2}), Tensor::zeros(ScalarType::f32, {3, 2}),
                           Tensor::zeros(ScalarType::f32, {2, 2})};
  auto results = session->run({tensor({2, 2}, 1)}, {}, into);
  REQUIRE(results);
  for (int i = 0; i < 3; ++i) CHECK(values(into[i]) == values((*results)[i]));
}

TEST_CASE("a plan has scratch for as many threads as there are") {
  auto session = session_of(wide_linear(32).c_str());
  const std::vector<std::optional<Datum>> inputs = {tensor({32, 128}, 0), tensor({512, 128}, 0)};
  size_t before = 0;
  for (const int count : {1, 2, 4}) {  // of a second plan, not of the first one with more workers than it has room for
    set_threads(count);
    auto memory = session->memory(inputs);
    REQUIRE(memory);
    CHECK(memory->scratch > before);
    before = memory->scratch;
    CHECK(session->run(inputs));
  }
  set_threads(0);
}

TEST_CASE("many threads run one session at once") {
  auto session = session_of(lowered);
  std::vector<std::thread> callers;
  std::vector<int> wrong(4, 0);
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 50; ++i) {
        const int64_t b = 1 + (caller + i) % 3;
        auto mine = session->run({tensor({b, 2}, static_cast<float>(caller))});
        auto again = session->run({tensor({b, 2}, static_cast<float>(caller))});
        wrong[caller] += !mine || !again || values((*mine)[0]) != values((*again)[0]) ||
                         values((*mine)[2])[0] != static_cast<float>(caller);
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("inputs that violate the program are named with the constraint, also where there is a plan already") {
  std::string text = lowered;
  const std::string x = "  input %x: user_input \"x\"\n", tree = "input_tree (x: *)";
  text.insert(text.find(x) + x.size(), "  input user_input \"scale\" = 2.0\n  input user_input \"flag\" = true\n");
  text.replace(text.find(tree), tree.size(), "input_tree (x: *, scale: *, flag: *)");
  auto fixed = session_of(text.c_str());
  const Tensor here = tensor({2, 2}, 1);
  for (int repetition = 0; repetition < 2; ++repetition) {
    CHECK(fixed->run({here, 2.0, true}));
    CHECK(fixed->run({here, int64_t{2}, int64_t{1}}));
    CHECK(fixed->run({here, std::nullopt, std::nullopt}));
    CHECK(fixed->run({here, 3.0, true}).failure().code == 606);
    CHECK(fixed->run({here, 2.0, false}).failure().code == 606);
    CHECK(fixed->run({std::nullopt, 2.0, true}).failure().code == 602);
  }

  auto session = session_of(lowered);
  REQUIRE(session->run({here}));
  auto message = [&](std::vector<std::optional<Datum>> inputs) {
    auto results = session->run(inputs);
    REQUIRE(!results);
    return std::to_string(static_cast<int>(results.failure().status)) + " " + results.failure().message;
  };
  CHECK(message({tensor({9, 2}, 0)}) == "5 dimension x[0] is 9, and must be at most 8");
  CHECK(message({tensor({2, 3}, 0)}) == "5 dimension x[1] is 3, and must be 2");
  CHECK(message({tensor({7, 2}, 0)}) == "5 the inputs violate b != 7: b is 7 (dimension x[0])");
  CHECK(message({tensor({2}, 0)}) == "5 input 'x' has 1 dimensions, and the program takes f32[b, 2]");
  CHECK(message({Tensor::zeros(ScalarType::f64, {2, 2})}) == "5 input 'x' is f64, and the program takes f32");
  CHECK(message({int64_t{3}}) == "5 input 'x' is an int, and the program takes f32[b, 2]");
  CHECK(message({std::nullopt}) == "2 input 'x' is missing: f32[b, 2]");
  CHECK(message({}) == "2 the program takes 1 inputs, not 0");
}

TEST_CASE("states that change places are written from what they were before the run") {
  auto session = session_of(R"text(program 1.0

entry "forward"
  input %a: buffer "a"
  input %b: buffer "b"
  output buffer_mutation "a"
  output buffer_mutation "b"
  output user_output "old"
  input_tree ()
  output_tree {old: *}
  graph(%a: f32[2], %b: f32[2])
    return (%b, %a, %a)

weight "a": f32[2] = [1.0, 2.0]
weight "b": f32[2] = [3.0, 4.0]
)text");
  for (const float first : {1.f, 3.f, 1.f}) {
    auto results = session->run({});
    REQUIRE(results);
    CHECK(values((*results)[0]) == std::vector<float>{first, first + 1});
  }
  auto memory = session->memory(std::vector<std::optional<Datum>>());
  REQUIRE(memory);
  CHECK(memory->weights == 32);  // each is there twice
}

TEST_CASE("state that is written in place is there once") {
  auto session = session_of(R"text(program 1.0
opset "aten" 1

entry "forward"
  input %s: buffer "s"
  input %w: parameter "w"
  input %x: user_input "x"
  output buffer_mutation "s"
  output user_output "0"
  input_tree (x: *)
  output_tree *
  annotate {slots=[], arena=0}
  graph(%s: f32[1, 2], %w: f32[2, 2], %x: f32[1, 2])
    %r: f32[1, 2] = atenon::call(@add, %x, %w, %s) {kernel="onednn.matmul", slots=[-1], overwrites=[2]}
    return (%r, %r)
  subgraph @add(%x: f32[1, 2], %w: f32[2, 2], %s: f32[1, 2])
    %linear: f32[1, 2] = aten::linear(%x, %w)
    %add: f32[1, 2] = aten::add.Tensor(%s, %linear)
    return (%add)

weight "s": f32[1, 2] = [[1.0, 2.0]]
weight "w": f32[2, 2] = [[1.0, 0.0], [0.0, 1.0]]
)text");
  for (const float times : {1.f, 2.f, 3.f}) {
    auto results = session->run({tensor({1, 2}, 3)});
    REQUIRE_MESSAGE(results, (results ? "" : results.failure().message));
    CHECK(values((*results)[0]) == std::vector<float>{1 + 3 * times, 2 + 4 * times});
    CHECK(values(session->changing_state()[0].second) == std::vector<float>{1 + 3 * times, 2 + 4 * times});
  }
  auto memory = session->memory({tensor({1, 2}, 3)});
  REQUIRE(memory);
  CHECK(memory->weights == 24);
}

TEST_CASE("a kernel reads what a written state has become, and not the bytes of the file") {
  auto session = session_of(R"text(program 1.0
opset "aten" 1

entry "forward"
  input %k: buffer "k"
  input %x: user_input "x"
  input %next: user_input "next"
  output buffer_mutation "k"
  output user_output "0"
  input_tree (x: *, next: *)
  output_tree (*)
  annotate {slots=[], arena=0}
  graph(%k: f32[2, 1, 1, 1], %x: f32[1, 1, 4, 4], %next: f32[2, 1, 1, 1])
    %y: f32[1, 2, 4, 4] = atenon::call(@convolution, %x, %k) {kernel="onednn.convolution", slots=[-1]}
    return (%next, %y)
  subgraph @convolution(%x: f32[1, 1, 4, 4], %k: f32[2, 1, 1, 1])
    %y: f32[1, 2, 4, 4] = aten::convolution(%x, %k, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    return (%y)

weight "k": f32[2, 1, 1, 1] = [[[[1.0]]], [[[2.0]]]]
)text");
  std::vector<float> k = {1, 2};
  for (const float first : {5.f, -3.f, 7.f}) {
    auto results = session->run({tensor({1, 1, 4, 4}, 3), tensor({2, 1, 1, 1}, first)});
    REQUIRE_MESSAGE(results, (results ? "" : results.failure().message));
    const std::vector<float> y = values((*results)[0]);
    for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == k[i / 16] * (3 + static_cast<float>(i % 16)));
    k = {first, first + 1};
  }
}

TEST_CASE("a signature that does not say where the outputs go, or says it twice, is refused") {
  const auto refused = [](const std::string& outputs) {
    auto program = text::parse(R"text(program 1.0

entry "forward"
  input %a: buffer "a"
)text" + outputs + R"text(
  input_tree ()
  output_tree ()
  graph(%a: f32[2])
    return (%a, %a)

weight "a": f32[2] = [1.0, 2.0]
weight "b": f32[3] = [3.0, 4.0, 5.0]
)text",
                               "test");
    REQUIRE(program);
    auto session = Session::load(std::move(*program), "");
    return session ? "" : session.failure().message;
  };
  const std::string a = "  output buffer_mutation \"a\"\n", b = "  output buffer_mutation \"b\"\n";
  CHECK(refused(a + a) == "the state 'a' is written twice");
  CHECK(refused(b + a) == "what is written to the state 'b' has another type");
  CHECK(refused(a) == "a graph has not as many outputs as the signature");
}

TEST_CASE("an observer sees every node with its results") {
  auto session = session_of(lowered);
  std::vector<std::string> seen;
  auto results = session->run({tensor({2, 2}, 1)}, [&](const Observation& observation) -> Result<void> {
    seen.push_back(observation.node.result()->name + " " + observation.kernel + " " +
                   std::to_string(std::get<Tensor>(observation.results[0]).numel()) +
                   python_line(session->program(), observation.node));
    return {};
  });
  REQUIRE(results);
  CHECK(seen == std::vector<std::string>{"h onednn.matmul 6net.py:12: h = F.relu(self.a(x))", "r onednn.matmul 6",
                                         "t alias 6", "p onednn.matmul 6"});
}

TEST_CASE("damaged plans are refused, not run") {
  auto refused = [](std::string from, std::string to) {
    std::string text = lowered;
    text.replace(text.find(from), from.size(), to);
    auto session = session_of(text.c_str());
    auto results = session->run({tensor({2, 2}, 1)});
    return results ? "" : results.failure().message.substr(0, results.failure().message.find(':'));
  };
  CHECK(refused("slots=[12*b, 12*b]", "slots=[4*b, 12*b]") == "");  // rounded up to 64 bytes: it fits
  CHECK(refused("slots=[0]}", "slots=[5]}") == "a result does not fit into its arena slot");
  const std::string most = "9223372036854775807";
  CHECK(refused("slots=[12*b, 12*b]", "slots=[" + most + ", " + most + "]") ==
        "at these sizes, the arena would be larger than memory can be");
  CHECK(refused("slots=[12*b, 12*b]", "slots=[" + most + "*b, 12*b]") ==
        "at these sizes, the arena would be larger than memory can be");
  CHECK(refused("slots=[12*b, 12*b]", "slots=[12*c, 12*b]") ==
        "the size of an arena slot does not follow from the inputs");
  CHECK(refused("slots=[12*b, 12*b]", "slots=[-64, 12*b]") == "an arena slot has a negative size");
  CHECK(refused("offset=[0]", "offset=[" + most + "]") == "an alias reaches beyond its operand");
  CHECK(refused("offset=[0]", "offset=[4]") == "an alias reaches beyond its operand");
  CHECK(refused("strides=[[1, 3]]", "strides=[[1]]") ==
        "a size or slot of a lowered call does not follow from the inputs");
  CHECK(refused("aten::mm(%t, %x)", "aten::add.Tensor(%t, %t)") == "kernel 'onednn.matmul' does not take its call");
  CHECK(refused("%t: f32[3, b], %x: f32[b, 2])\n    %mm", "%t: f64[3, b], %x: f32[b, 2])\n    %mm") ==
        "a call and its body differ in the types of operands");
  for (const char* said : {"[3, 0, 2]", "[-1, 0, 2]", "[0, 0]", "0", "[\"x\", 0, 2]"})
    CHECK(refused("slots=[0]}", "slots=[0], indices=[" + std::string(said) + "]}") ==
          "a call does not say what its indices are");
  CHECK(refused("slots=[0]}", "slots=[0], indices=[[0, 0, 2]]}") == "indices of a call are no integers in rows");
  CHECK(refused("kernel=\"onednn.matmul\"", "kernel=\"no.such\"") ==
        "this version has no kernel 'no.such', which the program asks for");
}

}  // namespace atenon::run
