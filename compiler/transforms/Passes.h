//===- Passes.h - Target-independent passes ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_PASSES_H
#define TESELA_COMPILER_TRANSFORMS_PASSES_H

#include "tile/Tile.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::arith {
class ArithDialect;
}
namespace mlir::math {
class MathDialect;
}
namespace mlir::scf {
class SCFDialect;
}

namespace tesela {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "transforms/Passes.h.inc"

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_PASSES_H
