//===- KernelSignature.h - A kernel's arguments as launch slots -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The order of a kernel's arguments in machine code, the same on every target:
//
//   B H Hkv Sq Sk                      five i32
//   then for each argument of tile.kernel, in order
//     a view                           address, strides of all axes but the last (i64);
//                                      of sequences and pages also the extents that are `?` (i32)
//     a contiguous view                address
//     a view named $capture, or        address, then extent (i32) and stride (i64) of each axis
//     a strided one of integers, or of
//     which single elements are read
//     a scalar named $parameter        its value (f32 or i32)
//     another scalar                   the softmax scale (f32)
//   then, if the schedule has consumers, for each copied view of rank 4 with 16 or 8 bits
//     its tensor map and the coordinate steps of batch and head (i32); if blocks may end inside the
//     tensor, the tensor map of single rows; if eight rows are always adjacent, that of eight rows
//   then, if the schedule is persistent, the address of the launch's counter
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_KERNELSIGNATURE_H
#define TESELA_COMPILER_TARGETS_COMMON_KERNELSIGNATURE_H

#include "tesela/compiler/Artifact.h"
#include "tile/Tile.h"

#include <vector>

namespace tesela {

/// The numbers of the slots that hold the parts of an argument.
struct ViewSlots {
  unsigned data = 0;
  std::vector<unsigned> strides; ///< empty for a contiguous view
  /// By axis. All axes of a view that is read element by element; the `?` of sequences and pages.
  std::vector<unsigned> extents;
  unsigned tensorMap = 0; ///< only of views with tensor maps; the two coordinate steps follow it
  unsigned rowMap = 0; ///< maps of single rows, if blocks end inside the tensor; that of 8 follows
  bool isOptional = false; ///< its address may be 0: then stores do nothing and loads give 0
};

class KernelSignature {
public:
  explicit KernelSignature(tile::KernelOp kernel);

  const std::vector<ArgumentSlot> &slots() const { return slots_; }
  /// LLVM-compatible type of slot `index`: i32, i64, f32, or null for an address or a tensor map.
  mlir::Type type(unsigned index) const { return types_[index]; }
  /// The slot of the extent named B, H, Hkv, Sq or Sk.
  static unsigned extent(llvm::StringRef name);
  /// The slots of the view that is argument `argument` of the kernel.
  const ViewSlots &view(unsigned argument) const { return views_[argument]; }
  /// The slot of the scalar that is argument `argument` of the kernel.
  unsigned scalar(unsigned argument) const { return views_[argument].data; }
  /// The slot of a persistent kernel's counter.
  unsigned counter() const { return slots_.size() - 1; }

private:
  void add(ArgumentSlot::Kind kind, std::string name, int axis, mlir::Type type, int heads = 1);

  std::vector<ArgumentSlot> slots_;
  std::vector<mlir::Type> types_;
  std::vector<ViewSlots> views_;
};

/// The number of work items of a bound kernel: `(* (ceildiv Sq block_m) (* B H))`, or with packs of
/// heads instead of H. For blocks of keys `(* (ceildiv Sk block_n) (* B Hkv))`. With `dealt to`
/// times the parts of tile.head_parts; with `joined` times 0 if there is one part. For
/// tile.work_slots with B and `more` instead of B.
Expression workItems(tile::KernelOp kernel);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_KERNELSIGNATURE_H
