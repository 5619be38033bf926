//===- NVVMTarget.cpp - From the core to PTX --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/NVVMTarget.h"

#include "targets/nvvm/Passes.h"

#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace mlir;

namespace tesela {

void addPipePasses(OpPassManager &passes) {
  OpPassManager &kernels = passes.nest<tile::KernelOp>();
  kernels.addPass(createPipeAssignFragments());
  kernels.addPass(createPipeRotateLoop());
  kernels.addPass(createPipePlaceBuffers());
}

void addNVVMPasses(OpPassManager &passes) {
  passes.addPass(createPipeLowerToNVVM());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createScalarsToLLVM());
}

static Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const ChipFacts &chip) {
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return Error(Code::defect, "this build has no NVPTX target: " + message);
  llvm::TargetOptions options;
  // What feeds a mask is exact: only fma ops are fused.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, "sm_" + std::to_string(chip.sm), "+ptx" + std::to_string(chip.ptxVersion), options,
      std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    return Error(Code::defect, "LLVM makes no code for sm_" + std::to_string(chip.sm));
  return machine;
}

/// TOOLCHAIN: LLVM's own optimisation matters little; these four are enough.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  llvm::LoopPassManager loopPasses;
  loopPasses.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(std::move(loopPasses), /*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  pipeline.run(module, modules);
}

std::unique_ptr<llvm::Module> nvvmModule(ModuleOp module, const ChipFacts &chip,
                                         llvm::LLVMContext &context) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  registerNVVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(module, context, "kernel");
  if (!translated)
    return nullptr;
  Result<std::unique_ptr<llvm::TargetMachine>> machine = makeTargetMachine(chip);
  if (!machine) {
    module.emitError() << machine.error().message();
    return nullptr;
  }
  translated->setDataLayout((*machine)->createDataLayout());
  translated->setTargetTriple((*machine)->getTargetTriple());
  optimize(*translated, **machine);
  return translated;
}

Result<std::string> ptxOf(llvm::Module &module, const ChipFacts &chip) {
  Result<std::unique_ptr<llvm::TargetMachine>> machine = makeTargetMachine(chip);
  if (!machine)
    return machine.error();
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile,
                                      /*DisableVerify=*/true))
    return Error(Code::defect, "LLVM prints no PTX");
  codegen.run(module);
  return std::string(text.begin(), text.end());
}

} // namespace tesela
