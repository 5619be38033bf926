//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/TensorTiling.h"

#include "launch/TensorSpan.h"

namespace tesela {

/// A tensor map's strides must be below this (CUDA Driver API, cuTensorMapEncodeTiled).
static constexpr uint64_t strideLimit = uint64_t(1) << 40;

static Error refused(std::string_view name, int axis, uint64_t strideBytes,
                     const std::string &reason) {
  constexpr const char *axes[] = {"batch", "head", "length"};
  return Error(Code::unsupported, std::string(name) + "'s " + axes[axis] + " stride is " +
                                      std::to_string(strideBytes) + " bytes, " + reason +
                                      ": copy the tensor");
}

Result<TensorTiling> tensorTiling(const CheckedArguments &arguments, int index,
                                  std::string_view name, int boxRows, int boxHeads,
                                  uint64_t addressOfZeros) {
  const Tensor &tensor = arguments.tensors[index];
  uint64_t elementBytes = elementSize(tensor.type);
  // The stride for an axis of extent 1. It is never used, but it must be a multiple of 16, and more
  // than 0 because the driver may reject a stride of 0.
  uint64_t rowBytes = (uint64_t(tensor.extents[3]) * elementBytes + 15) / 16 * 16;
  TensorTiling tiling{tensor.data,
                      tensor.type,
                      {uint64_t(tensor.extents[3]), 1, 1, 1},
                      {rowBytes, rowBytes, rowBytes},
                      uint32_t(boxRows),
                      uint32_t(boxHeads)};
  if (hasNoElements(tensor)) {
    tiling.address = reinterpret_cast<void *>(addressOfZeros);
    return tiling;
  }
  for (int axis = 0; axis < 3; ++axis) {
    uint64_t stride = uint64_t(tensor.strides[axis]);
    if (tensor.extents[axis] == 1)
      continue;
    if (stride == 0 && axis == 2)
      return refused(name, axis, 0, "tensor copies need at least 16 bytes between positions");
    // In a box of several heads: how many heads share a key/value head.
    bool ofBox = boxHeads > 1 && axis == 1;
    uint64_t sharing = ofBox ? arguments.extents.H / arguments.extents.Hkv : 1;
    if (stride == 0 && sharing > 1)
      return refused(name, axis, 0, "copies of several heads need at least 16 bytes between heads");
    if (stride == 0)
      continue;
    tiling.sharing *= sharing;
    if (stride >= strideLimit / elementBytes / sharing)
      return refused(name, axis, stride * elementBytes, "tensor copies need less than 2^40 bytes");
    tiling.extents[3 - axis] = uint64_t(tensor.extents[axis]);
    tiling.strideBytes[2 - axis] = stride * elementBytes;
  }
  return tiling;
}

int32_t coordinateStep(const Tensor &tensor, int axis) { return tensor.strides[axis] != 0; }

} // namespace tesela
