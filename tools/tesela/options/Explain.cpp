//===- Explain.cpp - The options of `tesela explain` --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/Options.h"
#include "options/SharedOptions.h"

namespace tesela::tool {
namespace {

const char *const footer = R"(
A tile of the mask is empty (skipped), partial (masked pair by pair) or full
(computed without the mask). The answer comes from the program that the kernel runs,
with the block sizes of its schedule. Where the compiler can prove no more than
"partial", a note names the part of the mask that it could not decide.
Captured tensors are random, or come from the file of --input. The lengths are
taken from the shapes in that file.

Examples
  tesela explain causal --length 4096
  tesela explain sliding_window --param window=256 --svg window.svg
  tesela explain causal --pass dkdv
  tesela explain mine.attn --target sm_90 --input captures.safetensors --json)";

} // namespace

void addExplain(CLI::App &app, ExplainOptions &options) {
  CLI::App *command =
      app.add_subcommand("explain", "Which tiles a kernel skips, masks and computes; needs no GPU");
  command->footer(footer);
  addKernelChoice(command, options);
  addParameters(command, options);
  addCapturesFile(command, options.input, options.layout);
  addShape(command, options);
  command
      ->add_option("--pass", options.pass, "forward, or a kernel of the backward pass: dq or dkdv")
      ->check(oneOf("a pass", {"forward", "dq", "dkdv"}))
      ->type_name("PASS")
      ->capture_default_str();
  command->add_option("--svg", options.svg, "Draw the mask with its tiles as SVG")
      ->check(path())
      ->type_name("FILE");
  command->add_flag("--json", options.json, "Print one JSON object with the kind of every tile");
}

} // namespace tesela::tool
