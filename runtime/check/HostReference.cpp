//===- HostReference.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/Elements.h"
#include "check/ReferenceInputs.h"
#include "frontend/Interpreter.h"
#include "host/ThreadPool.h"

#include <algorithm>
#include <cmath>

namespace tesela {

namespace {

/// The dot product in double, in eight partial sums, so that the compiler may use vectors. The
/// result does not depend on that.
double dot(const double *a, const float *b, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int j = 0; j < 8; ++j)
      sums[j] += a[i + j] * double(b[i + j]);
  for (; i < count; ++i)
    sums[0] += a[i] * double(b[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double sumOfSquares(const float *values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += double(values[i]) * values[i];
  return sum;
}

/// The keys and values of one key/value head as f32, row after row.
struct KeyValueHead {
  std::vector<float> k, v;
  std::vector<double> squares; ///< for each key, the sum of v's squares
};

/// What a task finds in addition to its rows' results.
struct Tally {
  double maxScore = 0;
  int64_t keptPairs = 0;
};

class HostReferenceRun {
public:
  HostReferenceRun(const ReferenceInputs &inputs, const Interpreter &interpreter,
                   const RowList &rows, Reference &reference)
      : arguments(inputs.arguments), dropout(dropoutOf(inputs)), extents(inputs.arguments.extents),
        interpreter(interpreter), rows(rows), reference(reference),
        headDimQk(inputs.arguments.tensors[AttentionTensors::q].extents[3]),
        headDimV(reference.Dv) {}

  Status run(ThreadPool &pool) {
    if (reference.lse.empty())
      return Status::success();
    KeyValueHead head;
    head.k.resize(size_t(extents.Sk) * headDimQk);
    head.v.resize(size_t(extents.Sk) * headDimV);
    head.squares.resize(extents.Sk);
    for (int32_t b = 0; b < extents.B; ++b)
      for (int32_t hkv = 0; hkv < extents.Hkv; ++hkv) {
        std::vector<Task> tasks = tasksOf(b, hkv);
        if (tasks.empty())
          continue;
        Status loaded = pool.run(extents.Sk, 0, [&](int64_t k, void *) {
          float *v = &head.v[k * headDimV];
          loadRow(arguments.tensors[AttentionTensors::k], b, hkv, k, &head.k[k * headDimQk]);
          loadRow(arguments.tensors[AttentionTensors::v], b, hkv, k, v);
          head.squares[k] = sumOfSquares(v, headDimV);
        });
        if (!loaded)
          return loaded;
        Status computed = pool.run(int64_t(tasks.size()), 0, [&](int64_t task, void *) {
          computeRows(head, b, hkv, tasks[task]);
        });
        if (!computed)
          return computed;
      }
    reference.maxScore = tally.maxScore;
    reference.keptPairs = tally.keptPairs;
    return Status::success();
  }

private:
  static constexpr int64_t rowsPerTask = 16;

  /// Rows of one head: their queries, and the index of the first one's result.
  struct Task {
    int32_t h = 0;
    std::vector<int32_t> queries;
    int64_t first = 0;
  };

  const CheckedArguments &arguments;
  const std::optional<Dropout> dropout;
  const Extents extents;
  const Interpreter &interpreter;
  const RowList &rows;
  Reference &reference;
  const int64_t headDimQk, headDimV;
  std::mutex tallyMutex;
  Tally tally;

  /// The tasks for the query heads that share a key/value head.
  std::vector<Task> tasksOf(int32_t b, int32_t hkv) const {
    int32_t group = extents.H / extents.Hkv;
    std::vector<Task> tasks;
    for (int32_t h = hkv * group; h < (hkv + 1) * group; ++h) {
      int64_t firstRow = (int64_t(b) * extents.H + h) * extents.Sq;
      int64_t begin = firstRow, end = firstRow + extents.Sq; // indices of results
      if (rows) {
        begin = std::ranges::lower_bound(*rows, firstRow) - rows->begin();
        end = std::ranges::lower_bound(*rows, firstRow + extents.Sq) - rows->begin();
      }
      for (int64_t result = begin; result < end; ++result) {
        if ((result - begin) % rowsPerTask == 0)
          tasks.push_back({h, {}, result});
        tasks.back().queries.push_back(int32_t((rows ? (*rows)[result] : result) - firstRow));
      }
    }
    return tasks;
  }

  static void loadRow(const Tensor &tensor, int64_t b, int64_t h, int64_t row, float *to) {
    int64_t offset = b * tensor.strides[0] + h * tensor.strides[1] + row * tensor.strides[2];
    for (int64_t d = 0; d < tensor.extents[3]; ++d)
      to[d] = loadFloat(tensor.data, tensor.type, offset + d);
  }

  /// A kept pair: the key, its score in double, and its score as in `base`.
  struct Kept {
    int32_t k;
    double score;
    float baseScore;
  };

  void computeRows(const KeyValueHead &head, int32_t b, int32_t hkv, const Task &task) {
    Tally found;
    int32_t h = task.h;
    int64_t row = task.first;
    std::vector<float> loaded(headDimQk);
    std::vector<double> query(headDimQk);
    std::vector<Kept> kept;
    for (int32_t q : task.queries) {
      loadRow(arguments.tensors[AttentionTensors::q], b, h, q, loaded.data());
      std::copy(loaded.begin(), loaded.end(), query.begin());
      kept.clear();
      for (int32_t k = 0; k < extents.Sk; ++k) {
        Point point{b, h, hkv, q, k};
        if (!interpreter.maskIsTrue() && !interpreter.mask(point))
          continue;
        double s = double(arguments.scale) * dot(query.data(), &head.k[k * headDimQk], headDimQk);
        float baseS = roundTo(reference.type, float(s));
        bool identity = interpreter.scoreIsIdentity();
        kept.push_back({k, identity ? s : interpreter.score(point, s),
                        identity ? baseS : interpreter.score(point, baseS)});
      }
      found.keptPairs += int64_t(kept.size());
      Kept sink{-1, -HUGE_VAL, -HUGE_VALF};
      if (interpreter.hasSink()) {
        Point point{b, h, hkv, q, 0};
        sink = {-1, interpreter.sink(point), interpreter.sinkInFloat(point)};
      }
      for (const Kept &pair : kept)
        if (std::isfinite(pair.score))
          found.maxScore = std::max(found.maxScore, std::fabs(pair.score));
      if (std::isfinite(sink.score))
        found.maxScore = std::max(found.maxScore, std::fabs(sink.score));
      finishRow(head, kept, sink, row++, {b, h, hkv, q, 0});
    }
    std::lock_guard lock(tallyMutex);
    tally.maxScore = std::max(tally.maxScore, found.maxScore);
    tally.keptPairs += found.keptPairs;
  }

  /// Softmax and product of one row. A score of NaN or +inf makes the row NaN without a special
  /// case, because exp(score - max) is NaN. A sink of -inf has no effect.
  void finishRow(const KeyValueHead &head, const std::vector<Kept> &kept, const Kept &sink,
                 int64_t row, const Point &place) {
    double max = sink.score, baseMax = sink.baseScore;
    bool nan = std::isnan(sink.score) || sink.score == HUGE_VAL;
    for (const Kept &pair : kept) {
      nan |= std::isnan(pair.score) || pair.score == HUGE_VAL;
      max = std::max(max, pair.score);
      baseMax = std::max(baseMax, double(pair.baseScore));
    }
    double *ref = &reference.ref[row * headDimV];
    double *base = &reference.base[row * headDimV];
    double *magnitude = &reference.magnitude[row * headDimV];
    if (nan || max == -HUGE_VAL) {
      reference.lse[row] = nan ? NAN : -HUGE_VAL;
      for (double *each : {ref, base, magnitude})
        std::fill_n(each, headDimV, nan ? NAN : 0.0);
      reference.termNorm[row] = nan ? NAN : 0;
      return;
    }
    double sum = sink.score == -HUGE_VAL ? 0 : std::exp(sink.score - max);
    double baseSum = sink.baseScore == -HUGE_VALF ? 0 : std::exp(double(sink.baseScore) - baseMax);
    double squares = 0;
    for (const Kept &pair : kept) {
      double p = std::exp(pair.score - max);
      double basePrecise = baseMax == -HUGE_VAL ? 0 : std::exp(double(pair.baseScore) - baseMax);
      double baseP = roundTo(reference.type, float(basePrecise));
      sum += p;
      baseSum += basePrecise;
      if (dropout && dropout->drops(uint32_t(place.b * extents.H + place.h), uint32_t(place.q),
                                    uint32_t(pair.k)))
        continue;
      squares += p * p * head.squares[pair.k];
      const float *v = &head.v[pair.k * headDimV];
      for (int64_t d = 0; d < headDimV; ++d) {
        double value = v[d];
        ref[d] += p * value;
        base[d] += baseP * value;
        magnitude[d] += p * std::fabs(value);
      }
    }
    reference.lse[row] = max + std::log(sum);
    double scale = dropout ? dropout->scale() : 1;
    reference.termNorm[row] = scale * std::sqrt(squares) / sum;
    for (int64_t d = 0; d < headDimV; ++d) {
      ref[d] *= scale / sum;
      base[d] = baseSum == 0 ? 0 : base[d] * scale / baseSum;
      magnitude[d] *= scale / sum;
    }
  }
};

} // namespace

Result<Reference> hostReferenceOf(const RowList &rows, const KernelOptions &options,
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
  Result<Reference> reference = emptyReference(options, *inputs, rows);
  if (!reference)
    return reference.error();
  ThreadPool pool(threads);
  if (Status status = HostReferenceRun(*inputs, *interpreter, rows, *reference).run(pool); !status)
    return status.error();
  return reference;
}

Result<Reference> hostReference(const KernelOptions &options, const LaunchArguments &arguments,
                                int threads) {
  return hostReferenceOf({}, options, arguments, threads);
}

} // namespace tesela
