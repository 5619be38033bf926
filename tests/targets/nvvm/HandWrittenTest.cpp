//===- HandWrittenTest.cpp - A kernel in the pipe dialect, by hand --------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// hand-written-forward.mlir is what the passes should make of the forward kernel. The kernel of the
// passes must have the same structure, and the hand-written one must not spill.
//
//===----------------------------------------------------------------------===//
#include "Ptx.h"
#include "Ptxas.h"

#include "targets/nvvm/NVVMTarget.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace tesela;

namespace {

class HandWritten : public testing::Test {
protected:
  HandWritten() : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                        pipe::PipeDialect, tile::TileDialect>();
  }

  mlir::OwningOpRef<mlir::ModuleOp> handWritten() {
    auto module = mlir::parseSourceFile<mlir::ModuleOp>(TESELA_TEST_HAND_WRITTEN, &context);
    EXPECT_TRUE(module);
    return module;
  }

  mlir::MLIRContext context;
};

/// The operations that make the structure, one per line, indented by depth: loops, branches,
/// products and pipe ops, with the numbers of the channels that they use.
std::string structureOf(mlir::ModuleOp module) {
  llvm::DenseMap<mlir::Value, int> channels;
  std::string text;
  module->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
    if (auto open = llvm::dyn_cast<pipe::OpenOp>(op))
      channels.insert({open.getChannel(), int(channels.size())});
    if (!llvm::isa<pipe::PipeDialect>(op->getDialect()) &&
        !llvm::isa<tile::DotOp, mlir::scf::ForOp, mlir::scf::WhileOp, mlir::scf::IfOp>(op))
      return;
    for (mlir::Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
      text += "  ";
    text += op->getName().getStringRef().str();
    for (mlir::Value operand : op->getOperands())
      if (channels.contains(operand))
        text += " " + std::to_string(channels.lookup(operand));
    text += "\n";
  });
  return text;
}

TEST_F(HandWritten, HasTheStructureThatThePassesMake) {
  mlir::OwningOpRef<mlir::ModuleOp> expected = handWritten();
  ASSERT_TRUE(expected);
  KernelSpecification specification =
      specificationOf("attention full() { mask = true }", 128, ElementType::bf16, 90);
  mlir::Operation *kernel = &*expected->getBody()->begin();
  specification.schedule = "block_m = 192, block_n = 80, stages = 2, warps = 12, consumers = 3, "
                           "reference = follow, overlap = true, persistent = true, "
                           "output_buffer = true, query_stages = 1";
  Result<std::string> emitted = emit(specification, Stage::pipe);
  ASSERT_TRUE(emitted.ok()) << emitted.error().message();
  auto made = mlir::parseSourceString<mlir::ModuleOp>(*emitted, &context);
  ASSERT_TRUE(made);
  EXPECT_EQ(structureOf(*made), structureOf(*expected));
  // Both kernels have the same schedule, so they are comparable.
  EXPECT_EQ((*made->getBody()->begin()).getAttr("schedule"), kernel->getAttr("schedule"));
}

TEST_F(HandWritten, AssemblesWithoutSpills) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  mlir::OwningOpRef<mlir::ModuleOp> module = handWritten();
  ASSERT_TRUE(module);
  mlir::PassManager passes(&context);
  mlir::OpPassManager &kernels = passes.nest<tile::KernelOp>();
  kernels.addPass(createPipePlaceBuffers());
  kernels.addPass(createPipeVerifyProtocol());
  addNVVMPasses(passes);
  ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
  Result<ChipFacts> chip = chipFacts(90);
  ASSERT_TRUE(chip.ok());
  chip->accelerated = true;
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> translated = nvvmModule(*module, *chip, llvmContext);
  ASSERT_TRUE(translated);
  Result<std::string> ptx = ptxOf(*translated, *chip);
  ASSERT_TRUE(ptx.ok());
  Assembled assembled = assemble(*ptx);
  EXPECT_TRUE(assembled.isClean()) << assembled.log;
  EXPECT_NE(assembled.log.find("0 bytes spill stores, 0 bytes spill loads"), std::string::npos)
      << assembled.log;
}

} // namespace
