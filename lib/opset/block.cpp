// What stands in a block: its lines, in which expression_parser.h reads the expressions, and the definitions of
// `rules.ops`.
#include "opset/block.h"

#include <algorithm>

#include "opset/expression_parser.h"

namespace atenon::opset {
namespace {

// One block, line by line.
class BlockParser {
 public:
  BlockParser(const BlockPlace& place, const Library& library, Block& block)
      : block_(block), place_(place), parser_(*place.file, library, block.tree) {}

  Result<void> parse(const std::vector<const Schema*>& schemas, bool with_examples) {
    block_.file = place_.file;
    block_.begin = place_.headers.front().first;
    for (const Schema* schema : schemas) {
      std::vector<int> slots;
      for (const Parameter& parameter : schema->parameters) {
        const int known = parser_.lookup(parameter.name);
        slots.push_back(known >= 0 ? known : parser_.declare(parameter.name));
      }
      block_.parameter_slots.push_back(std::move(slots));
    }
    block_.out_slot = parser_.declare("out");
    std::vector<std::pair<size_t, size_t>> examples;
    const std::string& text = place_.file->text;
    for (size_t at = place_.body; at < place_.end && !parser_.failed();) {
      const size_t end = end_of_line(at);
      const size_t start = std::min(text.find_first_not_of(" \r\n", at), end);
      if (start < end && text[start] != '#') {
        if (text.compare(start, 8, "example ") == 0)
          examples.emplace_back(start, end);
        else
          line(start, end);
      }
      at = end;
    }
    if (with_examples) {
      parser_.allow_symbols();
      for (const auto& [begin, end] : examples) example(begin, end);
    }
    return parser_.outcome();
  }

 private:
  // A line indented by four or more, or a blank one, continues the last.
  size_t end_of_line(size_t at) const {
    const std::string& text = place_.file->text;
    for (;;) {
      at = text.find('\n', at);
      if (at == std::string::npos || at + 1 >= place_.end) return place_.end;
      ++at;
      if (text.compare(at, 4, "    ") != 0) return at;
    }
  }

  void line(size_t begin, size_t end) {
    parser_.start(begin, end);
    const Token head = parser_.peek();
    const std::string keyword(head.text);
    parser_.take(keyword);
    Step step;
    step.offset = begin;
    step.width = head.text.size();
    if (keyword == "tags") return tags();
    if (keyword == "let") {
      step.let = parser_.binding();
    } else if (keyword.size() > 1 && keyword[0] == 'C' &&
               keyword.find_first_not_of("0123456789", 1) == std::string::npos) {
      step.kind = StepKind::check;
      step.label = keyword;
      step.value = parser_.expression();
      if (parser_.at_text()) step.message = parser_.message();
    } else if (keyword == "type") {
      step.kind = StepKind::type;
      step.value = parser_.expression();
    } else if (keyword == "pointwise") {
      step.kind = StepKind::pointwise;
      if (parser_.take("at")) step.at = parser_.pattern();
      head_ended(step, step.at.has_value());
      step.value = parser_.expression();
    } else if (keyword == "reduction") {
      reduction(step);
    } else if (keyword == "view") {
      step.kind = StepKind::view;
      parser_.expect("at");
      step.at = parser_.pattern();
      head_ended(step, true);
      step.value = parser_.expression();
    } else if (keyword == "scatter") {
      scatter(step);
    } else if (keyword == "decompose") {
      step.kind = StepKind::decompose;
      step.is_lowered = parser_.take("lowered");
      step.is_wide = parser_.take("wide");
      head_ended(step, step.is_lowered || step.is_wide);
      step.value = parser_.expression();
    } else if (keyword == "extern") {
      step.kind = StepKind::extern_kernel;
      step.label = parser_.name("a kernel's name");
      step.has_arguments = parser_.take("(");
      if (step.has_arguments) step.arguments = parser_.expressions(")");
    } else {
      parser_.fail_at(head, "'" + keyword + "' starts no line of a block");
    }
    parser_.expect_end();
    block_.steps.push_back(std::move(step));
  }

  // `[when] :`, where the colon may only be left out if nothing stands before it.
  void head_ended(Step& step, bool something) {
    if (parser_.take("when")) step.guard = parser_.expression(), something = true;
    if (something)
      parser_.expect(":");
    else
      parser_.take(":");
  }

  void tags() {
    while (!parser_.at_end()) block_.tags.push_back(parser_.name("a tag"));
  }

  void reduction(Step& step) {
    step.kind = StepKind::reduction;
    step.is_prefix = parser_.take("prefix");
    if (parser_.take("at")) {
      step.at = parser_.pattern();
      parser_.expect("over");
      step.over = parser_.pattern();
      parser_.expect("in");
      step.extent = parser_.expression();
    } else {
      parser_.expect("over");
      step.extent = parser_.expression();
      if (parser_.take("as")) step.position_slot = parser_.pattern().slot;
    }
    head_ended(step, true);
    step.value = parser_.expression();
  }

  void scatter(Step& step) {
    step.kind = StepKind::scatter;
    step.base = parser_.postfix();
    parser_.expect("at");
    step.at = parser_.pattern();
    parser_.expect("in");
    step.extent = parser_.expression();
    head_ended(step, true);
    step.place = parser_.expression();
    parser_.expect(":=");
    step.value = parser_.expression();
  }

  void example(size_t begin, size_t end) {
    parser_.start(begin, end);
    Example example;
    example.offset = begin;
    example.width = 7;
    parser_.expect("example");
    example.call = parser_.postfix();
    if (parser_.take("==")) {
      example.values = parser_.expression();
    } else if (parser_.take(":")) {
      example.types = parser_.expression();
      if (parser_.take("assumes")) example.assumptions = parser_.expression();
    } else if (parser_.take("fails")) {
      example.fails = parser_.name("a label");
    } else {
      parser_.fail("expected '==', ':' or 'fails'");
    }
    parser_.expect_end();
    block_.examples.push_back(std::move(example));
  }

  Block& block_;
  const BlockPlace& place_;
  ExpressionParser parser_;
};

}  // namespace

const OperationForm& form_of(Operation operation) {
  static constexpr OperationForm forms[] = {{"+", "add", ScalarOp::add},
                                            {"-", "sub", ScalarOp::sub},
                                            {"*", "mul", ScalarOp::mul},
                                            {"/", "div", ScalarOp::div},
                                            {"//", "floor_divide", ScalarOp::floor_div},
                                            {"%", "remainder", ScalarOp::mod},
                                            {"^", "pow", ScalarOp::pow},
                                            {"&", "bitwise_and", ScalarOp::bit_and},
                                            {"|", "bitwise_or", ScalarOp::bit_or},
                                            {"<<", nullptr, ScalarOp::shift_left},
                                            {">>", nullptr, ScalarOp::shift_right},
                                            {"==", "eq", ScalarOp::eq},
                                            {"!=", "ne", ScalarOp::ne},
                                            {"<", "lt", ScalarOp::lt},
                                            {"<=", "le", ScalarOp::le},
                                            {">", "gt", ScalarOp::lt},
                                            {">=", "ge", ScalarOp::le},
                                            {"and", "logical_and", ScalarOp::logical_and},
                                            {"or", "logical_or", ScalarOp::logical_or},
                                            {"not", "logical_not", ScalarOp::logical_not},
                                            {"in", nullptr, {}},
                                            {"is none", nullptr, {}},
                                            {"is not none", nullptr, {}},
                                            {"??", nullptr, {}},
                                            {"-", "neg", ScalarOp::neg},
                                            {"~", "bitwise_not", ScalarOp::bit_not}};
  return forms[static_cast<size_t>(operation)];
}

const char* name_of(StepKind kind) {
  static constexpr const char* names[] = {"let",  "check",   "type",      "pointwise", "reduction",
                                          "view", "scatter", "decompose", "extern"};
  return names[static_cast<int>(kind)];
}

const Step* Block::meaning() const {
  const auto found = std::find_if(steps.begin(), steps.end(), [](const Step& step) { return is_meaning(step.kind); });
  return found == steps.end() ? nullptr : &*found;
}

bool Block::is_declaration() const {
  return std::all_of(steps.begin(), steps.end(), [](const Step& step) { return step.kind < StepKind::type; });
}

Result<void> parse_block(const BlockPlace& place, const std::vector<const Schema*>& schemas, const Library& library,
                         bool with_examples, Block& block) {
  return BlockParser(place, library, block).parse(schemas, with_examples);
}

namespace {

Result<void> parse_function(const Function& function, const Library& library) {
  Function::Body& body = function.body;
  ExpressionParser parser(*function.file, library, body.tree);
  parser.start(function.begin, function.end);
  parser.expect("def");
  parser.expect(function.name);
  parser.expect("(");
  while (!parser.failed() && !parser.peek(")")) {
    if (parser.pattern().slot < 0) parser.fail("a parameter is one name");
    ++body.parameters;
    if (!parser.take(",")) break;
  }
  parser.expect(")");
  parser.expect("=");
  body.value = parser.expression();
  if (parser.at_text()) body.message = parser.message();
  parser.expect_end();
  return parser.outcome();
}

Result<void> parse_monoid(const MonoidDefinition& monoid, const Library& library) {
  MonoidDefinition::Body& body = monoid.body;
  ExpressionParser parser(*monoid.file, library, body.tree);
  parser.start(monoid.begin, monoid.end);
  parser.expect("monoid");
  parser.expect(monoid.name);
  parser.declare("a");
  parser.declare("b");
  body.identity = parser.postfix();
  body.joined = parser.expression();
  parser.expect_end();
  return parser.outcome();
}

template <class Definition, class Parse>
Result<const typename Definition::Body*> parsed_once(const Definition& definition, const Library& library,
                                                     Parse parse) {
  std::call_once(definition.once, [&] {
    Result<void> parsed = parse(definition, library);
    if (!parsed) definition.failure = parsed.error();
  });
  if (definition.failure) return *definition.failure;
  return &definition.body;
}

}  // namespace

Result<const Function::Body*> body_of(const Function& function, const Library& library) {
  return parsed_once(function, library, parse_function);
}

Result<const MonoidDefinition::Body*> body_of(const MonoidDefinition& monoid, const Library& library) {
  return parsed_once(monoid, library, parse_monoid);
}

}  // namespace atenon::opset
