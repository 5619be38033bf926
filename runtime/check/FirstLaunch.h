//===- FirstLaunch.h - Verifies a kernel's first launch ---------*- C++ -*-===//
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

/// Verifies a kernel of a context with ContextOptions::verify: compares its first launch that
/// computes something with the oracle, or the interpreter, on a sample of rows.
class FirstLaunch {
public:
  /// `options` are the kernel's. `oracles` caches the cubins of oracles by their source. `threads`:
  /// for the interpreter; 0: one for each usable processor.
  FirstLaunch(KernelOptions options, std::shared_ptr<OnceMap<std::string>> oracles, int threads,
              std::shared_ptr<const EventSink> events)
      : options(std::move(options)), oracles(std::move(oracles)), threads(threads),
        events(std::move(events)) {}

  /// Call it after each started launch of `kernel`. The first call waits for `stream` and computes
  /// the reference; launches of other threads do not wait for that. Verification is postponed while
  /// `stream` is captured, if no pair is computed, and if the inputs have values that make a
  /// comparison impossible.
  ///
  /// Fails (Code::defect) if the result is wrong, then and after every later launch. If there is no
  /// reference, the context's log is told, and the kernel is not verified.
  Status check(const LoadedKernel &kernel, const LaunchArguments &arguments, void *stream);

private:
  enum class State { pending, running, over, failed };
  enum class Verdict {
    right,
    wrong,
    unknown,   ///< the inputs make a comparison impossible
    impossible ///< there is no reference
  };
  struct Finding {
    Verdict verdict;
    std::string sentence; ///< why; empty if right
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
  std::optional<Error> failure; ///< written before `state` becomes failed
  int unknowns = 0; ///< how many launches were Verdict::unknown; only the thread that set
                    ///< State::running uses it
};

} // namespace tesela

#endif // TESELA_CHECK_FIRSTLAUNCH_H
