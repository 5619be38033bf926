//===- ObjectLoader.h - Makes host code callable ----------------*- C++ -*-===//
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

/// A host kernel (see Artifact.h). `arguments[i]` points to the value of slot i. `item` is the work
/// item. `scratch` is memory of this worker alone, aligned to 64 bytes.
using HostKernel = void(const void *const *arguments, int64_t item, void *scratch);

/// Linked code in this process. It is unmapped with the last reference, and no kernel of it may run
/// then. All functions may be called from any thread.
class HostCode {
public:
  /// Links an object file that hostObject made. A damaged file is an error (Code::inputOutput), but
  /// not every damage is found: callers check a checksum first.
  static Result<std::shared_ptr<HostCode>> load(std::string_view object);
  ~HostCode();

  /// The kernel named `symbol`; Code::notFound if the object has none.
  Result<HostKernel *> find(const std::string &symbol) const;

private:
  struct Session;
  explicit HostCode(std::unique_ptr<Session> session);

  std::unique_ptr<Session> session_;
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_OBJECTLOADER_H
