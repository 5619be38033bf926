//===- Numbers.h - Expressions with bounds of their errors ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_NUMBERS_H
#define TESELA_TESTS_RANDOM_NUMBERS_H

#include <string>

namespace tesela {

/// The text of an i32.
struct Integer {
  std::string text;
  double magnitude = 0; ///< a bound of the absolute value
};

/// The text of an f32 in a score, and how exactly a kernel computes it.
struct Number {
  std::string text;
  /// A bound of the sum of the terms' absolute values: a kernel may add the terms in any order.
  double magnitude = 0;
  /// A bound of the difference between a kernel's value and the value in double.
  double error = 0;
  /// The value is a multiple of 2^-bits that f32 represents exactly, for any order of operations.
  /// -1 means that this is not known.
  int bits = -1;

  bool isExact() const { return bits >= 0; }
};

/// Error bounds of the instructions of a score: on a GPU those of docs/numerics.md, or those of an
/// exact score and of the host.
class Numbers {
public:
  explicit Numbers(bool approximates) : approximates(approximates) {}

  static Number literal(std::string text, double magnitude, int bits);
  static Number ofInteger(const Integer &integer);
  /// `s` for normal random q and k.
  static Number score();

  Number sum(const Number &a, const char *op, const Number &b) const;
  Number product(const Number &a, const Number &b) const;
  /// a / (abs(b) + 1).
  Number quotient(const Number &a, const Number &b) const;
  /// `a` times a power of two, so that the magnitude is at most `magnitude` and the error at most
  /// `error`.
  Number scaled(const Number &a, double magnitude, double error = 1) const;
  /// The expression `text`, whose value is that of `a` or of `b`.
  static Number either(std::string text, const Number &a, const Number &b);
  static Number negated(const Number &a);

  Number exp(const Number &a) const;
  Number tanh(const Number &a) const;
  /// sin or cos.
  Number wave(const char *function, const Number &a) const;
  /// log(abs(a) + 0.5), sqrt(abs(a) + 1).
  Number log(const Number &a) const;
  Number root(const Number &a) const;
  /// max(f(a), b) for an exact a. f is a root or a logarithm; NaN and -inf give b.
  Number guarded(const char *function, const Number &a, const Number &b) const;
  /// floor of an exact number.
  static Number floor(const Number &a);

private:
  /// `number` after one more rounding.
  static Number rounded(Number number);

  const bool approximates;
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_NUMBERS_H
