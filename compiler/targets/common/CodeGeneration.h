//===- CodeGeneration.h - From the LLVM dialect to code ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The steps that all targets share once a kernel is in the LLVM dialect. Each target makes its own
// target machine and chooses its passes.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_CODEGENERATION_H
#define TESELA_COMPILER_TARGETS_COMMON_CODEGENERATION_H

#include "tesela/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Support/CodeGen.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Target;
class TargetMachine;
class Triple;
} // namespace llvm

namespace tesela {

/// LLVM's target for `triple`. LLVM's registry must not change while another thread looks something
/// up, so it is filled once, with all targets of Tesela.
Result<const llvm::Target *> findTarget(const llvm::Triple &triple);

/// The module in LLVM IR, with the machine's data layout and triple. Null if it cannot be
/// translated; diagnostics then say why. Callers register the translation of dialects other than
/// builtin and llvm.
std::unique_ptr<llvm::Module> translateToLLVM(mlir::ModuleOp module, llvm::TargetMachine &machine,
                                              llvm::LLVMContext &context);

/// Runs `passes` on each function of the module.
void runOnFunctions(llvm::Module &module, llvm::TargetMachine &machine,
                    llvm::FunctionPassManager passes);

/// The module as assembly text of the machine, or as the bytes of an object file.
Result<std::string> generateCode(llvm::Module &module, llvm::TargetMachine &machine,
                                 llvm::CodeGenFileType type);

/// The module as LLVM IR text.
std::string printModule(const llvm::Module &module);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_CODEGENERATION_H
