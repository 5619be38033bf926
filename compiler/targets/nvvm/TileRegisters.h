//===- TileRegisters.h - Registers that tiles take ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_TILEREGISTERS_H
#define TESELA_COMPILER_TARGETS_NVVM_TILEREGISTERS_H

#include "mlir/IR/Block.h"

#include <cstdint>

namespace tesela::nvvm {

/// The most 32-bit tile values that a thread needs at once in `block`, the body of a kernel
/// (pipe-count-registers says what is counted).
int64_t tileRegisters(mlir::Block &block);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_TILEREGISTERS_H
