//===- PipeTypes.td - Encodings and buffers ---------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PIPE_TYPES
#define TESELA_PIPE_TYPES

include "mlir/IR/AttrTypeBase.td"
include "pipe/PipeDialect.td"

class Pipe_Attr<string name, string mnemonic_> : AttrDef<Pipe_Dialect, name> {
  let mnemonic = mnemonic_;
}

def Pipe_AccumulatorAttr : Pipe_Attr<"Accumulator", "accumulator"> {
  let summary = "the result of a matrix instruction, in registers";
  let description = [{
    In each strip and for each 8 columns from column c on, lane t holds the elements in row t/4 and
    columns c + 2(t mod 4) and the next, and the same two columns of row t/4 + 8. The register is
    `4 · (strip · columns/8 + c/8) + 2 · (lower rows) + (odd column)`.

    `warps` is the number of warps that share the rows. If the kernel has w times as many warps, the columns are shared too: warpgroup
    i of w has the columns from i · n to (i + 1) · n - 1, where n = columns/w. If n neither divides 64 nor is a multiple of it, it is rounded up to
    the next multiple: a warpgroup has whole panels of the right operand, and the last one computes columns that the tile lacks.

    `in_flight`: an asynchronous product still writes the registers; only `pipe.dot_wait` may use the tile.
  }];
  let parameters = (ins "int64_t":$warps, DefaultValuedParameter<"bool", "false">:$in_flight);
  let builders = [AttrBuilder<(ins "int64_t":$warps), [{
    return $_get($_ctxt, warps, /*in_flight=*/false);
  }]>];
  let assemblyFormat = "`<` struct(params) `>`";
}

def Pipe_OperandAttr : Pipe_Attr<"Operand", "operand"> {
  let summary = "the left operand of a matrix instruction, in registers";
  let description = [{
    A 32-bit register holds a pair of 16-bit elements in neighbouring columns. For each strip and each 16 columns, lane t has
    four registers: row t/4, columns 2(t mod 4) and the next; the same columns of row t/4 + 8; and both again 8
    columns further (PTX ISA, "Matrix fragments for mma.m16n8k16").
  }];
  let parameters = (ins "int64_t":$warps);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Pipe_RowsAttr : Pipe_Attr<"Rows", "rows"> {
  let summary = "a value for each row of an accumulator, in registers";
  let description = [{
    Lane t holds rows t/4 and t/4 + 8 of each strip. The four lanes of a row hold the
    same value, or, if `shares` is true, each lane holds its own share of the sum (see `tile.reduce`).
  }];
  let parameters = (ins "int64_t":$warps, "bool":$shares);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Pipe_ColumnsAttr : Pipe_Attr<"Columns", "columns"> {
  let summary = "a value for each column of an accumulator, in registers";
  let description = [{
    Of each 8 columns, lane t holds columns 2(t mod 4) and the next, the same for all rows: register
    `2 · (c/8) + (odd column)`.
  }];
}

def Pipe_SharedAttr : Pipe_Attr<"Shared", "shared"> {
  let summary = "a tile that lies in a buffer in shared memory";
}

def Pipe_BufferType : TypeDef<Pipe_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "stages of a tile in shared memory";
  let description = [{
    A stage has `rows` rows of `columns` elements, row-major. The 16-byte chunks of a row are permuted
    so that the same chunk of eight consecutive rows lies in different banks: chunk c of row r
    stands at position `c xor (r mod 8)`. Each row is padded to a multiple of 128 bytes.

    With `panels` a stage is cut into panels of 64 columns (128 columns of 8-bit elements). The panels lie one after the other, each with
    rows of 128 bytes; the last panel is padded. Tensor copies write this layout (SWIZZLE_128B), and wgmma reads it.

    A buffer of f32 holds results before they are stored. Its chunks are not permuted. A row takes 32 bytes more than a multiple of
    128, so that four rows of a fragment lie in different banks. A buffer of f32 with `panels` holds sums in the order of the workspace
    to which they are added, 64 rows after 64 rows, without padding (FragmentOrder.h).

    Examples: `!pipe.buffer<2, [64, 80], bf16>`, `!pipe.buffer<1, [64, 128], f32>`, `!pipe.buffer<2, [80, 128], bf16, panels = true>`
  }];
  let parameters = (ins "int64_t":$stages, "int64_t":$rows, "int64_t":$columns,
                        "::mlir::Type":$elementType,
                        DefaultValuedParameter<"bool", "false">:$panels);
  let builders = [TypeBuilder<(ins "int64_t":$stages, "int64_t":$rows, "int64_t":$columns,
                                   "::mlir::Type":$elementType), [{
    return $_get($_ctxt, stages, rows, columns, elementType, /*panels=*/false);
  }]>];
  let assemblyFormat = [{
    `<` $stages `,` `[` $rows `,` $columns `]` `,` $elementType (`,` `panels` `=` $panels^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRowBytes() const;
    /// Bytes of one element.
    int64_t getElementBytes() const { return getElementType().getIntOrFloatBitWidth() / 8; }
    /// Columns of a panel: 128 bytes. Without panels: the columns of eight chunks of 16 bytes.
    int64_t getPanelColumns() const { return 128 / getElementBytes(); }
    /// Bytes from a panel to the next, in a buffer of panels: all rows of 128 bytes.
    int64_t getPanelBytes() const { return getRows() * 128; }
    int64_t getStageBytes() const { return getRows() * getRowBytes(); }
    int64_t getBytes() const { return getStages() * getStageBytes(); }
  }];
}

def Pipe_ChannelType : TypeDef<Pipe_Dialect, "Channel"> {
  let mnemonic = "channel";
  let summary = "hands the stages of a buffer from a producer to consumers and back, or from consumers to consumers";
  let description = [{
    Each stage has two barriers in shared memory (PTX ISA, "mbarrier"): the producer's copies complete *full*,
    and every warp that reads the stage arrives on *empty*. The n-th use
    of a channel, counted from 0, is of stage `n mod stages`, in phase `n / stages`.

    With `parts` a use is handed over in that many parts with equally many rows. Each part has its own barriers, and part w goes
    to warpgroup w of the consumers only. `words`: how many 32-bit numbers a use carries, with or
    without a stage: 0 to 4.

    If consumers publish to the channel, they hand a buffer to each other. Then every warp of the consumers also arrives on *full*.

    Examples: `!pipe.channel<2>`, `!pipe.channel<1 parts = 3>`, `!pipe.channel<2 words = 4>`
  }];
  let parameters = (ins "int64_t":$stages, DefaultValuedParameter<"int64_t", "1">:$parts,
                        DefaultValuedParameter<"int64_t", "0">:$words);
  let builders = [TypeBuilder<(ins "int64_t":$stages), [{
    return $_get($_ctxt, stages, /*parts=*/1, /*words=*/0);
  }]>];
  let assemblyFormat = "`<` $stages (`parts` `=` $parts^)? (`words` `=` $words^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Two barriers (full, empty) of 8 bytes for each part of each stage; then 16 bytes of words for each stage.
    int64_t getBarrierBytes() const { return 16 * getStages() * getParts(); }
    int64_t getBytes() const { return getBarrierBytes() + (getWords() ? 16 * getStages() : 0); }
  }];
}

#endif // TESELA_PIPE_TYPES
