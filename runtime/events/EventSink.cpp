//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "events/EventSink.h"

namespace tesela {

const char *eventName(Event::Kind kind) {
  switch (kind) {
  case Event::Kind::compileStarted:
    return "compile started";
  case Event::Kind::compileFinished:
    return "compile finished";
  case Event::Kind::cacheHit:
    return "cache hit";
  case Event::Kind::cacheMiss:
    return "cache miss";
  case Event::Kind::cacheStored:
    return "cache stored";
  case Event::Kind::cacheEvicted:
    return "cache evicted";
  case Event::Kind::trial:
    return "trial";
  case Event::Kind::launch:
    return "launch";
  case Event::Kind::warning:
    return "warning";
  case Event::Kind::verified:
    return "verified";
  }
  return "unknown event";
}

/// A caller's function may throw, but no exception may leave the library.
template <typename Callback, typename Argument>
static void callQuietly(const Callback &callback, const Argument &argument) {
  try {
    if (callback)
      callback(argument);
  } catch (...) {
  }
}

void EventSink::emit(const Event &event) const { callQuietly(events, event); }

void EventSink::warn(const std::string &sentence) const {
  callQuietly(log, sentence);
  if (!events)
    return;
  Event event;
  event.kind = Event::Kind::warning;
  event.text = sentence;
  emit(event);
}

} // namespace tesela
