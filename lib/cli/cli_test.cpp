// What follows from the table of options, messages in colour, and that every error code is explained.
#include <doctest/doctest.h>

#include <filesystem>
#include <regex>

#include "cli/message.h"
#include "cli/option_table.h"
#include "support/streams.h"

using namespace atenon;
using namespace atenon::cli;
namespace fs = std::filesystem;

namespace {

const ToolText tool = {"atenon-lower",
                       "chooses kernels and generates machine code",
                       "atenon lower net.atn --target x86_64-avx2 -o fast.atn",
                       {{"--target", "CPU", "target to compile for", "host"},
                        {"-o,--output", "FILE", "where to write", "-"},
                        {"-v,--verbose", "", "say what's done", ""},
                        {"FILE", "FILE", "program to read", "-", Effect::report, true}}};

}  // namespace

TEST_CASE("help, from the table") {
  CHECK(help_text(tool) ==
        "atenon-lower: chooses kernels and generates machine code\n\n"
        "usage: atenon lower [OPTIONS] [FILE]\n\n"
        "  --target CPU       target to compile for (default: host)\n"
        "  -o, --output FILE  where to write (default: -)\n"
        "  -v, --verbose      say what's done\n"
        "  FILE               program to read (default: -)\n\n"
        "example:\n  atenon lower net.atn --target x86_64-avx2 -o fast.atn\n");
}

TEST_CASE("the man page is roff: its own characters are escaped") {
  const std::string page = man_page(tool);
  CHECK(page.starts_with(".TH atenon-lower 1 "));
  CHECK(page.find(".B \\-o, \\-\\-output FILE\nwhere to write") != std::string::npos);
  CHECK(page.find("\n.SH EXIT STATUS\n") != std::string::npos);
  CHECK(page.find("\n--") == std::string::npos);
}

TEST_CASE("completions") {
  CHECK(completions(tool, "bash")->find("compgen -W \"--target -o --output -v --verbose \"") != std::string::npos);
  CHECK(*completions(tool, "zsh") ==
        "#compdef atenon-lower\n_arguments '*:FILE:_files' \\\n"
        "  '--target[target to compile for]:CPU:_files' \\\n"
        "  '-o[where to write]:FILE:_files' \\\n  '--output[where to write]:FILE:_files' \\\n"
        "  '-v[say what'\\''s done]' \\\n  '--verbose[say what'\\''s done]'\n");
  CHECK(completions(tool, "fish")->find("complete -c atenon-lower -s v -l verbose -d 'say what\\'s done'\n") !=
        std::string::npos);
  CHECK(completions(tool, "csh").failure().code == 6);
}

TEST_CASE("colour marks the severity, the caret and notes, and nothing else") {
  CHECK(coloured("t: f:1:3: error[E0107]: no: such\n  a b\n    ^\nnote: did you mean 'c'?\n", "error") ==
        "t: f:1:3: \033[1;31merror[E0107]:\033[0m\033[1m no: such\033[0m\n  a b\n\033[1;32m    ^\033[0m\n"
        "\033[1;36mnote:\033[0m did you mean 'c'?\n");
  CHECK(coloured("t: warning: w\n", "warning") == "t: \033[1;33mwarning:\033[0m\033[1m w\033[0m\n");
}

TEST_CASE("every code that the sources use is explained in an errors.md, and its layer uses each that it explains") {
  std::map<std::string, std::set<std::string>> used, numbers, explained;  // by folder
  const std::regex heading(R"((?:^|\n)## E(\d{4}) )"), number(R"((?:[(,?:=]|return)\s*(\d{1,3})\b)"),
      call(R"(\b(?:error|raise|fail|violated|damaged)\(\s*(?:Status::\w+,\s*)?(\d{1,3}),)");
  const auto collect = [](const std::string& text, const std::regex& pattern, std::set<std::string>& out) {
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
      const std::string digits = (*match)[1];
      if (digits != "0") out.insert(std::string(4 - std::min<size_t>(digits.size(), 4), '0') + digits);
    }
  };
  for (const auto& entry : fs::recursive_directory_iterator("lib")) {
    const std::string path = entry.path().string(), layer = path.substr(4, path.find('/', 4) - 4);
    const bool is_source = (path.ends_with(".cpp") && !path.ends_with("_test.cpp")) || path.ends_with(".py");
    if (!is_source && entry.path().filename() != "errors.md") continue;
    const std::string text(read_contents(path)->text());
    if (!is_source) {
      collect(text, heading, explained[layer]);
      continue;
    }
    collect(text, call, used[layer]);
    collect(text, number, numbers[layer]);  // some stand in tables, or behind names of their own
  }
  std::set<std::string> all;
  for (const auto& [layer, codes] : explained)
    for (const std::string& code : codes) {
      CHECK_MESSAGE(all.insert(code).second, "E" << code << " is explained twice");
      CHECK_MESSAGE(numbers[layer].contains(code), "nothing in lib/" << layer << " uses E" << code);
    }
  for (const auto& [layer, codes] : used)
    for (const std::string& code : codes)
      CHECK_MESSAGE(all.contains(code), "lib/" << layer << " uses E" << code << ", which no errors.md explains");
  CHECK(all.size() > 100);
}

TEST_CASE("--explain prints the section of one code") {
  char name[] = "/tmp/atenon-test-XXXXXX";
  const fs::path folder = mkdtemp(name);
  REQUIRE(write_contents(folder / "a.md", "## E0001 First\n\ntext\n\n## E0002 Second\n\nmore\n"));
  CHECK(*explanation("E0001", folder) == "E0001 First\n\ntext\n");
  CHECK(*explanation("E0002", folder) == "E0002 Second\n\nmore\n");
  CHECK(explanation("E0003", folder).failure().message == "no error has the code E0003");
  fs::remove_all(folder);
}
