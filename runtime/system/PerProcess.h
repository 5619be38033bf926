//===- PerProcess.h - What a child of fork() has anew -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A child that fork() makes has one thread, a copy of the one that called it. Other threads of the
// parent are not there, and what they had locked or half changed stays so for ever. So whatever has
// threads of its own, or is locked for long, is made anew in a child.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_PERPROCESS_H
#define TESELA_SYSTEM_PERPROCESS_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tesela {

/// 0; in a child that fork() makes one more than in its parent.
uint64_t processNumber();

/// A T for the process, and in each child another one, made when it is first asked for. There the
/// parent's is left as it is and never touched, not to destroy it either.
template <typename T> class PerProcess {
public:
  using Make = std::function<std::unique_ptr<T>()>;

  explicit PerProcess(Make make) : make(std::move(make)), current(begin(nullptr)) {}
  PerProcess(const PerProcess &) = delete;
  PerProcess &operator=(const PerProcess &) = delete;
  ~PerProcess() {
    Owned *last = current;
    if (last->process == processNumber())
      delete last;
  }

  T &get() const {
    Owned *owned = current.load(std::memory_order_acquire);
    return owned->process == processNumber() ? *owned->value : *renew(owned)->value;
  }

private:
  struct Owned {
    uint64_t process;
    std::unique_ptr<T> value;
    const Owned *parents; ///< so that nothing calls it lost
  };

  Owned *begin(const Owned *parents) const { return new Owned{processNumber(), make(), parents}; }
  Owned *renew(Owned *parents) const {
    Owned *made = begin(parents);
    if (current.compare_exchange_strong(parents, made))
      return made;
    delete made; // another thread was faster
    return parents;
  }

  const Make make;
  mutable std::atomic<Owned *> current;
};

} // namespace tesela

#endif // TESELA_SYSTEM_PERPROCESS_H
