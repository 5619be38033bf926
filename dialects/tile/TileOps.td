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
    Runs once for each work item. The arguments are the kernel's interface: the
    launch plan, the checks of a launch's arguments and the launchers follow from
    their names, types and roles alone. The order of the arguments is the order of
    the launch's slots (see `KernelSignature.h`).

    | argument | what it is to the caller |
    |---|---|
    | `in %x: view` | a tensor that the caller passes under this name |
    | `out %x: view` | likewise, which the kernel writes |
    | `optional %x: view` | likewise, written if the kernel stores to it, else read; a launch may leave it out: then nothing is stored, and what is loaded is 0. Numbers, one a row: rank 3 |
    | `workspace %x: view` | f32 or i32 in the plan's own memory: one kernel writes it, later ones read it; all its extents are known |
    | `%$x: view` | a captured tensor, of the variant or of the template |
    | `%$x: i32`, `%$x: f32` | a scalar, likewise |
    | `%scale: f32` | the softmax scale: the one scalar that every launch has |

    A view without a role stands in hand-written tests alone: it has no caller.

    `<...>` lists the parameters of a template; a bound kernel has none, and its
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
    /// Captured tensors and the scalars of a variant or a template: their names begin with `$`.
    bool isParameter(unsigned index) { return getArgumentName(index).starts_with("$"); }
    /// Nothing of parameters, scalars, and views without one.
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
    A work item is a batch, a query head and `block_m` queries; or, of a block of several heads, as
    many query heads of one key/value head and their positions. Items are numbered so that heads
    come in groups (`group_keys` of the schedule), and in a group the last rows come first (with a
    causal mask they are the longest).

    Where the block is of keys, a work item is a batch, a key/value head and as many keys: it has all
    query heads of that head. Key/value heads come in groups, too, by the queries that they read (`group_keys` again), and in a
    group the first keys come first (with a causal mask they are the longest).

    `item` is the item's number; without it, the target's: one thread block, one item.
  }];
  let arguments = (ins Optional<I32>:$item);
  let results = (outs Tile_BlockType:$block);
  let assemblyFormat = "(`item` $item^)? attr-dict `:` type($block)";
}

def Tile_WorkSlotsOp : Tile_Op<"work_slots", [Pure]> {
  let summary = "the work map of split keys: a block of rows of a slot, of which a sequence may take several";
  let description = [{
    Work items as `tile.work` has them, of `slots` in the place of batches: B and `more`, where

        more = ceil(workers / work items of one batch)

    so that `workers` of them beyond one a sequence have work, however long the sequences are. The kernel says which slots a
    sequence has: `tile.coordinates` of the block gives the slot as its batch.

    `workers` is made of a template's parameters; `tile-bind` makes it a number: how many work items run at once.

    Example: `%slots, %more = tile.work_slots of workers : !tile.block<query, 64>`
  }];
  let arguments = (ins AnyAttr:$workers);
  let results = (outs Tile_BlockType:$block, I32:$more);
  let assemblyFormat = "`of` custom<Extent>($workers) attr-dict `:` type($block)";
}

def Tile_MoreSlotsOp : Tile_Op<"more_slots", [Pure]> {
  let summary = "how many slots `tile.work_slots` of `rows` has beyond one a sequence";
  let description = [{
    What another kernel of the plan asks, which reads what the slots left.

    Example: `%more = tile.more_slots of 264 !tile.block<query, 64, 4>`
  }];
  let arguments = (ins AnyAttr:$workers, TypeAttrOf<Tile_BlockType>:$rows);
  let results = (outs I32:$count);
  let assemblyFormat = "`of` custom<Extent>($workers) $rows attr-dict";
}

def Tile_SequenceKeysOp : Tile_Op<"sequence_keys", [Pure]> {
  let summary = "how many keys a sequence of the batch has";
  let description = [{
    `tile-place-views` puts in its place what says so where the keys lie: the launch's Sk, or numbers in device memory.

    Example: `%n = tile.sequence_keys %batch`
  }];
  let arguments = (ins I32:$batch);
  let results = (outs I32:$count);
  let assemblyFormat = "$batch attr-dict";
}

def Tile_BlockOp : Tile_Op<"block", [Pure, AttrSizedOperandSegments]> {
  let summary = "a block of rows from `first` on";
  let description = [{
    A batch, a head and so many rows from `first` on. Rows end at `end`; without it at the sequence's Sq, of keys at its Sk. What is
    not given is that of the block `of`, which is of the same sequence:

    | | given | of a block on the same axis | of a block on the other axis |
    |---|---|---|---|
    | `batch` | that | its batch | its batch |
    | `head` | that | its head | of keys: the key/value head of its queries; of queries: the first query head that shares its key/value head |
    | sequence | the launch's | its own | its own |

    Without `of` both `batch` and `head` are needed.

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
    Where the sequences of a batch differ in length, the launch's Sq and Sk are upper bounds. Of a work item's block
    this op gives the block in the sequence: its positions begin `from` later, and it ends at

        Sq = from + queries      Sk = keys

    which are the sequence's extents from here on: those of the blocks that follow from this one, of loops and of hooks
    (`tile-sequence-extents`). Where a block has no rows, let `keys` be 0, and no block of keys runs.

    A kernel has one at most, for its work item's block of queries. Positions say nothing of memory: what views say of it is
    `tile.ragged`'s and `tile.paged`'s part.

    Example: `%rows = tile.sequence %item from %cached of %queries, %keys : !tile.block<query, 64>`
  }];
  let arguments = (ins Tile_BlockType:$rows, I32:$from, I32:$queries, I32:$keys);
  let results = (outs Tile_BlockType:$block);
  let assemblyFormat = "$rows `from` $from `of` $queries `,` $keys attr-dict `:` type($rows)";
  let hasVerifier = 1;
}

def Tile_RaggedOp : Tile_Op<"ragged", [Pure]> {
  let summary = "a sequence's rows of a tensor that holds all sequences one after the other";
  let description = [{
    `result[b, h, i, j] = view[0, h, shift + i, j]`, and likewise without the last axis: the view's only batch has the tokens of all
    sequences. `shift` is where the sequence begins, less its first position. Rows beyond the sequence's end are the next one's: they are
    never written, and blocks of keys have zeros in their place. Who gives `shift` sees to it that all rows lie in the view.

    Example: `%Q = tile.ragged %q from %shift : !tile.view<[1, H, ?, 64], bf16> -> !tile.view<[B, H, Sq, 64], bf16>`
  }];
  let arguments = (ins Tile_ViewType:$view, I32:$shift);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = "$view `from` $shift attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PagedOp : Tile_Op<"paged", [Pure]> {
  let summary = "a sequence's rows of a tensor of pages";
  let description = [{
    `result[b, h, i, j] = view[table[batch, i / page], h, i mod page, j]`, where `page` is the view's third extent. What lies at the
    sequence's end and beyond is never read, nor is its page looked up: such rows are zeros. A page that the view does not have is
    its first or its last one.

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
    Of a key block the query head is not known; use the query block for it. Here
    `head` is the head that the block carries, the first of several, and `kv_head` = head / (H / Hkv)
    for query blocks, the same head for key blocks.
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
    That of the launch; in a kernel with a `tile.sequence` Sq and Sk are the sequence's, and with `of_launch` the
    launch's.

    Example: `%n = tile.extent "Sq"`
  }];
  let arguments = (ins StrAttr:$name, UnitAttr:$of_launch);
  let results = (outs I32:$result);
  let assemblyFormat = "$name (`of_launch` $of_launch^)? attr-dict";
  let hasVerifier = 1;
}

def Tile_NumberOp : Tile_Op<"number", [Pure]> {
  let summary = "an extent of a template, made of its parameters, as a number";
  let description = [{
    `tile-bind` makes it a constant.

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
    For each block of keys of a block of queries, in the order that the schedule says (`last_keys_first`), the body gets the block, whether
    it is *partial* (i1: some pair in it may be masked; false is a proof that none
    is) and the carried values. Which blocks run, and which are partial:

    - as `tile-key-ranges` finds no more: all blocks of [0, Sk) run, all are partial;
    - `runs`, `drops`: intervals of keys [low, high) in i32, inside [0, Sk]. A block runs that holds a key of a
      run; it is partial if it holds a key of an interval in `drops`, or reaches beyond Sk;
    - `among`: what `tile.find_blocks` found.

    With `part (%p, %n)` the loop goes over share p of n of the blocks that run: in their order, and of one block more in
    the first shares where they do not divide. A share may be empty; one from n on is.

    The transpose is the loop over the blocks of queries that a block of keys needs. Its intervals are of
    queries, inside [0, Sq]; a block that reaches beyond Sq is partial. The type of `rows` says which it is.

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
    /// The block that an iteration gets: of keys, or of queries.
    ::mlir::BlockArgument getColumns() { return getBody().getArgument(0); }
    ::mlir::BlockArgument getPartial() { return getBody().getArgument(1); }
  }];
}

def Tile_FindBlocksOp : Tile_Op<"find_blocks", [RecursiveMemoryEffects]> {
  let summary = "the blocks of keys in an interval that a test does not prove empty";
  let description = [{
    Of the blocks of keys that hold a key of [low, high), inside [0, Sk], those for which a test does not say that
    nothing in it is kept. A test gets the first and the last key of a box, the last one below Sk, and yields whether
    a pair of it may be kept and whether a pair may be dropped. `one` tests a block; `many`, the same test,
    32 blocks at once, so that what is empty far and wide costs little. Both are pure. `descending`: the last block
    is found first. For the transpose read queries for keys and Sq for Sk. `below` is Sk; without it, the launch's.

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
  let summary = "the index of a found block, and whether it is partial";
  let description = [{
    In the order in which they are found, `number` from 0 on. A program asks for them one after the other: not for one that
    is more than 32 before the last one asked for.

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
  let summary = "loads a block of rows of a view, or a block of their columns";
  let description = [{
    `tile[i, j] = view[batch, head, first + i, j]`, 0 where `first + i >= limit`, and 0 in the columns that
    the tile has beyond the view's: so matrix instructions get the multiples they take.
    Of a view of rank 3, `tile[i] = view[batch, head, first + i]`, or `tile[0, i]` where the tile has a single row. Of a block of several heads, row i
    is where the block's type says, and 0 where its head does not exist.

    With `columns`, of which only the rows count: `tile[i, j] = view[batch, head, first + i, columns.first + j]`, 0
    also where `columns.first + j >= columns.limit`. The limit is no more than the view's last extent.

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
    `view[batch, head, first + i, j] = tile[i, j]` where `first + i < limit` and the view has a column j. Of a
    block of several heads, row i goes where the block's type says, if its head exists.
  }];
  let arguments = (ins Tile_AnyTile:$tile, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = "$tile `,` $view `[` $block `]` attr-dict `:` type($tile) `,` type($view) `[` type($block) `]`";
  let hasVerifier = 1;
}

def Tile_AccumulateOp : Tile_Op<"accumulate", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds a tile to a block of rows of a view";
  let description = [{
    `view[batch, head, first + i, j] += tile[i, j]` in f32, where `first + i < limit` and the view has a column j. Work
    items may add to the same rows: each addition of an element is one step. Their order is not fixed, so that launches may
    differ in the last bits. What stands there before is the kernel's before, or the caller's.

    Example: `tile.accumulate %dQ, %dq[%rows] : !tile.tile<[64, 128], f32>, !tile.view<[B, H, Sq, 128], f32>[!tile.block<query, 64>]`
  }];
  let arguments = (ins Tile_AnyTile:$tile, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = "$tile `,` $view `[` $block `]` attr-dict `:` type($tile) `,` type($view) `[` type($block) `]`";
  let hasVerifier = 1;
}

def Tile_ReadOp : Tile_Op<"read", [Pure]> {
  let summary = "one element of a view, its indices clamped";
  let description = [{
    `view[clamp(i, 0, n - 1), …]`; 0 where an extent n is 0: nothing outside the view
    is ever read. Kernels never write what they read so, hence the op is pure.

    Elements are widened to 32 bits, exactly: f16 and bf16 come as f32, i8 as i32 from 0 to 255. Of a view of
    floats the result may be i32: the bits of that f32.

    Example: `%kept = tile.read %block[%b, %i] : !tile.view<[?, ?], i8> -> i32`

    `covered` says that a `tile.covers` holds for the index, or that it was clamped and the view has no gaps:
    then it needs no clamp, and neighbours in the last axis lie side by side. `chunked`, of elements of 16 bits that
    are covered, says the same of a `tile.covers` with `chunks`, and that the last index is a column of the tile more than
    a number that is the same for all: then the elements of columns 8j to 8j + 7 lie in 16 bytes that one load brings.
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

    for 1 <= period <= 256, 0 <= start < period and 0 <= column < 2048; any number else. `factor` is
    ⌊2^20 / period⌋ + 1, the same for the launch as the period is, so that no target divides
    (`targets/common/Phases.h`).

    What follows from it alone repeats itself along a row: a target may have one pattern for all rows, which `start`
    rotates.

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
  let summary = "between which values the elements of a box of a view lie";
  let description = [{
    For the indices low[a] to high[a] of each axis (both included, low[a] <= high[a], each clamped as `tile.read`
    clamps): values such that least <= view[i, …] <= largest for every element of the box, widened as `tile.read`
    widens. They may be less tight than the box's minimum and maximum. Where a float may be NaN both are NaN.

    `within` has for each axis a number that high[a] - low[a] is known to stay below; 0: nothing is known.

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
    True where least <= view[i, …] <= largest holds for an element of the box, whose indices are those of `tile.bounds`; and
    true where the box has more than 128 of them (high - low + 1 in each axis, multiplied): nobody looks at so many. Of elements that
    have nothing to do with each other bounds say little, since nearly all that they might be equal to lies between them.

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
  let summary = "whether a box of a view is inside it, its rows packed";
  let description = [{
    True where 0 <= index + low and index + high < extent hold in every axis, and the elements of the
    last axis lie side by side in memory (stride 1). With `chunks` also each eighth column of the box begins at a
    multiple of eight times the element's size: the address, all other strides and the last index are multiples of eight elements.

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
    `c[i, j] + Σ_x a[i, x] · b[x, j]`, with `a[x, i]` or `b[j, x]` where that operand is
    `transposed`. Operands are f32, f16 or bf16 of one type; products are exact, sums are f32 in an order that
    the target chooses.

    | a, b | c, result |
    |---|---|
    | f16, bf16 | f32 |
    | f32 (host) | f32 |

    An operand may be loaded or computed. What a product cannot read from where it was computed (a right operand, or a left one that
    is transposed) a GPU brings there through shared memory.

    `again`: another product of the same operands is not kept in its place: computing anew costs less than
    the registers.

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
    The body gets an element of each operand and, as the last two arguments, the element's
    row and column (i32; the column is 0 in a tile of one extent). Operands
    of one extent are values of the row, those of a single row, [1, columns], values of the column. The body may use values from outside
    that are the same for all elements. A tile of i1, of two extents, says of which elements something holds.

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
    `max`: `max(start[i], max_j x[i, j])`, where NaN loses against every number; `min` likewise. Both
    take i32 too.
    `add`: a share of `start[i] + Σ_j x[i, j]` for each owner of a part of the row:
    only `tile.total` of the result (or of the result scaled row by row, or reduced further) is that sum. One
    owner holds `start`. So a loop that sums many tiles crosses threads only once.
    `max` and `min` with `in_shares`: likewise, each owner has the maximum of its own part, and every
    owner holds `start`.

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
    /// The result is spread over the owners of a row.
    bool givesShares() { return getKind() == Reduction::Add || getInShares(); }
  }];
}

def Tile_TotalOp : Tile_Op<"total", [Pure]> {
  let summary = "the sums, maxima or minima whose shares `tile.reduce` left with their owners";
  let arguments = (ins Tile_AnyTile:$source,
                       DefaultValuedAttr<Tile_Reduction, "::tesela::tile::Reduction::Add">:$kind);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$source), [{
    build($_builder, $_state, result, source, Reduction::Add);
  }]>];
}

def Tile_AnyPositiveOp : Tile_Op<"any_positive", [Pure]> {
  let summary = "whether a value of a row is positive, asked together";
  let description = [{
    True if x[i] > 0 for some row i of those that a warp owns, in any of their shares: all threads of a warp
    get one answer, other warps may get another. What stands under a branch on it must need no
    more than the warp. With `group`, all threads that compute products together get one answer (sm_90a: a
    warpgroup), so that products may stand there.

    Example: `%grew = tile.any_positive %excess : !tile.tile<[64], f32>`
  }];
  let arguments = (ins Tile_AnyTile:$source, UnitAttr:$group);
  let results = (outs I1:$result);
  let assemblyFormat = "$source (`group` $group^)? attr-dict `:` type($source)";
}

include "tile/AttentionOps.td"
include "tile/DropoutOps.td"

#endif // TESELA_TILE_OPS
