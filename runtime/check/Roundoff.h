//===- Roundoff.h - Errors of rounding -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_ROUNDOFF_H
#define TESELA_CHECK_ROUNDOFF_H

#include "tesela/compiler/Artifact.h"

namespace tesela {

/// The largest relative error when a normal number is rounded.
inline double unitRoundoff(ElementType type) {
  switch (type) {
  case ElementType::bf16:
    return 0x1p-8;
  case ElementType::f16:
    return 0x1p-11;
  default:
    return 0x1p-24;
  }
}

/// The largest absolute error when a subnormal number is rounded.
inline double subnormalRoundoff(ElementType type) {
  switch (type) {
  case ElementType::bf16:
    return 0x1p-134;
  case ElementType::f16:
    return 0x1p-25;
  default:
    return 0x1p-150;
  }
}

} // namespace tesela

#endif // TESELA_CHECK_ROUNDOFF_H
