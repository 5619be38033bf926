//===- SizeLimit.h - A cache that does not grow for ever --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Nobody keeps a count of a shared folder's bytes: it would have to be locked across machines and
// mended after a crash. The files are counted instead, as seldom as may be:
//
//   - Keys are digests, so one of the 256 parts tells of all. While the part of a stored
//     entry lets expect less than half of the limit, only that part is read.
//   - From there on all files are listed; after that not before this process has stored a sixteenth
//   of the
//     room that was left.
//
// So the limit may be passed by a sixteenth of the free room for each process that stores at the
// time.
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
  /// removes one.
  void stored(const CacheFolder &folder, const std::string &key, int64_t entryBytes);

private:
  const int64_t limit;
  std::shared_ptr<const EventSink> events;
  std::mutex mutex;
  int64_t allowance = 0; ///< what may be stored before files are counted again

  bool takeFromAllowance(int64_t entryBytes);
  void setAllowance(int64_t bytes);
};

} // namespace tesela

#endif // TESELA_CACHE_SIZELIMIT_H
