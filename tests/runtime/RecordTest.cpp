//===- RecordTest.cpp - Tuned schedules on disk ---------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/File.h"
#include "tune/RecordStore.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace tesela;

namespace {

TuneRecord record(const std::string &schedule, const Extents &sizes = {1, 8, 8, 1024, 1024}) {
  TuneRecord record;
  record.device = "NVIDIA H200";
  record.kernel = std::string(64, 'a');
  record.bucket = SizeBucket::of(sizes);
  record.schedule = schedule;
  record.variant = "causal \"quoted\"";
  record.sizes = sizes;
  record.milliseconds = 1.25;
  record.heuristicMilliseconds = 1.5;
  record.confidence = 0.99;
  record.tried = 42;
  record.made = "2026-01-31T12:00:00Z";
  return record;
}

class RecordTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::vector<std::string> warnings;
  std::string user = folder->path() + "/user", shipped = folder->path() + "/shipped";

  RecordStore store() {
    return RecordStore(
        user, shipped,
        std::make_shared<EventSink>([this](const std::string &text) { warnings.push_back(text); },
                                    EventCallback()));
  }
  std::vector<TuneRecord> find(const std::string &device = "NVIDIA H200") {
    return store().find(device, std::string(64, 'a'));
  }
};

TEST_F(RecordTest, ComesBackAsItWas) {
  Result<std::string> path = store().store(record("block_m = 64"));
  ASSERT_TRUE(path.ok()) << path.error().message();
  std::vector<TuneRecord> found = find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].schedule, "block_m = 64");
  EXPECT_EQ(found[0].variant, "causal \"quoted\"");
  EXPECT_EQ(found[0].bucket.name(), "h8.g1.q1024.k1024");
  EXPECT_EQ(found[0].sizes.Sk, 1024);
  EXPECT_EQ(found[0].milliseconds, 1.25);
  EXPECT_EQ(found[0].heuristicMilliseconds, 1.5);
  EXPECT_EQ(found[0].confidence, 0.99);
  EXPECT_EQ(found[0].tried, 42);
  EXPECT_EQ(found[0].path, *path);
  EXPECT_TRUE(find("NVIDIA A100").empty());
  EXPECT_TRUE(store().find("NVIDIA H200", std::string(64, 'b')).empty());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(RecordTest, OneForEachBucket) {
  ASSERT_TRUE(store().store(record("first")).ok());
  ASSERT_TRUE(store().store(record("second")).ok());
  ASSERT_TRUE(store().store(record("long", {1, 8, 8, 4096, 4096})).ok());
  std::vector<TuneRecord> found = find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].schedule == "second" || found[1].schedule == "second");
}

TEST_F(RecordTest, TheUsersWinOverTheLibrarys) {
  std::filesystem::create_directories(shipped);
  ASSERT_TRUE(writeFile(shipped + "/h200.json",
                        formatRecords({record("shipped"), record("far", {1, 8, 8, 9, 9})})));
  ASSERT_EQ(find().size(), 2u);
  EXPECT_EQ(find()[0].schedule, "shipped");
  ASSERT_TRUE(store().store(record("own")).ok());
  std::vector<TuneRecord> found = find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].schedule, "own");
  EXPECT_EQ(found[1].schedule, "far");
}

// Any file contents give no crash and one warning.
TEST_F(RecordTest, DamagedFilesAreLeftOut) {
  std::string path = *store().store(record("block_m = 64"));
  std::string whole = *readFile(path);
  for (size_t length = 0; length < whole.size() - 1; length += 7) {
    warnings.clear();
    ASSERT_TRUE(writeFile(path, whole.substr(0, length)));
    EXPECT_TRUE(find().empty()) << length;
    EXPECT_EQ(warnings.size(), 1u) << length;
  }
  for (const char *text :
       {"", "[]", "null", "{}", "{\"tesela_tuned\": 2, \"records\": []}", "{\"tesela_tuned\": 1}",
        "{\"tesela_tuned\": 1, \"records\": [1]}", "{\"tesela_tuned\": 1, \"records\": [{}]}",
        "{\"tesela_tuned\": 1, \"records\": [{\"device\": 1, \"kernel\": [], \"bucket\": {}}]}"}) {
    warnings.clear();
    ASSERT_TRUE(writeFile(path, text));
    EXPECT_TRUE(find().empty()) << text;
    EXPECT_EQ(warnings.size(), 1u) << text;
  }
}

TEST_F(RecordTest, EveryFlippedByteIsARecordOrNone) {
  std::string path = *store().store(record("block_m = 64"));
  std::string whole = *readFile(path);
  for (size_t i = 0; i < whole.size(); ++i)
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[i] = char(damaged[i] ^ flip);
      Result<std::vector<TuneRecord>> records = parseRecords(damaged);
      EXPECT_TRUE(!records || records->size() <= 1);
    }
}

TEST_F(RecordTest, AFolderThatCannotBeMadeIsAnError) {
  ASSERT_TRUE(writeFile(user, "a file"));
  EXPECT_FALSE(store().store(record("x")).ok());
  EXPECT_TRUE(find().empty());
  RecordStore none("", "", std::make_shared<EventSink>());
  EXPECT_EQ(none.store(record("x")).code(), Code::notFound);
}

TEST(SizeBucket, PowersOfTwoRoundedDown) {
  SizeBucket bucket = SizeBucket::of({4, 12, 3, 1500, 8191});
  EXPECT_EQ(bucket.name(), "h32.g4.q1024.k4096");
  EXPECT_EQ(SizeBucket::parse(bucket.name()), bucket);
  EXPECT_EQ(SizeBucket::of({2, 16, 4, 1024, 4096}), bucket);
  EXPECT_NE(SizeBucket::of({2, 16, 4, 1024, 8192}), bucket);
  EXPECT_EQ(SizeBucket::of({0, 1, 1, 1, 0}).name(), "h0.g1.q1.k0");
  for (const char *text : {"", "h32", "h32.g4.q1024", "h33.g4.q1024.k1", "h32.g4.q1024.k1.x",
                           "h32,g4,q1,k1", "h99999999999999999999.g1.q1.k1"})
    EXPECT_FALSE(SizeBucket::parse(text)) << text;
}

TEST(SizeBucket, NearAreOtherNumbersOfHeadsOnly) {
  SizeBucket bucket = SizeBucket::of({1, 32, 8, 4096, 4096});
  EXPECT_TRUE(bucket.isNear(SizeBucket::of({4, 32, 8, 4096, 4096})));
  EXPECT_FALSE(bucket.isNear(SizeBucket::of({8, 32, 8, 4096, 4096})));
  EXPECT_FALSE(bucket.isNear(SizeBucket::of({1, 32, 32, 4096, 4096})));
  EXPECT_FALSE(bucket.isNear(SizeBucket::of({1, 32, 8, 4096, 8192})));
}

// A record is used if its digest is the kernel's. With wrong digests nothing fails, but the table
// is never used. That happened to the first table, when the text of cache keys had changed.
TEST_F(RecordTest, TheShippedTablesAreOfTheLibrarysVariants) {
  int count = 0;
  for (const auto &file : std::filesystem::directory_iterator(TESELA_TEST_TABLES)) {
    if (file.path().extension() != ".json")
      continue;
    Result<std::vector<TuneRecord>> records = parseRecords(*readFile(file.path()));
    ASSERT_TRUE(records.ok()) << file.path();
    for (const TuneRecord &record : *records) {
      KernelSpecification specification;
      std::string path = std::string(TESELA_TEST_VARIANTS "/") + record.variant + ".attn";
      specification.variantText = *readFile(path);
      specification.target = *Target::parse(record.target);
      specification.inputType = *parseElementType(record.type);
      specification.headDimQk = record.headDimQk;
      specification.headDimV = record.headDimV;
      EXPECT_EQ(recordKernel(specification), record.kernel)
          << file.path() << ", " << record.variant << ", " << record.bucket.name()
          << ": make the table again (scripts/tune-table)";
      ++count;
    }
  }
  EXPECT_GT(count, 0);
}

} // namespace
