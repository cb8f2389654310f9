// Everything of the text form around graphs: header, entry points, signatures, call stacks, code and history.
#include <charconv>
#include <cstring>
#include <limits>

#include "text/limits.h"
#include "text/numbers.h"
#include "text/parser.h"
#include "text/text.h"
#include "text/words.h"

namespace atenon::text {
namespace {

// What may stand at the start of a line outside of graphs; for suggestions.
const std::vector<std::string> section_words = {
    "opset",       "operators", "entry",  "symbol",    "input",    "output",     "input_tree",
    "output_tree", "variant",   "assume", "guarantee", "annotate", "graph",      "subgraph",
    "weight",      "storage",   "stack",  "code",      "kernels",  "extra_file", "ran"};

std::vector<Note> suggestion(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string near = nearest(name, candidates);
  if (near.empty()) return {};
  return {{"did you mean '" + near + "'?"}};
}

}  // namespace

Result<ir::ExportedProgram> Parser::parse_program() {
  parse_header();
  while (!lexer_.at_end()) {
    const Token word = lexer_.token();
    if (lexer_.take("opset")) {
      const std::string name = lexer_.expect_string("the name of an operator set");
      program_.opsets.push_back({name, static_cast<int>(lexer_.expect_integer("a version", 0, 1 << 30))});
    } else if (lexer_.take("operators")) {
      parse_custom_block();
    } else if (lexer_.take("entry")) {
      parse_entry();
    } else if (lexer_.take("storage")) {
      parse_storage();
    } else if (lexer_.take("weight")) {
      parse_weight();
    } else if (lexer_.take("stack")) {
      parse_stack();
    } else if (lexer_.take("code")) {
      parse_code(/*is_library=*/false);
    } else if (lexer_.take("kernels")) {
      parse_code(/*is_library=*/true);
    } else if (lexer_.take("extra_file")) {
      parse_extra_file();
    } else if (lexer_.take("ran")) {
      parse_history();
    } else {
      const std::string text(word.text);
      lexer_.fail(210, "'" + text.substr(0, 40) + "' starts no part of a program", word,
                  suggestion(text, section_words));
    }
  }
  check_provenance();
  if (lexer_.failed()) return lexer_.error();
  return std::move(program_);
}

void Parser::check_unique(bool is_new, const std::string& what, const Token& where) {
  if (!is_new) lexer_.fail(212, what + " is defined twice", where);
}

// program 1.0
void Parser::parse_header() {
  if (!lexer_.is("program")) return lexer_.unexpected("a program, which starts with `program 1.0`");
  lexer_.advance();
  const Token version = lexer_.token();
  const std::string text(lexer_.expect(TokenKind::number, "the version of the text form"));
  if (lexer_.failed()) return;
  int major = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), major);
  if (problem == std::errc::result_out_of_range) major = std::numeric_limits<int>::max();
  if (*rest != '.' || major < 1) return lexer_.fail(210, "expected a version such as 1.0", version);
  if (major > format_major) {
    lexer_.fail(216,
                "this program is of version " + text + ", and this tool reads up to " + std::to_string(format_major) +
                    ".x: a newer atenon wrote it",
                version);
  }
}

void Parser::parse_custom_block() {
  if (!lexer_.at(TokenKind::raw_line)) return lexer_.unexpected("lines that start with |");
  std::string block;
  for (bool is_first = true; lexer_.at(TokenKind::raw_line); is_first = false, lexer_.advance()) {
    if (!is_first) block += '\n';
    block += lexer_.token().text;
  }
  program_.custom_blocks.push_back(std::move(block));
}

void Parser::parse_entry() {
  const Token where = lexer_.token();
  ir::EntryPoint entry;
  entry.name = lexer_.expect_string("the name of the entry point");
  check_unique(lexer_.failed() || entry.name.empty() || !program_.entry(entry.name), "entry point " + quote(entry.name),
               where);
  if (!lexer_.failed() && entry.name.empty()) lexer_.fail(213, "an entry point needs a name", where);
  while (!lexer_.at_end()) {
    if (lexer_.take("symbol")) {
      parse_symbol(entry);
    } else if (lexer_.take("input")) {
      parse_input_spec(entry.signature);
    } else if (lexer_.take("output")) {
      parse_output_spec(entry.signature);
    } else if (lexer_.take("input_tree")) {
      entry.signature.input_tree = parse_tree(0);
    } else if (lexer_.take("output_tree")) {
      entry.signature.output_tree = parse_tree(0);
    } else if (lexer_.take("variant")) {
      const Token name = lexer_.token();
      ir::Variant& variant = entry.variants.emplace_back();
      variant.name = lexer_.expect_string("the name of the variant");
      for (const ir::Variant& other : entry.variants) {
        check_unique(&other == &variant || other.name != variant.name, "variant " + quote(variant.name), name);
      }
    } else if (lexer_.take("assume")) {
      ir::Variant& variant = open_variant(entry);
      variant.assumptions.push_back(parse_constraint());
    } else if (lexer_.take("guarantee")) {
      ir::Variant& variant = open_variant(entry);
      variant.guarantees.push_back(parse_constraint());
    } else if (lexer_.take("annotate")) {
      ir::Variant& variant = open_variant(entry);
      variant.annotations = parse_annotations();
    } else if (lexer_.take("graph")) {
      ir::Variant& variant = open_variant(entry);
      if (!variant.graph.inputs().empty() || !variant.graph.empty())
        lexer_.unexpected("`variant` before a further graph");
      variant.graph = parse_graph(false);
    } else if (lexer_.take("subgraph")) {
      parse_subgraph(open_variant(entry));
    } else {
      break;
    }
  }
  if (!lexer_.failed()) program_.entries.push_back(std::move(entry));
}

// The one that `variant` began, or the only one, which needs no name.
ir::Variant& Parser::open_variant(ir::EntryPoint& entry) {
  return entry.variants.empty() ? entry.variants.emplace_back() : entry.variants.back();
}

// symbol b: 1..64 hint 4 from "x[0]"
void Parser::parse_symbol(ir::EntryPoint& entry) {
  constexpr int64_t lowest = shape::Range::lowest, highest = shape::Range::highest;
  ir::Symbol symbol;
  const Token name = lexer_.token();
  symbol.name = lexer_.expect(TokenKind::word, "the name of a symbol");
  if (lexer_.failed()) return;
  if (!is_symbol_name(symbol.name)) lexer_.fail(213, "'" + symbol.name + "' cannot be the name of a symbol", name);
  check_unique(!entry.symbol(symbol.name), "symbol " + symbol.name, name);
  lexer_.expect(":", "and a range after the name of a symbol");
  symbol.range = {lowest, highest};
  const Token range = lexer_.token();
  if (!lexer_.is("..")) symbol.range.lower = lexer_.expect_integer("the lowest value", lowest, highest);
  lexer_.expect("..", "between the ends of a range");
  if (lexer_.is("-") || lexer_.at(TokenKind::number))
    symbol.range.upper = lexer_.expect_integer("the highest value", lowest, highest);
  if (symbol.range.lower > symbol.range.upper) lexer_.fail(214, "this range is empty", range);
  if (lexer_.take("hint")) symbol.hint = lexer_.expect_integer("a hint", lowest, highest);
  if (lexer_.take("from")) symbol.source = lexer_.expect_string("the dimension that the symbol is read from");
  entry.symbols.push_back(std::move(symbol));
}

// input %p_weight: parameter "fc.weight"
// input user_input "flag" = 2
void Parser::parse_input_spec(ir::GraphSignature& signature) {
  ir::InputSpec spec;
  if (lexer_.at(TokenKind::value)) {
    const Token value = lexer_.token();
    spec.value = lexer_.expect(TokenKind::value, "a value");
    check_unique(!signature.input(spec.value), "input %" + spec.value, value);
    lexer_.expect(":", "and a kind after the value");
  }
  const Token token = lexer_.token();
  const std::string name(lexer_.expect(TokenKind::word, "a kind of input such as user_input"));
  const std::optional<ir::InputKind> kind = input_kind_named(name);
  if (!kind) lexer_.fail(210, "there is no kind of input '" + name + "'", token, suggestion(name, input_kind_names()));
  spec.kind = kind.value_or(ir::InputKind::user_input);
  spec.target = lexer_.expect_string("what the input stands for");
  spec.persistent = !lexer_.take("transient");
  if (lexer_.take("=")) spec.constant = parse_argument(nullptr, 0);
  signature.inputs.push_back(std::move(spec));
}

// output buffer_mutation "bn.mean"
void Parser::parse_output_spec(ir::GraphSignature& signature) {
  const Token token = lexer_.token();
  const std::string name(lexer_.expect(TokenKind::word, "a kind of output such as user_output"));
  const std::optional<ir::OutputKind> kind = output_kind_named(name);
  if (!kind)
    lexer_.fail(210, "there is no kind of output '" + name + "'", token, suggestion(name, output_kind_names()));
  signature.outputs.push_back({kind.value_or(ir::OutputKind::user_output), lexer_.expect_string("what the output is")});
}

// (x: *, cache: [(*, *), None]), {hidden: *}, namedtuple "torch.Size" (*), custom "cache.Cache" (keys: *)
ir::TreeSpec Parser::parse_tree(int depth) {
  using Kind = ir::TreeSpec::Kind;
  ir::TreeSpec tree;
  const Token token = lexer_.token();
  if (depth > max_depth)
    lexer_.fail(215, "containers are nested more than " + std::to_string(max_depth) + " deep", token);
  if (lexer_.take("*")) return tree;
  if (lexer_.take("None")) return {Kind::none, "", {}, {}};
  if (lexer_.take("namedtuple") || lexer_.take("custom")) {
    tree.kind = token.text == "custom" ? Kind::custom : Kind::named_tuple;
    tree.type = lexer_.expect_string("the class of the container");
  } else {
    tree.kind = lexer_.is("(") ? Kind::tuple : lexer_.is("[") ? Kind::list : Kind::dict;
  }
  const TreeWords& words = words_of(tree.kind);
  if (!lexer_.take(words.open)) {
    lexer_.unexpected("a pytree: *, None, or containers in (), [] or {}");
    return tree;
  }
  while (!lexer_.at_end() && !lexer_.is(words.close)) {
    if (!tree.children.empty()) lexer_.expect(",", "between the members of a container");
    const bool is_leaf = lexer_.is("None") || lexer_.is("namedtuple") || lexer_.is("custom");
    if (lexer_.at(TokenKind::string)) {
      tree.keys.push_back(lexer_.expect_string("a key"));
      lexer_.expect(":", "after a key");
    } else if ((lexer_.at(TokenKind::word) && !is_leaf) || lexer_.at(TokenKind::number)) {
      tree.keys.emplace_back(lexer_.token().text);
      lexer_.advance();
      lexer_.expect(":", "after a key");
    }
    tree.children.push_back(parse_tree(depth + 1));
  }
  if (!tree.keys.empty() && tree.keys.size() != tree.children.size()) {
    lexer_.fail(214, "either all members of a container have keys, or none", token);
  }
  lexer_.expect(words.close, "after the members of a container");
  return tree;
}

// b <= 64  @3  "reason"
ir::Constraint Parser::parse_constraint() {
  ir::Constraint constraint;
  const Token token = lexer_.token();
  const ir::Argument truth = parse_expression();
  if (truth.is<ir::SymBool>()) {
    constraint.truth = truth.get<ir::SymBool>();
  } else if (!lexer_.failed()) {
    lexer_.fail(210, "expected a truth such as b <= 64", token);
  }
  constraint.provenance = parse_provenance();
  if (lexer_.at(TokenKind::string)) constraint.reason = lexer_.expect_string("a reason");
  return constraint;
}

void Parser::parse_subgraph(ir::Variant& variant) {
  const Token name = lexer_.token();
  const std::string text(lexer_.expect(TokenKind::reference, "the name of the subgraph, such as @body"));
  check_unique(!variant.subgraphs.contains(text), "subgraph @" + text, name);
  variant.subgraphs[text] = parse_graph(true);
}

// stack @12 module "layers.0" class "net.Block" from "aten::layer_norm"
//   at "net.py":12 in "forward": "h = F.gelu(y)"
void Parser::parse_stack() {
  const Token number = lexer_.token();
  const std::string text(lexer_.expect(TokenKind::reference, "the number of a call stack, such as @12"));
  ir::CallStack stack;
  if (lexer_.take("module")) stack.module_path = lexer_.expect_string("the path of a module");
  if (lexer_.take("class")) stack.module_class = lexer_.expect_string("the class of a module");
  if (lexer_.take("from")) {
    do stack.made_from.push_back(lexer_.expect_string("an operator"));
    while (lexer_.at(TokenKind::string));
  }
  while (lexer_.take("at")) {
    ir::Frame frame;
    frame.file = lexer_.expect_string("a file");
    lexer_.expect(":", "after the name of a file");
    frame.line = static_cast<int>(lexer_.expect_integer("a line number", 0, 1 << 30));
    lexer_.expect("in", "after the line number");
    frame.function = lexer_.expect_string("a function");
    lexer_.expect(":", "after the name of a function");
    frame.code = lexer_.expect_string("a line of Python");
    stack.frames.push_back(std::make_shared<ir::Frame>(std::move(frame)));
  }
  if (lexer_.failed()) return;
  const std::string expected = std::to_string(program_.provenance.size());
  if (text != expected) return lexer_.fail(210, "call stacks are numbered in order: expected @" + expected, number);
  const size_t before = program_.provenance.size();
  program_.provenance.intern(std::move(stack));
  check_unique(program_.provenance.size() > before, "this call stack", number);
}

void Parser::check_provenance() {
  if (lexer_.failed() || provenance_uses_.empty()) return;
  const auto& [id, token] = *provenance_uses_.rbegin();
  if (id >= program_.provenance.size()) lexer_.fail(211, "there is no call stack @" + std::to_string(id), token);
}

// code "k0" for "x86_64-avx512" = xxh3:... 12345, or kernels "squash.so" for "x86_64" = xxh3:... 12345
void Parser::parse_code(bool is_library) {
  const Token where = lexer_.token();
  ir::CodeSegment code{.is_library = is_library};
  code.name = lexer_.expect_string("the name of the code");
  for (const ir::CodeSegment& other : program_.code)
    check_unique(other.name != code.name, "code " + quote(code.name), where);
  lexer_.expect("for", "after the name of the code");
  code.target = lexer_.expect_string("the target of the code");
  lexer_.expect("=", "before the digest of the code");
  if (!lexer_.is("xxh3")) return lexer_.unexpected("a digest, xxh3:...");
  code.bytes = parse_digest();
  program_.code.push_back(std::move(code));
}

// extra_file "labels.txt" = "cat\ndog", or extra_file "labels.txt" = xxh3:... 12345
void Parser::parse_extra_file() {
  const Token where = lexer_.token();
  ir::ExtraFile file;
  file.name = lexer_.expect_string("the name of the extra file");
  check_unique(lexer_.failed() || !program_.extra_file(file.name), "extra file " + quote(file.name), where);
  lexer_.expect("=", "before the content of an extra file");
  if (lexer_.is("xxh3")) {
    file.bytes = parse_digest();
  } else {
    const std::string content = lexer_.expect_string("the content of the extra file, or its digest, xxh3:...");
    file.bytes = Storage::allocate(content.size());
    std::memcpy(file.bytes->mutable_data(), content.data(), content.size());
  }
  program_.extra_files.push_back(std::move(file));
}

// ran "atenon-decompose" "0.1.0" "--to" "core"
void Parser::parse_history() {
  ir::HistoryEntry entry;
  entry.tool = lexer_.expect_string("the name of a tool");
  entry.version = lexer_.expect_string("the version of the tool");
  while (lexer_.at(TokenKind::string)) entry.options.push_back(lexer_.expect_string("an option"));
  program_.history.push_back(std::move(entry));
}

Result<ir::ExportedProgram> parse(std::string_view source, const std::string& file_name, NodePlaces* places) {
  return Parser(source, file_name, places).parse_program();
}

}  // namespace atenon::text
