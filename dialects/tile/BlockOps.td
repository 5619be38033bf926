//===- BlockOps.td - Work items and blocks of rows --------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Which rows a kernel works on: the work map, blocks, sequences and their places in memory, extents,
// and the loop over the blocks that a block needs. TileOps.td includes this file.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_BLOCK_OPS
#define TESELA_TILE_BLOCK_OPS

def Tile_ItemOrder : I32EnumAttr<"ItemOrder", "which blocks of keys of a group of heads come first", [
    I32EnumAttrCase<"FirstKeysFirst", 0, "first_keys_first">,
    I32EnumAttrCase<"LastKeysFirst", 1, "last_keys_first">,
    I32EnumAttrCase<"LastKeysFirstButAtEnd", 2, "last_keys_first_but_at_end">]> {
  let cppNamespace = "::tesela::tile";
}

def Tile_WorkOp : Tile_Op<"work", [Pure]> {
  let summary = "the work map: this work item's block of queries, or of keys";
  let description = [{
    A work item is a batch, a query head and `block_m` queries. If the block has several heads, it is that
    many query heads of one key/value head, and their positions. Items are numbered in groups of heads
    (`group_keys` of the schedule). In a group the last rows come first (with a causal mask they
    have the most keys).

    If the block is of keys, a work item is a batch, a key/value head and a block of its keys, with all
    query heads of that head. Key/value heads are grouped by the number of queries (`group_keys` again). In a
    group the first keys come first (with a causal mask they have the most queries). `tile-order-items` may choose another `order`:

    | order | |
    |---|---|
    | `first_keys_first` | the default |
    | `last_keys_first` | the last block of keys comes first |
    | `last_keys_first_but_at_end` | the last block of keys comes first; but in the last group the first block comes first, and its items take the last block of queries first |

    Here the heads that are left over behind whole groups are a group of their own if they are at least half a group. Otherwise they belong to the group before them.

    With `dealt to workers` the query heads of a key/value head are dealt to P work items (`tile.head_parts`), and `tile.work_part` gives the number of
    a work item's part. With `joined` the work items are those of a kernel that joins the results of these parts: again blocks
    of keys of a key/value head, and there are none if P is 1.

    `item` is the item's number. Without it the target gives the number: one thread block, one item.

    Examples:
    ```mlir
    %rows = tile.work : !tile.block<query, 64>
    %item = tile.work dealt to 528 : !tile.block<key, 128>
    %keys = tile.work dealt to 528 joined : !tile.block<key, 128>
    %late = tile.work order last_keys_first : !tile.block<key, 128>
    ```
  }];
  let arguments = (ins Optional<I32>:$item, OptionalAttr<AnyAttr>:$workers, UnitAttr:$joined,
                       DefaultValuedAttr<Tile_ItemOrder, "::tesela::tile::ItemOrder::FirstKeysFirst">:$order);
  let results = (outs Tile_BlockType:$block);
  let builders = [OpBuilder<(ins "::mlir::Type":$block, "::mlir::Value":$item, "::mlir::Attribute":$workers, "ItemOrder":$order), [{
    build($_builder, $_state, block, item, workers, /*joined=*/false, order);
  }]>];
  let assemblyFormat = [{
    (`item` $item^)? (`dealt` `to` custom<Extent>($workers)^)? (`joined` $joined^)? (`order` $order^)? attr-dict `:` type($block)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Among how many workers the query heads of this kernel are dealt; null if they are not.
    ::mlir::Attribute getDealt() { return getJoined() ? ::mlir::Attribute() : getWorkersAttr(); }
  }];
}

def Tile_WorkPartOp : Tile_Op<"work_part", [Pure]> {
  let summary = "which part of the query heads a work item of `tile.work dealt to` has, from 0 to P - 1";
  let description = [{
    `keys` is the block of the `tile.work`.

    Example: `%part = tile.work_part of %keys : !tile.block<key, 128>`
  }];
  let arguments = (ins Tile_BlockType:$keys);
  let results = (outs I32:$part);
  let assemblyFormat = "`of` $keys attr-dict `:` type($keys)";
  let hasVerifier = 1;
}

def Tile_AtEndOp : Tile_Op<"at_end", [Pure]> {
  let summary = "whether a work item's head is in the last group of heads";
  let description = [{
    `keys` is the work item's block of keys, and `part` its part, if the query heads are dealt to parts. The groups are those of a `tile.work` with
    `order last_keys_first_but_at_end`.

    Example: `%at_end = tile.at_end of %keys part %part : !tile.block<key, 128>`
  }];
  let arguments = (ins Tile_BlockType:$keys, Optional<I32>:$part);
  let results = (outs I1:$atEnd);
  let assemblyFormat = "`of` $keys (`part` $part^)? attr-dict `:` type($keys)";
  let hasVerifier = 1;
}

def Tile_HeadPartsOp : Tile_Op<"head_parts", [Pure]> {
  let summary = "among how many work items `tile.work dealt to workers` deals the query heads of a key/value head";
  let description = [{
    A block of keys with all its query heads is a long work item, and with few key/value heads there are few of them. So the query heads are dealt
    to parts. There are as many parts as possible with at most `workers` work items in the launch:

        P = ceil((H / Hkv) / ceil((H / Hkv) / max(1, floor(workers / items))))

    where items is the number of blocks `keys` of all key/value heads. The inner quotient is the number of query heads of the longest part, if there
    are as many parts as fit. The outer quotient is the number of parts that this length needs; it may be smaller. P is 1 if two parts for each block
    would be more than `workers` items.
    Part p has the query heads from floor(p · (H / Hkv) / P) to floor((p + 1) · (H / Hkv) / P) - 1 of those that share the key/value head.

    `workers` is an expression of a template's parameters; `tile-bind` makes it a number.

    Example: `%parts = tile.head_parts of 528 !tile.block<key, 128>`
  }];
  let arguments = (ins AnyAttr:$workers, TypeAttrOf<Tile_BlockType>:$keys);
  let results = (outs I32:$count);
  let assemblyFormat = "`of` custom<Extent>($workers) $keys attr-dict";
  let hasVerifier = 1;
}

def Tile_WorkSlotsOp : Tile_Op<"work_slots", [Pure]> {
  let summary = "the work map of split keys: a block of rows of a slot; a sequence may have several slots";
  let description = [{
    Work items are numbered as in `tile.work`, with slots in place of batches. There are B + `more` slots:

        more = ceil(workers / work items of one batch)

    So there are at least `workers` work items beyond one slot for each sequence, whatever the sequences' lengths. The kernel decides which slots a
    sequence has; `tile.coordinates` of the block gives the slot's number as the batch.

    `workers` is how many work items run at the same time. It is an expression of a template's parameters; `tile-bind` makes it a number.

    Example: `%slots, %more = tile.work_slots of workers : !tile.block<query, 64>`
  }];
  let arguments = (ins AnyAttr:$workers);
  let results = (outs Tile_BlockType:$block, I32:$more);
  let assemblyFormat = "`of` custom<Extent>($workers) attr-dict `:` type($block)";
}

def Tile_MoreSlotsOp : Tile_Op<"more_slots", [Pure]> {
  let summary = "how many slots `tile.work_slots` has beyond one for each sequence, for a block `rows`";
  let description = [{
    Another kernel of the plan, which reads the results of the slots, uses this op.

    Example: `%more = tile.more_slots of 264 !tile.block<query, 64, 4>`
  }];
  let arguments = (ins AnyAttr:$workers, TypeAttrOf<Tile_BlockType>:$rows);
  let results = (outs I32:$count);
  let assemblyFormat = "`of` custom<Extent>($workers) $rows attr-dict";
}

def Tile_SequenceKeysOp : Tile_Op<"sequence_keys", [Pure]> {
  let summary = "how many keys a sequence of the batch has";
  let description = [{
    `tile-place-views` replaces it by the launch's Sk, or by a read of the sequence's length in device memory.

    Example: `%n = tile.sequence_keys %batch`
  }];
  let arguments = (ins I32:$batch);
  let results = (outs I32:$count);
  let assemblyFormat = "$batch attr-dict";
}

def Tile_BlockOp : Tile_Op<"block", [Pure, AttrSizedOperandSegments]> {
  let summary = "a block of rows from `first` on";
  let description = [{
    The block has the rows from `first` to `end`. Without `end`, they end at the sequence's Sq, or for keys at its Sk. Operands that
    are left out are taken from the block `of`, which is of the same sequence:

    | | if given | from a block on the same axis | from a block on the other axis |
    |---|---|---|---|
    | `batch` | that batch | its batch | its batch |
    | `head` | that head | its head | for keys: the key/value head of the queries; for queries: the first query head that shares the key/value head |
    | sequence | the launch's | its sequence | its sequence |

    Without `of`, `batch` and `head` must both be given.

    Examples:
    ```mlir
    %rows = tile.block %first batch %batch head %head -> !tile.block<query, 64>
    %keys = tile.block %key of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
    %others = tile.block %first head %other of %rows : !tile.block<query, 64> -> !tile.block<query, 64>
    %slot = tile.block %first to %end batch %number head %pack -> !tile.block<query, 64>
    ```
  }];
  let arguments = (ins I32:$first, Optional<I32>:$end, Optional<I32>:$batch, Optional<I32>:$head,
                       Optional<Tile_BlockType>:$of);
  let results = (outs Tile_BlockType:$block);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$first, "::mlir::Value":$batch,
                                 "::mlir::Value":$head, "::mlir::Value":$of), [{
    build($_builder, $_state, type, first, /*end=*/::mlir::Value(), batch, head, of);
  }]>];
  let assemblyFormat = [{
    $first (`to` $end^)? (`batch` $batch^)? (`head` $head^)? (`of` $of^ `:` type($of))? attr-dict `->` type($block)
  }];
  let hasVerifier = 1;
}

def Tile_SequenceOp : Tile_Op<"sequence", [Pure, AllTypesMatch<["rows", "block"]>]> {
  let summary = "the same rows, of a sequence with lengths of its own";
  let description = [{
    If the sequences of a batch have different lengths, the launch's Sq and Sk are upper bounds. This op turns a work
    item's block into the block of its sequence: its positions are `from` larger, and the sequence has the extents

        Sq = from + queries      Sk = keys

    These extents hold for the blocks that are made from the result, and for the loops and hooks that use them
    (`tile-sequence-extents`). If a block has no rows, `keys` should be 0; then no block of keys runs.

    A kernel has at most one such op, for its work item's block of queries. The op changes positions only. `tile.ragged` and `tile.paged`
    say where the rows lie in memory.

    Example: `%rows = tile.sequence %item from %cached of %queries, %keys : !tile.block<query, 64>`
  }];
  let arguments = (ins Tile_BlockType:$rows, I32:$from, I32:$queries, I32:$keys);
  let results = (outs Tile_BlockType:$block);
  let assemblyFormat = "$rows `from` $from `of` $queries `,` $keys attr-dict `:` type($rows)";
  let hasVerifier = 1;
}

def Tile_RaggedOp : Tile_Op<"ragged", [Pure]> {
  let summary = "one sequence's rows of a tensor in which all sequences lie one after the other";
  let description = [{
    `result[b, h, i, j] = view[0, h, shift + i, j]`, and the same without the last axis. The view has one batch, which holds the tokens of all
    sequences. `shift` is the row at which the sequence begins, minus its first position. Rows beyond the sequence's end belong to the next sequence:
    they are never written, and they load as zeros in blocks of keys. Whoever computes `shift` must make sure that all rows lie in the view.

    Example: `%Q = tile.ragged %q from %shift : !tile.view<[1, H, ?, 64], bf16> -> !tile.view<[B, H, Sq, 64], bf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, I32:$shift);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = "$view `from` $shift attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PagedOp : Tile_Op<"paged", [Pure]> {
  let summary = "one sequence's rows of a tensor of pages";
  let description = [{
    `result[b, h, i, j] = view[table[batch, i / page], h, i mod page, j]`, where `page` is the view's third extent. Rows from the
    sequence's end on load as zeros; neither they nor the entries of their pages are read. A page number outside the view is
    clamped to its first or last page.

    Example: `%K = tile.paged %k by %table[%b] : !tile.view<[?, Hkv, 16, 64], bf16>, !tile.view<[?, ?], i32> -> !tile.view<[B, Hkv, Sk, 64], bf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_ViewType:$table, I32:$batch);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = [{
    $view `by` $table `[` $batch `]` attr-dict `:` type($view) `,` type($table) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_WorkItemsOp : Tile_Op<"work_items", [Pure]> {
  let summary = "how many work items of `rows` queries, or keys, the launch has";
  let description = [{
    With `dealt to` it counts those of a `tile.work` with the same words.

    Example: `%count = tile.work_items !tile.block<key, 128> dealt to 528`
  }];
  let arguments = (ins TypeAttrOf<Tile_BlockType>:$rows, OptionalAttr<AnyAttr>:$workers);
  let results = (outs I32:$count);
  let assemblyFormat = "$rows (`dealt` `to` custom<Extent>($workers)^)? attr-dict";
  let hasVerifier = 1;
}

def Tile_CoordinatesOp : Tile_Op<"coordinates", [Pure]> {
  let summary = "a block's batch, query head, key/value head and first row";
  let description = [{
    A block of keys does not determine a query head; use the block of queries for it. `head`
    is the block's head, the first if it has several. `kv_head` = head / (H / Hkv)
    for blocks of queries, and `head` for blocks of keys.
  }];
  let arguments = (ins Tile_BlockType:$block);
  let results = (outs I32:$batch, I32:$head, I32:$kv_head, I32:$first);
  let builders = [OpBuilder<(ins "::mlir::Value":$block), [{
    ::mlir::Type i32 = $_builder.getI32Type();
    build($_builder, $_state, {i32, i32, i32, i32}, block);
  }]>];
  let assemblyFormat = "$block attr-dict `:` type($block)";
}

def Tile_ExtentOp : Tile_Op<"extent", [Pure]> {
  let summary = "an extent: B, H, Hkv, Sq or Sk";
  let description = [{
    The extent is the launch's. In a kernel with a `tile.sequence`, Sq and Sk are the sequence's; with `of_launch` they are
    the launch's.

    Example: `%n = tile.extent "Sq"`
  }];
  let arguments = (ins StrAttr:$name, UnitAttr:$of_launch);
  let results = (outs I32:$result);
  let assemblyFormat = "$name (`of_launch` $of_launch^)? attr-dict";
  let hasVerifier = 1;
}

def Tile_NumberOp : Tile_Op<"number", [Pure]> {
  let summary = "an expression of a template's parameters, as a number";
  let description = [{
    `tile-bind` replaces it by a constant.

    Example: `%n = tile.number columns * 2`
  }];
  let arguments = (ins AnyAttr:$extent);
  let results = (outs I32:$result);
  let assemblyFormat = "custom<Extent>($extent) attr-dict";
}

def Tile_BlocksOp : Tile_Op<"blocks", [
    RecursiveMemoryEffects, SingleBlockImplicitTerminator<"YieldOp">, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "the loop over the blocks of keys that a block of queries needs, or the transpose";
  let description = [{
    The body runs once for each block of keys that a block of queries needs, in the order of the schedule (`last_keys_first`) and of `tile.work`. It gets the block,
    whether the block is *partial* (i1: some pair in it may be masked; false is a proof that no pair
    is), and the carried values. Which blocks run, and which are partial:

    - before `tile-key-ranges`, or if that pass proves nothing: all blocks of [0, Sk) run, and all are partial;
    - with `runs` and `drops`: intervals [low, high) of keys, i32, inside [0, Sk]. A block runs if it has a key in one of the
      `runs`. It is partial if it has a key in one of the `drops`, or reaches beyond Sk;
    - with `among`: the blocks that `tile.find_blocks` found.

    With `part (%p, %n)` the loop runs part p of n, counted from 0, of these blocks, in the same order. If the number of blocks is no multiple of n, the
    first parts have one block more. A part may be empty; a part with p >= n is empty.

    The transpose is the loop over the blocks of queries that a block of keys needs. Its intervals are of
    queries, inside [0, Sq], and a block that reaches beyond Sq is partial. The type of `rows` says which loop it is.

    Examples:
    ```mlir
    %sum = tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
        carry (%carried = %zero : !tile.tile<[64], f32>) runs (%low, %high) drops (%first, %end) {
      tile.yield %carried : !tile.tile<[64], f32>
    }
    tile.blocks %queries, %partial of %keys : !tile.block<key, 32> -> !tile.block<query, 64> runs (%low, %high) {
      …
    }
    ```
  }];
  let arguments = (ins Tile_BlockType:$rows, Variadic<AnyType>:$init, Variadic<I32>:$runs,
                       Variadic<I32>:$drops, Optional<Tile_FoundBlocksType>:$among,
                       Variadic<I32>:$part);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The block of an iteration: of keys, or of queries in the transpose.
    ::mlir::BlockArgument getColumns() { return getBody().getArgument(0); }
    ::mlir::BlockArgument getPartial() { return getBody().getArgument(1); }
  }];
}

def Tile_FindBlocksOp : Tile_Op<"find_blocks", [RecursiveMemoryEffects]> {
  let summary = "finds the blocks of keys in an interval that a test does not prove empty";
  let description = [{
    The op looks at the blocks that have a key in [low, high), inside [0, Sk], and gives those that the test does not prove empty. A
    test takes the first and the last key of a box (the last one is below Sk). It yields whether a pair of the box may be kept, and
    whether a pair may be dropped. `one` tests one block. `many` is the same test for
    32 blocks at once, which makes long empty ranges cheap. Both are pure. `descending`: the last block
    is found first. In the transpose, queries stand for keys and Sq for Sk. `below` is Sk; without it, Sk is the launch's.

    Example:
    ```mlir
    %found, %count = tile.find_blocks from %low to %high : !tile.found_blocks<64> one {
    ^bb0(%first: i32, %last: i32):
      %keeps = arith.cmpi sle, %first, %limit : i32
      %drops = arith.cmpi sgt, %last, %limit : i32
      tile.yield %keeps, %drops : i1, i1
    } many {
    ^bb0(%first: i32, %last: i32):
      %keeps = arith.cmpi sle, %first, %limit : i32
      %drops = arith.cmpi sgt, %last, %limit : i32
      tile.yield %keeps, %drops : i1, i1
    }
    ```
  }];
  let arguments = (ins I32:$low, I32:$high, Optional<I32>:$below, UnitAttr:$descending);
  let results = (outs Tile_FoundBlocksType:$found, I32:$count);
  let regions = (region SizedRegion<1>:$one, SizedRegion<1>:$many);
  let assemblyFormat = [{
    `from` $low `to` $high (`below` $below^)? (`descending` $descending^)? attr-dict `:` type($found) `one` $one `many` $many
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = "static constexpr int64_t blocksAtOnce = 32;";
}

def Tile_FoundBlockOp : Tile_Op<"found_block", [Pure]> {
  let summary = "the index of a found block, and whether the block is partial";
  let description = [{
    Blocks are numbered in the order in which they are found, from 0 on. A program must ask for them in ascending order, but it may go
    back to one of the 32 numbers before the largest one that it asked for.

    Example: `%index, %partial = tile.found_block %found[%number] : !tile.found_blocks<64>`
  }];
  let arguments = (ins Tile_FoundBlocksType:$found, I32:$number);
  let results = (outs I32:$index, I1:$partial);
  let assemblyFormat = "$found `[` $number `]` attr-dict `:` type($found)";
}

#endif // TESELA_TILE_BLOCK_OPS
