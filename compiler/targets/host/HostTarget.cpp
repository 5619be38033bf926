//===- HostTarget.cpp - From the core to an object file ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/HostTarget.h"
#include "targets/host/LowerToLLVM.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace tesela {

static std::string hostFeatures() {
  llvm::SubtargetFeatures features;
  // In the order of their names: the text is part of cache keys.
  llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
  std::vector<std::pair<std::string, bool>> sorted;
  for (const auto &feature : found)
    sorted.push_back({feature.getKey().str(), feature.getValue()});
  llvm::sort(sorted);
  for (const auto &[name, has] : sorted)
    features.AddFeature(name, has);
  return features.getString();
}

std::string hostCpuIdentity() { return llvm::sys::getHostCPUName().str() + " " + hostFeatures(); }

VectorUnit hostVectorUnit() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto has = [&](llvm::StringRef name) { return features.lookup(name); };
  VectorUnit unit;
  unit.width = has("avx512f") && has("avx512dq") && has("avx512vl") ? 16 : has("avx") ? 8 : 4;
  unit.fma = has("fma");
  unit.f16c = has("f16c");
  return unit;
}

static Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine() {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return Error(Code::unsupported, "no code can be generated for this CPU: " + message);
  llvm::TargetOptions options;
  // The variant's arithmetic is exact: only fma ops are fused.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, llvm::sys::getHostCPUName(), hostFeatures(), options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine)
    return Error(Code::unsupported, "no code can be generated for " + triple.str());
  return machine;
}

/// The few passes that the lowering's plain loops profit from.
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
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager loopPasses;
  loopPasses.addPass(llvm::LoopRotatePass());
  loopPasses.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(std::move(loopPasses), /*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  pipeline.run(module, modules);
}

namespace {
struct Generated {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
  int64_t workspaceBytes = 0;
};
} // namespace

static Status generate(mlir::ModuleOp core, const VectorUnit &unit, Generated &generated) {
  Result<std::unique_ptr<llvm::TargetMachine>> machine = makeTargetMachine();
  if (!machine)
    return machine.error();
  generated.machine = std::move(*machine);
  Result<int64_t> workspace = lowerToLLVMDialect(core, unit);
  if (!workspace)
    return workspace.error();
  generated.workspaceBytes = *workspace;

  mlir::registerBuiltinDialectTranslation(*core.getContext());
  mlir::registerLLVMDialectTranslation(*core.getContext());
  generated.module = mlir::translateModuleToLLVMIR(core, generated.context, "kernel");
  if (!generated.module)
    return Error(Code::defect, "the host kernel could not be translated to LLVM IR");
  generated.module->setDataLayout(generated.machine->createDataLayout());
  generated.module->setTargetTriple(generated.machine->getTargetTriple());
  optimize(*generated.module, *generated.machine);
  return Status::success();
}

Result<HostObject> hostObject(mlir::ModuleOp core, const VectorUnit &unit) {
  Generated generated;
  if (Status status = generate(core, unit, generated); !status)
    return status.error();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager codegen;
  if (generated.machine->addPassesToEmitFile(codegen, stream, nullptr,
                                             llvm::CodeGenFileType::ObjectFile,
                                             /*DisableVerify=*/true))
    return Error(Code::defect, "LLVM has no object files for this CPU");
  codegen.run(*generated.module);
  return HostObject{std::string(bytes.begin(), bytes.end()), generated.workspaceBytes};
}

Result<std::string> hostLLVMText(mlir::ModuleOp core, const VectorUnit &unit) {
  Generated generated;
  if (Status status = generate(core, unit, generated); !status)
    return status.error();
  std::string text;
  llvm::raw_string_ostream stream(text);
  generated.module->print(stream, nullptr);
  return text;
}

} // namespace tesela
