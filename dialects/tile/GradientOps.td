//===- GradientOps.td - Gradients of parameters -----------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The hooks for the derivatives by a variant's parameters, and what they add to.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_GRADIENT_OPS
#define TESELA_TILE_GRADIENT_OPS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tile/TileOpBase.td"

//===----------------------------------------------------------------------===//
// Hooks
//===----------------------------------------------------------------------===//

def Tile_ScorePartialsOp : Tile_Op<"score_partials", [
    MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["gradient", "source"]>, NoTerminator]> {
  let summary = "the hook for the derivatives of a variant's score by its parameters";
  let description = [{
    Adds `gradient[i, j] · ∂score(s, b, h, hkv, q, k) / ∂t` at `s = scale · source[i, j]` to the gradient of each parameter t that is
    asked for. Where a pair does not exist, or is masked, `gradient` is 0: it adds nothing, whatever its derivative is. Without a region it is a hook, and does nothing; `tile-inline-variant` fills it with the
    additions, in which the gradient is still left out. Rows are queries.

    ```mlir
    // the hook
    tile.score_partials %dS of %qk scaled by %scale at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
    // after tile-inline-variant, for `score = s + slope[h] * (k - q)`
    tile.score_partials %dS of %qk scaled by %scale at %rows, %keys : … do {
    ^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %distance = arith.subi %k, %q : i32
      %d = arith.sitofp %distance : i32 to f32
      %c = tile.collect %d into %sums[%h] : !tile.view<[?, ?, ?], i32>
    }
    ```
  }];
  let arguments = (ins Tile_AnyTile:$gradient, Tile_AnyTile:$source, F32:$scale,
                       Tile_BlockType:$rows, Tile_BlockType:$columns);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $gradient `of` $source `scaled` `by` $scale `at` $rows `,` $columns attr-dict
    `:` type($source) `,` type($rows) `,` type($columns) (`do` $body^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The block of queries and the block of keys.
    ::mlir::TypedValue<BlockType> getQueries() { return getRows(); }
    ::mlir::TypedValue<BlockType> getKeys() { return getColumns(); }
  }];
}

def Tile_SinkPartialsOp : Tile_Op<"sink_partials", [MemoryEffects<[MemRead, MemWrite]>, NoTerminator]> {
  let summary = "the hook for the derivatives of a variant's sink by its parameters";
  let description = [{
    Adds `gradient[i] · ∂sink(b, h, hkv, q) / ∂t` to the gradient of each parameter t that is asked for, for each row that
    exists. Likewise (`tile.score_partials`).

    Example: `tile.sink_partials %dZ at %rows : !tile.tile<[64], f32>, !tile.block<query, 64>`
  }];
  let arguments = (ins Tile_AnyTile:$gradient, Tile_BlockType:$rows);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = "$gradient `at` $rows attr-dict `:` type($gradient) `,` type($rows) (`do` $body^)?";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Additions
//===----------------------------------------------------------------------===//

def Tile_CollectOp : Tile_Op<"collect", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds a number to an exact sum";
  let description = [{
    Adds `value` to the exact sum of element `clamp(i, 0, n - 1), …` of a tensor, if no extent n is 0. An exact sum holds each
    addition without a rounding (`targets/common/ExactSums.h`), so that work items may add in any order and the sum has the
    same bits each time. The view holds the sums of all elements of the tensor, `[words, n, …, 2]`: its first and its last axis are
    the sum's own. The result is `value`.

    It stands in hooks, in `tile.add_lines`, and in the body of a `tile.map` that a `tile.perform` uses: what the body yields follows from
    its result.

    Example: `%c = tile.collect %x into %slope_sums[%h] : !tile.view<[?, ?, ?], i32>`
  }];
  let arguments = (ins F32:$value, Tile_ViewType:$view, Variadic<I32>:$indices);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `into` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_DepositOp : Tile_Op<"deposit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds a number to an element that nobody else adds to at that time";
  let description = [{
    `view[i, …] += value` in f32; nothing where the value is 0, and an index may be outside of the view only there. In a kernel each element belongs to one
    work item, whose loops say the order of the additions, and in a map to one element of the tile. The result is `value`.

    It stands in hooks, and in maps as `tile.collect` does.

    Example: `%c = tile.deposit %x into %bias_gradient[%h, %q, %k] : !tile.view<[?, ?, ?], f32>`
  }];
  let arguments = (ins F32:$value, Tile_ViewType:$view, Variadic<I32>:$indices);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `into` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_PutOp : Tile_Op<"put", [MemoryEffects<[MemWrite]>]> {
  let summary = "stores a number in an element that one work item alone has";
  let description = [{
    `view[i, …] = value`, rounded to the view's type; nothing where an index is outside of the view. In a kernel each element belongs to one
    work item, and in a map to one element of the tile. The result is `value`.

    It stands in maps as `tile.collect` does.

    Example: `%c = tile.put %x into %bias_gradient[%h, %q, %k] : !tile.view<[?, ?, ?], bf16>`
  }];
  let arguments = (ins F32:$value, Tile_ViewType:$view, Variadic<I32>:$indices);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `into` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_ExactSumOp : Tile_Op<"exact_sum", [Pure]> {
  let summary = "the value of an exact sum";
  let description = [{
    The f32 of the exact sum that `tile.collect` adds to, 0 where an extent is 0: rounded twice, to f64 and to f32. NaN where something that was
    added was infinite or NaN. No kernel reads a sum that it adds to.

    Example: `%g = tile.exact_sum %slope_sums[%h] : !tile.view<[?, ?, ?], i32>`
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<I32>:$indices);
  let results = (outs F32:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_AddLinesOp : Tile_Op<"add_lines", [MemoryEffects<[MemRead, MemWrite]>, NoTerminator]> {
  let summary = "adds the sums of a tile's lines to memory";
  let description = [{
    Runs its body, which holds `tile.collect`, once for each line of x: with the sum of the line, and the row and the column
    of one of its elements.

    | lines | the sum | of each |
    |---|---|---|
    | `elements` | x[i, j] | element |
    | `columns` | Σᵢ x[i, j] | column |
    | `diagonals` | Σᵢ x[i, i + d] | d |

    The order within a sum is fixed. Where a `tile.add_kept` stands behind the loops around it, sums of diagonals may be kept until then.

    Example:
    ```mlir
    tile.add_lines "columns" of %x : !tile.tile<[64, 32], f32> {
    ^body(%value: f32, %row: i32, %column: i32):
      %k = arith.addi %first_key, %column : i32
      %c = tile.collect %value into %sums[%k] : !tile.view<[?, ?, ?], i32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$lines, Tile_AnyTile:$source);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$lines `of` $source attr-dict `:` type($source) $body";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral elements = "elements", columns = "columns", diagonals = "diagonals";
  }];
}

def Tile_AddKeptOp : Tile_Op<"add_kept", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds to memory what tile.add_lines has kept";
  let description = [{
    A diagonal goes through several tiles. So a thread may keep the sum of a line, and add the next line's to it while both are of one
    element, before it adds it to memory (`tile.add_lines`). This op stands behind the loops with `tile.add_lines`: what is still kept is added then. The order within
    what is kept is that of the loops.

    Example: `tile.add_kept`
  }];
  let arguments = (ins);
  let assemblyFormat = "attr-dict";
}

def Tile_PerformOp : Tile_Op<"perform", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "does what the body of a map adds to memory";
  let description = [{
    The operand comes from a `tile.map` whose body adds to memory (`tile.collect`, `tile.deposit`, `tile.put`): once for each element, also of
    what the tile has beyond the end of its block. A map without this op adds nothing; it has one user, this op.

    Example: `tile.perform %additions : !tile.tile<[64, 32], f32>`
  }];
  let arguments = (ins Tile_AnyTile:$tile);
  let assemblyFormat = "$tile attr-dict `:` type($tile)";
}

#endif // TESELA_TILE_GRADIENT_OPS
