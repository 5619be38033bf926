//===- KeptCells.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/KeptCells.h"

#include "api/State.h"
#include "api/TileArguments.h"
#include "check/ReferenceInputs.h"
#include "frontend/Constants.h"
#include "host/ThreadPool.h"
#include "system/Caught.h"
#include "system/Processors.h"
#include "system/UnfinishedWork.h"
#include "tesela/compiler/Compile.h"
#include "tesela/compiler/KeptCells.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>

namespace tesela {

/// The most threads that count if a mask requests no number. On 16 processors, 8 threads took 2.9
/// to 3.2 ms, and 16 took 4.9 to 6.1: threads of PyTorch wait in a loop beside them
/// (docs/log/2026-11-28-plan-time.md).
static constexpr int mostThreads = 8;

/// The threads for all masks that request no number of their own. Their counts run one after
/// another. The threads are never joined: at the process's end, or when the library is unloaded, a
/// destructor could wait for threads that no longer exist.
static ThreadPool &sharedThreads() {
  static ThreadPool &pool = *new ThreadPool(std::min(mostThreads, usableProcessors()));
  return pool;
}

struct KeptCells::State {
  Variant variant;
  std::vector<std::string> deciding;
  std::mutex mutex; ///< held while a count runs
  std::unique_ptr<CellAnalysis> analysis;
  std::optional<ThreadPool> own; ///< nullopt: sharedThreads()

  State(Variant variant, std::unique_ptr<CellAnalysis> analysis, int threads)
      : variant(std::move(variant)), analysis(std::move(analysis)) {
    if (threads != 0)
      own.emplace(threads);
    for (size_t number : this->analysis->deciding())
      deciding.push_back(this->variant.parameters[number].name);
  }
};

KeptCells::KeptCells(std::unique_ptr<State> state) : state(std::move(state)) {}
KeptCells::KeptCells(KeptCells &&) noexcept = default;
KeptCells::~KeptCells() = default;

Result<KeptCells> KeptCells::create(const KernelOptions &options, int64_t cell, int64_t tile,
                                    int threads) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  if (Status status = ThreadPool::checkThreads(threads); !status)
    return status.error();
  for (auto [name, value] : {std::pair("cell", cell), {"tile", tile}})
    if (value < 1 || value > std::numeric_limits<int32_t>::max())
      return Error(Code::invalidArgument, std::string("a ") + name + " has " +
                                              std::to_string(value) +
                                              " positions, it must have between 1 and 2147483647");
  Result<KernelSpecification> specification = makeSpecification(options, "host");
  if (!specification)
    return specification.error();
  Result<Variant> variant =
      parseVariant(options.variantText, options.variantFile, specification->constants);
  if (!variant)
    return variant.error();
  Result<std::unique_ptr<CellAnalysis>> analysis = CellAnalysis::create(*variant, cell, tile);
  if (!analysis)
    return analysis.error();
  return KeptCells(std::make_unique<State>(std::move(*variant), std::move(*analysis), threads));
}

const std::vector<std::string> &KeptCells::deciding() const { return state->deciding; }

bool KeptCells::tellsBatches() const { return state->analysis->tellsBatches(); }
bool KeptCells::tellsHeads() const { return state->analysis->tellsHeads(); }

Result<CellCounts> KeptCells::count(const ExplainArguments &arguments, const Memory &memory) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  Result<CheckedArguments> checked = checkTileArguments(state->variant, arguments);
  if (!checked)
    return checked.error();
  Bindings bindings = bindingsOf(state->variant, *checked);
  CellCounts counts;
  std::lock_guard lock(state->mutex);
  Status status = caught([&] {
    return state->analysis->count(
        bindings,
        [&](int64_t items, const std::function<void(int64_t)> &each) {
          ThreadPool &pool = state->own ? *state->own : sharedThreads();
          return pool.run(items, 0, [&](int64_t item, void *) { each(item); });
        },
        memory, counts);
  });
  if (!status)
    return status.error();
  return counts;
}

} // namespace tesela
