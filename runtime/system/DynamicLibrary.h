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

/// An open shared library. It is never closed: what it gave may live to the end of
/// the process.
class DynamicLibrary {
public:
  /// Opens the first of `names` that the loader finds (names, or whole paths).
  /// Code::notFound names all that were tried, or where one was there and could not be loaded
  /// gives the loader's reason; then `remedy`.
  static Result<DynamicLibrary> open(const std::vector<std::string> &names,
                                     const std::string &remedy);

  /// The name it was found under.
  const std::string &name() const { return name_; }

  /// The address of `symbol`; Code::notFound says that the library is too old.
  Result<void *> find(const char *symbol) const;

private:
  DynamicLibrary(void *handle, std::string name) : handle(handle), name_(std::move(name)) {}
  void *handle;
  std::string name_;
};

} // namespace tesela

#endif // TESELA_SYSTEM_DYNAMICLIBRARY_H
