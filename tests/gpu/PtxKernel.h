//===- PtxKernel.h - A kernel of the tests' own -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel of a few lines of PTX, which the driver loads beside Tesela's kernels. Tests use it to
// compare results in device memory, and for planted defects. It only uses Tesela's Status.
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
  /// Loads the entry `name` of `ptx` into the primary context of the first GPU.
  static Result<PtxKernel> load(const std::string &ptx, const std::string &name);

  /// Launches on the default stream. `parameters` point to the values.
  Status launch(unsigned blocks, unsigned threads, std::vector<void *> parameters) const;

  struct State;

private:
  std::shared_ptr<const State> state;
};

} // namespace tesela

#endif // TESELA_TESTS_GPU_PTXKERNEL_H
