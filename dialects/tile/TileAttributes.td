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
    I32EnumAttrCase<"CeilDivide", 2, "ceildiv">,
    I32EnumAttrCase<"Maximum", 3, "max">]> {
  let cppNamespace = "::tesela::tile";
  let genSpecializedAttr = 0;
}

def Tile_ExtentExprAttr : Tile_Attr<"ExtentExpr", "extent"> {
  let summary = "an extent computed from two";
  let description = [{
    `left + right`, `left * right`, `left ceildiv right` or `left max right`. Operands are integers,
    symbols or, in parentheses, expressions: `#tile.extent<(d ceildiv 16) * 16>`. Inside a type
    only the expression is written: `!tile.tile<[block_m, (d ceildiv 16) * 16], f32>`.
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
    The schedule is chosen once, before bind (compiler/schedule: a heuristic, then the caller's overrides),
    and verified there against the chip's facts. Passes obey it and change nothing. ScheduleFields.def has the fields, their limits and their
    defaults. A default may be left out, except in the first five fields.

    | field | meaning |
    |---|---|
    | `block_m` | query rows of a work item |
    | `heads` | query heads of one key/value head that share those rows, position by position; 1, the default: a work item has one head |
    | `block_n` | key rows of one step of the loop |
    | `stages` | buffers of K and of V: with 1, a step loads and waits; with n, n - 1 blocks are prefetched |
    | `warps` | warps of a thread block (GPU) |
    | `q_in_registers` | the query tile stays in registers (GPU) |
    | `consumers` | warpgroups that compute, besides one that copies (sm_90a); 0, the default: all warps copy and compute |
    | `reference` | the number that is subtracted in a row's exponentials. `follow`, the default: the row's maximum so far. `lazy`: an earlier maximum, replaced when the maximum has grown by 2^8 (GPU). `recompute`: as `lazy`, but the kernel tests the sum of the exponentials, and computes the block again if the reference must change (GPU) |
    | `overlap` | a block's second product runs beside the next block's first product (consumers) |
    | `turns` | warpgroups start the products of their blocks one after the other (overlap) |
    | `persistent` | each multiprocessor runs one thread block, which takes work items until none is left (consumers) |
    | `group_keys` | work items are ordered in groups of up to 16 key/value heads; a group has at most about this many keys, so that they fit into a cache. 0: each key/value head is a group |
    | `last_keys_first` | a row's blocks of keys run in descending order |
    | `query_stages` | buffers of Q. 1, the default: a work item's queries are loaded after the previous item's queries have been read. 2: while they are read (persistent). In gradients: buffers of the tensors that a work item owns, keys and values or queries |
    | `query_panels` | panels of 64 columns of the queries that a consumer keeps in registers, with heads wider than 256; the other columns are read from shared memory. 0, the default: all of them (consumers) |
    | `late_stages` | buffers of tensors that only the products between a loop's first and last product read; 0, the default: `stages` (consumers) |
    | `late_crossed` | the buffers of `late_stages` have two stages, which lie crossed over those of a tensor that the first product reads (`pipe.alloc`) (consumers) |
    | `add_in_turn` | work items add to shared sums in a fixed order (`tile-add-in-turn`), so that launches give the same bits (persistent) |
    | `split_outputs` | each output of a kernel with products gets its own kernel (GPU) |
    | `output_buffer` | the output has its own buffer in shared memory and does not reuse the queries' buffer (consumers) |
    | `vector_length` | f32 elements of a CPU vector (host); 0, the default: as many as the CPU's vectors have |
    | `product_rows`, `product_vectors` | the block of a product's result that stays in registers, in rows and in vectors of `vector_length` elements (host); 0, the default: what fits the CPU's registers. `product_rows` of gradients without consumers: the rows of a product that one warp has, a multiple of 16 |
    | `product_pairs` | products of bf16 multiply and add two elements of a row at a time (host, AVX512-BF16) |

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
