//===- ThreadOwn.h - A thread's own object, also at its end -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_THREADOWN_H
#define TESELA_SYSTEM_THREADOWN_H

#include <new>
#include <utility>

namespace tesela {

/// A thread's own T, made where it is first asked for and freed at the thread's end. The main
/// thread's end comes before that of static objects, and before what atexit() was given: these may
/// still ask, and get another T, which is never freed.
template <typename T> class ThreadOwn {
public:
  /// Null where there is no memory for it.
  static T *get() noexcept {
    if (!pointer) {
      pointer = new (std::nothrow) T;
      thread_local Guard guard; // at the thread's end already gone: not made again
      (void)guard;
    }
    return pointer;
  }
  /// Null where there is none yet.
  static T *known() noexcept { return pointer; }

private:
  struct Guard {
    Guard() {}
    ~Guard() { delete std::exchange(pointer, nullptr); }
  };
  static inline thread_local T *pointer = nullptr; ///< has no end of its own: always readable
};

} // namespace tesela

#endif // TESELA_SYSTEM_THREADOWN_H
