//===- TensorMap.h - How tensor copies see a tensor --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// From sm_90 on, one thread copies a whole box of a tensor to shared memory (tensor memory
// accelerator). A tensor map describes the tensor and the box. The driver encodes it on the host,
// and the kernel gets it as a parameter.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_BACKEND_TENSORMAP_H
#define TESELA_BACKEND_TENSORMAP_H

#include "tesela/ElementType.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace tesela {

/// An encoded tensor map (CUtensorMap): opaque, copied by value into a kernel's parameters.
struct alignas(128) TensorMap {
  std::byte bytes[128];
};

/// The contents of a tensor map. The tensor has rank 4 and elements of 16 or 8 bits; its axes,
/// innermost first, are head dimension, position, head, batch. A copy takes a box of 64 elements
/// (128 of 8 bits) of `boxRows` positions of one head of one batch, in the 128-byte swizzle, with
/// zeros outside of the tensor. If `boxHeads` is above 1, the heads are two axes: inside of the
/// positions the `sharing` heads of a key/value head, outside of them the key/value heads. The box
/// then has `boxHeads` heads of each position.
struct TensorTiling {
  void *address = nullptr;                  ///< a multiple of 16
  ElementType type = ElementType::bf16;     ///< bf16, f16 or e4m3
  std::array<uint64_t, 4> extents = {};     ///< elements, all at least 1
  std::array<uint64_t, 3> strideBytes = {}; ///< of position, head, batch: multiples of 16, < 2^40
  uint32_t boxRows = 1;                     ///< 1..256
  uint32_t boxHeads = 1;                    ///< 1..256
  uint64_t sharing = 1;                     ///< divides the heads

  bool operator==(const TensorTiling &) const = default;
};

} // namespace tesela

#endif // TESELA_BACKEND_TENSORMAP_H
