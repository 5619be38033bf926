//===- LaunchEventTest.cpp - Launches give events if somebody listens -----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

using namespace tesela;

namespace {

class LaunchEventTest : public CudaTest {};

TEST_F(LaunchEventTest, EachLaunchIsAnEvent) {
  fake::setCudaFormat(CodeFormat::cubin);
  std::vector<Event> events;
  ContextOptions options;
  options.device = "cuda";
  options.diskCache = false;
  options.events = [&](const Event &event) {
    if (event.kind == Event::Kind::launch)
      events.push_back(event);
  };
  Result<Context> context = Context::create(options);
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  ASSERT_TRUE(kernel->launch(problem.arguments).ok());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].variant, "sliding_alibi");
  EXPECT_EQ(events[0].target, "sm_90");
  EXPECT_GT(events[0].milliseconds, 0);
  EXPECT_FALSE(events[0].failure);
  problem.arguments.scale = -1;
  EXPECT_FALSE(kernel->launch(problem.arguments).ok());
  ASSERT_EQ(events.size(), 2u);
  ASSERT_TRUE(events[1].failure);
  EXPECT_EQ(events[1].failure->code(), Code::invalidArgument);
}

} // namespace
