//===- MemoryOps.td - Accesses to views -------------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Loads and stores of tiles, reads of single elements, and what a kernel can ask about the elements
// of a view. TileOps.td includes this file.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_MEMORY_OPS
#define TESELA_TILE_MEMORY_OPS

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "loads a block of rows of a view, or some of their columns";
  let description = [{
    `tile[i, j] = view[batch, head, first + i, j]`. Rows with `first + i >= limit` are 0. Columns that
    only the tile has are 0, too: the tile may be wider, so that matrix instructions get a multiple of the columns that they need.
    From a view of rank 3, `tile[i] = view[batch, head, first + i]`, or `tile[0, i]` if the tile has a single row. In a block of several heads, the block's
    type says where row i lies; a row whose head does not exist is 0.

    With `columns` (a block of which only the rows matter), `tile[i, j] = view[batch, head, first + i, columns.first + j]`. Columns
    with `columns.first + j >= columns.limit` are 0. The limit is at most the view's last extent.

    Example: `%A = tile.load %a[%rows, %depth] : !tile.view<[?, ?, ?, ?], bf16>[!tile.block<query, 128>, !tile.block<key, 64>] -> !tile.tile<[128, 64], bf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_BlockType:$block, Optional<Tile_BlockType>:$columns);
  let results = (outs Tile_AnyTile:$tile);
  let assemblyFormat = [{
    $view `[` $block (`,` $columns^)? `]` attr-dict
    `:` type($view) `[` type($block) (`,` type($columns)^)? `]` `->` type($tile)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "stores a tile into a block of rows of a view";
  let description = [{
    `view[batch, head, first + i, j] = tile[i, j]` if `first + i < limit` and the view has a column j. In a
    block of several heads, the block's type says where row i goes; a row whose head does not exist is not stored.
  }];
  let arguments = (ins Tile_AnyTile:$tile, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = "$tile `,` $view `[` $block `]` attr-dict `:` type($tile) `,` type($view) `[` type($block) `]`";
  let hasVerifier = 1;
}

def Tile_AccumulateOp : Tile_Op<"accumulate", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds a tile to a block of rows of a view";
  let description = [{
    `view[batch, head, first + i, j] += tile[i, j]` in f32, if `first + i < limit` and the view has a column j. Several work
    items may add to the same element: each addition is atomic. Their order is not fixed, so two launches may
    differ in the last bits, unless a `tile.order_additions` fixes it. An earlier kernel, or the caller, gives the view its initial values.

    Example: `tile.accumulate %dQ, %dq[%rows] : !tile.tile<[64, 128], f32>, !tile.view<[B, H, Sq, 128], f32>[!tile.block<query, 64>]`
  }];
  let arguments = (ins Tile_AnyTile:$tile, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = "$tile `,` $view `[` $block `]` attr-dict `:` type($tile) `,` type($view) `[` type($block) `]`";
  let hasVerifier = 1;
}

def Tile_OrderAdditionsOp : Tile_Op<"order_additions", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the work item adds to shared sums in its turn, from here to the next such op";
  let description = [{
    Several work items add to the same rows of a head (`tile.accumulate`). With this op they do so one after the other, in the order in which
    `tile.work` numbers their blocks of keys. So each launch adds in the same order, and the sums have the same bits. `keys` is the work item's block of keys, with the
    query head of the sums. `part` is the work item's part, if the query heads are dealt to parts (`tile.work_part`).

    Before a work item adds to a block of queries, it waits until the work item before it has added to that block, or has passed it. A work item takes
    its blocks of queries in one order. So one number tells how far it is, and no work item needs to know which blocks of queries another one has.

    Work items start in the order in which they add, and a work item waits only for earlier ones. So the wait ends, however many of them run at the
    same time.

    `turns` holds these numbers: 32-bit words, in the first words of the rows of each block of keys. The last row of the first block counts work
    items, where a launch has no counter. An earlier kernel sets all of them to 0.

    Example: `tile.order_additions by %turns[%keys] part %part : !tile.view<[B, H, (Sk ceildiv 128) * 128], f32>[!tile.block<key, 128>]`
  }];
  let arguments = (ins Tile_ViewType:$turns, Tile_BlockType:$keys, Optional<I32>:$part);
  let assemblyFormat = "`by` $turns `[` $keys `]` (`part` $part^)? attr-dict `:` type($turns) `[` type($keys) `]`";
  let hasVerifier = 1;
}

def Tile_ReadOp : Tile_Op<"read", [Pure]> {
  let summary = "one element of a view, with clamped indices";
  let description = [{
    `view[clamp(i, 0, n - 1), …]`, or 0 if an extent n is 0. So nothing outside the view
    is ever read. The op is pure because no kernel writes a view that it reads with this op.

    Elements are widened to 32 bits, exactly: f16 and bf16 to f32, i8 to i32 from 0 to 255. From a view of
    floats the result may also be i32: the bits of that f32.

    Example: `%kept = tile.read %block[%b, %i] : !tile.view<[?, ?], i8> -> i32`

    `covered` says that a `tile.covers` holds for the index, or that the index was clamped before and the view has no gaps.
    Then the read needs no clamp, and neighbours in the last axis are adjacent in memory. `chunked`, for 16-bit elements
    with `covered`, says that a `tile.covers` with `chunks` holds, and that the last index is a column of the tile plus
    a number that is the same for all elements. Then the elements of columns 8j to 8j + 7 are 16 bytes that one load can read.
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I32>:$indices, UnitAttr:$covered, UnitAttr:$chunked);
  let results = (outs AnyTypeOf<[F32, I32]>:$element);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view) `->` type($element)";
  let hasVerifier = 1;
}

def Tile_BoundsOp : Tile_Op<"bounds", [Pure, SameVariadicOperandSize, AllTypesMatch<["least", "largest"]>]> {
  let summary = "bounds of the elements of a box of a view";
  let description = [{
    The box has the indices low[a] to high[a] in each axis a (both included, low[a] <= high[a], each clamped as in
    `tile.read`). The results satisfy least <= view[i, …] <= largest for every element of the box, widened as in
    `tile.read`. They may be looser than the box's minimum and maximum. If a float may be NaN, both results are NaN.

    `within` has a number for each axis: high[a] - low[a] is known to be less than it. 0 means that nothing is known.

    Example: `%a, %z = tile.bounds %t[%b, %first] to [%b, %last] within [1, 64] : !tile.view<[?, ?], i32> -> i32`
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I32>:$low, Variadic<I32>:$high,
                       DenseI64ArrayAttr:$within);
  let results = (outs AnyTypeOf<[F32, I32]>:$least, AnyTypeOf<[F32, I32]>:$largest);
  let assemblyFormat = [{
    $view `[` $low `]` `to` `[` $high `]` `within` $within attr-dict `:` type($view) `->` type($least)
  }];
  let hasVerifier = 1;
}

def Tile_HasElementOp : Tile_Op<"has_element", [Pure, AttrSizedOperandSegments]> {
  let summary = "whether an element of a small box of a view lies in an interval";
  let description = [{
    True if least <= view[i, …] <= largest holds for an element of the box. The box is given as in `tile.bounds`. The result is also
    true if the box has more than 128 elements (the product of high - low + 1 over the axes): more are never read.
    The op serves tensors of unrelated elements. Their minimum and maximum say little, since most values lie between them.

    Example: `%h = tile.has_element %t[%b, %low] to [%b, %high] between %first, %last : !tile.view<[?, ?], i32>`
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I32>:$low, Variadic<I32>:$high, I32:$least, I32:$largest);
  let results = (outs I1:$result);
  let assemblyFormat = [{
    $view `[` $low `]` `to` `[` $high `]` `between` $least `,` $largest attr-dict `:` type($view)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = "static constexpr int64_t mostElements = 128;";
}

def Tile_ViewExtentOp : Tile_Op<"view_extent", [Pure]> {
  let summary = "an extent of a view of a captured tensor";
  let description = [{
    Example: `%n = tile.view_extent %t axis 1 : !tile.view<[?, ?], f32>`
  }];
  let arguments = (ins Tile_ViewType:$view, I64Attr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$view `axis` $axis attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_CoversOp : Tile_Op<"covers", [Pure]> {
  let summary = "whether a box lies inside a view, and its rows are contiguous";
  let description = [{
    True if 0 <= index + low and index + high < extent hold in every axis, and the last axis has stride 1.
    With `chunks`, the columns 0, 8, 16, … of the box must also begin at addresses that are multiples of eight
    elements: the view's address, all other strides and the last index are multiples of eight elements.

    Example: `%c = tile.covers %t[%h, %i] low [0, -31] high [0, 63] : !tile.view<[?, ?], f32>`
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I32>:$indices, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, UnitAttr:$chunks);
  let results = (outs I1:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` `low` $low `high` $high attr-dict `:` type($view)
  }];
  let hasVerifier = 1;
}

#endif // TESELA_TILE_MEMORY_OPS
