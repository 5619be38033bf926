//===- TensorMap.h - What tensor copies need to know of a tensor -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// From sm_90 on one thread copies a whole box of a tensor to shared memory (the tensor
// memory accelerator). The box and the tensor stand in a tensor map, which the driver
// encodes on the host and the kernel gets as a parameter.
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

/// What a tensor map describes: a tensor of rank 4 of elements of 16 or 8 bits, innermost axis
/// first (head dimension, position, head, batch), and the box that one copy takes from it: 64
/// elements, or 128 of 8 bits, of `boxRows` positions of one head of one batch, laid out with the
/// 128-byte swizzle, zeros where it reaches outside. With `boxHeads` above 1 the heads are two
/// axes, the `sharing` heads of a key/value head inside of the positions, and the key/value heads
/// outside; the box then holds `boxHeads` heads of each position.
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
