// Tool: parses by the table of options, runs the tool's body, and turns Diagnostics into messages and exit status.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <limits>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "cli/message.h"
#include "cli/option_table.h"
#include "cli/progress.h"
#include "ir/call_body.h"
#include "program/container.h"
#include "program/program_file.h"
#include "support/exceptions.h"
#include "support/streams.h"
#include "verify/verify.h"

namespace atenon::cli {

struct Tool::State {
  ToolText text;
  CLI::App app;
  Context context;
  std::string path = "-";  // the program that is read
  std::string output = "-";
  bool writes_program = false;
  bool as_text = false;
  bool compress = false;
  // Positional words are sorted out by us: what has a `=` goes to the assignments, the rest to the positionals in
  // order.
  std::vector<std::string> words;
  std::vector<std::string>* assigned = nullptr;
  std::vector<std::string>* rest = nullptr;  // takes every further word
  const bool* explains = nullptr;            // what --json is for, where it is for --explain alone
  std::vector<std::pair<std::string*, OptionRow>> single = {};

  void add(OptionRow row, CLI::Option* option) {
    if (option) {
      row.given = [option] { return option->results(); };
    }
    text.options.push_back(std::move(row));
  }
  Result<void> parse(int argc, char** argv);
  Result<void> sort_words();
  Result<void> check_outputs() const;
  int finish(Diagnostic diagnostic) const;
  void add_output_options(Tool& tool);
  Result<void> write(ir::ExportedProgram program);
};

namespace {

bool is_code(const std::string& word) {
  return word.size() == 5 && word[0] == 'E' && word.find_first_not_of("0123456789", 1) == std::string::npos;
}

// CLI11 counts: "--to: At Most 1 required but received 2", "--threads: 1 required INT missing". Flags it names without
// dashes.
std::string in_our_words(const std::string& problem) {
  static constexpr std::pair<const char*, const char*> ours[] = {
      {": At Most 1 required", " is given more than once"},
      {": 1 required ", " needs a value"},
      {" was given a disallowed flag override", " takes no value"},
  };
  for (const auto& [theirs, words] : ours)
    if (const size_t at = problem.find(theirs); at != problem.npos)
      return (problem.starts_with("--") ? "" : "--") + problem.substr(0, at) + words;
  return problem;
}

// "mlp.py" for "/home/u/mlp.py": a program must not depend on the folder that a tool was called from.
std::string without_folders(const std::string& value) {
  size_t slash = value.rfind('/');
  if (slash == std::string::npos) return value;
  size_t start = value.find('=');
  return start != std::string::npos && start < slash ? value.substr(0, start + 1) + value.substr(slash + 1)
                                                     : value.substr(slash + 1);
}

}  // namespace

opset::Opset& Context::opset() {
  if (!opset_) {
    Result<std::unique_ptr<opset::Opset>> loaded = opset::Opset::load(share_folder() + "/opsets");
    if (!loaded) {
      print_message(loaded.failure(), tool_);
      std::exit(static_cast<int>(loaded.failure().status));
    }
    opset_ = std::move(*loaded);
  }
  return *opset_;
}

Context::Context() = default;
Context::~Context() = default;

void Context::warn(const Diagnostic& diagnostic) {
  progress_.reset();
  if (!quiet) print_message(diagnostic, tool_, "warning");
}

void Context::tell(const std::string& text) {
  if (quiet) return;
  progress_.reset();
  std::cerr << tool_ << ": " << text << "\n";
}

void Context::say(const std::string& text) {
  if (verbose) tell(text);
}

std::string Context::share_folder() {
  std::error_code ignored;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path().parent_path() / "share" / "atenon").string();
}

Tool::Tool(std::string name, std::string purpose, std::string example) : state_(std::make_unique<State>()) {
  state_->text = {std::move(name), std::move(purpose), std::move(example), {}};
  state_->context.tool_ = state_->text.name;
  state_->app.set_help_flag();
  state_->app.add_option("words", state_->words);
}

Tool::~Tool() = default;

void Tool::flag(const std::string& names, bool& target, const std::string& help, Effect effect) {
  CLI::Option* option = state_->app.add_flag((names.starts_with("--no-") ? "!" : "") + names, target);
  state_->add({names, "", help, "", effect}, option->disable_flag_override());
}

void Tool::option(const std::string& names, std::string& target, const std::string& value_name, const std::string& help,
                  Effect effect) {
  state_->add({names, value_name, help, target, effect}, state_->app.add_option(names, target));
}

// CLI11 itself takes the largest number for one beyond it, and takes the minus of an unsigned one.
template <class Number>
static std::string not_whole(const std::string& text) {
  Number number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc() && rest == text.data() + text.size() && number >= 0) return "";
  return "it takes a whole number from 0 to " + std::to_string(std::numeric_limits<Number>::max()) + ", not '" + text +
         "'";
}

void Tool::option(const std::string& names, int& target, const std::string& value_name, const std::string& help,
                  Effect effect) {
  state_->add({names, value_name, help, std::to_string(target), effect},
              state_->app.add_option(names, target)->check(not_whole<int>));
}

void Tool::option(const std::string& names, std::optional<uint64_t>& target, const std::string& value_name,
                  const std::string& help, Effect effect) {
  state_->add({names, value_name, help, "", effect}, state_->app.add_option(names, target)->check(not_whole<uint64_t>));
}

void Tool::option(const std::string& names, std::vector<std::string>& target, const std::string& value_name,
                  const std::string& help, Effect effect) {
  OptionRow row{names, value_name, help + "; may be repeated", "", effect};
  row.repeated = true;
  state_->add(std::move(row), state_->app.add_option(names, target)->allow_extra_args(false));
}

void Tool::output(const std::string& names, std::string& target, const std::string& help, Effect effect) {
  option(names, target, "FILE", help, effect);
  state_->text.options.back().is_output = true;
}

void Tool::positional(std::string& target, const std::string& name, const std::string& help, bool required) {
  OptionRow row{name, name, help, target, Effect::report, true, required};
  state_->single.emplace_back(&target, row);
  state_->add(std::move(row), nullptr);
}

void Tool::positional(std::vector<std::string>& target, const std::string& name, const std::string& help) {
  OptionRow row{name, name, help, "", Effect::report, true, false, true};
  state_->rest = &target;
  state_->add(std::move(row), nullptr);
}

void Tool::assignments(std::vector<std::string>& target, const std::string& name, const std::string& help) {
  OptionRow row{name, name, help, "", Effect::result, true, false, true};
  row.given = [&target] { return target; };
  state_->assigned = &target;
  state_->text.options.push_back(std::move(row));
}

void Tool::offer_json() {
  flag("--json", state_->context.json, "report as JSON, one object with a schema version", Effect::report);
}

void Tool::offer_explain(bool& explain, const std::string& help) {
  flag("--explain", explain, help, Effect::report);
  flag("--json", state_->context.json, "with --explain: as JSON, with a schema version", Effect::report);
  state_->explains = &explain;
}

void Tool::offer_segments() {
  option("--segments", state_->context.segments, "FILE",
         "binary program with the bytes that a text program names by digest", Effect::report);
}

void Tool::State::add_output_options(Tool& tool) {
  tool.output("-o,--output", output, "where to write the program; - is standard output");
  tool.flag("-t,--text", as_text, "write the text form", Effect::report);
  tool.flag("--compress", compress, "compress weights and code with zstd", Effect::report);
}

Result<void> Tool::State::sort_words() {
  size_t next = 0;
  for (const std::string& word : words) {
    bool is_assignment = assigned && word.find('=') != std::string::npos;
    if (is_assignment)
      assigned->push_back(word);
    else if (next < single.size())
      *single[next++].first = word;
    else if (rest)
      rest->push_back(word);
    else
      return error(Status::usage, 5, "unexpected argument '" + word + "'").note("usage: " + text.usage());
  }
  for (; next < single.size(); ++next) {
    if (single[next].second.required) {
      return error(Status::usage, 5, single[next].second.names + " is missing").note("usage: " + text.usage());
    }
  }
  return {};
}

Result<void> Tool::State::parse(int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {  // CLI11's way to report; ours starts here
    Diagnostic wrong = error(Status::usage, 5, in_our_words(problem.what()));
    std::vector<std::string> known;
    for (const OptionRow& row : text.options) known.push_back(row.long_name());
    for (int i = 1; i < argc; ++i) {
      std::string word = argv[i];
      word = word.substr(0, word.find('='));
      if (!word.starts_with("--") || std::find(known.begin(), known.end(), word) != known.end()) continue;
      wrong.message = "unknown option " + word;
      std::string near = nearest(word, known);
      if (!near.empty()) wrong.notes.push_back({"did you mean " + near + "?"});
      break;
    }
    wrong.notes.push_back({"usage: " + text.usage()});
    return wrong;
  }
  return sort_words();
}

namespace {

// A value that is given to an option, or to a positional, whose option is "".
struct Given {
  std::string option, value;
  bool is_output = false, is_program = false;
};

// The path in `value`, which is FILE, NAME=FILE or FILE:NAME, if it is that of the file `written`, which need not be
// there.
std::optional<std::string> path_in(const std::string& value, const std::string& written) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const bool is_there = fs::exists(written, unknown);
  if (is_there && !fs::is_regular_file(written, unknown)) return std::nullopt;
  for (const std::string& path : {value, value.substr(value.find('=') + 1), value.substr(0, value.rfind(':'))})
    if (is_there ? fs::equivalent(path, written, unknown)
                 : fs::path(path).lexically_normal() == fs::path(written).lexically_normal())
      return path;
  return std::nullopt;
}

}  // namespace

// What is written must not replace what else is read or written: that would be lost. A program may be replaced by one.
Result<void> Tool::State::check_outputs() const {
  std::vector<Given> all;
  for (const auto& [target, row] : single) all.push_back({"", *target});
  for (const OptionRow& row : text.options) {
    if (!row.given || row.value_name.empty()) continue;
    std::vector<std::string> values = row.given();
    if (values.empty() && row.is_output) values.push_back(row.fallback);
    const bool is_o = row.long_name() == "--output";
    for (const std::string& value : values)
      all.push_back({is_o ? "-o" : row.long_name(), value, row.is_output, is_o && writes_program && !as_text});
  }
  for (const Given& written : all)
    for (const Given& other : all) {
      if (&other == &written || !written.is_output || written.value.empty()) continue;
      if (written.value == "-") {
        if (!other.is_output || other.value != "-") continue;
        return error(Status::usage, 5, "both " + written.option + " and " + other.option + " write standard output")
            .note("name a file for one of them");
      }
      const std::optional<std::string> path = path_in(other.value, written.value);
      if (!path) continue;
      const Result<Contents> known = written.is_program ? read_contents(*path) : Result<Contents>(Contents());
      if (!other.is_output && known && program::has_magic(known->text())) continue;
      return error(Status::usage, 5,
                   written.option + " " + written.value + " would replace " +
                       (other.option.empty() ? "what is read" : "the file of " + other.option))
          .note("name another file");
    }
  return {};
}

int Tool::State::finish(Diagnostic diagnostic) const {
  std::cout.flush();
  print_message(diagnostic, text.name);
  return static_cast<int>(diagnostic.status);
}

int Tool::run(int argc, char** argv, const std::function<Result<Status>(Context&)>& body) {
  State& state = *state_;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is seen where we write
  bool help = false, version = false, man = false, purpose = false;
  std::string shell, code;
  flag("-v,--verbose", state.context.verbose, "say what is done", Effect::report);
  flag("-q,--quiet", state.context.quiet, "print errors only", Effect::report);
  flag("-h,--help", help, "print this help", Effect::report);
  flag("--version", version, "print the version", Effect::report);
  flag("--man", man, "print the man page", Effect::report);
  option("--completions", shell, "SHELL", "print completions for bash, zsh or fish", Effect::report);
  state.app.add_flag("--purpose", purpose);  // for `atenon --help`, not for people

  // `--explain E0107` is everybody's; a bare `--explain` is an option of some tools.
  const auto is_explain = [](const OptionRow& row) { return row.long_name() == "--explain"; };
  const bool is_option = std::any_of(state.text.options.begin(), state.text.options.end(), is_explain);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--explain" && (is_code(next) || !is_option)) code = next.empty() ? "''" : next;
    if (word.starts_with("--explain=") && is_code(word.substr(10))) code = word.substr(10);
  }
  if (!code.empty()) {
    Result<std::string> text = explanation(code, Context::share_folder() + "/errors");
    if (!text) return state.finish(text.error());
    std::cout << *text;
    return finish_output(Status::ok, state.text.name);
  }
  // Help must not fail for a missing FILE.
  for (int i = 1; i < argc; ++i) help = help || std::string(argv[i]) == "--help" || std::string(argv[i]) == "-h";
  if (help) {
    std::cout << help_text(state.text);
    return finish_output(Status::ok, state.text.name);
  }
  for (auto& [target, row] : state.single) {
    bool answers =
        argc > 1 && (std::string(argv[1]) == "--version" || std::string(argv[1]) == "--man" ||
                     std::string(argv[1]) == "--purpose" || std::string(argv[1]).starts_with("--completions"));
    row.required = row.required && !answers;
  }
  if (Result<void> parsed = state.parse(argc, argv); !parsed) return state.finish(parsed.error());
  if (version) std::cout << state.text.name << " " << ATENON_VERSION << "\n";
  if (purpose) std::cout << state.text.purpose << "\n";
  if (man) std::cout << man_page(state.text);
  if (!shell.empty()) {
    Result<std::string> text = completions(state.text, shell);
    if (!text) return state.finish(text.error());
    std::cout << *text;
  }
  if (version || purpose || man || !shell.empty()) return finish_output(Status::ok, state.text.name);
  if (state.context.json && state.explains && !*state.explains)
    return state.finish(error(Status::usage, 5, "--json is for what --explain says, which is not given")
                            .note("add --explain: the report goes to standard error"));
  if (Result<void> kept = state.check_outputs(); !kept) return state.finish(kept.error());

  try {
    Result<Status> status = body(state.context);
    if (!status) return state.finish(status.error());
    return finish_output(*status, state.text.name);
  } catch (const std::exception& problem) {  // of a library: whatever a user can cause is a Result
    return state.finish(explain(problem));
  }
}

Result<void> Tool::State::write(ir::ExportedProgram program) {
  if (output == "-" && !as_text && isatty(STDOUT_FILENO)) {
    return error(Status::usage, 8, "a binary program is not for a terminal")
        .note("add -t for the text form, -o FILE, or a pipe");
  }
  ir::HistoryEntry entry{text.name, ATENON_VERSION, {}};
  for (const OptionRow& row : text.options) {
    if (row.effect == Effect::report || !row.given) continue;
    for (const std::string& value : row.given()) {
      std::string spelled = without_folders(value);
      if (row.is_positional)
        entry.options.push_back(spelled);
      else
        entry.options.push_back(row.value_name.empty() ? row.long_name() : row.long_name() + "=" + spelled);
    }
  }
  program.history.push_back(std::move(entry));
  return program::write(program, output, {.text = as_text, .compress = compress, .verify = context.verifies_weights});
}

int Tool::transform(int argc, char** argv,
                    const std::function<Result<ir::ExportedProgram>(ir::ExportedProgram, Context&)>& stage) {
  State& state = *state_;
  positional(state.path, "FILE", "program to read; - is standard input", false);
  offer_segments();
  return produce(argc, argv, [&](Context& context) -> Result<std::optional<ir::ExportedProgram>> {
    Result<ir::ExportedProgram> program = read_program(state.path, context, {.leave_in_pipe = true});
    if (!program) return program.error();
    // Not before: in a pipe, all tools but one are waiting for their input.
    if (!context.quiet) context.progress_ = std::make_unique<Progress>(context.tool());
    Result<ir::ExportedProgram> changed = stage(std::move(*program), context);
    context.progress_.reset();
    if (!changed) return changed.error();
    return std::optional(std::move(*changed));
  });
}

int Tool::produce(int argc, char** argv,
                  const std::function<Result<std::optional<ir::ExportedProgram>>(Context&)>& stage) {
  State& state = *state_;
  state.writes_program = true;
  state.add_output_options(*this);
  return run(argc, argv, [&](Context& context) -> Result<Status> {
    context.output = state.output;
    for (const OptionRow& row : state.text.options)
      if (row.long_name() == "--output") context.output_is_given = !row.given().empty();
    Result<std::optional<ir::ExportedProgram>> made = stage(context);
    if (!made) return made.error();
    if (!*made) return Status::ok;
    ir::ExportedProgram& program = **made;
    auto last = std::chrono::steady_clock::now();
    const auto say_time = [&](const char* stage) {
      const auto now = std::chrono::steady_clock::now();
      const double time = std::chrono::duration<double, std::milli>(now - std::exchange(last, now)).count();
      if (context.says_times) context.say(std::string(stage) + " " + std::to_string(time) + " ms");
    };
    if (Result<void> valid = verify::check(program, context.opset()); !valid) {
      Diagnostic ours = valid.error();
      ours.status = Status::bug;
      return std::move(ours).note("the program that " + context.tool() + " made is not valid: this is a bug of ours");
    }
    say_time("verify");
    if (Result<void> written = state.write(std::move(program)); !written) return written.error();
    say_time("write");
    return Status::ok;
  });
}

Result<const opset::Opset*> opset_with(const std::vector<std::string>& blocks, const std::string& path,
                                       Context& context) {
  opset::Opset& opset = context.opset();
  for (const std::string& block : blocks) {
    if (Result<void> added = opset.add(block, path); !added) return added.error();
  }
  return &opset;
}

Result<ir::ExportedProgram> read_program(const std::string& path, Context& context, program::ReadOptions options) {
  if (path == "-" && isatty(STDIN_FILENO)) {
    return error(Status::usage, 9, "no program: standard input is a terminal")
        .note("name a FILE, or pipe a program into " + context.tool());
  }
  text::NodePlaces places;
  options.places = &places;
  options.segments = context.segments;
  Result<ir::ExportedProgram> program = program::read(path, options);
  if (!program) return program.error();
  Result<const opset::Opset*> opset = opset_with(program->custom_blocks, path, context);
  if (!opset) return opset.error();
  if (Result<void> valid = verify::check(*program, **opset, places); !valid) return valid.error();
  return program;
}

Result<ir::ExportedProgram> read_executable(const std::string& path, Context& context) {
  text::NodePlaces places;
  Result<ir::ExportedProgram> program = program::read(path, {.segments = context.segments, .places = &places});
  if (!program) return program.error();
  bool lowered = true;
  for (const ir::EntryPoint& entry : program->entries) {
    for (const ir::Variant& variant : entry.variants) {
      for (const ir::Node& node : variant.graph.forward()) lowered = lowered && ir::is_call(node);
    }
  }
  if (lowered) return program;
  Result<const opset::Opset*> opset = opset_with(program->custom_blocks, path, context);
  if (!opset) return opset.error();
  if (Result<void> valid = verify::check(*program, **opset, places); !valid) return valid.error();
  return program;
}

}  // namespace atenon::cli
