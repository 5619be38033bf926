//===- ProgressLine.cpp ---------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ProgressLine.h"

#include <fmt/format.h>

#include <cstdio>
#include <unistd.h>

namespace tesela::tool {

ProgressLine::ProgressLine() : isTerminal(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::show(const std::string &text) {
  if (!isTerminal)
    return;
  std::fputs(fmt::format("\r{:<78}", text).c_str(), stderr);
  isShown = true;
}

void ProgressLine::clear() {
  if (isShown)
    std::fputs(fmt::format("\r{:<78}\r", "").c_str(), stderr);
  isShown = false;
}

} // namespace tesela::tool
