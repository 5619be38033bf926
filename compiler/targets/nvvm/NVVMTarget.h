//===- NVVMTarget.h - From the core to PTX ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_NVVMTARGET_H
#define TESELA_COMPILER_TARGETS_NVVM_NVVMTARGET_H

#include "targets/nvvm/ChipFacts.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace tesela {

/// Adds the passes from the core to kernels whose buffers are placed (the pipe stage).
void addPipePasses(mlir::OpPassManager &passes);

/// Adds the passes from the pipe stage to the LLVM dialect.
void addNVVMPasses(mlir::OpPassManager &passes);

/// The module as optimised LLVM IR for `chip`. Null if the module cannot be translated; diagnostics
/// then say why.
std::unique_ptr<llvm::Module> nvvmModule(mlir::ModuleOp module, const ChipFacts &chip,
                                         llvm::LLVMContext &context);

/// The PTX of a module that nvvmModule made.
Result<std::string> ptxOf(llvm::Module &module, const ChipFacts &chip);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_NVVMTARGET_H
