//===- ShippedKernels.h - Kernels shipped with the library ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A read-only pack (KernelPack.h) that is searched after the user's cache. Its keys are those of a
// machine with the pack's ptxas. The machine's own assembler does not matter, because a pack's
// kernels are cubins.
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

/// A kernel of the pack, its key, and the ptxas that made it, "ptxas release 13.0, …".
struct ShippedKernel {
  Artifact artifact;
  std::string key;
  std::string assembler;
};

class ShippedKernels {
public:
  /// Accesses no file before the first load().
  explicit ShippedKernels(std::shared_ptr<const EventSink> events) : events(std::move(events)) {}

  /// The kernel of `specification` for a GPU of `target` ("sm_90"), if the pack has it undamaged.
  /// Warns once about a pack that cannot be used.
  std::optional<ShippedKernel> load(const KernelSpecification &specification,
                                    const std::string &target) const;

  /// Warns once that the driver does not accept a kernel of the pack.
  void doesNotLoad(const Error &why) const;

private:
  std::optional<KernelPack> openPack() const;
  void warnOnce(const std::string &sentence) const;
  /// Warns that the whole pack is not used.
  void warnOfPack(const std::string &problem) const;

  std::shared_ptr<const EventSink> events;
  mutable std::once_flag opened, warned;
  mutable std::string path;
  mutable std::optional<KernelPack> pack;
};

/// $TESELA_SHIPPED_KERNELS if it is set (empty: no pack), else the path of the package's pack.
std::string shippedKernelsPath();

} // namespace tesela

#endif // TESELA_CACHE_SHIPPEDKERNELS_H
