//===- ExactMath.h - One exp, log, tanh, sin, cos for all -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Values that a mask depends on are the same bit for bit on every target.
// IEEE 754 defines + - * / sqrt exactly. The functions of this file use only these
// and integer operations. They are templates over an arithmetic A:
//   FloatArithmetic (below)      computes: the interpreter
//   emit/ExpandArithmetic.cpp    builds arith operations: the kernels
//   oracle/Expressions.cpp       writes CUDA C++: the oracle
//
// A has the types F (f32), I (i32), B (bool) and the operations that
// FloatArithmetic shows. None may be contracted, reassociated or flushed to zero.
//
// Largest error over all f32 in the given range, in units in the last place of
// the exact result (tests/frontend/ExactMathTest.cpp tests all of them):
//   exp   1 ulp     results below 2^-126 are denormal, 0 below x = -104
//   log   1 ulp     denormal x too; log(0) = -inf, of a negative number NaN
//   tanh  1.5 ulp
//   sin, cos  1 ulp for |x| <= pi/4; |error| <= 2^-23 for |x| <= 65536. A larger
//             x counts as +-65536. The result for an infinity is NaN
// The result for NaN is NaN.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_EXACTMATH_H
#define TESELA_FRONTEND_EXACTMATH_H

#include <bit>
#include <cstdint>
#include <limits>

namespace tesela {

/// Computes on the host. Files that include this header must be compiled without
/// contraction (-ffp-contract=off), as tesela_options does.
struct FloatArithmetic {
  using F = float;
  using I = int32_t;
  using B = bool;

  F constant(float value) { return value; }
  I integer(int32_t value) { return value; }

  F add(F a, F b) { return a + b; }
  F subtract(F a, F b) { return a - b; }
  F multiply(F a, F b) { return a * b; }
  F divide(F a, F b) { return a / b; }
  F toFloat(I a) { return static_cast<float>(a); }
  F fromBits(I a) { return std::bit_cast<float>(a); }
  I bits(F a) { return std::bit_cast<int32_t>(a); }

  I addInt(I a, I b) { return static_cast<I>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }
  I subtractInt(I a, I b) {
    return static_cast<I>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
  }
  I bitAnd(I a, I b) { return a & b; }
  I bitOr(I a, I b) { return a | b; }
  I shiftLeft(I a, int32_t by) { return static_cast<I>(static_cast<uint32_t>(a) << by); }
  I shiftRight(I a, int32_t by) { return a >> by; } ///< keeps the sign

  B less(F a, F b) { return a < b; } ///< false with NaN
  B equal(F a, F b) { return a == b; }
  B equalInt(I a, I b) { return a == b; }
  B isNaN(F a) { return a != a; }
  F select(B c, F a, F b) { return c ? a : b; }
  I selectInt(B c, I a, I b) { return c ? a : b; }
};

// Values are copied: they are numbers, except in the oracle, which writes a text once.
// NOLINTBEGIN(performance-unnecessary-value-param)
namespace exact_math {

/// 1.5 * 2^23. Adding it rounds an f32 below 2^22 to an integer, and the low bits
/// of the sum are that integer.
inline constexpr float kRounder = 0x1.8p23f;

/// c[0] + x * (c[1] + x * (c[2] + ...)).
template <class A, int n>
typename A::F polynomial(A &a, typename A::F x, const float (&coefficients)[n]) {
  typename A::F sum = a.constant(coefficients[n - 1]);
  for (int i = n - 2; i >= 0; --i)
    sum = a.add(a.multiply(sum, x), a.constant(coefficients[i]));
  return sum;
}

/// x, limited to [low, high]. NaN stays NaN.
template <class A> typename A::F clamp(A &a, typename A::F x, float low, float high) {
  typename A::F raised = a.select(a.less(x, a.constant(low)), a.constant(low), x);
  return a.select(a.less(a.constant(high), raised), a.constant(high), raised);
}

/// x * 2^n for n in [-126, 127].
template <class A> typename A::F scale(A &a, typename A::F x, typename A::I n) {
  return a.multiply(x, a.fromBits(a.shiftLeft(a.addInt(n, a.integer(127)), 23)));
}

} // namespace exact_math

/// e^x = 2^n * e^r with r = x - n * ln 2 in [-ln 2 / 2, ln 2 / 2]. The polynomial
/// comes from Cephes' expf (S. L. Moshier).
template <class A> typename A::F exactExp(A &a, typename A::F x) {
  using namespace exact_math;
  using F = typename A::F;
  using I = typename A::I;
  constexpr float kLog2e = 0x1.715476p+0f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f; // n * high is exact
  constexpr float kTail[] = {5.0000001201e-1f, 1.6666665459e-1f, 4.1665795894e-2f,
                             8.3334519073e-3f, 1.3981999507e-3f, 1.9875691500e-4f};

  F y = clamp(a, x, -104.0f, 89.0f);
  F rounded = a.add(a.multiply(y, a.constant(kLog2e)), a.constant(kRounder));
  F n = a.subtract(rounded, a.constant(kRounder));
  F r = a.subtract(a.subtract(y, a.multiply(n, a.constant(kLn2High))),
                   a.multiply(n, a.constant(kLn2Low)));
  F tail = a.multiply(polynomial(a, r, kTail), a.multiply(r, r));
  F power = a.add(a.add(tail, r), a.constant(1.0f));
  // Multiply by 2^n in two steps: 2^n may be denormal or above the largest f32.
  I exponent = a.subtractInt(a.bits(rounded), a.integer(std::bit_cast<int32_t>(kRounder)));
  I half = a.shiftRight(exponent, 1);
  F result = scale(a, scale(a, power, half), a.subtractInt(exponent, half));
  return a.select(a.isNaN(x), x, result);
}

/// ln x = k * ln 2 + ln(1 + f) with 1 + f in [sqrt(1/2), sqrt 2). The series in
/// f / (2 + f) comes from FreeBSD's e_logf.c (Sun Microsystems).
template <class A> typename A::F exactLog(A &a, typename A::F x) {
  using namespace exact_math;
  using F = typename A::F;
  using I = typename A::I;
  constexpr float kLn2High = 0x1.62e300p-1f, kLn2Low = 0x1.2fefa2p-17f;
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  constexpr float kEven[] = {0x1.555554p-1f, 0x1.23d3dcp-2f};
  constexpr float kOdd[] = {0x1.999c26p-2f, 0x1.f13c4cp-3f};

  auto isDenormal = a.less(x, a.constant(0x1p-126f));
  F normal = a.select(isDenormal, a.multiply(x, a.constant(0x1p25f)), x);
  I shifted = a.addInt(a.bits(normal), a.integer(0x3f800000 - kSqrtHalf));
  I k = a.addInt(a.shiftRight(shifted, 23),
                 a.selectInt(isDenormal, a.integer(-127 - 25), a.integer(-127)));
  I mantissa = a.addInt(a.bitAnd(shifted, a.integer(0x007fffff)), a.integer(kSqrtHalf));

  F f = a.subtract(a.fromBits(mantissa), a.constant(1.0f));
  F s = a.divide(f, a.add(a.constant(2.0f), f));
  F z = a.multiply(s, s), w = a.multiply(z, z);
  F series = a.add(a.multiply(z, polynomial(a, w, kEven)), a.multiply(w, polynomial(a, w, kOdd)));
  F square = a.multiply(a.constant(0.5f), a.multiply(f, f));
  F count = a.toFloat(k);
  F result = a.add(a.multiply(s, a.add(square, series)), a.multiply(count, a.constant(kLn2Low)));
  result = a.add(a.subtract(result, square), f);
  result = a.add(result, a.multiply(count, a.constant(kLn2High)));

  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  F zero = a.constant(0.0f);
  result = a.select(a.equal(x, a.constant(kInfinity)), x, result);
  result = a.select(a.equal(x, zero), a.constant(-kInfinity), result);
  result = a.select(a.less(x, zero), a.constant(std::numeric_limits<float>::quiet_NaN()), result);
  return a.select(a.isNaN(x), x, result);
}

/// Near 0 an odd polynomial from Cephes' tanhf; elsewhere 1 - 2 / (e^(2|x|) + 1)
/// with the sign of x.
template <class A> typename A::F exactTanh(A &a, typename A::F x) {
  using namespace exact_math;
  using F = typename A::F;
  using I = typename A::I;
  constexpr float kSmall = 0.625f, kSaturated = 10.0f;
  constexpr float kOdd[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f,
                            2.06390887954e-2f, -5.70498872745e-3f};

  I signBit = a.bitAnd(a.bits(x), a.integer(std::numeric_limits<int32_t>::min()));
  F magnitude = a.fromBits(a.bitAnd(a.bits(x), a.integer(0x7fffffff)));
  F square = a.multiply(x, x);
  F small = a.add(a.multiply(a.multiply(polynomial(a, square, kOdd), square), x), x);

  F bounded =
      a.select(a.less(magnitude, a.constant(kSaturated)), magnitude, a.constant(kSaturated));
  F power = exactExp(a, a.add(bounded, bounded));
  F rest = a.divide(a.constant(2.0f), a.add(power, a.constant(1.0f)));
  F large = a.subtract(a.constant(1.0f), rest);

  F result = a.select(a.less(magnitude, a.constant(kSmall)), small, large);
  result = a.fromBits(a.bitOr(a.bits(result), signBit)); // also the sign of -0
  return a.select(a.isNaN(x), x, result);
}

namespace exact_math {

/// sin(x + quarters * pi / 2). x is reduced to r = x - n * pi / 2 in
/// [-pi/4, pi/4] (Cody and Waite). pi / 2 is split into pieces of 8 bits, so that
/// n * piece is exact for n below 2^16. The polynomials come from Cephes' sinf.
template <class A> typename A::F sinOfQuarters(A &a, typename A::F x, int32_t quarters) {
  using F = typename A::F;
  using I = typename A::I;
  constexpr float kLargest = 65536.0f, kTwoOverPi = 0x1.45f306p-1f;
  constexpr float kHalfPi[] = {0x1.92p+0f, 0x1.fap-12f, 0x1.54p-20f,
                               0x1.1p-30f, 0x1.68p-39f, 0x1.84698ap-48f};
  constexpr float kSin[] = {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
  constexpr float kCos[] = {4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f};

  F y = clamp(a, x, -kLargest, kLargest);
  F rounded = a.add(a.multiply(y, a.constant(kTwoOverPi)), a.constant(kRounder));
  F n = a.subtract(rounded, a.constant(kRounder));
  F r = y;
  for (float piece : kHalfPi)
    r = a.subtract(r, a.multiply(n, a.constant(piece)));

  F square = a.multiply(r, r);
  F sine = a.add(a.multiply(a.multiply(polynomial(a, square, kSin), square), r), r);
  F cosine = a.multiply(a.multiply(polynomial(a, square, kCos), square), square);
  cosine = a.subtract(cosine, a.multiply(a.constant(0.5f), square));
  cosine = a.add(cosine, a.constant(1.0f));

  // The low bits of n say which of the four quarters x is in.
  I quarter = a.addInt(a.bits(rounded), a.integer(quarters));
  auto isSine = a.equalInt(a.bitAnd(quarter, a.integer(1)), a.integer(0));
  I signBit = a.shiftLeft(a.bitAnd(quarter, a.integer(2)), 30);
  F value = a.select(isSine, sine, cosine);
  F result =
      a.select(a.equalInt(signBit, a.integer(0)), value, a.subtract(a.constant(-0.0f), value));
  if (quarters == 0) // sin(-0) is -0
    result = a.select(a.equal(x, a.constant(0.0f)), x, result);
  // inf - inf and NaN - NaN are NaN, all other differences are 0.
  return a.select(a.isNaN(a.subtract(x, x)), a.constant(std::numeric_limits<float>::quiet_NaN()),
                  result);
}

} // namespace exact_math

template <class A> typename A::F exactSin(A &a, typename A::F x) {
  return exact_math::sinOfQuarters(a, x, 0);
}

template <class A> typename A::F exactCos(A &a, typename A::F x) {
  return exact_math::sinOfQuarters(a, x, 1);
}
// NOLINTEND(performance-unnecessary-value-param)

} // namespace tesela

#endif // TESELA_FRONTEND_EXACTMATH_H
