//===- HostTensor.h - A tensor in the command's own memory ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_HOSTTENSOR_H
#define TESELA_TOOLS_HOSTTENSOR_H

#include "tesela/Status.h"
#include "tesela/Tensor.h"

#include <cstdlib>
#include <memory>
#include <span>

namespace tesela::tool {

/// A tensor without gaps that owns its memory.
class HostTensor {
public:
  HostTensor() = default;

  /// Allocates memory for `shape` and sets it to zero. The address in `shape` is ignored.
  /// Code::outOfMemory if the machine does not have that much.
  static Result<HostTensor> allocate(const Tensor &shape);

  const Tensor &view() const { return view_; }
  void *data() const { return view_.data; }
  size_t bytes() const { return bytes_; }

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory;
  Tensor view_;
  size_t bytes_ = 0;
};

/// A row-major tensor of `extents` without memory, like Tensor::contiguous, for a rank that is
/// known only at run time. At most Tensor::maxRank extents.
Tensor rowMajor(ElementType type, std::span<const int64_t> extents);

} // namespace tesela::tool

#endif // TESELA_TOOLS_HOSTTENSOR_H
