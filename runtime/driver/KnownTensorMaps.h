//===- KnownTensorMaps.h - A cache of tensor maps ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_KNOWNTENSORMAPS_H
#define TESELA_DRIVER_KNOWNTENSORMAPS_H

#include "driver/EncodeTensorMap.h"

#include <array>

namespace tesela::cuda {

/// A cache of encoded tensor maps. A launch for sm_90 has four, and the driver needs 0.15 to 0.39
/// us for each. Most were encoded before, because allocators reuse addresses and a model's layers
/// keep theirs.
///
/// A map stays valid when its memory is freed and reused: it contains only the address, extents,
/// strides, element type and box, and nothing about the allocation or its contents. Equal inputs
/// give equal maps.
class KnownTensorMaps {
public:
  /// The map of `tiling` for a device, from the cache or encoded now. `owner`, above 0, identifies
  /// the caller's use of the device and is never reused.
  Status find(const DriverApi &api, uint64_t owner, const TensorTiling &tiling, TensorMap &map);

private:
  /// The attention of 32 layers has 128 tensors. If two share a place, the later one replaces the
  /// other. With 512 places, 128 KiB per thread, that happens to about 25 of 128.
  static constexpr size_t count = 512;
  struct Entry {
    uint64_t owner = 0; ///< 0: the entry is empty
    TensorTiling tiling;
    TensorMap map;
  };
  std::array<Entry, count> entries;

  static size_t place(uint64_t owner, const TensorTiling &tiling);
};

} // namespace tesela::cuda

#endif // TESELA_DRIVER_KNOWNTENSORMAPS_H
