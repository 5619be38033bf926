//===- SizeLimit.h - A cache that does not grow for ever --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Nobody keeps a count of a shared folder's bytes: it would have to be locked across machines and
// mended after a crash. Files are counted instead, as few as may be:
//
//   - Where a 256th of the limit has room for many entries, each of the folder's parts is kept
//   below that:
//     keys are digests, so parts fill alike, and storing an entry reads its own part alone.
//   - Else there cannot be more than some thousand entries, and all are counted; then not again
//   before this process has
//     stored a sixteenth of the room that was left, by which the limit may be passed.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_SIZELIMIT_H
#define TESELA_CACHE_SIZELIMIT_H

#include "cache/CacheFolder.h"
#include "events/EventSink.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace tesela {

class SizeLimit {
public:
  SizeLimit(int64_t bytes, std::shared_ptr<const EventSink> events)
      : limit(bytes), events(std::move(events)) {}

  int64_t bytes() const { return limit; }

  /// Called after an entry of `entryBytes` was stored under `key`: removes what was used longest
  /// ago where the limit is passed, to nine tenths of it, so that not every entry that comes next
  /// removes one. Where another thread or process of the machine is at it, nothing.
  void stored(const CacheFolder &folder, const std::string &key, int64_t entryBytes);

private:
  const int64_t limit;
  std::shared_ptr<const EventSink> events;
  std::mutex mutex;
  int64_t allowance = 0; ///< what may be stored before all files are counted again

  bool takeFromAllowance(int64_t entryBytes);
  void setAllowance(int64_t bytes);
  int64_t keep(std::vector<CacheFile> files, int64_t mostBytes) const;
};

} // namespace tesela

#endif // TESELA_CACHE_SIZELIMIT_H
