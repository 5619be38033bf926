//===- TaskThreadsTest.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/TaskThreads.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

using namespace tesela;

namespace {

using Urgency = std::shared_ptr<std::atomic<int>>;

Urgency urgency(int value) { return std::make_shared<std::atomic<int>>(value); }

TEST(TaskThreads, TheMoreUrgentComeFirst) {
  std::string order;
  Urgency late = urgency(-1);
  {
    TaskThreads threads(1);
    std::promise<void> open;
    threads.add([gate = open.get_future().share()] { gate.wait(); });
    auto add = [&](char name, Urgency urgency) {
      threads.add([&order, name] { order += name; }, std::move(urgency));
    };
    add('a', urgency(-1));
    add('b', nullptr);
    add('c', urgency(0));
    add('d', late);
    add('e', urgency(1));
    add('f', urgency(-1));
    *late = 2; // somebody has begun to wait for it
    open.set_value();
  }
  EXPECT_EQ(order, "debcaf");
}

TEST(TaskThreads, ATaskMayAddAnother) {
  std::atomic<int> done = 0;
  {
    TaskThreads threads(2);
    for (int i = 0; i < 10; ++i)
      threads.add([&] {
        threads.add([&] { ++done; });
        ++done;
      });
    while (done < 20)
      std::this_thread::yield();
  }
  EXPECT_EQ(done, 20);
}

} // namespace
