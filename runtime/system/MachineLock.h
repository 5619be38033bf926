//===- MachineLock.h - One at a time on this machine ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An advisory lock between the threads and processes of one user on one machine. It is a lock of an
// open file (flock), so the kernel releases it when its process ends, kill -9 included. The files
// lie in a folder of the machine's own, never in a folder that machines share:
// $XDG_RUNTIME_DIR/tesela, else $TMPDIR/tesela-UID, else /tmp/tesela-UID.
//
// It saves work and guards nothing: where it cannot be had, callers go on without.
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
    held,        ///< it is ours until this object goes
    stopped,     ///< another holds it, and `stop` said that the caller waits no longer
    unavailable, ///< go on without: there is no folder for locks, or waiting leads nowhere
  };

  /// Waits until nobody else holds the lock called `name`, a file's name. `stop` is asked before
  /// each wait, some hundred times a second; empty: wait on. A holder that gives no sign of life
  /// for two minutes (stopped in a debugger, say) is not waited for: unavailable.
  static MachineLock acquire(const std::string &name, const std::function<bool()> &stop = {});
  /// Does not wait: stopped where another holds it.
  static MachineLock tryAcquire(const std::string &name);
  /// For who does without.
  static MachineLock unavailable() { return MachineLock(Outcome::unavailable); }

  MachineLock(MachineLock &&) noexcept = default;
  MachineLock &operator=(MachineLock &&) = delete;
  ~MachineLock() { release(); }

  Outcome outcome() const { return outcome_; }
  bool held() const { return outcome_ == Outcome::held && file; }

  /// Lets the next one go on.
  void release();
  /// Lets all go on who wait now, without the lock: what they wait for will not come.
  void releaseAll();

private:
  explicit MachineLock(Outcome outcome) : outcome_(outcome) {}

  Outcome outcome_;
  Descriptor folder, file;
  std::string name;
};

} // namespace tesela

#endif // TESELA_SYSTEM_MACHINELOCK_H
