//===- CodeReach.h - Where a target's code runs -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_CODEREACH_H
#define TESELA_BUNDLE_CODEREACH_H

#include "tesela/compiler/Artifact.h"

#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// On which GPUs besides its own compute capability code runs (CUDA Programming Guide, Compute
/// Capabilities: binary and PTX compatibility, architecture- and family-specific features).
enum class CodeReach {
  here,    ///< on none: sm_90a
  inMajor, ///< on those of the same major number that are newer: cubins, and sm_100f
  onward,  ///< on all newer ones: PTX
};

CodeReach reachOf(CodeFormat format, std::string_view architecture);

/// Does code of `reach` for capability `sm` (90) run on a device of capability `deviceSm`?
bool runsOn(CodeReach reach, int sm, int deviceSm);

/// The features of this machine's CPU that host code may use, by LLVM's names, sorted: "avx2,fma".
std::string hostFeatures();

/// Those of `needed`, as hostFeatures() gives them, that this machine lacks: "avx512f, amx-bf16".
std::string lackingHostFeatures(std::string_view needed);

} // namespace tesela

#endif // TESELA_BUNDLE_CODEREACH_H
