#include "verify/check_graph.h"

#include <algorithm>

#include "ir/call_body.h"
#include "ir/control_flow.h"
#include "opset/call.h"
#include "text/text.h"

namespace atenon::verify {
namespace {

std::string quoted(const std::string& text) { return "'" + text + "'"; }

// Sizes that depend on data are symbols. An inference calls them by numbers that no program reaches, the program as it
// likes: where the inferred size is such a symbol, the program's size is its name.
constexpr int first_fresh = 1'000'000;
void match_unbacked(const shape::SymInt& inferred, const shape::SymInt& declared, const std::set<std::string>& fresh,
                    shape::Substitution& names) {
  std::optional<std::string> symbol = inferred.as_symbol();
  if (symbol && fresh.contains(*symbol)) names.emplace(*symbol, declared);
}

bool same_type(const ir::Type& inferred, const ir::Type& declared, const shape::Facts& facts,
               const shape::Substitution& names) {
  if (inferred.index() != declared.index()) return false;
  if (std::holds_alternative<ir::ScalarKind>(inferred)) return inferred == declared;
  const auto& a = std::get<ir::TensorMeta>(inferred);
  const auto& b = std::get<ir::TensorMeta>(declared);
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    shape::SymInt size = names.empty() ? a.sizes[i] : shape::substitute(a.sizes[i], names);
    if (size != b.sizes[i] && facts.decide(shape::equal(size, b.sizes[i])) != shape::Truth::proven) return false;
  }
  return true;
}

// What is known inside a graph, where so much is known of its variant: to learn that takes longer than to copy it.
shape::Facts facts_inside(shape::Facts known, const ir::Graph& graph) {
  for (const ir::Constraint& constraint : graph.assumptions) known.assume(constraint.truth);
  return known;
}

class GraphCheck {
 public:
  GraphCheck(const ir::Graph& graph, const ir::Variant& variant, const shape::Facts& known,
             const std::set<std::string>& symbols, Findings& findings)
      : graph_(graph),
        variant_(variant),
        known_(known),
        facts_(facts_inside(known, graph)),
        symbols_(symbols),
        findings_(findings) {}

  std::set<std::string> run() {
    for (const auto& input : graph_.inputs()) {
      define(*input);
      // An integer input is a symbol by its own name.
      if (!input->is_tensor()) symbols_.insert(input->name);
      check_symbols(symbols_of(input->type), "input %" + input->name);
    }
    for (const ir::Node& node : graph_.forward()) {
      check_operands(node);
      if (ir::is_call(node))
        check_call(node);
      else if (ir::is_control_flow(node.target()))
        check_control_flow(node);
      else
        check_operator(node);
      for (const auto& result : node.results()) define(*result);
    }
    for (const ir::Argument& output : graph_.outputs()) {
      ir::for_each(output, [&](const ir::Argument& argument) {
        if (argument.value() && !defined_.contains(argument.value())) {
          findings_.add(122, "the graph returns %" + argument.value()->name + ", which it does not define");
        }
      });
    }
    for (const ir::Constraint& assumption : graph_.assumptions)
      check_symbols(assumption.truth.symbols(), "an assumption of a subgraph");
    return std::move(symbols_);
  }

 private:
  static std::set<std::string> symbols_of(const ir::Type& type) {
    std::set<std::string> symbols;
    if (const auto* meta = std::get_if<ir::TensorMeta>(&type)) {
      for (const shape::SymInt& size : meta->sizes) symbols.merge(size.symbols());
    }
    return symbols;
  }

  void define(const ir::Value& value) {
    if (!names_.insert(value.name).second) findings_.add(121, "two values of one graph are named %" + value.name);
    defined_.insert(&value);
  }

  void check_symbols(const std::set<std::string>& used, const std::string& where) {
    verify::check_symbols(used, symbols_, where, findings_);
  }

  void check_operands(const ir::Node& node) {
    for (const ir::Value* operand : node.operands()) {
      if (!defined_.contains(operand)) findings_.add(122, "%" + operand->name + " is used before it is defined", node);
    }
    check_symbols(ir::symbols_read(node), "an argument of " + node.target());
  }

  // A lowered call is what its subgraph says: the operands and results must be the subgraph's.
  void check_call(const ir::Node& node) {
    const ir::Graph* body = ir::body_of(node, variant_);
    if (!body) return findings_.add(124, "a call names no subgraph of its variant", node);
    std::vector<ir::Value*> operands = node.operands();
    bool fits = operands.size() == body->inputs().size() && node.results().size() == body->outputs().size();
    for (size_t i = 0; fits && i < operands.size(); ++i)
      fits = same_type(body->inputs()[i]->type, operands[i]->type, facts_, {});
    for (size_t i = 0; fits && i < node.results().size(); ++i) {
      const ir::Value* output = body->outputs()[i].value();
      fits = output && same_type(output->type, node.result(i)->type, facts_, {});
    }
    if (!fits) findings_.add(124, "operands and results of a call are not those of its subgraph", node);
  }

  // Subgraphs take what the node hands them, and give what it yields.
  void check_control_flow(const ir::Node& node) {
    using Kind = ir::ControlFlow::Kind;
    const std::optional<ir::ControlFlow> flow = ir::control_flow(node);
    if (!flow) return findings_.add(128, node.target() + " does not have the arguments that it takes", node);
    for (const auto& result : node.results()) symbols_.insert(result->name);
    for (const std::string& symbol : ir::symbols_defined(node)) symbols_.insert(symbol);
    std::vector<std::optional<ir::Type>> inputs;
    const auto add = [&](const ir::ArgumentList& list, bool sliced) {
      for (const ir::Argument& argument : list) {
        std::optional<ir::Type> type = type_of(argument);
        auto* meta = type ? std::get_if<ir::TensorMeta>(&*type) : nullptr;
        if (sliced && (!meta || meta->sizes.empty())) type.reset();
        if (sliced && type) meta->sizes.erase(meta->sizes.begin());
        inputs.push_back(std::move(type));
      }
    };
    add(flow->carried, false);
    if (flow->kind == Kind::associative_scan) add(flow->xs, true);
    add(flow->xs, true);
    add(flow->operands, false);
    for (size_t i = 0; i < flow->bodies.size(); ++i) {
      const auto found = variant_.subgraphs.find(flow->bodies[i]);
      if (found == variant_.subgraphs.end())
        return findings_.add(128, node.target() + " names @" + flow->bodies[i] + ", which the variant does not have",
                             node);
      const ir::Graph& body = found->second;
      bool fits = body.inputs().size() == inputs.size();
      for (size_t j = 0; fits && j < inputs.size(); ++j)
        fits = inputs[j] && same_type(body.inputs()[j]->type, *inputs[j], facts_, {});
      const bool is_condition = flow->kind == Kind::while_loop && i == 0;
      fits = fits && body.outputs().size() == (is_condition ? 1 : node.results().size());
      const shape::Facts inside = facts_inside(known_, body);
      for (size_t j = 0; fits && !is_condition && j < body.outputs().size(); ++j)
        fits = gives(*flow, body.outputs()[j], node.result(j)->type, j, inside);
      if (!fits)
        findings_.add(128, "@" + flow->bodies[i] + " does not take or give what " + node.target() + " does", node);
    }
  }

  static std::optional<ir::Type> type_of(const ir::Argument& argument) {
    if (argument.value()) return argument.value()->type;
    if (argument.is<shape::SymInt>()) return ir::ScalarKind::integer;
    if (argument.is<shape::SymFloat>()) return ir::ScalarKind::floating;
    if (argument.is<shape::SymBool>()) return ir::ScalarKind::boolean;
    return std::nullopt;
  }

  // Whether a subgraph's output makes result i: itself, one slice of it, or, of a condition, a tensor of its rank.
  static bool gives(const ir::ControlFlow& flow, const ir::Argument& output, const ir::Type& result, size_t i,
                    const shape::Facts& inside) {
    using Kind = ir::ControlFlow::Kind;
    const std::optional<ir::Type> type = type_of(output);
    const auto* given = type ? std::get_if<ir::TensorMeta>(&*type) : nullptr;
    const auto* whole = std::get_if<ir::TensorMeta>(&result);
    if (!type || !given != !whole) return false;
    if (!whole) return *type == result;
    if (flow.kind == Kind::cond) return given->dtype == whole->dtype && given->rank() == whole->rank();
    if (flow.kind == Kind::while_loop || i < flow.carried.size()) return same_type(*given, *whole, inside, {});
    ir::TensorMeta slice = *whole;
    if (slice.sizes.empty()) return false;
    slice.sizes.erase(slice.sizes.begin());
    return same_type(*given, slice, inside, {});
  }

  // What only its schema describes: results are of the kinds that it returns, and of the types of what it updates.
  void check_declared(const ir::Node& node, const opset::Call& call) {
    const opset::Schema& schema = call.op->schema();
    std::vector<const ir::Value*> updated;
    for (const size_t i : schema.updated())
      ir::for_each(call.arguments[i], [&](const ir::Argument& item) {
        if (item.value()) updated.push_back(item.value());
      });
    bool has_list = false;
    for (const opset::Return& result : schema.returns) has_list = has_list || result.type.list;
    const size_t least = updated.size() + (has_list ? 0 : schema.returns.size()), count = node.results().size();
    if (count < least || (!has_list && count > least))
      return findings_.add(
          125, node.target() + " has " + std::to_string(least) + " results here, not " + std::to_string(count), node);
    for (const auto& result : node.results())
      if (!result->is_tensor()) symbols_.insert(result->name);
    for (size_t i = 0; i < count; ++i) {
      const ir::Value& result = *node.result(i);
      check_symbols(symbols_of(result.type), "%" + result.name);
      const size_t left = count - i;
      bool fits = left > updated.size() || same_type(updated[updated.size() - left]->type, result.type, facts_, {});
      if (!has_list && i < schema.returns.size())
        fits = result.is_tensor() == (schema.returns[i].type.kind == opset::Kind::tensor);
      if (!fits)
        findings_.add(126,
                      "%" + result.name + " is declared " + ir::to_string(result.type) + ", but the operator is " +
                          schema.to_string(),
                      node);
    }
  }

  // Whether a result is declared as it is without the assumptions, with which its size may look another one than proofs
  // can tell is the same.
  bool is_as_by_ranges(const opset::Call& call, const ir::Node& node, size_t result) const {
    shape::Facts ranges;
    for (const auto& [symbol, range] : facts_.ranges()) ranges.declare(symbol, range);
    const Result<opset::Inference> inference = opset::infer(findings_.opset, call, ranges, first_fresh);
    if (!inference || !inference->unbacked.empty() || result >= inference->types.size()) return false;
    const auto is_assumed = [&](const ir::Constraint& needed) { return facts_.proves(needed.truth); };
    return std::ranges::all_of(inference->assumptions, is_assumed) &&
           same_type(inference->types[result], node.result(result)->type, ranges, {});
  }

  void check_operator(const ir::Node& node) {
    Result<opset::Call> call = opset::bind(findings_.opset, node);
    if (!call) return findings_.add(call.error(), node);
    if (call->op->is_declared()) return check_declared(node, *call);
    if (call->op->derivation() == opset::Derivation::out)
      return findings_.add(129, node.target() + " writes its results over others, and values never change here", node);
    Result<opset::Inference> inference = opset::infer(findings_.opset, *call, facts_, first_fresh);
    if (!inference) return findings_.add(inference.error(), node);
    if (inference->types.size() != node.results().size()) {
      return findings_.add(125,
                           node.target() + " has " + std::to_string(inference->types.size()) + " results here, not " +
                               std::to_string(node.results().size()),
                           node);
    }
    std::set<std::string> fresh;
    for (const ir::Symbol& symbol : inference->unbacked) fresh.insert(symbol.name);
    for (const auto& result : node.results())
      if (!result->is_tensor()) symbols_.insert(result->name);  // a number is a symbol by its own name
    shape::Substitution names;
    for (size_t i = 0; i < inference->types.size() && !fresh.empty(); ++i) {
      const auto* inferred = std::get_if<ir::TensorMeta>(&inference->types[i]);
      const auto* declared = std::get_if<ir::TensorMeta>(&node.result(i)->type);
      if (!inferred || !declared || inferred->rank() != declared->rank()) continue;
      for (int j = 0; j < inferred->rank(); ++j) match_unbacked(inferred->sizes[j], declared->sizes[j], fresh, names);
    }
    for (size_t i = 0; i < inference->types.size(); ++i) {
      check_symbols(symbols_of(node.result(i)->type), "%" + node.result(i)->name);
      if (same_type(inference->types[i], node.result(i)->type, facts_, names) || is_as_by_ranges(*call, node, i))
        continue;
      findings_.add(126,
                    "%" + node.result(i)->name + " is declared " + ir::to_string(node.result(i)->type) + ", but " +
                        node.target() + " gives " + ir::to_string(inference->types[i]),
                    node);
    }
    for (const ir::Constraint& assumption : inference->assumptions) {
      shape::SymBool truth = names.empty() ? assumption.truth : shape::substitute(assumption.truth, names);
      if (facts_.decide(truth) == shape::Truth::proven) continue;
      findings_.add(127, node.target() + " needs " + truth.to_string() + ", which the program does not assume", node);
    }
  }

  const ir::Graph& graph_;
  const ir::Variant& variant_;
  const shape::Facts& known_;  // of the variant
  const shape::Facts facts_;
  std::set<std::string> symbols_;
  std::set<std::string> names_;
  std::set<const ir::Value*> defined_;
  Findings& findings_;
};

}  // namespace

// The argument that the message quotes, if the line has it after the operator; else the operator.
SourceSpan narrowed(SourceSpan span, const std::string& message) {
  const size_t open = message.rfind('\''), start = open == std::string::npos ? open : message.rfind('\'', open - 1);
  if (open == std::string::npos || start == std::string::npos) return span;
  const std::string name = message.substr(start + 1, open - start - 1);
  const size_t found = span.text.find(name + "=", static_cast<size_t>(span.column));
  if (found == std::string::npos) return span;
  span.column = static_cast<int>(found) + 1;
  span.width = static_cast<int>(name.size());
  return span;
}

void Findings::add(int code, std::string message) {
  problems.push_back(error(Status::bad_input, code, std::move(message)));
}

void Findings::add(int code, std::string message, const ir::Node& node) {
  add(error(Status::bad_input, code, std::move(message)), node);
}

void Findings::add(Diagnostic diagnostic, const ir::Node& node) {
  if (const auto place = places.find(&node); place != places.end())
    diagnostic.where = narrowed(place->second, diagnostic.message);
  else
    diagnostic.notes.push_back({"in " + text::print(node)});
  for (Note& note : text::provenance_notes(program, node)) diagnostic.notes.push_back(std::move(note));
  problems.push_back(std::move(diagnostic));
}

std::set<std::string> check_graph(const ir::Graph& graph, const ir::Variant& variant, const shape::Facts& known,
                                  const std::set<std::string>& symbols, Findings& findings) {
  return GraphCheck(graph, variant, known, symbols, findings).run();
}

void check_symbols(const std::set<std::string>& used, const std::set<std::string>& known, const std::string& where,
                   Findings& findings) {
  for (const std::string& symbol : used)
    if (!known.contains(symbol))
      findings.add(123, where + " uses the symbol " + quoted(symbol) + ", which is not declared");
}

}  // namespace atenon::verify
