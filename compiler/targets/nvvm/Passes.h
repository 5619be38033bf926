//===- Passes.h - Passes of GPU targets -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PASSES_H
#define TESELA_COMPILER_TARGETS_NVVM_PASSES_H

#include "pipe/Pipe.h"
#include "tile/Tile.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tesela {

/// A kernel's attribute: its bytes of shared memory for each thread block (pipe-place-buffers).
inline constexpr llvm::StringLiteral sharedBytesAttr = "pipe.shared_bytes";
/// A kernel's attribute: the most tile values that a thread holds at once (pipe-count-registers).
inline constexpr llvm::StringLiteral tileRegistersAttr = "pipe.tile_registers";
/// A kernel's unit attribute: each product waits for the one before, because a thread's registers
/// cannot hold the tiles of products that run beside each other (pipe-start-products).
inline constexpr llvm::StringLiteral productsWaitAttr = "pipe.products_wait";
/// Attributes of ops with memory of their own, in bytes from the start of the thread block's
/// memory: of an op that joins the rows of cut tiles, and of a tile.find_blocks.
inline constexpr llvm::StringLiteral partsOffsetAttr = "pipe.parts_offset";
inline constexpr llvm::StringLiteral finderOffsetAttr = "pipe.finder_offset";
/// A kernel's attribute: where the mailboxes of its consumers begin, one after the other, if it
/// adds in order (AddInOrder.cpp).
inline constexpr llvm::StringLiteral mailboxOffsetAttr = "pipe.mailbox_offset";
inline constexpr int64_t bytesOfMailbox = 64;

/// Unit attributes of a kernel in a plan with several launches: another launch comes before one of
/// its launches, or after one (pipe-overlap-launches).
inline constexpr llvm::StringLiteral followsLaunchAttr = "pipe.follows_launch",
                                     precedesLaunchAttr = "pipe.precedes_launch";

/// An attribute of an scf.while and of the scf.if around it: they run as often as an scf.for over a
/// range would (pipe-start-products).
inline constexpr llvm::StringLiteral countedAttr = "pipe.counted";

/// Fails, with a diagnostic at the op, if this target cannot lower an op of `kernel`.
mlir::LogicalResult verifyLowerable(tile::KernelOp kernel);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "targets/nvvm/Passes.h.inc"

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_PASSES_H
