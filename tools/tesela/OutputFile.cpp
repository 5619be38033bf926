//===- OutputFile.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "OutputFile.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tesela::tool {

Status writeFile(const std::string &path, const std::string &content) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  bool good = file && std::fwrite(content.data(), 1, content.size(), file) == content.size();
  good = file && std::fclose(file) == 0 && good;
  if (!good)
    return Error(Code::inputOutput,
                 fmt::format("{} cannot be written: {}.", path, std::strerror(errno)));
  return Status::success();
}

} // namespace tesela::tool
