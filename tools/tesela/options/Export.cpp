//===- Export.cpp - The options of `tesela export` ----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/Options.h"
#include "options/SharedOptions.h"

#include <fmt/format.h>

namespace tesela::tool {
namespace {

const char *const footer = R"(
The folder contains a manifest and, for each target, a launch plan with its code. For
GPUs it also contains a C header and a launcher that need only NVIDIA's driver.
See docs/export.md. The code is a cubin if ptxas is found, else PTX.

Examples
  tesela export causal --target sm_80,sm_90,host -o causal_bundle
  tesela export documents --target sm_90 --head-dim 64 --name docs_64 -o docs_64
  tesela export causal --algorithm backward --target sm_90 -o causal_backward
  cc main.c causal_bundle/causal.c -Icausal_bundle -o main)";

/// A bundle is made for targets that are named, since the GPU of this machine need not be one.
std::string checkExportTarget(const std::string &name) {
  if (name == "auto")
    return "a bundle cannot have the target 'auto': give host, or sm_NN such as sm_80";
  return checkTarget(name).empty()
             ? ""
             : fmt::format("'{}' is not a target: give host, or sm_NN such as sm_80", name);
}

} // namespace

void addExport(CLI::App &app, ExportOptions &options) {
  CLI::App *command =
      app.add_subcommand("export", "Compile ahead of time for several targets; needs no GPU");
  command->footer(footer);
  addVariant(command, options.variant);
  addTemplates(command, options.templateFolder);
  command->add_option("--target", options.targets, "host and sm_NN, separated by commas")
      ->required()
      ->delimiter(',')
      ->take_all()
      ->check(CLI::Validator(checkExportTarget, ""))
      ->type_name("TARGETS");
  command->add_option("-o,--output", options.folder, "The bundle's folder")
      ->required()
      ->check(path())
      ->type_name("FOLDER");
  command
      ->add_option("--name", options.name,
                   "Prefix of files and C functions (default: the variant's name, followed by the "
                   "template's name unless that is forward)")
      ->type_name("NAME");
  addType(command, options.dtype);
  addHeadDimensions(command, options.headDim, options.headDimV);
  command
      ->add_option("--length", options.length,
                   "The usual number of queries in a sequence; it decides the schedule "
                   "(default: many)")
      ->type_name("N")
      ->check(extent());
  command
      ->add_option("--kv-length", options.kvLength,
                   "The usual number of keys (default: as --length)")
      ->type_name("N")
      ->check(extent());
  addSchedule(command, options.schedule);
  addConstants(command, options.constants);
  addAlgorithm(command, options.algorithm, options.bindings);
  command->add_flag("--dropout", options.dropout, "A kernel with dropout; add --no-launcher");
  command->add_flag("--ptx", options.ptx, "Export PTX, not cubins: newer GPUs can run it, too");
  command->add_flag("--no-launcher", options.noLauncher,
                    "Do not write a launcher in C; the library can still load the bundle");
}

} // namespace tesela::tool
