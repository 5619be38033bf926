//===- Passes.td - From a template to the core --------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The passes that no target changes, in the order in which they run.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TRANSFORMS_PASSES
#define TESELA_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def AttnDifferentiate : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "write the derivatives of a variant's score and sink";
  let description = [{
    Puts behind each `attn.variant` an `attn.gradient`: the derivatives by `s`, by each f32 scalar and by
    each element of an f32, f16 or bf16 tensor that is read. `ReverseSweep.h` has the rule of each op.

    ```mlir
    // before: score = cap * tanh(s / cap)
    // after, with t = tanh(s / cap)
    attn.gradient of @softcap score {
    ^bb0(%s: f32, …):
      …
      attn.partial "s" is %a    // 1 - t * t
      attn.partial "cap" is %b  // t - (1 - t * t) * (s / cap)
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def TileBind : Pass<"tile-bind", "::mlir::ModuleOp"> {
  let summary = "give a template's parameters their values";
  let description = [{
    Replaces every parameter in extents and element types by its value, so that the kernel is
    verified anew with extents that are known; `tile.number` becomes a constant. `block_m`,
    `block_n` and `heads` come from the kernel's `schedule` where it has one.

    ```mlir
    // before, with bindings=d=64,input=bf16
    tile.kernel @k<d, input>(%q: !tile.view<[?, ?, ?, d], input>) {}
    // after
    tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], bf16>) {}
    ```
  }];
  let options = [ListOption<"bindings", "bindings", "std::string",
                            "name=value for each parameter: an integer, or f32, f16, bf16, i8, i32">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TileSharePrefix : Pass<"tile-share-prefix", "::mlir::ModuleOp"> {
  let summary = "compute the keys that all sequences begin with once for all of them";
  let description = [{
    Each kernel of a bound template becomes two: one of the prefix, whose rows are the tokens of all sequences, and one of the suffixes,
    which begins behind the prefix. What the first leaves is in workspaces of f32; a kernel that is there already, with
    `tile.prefix_part = "join"` (templates/join_prefix.mlir), joins it with `o` and `lse`, and gets the new arguments, too:

    | argument | | |
    |---|---|---|
    | `$prefix_table` | i32[1, pages] | pages of the prefix |
    | `$prefix_length` | i32[1] | its keys, which are positions 0 to `$prefix_length` - 1 of every sequence |
    | `$query_positions` | i32[tokens] | the position of each token of a query |
    | `$query_sequences` | i32[tokens] | its sequence |
    | `$query_keys` | i32[tokens] | the keys of that sequence, the prefix included |

    `tile-place-views` places both kinds of kernels, and `tile-inline-variant` gives hooks of the prefix the true q, b, Sq and Sk of each
    row, and no sink; masks of the suffix keep no key of the prefix. The launch of a kernel of tokens has the extents B = 1 and
    Sq = tokens.

    ```mlir
    // before
    tile.kernel @k(in %q: …, out %o: !tile.view<[B, H, Sq, 64], f16>) {
    // after
    tile.kernel @k_of_prefix(in %q: …, workspace %o_of_prefix: !tile.view<[B * 1, H, Sq, 64], f32>, %$prefix_table: …, …)
        attributes {tile.prefix_part = "prefix"} {
    tile.kernel @k(in %q: …, out %o: !tile.view<[B, H, Sq, 64], f16>, %$prefix_table: …, …) attributes {tile.prefix_part = "suffix"} {
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tesela::tile::TileDialect"];
}

def TilePlaceViews : Pass<"tile-place-views", "::tesela::tile::KernelOp"> {
  let summary = "say where the queries and keys of each sequence lie, and at which positions";
  let description = [{
    A template is written for tensors `[B, heads, Sq, …]` and `[B, heads, Sk, …]`. This pass changes which tensors a bound kernel takes,
    and leaves what it computes. Of each argument `in`, `out` or `optional` that begins with B, the third axis decides:

    | option | tensors with the axis | become | and the kernel takes |
    |---|---|---|---|
    | `queries=ragged` | Sq | `[1, heads, ?, …]`, sequences one after the other | `starts_q` i32[B + 1] |
    | `keys=ragged` | Sk | likewise | `starts_k` i32[B + 1] |
    | `keys=paged`, `page=N` | Sk | pages `[?, heads, N, …]` | `table` i32[B, ?], `lengths` i32[B] |

    `positions` says at which position of the keys a sequence's first query stands: `begin` at 0, `end` so that the last ones are the
    same, `given` at `offsets` i32[B]. Starts, lengths and offsets that are wrong are brought into the tensors, so that no access leaves them.

    Kernels of `tile-share-prefix` with tokens as rows have `queries=ragged` of one batch, from the first start to the last, and
    `keys=paged` by `$prefix_table` and `$prefix_length`. Of suffixes `tile.sequence_keys` counts the keys behind the prefix.

    The work item's block stays for all that lies in dense memory; loops and hooks get the block of `tile.sequence`.
    `tile.sequence_keys` is replaced, without options by the launch's Sk.

    ```mlir
    // before, with queries=ragged
    tile.kernel @k(in %q: !tile.view<[B, H, Sq, 64], f16>, …) {
      %rows = tile.work : !tile.block<query, 64>
      %Q = tile.load %q[%rows] : …
      … = tile.blocks %keys, %partial of %rows : …
    // after
    tile.kernel @k(in %q: !tile.view<[1, H, ?, 64], f16>, …, in %starts_q: !tile.view<[B + 1], i32>) {
      %item = tile.work : !tile.block<query, 64>
      …
      %rows = tile.sequence %item from %zero of %queries, %keys : !tile.block<query, 64>
      %q2 = tile.ragged %q from %start : !tile.view<[1, H, ?, 64], f16> -> !tile.view<[B, H, Sq, 64], f16>
      %Q = tile.load %q2[%rows] : …
      … = tile.blocks %keys, %partial of %rows : …
    ```
  }];
  let options = [
    Option<"queries", "queries", "std::string", "\"dense\"", "dense or ragged">,
    Option<"keys", "keys", "std::string", "\"dense\"", "dense, ragged or paged">,
    Option<"page", "page", "int64_t", "0", "rows of a page">,
    Option<"positions", "positions", "std::string", "\"begin\"", "begin, end or given">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tesela::tile::TileDialect"];
}

def TileValuesOfKeys : Pass<"tile-values-of-keys", "::tesela::tile::KernelOp"> {
  let summary = "let values be the first columns of the keys";
  let description = [{
    A template has keys and values of their own. With `values=keys` there is one tensor, as multi-head latent attention has it: of two
    arguments `in` of a bound kernel, `[B, heads, Sk, D]`, the second one goes, and what was loaded through it is the first
    columns of the first one. Runs before `tile-place-views`, which then places one tensor.

    ```mlir
    // before
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 576], bf16>[…] -> !tile.tile<[64, 576], bf16>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, 512], bf16>[…] -> !tile.tile<[64, 512], bf16>
    // after
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 576], bf16>[…] -> !tile.tile<[64, 576], bf16>
    %v = tile.first_columns %k : !tile.view<[B, Hkv, Sk, 576], bf16> -> !tile.view<[B, Hkv, Sk, 512], bf16>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, 512], bf16>[…] -> !tile.tile<[64, 512], bf16>
    ```
  }];
  let dependentDialects = ["::tesela::tile::TileDialect"];
}

def TileNarrowKeys : Pass<"tile-narrow-keys", "::tesela::tile::KernelOp"> {
  let summary = "take keys and values of 8 bits, with scales";
  let description = [{
    A template multiplies keys and values of the input's type. With `cache=e4m3` the kernel takes elements of 8 bits instead,
    K = k_scale · k and V = v_scale · v, and converts them, exactly, as it has loaded them. Of each argument `in` of a bound kernel,
    `[B, heads, Sk, D]` or what `tile-place-views` made of it, called x:

    | option | the kernel takes | keys' scale goes to | values' scale goes to |
    |---|---|---|---|
    | `scales=head` | `x_scale` f32[?], by kv head | the softmax scale | what `tile.finish` gives |
    | `scales=page` | `x_scale` f32[?, ?], by page and kv head | the columns of S | the columns of P |

    Keys are right operands of transposed products, whose results go to `tile.score`; values are right operands of others. An extent
    of 1 is one scale for all heads, or pages (indices are clamped). What P has no part in (0 · NaN) stays out of the sums.

    ```mlir
    // before
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[…] -> !tile.tile<[64, 64], bf16>
    %QK = tile.dot %Q, %K transposed plus %zero : …
    %T = tile.score %QK scaled by %scale at %rows, %keys : …
    // after, with scales=head
    %k_scale = tile.read %k_scales[%kv_head] : !tile.view<[?], f32> -> f32
    %both = arith.mulf %scale, %k_scale : f32
    %k8 = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], f8E4M3FN>[…] -> !tile.tile<[64, 64], f8E4M3FN>
    %K = tile.convert %k8 : !tile.tile<[64, 64], f8E4M3FN> -> !tile.tile<[64, 64], bf16>
    %QK = tile.dot %Q, %K transposed plus %zero : …
    %T = tile.score %QK scaled by %both at %rows, %keys : …
    ```
  }];
  let options = [
    Option<"scales", "scales", "std::string", "\"head\"", "head or page">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tesela::tile::TileDialect"];
}

def TileSplitOutputs : Pass<"tile-split-outputs", "::mlir::ModuleOp"> {
  let summary = "give each output of a kernel a kernel of its own";
  let description = [{
    Where the schedule says `split_outputs`, a kernel with products that stores several outputs at its end becomes as many
    kernels, named after their outputs. Each has what its output follows from: loads, products, carried values and arguments that
    only others need are gone. What both need is computed twice; in return a thread holds the sums of one output alone.

    ```mlir
    // before
    tile.kernel @keys(in %q, in %do, out %dk, out %dv) {
      %dK, %dV = tile.blocks … carry (%dK1 = %zero, %dV1 = %zero) {
        %S = tile.dot …
        …
        tile.yield %dK2, %dV2
      }
      tile.store %dK, %dk[%keys]
      tile.store %dV, %dv[%keys]
    }
    // after
    tile.kernel @keys_dk(in %q, in %do, out %dk) {
      %dK = tile.blocks … carry (%dK1 = %zero) {
        %S = tile.dot …
        …
        tile.yield %dK2
      }
      tile.store %dK, %dk[%keys]
    }
    tile.kernel @keys_dv(in %q, in %do, out %dv) {…}
    ```
  }];
}

def TileInlineVariant : Pass<"tile-inline-variant", "::mlir::ModuleOp"> {
  let summary = "put a variant's score, mask and sink into the hooks of a kernel";
  let description = [{
    The module holds one `attn.variant` and kernels. Fills the regions of `tile.score`,
    `tile.mask` and, where there is a sink, `tile.sink`, makes the parameters that they use arguments of
    the kernel (named with a leading `$`) and erases the variant. A score that is `s` itself leaves no op behind where
    the kernel has a `tile.exponent_factor`, which then carries the scale. `tile.score_gradient` gets the derivative of the
    score (`ReverseSweep.h`); `tile.score_partials` and `tile.sink_partials` add to the gradients of the parameters that
    `gradients` names, in views that become arguments of the kernel (`ParameterGradients.h`). In masks, and in exact scores,
    the transcendental functions become their exact form.

    ```mlir
    // before
    %t = tile.score %x scaled by %scale at %rows, %keys : …
    // after, for `score = s + slope[h]`
    %t = tile.score %x scaled by %scale at %rows, %keys : … do {
    ^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %a = tile.read %slope[%h] : !tile.view<[?], f32> -> f32
      %r = arith.addf %s, %a : f32
      tile.yield %r : f32
    }
    ```
  }];
  let options = [ListOption<"gradients", "gradients", "std::string",
                            "parameters whose gradients are asked for">];
  let dependentDialects = ["::tesela::tile::TileDialect", "::mlir::math::MathDialect"];
}

def TileLowerDropout : Pass<"tile-lower-dropout", "::tesela::tile::KernelOp"> {
  let summary = "make dropout's hooks random tiles, or remove them";
  let description = [{
    With `drops`, the kernel gets dropout's scalars as arguments (`frontend/Dropout.h`). `tile.dropout` becomes a `tile.map` that
    puts zeros where a `tile.bernoulli` is true, and `tile.dropout_scale` a `tile.map`. What the launch's seed
    and offset give is computed once at the kernel's begin. Without `drops` both ops go, and the kernel is as if they
    had not been written.

    ```mlir
    // before
    %x = tile.dropout %p at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
    // after, with drops
    %t = tile.bernoulli %high, %low from %a, %b, %c, %d at %first_query, %first_key : !tile.tile<[64, 32], i1>
    %x = tile.map %p, %t : … {
    ^bb0(%e: f32, %dropped: i1, %row: i32, %column: i32):
      %r = arith.select %dropped, %zero, %e : f32
      tile.yield %r : f32
    }
    ```
  }];
  let options = [Option<"drops", "drops", "bool", /*default=*/"false", "whether the kernel drops pairs">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TileKeyRanges : Pass<"tile-key-ranges", "::tesela::tile::KernelOp"> {
  let summary = "prove which keys a block of queries can need, or which queries a block of keys";
  let description = [{
    For each `tile.blocks` whose body has one `tile.mask`, computes before the loop which keys the mask, and a score
    that is -inf, may keep for some query of the block (or, where the loop is over queries, which queries for
    some key of the block), and which the mask may drop (see
    `analysis/MaskRegions.h`): as intervals where these say all, else by a test of boxes of keys.

    ```mlir
    // before, the mask being q >= k
    tile.blocks %keys, %partial of %rows : … {…}
    // after
    tile.blocks %keys, %partial of %rows : … runs (%zero, %last_query_plus_1) drops (%first_query_plus_1, %Sk) {…}

    // before, the mask being documents[q] == documents[k]
    tile.blocks %keys, %partial of %rows : … {…}
    // after
    %a, %b = tile.bounds %documents[%first_query] to [%last_query] within [128] : …
    %found, %count = tile.find_blocks from %zero to %Sk : !tile.found_blocks<64> one {
    ^bb0(%first: i32, %last: i32):
      %c, %d = tile.bounds %documents[%first] to [%last] within [64] : …
      …   // [a, b] and [c, d] meet, are not one and the same value
      tile.yield %keeps, %drops : i1, i1
    } many {…}
    tile.blocks %keys, %partial of %rows : … among %found {…}
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def TileLowerScores : Pass<"tile-lower-scores", "::tesela::tile::KernelOp"> {
  let summary = "bring scores into a normal form that costs little an element";
  let description = [{
    `tile.score` becomes a `tile.map` of `Σ cᵢ · vᵢ + u` (see `ScoreTranslation.h`): what is the same
    for a tile is computed outside of the map, and before the loop where it is the same for all blocks;
    quotients by such values become products with the inverse; a position becomes the f32 of the
    tile's first one plus an exact offset.

    `tile.score_gradient` becomes a `tile.map`, too: its tile times the derivative. Where the derivative does not read the
    product of q and k, the map stands in front of what uses it.

    Where all that the score becomes is exponents, c · score of a softmax or c · score + d of maps, c carries a factor of it:

        scale · x + c₁ · v₁ + u   →   x + (c₁ / scale) · v₁ + u / scale,   c' = c · scale
        f · tanh(x)               →   tanh(±x),                            c' = c · |f|

    An exact score keeps its ops as they stand.

    ```mlir
    // before: s + slope · (k - q)
    %t = tile.score %x scaled by %scale at %rows, %keys : … do {
    ^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %d = arith.subi %k, %q : i32
      %f = arith.sitofp %d : i32 to f32
      %p = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %p : f32
      tile.yield %r : f32
    }
    // after
    %t = tile.map %x : … {
    ^bb0(%e: f32, %row: i32, %column: i32):
      %o = arith.subi %column, %row : i32
      %i = arith.sitofp %o : i32 to f32
      %f = arith.addf %first, %i fastmath<reassoc> : f32
      %r = math.fma %coefficient, %f, %e : f32
      tile.yield %r : f32
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def TileLowerMasks : Pass<"tile-lower-masks", "::tesela::tile::KernelOp"> {
  let summary = "bring masks into a form that costs little an element";
  let description = [{
    `tile.mask` becomes a branch on `partial` around a `tile.map` that keeps an element where its key is less than
    `Sk` and the mask keeps it. What is the same for all blocks of keys is computed before the loop: scalars, and
    as a tile of rows what follows from the row alone (a read, a quotient, a reduction). Comparisons that are linear
    in the key become bounds of the column, computed once a row (see `MaskTranslation.h`); the rest stays as it is
    written, element by element.

    Where the mask divides by a value C of the launch, the map holds for C >= `block_n`, with at most two
    quotients in a row. Where it reads by the key, the map holds for tiles whose keys are all less than `Sk`. The
    other side of a branch holds always, and is marked as `seldom` taken.

    Where the kernel has consumers that overlap products and its blocks are looked for, the masking is in two: a tile of i1 that
    says which elements are kept and needs no scores, so that it can be asked beside a product, and be used again
    where scores are computed again; and a map that chooses by it.

    ```mlir
    // before: q - k < window && id[q] == id[k]
    %t = tile.mask %x if %partial at %rows, %keys : … do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %d = arith.subi %q, %k : i32
      %near = arith.cmpi slt, %d, %window : i32
      %i = tile.read %id[%q] : !tile.view<[?], i32> -> i32
      %j = tile.read %id[%k] : !tile.view<[?], i32> -> i32
      %same = arith.cmpi eq, %i, %j : i32
      %r = arith.andi %near, %same : i1
      tile.yield %r : i1
    }
    // after
    %ids = tile.map : () -> !tile.tile<[64], i32> {…}                      // before the loop
    %t = scf.if %partial {
      %m = tile.map %x, %ids : … {                                          // of two: all keys are less than Sk
      ^bb0(%e: f32, %i: i32, %row: i32, %column: i32):
        …                                                                   // q - first_key - window + 1, held
        %near = arith.cmpi sge, %column, %bound : i32
        %k = arith.addi %first_key, %column : i32
        %j = tile.read %id[%k] : !tile.view<[?], i32> -> i32
        %same = arith.cmpi eq, %i, %j : i32
        …
        %r = arith.select %keeps, %e, %minus_infinity : f32
        tile.yield %r : f32
      }
      scf.yield %m
    } else {
      scf.yield %x
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileSequenceExtents : Pass<"tile-sequence-extents", "::tesela::tile::KernelOp"> {
  let summary = "give a sequence's extents to all that asks for Sq and Sk";
  let description = [{
    In a kernel with a `tile.sequence` the extents Sq and Sk that the hooks, the loops and the masks ask for are those of the
    sequence. Other kernels stay as they are.

    ```mlir
    // before
    %rows = tile.sequence %item from %from of %queries, %keys : !tile.block<query, 64>
    %n = tile.extent "Sk"
    … %n
    // after
    %rows = tile.sequence %item from %from of %queries, %keys : !tile.block<query, 64>
    … %keys
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TileOwnTiles : Pass<"tile-own-tiles", "::tesela::tile::KernelOp"> {
  let summary = "let a work item store each tile of a gradient once";
  let description = [{
    A work item of a kernel with `tile.score_partials` goes over the batches, or heads, that share an element, and in each over blocks of
    keys: what all of them add to an element goes to memory as often as there are batches. Where the blocks are the same in each batch, a
    block can be taken for all batches before the next one, its sums kept in registers, and stored once. This pass decides
    that, by the kernel's `tile.owns_tiles`, where the hook adds nothing else than one `tile.deposit`, and neither the element nor the blocks of
    keys change with what is summed over (the options). The deposit becomes `tile.put`, and its view one of the
    captured tensor's own type: nothing is cleared before, nothing rounded behind. `tile-join-loops` makes the loop.

    ```mlir
    // before
    %c = tile.deposit %d into %$bias.gradient[%h, %q, %k] : !tile.view<[?, ?, ?], f32>
    // after
    %c = tile.put %d into %$bias.gradient[%h, %q, %k] : !tile.view<[?, ?, ?], bf16>
    ```
  }];
  let options = [
    Option<"sumsBatches", "sums-batches", "bool", "false", "the loop around the blocks goes over batches">,
    Option<"sumsHeads", "sums-heads", "bool", "false", "the loop around the blocks goes over heads">,
  ];
}

def TileDecompose : Pass<"tile-decompose", "::tesela::tile::KernelOp"> {
  let summary = "turn the steps of attention into maps and reductions";
  let description = [{
    `tile.softmax_step`, `tile.rescale`, `tile.sink` and `tile.finish` become
    `tile.map`, `tile.reduce`, `tile.total` and `scf.if`: no target knows of softmax.
    `attn.floor_div`, `attn.floor_mod` and `attn.to_int` become arith ops, `attn.reduce` becomes `scf.for`.

    ```mlir
    // before
    %y = tile.rescale %o by %alpha : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    // after
    %y = tile.map %o, %alpha : (…) -> !tile.tile<[64, 32], f32> {
    ^bb0(%x: f32, %a: f32, %row: i32, %column: i32):
      %p = arith.mulf %x, %a : f32
      tile.yield %p : f32
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}

def TileJoinLoops : Pass<"tile-join-loops", "::tesela::tile::KernelOp"> {
  let summary = "sum a tile over batches in registers";
  let description = [{
    Of a kernel with `tile.owns_tiles`: the loop over batches and the one over blocks of keys inside it become one, whose
    inner number is the batch's. It carries what the batches of a block have given, which the last of them stores. Blocks that the loop does
    not go over are stored as zeros before it.

    ```mlir
    // before
    scf.for %b = %zero to %batches step %one {
      %Q = tile.load %q[%rows_b] : …
      scf.for %n = %low to %high step %one {
        …
        %a = tile.map %dS : … {… tile.put %x into %$bias.gradient[%h, %i, %j] …}
        tile.perform %a : …
      }
    }
    // after
    scf.for %t = %low_t to %high_t step %one iter_args(%sum = %zeros) {
      %n = arith.divui %t, %batches : i32
      %b = arith.remui %t, %batches : i32
      %Q = tile.load %q[%rows_b] : …
      …
      %all = tile.map %dS, %sum : … {… arith.addf …}
      %next = scf.if %is_last {
        %a = tile.map %all : … {… tile.put %x into %$bias.gradient[%h, %i, %j] …}
        tile.perform %a : …
        scf.yield %zeros
      } else {
        scf.yield %all
      }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileSplitReads : Pass<"tile-split-reads", "::tesela::tile::KernelOp"> {
  let summary = "read without clamps where a whole tile's reads are inside a view";
  let description = [{
    For maps whose reads have indices that are linear in row and column. It costs a copy of the map, marked
    as `seldom` run, so it is for targets where an element's clamps and strides cost more than a branch of the tile.
    Maps that are `seldom` run stay one.

    ```mlir
    // before
    %t = tile.map %s : … {… tile.read %table[%h, %i] …}
    // after, with %i = %base + row - column in a tile of 64 × 32
    %inside = tile.covers %table[%h, %base] low [0, -31] high [0, 63] : …
    %t = scf.if %inside {
      %u = tile.map %s : … {… tile.read %table[%h, %i] {covered} …}
      scf.yield %u
    } else {
      %u = tile.map %s {tile.seldom} : … {… tile.read %table[%h, %i] …}
      scf.yield %u
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileLowerBlocks : Pass<"tile-lower-blocks", "::tesela::tile::KernelOp"> {
  let summary = "turn loops over blocks into scf.for";
  let description = [{
    ```mlir
    // before
    tile.blocks %keys, %partial of %rows : … runs (%low, %high) drops (%first, %end) {…}
    // after
    scf.for %j = %low_block to %high_block step %one : i32 {
      %keys = tile.block %j of %rows : …
      %partial = …   // the block holds a key of [first, end), or reaches beyond Sk
      …
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileLowerBounds : Pass<"tile-lower-bounds", "::tesela::tile::KernelOp"> {
  let summary = "bounds of captured tensors from their summaries";
  let description = [{
    `tile.bounds` becomes reads of the tensor's summary, an argument of the kernel that other launches fill
    (see `CaptureSummary.h`), all at once where the box is small; a box of one element becomes a read of the tensor
    itself. `tile.has_element` becomes loops over the box's elements. Of a box that extends in more than two axes nothing is known. The kernel's attribute
    `tile.summaries` says which summaries it reads.

    ```mlir
    // before
    %a, %z = tile.bounds %doc[%b, %first] to [%b, %last] within [1, 64] : !tile.view<[?, ?], i32> -> i32
    // after
    %low = tile.read %doc.summary0[%zero, %b, %granule] : !tile.view<[?, ?, ?], i32> -> i32
    …
    %a = arith.minsi %low, %low1 : i32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

#endif // TESELA_TRANSFORMS_PASSES
