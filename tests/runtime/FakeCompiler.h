//===- FakeCompiler.h - tesela::compile without MLIR ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The runtime's tests link this in place of the compiler. Whatever the variant says, the kernel is
// that of HostKernel.c. For a GPU it is PTX that does nothing, with a plan that has everything that
// plans can have: a summary in a workspace, tensor maps, a counter.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RUNTIME_FAKECOMPILER_H
#define TESELA_TESTS_RUNTIME_FAKECOMPILER_H

#include "tesela/compiler/Compile.h"

namespace tesela::fake {

/// The variant that HostKernel.c computes; inputs are f32.
inline constexpr const char *variantText = R"(
attention sliding_alibi(window: i32 = 1024, slope: f32[H]) {
  mask  = q >= k && q - k < window
  score = s + slope[h] * (k - q)
}
)";

/// The artifact that compile() returns on success.
Artifact artifact(const KernelSpecification &specification);

/// Sets the format of a GPU's code. Its text is always PTX. A cubin is not assembled.
void setCudaFormat(CodeFormat format);

/// Sets the duration of compile(), so that threads meet in it.
void setCompileMilliseconds(int milliseconds);

/// Sets the schedules of scheduleCandidates(), the heuristic's first. compile() knows "launches =
/// N" (runs the kernel N times, so that it takes N times as long), "wrong" (writes nothing),
/// "broken" (does not compile) and, on a GPU, "named NAME" (the main kernel's symbol).
void setCandidates(std::vector<std::string> schedules);

/// Sets the result of simpleSchedule() for a GPU; "" (the default): there is none.
void setSimpleSchedule(const std::string &schedule);

/// Without a named schedule, compile() compiles, waits until this changes, or fails.
enum class Heuristic { compiles, waits, fails };
void setHeuristic(Heuristic heuristic);

/// Whether the kernel without a named schedule needs another kilobyte of workspace.
void setHeuristicNeedsMore(bool needsMore);

/// How many calls of compile() have begun in this process.
int compilesBegunSoFar();

} // namespace tesela::fake

#endif // TESELA_TESTS_RUNTIME_FAKECOMPILER_H
