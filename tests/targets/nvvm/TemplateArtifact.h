//===- TemplateArtifact.h - A template as an artifact -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TARGETS_NVVM_TEMPLATEARTIFACT_H
#define TESELA_TESTS_TARGETS_NVVM_TEMPLATEARTIFACT_H

#include "tesela/compiler/Artifact.h"

namespace tesela {

/// The template of `file`, which is no attention, through the passes of attention, for sm_`sm`:
/// PTX and its one launch. `schedule`: in place of the file's own, where it is given.
Result<Artifact> templateArtifact(const std::string &file, const std::vector<std::string> &bindings,
                                  int sm, const std::string &schedule);

/// templates/matmul.mlir for sm_80 and later, and for sm_90a.
inline constexpr const char *matmulWithStages =
    "#tile.schedule<block_m = 128, block_n = 64, stages = 3, warps = 4, q_in_registers = false>";
inline constexpr const char *matmulWithRoles =
    "#tile.schedule<block_m = 128, block_n = 64, stages = 4, warps = 8, q_in_registers = false, "
    "consumers = 2>";
/// templates/combine.mlir.
inline constexpr const char *combineSchedule =
    "#tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>";

} // namespace tesela

#endif // TESELA_TESTS_TARGETS_NVVM_TEMPLATEARTIFACT_H
