//===- StatusTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Status.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

TEST(Status, SuccessHasNoError) {
  EXPECT_TRUE(Status::success().ok());
  EXPECT_EQ(Status().code(), Code::ok);
}

TEST(Status, AnErrorKeepsCodeAndSentence) {
  Status status = Error(Code::notFound, "there is no file").within("reading");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::notFound);
  EXPECT_EQ(status.error().message(), "reading: there is no file");
  EXPECT_FALSE(status.error().isDefect());
  EXPECT_TRUE(Error(Code::defect, "x").isDefect());
  EXPECT_EQ(status.error().within("starting").chain(),
            (std::vector<std::string>{"starting", "reading", "there is no file"}));
}

TEST(Status, AResultIsAValueOrAnError) {
  Result<int> value = 7;
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(*value, 7);
  Result<int> error = Error(Code::driver, "x");
  EXPECT_FALSE(error);
  EXPECT_EQ(error.code(), Code::driver);
}

TEST(Status, EveryCodeHasItsOwnName) {
  std::string all;
  for (int code = 0; code <= int(Code::deadlineExceeded); ++code) {
    std::string name = codeName(Code(code));
    EXPECT_NE(name, "unknown code");
    EXPECT_EQ(all.find("|" + name + "|"), std::string::npos) << name;
    all += "|" + name + "|";
  }
}

} // namespace
