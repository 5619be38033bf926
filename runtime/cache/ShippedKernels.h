//===- ShippedKernels.h - Kernels that come with the library ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A pack (KernelPack.h) that is only read, below the user's cache. Its keys are those under which a
// machine with the pack's ptxas keeps the same kernels: what a machine assembles by itself does not
// matter, since a pack's kernels are cubins.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_SHIPPEDKERNELS_H
#define TESELA_CACHE_SHIPPEDKERNELS_H

#include "cache/KernelPack.h"
#include "events/EventSink.h"
#include "tesela/compiler/Compile.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace tesela {

/// A kernel of the pack with its key, and "ptxas release 13.0, …", which made it.
struct ShippedKernel {
  Artifact artifact;
  std::string key;
  std::string assembler;
};

class ShippedKernels {
public:
  /// Looks at nothing before the first load().
  explicit ShippedKernels(std::shared_ptr<const EventSink> events) : events(std::move(events)) {}

  /// The kernel of `specification` for a GPU of `target` ("sm_90"), where it is there and whole. A
  /// pack that cannot be used is told once.
  std::optional<ShippedKernel> load(const KernelSpecification &specification,
                                    const std::string &target) const;

  /// Tells once that the driver does not take a kernel of the pack.
  void doesNotLoad(const Error &why) const;

private:
  std::optional<KernelPack> openPack() const;
  void warnOnce(const std::string &sentence) const;
  /// That the whole pack is not used.
  void warnOfPack(const std::string &problem) const;

  std::shared_ptr<const EventSink> events;
  mutable std::once_flag opened, warned;
  mutable std::string path;
  mutable std::optional<KernelPack> pack;
};

/// $TESELA_SHIPPED_KERNELS where it is set, and none where that is empty; else that of the package.
std::string shippedKernelsPath();

} // namespace tesela

#endif // TESELA_CACHE_SHIPPEDKERNELS_H
