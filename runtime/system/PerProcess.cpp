//===- PerProcess.cpp - Counts the forks before this process --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/PerProcess.h"

#include <pthread.h>

namespace tesela {

static std::atomic<uint64_t> number = 0;

/// The library is never unloaded (-z nodelete), so the handler stays valid.
[[maybe_unused]] static const int registered =
    pthread_atfork(nullptr, nullptr, [] { number.fetch_add(1, std::memory_order_relaxed); });

uint64_t processNumber() { return number.load(std::memory_order_relaxed); }

} // namespace tesela
