//===- AttentionOps.td - Operations of attention ----------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The hooks for a variant, and the online softmax. TileOps.td includes this file.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_ATTENTION_OPS
#define TESELA_TILE_ATTENTION_OPS

defvar Tile_blocksOfScores = [{
    /// The block of queries and the block of keys, whichever has the rows.
    ::mlir::TypedValue<BlockType> getQueries() { return rowsAreKeys() ? getColumns() : getRows(); }
    ::mlir::TypedValue<BlockType> getKeys() { return rowsAreKeys() ? getRows() : getColumns(); }
    bool rowsAreKeys() { return getRows().getType().getAxis() == Axis::Key; }
}];

def Tile_ScoreOp : Tile_Op<"score", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "the hook for a variant's score";
  let description = [{
    Gives `score(scale · x[i, j], b, h, hkv, q, k)`. Without a region the op is a hook. If a
    variant's score is `s` itself, `tile-inline-variant` removes the op and
    `tile.exponent_factor` applies the scale, if the kernel has that op. `exact`: the region's ops are computed as they stand, without approximations.

    One block gives the tile's rows and the other its columns. One block is of queries, the other of
    keys. Only the block of the rows can have several heads.
  }];
  let arguments = (ins Tile_AnyTile:$source, F32:$scale, Tile_BlockType:$rows,
                       Tile_BlockType:$columns, UnitAttr:$exact);
  let results = (outs Tile_AnyTile:$result);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $source `scaled` `by` $scale `at` $rows `,` $columns attr-dict
    `:` type($source) `,` type($rows) `,` type($columns) (`do` $body^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = Tile_blocksOfScores;
}

def Tile_ScoreGradientOp : Tile_Op<"score_gradient", [Pure, AllTypesMatch<["gradient", "source", "result"]>]> {
  let summary = "the hook for the derivative of a variant's score";
  let description = [{
    Gives `gradient[i, j] · ∂score(s, b, h, hkv, q, k) / ∂s` at `s = scale · source[i, j]`. Without a region
    the op is a hook. `tile-inline-variant` fills it with the derivative of the score, or removes it if the
    derivative is 1. A piecewise function has the derivative of the side that is computed. Roundings and
    comparisons have the derivative 0. The blocks are those of `tile.score`.

    Example: `%ds = tile.score_gradient %dS of %qk scaled by %scale at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>`
  }];
  let arguments = (ins Tile_AnyTile:$gradient, Tile_AnyTile:$source, F32:$scale,
                       Tile_BlockType:$rows, Tile_BlockType:$columns);
  let results = (outs Tile_AnyTile:$result);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $gradient `of` $source `scaled` `by` $scale `at` $rows `,` $columns attr-dict
    `:` type($source) `,` type($rows) `,` type($columns) (`do` $body^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = Tile_blocksOfScores;
}

def Tile_ExponentFactorOp : Tile_Op<"exponent_factor", [Pure]> {
  let summary = "the factor that turns values of `tile.score` into exponents of two";
  let description = [{
    The factor is log₂e, or scale · log₂e if the variant's score is `s` itself. Until
    `tile-inline-variant` decides between the two, the op is a hook.
  }];
  let arguments = (ins F32:$scale);
  let results = (outs F32:$factor);
  let assemblyFormat = "$scale attr-dict";
}

def Tile_MaskOp : Tile_Op<"mask", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "the hook for a variant's mask";
  let description = [{
    Gives x[i, j] if `partial` is false. If `partial` is true: x[i, j] where `k < Sk` and `mask(b, h, hkv, q, k)`, and -inf elsewhere.
    Without a region the op is a hook, and the mask is `true`. The blocks are those of `tile.score`. If
    the columns are queries, the condition is `q < Sq` instead of `k < Sk`: rows beyond the end are
    not stored, but columns beyond the end would be summed.
  }];
  let arguments = (ins Tile_AnyTile:$source, I1:$partial, Tile_BlockType:$rows,
                       Tile_BlockType:$columns);
  let results = (outs Tile_AnyTile:$result);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = [{
    $source `if` $partial `at` $rows `,` $columns attr-dict
    `:` type($source) `,` type($rows) `,` type($columns) (`do` $body^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = Tile_blocksOfScores;
}

def Tile_SinkOp : Tile_Op<"sink", [Pure]> {
  let summary = "the hook for a variant's sink: a term in each row's denominator";
  let description = [{
    Gives `sink(b, h, hkv, q)` for each row, a natural logarithm. Without a region the op is a hook, and it gives -inf: there is
    no term. The sink counts once in a row. If several kernels share the keys of a row, only the kernel that combines
    their results has this hook.

    ```mlir
    // the hook
    %z = tile.sink at %rows : !tile.block<query, 64> -> !tile.tile<[64], f32>
    // after tile-inline-variant, for `sink = z[h]`
    %z = tile.sink at %rows : !tile.block<query, 64> -> !tile.tile<[64], f32> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
      %a = tile.read %sinks[%h] : !tile.view<[?], f32> -> f32
      tile.yield %a : f32
    }
    ```
  }];
  let arguments = (ins Tile_BlockType:$rows);
  let results = (outs Tile_AnyTile:$result);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = "`at` $rows attr-dict `:` type($rows) `->` type($result) (`do` $body^)?";
  let hasVerifier = 1;
}

def Tile_SoftmaxStepOp : Tile_Op<"softmax_step", [
    Pure, AllTypesMatch<["s", "p"]>, AllTypesMatch<["m", "l", "next_m", "next_l", "alpha"]>]> {
  let summary = "one step of the online softmax";
  let description = [{
    With c the exponent factor (FlashAttention-2, arXiv:2307.08691, algorithm 1, in base 2):

        m'[i] = max(m[i], max_j s[i, j])
        r[i]  = c · m'[i], or 0 where m'[i] = -inf
        p     = 2^(c · s - r)
        α     = 2^(c · m - r)
        l'    = α · l + Σ_j p[i, j]          (shares, see tile.reduce)
  }];
  let arguments = (ins Tile_AnyTile:$s, Tile_AnyTile:$m, Tile_AnyTile:$l, F32:$factor);
  let results = (outs Tile_AnyTile:$p, Tile_AnyTile:$next_m, Tile_AnyTile:$next_l, Tile_AnyTile:$alpha);
  let assemblyFormat = "$s `,` $m `,` $l `factor` $factor attr-dict `:` type($s) `,` type($m)";
  let hasVerifier = 1;
}

def Tile_RescaleOp : Tile_Op<"rescale", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "multiplies each row by a value";
  let arguments = (ins Tile_AnyTile:$source, Tile_AnyTile:$by);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$source `by` $by attr-dict `:` type($source) `,` type($by)";
  let hasVerifier = 1;
}

def Tile_FinishOp : Tile_Op<"finish", [
    Pure, AllTypesMatch<["o", "output"]>, AllTypesMatch<["m", "l", "lse"]>]> {
  let summary = "ends the online softmax";
  let description = [{
    With L the total of l:

        output[i, j] = o[i, j] / L[i],                   0 where L[i] = 0
        lse[i]       = ln 2 · (c · m[i] + log₂ L[i]),    -inf where L[i] = 0

    With a sink z, L[i] + 2^(log₂e · z[i] - c · m[i]) replaces L[i], computed without overflow. A
    row without keys then has the output 0 and lse[i] = z[i]. A sink of -inf changes nothing. A sink of NaN or +inf
    makes its row NaN.
  }];
  let arguments = (ins Tile_AnyTile:$o, Tile_AnyTile:$m, Tile_AnyTile:$l, F32:$factor,
                       Optional<Tile_AnyTile>:$sink);
  let results = (outs Tile_AnyTile:$output, Tile_AnyTile:$lse);
  let assemblyFormat = [{
    $o `,` $m `,` $l `factor` $factor (`sink` $sink^)? attr-dict
    `:` type($o) `,` type($m) (`,` type($sink)^)?
  }];
  let hasVerifier = 1;
}

#endif // TESELA_TILE_ATTENTION_OPS
