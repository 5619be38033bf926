//===- CompilationChecks.cpp - Errors of a specification --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/Compilation.h"
#include "targets/nvvm/NVVMTarget.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/RoleRegisters.h"
#include "tile/Tile.h"

#include <fmt/format.h>

#include <algorithm>

using namespace mlir;

namespace tesela {

Status Compilation::checkSpecification() {
  ElementType input = specification.inputType;
  if (input != ElementType::f32 && input != ElementType::f16 && input != ElementType::bf16)
    return Error(Code::unsupported,
                 fmt::format("inputs of type {} are not supported: q, k and v are f32, f16 or bf16",
                             elementTypeName(input)));
  if (!isHost() && input == ElementType::f32)
    return Error(Code::unsupported,
                 "f32 inputs are not supported on a GPU: convert them to bf16 or "
                 "f16, or compile for the host");
  if (!isHost()) {
    Result<ChipFacts> facts = chipFacts(specification.target.sm);
    if (!facts)
      return facts.error();
    chip = *facts;
  }
  return checkHeadDims();
}

/// Only forward attention has heads wider than `widestOfRows`.
Status Compilation::checkHeadDims() {
  constexpr int widestQk = 576, widestV = 512; // multi-head latent attention
  bool isForward = specification.isAttention();
  for (auto [dim, widest] :
       {std::pair(specification.headDimQk, widestQk), std::pair(specification.headDimV, widestV)}) {
    int limit = isForward ? widest : int(widestOfRows);
    if (dim >= 8 && dim % 8 == 0 && dim <= limit)
      continue;
    std::string remedy = dim <= limit    ? fmt::format("pad the tensors with zeros to {}",
                                                       llvm::alignTo(std::max(dim, 1), 8))
                         : dim <= widest ? "only forward attention supports wider heads"
                                         : "use narrower heads";
    return Error(Code::unsupported, fmt::format("a head dimension of {} is not supported: it must "
                                                "be a multiple of 8 up to {}; {}",
                                                dim, limit, remedy));
  }
  if (!hasWideHeads(specification))
    return Status::success();
  const char *what = specification.dropout           ? "dropout is"
                     : specification.hasNarrowKeys() ? "a cache of 8-bit keys and values is"
                                                     : nullptr;
  if (!what)
    return Status::success();
  return Error(Code::unsupported,
               fmt::format("{} not supported with head dimensions of {} and {}: with it "
                           "head dimensions go up to {}; leave it out, or use narrower heads",
                           what, specification.headDimQk, specification.headDimV, widestOfRows));
}

Status Compilation::checkHooks() {
  if (!hasNoVariant())
    return Status::success();
  WalkResult found = module->walk([](Operation *op) {
    return isa<tile::ScoreOp, tile::MaskOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!found.wasInterrupted())
    return Status::success();
  return Error(
      Code::invalidArgument,
      fmt::format("the template '{}' needs a variant with a score or a mask, and none is given: "
                  "pass a variant; `attention name() {{}}` has neither a score nor a mask",
                  specification.algorithm));
}

/// Checks that the template has hooks for dropout, if dropout is requested.
Status Compilation::checkDropout() {
  auto isHook = [](tile::DropoutOp) { return WalkResult::interrupt(); };
  if (!specification.dropout || module->walk(isHook).wasInterrupted())
    return Status::success();
  return Error(
      Code::unsupported,
      fmt::format("the template '{}' does not support dropout: leave it out, or use 'forward', "
                  "'backward', 'backward_fused', 'backward_in_parts' or "
                  "'backward_parameters'",
                  specification.algorithm));
}

/// Checks the extents of products, which no other check does. A GPU's matrix instructions take 16
/// of the depth and of the columns at a time, and at most 256 columns (PTX ISA, 9.7.14, 9.7.15).
Status Compilation::checkProducts() {
  if (isHost())
    return Status::success();
  Status status = Status::success();
  module->walk([&](tile::DotOp dot) {
    auto a = cast<tile::TileType>(dot.getA().getType());
    auto result = cast<tile::TileType>(dot.getResult().getType());
    int64_t rows = result.getExtent(0), columns = result.getExtent(1);
    int64_t depth = a.getExtent(0) == rows ? a.getExtent(1) : a.getExtent(0);
    // If warps share rows, each has a part of the columns.
    int64_t own = columns / std::max<int64_t>(1, 16 * schedule.warps / std::max<int64_t>(rows, 1));
    if (rows % 16 == 0 && columns % 16 == 0 && depth % 16 == 0 && own <= 256)
      return WalkResult::advance();
    status = Error(Code::invalidArgument,
                   fmt::format("the template '{}' has a product of {} x {} by {} x {}: on a GPU "
                               "the extents of tile.dot must be multiples of 16, with at most 256 "
                               "columns; bind other extents, or compile for the host",
                               specification.algorithm, rows, depth, depth, columns));
    return WalkResult::interrupt();
  });
  return status;
}

Status Compilation::checkParameterBytes(const KernelSignature &signature) {
  constexpr int64_t limit = 4096; // bytes of a kernel's parameters (CUDA C++ Programming Guide)
  int64_t bytes = 0;
  for (const ArgumentSlot &slot : signature.slots()) {
    using Kind = ArgumentSlot::Kind;
    bool wide = slot.kind == Kind::data || slot.kind == Kind::stride || slot.kind == Kind::counter;
    bool isMap = slot.kind == Kind::tensorMap;
    int64_t size = isMap ? 128 : wide ? 8 : 4;
    bytes = llvm::alignTo(bytes, isMap ? 64 : size) + size;
  }
  if (isHost() || bytes <= limit)
    return Status::success();
  return Error(
      Code::unsupported,
      fmt::format("{}: its parameters take {} bytes, and a GPU kernel has at most {} bytes of "
                  "arguments: put several scalars into one captured tensor",
                  specification.variantFile, bytes, limit));
}

/// An op that the target cannot lower is not a bug of the compiler; the error says unsupported.
Status Compilation::checkLowerable() {
  for (auto kernel : module->getOps<tile::KernelOp>())
    if (failed(verifyLowerable(kernel)))
      return Error(Code::unsupported,
                   fmt::format("the template '{}' does not run on {}: {}", specification.algorithm,
                               specification.target.name(), messages));
  return Status::success();
}

/// Checks an attempt that counts only if its products run beside each other, or only if two thread
/// blocks run beside each other.
Status Compilation::checkOverlap() {
  for (auto kernel : module->getOps<tile::KernelOp>()) {
    if (mustOverlap && kernel->hasAttr(productsWaitAttr))
      return Error(Code::unsupported,
                   fmt::format("schedule: the products of '{}' that run at the same time need "
                               "more registers than a thread has; use a smaller block_n, or "
                               "split_outputs = true",
                               kernel.getSymName().str()));
    for (auto roles : kernel.getBodyBlock().getOps<pipe::RolesOp>())
      if (mustFitTwice && nvvm::blocksOfMultiprocessor(roles) < 2)
        return Error(Code::unsupported,
                     fmt::format("schedule: a multiprocessor has the registers for one thread "
                                 "block of '{}' only; use consumers = 2",
                                 kernel.getSymName().str()));
  }
  return Status::success();
}

/// Counts the bytes in the IR. The estimate for schedules of attention is never less (PtxTest).
Status Compilation::checkSharedBytes() {
  for (const auto &[symbol, bytes] : sharedBytes)
    if (bytes > chip.blockShared)
      return Error(Code::invalidArgument,
                   fmt::format("schedule: the kernel '{}' needs {} bytes of shared memory, and a "
                               "thread block of sm_{} has at most {}; use a smaller block_m, a "
                               "smaller block_n or fewer stages",
                               symbol, bytes, chip.sm, chip.blockShared));
  return Status::success();
}

} // namespace tesela
