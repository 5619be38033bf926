//===- CompileAhead.h - Compiles kernels ahead ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_COMPILEAHEAD_H
#define TESELA_TUNE_COMPILEAHEAD_H

#include "tesela/Kernel.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tesela {

/// Compiles kernels by number, from 0 on, on its own threads, a few ahead of the caller that takes
/// them.
class CompileAhead {
public:
  using Compile = std::function<Result<Kernel>(size_t)>;
  struct Made {
    size_t number;
    Result<Kernel> kernel;
  };

  /// `quietly`: nothing is compiled while a taken kernel is in use. take() then waits for a batch
  /// of 4 * `threads` kernels, and the next batch begins when the last of these was taken.
  CompileAhead(size_t count, int threads, bool quietly, Compile compile);
  /// Drops kernels whose compilation has not begun, and waits for the others.
  ~CompileAhead();

  /// The next finished kernel, in about the order of the numbers; nullopt: all are taken.
  std::optional<Made> take();

private:
  const size_t count, ahead;
  const bool quietly;
  const Compile compile;
  std::mutex mutex;
  std::condition_variable changed;
  size_t begun = 0, taken = 0, compiling = 0;
  bool closing = false;
  bool paused = false; ///< with `quietly`: a batch is being taken
  std::deque<Made> ready;
  std::vector<std::thread> workers;

  void work();
  bool mayBegin() const;
};

} // namespace tesela

#endif // TESELA_TUNE_COMPILEAHEAD_H
