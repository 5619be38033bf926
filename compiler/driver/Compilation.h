//===- Compilation.h - One compilation --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_COMPILATION_H
#define TESELA_COMPILER_DRIVER_COMPILATION_H

#include "tesela/compiler/Compile.h"

#include "driver/Attempts.h"
#include "driver/ChosenKernel.h"
#include "driver/GradientSums.h"
#include "driver/Interface.h"
#include "driver/Summaries.h"
#include "schedule/Schedule.h"
#include "targets/common/KernelSignature.h"
#include "targets/host/HostTarget.h"
#include "targets/nvvm/ChipFacts.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <map>

namespace tesela {

/// One compilation: its context, its module, its diagnostics and its clock.
class Compilation {
public:
  Compilation(const Attempt &attempt, CompileTimes *times)
      : specification(attempt.specification), mustOverlap(attempt.mustOverlap),
        mustFitTwice(attempt.mustFitTwice), times(times),
        context(mlir::MLIRContext::Threading::DISABLED),
        diagnostics(&context, [this](mlir::Diagnostic &diagnostic) {
          llvm::raw_string_ostream(messages) << (messages.empty() ? "" : "; ") << diagnostic;
          return mlir::success();
        }) {}

  Status checkSpecification();
  Status checkHeadDims();
  Status parse();  ///< the variant's text → attn
  Status choose(); ///< the schedule
  Status bind();   ///< with the template → tile: bound, verified, with the variant in its hooks
  Status lowerCore(); ///< → maps, reductions, loops, which targets lower
  Status lowerPipe(); ///< GPU: → pipe
  Status lowerNVVM(); ///< GPU: → LLVM IR
  Result<std::string> ptx();
  Result<HostObject> hostCode();

  ChosenKernel chosen() { return {std::move(variant), traits, schedule}; }
  /// Needs the signatures. It knows the needs of the code only as far as it is lowered.
  Artifact makeArtifact();
  /// Dynamic shared memory of the kernel `symbol`, in bytes. Call it after lowerPipe.
  int64_t sharedBytesOf(const std::string &symbol) { return sharedBytes.at(symbol); }
  Result<std::string> emitStage(Stage stage);

private:
  bool isHost() const { return specification.target.kind == Target::Kind::host; }
  /// A template without hooks needs no variant.
  bool hasNoVariant() const {
    return !specification.isAttention() &&
           llvm::StringRef(specification.variantText).trim().empty();
  }
  enum class Verify { inDebugBuilds, always };
  Status run(llvm::function_ref<void(mlir::OpPassManager &)> addPasses, const char *stage,
             Verify verify = Verify::inDebugBuilds);
  Error failure(const char *stage);
  Status checkParameterBytes(const KernelSignature &signature);
  Status addSummaryKernels();
  Result<mlir::OwningOpRef<mlir::ModuleOp>> parseTemplate(const std::string &name);
  Status addJoinKernel();
  Status findGradients();
  Status addGradientKernels();
  Status checkHooks();
  Status checkDropout();
  Status placeViews();
  Status checkProducts();
  Status checkSharedBytes();
  Status checkOverlap();
  Status checkLowerable();
  void markOrderOfLaunches();
  void markConversions();
  void markResidents();
  std::string moduleText();
  /// The template's kernels. Kernels of summaries come after them and are not included.
  llvm::SmallVector<tile::KernelOp> kernels() {
    auto all = llvm::to_vector(module->getOps<tile::KernelOp>());
    all.truncate(kernelCount);
    return all;
  }

  /// Records the time since the last call under `stage`.
  void note(const char *stage) {
    auto now = std::chrono::steady_clock::now();
    if (times)
      times->stages.push_back(
          {stage, std::chrono::duration<double, std::milli>(now - lastNote).count()});
    lastNote = now;
  }

  const KernelSpecification &specification;
  const bool mustOverlap, mustFitTwice;
  CompileTimes *times;
  std::chrono::steady_clock::time_point lastNote = std::chrono::steady_clock::now();
  mlir::MLIRContext context;
  std::string messages;
  std::string templateFile; ///< empty for a built-in template
  mlir::ScopedDiagnosticHandler diagnostics;
  Variant variant;
  VariantTraits traits;
  Schedule schedule;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  size_t kernelCount = 0;                  ///< kernels of the template
  std::vector<KernelSignature> signatures; ///< of the template's kernels
  Interface interface;
  SummaryPlan summaries;
  std::vector<ParameterGradient> gradients; ///< those that the template's kernels sum
  GradientSums gradientSums;
  std::map<std::string, int64_t> sharedBytes;
  ChipFacts chip{};
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule;
};

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_COMPILATION_H
