#include "text/text.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "text/limits.h"
#include "text/numbers.h"

using namespace atenon;

namespace {

std::string file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return (std::ostringstream() << stream.rdbuf()).str();
}

// The message and the place of the error, or "ok".
std::string outcome(const std::string& text) {
  Result<ir::ExportedProgram> program = text::parse(text, "p.txt");
  if (program) return "ok";
  const Diagnostic diagnostic = program.error();
  CHECK(diagnostic.status == Status::bad_input);
  std::string out = std::to_string(diagnostic.where.line) + ":" + std::to_string(diagnostic.where.column) + ": E0" +
                    std::to_string(diagnostic.code) + ": " + diagnostic.message;
  for (const Note& note : diagnostic.notes) out += "; " + note.text;
  return out;
}

std::string graph_with(const std::string& line) {
  return "program 1.0\nentry \"f\"\ngraph(%x: f32[b, 2])\n" + line + "\nreturn (%x)\n";
}

}  // namespace

TEST_CASE("text is read and printed alike") {
  const std::string text = file("testdata/format/program-1.0.txt");
  REQUIRE(!text.empty());
  Result<ir::ExportedProgram> program = text::parse(text, "program-1.0.txt");
  if (!program) FAIL(program.error().render("test"));
  CHECK(text::print(*program) == text);
  CHECK(program->weight("bn.tail")->tensor.storage == program->weight("bn.running_mean")->tensor.storage);
  CHECK(text::print(program->clone()) == text);
}

TEST_CASE("a cut or damaged text is an error, never a crash") {
  const std::string text = file("testdata/format/program-1.0.txt");
  for (size_t size = 0; size < text.size(); size += 7) (void)outcome(text.substr(0, size));
  for (size_t i = 0; i < text.size(); i += 3) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 7)));
    (void)outcome(damaged);
  }
}

TEST_CASE("errors point at the place and suggest what was meant") {
  const auto in_graph = [](const std::string& line) { return outcome(graph_with(line)); };
  CHECK(outcome("") == "1:1: E0210: expected a program, which starts with `program 1.0`, the text ends");
  CHECK(outcome("program 2.0") ==
        "1:9: E0216: this program is of version 2.0, and this tool reads up to 1.x: a newer atenon wrote it");
  CHECK(outcome("program 4294967297.0").starts_with("1:9: E0216: "));  // 1, in 32 bits
  CHECK(outcome("program 1").starts_with("1:9: E0210: expected a version"));
  CHECK(outcome("program 1.0\nentry \"f\"\noutput parameter_mutatio \"a\"")
            .ends_with("did you mean 'parameter_mutation'?"));
  CHECK(outcome("program 1.7\nwieght \"a\"") ==
        "2:1: E0210: 'wieght' starts no part of a program; did you mean 'weight'?");
  CHECK(in_graph("%y: f32[b] = aten::relu(%z)") == "4:25: E0211: %z is not defined before this line");
  CHECK(in_graph("%x: f32[b] = aten::relu(%x)") == "4:1: E0212: value %x is defined twice");
  CHECK(in_graph("%y: f32[b] = relu(%x)") ==
        "4:14: E0213: 'relu' is no operator: they are spelled namespace::name.overload");
  CHECK(in_graph("%" + std::string(5000, 'a') + ": f32[b] = aten::relu(%x)") == "4:1: E0213: this name is too long");
  CHECK(outcome("program 1.0\nentry \"f\"\nsubgraph @" + std::string(5000, 'a')) ==
        "3:10: E0213: this name is too long");  // as files say
  CHECK(in_graph("%y: f23[b] = aten::relu(%x)") == "4:5: E0210: there is no element type 'f23'; did you mean 'f32'?");
  CHECK(in_graph("%y: f32[b = aten::relu(%x)").starts_with("4:11: E0210: "));
  CHECK(in_graph("%y: f32[2.5] = aten::relu(%x)") == "4:9: E0210: a size must be an integer");
  CHECK(in_graph("%y: f32[b] = aten::relu(%x, a=1, 2)").starts_with("4:34: E0210: expected a named argument"));
  CHECK(in_graph("%y: f32[b] = aten::relu(%x) @9") == "4:29: E0211: there is no call stack @9");
  CHECK(in_graph("%y: f32[b] = aten::relu(\"x)").starts_with("4:25: E0210: this text has no closing mark"));
  CHECK(in_graph("%y: f32[b] = aten::f(" + std::string(100, '[')).starts_with("4:55: E0215: "));
  CHECK(outcome("program 1.0\nweight \"a\": f32[3] = [1, 2]") ==
        "2:13: E0214: this weight has 12 bytes, and 8 are given");
  CHECK(outcome("program 1.0\nweight \"a\": i8[1] = [300]") == "2:22: E0214: '300' is no i8");
  CHECK(outcome("program 1.0\nstorage 0: i8 = [1]\nweight \"a\": i8[2]{strides=[9]} in storage 0")
            .starts_with("3:13: E0214: it needs 10 bytes"));
  CHECK(outcome("program 1.0\nweight \"a\": f32[99999999999, 99999999999] = xxh3:00").starts_with("2:13: E0214: "));
  CHECK(outcome("program 1.0\nentry \"f\"\nsymbol f32: 1..2") == "3:8: E0213: 'f32' cannot be the name of a symbol");
}

TEST_CASE("numbers read back as the same bits") {
  for (const ScalarType dtype : {ScalarType::f16, ScalarType::bf16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const uint16_t before = static_cast<uint16_t>(bits);
      uint16_t after = 1;
      REQUIRE(text::read_element(dtype, text::spell_element(dtype, &before), &after));
      REQUIRE(before == after);
    }
  }
  uint16_t no_nan = 0;
  CHECK(!text::read_element(ScalarType::f16, "nan:0x7c00", &no_nan));  // infinity
  CHECK(!text::read_element(ScalarType::bf16, "nan:0x1", &no_nan));
  CHECK(text::unquote(text::quote("a\"\\\n\x01\xff\xc3\xbc ü")) == "a\"\\\n\x01\xff\xc3\xbc ü");
  CHECK(text::spell(1) == "1.0");
  CHECK(text::spell(-0.0) == "-0.0");
  CHECK(text::spell(1e300) == "1e+300");
}

TEST_CASE("the example in the manual is a program as it is printed") {
  const std::string page = file("man/atenon-program.5");
  const std::string opening = ".Bd -literal\n";
  const size_t start = page.find(opening) + opening.size();
  const std::string example = page.substr(start, page.find(".Ed\n", start) - start);
  Result<ir::ExportedProgram> program = text::parse(example, "atenon-program.5");
  if (!program) FAIL(program.error().render("test"));
  CHECK(text::print(*program) == example);
}
