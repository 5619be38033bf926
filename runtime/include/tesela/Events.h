//===- Events.h - What happens in a context ---------------------*- C++ -*-===//
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

/// Something that happened in a context. Fields that the kind does not mention are empty.
struct Event {
  enum class Kind : int {
    /// A compilation begins: variant, target, key.
    compileStarted = 0,
    /// A compilation ended. As above, and stages, milliseconds, bytes of the code; or failure.
    compileFinished = 1,
    /// A kernel was found in a cache: text is "memory", "disk" or "package";
    /// milliseconds.
    cacheHit = 2,
    /// A kernel was in no cache.
    cacheMiss = 3,
    /// An entry was written to disk: key, bytes.
    cacheStored = 4,
    /// An entry was removed to keep a limit, from disk or (with text "memory") from memory: key,
    /// bytes.
    cacheEvicted = 5,
    /// The tuner timed a schedule: text is the schedule;
    /// milliseconds of the fastest launch so far; or
    /// failure.
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
  /// The stages of a compilation in order: names and milliseconds.
  std::vector<std::pair<std::string, double>> stages;
  std::optional<Error> failure;
};

/// "compile started", "cache hit", ...
TESELA_EXPORT const char *eventName(Event::Kind kind);

/// Called on the thread where the event happens, which may be any thread, and from several threads
/// at once. Exceptions are dropped. It must not wait for a kernel of the same context, and must not
/// destroy the context's last handle: the context would wait for its own thread.
using EventCallback = std::function<void(const Event &)>;

} // namespace tesela

#endif // TESELA_EVENTS_H
