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
#include <numeric>

namespace tesela {

/// The rows of a work item. Short items keep all threads busy until the end. With several heads an
/// item is longer: some values of a head are computed again for each item.
static int64_t rowsOfItem(int64_t heads) { return heads > 1 ? 32 : 8; }

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
    if (columns.empty())
      return;
    // With one tile for each cell nothing is tested: a tile is computed whole.
    uint32_t looked = full > 2 ? uint32_t(side) : 0;
    keeps.resize(columns.size() * looked);
    queries.clear();
    keys.clear();
    // The pairs of all cells of the row together: the mask runs for many pairs at once.
    for (int64_t column : columns)
      for (uint32_t i = 0; i < looked; ++i) {
        auto at = [&](int64_t part) { return (2 * part + 1) * cell / (2 * side); };
        queries.push_back(int32_t(std::min(row * cell + at(i), extents.Sq - 1L)));
        keys.push_back(int32_t(std::min(column * cell + at(reversed(i)), extents.Sk - 1L)));
      }
    if (looked > 0)
      mask.keepsPairs(where, queries.data(), keys.data(), keys.size(), keeps.data());
    auto ofColumn = keeps.begin();
    for (int64_t column : columns) {
      uint32_t each = full;
      // The border of the kept pairs cuts about n of n * n tiles.
      if (looked > 0) {
        uint32_t kept = std::accumulate(ofColumn, ofColumn + looked, uint32_t(0));
        each = std::clamp((full * kept + looked / 2) / looked + 1, uint32_t(1), full);
      }
      work[column] += times * each;
      ofColumn += looked;
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
  std::vector<int32_t> queries, keys; ///< of the tested pairs, cell by cell
  std::vector<uint8_t> keeps;
};

/// What a thread needs to count rows.
struct Counting {
  TileProgram program;
  Samples samples;
  std::vector<int64_t> partial; ///< columns of the current row
};

/// What threads need for their items: as many as threads run at the same time. An item takes one
/// that another item has left, because a copy of a program first evaluates much that all rows
/// share.
class Countings {
public:
  std::unique_ptr<Counting> take() {
    std::lock_guard lock(mutex);
    if (left.empty())
      return nullptr;
    std::unique_ptr<Counting> taken = std::move(left.back());
    left.pop_back();
    return taken;
  }
  void leave(std::unique_ptr<Counting> counting) {
    std::lock_guard lock(mutex);
    left.push_back(std::move(counting));
  }

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<Counting>> left;
};

/// Sums the work of a row, and sets the bits of the columns that have some.
uint64_t sumOfRow(llvm::ArrayRef<uint32_t> work, uint64_t *needs) {
  constexpr size_t several = 16; // most cells of most masks are empty
  uint64_t sum = 0;
  for (size_t first = 0; first < work.size(); first += several) {
    uint64_t bits = 0;
    llvm::ArrayRef<uint32_t> some = work.slice(first, std::min(several, work.size() - first));
    if (std::accumulate(some.begin(), some.end(), uint32_t(0), std::bit_or()))
      for (size_t i = 0; i < some.size(); ++i) {
        sum += some[i];
        bits |= uint64_t(some[i] != 0) << i;
      }
    needs[first / 64] |= bits << first % 64;
  }
  return sum;
}

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

Status CellAnalysis::count(const Bindings &bindings, const InParallel &inParallel,
                           const Memory &memory, CellCounts &counts) {
  const Extents &extents = bindings.extents;
  int64_t cell = state->cell;
  int64_t rows = counts.rows = (extents.Sq + cell - 1) / cell;
  int64_t columns = counts.columns = (extents.Sk + cell - 1) / cell;
  constexpr int64_t mostCells = int64_t(1) << 26; // 256 MB of numbers
  if (rows > mostCells / std::max<int64_t>(columns, 1))
    return Error(Code::invalidArgument,
                 "with cells of " + std::to_string(cell) + " positions there are " +
                     std::to_string(rows) + " x " + std::to_string(columns) + " cells for " +
                     std::to_string(extents.Sq) + " queries and " + std::to_string(extents.Sk) +
                     " keys, and at most " + std::to_string(mostCells) +
                     " can be counted: use larger cells");
  uint32_t *work = memory(size_t(rows * columns));
  if (!work)
    return Error(Code::outOfMemory, "no memory for the work of " + std::to_string(rows) + " x " +
                                        std::to_string(columns) + " cells: use larger cells");
  counts.words = (columns + 63) / 64;
  counts.sums.resize(size_t(rows));
  counts.needs.resize(size_t(rows * counts.words));
  int32_t batches = tellsBatches_ ? extents.B : std::min(extents.B, 1);
  int32_t heads = tellsHeads_ ? extents.H : std::min(extents.H, 1);
  uint32_t times = uint32_t(tellsBatches_ ? 1 : extents.B) * uint32_t(tellsHeads_ ? 1 : extents.H);
  state->program->makeTables(bindings);

  Result<Interpreter> mask = Interpreter::create(state->variant, bindings);
  if (!mask)
    return mask.error();

  // All heads of a row add to the same cells, so one thread takes a row for all heads.
  int64_t rowsOfItem = tesela::rowsOfItem(int64_t(batches) * heads);
  int64_t items = (rows + rowsOfItem - 1) / rowsOfItem;
  std::mutex mutex;
  Status failure;
  Countings countings;
  auto countRows = [&](int64_t item) {
    std::unique_ptr<Counting> counting = countings.take();
    if (!counting)
      counting.reset(new Counting{
          TileProgram(*state->program), Samples(*mask, extents, cell, state->full), {}});
    int64_t first = item * rowsOfItem, end = std::min(first + rowsOfItem, rows);
    std::fill(work + first * columns, work + end * columns, 0);
    for (int32_t b = 0; b < batches; ++b)
      for (int32_t h = 0; h < heads; ++h)
        for (int64_t row = first; row < end; ++row) {
          Point where{.b = b, .h = h, .hkv = h / (extents.H / extents.Hkv)};
          Result<llvm::ArrayRef<VisitedRun>> runs =
              counting->program.evaluateRuns(bindings, where, int32_t(row * cell));
          if (!runs) {
            std::lock_guard lock(mutex);
            failure = runs.error();
            return;
          }
          uint32_t *ofRow = work + row * columns;
          counting->partial.clear();
          for (const VisitedRun &run : *runs)
            for (int64_t column = run.first; column < std::min(run.end, columns); ++column)
              if (run.partial)
                counting->partial.push_back(column);
              else
                ofRow[column] += times * state->full;
          counting->samples.add(where, row, counting->partial, times, ofRow);
        }
    for (int64_t row = first; row < end; ++row)
      counts.sums[size_t(row)] =
          sumOfRow({work + row * columns, size_t(columns)}, &counts.needs[row * counts.words]);
    countings.leave(std::move(counting));
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
