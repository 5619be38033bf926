//===- RandomVariant.cpp - Parameters, conditions and the whole text ------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RandomVariant.h"

#include "VariantGenerator.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tesela {

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

std::string VariantGenerator::extent() {
  if (random.chance(15))
    return std::to_string(random.between(1, 12));
  std::string name = pick({"B", "H", "Hkv", "Sq", "Sk", "Sq", "Sk", "N", "M"});
  if (random.chance(70))
    return name;
  std::string coefficient = pick({"", "2*", "3*"});
  // With -30 a tensor of shorter sequences has no elements. N and M are too short for it.
  std::string offset =
      name == "N" || name == "M" ? pick({"", "-1", "+1"}) : pick({"", "-1", "+1", "+7", "-30"});
  return coefficient + name + offset;
}

void VariantGenerator::declare() {
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
    RandomParameter capture{name(random.chance(30)), pick(types), false, {}};
    static const std::vector<int> ranks = {1, 1, 2, 2, 2, 3, 4};
    int lengths = 0; // at most two axes of lengths: three would take gigabytes
    for (int rank = pick(ranks); rank > 0; --rank) {
      std::string chosen = extent();
      bool isLength = chosen.find_first_of("SNM") != std::string::npos;
      lengths += isLength;
      capture.extents.push_back(isLength && lengths > 2 ? "3" : chosen);
    }
    parameters.push_back(capture);
  }
}

std::string VariantGenerator::boundExtent() {
  auto names = [](const RandomParameter &parameter) {
    std::vector<std::string> found;
    for (const std::string &extent : parameter.extents)
      for (const char *name : {"N", "M"})
        if (extent.find(name) != std::string::npos)
          found.push_back(name);
    return found;
  };
  RandomParameter *binding = parameter([&](const RandomParameter &p) { return !names(p).empty(); });
  return binding ? pick(names(*binding)) : "";
}

/// An element of a captured tensor, mostly at indices within its axes.
std::string VariantGenerator::element(const RandomParameter &parameter, int depth) {
  std::string text = parameter.name + "[";
  for (size_t axis = 0; axis < parameter.extents.size(); ++axis) {
    const std::string &extent = parameter.extents[axis];
    std::string index;
    if (random.chance(30))
      index = integer(depth - 1).text;
    else if (extent == "B" || extent == "H" || extent == "Hkv")
      index = extent == "B" ? "b" : extent == "H" ? "h" : "hkv";
    else if (place == RandomPlace::sink)
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
/// A bound for positions and lengths (RandomLaunch.h).
constexpr double position = 400;

Integer VariantGenerator::integerLeaf() {
  switch (random.below(14)) {
  case 0:
  case 1:
  case 2:
    return {pick({"q", "q", "q", "q", "h", "b", "hkv"}), position};
  case 3:
  case 4:
  case 9:
  case 10:
    return {place == RandomPlace::sink ? "q" : "k", position};
  case 5:
    if (std::string bound = boundExtent(); !bound.empty() && random.chance(50))
      return {bound, position};
    return {pick({"Sq", "Sk", "H", "Hkv", "B"}), position};
  case 6:
    return {pick({"2147483647", "(-2147483648)", "2147483600", "(-2147483640)", "1000000007"}),
            wholeI32};
  case 7:
    if (RandomParameter *scalar = parameter(
            [](const RandomParameter &p) { return p.type == ElementType::i32 && !p.isCapture(); }))
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

/// The bound of a reduction: the same for the whole launch, and small.
std::string VariantGenerator::bound() {
  if (random.chance(40))
    return std::to_string(random.between(0, 6));
  if (RandomParameter *scalar = parameter(
          [](const RandomParameter &p) { return p.type == ElementType::i32 && !p.isCapture(); })) {
    std::string shape = pick({" % 5", " % 7", "min", "clamp"});
    if (shape == "min")
      return "min(" + scalar->name + ", 5)";
    return shape == "clamp" ? "clamp(" + scalar->name + ", -2, 4)" : scalar->name + shape;
  }
  if (std::string bound = boundExtent(); !bound.empty() && random.chance(70))
    return random.chance(30) ? "min(" + bound + ", 6)" : bound + pick({" % 5", " / 60", " - 334"});
  return pick({"Hkv", "B", "Sk % 4", "-3", "H / Hkv", "min(Sq, 3)"});
}

Integer VariantGenerator::reducedInteger(int depth) {
  std::string rounds = bound();
  return inReduction([&]() -> Integer {
    Integer term = integer(depth - 1);
    return {"sum(" + indices.back() + " < " + rounds + ": " + term.text + ")",
            std::min(8 * term.magnitude, wholeI32)};
  });
}

Integer VariantGenerator::integer(int depth) {
  if (ends(depth))
    return integerLeaf();
  auto held = [](std::string text, double magnitude) -> Integer {
    return {std::move(text), std::min(magnitude, wholeI32)};
  };
  int kind = random.below(16);
  if (kind == 0) {
    RandomParameter *capture = parameter(
        [](const RandomParameter &p) { return p.type == ElementType::i32 && p.isCapture(); });
    if (capture)
      return {element(*capture, depth), capture->isWild() ? wholeI32 : position};
  }
  if (kind == 1) {
    if (place == RandomPlace::mask)
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

/// Whether a key is in certain places of a grid. Divisors may be larger than a tile's columns: then
/// kernels split a row instead of dividing each element. Small divisors make a pattern along the
/// row. The other side of the comparison is a number, or it depends on the row.
std::string VariantGenerator::placeInGrid() {
  std::string text =
      pick({"k", "k", "q - k", "k - q", "q + k", "k + 3", "k - 11", "300 - k", "Sk - k"});
  int largest = 400;
  std::string last;
  for (int level = random.between(1, 3); level > 0; --level) {
    int divisor = random.chance(50) ? random.between(1, 17)
                                    : pick(std::vector<int>{30, 64, 70, 96, 100, 130, 200, 300});
    last = std::to_string(divisor);
    RandomParameter *scalar = random.chance(25) ? parameter([](const RandomParameter &p) {
      return p.type == ElementType::i32 && !p.isCapture() && !p.isWild();
    })
                                                : nullptr;
    if (scalar) // any number up to the divisor; or the parameter itself, which may be 0 or negative
      last = random.chance(70) ? "(" + scalar->name + " % " + last + " + 1)" : scalar->name;
    bool isQuotient = random.chance(50);
    text = "(" + text + (isQuotient ? " / " : " % ") + last + ")";
    largest = isQuotient ? largest / divisor : std::min(largest, divisor);
    if (random.chance(25))
      text = "(" + text + pick({" + ", " - "}) + std::to_string(random.below(40)) + ")";
  }
  std::string op = pick({" < ", " <= ", " > ", " >= ", " == ", " != "});
  if (random.chance(70))
    return "(" + text + op + std::to_string(random.below(largest + 1)) + ")";
  std::string ofRow = pick({"q % ", "q / ", "h % ", "(q + h) / ", "(3 - q) % "}) + last;
  return "(" + text + op + ofRow + ")";
}

/// A captured tensor of small or sorted numbers, with one number for each position of `extent`, and
/// mostly a separate row for each sequence or head.
RandomParameter &VariantGenerator::numbersOf(const char *extent) {
  std::vector<RandomParameter *> known;
  for (RandomParameter &each : numbered)
    if (each.extents.back() == extent)
      known.push_back(&each);
  if (!known.empty() && random.chance(40))
    return *pick(known);
  std::vector<std::string> extents = {extent};
  if (random.chance(35))
    extents.insert(extents.begin(), random.chance(50) ? "B" : "H");
  std::string name = "few" + std::to_string(numbered.size());
  return numbered.emplace_back(RandomParameter{name, ElementType::i32, false, extents, true});
}

/// Its element at the row's or the column's position, or at the number that another tensor has
/// there.
std::string VariantGenerator::numberAt(const char *index) {
  RandomParameter &capture = numbersOf(index == std::string("q") ? "Sq" : "Sk");
  std::string leading = capture.extents.size() == 1 ? ""
                        : capture.extents[0] == "B" ? "b, "
                                                    : "h, ";
  std::string read = capture.name + "[" + leading + index + "]";
  if (!random.chance(20))
    return read;
  RandomParameter &outer = numbersOf(random.chance(50) ? "Sq" : "N");
  leading = outer.extents.size() == 1 ? "" : outer.extents[0] == "B" ? "b, " : "h, ";
  return outer.name + "[" + leading + read + "]";
}

/// Conjunctions joined by ||. Each has some of: a band of positions, a condition on the row's
/// number, on the column's number, on both.
std::string VariantGenerator::joinedConjunctions() {
  auto compared = [&](const std::string &a, int largest) {
    std::string op = pick({" < ", " > ", " == ", " != ", " >= ", " <= "});
    return a + op + std::to_string(random.below(largest + 1));
  };
  std::string mask;
  for (int count = random.between(2, 4); count > 0; --count) {
    std::vector<std::string> conditions;
    if (random.chance(70))
      conditions.push_back(
          pick({"q >= k", "q >= k", "k >= q - 30", "q - k < 50", "k >= q - 30 && q >= k",
                "abs(q - k) < 20", "k - q <= Sk - Sq", "k < 51", "k < 5", "q < 100", "k >= 70"}));
    if (random.chance(65))
      conditions.push_back(compared(numberAt("q"), 6));
    if (random.chance(65))
      conditions.push_back(compared(numberAt("k"), 6));
    if (random.chance(25)) {
      std::string a = numberAt("q"), b = random.chance(70) ? numberAt("k") : "k";
      conditions.push_back(a + pick({" == ", " == ", " <= ", " != ", " > "}) + b);
    }
    if (conditions.empty())
      conditions.push_back("q == k");
    std::string conjunction;
    while (!conditions.empty()) { // in random order
      auto next = conditions.begin() + random.below(int(conditions.size()));
      conjunction += (conjunction.empty() ? "" : " && ") + *next;
      conditions.erase(next);
    }
    mask += (mask.empty() ? "(" : " || (") + conjunction + ")";
  }
  return random.chance(20) ? "!(" + mask + ")" : mask;
}

std::string VariantGenerator::comparison(int depth) {
  if (place == RandomPlace::mask && random.chance(12))
    return placeInGrid();
  std::string op = pick({" < ", " <= ", " > ", " >= ", " == ", " != "});
  if (random.chance(60)) {
    Integer a = integer(depth), b = integer(depth - 1);
    return "(" + a.text + op + b.text + ")";
  }
  if (place == RandomPlace::mask) {
    std::string a = wild(depth), b = wild(depth - 1);
    return "(" + a + op + b + ")";
  }
  Number a = exact(depth), b = exact(depth - 1);
  return "(" + a.text + op + b.text + ")";
}

std::string VariantGenerator::condition(int depth) {
  if (ends(depth)) {
    if (!conditions.empty() && random.chance(30))
      return pick(conditions);
    RandomParameter *flags =
        random.chance(30)
            ? parameter([](const RandomParameter &p) { return p.type == ElementType::boolean; })
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

std::string VariantGenerator::wildLeaf(int depth) {
  if (!wilds.empty() && random.chance(25))
    return pick(wilds);
  if (RandomParameter *found = random.chance(60) ? parameter(isNumbers) : nullptr)
    return found->isCapture() ? element(*found, depth) : found->name;
  if (random.chance(40))
    return "(1.0 * " + integerLeaf().text + ")";
  return pick({"0.0", "(-0.0)", "0.5", ".1", "1.", "3e38", "1e-45", "1e-38", "inf", "(-inf)",
               "16777217.0", "2147483648.0", "1e-3", "65536.5", "88.8", "(-103.9)", "0.1", "7.25"});
}

std::string VariantGenerator::wild(int depth) {
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
// The text
//===----------------------------------------------------------------------===//

std::string VariantGenerator::variant() {
  declare();
  std::string body;
  int names = 0;
  auto let = [&](const std::string &value) {
    std::string name = "v" + std::to_string(names++);
    body += "  let " + name + " = " + value + "\n";
    return name;
  };

  // Names that all three statements may use: no key, no `s`.
  place = RandomPlace::sink;
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
  // Names that the mask and the score may use: also the key.
  place = RandomPlace::score;
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
    place = RandomPlace::mask;
    budget = 15;
    if (random.chance(30))
      wilds.push_back(let(wild(3)));
    if (random.chance(20))
      conditions.push_back(let(condition(2)));
    budget = 40;
    bool isJoined = random.chance(25);
    std::string mask = isJoined ? joinedConjunctions() : condition(random.between(1, 4));
    if (!isJoined && random.chance(30))
      mask = pick({"q >= k", "q - k < 50", "k - q <= Sk - Sq", "abs(q - k) < 30"}) + " && " + mask;
    body += "  mask = " + mask + "\n";
  }
  conditions.resize(sharedConditions);

  if (random.chance(75)) {
    place = RandomPlace::score;
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
  parameters.insert(parameters.end(), numbered.begin(), numbered.end());
  for (const RandomParameter &each : parameters) {
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

std::string randomVariant(uint64_t seed, ElementType inputType) {
  return VariantGenerator(seed, inputType).variant();
}

} // namespace tesela
