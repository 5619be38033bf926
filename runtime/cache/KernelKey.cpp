//===- KernelKey.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/KernelKey.h"

#include "artifact/Digest.h"

namespace tesela {

std::string kernelKey(const KernelSpecification &specification, const std::string &codeIdentity) {
  return sha256Hex(specification.canonicalText() + "\ncompiler " +
                   compilerVersion(specification.target.kind) + "\n" + codeIdentity);
}

std::string assembledIdentity(const std::string &target, const std::string &ptxasIdentity) {
  return target + " ptxas " + ptxasIdentity;
}

} // namespace tesela
