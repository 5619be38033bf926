//===- EventSink.h - Receives a context's events ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_EVENTS_EVENTSINK_H
#define TESELA_EVENTS_EVENTSINK_H

#include "tesela/Events.h"

#include <string>

namespace tesela {

/// A context's callbacks. Without callbacks, an event costs one test of a pointer.
class EventSink {
public:
  using Log = std::function<void(const std::string &)>;

  EventSink() = default;
  EventSink(Log log, EventCallback events) : log(std::move(log)), events(std::move(events)) {}

  /// Whether there is a callback for events. Callers prepare costly events only then.
  bool wantsEvents() const { return bool(events); }
  void emit(const Event &event) const;
  /// Sends the sentence to the log, and to the events as Event::Kind::warning.
  void warn(const std::string &sentence) const;

private:
  Log log;
  EventCallback events;
};

} // namespace tesela

#endif // TESELA_EVENTS_EVENTSINK_H
