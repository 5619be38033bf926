//===- DynamicLibrary.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/DynamicLibrary.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>

namespace tesela {

Result<DynamicLibrary> DynamicLibrary::open(const std::vector<std::string> &names,
                                            const std::string &remedy) {
  std::string tried, problems;
  for (const std::string &name : names) {
    if (void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return DynamicLibrary(handle, name);
    const char *text = dlerror();
    std::string problem = text ? text : "the loader gives no reason";
    // If the library exists, the loader says what is wrong with it or which library it lacks.
    bool absent =
        problem.starts_with(name + ":") && problem.find(std::strerror(ENOENT)) != std::string::npos;
    if (absent)
      tried += (tried.empty() ? "" : ", ") + name;
    else
      problems += (problems.empty() ? "" : "; ") + problem;
  }
  if (problems.empty())
    return Error(Code::notFound, "none of these libraries was found: " + tried + "; " + remedy);
  return Error(Code::notFound,
               "the library could not be loaded: " + problems + "; reinstall it; " + remedy);
}

Result<void *> DynamicLibrary::find(const char *symbol) const {
  if (void *address = dlsym(handle, symbol))
    return address;
  return Error(Code::notFound,
               name_ + " has no function " + symbol + ": it is too old; install a newer version");
}

} // namespace tesela
