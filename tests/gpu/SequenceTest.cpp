//===- SequenceTest.cpp - Sequences of different lengths, and pages -------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/forward_ragged.mlir and forward_paged.mlir by the public API, against attention in
// double precision, on the host, and on a GPU with mma.sync and with wgmma. Rows that no sequence
// owns are NaN in the inputs and must stay poisoned in the results.
//
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace tesela;

namespace {

constexpr int H = queryHeads, Hkv = keyHeads, longest = 201; // keys of a sequence
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// NaN in the rows that `isUsed` does not mark; it has one element a row of each batch.
void spoilUnusedRows(Values &tensor, const std::vector<bool> &isUsed) {
  std::vector<double> values = tensor.values;
  for (int batch = 0; batch < tensor.batches; ++batch)
    for (int head = 0; head < tensor.heads; ++head)
      for (int row = 0; row < tensor.length; ++row)
        if (!isUsed[size_t(batch) * tensor.length + row])
          std::fill_n(values.begin() + int64_t(tensor.at({batch, row}, head)), tensor.dim, nan);
  tensor.set(values);
}

class Sequences : public AlgorithmCase {
protected:
  std::vector<Sequence> sequences;

  void expectForward(const Kernel &kernel, const LaunchArguments &arguments, const Values &q,
                     const Values &k, const Values &v, Values &o, Values &lse);
  NamedTensor integers(const char *name, const std::vector<int32_t> &values) {
    return {name, addVector(ElementType::i32, values.data(), int(values.size())).device()};
  }
};

/// Launches on poisoned results, and looks at the rows of all sequences and at those of none.
void Sequences::expectForward(const Kernel &kernel, const LaunchArguments &arguments,
                              const Values &q, const Values &k, const Values &v, Values &o,
                              Values &lse) {
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);
  std::vector<bool> isOwned(sums.size(), false);
  for (const Sequence &sequence : sequences)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < sequence.queries; ++i)
        isOwned[q.at(sequence.query(i), h) / D] = true;
  ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
  launch(kernel, arguments);
  std::vector<float> outO = o.download(), outLse = lse.download();
  for (size_t row = 0; row < isOwned.size(); ++row) {
    if (isOwned[row])
      continue;
    ASSERT_TRUE(std::isnan(outLse[row])) << "lse is written in row " << row;
    outLse[row] = float(sums[row]);
    for (int x = 0; x < D; ++x) {
      ASSERT_TRUE(std::isnan(outO[row * D + x])) << "o is written in row " << row;
      outO[row * D + x] = 0;
    }
  }
  // Of a row with few keys the honest kernel's error may be nothing, by chance.
  expectNear("o", o.type, outO, reference, /*rows=*/30);
  expectLse(outLse, sums);
}

//===----------------------------------------------------------------------===//
// Ragged
//===----------------------------------------------------------------------===//

struct Lengths {
  int queries, keys, offset;
};

std::vector<int32_t> startsOf(const std::vector<Lengths> &lengths, int first, int Lengths::*count) {
  std::vector<int32_t> starts = {first};
  for (const Lengths &each : lengths)
    starts.push_back(starts.back() + each.*count);
  return starts;
}

// Sequences without queries, without keys, of one query, with queries before all keys, that end
// inside a tile and at its end. The second one's keys are NaN, which nobody may see.
TEST_P(Sequences, Ragged) {
  bool readsPositions = std::string(variant.text).find("doc:") != std::string::npos;
  const std::vector<Lengths> lengths = {
      {150, 150, 0}, {0, 40, 0}, {1, longest, longest - 1},          {37, 70, 33},
      {64, 64, 0},   {70, 0, 0}, {20, 33, readsPositions ? 13 : -7}, {3, 129, 100}};
  const int B = int(lengths.size()), queries = 360, keys = 720;
  std::vector<int32_t> startsQ = startsOf(lengths, 5, &Lengths::queries),
                       startsK = startsOf(lengths, 3, &Lengths::keys), offsets;
  ASSERT_TRUE(startsQ.back() < queries && startsK.back() < keys);
  std::vector<bool> queryIsUsed(queries, false), keyIsUsed(keys, false);
  for (int b = 0; b < B; ++b) {
    offsets.push_back(lengths[b].offset);
    auto rowFrom = [](int start) { return [start](int row) { return RowPlace{0, start + row}; }; };
    sequences.push_back({lengths[b].queries, lengths[b].keys, lengths[b].offset,
                         rowFrom(startsQ[b]), rowFrom(startsK[b])});
    std::fill(queryIsUsed.begin() + startsQ[b], queryIsUsed.begin() + startsQ[b + 1], true);
    std::fill(keyIsUsed.begin() + startsK[b], keyIsUsed.begin() + startsK[b + 1], b != 1);
  }
  for (bool bshd : {true, false}) {
    SCOPED_TRACE(bshd ? "[tokens, heads, D]" : "[heads, tokens, D]");
    Values q(*context, place.type, 1, H, queries, D, bshd),
        k(*context, place.type, 1, Hkv, keys, D, bshd),
        v(*context, place.type, 1, Hkv, keys, D, bshd),
        o(*context, place.type, 1, H, queries, D, bshd),
        lse(*context, ElementType::f32, 1, H, queries, 1);
    q.randomize(1), k.randomize(2), v.randomize(3);
    spoilUnusedRows(q, queryIsUsed), spoilUnusedRows(k, keyIsUsed), spoilUnusedRows(v, keyIsUsed);
    std::optional<Kernel> kernel = compile("forward_ragged", variant.text);
    ASSERT_TRUE(kernel);
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.tensors = {integers("starts_q", startsQ), integers("starts_k", startsK),
                         integers("offsets", offsets)};
    addCaptures(arguments, longest);
    for (int most : {150, 256}) { // more than the longest leaves items without rows
      arguments.extents = {{"Sq", most}, {"Sk", longest}};
      expectForward(*kernel, arguments, q, k, v, o, lse);
    }
  }
}

//===----------------------------------------------------------------------===//
// Paged
//===----------------------------------------------------------------------===//

class Pages : public Sequences {
protected:
  void expectPages(int page, bool bshd);
};

void Pages::expectPages(int page, bool bshd) {
  SCOPED_TRACE(testing::Message() << "pages of " << page << (bshd ? ", [page, heads, D]" : ""));
  constexpr int B = 6, Sq = 45;
  std::vector<int32_t> lengths = {longest, 0, 64, 37, 1, 128}, offsets;
  const int pagesOfSequence = (longest + page - 1) / page, pages = B * pagesOfSequence + 3;
  std::vector<int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(11));
  // A page that no sequence needs must not be looked at.
  std::vector<int32_t> table(size_t(B) * pagesOfSequence, std::numeric_limits<int32_t>::max());
  std::vector<bool> isUsed(size_t(pages) * page, false);
  sequences.clear();
  for (int b = 0; b < B; ++b) {
    for (int i = 0; i * page < lengths[b]; ++i)
      table[size_t(b) * pagesOfSequence + i] = order[b * pagesOfSequence + i];
    std::vector<int32_t> own(table.begin() + b * pagesOfSequence,
                             table.begin() + (b + 1) * pagesOfSequence);
    auto key = [own, page](int row) { return RowPlace{own[row / page], row % page}; };
    for (int j = 0; j < lengths[b]; ++j)
      isUsed[size_t(key(j).batch) * page + key(j).row] = true;
    offsets.push_back(std::max(0, lengths[b] - Sq));
    sequences.push_back({Sq, lengths[b], offsets[b],
                         [b](int row) {
                           return RowPlace{b, row};
                         },
                         key});
  }
  Values q(*context, place.type, B, H, Sq, D, bshd),
      k(*context, place.type, pages, Hkv, page, D, bshd),
      v(*context, place.type, pages, Hkv, page, D, bshd),
      o(*context, place.type, B, H, Sq, D, bshd), lse(*context, ElementType::f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  spoilUnusedRows(k, isUsed), spoilUnusedRows(v, isUsed);
  std::optional<Kernel> kernel =
      compile("forward_paged", variant.text, {"page=" + std::to_string(page)});
  ASSERT_TRUE(kernel);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  NamedTensor tableTensor = integers("table", table);
  tableTensor.tensor.rank = 2;
  tableTensor.tensor.extents = {B, pagesOfSequence};
  tableTensor.tensor.strides = {pagesOfSequence, 1};
  arguments.tensors = {tableTensor, integers("lengths", lengths), integers("offsets", offsets)};
  arguments.extents = {{"Sk", longest}};
  addCaptures(arguments, longest);
  expectForward(*kernel, arguments, q, k, v, o, lse);
}

TEST_P(Pages, OfAllSizes) {
  for (int page : {16, 48, 64, 256})
    expectPages(page, /*bshd=*/true);
  expectPages(32, /*bshd=*/false);
}

//===----------------------------------------------------------------------===//
// What is asked of a caller
//===----------------------------------------------------------------------===//

class SequenceErrors : public Sequences {};

TEST_P(SequenceErrors, WrongArgumentsAreSentences) {
  std::optional<Kernel> kernel = compile("forward_ragged", variant.text);
  ASSERT_TRUE(kernel);
  Values q(*context, place.type, 1, H, 64, D), k(*context, place.type, 1, Hkv, 64, D),
      v(*context, place.type, 1, Hkv, 64, D), o(*context, place.type, 1, H, 64, D),
      lse(*context, ElementType::f32, 1, H, 64, 1);
  LaunchArguments good;
  good.q = q.memory.device(), good.k = k.memory.device(), good.v = v.memory.device();
  good.o = o.memory.device(), good.lse = lse.rows();
  good.tensors = {integers("starts_q", {0, 40, 64}), integers("starts_k", {0, 40, 64}),
                  integers("offsets", {0, 0})};
  good.extents = {{"Sq", 40}, {"Sk", 40}};
  launch(*kernel, good);
  auto says = [&](const std::function<void(LaunchArguments &)> &change, const std::string &part) {
    LaunchArguments arguments = good;
    change(arguments);
    Status status = kernel->launch(arguments);
    ASSERT_EQ(status.code(), Code::invalidArgument) << "instead of: " << part;
    EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
  };
  says([](LaunchArguments &arguments) { arguments.extents.clear(); },
       "the extent Sq is missing, which no tensor tells: pass it by name among the launch's "
       "extents, Sq being the most queries of a sequence");
  says(
      [](LaunchArguments &arguments) {
        arguments.extents.push_back({"Sq", 40});
      },
      "the extent Sq is given twice: pass it once");
  says(
      [](LaunchArguments &arguments) {
        arguments.extents.push_back({"S", 40});
      },
      "there is no extent 'S'; a launch has B, H, Hkv, Sq, Sk");
  says([](LaunchArguments &arguments) { arguments.extents[0].value = -1; },
       "the extent Sq is -1, it must lie in [0, ");
  says(
      [](LaunchArguments &arguments) {
        arguments.extents.push_back({"B", 3});
      },
      "offsets has the axis 0 extent 2, the launch's extents has 3: they must agree");
  says(
      [&](LaunchArguments &arguments) {
        arguments.tensors[0] = integers("starts_q", {0, 40});
      },
      "starts_q");
}

INSTANTIATE_TEST_SUITE_P(Host, SequenceErrors,
                         testing::Values(AlgorithmParameter{hostPlaces[0], /*causal*/ 1}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, SequenceErrors,
                         testing::Values(AlgorithmParameter{gpuPlaces[0], /*causal*/ 1}),
                         nameOfCase);

constexpr int causalToDocuments[] = {1, 2, 3};

INSTANTIATE_TEST_SUITE_P(Host, Sequences,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::ValuesIn(causalToDocuments)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Sequences,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::ValuesIn(causalToDocuments)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Host, Pages,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::ValuesIn(causalToDocuments)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Pages,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::ValuesIn(causalToDocuments)),
                         nameOfCase);

} // namespace
