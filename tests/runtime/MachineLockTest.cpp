//===- MachineLockTest.cpp - Threads and processes, one at a time ---------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/MachineLock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tesela;

namespace {

using Outcome = MachineLock::Outcome;

class MachineLockTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string locks = folder->path() + "/tesela";

  MachineLockTest() { setenv("XDG_RUNTIME_DIR", folder->path().c_str(), 1); }
  ~MachineLockTest() override { unsetenv("TMPDIR"); }

  int files() {
    int count = 0;
    for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(locks))
      ++count;
    return count;
  }

  /// A process that does `work` and then waits to be ended.
  template <typename Work> static pid_t process(Work work) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
      [[maybe_unused]] auto kept = work();
      (void)!write(ready[1], "x", 1);
      pause();
      _exit(0);
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
};

TEST_F(MachineLockTest, OneThreadAtATime) {
  std::atomic<int> inside = 0, entered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        MachineLock lock = MachineLock::acquire("a");
        EXPECT_TRUE(lock.held());
        EXPECT_EQ(++inside, 1);
        ++entered;
        std::this_thread::yield();
        --inside;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(entered, 160);
  EXPECT_EQ(files(), 0) << "locks leave no files behind";
}

TEST_F(MachineLockTest, DifferentNamesDoNotWait) {
  MachineLock first = MachineLock::acquire("a");
  EXPECT_TRUE(MachineLock::tryAcquire("b").held());
}

TEST_F(MachineLockTest, WhoStopsDoesNotHoldIt) {
  MachineLock first = MachineLock::acquire("a");
  int asked = 0;
  MachineLock second = MachineLock::acquire("a", [&] { return ++asked == 3; });
  EXPECT_EQ(second.outcome(), Outcome::stopped);
  EXPECT_FALSE(second.held());
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(MachineLock::tryAcquire("a").outcome(), Outcome::stopped);
  first.release();
  EXPECT_FALSE(first.held());
  EXPECT_TRUE(MachineLock::tryAcquire("a").held());
}

TEST_F(MachineLockTest, AKilledProcessHoldsNothing) {
  pid_t child = process([] { return MachineLock::acquire("a"); });
  EXPECT_EQ(MachineLock::tryAcquire("a").outcome(), Outcome::stopped);
  end(child);
  EXPECT_TRUE(MachineLock::tryAcquire("a").held());
  EXPECT_EQ(files(), 0);
}

TEST_F(MachineLockTest, AChildOfForkKeepsNoLock) {
  MachineLock lock = MachineLock::acquire("a");
  pid_t child = process([] { return 0; }); // the child has the open file too
  lock.release();
  EXPECT_TRUE(MachineLock::tryAcquire("a").held());
  end(child);
}

TEST_F(MachineLockTest, ThoseWhoWaitInVainGoOn) {
  MachineLock first = MachineLock::acquire("a");
  std::atomic<int> waiting = 0, unavailable = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      bool waits = false;
      MachineLock lock = MachineLock::acquire("a", [&] {
        waiting += !waits;
        waits = true;
        return false;
      });
      unavailable += lock.outcome() == Outcome::unavailable;
    });
  while (waiting < 4)
    std::this_thread::yield();
  first.releaseAll();
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(unavailable, 4);
  EXPECT_TRUE(MachineLock::tryAcquire("a").held()) << "who comes later has a new lock";
}

TEST_F(MachineLockTest, AFileThatSomebodyRemovedIsMadeAnew) {
  MachineLock first = MachineLock::acquire("a");
  std::filesystem::remove_all(locks); // like programs that remove old files
  EXPECT_TRUE(MachineLock::tryAcquire("a").held());
}

TEST_F(MachineLockTest, AFileThatWasLeftBehindHarmsNothing) {
  ASSERT_TRUE(MachineLock::tryAcquire("a").held());
  ASSERT_TRUE(writeFile(locks + "/a", "").ok());
  EXPECT_TRUE(MachineLock::tryAcquire("a").held());
  ASSERT_TRUE(writeFile(locks + "/a", "x").ok()); // its holder ended while it let others continue
  EXPECT_EQ(MachineLock::tryAcquire("a").outcome(), Outcome::unavailable);
  EXPECT_TRUE(MachineLock::tryAcquire("a").held());
}

TEST_F(MachineLockTest, AFolderOfOthersIsNotUsed) {
  std::string elsewhere = folder->path() + "/elsewhere", temporary = folder->path() + "/temporary";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory(temporary);
  setenv("TMPDIR", temporary.c_str(), 1);

  std::filesystem::create_symlink(elsewhere, locks);
  std::string second = temporary + "/tesela-" + std::to_string(geteuid());
  EXPECT_TRUE(MachineLock::tryAcquire("a").held()) << "the folder below TMPDIR serves";
  EXPECT_TRUE(std::filesystem::exists(second));
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));

  ASSERT_EQ(chmod(second.c_str(), 0777), 0);
  EXPECT_EQ(MachineLock::tryAcquire("a").outcome(), Outcome::unavailable);
  std::filesystem::remove_all(second);
  ASSERT_TRUE(writeFile(second, "").ok());
  EXPECT_EQ(MachineLock::tryAcquire("a").outcome(), Outcome::unavailable);
}

TEST_F(MachineLockTest, ALinkInPlaceOfALockIsNotFollowed) {
  ASSERT_TRUE(MachineLock::tryAcquire("a").held());
  std::string target = folder->path() + "/target";
  std::filesystem::create_symlink(target, locks + "/a");
  EXPECT_EQ(MachineLock::tryAcquire("a").outcome(), Outcome::unavailable);
  EXPECT_FALSE(std::filesystem::exists(target));
}

} // namespace
