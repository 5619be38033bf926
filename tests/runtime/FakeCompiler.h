//===- FakeCompiler.h - tesela::compile without MLIR ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The runtime's tests link this in place of the compiler: whatever the variant says, the
// kernel is that of HostKernel.c. For a GPU it is PTX that does nothing, and a plan with all that
// plans have: a summary in a workspace, tensor maps, a counter.
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

/// What compile() returns where it succeeds.
Artifact artifact(const KernelSpecification &specification);

/// What a GPU's code is said to be; its text is PTX in either case. A cubin is not assembled.
void setCudaFormat(CodeFormat format);

/// How long compile() takes: makes threads meet.
void setCompileMilliseconds(int milliseconds);

/// What scheduleCandidates() returns, the heuristic's first. compile() knows the schedules
/// "launches = N" (the kernel N times over, so that it takes N times as long), "wrong" (it writes
/// nothing), "broken" (it does not compile) and, on a GPU, "named NAME" (its main kernel's symbol).
void setCandidates(std::vector<std::string> schedules);

/// What simpleSchedule() returns for a GPU; "", as it begins: there is none.
void setSimpleSchedule(const std::string &schedule);

/// What compile() does where no schedule is named: it waits as long as this says so, or fails.
enum class Heuristic { compiles, waits, fails };
void setHeuristic(Heuristic heuristic);

/// Whether the kernel where no schedule is named needs another kilobyte of workspace.
void setHeuristicNeedsMore(bool needsMore);

/// How many calls of compile() have begun in this process.
int compilesBegunSoFar();

} // namespace tesela::fake

#endif // TESELA_TESTS_RUNTIME_FAKECOMPILER_H
