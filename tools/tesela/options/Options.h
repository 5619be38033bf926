//===- Options.h - The command line of each command -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Each function adds one command to `app`. Parsing writes what the user gave into `options`, which
// must live as long as `app`.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_OPTIONS_OPTIONS_H
#define TESELA_TOOLS_OPTIONS_OPTIONS_H

#include "CacheCommand.h"
#include "Commands.h"
#include "RunOptions.h"

#include <CLI/CLI.hpp>

namespace tesela::tool {

void addCache(CLI::App &app, CacheOptions &options);
void addCompile(CLI::App &app, CompileOptions &options);
void addExplain(CLI::App &app, ExplainOptions &options);
void addExport(CLI::App &app, ExportOptions &options);
void addGradient(CLI::App &app, GradientOptions &options);
void addRun(CLI::App &app, RunOptions &options);
void addTune(CLI::App &app, TuneCommandOptions &options);

} // namespace tesela::tool

#endif // TESELA_TOOLS_OPTIONS_OPTIONS_H
