//===- EarlierLaunch.h - What an earlier launch has written -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel that awaits a launch begins while memory that it will read is written. So that memory is
// not read only as long as the kernel runs: no load of it may be one of the read-only cache
// (ld.global.nc), nor be taken for one that can move over the wait.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_EARLIERLAUNCH_H
#define TESELA_COMPILER_TARGETS_NVVM_EARLIERLAUNCH_H

#include "mlir/IR/Value.h"

namespace tesela::nvvm {

/// Whether `view`, of a kernel that awaits a launch, has workspaces, outputs, summaries or sums of
/// gradients of the plan, and is not only written. A view of a place is what it is a view of.
bool readsEarlierLaunch(mlir::Value view);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_EARLIERLAUNCH_H
