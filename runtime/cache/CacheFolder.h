//===- CacheFolder.h - Where entries lie ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
//   FOLDER/v1/3f/3f…c2.kernel           an entry, named by its key
//   FOLDER/v1/3f/3f…c2.kernel.k3a0vq    one that is being written
//   FOLDER/assemblers                   the versions of assemblers (AssemblerVersions)
//
// Keys are digests, so the 256 parts hold about the same. A file's time is that of its last use.
// Whatever else lies in the folder, other versions' parts included, is left alone.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_CACHEFOLDER_H
#define TESELA_CACHE_CACHEFOLDER_H

#include "system/File.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tesela {

/// Seconds since 1970, by this machine's clock.
int64_t secondsNow();

struct CacheFile {
  std::string path, key;
  FileFacts facts;
  bool temporary = false; ///< being written, or left behind
};

class CacheFolder {
public:
  /// How many parts the entries lie in.
  static constexpr int parts = 256;
  /// A file that is being written is ready in seconds; one that is older was left behind.
  static constexpr std::chrono::hours oldestTemporary{1};

  explicit CacheFolder(std::string root) : root(std::move(root)) {}

  std::string entryPath(const std::string &key) const;
  /// A file's name for a MachineLock that concerns this folder and `purpose`.
  std::string lockName(const std::string &purpose) const;

  /// Writes an entry so that nobody ever sees a part of it; makes the folders where they are
  /// missing.
  Status write(const std::string &key, std::string_view bytes) const;

  /// All files, in no order. A folder that is not there has none.
  Result<std::vector<CacheFile>> files() const;
  /// Those of the part that `key` lies in; none where it cannot be read.
  std::vector<CacheFile> filesBeside(const std::string &key) const;
  /// Removes the parts that are empty.
  void removeEmptyParts() const;

private:
  std::string formatFolder() const;

  std::string root;
};

/// Whether it was left behind.
bool isStale(const CacheFile &file);

/// Removes the file, unless it was used or replaced since it was listed: then false. True: it is
/// gone. Those who read it at this moment read on.
Result<bool> removeUnused(const CacheFile &file);

/// What removeOldest has removed.
struct Removed {
  std::vector<CacheFile> entries;
  int64_t bytes = 0;            ///< of these
  int64_t bytesLeft = 0;        ///< of the entries that are left
  std::optional<Error> failure; ///< why the first of those was not removed that should have been
};

/// Removes temporaries left behind, entries that were not used since `usedBefore` (seconds since
/// 1970), and those used longest ago until the rest is `mostBytes` at most.
Removed removeOldest(std::vector<CacheFile> files, int64_t mostBytes, int64_t usedBefore);

} // namespace tesela

#endif // TESELA_CACHE_CACHEFOLDER_H
