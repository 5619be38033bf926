//===- CLauncher.h - A kernel's launches as C -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The work of LaunchPlan and CudaBackend for one variant, as C99: checks, slots, tensor maps,
// counters, workspaces. launcher/*.c.in contain the rules; the launches are generated.
// tests/runtime/bundle compares both implementations, parameter by parameter.
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

/// An artifact for a GPU, and the architecture of its code ("sm_90a").
struct CLauncherTarget {
  const Artifact *artifact;
  std::string architecture;
};

/// Makes `NAME.h`, `NAME.c` and, for each target, `NAME_sm_90.inc` with its code, which NAME.c
/// includes. `name` must be a C identifier. There must be at least one target, and all must be of
/// one variant. Code::defect: an artifact has something that launchers do not support.
Result<std::vector<TextFile>> makeCLauncher(const std::string &name, const std::string &version,
                                            const std::vector<CLauncherTarget> &targets);

} // namespace tesela

#endif // TESELA_BUNDLE_CLAUNCHER_H
