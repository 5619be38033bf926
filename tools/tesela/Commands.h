//===- Commands.h - The short commands --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_COMMANDS_H
#define TESELA_TOOLS_COMMANDS_H

#include "RunOptions.h"

#include "tesela/Context.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tesela::tool {

struct CompileOptions : KernelChoice {
  std::string stage;  ///< attn, tile, pipe, llvm, ptx, cubin or object
  std::string output; ///< a path; empty: standard output
  std::string dtype = "bf16";
  int64_t headDim = 128;
  std::optional<int64_t> headDimV;    ///< empty: headDim
  std::vector<std::string> constants; ///< "name=value" of const parameters
  std::string algorithm = "forward";  ///< the template
  std::vector<std::string> bindings;  ///< "name=value" of the template's own parameters
  bool dropout = false;
};

struct ExportOptions {
  std::string variant;              ///< path, "-" or library name
  std::vector<std::string> targets; ///< "host" or "sm_NN"
  std::string folder;               ///< where the bundle goes
  std::string name;                 ///< of files and C functions; empty: the variant's name
  std::string schedule;             ///< overrides, as in KernelChoice
  std::string templateFolder;       ///< empty: the built-in templates
  bool ptx = false;                 ///< write PTX even if there is a ptxas
  bool noLauncher = false;          ///< write no launcher in C
  std::string dtype = "bf16";
  int64_t headDim = 128;
  std::optional<int64_t> headDimV;         ///< empty: headDim
  std::optional<int64_t> length, kvLength; ///< expected lengths of launches; empty kvLength: length
  std::vector<std::string> constants;      ///< "name=value" of const parameters
  std::string algorithm = "forward";       ///< the template
  std::vector<std::string> bindings;       ///< "name=value" of the template's own parameters
  bool dropout = false;
};

struct ExplainOptions : KernelChoice, LaunchShape {
  std::string input;            ///< .safetensors with the captures; empty: random captures
  Layout layout = Layout::bhsd; ///< of q, k and v in the file
  std::string pass = "forward"; ///< "forward", "dq" or "dkdv"
  bool json = false;
  std::string svg; ///< a path; empty: no picture is written
};

struct GradientOptions {
  std::string variant;                ///< path, "-" or library name
  std::vector<std::string> constants; ///< "name=value" of const parameters
};

struct TuneCommandOptions : KernelChoice, LaunchShape {
  std::string input;            ///< .safetensors with the captures; empty: random captures
  Layout layout = Layout::bhsd; ///< of q, k and v in the file
  double seconds = 60;
  bool gradients = false; ///< tune the schedule of the backward pass
  bool exhaustive = false, show = false, json = false;
  std::string cacheFolder; ///< empty: the library's default
  bool noCache = false;    ///< do not keep the choice
  int threads = 0;         ///< of the host; 0: all
  std::string table;       ///< a table to which the record is added; empty: none
};

/// The target that `choice` names. For "auto", the first GPU's target, or "host" without a GPU.
std::string targetOf(const KernelChoice &choice);

/// A context on the device that `choice` asks for.
Result<Context> createContext(const KernelChoice &choice, ContextOptions options);

// Each command returns its exit code.

/// `tesela compile`: the program after one stage.
int compile(const CompileOptions &options);

/// `tesela export`: a bundle of kernels compiled ahead of time.
int exportBundle(const ExportOptions &options);

/// `tesela explain`: what the kernel does with each tile.
int explain(const ExplainOptions &options);

/// `tesela gradient`: the derivatives of a variant as text.
int gradient(const GradientOptions &options);

/// `tesela tune`: measures schedules and keeps the fastest, or shows what is kept.
int tune(const TuneCommandOptions &options);

/// `tesela check`: the diagnostics of each variant.
int check(const std::vector<std::string> &variants);

/// `tesela devices`: the host and the GPUs.
int devices(bool json);

/// `tesela variants`: the library's variants with their parameters.
int variants();

} // namespace tesela::tool

#endif // TESELA_TOOLS_COMMANDS_H
