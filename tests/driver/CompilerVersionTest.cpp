//===- CompilerVersionTest.cpp --------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/TargetParser/Host.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

TEST(CompilerVersion, NamesLLVM) {
  for (Target::Kind kind : {Target::Kind::host, Target::Kind::cuda})
    EXPECT_NE(compilerVersion(kind).find("LLVM " LLVM_VERSION_STRING), std::string::npos)
        << compilerVersion(kind);
}

// Machines with different CPUs can share the kernels of their GPUs.
TEST(CompilerVersion, OnlyTheHostsCodeDependsOnTheCpu) {
  std::string host = compilerVersion(Target::Kind::host),
              cuda = compilerVersion(Target::Kind::cuda);
  std::string cpu = llvm::sys::getHostCPUName().str();
  ASSERT_TRUE(host.starts_with(cuda)) << cuda;
  EXPECT_NE(host.substr(cuda.size()).find(cpu), std::string::npos) << host;
  EXPECT_EQ(cuda.find(cpu), std::string::npos) << cuda;
}

} // namespace
