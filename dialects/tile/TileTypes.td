//===- TileTypes.td - Tiles, views, blocks ----------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_TYPES
#define TESELA_TILE_TYPES

include "mlir/IR/AttrTypeBase.td"
include "tile/TileAttributes.td"

class Tile_Type<string name, string mnemonic_> : TypeDef<Tile_Dialect, name> {
  let mnemonic = mnemonic_;
}

def Tile_ElementParamType : Tile_Type<"ElementParam", "element"> {
  let summary = "an element type that is a parameter of a template";
  let description = "Inside another type it is written as the bare name: `!tile.tile<[64], input>`.";
  let parameters = (ins StringRefParameter<"the parameter's name">:$name);
  let assemblyFormat = "`<` $name `>`";
}

def Tile_TileType : Tile_Type<"Tile", "tile"> {
  let summary = "a block of values";
  let description = [{
    One extent (a value for each row) or two (rows, columns); the last is
    contiguous where it is loaded from memory. A tile of a single row, [1, columns], has a value for each column. The encoding says where the
    elements live; it is absent before `pipe-assign-fragments`.

    Examples: `!tile.tile<[block_m, d_qk], input>`, `!tile.tile<[128], f32>`,
    `!tile.tile<[128, 64], f32, #pipe.accumulator<warps = 4>>`
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Attribute">:$extents,
                        "::mlir::Type":$elementType,
                        DefaultValuedParameter<"::mlir::Attribute", "::mlir::Attribute()">:$encoding);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of extents: 1 or 2.
    int64_t getRank() const { return getExtents().size(); }
    /// The extent of `axis`; only after bind.
    int64_t getExtent(int64_t axis) const;
    /// Two extents, of which the first is 1: a value for each column.
    bool isSingleRow() const;
    /// No parameter is left in it.
    bool isBound() const;
    TileType withEncoding(::mlir::Attribute encoding) const;
    TileType withElementType(::mlir::Type type) const;
  }];
}

def Tile_ViewType : Tile_Type<"View", "view"> {
  let summary = "a strided global tensor";
  let description = [{
    An extent is a number, a parameter of the template, an extent of the launch (`B H Hkv Sq Sk`)
    or what is computed of these; `?` is any. Those that name extents of the launch are what the
    launch's arguments are held against.

    Strides are arguments of the launch and no part of the type. Views that are loaded and stored
    in tiles are [batch, head, position, D] whatever the strides, with the last stride 1. A
    `contiguous` view is row-major without gaps, so that the kernel takes no strides; of rank 3 it
    is [batch, head, position], a number for each row.
    A captured tensor of bool is a view of i8.

    Examples: `!tile.view<[B, Hkv, Sk, d_qk], input>`, `!tile.view<[B, H, Sq], f32, contiguous>`,
    `!tile.view<[?], f32>`
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Attribute">:$extents,
                        "::mlir::Type":$elementType,
                        DefaultValuedParameter<"bool", "false">:$contiguous);
  let builders = [TypeBuilder<(ins "::llvm::ArrayRef<::mlir::Attribute>":$extents,
                                   "::mlir::Type":$elementType), [{
    return $_get($_ctxt, extents, elementType, /*contiguous=*/false);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getExtents().size(); }
    /// What `tile.read` makes of an element: i32 of integers, f32 of floats; null of an element
    /// type that is a template's parameter.
    ::mlir::Type getReadType() const;
    /// The static extent of `axis`, or nothing where it is known at launch only.
    std::optional<int64_t> getStaticExtent(int64_t axis) const;
  }];
}

def Tile_Axis : I32EnumAttr<"Axis", "what the rows of a block are", [
    I32EnumAttrCase<"Query", 0, "query">,
    I32EnumAttrCase<"Key", 1, "key">]> {
  let cppNamespace = "::tesela::tile";
  let genSpecializedAttr = 0;
}

def Tile_BlockType : Tile_Type<"Block", "block"> {
  let summary = "a batch, a head and consecutive rows of a view";
  let description = [{
    Four numbers: batch, head, first row, and the limit from which on rows do not
    exist. `query` blocks carry the query head, `key` blocks the key/value head.

    A block of `heads` query heads packs them (the row map): row i of it is that of
    head `head + i mod heads` at position `first + i / heads`. They share a key/value head; heads
    beyond those that do so do not exist. `heads` is 1 where it is left out.

    Examples: `!tile.block<query, block_m, heads>`, `!tile.block<key, 64>`
  }];
  let parameters = (ins EnumParameter<Tile_Axis>:$axis, "::mlir::Attribute":$extent,
                        "::mlir::Attribute":$heads);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Rows of the block; only after bind.
    int64_t getRows() const;
    /// Heads that share its rows; only after bind.
    int64_t getHeadCount() const;
    /// Positions of a head; only after bind.
    int64_t getPositions() const { return getRows() / getHeadCount(); }
  }];
}

def Tile_FoundBlocksType : Tile_Type<"FoundBlocks", "found_blocks"> {
  let summary = "a sequence of blocks of keys, or of queries";
  let description = [{
    What `tile.find_blocks` gives, of blocks with so many keys (or positions of queries).

    Examples: `!tile.found_blocks<64>`, `!tile.found_blocks<64, query>`
  }];
  let parameters = (ins "int64_t":$rows,
                        DefaultValuedParameter<"::tesela::tile::Axis", "::tesela::tile::Axis::Key">:$axis);
  let assemblyFormat = "`<` $rows (`,` $axis^)? `>`";
}

#endif // TESELA_TILE_TYPES
