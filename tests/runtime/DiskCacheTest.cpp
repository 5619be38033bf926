//===- DiskCacheTest.cpp - Entries, their limit, their damage -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/DiskCache.h"

#include "FakeCompiler.h"
#include "cache/EntryFormat.h"
#include "tesela/Cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace tesela;

namespace {

/// A key in the part `part`; each number gives another key.
std::string keyIn(int part, int number = 0) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string key(64, '0');
  key[0] = digits[part >> 4];
  key[1] = digits[part & 15];
  for (int at = 63; number > 0; number >>= 4, --at)
    key[at] = digits[number & 15];
  return key;
}

class DiskCacheTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string root = folder->path() + "/cache";
  CacheFolder files{root};
  std::vector<std::string> warnings;
  std::vector<Event> events;
  Artifact artifact = fake::artifact({});
  int64_t entryBytes = int64_t(encodeEntry(keyIn(0), artifact, secondsNow()).size());

  std::shared_ptr<const EventSink> sink() {
    return std::make_shared<EventSink>(
        [this](const std::string &sentence) { warnings.push_back(sentence); },
        [this](const Event &event) {
          if (event.kind != Event::Kind::warning)
            events.push_back(event);
        });
  }
  DiskCache cache(int64_t limit = 0) { return DiskCache(root, limit, sink()); }

  /// Makes the entry look as if it had been used `seconds` ago.
  void age(const std::string &path, int64_t seconds) {
    timespec times[2] = {{time_t(secondsNow() - seconds), 0}, {time_t(secondsNow() - seconds), 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  int64_t ageOf(const std::string &path) { return secondsNow() - factsOf(path)->modified; }
  bool exists(const std::string &path) { return factsOf(path).has_value(); }
};

TEST_F(DiskCacheTest, WhatWasStoredIsThere) {
  EXPECT_FALSE(cache().load(keyIn(1)).has_value());
  EXPECT_TRUE(cache().store(keyIn(1), artifact));
  std::optional<Artifact> loaded = cache().load(keyIn(1));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->serialize(), artifact.serialize());
  EXPECT_FALSE(cache().load(keyIn(1, 1)).has_value());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Event::Kind::cacheStored);
  EXPECT_EQ(events[0].key, keyIn(1));
  EXPECT_EQ(events[0].bytes, entryBytes);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(DiskCacheTest, AFlippedByteIsNeverLoaded) {
  ASSERT_TRUE(cache().store(keyIn(1), artifact));
  const std::string path = files.entryPath(keyIn(1)), whole = *readFile(path);
  DiskCache reader = cache();
  Descriptor file(open(path.c_str(), O_WRONLY));
  for (size_t at = 0; at < whole.size(); ++at) {
    char flipped = char(whole[at] ^ 1 << at % 8);
    ASSERT_EQ(pwrite(file.number(), &flipped, 1, off_t(at)), 1);
    EXPECT_FALSE(reader.load(keyIn(1)).has_value()) << at;
    ASSERT_EQ(pwrite(file.number(), &whole[at], 1, off_t(at)), 1);
  }
  EXPECT_TRUE(reader.load(keyIn(1)).has_value());
  EXPECT_EQ(warnings.size(), whole.size());
  ASSERT_TRUE(writeFile(path, "").ok());
  EXPECT_FALSE(reader.load(keyIn(1), DiskCache::Damage::silent).has_value());
  EXPECT_EQ(warnings.size(), whole.size());
}

TEST_F(DiskCacheTest, OtherVersionsAndStrangersAreLeftAlone) {
  ASSERT_TRUE(cache().store(keyIn(1), artifact));
  std::string key = keyIn(2);
  std::vector<std::string> others = {
      root + "/" + key + ".artifact", root + "/v2/02/" + key + ".kernel", root + "/v1/notes",
      root + "/v1/02/notes.kernel", root + "/v1/02/" + key + ".kernel.longer-than-a-temporary"};
  for (const std::string &path : others) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    ASSERT_TRUE(writeFile(path, "another's").ok());
    age(path, 1000000);
  }
  EXPECT_FALSE(cache().load(key).has_value());
  EXPECT_EQ(Cache::open(root)->list()->size(), 1u);
  EXPECT_EQ(Cache::open(root)->clear()->kernels, 1);
  for (const std::string &path : others)
    EXPECT_TRUE(exists(path)) << path;
  EXPECT_TRUE(warnings.empty());
}

TEST_F(DiskCacheTest, UsesAreMarkedOnceAMinute) {
  std::string path = files.entryPath(keyIn(1));
  ASSERT_TRUE(cache().store(keyIn(1), artifact));
  age(path, 10);
  EXPECT_TRUE(cache().load(keyIn(1)).has_value());
  EXPECT_GE(ageOf(path), 10);
  for (int64_t seconds : {100, -1000000}) { // another machine's clock may be wrong
    age(path, seconds);
    EXPECT_TRUE(cache().load(keyIn(1)).has_value());
    EXPECT_LT(std::abs(ageOf(path)), 40);
  }
}

TEST_F(DiskCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  // Ten entries fill the limit. After the eleventh, nine entries remain.
  DiskCache limited = cache(10 * entryBytes + 200);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(limited.store(keyIn(i), artifact));
    age(files.entryPath(keyIn(i)), 1000 - i);
  }
  EXPECT_EQ(files.files()->size(), 10u);
  EXPECT_TRUE(cache().load(keyIn(0)).has_value()); // used now
  events.clear();
  ASSERT_TRUE(limited.store(keyIn(10), artifact));
  EXPECT_EQ(files.files()->size(), 9u);
  EXPECT_TRUE(exists(files.entryPath(keyIn(0))));
  EXPECT_FALSE(exists(files.entryPath(keyIn(1))));
  EXPECT_FALSE(exists(files.entryPath(keyIn(2))));
  EXPECT_TRUE(exists(files.entryPath(keyIn(3))));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, Event::Kind::cacheStored);
  EXPECT_EQ(events[1].kind, Event::Kind::cacheEvicted);
  EXPECT_EQ(events[1].key, keyIn(1));
  EXPECT_EQ(events[1].bytes, entryBytes);
  EXPECT_EQ(events[2].key, keyIn(2));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(DiskCacheTest, TheLimitHoldsForManyEntries) {
  const int64_t limit = 20 * entryBytes;
  DiskCache limited = cache(limit);
  int64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(limited.store(keyIn(i * 7 % 256, i), artifact));
    int64_t total = 0;
    Result<std::vector<CacheFile>> all = files.files();
    for (const CacheFile &file : *all)
      total += file.facts.bytes;
    most = std::max(most, total);
  }
  EXPECT_LE(most, limit + limit / 16);
  EXPECT_GE(most, limit / 2);
}

TEST_F(DiskCacheTest, WithManyEntriesEachPartHasItsShare) {
  DiskCache limited = cache(256 * 16 * entryBytes);
  ASSERT_TRUE(limited.store(keyIn(2), artifact));
  age(files.entryPath(keyIn(2)), 5000);
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(limited.store(keyIn(1, i), artifact));
    age(files.entryPath(keyIn(1, i)), 1000 - i);
  }
  EXPECT_EQ(files.files()->size(), 17u);
  ASSERT_TRUE(limited.store(keyIn(1, 16), artifact));
  EXPECT_EQ(files.filesBeside(keyIn(1)).size(), 14u) << "nine tenths of sixteen";
  EXPECT_FALSE(exists(files.entryPath(keyIn(1, 2))));
  EXPECT_TRUE(exists(files.entryPath(keyIn(1, 3))));
  EXPECT_TRUE(exists(files.entryPath(keyIn(2)))) << "another part is not looked at";
}

TEST_F(DiskCacheTest, OneEvictsAtATime) {
  DiskCache limited = cache(4 * entryBytes);
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(limited.store(keyIn(i), artifact));
  MachineLock lock = MachineLock::acquire(files.lockName("size limit"));
  ASSERT_TRUE(limited.store(keyIn(4), artifact));
  EXPECT_EQ(files.files()->size(), 5u) << "another was at it";
  lock.release();
  ASSERT_TRUE(limited.store(keyIn(5), artifact));
  EXPECT_EQ(files.files()->size(), 3u);
}

TEST_F(DiskCacheTest, AnEntryLargerThanTheLimitIsNotKept) {
  DiskCache limited = cache(entryBytes - 1);
  EXPECT_FALSE(limited.store(keyIn(1), artifact));
  EXPECT_FALSE(limited.store(keyIn(2), artifact));
  EXPECT_TRUE(files.files()->empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("cacheBytes"), std::string::npos);
}

TEST_F(DiskCacheTest, UnfinishedFilesGoAfterAnHour) {
  ASSERT_TRUE(cache().store(keyIn(1), artifact));
  std::string fresh = files.entryPath(keyIn(1, 1)) + ".abc123";
  std::string stale = files.entryPath(keyIn(1, 2)) + ".abc123";
  for (const std::string &path : {fresh, stale})
    ASSERT_TRUE(writeFile(path, "half of an ent").ok());
  age(stale, 3700);
  EXPECT_EQ(Cache::open(root)->list()->size(), 1u);
  ASSERT_TRUE(cache().store(keyIn(1, 3), artifact));
  EXPECT_TRUE(exists(fresh));
  EXPECT_FALSE(exists(stale));
}

TEST_F(DiskCacheTest, AnEvictedEntryIsReadToItsEnd) {
  ASSERT_TRUE(cache().store(keyIn(1), artifact));
  Result<InputFile> file = InputFile::open(files.entryPath(keyIn(1)));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(Cache::open(root)->clear()->kernels, 1);
  EXPECT_TRUE(decodeEntry(*file->read(longestEntry), keyIn(1)).ok());
  EXPECT_FALSE(cache().load(keyIn(1)).has_value());
}

TEST_F(DiskCacheTest, AVanishedFolderIsMadeAgain) {
  DiskCache one = cache();
  ASSERT_TRUE(one.store(keyIn(1), artifact));
  std::filesystem::remove_all(root);
  EXPECT_FALSE(one.load(keyIn(1)).has_value());
  EXPECT_TRUE(one.store(keyIn(1), artifact));
  EXPECT_TRUE(one.load(keyIn(1)).has_value());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(DiskCacheTest, WhatIsNoFileIsNoEntry) {
  std::string pipe = files.entryPath(keyIn(1)), directory = files.entryPath(keyIn(2));
  std::filesystem::create_directories(directory);
  std::filesystem::create_directories(std::filesystem::path(pipe).parent_path());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  DiskCache one = cache();
  EXPECT_FALSE(one.load(keyIn(1)).has_value());
  EXPECT_FALSE(one.load(keyIn(2)).has_value());
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(one.store(keyIn(1), artifact)) << "the pipe is replaced";
  EXPECT_FALSE(one.store(keyIn(2), artifact));
  EXPECT_EQ(warnings.size(), 1u) << "one warning a context";
}

TEST_F(DiskCacheTest, AHugeFileIsNotRead) {
  std::string path = files.entryPath(keyIn(1));
  ASSERT_TRUE(cache().store(keyIn(1), artifact));
  std::filesystem::resize_file(path, uintmax_t(1) << 40); // a sparse file: it takes no disk space,
                                                          // but would not fit into memory
  EXPECT_FALSE(cache().load(keyIn(1)).has_value());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(path), std::string::npos);
}

TEST_F(DiskCacheTest, AFolderThatCannotBeMadeWarnsOnce) {
  ASSERT_TRUE(writeFile(root, "a file").ok());
  DiskCache one = cache();
  EXPECT_FALSE(one.load(keyIn(1)).has_value());
  EXPECT_FALSE(one.store(keyIn(1), artifact));
  EXPECT_FALSE(one.load(keyIn(1)).has_value());
  EXPECT_FALSE(one.store(keyIn(2), artifact));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("TESELA_CACHE_DIR"), std::string::npos);
}

TEST_F(DiskCacheTest, WhereTheFolderIs) {
  for (const char *name : {"TESELA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"})
    unsetenv(name);
  EXPECT_EQ(defaultCacheFolder(), "");
  DiskCache none("", 0, sink());
  EXPECT_FALSE(none.load(keyIn(1)).has_value());
  EXPECT_FALSE(none.store(keyIn(1), artifact));
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_EQ(Cache::open().code(), Code::notFound);

  setenv("HOME", "/home/user", 1);
  EXPECT_EQ(defaultCacheFolder(), "/home/user/.cache/tesela");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(defaultCacheFolder(), "/home/user/.cache/tesela");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(defaultCacheFolder(), "/xdg/tesela");
  setenv("TESELA_CACHE_DIR", "relative", 1);
  EXPECT_EQ(defaultCacheFolder(), "relative");
  EXPECT_EQ(DiskCache("", 0, sink()).folder(),
            (std::filesystem::current_path() / "relative").string());
}

TEST_F(DiskCacheTest, TwoNamesOfAFolderAreOne) {
  std::filesystem::create_directory(root);
  std::filesystem::create_directory_symlink(root, folder->path() + "/link");
  EXPECT_EQ(CacheFolder(folder->path() + "/link").lockName("a"), files.lockName("a"));
  EXPECT_NE(CacheFolder(folder->path()).lockName("a"), files.lockName("a"));
  EXPECT_NE(files.lockName("b"), files.lockName("a"));
}

TEST_F(DiskCacheTest, ThreadsStoreLoadAndEvictAtOnce) {
  const int64_t limit = 8 * entryBytes;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      DiskCache own(root, limit, std::make_shared<EventSink>());
      for (int i = 0; i < 50; ++i) {
        own.store(keyIn(i % 16), artifact);
        std::optional<Artifact> loaded = own.load(keyIn((i + 3) % 16));
        EXPECT_TRUE(!loaded || loaded->serialize() == artifact.serialize());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  Result<std::vector<CachedKernel>> kernels = Cache::open(root)->verify();
  for (const CachedKernel &kernel : *kernels)
    EXPECT_FALSE(kernel.damage.has_value());
}

} // namespace
