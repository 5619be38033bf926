//===- CodeReach.h - Which machines can run code ----------------*- C++ -*-===//
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

/// The GPUs that can run code, besides those of its own compute capability (CUDA Programming Guide,
/// Compute Capabilities: binary and PTX compatibility, architecture- and family-specific features).
enum class CodeReach {
  here,    ///< no others: sm_90a
  inMajor, ///< newer ones with the same major number: cubins, and sm_100f
  onward,  ///< all newer ones: PTX
};

CodeReach reachOf(CodeFormat format, std::string_view architecture);

/// Whether code with `reach` for capability `sm` (90) runs on a device of capability `deviceSm`.
bool runsOn(CodeReach reach, int sm, int deviceSm);

/// The features of this machine's CPU that host code may use, in LLVM's names, sorted: "avx2,fma".
std::string hostFeatures();

/// Those of `needed` (in the form of hostFeatures()) that this machine lacks: "avx512f, amx-bf16".
std::string lackingHostFeatures(std::string_view needed);

} // namespace tesela

#endif // TESELA_BUNDLE_CODEREACH_H
