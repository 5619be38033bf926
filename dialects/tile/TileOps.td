//===- TileOps.td - Operations of tiled algorithms --------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
                                      ::mlir::Location loc);
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
// Work, blocks, extents
//===----------------------------------------------------------------------===//

def Tile_WorkOp : Tile_Op<"work", [Pure]> {
  let summary = "the work map: this work item's block of queries, or of keys";
  let description = [{
    A work item is a batch, a query head and `block_m` queries. If the block has several heads, it is that
    many query heads of one key/value head, and their positions. Items are numbered in groups of heads
    (`group_keys` of the schedule). In a group the last rows come first (with a causal mask they
    have the most keys).

    If the block is of keys, a work item is a batch, a key/value head and a block of its keys, with all
    query heads of that head. Key/value heads are grouped by the number of queries that read them (`group_keys` again). In a
    group the first keys come first (with a causal mask they have the most queries).

    `item` is the item's number. Without it the target gives the number: one thread block, one item.
  }];
  let arguments = (ins Optional<I32>:$item);
  let results = (outs Tile_BlockType:$block);
  let assemblyFormat = "(`item` $item^)? attr-dict `:` type($block)";
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
  let arguments = (ins TypeAttrOf<Tile_BlockType>:$rows);
  let results = (outs I32:$count);
  let assemblyFormat = "$rows attr-dict";
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
    The body runs once for each block of keys that a block of queries needs, in the order of the schedule (`last_keys_first`). It gets the block,
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

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

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
    differ in the last bits. An earlier kernel, or the caller, gives the view its initial values.

    Example: `tile.accumulate %dQ, %dq[%rows] : !tile.tile<[64, 128], f32>, !tile.view<[B, H, Sq, 128], f32>[!tile.block<query, 64>]`
  }];
  let arguments = (ins Tile_AnyTile:$tile, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = "$tile `,` $view `[` $block `]` attr-dict `:` type($tile) `,` type($view) `[` type($block) `]`";
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

include "tile/AttentionOps.td"
include "tile/DropoutOps.td"

#endif // TESELA_TILE_OPS
