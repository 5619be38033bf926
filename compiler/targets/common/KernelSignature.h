//===- KernelSignature.h - A kernel's arguments as launch slots -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The order of a kernel's machine-level arguments, the same on every target:
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
//   then, where the schedule has consumers, for each view of rank 4 with 16 or 8 bits
//     its tensor map, and the coordinate steps of batch and head (i32); where blocks may end inside
//     the tensor, the tensor map of single rows, and that of eight rows where as many lie together
//   then, where it is persistent, the address of the launch's counter
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_KERNELSIGNATURE_H
#define TESELA_COMPILER_TARGETS_COMMON_KERNELSIGNATURE_H

#include "tesela/compiler/Artifact.h"
#include "tile/Tile.h"

#include <vector>

namespace tesela {

/// Where the parts of an argument stand among a kernel's slots.
struct ViewSlots {
  unsigned data = 0;
  std::vector<unsigned> strides; ///< empty for a contiguous view
  /// By axis: all of what is read by its elements; of sequences and pages those that are `?`.
  std::vector<unsigned> extents;
  unsigned tensorMap = 0; ///< views with tensor maps only; the two steps follow it
  unsigned rowMap = 0; ///< of one row each, where blocks end inside the tensor; that of 8 follows
  bool isOptional = false; ///< its address may be 0: then nothing is stored, and 0 is loaded
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
/// heads in the place of H; of blocks of keys `(* (ceildiv Sk block_n) (* B Hkv))`; of
/// tile.work_slots with B and `more` in the place of B.
Expression workItems(tile::KernelOp kernel);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_KERNELSIGNATURE_H
