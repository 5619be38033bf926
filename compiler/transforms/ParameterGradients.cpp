//===- ParameterGradients.cpp - Gradients of parameters ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/ParameterGradients.h"

#include "analysis/FollowsFrom.h"

using namespace mlir;

namespace tesela {

// The numbers of a score's arguments.
static constexpr unsigned scorePlace = 0, batchPlace = 1, headPlace = 2, queryPlace = 4,
                          keyPlace = 5;

/// Whether `value` is the same for all pairs of a batch and a head.
static bool isOfHead(Value value, Block &body) {
  return !followsFrom(value, [&](Value source) {
    return source == body.getArgument(scorePlace) || source == body.getArgument(queryPlace) ||
           source == body.getArgument(keyPlace);
  });
}

/// Finds out which work item owns the elements to which `partial` adds.
static void findOwner(ParameterGradient &result, attn::PartialOp partial,
                      attn::CaptureAttr capture) {
  auto &body = *partial->getBlock();
  auto isExtent = [&](unsigned axis, StringRef name) {
    return cast<StringAttr>(capture.getExtents()[axis]).getValue() == name;
  };
  int64_t queries = 0, keys = 0;
  int64_t batches = 0, heads = 0, others = 0;
  for (auto [axis, index] : llvm::enumerate(partial.getIndices())) {
    if (index == body.getArgument(queryPlace) && isExtent(axis, "Sq"))
      ++queries;
    else if (index == body.getArgument(keyPlace) && isExtent(axis, "Sk"))
      ++keys;
    else if (index == body.getArgument(batchPlace) && isExtent(axis, "B"))
      ++batches;
    else if (index == body.getArgument(headPlace) && isExtent(axis, "H"))
      ++heads;
    else if (isOfHead(index, body))
      ++others;
    else
      return;
  }
  result.isDirect = queries == 1 && keys == 1;
  result.sumsBatches = result.isDirect && batches == 0;
  result.sumsHeads = result.isDirect && heads == 0;
  result.coversAll = result.isDirect && batches <= 1 && heads <= 1 && others == 0;
}

SmallVector<ParameterGradient> parameterGradients(attn::VariantOp variant,
                                                  attn::GradientOp gradient,
                                                  ArrayRef<std::string> names) {
  SmallVector<ParameterGradient> results;
  for (const std::string &name : names) {
    ParameterGradient &result = results.emplace_back();
    result.name = name;
    auto partialsOf = [&](Region &region) {
      SmallVector<attn::PartialOp> found;
      region.walk([&](attn::PartialOp partial) {
        if (partial.getName() == name)
          found.push_back(partial);
      });
      return found;
    };
    SmallVector<attn::PartialOp> ofScore = partialsOf(gradient.getScore());
    result.isInScore = !ofScore.empty();
    result.isInSink = !partialsOf(gradient.getSink()).empty();
    auto capture = dyn_cast<attn::CaptureAttr>(variant.findParameter(name));
    result.isCapture = bool(capture);
    if (!capture)
      continue;
    result.rank = capture.getExtents().size();
    if (ofScore.size() == 1 && !result.isInSink &&
        ofScore.front()->getParentRegion() == &gradient.getScore())
      findOwner(result, ofScore.front(), capture);
  }
  return results;
}

} // namespace tesela
