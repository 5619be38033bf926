//===- CompileAhead.cpp - Compiles kernels ahead ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/CompileAhead.h"

#include <algorithm>
#include <system_error>

namespace tesela {

/// How many finished kernels per thread may wait to be taken. Enough that neither side waits for
/// slow ones of the other.
static constexpr size_t aheadOfThread = 4;

CompileAhead::CompileAhead(size_t count, int threads, bool quietly, Compile compile)
    : count(count), ahead(aheadOfThread * size_t(threads)), quietly(quietly),
      compile(std::move(compile)) {
  try {
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([this] { work(); });
  } catch (const std::system_error &) { // the system gives no more threads
    if (workers.empty())
      throw;
  }
}

CompileAhead::~CompileAhead() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  changed.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

bool CompileAhead::mayBegin() const {
  return begun < count && !paused && ready.size() + compiling < ahead;
}

void CompileAhead::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return closing || begun == count || mayBegin(); });
    if (closing || begun == count)
      return;
    size_t number = begun++;
    ++compiling;
    lock.unlock();
    Result<Kernel> kernel = compile(number);
    lock.lock();
    --compiling;
    ready.push_back({number, std::move(kernel)});
    changed.notify_all();
  }
}

std::optional<CompileAhead::Made> CompileAhead::take() {
  std::unique_lock lock(mutex);
  if (taken == count)
    return std::nullopt;
  // A batch is complete before its first kernel is taken, also the batch that the constructor
  // began.
  if (quietly && (!paused || ready.empty())) {
    paused = false;
    changed.notify_all();
    changed.wait(lock, [&] {
      return compiling == 0 && !ready.empty() && (ready.size() >= ahead || begun == count);
    });
    paused = true;
  }
  changed.wait(lock, [&] { return !ready.empty(); });
  Made made = std::move(ready.front());
  ready.pop_front();
  ++taken;
  changed.notify_all();
  return made;
}

} // namespace tesela
