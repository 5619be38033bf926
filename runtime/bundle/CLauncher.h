//===- CLauncher.h - A kernel's launches as C -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What LaunchPlan and CudaBackend do with an artifact, written out in C99 for one variant: checks,
// slots, tensor maps, counters, workspaces. The rules stand in launcher/*.c.in, the launches are
// generated. tests/runtime/bundle holds the two against each other, parameter by parameter.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_CLAUNCHER_H
#define TESELA_BUNDLE_CLAUNCHER_H

#include "tesela/compiler/Artifact.h"

#include <string>
#include <vector>

namespace tesela {

struct TextFile {
  std::string name, text;
};

/// An artifact for a GPU, and what its code was assembled for ("sm_90a").
struct CLauncherTarget {
  const Artifact *artifact;
  std::string architecture;
};

/// `NAME.h`, `NAME.c` and, for each target, `NAME_sm_90.inc` with its code, which NAME.c includes.
/// `name` is an identifier of C, there is a target at least, and all are of one variant.
/// Code::defect where an artifact has what no launcher knows.
Result<std::vector<TextFile>> makeCLauncher(const std::string &name, const std::string &version,
                                            const std::vector<CLauncherTarget> &targets);

} // namespace tesela

#endif // TESELA_BUNDLE_CLAUNCHER_H
