// One HTML page without anything from elsewhere: signature, nodes with links from uses to definitions and the Python
// line of each, weights, code and history. A box filters the nodes.
#include "show/forms.h"
#include "text/text.h"

namespace atenon::show {
namespace {

constexpr const char* style =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#222;background:#fff}"
    "pre,td,input{font:12px/1.5 ui-monospace,monospace}pre{overflow-x:auto;background:#f6f6f4;padding:.8em}"
    "table{border-collapse:collapse}td{padding:.1em .8em .1em "
    "0;vertical-align:top}tr:target,span:target{background:#fe9}"
    "a{color:#05a;text-decoration:none}a:hover{text-decoration:underline}.at{color:#786;white-space:pre}"
    "h2{margin-top:2em}input{width:100%;padding:.4em;box-sizing:border-box}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#222}a{color:#8bf}"
    "tr:target,span:target{background:#540}}";

constexpr const char* script =
    "document.querySelector('input').oninput=e=>{const t=e.target.value.toLowerCase();"
    "for(const r of document.querySelectorAll('tr.n'))r.hidden=!r.textContent.toLowerCase().includes(t)}";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A line of text in which every %name is a link to where it is defined: `<prefix><name>`.
std::string linked(const std::string& line, const std::string& prefix) {
  std::string out;
  for (size_t i = 0; i < line.size();) {
    size_t stop = i + 1;
    if (line[i] == '%') {
      while (stop < line.size() && ir::is_name_character(line[stop])) ++stop;
    }
    const std::string piece = line.substr(i, stop - i);
    out += stop > i + 1 ? "<a href=\"#" + prefix + piece.substr(1) + "\">" + piece + "</a>" : escaped(piece);
    i = stop;
  }
  return out;
}

}  // namespace

std::string to_html(const ir::ExportedProgram& program, const Options& options) {
  std::string title = "program";
  if (!program.entries.empty()) title = program.entries[0].name;
  std::string out =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
      "<title>" +
      escaped(title) + "</title><style>" + style + "</style>\n<h1>" + escaped(title) + "</h1>\n<p>" +
      escaped(summary(program)) + "</p>\n<input placeholder=\"filter nodes: an operator, a name, a Python line\">\n";
  for (const ir::EntryPoint& entry : program.entries) {
    if (!options.entry.empty() && options.entry != entry.name) continue;
    out +=
        "<h2>Signature of " + escaped(entry.name) + "</h2>\n<pre>" + escaped(text::print_signature(entry)) + "</pre>\n";
  }
  int number = 0;
  for (const NamedGraph& named : graphs_of(program, options)) {
    const std::string prefix = "g" + std::to_string(number++) + ".";
    out += "<h2>" + escaped(named.name) + "</h2>\n<p>";
    for (const auto& input : named.graph->inputs()) {
      out += "<span id=\"" + prefix + input->name + "\">%" + input->name + ": " + escaped(ir::to_string(input->type)) +
             "</span> ";
    }
    out += "</p>\n<table>\n";
    for (const ir::Node& node : named.graph->forward()) {
      const ir::CallStack& stack = program.provenance.at(node.provenance);
      out += "<tr class=\"n\"><td>";
      for (const auto& result : node.results()) out += "<span id=\"" + prefix + result->name + "\"></span>";
      out += linked(text::print(node), prefix) + "</td><td class=\"at\" title=\"" + escaped(stack.module_path) + "\">" +
             escaped(place_of(program, node)) +
             (stack.frames.empty() ? "" : "  " + escaped(stack.frames.back()->code)) + "</td></tr>\n";
    }
    out += "</table>\n<p>return ";
    for (const ir::Argument& output : named.graph->outputs()) out += linked(text::print(output), prefix) + " ";
    out += "</p>\n";
  }
  out += "<h2>Weights</h2>\n<pre>" + escaped(weight_table(program)) + "</pre>\n";
  if (!program.code.empty()) out += "<h2>Code</h2>\n<pre>" + escaped(code_table(program)) + "</pre>\n";
  out += "<h2>History</h2>\n<pre>";
  for (const ir::HistoryEntry& entry : program.history) {
    out += escaped(entry.tool + " " + entry.version);
    for (const std::string& option : entry.options) out += " " + escaped(option);
    out += "\n";
  }
  return out + "</pre>\n<script>" + script + "</script>\n";
}

}  // namespace atenon::show
