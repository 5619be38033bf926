//===- Compile.cpp - The options of `tesela compile` --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/Options.h"
#include "options/SharedOptions.h"

namespace tesela::tool {
namespace {

const char *const footer = R"(
Stages, from the text to the machine
  attn    the variant: score, mask, captures
  tile    the tiled algorithm with the variant and its schedule
  pipe    the GPU's roles, buffers and copies (sm_NN only)
  llvm    LLVM IR
  ptx     PTX (sm_NN only)
  cubin   the code that ptxas makes of it; needs ptxas (sm_NN only)
  object  an object file (host only)

Examples
  tesela compile causal --emit tile
  tesela compile causal --target sm_90 --head-dim 64 --emit ptx -o causal.ptx
  tesela compile causal --target host --emit object -o causal.o)";

} // namespace

void addCompile(CLI::App &app, CompileOptions &options) {
  CLI::App *command =
      app.add_subcommand("compile", "Print the program after one stage; needs no GPU");
  command->footer(footer);
  addKernelChoice(command, options);
  addTemplates(command, options.templateFolder);
  command->add_option("--emit", options.stage, "The stage (see below)")
      ->required()
      ->check(oneOf("a stage", {"attn", "tile", "pipe", "llvm", "ptx", "cubin", "object"}))
      ->type_name("STAGE");
  command->add_option("-o,--output", options.output, "Write to this file")
      ->check(path())
      ->type_name("FILE");
  addType(command, options.dtype);
  addHeadDimensions(command, options.headDim, options.headDimV);
  addConstants(command, options.constants);
  addAlgorithm(command, options.algorithm, options.bindings);
  command->add_flag("--dropout", options.dropout, "A kernel with dropout");
}

} // namespace tesela::tool
