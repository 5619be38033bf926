//===- Attempts.h - Ways to compile a specification -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_ATTEMPTS_H
#define TESELA_COMPILER_DRIVER_ATTEMPTS_H

#include "tesela/compiler/Compile.h"

#include <optional>
#include <vector>

namespace tesela {

/// One way to compile a specification: a template with a schedule.
struct Attempt {
  KernelSpecification specification;
  /// Its error is the one to tell where no attempt lowers: it leaves every choice as it was given.
  bool isPlain = true;
  /// It is taken only where a thread's registers hold the tiles of products that run beside each
  /// other.
  bool mustOverlap = false;
};

/// The ways to compile `specification`, the fastest first. There is more than one where the choice
/// is left open and only the lowering knows whether it can be had:
///
/// - `backward_fast` is `backward_fused` where its tiles fit, else `backward`. On a chip with
///   warpgroup products both have roles, unless the schedule says otherwise. On the host it is
///   `backward_in_parts`, whose sums no other thread touches.
/// - Gradients have two consumers on a chip with warpgroup products. They were 1.0 to 1.7 times as
///   fast as mma.sync with heads of 64 and 128 (docs/performance.md). Where the registers do not
///   hold dK and dV together, each has a kernel of its own (docs/decisions/pipeline.md); and then,
///   so that 256 columns fit, what only products between a loop's first and last read has one
///   stage, or a step has 32 queries or keys. Products that wait for each other come behind these.
/// - Without roles, a warp of narrow heads has 32 rows, and of heads above 128 dK and dV have a
///   kernel each. With five products it has 32 rows of all heads, and shares those of wider ones.
/// - Wide heads need more shared memory than the chip has, but for smaller blocks or one stage.
///
/// Attention itself has one: its heuristic knows what fits.
std::vector<Attempt> attemptsFor(const KernelSpecification &specification);

/// Whether the next attempt may do what this one could not: roles that a template does not lower
/// with, or too little shared memory.
inline bool mayHelp(const Error &error) {
  return error.code() == Code::unsupported || error.code() == Code::invalidArgument;
}

/// What `attempt` gives for the first of `attempts` that lowers. The kernel's schedule tells which
/// it was.
template <typename T, typename Function>
Result<T> firstToLower(const std::vector<Attempt> &attempts, Function attempt) {
  std::optional<Error> refusal;
  for (const Attempt &each : attempts) {
    Result<T> result = attempt(each);
    if (result || !mayHelp(result.error()))
      return result;
    if (each.isPlain || !refusal)
      refusal = result.error();
  }
  return *refusal;
}

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_ATTEMPTS_H
