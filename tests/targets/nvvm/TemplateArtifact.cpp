//===- TemplateArtifact.cpp -----------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "TemplateArtifact.h"

#include "targets/common/KernelSignature.h"
#include "targets/nvvm/NVVMTarget.h"
#include "targets/nvvm/Passes.h"
#include "transforms/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace tesela {

Result<Artifact> templateArtifact(const std::string &file, const std::vector<std::string> &bindings,
                                  int sm, const std::string &schedule) {
  auto failed = [&](const std::string &what) { return Error(Code::defect, file + ": " + what); };
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect,
                      mlir::scf::SCFDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
  if (!module)
    return failed("does not parse");
  tile::KernelOp kernel = *module->getOps<tile::KernelOp>().begin();
  if (!schedule.empty())
    kernel->setAttr("schedule", mlir::parseAttribute(schedule, &context));
  TileBindOptions options;
  options.bindings.assign(bindings.begin(), bindings.end());
  mlir::PassManager bind(&context);
  bind.addPass(createTileBind(options));
  if (mlir::failed(bind.run(*module)))
    return failed("cannot be bound");
  tile::ScheduleAttr chosen = kernel.getScheduleAttr();

  Artifact artifact;
  artifact.variantName = kernel.getSymName().str();
  artifact.target = {Target::Kind::cuda, sm};
  artifact.format = CodeFormat::ptx;
  Launch &launch = artifact.launches.emplace_back();
  launch.kernel = artifact.variantName;
  launch.items = workItems(kernel);
  launch.threads =
      chosen.getConsumers() > 0 ? 128 * (chosen.getConsumers() + 1) : 32 * chosen.getWarps();
  launch.slots = KernelSignature(kernel).slots();

  mlir::PassManager pipe(&context), lower(&context);
  mlir::OpPassManager &kernels = pipe.nest<tile::KernelOp>();
  kernels.addPass(createTileDecompose());
  kernels.addPass(createTileLowerBlocks());
  kernels.addPass(mlir::createCSEPass());
  addPipePasses(pipe);
  if (mlir::failed(pipe.run(*module)))
    return failed("does not become pipe");
  launch.sharedBytes = kernel->getAttrOfType<mlir::IntegerAttr>(sharedBytesAttr).getInt();
  addNVVMPasses(lower);
  if (mlir::failed(lower.run(*module)))
    return failed("does not become NVVM");
  Result<ChipFacts> chip = chipFacts(sm);
  if (!chip)
    return chip.error();
  chip->accelerated = chosen.getConsumers() > 0;
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> translated = nvvmModule(*module, *chip, llvmContext);
  if (!translated)
    return failed("does not become LLVM IR");
  Result<std::string> ptx = ptxOf(*translated, *chip);
  if (!ptx)
    return ptx.error();
  artifact.code = *ptx;
  return artifact;
}

} // namespace tesela
