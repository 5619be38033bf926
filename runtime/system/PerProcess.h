//===- PerProcess.h - Objects that a child of fork() makes anew -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A child of fork() has only a copy of the thread that called fork(). What other threads of the
// parent had locked or half changed stays so forever. So objects that own threads, or that are
// locked for long, must be made anew in a child.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_PERPROCESS_H
#define TESELA_SYSTEM_PERPROCESS_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tesela {

/// 0 in the first process; a child of fork() has its parent's number plus 1.
uint64_t processNumber();

/// One T for the process. Each child of fork() makes its own when it first asks, and never touches
/// its parent's, not even to destroy it.
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
    const Owned *parents; ///< keeps the parent's reachable, for leak checkers
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
