//===- Gradient.cpp - The options of `tesela gradient` ------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/Options.h"
#include "options/SharedOptions.h"

namespace tesela::tool {
namespace {

const char *const footer = R"(
Prints the derivatives of the score with respect to s, each f32 scalar and each element
of a float tensor that the score reads, and the derivatives of the sink.
A tensor that is read several times has one line per read. A read inside a sum has
one line for all terms of the sum ("for i < 8").
The derivatives of int(), floor, comparisons and masks are zero. min, max, clamp, abs
and ?: have the derivative of the operand that is chosen.

Examples
  tesela gradient alibi
  tesela gradient mine.attn --param cap=30)";

} // namespace

void addGradient(CLI::App &app, GradientOptions &options) {
  CLI::App *command =
      app.add_subcommand("gradient", "Print the derivatives of the score; needs no GPU");
  command->footer(footer);
  command
      ->add_option("VARIANT", options.variant, "A file, \"-\", or a library variant such as alibi")
      ->type_name("")
      ->required();
  addConstants(command, options.constants);
}

} // namespace tesela::tool
