#include "opset/opset.h"

#include <doctest/doctest.h>

#include "opset/call.h"
#include "text/text.h"

namespace atenon::opset {
namespace {

TEST_CASE("every block parses and every example holds, as far as types go") {
  Result<std::unique_ptr<Opset>> opset = Opset::load("opsets");
  if (!opset) MESSAGE(opset.failure().render("opset"));
  REQUIRE(opset);
  for (const Diagnostic& failure : (*opset)->check_all()) FAIL_CHECK(failure.render("opset"));
}

}  // namespace
}  // namespace atenon::opset
