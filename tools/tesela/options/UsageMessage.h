//===- UsageMessage.h - What is wrong with a command line -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_OPTIONS_USAGEMESSAGE_H
#define TESELA_TOOLS_OPTIONS_USAGEMESSAGE_H

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tesela::tool {

/// The line that `app` prints for `error`. It names the command, and guesses which option or
/// command was meant by one that does not exist. `arguments`: those of the command line.
std::string usageMessage(const CLI::App *app, const CLI::Error &error,
                         const std::vector<std::string> &arguments);

} // namespace tesela::tool

#endif // TESELA_TOOLS_OPTIONS_USAGEMESSAGE_H
