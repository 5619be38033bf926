//===- SizeLimit.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/SizeLimit.h"

#include "system/MachineLock.h"

#include <algorithm>
#include <limits>

namespace tesela {

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

void SizeLimit::stored(const CacheFolder &folder, const std::string &key, int64_t entryBytes) {
  if (takeFromAllowance(entryBytes))
    return;
  int64_t expected = 0;
  for (const CacheFile &file : folder.filesBeside(key)) {
    if (isStale(file))
      (void)removeUnused(file);
    else
      expected += file.facts.bytes * CacheFolder::parts;
  }
  if (expected < limit / 2)
    return;

  MachineLock lock = MachineLock::tryAcquire(folder.lockName("size limit"));
  if (lock.outcome() == MachineLock::Outcome::stopped)
    return; // another thread or process is at it
  Result<std::vector<CacheFile>> files = folder.files();
  if (!files)
    return;
  int64_t total = 0;
  for (const CacheFile &file : *files)
    total += file.temporary ? 0 : file.facts.bytes;
  if (total > limit) {
    Removed removed =
        removeOldest(std::move(*files), limit / 10 * 9, std::numeric_limits<int64_t>::min());
    for (const CacheFile &file : removed.entries) {
      Event event;
      event.kind = Event::Kind::cacheEvicted;
      event.key = file.key;
      event.bytes = file.facts.bytes;
      events->emit(event);
    }
    total = removed.bytesLeft;
  }
  setAllowance(std::max<int64_t>(limit - total, 0) / 16);
}

} // namespace tesela
