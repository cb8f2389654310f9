#include "diff/diff.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "diff/match.h"
#include "kernels/body.h"
#include "run/leaves.h"
#include "run/run.h"
#include "text/text.h"

namespace atenon::diff {
namespace {

using Values = std::map<const ir::Value*, Tensor>;

struct Tolerance {
  double absolute = 0, relative = 0;
};

Result<double> number(const std::string& text) {
  double value = 0;
  auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || rest != text.data() + text.size() || !(value >= 0)) {
    return error(Status::usage, 701, "the tolerance '" + text + "' is no number from 0 on").note("write 1e-4");
  }
  return value;
}

// NaN equals NaN, and an infinity itself: the question is whether the programs agree.
double distance_of(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double distance = std::abs(a - b);
  return std::isnan(distance) ? INFINITY : distance;
}

double distance_of(int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<double>(a < b ? y - x : x - y);
}

// How far apart neighbouring numbers are, as a part of them, at most. What 16 bits hold cannot agree more closely.
double spacing_of(ScalarType dtype) {
  return dtype == ScalarType::bf16 ? 0x1p-7 : dtype == ScalarType::f16 ? 0x1p-10 : 0;
}

// Whole numbers and truths are the same or not: an index is no less wrong for being large.
std::optional<Difference> compare(const Tensor& a, const Tensor& b, const Tolerance& allowed) {
  const Tensor left = run::in_reals(a), right = run::in_reals(b);
  if (left.sizes != right.sizes) return std::nullopt;
  Difference difference;
  int64_t worst = -1;
  const bool is_exact = !is_floating(left.dtype) && !is_floating(right.dtype);
  const double relative =
      allowed.relative == 0 ? 0 : std::max({allowed.relative, spacing_of(left.dtype), spacing_of(right.dtype)});
  for (int64_t i = 0, n = left.numel(); i < n; ++i) {
    const double x = left.float_at(i), y = right.float_at(i);
    const double distance = is_exact ? distance_of(left.int_at(i), right.int_at(i)) : distance_of(x, y);
    difference.largest = std::max(difference.largest, distance);
    const double room = is_exact ? 0.5 : allowed.absolute + relative * std::abs(x);
    const double here = distance == 0 || !std::isfinite(distance) ? distance : distance / std::max(room, 1e-300);
    if (here <= difference.excess && worst >= 0) continue;
    difference.excess = here;
    worst = i;
    difference.left = x;
    difference.right = y;
  }
  std::vector<int64_t> strides = contiguous_strides(left.sizes);
  for (size_t axis = 0; axis < strides.size() && worst >= 0; ++axis) {
    difference.at.push_back(strides[axis] ? worst / strides[axis] % std::max<int64_t>(left.sizes[axis], 1) : 0);
  }
  return difference;
}

Tensor copy_of(const Tensor& tensor) {
  Tensor rows = tensor.contiguous();
  Tensor copy = Tensor::empty(rows.dtype, rows.sizes);
  if (rows.nbytes()) std::memcpy(copy.mutable_data(), rows.data(), rows.nbytes());
  return copy;
}

// Runs a session and keeps the results of the nodes that are wanted.
Result<std::vector<run::Datum>> observed(run::Session& session, const std::vector<std::optional<run::Datum>>& inputs,
                                         const std::set<const ir::Value*>& wanted, Values& values) {
  return session.run(inputs, [&](const run::Observation& seen) -> Result<void> {
    for (size_t i = 0; i < seen.results.size(); ++i) {
      const ir::Value* value = seen.node.result(i);
      if (wanted.contains(value)) values[value] = copy_of(run::tensor_of(seen.results[i]));
    }
    return {};
  });
}

std::map<std::string, int> operators_of(const ir::Variant& variant) {
  std::map<std::string, int> counts;
  for (const ir::Node& node : variant.graph.forward()) ++counts[node.target()];
  return counts;
}

void compare_leaves(const std::vector<run::Leaf>& left, const std::vector<run::Leaf>& right, const std::string& what,
                    Report& report) {
  std::vector<std::string> a = run::leaf_names(left), b = run::leaf_names(right);
  if (a != b) {
    report.same_interface = false;
    auto joined = [](const std::vector<std::string>& names) {
      std::string text;
      for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
      return text;
    };
    report.structure.push_back(what + ": " + joined(a) + " | " + joined(b));
    return;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    std::string x = ir::to_string(left[i].type), y = ir::to_string(right[i].type);
    if (x != y) report.structure.push_back(what + " " + a[i] + ": " + x + " | " + y);
  }
}

// The first node of the left graph that is another one in the right, or has other arguments, and that one. Both have as
// many nodes.
std::optional<std::pair<const ir::Node*, const ir::Node*>> first_unlike(const ir::Graph& left, const ir::Graph& right) {
  std::map<const ir::Value*, ir::Value*> twin;
  const auto pair_up = [&](const auto& ours, const auto& theirs) {
    for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) twin[theirs[i].get()] = ours[i].get();
  };
  const auto twin_of = [&](ir::Value* value) -> ir::Argument { return twin.contains(value) ? twin[value] : value; };
  const auto is_same = [](const ir::Named& a, const ir::Named& b) {
    return a.name == b.name && a.argument == b.argument;
  };
  pair_up(left.inputs(), right.inputs());
  auto next = right.forward().begin();
  for (const ir::Node& node : left.forward()) {
    const ir::Node& other = *next;
    const std::vector<ir::Named> named = ir::map_values(other.keywords(), twin_of);
    if (node.target() != other.target() || !(node.arguments() == ir::map_values(other.arguments(), twin_of)) ||
        !std::equal(node.keywords().begin(), node.keywords().end(), named.begin(), named.end(), is_same))
      return std::pair(&node, &other);
    pair_up(node.results(), other.results());
    ++next;
  }
  return std::nullopt;
}

void compare_structure(const run::Session& left, const run::Session& right, Report& report) {
  compare_leaves(left.inputs(), right.inputs(), "input", report);
  compare_leaves(left.outputs(), right.outputs(), "output", report);
  const std::vector<ir::Variant>&ours = left.entry().variants, &theirs = right.entry().variants;
  if (ours.size() != theirs.size())
    report.structure.push_back("variants: " + std::to_string(ours.size()) + " | " + std::to_string(theirs.size()));
  std::map<std::string, int> a = operators_of(ours[0]), b = operators_of(theirs[0]);
  if (a == b)
    if (const auto unlike = first_unlike(ours[0].graph, theirs[0].graph))
      report.structure.push_back(text::print(*unlike->first) + " | " + text::print(*unlike->second));
  std::map<std::string, std::pair<int, int>> both;
  for (const auto& [target, count] : a) both[target].first = count;
  for (const auto& [target, count] : b) both[target].second = count;
  for (const auto& [target, counts] : both) {
    if (counts.first == counts.second) continue;
    report.structure.push_back(target + ": " + std::to_string(counts.first) + " | " + std::to_string(counts.second));
  }
}

void find_inexact(const run::Session& session, Report& report) {
  for (const ir::Variant& variant : session.entry().variants)
    for (const ir::Node& node : variant.graph.forward()) {
      if (!node.annotation("error")) continue;
      auto value = [&](const char* name) {
        const ir::Argument* found = node.annotation(name);
        return found ? kernels::number_of(*found, {}).value_or(0) : 0;
      };
      report.inexact.push_back({"%" + node.result()->name, kernels::kernel_of(node), value("error"),
                                value("direct_error"), run::python_line(session.program(), node)});
    }
}

// The first node, in the left program's order, whose value is off while what it was computed from is not.
void find_departure(const run::Session& left, const Matches& matches, const Values& a, const Values& b,
                    const Tolerance& allowed, Report& report) {
  std::map<const ir::Value*, double> inherited;  // excess of a value, or of the matched values behind it
  for (const ir::Node& node : left.entry().variants[0].graph.forward()) {
    double before = 0;
    for (const ir::Value* operand : node.operands()) before = std::max(before, inherited[operand]);
    for (const auto& result : node.results()) {
      inherited[result.get()] = before;
      auto match = matches.find(result.get());
      if (match == matches.end() || !a.contains(result.get()) || !b.contains(match->second)) continue;
      std::optional<Difference> difference = compare(a.at(result.get()), b.at(match->second), allowed);
      if (!difference) continue;
      ++report.matched;
      inherited[result.get()] = difference->excess;
      if (report.first || difference->excess <= 1 || before > 1) continue;
      report.first = Departure{text::print(node), text::print(*match->second->producer),
                               run::python_line(left.program(), node), *difference};
    }
  }
}

}  // namespace

bool Report::same() const {
  bool outputs_agree =
      std::all_of(outputs.begin(), outputs.end(), [](const auto& output) { return output.second.excess <= 1; });
  return same_interface && (compared ? outputs_agree : structure.empty());
}

Result<Report> run(ir::ExportedProgram left_program, ir::ExportedProgram right_program, const opset::Opset& opset,
                   const Options& options) {
  Result<double> absolute = number(options.absolute), relative = number(options.relative);
  if (!absolute) return absolute.error();
  if (!relative) return relative.error();
  auto get_opset = [&] { return Result<const opset::Opset*>(&opset); };
  constexpr uint64_t seed = 0;  // random operators draw the same on both sides
  auto left = run::Session::load(std::move(left_program), options.entry, {options.reference, get_opset, seed});
  if (!left) return left.error();
  auto right = run::Session::load(std::move(right_program), options.entry, {false, get_opset, seed});
  if (!right) return right.error();

  Report report;
  report.nodes = (*left)->entry().variants[0].graph.size();
  compare_structure(**left, **right, report);
  find_inexact(**left, report);
  find_inexact(**right, report);
  if (options.inputs.empty() && options.input_files.empty()) return report;
  if (!report.same_interface)
    return error(Status::no, 702, "the programs differ in their inputs or outputs, so they cannot be run on the same")
        .note(report.structure.front());

  report.compared = true;
  Tolerance allowed{*absolute, *relative};
  // Where a side has several variants, only outputs are compared: which graph runs depends on the inputs.
  Matches matches;
  if ((*left)->entry().variants.size() == 1 && (*right)->entry().variants.size() == 1) {
    matches =
        match((*left)->program(), (*left)->entry().variants[0], (*right)->program(), (*right)->entry().variants[0]);
  }
  std::set<const ir::Value*> wanted_left, wanted_right;
  for (const auto& [a, b] : matches) {
    wanted_left.insert(a);
    wanted_right.insert(b);
  }
  // The more specialised program decides the sizes of inputs that are made on the spot.
  auto inputs = run::read_inputs(**right, options.inputs, options.input_files);
  if (!inputs) return inputs.error();
  Values a, b;
  auto left_outputs = observed(**left, *inputs, wanted_left, a);
  if (!left_outputs) return left_outputs.error();
  auto right_outputs = observed(**right, *inputs, wanted_right, b);
  if (!right_outputs) return right_outputs.error();

  std::vector<std::string> names = run::leaf_names((*left)->outputs());
  for (size_t i = 0; i < names.size(); ++i) {
    const Tensor x = run::tensor_of((*left_outputs)[i]), y = run::tensor_of((*right_outputs)[i]);
    std::optional<Difference> difference = compare(x, y, allowed);
    if (!difference) {
      const auto type = [](const Tensor& tensor) {
        return ir::to_string(ir::TensorMeta{tensor.dtype, {tensor.sizes.begin(), tensor.sizes.end()}});
      };
      report.structure.push_back("output " + names[i] + " came as " + type(x) + " | " + type(y));
      difference.emplace();
      difference->excess = difference->largest = INFINITY;
    }
    report.outputs.emplace_back(names[i], *difference);
  }
  find_departure(**left, matches, a, b, allowed, report);
  return report;
}

}  // namespace atenon::diff
