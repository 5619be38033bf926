//===- Ptx.h - What the tests of PTX share ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TARGETS_NVVM_PTX_H
#define TESELA_TESTS_TARGETS_NVVM_PTX_H

#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

#include <string>

namespace tesela {

inline constexpr const char *causal = "attention causal() { mask = q >= k }";

inline KernelSpecification specificationOf(const std::string &variant, int headDim,
                                           ElementType type, int sm) {
  KernelSpecification specification;
  specification.variantText = variant;
  specification.inputType = type;
  specification.headDimQk = specification.headDimV = headDim;
  specification.target = {Target::Kind::cuda, sm};
  return specification;
}

/// Makes sm_90 use the kernels of other chips instead of warpgroups with roles.
inline constexpr const char *withoutRoles =
    "consumers = 0, block_m = 128, block_n = 64, stages = 2, warps = 4, "
    "reference = follow";

/// The artifact. If it does not compile, fails the test and returns an empty artifact.
inline Artifact compiled(const KernelSpecification &specification) {
  Result<Artifact> artifact = compile(specification);
  if (artifact.ok())
    return *artifact;
  ADD_FAILURE() << artifact.error().message();
  return Artifact();
}

} // namespace tesela

#endif // TESELA_TESTS_TARGETS_NVVM_PTX_H
