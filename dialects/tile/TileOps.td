//===- TileOps.td - Operations of tiled algorithms --------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Kernels, and the mathematics of tiles.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_OPS
#define TESELA_TILE_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tile/TileOpBase.td"

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [
    IsolatedFromAbove, Symbol, SingleBlockImplicitTerminator<"ReturnOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a kernel, or the template of one";
  let description = [{
    The kernel runs once for each work item. The arguments are the kernel's interface: the
    launch plan, the checks of a launch's arguments and the launchers are generated from
    their names, types and roles. The order of the arguments is the order of
    the launch's slots (see `KernelSignature.h`).

    | argument | meaning for the caller |
    |---|---|
    | `in %x: view` | a tensor that the caller passes under this name |
    | `out %x: view` | a tensor that the caller passes and the kernel writes |
    | `optional %x: view` | a tensor that a launch may leave out. The kernel writes it if it stores to it, and reads it otherwise. If it is left out, stores do nothing and loads give 0. Rank 3, one number for each row |
    | `workspace %x: view` | f32 or i32 in the plan's own memory; one kernel writes it, later kernels read it. All its extents are known |
    | `%$x: view` | a captured tensor, of the variant or of the template |
    | `%$x: i32`, `%$x: f32` | a scalar, of the variant or of the template |
    | `%scale: f32` | the softmax scale: the only scalar that every launch has |

    Only hand-written tests have views without a role: no caller can pass them.

    `<...>` lists the parameters of a template. A bound kernel has no parameters, and its
    `schedule` says how it runs.

    Example:
    ```mlir
    tile.kernel @copy<rows, d, input>(in %x: !tile.view<[B, H, Sq, d], input>,
                                      out %y: !tile.view<[B, H, Sq, d], input>) {
      %block = tile.work : !tile.block<query, rows>
      %tile = tile.load %x[%block] : !tile.view<[B, H, Sq, d], input>[!tile.block<query, rows>] -> !tile.tile<[rows, d], input>
      tile.store %tile, %y[%block] : !tile.tile<[rows, d], input>, !tile.view<[B, H, Sq, d], input>[!tile.block<query, rows>]
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$parameters,
                       StrArrayAttr:$argument_names, OptionalAttr<StrArrayAttr>:$argument_roles,
                       OptionalAttr<Tile_ScheduleAttr>:$schedule);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBodyBlock() { return getBody().front(); }
    ::llvm::StringRef getArgumentName(unsigned index) {
      return ::llvm::cast<::mlir::StringAttr>(getArgumentNames()[index]).getValue();
    }
    /// Whether the argument is a captured tensor or a scalar of a variant or a template; then its name begins with `$`.
    bool isParameter(unsigned index) { return getArgumentName(index).starts_with("$"); }
    /// The role of the argument; nullopt for parameters, scalars, and views without a role.
    std::optional<Role> getArgumentRole(unsigned index);
    /// The argument of that name, or null.
    ::mlir::BlockArgument getArgument(::llvm::StringRef name);
    /// Appends an argument of that name.
    ::mlir::BlockArgument addArgument(::llvm::StringRef name, ::mlir::Type type,
                                      ::mlir::Location loc, std::optional<Role> role = std::nullopt);
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "ends a kernel";
  let assemblyFormat = "attr-dict";
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike,
                                     ParentOneOf<["BlocksOp", "FindBlocksOp", "ScoreOp", "MaskOp", "SinkOp", "MapOp",
                                                   "ScoreGradientOp"]>]> {
  let summary = "ends a region and gives its results";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{}]>];
}

//===----------------------------------------------------------------------===//
// Mathematics of tiles
//===----------------------------------------------------------------------===//

def Tile_ConstantOp : Tile_Op<"constant", [Pure]> {
  let summary = "a tile whose elements all have one value";
  let arguments = (ins F32Attr:$value);
  let results = (outs Tile_AnyTile:$tile);
  let assemblyFormat = "$value attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure]> {
  let summary = "a matrix product";
  let description = [{
    `c[i, j] + Σ_x a[i, x] · b[x, j]`, with `a[x, i]` or `b[j, x]` for an operand that is
    `transposed`. Both operands have the same type: f32, f16 or bf16. Products are exact. Sums are f32, in an order that
    the target chooses.

    | a, b | c, result |
    |---|---|
    | f16, bf16 | f32 |
    | f32 (host) | f32 |

    An operand may be loaded or computed. A GPU moves a computed operand through shared memory if the product cannot read it from
    registers: a right operand, or a left operand that is transposed.

    `again`: the product is computed again, although another op computes the same product. It costs less time than keeping
    the other result in registers.

    Example: `%s = tile.dot %q, %k transposed plus %zero : (…, …, …) -> !tile.tile<[64, 32], f32>`
  }];
  let arguments = (ins Tile_AnyTile:$a, Tile_AnyTile:$b, Tile_AnyTile:$c, UnitAttr:$left_transposed,
                       UnitAttr:$transposed, UnitAttr:$again);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $a (`transposed` $left_transposed^)? `,` $b (`transposed` $transposed^)? `plus` $c attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Tile_ConvertOp : Tile_Op<"convert", [Pure]> {
  let summary = "changes the element type, rounding to nearest even";
  let arguments = (ins Tile_AnyTile:$source);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [Pure, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "computes a tile element by element";
  let description = [{
    The body gets one element of each operand and, as the last two arguments, the element's
    row and column (i32; the column is 0 in a tile of one extent). An operand
    of one extent has a value for each row; an operand with a single row, [1, columns], a value for each column. The body may use values from outside
    that are the same for all elements. A tile of i1 with two extents says for which elements a condition holds.

    Example:
    ```mlir
    %scaled = tile.map %o, %alpha : (!tile.tile<[64, 32], f32>, !tile.tile<[64], f32>) -> !tile.tile<[64, 32], f32> {
    ^body(%x: f32, %a: f32, %row: i32, %column: i32):
      %y = arith.mulf %x, %a : f32
      tile.yield %y : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Tile_AnyTile>:$sources);
  let results = (outs Tile_AnyTile:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "($sources^)? attr-dict `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
}

def Tile_Reduction : I32EnumAttr<"Reduction", "how a row is reduced", [
    I32EnumAttrCase<"Max", 0, "max">,
    I32EnumAttrCase<"Add", 1, "add">,
    I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::tesela::tile";
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure, AllTypesMatch<["start", "result"]>]> {
  let summary = "reduces each row";
  let description = [{
    `max`: `max(start[i], max_j x[i, j])`; NaN is ignored if there is a number. `min` likewise. Both
    also take i32.
    `add`: `start[i] + Σ_j x[i, j]` in shares. Several owners (on a GPU lanes) hold parts of a row. Each owner's share is the sum of its part, and
    one owner's share includes `start`. `tile.total` of the result (also after scaling each row, or reducing further) gives the sum.
    So a loop that sums many tiles exchanges values between threads only once, at the end.
    `max` and `min` with `in_shares`: each owner holds the maximum or minimum of its own part, and every
    owner's share includes `start`.

    Example: `%m = tile.reduce max %s from %start {in_shares} : !tile.tile<[64, 32], f32> -> !tile.tile<[64], f32>`
  }];
  let arguments = (ins Tile_Reduction:$kind, Tile_AnyTile:$source, Tile_AnyTile:$start,
                       UnitAttr:$in_shares);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$kind $source `from` $start attr-dict `:` type($source) `->` type($start)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::tesela::tile::Reduction":$kind,
                                 "::mlir::Value":$source, "::mlir::Value":$start), [{
    build($_builder, $_state, result, kind, source, start, /*in_shares=*/false);
  }]>];
  let extraClassDeclaration = [{
    /// Whether the result is spread over the owners of a row.
    bool givesShares() { return getKind() == Reduction::Add || getInShares(); }
  }];
}

def Tile_TotalOp : Tile_Op<"total", [Pure]> {
  let summary = "combines the shares that `tile.reduce` left into sums, maxima or minima";
  let arguments = (ins Tile_AnyTile:$source,
                       DefaultValuedAttr<Tile_Reduction, "::tesela::tile::Reduction::Add">:$kind);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$source), [{
    build($_builder, $_state, result, source, Reduction::Add);
  }]>];
}

def Tile_AnyPositiveOp : Tile_Op<"any_positive", [Pure]> {
  let summary = "whether the value of some row is positive, with one answer for a warp";
  let description = [{
    True if x[i] > 0 for some row i that the warp owns, in any share of that row. All threads of a warp
    get the same answer; another warp may get another one. A branch on the result may contain only ops that one
    warp can run. With `group`, all threads that compute products together (sm_90a: a
    warpgroup) get the same answer, so the branch may contain products.

    Example: `%grew = tile.any_positive %excess : !tile.tile<[64], f32>`
  }];
  let arguments = (ins Tile_AnyTile:$source, UnitAttr:$group);
  let results = (outs I1:$result);
  let assemblyFormat = "$source (`group` $group^)? attr-dict `:` type($source)";
}

def Tile_PhaseOp : Tile_Op<"phase", [Pure]> {
  let summary = "where a column stands in a period of columns";
  let description = [{
        phase = (start + column) mod period

    for 1 <= period <= 256, 0 <= start < period and 0 <= column < 2048; otherwise the result is unspecified. `factor` is
    ⌊2^20 / period⌋ + 1. It is the same for the whole launch, like the period, so targets need no division
    (`targets/common/Phases.h`).

    A value that depends only on the phase repeats along a row. So a target may compute one pattern for all rows and
    rotate it by `start`.

    Example: `%p = tile.phase %start + %column of %period by %factor`
  }];
  let arguments = (ins I32:$start, I32:$column, I32:$period, I32:$factor);
  let results = (outs I32:$phase);
  let assemblyFormat = "$start `+` $column `of` $period `by` $factor attr-dict";
  let extraClassDeclaration = [{
    static constexpr int64_t mostPeriod = 256, mostColumns = 2048;
    /// ⌊x · factor / 2^factorBits⌋ = ⌊x / period⌋ where x · period < 2^factorBits.
    static constexpr int64_t factorBits = 20;
  }];
}

include "tile/AttentionOps.td"
include "tile/BlockOps.td"
include "tile/DropoutOps.td"
include "tile/MemoryOps.td"

#endif // TESELA_TILE_OPS
