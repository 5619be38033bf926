//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/KnownTensorMaps.h"

namespace tesela::cuda {

size_t KnownTensorMaps::place(uint64_t owner, const TensorTiling &tiling) {
  // Addresses and strides are multiples of large powers of two. The upper bits of a product depend
  // on all bits of a number, so they are mixed into the lower ones before the next number.
  constexpr uint64_t golden = 0x9e3779b97f4a7c15; // 2^64 divided by the golden ratio
  uint64_t mixed = reinterpret_cast<uintptr_t>(tiling.address) + owner;
  for (uint64_t number : {tiling.extents[1], tiling.extents[2], tiling.strideBytes[0],
                          uint64_t(tiling.boxRows) << 32 | tiling.boxHeads}) {
    mixed = (mixed ^ number) * golden;
    mixed ^= mixed >> 32;
  }
  return mixed % count;
}

Status KnownTensorMaps::find(const DriverApi &api, uint64_t owner, const TensorTiling &tiling,
                             TensorMap &map) {
  Entry &entry = entries[place(owner, tiling)];
  if (entry.owner == owner && entry.tiling == tiling) {
    map = entry.map;
    return Status::success();
  }
  if (Status status = encodeTensorMap(api, tiling, map); !status)
    return status;
  entry = {owner, tiling, map};
  return Status::success();
}

} // namespace tesela::cuda
