//===- EarlierLaunch.h - Memory that an earlier launch writes ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel that awaits a launch begins while memory that it will read is still being written. So
// this memory is not read-only for the kernel's whole run. A load of it must not go through the
// read-only cache (ld.global.nc), and no compiler may take it for a load that can move over the
// wait.
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_EARLIERLAUNCH_H
#define TESELA_COMPILER_TARGETS_NVVM_EARLIERLAUNCH_H

#include "mlir/IR/Value.h"

namespace tesela::nvvm {

/// Whether a kernel that awaits a launch reads, through `view`, a workspace, output, summary or sum
/// of gradients of the plan. A view that is made of another one is traced back to that one.
bool readsEarlierLaunch(mlir::Value view);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_EARLIERLAUNCH_H
