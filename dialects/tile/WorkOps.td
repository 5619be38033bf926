//===- WorkOps.td - Work items of other kinds -------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_WORK_OPS
#define TESELA_TILE_WORK_OPS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tile/TileOpBase.td"

def Tile_LeaveOp : Tile_Op<"leave", [MemoryEffects<[MemWrite]>]> {
  let summary = "ends a work item that has nothing to do";
  let description = [{
    If `condition` holds, the work item ends here: the ops that follow do not run. The condition must be
    the same for all threads, and the op stands in the kernel's own block, not in a loop or a branch. If a thread block has
    roles (`pipe-split-roles`), they begin after this op, so all threads leave together. The op is not allowed in a thread
    block that takes several work items (`persistent`).

    Example: `tile.leave if %is_none`
  }];
  let arguments = (ins I1:$condition);
  let assemblyFormat = "`if` $condition attr-dict";
  let hasVerifier = 1;
}

def Tile_WorkHeadsOp : Tile_Op<"work_heads", [Pure]> {
  let summary = "the work map of single rows: the rows of some neighbouring heads at one position";
  let description = [{
    A work item has the rows of the heads from `first` to `end` - 1 at one position of a batch. The number of heads is chosen so that a launch has about
    `most` work items; if it has fewer rows, each item has one row. If most rows have nothing to do, a few items find that out faster than many.
    Rows are counted in 32 bits.

    `most` is an expression of a template's parameters; `tile-bind` makes it a number.

    Example: `%batch, %position, %first, %end = tile.work_heads of 1024`
  }];
  let arguments = (ins AnyAttr:$most);
  let results = (outs I32:$batch, I32:$position, I32:$first, I32:$end);
  let assemblyFormat = "`of` custom<Extent>($most) attr-dict";
}

#endif // TESELA_TILE_WORK_OPS
