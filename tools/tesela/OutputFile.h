//===- OutputFile.h - Writes a file -----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_OUTPUTFILE_H
#define TESELA_TOOLS_OUTPUTFILE_H

#include "tesela/Status.h"

#include <string>

namespace tesela::tool {

/// Code::inputOutput says why it cannot be written.
Status writeFile(const std::string &path, const std::string &content);

} // namespace tesela::tool

#endif // TESELA_TOOLS_OUTPUTFILE_H
