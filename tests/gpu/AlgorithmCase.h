//===- AlgorithmCase.h - Templates of attention, checked --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The common part of the tests of gradients, split keys and sequences: places where a kernel runs,
// variants with their formulas, tensors, and attention in double precision. It links only
// libtesela.so.
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

/// A device, schedule, type and head dimension with which a kernel runs.
struct Place {
  const char *name, *device, *schedule;
  ElementType type;
  int dim;
};
void PrintTo(const Place &place, std::ostream *stream);

/// Head dimensions 48 and 64 on the host; up to 128 by mma.sync and by wgmma on a GPU.
extern const std::vector<Place> hostPlaces, gpuPlaces;

constexpr int queryHeads = 4, keyHeads = 2;

/// The positions of a query and a key.
struct Pair {
  int h, q, k;
};

/// A variant with its formulas. `slope`: the derivative of the score.
struct Attention {
  const char *name, *text;
  std::function<bool(const Pair &, const std::vector<int32_t> &documents)> keeps;
  std::function<double(const Pair &, double s)> score, slope;
};
/// full, causal, window, documents, alibi, softcap.
extern const std::vector<Attention> attentions;

/// `value` rounded to `type`.
double roundedTo(ElementType type, double value);

/// The place of a row of a tensor [batches, heads, length, dim].
struct RowPlace {
  int batch, row;
};

/// Queries and keys that see each other. Query i has the position offset + i, key j has j.
struct Sequence {
  int queries, keys, offset = 0;
  std::function<RowPlace(int)> query, key;
};

/// A tensor [batches, heads, length, dim], and its values in that order, rounded to its type.
struct Values {
  ElementType type;
  int batches, heads, length, dim;
  TestTensor memory;
  std::vector<double> values;

  /// `bshd`: the order in memory is [batches, length, heads, dim].
  Values(const Context &context, ElementType type, int batches, int heads, int length, int dim,
         bool bshd = false);

  size_t at(const RowPlace &place, int head) const {
    return ((size_t(place.batch) * heads + head) * length + place.row) * dim;
  }
  void set(const std::vector<double> &from);
  void randomize(unsigned seed);
  std::vector<float> download();
  /// A view of rank 3, for tensors with one element in each row.
  Tensor rows() const;

private:
  /// The offset in memory of the element `index` of `values`.
  int64_t offsetOf(size_t index) const;
};

/// A place, and the index of an attention in `attentions`.
using AlgorithmParameter = std::tuple<Place, int>;
std::string nameOfCase(const testing::TestParamInfo<AlgorithmParameter> &info);

class AlgorithmCase : public testing::TestWithParam<AlgorithmParameter> {
protected:
  const Context *context = nullptr;
  const Place &place = std::get<0>(GetParam());
  const Attention &variant = attentions[std::get<1>(GetParam())];
  const int D = place.dim;
  const double scale;
  std::vector<int32_t> documents; ///< document of each position 0 .. 1023
  std::vector<TestTensor> captures;
  bool dropout = false; ///< whether compile() asks for dropout
  int valueDim = D;     ///< head dimension of v and o in compile()
  std::vector<ScalarArgument> scalars;
  /// The factor of a pair's P in products: 0 if dropout drops the pair, 1 without dropout.
  std::function<double(int batch, const Pair &)> weight = [](int, const Pair &) { return 1.0; };

  AlgorithmCase();
  void SetUp() override;

  /// `schedule` replaces the schedule of the place.
  std::optional<Kernel> compile(const std::string &algorithm, const std::string &text,
                                const std::vector<std::string> &bindings = {},
                                std::optional<std::string> schedule = std::nullopt);
  void launch(const Kernel &kernel, const LaunchArguments &arguments);
  /// Adds a captured tensor of floats or integers, of rank 1.
  TestTensor &addVector(ElementType type, const void *data, int extent);
  /// A launch's tensor of integers, of rank 1, or a matrix with this number of rows.
  NamedTensor integers(const char *name, const std::vector<int32_t> &values, int64_t rows = 0);
  /// Adds the variant's captured tensors to `arguments`. `keys`: the extent Sk.
  void addCaptures(LaunchArguments &arguments, int keys);

  /// Calls `visit` for each kept pair, with the scaled product of q and k.
  void forEachPair(const std::vector<Sequence> &sequences, const Values &q, const Values &k,
                   const std::function<void(const Sequence &, int query, int key, const Pair &,
                                            double s)> &visit);

  /// O, with the queries' shape and v's head dimension; `lse` receives L. `base`: computed as an
  /// honest kernel does, with the score in f32 and P rounded before the product.
  std::vector<double> forward(const std::vector<Sequence> &sequences, const Values &q,
                              const Values &k, const Values &v, bool base, std::vector<double> &lse,
                              std::vector<double> *sizes = nullptr);

  /// `rows`: the number of rows whose errors form one norm.
  void expectNear(const char *name, ElementType type, const std::vector<float> &out,
                  const test::GradientReference &reference, int rows = 1);
  /// Expects L to be infinite where it must be, and close to `expected` elsewhere.
  void expectLse(const std::vector<float> &lse, const std::vector<double> &expected);
  /// Checks results that were poisoned: rows marked in `isOwned` follow the rule, and nothing wrote
  /// to the other rows. `sums`: the expected L.
  void expectOwnRows(Values &o, Values &lse, const std::vector<bool> &isOwned,
                     const test::GradientReference &reference, const std::vector<double> &sums);
};

} // namespace tesela

#endif // TESELA_TESTS_GPU_ALGORITHMCASE_H
