//===- LostProofs.h - What to write instead ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_LOSTPROOFS_H
#define TESELA_COMPILER_VISITS_LOSTPROOFS_H

#include "frontend/Variant.h"
#include "tesela/TileMap.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace tesela {

/// A part of a variant of which the analysis knows nothing, and why.
struct LostPlace {
  SourceLocation place;
  std::string reason;
};

/// In the text's order, each place once, with what keeps the proof there: by the operation that
/// stands at the place. What is computed from `s` is left out: no text could prove anything of it.
std::vector<LostProof> lostProofs(const Variant &variant, const std::vector<LostPlace> &places);

/// What the analysis loses of the kernel in `inlined`, whose hooks are filled
/// (tile-inline-variant).
std::vector<LostProof> findLostProofs(const Variant &variant, mlir::ModuleOp inlined);

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_LOSTPROOFS_H
