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

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

namespace tesela {

struct Preparation::State {
  const uint64_t process = processNumber(); ///< the process whose threads make the kernel
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<Kernel>> result;
  std::stop_source cancelled;
  RequestLimits limits;
  /// Plus one for each thread that waits.
  std::shared_ptr<std::atomic<int>> urgency = std::make_shared<std::atomic<int>>(0);

  /// Whether this process is a child of fork() of the one that made the request.
  bool isParents() const { return process != processNumber(); }
};

/// A context's preparations. Those that somebody waits for run first, then requested ones,
/// then those of the background. The destructor cancels unfinished ones and waits for the
/// threads.
class Preparations {
public:
  enum class Urgency { background = -1, asked = 0 };
  using Make = std::function<Result<Kernel>(const RequestLimits &)>;

  Preparations();
  ~Preparations();
  /// Runs `make` on a thread. `time`: from now to the deadline. Code::cancelled: this object is
  /// being destroyed.
  Result<Preparation> add(Make make, std::optional<std::chrono::milliseconds> time,
                          Urgency urgency = Urgency::asked);

private:
  struct Begun {
    std::mutex mutex; ///< also held while tasks are added
    bool closing = false;
    std::vector<std::weak_ptr<Preparation::State>> states;
  };
  PerProcess<Begun> begun;
  TaskThreads threads; ///< the last member, so it is destroyed first
};

} // namespace tesela

#endif // TESELA_API_PREPARATIONS_H
