//===- FirstLaunch.h - A kernel's first launch is verified ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_FIRSTLAUNCH_H
#define TESELA_CHECK_FIRSTLAUNCH_H

#include "cache/OnceMap.h"
#include "tesela/Check.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tesela {

class Backend;
class EventSink;
struct LoadedKernel;

/// What a kernel of a context with ContextOptions::verify has beside it: its first launch that
/// computes something is held against the oracle, or the interpreter, on a sample of rows.
class FirstLaunch {
public:
  /// `options` are the kernel's; `oracles` keeps the cubins of oracles by their source; `threads`
  /// are the interpreter's, 0: the hardware's.
  FirstLaunch(KernelOptions options, std::shared_ptr<OnceMap<std::string>> oracles, int threads,
              std::shared_ptr<const EventSink> events)
      : options(std::move(options)), oracles(std::move(oracles)), threads(threads),
        events(std::move(events)) {}

  /// To be called behind each launch of `kernel` that was started. The first time it waits for
  /// `stream` and computes the reference; meanwhile launches of other threads pass by. That is put
  /// off while `stream` is captured into a graph, where no pair is computed, and where the inputs
  /// have numbers that nothing can be held against.
  ///
  /// Fails where the result is wrong (Code::defect), then and behind every later launch. Where no
  /// reference can be had the context's log is told, and the kernel is not verified.
  Status check(const LoadedKernel &kernel, const LaunchArguments &arguments, void *stream);

private:
  enum class State { pending, running, over, failed };
  enum class Verdict {
    right,
    wrong,
    unknown,   ///< nothing can be held against these inputs
    impossible ///< there is no reference
  };
  struct Finding {
    Verdict verdict;
    std::string sentence; ///< why; empty where right
  };

  Finding verify(const LoadedKernel &kernel, const LaunchArguments &arguments,
                 const std::vector<int64_t> &rows, void *stream);
  Result<Reference> reference(const Backend &backend, const LaunchArguments &arguments,
                              const std::vector<int64_t> &rows, void *stream);
  void tell(const LoadedKernel &kernel, const std::string &rows, double milliseconds) const;

  const KernelOptions options;
  const std::shared_ptr<OnceMap<std::string>> oracles;
  const int threads;
  const std::shared_ptr<const EventSink> events;
  std::atomic<State> state = State::pending;
  std::optional<Error> failure; ///< written before the state says so
  int unknowns = 0; ///< launches whose verdict that was; of who has the state at running
};

} // namespace tesela

#endif // TESELA_CHECK_FIRSTLAUNCH_H
