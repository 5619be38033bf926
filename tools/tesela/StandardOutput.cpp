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

/// The errno of what failed first; 0: nothing did.
static int failure = 0;

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && failure == 0)
    failure = errno;
}

Status finishOutput() {
  // What failed before lies in no buffer: flushing succeeds after it.
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
