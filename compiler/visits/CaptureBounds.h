//===- CaptureBounds.h - Least and largest elements of boxes ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_CAPTUREBOUNDS_H
#define TESELA_COMPILER_VISITS_CAPTUREBOUNDS_H

#include "frontend/Interpreter.h"
#include "visits/ElementFunctions.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace tesela {

/// The least and the largest element of boxes of one captured tensor. The result is the same as if
/// each element of a box were read. An axis in which a box extends gets a table when the first such
/// box is asked for: pairs for each 8 elements along the axis, for each 64, and so on. A box of n
/// elements then costs about 14·log₈ n reads; a box that begins and ends at multiples of 64 costs a
/// few. The tables have a seventh as many pairs as the tensor has elements. Threads that ask for a
/// table that is not made yet make it together.
///
/// The tensor must not change while this object lives. Any thread may use the object.
class CaptureBounds {
public:
  CaptureBounds(const CaptureView &view, ElementType type);
  ~CaptureBounds();

  /// The bounds of `count` boxes. A box has the indices low[axis][box] <= i <= high[axis][box],
  /// which are clamped as in a read. Both bounds are NaN if an element is NaN, and 0 if the tensor
  /// has no elements.
  void of(const Scalar *const *low, const Scalar *const *high, int64_t count, Scalar *least,
          Scalar *largest) const;

private:
  struct Tables;
  template <typename T> struct TablesOf;
  std::unique_ptr<Tables> tables;
};

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_CAPTUREBOUNDS_H
