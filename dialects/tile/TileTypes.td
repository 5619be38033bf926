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
    A tile has one extent (a value for each row) or two (rows, columns). Tiles are row-major, and a row is
    contiguous in memory where it is loaded. A tile with a single row, [1, columns], has a value for each column. The encoding says where the
    elements live; there is none before `pipe-assign-fragments`.

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
    /// Whether the tile has two extents, of which the first is 1: a value for each column.
    bool isSingleRow() const;
    /// Whether no extent or type is a template's parameter.
    bool isBound() const;
    TileType withEncoding(::mlir::Attribute encoding) const;
    TileType withElementType(::mlir::Type type) const;
  }];
}

def Tile_ViewType : Tile_Type<"View", "view"> {
  let summary = "a strided global tensor";
  let description = [{
    An extent is a number, a parameter of the template, an extent of the launch (`B H Hkv Sq Sk`)
    or an expression of these; `?` allows any extent. A launch checks its arguments against the
    extents of the launch that the type names.

    Strides are arguments of the launch and no part of the type. Views whose tiles are loaded and
    stored are [batch, head, position, D], with any strides except that the last one is 1. A
    `contiguous` view is row-major without gaps, so the kernel takes no strides; with rank 3 it
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
    /// The type to which `tile.read` widens an element: i32 for integers, f32 for floats; null if the element
    /// type is a template's parameter.
    ::mlir::Type getReadType() const;
    /// The static extent of `axis`; nullopt if it is known only at launch.
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
    A block is four numbers: batch, head, first row, and a limit. Rows from the limit on do not
    exist. Blocks of queries have a query head, blocks of keys have a key/value head.

    A block of several `heads` packs query heads of one key/value head (the row map): row i belongs to
    head `head + i mod heads` at position `first + i / heads`. Heads beyond the last query head of that
    key/value head do not exist. `heads` is 1 if it is left out.

    Examples: `!tile.block<query, block_m, heads>`, `!tile.block<key, 64>`
  }];
  let parameters = (ins EnumParameter<Tile_Axis>:$axis, "::mlir::Attribute":$extent,
                        "::mlir::Attribute":$heads);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Rows of the block; only after bind.
    int64_t getRows() const;
    /// Number of heads that share its rows; only after bind.
    int64_t getHeadCount() const;
    /// Number of positions of a head; only after bind.
    int64_t getPositions() const { return getRows() / getHeadCount(); }
  }];
}

def Tile_FoundBlocksType : Tile_Type<"FoundBlocks", "found_blocks"> {
  let summary = "a sequence of blocks of keys, or of queries";
  let description = [{
    The result of `tile.find_blocks`. A block has `rows` keys (or positions of queries).

    Examples: `!tile.found_blocks<64>`, `!tile.found_blocks<64, query>`
  }];
  let parameters = (ins "int64_t":$rows,
                        DefaultValuedParameter<"::tesela::tile::Axis", "::tesela::tile::Axis::Key">:$axis);
  let assemblyFormat = "`<` $rows (`,` $axis^)? `>`";
}

#endif // TESELA_TILE_TYPES
