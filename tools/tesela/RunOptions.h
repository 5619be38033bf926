//===- RunOptions.h - What the user asks of `tesela run` --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_RUNOPTIONS_H
#define TESELA_TOOLS_RUNOPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tesela::tool {

/// How q, k, v and o lie in memory and in files; a kernel takes both.
enum class Layout {
  bhsd, ///< [batch, heads, length, head dimension]
  bshd, ///< [batch, length, heads, head dimension]
};

/// Options that both `run` and `compile` have.
struct KernelChoice {
  std::string variant;         ///< path, "-" or library name
  std::string target = "auto"; ///< "auto", "host" or "sm_NN"
  std::string schedule;        ///< overrides, "block_m = 128"; empty: the heuristic
  std::string templateFolder;  ///< empty: the built-in templates
};

struct RunOptions : KernelChoice {
  std::string input;  ///< .safetensors with q, k, v and captures; empty: random data
  std::string output; ///< .safetensors for o and lse; empty: none
  Layout layout = Layout::bhsd;

  // Of random data; a file has its own.
  int64_t batch = 1;
  int64_t heads = 8;
  std::optional<int64_t> kvHeads; ///< as heads
  int64_t length = 1024;
  std::optional<int64_t> kvLength; ///< as length
  int64_t headDim = 128;
  std::optional<int64_t> headDimV; ///< as headDim
  std::string dtype = "bf16";
  std::string inputs = "normal";
  uint64_t seed = 0;

  std::optional<double> scale;         ///< 1/sqrt(headDim)
  std::vector<std::string> parameters; ///< "name=value"
  std::string cacheFolder;             ///< empty: the library's choice
  bool noCache = false;
  int threads = 0; ///< of the host; 0: all
  bool noCheck = false;
  std::optional<int> repeat; ///< timed launches; as many as fit into a second
  bool json = false;
};

/// `tesela run`: returns the exit code.
int run(const RunOptions &options);

} // namespace tesela::tool

#endif // TESELA_TOOLS_RUNOPTIONS_H
