//===- OnceMap.h - Values made once a key -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_ONCEMAP_H
#define TESELA_CACHE_ONCEMAP_H

#include "tesela/Status.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tesela {

/// A map whose values are made on demand, each once, even when several threads ask
/// at the same time: the others wait. Different keys do not wait for each other. A
/// failure is not kept: the next who asks tries again.
template <typename T> class OnceMap {
public:
  template <typename Make> Result<std::shared_ptr<const T>> get(const std::string &key, Make make) {
    std::shared_ptr<Slot> slot;
    {
      std::lock_guard lock(mutex);
      std::shared_ptr<Slot> &entry = slots[key];
      if (!entry)
        entry = std::make_shared<Slot>();
      slot = entry;
    }
    std::lock_guard lock(slot->mutex);
    if (!slot->value) {
      Result<std::shared_ptr<const T>> made = make();
      if (!made)
        return made.error();
      slot->value = std::move(*made);
    }
    return slot->value;
  }

private:
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<const T> value;
  };
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots;
};

} // namespace tesela

#endif // TESELA_CACHE_ONCEMAP_H
