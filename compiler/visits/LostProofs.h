//===- LostProofs.h - Advice for masks without bounds -----------*- C++ -*-===//
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

/// A part of a variant for which the analysis has no bounds, and the reason.
struct LostPlace {
  SourceLocation place;
  std::string reason;
};

/// The places in the order of the text, each once, with advice how to write the operation there so
/// that the proof succeeds. Places that depend on `s` are left out: nothing is known about `s`.
std::vector<LostProof> lostProofs(const Variant &variant, const std::vector<LostPlace> &places);

/// The lost proofs of the kernel in `inlined`, whose hooks must be filled (tile-inline-variant).
/// They are found by running the analysis on it.
std::vector<LostProof> findLostProofs(const Variant &variant, mlir::ModuleOp inlined);

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_LOSTPROOFS_H
