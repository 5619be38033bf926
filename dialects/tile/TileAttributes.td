//===- TileAttributes.td - Extents and schedules ----------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_ATTRIBUTES
#define TESELA_TILE_ATTRIBUTES

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "tile/TileDialect.td"

class Tile_Attr<string name, string mnemonic_> : AttrDef<Tile_Dialect, name> {
  let mnemonic = mnemonic_;
}

def Tile_SymbolAttr : Tile_Attr<"Symbol", "symbol"> {
  let summary = "an extent that is a parameter of a template";
  let description = [{
    Inside a type it is written as the bare name: `!tile.tile<[block_m, 64], f32>`.
  }];
  let parameters = (ins StringRefParameter<"the parameter's name">:$name);
  let assemblyFormat = "`<` $name `>`";
}

def Tile_ExtentOperator : I32EnumAttr<"ExtentOperator", "how an extent is computed from two", [
    I32EnumAttrCase<"Add", 0, "+">,
    I32EnumAttrCase<"Multiply", 1, "*">,
    I32EnumAttrCase<"CeilDivide", 2, "ceildiv">]> {
  let cppNamespace = "::tesela::tile";
  let genSpecializedAttr = 0;
}

def Tile_ExtentExprAttr : Tile_Attr<"ExtentExpr", "extent"> {
  let summary = "an extent computed from two";
  let description = [{
    `left + right`, `left * right` or `left ceildiv right`; operands are integers,
    symbols or, in parentheses, expressions: `#tile.extent<(d ceildiv 16) * 16>`. Inside a type
    it is written plainly: `!tile.tile<[block_m, (d ceildiv 16) * 16], f32>`.
  }];
  let parameters = (ins EnumParameter<Tile_ExtentOperator>:$op, "::mlir::Attribute":$left,
                        "::mlir::Attribute":$right);
  let hasCustomAssemblyFormat = 1;
}

def Tile_Role : I32EnumAttr<"Role", "what a launch does with a tensor", [
    I32EnumAttrCase<"In", 0, "in">,
    I32EnumAttrCase<"Out", 1, "out">,
    I32EnumAttrCase<"Workspace", 2, "workspace">,
    I32EnumAttrCase<"Optional", 3, "optional">]> {
  let cppNamespace = "::tesela::tile";
  let genSpecializedAttr = 0;
}

def Tile_ScheduleAttr : Tile_Attr<"Schedule", "schedule"> {
  let summary = "every choice about how a kernel runs";
  let description = [{
    Chosen once, before bind (compiler/schedule: heuristic, then the caller's overrides),
    verified against the chip's facts there, and only obeyed afterwards. The fields, their limits and their defaults
    stand in ScheduleFields.def; a default may be left out, except those of the first five fields.

    | field | meaning |
    |---|---|
    | `block_m` | rows of queries of a work item |
    | `heads` | query heads of one key/value head that share those rows, position by position; 1, the default: a work item has one head |
    | `block_n` | rows of keys of one step |
    | `stages` | buffers of K and of V: 1 loads and waits, n prefetches n - 1 blocks |
    | `warps` | warps of a thread block (GPU) |
    | `q_in_registers` | the query tile is kept in registers (GPU) |
    | `consumers` | warpgroups that compute beside one that copies (sm_90a); 0, the default: all warps do both |
    | `reference` | what exponents are relative to; `follow`, the default: the row's maximum so far; `lazy`: it follows only when the maximum has grown by 2^8 (GPU); `recompute`: as `lazy`, but found by looking at the exponentials' sum, and the block is computed again (GPU) |
    | `overlap` | a block's second product runs beside the next block's first (consumers) |
    | `turns` | warpgroups start the products of their blocks one after the other (overlap) |
    | `persistent` | a thread block for each multiprocessor takes work items until none is left (consumers) |
    | `group_keys` | work items come in groups of key/value heads that have this many keys together, so that a cache holds them; 0: head by head |
    | `last_keys_first` | a row's blocks of keys in descending order |
    | `query_stages` | buffers of Q: 1, the default: a work item's queries are loaded when the last item's have been read; 2: while they are (persistent). Of gradients: of what a work item owns, keys and values or queries |
    | `late_stages` | buffers of what only products between a loop's first and last read; 0, the default: `stages` (consumers) |
    | `split_outputs` | each output of a kernel with products has a kernel of its own (GPU) |
    | `output_buffer` | the output leaves through a buffer of its own, not through the queries' (consumers) |
    | `lanes` | f32 numbers of a vector (host); 0, the default: as many as the CPU's vectors have |
    | `product_rows`, `product_vectors` | the block of a product's result that stays in registers, in rows and in vectors of `lanes` (host); 0, the default: what suits the CPU's registers. `product_rows` of gradients without consumers: the rows of a product that a warp has, a multiple of 16 |
    | `product_pairs` | products of bf16 multiply and add two of a row at a time (host, AVX512-BF16) |

    Example: `#tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 4, q_in_registers = false>`
  }];
  let parameters = (ins "::tesela::Schedule":$choices);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// schedule->blockM
    const ::tesela::Schedule *operator->() const;
  }];
}

#endif // TESELA_TILE_ATTRIBUTES
