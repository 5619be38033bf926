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

/// Writes `parts`, one after the other, to the file `path`, in full or not at all: it writes a file
/// beside it and renames that at the end. If `path` is a symbolic link, the link stays and its
/// target is written. A device, a pipe, and a file in a folder that cannot be written to are
/// written in place. Fails with Code::inputOutput and the reason.
Status writeFile(const std::string &path, std::span<const std::string_view> parts);
Status writeFile(const std::string &path, std::string_view content);

/// Whether writeFile(path) would find a place for the file. Ask before work that takes long. It
/// writes nothing. Fails as writeFile does.
Status checkWritable(const std::string &path);

} // namespace tesela::tool

#endif // TESELA_TOOLS_OUTPUTFILE_H
