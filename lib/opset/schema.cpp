// Reads the schema language of native_functions.yaml, as PyTorch itself prints it, in one pass over the text.
#include "opset/schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace atenon::opset {
namespace {

struct KindName {
  std::string_view name;
  Kind kind;
};
constexpr std::array kind_names = {
    KindName{"Tensor", Kind::tensor},     KindName{"int", Kind::integer},        KindName{"SymInt", Kind::integer},
    KindName{"float", Kind::floating},    KindName{"SymFloat", Kind::floating},  KindName{"bool", Kind::boolean},
    KindName{"SymBool", Kind::boolean},   KindName{"Scalar", Kind::number},      KindName{"str", Kind::text},
    KindName{"ScalarType", Kind::dtype},  KindName{"Layout", Kind::word},        KindName{"Device", Kind::word},
    KindName{"MemoryFormat", Kind::word}, KindName{"Generator", Kind::generator}};

constexpr int most_items = 64;  // of int[2]: as many as a tensor has dimensions at most

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Result<Schema> read() {
    Schema schema;
    schema.name = name("the operator's name");
    if (take(".")) schema.overload = name("the overload's name");
    expect("(");
    bool keyword_only = false;
    while (!failure_ && !take(")")) {
      if (take("*")) {
        keyword_only = true;
      } else {
        schema.parameters.push_back(parameter());
        schema.parameters.back().keyword_only = keyword_only;
      }
      if (!take(",") && !peek(")")) fail("expected ',' or ')'");
    }
    expect("->");
    if (take("(")) {
      while (!failure_ && !take(")")) {
        schema.returns.push_back(result());
        if (!take(",") && !peek(")")) fail("expected ',' or ')'");
      }
    } else {
      schema.returns.push_back(result());
    }
    skip();
    if (at_ < text_.size()) fail("expected the end of the schema");
    if (failure_) return std::move(*failure_);
    return schema;
  }

 private:
  void fail(const std::string& message) {
    if (failure_) return;
    const int column = static_cast<int>(at_) + 1;
    failure_ = error(Status::bad_input, 103, message).at({.line = 1, .column = column, .text = text_});
    at_ = text_.size();
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek(std::string_view token) {
    skip();
    return std::string_view(text_).substr(at_, token.size()) == token;
  }
  bool take(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("expected '" + std::string(token) + "'");
  }
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  std::string name(const char* what) {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_.compare(at_, 2, "::") == 0))
      at_ += is_word(text_[at_]) ? 1 : 2;
    if (at_ == start) fail(std::string("expected ") + what);
    return text_.substr(start, at_ - start);
  }

  ParameterType type() {
    ParameterType type;
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view word = std::string_view(text_).substr(start, at_ - start);
    if (word.empty()) fail("expected a type");
    const auto* known =
        std::find_if(kind_names.begin(), kind_names.end(), [&](const KindName& k) { return k.name == word; });
    type.kind = known == kind_names.end() ? Kind::custom : known->kind;
    if (text_.compare(at_, 1, "(") == 0) {  // Tensor(a!), Tensor(a -> *); a space before the parenthesis ends the type
      take("(");
      type.alias = name("an alias");
      type.mutated = take("!");
      if (take("->") && !take("*")) name("an alias");
      expect(")");
    }
    for (bool more = true; more && !failure_;) {
      if (text_.compare(at_, 1, "?") == 0) {
        ++at_;
        type.optional = true;
      } else if (text_.compare(at_, 1, "[") == 0) {
        ++at_;
        type.optional_items = std::exchange(type.optional, false);
        type.list = true;
        const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), type.list_size);
        if (problem == std::errc() && (type.list_size < 1 || type.list_size > most_items))
          fail("a list has from 1 to " + std::to_string(most_items) + " items");
        if (problem == std::errc()) at_ = static_cast<size_t>(end - text_.data());
        expect("]");
      } else {
        more = false;
      }
    }
    return type;
  }

  Parameter parameter() {
    Parameter parameter;
    parameter.type = type();
    parameter.name = name("a parameter's name");
    if (take("=")) parameter.fallback = fallback(parameter.type);
    return parameter;
  }

  Return result() {
    Return result;
    result.type = type();
    skip();
    if (at_ < text_.size() && is_word(text_[at_])) result.name = name("a result's name");
    return result;
  }

  Argument fallback(const ParameterType& type) {
    skip();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '"' || c == '\'') {
      const size_t end = text_.find(c, at_ + 1);
      if (end == std::string::npos) return fail("the text is not closed"), Argument();
      std::string text = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return text;
    }
    if (take("[")) {
      ir::ArgumentList items;
      while (!failure_ && !take("]")) {
        if (peek("[")) fail("a default has no lists within lists");
        items.push_back(fallback(type));
        if (!take(",") && !peek("]")) fail("expected ',' or ']'");
      }
      return items;
    }
    if (c == '-' || c == '.' || std::isdigit(static_cast<unsigned char>(c))) return number(type);
    const std::string word = name("a default");
    if (word == "None") return ir::None();
    if (word == "True" || word == "False") return word == "True";
    if (type.kind == Kind::integer) return word == "Mean" ? 1 : word == "Sum" ? 2 : 0;  // at::Reduction
    if (type.kind == Kind::dtype)
      return scalar_type_named(word).value_or(word == "long" ? ScalarType::i64 : ScalarType::f32);
    if (word == "inf") return std::numeric_limits<double>::infinity();
    return ir::Word{word};
  }

  Argument number(const ParameterType& type) {
    const size_t start = at_;
    at_ = std::min(text_.find_first_not_of("+-.0123456789einf", at_), text_.size());
    const std::string_view digits = std::string_view(text_).substr(start, at_ - start);
    int64_t integer = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), integer);
    const bool is_integer = problem == std::errc() && end == digits.data() + digits.size();
    if (is_integer && type.kind != Kind::floating) return integer;
    return std::strtod(std::string(digits).c_str(), nullptr);
  }

  const std::string& text_;
  size_t at_ = 0;
  std::optional<Diagnostic> failure_;
};

std::string default_text(const Argument& argument) {
  if (argument.is<ir::None>()) return "None";
  if (argument.is<ir::SymInt>()) return argument.get<ir::SymInt>().to_string();
  if (argument.is<ir::SymFloat>()) return argument.get<ir::SymFloat>().to_string();
  if (argument.is<ir::SymBool>()) return argument.get<ir::SymBool>().constant().value_or(false) ? "True" : "False";
  if (argument.is<std::string>()) return '"' + argument.get<std::string>() + '"';
  if (argument.is<ScalarType>()) return torch_name_of(argument.get<ScalarType>());
  if (argument.is<ir::Word>()) return argument.get<ir::Word>().text;
  std::string text;
  if (argument.is<ir::ArgumentList>())
    for (const Argument& item : argument.get<ir::ArgumentList>())
      text += (text.empty() ? "" : ", ") + default_text(item);
  return '[' + text + ']';
}

}  // namespace

Result<Schema> parse_schema(const std::string& text) { return Reader(text).read(); }

std::string ParameterType::to_string() const {
  static constexpr const char* names[] = {"Tensor", "int",        "float",  "bool",      "Scalar",
                                          "str",    "ScalarType", "Device", "Generator", "Object"};
  std::string text = names[static_cast<int>(kind)];
  if (!alias.empty()) text += '(' + alias + (mutated ? "!)" : ")");
  if (optional_items) text += '?';
  if (list) text += '[' + (list_size > 0 ? std::to_string(list_size) : "") + ']';
  return optional ? text + '?' : text;
}

const Parameter* Schema::parameter(const std::string& name) const {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

std::vector<size_t> Schema::updated() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterType& type = parameters[i].type;
    const bool is_returned = std::any_of(returns.begin(), returns.end(),
                                         [&](const Return& result) { return result.type.alias == type.alias; });
    if (type.mutated && !is_returned) found.push_back(i);
  }
  return found;
}

std::vector<Return> Schema::results() const {
  std::vector<Return> all = returns;
  for (const size_t i : updated()) all.push_back({parameters[i].type, parameters[i].name});
  return all;
}

std::string Schema::to_string() const {
  std::string text = target() + '(';
  bool keyword_only = false;
  for (const Parameter& p : parameters) {
    if (&p != &parameters.front()) text += ", ";
    if (p.keyword_only && !std::exchange(keyword_only, true)) text += "*, ";
    text += p.type.to_string() + ' ' + p.name;
    if (p.fallback) text += '=' + default_text(*p.fallback);
  }
  text += ") -> ";
  if (returns.size() != 1) text += '(';
  for (const Return& r : returns) {
    if (&r != &returns.front()) text += ", ";
    text += r.type.to_string() + (r.name.empty() ? "" : ' ' + r.name);
  }
  return returns.size() != 1 ? text + ')' : text;
}

}  // namespace atenon::opset
