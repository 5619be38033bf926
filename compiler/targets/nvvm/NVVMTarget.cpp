//===- NVVMTarget.cpp - From the core to PTX --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/NVVMTarget.h"

#include "targets/common/CodeGeneration.h"
#include "targets/nvvm/CarriedProducts.h"
#include "targets/nvvm/ConvergentAssembly.h"
#include "targets/nvvm/EqualCounts.h"
#include "targets/nvvm/NegatedExtremes.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/TruthNumbers.h"

#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Mem2Reg.h"

using namespace mlir;

namespace tesela {

void addPipePasses(OpPassManager &passes) {
  OpPassManager &kernels = passes.nest<tile::KernelOp>();
  kernels.addPass(createPipeAssignFragments());
  kernels.addPass(createPipeRotateLoop());
  kernels.addPass(createPipeOverlapProducts());
  kernels.addPass(createPipeStageOperands());
  kernels.addPass(createPipeSplitRoles());
  kernels.addPass(createPipePlaceBuffers());
  kernels.addPass(createPipeVerifyProtocol());
  kernels.addPass(createPipeOverlapItems());
  kernels.addPass(createPipeStartProducts());
  kernels.addPass(createPipeHoldQueries());
  kernels.addPass(createPipeRunRoles());
  kernels.addPass(createPipeMarkUniform());
  kernels.addPass(createPipeCountRegisters());
  kernels.addPass(createPipeOverlapLaunches());
}

void addNVVMPasses(OpPassManager &passes) {
  PipeLowerToNVVMOptions options;
#ifndef NDEBUG
  options.trapWaits = true;
#endif
  passes.addPass(createPipeLowerToNVVM(options));
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createScalarsToLLVM());
}

/// Whether the module adds vectors to memory (PtxInstructions::addGlobal16Bytes).
static bool addsVectors(const llvm::Module &module) {
  return llvm::any_of(module, [](const llvm::Function &function) {
    return llvm::any_of(llvm::instructions(function), [](const llvm::Instruction &instruction) {
      return nvvm::assemblyOf(instruction).contains("red.global.add.v4.f32");
    });
  });
}

/// `leastPtx`: the first PTX version that has all instructions of the module.
static Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const ChipFacts &chip,
                                                                      int leastPtx = 0) {
  llvm::Triple triple("nvptx64-nvidia-cuda");
  Result<const llvm::Target *> target = findTarget(triple);
  if (!target)
    return target.error();
  llvm::TargetOptions options;
  // Masks must be exact, so LLVM may not fuse: only fma ops are fused multiply-adds.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine((*target)->createTargetMachine(
      triple, "sm_" + std::to_string(chip.sm) + (chip.accelerated ? "a" : ""),
      "+ptx" + std::to_string(
                   std::max(leastPtx, chip.accelerated ? chip.acceleratedPtx : chip.ptxVersion)),
      options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    return Error(Code::defect, "LLVM makes no code for sm_" + std::to_string(chip.sm));
  return machine;
}

/// LLVM's own optimisations matter little, so five of its passes are enough
/// (docs/log/2026-11-27-compile-time.md). The first one puts the variables of a kernel into
/// registers (AddInOrder.cpp has one). EqualCounts runs next. Among LLVM's passes only NewGVN does
/// the same as EqualCounts, but it also lengthens the lives of other values. CarriedProducts needs
/// the simplified products.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(nvvm::EqualCounts());
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  llvm::LoopPassManager loopPasses;
  loopPasses.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(std::move(loopPasses), /*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(nvvm::CarriedProducts());
  passes.addPass(nvvm::NegatedExtremes());
  passes.addPass(nvvm::TruthNumbers());
  runOnFunctions(module, machine, std::move(passes));
}

std::unique_ptr<llvm::Module> nvvmModule(ModuleOp module, const ChipFacts &chip,
                                         llvm::LLVMContext &context) {
  Result<std::unique_ptr<llvm::TargetMachine>> machine = makeTargetMachine(chip);
  if (!machine) {
    module.emitError() << machine.error().message();
    return nullptr;
  }
  registerNVVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> translated = translateToLLVM(module, **machine, context);
  if (!translated)
    return nullptr;
  nvvm::markConvergentAssembly(*translated);
  optimize(*translated, **machine);
  return translated;
}

Result<std::string> ptxOf(llvm::Module &module, const ChipFacts &chip) {
  // Drivers and assemblers of CUDA 12.0 end with PTX 8.0. So only kernels that need 8.1 have it.
  constexpr int ptxOfVectors = 81;
  Result<std::unique_ptr<llvm::TargetMachine>> machine =
      makeTargetMachine(chip, addsVectors(module) ? ptxOfVectors : 0);
  if (!machine)
    return machine.error();
  return generateCode(module, **machine, llvm::CodeGenFileType::AssemblyFile);
}

} // namespace tesela
