//===- SharedFiles.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/SharedFiles.h"

#include <dlfcn.h>
#include <filesystem>
#include <system_error>

namespace tesela {

namespace fs = std::filesystem;

std::string sharedFile(const std::string &name) {
  Dl_info info{};
  // The address of any function of the library gives the library's path.
  if (!::dladdr(reinterpret_cast<const void *>(&sharedFile), &info) || !info.dli_fname)
    return "";
  std::error_code failure;
  fs::path folder = fs::canonical(info.dli_fname, failure).parent_path();
  // lib/libtesela.so, or lib/x86_64-linux-gnu/libtesela.so; in a build runtime/libtesela.so.
  for (int level = 0; !failure && level < 2; ++level) {
    folder = folder.parent_path();
    if (fs::path found = folder / "share/tesela" / name; fs::exists(found, failure))
      return found;
    failure.clear();
  }
  return "";
}

} // namespace tesela
