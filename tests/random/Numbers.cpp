//===- Numbers.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tesela {

Number Numbers::rounded(Number number) {
  // An f32 has 24 significant bits.
  if (number.isExact() && std::ldexp(number.magnitude, number.bits) >= 0x1p24)
    number.bits = -1;
  // Twice the unit roundoff, because a sum that is decomposed also rounds its terms.
  if (!number.isExact())
    number.error += number.magnitude * 0x1p-23;
  return number;
}

Number Numbers::literal(std::string text, double magnitude, int bits) {
  return {std::move(text), magnitude, 0, bits};
}

Number Numbers::ofInteger(const Integer &integer) {
  Number number = {"(1.0 * " + integer.text + ")", integer.magnitude, 0, 0};
  if (number.magnitude >= 0x1p24) {
    number.bits = -1;
    number.error = number.magnitude * 0x1p-23;
  }
  return number;
}

Number Numbers::score() { return {"s", 8, 0x1p-22, -1}; }

static int finer(const Number &a, const Number &b) {
  return a.isExact() && b.isExact() ? std::max(a.bits, b.bits) : -1;
}

Number Numbers::sum(const Number &a, const char *op, const Number &b) const {
  return rounded({"(" + a.text + op + b.text + ")", a.magnitude + b.magnitude, a.error + b.error,
                  finer(a, b)});
}

Number Numbers::product(const Number &a, const Number &b) const {
  return rounded({"(" + a.text + " * " + b.text + ")", a.magnitude * b.magnitude,
                  a.error * b.magnitude + b.error * a.magnitude + a.error * b.error,
                  a.isExact() && b.isExact() ? a.bits + b.bits : -1});
}

Number Numbers::quotient(const Number &a, const Number &b) const {
  Number number = {"(" + a.text + " / (abs(" + b.text + ") + 1.0))", a.magnitude,
                   a.error + a.magnitude * (b.error + 0x1p-21), -1};
  return rounded(number);
}

Number Numbers::scaled(const Number &a, double magnitude, double error) const {
  int shift = 0;
  while (std::ldexp(a.magnitude, -shift) > magnitude || std::ldexp(a.error, -shift) > error)
    ++shift;
  if (shift == 0)
    return a;
  char factor[32];
  std::snprintf(factor, sizeof factor, "%.9g", std::ldexp(1.0, -shift));
  std::string text = factor;
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return product(a, literal(text, std::ldexp(1.0, -shift), shift));
}

Number Numbers::either(std::string text, const Number &a, const Number &b) {
  return {std::move(text), std::max(a.magnitude, b.magnitude), std::max(a.error, b.error),
          finer(a, b)};
}

Number Numbers::negated(const Number &a) {
  return {"(-" + a.text + ")", a.magnitude, a.error, a.bits};
}

Number Numbers::exp(const Number &a) const {
  Number x = scaled(a, 3, 0x1p-6);
  double top = std::exp(x.magnitude);
  return rounded({"exp(" + x.text + ")", top,
                  top * (2 * x.error + (approximates ? 0x1p-22 + 0x1p-23 * x.magnitude : 0x1p-23)),
                  -1});
}

Number Numbers::tanh(const Number &a) const {
  Number x = scaled(a, 4);
  double top = std::tanh(x.magnitude);
  return rounded(
      {"tanh(" + x.text + ")", top, x.error + top * (approximates ? 0x1p-11 : 0x1p-22), -1});
}

Number Numbers::wave(const char *function, const Number &a) const {
  Number x = scaled(a, 100);
  return rounded({std::string(function) + "(" + x.text + ")", 1, x.error + 0x1p-22, -1});
}

Number Numbers::log(const Number &a) const {
  double top = std::max(std::log(a.magnitude + 0.5), std::log(2.0));
  return rounded({"log(abs(" + a.text + ") + 0.5)", top,
                  2 * a.error + 0x1p-23 + std::max(top, 1.0) * 0x1p-21, -1});
}

Number Numbers::root(const Number &a) const {
  return rounded(
      {"sqrt(abs(" + a.text + ") + 1.0)", std::sqrt(a.magnitude + 1), 0.5 * a.error + 0x1p-24, -1});
}

Number Numbers::guarded(const char *function, const Number &a, const Number &b) const {
  // The smallest positive value of `a` is 2^-bits.
  double top = std::max({std::fabs(std::log(std::max(a.magnitude, 1.0))), a.bits * std::log(2.0),
                         std::sqrt(a.magnitude), 1.0});
  Number number = {"", top, top * 0x1p-21, -1};
  return either("max(" + std::string(function) + "(" + a.text + "), " + b.text + ")",
                rounded(number), b);
}

Number Numbers::floor(const Number &a) { return {"floor(" + a.text + ")", a.magnitude + 1, 0, 0}; }

} // namespace tesela
