//===- CacheFolder.h - Files of the cache -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
//   FOLDER/v1/3f/3f…c2.kernel           an entry, named by its key
//   FOLDER/v1/3f/3f…c2.kernel.k3a0vq    an entry that is being written
//   FOLDER/assemblers                   the versions of assemblers (AssemblerVersions)
//
// Keys are digests, so the 256 parts have about equal sizes. A file's modification time is its last
// use. Other files in the folder, also those of other versions, are left alone.
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
  bool temporary = false; ///< being written, or left behind by a process that ended
};

class CacheFolder {
public:
  /// The number of folders that the entries are spread over.
  static constexpr int parts = 256;
  /// Writing a file takes seconds. An older temporary file was left behind.
  static constexpr std::chrono::hours oldestTemporary{1};

  explicit CacheFolder(std::string root) : root(std::move(root)) {}

  std::string entryPath(const std::string &key) const;
  /// A file name for a MachineLock for this folder and `purpose`.
  std::string lockName(const std::string &purpose) const;

  /// Writes an entry. Other processes see all of it or nothing. Creates missing
  /// folders.
  Status write(const std::string &key, std::string_view bytes) const;

  /// All files, in no particular order. A folder that does not exist has none.
  Result<std::vector<CacheFile>> files() const;
  /// The files in the same part as `key`; none if it cannot be read.
  std::vector<CacheFile> filesBeside(const std::string &key) const;
  /// Removes the parts that are empty.
  void removeEmptyParts() const;

private:
  std::string formatFolder() const;

  std::string root;
};

/// Whether the file is temporary and was left behind.
bool isStale(const CacheFile &file);

/// Removes the file and returns true, unless it was used or replaced since it was listed. Processes
/// that are reading it can read on.
Result<bool> removeUnused(const CacheFile &file);

/// The result of removeOldest.
struct Removed {
  std::vector<CacheFile> entries;
  int64_t bytes = 0;            ///< of the removed entries
  int64_t bytesLeft = 0;        ///< of the remaining entries
  std::optional<Error> failure; ///< why the first file that should have been removed was not
};

/// Removes temporary files that were left behind, entries last used before `usedBefore` (seconds
/// since 1970), and then the least recently used ones until the rest has at most `mostBytes`.
Removed removeOldest(std::vector<CacheFile> files, int64_t mostBytes, int64_t usedBefore);

} // namespace tesela

#endif // TESELA_CACHE_CACHEFOLDER_H
