//===- PreparationTest.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "../TestContext.h"
#include "Problem.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

using namespace tesela;

namespace {

class PreparationTest : public testing::Test {
protected:
  std::mutex mutex;
  std::vector<Event> events;

  Context context() {
    ContextOptions options = testContextOptions();
    options.threads = 1;
    options.events = [this](const Event &event) {
      std::lock_guard lock(mutex);
      events.push_back(event);
    };
    Result<Context> created = Context::create(options);
    EXPECT_TRUE(created.ok());
    return *created;
  }
  KernelOptions options(int headDim = 32) {
    KernelOptions options = Problem().options();
    options.headDimQk = options.headDimV = headDim;
    return options;
  }
  std::vector<Event> eventsOf(Event::Kind kind) {
    std::lock_guard lock(mutex);
    std::vector<Event> of;
    for (const Event &event : events)
      if (event.kind == kind)
        of.push_back(event);
    return of;
  }

  ~PreparationTest() override { fake::setCompileMilliseconds(0); }
};

TEST_F(PreparationTest, GivesTheKernelThatCompileGives) {
  Context shared = context();
  Result<Preparation> preparation = shared.prepare(options());
  ASSERT_TRUE(preparation.ok());
  Result<Kernel> kernel = preparation->get();
  ASSERT_TRUE(kernel.ok());
  EXPECT_TRUE(preparation->ready());
  Problem problem;
  problem.fill();
  EXPECT_TRUE(kernel->launch(problem.arguments).ok());
  Result<Kernel> again = shared.compile(options());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->info().origin, KernelInfo::Origin::memoryCache);
  EXPECT_EQ(shared.compileCount(), 1);
  EXPECT_TRUE(preparation->get().ok()) << "the same answer each time";
}

TEST_F(PreparationTest, ReadyKernelsLaunchMeanwhile) {
  Context shared = context();
  Result<Kernel> ready = shared.compile(options(32));
  ASSERT_TRUE(ready.ok());
  fake::setCompileMilliseconds(600'000);
  Result<Preparation> slow = shared.prepare(options(64));
  ASSERT_TRUE(slow.ok());
  Problem problem;
  problem.fill();
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(ready->launch(problem.arguments).ok());
  EXPECT_TRUE(shared.compile(options(32)).ok()) << "another key does not wait either";
  EXPECT_FALSE(slow->ready());
  slow->cancel();
  EXPECT_EQ(slow->get().code(), Code::cancelled);
}

TEST_F(PreparationTest, EndsAtItsDeadline) {
  fake::setCompileMilliseconds(600'000);
  Context shared = context();
  Result<Preparation> preparation = shared.prepare(options(), std::chrono::milliseconds(20));
  ASSERT_TRUE(preparation.ok());
  Result<Kernel> kernel = preparation->get();
  EXPECT_EQ(kernel.code(), Code::deadlineExceeded);
  EXPECT_FALSE(preparation->waitFor(std::chrono::milliseconds(0)) && preparation->get().ok());
  // The same for a compilation in the caller's thread.
  RequestLimits limits;
  limits.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  EXPECT_EQ(shared.compile(options(), limits).code(), Code::deadlineExceeded);
  // An abandoned result is not kept.
  fake::setCompileMilliseconds(0);
  EXPECT_TRUE(shared.compile(options()).ok());
}

TEST_F(PreparationTest, OneThatIsCancelledDoesNotTakeTheKernelFromOthers) {
  fake::setCompileMilliseconds(300);
  Context shared = context();
  std::vector<Preparation> preparations;
  for (int i = 0; i < 2; ++i)
    preparations.push_back(*shared.prepare(options()));
  preparations[0].cancel();
  Result<Kernel> other = preparations[1].get();
  EXPECT_TRUE(other.ok()) << (other ? "" : other.error().message());
}

TEST_F(PreparationTest, AContextThatGoesCancelsWhatIsNotDone) {
  fake::setCompileMilliseconds(600'000);
  std::vector<Preparation> preparations;
  {
    Context shared = context();
    for (int headDim = 8; headDim <= 256; headDim += 8)
      preparations.push_back(*shared.prepare(options(headDim)));
  }
  for (const Preparation &preparation : preparations)
    EXPECT_EQ(preparation.get().code(), Code::cancelled);
}

TEST_F(PreparationTest, ManyAtOnceAreMadeOnceEach) {
  fake::setCompileMilliseconds(5);
  Context shared = context();
  std::vector<Preparation> preparations;
  for (int i = 0; i < 64; ++i)
    preparations.push_back(*shared.prepare(options(8 + i % 4 * 8)));
  for (const Preparation &preparation : preparations)
    EXPECT_TRUE(preparation.get().ok());
  EXPECT_EQ(shared.compileCount(), 4);
}

TEST_F(PreparationTest, WrongOptionsAreToldAtOnceAndWrongTextsByGet) {
  Context shared = context();
  KernelOptions wrong = options();
  wrong.headDimV = 0;
  EXPECT_EQ(shared.prepare(wrong).code(), Code::invalidArgument);
  wrong = options();
  wrong.variantText = "attention broken( {";
  EXPECT_EQ(shared.prepare(wrong)->get().code(), Code::invalidVariant);
}

TEST_F(PreparationTest, EventsTellWhatHappens) {
  Context shared = context();
  ASSERT_TRUE(shared.compile(options()).ok());
  ASSERT_TRUE(shared.compile(options()).ok());
  KernelOptions wrong = options();
  wrong.variantText = "attention broken( {";
  EXPECT_FALSE(shared.compile(wrong).ok());
  EXPECT_EQ(eventsOf(Event::Kind::cacheMiss).size(), 2u);
  std::vector<Event> finished = eventsOf(Event::Kind::compileFinished);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0].variant, "sliding_alibi");
  EXPECT_EQ(finished[0].target, "host");
  EXPECT_EQ(finished[0].key.size(), 64u);
  EXPECT_GT(finished[0].bytes, 0);
  ASSERT_EQ(finished[0].stages.size(), 2u);
  EXPECT_EQ(finished[0].stages[1].first, "load");
  EXPECT_FALSE(finished[0].failure);
  ASSERT_TRUE(finished[1].failure);
  EXPECT_EQ(finished[1].failure->code(), Code::invalidVariant);
  std::vector<Event> hits = eventsOf(Event::Kind::cacheHit);
  ASSERT_EQ(hits.size(), 1u);
  EXPECT_EQ(hits[0].text, "memory");
  EXPECT_EQ(hits[0].key, finished[0].key);
}

TEST_F(PreparationTest, ACallbackThatThrowsIsNotHeard) {
  ContextOptions chosen;
  chosen.device = "host";
  chosen.diskCache = false;
  chosen.events = [](const Event &) { throw 7; };
  Result<Context> loud = Context::create(chosen);
  ASSERT_TRUE(loud.ok());
  EXPECT_TRUE(loud->compile(options()).ok());
}

TEST_F(PreparationTest, MemoryKeepsTheMostKernelsThatItMay) {
  ContextOptions chosen;
  chosen.device = "host";
  chosen.diskCache = false;
  chosen.mostKernels = 0;
  EXPECT_EQ(Context::create(chosen).code(), Code::invalidArgument);
  chosen.mostKernels = 2;
  std::vector<std::string> evicted;
  chosen.events = [&](const Event &event) {
    if (event.kind == Event::Kind::cacheEvicted)
      evicted.push_back(event.text);
  };
  Context small = *Context::create(chosen);
  Kernel held = *small.compile(options(32));
  for (int headDim : {40, 48, 56})
    ASSERT_TRUE(small.compile(options(headDim)).ok());
  EXPECT_EQ(evicted, (std::vector<std::string>{"memory", "memory"}));
  Problem problem;
  problem.fill();
  EXPECT_TRUE(held.launch(problem.arguments).ok()) << "who holds a kernel keeps it";
}

} // namespace
