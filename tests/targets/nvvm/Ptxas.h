//===- Ptxas.h - Assembles PTX with ptxas -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TARGETS_NVVM_PTXAS_H
#define TESELA_TESTS_TARGETS_NVVM_PTXAS_H

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include <unistd.h>

namespace tesela {

inline constexpr const char *noPtxas =
    "ptxas was not found when the build was configured: put it on the PATH";
inline bool hasPtxas() { return !std::string(TESELA_TEST_PTXAS).empty(); }

struct Assembled {
  int exitStatus = -1;
  std::string log;

  /// Accepted without a warning. Warnings C75xx mean a slow kernel.
  bool isClean() const {
    return exitStatus == 0 && log.find("warning") == std::string::npos &&
           log.find("(C75") == std::string::npos;
  }
};

/// Assembles for the chip that `ptx` names after `.target`, such as "sm_90a".
inline Assembled assemble(const std::string &ptx) {
  std::smatch target;
  if (!std::regex_search(ptx, target, std::regex("\\.target (sm_[0-9]+a?)")))
    return {.log = "the PTX names no target"};
  std::filesystem::path file = std::filesystem::path(testing::TempDir()) /
                               ("tesela_assembly_" + std::to_string(getpid()) + ".ptx");
  std::ofstream(file) << ptx;
  std::string command = std::string("'") + TESELA_TEST_PTXAS + "' -v -arch=" + target[1].str() +
                        " -o /dev/null '" + file.string() + "' 2>&1";
  Assembled result;
  FILE *pipe = popen(command.c_str(), "r"); // NOLINT(bugprone-command-processor): a test's own text
  if (!pipe)
    return result;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof buffer, pipe))
    result.log.append(buffer, count);
  result.exitStatus = pclose(pipe);
  std::filesystem::remove(file);
  return result;
}

} // namespace tesela

#endif // TESELA_TESTS_TARGETS_NVVM_PTXAS_H
