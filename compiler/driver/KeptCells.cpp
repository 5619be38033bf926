//===- KeptCells.cpp - The kept pairs of a sequence's cells -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/KeptCells.h"

#include "driver/LargeStack.h"
#include "visits/TileProgram.h"

#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <mutex>

namespace tesela {

/// The rows of a work item. Each thread copies the program for its item.
static constexpr int64_t rowsOfItem = 32;

struct CellAnalysis::State {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::unique_ptr<TileProgram> program;
  int64_t cell = 0;
  uint32_t full = 0; ///< the work of a cell in which every pair is kept
  Variant variant;
};

CellAnalysis::CellAnalysis(std::unique_ptr<State> state) : state(std::move(state)) {}
CellAnalysis::~CellAnalysis() = default;

namespace {

/// The parameters and indices on which a mask, or a score that may be -inf, depends.
struct UsedByMask {
  std::vector<bool> parameters;
  bool batch = false, head = false;

  explicit UsedByMask(const Variant &variant) : parameters(variant.parameters.size()) {
    look(variant, variant.mask);
    if (variant.scoreMayMask())
      look(variant, variant.score);
  }

private:
  void look(const Variant &variant, NodeId root) {
    for (NodeId id : variant.nodesOf(root)) {
      const Node &node = variant.nodes[size_t(id)];
      if (node.op == Operator::index) {
        Index index = Index(node.integer);
        batch |= index == Index::b;
        head |= index == Index::h || index == Index::hkv;
      } else if (node.op == Operator::extent) {
        Extent extent = Extent(node.integer);
        batch |= extent == Extent::B;
        head |= extent == Extent::H || extent == Extent::Hkv;
      } else if (node.op == Operator::scalar || node.op == Operator::read) {
        parameters[size_t(node.integer)] = true;
      } else if (node.op == Operator::boundExtent) {
        parameters[size_t(variant.boundExtents[size_t(node.integer)].parameter)] = true;
      }
    }
  }
};

/// Estimates the work of partial cells by testing some pairs of each. The estimate only decides
/// which GPU gets which cell.
class Samples {
public:
  Samples(const Interpreter &mask, const Extents &extents, int64_t cell, uint32_t full)
      : mask(mask), extents(extents), cell(cell), full(full) {}

  /// Adds `times` the work of partial cells of a row to `work`, which has an element for each
  /// column.
  void add(const Point &where, int64_t row, llvm::ArrayRef<int64_t> columns, uint32_t times,
           uint32_t *work) {
    keys.resize(columns.size());
    keeps.resize(keys.size());
    kept.assign(columns.size(), 0);
    // With one tile for each cell nothing is tested: a tile is computed whole.
    uint32_t looked = full > 2 ? uint32_t(side) : 0;
    for (uint32_t i = 0; i < looked; ++i) {
      auto at = [&](int64_t part) { return (2 * part + 1) * cell / (2 * side); };
      Point point = where;
      point.q = int32_t(std::min(row * cell + at(i), extents.Sq - 1L));
      for (size_t column = 0; column < columns.size(); ++column)
        keys[column] = int32_t(std::min(columns[column] * cell + at(reversed(i)), extents.Sk - 1L));
      mask.keepsKeys(point, keys.data(), keys.size(), keeps.data());
      for (size_t column = 0; column < keys.size(); ++column)
        kept[column] += keeps[column];
    }
    for (size_t column = 0; column < columns.size(); ++column) {
      uint32_t each = full;
      // The border of the kept pairs cuts about n of n * n tiles.
      if (looked > 0)
        each = std::clamp((full * kept[column] + looked / 2) / looked + 1, uint32_t(1), full);
      work[columns[column]] += times * each;
    }
  }

private:
  /// The number of tested pairs of a cell. There is one pair in each of `side` rows and `side`
  /// columns, and in each box with a sixteenth of the cell's area (Hammersley's points in base 2).
  /// So the border of a document, or a diagonal, is found to a sixteenth of the cell.
  static constexpr int64_t side = 16;
  static int64_t reversed(uint32_t of) {
    return (of & 1) << 3 | (of & 2) << 1 | (of & 4) >> 1 | (of & 8) >> 3;
  }

  const Interpreter &mask;
  const Extents &extents;
  const int64_t cell;
  const uint32_t full;
  std::vector<int32_t> keys;
  std::vector<uint8_t> keeps;
  std::vector<uint32_t> kept;
};

} // namespace

Result<std::unique_ptr<CellAnalysis>> CellAnalysis::create(const Variant &variant, int64_t cell,
                                                           int64_t tile) {
  return onLargeStack([&]() -> Result<std::unique_ptr<CellAnalysis>> {
    auto state = std::make_unique<State>();
    state->cell = cell;
    state->full = 2 * uint32_t(std::max<int64_t>(cell / tile, 1));
    state->variant = variant;
    Result<std::unique_ptr<TileProgram>> program =
        TileProgram::create(variant, state->context, {.queries = cell, .keys = cell});
    if (!program)
      return program.error();
    state->program = std::move(*program);
    UsedByMask used(variant);
    std::unique_ptr<CellAnalysis> analysis(new CellAnalysis(std::move(state)));
    analysis->tellsBatches_ = used.batch;
    analysis->tellsHeads_ = used.head;
    for (size_t number = 0; number < used.parameters.size(); ++number)
      if (used.parameters[number])
        analysis->deciding_.push_back(number);
    return analysis;
  });
}

Status CellAnalysis::count(const Bindings &bindings, const InParallel &inParallel, int64_t &rows,
                           int64_t &columns, std::vector<uint32_t> &work) {
  const Extents &extents = bindings.extents;
  int64_t cell = state->cell;
  rows = (extents.Sq + cell - 1) / cell;
  columns = (extents.Sk + cell - 1) / cell;
  constexpr int64_t mostCells = int64_t(1) << 26; // 256 MB of numbers
  if (rows > mostCells / std::max<int64_t>(columns, 1))
    return Error(Code::invalidArgument,
                 "with cells of " + std::to_string(cell) + " positions there are " +
                     std::to_string(rows) + " x " + std::to_string(columns) + " cells for " +
                     std::to_string(extents.Sq) + " queries and " + std::to_string(extents.Sk) +
                     " keys, and at most " + std::to_string(mostCells) +
                     " can be counted: use larger cells");
  work.assign(size_t(rows * columns), 0);
  int32_t batches = tellsBatches_ ? extents.B : std::min(extents.B, 1);
  int32_t heads = tellsHeads_ ? extents.H : std::min(extents.H, 1);
  uint32_t times = uint32_t(tellsBatches_ ? 1 : extents.B) * uint32_t(tellsHeads_ ? 1 : extents.H);
  state->program->makeTables(bindings);

  Result<Interpreter> mask = Interpreter::create(state->variant, bindings);
  if (!mask)
    return mask.error();

  // All heads of a row add to the same cells, so one thread takes a row for all heads.
  int64_t items = (rows + rowsOfItem - 1) / rowsOfItem;
  std::mutex mutex;
  Status failure;
  auto countRows = [&](int64_t item) {
    TileProgram evaluated(*state->program);
    Samples samples(*mask, extents, cell, state->full);
    std::vector<int64_t> partial;
    for (int32_t b = 0; b < batches; ++b)
      for (int32_t h = 0; h < heads; ++h)
        for (int64_t row = item * rowsOfItem; row < std::min((item + 1) * rowsOfItem, rows);
             ++row) {
          Point where{.b = b, .h = h, .hkv = h / (extents.H / extents.Hkv)};
          Result<llvm::ArrayRef<VisitedRun>> runs =
              evaluated.evaluateRuns(bindings, where, int32_t(row * cell));
          if (!runs) {
            std::lock_guard lock(mutex);
            failure = runs.error();
            return;
          }
          uint32_t *ofRow = work.data() + row * columns;
          partial.clear();
          for (const VisitedRun &run : *runs)
            for (int64_t column = run.first; column < std::min(run.end, columns); ++column)
              if (run.partial)
                partial.push_back(column);
              else
                ofRow[column] += times * state->full;
          samples.add(where, row, partial, times, ofRow);
        }
  };
  if (inParallel) {
    if (Status status = inParallel(items, countRows); !status)
      return status;
  } else {
    for (int64_t item = 0; item < items; ++item)
      countRows(item);
  }
  return failure;
}

} // namespace tesela
