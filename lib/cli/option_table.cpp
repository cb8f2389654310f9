// The texts that follow from the table of options: --help, the man page, shell completions.
#include "cli/option_table.h"

#include <sstream>

namespace atenon::cli {
namespace {

std::string spelled(const OptionRow& row) {
  std::string text;
  for (char c : row.names) text += c == ',' ? std::string(", ") : std::string(1, c);
  if (row.is_positional) return text + (row.repeated ? " ..." : "");
  return row.value_name.empty() ? text : text + " " + row.value_name;
}

std::string short_name(const ToolText& tool) {  // "lower": what follows "atenon "
  size_t dash = tool.name.find('-');
  return dash == std::string::npos ? tool.name : tool.name.substr(dash + 1);
}

// Breaks `text` into lines of at most `width`, all but the first indented.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::istringstream words(text);
  std::string result, word;
  size_t column = indent;
  while (words >> word) {
    if (column + word.size() > width && column > indent) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string help_of(const OptionRow& row) {
  return row.fallback.empty() ? row.help : row.help + " (default: " + row.fallback + ")";
}

// roff reads a leading dot, a backslash and a dash in its own way.
std::string roff(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

}  // namespace

std::vector<std::string> OptionRow::spellings() const {
  std::istringstream in(names);
  std::vector<std::string> result;
  for (std::string name; std::getline(in, name, ',');) result.push_back(name);
  return result;
}

std::string OptionRow::long_name() const { return spellings().back(); }

std::string ToolText::usage() const {
  std::string text = "atenon " + short_name(*this) + " [OPTIONS]";
  for (const OptionRow& row : options) {
    if (!row.is_positional) continue;
    std::string word = row.names + (row.repeated ? " ..." : "");
    text += row.required ? " " + word : " [" + word + "]";
  }
  return text;
}

std::string help_text(const ToolText& tool) {
  std::ostringstream out;
  out << tool.name << ": " << tool.purpose << "\n\nusage: " << tool.usage() << "\n\n";
  size_t column = 0;
  for (const OptionRow& row : tool.options) column = std::max(column, std::min<size_t>(spelled(row).size(), 28));
  for (const OptionRow& row : tool.options) {
    std::string left = spelled(row);
    out << "  " << left;
    if (left.size() > column)
      out << "\n" << std::string(column + 4, ' ');
    else
      out << std::string(column + 2 - left.size(), ' ');
    out << wrapped(help_of(row), column + 4, 100) << "\n";
  }
  out << "\nexample:\n  " << tool.example << "\n";
  return out.str();
}

std::string man_page(const ToolText& tool) {
  std::ostringstream out;
  std::string name = roff(tool.name);
  out << ".TH " << tool.name << " 1 \"\" \"atenon " << ATENON_VERSION << "\" \"Atenon\"\n"
      << ".SH NAME\n"
      << name << " \\- " << roff(tool.purpose) << "\n"
      << ".SH SYNOPSIS\n"
      << roff(tool.usage()) << "\n.SH OPTIONS\n";
  for (const OptionRow& row : tool.options) {
    out << ".TP\n.B " << roff(spelled(row)) << "\n" << roff(help_of(row)) << "\n";
  }
  out << ".SH EXIT STATUS\n"
      << "0: done, yes, or the same. 1: the answer is no (a difference, a failed check). 2: wrong usage, or a file or "
         "name that is "
         "not there. 3: the input is damaged or not what was expected. 4: the model does something unsupported, or its "
         "own Python "
         "raised. 5: an input violates the program's assumptions. 70: a bug in the tool.\n"
      << ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nMessages have no colours.\n"
      << ".TP\n.B ONEDNN_MAX_CPU_ISA\nThe widest instructions that kernels use, where that is not all that the CPU "
         "has: AVX2, AVX512_CORE. It limits oneDNN and Atenon's own loops alike.\n"
      << ".SH EXAMPLE\n.nf\n"
      << roff(tool.example) << "\n.fi\n"
      << ".SH SEE ALSO\n.BR atenon (1),\n.BR atenon\\-program (5),\n.BR atenon\\-opset (5)\n";
  return out.str();
}

Result<std::string> completions(const ToolText& tool, const std::string& shell) {
  std::ostringstream out;
  std::string function = "_" + tool.name;
  for (char& c : function) c = c == '-' ? '_' : c;
  if (shell == "bash") {
    out << function
        << "() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\"\n  if [[ $word == -* ]]; then\n    COMPREPLY=($(compgen "
           "-W \"";
    for (const OptionRow& row : tool.options) {
      if (row.is_positional) continue;
      for (const std::string& name : row.spellings()) out << name << ' ';
    }
    out << "\" -- \"$word\"))\n  else\n    COMPREPLY=($(compgen -f -- \"$word\"))\n  fi\n}\ncomplete -o filenames -F "
        << function << ' ' << tool.name << "\n";
  } else if (shell == "zsh") {
    out << "#compdef " << tool.name << "\n_arguments '*:FILE:_files'";
    for (const OptionRow& row : tool.options) {
      if (row.is_positional) continue;
      std::string help;
      for (char c : row.help)
        help += c == '\'' ? std::string("'\\''") : c == '[' || c == ']' || c == ':' ? std::string() : std::string(1, c);
      for (const std::string& name : row.spellings())
        out << " \\\n  '" << (row.repeated ? "*" : "") << name << "[" << help << "]"
            << (row.value_name.empty() ? "" : ":" + row.value_name + ":_files") << "'";
    }
    out << "\n";
  } else if (shell == "fish") {
    for (const OptionRow& row : tool.options) {
      if (row.is_positional) continue;
      std::string help;
      for (char c : row.help) help += c == '\'' ? std::string("\\'") : std::string(1, c);
      out << "complete -c " << tool.name;
      for (const std::string& name : row.spellings())
        out << (name.starts_with("--") ? " -l " : " -s ") << name.substr(name.find_first_not_of('-'));
      out << (row.value_name.empty() ? "" : " -r") << " -d '" << help << "'\n";
    }
  } else {
    return error(Status::usage, 6, "no completions for the shell '" + shell + "'").note("there are: bash, zsh, fish");
  }
  return out.str();
}

}  // namespace atenon::cli
