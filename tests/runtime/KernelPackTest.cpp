//===- KernelPackTest.cpp - Packs, damaged ones too -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/KernelPack.h"

#include "FakeCompiler.h"
#include "artifact/Digest.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

std::string keyOf(int number) { return sha256Hex(std::to_string(number)); }

/// 300 kernels in 7 groups. Each kernel has two keys: of its number and of the negative number.
std::vector<PackedKernel> kernels() {
  std::vector<PackedKernel> all;
  for (int number = 1; number <= 300; ++number) {
    KernelSpecification specification;
    specification.headDimQk = specification.headDimV = number;
    all.push_back({{keyOf(number), keyOf(-number)},
                   "group " + std::to_string(number % 7),
                   fake::artifact(specification)});
    all.back().artifact.code += std::string(size_t(number * 10), char('a' + number % 26));
  }
  return all;
}

class KernelPackTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string path = folder->path() + "/kernels.pack";

  std::string encoded(const std::vector<PackedKernel> &kernels) {
    Result<std::string> bytes = encodePack("a compiler", "an assembler", kernels);
    EXPECT_TRUE(bytes.ok());
    return *bytes;
  }
  Result<KernelPack> open(std::string_view bytes) {
    EXPECT_TRUE(writeFile(path, bytes).ok());
    return KernelPack::open(path);
  }
};

TEST_F(KernelPackTest, EachKernelIsFoundByEachOfItsKeys) {
  std::vector<PackedKernel> all = kernels();
  Result<KernelPack> pack = open(encoded(all));
  ASSERT_TRUE(pack.ok()) << pack.error().message();
  EXPECT_EQ(pack->compiler(), "a compiler");
  EXPECT_EQ(pack->assembler(), "an assembler");
  for (const PackedKernel &kernel : all)
    for (const std::string &key : kernel.keys) {
      Result<std::optional<Artifact>> found = pack->find(key);
      ASSERT_TRUE(found.ok()) << found.error().message();
      ASSERT_TRUE(found->has_value());
      EXPECT_EQ((*found)->serialize(), kernel.artifact.serialize());
    }
  for (int number = 301; number < 1300; ++number) {
    Result<std::optional<Artifact>> found = pack->find(keyOf(number));
    ASSERT_TRUE(found.ok());
    EXPECT_FALSE(found->has_value());
  }
}

TEST_F(KernelPackTest, MayHoldNothing) {
  Result<KernelPack> pack = open(encoded({}));
  ASSERT_TRUE(pack.ok()) << pack.error().message();
  EXPECT_FALSE(pack->find(keyOf(1))->has_value());
}

TEST_F(KernelPackTest, KernelsThatResembleEachOtherTakeLittle) {
  size_t separately = 0;
  for (const PackedKernel &kernel : kernels())
    separately += encoded({kernel}).size() - encoded({}).size();
  EXPECT_LT(encoded(kernels()).size() - encoded({}).size(), separately / 2);
}

TEST_F(KernelPackTest, AKeyHasOneKernel) {
  std::vector<PackedKernel> two = {kernels()[0], kernels()[1]};
  two[1].keys.push_back(two[0].keys[0]);
  EXPECT_EQ(encodePack("", "", two).code(), Code::defect);
  two[1].keys = {"no key"};
  EXPECT_EQ(encodePack("", "", two).code(), Code::defect);
}

// For any changed byte, the pack or the kernel is refused, or the kernel is correct.
TEST_F(KernelPackTest, NoFlippedByteIsRead) {
  std::vector<PackedKernel> some = kernels();
  some.resize(3);
  const std::string bytes = encoded(some);
  int refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] ^= char(1 << at % 8);
    Result<KernelPack> pack = open(flipped);
    if (!pack) {
      EXPECT_EQ(pack.code(), Code::inputOutput);
      ++refused;
      continue;
    }
    for (const PackedKernel &kernel : some) {
      Result<std::optional<Artifact>> found = pack->find(kernel.keys[0]);
      if (!found) {
        EXPECT_EQ(found.code(), Code::inputOutput) << found.error().message();
        ++refused;
        continue;
      }
      ASSERT_TRUE(found->has_value()) << at;
      EXPECT_EQ((*found)->serialize(), kernel.artifact.serialize()) << at;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(KernelPackTest, NoTruncatedFileIsRead) {
  std::vector<PackedKernel> some = kernels();
  some.resize(3);
  const std::string bytes = encoded(some);
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 50) {
    Result<KernelPack> pack = open(std::string_view(bytes).substr(0, size));
    bool isRead = pack.ok();
    for (const PackedKernel &kernel : some)
      isRead = isRead && pack->find(kernel.keys[0]).ok();
    EXPECT_FALSE(isRead) << size;
  }
}

TEST_F(KernelPackTest, SaysWhatIsNone) {
  EXPECT_EQ(KernelPack::open(path).code(), Code::notFound);
  EXPECT_NE(open(std::string(5000, 'x')).error().message().find("does not begin"),
            std::string::npos);
  std::string newer = encoded({});
  newer[8] = 2;
  EXPECT_NE(open(newer).error().message().find("has format 2"), std::string::npos);
}

} // namespace
