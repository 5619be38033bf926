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
  /// If no attempt lowers, the error of a plain attempt is reported: it changes no field.
  bool isPlain = true;
  /// The attempt counts only if a thread's registers hold the tiles of products that run beside
  /// each other.
  bool mustOverlap = false;
  /// The attempt counts only if a multiprocessor has the registers for two thread blocks of each
  /// kernel with roles. If only one thread block with one consumer runs, nothing multiplies while
  /// it computes.
  bool mustFitTwice = false;
};

/// The ways to compile `specification`, the fastest first. There are several if the choice is open
/// and only the lowering can say whether a way is possible:
///
/// - `backward_fast` is `backward_fused` if its tiles fit, and `backward` otherwise. On a chip with
///   warpgroup products both have roles, unless the schedule says otherwise. On the host it is
///   `backward_in_parts`, in which no two threads add to the same sum.
/// - `backward` is `backward_fused` with additions in turn if that has roles, its tiles fit, its
///   kernel does not search for blocks, and the launch is not known to be short
///   (docs/log/2026-12-01-additions-in-turn.md). A schedule that names blocks must name
///   add_in_turn, too: the templates need different blocks.
/// - Gradients have two consumers on a chip with warpgroup products. They were 1.0 to 1.7 times as
///   fast as mma.sync with heads of 64 and 128 (docs/log/2026-11-27-backward.md). Those with seven
///   products of narrow heads have one if they are long and a multiprocessor has the registers for
///   two such thread blocks (docs/log/2026-11-29-deterministic-narrow.md).
///   If the registers do not hold both dK and dV, each has its own kernel
///   (docs/decisions/pipeline.md). If that does not fit 256 columns either, tensors that only the
///   middle products of a loop read have one stage, or a step has 32 queries or keys. Products that
///   wait for each other come last.
/// - Without roles, a warp of narrow heads has 32 rows; with heads above 128, dK and dV have a
///   kernel each. With five products a warp always has 32 rows; it shares those of wider heads.
/// - Wide heads may need smaller blocks or one stage to fit into shared memory.
///
/// Attention itself has only one way: its heuristic knows what fits.
std::vector<Attempt> attemptsFor(const KernelSpecification &specification);

/// Whether another attempt may succeed after `error`: a template may not lower with roles, or
/// shared memory may be too small.
inline bool mayHelp(const Error &error) {
  return error.code() == Code::unsupported || error.code() == Code::invalidArgument;
}

/// The result of `attempt` for the first of `attempts` that lowers. The kernel's schedule says
/// which one it was.
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
