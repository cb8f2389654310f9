// Facts: a table of questions that capture asks, and random worlds in which nothing false may be proven.
#include "shape/facts.h"

#include <doctest/doctest.h>

#include <random>

using namespace atenon::shape;

namespace {

// "b=1..32; s % 4 == 0": ranges and assumptions, as a user would state them.
Facts facts_of(const std::string& text) {
  Facts facts;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(';', start), text.size());
    const std::string part = text.substr(start, end - start);
    start = end + 1;
    const size_t dots = part.find("..");
    if (dots != std::string::npos) {
      const size_t equals = part.find('='), name = part.find_first_not_of(' ');
      const std::string upper = part.substr(dots + 2);
      facts.declare(part.substr(name, equals - name),
                    {std::stoll(part.substr(equals + 1)), upper.empty() ? Range::highest : std::stoll(upper)});
    } else {
      CAPTURE(part);
      REQUIRE(facts.assume(*parse_bool(part)));
    }
  }
  return facts;
}

const char* name(Truth truth) {
  return truth == Truth::proven ? "proven" : truth == Truth::refuted ? "refuted" : "open";
}

int64_t below(std::mt19937& random, int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); }

SymInt random_expression(std::mt19937& random, int depth) {
  const char* const symbols[] = {"a", "b", "c"};
  if (depth == 0 || below(random, 5) == 0) {
    return below(random, 3) == 0 ? SymInt(below(random, 9) - 3) : SymInt::symbol(symbols[below(random, 3)]);
  }
  const SymInt a = random_expression(random, depth - 1), b = random_expression(random, depth - 1);
  switch (below(random, 9)) {
    case 0:
    case 1:
      return a + b;
    case 2:
      return a - b;
    case 3:
      return a * b;
    case 4:
      return min(a, b);
    case 5:
      return max(a, b);
    case 6:
      return floor_div(a, below(random, 2) == 0 ? SymInt(below(random, 5) + 1) : b);
    case 7:
      return mod(a, below(random, 2) == 0 ? SymInt(below(random, 5) + 1) : b);
    default:
      return trunc(SymFloat::apply("*", {SymFloat::from(a), 0.75}));
  }
}

SymBool random_truth(std::mt19937& random, int depth) {
  const SymInt a = random_expression(random, depth), b = random_expression(random, depth);
  switch (below(random, 4)) {
    case 0:
      return equal(a, b);
    case 1:
      return not_equal(a, b);
    case 2:
      return less(a, b);
    default:
      return less_equal(a, b);
  }
}

}  // namespace

TEST_CASE("questions that programs ask") {
  const struct {
    std::string facts, question, answer;
  } rows[] = {
      // Ranges.
      {"", "s >= 0", "proven"},
      {"", "s == 1", "open"},
      {"", "s + 1 == 0", "refuted"},
      {"s=2..", "s == 1", "refuted"},
      {"s=2..", "s > 1 and s != 0", "proven"},
      {"s=0..7", "s < 8", "proven"},
      {"s=-5..5", "s*s <= 25", "proven"},
      {"s=-5..5", "s*s >= 0", "proven"},
      {"n=3..3", "n*n == 9", "proven"},
      // Products of sizes.
      {"", "b*s >= 0", "proven"},
      {"s=1..;t=1..", "s*t >= s", "proven"},
      {"s=1..;t=1..", "s*t < t", "refuted"},
      {"t=1..5", "s*t <= 5*s", "proven"},
      {"b=1..", "b*h == b*w", "open"},
      {"b=1..; h == w", "b*h == b*w", "proven"},
      {"b=1..; h != w", "b*h == b*w", "refuted"},
      {"b=1..; h <= w", "b*h*h <= b*w*h", "proven"},
      {"a=2..;b=3..", "a*b + a + b >= 11", "proven"},
      // Assumptions.
      {"max(1, -((-b)//max(1, b - b//2))) == 2; b >= 1", "max(1, -((-b)//(b - b//2))) == 2", "proven"},
      {"h=1..; 3*((h + 2)//3) < h + 2", "3*((h + 2)//3) >= h + 2", "refuted"},
      {"h=1..; 3*((h + 2)//3) < h + 2", "max(0, 3*((h + 2)//3) - h - 1) == 0", "proven"},
      {"a == b", "a*c == b*c", "proven"},
      {"a == b; b == c", "a == c", "proven"},
      {"a == 2*b + 1", "a != 2*b", "proven"},
      {"a <= b; b <= c", "a <= c", "proven"},
      {"a < b; b < c", "a + 2 <= c", "proven"},
      {"a < b; b < c", "a + 3 <= c", "open"},
      {"a < b", "a == b", "refuted"},
      {"a < b", "b <= a", "refuted"},
      {"a + b <= 512", "a <= 512", "proven"},
      {"a + b <= 512", "2*a + b <= 1024", "proven"},
      {"2*a == 3*b; b >= 2", "a >= 3", "proven"},
      {"a != b", "b - a == 0", "refuted"},
      {"a != 0", "a >= 1", "proven"},
      {"a >= 2 or b == 1", "b == 1 or a > 1", "proven"},
      {"s*t == 12; t == 3", "s == 4", "proven"},
      {"s=1..;t=1..;s*(6*t//s) == 6*t; 6*t//s == 6", "s == t", "proven"},
      {"s*s == t*t", "s == t", "proven"},
      {"s=-9..9; s*s == t*t", "s == t", "open"},
      {"s == t", "9*s*s == (t + 2*s)*(t + 2*s)", "proven"},
      {"b=1..; b*s*s == 16*b*(s//4)**2", "s % 4 == 0", "proven"},
      {"t == floor(sqrt(s)); t**2 == 16*(t//4)**2; (t//4)**2 == 4*(t//8)**2", "t == 8*(t//8)", "proven"},
      {"b=1..32; b >= 32", "b == 32", "proven"},
      {"s/2 > 1.5", "s/2 > 1.5", "proven"},
      {"s/2 > 1.5", "not s/2 > 1.5", "refuted"},
      // Divisions.
      {"", "4*(s//4) <= s", "proven"},
      {"", "4*(s//4) == s", "open"},
      {"s % 4 == 0", "4*(s//4) == s", "proven"},
      {"s % 4 == 0", "2*((s - s//2 + 1)//2) == s - s//2", "proven"},
      {"s=32..640; s % 32 == 0; t=32..640; t % 32 == 0", "(s//2)*((t - t//2 + 1)//2) >= (s//16)*(t//16)", "proven"},
      {"s % 2 == 0; t == 1", "s == 2*(s//2)", "proven"},  // learning t must not lose what is known of s
      {"s % 4 == 0", "s % 2 == 0", "proven"},
      {"s % 4 == 2", "s % 2 == 0", "proven"},
      {"s % 4 == 0", "(3*s + 6) % 4 == 2", "proven"},
      {"s % 6 == 0", "(s*s) % 36 == 0", "proven"},
      {"s % 6 == 0", "(s*s) % 72 == 0", "open"},
      {"s % 4 == 0", "s != 4*t + 2", "proven"},
      {"s % 4 == 0", "s == 6", "refuted"},
      {"(a*b) % 8 == 0", "(a*b + 8) % 4 == 0", "proven"},
      {"s % 2 == 0; s % 6 == 0", "s % 4 == 0", "open"},
      {"s % 2 == 0; s % 6 == 0; t % 4 == 0", "(s*t) % 24 == 0", "proven"},
      {"s % 4 == 0; s % 6 == 0", "s % 12 == 0", "proven"},
      {"s % 6 == 0; s//2 == t", "s % 4 == 0", "open"},
      {"s % 8 == 0; t % 8 == 0; s//8 == t//8", "s == 8*(t//8)", "proven"},
      {"s//8 == t//8; s % 8 == 0; t % 8 == 0", "s == t", "proven"},
      {"s % 8 == 0; t % 8 == 1; s//8 == t//8", "s == t", "refuted"},
      {"s % 2 == 0; t % 3 == 0", "(s*t) % 6 == 0", "proven"},
      {"s=1..", "(s + 31)//32 >= 1", "proven"},
      {"s=0..31", "s//32 == 0", "proven"},
      {"s=33..64", "(s - 1)//32 == 1", "proven"},
      {"", "s//2 + (s + 1)//2 <= s + 1", "proven"},
      {"h=1..", "(h + 1)//2 <= h", "proven"},
      {"h=2..", "(h + 1)//2 < h", "proven"},
      {"h=3..", "h//2 < h", "proven"},
      {"", "s % 8 < 8", "proven"},
      {"", "s % 8 <= s", "proven"},
      {"t=1..", "s % t < t", "proven"},
      {"t=1..; s < t", "s % t == s", "proven"},
      {"t=1..; s < t", "s//t == 0", "proven"},
      {"t=1..", "t*(s//t) <= s", "proven"},
      {"s=1..; t % s == 0", "s*(t//s) == t", "proven"},
      {"n//2 == 1", "n >= 2 and n <= 3", "proven"},
      {"n//2 + 1 == 2", "min(n, n//2 + 1) == 2", "proven"},
      {"n=2..", "(-n)//(n - n//2) == -2", "proven"},
      {"n=1..", "(-n)//(n - n//2) == -2", "open"},
      {"s=-9..-1;t=-9..-1; s < t", "s//t == 0", "open"},
      {"", "s//2 + (s + 1)//2 == s", "proven"},
      {"(s + 1)//2 == s//2; (s + 1)//6 >= 1", "s//6 >= 1", "proven"},
      {"(s + 1)//2 == s//2", "(s + 1)//2 + s//2 == s", "proven"},
      {"(s + 1)//3 == s//3", "s % 3 == 0", "open"},
      {"s == 2*(s//2); s//2 == 2*(s//4)", "s == 4*(s//4)", "proven"},
      {"(s + 1)//2 == 2*(s//4)", "s % 4 == 0", "proven"},
      {"s//2 == 2*(s//4); s == 2*(s//2)", "s == 4*(s//4)", "proven"},
      {"s//4 == 2*(s//8); s//8 == 2*(s//16)", "s//4 == 4*(s//16)", "proven"},
      {"s//8 == 2*(s//16); s//4 == 2*(s//8)", "s//4 == 4*(s//16)", "proven"},
      {"(s + 3)//4 == s//4; (s + 7)//8 == s//8", "(s + 15)//16 == (s + 8)//16", "proven"},
      {"", "(s//3 + t)*((s + 1)//3 - t) + (s//3 + t)*(s + 2)//3 == s//3*s", "open"},
      {"", "(h - h//2)*(w - w//2) == (h + 1)//2*((w + 1)//2)", "proven"},
      {"", "(3*s)//4 == s - (s + 3)//4", "proven"},
      {"", "(s + 3)//8 + (s + 7)//8 == (s + 3)//4", "proven"},
      {"-s % 4 == 0", "s % 4 == 0", "proven"},
      {"-s % 4 == 3", "s % 4 == 1", "proven"},
      {"", "-s % 4 < 4", "proven"},
      {"", "-s % 4 >= 0", "proven"},
      {"(s + 27)//28 >= 2", "s >= 29", "proven"},
      {"(s + 27)//28 <= 2", "s <= 56", "proven"},
      {"b*((h + 27)//28)*((w + 27)//28) != 0", "b*h*w >= 1", "proven"},
      // Minimum and maximum.
      {"", "min(s, 5) <= 5", "proven"},
      {"s=1..", "min(s, 5) >= 1", "proven"},
      {"", "max(s, t) >= s", "proven"},
      {"s <= t", "max(s, t) == t", "proven"},
      {"", "min(s, t) + max(s, t) == s + t", "proven"},
      {"", "max(min(s, 5), 0) == min(s, 5)", "proven"},
      {"", "s - min(s, 3) >= 0", "proven"},
      {"s=4..", "s - min(s, 3) >= 1", "proven"},
      {"h=64..640; w=64..640",
       "min(200, 2*((h + 15)//16)*((w + 15)//16) + 2*((h + 31)//32)*((w + 31)//32) + 2*((h + 7)//8)*((w + 7)//8)) <= "
       "2*((h + 15)//16)*((w + 15)//16) + 2*((h + 31)//32)*((w + 31)//32) + 2*((h + 7)//8)*((w + 7)//8)",
       "proven"},
      {"a <= c; b <= c", "max(a, b) <= c", "proven"},
      {"c <= a; c <= b", "min(a, b) >= c", "proven"},
      {"max(0, min(4, u) - 1) == 3", "u >= 4", "proven"},
      {"max(0, min(4, u) - 1) == 3", "max(0, min(4, u) - 1) == min(3, u)", "proven"},
      {"max(s, t) == 5", "s <= 5", "proven"},
      {"t < 5; max(s, t) == 5", "s == 5", "proven"},
      {"max(s, t) == 5", "s == 5", "open"},
      {"min(s, t) >= 3", "t >= 3", "proven"},
      {"max(1, s) >= 3; s >= 2", "s >= 3", "proven"},
      // The end of a slice, which may be counted from behind, cut off where the size is known to be no less.
      {"s=-9..",
       "max(0, min(9, max(0, 9*max(0, min(1, -min(9, s))) + min(9, s))) - 2) == max(0, max(0, 9*max(0, min(1, -min(9, "
       "s))) + min(9, s)) - 2)",
       "proven"},
      {"min(s, t) == 2", "t >= 2", "proven"},
      {"s=1..; s*s == 5*s*(s//5); s//5 == 1", "s == 5", "proven"},
      {"n == 320*(n//320); n//320 == 2*(n//640)", "n == 640*(n//640)", "proven"},
      {"n == 320*(n//320); n//320 == 2*(n//640)", "n == 1280*(n//1280)", "open"},
      {"n % 2000 == 7; 3*(n//6000) == n//2000; n//6000 == 5*(n//30000)", "n % 30000 == 7", "proven"},
      {"b*n == 4*((b*n)//4); (b*n)//4 == 2*((b*n)//8)", "b*n == 8*((b*n)//8)", "proven"},
      // What holds whatever is known, beside what replaces a part of it.
      {"(t + 15)//16 == u + 1", "((t + 15)//16) % 2 + (t + 15)//16 == 2*((t + 31)//32)", "proven"},
      {"(t + 15)//16 - 1 == (t + 31)//32", "(t + 31)//32 == (t + 31)//64 + 1", "proven"},
      {"(t + 15)//16 - 1 == (t + 31)//32", "t >= 19", "open"},
      {"(t + 15)//16 - 1 == (t + 31)//32", "t >= 50", "refuted"},
      {"", "t % 3 + 2*(t//3) <= t", "proven"},
      {"s=-9..", "s % 3 + 2*(s//3) <= s", "open"},
      // Floats.
      {"s=4..", "int(s*0.5) >= 2", "proven"},
      {"s=0..10", "int(s*0.3) <= 3", "proven"},
      {"", "int(s/2) == s//2", "proven"},
      {"s=4..9", "int(sqrt(s)) >= 2", "proven"},
      {"s=1..9", "0 <= ceil(log2(s)) and ceil(log2(s)) <= 4", "proven"},
      {"s=0..9", "1 <= round(pow(2, s)) and round(pow(2, s)) <= 512", "proven"},
      // Never: beyond 64 bits nothing is known.
      {"", "overflow() == overflow()", "open"},
      {"", "overflow() >= 0", "open"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.facts);
    CAPTURE(row.question);
    const Facts facts = facts_of(row.facts);
    const std::string answer = name(facts.decide(*parse_bool(row.question)));
    CHECK(answer == row.answer);
    const Truth contrary = facts.decide(negate(*parse_bool(row.question)));
    if (answer == "proven") CHECK(contrary == Truth::refuted);
    if (answer == "refuted") CHECK(contrary == Truth::proven);
  }
}

TEST_CASE("what is assumed later changes an answer") {
  Facts facts = facts_of("s=0..; t=0..");
  const SymBool question = *parse_bool("s <= 4*t");
  CHECK(facts.decide(question) == Truth::open);
  CHECK(facts.assume(*parse_bool("s <= t")));
  CHECK(facts.decide(question) == Truth::proven);
  CHECK(facts.decide(*parse_bool("s == 3")) == Truth::open);
  facts.declare("s", {3, 3});
  CHECK(facts.decide(*parse_bool("s == 3")) == Truth::proven);
}

TEST_CASE("what bears on a truth") {
  const Facts facts = facts_of("s=1..9; t=2..; u=3..7; v=0..4; s <= t; v < u");
  const Facts about = facts.about(*parse_bool("s == 3"), {*parse_bool("t <= 5*w"), *parse_bool("v == 2")});
  CHECK(about.ranges() == std::map<std::string, Range>{{"s", {1, 9}}, {"t", {2, Range::highest}}});
  REQUIRE(about.assumptions().size() == 2);
  CHECK(about.proves(*parse_bool("s <= 5*w")));
  CHECK(about.decide(*parse_bool("v < u")) == Truth::open);
  CHECK(facts.about(*parse_bool("3 == 3"), {}).ranges().empty());
}

TEST_CASE("contradictions are noticed") {
  const struct {
    std::string facts, truth;
  } rows[] = {
      {"s=2..", "s == 1"},
      {"a < b", "b < a"},
      {"a == b", "a != b"},
      {"s % 4 == 0", "s % 2 == 1"},
      {"a == 3 and b == a", "b == 4"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.truth);
    Facts facts = facts_of(row.facts);
    CHECK(!facts.assume(*parse_bool(row.truth)));
  }
}

TEST_CASE("simplification and bounds") {
  const struct {
    std::string facts, expression, simple;
    Range bounds;
  } rows[] = {
      {"", "s + 2*t", "s + 2*t", {0, Range::highest}},
      {"s == 4", "s*t", "4*t", {0, Range::highest}},
      {"t == s", "s + t", "2*s", {0, Range::highest}},
      {"t == 2*s + 1; s == 3", "t", "7", {7, 7}},
      {"s=0..4", "min(s, 5)", "s", {0, 4}},
      {"s=0..4", "max(s, 5)*2", "10", {10, 10}},
      {"s <= t", "min(s, t, 8)", "min(8, s)", {0, 8}},
      {"s=0..7", "s//8 + s % 8", "s", {0, 7}},
      {"s % 4 == 0", "s % 8 % 4 + s % 4", "0", {0, 0}},
      {"s % 4 == 1", "s//2", "s//2", {0, Range::highest}},
      {"s % 4 == 0", "(s + 1)//2", "s//2", {0, Range::highest}},
      {"(s + 1)//2 == s//2", "(s + 1)//4 + (s + 3)//4", "s//4 + (s + 2)//4", {0, Range::highest}},
      {"s=3..30; (s + 7)//8 == s//8", "s", "s", {8, 24}},
      {"(s + 1)//2 == s//2; 3 <= s; s <= 9", "(s + 1)//2", "s//2", {2, 4}},
      {"(t + 1)//2 - 1 == max(0, t - 2) - max(0, t - 2)//2", "(t + 1)//2", "(t + 1)//2", {1, Range::highest}},
      {"(t + 15)//16 - 1 == (t + 31)//32", "t", "t", {17, 48}},
      {"s - s//3 == 6", "s", "s", {8, 9}},
      {"", "min(t, t % 3 + 2*(t//3))", "t % 3 + 2*(t//3)", {0, Range::highest}},
      {"u0 == min(6, u1)", "u0 + min(6, u1)", "2*u0", {0, 12}},  // not of u1, which is found after u0
      {"u0 == 2*width", "u0", "2*width", {0, Range::highest}},
      {"u10 == u9", "u10", "u9", {0, Range::highest}},
      {"s=-3..5", "2*s - 1", "2*s - 1", {-7, 9}},
      {"a=1..8;b=1..8", "a*b - 1", "a*b - 1", {0, 63}},
      {"a=0..10; a + b <= 10", "b", "b", {0, 10}},
      {"s=-9..-1", "s//2", "s//2", {-5, -1}},
      {"s + t <= 5000; 3*s <= 2*t + 1", "s", "s", {0, 3333}},
      {"7*a <= 3*b + 50; 5*b <= 100000*c + 9; c <= 3", "a + b", "a + b", {0, 85722}},
      {"s=1..", "trunc(s*0.25)", "s//4", {0, Range::highest}},
      {"s=-8..-1", "trunc(s*0.25)", "-((-s)//4)", {-2, 0}},
      {"", "trunc(sqrt(s*s))", "s", {0, Range::highest}},
      {"", "floor((9*s*s)**0.5)", "3*s", {0, Range::highest}},
      {"t == s", "int(sqrt(s*t))", "s", {0, Range::highest}},
      {"", "int(sqrt(s*s + 2*s*t + t*t + 2*s + 2*t + 1))", "s + t + 1", {1, Range::highest}},
      {"", "int(sqrt(4*floor(sqrt(s*t))**2))", "2*floor(sqrt(float(s*t)))", {0, Range::highest}},
      {"", "int(sqrt(s*t))", "floor(sqrt(float(s*t)))", {0, Range::highest}},
      {"", "int(sqrt(2*s*s))", "floor(sqrt(float(2*s**2)))", {0, Range::highest}},
      {"s=-9..-1", "int(sqrt(s*s))", "-s", {1, 9}},
      {"s % 8 == 0", "int(sqrt(s*s/4.0))", "s//2", {0, Range::highest}},
      {"s % 8 == 0", "int(sqrt(s*(s//4)))", "s//2", {0, Range::highest}},
      {"s=64..; s % 64 == 0", "int(b*(s//4)**2/(s*s/4.0/4.0))", "b", {0, Range::highest}},
      {"s=7..; s % 7 == 0", "int(b*(s//7)**2/(s*s/7.0/7.0))", "b", {0, Range::highest}},
      {"s=8..; s % 8 == 0", "(b*s*s)//(16*(s//4)**2)", "b", {0, Range::highest}},
      {"s=8..; s % 8 == 0", "(b*s*s) % (16*(s//4)**2)", "0", {0, 0}},
      {"s=8..; s % 2 == 0", "(b*s)//(4*(s//4))", "(b*s)//(4*(s//4))", {0, Range::highest}},
      {"s=1..; t % s == 0", "int(t/s)", "t//s", {0, Range::highest}},
      {"s=1..", "int(t/s)", "floor(float(t)/float(s))", {0, Range::highest}},
      {"max(1, -((-s)//(s - s//2))) == 2; s//2 == 4*(s//8)", "max(1, -((-s)//(s - 4*(s//8))))", "2", {2, 2}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.facts);
    CAPTURE(row.expression);
    const Facts facts = facts_of(row.facts);
    const SymInt x = *parse_int(row.expression);
    CHECK(facts.simplify(x).to_string() == parse_int(row.simple)->to_string());
    CHECK(facts.bounds(x).lower == row.bounds.lower);
    CHECK(facts.bounds(x).upper == row.bounds.upper);
  }
}

// An expression in one symbol: floats of it that may be whole, and roots of squares.
SymInt random_rounding(std::mt19937& random) {
  const SymInt s = SymInt::symbol("s");
  const auto number = [&](int least, int most) { return SymInt(least + below(random, most - least + 1)); };
  const auto part = [&] { return number(1, 3) * floor_div(s, number(1, 12)) + number(-2, 2); };
  const auto apply = [](const char* op, const SymFloat& a, const SymFloat& b) { return SymFloat::apply(op, {a, b}); };
  const SymInt p = part(), q = below(random, 2) == 0 ? part() : p;
  const SymFloat squared = SymFloat::from(p * q);
  SymFloat x =
      below(random, 2) == 0 ? SymFloat::apply("sqrt", {squared}) : apply("/", squared, SymFloat::from(q * part()));
  if (below(random, 2) == 0) x = apply(below(random, 2) == 0 ? "*" : "/", x, static_cast<double>(1 + below(random, 8)));
  constexpr SymInt (*roundings[])(const SymFloat&) = {floor, ceil, trunc, round};
  return roundings[below(random, 4)](x);
}

TEST_CASE("random roots and quotients: simplified, they are what floating-point arithmetic makes of them") {
  std::mt19937 random(3);
  int simplified = 0;
  for (int round = 0; round < 4000; ++round) {
    const int64_t modulus = 1 + below(random, 12), far = int64_t{1} << (2 + below(random, 23));
    Facts facts;
    facts.declare("s", {below(random, 2) == 0 ? -far : 1, Range::highest});
    if (modulus > 1) REQUIRE(facts.assume(equal(mod(SymInt::symbol("s"), modulus), 0)));
    const SymInt x = random_rounding(random), simple = facts.simplify(x);
    CAPTURE(x.to_string());
    CAPTURE(simple.to_string());
    simplified += !(simple == x);
    for (int i = 0; i < 8; ++i) {
      const int64_t sign = facts.ranges().at("s").lower < 0 && below(random, 2) == 0 ? -1 : 1;
      const Bindings point = {{"s", sign * modulus * ((1 + below(random, 1 << 30) % far + modulus - 1) / modulus)}};
      if (!facts.ranges().at("s").contains(point.at("s"))) continue;
      CAPTURE(point.at("s"));
      const auto value = evaluate(x, point);
      if (value) REQUIRE(evaluate(simple, point) == value);
    }
  }
  MESSAGE("simplified " << simplified << " of 4000");
}

TEST_CASE("the root of a square is exact where the square is rounded") {
  const Facts facts = facts_of("s=-3037000499..3037000499");
  const SymInt root = *parse_int("int(sqrt(s*s))"), simple = facts.simplify(root);
  CHECK(simple.to_string() == "max(-s, s)");
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    const int64_t s = (below(random, 2) == 0 ? 1 : -1) * (3037000499 - (i < 1000 ? i : below(random, 1 << 30)));
    REQUIRE(evaluate(root, {{"s", s}}) == std::abs(s));
    REQUIRE(evaluate(simple, {{"s", s}}) == std::abs(s));
  }
}

TEST_CASE("a number is known where all values of its symbol give it") {
  const auto value = [](const std::string& facts, const std::string& x) {
    return facts_of(facts).value_of(*parse_int(x));
  };
  CHECK(value("s=5..6", "s - (2*s)//3") == 2);
  CHECK(value("s=5..7", "s - (2*s)//3") == std::nullopt);
  CHECK(value("s=5..", "s - (2*s)//3") == std::nullopt);
}

TEST_CASE("random worlds: nothing false is proven, nothing true refuted") {
  std::mt19937 random(7);
  int decided = 0;
  for (int world = 0; world < 250; ++world) {
    const Bindings bindings = {{"a", below(random, 6)}, {"b", below(random, 12) + 1}, {"c", below(random, 9) - 4}};
    Facts facts;
    facts.declare("b", {1, below(random, 2) == 0 ? 12 : Range::highest});
    facts.declare("c", {-4, below(random, 2) == 0 ? 8 : Range::highest});
    std::string stated;
    for (int i = 0; i < 4; ++i) {
      SymBool truth = random_truth(random, 2);
      const auto holds = evaluate(truth, bindings);
      if (!holds) continue;
      if (!*holds) truth = negate(truth);
      stated += truth.to_string() + "; ";
      CAPTURE(stated);
      CAPTURE(bindings.at("a"));
      CAPTURE(bindings.at("b"));
      CAPTURE(bindings.at("c"));
      REQUIRE(facts.assume(truth));
    }
    for (int i = 0; i < 12; ++i) {
      const SymBool question = random_truth(random, 2);
      const SymInt x = random_expression(random, 3);
      const auto expected = evaluate(question, bindings);
      const auto value = evaluate(x, bindings);
      CAPTURE(stated);
      CAPTURE(question.to_string());
      CAPTURE(x.to_string());
      CAPTURE(bindings.at("a"));
      CAPTURE(bindings.at("b"));
      CAPTURE(bindings.at("c"));
      const Truth truth = facts.decide(question);
      decided += truth != Truth::open;
      if (expected && truth != Truth::open) REQUIRE((truth == Truth::proven) == *expected);
      if (value) {
        REQUIRE(facts.bounds(x).contains(*value));
        const auto simple = evaluate(facts.simplify(x), bindings);
        REQUIRE(simple == value);
        REQUIRE(facts.value_of(x).value_or(*value) == *value);
      }
    }
  }
  MESSAGE("decided " << decided << " of 3000");
}
