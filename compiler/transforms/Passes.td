//===- Passes.td - From a template to the core --------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The passes that are the same for all targets, in the order in which they run.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TRANSFORMS_PASSES
#define TESELA_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def AttnDifferentiate : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "write the derivatives of a variant's score and sink";
  let description = [{
    Inserts an `attn.gradient` after each `attn.variant`: the derivatives by `s`, by each f32 scalar and by
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
    Replaces every parameter in extents and element types by its value. The kernel is
    then verified with known extents. `tile.number` becomes a constant. If the kernel has a `schedule`,
    `block_m`, `block_n` and `heads` come from it.

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
  let summary = "compute the keys that all sequences begin with only once";
  let description = [{
    Each kernel of a bound template becomes two: a kernel of the prefix, whose rows are the tokens of all sequences, and a kernel of the
    suffixes, which begins after the prefix. The kernel of the prefix stores its results in workspaces of f32. A third kernel, which the module
    must have (templates/join_prefix.mlir, with `tile.prefix_part = "join"`), joins them with `o` and `lse`. All kernels get the arguments

    | argument | | |
    |---|---|---|
    | `$prefix_table` | i32[1, pages] | the pages of the prefix |
    | `$prefix_length` | i32[1] | the number of its keys, which are positions 0 to `$prefix_length` - 1 of every sequence |
    | `$query_positions` | i32[tokens] | the position of each query token |
    | `$query_sequences` | i32[tokens] | the number of its sequence |
    | `$query_keys` | i32[tokens] | the number of keys of that sequence, including the prefix |

    `tile-place-views` places both kinds of kernels. `tile-inline-variant` gives hooks of the prefix the q, b, Sq and Sk of the row's own
    sequence, and no sink. Masks of the suffix keep no key of the prefix. The launch of a kernel of tokens has the extents B = 1 and
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
    A template is written for tensors `[B, heads, Sq, …]` and `[B, heads, Sk, …]`. This pass changes which tensors a bound kernel takes, but not
    what it computes. It changes each argument `in`, `out` or `optional` whose first axis is B, depending on its third axis:

    | option | tensors with the axis | become | and the kernel takes |
    |---|---|---|---|
    | `queries=ragged` | Sq | `[1, heads, ?, …]`, sequences one after the other | `starts_q` i32[B + 1] |
    | `keys=ragged` | Sk | `[1, heads, ?, …]`, sequences one after the other | `starts_k` i32[B + 1] |
    | `keys=paged`, `page=N` | Sk | pages `[?, heads, N, …]` | `table` i32[B, ?], `lengths` i32[B] |

    `positions` gives the position, among the keys, of a sequence's first query: 0 with `begin`; with `end` such that the last query has the
    position of the last key; with `given`, `offsets` i32[B]. Wrong starts, lengths and offsets are clamped, so that no access leaves the tensors.

    Kernels of `tile-share-prefix` that have tokens as rows get `queries=ragged` of one batch, from the first start to the last, and
    `keys=paged` by `$prefix_table` and `$prefix_length`. In kernels of suffixes `tile.sequence_keys` counts only the keys after the prefix.

    Dense tensors are still accessed at the work item's block. Loops and hooks get the block of `tile.sequence`.
    `tile.sequence_keys` is replaced; without options it becomes the launch's Sk.

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
  let summary = "use the first columns of the keys as values";
  let description = [{
    A template has a tensor of keys and a tensor of values. With `values=keys` there is only one, as in multi-head latent attention. A bound
    kernel then has two arguments `in`, `[B, heads, Sk, D]`. The pass removes the second one. Loads from it become loads of the first
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
  let summary = "take 8-bit keys and values, with scales";
  let description = [{
    A template multiplies keys and values of the input's type. With `cache=e4m3` the kernel takes 8-bit elements instead,
    K = k_scale · k and V = v_scale · v, and converts them exactly after each load. For each argument `in` of a bound kernel that is
    `[B, heads, Sk, D]` (or the result of `tile-place-views` on such a view), called x:

    | option | the kernel takes | the keys' scale multiplies | the values' scale multiplies |
    |---|---|---|---|
    | `scales=head` | `x_scale` f32[?], by kv head | the softmax scale | the output of `tile.finish` |
    | `scales=page` | `x_scale` f32[?, ?], by page and kv head | the columns of S | the columns of P |

    Keys are right operands of transposed products, whose results go to `tile.score`. Values are right operands of other products. An extent
    of 1 is one scale for all heads, or for all pages (indices are clamped). Where P is 0 it stays 0, even if the scale is NaN.

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
    If the schedule has `split_outputs`, a kernel with products that stores several outputs at its end becomes one kernel for each
    output, named after the output. Each kernel keeps only the loads, products, carried values and arguments that its output
    depends on. A store to a workspace stays with the output that is computed from the same tile. An addition to a workspace (`tile.accumulate`) stays with the output that needs most of its products. Values that several outputs need are computed in each kernel. In return a thread holds the sums of only one output.

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

def TileAddInTurn : Pass<"tile-add-in-turn", "::mlir::ModuleOp"> {
  let summary = "fix the order in which work items add to shared sums";
  let description = [{
    If the schedule has `add_in_turn`, the work items of a kernel with a `tile.accumulate` add in a fixed order (`tile.order_additions`). The kernel gets
    a workspace for the turns. The kernel that sets the sums to 0 also sets the turns to 0: its work item i of n in a head
    clears the turns of the blocks of keys i, i + n, ….

    ```mlir
    // before
    tile.kernel @rows(workspace %sum) {
      %rows = tile.work
      tile.store %zero, %sum[%rows]
    }
    tile.kernel @keys(workspace %sum) {
      %keys = tile.work
      tile.blocks %first of %keys {
        %queries = tile.block %first head %head of …
        tile.accumulate %dQ, %sum[%queries]
      }
    }
    // after
    tile.kernel @rows(workspace %sum, workspace %turns) {
      %rows = tile.work
      tile.store %zero, %sum[%rows]
      scf.for %block = %i to %blocks step %n {
        %keys = tile.block … head %head of %rows
        tile.store %none, %turns[%keys]
      }
    }
    tile.kernel @keys(workspace %sum, workspace %turns) {
      %keys = tile.work
      %own = tile.block %first_key head %head of %keys
      tile.order_additions by %turns[%own] part %part
      tile.blocks … // as before
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileOrderItems : Pass<"tile-order-items", "::tesela::tile::KernelOp"> {
  let summary = "choose the order of work items that add in turn";
  let description = [{
    Work items that add in a fixed order (`tile.order_additions`) start in that order. The pass chooses it for the `tile.work`:

    | | order |
    |---|---|
    | the schedule has `last_keys_first` | `first_keys_first` |
    | the first blocks of keys may have the most queries: there is one run, it ends at the same query for all blocks of keys, and its first query depends on the block | `last_keys_first_but_at_end` |
    | otherwise | `last_keys_first` |

    Under a causal mask a work item begins at its diagonal. If the last keys come first, the work item before begins at later queries, and adds to each
    block of queries first. So hardly any work item waits. But then the longest work items start last, and at the end of a launch some multiprocessors have
    nothing to do. So in the last group of heads both orders are turned around: the first keys and the last queries come first.

    ```mlir
    // before
    %keys = tile.work : !tile.block<key, 128>
    tile.order_additions by %turns[%own] …
    // after
    %keys = tile.work order last_keys_first_but_at_end : !tile.block<key, 128>
    tile.order_additions by %turns[%own] …
    ```
  }];
}

def TileInlineVariant : Pass<"tile-inline-variant", "::mlir::ModuleOp"> {
  let summary = "put a variant's score, mask and sink into the hooks of a kernel";
  let description = [{
    The module has one `attn.variant` and kernels. The pass fills the regions of `tile.score`,
    `tile.mask` and, if the variant has a sink, `tile.sink`. It makes the parameters that they use arguments of
    the kernel (with a leading `$`) and erases the variant. If the score is `s` itself and the kernel has a
    `tile.exponent_factor`, the score needs no op, and the factor includes the scale. `tile.score_gradient` gets the derivative of the
    score (`ReverseSweep.h`). `tile.score_partials` and `tile.sink_partials` get additions to the gradients of the parameters that
    `gradients` names; the views to which they add become arguments of the kernel (`ParameterGradients.h`). In masks, and in
    exact scores, transcendental functions are replaced by their exact form.

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
  let summary = "turn dropout's hooks into random tiles, or remove them";
  let description = [{
    With `drops`, the kernel gets dropout's scalars as arguments (`frontend/Dropout.h`). `tile.dropout` becomes a `tile.map` that
    writes 0 where a `tile.bernoulli` is true, and `tile.dropout_scale` becomes a `tile.map`. Values that depend only on the launch's seed
    and offset are computed once, at the kernel's start. Without `drops` both ops are removed, and the kernel is the same as
    without them.

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
  let summary = "prove which keys a block of queries may need, or which queries a block of keys may need";
  let description = [{
    For each `tile.blocks` whose body has one `tile.mask`, computes before the loop which keys may be kept for some query of
    the block, by the mask and by a score that is not -inf, and which keys the mask may drop. If the loop is over queries, it
    computes which queries may be kept for some key of the block (see `analysis/MaskRegions.h`). The result is intervals if
    these are exact enough, and otherwise a test of boxes of keys.

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
      …   // keeps: [a, b] and [c, d] overlap. drops: they are not one and the same value
      tile.yield %keeps, %drops : i1, i1
    } many {…}
    tile.blocks %keys, %partial of %rows : … among %found {…}
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def TileLowerScores : Pass<"tile-lower-scores", "::tesela::tile::KernelOp"> {
  let summary = "bring scores into a normal form that is cheap for each element";
  let description = [{
    `tile.score` becomes a `tile.map` of `Σ cᵢ · vᵢ + u` (see `ScoreTranslation.h`). Values that are the same
    for a tile are computed outside the map, and before the loop if they are the same for all blocks.
    Quotients by such values become products with the inverse. A position becomes the f32 of the
    tile's first position plus an exact offset.

    `tile.score_gradient` becomes a `tile.map`, too: its tile times the derivative. If the derivative does not read the
    product of Q and K, the map moves down to its first user.

    If the score is only used in exponents, c · score of a softmax or c · score + d of maps, c takes over a factor of the score:

        scale · x + c₁ · v₁ + u   →   x + (c₁ / scale) · v₁ + u / scale,   c' = c · scale
        f · tanh(x)               →   tanh(±x),                            c' = c · |f|

    An exact score keeps its ops unchanged.

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
  let summary = "bring masks into a form that is cheap for each element";
  let description = [{
    `tile.mask` becomes a branch on `partial` around a `tile.map`. The map keeps an element if its key is less than
    `Sk` and the mask is true. Values that are the same for all blocks of keys are computed before the loop: scalars, and,
    as a tile of rows, values that depend only on the row (a read, a quotient, a reduction). Comparisons that are linear
    in the key become bounds of the column, computed once for each row (see `MaskTranslation.h`). Everything else is computed
    for each element, as written.

    If the mask divides by a value C of the launch, the fast version of the map assumes C >= `block_n`, so that a row has at most
    two quotients. If it reads at the key, the fast version assumes that all keys of the tile are less than `Sk`. The
    other side of the branch assumes nothing, and is marked as `seldom` taken.

    If the kernel has consumers that overlap products, and its blocks are found by tests, the masking has two parts. A tile of i1
    says which elements are kept. It needs no scores, so it can be computed beside a product, and used again
    if scores are computed again. A map then selects with this tile.

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
      %m = tile.map %x, %ids : … {                                          // one of two versions: all keys are less than Sk
      ^bb0(%e: f32, %i: i32, %row: i32, %column: i32):
        …                                                                   // bound: q - first_key - window + 1, clamped
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
  let summary = "replace Sq and Sk by the extents of a sequence";
  let description = [{
    In a kernel with a `tile.sequence`, the extents Sq and Sk that hooks, loops and masks use are those of the
    sequence. Other kernels do not change.

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
  let summary = "store each tile of a gradient once";
  let description = [{
    A work item of a kernel with `tile.score_partials` loops over the batches (or heads) that share an element of the gradient, and in each
    over blocks of keys. So each element is written to memory once for each batch. If all batches have the same blocks, the
    loops can be exchanged: one block for all batches, then the next block. Its sums stay in registers and are stored once. This pass
    decides it and marks the kernel with `tile.owns_tiles`. The conditions: the hook has exactly one addition, a `tile.deposit`, and neither the
    element nor the blocks of keys depend on what is summed over (the options). The deposit becomes `tile.put`, and its view gets the
    captured tensor's own type, so no kernel needs to clear or round the gradient. `tile-join-loops` then exchanges the loops.

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
    `tile.map`, `tile.reduce`, `tile.total` and `scf.if`, so that targets need not know softmax.
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
    In a kernel with `tile.owns_tiles`, the loop over batches and the loop over blocks of keys inside it become one loop, in
    which the batch changes fastest. It carries the sum over the batches of a block; the last batch stores it. Zeros are stored before the loop
    into the blocks that it does not visit.

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
  let summary = "read without clamps if all reads of a tile are inside a view";
  let description = [{
    For maps that read at indices that are linear in row and column. The pass adds a second version of the map, marked
    as `seldom` run. So it is for targets where clamps and strides of each element cost more than one branch for the tile.
    Maps that are already `seldom` run get no second version.

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
      %partial = …   // the block has a key in [first, end), or reaches beyond Sk
      …
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileLowerBounds : Pass<"tile-lower-bounds", "::tesela::tile::KernelOp"> {
  let summary = "compute bounds of captured tensors from their summaries";
  let description = [{
    `tile.bounds` becomes reads of the tensor's summary, an argument of the kernel that earlier launches write
    (see `CaptureSummary.h`). If the box is small, all reads are written without a loop. A box of one element becomes a read of the tensor
    itself. `tile.has_element` becomes loops over the elements of the box. A box that extends in more than two axes has no bounds. The
    kernel's attribute `tile.summaries` lists the summaries that it reads.

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
