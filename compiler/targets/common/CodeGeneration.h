//===- CodeGeneration.h - From the LLVM dialect to code ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What all targets do alike once a kernel stands in the LLVM dialect. The target machine and the
// choice of passes are the target's.
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

/// LLVM's target for `triple`. Its registry is filled once, with all targets of Tesela: it must not
/// change while another thread looks something up.
Result<const llvm::Target *> findTarget(const llvm::Triple &triple);

/// The module in LLVM IR, with the machine's data layout and triple. Null where it cannot be
/// translated; the diagnostics say why. A dialect besides builtin and llvm has its translation
/// registered by the caller.
std::unique_ptr<llvm::Module> translateToLLVM(mlir::ModuleOp module, llvm::TargetMachine &machine,
                                              llvm::LLVMContext &context);

/// Runs `passes` on each function of the module.
void runOnFunctions(llvm::Module &module, llvm::TargetMachine &machine,
                    llvm::FunctionPassManager passes);

/// The module as text in the machine's assembly language, or as the bytes of an object file.
Result<std::string> generateCode(llvm::Module &module, llvm::TargetMachine &machine,
                                 llvm::CodeGenFileType type);

/// The module as LLVM's own text.
std::string printModule(const llvm::Module &module);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_CODEGENERATION_H
