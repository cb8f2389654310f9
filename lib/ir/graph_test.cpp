#include "ir/graph.h"

#include <doctest/doctest.h>

#include "ir/program.h"

using namespace atenon;
using namespace atenon::ir;

namespace {

TensorMeta vector_of(SymInt size) { return {ScalarType::f32, {std::move(size)}}; }

std::string order_of(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.forward()) out += node.result()->name + " ";
  return out;
}

}  // namespace

TEST_CASE("users follow every change of arguments") {
  Graph graph;
  Value* x = graph.add_input("x", vector_of(SymInt::symbol("n")));
  Value* y = graph.add_input("y", vector_of(4));
  Node* add = graph.add("aten::add.Tensor", {x, x}, {{"alpha", 2}}, {{"", x->type}});
  Node* stack = graph.add("aten::stack", {ArgumentList{add->result(), y, None{}}}, {}, {{"", x->type}});
  graph.set_outputs({stack->result(), ArgumentList{x}});
  CHECK(x->users.size() == 2);
  CHECK(x->returned == 1);
  CHECK(stack->operands() == std::vector<Value*>{add->result(), y});

  graph.replace_uses(x, y);
  CHECK_FALSE(x->has_users());
  CHECK(y->users.size() == 3);
  CHECK(y->returned == 1);
  graph.erase_input(x);
  CHECK(y->index == 0);

  graph.set_outputs({});
  graph.erase(*stack);
  graph.erase(*add);
  CHECK_FALSE(y->has_users());
  CHECK(graph.empty());
}

TEST_CASE("names are unique, and depend on the names that are there only") {
  Graph graph;
  const auto add = [&](std::string wish) {
    return graph.add("aten::add.Tensor", {}, {}, {{std::move(wish), vector_of(1)}});
  };
  add("");
  Node* first = add("");
  add("");
  CHECK(order_of(graph) == "add add_1 add_2 ");
  graph.erase(*first);
  CHECK(add("add_2")->result()->name == "add_1");
  CHECK(add("größe x")->result()->name == "gr____e_x");
  CHECK(graph.find("add_2") != nullptr);
  CHECK(graph.find("add_3") == nullptr);
}

TEST_CASE("walks tolerate erasing the current node") {
  for (const bool backward : {false, true}) {
    Graph graph;
    for (int i = 0; i < 5; ++i) graph.add("aten::ones", {}, {}, {{"v" + std::to_string(i), vector_of(i)}});
    std::string seen;
    for (Node& node : backward ? graph.backward() : graph.forward()) {
      seen += node.result()->name + " ";
      if (node.result()->name != "v2") graph.erase(node);
    }
    CHECK(seen == (backward ? "v4 v3 v2 v1 v0 " : "v0 v1 v2 v3 v4 "));
    CHECK(order_of(graph) == "v2 ");
  }
}

TEST_CASE("a clone shares nothing, a moved graph keeps its nodes") {
  Graph graph;
  Value* x = graph.add_input("x", vector_of(SymInt::symbol("n")));
  Node* add = graph.add("aten::add.Tensor", {x, 1}, {}, {{"", x->type}});
  add->annotate("kernel", "llvm");
  graph.set_outputs({add->result()});

  Graph copy = graph.clone();
  copy.substitute({{"n", SymInt(7)}});
  CHECK(to_string(copy.find("add")->type) == "f32[7]");
  CHECK(to_string(add->result()->type) == "f32[n]");
  CHECK(copy.inputs()[0]->users.size() == 1);
  CHECK(graph.symbols() == std::set<std::string>{"n"});
  CHECK(copy.symbols().empty());

  Graph moved = std::move(copy);
  CHECK(&moved.find("add")->producer->graph() == &moved);
  CHECK(moved.find("add")->producer->annotation("kernel")->get<std::string>() == "llvm");
  Node* before = moved.add("aten::ones", {}, {}, {{"", vector_of(7)}}, moved.find("add")->producer);
  CHECK(order_of(moved) == "ones add ");
  moved.move_before(*moved.find("add")->producer, *before);
  CHECK(order_of(moved) == "add ones ");
}

TEST_CASE("types print their strides only where they are not contiguous") {
  const SymInt b = SymInt::symbol("b");
  CHECK(to_string(TensorMeta{ScalarType::f32, {b, 64}}) == "f32[b, 64]");
  CHECK(to_string(TensorMeta{ScalarType::boolean, {}}) == "bool[]");
  CHECK(to_string(TensorMeta{ScalarType::f32, {b, 64}, std::vector<SymInt>{1, b}, 3}) ==
        "f32[b, 64]{strides=[1, b], offset=3}");
  CHECK(to_string(Type(ScalarKind::integer)) == "int");
}

TEST_CASE("leaf paths name containers' children by key or position") {
  using Kind = TreeSpec::Kind;
  const TreeSpec leaf;
  const TreeSpec pair{Kind::tuple, "", {}, {leaf, leaf}};
  const TreeSpec cache{Kind::list, "", {}, {pair, TreeSpec{Kind::none, "", {}, {}}}};
  const TreeSpec forward{Kind::tuple, "", {"x", "cache"}, {leaf, cache}};
  CHECK(forward.leaf_paths() == std::vector<std::string>{"x", "cache.0.0", "cache.0.1", "cache.1"});
  CHECK(forward.leaf_count() == 4);
  CHECK(leaf.leaf_paths() == std::vector<std::string>{"0"});
  CHECK(TreeSpec{Kind::dict, "", {"hidden"}, {leaf}}.leaf_paths() == std::vector<std::string>{"hidden"});
}

TEST_CASE("call stacks are interned") {
  Provenance provenance;
  CallStack stack{{std::make_shared<Frame>(Frame{"net.py", 12, "forward", "h = F.gelu(y)"})},
                  "layers.0",
                  "net.Block",
                  {"aten::gelu"}};
  const ProvenanceId id = provenance.intern(stack);
  CHECK(id == 1);
  CHECK(provenance.intern(stack) == 1);
  CHECK(provenance.derive(id, "aten::mul.Tensor") == 2);
  CHECK(provenance.at(2).made_from == std::vector<std::string>{"aten::gelu", "aten::mul.Tensor"});
  CHECK(provenance.at(99) == CallStack{});
}
