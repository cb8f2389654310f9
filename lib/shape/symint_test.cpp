// Symbolic scalars: canonical forms as a table of spellings, and random expressions held to plain arithmetic.
#include "shape/symint.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "shape/halves.h"

using namespace atenon::shape;

namespace {

std::string canonical(const std::string& text) {
  auto value = parse_scalar(text);
  if (!value) return value.failure().message;
  return std::visit([](const auto& x) { return x.to_string(); }, *value);
}

// A random expression, built through the operators, with its value by plain arithmetic.
struct Sample {
  SymInt expression;
  int64_t value;
};

int64_t plain_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Sample random_sample(std::mt19937& random, const Bindings& bindings, int depth) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0 || below(6) == 0) {
    if (below(3) == 0) {
      const int64_t c = below(13) - 6;
      return {c, c};
    }
    auto symbol = bindings.begin();
    std::advance(symbol, below(static_cast<int>(bindings.size())));
    return {SymInt::symbol(symbol->first), symbol->second};
  }
  const Sample a = random_sample(random, bindings, depth - 1), b = random_sample(random, bindings, depth - 1);
  switch (below(8)) {
    case 0:
    case 1:
      return {a.expression + b.expression, a.value + b.value};
    case 2:
      return {a.expression - b.expression, a.value - b.value};
    case 3:
      return {a.expression * b.expression, a.value * b.value};
    case 4:
      return {min(a.expression, b.expression), std::min(a.value, b.value)};
    case 5:
      return {max(a.expression, b.expression), std::max(a.value, b.value)};
    case 6:
      if (b.value == 0) return a;
      return {floor_div(a.expression, b.expression), plain_floor_div(a.value, b.value)};
    default:
      if (b.value == 0) return a;
      return {mod(a.expression, b.expression), a.value - plain_floor_div(a.value, b.value) * b.value};
  }
}

}  // namespace

TEST_CASE("canonical spellings") {
  const struct {
    const char *text, *expected;
  } rows[] = {
      // Polynomials.
      {"1 + 2*3", "7"},
      {"b + a", "a + b"},
      {"(a + 1)*(a - 1)", "a**2 - 1"},
      {"(a + b)*(a + b) - a*a - b*b", "2*a*b"},
      {"3 - s", "-s + 3"},
      {"s*s*s", "s**3"},
      {"s - s", "0"},
      {"2**10", "1024"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"9223372036854775807 + 1", "overflow()"},
      {"overflow() - overflow()", "overflow()"},
      {"0*overflow()", "overflow()"},
      {"min(3, overflow())", "overflow()"},
      // Floor division.
      {"7//2", "3"},
      {"-7//2", "-4"},
      {"7//-2", "-4"},
      {"s//1", "s"},
      {"s//-1", "-s"},
      {"s//0", "s//0"},
      {"(4*s)//4", "s"},
      {"(4*s + 2)//2", "2*s + 1"},
      {"(4*s + 2)//4", "s"},
      {"(2*s + 1)//4", "s//2"},
      {"(6*s + 3)//4", "s + (s + 1)//2"},
      {"(h - 1)//2 + 1", "(h + 1)//2"},
      {"((h + 1)//2 + 1)//2", "(h + 3)//4"},
      {"s//2//3", "s//6"},
      {"-(-s//4)", "(s + 3)//4"},
      {"(3*s)//4", "s - (s + 3)//4"},
      {"(3*s)//4//2", "(3*s)//8"},
      {"(3*s + 2*t + 1)//4", "s + t - (s + 2*t + 2)//4"},
      {"(s + t//2)//2", "(2*s + t)//4"},
      {"(s - t//2)//2", "s - (2*s + t + 2)//4"},
      {"(s + 7*(t//3))//6", "(3*s + t)//18 + t//3"},
      {"(s - s//2)//2", "(s + 1)//4"},
      {"(s + t//b)//2", "(s + t//b)//2"},
      {"(s - s % 4)//4", "s//4"},
      {"(s + s % 2)//2", "(s + 1)//2"},
      {"(s + 4611686018427387905*(t % 2))//2", "2305843009213693952*t + (s + t)//2 - 4611686018427387905*(t//2)"},
      {"(-4611686018427387904*2*s*t)//(s*u)", "(-9223372036854775808*s*t)//(s*u)"},
      {"-s//2", "-s + s//2"},
      {"-(s//2)", "-(s//2)"},
      {"3*(s//2)", "3*(s//2)"},
      {"a - s//2", "a - s//2"},
      {"(b*s)//s", "b"},
      {"(b*s + 3)//s", "b + 3//s"},
      {"(b*s*6)//(2*s)", "3*b"},
      {"(a*b)//(a*c)", "b//c"},
      {"(b*s + b)//(s + 1)", "b"},
      {"(b*b - 1)//(b + 1)", "b - 1"},
      {"s//(-t)", "(-s)//t"},
      {"s//s", "1"},
      {"0//s", "0"},
      // Modulus.
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"(4*s) % 4", "0"},
      {"(5*s + 9) % 4", "(s + 1) % 4"},
      {"(2*s + 3) % 4", "2*((s + 1) % 2) + 1"},
      {"(s % 8) % 4", "s % 4"},
      {"-s % 4", "-s + 4*((s + 3)//4)"},
      {"s + (4 - s % 4) % 4", "4*((s + 3)//4)"},
      {"(s % 4) % 8", "(s % 4) % 8"},
      {"(b*s) % s", "0"},
      {"(b*s + t) % s", "t % s"},
      {"s % 0", "s % 0"},
      // Minimum and maximum.
      {"min(5, 3)", "3"},
      {"min(9223372036854775807, s)", "s"},
      {"min(s, s + 1)", "s"},
      {"max(s, s + 1, 4, 5)", "max(5, s + 1)"},
      {"min(t, min(s, t))", "min(s, t)"},
      {"max(a, max(b, max(c, a)))", "max(a, b, c)"},
      {"min(s, max(s, t))", "min(s, max(s, t))"},
      // Floats.
      {"2.0", "2.0"},
      {"0.1 + 0.2", "0.30000000000000004"},
      {"s/2", "float(s)/2.0"},
      {"s*0.5 + 1", "(float(s)*0.5) + 1.0"},
      {"(s + 1)*(t/2)", "float(s + 1)*(float(t)/2.0)"},
      {"-1e300*1e300", "-inf"},
      {"sqrt(16)", "4.0"},
      {"log2(8)", "3.0"},
      {"sqrt(s)*1", "sqrt(float(s))"},
      {"-sqrt(s)", "(-1.0)*sqrt(float(s))"},
      {"floor(s/2)", "s//2"},
      {"floor(s*0.5)", "s//2"},
      {"ceil(s/2)", "s - s//2"},
      {"ceil(s/2 + 1)", "s - s//2 + 1"},
      {"floor(1 + s*0.25 - 3)", "s//4 - 2"},
      {"floor(1e15 + s/8)", "floor(1e+15 + (float(s)/8.0))"},  // which rounds
      {"int(s*0.3)", "trunc(float(s)*0.3)"},
      {"trunc(s*1.0)", "s"},
      {"int(64*b*(h//8)/(8*(h//8)/8.0))", "64*b"},
      {"int(b*h/(h/7.0))", "trunc(float(b*h)/(float(h)/7.0))"},
      {"int(49*s/7.0/7.0)", "s"},
      {"int(s/7.0/7.0)", "trunc((float(s)/7.0)/7.0)"},  // rounded twice
      {"int(s*3.0)", "3*s"},
      {"int((s/4)*(8*t))", "2*s*t"},
      {"round(2.5)", "2"},
      {"round(s*0.5) + 1", "round(float(s)*0.5) + 1"},
      {"s**0.5", "pow(float(s), 0.5)"},
      {"max(s, 2.0)", "max(float(s), 2.0)"},
      // Truths.
      {"s <= 512", "s <= 512"},
      {"s < 512", "s <= 511"},
      {"512 > s", "s <= 511"},
      {"2 <= s", "s >= 2"},
      {"a < b", "a < b"},
      {"b > a", "a < b"},
      {"a + 1 <= b", "a < b"},
      {"a <= b", "a <= b"},
      {"b == a", "a == b"},
      {"2*a == 2*b", "a == b"},
      {"2*a == 3", "false"},
      {"2*a != 4*b + 1", "true"},
      {"2*s <= 5", "s <= 2"},
      {"-2*s <= -5", "s >= 3"},
      {"2*s <= 9223372036854775807", "s <= 4611686018427387903"},
      {"9223372036854775807 <= 2*s", "s >= 4611686018427387904"},
      {"2*s - 9223372036854775807 - 1 <= 0", "s <= 4611686018427387904"},
      {"max(0, s - 5) >= 1", "s >= 6"},
      {"max(0, s - 5) <= 0", "s <= 5"},
      {"max(0, s - 5) >= 0", "max(0, s - 5) >= 0"},
      {"2*min(s, 9) > 6", "s >= 4"},
      {"min(s, 9) <= 8", "s <= 8"},
      {"min(s, t, 9) >= 4", "min(9, s, t) >= 4"},
      {"c % 4 == 0 and a != b", "a != b and c % 4 == 0"},
      {"not (a < b and c == 1)", "b <= a or c != 1"},
      {"a == 1 and (b == 1 or c == 1)", "a == 1 and (b == 1 or c == 1)"},
      {"1 < a <= 5", "a <= 5 and a >= 2"},
      {"a == a", "true"},
      {"not s/2 < 1.5", "not (float(s)/2.0 < 1.5)"},
      {"not not s/2 < 1.5", "float(s)/2.0 < 1.5"},
      {"true or a == 1", "true"},
      {"overflow() == overflow()", "overflow() == 0"},
      {"0 > -nan/r", "nan/float(r) < 0.0"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const std::string spelling = canonical(row.text);
    CHECK(spelling == row.expected);
    CHECK(canonical(spelling) == spelling);
  }
}

TEST_CASE("what cannot be read is shown where it stands") {
  const struct {
    const char* text;
    int column;
    const char* message;
  } rows[] = {
      {"", 1, "an expression is missing here"},
      {"s +", 4, "an expression is missing here"},
      {"(s", 3, "')' is missing here"},
      {"s t", 3, "there is more after the expression"},
      {"2*foo(s)", 3, "there is no function 'foo' of 1 arguments"},
      {"99999999999999999999", 1, "this number does not fit into 64 bits"},
      {"s**t", 5, "the exponent of an integer must be a small constant"},
      {"s + (a == b)", 13, "truths cannot be calculated with"},
      {"s $ 2", 3, "there is more after the expression"},
      {"$", 1, "'$' does not start an expression"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    auto value = parse_scalar(row.text);
    REQUIRE(!value);
    CHECK(value.failure().message == row.message);
    CHECK(value.failure().where.column == row.column);
  }
  CHECK(!parse_scalar(std::string(100000, '(')));
  CHECK(!parse_scalar(std::string(100000, '-')));
  CHECK(!parse_int("2.5"));
  CHECK(!parse_bool("s"));
  CHECK(parse_float("2")->constant() == 2.0);
}

TEST_CASE("random expressions: value, spelling and substitution agree with plain arithmetic") {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const Bindings bindings = {{"a", static_cast<int64_t>(random() % 9)},
                               {"b", static_cast<int64_t>(random() % 40) + 1},
                               {"s", static_cast<int64_t>(random() % 25) - 12}};
    const Sample sample = random_sample(random, bindings, 4);
    const std::string text = sample.expression.to_string();
    CAPTURE(text);
    if (std::abs(sample.value) < int64_t{1} << 40) {
      REQUIRE(evaluate(sample.expression, bindings) == sample.value);
      REQUIRE(evaluate(close_halves(sample.expression), bindings) == sample.value);
    }
    auto parsed = parse_int(text);
    REQUIRE(parsed);
    REQUIRE(*parsed == sample.expression);
    REQUIRE(parsed->to_string() == text);
    Substitution all;
    for (const auto& [name, value] : bindings) all[name] = value;
    if (std::abs(sample.value) < int64_t{1} << 40) REQUIRE(substitute(sample.expression, all) == SymInt(sample.value));
    REQUIRE(evaluate(less(sample.expression, 3), bindings) ==
            evaluate(negate(less_equal(3, sample.expression)), bindings));
    REQUIRE((sample.expression - sample.expression) == SymInt(0));
  }
}

TEST_CASE("a sum with what makes it even is twice its half") {
  const struct {
    const char *sum, *closed;
  } rows[] = {
      {"s + s % 2", "2*((s + 1)//2)"},
      {"s//4 + 3*b + (s//4) % 2", "3*b + 2*((s + 4)//8)"},
      {"3*s + 3*(s % 2) + t + t % 2", "6*((s + 1)//2) + 2*((t + 1)//2)"},
      {"s + b + (s + b) % 2 + 1", "2*((b + s + 1)//2) + 1"},
      {"s + t % 2", "s + t % 2"},
      {"s % 2", "s % 2"},
      {"s + s % 4", "s + s % 4"},
  };
  for (const auto& row : rows) CHECK(close_halves(*parse_int(row.sum)).to_string() == canonical(row.closed));
}

TEST_CASE("evaluation is exact, and absent where it must be") {
  const SymInt s = SymInt::symbol("s"), t = SymInt::symbol("t");
  const int64_t big = int64_t{1} << 40;
  CHECK(evaluate(s * t - s * t + s, {{"s", 1}, {"t", 2}}) == 1);
  CHECK(evaluate(s * t, {{"s", big}, {"t", big}}) == std::nullopt);
  CHECK(evaluate(s * t - s * (t - SymInt(1)), {{"s", big}, {"t", big}}) == big);
  CHECK(evaluate(floor_div(s, t), {{"s", 1}, {"t", 0}}) == std::nullopt);
  CHECK(evaluate(floor_div(s, t), {{"s", INT64_MIN}, {"t", -1}}) == std::nullopt);
  CHECK(evaluate(s, {}) == std::nullopt);
  CHECK(evaluate(overflow(), {}) == std::nullopt);
  CHECK(evaluate(both(equal(s, 1), equal(t, 1)), {{"s", 2}}) == false);
  CHECK(evaluate(round(SymFloat::apply("*", {SymFloat::from(s), 0.5})), {{"s", 5}}) == 2);
  CHECK(substitute(floor_div(s + t, 2), {{"t", s}}) == s);
  CHECK(substitute(equal(s, t), {{"t", s}}).constant() == true);
  CHECK((s * t + floor_div(t, 2)).symbols() == std::set<std::string>{"s", "t"});
  CHECK(s.as_symbol() == "s");
  CHECK(!(s + SymInt(1)).as_symbol());
  CHECK(product({}) == SymInt(1));
  CHECK(product({s, 2, t + SymInt(1), 3}).to_string() == "6*s*t + 6*s");
}

TEST_CASE("growth is bounded: huge products and deep nesting end in overflow()") {
  SymInt sum = 1;
  for (int i = 0; i < 60; ++i) sum = sum + SymInt::symbol("s" + std::to_string(i));
  CHECK(is_overflow(sum * sum));
  SymInt nested = SymInt::symbol("s");
  for (int i = 2; i < 40; ++i) nested = min(floor_div(nested, SymInt::symbol("t")), mod(nested, SymInt(1000 + i)));
  CHECK(is_overflow(nested));
}
