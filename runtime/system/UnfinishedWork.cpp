//===- UnfinishedWork.cpp - Calls that a fork() interrupts ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/UnfinishedWork.h"

#include <atomic>
#include <pthread.h>

namespace tesela {

static std::atomic<int> ofAllThreads = 0;
static thread_local int ofThisThread = 0;
static std::atomic<bool> leftBehind = false; ///< calls of other threads in the parent

static void lookBack() {
  if (ofAllThreads.load() > ofThisThread)
    leftBehind = true;
  ofAllThreads = ofThisThread;
}

[[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, lookBack);

UnfinishedWork::UnfinishedWork() {
  ++ofThisThread;
  ++ofAllThreads;
}

UnfinishedWork::~UnfinishedWork() {
  --ofAllThreads;
  --ofThisThread;
}

Status UnfinishedWork::mayBegin() const {
  if (!leftBehind)
    return Status::success();
  return Error(
      Code::unsupported,
      "this process was forked while another thread of its parent compiled, prepared or "
      "tuned a kernel, and it cannot release that thread's locks: it can only launch kernels "
      "that were compiled before the fork; fork after these calls have returned, or "
      "start the process by exec");
}

} // namespace tesela
