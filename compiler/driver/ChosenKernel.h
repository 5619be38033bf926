//===- ChosenKernel.h - A specification, read and decided -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_CHOSENKERNEL_H
#define TESELA_COMPILER_DRIVER_CHOSENKERNEL_H

#include "frontend/Variant.h"
#include "schedule/Schedule.h"

namespace tesela {

/// The decisions that compile() makes before it makes code.
struct ChosenKernel {
  Variant variant;
  VariantTraits traits;
  Schedule schedule;
};

/// The variant and the schedule that compile() would use. Fails if compile() would fail so far.
Result<ChosenKernel> chooseKernel(const KernelSpecification &specification);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_CHOSENKERNEL_H
