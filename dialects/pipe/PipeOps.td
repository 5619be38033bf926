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
    `pipe-place-buffers` sets `offset`, in bytes from the start of the thread block's shared memory.
    `over` names another buffer. The new buffer then lies in that buffer's memory, and the program must no longer need the data there.
    `behind` (bytes) moves the new buffer away from the first byte of `over`. If `over` holds sums and each warpgroup has its own share
    of them (`pipe.empty_out`), `behind` counts from the first byte of each share. This puts two outputs side by side in one share.

    `crossed`: both buffers have two stages, and stage s of this one lies over stage 1 - s of the other. A channel fills each of them, use n of
    one beside use n of the other:

    | use | 0 | 1 | 2 | 3 |
    |---|---|---|---|---|
    | of `over` | stage 0 | stage 1 | stage 0 | stage 1 |
    | of this buffer, in stages of `over` | 1 | 0 | 1 | 0 |

    So use n + 1 of one buffer comes to the stage that held use n of the other, and `pipe.acquire` waits until that use has been released. The uses
    of its own buffer that the stage held earlier were released before that one was filled. With two buffers of one stage each, which take as much
    memory, a copy could start only when the use before it of the same buffer has been released, perhaps at the end of an iteration.

    Examples:
    ```mlir
    %k = pipe.alloc {offset = 32768 : i64} : !pipe.buffer<2, [64, 128], bf16>
    %do = pipe.alloc over %q : !pipe.buffer<2, [64, 256], bf16, panels = true>, {crossed} : !pipe.buffer<2, [64, 256], bf16, panels = true>
    ```
  }];
  let arguments = (ins Optional<Pipe_BufferType>:$over, OptionalAttr<I64Attr>:$offset,
                       DefaultValuedAttr<I64Attr, "0">:$behind, UnitAttr:$crossed);
  let results = (outs Pipe_BufferType:$buffer);
  let assemblyFormat = "(`over` $over^ `:` type($over) `,`)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The buffer whose stages this one's are crossed with, on either side; null if there is none.
    ::mlir::Value getCrossedBuffer();
  }];
}

def Pipe_CopyOp : Pipe_Op<"copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts copying a block of rows of a view into a stage of a buffer";
  let description = [{
    The copy is asynchronous. Its data are in the buffer after a `pipe.wait` that covers the copy's `pipe.commit`, and the whole
    thread block sees them after a `pipe.barrier` (PTX ISA, "cp.async"). Rows from the block's limit on become zeros,
    and so do columns from the limit of `columns` on. The first column is a multiple of 8 (16 bytes of 16-bit elements).
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
  let summary = "waits until at most `pending` of this thread's groups of copies are unfinished";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Pipe_BarrierOp : Pipe_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits for all threads of the block and makes their writes to shared memory visible to each other";
  let description = [{
    In the consumers' region of a `pipe.roles` it waits for all threads of the consumers, and all of them must reach it. The
    consumers' asynchronous products then see these writes, too.
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_SlotOp : Pipe_Op<"slot", [Pure]> {
  let summary = "a stage of a buffer, as a tile";
  let description = [{
    The tile has the values that the stage holds when the tile is used. It may have fewer columns than the buffer. Then
    it begins at `first_column`, which is a multiple of 64 in a buffer of panels, and 0 in any other buffer.

    Example: `%K = pipe.slot %k[%stage] : !pipe.buffer<2, [64, 128], bf16> -> !tile.tile<[64, 128], bf16, #pipe.shared>`
  }];
  let arguments = (ins Pipe_BufferType:$buffer, I32:$stage,
                       DefaultValuedAttr<I64Attr, "0">:$first_column);
  let results = (outs Pipe_AnyTile:$tile);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$tile, "::mlir::Value":$buffer, "::mlir::Value":$stage), [{
      build($_builder, $_state, tile, buffer, stage, /*first_column=*/0);
    }]>
  ];
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
    The product of `tile.dot`, asynchronous (PTX ISA, "wgmma.mma_async"). Each product is a wgmma group of its own. The result is in
    flight until a `pipe.dot_wait` that covers it. Until then the operands in shared memory must not
    change. A loop may carry a product in flight to the `pipe.dot_wait`.

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
    // The product of `dot` with the operands `a`, `b` and `c`.
    OpBuilder<(ins "::tesela::tile::DotOp":$dot, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$c)>
  ];
  let hasVerifier = 1;
}

def Pipe_DotWaitOp : Pipe_Op<"dot_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` products of the warpgroup are in flight";
  let description = [{
    The result is the product `source`, now complete. At least `pending` products must have been started
    after `source`.

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
    From registers (`#pipe.accumulator`): the tile goes into one stage. If there is a stage for each warpgroup of the consumers, and the
    stages together have as many rows as the tile, each warpgroup writes its own rows into its own stage. If the warpgroups share the
    columns of the tile, the buffer has the columns that they compute (`#pipe.accumulator`), which may be more than the tile's. From shared memory (`#pipe.shared`):
    the tile has elements f8E4M3FN, and they are widened, exactly, to the buffer's type. Each thread widens 16 bytes at a time, so no registers hold the tile.

    Example: `pipe.write %k8 to %widened[%stage] : !tile.tile<[64, 128], f8E4M3FN, #pipe.shared>, !pipe.buffer<1, [64, 128], bf16>`
  }];
  let arguments = (ins Pipe_AnyTile:$tile, Pipe_BufferType:$buffer, I32:$stage);
  let assemblyFormat = "$tile `to` $buffer `[` $stage `]` attr-dict `:` type($tile) `,` type($buffer)";
  let hasVerifier = 1;
}

def Pipe_StoreOp : Pipe_Op<"store", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "stores a stage of a buffer into a block of rows of a view";
  let description = "Rows from the block's limit on are not stored. The store is synchronous: threads copy from shared to global memory.";
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
    A channel is two barriers for each stage (see the type). `pipe-place-buffers` sets `offset`, in bytes from the start of the thread block's shared memory.

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
    One thread of the first warpgroup runs `producer`. All threads of the next `count` warpgroups run
    `consumers`. Registers move from the first warpgroup to the others (PTX ISA, "setmaxnreg"). The sum over all
    warpgroups may not exceed the registers at the kernel's start: `setmaxnreg` would wait forever.

    `finder` is a program that runs ahead of both and sends them which blocks come next. With it, two warps of the first
    warpgroup run `producer` and `finder`, each with one active lane where one thread is needed.

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
  let summary = "the role that writes a stage waits until the stage of use n, or a part of it, is empty";
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use, DefaultValuedAttr<I64Attr, "0">:$part);
  let assemblyFormat = "$channel `[` $use `]` (`part` $part^)? attr-dict `:` type($channel)";
  let hasVerifier = 1;
}

def Pipe_AwaitOp : Pipe_Op<"await", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a consumer waits until the stage of use n, or the warpgroup's part of it, is full";
  let description = [{
    `values` are the numbers that the use carries, as many as the channel's `words`.

    Example: `%n:2 = pipe.await %c[%use] : !pipe.channel<2 words = 2> -> i32, i32`
  }];
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use);
  let results = (outs Variadic<I32>:$values);
  let assemblyFormat = "$channel `[` $use `]` attr-dict `:` type($channel) (`->` type($values)^)?";
  let hasVerifier = 1;
}

def Pipe_ReleaseOp : Pipe_ChannelOp<"release"> {
  let summary = "a warp of the consumers no longer reads the stage of use n, or the warpgroup's part of it";
}

def Pipe_PublishOp : Pipe_Op<"publish", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warp of the consumers has written its part of the stage of use n";
  let description = [{
    The consumers hand a buffer to each other. The stage is full when all their warps have published the use. The warps that await the use
    then see what all warps wrote, also through their asynchronous products. A use may be published although nothing was written.

    Example: `pipe.publish %dS on %c[%n] : !pipe.buffer<2, [128, 64], bf16, panels = true>, !pipe.channel<2>`
  }];
  let arguments = (ins Pipe_BufferType:$buffer, Pipe_ChannelType:$channel, I32:$use);
  let assemblyFormat = "$buffer `on` $channel `[` $use `]` attr-dict `:` type($buffer) `,` type($channel)";
  let hasVerifier = 1;
}

def Pipe_SendOp : Pipe_Op<"send", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the producer or the finder hands numbers to other roles as use n of a channel";
  let description = [{
    If a `pipe.fill` uses the channel as well, this use's stage is handed over as it is, with anything in it.

    Example: `pipe.send %first, %head to %items[%use] : !pipe.channel<2 words = 2>`
  }];
  let arguments = (ins Variadic<I32>:$values, Pipe_ChannelType:$channel, I32:$use);
  let assemblyFormat = "($values^)? `to` $channel `[` $use `]` attr-dict `:` type($channel)";
  let hasVerifier = 1;
}

def Pipe_ReceiveOp : Pipe_Op<"receive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warp waits for use n of a channel, takes its numbers and releases the use";
  let description = "Example: `%n:2 = pipe.receive %c[%use] : !pipe.channel<2 words = 2> -> i32, i32`";
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use);
  let results = (outs Variadic<I32>:$values);
  let assemblyFormat = "$channel `[` $use `]` attr-dict `:` type($channel) `->` type($values)";
  let hasVerifier = 1;
}

def Pipe_FirstItemOp : Pipe_Op<"first_item", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the number of the first work item of this thread block";
  let description = "The first item has the thread block's number, or, in a kernel with `tile.order_additions`, the counter's next one. `offset` has the meaning that it has for `pipe.next_item`.";
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs I32:$item);
  let assemblyFormat = "attr-dict";
}

def Pipe_NextItemOp : Pipe_Op<"next_item", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "takes the number of the next work item from the launch's counter";
  let description = [{
    The counter gives the numbers in ascending order over all thread blocks. A number that is not less than the number of work items means
    that no item is left. One thread of each block asks, and it does not ask again after such a number. A launch without a counter gives
    thread block i of n the items i, i + n, i + 2n, …. The thread block then keeps its last number at `offset` in shared memory (4 bytes,
    which pipe-place-buffers allocates).
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs I32:$item);
  let assemblyFormat = "attr-dict";
}

def Pipe_EndItemsOp : Pipe_Op<"end_items", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the thread block will take no more work items";
  let description = "The last thread block to execute this resets the launch's counter for the next launch.";
  let assemblyFormat = "attr-dict";
}

def Pipe_FillOp : Pipe_Op<"fill", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the producer copies a block of rows of a view, or a part, into the stage of use n";
  let description = [{
    Tensor copies (PTX ISA, "cp.async.bulk.tensor"), one for each panel, complete the stage's full barrier. Rows and columns beyond
    the end of the view become zeros. A view of rank 3 has one number for each row. The numbers of the block come in one
    copy ("cp.async.bulk"), which also brings the numbers behind the block's limit. `values`, as many as the channel's `words`, go with the use.
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

def Pipe_UniformOp : Pipe_Op<"uniform", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a number that all threads of a warp share";
  let description = [{
    The result is `number`, which must be the same for all threads of a warp. The op says so to ptxas, which cannot always see it
    (`pipe-mark-uniform`). All threads of the warp must run the op together: it becomes a broadcast (PTX ISA, "shfl.sync"). So the op is
    not pure, and no pass may move it under a branch.

    Example: `%shared = pipe.uniform %count`
  }];
  let arguments = (ins I32:$number);
  let results = (outs I32:$result);
  let assemblyFormat = "$number attr-dict";
  let hasVerifier = 1;
}

def Pipe_EmptyOutOp : Pipe_Op<"empty_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "each warpgroup of the consumers stores its 64 rows of a buffer into a view";
  let description = [{
    The op waits for the warpgroup's writes; then one thread starts a tensor copy for each panel. The buffer must not
    change until a `pipe.drain`. Rows beyond the end of the view are not stored.

    The buffer has one stage, or one stage for each warpgroup. A buffer that lies over sums (`pipe.add_out`) has a stage for each warpgroup. The stage
    lies in the memory of that warpgroup's own sums, so the warpgroup need not wait for other warpgroups before it writes.

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
    This is the addition of `tile.accumulate`, done by the copy engine (PTX ISA, "cp.reduce.async.bulk"). The op waits for the warpgroup's writes;
    then one thread starts the addition. A warpgroup's share is its 64 rows. A buffer that has only 64 rows is shared by columns instead
    (`#pipe.accumulator`). The buffer has elements f32 in the order of the workspace (FragmentOrder.h), and must not
    change until a `pipe.drain`. All 64 rows of a share are added if the first of them is before the block's limit.

    `late`: the op adds what the previous iteration wrote. The first iteration has no previous one, and its block has no rows.
  }];
  let arguments = (ins Pipe_BufferType:$buffer, Tile_ViewType:$view, Tile_BlockType:$block, UnitAttr:$late);
  let assemblyFormat = [{
    $buffer `to` $view `[` $block `]` (`late` $late^)? attr-dict `:` type($buffer) `,` type($view) `[` type($block) `]`
  }];
  let hasVerifier = 1;
}

def Pipe_OpenTurnsOp : Pipe_Op<"open_turns", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "gives the first turn to the first warpgroup of the consumers; stands once, before all turns";
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_BeginTurnOp : Pipe_Op<"begin_turn", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a warpgroup of the consumers waits for its turn";
  let description = [{
    Warpgroups take turns in order, cyclically. One warpgroup starts its products while another computes with the results of its own
    products (ping-pong, FlashAttention-3, arXiv:2407.08608). All warpgroups must take the same number of turns.
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
  let summary = "a warpgroup of the consumers waits until its copies to global memory have read their buffers";
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Launches of a plan (sm_90 and later)
//===----------------------------------------------------------------------===//

def Pipe_AwaitLaunchOp : Pipe_Op<"await_launch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the earlier launches of the same plan have ended";
  let description = [{
    A launch may begin while the launch before it still runs (PTX ISA, "griddepcontrol.wait"). After this op, the writes of that launch are visible, and
    memory that it reads may be written. All threads of all thread blocks execute this op first. So a launch ends after all launches before it, and
    each launch needs to wait only for the one directly before it. The op does not wait if that launch has already ended.

    Example: `pipe.await_launch`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Pipe_ReleaseLaunchOp : Pipe_Op<"release_launch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "lets the next launch of the plan begin, once all thread blocks have executed this op or ended";
  let description = [{
    Thread blocks of the next launch start where there is room, and wait in their `pipe.await_launch` for the end of this launch (PTX ISA,
    "griddepcontrol.launch_dependents"). So the position of this op does not change results.

    Example: `pipe.release_launch`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

#endif // TESELA_PIPE_OPS
