//===- HostTarget.h - From the core to an object file -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compiles the core for the CPU. The core is what the passes on tile make of templates: bound
// tile.kernels with their schedules, whose bodies hold
//
//   tile    work work_part block coordinates extent view_extent load store accumulate read constant
//           dot convert map reduce total return
//   scf     for (i32 bounds; tiles and scalars carried), if (tiles and scalars as results)
//   arith   and math on i1, i32, i64, f32
//
// math.exp, log, tanh, sin and cos are computed in the same way as in masks (ExpandArithmetic.h),
// exp2 and log2 by MathExpansion.h.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_HOSTTARGET_H
#define TESELA_COMPILER_TARGETS_HOST_HOSTTARGET_H

#include "targets/host/VectorUnit.h"
#include "tesela/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>

namespace tesela {

struct HostObject {
  std::string object;         ///< a relocatable ELF file; HostCode::load takes it
  int64_t workspaceBytes = 0; ///< scratch of the kernel that needs most: Launch::workspaceBytes
};

/// The running CPU's name and features. It identifies code that another CPU may be unable to run.
std::string hostCpuIdentity();

/// Compiles the core for the running CPU, with vectors of `unit`. The kernels' symbols have the
/// signature that Artifact.h gives. Consumes the module: it holds the LLVM dialect afterwards. A
/// core that cannot be lowered is an internal error (Code::defect).
Result<HostObject> hostObject(mlir::ModuleOp core, const VectorUnit &unit = hostVectorUnit());

/// The same program as LLVM IR text, after optimisation.
Result<std::string> hostLLVMText(mlir::ModuleOp core, const VectorUnit &unit = hostVectorUnit());

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_HOSTTARGET_H
