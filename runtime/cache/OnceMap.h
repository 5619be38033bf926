//===- OnceMap.h - Values made once a key -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_ONCEMAP_H
#define TESELA_CACHE_ONCEMAP_H

#include "system/Caught.h"
#include "tesela/RequestLimits.h"
#include "tesela/Status.h"

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tesela {

/// A map whose values are made on demand, each once, even when several threads ask at the same
/// time: the others wait. Different keys do not wait for each other. A failure is not kept: those
/// who waited get it, the next who asks tries again. But where the maker's own request was over
/// (cancelled, its deadline), one of those who wait makes the value in its place.
///
/// At most `limit` values are kept, those used last; who holds a value keeps it alive.
template <typename T> class OnceMap {
public:
  using Value = std::shared_ptr<const T>;

  explicit OnceMap(size_t limit = size_t(-1)) : limit(limit) {}

  /// `make` gives Result<Value>, and is called without a lock. `evicted`, where given, is called
  /// with each value that the limit puts out.
  template <typename Make, typename Tell>
  Result<Value> get(const std::string &key, const RequestLimits &limits, Make make, Tell evicted) {
    std::unique_lock lock(mutex);
    while (true) {
      std::shared_ptr<Slot> slot = slotOf(key);
      if (slot->value)
        return slot->value;
      if (!slot->isBeingMade) {
        slot->isBeingMade = true;
        lock.unlock();
        // What it throws is a failure: those who wait must not wait for ever.
        Result<Value> made = caught(make);
        lock.lock();
        std::vector<std::shared_ptr<Slot>> out = settle(key, *slot, made);
        lock.unlock();
        for (const std::shared_ptr<Slot> &each : out)
          evicted(*each->value);
        return made; // what was put out goes here, without the lock: that may wait for a device
      }
      ++slot->waiting;
      bool settled = waitFor(lock, *slot, limits);
      --slot->waiting;
      if (!settled)
        return limits.check().error();
      if (slot->value)
        return slot->value;
      if (slot->failure)
        return *slot->failure;
      // The maker gave up: make it here, if nobody else does by now.
      if (Status status = limits.check(); !status) {
        if (!slot->isBeingMade && slot->waiting == 0)
          slots.erase(key);
        return status.error();
      }
    }
  }
  template <typename Make> Result<Value> get(const std::string &key, Make make) {
    return get(key, {}, make, [](const T &) {});
  }

  /// The value, where it is there; it counts as used.
  Value find(const std::string &key) {
    std::lock_guard lock(mutex);
    auto known = slots.find(key);
    if (known == slots.end() || !known->second->value)
      return nullptr;
    touch(*known->second);
    return known->second->value;
  }

  size_t size() const {
    std::lock_guard lock(mutex);
    return order.size();
  }

private:
  struct Slot {
    bool isBeingMade = false;
    int waiting = 0;
    Value value;
    std::optional<Error> failure;           ///< of the making that those who wait have waited for
    std::list<std::string>::iterator place; ///< in `order`, where there is a value
  };

  mutable std::mutex mutex;
  std::condition_variable_any changed;
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots;
  std::list<std::string> order; ///< keys of values, the one used last in front
  size_t limit;

  std::shared_ptr<Slot> slotOf(const std::string &key) {
    std::shared_ptr<Slot> &slot = slots[key];
    if (!slot)
      slot = std::make_shared<Slot>();
    if (slot->value)
      touch(*slot);
    return slot;
  }

  void touch(Slot &slot) { order.splice(order.begin(), order, slot.place); }

  /// Whether the value or a failure came before the request was over. `lock` is held.
  bool waitFor(std::unique_lock<std::mutex> &lock, Slot &slot, const RequestLimits &limits) {
    auto settled = [&] { return !slot.isBeingMade; }; // once more where another took it over
    if (limits.deadline)
      return changed.wait_until(lock, limits.cancelled, *limits.deadline, settled);
    return changed.wait(lock, limits.cancelled, settled);
  }

  /// Tells those who wait, and gives what the limit put out. `lock` is held.
  std::vector<std::shared_ptr<Slot>> settle(const std::string &key, Slot &slot,
                                            const Result<Value> &made) {
    slot.isBeingMade = false;
    slot.failure.reset();
    std::vector<std::shared_ptr<Slot>> out;
    if (made) {
      slot.place = order.insert(order.begin(), key);
      slot.value = *made;
      for (; order.size() > limit; order.pop_back()) {
        auto oldest = slots.find(order.back());
        out.push_back(std::move(oldest->second));
        slots.erase(oldest);
      }
    } else {
      bool gaveUp = made.code() == Code::cancelled || made.code() == Code::deadlineExceeded;
      if (!gaveUp)
        slot.failure = made.error();
      if (!gaveUp || slot.waiting == 0)
        slots.erase(key);
    }
    changed.notify_all();
    return out;
  }
};

} // namespace tesela

#endif // TESELA_CACHE_ONCEMAP_H
