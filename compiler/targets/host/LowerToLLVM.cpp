//===- LowerToLLVM.cpp - From the core to the LLVM dialect ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/LowerToLLVM.h"
#include "frontend/emit/ExpandArithmetic.h"
#include "targets/host/KernelLowering.h"
#include "targets/host/MathExpansion.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace tesela {

/// Converts loops to branches and arithmetic to LLVM instructions.
static LogicalResult convertLoops(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  return applyFullConversion(module, target, std::move(patterns));
}

Result<int64_t> lowerToLLVMDialect(ModuleOp core, const VectorUnit &unit) {
  MLIRContext *context = core.getContext();
  context->loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect,
                       math::MathDialect, scf::SCFDialect>();
  auto kernels = llvm::to_vector(core.getOps<tile::KernelOp>());
  std::string diagnostics;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (!diagnostics.empty())
      diagnostics += "; ";
    diagnostics += diagnostic.str();
  });
  int64_t workspaceBytes = 0;
  bool lowered = !kernels.empty();
  for (tile::KernelOp kernel : kernels) {
    expandExactMath(kernel.getBody());
    KernelLowering lowering(kernel, unit);
    lowered = lowered && succeeded(lowering.run());
    workspaceBytes = std::max(workspaceBytes, lowering.workspaceBytes());
    kernel.erase();
  }
  if (lowered) {
    expandMath(core, unit);
    lowered = succeeded(convertLoops(core));
  }
  if (!lowered)
    return Error(Code::defect, "the host target could not lower the kernel: " + diagnostics);
  return workspaceBytes;
}

} // namespace tesela
