#include "opset/opset.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "opset/call.h"
#include "support/streams.h"
#include "text/text.h"

namespace atenon::opset {
namespace {

TEST_CASE("an operator stands in one place") {
  const std::regex header(R"((?:^|\n)op ([^(]+)\()");
  std::set<std::string> known;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("opsets")) {
    if (entry.path().extension() != ".ops") continue;
    const Result<Contents> text = read_contents(entry.path().string());
    REQUIRE(text);
    const std::string content(text->text());
    for (std::sregex_iterator match(content.begin(), content.end(), header), end; match != end; ++match)
      CHECK_MESSAGE(known.insert((*match)[1]).second, (*match)[1].str() << " is there twice");
  }
  CHECK(known.size() > 700);
}

TEST_CASE("every block parses and every example holds, as far as types go") {
  Result<std::unique_ptr<Opset>> opset = Opset::load("opsets");
  if (!opset) MESSAGE(opset.failure().render("opset"));
  REQUIRE(opset);
  for (const Diagnostic& failure : (*opset)->check_all()) FAIL_CHECK(failure.render("opset"));
}

}  // namespace
}  // namespace atenon::opset
