//===- CheckReads.cpp - Reads outside of captured tensors -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/Elements.h"
#include "check/ReferenceInputs.h"
#include "frontend/Interpreter.h"
#include "host/ThreadPool.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

namespace tesela {

namespace {

/// The key is parameter and axis.
using Found = std::map<std::pair<int32_t, int>, OutsideReads>;

void add(Found &found, const OutsideReads &reads, int32_t parameter) {
  auto [entry, isNew] = found.try_emplace({parameter, reads.axis}, reads);
  if (isNew)
    return;
  OutsideReads &known = entry->second;
  auto place = [](const OutsideReads &r) { return std::tie(r.b, r.h, r.q, r.k); };
  int64_t count = known.count + reads.count;
  if (place(reads) < place(known))
    known = reads;
  known.count = count;
}

class ReadCheck {
public:
  ReadCheck(const ReferenceInputs &inputs, const Interpreter &interpreter)
      : inputs(inputs), interpreter(interpreter),
        scoreReads(readsIn(inputs.variant, inputs.variant.score)) {}

  Result<std::vector<OutsideReads>> run(ThreadPool &pool) {
    const Extents &extents = inputs.arguments.extents;
    int64_t rows = int64_t(extents.B) * extents.H * extents.Sq;
    Status status = pool.run(rows, 0, [&](int64_t row, void *) { checkRow(row); });
    if (!status)
      return status.error();
    std::vector<OutsideReads> result;
    for (auto &[key, reads] : all)
      result.push_back(std::move(reads));
    return result;
  }

private:
  static bool readsIn(const Variant &variant, NodeId root) {
    std::vector<NodeId> nodes = variant.nodesOf(root);
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](NodeId id) { return variant.nodes[id].op == Operator::read; });
  }

  double scoreOf(const Point &point) const {
    const Tensor &q = inputs.arguments.tensors[AttentionTensors::q];
    const Tensor &k = inputs.arguments.tensors[AttentionTensors::k];
    auto offset = [](const Tensor &tensor, int64_t h, int64_t position, const Point &at) {
      return at.b * tensor.strides[0] + h * tensor.strides[1] + position * tensor.strides[2];
    };
    int64_t ofQ = offset(q, point.h, point.q, point), ofK = offset(k, point.hkv, point.k, point);
    double sum = 0;
    for (int64_t d = 0; d < q.extents[3]; ++d)
      sum += double(loadFloat(q.data, q.type, ofQ + d)) * loadFloat(k.data, k.type, ofK + d);
    return sum * inputs.arguments.scale;
  }

  void checkRow(int64_t row) {
    const Extents &extents = inputs.arguments.extents;
    Point point;
    point.q = int32_t(row % extents.Sq);
    point.h = int32_t(row / extents.Sq % extents.H);
    point.b = int32_t(row / extents.Sq / extents.H);
    point.hkv = point.h / (extents.H / extents.Hkv);
    Found found;
    int64_t key = -1;
    auto visit = [&](const OutsideRead &read) {
      const std::string &name = inputs.variant.parameters[read.parameter].name;
      add(found,
          {name, read.axis, read.extent, read.index, point.b, point.h, point.q, key, /*count=*/1},
          read.parameter);
    };
    if (interpreter.hasSink())
      interpreter.visitOutsideOfSink(point, visit);
    for (key = 0; key < extents.Sk; ++key) {
      point.k = int32_t(key);
      if (!interpreter.maskIsTrue()) {
        interpreter.visitOutsideOfMask(point, visit);
        if (!interpreter.mask(point))
          continue;
      }
      if (scoreReads)
        interpreter.visitOutsideOfScore(point, scoreOf(point), visit);
    }
    if (found.empty())
      return;
    std::lock_guard lock(mutex);
    for (const auto &[of, reads] : found)
      add(all, reads, of.first);
  }

  const ReferenceInputs &inputs;
  const Interpreter &interpreter;
  const bool scoreReads;
  std::mutex mutex;
  Found all;
};

} // namespace

Result<std::vector<OutsideReads>> checkReads(const KernelOptions &options,
                                             const LaunchArguments &arguments, int threads) {
  if (Status status = ThreadPool::checkThreads(threads); !status)
    return status.error();
  Result<ReferenceInputs> inputs = referenceInputs(options, arguments, 0);
  if (!inputs)
    return inputs.error();
  Result<Interpreter> interpreter =
      Interpreter::create(inputs->variant, bindingsOf(inputs->variant, inputs->arguments));
  if (!interpreter)
    return interpreter.error();
  ThreadPool pool(threads);
  return ReadCheck(*inputs, *interpreter).run(pool);
}

} // namespace tesela
