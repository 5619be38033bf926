//===- LargeStack.cpp - Room for recursion along an expression --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/LargeStack.h"

#include <exception>
#include <pthread.h>

namespace tesela {

namespace {

/// Chains of 2040 terms compile with 8 MiB, but not with 1 MiB. Sanitizers need more.
constexpr size_t stackBytes = size_t(64) << 20;

struct Task {
  llvm::function_ref<void()> work;
  std::exception_ptr thrown;
};

void *runTask(void *given) {
  auto *task = static_cast<Task *>(given);
  try {
    task->work();
  } catch (...) {
    task->thrown = std::current_exception();
  }
  return nullptr;
}

} // namespace

void runOnLargeStack(llvm::function_ref<void()> work) {
  Task task{work, nullptr};
  pthread_attr_t attributes;
  pthread_t thread;
  bool hasBegun = false;
  if (pthread_attr_init(&attributes) == 0) {
    hasBegun = pthread_attr_setstacksize(&attributes, stackBytes) == 0 &&
               pthread_create(&thread, &attributes, runTask, &task) == 0;
    pthread_attr_destroy(&attributes);
  }
  if (!hasBegun)
    return work();
  pthread_join(thread, nullptr);
  if (task.thrown)
    std::rethrow_exception(task.thrown);
}

} // namespace tesela
