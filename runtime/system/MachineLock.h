//===- MachineLock.h - A lock between processes of this machine -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An advisory lock between the threads and processes of one user on one machine. It locks an open
// file (flock), so the kernel releases it when the process ends, even by kill -9. The files lie in
// a folder of this machine, never in one that machines share: $XDG_RUNTIME_DIR/tesela, else
// $TMPDIR/tesela-UID, else /tmp/tesela-UID.
//
// The lock only saves work. If it cannot be had, callers continue without it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_MACHINELOCK_H
#define TESELA_SYSTEM_MACHINELOCK_H

#include "system/File.h"

#include <functional>
#include <string>

namespace tesela {

class MachineLock {
public:
  enum class Outcome {
    held,        ///< this object holds the lock until its destruction
    stopped,     ///< another holds it, and `stop` ended the wait
    unavailable, ///< continue without the lock: there is no folder for locks, or the holder did not
                 ///< let go in time
  };

  /// Waits until nobody else holds the lock called `name`, a file's name. `stop` is called before
  /// each wait, some hundred times a second, and ends the wait by true; empty: never. After two
  /// minutes (the holder may be stopped in a debugger) gives up: unavailable.
  static MachineLock acquire(const std::string &name, const std::function<bool()> &stop = {});
  /// Does not wait. `stopped`: another holds the lock.
  static MachineLock tryAcquire(const std::string &name);
  /// For callers that use no lock.
  static MachineLock unavailable() { return MachineLock(Outcome::unavailable); }

  MachineLock(MachineLock &&) noexcept = default;
  MachineLock &operator=(MachineLock &&) = delete;
  ~MachineLock() { release(); }

  Outcome outcome() const { return outcome_; }
  bool held() const { return outcome_ == Outcome::held && file; }

  /// Lets the next one in.
  void release();
  /// Lets all who wait now continue without the lock, because what they wait for will not come.
  void releaseAll();

private:
  explicit MachineLock(Outcome outcome) : outcome_(outcome) {}

  Outcome outcome_;
  Descriptor folder, file;
  std::string name;
};

} // namespace tesela

#endif // TESELA_SYSTEM_MACHINELOCK_H
