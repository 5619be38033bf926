//===- Explain.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Explain.h"

#include "api/State.h"
#include "check/ReferenceInputs.h"
#include "frontend/Constants.h"
#include "host/ThreadPool.h"
#include "launch/CheckedParameters.h"
#include "tesela/compiler/Explain.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace tesela {

namespace {

/// Pairs in partial tiles of all heads that are looked at one by one: about 10 s of one core.
constexpr int64_t maxCountedPairs = int64_t(1) << 27;

Result<Extents> checkExtents(const ExplainArguments &arguments) {
  auto invalid = [](const std::string &message) { return Error(Code::invalidArgument, message); };
  Extents extents;
  for (auto [name, value, to] : {std::tuple("batch", arguments.batch, &extents.B),
                                 {"heads", arguments.heads, &extents.H},
                                 {"kvHeads", arguments.kvHeads, &extents.Hkv},
                                 {"length", arguments.length, &extents.Sq},
                                 {"kvLength", arguments.kvLength, &extents.Sk}}) {
    if (value < 0 || value > std::numeric_limits<int32_t>::max())
      return invalid(std::string(name) + " is " + std::to_string(value) +
                     ", it must lie in [0, 2147483647]");
    *to = int32_t(value);
  }
  if (extents.Hkv == 0 || extents.H % extents.Hkv != 0)
    return invalid("there are " + std::to_string(extents.H) + " query heads and " +
                   std::to_string(extents.Hkv) +
                   " key/value heads: the first must be a multiple of the second");
  return extents;
}

/// Kept pairs of one head. Empty and full tiles need no look. `budget`: pairs that may still be
/// looked at.
Result<int64_t> countKept(const TileMap &map, const HeadTiles &tiles, const Extents &extents,
                          const Interpreter &interpreter, ThreadPool &pool, int64_t &budget) {
  std::vector<int64_t> partial; // by number
  int64_t kept = 0;
  auto rowsOf = [&](int64_t row) { return std::min(map.blockM, extents.Sq - row * map.blockM); };
  auto keysOf = [&](int64_t column) {
    return std::min(map.blockN, extents.Sk - column * map.blockN);
  };
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; ++column) {
      TileKind kind = map.kind(tiles, row, column);
      if (kind == TileKind::partial)
        partial.push_back(row * map.columns + column);
      else if (kind == TileKind::full)
        kept += rowsOf(row) * keysOf(column);
    }
  int64_t pairsOfTile = int64_t(map.blockM) * map.blockN;
  if (int64_t(partial.size()) > budget / pairsOfTile)
    return int64_t(-1);
  budget -= int64_t(partial.size()) * pairsOfTile;

  Point where;
  where.b = std::max(tiles.batch, 0);
  where.h = std::max(tiles.head, 0);
  where.hkv = where.h / (extents.H / extents.Hkv);
  std::atomic<int64_t> found = 0;
  Status status = pool.run(int64_t(partial.size()), 0, [&](int64_t item, void *) {
    int64_t row = partial[item] / map.columns, column = partial[item] % map.columns;
    int64_t keptHere = 0;
    Point point = where;
    for (int64_t q = 0; q < rowsOf(row); ++q)
      for (int64_t k = 0; k < keysOf(column); ++k) {
        point.q = int32_t(row * map.blockM + q);
        point.k = int32_t(column * map.blockN + k);
        keptHere += interpreter.mask(point);
      }
    found += keptHere;
  });
  if (!status)
    return status.error();
  return kept + found;
}

} // namespace

Result<Explanation> explain(const KernelOptions &options, const ExplainArguments &arguments,
                            int threads) {
  if (Status status = ThreadPool::checkThreads(threads); !status)
    return status.error();
  Result<KernelSpecification> specification = makeSpecification(options, "host");
  if (!specification)
    return specification.error();
  Result<Variant> variant =
      parseVariant(options.variantText, options.variantFile, specification->constants);
  if (!variant)
    return variant.error();
  Result<Extents> extents = checkExtents(arguments);
  if (!extents)
    return extents.error();
  CheckedArguments checked;
  checked.extents = *extents;
  LaunchArguments launch;
  launch.scalars = arguments.scalars;
  launch.captures = arguments.captures;
  if (Status status = checkParameters(variant->parameters, launch, checked); !status)
    return status.error();
  Bindings bindings = bindingsOf(*variant, checked);

  Result<ExplainedTiles> tiles = explainTiles({*specification, bindings});
  if (!tiles)
    return tiles.error();
  Result<Interpreter> interpreter = Interpreter::create(*variant, bindings);
  if (!interpreter)
    return interpreter.error();

  Explanation result;
  result.variantName = variant->name;
  result.target = specification->target.name();
  result.schedule = std::move(tiles->schedule);
  result.map = std::move(tiles->map);
  result.lostProofs = std::move(tiles->renderedProofs);
  ThreadPool pool(threads);
  int64_t budget = maxCountedPairs;
  for (const HeadTiles &headTiles : result.map.heads) {
    Result<int64_t> kept = countKept(result.map, headTiles, *extents, *interpreter, pool, budget);
    if (!kept)
      return kept.error();
    result.keptPairs.push_back(*kept);
  }
  result.keeps = [mask = std::move(*interpreter), group = std::max(extents->H / extents->Hkv, 1)](
                     int32_t b, int32_t h, int32_t q, int32_t k) {
    return mask.mask({b, h, h / group, q, k});
  };
  return result;
}

} // namespace tesela
