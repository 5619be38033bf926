//===- Explain.cpp - The kinds of a launch's tiles --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Explain.h"

#include "driver/ChosenKernel.h"
#include "driver/LargeStack.h"
#include "visits/TileProgram.h"

#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace tesela {

/// The most tiles that are counted (some minutes), and the most heads that the map separates.
static constexpr double maxTiles = double(int64_t(1) << 36), maxHeads = double(1 << 20);

/// The rows of a work item: few enough that all threads end at about the same time. Each thread has
/// its own copy of the program, which is small.
static constexpr int64_t rowsOfItem = 32;

/// Whether the mask, or a score that may be -inf, depends on one of these indices.
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
                     "no tile can be proved empty or full from this: " + proof.reason +
                         (proof.remedy.empty() ? "" : "; " + proof.remedy));
  return diagnostics.render();
}

namespace {

/// The blocks of one axis of a map: `count` blocks of `extent` positions, over `length` positions.
struct BlocksOfAxis {
  int64_t extent, count, length;

  /// The positions of the blocks from `first` to `end` - 1.
  int64_t positions(int64_t first, int64_t end) const {
    return std::min(end * extent, length) - first * extent;
  }
};

/// Some blocks of one head that visit blocks of the other axis: rows of the map, or columns of the
/// map if blocks of keys visit blocks of queries.
struct Rows {
  size_t head; ///< an index in TileMap::heads
  Point where;
  int64_t first, end; ///< blocks; `first` is a multiple of TileMap::cell
};

/// Counts the tiles of all heads and sets the kinds of their cells. All threads evaluate
/// rows.
class TileCount {
public:
  TileCount(const TileProgram &program, const ExplainRequest &request, TileMap &map)
      : program(program), request(request), map(map) {
    walking = {map.blockM, map.rows, request.bindings.extents.Sq};
    walkedOver = {map.blockN, map.columns, request.bindings.extents.Sk};
    if (isTransposed())
      std::swap(walking, walkedOver);
  }

  Status run(const std::vector<Rows> &all) {
    auto count = [&](int64_t item) {
      Status status = countRows(all[size_t(item)]);
      std::lock_guard lock(mutex);
      if (failure && !status)
        failure = status;
      int64_t before = done++ * 100 / int64_t(all.size());
      if (request.progress && done * 100 / int64_t(all.size()) != before)
        request.progress(double(done) / double(all.size()));
    };
    if (request.inParallel) {
      if (Status status = request.inParallel(int64_t(all.size()), count); !status)
        return status;
    } else {
      for (size_t item = 0; item < all.size(); ++item)
        count(int64_t(item));
    }
    return failure;
  }

private:
  bool isTransposed() const { return map.pass == TilePass::dkdv; }

  Status countRows(const Rows &rows) {
    TileProgram evaluated(program);
    TileCounts counts; // of the visited tiles
    int64_t computedPairs = 0, cells = (walkedOver.count + map.cell - 1) / map.cell;
    std::vector<uint8_t> kindsOfCells; // a bit for each kind
    for (int64_t row = rows.first; row < rows.end; ++row) {
      Result<llvm::ArrayRef<VisitedRun>> runs =
          evaluated.evaluateRuns(request.bindings, rows.where, int32_t(row * walking.extent));
      if (!runs)
        return runs.error();
      if (row % map.cell == 0)
        kindsOfCells.assign(size_t(cells), 0);
      auto mark = [&](int64_t first, int64_t end, TileKind kind) {
        for (int64_t cell = first / map.cell; first < end && cell <= (end - 1) / map.cell; ++cell)
          kindsOfCells[size_t(cell)] |= uint8_t(1 << int(kind));
      };
      int64_t positions = walking.positions(row, row + 1), visited = 0;
      for (const VisitedRun &run : *runs) {
        if (run.first < visited || run.end > walkedOver.count)
          return Error(Code::defect,
                       fmt::format("the kernel visits blocks {} to {} of {} after block {}; this "
                                   "is a defect of Tesela, please report it",
                                   run.first, run.end - 1, walkedOver.count, visited));
        (run.partial ? counts.partial : counts.full) += run.end - run.first;
        computedPairs += positions * walkedOver.positions(run.first, run.end);
        mark(visited, run.first, TileKind::empty);
        mark(run.first, run.end, run.partial ? TileKind::partial : TileKind::full);
        visited = run.end;
      }
      mark(visited, walkedOver.count, TileKind::empty);
      if ((row + 1) % map.cell == 0 || row + 1 == walking.count)
        store(map.heads[rows.head], row / map.cell, kindsOfCells);
    }
    std::lock_guard lock(mutex);
    HeadTiles &head = map.heads[rows.head];
    int64_t tiles = (rows.end - rows.first) * walkedOver.count;
    head.counts.partial += counts.partial;
    head.counts.full += counts.full;
    head.counts.empty += tiles - counts.partial - counts.full;
    head.computedPairs += computedPairs;
    return Status::success();
  }

  /// Stores the kinds of a row of cells; in the transpose, of a column of cells.
  void store(HeadTiles &head, int64_t line, const std::vector<uint8_t> &kindsOfCells) {
    int64_t step = isTransposed() ? map.cellColumns() : 1;
    TileKind *to = head.kinds.data() + line * (isTransposed() ? 1 : map.cellColumns());
    for (uint8_t kinds : kindsOfCells) {
      *to = kinds == 1 << int(TileKind::empty)  ? TileKind::empty
            : kinds == 1 << int(TileKind::full) ? TileKind::full
                                                : TileKind::partial;
      to += step;
    }
  }

  BlocksOfAxis walking, walkedOver;
  const TileProgram &program;
  const ExplainRequest &request;
  TileMap &map;
  std::mutex mutex; ///< guards the next members, and the counts of map.heads
  int64_t done = 0;
  Status failure;
};

} // namespace

/// explainTiles(), on the current thread's stack.
static Result<ExplainedTiles> explainHere(const ExplainRequest &request) {
  Result<ChosenKernel> kernel = chooseKernel(request.specification);
  if (!kernel)
    return kernel.error();
  const Variant &variant = kernel->variant;
  const Extents &extents = request.bindings.extents;

  ExplainedTiles result;
  result.schedule = kernel->schedule.text();
  TileMap &map = result.map;
  map.pass = request.pass;
  bool isTransposed = request.pass == TilePass::dkdv;
  map.blockM = kernel->schedule.blockM / kernel->schedule.heads; // in positions
  map.blockN = kernel->schedule.blockN;
  if (isTransposed)
    std::swap(map.blockM, map.blockN);
  map.rows = (extents.Sq + map.blockM - 1) / map.blockM;
  map.columns = (extents.Sk + map.blockN - 1) / map.blockN;
  bool perBatch = maskUses(variant, {Index::b});
  bool perHead = maskUses(variant, {Index::h, Index::hkv});
  int32_t batches = perBatch ? extents.B : std::min(extents.B, 1);
  int32_t heads = perHead ? extents.H : std::min(extents.H, 1);
  double allHeads = double(batches) * double(heads);
  double tiles = allHeads * double(map.rows) * double(map.columns);
  if (tiles > maxTiles || allHeads > maxHeads)
    return Error(Code::unsupported,
                 fmt::format("{}: the launch has {:.3g} tiles in {:.0f} different heads, and at "
                             "most {:.3g} tiles in {:.0f} heads are counted: reduce the lengths, "
                             "the batch or the number of heads",
                             request.specification.variantFile, tiles, allHeads, maxTiles,
                             maxHeads));
  while (allHeads * double(map.cellRows()) * double(map.cellColumns()) > double(request.mostCells))
    map.cell *= 2;

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<std::unique_ptr<TileProgram>> program =
      TileProgram::create(variant, context,
                          {.queries = map.blockM,
                           .keys = map.blockN,
                           .rows = isTransposed ? tile::Axis::Key : tile::Axis::Query,
                           .heads = kernel->schedule.heads});
  if (!program)
    return program.error();
  map.form = (*program)->form();
  map.runs = (*program)->runs();
  map.lostProofs = (*program)->lostProofs();
  result.renderedProofs = render(map.lostProofs, request.specification);
  (*program)->makeTables(request.bindings);
  std::vector<Rows> all;
  int64_t rowsAtOnce = (rowsOfItem + map.cell - 1) / map.cell * map.cell;
  int64_t walking = isTransposed ? map.columns : map.rows;
  for (int32_t b = 0; b < batches; ++b)
    for (int32_t h = 0; h < heads; ++h) {
      HeadTiles &headTiles = map.heads.emplace_back();
      headTiles.batch = perBatch ? b : -1;
      headTiles.head = perHead ? h : -1;
      headTiles.kinds.resize(size_t(map.cellRows() * map.cellColumns()));
      // Heads that share a block of queries, or a block of keys, share its tiles.
      int32_t sharing = extents.H / extents.Hkv, inSharing = h % sharing;
      int32_t together = isTransposed ? sharing : int32_t(kernel->schedule.heads);
      Point where{.b = b, .h = h - inSharing % together, .hkv = h / sharing};
      for (int64_t row = 0; row < walking; row += rowsAtOnce)
        all.push_back({map.heads.size() - 1, where, row, std::min(row + rowsAtOnce, walking)});
    }
  if (Status status = TileCount(**program, request, map).run(all); !status)
    return status.error();
  return result;
}

Result<ExplainedTiles> explainTiles(const ExplainRequest &request) {
  return onLargeStack([&] { return explainHere(request); });
}

} // namespace tesela
