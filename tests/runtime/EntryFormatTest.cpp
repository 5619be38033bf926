//===- EntryFormatTest.cpp - Damaged cache entries ------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/EntryFormat.h"

#include "FakeCompiler.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

const std::string key(64, 'a'), otherKey(64, 'b');

Artifact artifactOf(int headDim) {
  KernelSpecification specification;
  specification.headDimQk = specification.headDimV = headDim;
  return fake::artifact(specification);
}

TEST(EntryFormat, TheHeaderTellsWhatAListShows) {
  Artifact artifact = artifactOf(64);
  artifact.headDimV = 32;
  artifact.target = {Target::Kind::cuda, 90};
  std::string entry = encodeEntry(key, artifact, 1234567890123);
  Result<EntryHeader> header = decodeEntryHeader(entry.substr(0, longestEntryHeader));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->key, key);
  EXPECT_EQ(header->made, 1234567890123);
  EXPECT_EQ(header->variantName, "sliding_alibi");
  EXPECT_EQ(header->target, "sm_90");
  EXPECT_EQ(header->schedule, "rows = 1");
  EXPECT_EQ(header->inputType, artifact.inputType);
  EXPECT_EQ(header->headDimQk, 64);
  EXPECT_EQ(header->headDimV, 32);
  EXPECT_EQ(header->bytes + header->artifactBytes, entry.size());
  Result<Artifact> decoded = decodeEntry(entry, key);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->serialize(), artifact.serialize());
}

TEST(EntryFormat, AHeaderFitsIntoAPageWhateverTheNames) {
  Artifact artifact = artifactOf(64);
  artifact.variantName = std::string(10000, 'v');
  artifact.schedule = std::string(10000, 's');
  std::string entry = encodeEntry(key, artifact, 0);
  Result<EntryHeader> header = decodeEntryHeader(entry.substr(0, longestEntryHeader));
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_LE(header->bytes, longestEntryHeader);
  EXPECT_EQ(header->variantName, artifact.variantName.substr(0, header->variantName.size()));
  Result<Artifact> decoded = decodeEntry(entry, key);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->variantName, artifact.variantName);
}

TEST(EntryFormat, NoFlippedByteIsRead) {
  const std::string entry = encodeEntry(key, artifactOf(64), 1);
  for (size_t at = 0; at < entry.size(); ++at)
    for (int mask : {1 << at % 8, 0xff}) {
      std::string flipped = entry;
      flipped[at] = char(flipped[at] ^ mask);
      EXPECT_EQ(decodeEntry(flipped, key).code(), Code::inputOutput) << at << " ^ " << mask;
    }
}

TEST(EntryFormat, NoPartAndNothingLongerIsRead) {
  const std::string entry = encodeEntry(key, artifactOf(64), 1);
  for (size_t size = 0; size < entry.size(); ++size)
    EXPECT_EQ(decodeEntry(entry.substr(0, size), key).code(), Code::inputOutput) << size;
  EXPECT_EQ(decodeEntry(entry + '\0', key).code(), Code::inputOutput);
  EXPECT_EQ(decodeEntry(entry + entry, key).code(), Code::inputOutput);
}

TEST(EntryFormat, AnotherKernelsEntryIsNotRead) {
  std::string entry = encodeEntry(otherKey, artifactOf(64), 1);
  Result<Artifact> decoded = decodeEntry(entry, key);
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.error().message().find("another kernel's"), std::string::npos);
}

TEST(EntryFormat, PartsOfTwoEntriesAreNone) {
  std::string first = encodeEntry(key, artifactOf(64), 1);
  std::string second = encodeEntry(key, artifactOf(32), 1);
  ASSERT_EQ(first.size(), second.size());
  size_t headerBytes = decodeEntryHeader(first)->bytes;
  std::string mixed = first.substr(0, headerBytes) + second.substr(headerBytes);
  EXPECT_EQ(decodeEntry(mixed, key).code(), Code::inputOutput);
}

TEST(EntryFormat, OnlyDigestsAreKeys) {
  EXPECT_TRUE(isEntryKey(key));
  EXPECT_FALSE(isEntryKey(key.substr(1)));
  EXPECT_FALSE(isEntryKey(key + "a"));
  EXPECT_FALSE(isEntryKey(std::string(64, 'A')));
  EXPECT_FALSE(isEntryKey("../" + key.substr(3)));
}

} // namespace
