//===- PtxKernel.h - A kernel of the tests' own -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A few lines of PTX, loaded by the driver beside Tesela's kernels: what compares results where
// they are, and what is wrong on purpose. Nothing of Tesela but the Status.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_GPU_PTXKERNEL_H
#define TESELA_TESTS_GPU_PTXKERNEL_H

#include "tesela/Status.h"

#include <memory>
#include <string>
#include <vector>

namespace tesela {

class PtxKernel {
public:
  /// The entry `name` of `ptx` in the primary context of the first GPU.
  static Result<PtxKernel> load(const std::string &ptx, const std::string &name);

  /// On the default stream; `parameters` point at the values.
  Status launch(unsigned blocks, unsigned threads, std::vector<void *> parameters) const;

  struct State;

private:
  std::shared_ptr<const State> state;
};

} // namespace tesela

#endif // TESELA_TESTS_GPU_PTXKERNEL_H
