//===- NamesTest.cpp - Names in C, and which GPUs run code ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CNames.h"
#include "bundle/CodeReach.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

TEST(CNames, MembersOfTheArguments) {
  std::vector<Parameter> parameters;
  for (const char *name : {"window", "int", "scale", "scale_", "class", "_x", "workspace", "linux",
                           "SIZE_MAX", "int32_t", "A", "own_tensor", "owner"})
    parameters.push_back({.name = name, .extents = {}, .defaultValue = {}});
  EXPECT_EQ(memberNames({}, parameters, "own").parameters,
            (std::vector<std::string>{"window", "int_", "scale__", "scale_", "class_", "p_x_",
                                      "workspace_", "linux_", "SIZE_MAX_", "int32_t_", "A",
                                      "own_tensor_", "owner"}));
}

TEST(CNames, TensorsComeFirst) {
  std::vector<TensorArgument> tensors;
  for (const char *name : {"q", "int", "kernel", "x", "capture_t", "b"})
    tensors.push_back({.name = name, .extents = {}});
  std::vector<Parameter> parameters;
  for (const char *name : {"q", "b", "kernel", "t"})
    parameters.push_back({.name = name, .extents = {}, .defaultValue = {}});
  MemberNames names = memberNames(tensors, parameters, "own");
  EXPECT_EQ(names.tensors,
            (std::vector<std::string>{"q", "int_", "kernel_", "x_", "capture_t_", "b"}));
  EXPECT_EQ(names.parameters, (std::vector<std::string>{"q_", "b_", "kernel", "t"}));
}

TEST(CNames, OfBundles) {
  for (const char *name : {"causal", "a", "A9_"})
    EXPECT_TRUE(isCName(name)) << name;
  for (std::string name : {"", "9a", "_a", "a b", "a/b", "a\n", "\xc3\xa9"})
    EXPECT_FALSE(isCName(name)) << name;
  EXPECT_TRUE(isCName(std::string(100, 'a')));
  EXPECT_FALSE(isCName(std::string(101, 'a')));
}

TEST(CNames, OfHeaders) {
  for (const char *name : {"string", "math", "pthread"})
    EXPECT_TRUE(isHeaderOfC(name)) << name;
  EXPECT_FALSE(isHeaderOfC("causal"));
}

TEST(CodeReach, WhereCodeRuns) {
  using enum CodeReach;
  EXPECT_EQ(reachOf(CodeFormat::ptx, "sm_80"), onward);
  EXPECT_EQ(reachOf(CodeFormat::cubin, "sm_80"), inMajor);
  EXPECT_EQ(reachOf(CodeFormat::ptx, "sm_90a"), here);
  EXPECT_EQ(reachOf(CodeFormat::cubin, "sm_90a"), here);
  EXPECT_EQ(reachOf(CodeFormat::ptx, "sm_100f"), inMajor);
  EXPECT_TRUE(runsOn(here, 90, 90));
  EXPECT_FALSE(runsOn(here, 90, 100));
  EXPECT_TRUE(runsOn(inMajor, 80, 89));
  EXPECT_FALSE(runsOn(inMajor, 80, 90));
  EXPECT_FALSE(runsOn(inMajor, 86, 80));
  EXPECT_TRUE(runsOn(inMajor, 100, 103));
  EXPECT_FALSE(runsOn(inMajor, 100, 120));
  EXPECT_TRUE(runsOn(onward, 80, 120));
  EXPECT_FALSE(runsOn(onward, 90, 89));
}

TEST(CodeReach, FeaturesOfTheHost) {
  EXPECT_EQ(lackingHostFeatures(hostFeatures()), "");
  EXPECT_EQ(lackingHostFeatures(""), "");
  EXPECT_EQ(lackingHostFeatures(hostFeatures() + ",zz-unknown,aa-unknown"),
            "aa-unknown, zz-unknown");
}

} // namespace
