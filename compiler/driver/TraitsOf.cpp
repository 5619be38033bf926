//===- TraitsOf.cpp - The traits of a variant for its schedule ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/TraitsOf.h"

#include "visits/TileProgram.h"

#include <algorithm>

namespace tesela {

/// Whether `node` is a reduction whose terms depend on a key or on the score.
static bool isReductionForPairs(const Node &node) {
  return isReduction(node.op) &&
         (node.dependsOnScore || (node.indices >> static_cast<int>(Index::k) & 1) != 0);
}

static bool readsBooleans(const Variant &variant) {
  return std::ranges::any_of(variant.parameters, [](const Parameter &parameter) {
    return parameter.isCapture && parameter.type == ElementType::boolean;
  });
}

/// Whether the score reads 16-bit elements at the key.
static bool readsHalves(const Variant &variant) {
  return std::ranges::any_of(variant.nodesOf(variant.score), [&](NodeId id) {
    const Node &node = variant.nodes[id];
    return node.op == Operator::read && elementSize(variant.parameters[node.integer].type) == 2 &&
           (node.indices >> static_cast<int>(Index::k) & 1) != 0;
  });
}

/// Keys of the narrowest block that the heuristics choose. If a mask needs no test for such blocks
/// (a remainder by a divisor that is not larger), it needs none for wider blocks. All other masks
/// have the same form for blocks of every extent.
static constexpr int64_t narrowestBlock = 32;

/// Nodes of a tested mask with which the widest blocks spill no registers (AssemblyTest).
static constexpr size_t shortMask = 20;

Result<VariantTraits> traitsOf(const Variant &variant, bool asksForTiles,
                               mlir::MLIRContext &context) {
  VariantTraits traits = {.isMasked = !variant.maskIsTrue(),
                          .hasScore = !variant.scoreIsIdentity(),
                          .hasExactScore = variant.scoreIsExact,
                          .hasCaptures =
                              std::ranges::any_of(variant.parameters, &Parameter::isCapture),
                          .readsBooleans = readsBooleans(variant),
                          .readsHalves = readsHalves(variant),
                          .hasReductions = std::ranges::any_of(variant.nodes, isReductionForPairs)};
  if (!asksForTiles || (!traits.isMasked && !traits.hasScore))
    return traits;
  Result<std::unique_ptr<TileProgram>> tiles =
      TileProgram::create(variant, context, {.queries = 128, .keys = narrowestBlock});
  if (!tiles)
    return tiles.error();
  traits.isTested = (*tiles)->form() == TileForm::classified;
  traits.testsMuch =
      traits.isTested && (traits.readsBooleans || variant.nodesOf(variant.mask).size() > shortMask);
  traits.isScattered = traits.isTested || (*tiles)->runs() > 1 || (*tiles)->drops() > 1;
  return traits;
}

} // namespace tesela
