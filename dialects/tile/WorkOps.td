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
    Where `condition` holds, nothing behind it happens in this work item: no load, no product, no store. It follows from numbers
    that are the same for all threads, and it stands in the kernel itself, not in a loop or a branch. Where a thread block has
    roles (`pipe-split-roles`), these begin behind it: all threads find out together. A thread block that takes several work
    items (`persistent`) cannot leave.

    Example: `tile.leave if %is_none`
  }];
  let arguments = (ins I1:$condition);
  let assemblyFormat = "`if` $condition attr-dict";
  let hasVerifier = 1;
}

def Tile_WorkHeadsOp : Tile_Op<"work_heads", [Pure]> {
  let summary = "the work map of rows one by one: a position's rows of some neighbouring heads";
  let description = [{
    A work item has the rows of the heads from `first` to `end` at a position of a batch: so many heads that a launch has about `most`
    work items. A launch of fewer rows has one row an item. Where most rows have nothing to do, a few items find that out sooner than many.
    Rows are counted in 32 bits.

    `most` is made of a template's parameters; `tile-bind` makes it a number.

    Example: `%batch, %position, %first, %end = tile.work_heads of 1024`
  }];
  let arguments = (ins AnyAttr:$most);
  let results = (outs I32:$batch, I32:$position, I32:$first, I32:$end);
  let assemblyFormat = "`of` custom<Extent>($most) attr-dict";
}

#endif // TESELA_TILE_WORK_OPS
