//===- OutputFile.h - Writes a file -----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_OUTPUTFILE_H
#define TESELA_TOOLS_OUTPUTFILE_H

#include "tesela/Status.h"

#include <span>
#include <string>
#include <string_view>

namespace tesela::tool {

/// Writes `parts`, one after the other, to the file `path`, in full or not at all: aside, and
/// renamed at the end. A symbolic link stays, what it leads to is written. A device, a pipe, and a
/// file beside which none can be made are written straight. Code::inputOutput says why it cannot be
/// written.
Status writeFile(const std::string &path, std::span<const std::string_view> parts);
Status writeFile(const std::string &path, std::string_view content);

} // namespace tesela::tool

#endif // TESELA_TOOLS_OUTPUTFILE_H
