//===- CaptureSummary.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/CaptureSummary.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tesela {

static constexpr StringLiteral summariesAttr = "tile.summaries";

std::string summaryName(const CaptureSummary &summary, int64_t level) {
  std::string name = summary.capture + ".summary" + std::to_string(level);
  if (summary.rows > 1)
    (name += '.') += std::to_string(summary.rows);
  if (!llvm::is_sorted(summary.axes)) {
    llvm::raw_string_ostream stream(name);
    llvm::interleave(summary.axes, stream << ".axes", "_");
  }
  return name;
}

void setSummaries(tile::KernelOp kernel, ArrayRef<CaptureSummary> summaries) {
  Builder builder(kernel.getContext());
  SmallVector<Attribute> list;
  for (const CaptureSummary &summary : summaries)
    list.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("capture", builder.getStringAttr(summary.capture)),
         builder.getNamedAttr("axes", builder.getDenseI64ArrayAttr(summary.axes)),
         builder.getNamedAttr("rows", builder.getI64IntegerAttr(summary.rows)),
         builder.getNamedAttr("levels", builder.getI64IntegerAttr(summary.levels))}));
  kernel->setAttr(summariesAttr, builder.getArrayAttr(list));
}

std::vector<CaptureSummary> summariesOf(tile::KernelOp kernel) {
  std::vector<CaptureSummary> summaries;
  auto list = kernel->getAttrOfType<ArrayAttr>(summariesAttr);
  if (!list)
    return summaries;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    CaptureSummary &summary = summaries.emplace_back();
    summary.capture = entry.getAs<StringAttr>("capture").str();
    summary.axes = llvm::to_vector(entry.getAs<DenseI64ArrayAttr>("axes").asArrayRef());
    summary.rows = entry.getAs<IntegerAttr>("rows").getInt();
    summary.levels = entry.getAs<IntegerAttr>("levels").getInt();
  }
  return summaries;
}

} // namespace tesela
