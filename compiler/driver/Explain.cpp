//===- Explain.cpp - What a kernel would do with the tiles ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Explain.h"

#include "analysis/TileProgram.h"
#include "driver/ChosenKernel.h"
#include "driver/LargeStack.h"

#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>

#include <algorithm>

namespace tesela {

/// Tiles that a map holds at most: a quarter of a gigabyte of kinds.
static constexpr double maxTiles = double(1 << 28);

/// Whether the mask, or a score that can be -inf, is computed from one of these indices.
static bool maskUses(const Variant &variant, std::initializer_list<Index> indices) {
  auto uses = [&](NodeId root) {
    return std::ranges::any_of(variant.nodesOf(root), [&](NodeId id) {
      const Node &node = variant.nodes[id];
      return node.op == Operator::index &&
             std::ranges::find(indices, Index(node.integer)) != indices.end();
    });
  };
  return uses(variant.mask) || (variant.scoreMayMask() && uses(variant.score));
}

static std::string render(const std::vector<LostProof> &proofs,
                          const KernelSpecification &specification) {
  Diagnostics diagnostics(specification.variantText, specification.variantFile);
  for (const LostProof &proof : proofs)
    diagnostics.note({{proof.line, proof.column}, 1},
                     "nothing is proved from this, " + proof.reason +
                         (proof.remedy.empty() ? "" : ": " + proof.remedy));
  return diagnostics.render();
}

/// The tiles of one batch and head.
static Status fillKinds(TileProgram &program, const Bindings &bindings, const Point &where,
                        const TileMap &map, HeadTiles &tiles) {
  tiles.kinds.assign(size_t(map.rows * map.columns), TileKind::empty);
  for (int64_t row = 0; row < map.rows; ++row) {
    Result<std::vector<VisitedBlock>> visited =
        program.evaluate(bindings, where, int32_t(row * map.blockM));
    if (!visited)
      return visited.error();
    for (const VisitedBlock &block : *visited) {
      if (block.index < 0 || block.index >= map.columns)
        return Error(Code::defect, fmt::format("the kernel visits key block {} of {}; this is a "
                                               "defect of Tesela, please report it",
                                               block.index, map.columns));
      tiles.kinds[size_t(row * map.columns + block.index)] =
          block.partial ? TileKind::partial : TileKind::full;
    }
  }
  return Status::success();
}

/// explainTiles(), on the stack that there is.
static Result<ExplainedTiles> explainHere(const ExplainRequest &request) {
  Result<ChosenKernel> kernel = chooseKernel(request.specification);
  if (!kernel)
    return kernel.error();
  const Variant &variant = kernel->variant;
  const Extents &extents = request.bindings.extents;

  ExplainedTiles result;
  result.schedule = kernel->schedule.text();
  TileMap &map = result.map;
  map.blockM = kernel->schedule.blockM / kernel->schedule.heads; // positions
  map.blockN = kernel->schedule.blockN;
  map.rows = (extents.Sq + map.blockM - 1) / map.blockM;
  map.columns = (extents.Sk + map.blockN - 1) / map.blockN;
  bool perBatch = maskUses(variant, {Index::b});
  bool perHead = maskUses(variant, {Index::h, Index::hkv});
  int32_t batches = perBatch ? extents.B : std::min(extents.B, 1);
  int32_t heads = perHead ? extents.H : std::min(extents.H, 1);
  double tiles = double(batches) * double(heads) * double(map.rows) * double(map.columns);
  if (tiles > maxTiles)
    return Error(Code::unsupported,
                 fmt::format("{}: the launch has {:.3g} tiles, at most {:.3g} are told one by one: "
                             "make the lengths, the batch or the heads smaller",
                             request.specification.variantFile, tiles, maxTiles));

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<std::unique_ptr<TileProgram>> program = TileProgram::create(
      variant, context,
      {.queries = map.blockM, .keys = map.blockN, .heads = kernel->schedule.heads});
  if (!program)
    return program.error();
  map.form = (*program)->form();
  map.runs = (*program)->runs();
  map.lostProofs = (*program)->lostProofs();
  result.renderedProofs = render(map.lostProofs, request.specification);
  for (int32_t b = 0; b < batches; ++b)
    for (int32_t h = 0; h < heads; ++h) {
      HeadTiles &headTiles = map.heads.emplace_back();
      headTiles.batch = perBatch ? b : -1;
      headTiles.head = perHead ? h : -1;
      // Heads that share a block of queries share its tiles.
      int32_t sharing = extents.H / extents.Hkv, inSharing = h % sharing;
      Point where{.b = b, .h = h - inSharing % int32_t(kernel->schedule.heads), .hkv = h / sharing};
      if (Status status = fillKinds(**program, request.bindings, where, map, headTiles); !status)
        return status.error();
    }
  return result;
}

Result<ExplainedTiles> explainTiles(const ExplainRequest &request) {
  return onLargeStack([&] { return explainHere(request); });
}

} // namespace tesela
