//===- WriteArtifacts.cpp - Templates for the tests on a GPU --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tesela_write_artifacts FOLDER: the templates without attention as serialised artifacts, so that
// the test that runs them on a GPU (tests/gpu/TemplatesTest.cpp) needs no compiler.
//
//===----------------------------------------------------------------------===//
#include "TemplateArtifact.h"

#include <cstdio>
#include <fstream>

using namespace tesela;

int main(int count, char **arguments) {
  if (count != 2) {
    std::fputs("usage: tesela_write_artifacts FOLDER\n", stderr);
    return 2;
  }
  const struct {
    const char *name, *file;
    std::vector<std::string> bindings;
    int sm;
    const char *schedule;
  } artifacts[] = {
      {"combine", "combine.mlir", {"d_v=128", "output=bf16"}, 80, combineSchedule},
      {"matmul_stages", "matmul.mlir", {"columns=128", "input=bf16"}, 80, matmulWithStages},
      {"matmul_roles", "matmul.mlir", {"columns=128", "input=bf16"}, 90, matmulWithRoles},
  };
  for (const auto &[name, file, bindings, sm, schedule] : artifacts) {
    Result<Artifact> artifact =
        templateArtifact(std::string(TESELA_TEST_TEMPLATES "/") + file, bindings, sm, schedule);
    if (!artifact) {
      std::fprintf(stderr, "%s\n", artifact.error().message().c_str());
      return 1;
    }
    std::ofstream stream(std::string(arguments[1]) + "/" + name + ".artifact", std::ios::binary);
    stream << artifact->serialize();
    if (!stream.flush())
      return 1;
  }
  return 0;
}
