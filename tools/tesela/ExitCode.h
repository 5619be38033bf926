//===- ExitCode.h - What the command tells scripts --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_EXITCODE_H
#define TESELA_TOOLS_EXITCODE_H

#include "tesela/Status.h"

namespace tesela::tool {

/// The exit codes; docs/command.md lists them.
enum ExitCode : int {
  exitSuccess = 0,
  exitWrongResult = 1, ///< a result is outside its tolerance; a cached kernel is damaged
  exitBadInput = 2,    ///< wrong usage, variant, argument or input file
  exitEnvironment = 3, ///< no device, no library, no memory, a file that cannot be written
  exitDefect = 4,      ///< a defect of Tesela
};

/// Prints "tesela: error: ..." to stderr; returns the exit code of the error's kind.
ExitCode report(const Error &error);

/// The same for an error in the user's input: the exit code is exitBadInput, except for a defect.
ExitCode reportBadInput(const Error &error);

} // namespace tesela::tool

#endif // TESELA_TOOLS_EXITCODE_H
