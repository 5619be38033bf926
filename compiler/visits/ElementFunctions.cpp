//===- ElementFunctions.cpp - The arithmetic of a kernel's IR, evaluated --===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "visits/ElementFunctions.h"

#include "attn/Arithmetic.h"
#include "attn/Attn.h"
#include "frontend/ExactMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <bit>
#include <cmath>

using namespace mlir;

namespace tesela {

namespace {

int64_t whole(int64_t value) { return value; }
int64_t wrapped32(int64_t value) { return int32_t(value); }
int64_t wrapped1(int64_t value) { return value & 1; }

/// A loop for each number of operands, and for each type of operands and results.
template <auto f, auto wrap> void integers1(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].integer = wrap(f(o[0][i].integer));
}
template <auto f, auto wrap> void integers2(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].integer = wrap(f(o[0][i].integer, o[1][i].integer));
}
template <auto f> void numbers1(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].number = f(o[0][i].number);
}
template <auto f> void numbers2(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].number = f(o[0][i].number, o[1][i].number);
}
template <auto f> void comparison(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].integer = f(o[0][i].number, o[1][i].number);
}
template <auto f> void toNumber(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].number = f(o[0][i].integer);
}
template <auto f> void toInteger(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].integer = f(o[0][i].number);
}
void select(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].integer = o[0][i].integer ? o[1][i].integer : o[2][i].integer;
}
void selectNumbers(Scalar *r, const Scalar *const *o, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    r[i].number = o[0][i].integer ? o[1][i].number : o[2][i].number;
}

/// The function whose results wrap like `type`.
template <auto f> ElementFunction integers1(Type type) {
  return type.isInteger(1)    ? integers1<f, wrapped1>
         : type.isInteger(32) ? integers1<f, wrapped32>
                              : integers1<f, whole>;
}
template <auto f> ElementFunction integers2(Type type) {
  return type.isInteger(1)    ? integers2<f, wrapped1>
         : type.isInteger(32) ? integers2<f, wrapped32>
                              : integers2<f, whole>;
}

ElementFunction comparisonOf(arith::CmpIPredicate predicate) {
  using Predicate = arith::CmpIPredicate;
  switch (predicate) {
  case Predicate::eq:
    return integers2<[](int64_t a, int64_t b) { return int64_t(a == b); }, whole>;
  case Predicate::ne:
    return integers2<[](int64_t a, int64_t b) { return int64_t(a != b); }, whole>;
  case Predicate::slt:
    return integers2<[](int64_t a, int64_t b) { return int64_t(a < b); }, whole>;
  case Predicate::sle:
    return integers2<[](int64_t a, int64_t b) { return int64_t(a <= b); }, whole>;
  case Predicate::sgt:
    return integers2<[](int64_t a, int64_t b) { return int64_t(a > b); }, whole>;
  case Predicate::sge:
    return integers2<[](int64_t a, int64_t b) { return int64_t(a >= b); }, whole>;
  case Predicate::ult: // the operands are i32
    return integers2<[](int64_t a, int64_t b) { return int64_t(uint32_t(a) < uint32_t(b)); },
                     whole>;
  case Predicate::ule:
    return integers2<[](int64_t a, int64_t b) { return int64_t(uint32_t(a) <= uint32_t(b)); },
                     whole>;
  case Predicate::ugt:
    return integers2<[](int64_t a, int64_t b) { return int64_t(uint32_t(a) > uint32_t(b)); },
                     whole>;
  case Predicate::uge:
    return integers2<[](int64_t a, int64_t b) { return int64_t(uint32_t(a) >= uint32_t(b)); },
                     whole>;
  }
  return nullptr;
}

/// With NaN all comparisons are false, except "not equal", which is unordered in the language.
ElementFunction comparisonOf(arith::CmpFPredicate predicate) {
  using Predicate = arith::CmpFPredicate;
  switch (predicate) {
  case Predicate::OEQ:
    return comparison<[](float a, float b) { return a == b; }>;
  case Predicate::UNE:
    return comparison<[](float a, float b) { return a != b; }>;
  case Predicate::OLT:
    return comparison<[](float a, float b) { return a < b; }>;
  case Predicate::OLE:
    return comparison<[](float a, float b) { return a <= b; }>;
  case Predicate::OGT:
    return comparison<[](float a, float b) { return (a > b); }>;
  case Predicate::OGE:
    return comparison<[](float a, float b) { return a >= b; }>;
  case Predicate::UNO:
    return comparison<[](float a, float b) { return std::isnan(a) || std::isnan(b); }>;
  default:
    return nullptr;
  }
}

} // namespace

ElementFunction elementFunctionOf(Operation &op) {
  if (op.getNumResults() != 1)
    return nullptr;
  Type type = op.getResult(0).getType();
  // Sums are computed in unsigned numbers, for which C++ defines wrapping.
  return TypeSwitch<Operation *, ElementFunction>(&op)
      // Integers
      .Case([&](arith::AddIOp) {
        return integers2<[](uint64_t a, uint64_t b) { return int64_t(a + b); }>(type);
      })
      .Case([&](arith::SubIOp) {
        return integers2<[](uint64_t a, uint64_t b) { return int64_t(a - b); }>(type);
      })
      .Case([&](arith::MulIOp) {
        return integers2<[](uint64_t a, uint64_t b) { return int64_t(a * b); }>(type);
      })
      .Case([&](arith::DivSIOp) { // the divisors are constants
        return integers2<[](int64_t a, int64_t b) { return a / b; }>(type);
      })
      .Case([&](arith::DivUIOp) {
        return integers2<[](uint32_t a, uint32_t b) { return int64_t(a / b); }>(type);
      })
      .Case([&](arith::RemUIOp) {
        return integers2<[](uint32_t a, uint32_t b) { return int64_t(a % b); }>(type);
      })
      .Case([&](arith::MinSIOp) {
        return integers2<[](int64_t a, int64_t b) { return std::min(a, b); }>(type);
      })
      .Case([&](arith::MaxSIOp) {
        return integers2<[](int64_t a, int64_t b) { return std::max(a, b); }>(type);
      })
      .Case([&](arith::AndIOp) {
        return integers2<[](int64_t a, int64_t b) { return a & b; }>(type);
      })
      .Case(
          [&](arith::OrIOp) { return integers2<[](int64_t a, int64_t b) { return a | b; }>(type); })
      .Case([&](arith::XOrIOp) {
        return integers2<[](int64_t a, int64_t b) { return a ^ b; }>(type);
      })
      .Case([&](arith::ShLIOp) {
        return integers2<[](uint64_t a, int64_t b) { return int64_t(a << b); }>(type);
      })
      .Case([&](arith::ShRSIOp) {
        return integers2<[](int64_t a, int64_t b) { return (a >> b); }>(type);
      })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          [&](auto) { return integers1<whole>(type); }) // ExtUIOp: of i1 only
      .Case([&](arith::SelectOp) { return type.isF32() ? selectNumbers : select; })
      .Case([&](arith::CmpIOp compare) { return comparisonOf(compare.getPredicate()); })
      .Case([&](attn::FloorDivOp) {
        return integers2<[](int64_t a, int64_t b) {
          return int64_t(attn::floorDivide(int32_t(a), int32_t(b)));
        }>(type);
      })
      .Case([&](attn::FloorModOp) {
        return integers2<[](int64_t a, int64_t b) {
          return int64_t(attn::floorRemainder(int32_t(a), int32_t(b)));
        }>(type);
      })
      // Floats
      .Case([&](arith::CmpFOp compare) { return comparisonOf(compare.getPredicate()); })
      .Case([&](arith::AddFOp) { return numbers2<[](float a, float b) { return a + b; }>; })
      .Case([&](arith::SubFOp) { return numbers2<[](float a, float b) { return a - b; }>; })
      .Case([&](arith::MulFOp) { return numbers2<[](float a, float b) { return a * b; }>; })
      .Case([&](arith::DivFOp) { return numbers2<[](float a, float b) { return a / b; }>; })
      .Case([&](arith::MinNumFOp) {
        return numbers2<[](float a, float b) { return std::fmin(a, b); }>;
      })
      .Case([&](arith::MaxNumFOp) {
        return numbers2<[](float a, float b) { return std::fmax(a, b); }>;
      })
      .Case([&](arith::NegFOp) { return numbers1<[](float a) { return -a; }>; })
      .Case([&](math::AbsFOp) { return numbers1<[](float a) { return std::fabs(a); }>; })
      .Case([&](math::SqrtOp) { return numbers1<[](float a) { return std::sqrt(a); }>; })
      .Case([&](math::FloorOp) { return numbers1<[](float a) { return std::floor(a); }>; })
      // Only scores have them: in masks they have been expanded.
      .Case([&](math::ExpOp) {
        return numbers1<[](float a) {
          FloatArithmetic exact;
          return exactExp(exact, a);
        }>;
      })
      .Case([&](math::LogOp) {
        return numbers1<[](float a) {
          FloatArithmetic exact;
          return exactLog(exact, a);
        }>;
      })
      .Case([&](math::TanhOp) {
        return numbers1<[](float a) {
          FloatArithmetic exact;
          return exactTanh(exact, a);
        }>;
      })
      .Case([&](math::SinOp) {
        return numbers1<[](float a) {
          FloatArithmetic exact;
          return exactSin(exact, a);
        }>;
      })
      .Case([&](math::CosOp) {
        return numbers1<[](float a) {
          FloatArithmetic exact;
          return exactCos(exact, a);
        }>;
      })
      .Case([&](arith::SIToFPOp) { return toNumber<[](int64_t a) { return float(a); }>; })
      .Case([&](attn::ToIntOp) {
        return toInteger<[](float a) { return int64_t(attn::saturatingInt(a)); }>;
      })
      .Case([&](arith::BitcastOp) {
        return type.isF32() ? toNumber<[](int64_t a) { return std::bit_cast<float>(int32_t(a)); }>
                            : toInteger<[](float a) { return int64_t(std::bit_cast<int32_t>(a)); }>;
      })
      .Default([](Operation *) { return nullptr; });
}

} // namespace tesela
