//===- StandardOutput.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "StandardOutput.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tesela::tool {

/// The errno of the first failure; 0 if nothing failed.
static int failure = 0;

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && failure == 0)
    failure = errno;
}

Status finishOutput() {
  // fwrite may have failed and dropped its text. Then fflush succeeds, so `failure` must be kept.
  if (std::fflush(stdout) != 0 && failure == 0)
    failure = errno;
  if (failure == 0 && std::ferror(stdout) != 0)
    failure = EIO;
  if (failure == 0)
    return Status::success();
  return Error(Code::inputOutput,
               fmt::format("standard output cannot be written: {}.", std::strerror(failure)));
}

} // namespace tesela::tool
