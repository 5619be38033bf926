//===- RandomMask.cpp - Masks as text, from a seed --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RandomMask.h"

#include <limits>
#include <vector>

namespace tesela {

int32_t randomInteger(std::mt19937 &random, int32_t extent) {
  auto small = [&](uint32_t range) { return int32_t(random() % range); };
  switch (random() % 16) {
  case 0:
    return std::numeric_limits<int32_t>::max() - small(40);
  case 1:
    return std::numeric_limits<int32_t>::min() + small(40);
  case 2:
  case 3:
  case 4:
    return extent - 20 + small(40);
  case 5:
  case 6:
    return -small(40);
  default:
    return small(60);
  }
}

namespace {

class Generator {
public:
  explicit Generator(std::mt19937 &random) : random(random) {}

  std::string boolean(int depth) {
    if (depth == 0 || chance(25))
      return atom();
    switch (random() % 9) {
    case 0:
      return "!(" + boolean(depth - 1) + ")";
    case 1:
    case 2:
    case 3:
      return "(" + boolean(depth - 1) + " && " + boolean(depth - 1) + ")";
    case 4:
    case 5:
      return "(" + boolean(depth - 1) + " || " + boolean(depth - 1) + ")";
    case 6:
    case 7:
      return "(" + boolean(depth - 1) + " ? " + boolean(depth - 1) + " : " + boolean(depth - 1) +
             ")";
    default:
      return "((" + boolean(depth - 1) + ")" + pick({" == ", " != "}) + "(" + boolean(depth - 1) +
             "))";
    }
  }

private:
  bool chance(uint32_t percent) { return random() % 100 < percent; }
  std::string pick(const std::vector<std::string> &choices) {
    return choices[random() % choices.size()];
  }

  std::string constant() {
    int32_t value = randomInteger(random, 64);
    if (value == std::numeric_limits<int32_t>::min())
      return "(-2147483647 - 1)";
    return value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
  }

  /// The same for all queries and keys of a block.
  std::string uniform() {
    if (chance(35))
      return constant();
    return pick({"p", "p", "w", "w", "t[b]", "t[h]", "Sq", "Sk", "h", "hkv", "p / w", "p % w",
                 "p * w", "min(p, w)", "abs(w)", "int(x)", "H / Hkv"});
  }

  std::string sum(bool isNested = false) {
    std::string text = pick({"q", "k", "q", "k", "-q", "-k", uniform()});
    for (uint32_t count = random() % 3; count > 0; --count) {
      std::string sign = pick({" + ", " - "});
      text += sign + (!isNested && chance(15) ? "(" + sum(true) + ")"
                                              : pick({"q", "k", uniform(), uniform(), uniform()}));
    }
    return text;
  }

  std::string integer() {
    if (chance(92))
      return sum();
    std::string divisor = pick({"3", "w", "(p)", "(-2)"});
    return pick({"(" + sum() + ") / " + divisor, "(" + sum() + ") % " + divisor,
                 "abs(" + sum() + ")", "min(" + sum() + ", " + sum() + ")",
                 "max(" + sum() + ", " + sum() + ")", "(" + sum() + ") * w", "q * k", "t[q]",
                 "(q < k ? q : k)"});
  }

  std::string atom() {
    std::string comparison = pick({" < ", " <= ", " > ", " >= ", " == ", " != "});
    if (chance(6)) // the same for a block
      return pick({"true", "false", "x < 0.5", "h == 0", "p > w"});
    if (chance(5))
      return pick({"q * x" + comparison + "k", "x * h" + comparison + "0.25"});
    return integer() + comparison + integer();
  }

  std::mt19937 &random;
};

} // namespace

std::string randomMask(std::mt19937 &random) { return Generator(random).boolean(random() % 4); }

} // namespace tesela
