//===- TraitsOf.h - The traits of a variant for its schedule ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_TRAITSOF_H
#define TESELA_COMPILER_DRIVER_TRAITSOF_H

#include "frontend/Variant.h"
#include "schedule/Schedule.h"

#include "mlir/IR/MLIRContext.h"

namespace tesela {

/// `asksForTiles`: also finds the form of the mask's tiles, which takes some milliseconds.
Result<VariantTraits> traitsOf(const Variant &variant, bool asksForTiles,
                               mlir::MLIRContext &context);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_TRAITSOF_H
