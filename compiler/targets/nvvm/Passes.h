//===- Passes.h - Passes of GPU targets -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PASSES_H
#define TESELA_COMPILER_TARGETS_NVVM_PASSES_H

#include "pipe/Pipe.h"
#include "tile/Tile.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tesela {

/// The attribute of a kernel with its bytes of shared memory.
inline constexpr llvm::StringLiteral sharedBytesAttr = "pipe.shared_bytes";
/// The most values of tiles that a thread holds at once (pipe-count-registers).
inline constexpr llvm::StringLiteral tileRegistersAttr = "pipe.tile_registers";
/// A unit attribute of a kernel whose products wait, each for the one before: a thread's registers
/// do not hold the tiles of products that run beside each other (pipe-start-products).
inline constexpr llvm::StringLiteral productsWaitAttr = "pipe.products_wait";
/// Where a tile.find_blocks has its memory: bytes from the start of the thread block's.
/// Of what joins the rows of cut tiles: where the memory lies through which the parts meet.
inline constexpr llvm::StringLiteral partsOffsetAttr = "pipe.parts_offset";
inline constexpr llvm::StringLiteral finderOffsetAttr = "pipe.finder_offset";

/// Unit attributes of a kernel of a plan with several launches: a launch of it stands behind
/// another, or in front of one (pipe-overlap-launches).
inline constexpr llvm::StringLiteral followsLaunchAttr = "pipe.follows_launch",
                                     precedesLaunchAttr = "pipe.precedes_launch";

/// On a scf.while and the scf.if around it: they run as a scf.for over a range would
/// (pipe-start-products).
inline constexpr llvm::StringLiteral countedAttr = "pipe.counted";

/// Fails, with a diagnostic at the op, where this target has no lowering for what `kernel` asks.
mlir::LogicalResult verifyLowerable(tile::KernelOp kernel);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "targets/nvvm/Passes.h.inc"

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_PASSES_H
