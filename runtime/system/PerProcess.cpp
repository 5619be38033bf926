//===- PerProcess.cpp - What a child of fork() has anew -------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/PerProcess.h"

#include <pthread.h>

namespace tesela {

static std::atomic<uint64_t> number = 0;

/// The library stays when it is closed (-z nodelete), so the handler does, too.
[[maybe_unused]] static const int registered =
    pthread_atfork(nullptr, nullptr, [] { number.fetch_add(1, std::memory_order_relaxed); });

uint64_t processNumber() { return number.load(std::memory_order_relaxed); }

} // namespace tesela
