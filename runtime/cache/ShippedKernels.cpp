//===- ShippedKernels.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/ShippedKernels.h"

#include "cache/KernelKey.h"
#include "system/SharedFiles.h"

#include <cstdlib>

namespace tesela {

std::string shippedKernelsPath() {
  const char *named = std::getenv("TESELA_SHIPPED_KERNELS");
  return named ? named : sharedFile("kernels.pack");
}

void ShippedKernels::warnOnce(const std::string &sentence) const {
  std::call_once(warned, [&] { events->warn(sentence); });
}

void ShippedKernels::warnOfPack(const std::string &problem) const {
  warnOnce("the kernels in " + path + " are not used: " + problem +
           "; reinstall Tesela, or set TESELA_SHIPPED_KERNELS to another file or to nothing");
}

void ShippedKernels::doesNotLoad(const Error &why) const {
  warnOnce("a kernel in " + path + " does not load and is compiled instead: " + why.message() +
           "; if the driver is older than the kernels' assembler (ptxas " +
           (pack ? pack->assembler() : "") +
           "), install a newer one, or set TESELA_SHIPPED_KERNELS to nothing");
}

std::optional<KernelPack> ShippedKernels::openPack() const {
  path = shippedKernelsPath();
  if (path.empty())
    return std::nullopt;
  Result<KernelPack> found = KernelPack::open(path);
  if (!found) {
    warnOfPack(found.error().message());
    return std::nullopt;
  }
  if (found->compiler() != compilerVersion(Target::Kind::cuda)) {
    warnOfPack("they were made by another version of Tesela, " + found->compiler());
    return std::nullopt;
  }
  return std::move(*found);
}

std::optional<ShippedKernel> ShippedKernels::load(const KernelSpecification &specification,
                                                  const std::string &target) const {
  if (specification.target.kind != Target::Kind::cuda)
    return std::nullopt;
  std::call_once(opened, [&] { pack = openPack(); });
  if (!pack)
    return std::nullopt;
  std::string key = kernelKey(specification, assembledIdentity(target, pack->assembler()));
  Result<std::optional<Artifact>> artifact = pack->find(key);
  if (!artifact) {
    warnOnce("a kernel in " + path + " is damaged and is compiled instead: " +
             artifact.error().message() + "; reinstall Tesela");
    return std::nullopt;
  }
  if (!*artifact)
    return std::nullopt;
  return ShippedKernel{std::move(**artifact), std::move(key), "ptxas " + pack->assembler()};
}

} // namespace tesela
