//===- SafetensorsTest.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

using namespace tesela;
using namespace tesela::tool;
using testing::HasSubstr;

namespace {

class SafetensorsTest : public testing::Test {
protected:
  SafetensorsTest() {
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    path = testing::TempDir() + "tesela-" + test->name() + ".safetensors";
  }
  ~SafetensorsTest() override { std::remove(path.c_str()); }

  void writeBytes(const std::string &bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  /// Writes eight bytes with the header's length, the header, and the data.
  void writeFile(const std::string &header, const std::string &data) const {
    std::string prefix(8, '\0');
    for (int i = 0; i < 8; ++i)
      prefix[i] = static_cast<char>(header.size() >> 8 * i);
    writeBytes(prefix + header + data);
  }

  /// The message with which opening the file fails.
  std::string failure() const {
    Result<SafetensorsFile> file = SafetensorsFile::open(path);
    EXPECT_FALSE(file.ok());
    if (file)
      return "";
    EXPECT_EQ(file.code(), Code::inputOutput);
    EXPECT_THAT(file.error().message(), HasSubstr(path));
    return file.error().message();
  }

  std::string failureOf(const std::string &header, const std::string &data) const {
    writeFile(header, data);
    return failure();
  }

  std::string path;
};

HostTensor numbered(ElementType type, std::vector<int64_t> extents) {
  Result<HostTensor> tensor = HostTensor::allocate(rowMajor(type, extents));
  EXPECT_TRUE(tensor.ok());
  auto *bytes = static_cast<uint8_t *>(tensor->data());
  std::iota(bytes, bytes + tensor->bytes(), uint8_t(1));
  return std::move(*tensor);
}

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  HostTensor a = numbered(ElementType::bf16, {2, 3});
  HostTensor b = numbered(ElementType::i32, {1, 2, 2});
  HostTensor empty = numbered(ElementType::f32, {0, 7});
  ASSERT_TRUE(
      writeSafetensors(path, {{"b", b.view()}, {"a", a.view()}, {"empty", empty.view()}}).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));

  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->entries().size(), 3u);
  for (const auto &[name, expected] : {std::pair("a", &a), {"b", &b}, {"empty", &empty}}) {
    Result<HostTensor> tensor = file->read(name);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message();
    EXPECT_EQ(describe(tensor->view()), describe(expected->view()));
    EXPECT_EQ(std::memcmp(tensor->data(), expected->data(), expected->bytes()), 0);
  }
}

TEST_F(SafetensorsTest, CutShortAtEveryByteItIsRefused) {
  HostTensor a = numbered(ElementType::f32, {2, 2});
  HostTensor b = numbered(ElementType::f16, {3});
  ASSERT_TRUE(writeSafetensors(path, {{"a", a.view()}, {"b", b.view()}}).ok());
  std::ifstream stream(path, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  ASSERT_GT(whole.size(), 100u);
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    writeBytes(whole.substr(0, length));
    failure();
  }
  writeBytes(whole + '\0');
  EXPECT_THAT(failure(), HasSubstr("follow the header"));
}

TEST_F(SafetensorsTest, DamageAtEveryByteOfTheHeaderIsNoCrash) {
  HostTensor a = numbered(ElementType::f32, {2, 2});
  ASSERT_TRUE(writeSafetensors(path, {{"a", a.view()}}).ok());
  std::ifstream stream(path, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  for (size_t at = 0; at < whole.size() - a.bytes(); ++at) {
    for (int flip : {0x01, 0x10, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      writeBytes(damaged);
      // Some damage, such as another name, leaves a valid file. Then its tensors must be readable.
      Result<SafetensorsFile> file = SafetensorsFile::open(path);
      if (!file)
        continue;
      for (const auto &[name, entry] : file->entries()) {
        Result<HostTensor> tensor = file->read(name);
        if (tensor) {
          EXPECT_EQ(tensor->bytes(), entry.end - entry.begin);
        }
      }
    }
  }
}

TEST_F(SafetensorsTest, EachDamageHasItsSentence) {
  const std::string four(4, 'x');
  EXPECT_THAT(failureOf("[1]", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(failureOf("{\"a\":", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(failureOf(R"({"a":3})", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(failureOf(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", four),
              HasSubstr("\"dtype\""));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", four),
              HasSubstr("\"shape\""));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","shape":[1]}})", four),
              HasSubstr("\"data_offsets\""));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", four),
              HasSubstr("\"data_offsets\""));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", four),
              HasSubstr("'F33' is not a dtype of the .safetensors format"));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four),
              HasSubstr("not a whole number"));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", four),
              HasSubstr("not a whole number"));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four),
              HasSubstr("hold 4 bytes, but F32 [2] takes 8"));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", four),
              HasSubstr("do not lie in the 4 bytes"));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four),
              HasSubstr("do not lie"));
}

TEST_F(SafetensorsTest, OffsetsThatOverlapOrLeaveGapsAreRefused) {
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]},)"
                        R"("b":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
                        "xxxx"),
              HasSubstr("'b' overlaps another"));
  EXPECT_THAT(failureOf(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
                        R"("b":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
                        "xxxx"),
              HasSubstr("'b' leaves a gap"));
}

TEST_F(SafetensorsTest, SizesThatOverflowAreRefused) {
  // 2^62 elements of 4 bytes are 2^64 bytes, which is 0 in 64 bits.
  EXPECT_THAT(
      failureOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", ""),
      HasSubstr("more bytes than fit into 64 bits"));
  EXPECT_THAT(
      failureOf(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", ""),
      HasSubstr("not a whole number"));
  writeBytes(std::string(8, '\xff') + "{}");
  EXPECT_THAT(failure(), HasSubstr("claims 18446744073709551615 bytes"));
  // The tensor is empty, whatever the other extents are.
  writeFile(
      R"({"a":{"dtype":"F32","shape":[9223372036854775807,9223372036854775807,0],"data_offsets":[0,0]}})",
      "");
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message();
}

TEST_F(SafetensorsTest, OnlyTheTypesAndRanksThatKernelsKnowAreRead) {
  writeFile(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
      R"("f":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]},)"
      R"("r":{"dtype":"BOOL","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[11,12]}})",
      std::string(8, 'x') + std::string("\x00\x01\x07", 3) + "x");
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_FALSE(file->contains("__metadata__"));

  Result<HostTensor> wide = file->read("a");
  ASSERT_FALSE(wide.ok());
  EXPECT_THAT(wide.error().message(), HasSubstr("is F64; convert it"));
  Result<HostTensor> deep = file->read("r");
  ASSERT_FALSE(deep.ok());
  EXPECT_THAT(deep.error().message(), HasSubstr("9 axes"));
  Result<HostTensor> absent = file->read("slope");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.code(), Code::notFound);
  EXPECT_THAT(absent.error().message(), HasSubstr("only: 'a', 'f', 'r'"));

  Result<HostTensor> flags = file->read("f");
  ASSERT_TRUE(flags.ok());
  EXPECT_EQ(std::memcmp(flags->data(), "\x00\x01\x01", 3), 0);
}

TEST_F(SafetensorsTest, FilesThatAreNotThere) {
  EXPECT_THAT(failure(), HasSubstr("No such file"));
  Result<SafetensorsFile> folder = SafetensorsFile::open(testing::TempDir());
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.error().message(), HasSubstr("not a regular file"));
}

TEST_F(SafetensorsTest, AFailedWriteLeavesNothing) {
  HostTensor a = numbered(ElementType::f32, {1});
  Status status = writeSafetensors("/dev/null/o.safetensors", {{"a", a.view()}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::inputOutput);
  EXPECT_THAT(status.error().message(), HasSubstr("cannot be written"));
}

TEST(HostTensorTest, MoreThanTheMachineHasIsAnError) {
  std::vector<int64_t> extents{int64_t(1) << 31, int64_t(1) << 31, int64_t(1) << 31};
  Result<HostTensor> tensor = HostTensor::allocate(rowMajor(ElementType::f32, extents));
  ASSERT_FALSE(tensor.ok());
  EXPECT_EQ(tensor.code(), Code::outOfMemory);
}

} // namespace
