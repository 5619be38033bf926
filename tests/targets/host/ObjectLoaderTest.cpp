//===- ObjectLoaderTest.cpp - Loading host code ------------------ -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ForwardCore.h"
#include "HostLaunch.h"

#include <gtest/gtest.h>

using namespace tesela;
using namespace tesela::test;

static const std::string &someObject() {
  static const std::string object = [] {
    auto kernel = HostKernelUnderTest::compile(causalForwardCore(ElementType::f32, 16, 16, 16, 16));
    return kernel ? kernel->object() : std::string();
  }();
  return object;
}

TEST(ObjectLoader, FindsKernelsByName) {
  Result<std::shared_ptr<HostCode>> code = HostCode::load(someObject());
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_TRUE((*code)->find("forward"));
  Result<HostKernel *> missing = (*code)->find("backward");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.code(), Code::notFound);
  EXPECT_NE(missing.error().message().find("backward"), std::string::npos);
}

TEST(ObjectLoader, CodeOutlivesNothingItNeeds) {
  // The bytes are not needed once they are loaded.
  auto copy = std::make_unique<std::string>(someObject());
  Result<std::shared_ptr<HostCode>> code = HostCode::load(*copy);
  copy.reset();
  ASSERT_TRUE(code);
  EXPECT_TRUE((*code)->find("forward"));
}

TEST(ObjectLoader, DamagedObjectsAreErrors) {
  for (std::string bytes : {std::string(), std::string("not an object"), std::string(4096, '\0')}) {
    Result<std::shared_ptr<HostCode>> code = HostCode::load(bytes);
    ASSERT_FALSE(code);
    EXPECT_EQ(code.code(), Code::inputOutput);
  }
}

TEST(ObjectLoader, TruncatedObjectsAreErrors) {
  const std::string &whole = someObject();
  for (size_t length = 0; length < whole.size(); length += 97) {
    Result<std::shared_ptr<HostCode>> code = HostCode::load(whole.substr(0, length));
    EXPECT_FALSE(code && (*code)->find("forward").ok())
        << "cut to " << length << " of " << whole.size();
  }
}
