//===- KernelKey.h - The key of a kernel in the caches ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_KERNELKEY_H
#define TESELA_CACHE_KERNELKEY_H

#include "tesela/compiler/Compile.h"

#include <string>

namespace tesela {

/// The key of the kernel that this library makes from `specification` for a machine with
/// `codeIdentity` (Backend::codeIdentity()): 64 hexadecimal digits.
std::string kernelKey(const KernelSpecification &specification, const std::string &codeIdentity);

/// The code identity of a GPU of `target` ("sm_90") if kernels are assembled by the ptxas with that
/// identity (Ptxas::identity()).
std::string assembledIdentity(const std::string &target, const std::string &ptxasIdentity);

} // namespace tesela

#endif // TESELA_CACHE_KERNELKEY_H
