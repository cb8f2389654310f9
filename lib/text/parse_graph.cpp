// Graphs, types and arguments of the text form.
#include <charconv>

#include "text/limits.h"
#include "text/numbers.h"
#include "text/parser.h"

namespace atenon::text {

// graph(%x: f32[b, 64], ...) nodes return (%y, ...), and what a subgraph assumes before its nodes
ir::Graph Parser::parse_graph(bool is_subgraph) {
  ir::Graph graph;
  lexer_.expect("(", "before the inputs of the graph");
  for (ir::Graph::Result& input : parse_typed_values(graph, ")"))
    graph.add_input(std::move(input.name), std::move(input.type));
  lexer_.expect(")", "after the inputs of the graph");
  while (is_subgraph && lexer_.take("assume")) graph.assumptions.push_back(parse_constraint());
  while (!lexer_.at_end() && !lexer_.is("return")) parse_node(graph);
  lexer_.expect("return", "at the end of the graph");
  lexer_.expect("(", "before the outputs of the graph");
  graph.set_outputs(parse_arguments(&graph, nullptr));
  return graph;
}

// %y: f32[b, 64], %i: i64[b] = aten::max.dim(%x, 1, keepdim=true) {kernel="reference"}  @12
void Parser::parse_node(ir::Graph& graph) {
  std::vector<ir::Graph::Result> results;
  if (lexer_.at(TokenKind::value)) {
    results = parse_typed_values(graph, "=");
    lexer_.expect("=", "between results and operator");
  }
  const Token target = lexer_.token();
  lexer_.expect(TokenKind::word, "an operator, `return`, or the name of a result such as %y");
  if (!lexer_.failed() && !is_target(target.text)) {
    lexer_.fail(213, "'" + std::string(target.text) + "' is no operator: they are spelled namespace::name.overload",
                target);
  }
  lexer_.expect("(", "before the arguments");
  std::vector<ir::Named> keywords;
  std::vector<ir::Argument> arguments = parse_arguments(&graph, &keywords);
  if (lexer_.failed()) return;
  ir::Node* node = graph.add(std::string(target.text), std::move(arguments), std::move(keywords), std::move(results));
  if (places_) places_->emplace(node, lexer_.span(target));
  if (lexer_.is("{")) node->annotations = parse_annotations();
  node->provenance = parse_provenance();
}

std::vector<ir::Graph::Result> Parser::parse_typed_values(const ir::Graph& graph, std::string_view stop) {
  std::vector<ir::Graph::Result> values;
  std::set<std::string> names;
  while (!lexer_.at_end() && !lexer_.is(stop)) {
    if (!values.empty()) lexer_.expect(",", "between values");
    const Token token = lexer_.token();
    std::string name(lexer_.expect(TokenKind::value, "a value such as %x"));
    if (lexer_.failed()) break;
    check_unique(!graph.find(name) && names.insert(name).second, "value %" + name, token);
    lexer_.expect(":", "and a type after the name of a value");
    values.push_back({std::move(name), parse_type()});
  }
  return values;
}

// f32[b, 64]{strides=[1, b], offset=3}, or int, float, bool
ir::Type Parser::parse_type() {
  if (lexer_.take("int")) return ir::ScalarKind::integer;
  if (lexer_.take("float")) return ir::ScalarKind::floating;
  ir::TensorMeta meta;
  meta.dtype = parse_scalar_type();
  if (meta.dtype == ScalarType::boolean && !lexer_.is("[")) return ir::ScalarKind::boolean;
  meta.sizes = parse_sizes();
  if (!lexer_.take("{")) return meta;
  if (lexer_.take("strides")) {
    lexer_.expect("=", "after strides");
    const Token token = lexer_.token();
    meta.strides = parse_sizes();
    if (meta.strides->size() != meta.sizes.size()) lexer_.fail(214, "there must be as many strides as sizes", token);
    if (!lexer_.is("}")) lexer_.expect(",", "or '}' after strides");
  }
  if (lexer_.take("offset")) {
    lexer_.expect("=", "after offset");
    meta.offset = parse_size();
  }
  lexer_.expect("}", "after strides and offset");
  return meta;
}

ScalarType Parser::parse_scalar_type() {
  const Token token = lexer_.token();
  const std::string name(lexer_.expect(TokenKind::word, "a type such as f32[b, 64]"));
  if (lexer_.failed()) return ScalarType::f32;
  for (const ScalarType type : all_scalar_types) {
    if (name == atenon::name_of(type)) return type;
  }
  std::vector<std::string> names = {"int", "float"};
  for (const ScalarType type : all_scalar_types) names.push_back(atenon::name_of(type));
  const std::string near = nearest(name, names);
  lexer_.fail(210, "there is no element type '" + name + "'", token,
              near.empty() ? std::vector<Note>{} : std::vector<Note>{{"did you mean '" + near + "'?"}});
  return ScalarType::f32;
}

std::vector<ir::SymInt> Parser::parse_sizes() {
  std::vector<ir::SymInt> sizes;
  const Token open = lexer_.token();
  lexer_.expect("[", "before the sizes");
  while (!lexer_.at_end() && !lexer_.is("]")) {
    if (!sizes.empty()) lexer_.expect(",", "between sizes");
    sizes.push_back(parse_size());
    if (sizes.size() > max_rank) lexer_.fail(215, "a tensor has at most 64 dimensions", open);
  }
  lexer_.expect("]", "after the sizes");
  return sizes;
}

ir::SymInt Parser::parse_size() {
  const Token token = lexer_.token();
  const ir::Argument size = parse_expression();
  if (lexer_.failed() || size.is<ir::SymInt>()) return lexer_.failed() ? 0 : size.get<ir::SymInt>();
  lexer_.fail(210, "a size must be an integer", token);
  return 0;
}

ir::Argument Parser::parse_argument(const ir::Graph* graph, int depth) {
  const Token token = lexer_.token();
  if (depth > max_depth) lexer_.fail(215, "lists are nested more than " + std::to_string(max_depth) + " deep", token);
  switch (token.kind) {
    case TokenKind::value: {
      lexer_.advance();
      const std::string name(token.text);
      ir::Value* value = graph ? graph->find(name) : nullptr;
      if (value) return value;
      std::vector<std::string> known;
      if (graph) {
        for (const auto& input : graph->inputs()) known.push_back(input->name);
        for (const ir::Node& node : graph->forward()) {
          for (const auto& result : node.results()) known.push_back(result->name);
        }
      }
      const std::string near = nearest(name, known);
      lexer_.fail(211, graph ? "%" + name + " is not defined before this line" : "no values can be named here", token,
                  near.empty() ? std::vector<Note>{} : std::vector<Note>{{"did you mean %" + near + "?"}});
      return ir::None{};
    }
    case TokenKind::string:
      return lexer_.expect_string("a text");
    case TokenKind::quoted: {
      lexer_.advance();
      const std::optional<std::string> text = unquote(token.text);
      if (!text) lexer_.fail(210, "this text has an escape that is none of \\' \\\\ \\n \\t \\r \\xNN", token);
      return ir::Word{text.value_or("")};
    }
    case TokenKind::reference:
      lexer_.advance();
      return ir::SubgraphRef{std::string(token.text)};
    default:
      break;
  }
  if (lexer_.take("[")) {
    ir::ArgumentList items;
    while (!lexer_.at_end() && !lexer_.is("]")) {
      if (!items.empty()) lexer_.expect(",", "between items of the list");
      items.push_back(parse_argument(graph, depth + 1));
    }
    lexer_.expect("]", "after the items of the list");
    return items;
  }
  if (lexer_.take("None")) return ir::None{};
  if (lexer_.take("complex")) {
    lexer_.expect("(", "after complex");
    const auto part = [this](std::string_view stop) {
      const Token text = lexer_.take_expression();
      const std::optional<double> value = read_double(text.text);
      if (!value) lexer_.fail(210, "expected a number", text);
      lexer_.expect(stop, "after a part of a complex number");
      return value.value_or(0);
    };
    const double real = part(",");
    return std::complex<double>(real, part(")"));
  }
  if (token.kind == TokenKind::word) {
    for (const ScalarType type : all_scalar_types) {
      if (token.text == atenon::name_of(type)) {
        lexer_.advance();
        return type;
      }
    }
  }
  return parse_expression();
}

// An int, float or bool: a constant, or an expression over symbols.
ir::Argument Parser::parse_expression() {
  const Token token = lexer_.take_expression();
  if (lexer_.failed()) return ir::None{};
  const char* end = token.text.data() + token.text.size();
  int64_t integer = 0;
  const auto read = std::from_chars(token.text.data(), end, integer);
  if (read.ec == std::errc() && read.ptr == end) return integer;
  if (token.text.empty()) {
    lexer_.unexpected("a value, a number, an expression or a list");
    return ir::None{};
  }
  if (token.text.find_first_of("0123456789") != token.text.npos || token.text.ends_with("inf") || token.text == "nan") {
    if (const std::optional<double> number = read_double(token.text)) return *number;
  }
  Result<shape::Scalar> scalar = shape::parse_scalar(std::string(token.text));
  if (!scalar) {
    const Diagnostic cause = scalar.error();
    const size_t start = token.start + static_cast<size_t>(std::max(cause.where.column - 1, 0));
    lexer_.fail(210, cause.message,
                {token.kind, token.text, start, start + static_cast<size_t>(std::max(cause.where.width, 1))});
    return ir::None{};
  }
  return std::visit([](auto& value) { return ir::Argument(std::move(value)); }, *scalar);
}

// Up to and with the closing parenthesis.
std::vector<ir::Argument> Parser::parse_arguments(const ir::Graph* graph, std::vector<ir::Named>* keywords) {
  std::vector<ir::Argument> arguments;
  bool is_first = true;
  while (!lexer_.at_end() && !lexer_.is(")")) {
    if (!is_first) lexer_.expect(",", "between arguments");
    is_first = false;
    if (keywords && lexer_.at_keyword()) {
      const Token name = lexer_.token();
      lexer_.advance();
      lexer_.expect("=", "after the name of an argument");
      check_unique(!ir::find(*keywords, std::string(name.text)), "argument " + std::string(name.text), name);
      if (!is_word(name.text)) lexer_.fail(213, "this is no name of an argument", name);
      keywords->push_back({std::string(name.text), parse_argument(graph, 0)});
    } else if (keywords && !keywords->empty()) {
      lexer_.unexpected("a named argument: no positional one may follow");
    } else {
      arguments.push_back(parse_argument(graph, 0));
    }
  }
  lexer_.expect(")", "after the arguments");
  return arguments;
}

// {kernel="llvm", slots=[0, -1]}
std::vector<ir::Named> Parser::parse_annotations() {
  std::vector<ir::Named> annotations;
  lexer_.expect("{", "before annotations");
  while (!lexer_.at_end() && !lexer_.is("}")) {
    if (!annotations.empty()) lexer_.expect(",", "between annotations");
    const Token name = lexer_.token();
    lexer_.expect(TokenKind::word, "the name of an annotation");
    check_unique(!ir::find(annotations, std::string(name.text)), "annotation " + std::string(name.text), name);
    if (!lexer_.failed() && !is_word(name.text)) lexer_.fail(213, "this is no name of an annotation", name);
    lexer_.expect("=", "after the name of an annotation");
    annotations.push_back({std::string(name.text), parse_argument(nullptr, 0)});
  }
  lexer_.expect("}", "after annotations");
  return annotations;
}

// @12, or nothing
ir::ProvenanceId Parser::parse_provenance() {
  if (!lexer_.at(TokenKind::reference)) return 0;
  const Token token = lexer_.token();
  lexer_.advance();
  ir::ProvenanceId id = 0;
  const char* end = token.text.data() + token.text.size();
  const auto read = std::from_chars(token.text.data(), end, id);
  if (read.ec != std::errc() || read.ptr != end) {
    lexer_.fail(210, "expected the number of a call stack, such as @12", token);
    return 0;
  }
  provenance_uses_.try_emplace(id, token);
  return id;
}

}  // namespace atenon::text
