//===- ProfilerTest.cpp - Ranges for a profiler ---------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// All tests of this program run under a profiler, also AllocationTest. Those of tesela_runtime_test
// run without one.
//
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include "events/ProfilerRange.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace tesela;

namespace {

/// Before main(), because the library reads the variable only once.
[[maybe_unused]] const int named = setenv("NVTX_INJECTION64_PATH", TESELA_TEST_NVTX_INJECTION, 1);

struct Heard {
  std::string message;
  int begun = 0, open = 0;
};

Heard heard() {
  auto *state = reinterpret_cast<void (*)(char *, size_t, int *, int *)>(
      dlsym(dlopen(TESELA_TEST_NVTX_INJECTION, RTLD_NOW), "nvtxTestState"));
  char message[160] = {};
  Heard result;
  state(message, sizeof message, &result.begun, &result.open);
  result.message = message;
  return result;
}

class ProfilerTest : public CudaTest {};

TEST_F(ProfilerTest, CompilationsAndLaunchesAreRanges) {
  ASSERT_TRUE(ProfilerRange::isHeard());
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  Heard compiled = heard();
  EXPECT_EQ(compiled.message, "tesela: compile sliding_alibi");
  EXPECT_EQ(compiled.open, 0);
  CudaProblem problem = CudaProblem::create(*context).value();
  ASSERT_TRUE(kernel->launch(problem.arguments).ok());
  Heard launched = heard();
  EXPECT_EQ(launched.message, "tesela: launch sliding_alibi");
  EXPECT_EQ(launched.begun, compiled.begun + 1);
  EXPECT_EQ(launched.open, 0);
  ASSERT_TRUE(context->compile(cudaKernelOptions()).ok()); // from the memory cache
  EXPECT_EQ(heard().begun, launched.begun);
}

TEST_F(ProfilerTest, LongNamesAreCut) {
  { ProfilerRange range("launch", std::string(1000, 'x')); }
  EXPECT_EQ(heard().message.size(), 159u);
}

} // namespace
