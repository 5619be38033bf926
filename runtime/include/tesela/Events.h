//===- Events.h - What a context tells while it works -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_EVENTS_H
#define TESELA_EVENTS_H

#include "tesela/Export.h"
#include "tesela/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tesela {

/// Something that happened. Fields that a kind does not name are empty.
struct Event {
  enum class Kind : int {
    /// A kernel is being compiled: variant, target, key.
    compileStarted = 0,
    /// Also stages, milliseconds, bytes of the code; or failure.
    compileFinished = 1,
    /// A kernel came from the cache: text says "memory", "disk" or "package";
    /// milliseconds.
    cacheHit = 2,
    /// A kernel was in no cache.
    cacheMiss = 3,
    /// An entry was written to disk: key, bytes.
    cacheStored = 4,
    /// An entry was removed from disk or, with text "memory", from memory, to keep the limit: key,
    /// bytes.
    cacheEvicted = 5,
    /// The tuner has timed a schedule: text is the schedule; milliseconds of the best launch so
    /// far;
    /// or failure.
    trial = 6,
    /// A kernel was launched: variant, target; milliseconds of the host's time; or failure.
    launch = 7,
    /// Worth knowing, but no failure: text.
    warning = 8,
    /// The first launch of a kernel was verified (ContextOptions::verify): variant, target; text:
    /// "1024 of 16384 rows"; milliseconds; or failure.
    verified = 9,
  };
  Kind kind = Kind::warning;
  std::string variant;     ///< its name
  std::string target;      ///< "sm_90", "host"
  std::string key;         ///< of the cache's entry, 64 hexadecimal digits
  std::string text;        ///< a sentence, or what the kind says
  double milliseconds = 0; ///< how long it took
  int64_t bytes = 0;
  /// Of a compilation, in order: names and milliseconds.
  std::vector<std::pair<std::string, double>> stages;
  std::optional<Error> failure;
};

/// "compile started", "cache hit", ...
TESELA_EXPORT const char *eventName(Event::Kind kind);

/// Called from the thread in which it happens, which may be any, and from several at once. What it
/// throws is dropped. It must not wait for a kernel of the same context, nor drop the last handle
/// of that: a context ends its threads, of which this may be one.
using EventCallback = std::function<void(const Event &)>;

} // namespace tesela

#endif // TESELA_EVENTS_H
