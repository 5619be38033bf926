//===- SizeLimit.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/SizeLimit.h"

#include "system/MachineLock.h"

#include <algorithm>
#include <limits>

namespace tesela {

/// With this many entries in each part, the parts differ little in size. So the least recently used
/// entry of a part is among the least recently used ones of all.
static constexpr int64_t manyEntries = 16;

bool SizeLimit::takeFromAllowance(int64_t entryBytes) {
  std::lock_guard lock(mutex);
  if (allowance < entryBytes)
    return false;
  allowance -= entryBytes;
  return true;
}

void SizeLimit::setAllowance(int64_t bytes) {
  std::lock_guard lock(mutex);
  allowance = bytes;
}

/// Removes from `files` what exceeds `mostBytes`, and temporary files that were left behind.
/// Returns the bytes of the remaining entries.
int64_t SizeLimit::keep(std::vector<CacheFile> files, int64_t mostBytes) const {
  int64_t total = 0;
  for (const CacheFile &file : files)
    total += file.temporary ? 0 : file.facts.bytes;
  int64_t goal = total > mostBytes ? mostBytes / 10 * 9 : mostBytes;
  Removed removed = removeOldest(std::move(files), goal, std::numeric_limits<int64_t>::min());
  for (const CacheFile &file : removed.entries) {
    Event event;
    event.kind = Event::Kind::cacheEvicted;
    event.key = file.key;
    event.bytes = file.facts.bytes;
    events->emit(event);
  }
  return removed.bytesLeft;
}

void SizeLimit::stored(const CacheFolder &folder, const std::string &key, int64_t entryBytes) {
  const int64_t partLimit = limit / CacheFolder::parts;
  const bool byPart = partLimit >= manyEntries * entryBytes;
  if (!byPart && takeFromAllowance(entryBytes))
    return;
  const std::string purpose = byPart ? "size limit of " + key.substr(0, 2) : "size limit";
  MachineLock lock = MachineLock::tryAcquire(folder.lockName(purpose));
  if (lock.outcome() == MachineLock::Outcome::stopped)
    return;
  if (byPart)
    keep(folder.filesBeside(key), partLimit);
  else if (Result<std::vector<CacheFile>> files = folder.files())
    setAllowance(std::max<int64_t>(limit - keep(std::move(*files), limit), 0) / 16);
}

} // namespace tesela
