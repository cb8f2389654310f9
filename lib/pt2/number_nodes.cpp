// Numbers as nodes: sizes of tensors, what item() finds, and arithmetic and comparisons of them. Each is made where it
// is first needed; its value stands beside the graph, as an expression of sympy's.
#include <array>

#include "pt2/graph_writer.h"

namespace atenon::pt2 {
namespace {

using shape::Atom;
using shape::AtomKind;
using shape::Scalar;
using shape::SymBool;
using shape::SymFloat;
using shape::SymInt;

constexpr std::array<const char*, 3> kinds = {"as_sym_int", "as_sym_float", "as_sym_bool"};  // by index of a Scalar

std::string spelling(const Scalar& number) {
  return std::visit([](const auto& x) { return x.to_string(); }, number);
}

SymBool is_true(const std::string& symbol) { return shape::not_equal(SymInt::symbol(symbol), 0); }

// Nothing for what PyTorch has no operator of sizes for.
std::string target_of(AtomKind kind) {
  static const std::map<AtomKind, std::string> targets = {{AtomKind::floor_div, "_operator.floordiv"},
                                                          {AtomKind::mod, "_operator.mod"},
                                                          {AtomKind::min, "torch.sym_min"},
                                                          {AtomKind::max, "torch.sym_max"},
                                                          {AtomKind::trunc, "math.trunc"}};
  const auto found = targets.find(kind);
  return found == targets.end() ? "" : found->second;
}

SymInt apply(AtomKind kind, const SymInt& a, const SymInt& b) {
  return kind == AtomKind::floor_div ? shape::floor_div(a, b)
         : kind == AtomKind::mod     ? shape::mod(a, b)
         : kind == AtomKind::min     ? shape::min(a, b)
                                     : shape::max(a, b);
}

}  // namespace

Result<OutputJson> GraphWriter::sym_number(const Scalar& number) const {
  if (const auto* integer = std::get_if<SymInt>(&number)) return sym_int(*integer);
  const Scalar renamed = std::visit([&](const auto& x) { return Scalar(shape::substitute(x, renamed_)); }, number);
  const std::optional<std::string> text = print_expression(renamed, traits_);
  if (!text) return unsupported("it computes " + spelling(number));
  return OutputJson{{"as_expr", {{"expr_str", *text}, {"hint", nullptr}}}};
}

// The value is said already, or a constant.
Result<OutputJson> GraphWriter::number_argument(const Scalar& number) {
  if (std::visit([](const auto& x) { return x.constant().has_value(); }, number))
    return constant_value(std::visit([](const auto& x) { return ir::Argument(x); }, number));
  Result<std::string> name = name_of_number(number);
  if (!name) return name.error();
  return OutputJson{{kinds[number.index()], {{"as_name", *name}}}};
}

Result<std::string> GraphWriter::add_number(const std::string& target, const std::vector<Scalar>& operands,
                                            const Scalar& value) {
  OutputJson inputs = OutputJson::array();
  for (const Scalar& operand : operands) {
    Result<OutputJson> argument = number_argument(operand);
    if (!argument) return argument.error();
    inputs.push_back(
        {{"name", std::string(1, static_cast<char>('a' + inputs.size()))}, {"arg", *argument}, {"kind", positional}});
  }
  return add_number_node(target, inputs, value);
}

Result<std::string> GraphWriter::add_number_node(const std::string& target, const OutputJson& inputs,
                                                 const Scalar& value) {
  Result<OutputJson> said = sym_number(value);
  if (!said) return said.error();
  const std::string name = fresh_name(target.ends_with("sym_size.int") ? "sym_size_0" : "size_0");
  add_node(target, inputs, OutputJson::array({{{kinds[value.index()], {{"as_name", name}}}}}), OutputJson::object(),
           name);
  tables_.numbers[value.index()][name] = *said;
  return tables_.number_names[spelling(value)] = name;
}

Result<std::string> GraphWriter::name_of_number(const Scalar& number) {
  if (const auto known = tables_.number_names.find(spelling(number)); known != tables_.number_names.end())
    return known->second;
  if (const auto* integer = std::get_if<SymInt>(&number)) return name_of_sum(*integer);
  if (const auto* real = std::get_if<SymFloat>(&number)) return name_of_float(*real);
  return name_of_truth(std::get<SymBool>(number));
}

Result<std::string> GraphWriter::name_of_sum(const SymInt& size) {
  std::optional<SymInt> sum;
  for (const shape::Term& term : size.polynomial()->terms) {
    SymInt product = term.coefficient;
    for (const shape::Factor& factor : term.factors)
      for (int i = 0; i < factor.power; ++i) {
        Result<std::string> atom = name_of_atom(*factor.atom);
        if (!atom) return atom;
        const SymInt whole = shape::Polynomial::from({{.coefficient = 1, .factors = {{factor.atom, 1}}}});
        const SymInt so_far = product;
        product = so_far * whole;
        if (so_far == SymInt(1)) continue;
        if (Result<std::string> made = add_number("_operator.mul", {whole, so_far}, product); !made) return made;
      }
    const SymInt so_far = sum.value_or(0);
    if (sum)
      if (Result<std::string> made = add_number("_operator.add", {so_far, product}, so_far + product); !made)
        return made;
    sum = so_far + product;
  }
  return tables_.number_names.at(size.to_string());
}

Result<std::string> GraphWriter::name_of_atom(const Atom& atom) {
  if (const auto known = tables_.number_names.find(atom.spelling); known != tables_.number_names.end())
    return known->second;
  if (atom.kind == AtomKind::symbol) {
    const SymInt symbol = SymInt::symbol(atom.spelling);
    if (tables_.number_names.contains(is_true(atom.spelling).to_string()))
      return add_number("torch.sym_ite", {is_true(atom.spelling), SymInt(1), SymInt(0)}, symbol);
    const auto source = tables_.sources.find(atom.spelling);
    if (source == tables_.sources.end())
      return unsupported("it uses the size " + atom.spelling + ", which no tensor has");
    return add_number_node(
        "torch.ops.aten.sym_size.int",
        {{{"name", "self"}, {"arg", tensor_argument(name_of(*source->second.first))}, {"kind", positional}},
         {{"name", "dim"}, {"arg", {{"as_int", source->second.second}}}, {"kind", positional}}},
        symbol);
  }
  const std::string target = target_of(atom.kind);
  if (target.empty()) return unsupported("it computes the size " + atom.spelling);
  if (atom.kind == AtomKind::trunc) return add_number(target, {atom.floats[0]}, shape::trunc(atom.floats[0]));
  SymInt so_far = atom.operands[0];
  Result<std::string> name = std::string();
  for (size_t i = 1; name && i < atom.operands.size(); ++i) {
    const SymInt next = apply(atom.kind, so_far, atom.operands[i]);
    name = add_number(target, {so_far, atom.operands[i]}, next);
    so_far = next;
  }
  return name;
}

Result<std::string> GraphWriter::name_of_float(const SymFloat& value) {
  static const std::map<std::string, std::string> targets = {
      {"+", "_operator.add"},   {"-", "_operator.sub"},   {"*", "_operator.mul"},  {"/", "_operator.truediv"},
      {"pow", "_operator.pow"}, {"min", "torch.sym_min"}, {"max", "torch.sym_max"}};
  const shape::FloatNode& node = *value.node();
  if (node.op == "from") return add_number("torch.sym_float", {node.integer}, value);
  const auto target = targets.find(node.op);
  if (target == targets.end()) return unsupported("it computes " + value.to_string());
  return add_number(target->second, {node.operands.begin(), node.operands.end()}, value);
}

Result<std::string> GraphWriter::name_of_truth(const SymBool& value) {
  using Kind = SymBool::Kind;
  static const std::map<std::string, std::string> targets = {
      {"==", "_operator.eq"}, {"!=", "_operator.ne"}, {"<", "_operator.lt"}, {"<=", "_operator.le"}};
  const shape::BoolNode& node = *value.node();
  if (node.kind == Kind::all || node.kind == Kind::any) {
    const bool is_all = node.kind == Kind::all;
    SymBool so_far = node.operands[0];
    Result<std::string> name = std::string();
    for (size_t i = 1; name && i < node.operands.size(); ++i) {
      const SymBool next = is_all ? shape::both(so_far, node.operands[i]) : shape::either(so_far, node.operands[i]);
      name = add_number(is_all ? "_operator.and_" : "_operator.or_", {so_far, node.operands[i]}, next);
      so_far = next;
    }
    return name;
  }
  if (node.kind == Kind::opaque && node.op.starts_with("not "))
    return add_number("torch.sym_not", {shape::negate(value)}, value);
  if (node.kind == Kind::opaque)
    return add_number(targets.at(node.op), {node.floats.begin(), node.floats.end()}, value);
  const char* comparison = node.kind == Kind::eq ? "==" : node.kind == Kind::ne ? "!=" : "<=";
  return add_number(targets.at(comparison), {node.difference, SymInt(0)}, value);
}

// What item() finds. A truth is the symbol compared with 1, in these words: torch.export.load finds the symbol by them.
OutputJson GraphWriter::found_number(const ir::Value& result) {
  const SymInt symbol = SymInt::symbol(result.name);
  const ir::ScalarKind kind = std::get<ir::ScalarKind>(result.type);
  const Scalar number = kind == ir::ScalarKind::integer    ? Scalar(symbol)
                        : kind == ir::ScalarKind::floating ? Scalar(SymFloat::number(symbol))
                                                           : Scalar(is_true(result.name));
  const std::string name = name_of(result);
  OutputJson said = *sym_number(kind == ir::ScalarKind::boolean ? Scalar(symbol) : number);
  if (kind == ir::ScalarKind::boolean) {
    const std::string text = said["as_expr"]["expr_str"];
    said["as_expr"]["expr_str"] = "Equality(" + text + ", Integer(1))";
  }
  tables_.numbers[number.index()][name] = std::move(said);
  tables_.number_names[spelling(number)] = name;
  return {{kinds[number.index()], {{"as_name", name}}}};
}

bool GraphWriter::is_of_found(const SymBool& truth) const {
  const std::set<std::string> names = truth.symbols();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return entry_.symbol(name)->source.empty(); });
}

Result<void> GraphWriter::write_asserts(std::vector<ir::Constraint>& open) {
  const auto is_known = [&](const std::string& symbol) {
    const SymInt number = SymInt::symbol(symbol);
    return tables_.sources.contains(symbol) || tables_.number_names.contains(symbol) ||
           tables_.number_names.contains(SymFloat::number(number).to_string()) ||
           tables_.number_names.contains(is_true(symbol).to_string());
  };
  std::vector<ir::Constraint> later;
  for (const ir::Constraint& assumption : open) {
    const std::set<std::string> symbols = assumption.truth.symbols();
    if (!is_of_found(assumption.truth)) continue;
    if (!std::all_of(symbols.begin(), symbols.end(), is_known)) {
      later.push_back(assumption);
      continue;
    }
    Result<OutputJson> truth = number_argument(assumption.truth);
    if (!truth) return truth.error();
    const std::string message = assumption.reason.empty() ? assumption.truth.to_string() : assumption.reason;
    add_node("torch.ops.aten._assert_scalar.default",
             {{{"name", "self"}, {"arg", *truth}, {"kind", positional}},
              {{"name", "assert_msg"}, {"arg", {{"as_string", message}}}, {"kind", positional}}},
             OutputJson::array(), metadata(assumption.provenance), fresh_name("assert_0"));
  }
  open = std::move(later);
  return {};
}

}  // namespace atenon::pt2
