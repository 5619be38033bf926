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
    the whole thread block after a `pipe.barrier` (PTX ISA, "cp.async"). Rows from the block's limit on become zeros.
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_BlockType:$block, Pipe_BufferType:$buffer, I32:$stage);
  let assemblyFormat = [{
    $view `[` $block `]` `to` $buffer `[` $stage `]` attr-dict
    `:` type($view) `[` type($block) `]` `,` type($buffer)
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
  let assemblyFormat = "attr-dict";
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
    | `#pipe.accumulator`, 16-bit elements | `#pipe.operand` | nothing: the registers agree |
  }];
  let arguments = (ins Pipe_AnyTile:$source);
  let results = (outs Pipe_AnyTile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Pipe_WriteOp : Pipe_Op<"write", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a tile of 16-bit elements from registers into a stage of a buffer";
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
  let regions = (region SizedRegion<1>:$producer, SizedRegion<1>:$consumers);
  let assemblyFormat = [{
    `producer` $producer_registers $producer `consumers` $count $consumer_registers $consumers attr-dict
  }];
  let hasVerifier = 1;
}

class Pipe_ChannelOp<string mnemonic> : Pipe_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins Pipe_ChannelType:$channel, I32:$use);
  let assemblyFormat = "$channel `[` $use `]` attr-dict `:` type($channel)";
  let hasVerifier = 1;
}

def Pipe_AcquireOp : Pipe_ChannelOp<"acquire"> {
  let summary = "the producer waits until the stage of use n is empty";
}

def Pipe_AwaitOp : Pipe_ChannelOp<"await"> {
  let summary = "a consumer waits until the stage of use n is full";
}

def Pipe_ReleaseOp : Pipe_ChannelOp<"release"> {
  let summary = "a warp of the consumers no longer reads the stage of use n";
}

def Pipe_FillOp : Pipe_Op<"fill", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the producer copies a block of rows of a view into the stage of use n";
  let description = [{
    By tensor copies (PTX ISA, "cp.async.bulk.tensor"), one a panel, which complete the stage's full barrier. Rows from
    the end of the view on become zeros.
  }];
  let arguments = (ins Tile_ViewType:$view, Tile_BlockType:$block, Pipe_BufferType:$buffer,
                       Pipe_ChannelType:$channel, I32:$use);
  let assemblyFormat = [{
    $view `[` $block `]` `to` $buffer `on` $channel `[` $use `]` attr-dict
    `:` type($view) `[` type($block) `]` `,` type($buffer) `,` type($channel)
  }];
  let hasVerifier = 1;
}

def Pipe_EmptyOutOp : Pipe_Op<"empty_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "each warpgroup of the consumers stores its 64 rows of a buffer into a view";
  let description = [{
    Waits for the warpgroup's writes, then one thread starts a tensor copy for each panel and awaits that the buffer has been read. Rows
    from the end of the view on are not stored.
  }];
  let arguments = (ins Pipe_BufferType:$buffer, Tile_ViewType:$view, Tile_BlockType:$block);
  let assemblyFormat = [{
    $buffer `to` $view `[` $block `]` attr-dict `:` type($buffer) `,` type($view) `[` type($block) `]`
  }];
  let hasVerifier = 1;
}

#endif // TESELA_PIPE_OPS
