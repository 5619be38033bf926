//===- RandomScores.cpp - Numbers of scores and sinks ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "VariantGenerator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tesela {

Number VariantGenerator::tameLeaf(int depth) {
  if (usesScore && random.chance(30))
    return Numbers::score();
  if (!tames.empty() && random.chance(20))
    return pick(tames);
  RandomParameter *found =
      random.chance(50)
          ? parameter([](const RandomParameter &p) { return isNumbers(p) && !p.isWild(); })
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

Number VariantGenerator::exact(int depth) {
  bool hadScore = std::exchange(usesScore, false);
  Number number;
  for (int attempt = 0; attempt < 4 && !number.isExact(); ++attempt)
    number = attempt < 3 ? tame(depth) : Numbers::literal("1.5", 1.5, 1);
  usesScore = hadScore;
  return number;
}

Number VariantGenerator::reducedNumber(int depth) {
  std::string rounds = bound();
  return inReduction([&] {
    Number term = tame(depth - 1);
    // At most 8 iterations, each with one rounding.
    Number number = {"sum(" + indices.back() + " < " + rounds + ": " + term.text + ")",
                     8 * term.magnitude, 8 * term.error, term.bits};
    if (!number.isExact() || std::ldexp(number.magnitude, number.bits) >= 0x1p24) {
      number.bits = -1;
      number.error += 8 * number.magnitude * 0x1p-23;
    }
    return number;
  });
}

Number VariantGenerator::tame(int depth) {
  if (ends(depth))
    return tameLeaf(depth);
  // Larger numbers would only lose bits.
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
std::string VariantGenerator::finished(const Number &number) {
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

std::string VariantGenerator::score() {
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

} // namespace tesela
