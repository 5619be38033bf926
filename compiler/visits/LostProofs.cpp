//===- LostProofs.cpp - Advice for masks without bounds ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "visits/LostProofs.h"

#include "analysis/MaskRegions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <utility>

namespace tesela {

static std::string remedyOf(const Node &node) {
  switch (node.op) {
  case Operator::exp:
  case Operator::log:
  case Operator::sqrt:
  case Operator::tanh:
  case Operator::sin:
  case Operator::cos:
  case Operator::floor:
    return "compare its argument instead, or use only parameters, b and h in the argument";
  case Operator::divide:
    if (node.type == ScalarType::f32)
      return "multiply instead, as 'a < c * b' for 'a / b < c' where b is positive";
    [[fallthrough]];
  case Operator::remainder:
    return "divide by a number, a parameter or an extent";
  case Operator::multiply:
    return "bound q, k or q - k by comparisons of their own";
  case Operator::read:
    return "let the index be a sum of q or k and of what is the same for a tile";
  default:
    return "";
  }
}

std::vector<LostProof> lostProofs(const Variant &variant, const std::vector<LostPlace> &places) {
  std::map<std::pair<int, int>, LostProof> proofs;
  for (const auto &[place, reason] : places) {
    LostProof proof{.line = place.line, .column = place.column, .reason = reason, .remedy = ""};
    bool needsScore = false;
    // A conversion has the location of its operand.
    for (const Node &node : variant.nodes) {
      if (node.location.line != place.line || node.location.column != place.column)
        continue;
      needsScore |= node.dependsOnScore;
      if (proof.remedy.empty())
        proof.remedy = remedyOf(node);
    }
    if (!needsScore)
      proofs.try_emplace({place.line, place.column}, std::move(proof));
  }
  std::vector<LostProof> result;
  result.reserve(proofs.size());
  for (auto &[place, proof] : proofs)
    result.push_back(std::move(proof));
  return result;
}

/// The places of the text for which a test of boxes of `rows` keys has no bounds.
static std::vector<LostPlace> lostPlaces(MaskRegions &regions, mlir::OpBuilder &builder,
                                         mlir::Location loc, int64_t rows) {
  mlir::Block test; // the emitted test is not used, only the list of lost bounds
  mlir::Type i32 = builder.getI32Type();
  test.addArguments({i32, i32}, {loc, loc});
  mlir::OpBuilder inner(builder.getContext());
  inner.setInsertionPointToEnd(&test);
  regions.emitTest(inner, test.getArgument(0), test.getArgument(1), rows);
  std::vector<LostPlace> places;
  for (const LostBound &bound : regions.lostBounds())
    if (auto place = bound.location->findInstanceOf<mlir::FileLineColLoc>())
      places.push_back({{int(place.getLine()), int(place.getColumn())}, bound.reason});
  return places;
}

std::vector<LostProof> findLostProofs(const Variant &variant, mlir::ModuleOp inlined) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = inlined.clone();
  std::vector<LostPlace> places;
  copy->walk([&](tile::BlocksOp loop) {
    auto masks = llvm::to_vector(loop.getBody().getOps<tile::MaskOp>());
    auto scores = llvm::to_vector(loop.getBody().getOps<tile::ScoreOp>());
    if (masks.size() != 1 || masks.front().getBody().empty())
      return;
    bool hasScore = scores.size() == 1 && !scores.front().getBody().empty();
    mlir::OpBuilder builder(loop);
    MaskRegions regions(builder, masks.front(), hasScore ? scores.front() : tile::ScoreOp(),
                        loop.getRows());
    places = lostPlaces(regions, builder, loop.getLoc(),
                        mlir::cast<tile::BlockType>(loop.getColumns().getType()).getRows());
  });
  return lostProofs(variant, places);
}

} // namespace tesela
