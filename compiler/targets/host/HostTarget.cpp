//===- HostTarget.cpp - From the core to an object file ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/HostTarget.h"

#include "targets/common/CodeGeneration.h"
#include "targets/host/LowerToLLVM.h"

#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace tesela {

static std::string hostFeatures() {
  llvm::SubtargetFeatures features;
  // Sorted by name, because the text is part of cache keys.
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

static Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine() {
  llvm::Triple triple(llvm::sys::getProcessTriple());
  Result<const llvm::Target *> target = findTarget(triple);
  if (!target)
    return target.error();
  llvm::TargetOptions options;
  // The variant's arithmetic is exact, so LLVM may not fuse: only fma ops are fused.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine((*target)->createTargetMachine(
      triple, llvm::sys::getHostCPUName(), hostFeatures(), options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine)
    return Error(Code::unsupported, "no code can be generated for " + triple.str());
  return machine;
}

/// Only the passes from which the lowering's plain loops gain.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
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
  runOnFunctions(module, machine, std::move(passes));
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

  generated.module = translateToLLVM(core, *generated.machine, generated.context);
  if (!generated.module)
    return Error(Code::defect, "the host kernel could not be translated to LLVM IR");
  optimize(*generated.module, *generated.machine);
  return Status::success();
}

Result<HostObject> hostObject(mlir::ModuleOp core, const VectorUnit &unit) {
  Generated generated;
  if (Status status = generate(core, unit, generated); !status)
    return status.error();
  Result<std::string> object =
      generateCode(*generated.module, *generated.machine, llvm::CodeGenFileType::ObjectFile);
  if (!object)
    return object.error();
  return HostObject{std::move(*object), generated.workspaceBytes};
}

Result<std::string> hostLLVMText(mlir::ModuleOp core, const VectorUnit &unit) {
  Generated generated;
  if (Status status = generate(core, unit, generated); !status)
    return status.error();
  return printModule(*generated.module);
}

} // namespace tesela
