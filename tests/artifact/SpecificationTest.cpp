//===- SpecificationTest.cpp ----------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

#include <set>

using namespace tesela;

namespace {

TEST(Target, NamesReadBack) {
  for (const char *name :
       {"host", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"}) {
    Result<Target> target = Target::parse(name);
    ASSERT_TRUE(target.ok()) << name;
    EXPECT_EQ(target->name(), name);
  }
}

TEST(Target, AnUnknownOneListsThoseThereAre) {
  for (const char *name :
       {"", "sm_", "sm_75", "sm_110", "sm_121", "sm_9O", "sm_90 ", "sm_090", "sm_90a", "gpu"}) {
    Result<Target> target = Target::parse(name);
    ASSERT_FALSE(target.ok()) << name;
    EXPECT_NE(target.error().message().find("host, sm_80"), std::string::npos);
  }
}

TEST(Specification, EveryFieldButTheFileIsInTheCanonicalText) {
  KernelSpecification plain;
  plain.variantText = "attention full() {}";
  KernelSpecification renamed = plain;
  renamed.variantFile = "another";
  EXPECT_EQ(plain.canonicalText(), renamed.canonicalText());

  std::set<std::string> texts = {plain.canonicalText()};
  auto changed = [&](auto change) {
    KernelSpecification other = plain;
    change(other);
    EXPECT_TRUE(texts.insert(other.canonicalText()).second) << other.canonicalText();
  };
  changed([](auto &s) { s.variantText += " "; });
  changed([](auto &s) { s.inputType = ElementType::f16; });
  changed([](auto &s) { s.headDimQk = 64; });
  changed([](auto &s) { s.headDimV = 64; });
  changed([](auto &s) { s.target = {Target::Kind::cuda, 80}; });
  changed([](auto &s) { s.target = {Target::Kind::cuda, 90}; });
  changed([](auto &s) { s.expectedLength = 1000; });
  changed([](auto &s) { s.expectedLength = 1024; });
  changed([](auto &s) { s.expectedQueries = 1; });
  changed([](auto &s) { s.expectedQueries = 4; });
  changed([](auto &s) { s.algorithm = "matmul"; });
  changed([](auto &s) { s.bindings = {"columns=64"}; });
  changed([](auto &s) { s.bindings = {"columns=64", "rows=2"}; });
  changed([](auto &s) { s.bindings = {"columns=64\nbinding 6 rows=2"}; });
  changed([](auto &s) { s.constants = {{"w", 1}}; });
  changed([](auto &s) { s.constants = {{"w", 2}}; });
  changed([](auto &s) { s.constants = {{"x", 1}}; });
  changed([](auto &s) { s.constants = {{"w", 1}, {"x", -0.0}}; });
  changed([](auto &s) { s.constants = {{"w", 1}, {"x", 0.0}}; });
  changed([](auto &s) { s.schedule = "block_m = 64"; });
  changed([](auto &s) { s.schedule = "\nvariant 19\n"; });
}

TEST(Specification, TheOrderOfConstantsAndBindingsDoesNotMatter) {
  KernelSpecification one, other;
  one.bindings = {"columns=64", "rows=2"};
  other.bindings = {"rows=2", "columns=64"};
  one.constants = {{"w", 1}, {"x", 2}};
  other.constants = {{"x", 2}, {"w", 1}};
  EXPECT_EQ(one.canonicalText(), other.canonicalText());
}

// The schedule follows the expected length by powers of two: those of one power share a kernel.
TEST(Specification, LengthsOfOnePowerOfTwoAreOne) {
  KernelSpecification shorter, longer;
  shorter.expectedLength = 1024;
  longer.expectedLength = 2047;
  EXPECT_EQ(shorter.canonicalText(), longer.canonicalText());
  // Of queries the next power of two has to fit.
  shorter.expectedQueries = 5;
  longer.expectedQueries = 8;
  EXPECT_EQ(shorter.canonicalText(), longer.canonicalText());
}

TEST(CompileTimes, TotalIsTheSum) {
  CompileTimes times;
  times.stages = {{"a", 1.5}, {"b", 2.25}};
  EXPECT_DOUBLE_EQ(times.total(), 3.75);
}

} // namespace
