//===- SizeLimit.h - Keeps the cache within its size limit ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// No total of a shared folder's bytes is stored, because it would need locks across machines and a
// repair after crashes. Files are counted instead, as few as possible:
//
//   - If a 256th of the limit has room for many entries, each of the folder's parts is kept below
//     that. Keys are digests, so parts fill evenly, and storing an entry reads only its own part.
//   - Otherwise there are at most some thousand entries, and all are counted. They are counted
//     again only after this process has stored a sixteenth of the room that was left. The limit
//     may be exceeded by that much.
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

  /// Called after an entry of `entryBytes` was stored under `key`. If the limit is exceeded,
  /// removes the least recently used entries down to nine tenths of it, so that not every later
  /// store removes one. Does nothing if another thread or process of this machine is doing the
  /// same.
  void stored(const CacheFolder &folder, const std::string &key, int64_t entryBytes);

private:
  const int64_t limit;
  std::shared_ptr<const EventSink> events;
  std::mutex mutex;
  int64_t allowance = 0; ///< bytes that may be stored before all files are counted again

  bool takeFromAllowance(int64_t entryBytes);
  void setAllowance(int64_t bytes);
  int64_t keep(std::vector<CacheFile> files, int64_t mostBytes) const;
};

} // namespace tesela

#endif // TESELA_CACHE_SIZELIMIT_H
