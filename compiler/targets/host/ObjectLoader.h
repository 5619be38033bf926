//===- ObjectLoader.h - Host code made callable -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_OBJECTLOADER_H
#define TESELA_COMPILER_TARGETS_HOST_OBJECTLOADER_H

#include "tesela/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tesela {

/// A host kernel. `arguments[i]` points at slot i's value, `item` is the work
/// item, `scratch` is this worker's own, aligned to 64 bytes (see Artifact.h).
using HostKernel = void(const void *const *arguments, int64_t item, void *scratch);

/// Linked code in this process; it is unmapped with the last reference, so its
/// kernels must not run then. All functions may be called from any thread.
class HostCode {
public:
  /// Links an object file that hostObject made. A damaged one is an error
  /// (Code::inputOutput); callers check a checksum first.
  static Result<std::shared_ptr<HostCode>> load(std::string_view object);
  ~HostCode();

  /// The kernel named `symbol`; Code::notFound where the object has none.
  Result<HostKernel *> find(const std::string &symbol) const;

private:
  struct Session;
  explicit HostCode(std::unique_ptr<Session> session);

  std::unique_ptr<Session> session_;
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_OBJECTLOADER_H
