//===- DynamicLibrary.h - Libraries opened at run time ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_DYNAMICLIBRARY_H
#define TESELA_SYSTEM_DYNAMICLIBRARY_H

#include "tesela/Status.h"

#include <string>
#include <vector>

namespace tesela {

/// An open shared library. It is never closed, because objects from it may live to the end of the
/// process.
class DynamicLibrary {
public:
  /// Opens the first of `names` (names or whole paths) that the loader finds. Code::notFound lists
  /// all that were tried, or the loader's reason if a library exists but could not be loaded. The
  /// message ends with `remedy`.
  static Result<DynamicLibrary> open(const std::vector<std::string> &names,
                                     const std::string &remedy);

  /// The name by which the library was found.
  const std::string &name() const { return name_; }

  /// The address of `symbol`; Code::notFound: the library is too old.
  Result<void *> find(const char *symbol) const;

private:
  DynamicLibrary(void *handle, std::string name) : handle(handle), name_(std::move(name)) {}
  void *handle;
  std::string name_;
};

} // namespace tesela

#endif // TESELA_SYSTEM_DYNAMICLIBRARY_H
