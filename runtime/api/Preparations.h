//===- Preparations.h - Kernels made in the background ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_PREPARATIONS_H
#define TESELA_API_PREPARATIONS_H

#include "system/PerProcess.h"
#include "system/TaskThreads.h"
#include "tesela/Preparation.h"
#include "tesela/RequestLimits.h"
#include "tesela/compiler/Compile.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

namespace tesela {

struct ContextState;

struct Preparation::State {
  const uint64_t process = processNumber(); ///< whose threads work on it
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<Kernel>> result;
  std::stop_source cancelled;
  RequestLimits limits;

  /// Whether this process is a child of fork() of that one.
  bool isParents() const { return process != processNumber(); }
};

/// A context's preparations. When it goes it cancels what is not done and waits for its threads.
class Preparations {
public:
  Preparations();
  ~Preparations();
  /// `context` holds this. `time`: from now to the deadline.
  Result<Preparation> add(ContextState &context, KernelSpecification specification,
                          std::optional<ProblemSizes> sizes,
                          std::optional<std::chrono::milliseconds> time);

private:
  struct Begun {
    std::mutex mutex;
    std::vector<std::weak_ptr<Preparation::State>> states;
  };
  PerProcess<Begun> begun;
  TaskThreads threads; ///< the last member: it goes first
};

} // namespace tesela

#endif // TESELA_API_PREPARATIONS_H
