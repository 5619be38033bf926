//===- CacheCommand.h - `tesela cache` --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_CACHECOMMAND_H
#define TESELA_TOOLS_CACHECOMMAND_H

#include <cstdint>
#include <optional>
#include <string>

namespace tesela::tool {

struct CacheOptions {
  enum class Action { list, stats, verify, prune, clear } action = Action::list;
  std::string folder; ///< empty: the default folder
  bool json = false;
  std::optional<uint64_t> mostBytes; ///< for prune: the size to keep
  std::optional<double> mostDays;    ///< for prune: days since the last use
};

/// `tesela cache list|stats|verify|prune|clear`. Returns the exit code.
int cache(const CacheOptions &options);

} // namespace tesela::tool

#endif // TESELA_TOOLS_CACHECOMMAND_H
