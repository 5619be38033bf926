//===- PipeOps.td - Operations on buffers and copies ------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PIPE_OPS
#define TESELA_PIPE_OPS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "pipe/PipeTypes.td"
include "tile/TileTypes.td"

class Pipe_Op<string mnemonic, list<Trait> traits = []> : Op<Pipe_Dialect, mnemonic, traits>;

def Pipe_AnyTile : Type<CPred<"::llvm::isa<::tesela::tile::TileType>($_self)">, "tile">;

def Pipe_AllocOp : Pipe_Op<"alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a buffer in shared memory";
  let description = [{
    `offset` (bytes from the start of the thread block's memory) is set by
    `pipe-place-buffers`. A buffer that names another in `over` takes its place: the program
    must no longer need what lies there.

    Example: `%k = pipe.alloc {offset = 32768 : i64} : !pipe.buffer<2, [64, 128], bf16>`
  }];
  let arguments = (ins Optional<Pipe_BufferType>:$over, OptionalAttr<I64Attr>:$offset);
  let results = (outs Pipe_BufferType:$buffer);
  let assemblyFormat = "(`over` $over^ `:` type($over) `,`)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Pipe_CopyOp : Pipe_Op<"copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts copying a block of rows of a view into a stage of a buffer";
  let description = [{
    Asynchronous: the tile is there after a `pipe.wait` that covers the copy's `pipe.commit`, seen by
    the whole thread block after a `pipe.barrier` (PTX ISA, "cp.async"). Rows from the block's limit on become zeros,
    and so do columns from the limit of `columns` on. The first column is a multiple of 8 (16 bytes).
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_BlockType:$block, Optional<Tile_BlockType>:$columns,
                       Pipe_BufferType:$buffer, I32:$stage);
  let assemblyFormat = [{
    $view `[` $block (`,` $columns^)? `]` `to` $buffer `[` $stage `]` attr-dict
    `:` type($view) `[` type($block) (`,` type($columns)^)? `]` `,` type($buffer)
  }];
  let hasVerifier = 1;
}

def Pipe_CommitOp : Pipe_Op<"commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "makes a group of the copies started since the last commit";
  let assemblyFormat = "attr-dict";
}

def Pipe_WaitOp : Pipe_Op<"wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` of this thread's groups are under way";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Pipe_BarrierOp : Pipe_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits for all threads of the block and makes shared memory agree";
  let description = [{
    Among the consumers' operations of a `pipe.roles`: for all threads of the consumers, which must all come here. What they have
    written is then seen by their asynchronous products, too.
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_SlotOp : Pipe_Op<"slot", [Pure]> {
  let summary = "a stage of a buffer, as a tile";
  let description = [{
    The tile is the stage's contents at the time of its use.

    Example: `%K = pipe.slot %k[%stage] : !pipe.buffer<2, [64, 128], bf16> -> !tile.tile<[64, 128], bf16, #pipe.shared>`
  }];
  let arguments = (ins Pipe_BufferType:$buffer, I32:$stage);
  let results = (outs Pipe_AnyTile:$tile);
  let assemblyFormat = "$buffer `[` $stage `]` attr-dict `:` type($buffer) `->` type($tile)";
  let hasVerifier = 1;
}

def Pipe_ConvertOp : Pipe_Op<"convert", [MemoryEffects<[MemRead]>]> {
  let summary = "moves a tile to another encoding";
  let description = [{
    | from | to | by |
    |---|---|---|
    | `#pipe.shared` | `#pipe.operand` | ldmatrix |
    | `#pipe.shared`, one row of f32 | `#pipe.columns` | loads of two columns |
    | `#pipe.accumulator`, 16-bit elements | `#pipe.operand` | nothing: the registers agree |
  }];
  let arguments = (ins Pipe_AnyTile:$source);
  let results = (outs Pipe_AnyTile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Pipe_DotStartOp : Pipe_Op<"dot_start", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a matrix product by warpgroups (sm_90a)";
  let description = [{
    `tile.dot`'s product, asynchronous (PTX ISA, "wgmma.mma_async"): one group of its own. The result is in
    flight until a `pipe.dot_wait` that covers it. Until then operands in shared memory must stay
    as they are. A loop may carry a product in flight to where it is awaited.

    Example: `%s = pipe.dot_start %q, %k transposed plus %zero : (…, …, …) -> !tile.tile<[64, 80], f32, #pipe.accumulator<warps = 4, in_flight = true>>`
  }];
  let arguments = (ins Pipe_AnyTile:$a, Pipe_AnyTile:$b, Pipe_AnyTile:$c, UnitAttr:$left_transposed,
                       UnitAttr:$transposed);
  let results = (outs Pipe_AnyTile:$result);
  let assemblyFormat = [{
    $a (`transposed` $left_transposed^)? `,` $b (`transposed` $transposed^)? `plus` $c attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [
    // The product of `dot`, with `a`, `b` and `c` in place of its operands.
    OpBuilder<(ins "::tesela::tile::DotOp":$dot, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$c)>
  ];
  let hasVerifier = 1;
}

def Pipe_DotWaitOp : Pipe_Op<"dot_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` products of the warpgroup are in flight";
  let description = [{
    Gives the product `source` as a tile that can be used. At least `pending` products must have been started
    after it.

    Example: `%S = pipe.dot_wait %s pending 1 : !tile.tile<…in_flight…> -> !tile.tile<…>`
  }];
  let arguments = (ins Pipe_AnyTile:$source, I64Attr:$pending);
  let results = (outs Pipe_AnyTile:$result);
  let assemblyFormat = [{
    $source `pending` $pending attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Pipe_WriteOp : Pipe_Op<"write", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a tile into a stage of a buffer";
  let description = [{
    From registers (`#pipe.accumulator`): into a stage, or, where the stages have together as many rows as the tile and there is
    one for each warpgroup of the consumers, each warpgroup its own rows into its own stage. Or a tile of f8E4M3FN that lies in shared memory (`#pipe.shared`), whose elements are
    widened, exactly, to those of the buffer: each thread widens 16 bytes at a time, so that no registers hold the tile.

    Example: `pipe.write %k8 to %widened[%stage] : !tile.tile<[64, 128], f8E4M3FN, #pipe.shared>, !pipe.buffer<1, [64, 128], bf16>`
  }];
  let arguments = (ins Pipe_AnyTile:$tile, Pipe_BufferType:$buffer, I32:$stage);
  let assemblyFormat = "$tile `to` $buffer `[` $stage `]` attr-dict `:` type($tile) `,` type($buffer)";
  let hasVerifier = 1;
}

def Pipe_StoreOp : Pipe_Op<"store", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "stores a stage of a buffer into a block of rows of a view";
  let description = "Rows from the block's limit on are not stored.";
  let arguments = (ins Pipe_BufferType:$buffer, I32:$stage, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = [{
    $buffer `[` $stage `]` `to` $view `[` $block `]` attr-dict
    `:` type($buffer) `,` type($view) `[` type($block) `]`
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Roles and channels (sm_90a)
//===----------------------------------------------------------------------===//

def Pipe_OpenOp : Pipe_Op<"open", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a channel";
  let description = [{
    `offset` (bytes from the start of the thread block's memory) is set by `pipe-place-buffers`.

    Example: `%c = pipe.open : !pipe.channel<2>`
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Pipe_ChannelType:$channel);
  let assemblyFormat = "attr-dict `:` type($channel)";
}

def Pipe_RolesOp : Pipe_Op<"roles", [RecursiveMemoryEffects, NoTerminator, NoRegionArguments,
                                     SingleBlock]> {
  let summary = "one warpgroup copies, the others compute";
  let description = [{
    One thread of the first warpgroup runs `producer`; all threads of the next `count` warpgroups run
    `consumers`. Registers move from the first to the others (PTX ISA, "setmaxnreg"): the sum over all
    warpgroups may not exceed what they entered with, else the kernel would wait for ever.

    With `finder`, a program that runs ahead of both and sends them what they need to know, two warps of the first
    warpgroup run `producer` and `finder`; one lane does what one thread would do.

    Example:
    ```mlir
    pipe.roles producer 24 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %k[%keys] to %buffer on %c[%n] : ...
    } consumers 2 240 {
      pipe.await %c[%n] : !pipe.channel<2>
      pipe.release %c[%n] : !pipe.channel<2>
    }
    ```
  }];
  let arguments = (ins I64Attr:$producer_registers, I64Attr:$count, I64Attr:$consumer_registers);
  let regions = (region MaxSizedRegion<1>:$finder, SizedRegion<1>:$producer, SizedRegion<1>:$consumers);
  let assemblyFormat = [{
    (`finder` $finder^)? `producer` $producer_registers $producer
    `consumers` $count $consumer_registers $consumers attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool hasFinder() { return !getFinder().empty(); }
  }];
}

class Pipe_ChannelOp<string mnemonic> : Pipe_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use);
  let assemblyFormat = "$channel `[` $use `]` attr-dict `:` type($channel)";
  let hasVerifier = 1;
}

def Pipe_AcquireOp : Pipe_Op<"acquire", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "who fills, sends or publishes waits until the stage of use n, or a part of it, is empty";
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use, DefaultValuedAttr<I64Attr, "0">:$part);
  let assemblyFormat = "$channel `[` $use `]` (`part` $part^)? attr-dict `:` type($channel)";
  let hasVerifier = 1;
}

def Pipe_AwaitOp : Pipe_Op<"await", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a consumer waits until the stage of use n, or its part of it, is full";
  let description = [{
    `values` are the numbers that came with it, as many as the channel's `words`.

    Example: `%n:2 = pipe.await %c[%use] : !pipe.channel<2 words = 2> -> i32, i32`
  }];
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use);
  let results = (outs Variadic<I32>:$values);
  let assemblyFormat = "$channel `[` $use `]` attr-dict `:` type($channel) (`->` type($values)^)?";
  let hasVerifier = 1;
}

def Pipe_ReleaseOp : Pipe_ChannelOp<"release"> {
  let summary = "a warp of the consumers no longer reads the stage of use n, or its part of it";
}

def Pipe_PublishOp : Pipe_Op<"publish", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warp of the consumers has written its part of the stage of use n";
  let description = [{
    The consumers hand a buffer to each other: the stage is full when all their warps have published the use, and what they wrote is then
    seen by the products of those that await it. A use may be published of which nothing was written.

    Example: `pipe.publish %dS on %c[%n] : !pipe.buffer<2, [128, 64], bf16, panels = true>, !pipe.channel<2>`
  }];
  let arguments = (ins Pipe_BufferType:$buffer, Pipe_ChannelType:$channel, I32:$use);
  let assemblyFormat = "$buffer `on` $channel `[` $use `]` attr-dict `:` type($buffer) `,` type($channel)";
  let hasVerifier = 1;
}

def Pipe_SendOp : Pipe_Op<"send", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the producer, or the finder, hands numbers to others as use n of a channel";
  let arguments = (ins Variadic<I32>:$values, Pipe_ChannelType:$channel, I32:$use);
  let assemblyFormat = "$values `to` $channel `[` $use `]` attr-dict `:` type($channel)";
  let hasVerifier = 1;
}

def Pipe_ReceiveOp : Pipe_Op<"receive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warp awaits use n of a channel, takes its numbers and releases it";
  let description = "Example: `%n:2 = pipe.receive %c[%use] : !pipe.channel<2 words = 2> -> i32, i32`";
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use);
  let results = (outs Variadic<I32>:$values);
  let assemblyFormat = "$channel `[` $use `]` attr-dict `:` type($channel) `->` type($values)";
  let hasVerifier = 1;
}

def Pipe_FirstItemOp : Pipe_Op<"first_item", [Pure]> {
  let summary = "the number of the first work item of this thread block";
  let description = "It is the thread block's own; `offset` is that of `pipe.next_item`.";
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs I32:$item);
  let assemblyFormat = "attr-dict";
}

def Pipe_NextItemOp : Pipe_Op<"next_item", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "takes the number of the next work item from the launch's counter";
  let description = [{
    In order over all thread blocks; numbers from the count of the work items on mean that none is left. One
    thread of a block asks, and stops when none is left. Where the launch has no counter, a thread block takes each n-th
    item, of n thread blocks; `offset` is then where it keeps the last one: 4 bytes of shared memory, which
    pipe-place-buffers gives.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs I32:$item);
  let assemblyFormat = "attr-dict";
}

def Pipe_EndItemsOp : Pipe_Op<"end_items", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a thread block asks for no more work items";
  let description = "The last one to do so makes the counter ready for the next launch.";
  let assemblyFormat = "attr-dict";
}

def Pipe_FillOp : Pipe_Op<"fill", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the producer copies a block of rows of a view, or a part, into the stage of use n";
  let description = [{
    By tensor copies (PTX ISA, "cp.async.bulk.tensor"), one a panel, which complete the stage's full barrier. Rows from
    the end of the view on become zeros, and so do columns. Of a view of rank 3, which has a number for each row, the block's come in one
    piece ("cp.async.bulk"), and what lies behind its end comes with them. `values`, as many as the channel's `words`, go with them.
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_BlockType:$block, Optional<Tile_BlockType>:$columns,
                       Pipe_BufferType:$buffer, Pipe_ChannelType:$channel, I32:$use,
                       DefaultValuedAttr<I64Attr, "0">:$part, Variadic<I32>:$values);
  let assemblyFormat = [{
    $view `[` $block (`,` $columns^)? `]` `to` $buffer `on` $channel `[` $use `]` (`part` $part^)?
    (`with` $values^)? attr-dict
    `:` type($view) `[` type($block) (`,` type($columns)^)? `]` `,` type($buffer) `,` type($channel)
  }];
  let hasVerifier = 1;
}

def Pipe_EmptyOutOp : Pipe_Op<"empty_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "each warpgroup of the consumers stores its 64 rows of a buffer into a view";
  let description = [{
    Waits for the warpgroup's writes, then one thread starts a tensor copy for each panel. The buffer must
    stay as it is until a `pipe.drain`. Rows from the end of the view on are not stored.

    The buffer has one stage, or one for each warpgroup. Over a buffer of sums (`pipe.add_out`) it is the latter: then a stage lies where
    its own warpgroup's sums lay, so that the warpgroup waits for no other one before it writes.

    Example: `pipe.empty_out %rows to %dk[%keys] : !pipe.buffer<2, [64, 128], bf16, panels = true>, !tile.view<[B, Hkv, Sk, 128], bf16>[!tile.block<key, 128>]`
  }];
  let arguments = (ins Pipe_BufferType:$buffer, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = [{
    $buffer `to` $view `[` $block `]` attr-dict `:` type($buffer) `,` type($view) `[` type($block) `]`
  }];
  let hasVerifier = 1;
}

def Pipe_AddOutOp : Pipe_Op<"add_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "each warpgroup of the consumers adds its share of a buffer to a workspace";
  let description = [{
    `tile.accumulate`'s addition by the copy engine (PTX ISA, "cp.reduce.async.bulk"): waits for the warpgroup's writes, then one
    thread starts the addition. A warpgroup's share is its 64 rows, or, of a buffer of 64 rows in all, its columns of each
    (`#pipe.accumulator`). The buffer has elements f32 in the order of the workspace (FragmentOrder.h), and must stay as it
    is until a `pipe.drain`. 64 rows are added together if the first one is before the block's limit.

    `late`: it adds what the iteration before wrote. In the first iteration nothing was written, and the block has no rows.
  }];
  let arguments = (ins Pipe_BufferType:$buffer, Tile_ViewType:$view, Tile_BlockType:$block, UnitAttr:$late);
  let assemblyFormat = [{
    $buffer `to` $view `[` $block `]` (`late` $late^)? attr-dict `:` type($buffer) `,` type($view) `[` type($block) `]`
  }];
  let hasVerifier = 1;
}

def Pipe_OpenTurnsOp : Pipe_Op<"open_turns", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "gives the first turn to the first warpgroup of the consumers; once, before all turns";
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_BeginTurnOp : Pipe_Op<"begin_turn", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warpgroup of the consumers waits for its turn";
  let description = [{
    Warpgroups take turns in their order, round and round: one starts its products while another uses what its own
    gave (ping-pong, FlashAttention-3, arXiv:2407.08608). All must take the same number of turns.
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_EndTurnOp : Pipe_Op<"end_turn", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "hands the turn to the next warpgroup";
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_DrainOp : Pipe_Op<"drain", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warpgroup of the consumers waits until its copies out of buffers have read them";
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Launches of a plan (sm_90 and later)
//===----------------------------------------------------------------------===//

def Pipe_AwaitLaunchOp : Pipe_Op<"await_launch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the launches before this one, of the same plan, have ended";
  let description = [{
    A launch may begin while the one before it ends (PTX ISA, "griddepcontrol.wait"). What that one has written is seen from here on, and what it
    reads may be written. All threads of all thread blocks come here first, so a launch ends behind all launches before it, and each one
    needs to wait for its neighbour alone. In a launch that began behind the end of the one before, it waits for nothing.

    Example: `pipe.await_launch`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_ReleaseLaunchOp : Pipe_Op<"release_launch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "lets the next launch of the plan begin, once all thread blocks came here or ended";
  let description = [{
    Its thread blocks take what room is left, and wait in their `pipe.await_launch` for the end of this launch (PTX ISA,
    "griddepcontrol.launch_dependents"). So where it stands changes no result.

    Example: `pipe.release_launch`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

#endif // TESELA_PIPE_OPS
