//===- DynamicLibrary.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/DynamicLibrary.h"

#include <dlfcn.h>

namespace tesela {

Result<DynamicLibrary> DynamicLibrary::open(const std::vector<std::string> &names,
                                            const std::string &remedy) {
  std::string tried;
  for (const std::string &name : names) {
    if (void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return DynamicLibrary(handle, name);
    tried += (tried.empty() ? "" : ", ") + name;
  }
  return Error(Code::notFound, "no library of this name was found: " + tried + "; " + remedy);
}

Result<void *> DynamicLibrary::find(const char *symbol) const {
  if (void *address = dlsym(handle, symbol))
    return address;
  return Error(Code::notFound,
               name_ + " has no function " + symbol + ": it is too old; install a newer version");
}

} // namespace tesela
