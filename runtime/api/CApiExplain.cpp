//===- CApiExplain.cpp - tesela/c/explain.h --------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApiArguments.h"
#include "tesela/Explain.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_explanation {
  Explanation explanation;
  ExplainArguments arguments; ///< only the extents are valid
};

static_assert(int(TESELA_TILE_EMPTY) == int(TileKind::empty) &&
              int(TESELA_TILE_PARTIAL) == int(TileKind::partial) &&
              int(TESELA_TILE_FULL) == int(TileKind::full));
static_assert(int(TESELA_EVERY_TILE) == int(TileForm::everyTile) &&
              int(TESELA_KEY_RANGES) == int(TileForm::keyRanges) &&
              int(TESELA_CLASSIFIED_TILES) == int(TileForm::classified));

namespace {

constexpr const char *explanationMaker = "tesela_explain";

tesela_explanation_info explanationInfo(const Explanation &from) {
  auto to = zeroed<tesela_explanation_info>();
  to.variant = from.variantName.c_str();
  to.target = from.target.c_str();
  to.schedule = from.schedule.c_str();
  to.block_m = from.map.blockM;
  to.block_n = from.map.blockN;
  to.rows = from.map.rows;
  to.columns = from.map.columns;
  to.form = tesela_tile_form(from.map.form);
  to.runs = from.map.runs;
  to.head_count = from.map.heads.size();
  to.lost_proof_count = from.map.lostProofs.size();
  to.lost_proofs = from.lostProofs.c_str();
  to.cell = from.map.cell;
  return to;
}

tesela_head_tiles headTiles(const TileMap &map, const HeadTiles &from, int64_t keptPairs) {
  auto to = zeroed<tesela_head_tiles>();
  to.batch = from.batch;
  to.head = from.head;
  to.empty = from.counts.empty;
  to.partial = from.counts.partial;
  to.full = from.counts.full;
  to.kept_pairs = keptPairs;
  to.cells = reinterpret_cast<const uint8_t *>(from.kinds.data());
  to.kinds = map.cell == 1 ? to.cells : nullptr;
  return to;
}

} // namespace

tesela_code tesela_explain(const tesela_kernel_options *options,
                           const tesela_explain_arguments *arguments,
                           tesela_explanation **explanation) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(explanation, "explanation"); !status)
      return status;
    Result<KernelOptions> chosen = kernelOptions(options);
    if (!chosen)
      return chosen.error();
    tesela_explain_arguments given;
    if (Status status = readSized(arguments, given, "tesela_explain_arguments"); !status)
      return status;
    ReusedArguments parameters;
    if (Status status = parameters.addParameters(given.parameters, given.parameter_count, Device());
        !status)
      return status;
    ExplainArguments launch;
    launch.batch = given.batch;
    launch.heads = given.heads;
    launch.kvHeads = given.kv_heads;
    launch.length = given.length;
    launch.kvLength = given.kv_length;
    launch.scalars = parameters.arguments.scalars;
    launch.captures = parameters.arguments.captures;
    Result<Explanation> explained = explain(*chosen, launch, given.threads);
    if (!explained)
      return explained.error();
    *explanation = new tesela_explanation{std::move(*explained), std::move(launch)};
    return Status::success();
  });
}

void tesela_explanation_destroy(tesela_explanation *explanation) { delete explanation; }

tesela_code tesela_explanation_describe(const tesela_explanation *explanation,
                                        tesela_explanation_info *info) {
  return guarded([&]() -> Status {
    if (!explanation)
      return noHandle("explanation", explanationMaker);
    return writeSized(explanationInfo(explanation->explanation), info, "tesela_explanation_info");
  });
}

tesela_code tesela_explanation_head(const tesela_explanation *explanation, size_t index,
                                    tesela_head_tiles *tiles) {
  return guarded([&]() -> Status {
    if (!explanation)
      return noHandle("explanation", explanationMaker);
    const Explanation &from = explanation->explanation;
    if (Status status = checkIndex(index, from.map.heads.size(), "heads"); !status)
      return status;
    return writeSized(headTiles(from.map, from.map.heads[index], from.keptPairs[index]), tiles,
                      "tesela_head_tiles");
  });
}

tesela_code tesela_explanation_lost_proof(const tesela_explanation *explanation, size_t index,
                                          tesela_lost_proof *lost) {
  return guarded([&]() -> Status {
    if (!explanation)
      return noHandle("explanation", explanationMaker);
    const std::vector<LostProof> &proofs = explanation->explanation.map.lostProofs;
    if (Status status = checkIndex(index, proofs.size(), "lost proofs"); !status)
      return status;
    auto known = zeroed<tesela_lost_proof>();
    known.line = proofs[index].line;
    known.column = proofs[index].column;
    known.reason = proofs[index].reason.c_str();
    known.remedy = proofs[index].remedy.c_str();
    return writeSized(known, lost, "tesela_lost_proof");
  });
}

tesela_code tesela_explanation_keeps(const tesela_explanation *explanation, int64_t b, int64_t h,
                                     int64_t q, int64_t k, int *keeps) {
  return guarded([&]() -> Status {
    if (!explanation)
      return noHandle("explanation", explanationMaker);
    if (!keeps)
      return invalid("keeps is NULL: pass the address of an int");
    const ExplainArguments &arguments = explanation->arguments;
    for (auto [name, value, extent] : {std::tuple("b", b, arguments.batch),
                                       {"h", h, arguments.heads},
                                       {"q", q, arguments.length},
                                       {"k", k, arguments.kvLength}})
      if (value < 0 || value >= extent)
        return invalid(std::string(name) + " is " + std::to_string(value) +
                       ", it must lie in [0, " + std::to_string(extent) + ")");
    *keeps = explanation->explanation.keeps(int32_t(b), int32_t(h), int32_t(q), int32_t(k));
    return Status::success();
  });
}
