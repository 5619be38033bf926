//===- SharedOptions.h - Options that several commands have -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_OPTIONS_SHAREDOPTIONS_H
#define TESELA_TOOLS_OPTIONS_SHAREDOPTIONS_H

#include "RunOptions.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tesela::tool {

// The messages of these checks name the value and the limits, and end with ": give ..." (see
// usageMessage). The help does not show them.

/// Accepts an extent of a tensor: 0 to 2^31 - 1.
CLI::Validator extent();

/// Accepts a number in [least, most]. Without limits it accepts all that can be read.
CLI::Validator number(double least = -std::numeric_limits<double>::infinity(),
                      double most = std::numeric_limits<double>::infinity());

/// Accepts one of `names`, and guesses which one was meant. `meaning`: what they name, such as "a
/// layout".
CLI::Validator oneOf(const char *meaning, std::vector<std::string> names);

/// Accepts a path that is not empty. An empty path, as an unset shell variable gives it, would
/// be taken for "no file".
CLI::Validator path();

/// Accepts a whole number in [least, most].
CLI::Validator wholeNumber(int64_t least, uint64_t most);

/// Returns "" if `name` is a target (auto, host or sm_NN), else a message.
std::string checkTarget(const std::string &name);

/// `--algorithm` and `--bind`.
void addAlgorithm(CLI::App *command, std::string &algorithm, std::vector<std::string> &bindings);

/// `--cache-folder`. Its help is `text` and the default folders.
void addCacheFolder(CLI::App *command, std::string &folder, const std::string &text);

/// `--input` and `--layout`, of a file with captured tensors.
void addCapturesFile(CLI::App *command, std::string &input, Layout &layout);

/// `--param`, for the const parameters of a variant.
void addConstants(CLI::App *command, std::vector<std::string> &constants);

/// `--head-dim` and `--head-dim-v`.
void addHeadDimensions(CLI::App *command, int64_t &headDim, std::optional<int64_t> &headDimV);

/// `VARIANT`, `--target` and `--schedule`.
void addKernelChoice(CLI::App *command, KernelChoice &choice);

/// `--layout`, with `text` as its help.
void addLayout(CLI::App *command, Layout &layout, const char *text);

/// `--param`, for all scalar parameters of a variant.
void addParameters(CLI::App *command, LaunchShape &shape);

/// `--schedule`.
void addSchedule(CLI::App *command, std::string &schedule);

/// The extents, the type and the seed of a launch. Parsing notes in `shape.given` which of them the
/// user gave. Returns the options, so that a command can group them in its help.
std::vector<CLI::Option *> addShape(CLI::App *command, LaunchShape &shape);

/// `--templates`.
void addTemplates(CLI::App *command, std::string &folder);

/// `--threads`.
void addThreads(CLI::App *command, int &threads);

/// `--dtype`.
void addType(CLI::App *command, std::string &type);

/// `VARIANT` alone, for commands without a target.
void addVariant(CLI::App *command, std::string &variant);

} // namespace tesela::tool

#endif // TESELA_TOOLS_OPTIONS_SHAREDOPTIONS_H
