//===- RandomVariant.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Text is put together in statements of their own or in braces: the order in which C++ evaluates
// the operands of a '+' would depend on the compiler.
//
//===----------------------------------------------------------------------===//
#include "RandomVariant.h"

#include "Numbers.h"
#include "RandomSource.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tesela {

namespace {

struct Parameter {
  std::string name;
  ElementType type = ElementType::f32;
  bool isConstant = false;
  std::vector<std::string> extents; ///< of a captured tensor
  bool isCapture() const { return !extents.empty(); }
  bool isWild() const { return name.starts_with("wild"); }
  bool isUsed = false;
};

/// What an expression stands in.
enum class Place { mask, score, sink };

class Generator {
public:
  Generator(uint64_t seed, ElementType inputType)
      : random(seed, 1), isExactScore(random.chance(25)),
        numbers(!isExactScore && inputType != ElementType::f32),
        // The LSE may be off by 1e-3; f32's rule leaves some 2^-20 of the score's size.
        largestError(inputType == ElementType::f32 ? 0x1p-21 : 0x1p-13) {}

  std::string variant();

private:
  //===--------------------------------------------------------------------===//
  // Choices
  //===--------------------------------------------------------------------===//
  template <typename T> T pick(const std::vector<T> &list) { return random.pick(list); }
  std::string pick(std::initializer_list<const char *> list) {
    return *(list.begin() + random.below(int(list.size())));
  }
  /// Whether an expression ends here. Trees are of limited size, not only of limited depth.
  bool ends(int depth) { return depth <= 0 || --budget <= 0 || random.chance(20); }

  Parameter *parameter(auto fits) {
    std::vector<Parameter *> found;
    for (Parameter &each : parameters)
      if (fits(each))
        found.push_back(&each);
    if (found.empty())
      return nullptr;
    Parameter *chosen = pick(found);
    chosen->isUsed = true;
    return chosen;
  }

  void declare();
  std::string extent();

  //===--------------------------------------------------------------------===//
  // Expressions
  //===--------------------------------------------------------------------===//
  Integer integerLeaf();
  Integer integer(int depth);
  Integer reducedInteger(int depth);
  std::string bound();
  std::string element(const Parameter &parameter, int depth);
  std::string condition(int depth);
  std::string comparison(int depth);
  /// Of a mask: any f32.
  std::string wildLeaf(int depth);
  std::string wild(int depth);
  /// Of a score or a sink.
  Number tameLeaf(int depth);
  Number tame(int depth);
  Number exact(int depth);
  Number reducedNumber(int depth);
  std::string finished(const Number &number);
  std::string score();

  /// Runs `make` with the name of a reduction's index in scope.
  template <typename Make> auto inReduction(Make make) {
    static const char *const names[] = {"i", "j"};
    indices.push_back(names[indices.size()]);
    auto result = make();
    indices.pop_back();
    return result;
  }
  bool mayReduce() const { return indices.size() < 2; }

  RandomSource random;
  const bool isExactScore;
  const Numbers numbers;
  const double largestError;
  Place place = Place::mask;
  bool usesScore = false; ///< whether `s` is in scope
  int budget = 0;
  std::vector<Parameter> parameters;
  std::vector<std::string> indices; ///< of the reductions around
  // What `let`s have named, of the places where each may stand.
  std::vector<std::string> conditions, wilds;
  std::vector<Integer> integers;
  std::vector<Number> tames;
};

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

std::string Generator::extent() {
  if (random.chance(15))
    return std::to_string(random.between(1, 12));
  std::string name = pick({"B", "H", "Hkv", "Sq", "Sk", "Sq", "Sk", "N", "M"});
  if (random.chance(70))
    return name;
  std::string coefficient = pick({"", "2*", "3*"});
  // Sequences shorter than 30 leave nothing; a name of its own has no such length.
  std::string offset =
      name == "N" || name == "M" ? pick({"", "-1", "+1"}) : pick({"", "-1", "+1", "+7", "-30"});
  return coefficient + name + offset;
}

void Generator::declare() {
  using enum ElementType;
  static const std::vector<ElementType> scalarTypes = {i32, f32};
  static const std::vector<ElementType> types = {i32, f32, boolean, f16, bf16, i32, f32, boolean};
  int number = 0;
  auto name = [&](bool isWild) { return (isWild ? "wild" : "p") + std::to_string(number++); };
  for (int count = random.below(4); count > 0; --count) {
    bool isWild = random.chance(30), isConstant = !isWild && random.chance(30);
    parameters.push_back({name(isWild), pick(scalarTypes), isConstant, {}});
  }
  for (int count = random.below(5); count > 0; --count) {
    Parameter capture{name(random.chance(30)), pick(types), false, {}};
    static const std::vector<int> ranks = {1, 1, 2, 2, 2, 3, 4};
    for (int rank = pick(ranks); rank > 0; --rank)
      capture.extents.push_back(extent());
    parameters.push_back(capture);
  }
}

/// An element of a captured tensor: mostly at indices that its axes have.
std::string Generator::element(const Parameter &parameter, int depth) {
  std::string text = parameter.name + "[";
  for (size_t axis = 0; axis < parameter.extents.size(); ++axis) {
    const std::string &extent = parameter.extents[axis];
    std::string index;
    if (random.chance(30))
      index = integer(depth - 1).text;
    else if (extent == "B" || extent == "H" || extent == "Hkv")
      index = extent == "B" ? "b" : extent == "H" ? "h" : "hkv";
    else if (place == Place::sink)
      index = pick({"q", "q", "q - 1", "q / 3", "h"});
    else
      index = pick({"q", "k", "q", "k", "k - q", "q - k + Sk - 1", "k - 1", "q / 4", "k % 5"});
    text += (axis ? ", " : "") + index;
  }
  return text + "]";
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

constexpr double wholeI32 = 0x1p31;
/// Of positions and lengths (RandomLaunch.h).
constexpr double position = 400;

Integer Generator::integerLeaf() {
  switch (random.below(14)) {
  case 0:
  case 1:
  case 2:
    return {pick({"q", "q", "q", "q", "h", "b", "hkv"}), position};
  case 3:
  case 4:
  case 9:
  case 10:
    return {place == Place::sink ? "q" : "k", position};
  case 5:
    return {pick({"Sq", "Sk", "H", "Hkv", "B"}), position};
  case 6:
    return {pick({"2147483647", "(-2147483648)", "2147483600", "(-2147483640)", "1000000007"}),
            wholeI32};
  case 7:
    if (Parameter *scalar = parameter(
            [](const Parameter &p) { return p.type == ElementType::i32 && !p.isCapture(); }))
      return {scalar->name, scalar->isWild() ? wholeI32 : position};
    break;
  case 8:
    if (!indices.empty())
      return {pick(indices), 8};
    if (!integers.empty())
      return pick(integers);
    break;
  default:
    break;
  }
  int number = random.chance(70) ? random.between(0, 20) : random.between(0, 200);
  bool isNegative = random.chance(15);
  std::string text = std::to_string(number);
  return {isNegative ? "(-" + text + ")" : text, double(number)};
}

/// The number of rounds: the same for the launch, and small.
std::string Generator::bound() {
  if (random.chance(40))
    return std::to_string(random.between(0, 6));
  if (Parameter *scalar = parameter(
          [](const Parameter &p) { return p.type == ElementType::i32 && !p.isCapture(); })) {
    std::string shape = pick({" % 5", " % 7", "min", "clamp"});
    if (shape == "min")
      return "min(" + scalar->name + ", 5)";
    return shape == "clamp" ? "clamp(" + scalar->name + ", -2, 4)" : scalar->name + shape;
  }
  return pick({"Hkv", "B", "Sk % 4", "-3", "H / Hkv", "min(Sq, 3)"});
}

Integer Generator::reducedInteger(int depth) {
  std::string rounds = bound();
  return inReduction([&]() -> Integer {
    Integer term = integer(depth - 1);
    return {"sum(" + indices.back() + " < " + rounds + ": " + term.text + ")",
            std::min(8 * term.magnitude, wholeI32)};
  });
}

Integer Generator::integer(int depth) {
  if (ends(depth))
    return integerLeaf();
  auto held = [](std::string text, double magnitude) -> Integer {
    return {std::move(text), std::min(magnitude, wholeI32)};
  };
  int kind = random.below(16);
  if (kind == 0) {
    Parameter *capture =
        parameter([](const Parameter &p) { return p.type == ElementType::i32 && p.isCapture(); });
    if (capture)
      return {element(*capture, depth), capture->isWild() ? wholeI32 : position};
  }
  if (kind == 1) {
    if (place == Place::mask)
      return {"int(" + wild(depth - 1) + ")", wholeI32};
    Number number = exact(depth - 1);
    return held("int(" + number.text + ")", number.magnitude);
  }
  if (kind == 2 && mayReduce())
    return reducedInteger(depth);
  Integer a = integer(depth - 1);
  switch (kind) {
  case 3:
    return held("abs(" + a.text + ")", a.magnitude);
  case 4:
    return held("(-" + a.text + ")", a.magnitude);
  case 5:
    return held("int(" + a.text + ")", a.magnitude);
  default:
    break;
  }
  Integer b = integer(depth - 1);
  double larger = std::max(a.magnitude, b.magnitude);
  switch (kind) {
  case 6:
  case 7: {
    std::string function = pick({"min", "max"});
    return held(function + "(" + a.text + ", " + b.text + ")", larger);
  }
  case 8: {
    Integer c = integer(depth - 1);
    return held("clamp(" + a.text + ", " + b.text + ", " + c.text + ")",
                std::max(larger, c.magnitude));
  }
  case 9: {
    std::string which = condition(depth - 1);
    return held("(" + which + " ? " + a.text + " : " + b.text + ")", larger);
  }
  case 10:
    return held("(" + a.text + " * " + b.text + ")", a.magnitude * b.magnitude);
  case 11:
    return held("(" + a.text + " / " + b.text + ")", a.magnitude);
  case 12:
    return held("(" + a.text + " % " + b.text + ")", b.magnitude);
  default: {
    std::string op = pick({" + ", " - "});
    return held("(" + a.text + op + b.text + ")", a.magnitude + b.magnitude);
  }
  }
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

std::string Generator::comparison(int depth) {
  std::string op = pick({" < ", " <= ", " > ", " >= ", " == ", " != "});
  if (random.chance(60)) {
    Integer a = integer(depth), b = integer(depth - 1);
    return "(" + a.text + op + b.text + ")";
  }
  if (place == Place::mask) {
    std::string a = wild(depth), b = wild(depth - 1);
    return "(" + a + op + b + ")";
  }
  Number a = exact(depth), b = exact(depth - 1);
  return "(" + a.text + op + b.text + ")";
}

std::string Generator::condition(int depth) {
  if (ends(depth)) {
    if (!conditions.empty() && random.chance(30))
      return pick(conditions);
    Parameter *flags =
        random.chance(30)
            ? parameter([](const Parameter &p) { return p.type == ElementType::boolean; })
            : nullptr;
    if (flags)
      return element(*flags, depth);
    if (random.chance(4))
      return pick({"true", "false"});
    return comparison(1);
  }
  switch (random.below(12)) {
  case 0:
    return "(!" + condition(depth - 1) + ")";
  case 1:
  case 2:
  case 3: {
    std::string a = condition(depth - 1), b = condition(depth - 1);
    return "(" + a + " && " + b + ")";
  }
  case 4:
  case 5:
  case 6: {
    std::string a = condition(depth - 1), b = condition(depth - 1);
    return "(" + a + " || " + b + ")";
  }
  case 7: {
    std::string a = condition(depth - 1), b = condition(depth - 1), c = condition(depth - 1);
    return "(" + a + " ? " + b + " : " + c + ")";
  }
  case 8: {
    std::string a = condition(depth - 1), op = pick({" == ", " != "}), b = condition(depth - 1);
    return "(" + a + op + b + ")";
  }
  case 9:
    if (mayReduce()) {
      std::string function = pick({"any", "all"}), rounds = bound();
      return inReduction([&] {
        return function + "(" + indices.back() + " < " + rounds + ": " + condition(depth - 1) + ")";
      });
    }
    [[fallthrough]];
  default:
    return comparison(depth - 1);
  }
}

//===----------------------------------------------------------------------===//
// Numbers of masks
//===----------------------------------------------------------------------===//

static bool isNumbers(const Parameter &p) {
  return p.type == ElementType::f32 || p.type == ElementType::f16 || p.type == ElementType::bf16;
}

std::string Generator::wildLeaf(int depth) {
  if (!wilds.empty() && random.chance(25))
    return pick(wilds);
  if (Parameter *found = random.chance(60) ? parameter(isNumbers) : nullptr)
    return found->isCapture() ? element(*found, depth) : found->name;
  if (random.chance(40))
    return "(1.0 * " + integerLeaf().text + ")";
  return pick({"0.0", "(-0.0)", "0.5", ".1", "1.", "3e38", "1e-45", "1e-38", "inf", "(-inf)",
               "16777217.0", "2147483648.0", "1e-3", "65536.5", "88.8", "(-103.9)", "0.1", "7.25"});
}

std::string Generator::wild(int depth) {
  if (ends(depth))
    return wildLeaf(depth);
  if (random.chance(8) && mayReduce()) {
    std::string rounds = bound();
    return inReduction(
        [&] { return "sum(" + indices.back() + " < " + rounds + ": " + wild(depth - 1) + ")"; });
  }
  std::string a = wild(depth - 1);
  if (random.chance(35)) {
    std::string function = pick({"exp", "log", "sqrt", "tanh", "sin", "cos", "floor", "abs", "-"});
    return function == "-" ? "(-" + a + ")" : function + "(" + a + ")";
  }
  if (random.chance(15)) {
    std::string b = integer(depth - 1).text, op = pick({" + ", " - ", " * ", " / "});
    return random.chance(50) ? "(" + a + op + b + ")" : "(" + b + op + a + ")";
  }
  std::string b = wild(depth - 1);
  switch (random.below(8)) {
  case 0: {
    std::string function = pick({"min", "max"});
    return function + "(" + a + ", " + b + ")";
  }
  case 1: {
    std::string c = wild(depth - 1);
    return "clamp(" + a + ", " + b + ", " + c + ")";
  }
  case 2: {
    std::string which = condition(depth - 1);
    return "(" + which + " ? " + a + " : " + b + ")";
  }
  default: {
    std::string op = pick({" + ", " - ", " * ", " / "});
    return "(" + a + op + b + ")";
  }
  }
}

//===----------------------------------------------------------------------===//
// Numbers of scores and sinks
//===----------------------------------------------------------------------===//

Number Generator::tameLeaf(int depth) {
  if (usesScore && random.chance(30))
    return Numbers::score();
  if (!tames.empty() && random.chance(20))
    return pick(tames);
  Parameter *found = random.chance(50)
                         ? parameter([](const Parameter &p) { return isNumbers(p) && !p.isWild(); })
                         : nullptr;
  if (found) // multiples of 1/8 in [-4, 4]
    return {found->isCapture() ? element(*found, depth) : found->name, 4, 0, 3};
  if (random.chance(50))
    return Numbers::ofInteger(integerLeaf());
  switch (random.below(6)) {
  case 0:
    return Numbers::literal("0.5", 0.5, 1);
  case 1:
    return Numbers::literal("(-3.0)", 3, 0);
  case 2:
    return Numbers::literal("1.25", 1.25, 2);
  case 3:
    return Numbers::literal(".1", 0.1, -1);
  case 4:
    return Numbers::literal("2.7182817", 2.72, -1);
  default:
    return Numbers::literal("1e-3", 1e-3, -1);
  }
}

Number Generator::exact(int depth) {
  bool hadScore = std::exchange(usesScore, false);
  Number number;
  for (int attempt = 0; attempt < 4 && !number.isExact(); ++attempt)
    number = attempt < 3 ? tame(depth) : Numbers::literal("1.5", 1.5, 1);
  usesScore = hadScore;
  return number;
}

Number Generator::reducedNumber(int depth) {
  std::string rounds = bound();
  return inReduction([&] {
    Number term = tame(depth - 1);
    // At most 8 rounds, each added with a rounding.
    Number number = {"sum(" + indices.back() + " < " + rounds + ": " + term.text + ")",
                     8 * term.magnitude, 8 * term.error, term.bits};
    if (!number.isExact() || std::ldexp(number.magnitude, number.bits) >= 0x1p24) {
      number.bits = -1;
      number.error += 8 * number.magnitude * 0x1p-23;
    }
    return number;
  });
}

Number Generator::tame(int depth) {
  if (ends(depth))
    return tameLeaf(depth);
  // Larger ones only lose bits.
  constexpr double large = 0x1p12;
  int kind = random.below(20);
  switch (kind) {
  case 0:
    if (mayReduce())
      return reducedNumber(depth);
    break;
  case 1:
    return Numbers::floor(exact(depth - 1));
  case 2: {
    std::string function = pick({"log", "sqrt"});
    Number a = exact(depth - 1), b = tame(depth - 1);
    return numbers.guarded(function.c_str(), a, b);
  }
  case 3:
    return Numbers::ofInteger(integer(depth - 1));
  default:
    break;
  }
  Number a = tame(depth - 1);
  switch (kind) {
  case 4:
    return numbers.exp(a);
  case 5:
    return numbers.tanh(a);
  case 6:
    return numbers.wave(random.chance(50) ? "sin" : "cos", a);
  case 7:
    return numbers.log(a);
  case 8:
    return numbers.root(a);
  case 9:
    return Numbers::either("abs(" + a.text + ")", a, a);
  case 10:
    return Numbers::negated(a);
  default:
    break;
  }
  Number b = tame(depth - 1);
  switch (kind) {
  case 11:
    return numbers.quotient(a, b);
  case 12: {
    std::string function = pick({"min", "max"});
    return Numbers::either(function + "(" + a.text + ", " + b.text + ")", a, b);
  }
  case 13: {
    Number low = exact(0);
    return Numbers::either("clamp(" + a.text + ", " + low.text + ", " + b.text + ")",
                           Numbers::either("", a, b), low);
  }
  case 14:
  case 15: {
    std::string which = condition(depth - 1);
    return Numbers::either("(" + which + " ? " + a.text + " : " + b.text + ")", a, b);
  }
  case 16:
  case 17: {
    Number left = numbers.scaled(a, large), right = numbers.scaled(b, large);
    return numbers.product(left, right);
  }
  default: {
    std::string op = pick({" + ", " - "});
    return numbers.sum(a, op.c_str(), b);
  }
  }
}

/// A number within the rule's bounds, with infinities and NaNs in some places.
std::string Generator::finished(const Number &number) {
  std::string text = numbers.scaled(number, 24, largestError).text;
  if (random.chance(20)) {
    std::string which = condition(2);
    text = random.chance(70) ? "(" + which + " ? -inf : " + text + ")"
                             : "(" + which + " ? " + text + " : -inf)";
  }
  if (random.chance(8)) {
    std::string which = comparison(1), what = pick({"inf", "(inf - inf)", "log(-1.0)"});
    text = "(" + which + " ? " + what + " : " + text + ")";
  }
  if (usesScore && random.chance(3))
    text = "(s > 0.3718281 ? " + text + " : -inf)";
  return text;
}

std::string Generator::score() {
  Number s = Numbers::score();
  switch (random.below(5)) {
  case 0:
  case 1: {
    Number term = numbers.scaled(tame(3), 16, largestError);
    return finished(numbers.sum(s, " + ", term));
  }
  case 2: {
    bool hadScore = std::exchange(usesScore, false);
    Number factor = numbers.scaled(tame(2), 2);
    usesScore = hadScore;
    return finished(numbers.product(s, factor));
  }
  default:
    return finished(tame(4));
  }
}

//===----------------------------------------------------------------------===//
// The text
//===----------------------------------------------------------------------===//

std::string Generator::variant() {
  declare();
  std::string body;
  int names = 0;
  auto let = [&](const std::string &value) {
    std::string name = "v" + std::to_string(names++);
    body += "  let " + name + " = " + value + "\n";
    return name;
  };

  // What all three may use: no key, no `s`.
  place = Place::sink;
  budget = 12;
  if (random.chance(20)) {
    Integer value = integer(2);
    integers.push_back({let(value.text), value.magnitude});
  }
  if (random.chance(20)) {
    Number value = tame(2);
    std::string name = let(value.text);
    tames.push_back({name, value.magnitude, value.error, value.bits});
  }
  std::string sink;
  if (random.chance(20)) {
    budget = 20;
    sink = "  sink = " + finished(tame(3)) + "\n";
  }
  // What the mask and the score may use: the key, too.
  place = Place::score;
  if (random.chance(30)) {
    budget = 12;
    Integer value = integer(2);
    integers.push_back({let(value.text), value.magnitude});
  }
  if (random.chance(20)) {
    budget = 12;
    conditions.push_back(let(condition(2)));
  }
  size_t sharedConditions = conditions.size();

  if (random.chance(85)) {
    place = Place::mask;
    budget = 15;
    if (random.chance(30))
      wilds.push_back(let(wild(3)));
    if (random.chance(20))
      conditions.push_back(let(condition(2)));
    budget = 40;
    std::string mask = condition(random.between(1, 4));
    if (random.chance(30))
      mask = pick({"q >= k", "q - k < 50", "k - q <= Sk - Sq", "abs(q - k) < 30"}) + " && " + mask;
    body += "  mask = " + mask + "\n";
  }
  conditions.resize(sharedConditions);

  if (random.chance(75)) {
    place = Place::score;
    usesScore = true;
    budget = 15;
    if (random.chance(25)) {
      Number value = tame(2);
      std::string name = let(value.text);
      tames.push_back({name, value.magnitude, value.error, value.bits});
    }
    budget = 30;
    std::string value = score();
    body += (isExactScore ? "  exact score = " : "  score = ") + value + "\n";
  }
  body += sink;

  std::string list;
  for (const Parameter &each : parameters) {
    if (!each.isUsed)
      continue;
    list += list.empty() ? "" : ",\n    ";
    if (each.isConstant)
      list += "const ";
    list += each.name + ": " + std::string(elementTypeName(each.type));
    for (size_t axis = 0; axis < each.extents.size(); ++axis)
      list += (axis ? ", " : "[") + each.extents[axis];
    if (each.isCapture())
      list += "]";
    else if (each.isConstant)
      list += each.type == ElementType::i32 ? " = 3" : " = 0.5";
  }
  return "attention random" + (list.empty() ? "" : "(" + list + ")") + " {\n" + body + "}\n";
}

} // namespace

std::string randomVariant(uint64_t seed, ElementType inputType) {
  return Generator(seed, inputType).variant();
}

} // namespace tesela
