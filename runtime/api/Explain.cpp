//===- Explain.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Explain.h"

#include "api/State.h"
#include "api/TileArguments.h"
#include "check/ReferenceInputs.h"
#include "frontend/Constants.h"
#include "host/ThreadPool.h"
#include "launch/CheckedParameters.h"
#include "system/UnfinishedWork.h"
#include "tesela/compiler/Explain.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

namespace tesela {

static Result<Extents> checkExtents(const ExplainArguments &arguments) {
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
    return invalid(
        "there are " + std::to_string(extents.H) + " query heads and " +
        std::to_string(extents.Hkv) +
        " key/value heads: the number of query heads must be a multiple of the number of "
        "key/value heads");
  return extents;
}

Result<CheckedArguments> checkTileArguments(const Variant &variant,
                                            const ExplainArguments &arguments) {
  Result<Extents> extents = checkExtents(arguments);
  if (!extents)
    return extents.error();
  CheckedArguments checked;
  checked.extents = *extents;
  LaunchArguments launch;
  launch.scalars = arguments.scalars;
  launch.captures = arguments.captures;
  if (Status status = checkParameters(variant.parameters, launch, checked); !status)
    return status.error();
  return checked;
}

namespace {

/// The most pairs in partial tiles of all heads that are counted: about 10 s of one core.
constexpr int64_t maxCountedPairs = int64_t(1) << 27;

/// The progress of a stage in pieces. The thread that finishes a piece reports it.
class Pieces {
public:
  Pieces(const ExplainArguments &arguments, ExplainProgress::Stage stage, int64_t all)
      : arguments(arguments), stage(stage), all(all) {}

  void oneIsDone() {
    if (!arguments.progress)
      return;
    std::lock_guard lock(mutex);
    ++done;
    if (done * 100 / all != (done - 1) * 100 / all)
      arguments.progress({stage, double(done) / double(all)});
  }

private:
  const ExplainArguments &arguments;
  const ExplainProgress::Stage stage;
  const int64_t all;
  int64_t done = 0;
  std::mutex mutex;
};

/// Counts the kept pairs of a launch by the mask's text. Only partial tiles have to be evaluated.
class KeptPairs {
public:
  KeptPairs(const TileMap &map, const Extents &extents, const Interpreter &interpreter,
            ThreadPool &pool)
      : map(map), extents(extents), interpreter(interpreter), pool(pool) {}

  /// For each head; -1 where pairs are not counted.
  Result<std::vector<int64_t>> count(const ExplainArguments &arguments) const {
    int64_t pairsOfTile = map.blockM * map.blockN, budget = maxCountedPairs, tiles = 0;
    std::vector<int64_t> kept;
    for (const HeadTiles &head : map.heads) {
      bool isCounted = map.cell == 1 && head.counts.partial <= budget / pairsOfTile;
      kept.push_back(isCounted ? 0 : -1);
      if (!isCounted)
        continue;
      budget -= head.counts.partial * pairsOfTile;
      tiles += head.counts.partial;
    }
    Pieces pieces(arguments, ExplainProgress::Stage::pairs, tiles);
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i] < 0)
        continue;
      Result<int64_t> ofHead = countHead(map.heads[i], pieces);
      if (!ofHead)
        return ofHead.error();
      kept[i] = *ofHead;
    }
    return kept;
  }

private:
  int64_t rowsOf(int64_t row) const { return std::min(map.blockM, extents.Sq - row * map.blockM); }
  int64_t keysOf(int64_t column) const {
    return std::min(map.blockN, extents.Sk - column * map.blockN);
  }

  Result<int64_t> countHead(const HeadTiles &tiles, Pieces &pieces) const {
    std::vector<int64_t> partial; // numbers of the partial tiles
    int64_t kept = 0;
    for (int64_t row = 0; row < map.rows; ++row)
      for (int64_t column = 0; column < map.columns; ++column) {
        TileKind kind = map.kind(tiles, row, column);
        if (kind == TileKind::partial)
          partial.push_back(row * map.columns + column);
        else if (kind == TileKind::full)
          kept += rowsOf(row) * keysOf(column);
      }
    Point where;
    where.b = std::max(tiles.batch, 0);
    where.h = std::max(tiles.head, 0);
    where.hkv = where.h / (extents.H / extents.Hkv);
    std::atomic<int64_t> found = 0;
    Status status = pool.run(int64_t(partial.size()), 0, [&](int64_t item, void *) {
      found += countTile(where, partial[item] / map.columns, partial[item] % map.columns);
      pieces.oneIsDone();
    });
    if (!status)
      return status.error();
    return kept + found;
  }

  int64_t countTile(const Point &where, int64_t row, int64_t column) const {
    int64_t kept = 0;
    Point point = where;
    point.k = int32_t(column * map.blockN);
    for (int64_t q = 0; q < rowsOf(row); ++q) {
      point.q = int32_t(row * map.blockM + q);
      kept += interpreter.keptKeys(point, keysOf(column));
    }
    return kept;
  }

  const TileMap &map;
  const Extents &extents;
  const Interpreter &interpreter;
  ThreadPool &pool;
};

} // namespace

Result<Explanation> explain(const KernelOptions &options, const ExplainArguments &arguments,
                            int threads) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  if (Status status = ThreadPool::checkThreads(threads); !status)
    return status.error();
  if (Status status = checkIsAttention(options, "the picture of a mask's tiles"); !status)
    return status.error();
  KernelOptions ofPass = options;
  if (arguments.pass != TilePass::forward)
    ofPass.algorithm = backwardAlgorithm;
  Result<KernelSpecification> specification = makeSpecification(ofPass, "host");
  if (!specification)
    return specification.error();
  Result<Variant> variant =
      parseVariant(options.variantText, options.variantFile, specification->constants);
  if (!variant)
    return variant.error();
  Result<CheckedArguments> checked = checkTileArguments(*variant, arguments);
  if (!checked)
    return checked.error();
  Bindings bindings = bindingsOf(*variant, *checked);

  ThreadPool pool(threads);
  ExplainRequest request;
  request.specification = std::move(*specification);
  request.pass = arguments.pass;
  request.bindings = bindings;
  request.inParallel = [&](int64_t items, const std::function<void(int64_t)> &work) {
    return pool.run(items, 0, [&](int64_t item, void *) { work(item); });
  };
  if (arguments.progress)
    request.progress = [&](double done) {
      arguments.progress({ExplainProgress::Stage::tiles, done});
    };
  Result<ExplainedTiles> tiles = explainTiles(request);
  if (!tiles)
    return tiles.error();
  Result<Interpreter> interpreter = Interpreter::create(*variant, bindings);
  if (!interpreter)
    return interpreter.error();

  Explanation result;
  result.variantName = variant->name;
  result.target = request.specification.target.name();
  result.schedule = std::move(tiles->schedule);
  result.map = std::move(tiles->map);
  result.lostProofs = std::move(tiles->renderedProofs);
  Result<std::vector<int64_t>> kept =
      KeptPairs(result.map, checked->extents, *interpreter, pool).count(arguments);
  if (!kept)
    return kept.error();
  result.keptPairs = std::move(*kept);
  result.keeps = [mask = std::move(*interpreter),
                  group = std::max(checked->extents.H / checked->extents.Hkv, 1)](
                     int32_t b, int32_t h, int32_t q, int32_t k) {
    return mask.mask({b, h, h / group, q, k});
  };
  return result;
}

} // namespace tesela
