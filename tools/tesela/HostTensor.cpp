//===- HostTensor.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostTensor.h"

#include <fmt/format.h>

#include <cstring>
#include <unistd.h>

namespace tesela::tool {

Tensor rowMajor(ElementType type, std::span<const int64_t> extents) {
  Tensor tensor;
  tensor.type = type;
  tensor.rank = static_cast<int>(extents.size());
  uint64_t stride = 1; // unsigned, because the product may overflow if another extent is 0
  for (int axis = tensor.rank; axis-- > 0;) {
    tensor.extents[axis] = extents[axis];
    tensor.strides[axis] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(extents[axis]);
  }
  return tensor;
}

Result<HostTensor> HostTensor::allocate(const Tensor &shape) {
  // Not computed from the strides: with very large extents they have overflowed.
  int64_t bytes = elementSize(shape.type);
  bool overflow = false;
  for (int axis = 0; axis < shape.rank; ++axis)
    overflow |= __builtin_mul_overflow(bytes, shape.extents[axis], &bytes);
  int64_t machine = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (overflow || bytes > machine)
    return Error(Code::outOfMemory,
                 fmt::format("a tensor {} does not fit into this machine's {} GiB of memory: make "
                             "the batch, the heads or the lengths smaller.",
                             describe(shape), machine >> 30));

  HostTensor tensor;
  tensor.bytes_ = static_cast<size_t>(bytes);
  // aligned_alloc requires a multiple of the alignment. An empty tensor gets an address, too.
  size_t padded = (tensor.bytes_ + 255) / 256 * 256 + 256;
  tensor.memory.reset(std::aligned_alloc(256, padded));
  if (!tensor.memory)
    return Error(Code::outOfMemory,
                 fmt::format("no memory for a tensor {} ({} bytes).", describe(shape), bytes));
  std::memset(tensor.memory.get(), 0, padded);
  tensor.view_ = shape.at(tensor.memory.get());
  return tensor;
}

} // namespace tesela::tool
