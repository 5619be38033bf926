//===- OnceMap.h - A map that makes each value once -------------*- C++ -*-===//
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

/// A map whose values are made on demand. If several threads ask for a key at the same time, one
/// makes the value and the others wait. Different keys do not wait for each other. A failure is
/// returned to all who waited, but not kept: the next request tries again. If the maker's request
/// was cancelled or exceeded its deadline, one of the waiting threads makes the value instead.
///
/// At most `limit` values are kept, the most recently used; a shared_ptr keeps its value longer.
template <typename T> class OnceMap {
public:
  using Value = std::shared_ptr<const T>;

  explicit OnceMap(size_t limit = size_t(-1)) : limit(limit) {}

  /// `make` returns Result<Value> and is called without a lock. `evicted`, if given, is called with
  /// each value that is removed because of the limit.
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
        // An exception becomes a failure, so that waiting threads do not wait forever.
        Result<Value> made = caught(make);
        lock.lock();
        std::vector<std::shared_ptr<Slot>> out = settle(key, *slot, made);
        lock.unlock();
        for (const std::shared_ptr<Slot> &each : out)
          evicted(*each->value);
        return made; // evicted values are destroyed here, without the lock, because that may wait
                     // for a device
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
      // The maker gave up: make the value here, unless another thread does by now.
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

  /// The value, or null if it is not there. Marks it as used.
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
    std::optional<Error> failure;           ///< the result for those who waited, if making failed
    std::list<std::string>::iterator place; ///< in `order`, if there is a value
  };

  mutable std::mutex mutex;
  std::condition_variable_any changed;
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots;
  std::list<std::string> order; ///< the keys of all values, the most recently used first
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

  /// Waits for a value or a failure. False: the request was over first. `lock` is held.
  bool waitFor(std::unique_lock<std::mutex> &lock, Slot &slot, const RequestLimits &limits) {
    auto settled = [&] { return !slot.isBeingMade; }; // again, if another thread makes it instead
    if (limits.deadline)
      return changed.wait_until(lock, limits.cancelled, *limits.deadline, settled);
    return changed.wait(lock, limits.cancelled, settled);
  }

  /// Wakes the waiting threads and returns the values that the limit removes. `lock` is held.
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
