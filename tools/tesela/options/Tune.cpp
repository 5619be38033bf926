//===- Tune.cpp - The options of `tesela tune` --------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/Options.h"
#include "options/SharedOptions.h"

namespace tesela::tool {
namespace {

const char *const footer = R"(
Every schedule gives a correct kernel. This command measures which one is the fastest
for the given sizes. The result is stored beside the compiled kernels and holds for
sizes with the same next power of two. Later launches use it unless they ask for a
schedule. Close other programs first: they disturb the measurement.

Examples
  tesela tune causal --batch 4 --heads 16 --length 4096
  tesela tune sliding_window --param window=256 --length 16384 --seconds 90
  tesela tune mine.attn --input captures.safetensors --json
  tesela tune causal --gradients --length 8192
  tesela tune causal --show        the stored schedule, as text for --schedule)";

} // namespace

void addTune(CLI::App &app, TuneCommandOptions &options) {
  CLI::App *command =
      app.add_subcommand("tune", "Measure schedules and store the fastest for later runs");
  command->footer(footer);
  addKernelChoice(command, options);
  addParameters(command, options);
  addCapturesFile(command, options.input, options.layout);
  addShape(command, options);
  command->add_flag("--gradients", options.gradients,
                    "Tune the backward pass (as in run --gradients)");
  command->add_option("--seconds", options.seconds, "The time limit")
      ->check(number(0.1, 1e6))
      ->type_name("NUMBER")
      ->capture_default_str();
  command->add_flag("--exhaustive", options.exhaustive,
                    "Time every schedule fully, however long it takes");
  addThreads(command, options.threads);
  addCacheFolder(command, options.cacheFolder, "The folder of stored schedules");
  command->add_flag("--no-cache", options.noCache, "Do not store the result");
  command->add_option("--table", options.table, "Also add the result to this table of records")
      ->check(path())
      ->type_name("FILE");
  command->add_flag("--show", options.show, "Show what is stored for the variant; measure nothing");
  command->add_flag("--json", options.json, "Print one JSON object");
}

} // namespace tesela::tool
