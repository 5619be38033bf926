//===- GradientOps.td - Gradients of parameters -----------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The hooks for the derivatives by a variant's parameters, and the ops that add up gradients.
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
    requested. If a pair does not exist or is masked, `gradient` is 0, and the pair adds nothing even if its derivative is NaN or inf. Without a region
    the op is a hook and does nothing. `tile-inline-variant` fills it with the additions, still without the factor `gradient`. Rows are queries.

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
    Adds `gradient[i] · ∂sink(b, h, hkv, q) / ∂t` to the gradient of each parameter t that is requested, for each row that
    exists. It is a hook like `tile.score_partials`.

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
    Adds `value` to the exact sum of the element `clamp(i, 0, n - 1), …` of a tensor; does nothing if an extent n is 0. An exact sum holds
    all additions without rounding (`targets/common/ExactSums.h`). Work items may therefore add in any order, and the sum has the
    same bits each time. The view holds the sums of all elements of the tensor, `[words, n, …, 2]`: its first and its last axis
    belong to the representation of one sum. The result is `value`.

    The op stands in hooks, in `tile.add_lines`, and in the body of a `tile.map` whose result a `tile.perform` uses. In a map the yielded value must
    depend on the op's result.

    Example: `%c = tile.collect %x into %slope_sums[%h] : !tile.view<[?, ?, ?], i32>`
  }];
  let arguments = (ins F32:$value, Tile_ViewType:$view, Variadic<I32>:$indices);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `into` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_DepositOp : Tile_Op<"deposit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds a number to an element to which no other thread adds at that time";
  let description = [{
    `view[i, …] += value` in f32. Does nothing if the value is 0; only then an index may be outside the view. Each element belongs to one
    work item, whose loops fix the order of the additions. In a map each element of the view belongs to one element of the tile. The result is `value`.

    The op stands in hooks, and in maps like `tile.collect`.

    Example: `%c = tile.deposit %x into %bias_gradient[%h, %q, %k] : !tile.view<[?, ?, ?], f32>`
  }];
  let arguments = (ins F32:$value, Tile_ViewType:$view, Variadic<I32>:$indices);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `into` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Tile_PutOp : Tile_Op<"put", [MemoryEffects<[MemWrite]>]> {
  let summary = "stores a number in an element that belongs to one work item";
  let description = [{
    `view[i, …] = value`, rounded to the view's type. Does nothing if an index is outside the view. Each element belongs to one
    work item. In a map each element of the view belongs to one element of the tile. The result is `value`.

    The op stands in maps like `tile.collect`.

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
    The exact sum to which `tile.collect` adds, rounded to f64 and then to f32. It is 0 if an extent is 0, and NaN if an added value
    was infinite or NaN. A kernel must not read a sum to which it adds.

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
    Runs its body, which contains `tile.collect`, once for each line of x. The arguments are the sum of the line, and the row and the column
    of one of its elements.

    | lines | the sum | of each |
    |---|---|---|
    | `elements` | x[i, j] | element |
    | `columns` | Σᵢ x[i, j] | column |
    | `diagonals` | Σᵢ x[i, i + d] | d |

    The order within a sum is fixed. If a `tile.add_kept` follows the loops around the op, the op may keep sums of diagonals until then.

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
  let summary = "adds the sums that tile.add_lines has kept to memory";
  let description = [{
    A diagonal goes through several tiles. A thread may therefore keep the sum of a line (`tile.add_lines`) and add the next line's sum to it, as long as both
    belong to the same element. It adds the sum to memory later. This op follows the loops that contain `tile.add_lines` and adds all sums that are still kept.
    The order within a kept sum is that of the loops.

    Example: `tile.add_kept`
  }];
  let arguments = (ins);
  let assemblyFormat = "attr-dict";
}

def Tile_PerformOp : Tile_Op<"perform", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "performs the additions and stores in the body of a map";
  let description = [{
    The operand is the result of a `tile.map` whose body writes to memory (`tile.collect`, `tile.deposit`, `tile.put`). The body runs once for each element,
    also for elements beyond the end of the block. Without this op such a map does nothing. This op is the map's only user.

    Example: `tile.perform %additions : !tile.tile<[64, 32], f32>`
  }];
  let arguments = (ins Tile_AnyTile:$tile);
  let assemblyFormat = "$tile attr-dict `:` type($tile)";
}

#endif // TESELA_TILE_GRADIENT_OPS
