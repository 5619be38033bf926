//===- RandomMask.cpp - Masks as text, from a seed --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RandomMask.h"

#include <limits>

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
    return int32_t(uint32_t(extent) - 20 + uint32_t(small(40))); // wraps, as in the language
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
  Generator(std::mt19937 &random, bool hasShared) : random(random), hasShared(hasShared) {
    switch (random() % 4) {
    case 0:
      readsOf = 60;
      numbersOf = 5;
      break;
    case 1:
      readsOf = 25;
      numbersOf = 50;
      break;
    default: // masks of positions
      readsOf = 4;
      numbersOf = 4;
    }
  }

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

  /// The value of `z`, which several parts of a mask share.
  std::string shared() {
    return pick({"k / w", "(k - q) / 3", "(q + k) / p", "k % w", "abs(q - k)", sum(), integer()});
  }

  std::string score(int depth) {
    if (depth == 0)
      return pick({"s", "s", "s + x", "-inf", "-s", "s * y"});
    std::string condition = chance(5) ? "s > 0.0" : boolean(depth);
    std::string other = score(depth - 1);
    return chance(50) ? "(" + condition + " ? -inf : " + other + ")"
                      : "(" + condition + " ? " + other + " : -inf)";
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

  /// A value that is the same for all queries and keys of a block.
  std::string uniform() {
    if (chance(35))
      return constant();
    return pick({"p", "p", "w", "w", "t[b]", "t[h]", "Sq", "Sk", "h", "hkv", "p / w", "p % w",
                 "p * w", "min(p, w)", "abs(w)", "int(x)", "H / Hkv", "N", "M"});
  }

  /// Replaces $ by a sum, @ by a divisor, # by a condition.
  std::string filled(const std::string &pattern) {
    std::string text;
    for (char letter : pattern)
      text += letter == '$'   ? "(" + sum(true) + ")"
              : letter == '@' ? pick({"3", "w", "w", "(p)", "(-2)", "0", "(k + 1)", "t[b]"})
              : letter == '#' ? "(" + atom() + ")"
                              : std::string(1, letter);
    return text;
  }

  /// A term that is not linear.
  std::string nonlinear() {
    return filled(pick({"$ / @",
                        "$ / @",
                        "$ % @",
                        "$ % @",
                        "abs$",
                        "min($, $)",
                        "max($, $)",
                        "$ * w",
                        "$ * $",
                        "3 * $",
                        "3 * (k - u[q])",
                        "(k + id[b, q]) / w",
                        "(k + id[b, q]) / 3",
                        "(k - u[q]) / 2",
                        "q * k",
                        "t[q]",
                        "(q < k ? q : k)",
                        "(# ? $ : $)",
                        "(q / w) * 16 + k % w",
                        "(k / w) * w",
                        "clamp($, p, w)",
                        "int(f[k])"}));
  }

  std::string sum(bool isNested = false) {
    std::string text = pick({"q", "k", "q", "k", "-q", "-k", uniform()});
    for (uint32_t count = random() % 3; count > 0; --count) {
      text += pick({" + ", " - "});
      if (!isNested && chance(15))
        text += "(" + sum(true) + ")";
      else if (!isNested && chance(5))
        text += "(" + nonlinear() + ")";
      else
        text += pick({"q", "k", uniform(), uniform(), uniform()});
    }
    return text;
  }

  /// An index for a read.
  std::string index() {
    if (chance(50))
      return pick({"q", "k"});
    if (chance(30))
      return sum();
    if (chance(15))
      return read();
    return pick({"k - p", "q - k", "k - q + Sk", "k / 3", "k % 7", "q / w", "q % w", "k / w", "b",
                 "h", "hkv", "p", "2 * k", "min(q, k)", "abs(q - k)", "int(f[k])", "q / (k + 1)"});
  }

  /// An i32 element of a captured tensor.
  std::string read() {
    switch (random() % 4) {
    case 0:
      return "u[" + index() + "]";
    case 1:
      return "m[" + index() + ", " + index() + "]";
    default:
      return "id[b, " + index() + "]";
    }
  }

  std::string integer() {
    if (hasShared && chance(6))
      return pick({"z", "z", "-z", "z + k", "w - z", "z - p"});
    if (chance(readsOf))
      return chance(70) ? read() : chance(50) ? uniform() : read() + pick({" + ", " - "}) + sum();
    return chance(90) ? sum() : nonlinear();
  }

  std::string number(int depth) {
    if (depth == 0 || chance(20))
      return pick({"x", "y", "v[h]", "f[" + index() + "]", "f[" + index() + "]",
                   "g[b, " + index() + "]", "g[b, " + index() + "]", "d[" + index() + "]",
                   "e[b, " + index() + "]", "0.5", "-3.0", "1e30", "inf", "0.0",
                   "(" + sum() + ") * 0.25", "(" + sum() + ") * 1.0"});
    std::string a = "(" + number(depth - 1) + ")", b = "(" + number(depth - 1) + ")";
    std::string function = pick({"sqrt", "exp", "log", "floor", "abs", "tanh", "cos"});
    std::string condition = chance(9) ? atom() : "k < w";
    return pick({a + " + " + b, a + " - " + b, a + " * " + b, a + " * " + b, a + " / " + b, "-" + a,
                 "abs" + a, "floor" + a, "min(" + a + ", " + b + ")", "max(" + a + ", " + b + ")",
                 function + a, "(" + condition + " ? " + a + " : " + b + ")"});
  }

  /// A reduction over a few indices, so that every rule of the analysis gets an interval.
  std::string reduction(const std::string &comparison) {
    std::string bound = pick({"3", "5", "p % 4", "Hkv", "0", "t[0] % 3"});
    std::string each = pick({"k" + comparison + "u[i]", "k - q" + comparison + "5 * i",
                             "id[b, k - i]" + comparison + "id[b, q]", "o[q, k + i]",
                             "m[i, " + index() + "]" + comparison + "w", "k / 8 == i",
                             "f[k + i]" + comparison + "x", "i" + comparison + "p"});
    if (chance(60))
      return pick({"any", "all"}) + "(i < " + bound + ": " + each + ")";
    std::string term = pick({"i * k", "u[k + i]", "(q - k) / 4 + i", "o[i, k] ? 1 : 0", "i"});
    return "sum(i < " + bound + ": " + term + ")" + comparison + sum();
  }

  std::string atom() {
    std::string comparison = pick({" < ", " <= ", " > ", " >= ", " == ", " != "});
    if (chance(5))
      return "(" + reduction(comparison) + ")";
    if (chance(6)) // the same for a block
      return pick({"true", "false", "x < 0.5", "h == 0", "p > w"});
    if (chance(numbersOf)) {
      if (chance(15))
        return "int(" + number(1) + ")" + comparison + integer();
      if (chance(8)) // differs if the left side is NaN
        return filled(
                   pick({number(1), "$ * x", "(# ? f[k] : y)", "g[b, k] * f[q]", "f[k] - f[q]"})) +
               " <= inf";
      return number(random() % 3) + comparison + number(random() % 2);
    }
    if (chance(readsOf))
      switch (random() % 8) {
      case 0:
        return "id[b, q]" + pick({" == ", " == ", " != ", " >= "}) + "id[b, k]";
      case 1:
        return "k" + comparison + read();
      case 2:
        return "(k >= p && u[k - p]" + comparison + "w)";
      case 3:
        return "(q - k >= 0 && f[q - k]" + comparison + "x)";
      case 4:
      case 5:
        return "o[" + index() + ", " + index() + "]";
      default:
        break;
      }
    return integer() + comparison + integer();
  }

  std::mt19937 &random;
  uint32_t readsOf, numbersOf; ///< percent
  const bool hasShared;        ///< whether `z` is in scope
};

} // namespace

std::string randomMask(std::mt19937 &random) {
  std::string shared = Generator(random, false).shared();
  std::string mask = Generator(random, true).boolean(random() % 4);
  return "  let z = " + shared + "\n  mask = " + mask + "\n";
}

std::string randomScore(std::mt19937 &random) {
  return "  score = " + Generator(random, false).score(random() % 3) + "\n";
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

static float specialNumber(std::mt19937 &random) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {
      0,     -0.0f,  infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
      1e10f, -3e38f, 1e-40f};
  return special[random() % std::size(special)];
}

static float randomNumber(std::mt19937 &random) {
  return random() % 4 == 0 ? specialNumber(random) : 0.25f * (float(random() % 160) - 80.0f);
}

std::vector<int32_t> RandomLaunch::integers(int64_t rows, int64_t columns, bool sorted) {
  std::vector<int32_t> values;
  bool isPlain = random() % 2 == 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t value = sorted && isPlain ? 0 : randomInteger(random, bindings.extents.Sk);
    int64_t step = 1 + random() % 8;
    for (int64_t column = 0; column < columns; ++column) {
      if (sorted && random() % 8 == 0)
        value = std::min<int64_t>(value + step, std::numeric_limits<int32_t>::max());
      if (!sorted && (!isPlain || random() % 16 == 0))
        value = randomInteger(random, bindings.extents.Sk);
      values.push_back(int32_t(value));
    }
  }
  return values;
}

std::vector<float> RandomLaunch::numbers(int64_t rows, int64_t columns) {
  std::vector<float> values;
  bool isSmooth = random() % 3 != 0, hasSpecial = random() % 3 == 0;
  for (int64_t row = 0; row < rows; ++row) {
    float value = 0.5f * float(random() % 64) - 16.0f;
    for (int64_t column = 0; column < columns; ++column) {
      value += 0.25f * float(random() % 4);
      values.push_back(!isSmooth                          ? randomNumber(random)
                       : hasSpecial && random() % 32 == 0 ? specialNumber(random)
                                                          : value);
    }
  }
  return values;
}

std::vector<uint16_t> RandomLaunch::rounded(const std::vector<float> &numbers, ElementType type) {
  std::vector<uint16_t> values;
  for (float number : numbers)
    values.push_back(type == ElementType::f16 ? floatToF16(number) : floatToBf16(number));
  return values;
}

std::vector<uint8_t> RandomLaunch::flags(int64_t rows, int64_t columns) {
  std::vector<uint8_t> values;
  uint32_t changes = random() % 2 ? 40 : 2;
  for (int64_t row = 0; row < rows; ++row) {
    bool flag = random() % 2;
    for (int64_t column = 0; column < columns; ++column) {
      flag ^= random() % changes == 0;
      values.push_back(flag ? random() % 2 ? 1 : 128 : 0);
    }
  }
  return values;
}

template <typename T>
void RandomLaunch::capture(std::vector<T> values, std::vector<int64_t> extents) {
  std::vector<T> *table = &std::get<Tables<T>>(tables).emplace_back(std::move(values));
  CaptureView view{table->data(), extents, std::vector<int64_t>(extents.size(), 1)};
  for (size_t axis = extents.size() - 1; axis > 0; --axis)
    view.strides[axis - 1] = view.strides[axis] * extents[axis];
  if (!table->empty() && random() % 8 == 0) { // with a negative stride
    view.data = table->data() + extents.back() - 1;
    view.strides.back() = -1;
  } else if (random() % 16 == 0) {
    view.strides.back() = 0;
  }
  Binding binding;
  binding.capture = view;
  bindings.parameters.push_back(binding);
}

RandomLaunch::RandomLaunch(std::mt19937 &random, const Extents &extents) : random(random) {
  bindings.extents = extents;
  int64_t B = extents.B, H = extents.H;
  // The extent of an axis along queries or keys: often the number that they need, and never more
  // than can be filled quickly.
  auto length = [&]() -> int64_t {
    int64_t longer = std::max(extents.Sq, extents.Sk);
    if (longer <= 200 && random() % 3 != 0)
      return longer;
    return random() % 16 == 0 ? 0 : 1 + below(120);
  };
  for (double scalar :
       {double(randomInteger(random, extents.Sk)), double(randomInteger(random, extents.Sq)),
        double(randomNumber(random)), double(randomNumber(random))})
    bindings.parameters.push_back({.scalar = scalar, .capture = {}});
  capture(integers(1, B, false), {B});
  capture(numbers(1, H), {H});
  int64_t N = length(), M = length(), R = length(), C = 1 + below(8), L = length(), S = length();
  capture(integers(B, N, true), {B, N});
  capture(integers(1, M, false), {M});
  capture(integers(R, C, false), {R, C});
  capture(numbers(1, L), {L});
  capture(numbers(B, S), {B, S});
  int64_t Y = length(), Z = length(), E = length();
  capture(flags(Y, Z), {Y, Z});
  capture(rounded(numbers(1, E), ElementType::f16), {E});
  capture(rounded(numbers(B, S), ElementType::bf16), {B, S});
}

std::string RandomLaunch::text() const {
  const Extents &e = bindings.extents;
  std::string text = "B " + std::to_string(e.B) + ", H " + std::to_string(e.H) + ", Hkv " +
                     std::to_string(e.Hkv) + ", Sq " + std::to_string(e.Sq) + ", Sk " +
                     std::to_string(e.Sk);
  const char *const names[] = {"p", "w", "x", "y"};
  for (int i = 0; i < 4; ++i)
    text += std::string(", ") + names[i] + " " + std::to_string(bindings.parameters[i].scalar);
  return text;
}

} // namespace tesela
