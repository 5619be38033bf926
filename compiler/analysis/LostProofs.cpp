//===- LostProofs.cpp - What to write instead -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/LostProofs.h"

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
    return "compare what stands inside of it, or let it depend on parameters, b and h alone";
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
    // A conversion stands at the place of what it converts.
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
  for (auto &[place, proof] : proofs)
    result.push_back(std::move(proof));
  return result;
}

} // namespace tesela
