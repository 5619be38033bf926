//===- DropoutOps.td - Operations of dropout --------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The hooks for dropout, and the random tile that they become. TileOps.td includes this file.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_DROPOUT_OPS
#define TESELA_TILE_DROPOUT_OPS

def Tile_DropoutOp : Tile_Op<"dropout", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "the hook for dropout: puts zeros in place of dropped pairs";
  let description = [{
    Gives x[i, j], or 0 where dropout drops the pair of query and key. The op is a hook:
    `tile-lower-dropout` removes it from a kernel without dropout. Which pairs are dropped depends only on the launch's
    seed and offset and on b, h, q and k (`tile.bernoulli`), so all kernels of a launch drop the same pairs.
    The op does not scale the kept elements; `tile.dropout_scale` does. The blocks are those of `tile.score`.

    Example: `%x = tile.dropout %p at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>`
  }];
  let arguments = (ins Tile_AnyTile:$source, Tile_BlockType:$rows, Tile_BlockType:$columns);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $source `at` $rows `,` $columns attr-dict `:` type($source) `,` type($rows) `,` type($columns)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = Tile_blocksOfScores;
}

def Tile_DropoutScaleOp : Tile_Op<"dropout_scale", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "the hook for dropout's scale";
  let description = [{
    Gives x[i, j] / (1 - p), where p is the launch's dropout probability, and 0 if p = 1. With this scale the expected value of
    a sum of kept terms is the sum of all terms. `tile-lower-dropout` removes it from a kernel without dropout.

    Example: `%y = tile.dropout_scale %x : !tile.tile<[64, 32], f32>`
  }];
  let arguments = (ins Tile_AnyTile:$source);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def Tile_BernoulliOp : Tile_Op<"bernoulli", [Pure]> {
  let summary = "a tile of independent random bits, the same for every tile size and target";
  let description = [{
    The element of query q and key k is true with the probability (high + low / 2^31) / 256. Four 32-bit words
    serve 16 pairs: those with the same ⌊q/16⌋, ⌊k/16⌋, ⌊(q mod 8)/2⌋ and ⌊(k mod 8)/2⌋. In an accumulator's encoding one lane
    and its neighbour hold all 16 pairs, whether the rows are queries or keys. With

        c(i)    = 4 ⌊i/16⌋ + ⌊(i mod 8)/2⌋
        w       = Philox4x32 of 7 rounds, key 0, of the counter (keys ^ c(k), queries ^ c(q), w2, w3)
        j       = 8 (q mod 2) + 4 (⌊q/8⌋ mod 2) + 2 (⌊k/8⌋ mod 2) + k mod 2
        u       = bits 16 + j of w[0] to w[3], then bits j of these: 8 bits, the highest first
        v       = (w[0] ^ (w[1] rotated left by 13)) mod 2^31

    the element is true if u < high, or if u = high and v < low, for 0 <= high < 256 and 0 <= low <= 2^31. The
    16 pairs share v, which decides the comparison if u = high: once in 256 times.

    Philox: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.

    Rows are queries from `first_row` on and columns are keys from `first_column` on, both multiples of 16. With
    `transposed` rows are keys and columns queries; the operands `keys` and `queries` still belong to the keys and the queries.

    Example: `%t = tile.bernoulli %high, %low from %a, %b, %c, %d at %q, %k : !tile.tile<[64, 32], i1>`
  }];
  let arguments = (ins I32:$high, I32:$low, I32:$keys, I32:$queries, I32:$w2, I32:$w3, I32:$first_row,
                       I32:$first_column, UnitAttr:$transposed);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $high `,` $low `from` $keys `,` $queries `,` $w2 `,` $w3 `at` $first_row `,` $first_column
    (`transposed` $transposed^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = "static constexpr unsigned rounds = 7, rotation = 13;";
}

#endif // TESELA_TILE_DROPOUT_OPS
