//===- RunOptions.h - What the user asks of `tesela run` --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_RUNOPTIONS_H
#define TESELA_TOOLS_RUNOPTIONS_H

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tesela::tool {

/// The layout of q, k, v and o in memory and in files. A kernel takes both layouts.
enum class Layout {
  bhsd, ///< [batch, heads, length, head dimension]
  bshd, ///< [batch, length, heads, head dimension]
};

/// Options of all commands that compile.
struct KernelChoice {
  std::string variant;         ///< path, "-" or library name
  std::string target = "auto"; ///< "auto", "host" or "sm_NN"
  std::string schedule;        ///< overrides, "block_m = 128"; empty: the heuristic
  std::string templateFolder;  ///< empty: the built-in templates
};

/// Extents and types of a launch, and its parameters.
struct LaunchShape {
  int64_t batch = 1;
  int64_t heads = 8;
  std::optional<int64_t> kvHeads; ///< empty: heads
  int64_t length = 1024;
  std::optional<int64_t> kvLength; ///< empty: length
  int64_t headDim = 128;
  std::optional<int64_t> headDimV; ///< empty: headDim
  std::string dtype = "bf16";
  uint64_t seed = 0;                   ///< of random data
  std::vector<std::string> parameters; ///< "name=value"
  std::set<std::string> given;         ///< the options that the user gave, such as "--length"
};

struct RunOptions : KernelChoice, LaunchShape {
  std::string input;  ///< .safetensors with captures, and with q, k and v or without; empty: random
  std::string output; ///< .safetensors for o, lse and gradients; empty: none
  Layout layout = Layout::bhsd;

  std::string inputs = "normal"; ///< the kind of random data

  std::optional<double> scale;   ///< empty: 1/sqrt(headDim)
  std::optional<double> dropout; ///< the probability; its seed is `seed`
  std::string cacheFolder;       ///< empty: the library's default
  bool noCache = false;
  std::string tuning = "cached"; ///< off, cached or full
  int threads = 0;               ///< of the host; 0: all
  bool noCheck = false;          ///< do not compare all rows (`verify` compares a sample)
  bool verify = false;           ///< check the first launch, on a sample of rows
  bool checkReads = false;       ///< report reads outside of captured tensors
  std::optional<int> repeat;     ///< timed launches; empty: as many as fit into a second
  bool gradients = false;        ///< of q, k and v: the backward pass is checked and timed
  bool ragged = false;           ///< sequences of their own lengths, one after the other
  int64_t page = 0;              ///< rows of a page of keys; 0: no pages
  std::string positions;         ///< begin, end or given; empty: end with pages, otherwise begin
  /// Whether queries are behind a cache, so that they are at positions among the keys. Then a
  /// captured tensor's extent Sq counts keys.
  bool areAmongKeys() const { return positions == "end" || positions == "given"; }
  std::string cache;           ///< "e4m3": keys and values of 8 bits; empty: the type of q
  std::string scales = "head"; ///< what has a scale of its own in the cache: head or page
  std::string values;          ///< "keys": values are first columns of the keys; empty: a tensor
  bool split = false;          ///< split each sequence's keys among work items
  bool json = false;
};

/// `tesela run`: returns the exit code.
int run(const RunOptions &options);

} // namespace tesela::tool

#endif // TESELA_TOOLS_RUNOPTIONS_H
