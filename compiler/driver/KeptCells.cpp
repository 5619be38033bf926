//===- KeptCells.cpp - What a mask keeps of a sequence ----------*- C++ -*-===//
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

/// Rows that a thread takes at once. A thread has a copy of the program for them.
static constexpr int64_t rowsOfItem = 64;

struct CellAnalysis::State {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::unique_ptr<TileProgram> program;
  int64_t cell = 0;
};

CellAnalysis::CellAnalysis(std::unique_ptr<State> state) : state(std::move(state)) {}
CellAnalysis::~CellAnalysis() = default;

namespace {

/// What a mask, or a score that can be -inf, is computed from.
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

} // namespace

Result<std::unique_ptr<CellAnalysis>> CellAnalysis::create(const Variant &variant, int64_t cell) {
  return onLargeStack([&]() -> Result<std::unique_ptr<CellAnalysis>> {
    auto state = std::make_unique<State>();
    state->cell = cell;
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
                           int64_t &columns, std::vector<uint32_t> &halves) {
  const Extents &extents = bindings.extents;
  int64_t cell = state->cell;
  rows = (extents.Sq + cell - 1) / cell;
  columns = (extents.Sk + cell - 1) / cell;
  halves.assign(size_t(rows * columns), 0);
  int32_t batches = tellsBatches_ ? extents.B : std::min(extents.B, 1);
  int32_t heads = tellsHeads_ ? extents.H : std::min(extents.H, 1);
  uint32_t times = uint32_t(tellsBatches_ ? 1 : extents.B) * uint32_t(tellsHeads_ ? 1 : extents.H);
  state->program->makeTables(bindings);

  // Heads of one row add to the same cells, so that a thread takes the rows of all heads.
  int64_t items = (rows + rowsOfItem - 1) / rowsOfItem;
  std::mutex mutex;
  Status failure;
  auto countRows = [&](int64_t item) {
    TileProgram evaluated(*state->program);
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
          for (const VisitedRun &run : *runs)
            for (int64_t column = run.first; column < std::min(run.end, columns); ++column)
              halves[size_t(row * columns + column)] += times * (run.partial ? 1 : 2);
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
