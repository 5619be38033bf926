//===- AssemblerVersionsTest.cpp - Known versions of ptxas ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "assemble/AssemblerVersions.h"

#include "assemble/Ptxas.h"
#include "system/File.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

using namespace tesela;

namespace {

class KeptVersions : public testing::Test {
protected:
  void SetUp() override {
    Result<TemporaryFolder> made = TemporaryFolder::create();
    ASSERT_TRUE(made.ok());
    folder.emplace(std::move(*made));
    path = folder->path() + "/cache/assemblers";
  }
  std::optional<TemporaryFolder> folder;
  std::string path;
};

TEST_F(KeptVersions, AreFoundByTheWholeFile) {
  AssemblerVersions versions(path);
  EXPECT_EQ(versions.find("/a/ptxas 10 1.0"), std::nullopt);
  versions.add("/a/ptxas 10 1.0", "release 13.0, V13.0.88, Build 1");
  versions.add("/b/ptxas 10 1.0", "release 12.8, V12.8.0, Build 2");
  AssemblerVersions later(path);
  EXPECT_EQ(later.find("/a/ptxas 10 1.0"), "release 13.0, V13.0.88, Build 1");
  EXPECT_EQ(later.find("/b/ptxas 10 1.0"), "release 12.8, V12.8.0, Build 2");
  EXPECT_EQ(later.find("/a/ptxas 10 1.5"), std::nullopt) << "another one lies there now";
  EXPECT_EQ(later.find("/a/ptxas 10 1"), std::nullopt);
  EXPECT_EQ(later.find(""), std::nullopt);
}

TEST_F(KeptVersions, WhatIsDamagedIsNotKnown) {
  AssemblerVersions versions(path);
  versions.add("/a/ptxas 10 1.0", "release 13.0");
  for (const std::string &text :
       {std::string(), std::string("release 13.0\t/a/pt"), std::string("\n\n\t\t\n"),
        std::string("\t/a/ptxas 10 1.0\n"), std::string(100 << 10, 'x')}) {
    ASSERT_TRUE(writeFile(path, text).ok());
    EXPECT_EQ(versions.find("/a/ptxas 10 1.0"), std::nullopt) << text.substr(0, 40);
    versions.add("/a/ptxas 10 1.0", "release 13.0");
    EXPECT_EQ(versions.find("/a/ptxas 10 1.0"), "release 13.0") << text.substr(0, 40);
  }
  versions.add("/with\ttab", "release 1");
  versions.add("/c/ptxas 1 1.0", "release\n1");
  EXPECT_EQ(versions.find("/with\ttab"), std::nullopt);
  EXPECT_EQ(versions.find("/c/ptxas 1 1.0"), std::nullopt);
}

/// The form that Ptxas uses as a key.
std::string factsOf(const std::string &path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return path + " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) +
         "." + std::to_string(status.st_mtim.tv_nsec);
}

// /bin/true prints no version, so if it were asked, its identity would be its path, size and time.
TEST_F(KeptVersions, AProgramThatIsKnownIsNotAsked) {
  Result<std::string> code = readFile("/bin/true");
  ASSERT_TRUE(code.ok());
  std::string program = folder->path() + "/ptxas";
  ASSERT_TRUE(writeFile(program, *code).ok());
  ASSERT_EQ(chmod(program.c_str(), 0700), 0);
  Ptxas::keepVersionsIn(path);
  AssemblerVersions(path).add(factsOf(program), "release 9.9");
  EXPECT_EQ(Ptxas(program).knownIdentity(), "release 9.9");
  EXPECT_EQ(Ptxas(program).identity(), "release 9.9");
}

// A script's own file does not change when the program that it runs changes.
TEST_F(KeptVersions, AScriptIsAsked) {
  std::string script = folder->path() + "/ptxas";
  ASSERT_TRUE(writeFile(script, "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n"
                                "echo 'Build cuda_13.0.r13.0/compiler.1_0'\n")
                  .ok());
  ASSERT_EQ(chmod(script.c_str(), 0700), 0);
  Ptxas::keepVersionsIn(path);
  AssemblerVersions(path).add(factsOf(script), "release 9.9");
  EXPECT_EQ(Ptxas(script).knownIdentity(), std::nullopt);
  const char *version = "release 13.0, V13.0.88, Build cuda_13.0.r13.0/compiler.1_0";
  EXPECT_EQ(Ptxas(script).identity(), version);
  EXPECT_EQ(Ptxas(script).knownIdentity(), version) << "a process asks once";
}

} // namespace
