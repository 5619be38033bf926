//===- KnownTensorMaps.h - Tensor maps that were encoded before -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_KNOWNTENSORMAPS_H
#define TESELA_DRIVER_KNOWNTENSORMAPS_H

#include "driver/EncodeTensorMap.h"

#include <array>

namespace tesela::cuda {

/// Tensor maps by what they were encoded from. A launch for sm_90 has four, and the driver takes
/// 0.15 to 0.39 us for each. An allocator gives the next call the addresses of the last one, and a
/// model's layers have theirs, so that most were encoded before.
///
/// A map stays right when its memory is freed and used again: it holds the address, the extents,
/// the strides, the element type and the box, and nothing of the allocation or its contents. What
/// is encoded from the same numbers is the same map.
class KnownTensorMaps {
public:
  /// The map of `tiling` for a device, known or encoded now. `owner` is a number of whoever uses
  /// the device, more than 0, which nobody else ever has.
  Status find(const DriverApi &api, uint64_t owner, const TensorTiling &tiling, TensorMap &map);

private:
  /// The attention of 32 layers has 128 tensors. Where two want one place, the later one has it:
  /// with this many places, which are 128 KiB a thread, that happens to some 25 of 128.
  static constexpr size_t count = 512;
  struct Entry {
    uint64_t owner = 0; ///< nobody's: nothing is known
    TensorTiling tiling;
    TensorMap map;
  };
  std::array<Entry, count> entries;

  static size_t place(uint64_t owner, const TensorTiling &tiling);
};

} // namespace tesela::cuda

#endif // TESELA_DRIVER_KNOWNTENSORMAPS_H
