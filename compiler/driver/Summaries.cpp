//===- Summaries.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/Summaries.h"

#include "targets/common/KernelSignature.h"
#include "transforms/CaptureSummary.h"
#include "transforms/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"

#include <fmt/format.h>

using namespace mlir;

namespace tesela {

/// 64 granules for four warps. So a tensor of 32 k elements still gives 32 thread blocks.
static constexpr llvm::StringLiteral scheduleText =
    "#tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>";

namespace {

/// The launches that compute one summary.
class SummaryLaunches {
public:
  SummaryLaunches(const CaptureSummary &summary, Type element)
      : summary(summary), element(element), rank(summary.axes.size()) {}

  Workspace workspace(int64_t level) const {
    Workspace workspace{summaryName(summary, level), {expression("2")}, ElementType::i32};
    for (size_t i = 0; i + 2 < rank; ++i)
      workspace.extents.push_back(expression(extent(i)));
    if (rank >= 2)
      workspace.extents.push_back(expression(rows()));
    workspace.extents.push_back(expression(columns(level)));
    return workspace;
  }

  std::string symbol(int64_t level) const {
    // "summary0_doc" for "$doc.summary0", plus the suffix that separates several summaries of it.
    std::string shape =
        summaryName(summary, level).substr(summary.capture.size() + sizeof(".summary0") - 1);
    llvm::replace(shape, '.', '_');
    return fmt::format("summary{}_{}{}", level, summary.capture.substr(1), shape);
  }

  std::vector<std::string> bindings(int64_t level) const {
    bool isFirst = level == 0;
    return {fmt::format("rows={}", isFirst ? summary.rows : 1),
            fmt::format("columns={}", isFirst ? granuleColumns : granulesOfGroup),
            fmt::format("planes={}", isFirst ? 0 : 1),
            fmt::format("element={}", isFirst ? nameOf(element) : "i32"),
            fmt::format("is_float={}", isFirst && isa<FloatType>(element) ? 1 : 0)};
  }

  Launch launch(int64_t level, tile::KernelOp kernel) const {
    std::string batch = "1";
    for (size_t i = 0; i + 2 < rank; ++i)
      batch = i == 0 ? extent(i) : fmt::format("(* {} {})", batch, extent(i));
    std::string inner = rank > 2 ? extent(rank - 3) : "1";
    Launch launch;
    launch.kernel = symbol(level);
    launch.items = workItems(kernel);
    for (const std::string &text : {batch, rows(), std::string("1"), columns(level), inner})
      launch.extents.push_back(expression(text));
    launch.summarizes = summary.capture;
    launch.threads = int(32 * kernel.getScheduleAttr()->warps);
    launch.slots = KernelSignature(kernel).slots();
    for (ArgumentSlot &slot : launch.slots) {
      if (slot.name == "summary")
        slot.name = summaryName(summary, level);
      if (slot.name != "$x")
        continue;
      slot.name = level == 0 ? summary.capture : summaryName(summary, level - 1);
      if (slot.kind != ArgumentSlot::Kind::data)
        slot.axis = sourceAxis(level, slot.axis);
    }
    return launch;
  }

private:
  static std::string nameOf(Type type) {
    std::string name;
    llvm::raw_string_ostream(name) << type;
    return name;
  }
  static Expression expression(const std::string &text) { return Expression::parse(text).value(); }

  std::string extent(size_t i) const {
    return fmt::format("{}.{}", summary.capture, summary.axes[i]);
  }
  std::string rows() const {
    if (rank < 2)
      return "1";
    return summary.rows == 1 ? extent(rank - 2)
                             : fmt::format("(ceildiv {} {})", extent(rank - 2), summary.rows);
  }
  std::string columns(int64_t level) const {
    return fmt::format("(ceildiv {} {})", extent(rank - 1),
                       level == 0 ? granuleColumns : granuleColumns * granulesOfGroup);
  }

  /// The axis of the source that is axis `axis` of the template's [planes, leading, leading, rows,
  /// columns]; -1 if there is none.
  int sourceAxis(int64_t level, int axis) const {
    if (axis == 0)
      return level == 0 ? -1 : 0;
    int place = int(rank) - maxSummaryRank + axis - 1; // among summary.axes
    if (place < 0)
      return -1;
    return level == 0 ? int(summary.axes[place]) : place + 1;
  }

  const CaptureSummary &summary;
  Type element; ///< the element type of the captured tensor
  size_t rank;
};

} // namespace

/// A bound copy of the template's kernel, named `symbol`.
static FailureOr<OwningOpRef<ModuleOp>> instantiate(ModuleOp source, const std::string &symbol,
                                                    const std::vector<std::string> &bindings) {
  OwningOpRef<ModuleOp> copy = source.clone();
  tile::KernelOp kernel = *copy->getOps<tile::KernelOp>().begin();
  kernel.setSymName(symbol);
  kernel->setAttr("schedule", parseAttribute(scheduleText, source.getContext()));
  TileBindOptions options;
  options.bindings.assign(bindings.begin(), bindings.end());
  PassManager passes(source.getContext());
  passes.addPass(createTileBind(options));
  if (failed(passes.run(*copy)))
    return failure();
  return copy;
}

bool needSummaries(ArrayRef<tile::KernelOp> kernels) {
  return llvm::any_of(kernels, [](tile::KernelOp kernel) { return !summariesOf(kernel).empty(); });
}

namespace {
/// A summary and the element type of its captured tensor.
struct TypedSummary {
  CaptureSummary summary;
  Type element;
};
} // namespace

/// The summaries that any of `kernels` reads, each once, with all levels that are read.
static std::vector<TypedSummary> mergedSummaries(ArrayRef<tile::KernelOp> kernels) {
  std::vector<TypedSummary> merged;
  for (tile::KernelOp kernel : kernels)
    for (const CaptureSummary &summary : summariesOf(kernel)) {
      auto view = cast<tile::ViewType>(kernel.getArgument(summary.capture).getType());
      auto known = llvm::find_if(merged, [&](const TypedSummary &each) {
        return summaryName(each.summary, 0) == summaryName(summary, 0);
      });
      if (known == merged.end())
        merged.push_back({summary, view.getElementType()});
      else
        known->summary.levels = std::max(known->summary.levels, summary.levels);
    }
  return merged;
}

FailureOr<SummaryPlan> addSummaries(ArrayRef<tile::KernelOp> kernels, ModuleOp source) {
  SummaryPlan plan;
  ModuleOp module = kernels.front()->getParentOfType<ModuleOp>();
  for (const auto &[summary, element] : mergedSummaries(kernels)) {
    SummaryLaunches launches(summary, element);
    for (int64_t level = 0; level < summary.levels; ++level) {
      FailureOr<OwningOpRef<ModuleOp>> copy =
          instantiate(source, launches.symbol(level), launches.bindings(level));
      if (failed(copy))
        return failure();
      tile::KernelOp kernel = *(*copy)->getOps<tile::KernelOp>().begin();
      kernel->remove();
      module.push_back(kernel);
      plan.workspaces.push_back(launches.workspace(level));
      plan.launches.push_back(launches.launch(level, kernel));
    }
  }
  return plan;
}

} // namespace tesela
