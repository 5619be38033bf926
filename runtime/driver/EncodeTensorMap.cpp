//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/EncodeTensorMap.h"

namespace tesela::cuda {

/// The box's columns: with 16-bit elements the 128 bytes that the swizzle permutes.
static constexpr uint32_t boxColumns = 64;

Status encodeTensorMap(const DriverApi &api, const TensorTiling &tiling, TensorMap &map) {
  const uint32_t box[] = {boxColumns, tiling.boxRows, 1, 1};
  const uint32_t elementStrides[] = {1, 1, 1, 1};
  int result = api.cuTensorMapEncodeTiled(
      reinterpret_cast<CUtensorMap_st *>(&map),
      tiling.type == ElementType::f16 ? tensorMapFloat16 : tensorMapBfloat16, 4, tiling.address,
      tiling.extents.data(), tiling.strideBytes.data(), box, elementStrides,
      tensorMapInterleaveNone, tensorMapSwizzle128B, tensorMapPromotion256B, tensorMapFillZeros);
  return api.check(result, "cuTensorMapEncodeTiled");
}

} // namespace tesela::cuda
