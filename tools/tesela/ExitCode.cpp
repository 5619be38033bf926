//===- ExitCode.cpp -------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ExitCode.h"

#include <fmt/format.h>

#include <cstdio>

namespace tesela::tool {

static void print(const Error &error) {
  // The message of an invalid variant has several diagnostics, each with its own "error:".
  std::string text = error.message();
  if (error.code() != Code::invalidVariant)
    text = fmt::format("tesela: {}: {}", error.isDefect() ? "defect of Tesela" : "error", text);
  if (!text.ends_with('\n'))
    text += '\n';
  std::fputs(text.c_str(), stderr);
}

ExitCode report(const Error &error) {
  print(error);
  switch (error.code()) {
  case Code::ok:
    return exitSuccess;
  case Code::invalidArgument:
  case Code::invalidVariant:
  case Code::unsupported:
    return exitBadInput;
  case Code::notFound:
  case Code::inputOutput:
  case Code::driver:
  case Code::outOfMemory:
  case Code::cancelled:
  case Code::deadlineExceeded:
    return exitEnvironment;
  case Code::defect:
    return exitDefect;
  }
  return exitDefect;
}

ExitCode reportBadInput(const Error &error) {
  print(error);
  return error.isDefect() ? exitDefect : exitBadInput;
}

} // namespace tesela::tool
