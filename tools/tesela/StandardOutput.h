//===- StandardOutput.h - What the command prints ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_STANDARDOUTPUT_H
#define TESELA_TOOLS_STANDARDOUTPUT_H

#include "tesela/Status.h"

#include <string_view>

namespace tesela::tool {

/// Prints to standard output; what fails is told by finishOutput.
void print(std::string_view text);

/// Brings out what was printed. Code::inputOutput says why not all of it was.
Status finishOutput();

} // namespace tesela::tool

#endif // TESELA_TOOLS_STANDARDOUTPUT_H
