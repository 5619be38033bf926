//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/EncodeTensorMap.h"

namespace tesela::cuda {

/// The columns of a box: the 128 bytes that the swizzle permutes.
static uint32_t boxColumnsOf(ElementType type) { return uint32_t(128 / elementSize(type)); }

static int tensorMapType(ElementType type) {
  if (elementSize(type) == 1)
    return tensorMapUint8;
  return type == ElementType::f16 ? tensorMapFloat16 : tensorMapBfloat16;
}

Status encodeTensorMap(const DriverApi &api, const TensorTiling &tiling, TensorMap &map) {
  const uint32_t elementStrides[] = {1, 1, 1, 1, 1};
  auto encode = [&](uint32_t rank, const uint64_t *extents, const uint64_t *strideBytes,
                    const uint32_t *box) {
    return api.cuTensorMapEncodeTiled(
        reinterpret_cast<CUtensorMap_st *>(&map), tensorMapType(tiling.type), rank, tiling.address,
        extents, strideBytes, box, elementStrides, tensorMapInterleaveNone, tensorMapSwizzle128B,
        tensorMapPromotion256B, tensorMapFillZeros);
  };
  const uint32_t boxColumns = boxColumnsOf(tiling.type);
  int result = 0;
  if (tiling.boxHeads == 1) {
    const uint32_t box[] = {boxColumns, tiling.boxRows, 1, 1};
    result = encode(4, tiling.extents.data(), tiling.strideBytes.data(), box);
  } else {
    auto [columns, positions, heads, batches] = tiling.extents;
    auto [positionStride, headStride, batchStride] = tiling.strideBytes;
    const uint64_t extents[] = {columns, tiling.sharing, positions, heads / tiling.sharing,
                                batches};
    const uint64_t strideBytes[] = {headStride, positionStride, headStride * tiling.sharing,
                                    batchStride};
    const uint32_t box[] = {boxColumns, tiling.boxHeads, tiling.boxRows, 1, 1};
    result = encode(5, extents, strideBytes, box);
  }
  return api.check(result, "cuTensorMapEncodeTiled");
}

} // namespace tesela::cuda
