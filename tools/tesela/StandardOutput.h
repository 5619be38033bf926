//===- StandardOutput.h - What the command prints ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_STANDARDOUTPUT_H
#define TESELA_TOOLS_STANDARDOUTPUT_H

#include "tesela/Status.h"

#include <string_view>

namespace tesela::tool {

/// Prints to standard output. finishOutput reports a failure.
void print(std::string_view text);

/// Flushes what was printed. Code::inputOutput, with the reason, if some of it was not written.
Status finishOutput();

} // namespace tesela::tool

#endif // TESELA_TOOLS_STANDARDOUTPUT_H
