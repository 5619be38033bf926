//===- CaptureBounds.h - Least and largest elements of boxes ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_CAPTUREBOUNDS_H
#define TESELA_COMPILER_VISITS_CAPTUREBOUNDS_H

#include "frontend/Interpreter.h"
#include "visits/Lanes.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace tesela {

/// The least and the largest element of boxes of one captured tensor: what looking at each element
/// of a box would give. An axis that a box extends in gets a table, made when the first such box is
/// asked for: of every 8 elements in the axis, of every 64, and so on; a box of n elements then
/// costs some 14·log₈ n looks, and one that begins and ends at multiples of 64 a few. The tables
/// hold a seventh as many pairs as the tensor has elements.
///
/// The tensor must not change while this lives. From any thread.
class CaptureBounds {
public:
  CaptureBounds(const CaptureView &view, ElementType type);
  ~CaptureBounds();

  /// Of `count` boxes, each over the indices low[axis][box] <= i <= high[axis][box], which are
  /// clamped as a read clamps them. Both are NaN where an element is; both are 0 of a tensor
  /// without elements.
  void of(const Scalar *const *low, const Scalar *const *high, int64_t count, Scalar *least,
          Scalar *largest) const;

private:
  struct Tables;
  template <typename T> struct TablesOf;
  std::unique_ptr<Tables> tables;
};

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_CAPTUREBOUNDS_H
