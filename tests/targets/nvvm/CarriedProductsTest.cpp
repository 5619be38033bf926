//===- CarriedProductsTest.cpp - Loops carry products ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/CarriedProducts.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

using namespace tesela;

namespace {

/// What the blocks of a function have after the pass.
struct Blocks {
  std::map<std::string, int> products; ///< multiplications of each block that has some
  std::string subtracted; ///< "phi" or "fmul": where the operand of the fneg comes from
};

bool operator==(const Blocks &a, const Blocks &b) {
  return a.products == b.products && a.subtracted == b.subtracted;
}

std::ostream &operator<<(std::ostream &out, const Blocks &blocks) {
  for (auto &[name, count] : blocks.products)
    out << name << ": " << count << ", ";
  return out << "subtracts a " << blocks.subtracted;
}

/// Runs the pass on a loop in which `product` computes %e. There is another product, of %m.
Blocks after(const std::string &product, const std::string &assembly = "wgmma.mma_async …") {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  std::string text = R"(
declare float @maximum(i32)
define void @f(i32 %n, float %c, ptr %out) {
entry:
  br label %block
block:
  %i = phi i32 [ 0, %entry ], [ %i.next, %done ]
  %m = phi float [ -1.0, %entry ], [ %m.next, %done ]
  call void asm sideeffect ")" +
                     assembly + R"(", ""()
  %isRare = icmp eq i32 %i, 7
  br i1 %isRare, label %rare, label %rest
rare:
  %other = call float @maximum(i32 %i)
  br label %rest
rest:
  %reference = phi float [ %m, %block ], [ %other, %rare ]
)" + product + R"(
  %minus = fneg float %e
  store float %minus, ptr %out
  %second = fmul float %m, %c
  store float %second, ptr %out
  %isHigher = icmp eq i32 %i, 9
  br i1 %isHigher, label %higher, label %done
higher:
  %new = call float @maximum(i32 %n)
  br label %done
done:
  %m.next = phi float [ %reference, %rest ], [ %new, %higher ]
  %i.next = add i32 %i, 1
  %more = icmp slt i32 %i.next, %n
  br i1 %more, label %block, label %end
end:
  ret void
}
)";
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, error, context);
  if (!module) {
    ADD_FAILURE() << error.getMessage().str();
    return {};
  }
  llvm::FunctionAnalysisManager analyses;
  llvm::PassBuilder().registerFunctionAnalyses(analyses);
  llvm::Function &function = *module->getFunction("f");
  nvvm::CarriedProducts().run(function, analyses);
  EXPECT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
  Blocks blocks;
  for (llvm::BasicBlock &block : function)
    for (llvm::Instruction &op : block) {
      if (op.getOpcode() == llvm::Instruction::FMul)
        ++blocks.products[block.getName().str()];
      if (op.getOpcode() == llvm::Instruction::FNeg)
        blocks.subtracted = llvm::cast<llvm::Instruction>(op.getOperand(0))->getOpcodeName();
    }
  return blocks;
}

// The product of -1 is computed in front of the loop, that of another number where it is computed.
TEST(CarriedProducts, AreComputedWhereTheirNumberIs) {
  Blocks expected{{{"entry", 2}, {"rare", 2}, {"higher", 2}}, "phi"};
  EXPECT_EQ(after("%e = fmul float %reference, %c"), expected);
  EXPECT_EQ(after("%e = fmul float %c, %reference"), expected);
  EXPECT_EQ(after("%e = fmul float %m, %c"), expected);
}

TEST(CarriedProducts, AreNotThoseOfChangingFactors) {
  Blocks expected{{{"rest", 2}}, "fmul"};
  EXPECT_EQ(after("%d = call float @maximum(i32 3)\n %e = fmul float %reference, %d"), expected);
}

TEST(CarriedProducts, AreNotThoseOfNumbersOfOneIteration) {
  Blocks expected{{{"rest", 2}}, "fmul"};
  EXPECT_EQ(after("%d = call float @maximum(i32 %i)\n %e = fmul float %d, %c"), expected);
}

TEST(CarriedProducts, AreTwo) {
  Blocks expected{{{"rest", 3}}, "fmul"};
  EXPECT_EQ(after("%e = fmul float %reference, %c\n %third = fmul float %reference, %c"), expected);
}

TEST(CarriedProducts, NeedWarpgroups) {
  Blocks expected{{{"rest", 2}}, "fmul"};
  EXPECT_EQ(after("%e = fmul float %reference, %c", "mma.sync.aligned …"), expected);
}

} // namespace
