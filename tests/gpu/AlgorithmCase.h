//===- AlgorithmCase.h - Templates of attention, checked --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What the tests of gradients, of split keys and of sequences share: places where a kernel runs,
// variants with their formulas, tensors, and attention in double precision. Links libtesela.so
// alone.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_GPU_ALGORITHMCASE_H
#define TESELA_TESTS_GPU_ALGORITHMCASE_H

#include "ForwardCase.h"

#include "../GradientRule.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

namespace tesela {

/// Where a kernel runs, and how.
struct Place {
  const char *name, *device, *schedule;
  ElementType type;
  int dim;
};
void PrintTo(const Place &place, std::ostream *stream);

/// Head dimensions 48 and 64 on the host; on a GPU up to 128 by mma.sync and by wgmma.
extern const std::vector<Place> hostPlaces, gpuPlaces;

constexpr int queryHeads = 4, keyHeads = 2;

/// A query and a key, by their positions.
struct Pair {
  int h, q, k;
};

/// `slope`: the score's derivative.
struct Attention {
  const char *name, *text;
  std::function<bool(const Pair &, const std::vector<int32_t> &documents)> keeps;
  std::function<double(const Pair &, double s)> score, slope;
};
/// full, causal, window, documents, alibi, softcap.
extern const std::vector<Attention> attentions;

/// `value` as `type` holds it.
double roundedTo(ElementType type, double value);

/// A row of a tensor [batches, heads, length, dim].
struct RowPlace {
  int batch, row;
};

/// Queries and keys that see each other. Query i stands at position offset + i, key j at j.
struct Sequence {
  int queries, keys, offset = 0;
  std::function<RowPlace(int)> query, key;
};

/// A tensor [batches, heads, length, dim], and its values as its type holds them, in that order.
struct Values {
  ElementType type;
  int batches, heads, length, dim;
  TestTensor memory;
  std::vector<double> values;

  /// `bshd`: the memory's order is [batches, length, heads, dim].
  Values(const Context &context, ElementType type, int batches, int heads, int length, int dim,
         bool bshd = false);

  size_t at(const RowPlace &place, int head) const {
    return ((size_t(place.batch) * heads + head) * length + place.row) * dim;
  }
  void set(const std::vector<double> &from);
  void randomize(unsigned seed);
  std::vector<float> download();
  /// A view of rank 3, of one element a row.
  Tensor rows() const;

private:
  /// Where the element `index` of `values` lies.
  int64_t offsetOf(size_t index) const;
};

/// A place and the index of an attention.
using AlgorithmParameter = std::tuple<Place, int>;
std::string nameOfCase(const testing::TestParamInfo<AlgorithmParameter> &info);

class AlgorithmCase : public testing::TestWithParam<AlgorithmParameter> {
protected:
  const Context *context = nullptr;
  const Place &place = std::get<0>(GetParam());
  const Attention &variant = attentions[std::get<1>(GetParam())];
  const int D = place.dim;
  const double scale;
  std::vector<int32_t> documents; ///< of the positions 0 .. 1023
  std::vector<TestTensor> captures;
  bool dropout = false; ///< of compile()
  int valueDim = D;     ///< likewise, of v and o
  std::vector<ScalarArgument> scalars;
  /// What P of a pair is multiplied by in products: 0 where dropout drops it, 1 without dropout.
  std::function<double(int batch, const Pair &)> weight = [](int, const Pair &) { return 1.0; };

  AlgorithmCase();
  void SetUp() override;

  /// `schedule`: in place of the place's.
  std::optional<Kernel> compile(const std::string &algorithm, const std::string &text,
                                const std::vector<std::string> &bindings = {},
                                std::optional<std::string> schedule = std::nullopt);
  void launch(const Kernel &kernel, const LaunchArguments &arguments);
  /// Captured numbers or integers, of rank 1.
  TestTensor &addVector(ElementType type, const void *data, int extent);
  /// A launch's tensor of integers, of rank 1, or a matrix of so many rows.
  NamedTensor integers(const char *name, const std::vector<int32_t> &values, int64_t rows = 0);
  /// The variant's captured tensors. `keys`: the extent Sk.
  void addCaptures(LaunchArguments &arguments, int keys);

  /// Calls `visit` for each pair that is kept, with q · k times the scale.
  void forEachPair(const std::vector<Sequence> &sequences, const Values &q, const Values &k,
                   const std::function<void(const Sequence &, int query, int key, const Pair &,
                                            double s)> &visit);

  /// O of the queries' shape with v's head dimension, and L in `lse`. `base`: with the score in
  /// f32, and P rounded before the product.
  std::vector<double> forward(const std::vector<Sequence> &sequences, const Values &q,
                              const Values &k, const Values &v, bool base, std::vector<double> &lse,
                              std::vector<double> *sizes = nullptr);

  /// `rows`: so many rows' errors are one norm.
  void expectNear(const char *name, ElementType type, const std::vector<float> &out,
                  const test::GradientReference &reference, int rows = 1);
  /// L is infinite where it must be, and near elsewhere.
  void expectLse(const std::vector<float> &lse, const std::vector<double> &expected);
  /// Of results that were poisoned: rows that `isOwned` names keep the rule, and nothing wrote to
  /// the others. `sums`: what L is.
  void expectOwnRows(Values &o, Values &lse, const std::vector<bool> &isOwned,
                     const test::GradientReference &reference, const std::vector<double> &sums);
};

} // namespace tesela

#endif // TESELA_TESTS_GPU_ALGORITHMCASE_H
