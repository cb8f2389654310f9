// Why a dimension of an input has the sizes that it may have: its symbol, and every assumption that bears on it, each
// with the Python that relied on it. An assumption that ties the symbol to others brings in what is assumed of those.
#include <charconv>
#include <set>

#include "show/forms.h"

namespace atenon::show {
namespace {

std::string range_text(shape::Range range) {
  return range.lower == range.upper ? std::to_string(range.lower) : range.to_string();
}

std::string symbol_line(const ir::Symbol& symbol) {
  std::string line = "  " + symbol.name + " is declared " + range_text(symbol.range);
  if (!symbol.source.empty()) line += ", read from " + symbol.source;
  if (symbol.hint) line += ", " + std::to_string(*symbol.hint) + " in the example";
  return line + "\n";
}

std::string assumption_lines(const ir::ExportedProgram& program, const ir::Constraint& assumption) {
  std::string lines = "  assumed " + assumption.truth.to_string();
  if (!assumption.reason.empty()) lines += ": " + assumption.reason;
  lines += "\n";
  for (const ir::SharedFrame& frame : program.provenance.at(assumption.provenance).frames)
    lines += "    " + frame->file + ":" + std::to_string(frame->line) + ": " + frame->code + "\n";
  return lines;
}

std::string explain_size(const ir::ExportedProgram& program, const ir::EntryPoint& entry, const ir::Variant& variant,
                         const std::string& dimension, const shape::SymInt& size) {
  if (size.is_constant())
    return dimension + " is " + size.to_string() +
           ": it was captured, or specialised, with this size, and has no name\n";
  const shape::Range bounds = entry.facts(variant).bounds(size);
  std::string out = dimension + " is " + size.to_string() + ": ";
  out += bounds.lower == bounds.upper ? "static, always " + range_text(bounds) : "dynamic, " + range_text(bounds);
  out += "\n";
  std::set<std::string> related = size.symbols();
  for (size_t known = 0; known != related.size();) {
    known = related.size();
    for (const ir::Constraint& assumption : variant.assumptions) {
      const std::set<std::string> symbols = assumption.truth.symbols();
      for (const std::string& symbol : symbols)
        if (related.contains(symbol)) {
          related.insert(symbols.begin(), symbols.end());
          break;
        }
    }
  }
  for (const ir::Symbol& symbol : entry.symbols)
    if (related.contains(symbol.name)) out += symbol_line(symbol);
  for (const ir::Constraint& assumption : variant.assumptions) {
    const std::set<std::string> symbols = assumption.truth.symbols();
    if (!symbols.empty() && related.contains(*symbols.begin())) out += assumption_lines(program, assumption);
  }
  return out;
}

}  // namespace

Result<std::string> explain_dimension(const ir::ExportedProgram& program, const Options& options) {
  const std::string& dimension = options.why;
  const size_t bracket = dimension.rfind('[');
  size_t axis = 0;
  const char* end = dimension.data() + dimension.size() - 1;
  if (bracket == std::string::npos || dimension.back() != ']' ||
      std::from_chars(dimension.data() + bracket + 1, end, axis).ptr != end)
    return error(Status::usage, 713, "'" + dimension + "' is no dimension of an input").note("write it as x[1]");
  const std::string path = dimension.substr(0, bracket);
  std::string out;
  std::vector<std::string> names;
  for (const ir::EntryPoint& entry : program.entries) {
    if (!options.entry.empty() && options.entry != entry.name) continue;
    for (const ir::Variant& variant : entry.variants)
      for (const ir::InputSpec& spec : entry.signature.inputs) {
        const ir::Value* value = spec.kind == ir::InputKind::user_input ? variant.graph.find(spec.value) : nullptr;
        if (!value || !value->is_tensor()) continue;
        for (size_t i = 0; i < value->meta().sizes.size(); ++i)
          names.push_back(spec.target + "[" + std::to_string(i) + "]");
        if (spec.target != path || axis >= value->meta().sizes.size()) continue;
        if (!variant.name.empty()) out += "in " + variant.name + ", ";
        out += explain_size(program, entry, variant, dimension, value->meta().sizes[axis]);
      }
  }
  if (!out.empty()) return out;
  Diagnostic diagnostic = error(Status::usage, 713, "'" + dimension + "' is no dimension of an input");
  const std::string near = nearest(dimension, names);
  if (!near.empty()) return std::move(diagnostic).note("did you mean '" + near + "'?");
  return diagnostic;
}

}  // namespace atenon::show
