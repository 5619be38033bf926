//===- ThreadOwn.h - One object per thread ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_THREADOWN_H
#define TESELA_SYSTEM_THREADOWN_H

#include <new>
#include <utility>

namespace tesela {

/// One T for each thread, made at its first use and freed at the thread's end. The main thread ends
/// before static objects are destroyed and atexit() functions run. These may still ask; they get
/// another T, which is never freed.
template <typename T> class ThreadOwn {
public:
  /// Null if memory ran out.
  static T *get() noexcept {
    if (!pointer) {
      pointer = new (std::nothrow) T;
      thread_local Guard guard; // already destroyed at the thread's end, and then not made again
      (void)guard;
    }
    return pointer;
  }
  /// Null if get() was not called yet.
  static T *known() noexcept { return pointer; }

private:
  struct Guard {
    Guard() {}
    ~Guard() { delete std::exchange(pointer, nullptr); }
  };
  static inline thread_local T *pointer = nullptr; ///< trivial, so it can be read at any time
};

} // namespace tesela

#endif // TESELA_SYSTEM_THREADOWN_H
