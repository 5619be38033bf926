//===- PipeDialect.td - The machine that GPU targets share -*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PIPE_DIALECT
#define TESELA_PIPE_DIALECT

include "mlir/IR/DialectBase.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let cppNamespace = "::tesela::pipe";
  let summary = "buffers, copies and fragments";
  let description = [{
    What the GPU lowerings share: buffers in shared memory, asynchronous copies into them, and
    *encodings*, which say how the elements of a `!tile.tile` are spread over the registers of a
    thread block. The dialect knows nothing of attention.

    **Strips.** A thread block has `warps` warps. A tile's rows are cut into strips
    of 16 rows; strip s belongs to warp `s mod warps`. Within a strip, lane t
    holds rows `t / 4` and `t / 4 + 8` (PTX ISA, "Matrix fragments for
    mma.m16n8k16").
  }];
  let dependentDialects = ["::tesela::tile::TileDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif // TESELA_PIPE_DIALECT
