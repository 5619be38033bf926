//===- InterpreterArithmetic.h - The operators of a variant -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What the operators of the language compute. All ways of running a program use it: for one pair
// (Interpreter.cpp), for many pairs at once (InterpreterPairs.cpp), and with a bound of the
// roundings (InterpreterRoundoff.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_INTERPRETERARITHMETIC_H
#define TESELA_FRONTEND_INTERPRETERARITHMETIC_H

#include "attn/Arithmetic.h"
#include "frontend/ExactMath.h"
#include "frontend/Interpreter.h"

#include <algorithm>
#include <cmath>

namespace tesela {

/// A value of a running program. The static types say which member is valid.
union Interpreter::Slot {
  int32_t i; ///< i32; bool as 0 or 1
  float f;
  double d;
};

/// The arithmetic of masks: f32, the same bits as on every target.
struct ExactMath {
  using Real = float;
  static float exp(float x) { return exactExp(arithmetic, x); }
  static float log(float x) { return exactLog(arithmetic, x); }
  static float tanh(float x) { return exactTanh(arithmetic, x); }
  static float sin(float x) { return exactSin(arithmetic, x); }
  static float cos(float x) { return exactCos(arithmetic, x); }
  inline static FloatArithmetic arithmetic;
};

/// The arithmetic of scores: f32 or double.
template <typename T> struct LibraryMath {
  using Real = T;
  static T exp(T x) { return std::exp(x); }
  static T log(T x) { return std::log(x); }
  static T tanh(T x) { return std::tanh(x); }
  static T sin(T x) { return std::sin(x); }
  static T cos(T x) { return std::cos(x); }
};

template <typename Math, typename Real> Real transcendental(Operator op, Real x) {
  switch (op) {
  case Operator::exp:
    return Math::exp(x);
  case Operator::log:
    return Math::log(x);
  case Operator::tanh:
    return Math::tanh(x);
  case Operator::sin:
    return Math::sin(x);
  default:
    return Math::cos(x);
  }
}

template <typename T> bool compare(Operator op, T a, T b) {
  switch (op) {
  case Operator::less:
    return a < b;
  case Operator::lessEqual:
    return a <= b;
  case Operator::greater:
    return a > b;
  case Operator::greaterEqual:
    return a >= b;
  case Operator::equal:
    return a == b;
  default:
    return a != b;
  }
}

inline int32_t integerArithmetic(Operator op, int32_t a, int32_t b) {
  switch (op) {
  case Operator::add:
    return attn::wrappingAdd(a, b);
  case Operator::subtract:
    return attn::wrappingSubtract(a, b);
  case Operator::multiply:
    return attn::wrappingMultiply(a, b);
  case Operator::divide:
    return attn::floorDivide(a, b);
  case Operator::remainder:
    return attn::floorRemainder(a, b);
  case Operator::negate:
    return attn::wrappingSubtract(0, a);
  case Operator::absolute:
    return a < 0 ? attn::wrappingSubtract(0, a) : a;
  case Operator::minimum:
    return std::min(a, b);
  default:
    return std::max(a, b);
  }
}

template <typename Real> Real floatArithmetic(Operator op, Real a, Real b) {
  switch (op) {
  case Operator::add:
    return a + b;
  case Operator::subtract:
    return a - b;
  case Operator::multiply:
    return a * b;
  case Operator::divide:
    return a / b;
  case Operator::negate:
    return -a;
  case Operator::absolute:
    return std::fabs(a);
  case Operator::minimum:
    return b < a || a != a ? b : a;
  default:
    return b > a || a != a ? b : a;
  }
}

inline int32_t indexOf(const Point &point, int32_t index) {
  switch (static_cast<Index>(index)) {
  case Index::b:
    return point.b;
  case Index::h:
    return point.h;
  case Index::hkv:
    return point.hkv;
  case Index::q:
    return point.q;
  case Index::k:
    return point.k;
  }
  return 0;
}

/// Loads an f32, f16 or bf16 and widens it to f32, exactly.
inline float loadNumber(const void *data, ElementType type, int64_t offset) {
  if (type == ElementType::f32)
    return static_cast<const float *>(data)[offset];
  uint16_t bits = static_cast<const uint16_t *>(data)[offset];
  return type == ElementType::f16 ? f16ToFloat(bits) : bf16ToFloat(bits);
}

/// Loads an i32, or a bool (a byte) as 0 or 1.
inline int32_t loadInteger(const void *data, ElementType type, int64_t offset) {
  if (type == ElementType::boolean)
    return static_cast<const uint8_t *>(data)[offset] != 0;
  return static_cast<const int32_t *>(data)[offset];
}

} // namespace tesela

#endif // TESELA_FRONTEND_INTERPRETERARITHMETIC_H
