//===- Cache.h - The kernels on disk ----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// To list, check and prune the kernels on disk. Any thread may call these functions, while other
// threads, processes and machines use the folder. Contexts manage their caches by themselves.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_H
#define TESELA_CACHE_H

#include "tesela/ElementType.h"
#include "tesela/Export.h"
#include "tesela/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// The limit of a cache folder if ContextOptions::cacheBytes is 0. 1 GiB holds about 10,000 GPU
/// kernels of 100 KB; a host kernel takes a tenth of that.
inline constexpr int64_t defaultCacheBytes = int64_t(1) << 30;

/// $TESELA_CACHE_DIR, else $XDG_CACHE_HOME/tesela, else ~/.cache/tesela. Empty if none of these
/// variables is set.
TESELA_EXPORT std::string defaultCacheFolder();

/// A kernel on disk.
struct CachedKernel {
  std::string key;   ///< 64 hexadecimal digits
  std::string path;  ///< of its file
  int64_t bytes = 0; ///< of its file
  int64_t used = 0;  ///< when it was last stored or loaded, to the minute; seconds since 1970
  /// Why the entry is not used. The next request compiles the kernel again. If there is damage, the
  /// fields below are not set.
  std::optional<Error> damage;

  int64_t made = 0; ///< seconds since 1970
  std::string variantName;
  std::string target; ///< "host", "sm_90"
  ElementType inputType = ElementType::bf16;
  int headDimQk = 0, headDimV = 0;
  std::string schedule; ///< the chosen #tile.schedule, as text
};

/// What was removed from a cache, and what is left in it.
struct CacheRemoval {
  int64_t kernels = 0, bytes = 0;
  int64_t bytesLeft = 0;
};

/// A cache's folder.
class TESELA_EXPORT Cache {
public:
  /// Opens `folder`; empty: the default folder, or Code::notFound if no variable names one. A
  /// folder that does not exist counts as an empty cache. No member creates it.
  static Result<Cache> open(const std::string &folder = "");

  const std::string &folder() const { return folder_; }

  /// All kernels, the most recently used first. Reads only the first page of each file, so damage
  /// in later pages is not noticed.
  Result<std::vector<CachedKernel>> list() const;

  /// The same, with each file read and checked as a context does before it loads the kernel.
  Result<std::vector<CachedKernel>> verify() const;

  /// What prune() keeps.
  struct Keep {
    /// Removes the least recently used kernels until the rest take at most this many bytes.
    std::optional<int64_t> mostBytes = {};
    std::optional<int64_t> mostSecondsOld = {}; ///< removes kernels that were last used longer ago
  };
  /// Also removes the unfinished files of processes that ended while they wrote.
  Result<CacheRemoval> prune(const Keep &keep) const;

  /// Removes all kernels. Folders and files that do not belong to the cache stay.
  Result<CacheRemoval> clear() const;

private:
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

} // namespace tesela

#endif // TESELA_CACHE_H
