//===- SequenceTest.cpp - Sequences of different lengths, and pages -------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Ragged queries and keys, and pages, of templates/forward.mlir by the public API, compared with
// attention in double precision, on the host, and on a GPU with mma.sync and with wgmma. Rows that
// belong to no sequence are NaN in the inputs and must stay poisoned in the results.
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

using Texts = std::vector<std::string>;

const Texts ragged = {"queries=ragged", "keys=ragged", "positions=given"};
/// Attention, and attention with split keys: with no more work items than sequences, with some, and
/// with so many that most have nothing to do. Also thread blocks of one warp, which only exist on a
/// GPU, with rows of one head and of two.
struct Algorithm {
  std::string name;
  Texts bindings;
  std::optional<std::string> schedule = std::nullopt; ///< replaces the schedule of the place
};
const std::string oneWarp =
    "consumers = 0, block_m = 16, warps = 1, block_n = 32, stages = 3, q_in_registers = true";
const std::vector<Algorithm> algorithms = {
    {"forward", {}},
    {"forward_in_parts", {"workers=1"}},
    {"forward_in_parts", {"workers=48"}},
    {"forward_in_parts", {"workers=1000"}},
    {"forward_in_parts", {"workers=48"}, oneWarp},
    {"forward_in_parts", {"workers=96"}, oneWarp + ", heads = 2"}};

Texts joined(Texts a, const Texts &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr int H = queryHeads, Hkv = keyHeads, longest = 201; // most keys of a sequence
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Sets rows that `isUsed` does not mark to NaN. `isUsed` has one element for each row of each
/// batch.
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
  /// One warp can only hold rows of 256 columns with spills.
  bool exists(const Algorithm &algorithm) const {
    return !algorithm.schedule || (place.device != std::string("host") && D <= 128);
  }
};

/// Launches with poisoned results, and checks the rows of all sequences and those of no sequence.
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
  expectOwnRows(o, lse, isOwned, reference, sums);
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

// Sequences without queries, without keys, with one query, with queries before all keys, and with
// ends inside a tile and at its end. The second one's keys are NaN, and no query may see them.
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
  for (auto [bshd, algorithm] :
       {std::pair(true, 0), {false, 0}, {true, 1}, {false, 2}, {true, 3}, {true, 4}, {false, 5}}) {
    if (!exists(algorithms[algorithm]))
      continue;
    SCOPED_TRACE(bshd ? "[tokens, heads, D]" : "[heads, tokens, D]");
    SCOPED_TRACE(algorithms[algorithm].name + " " + std::to_string(algorithm));
    Values q(*context, place.type, 1, H, queries, D, bshd),
        k(*context, place.type, 1, Hkv, keys, D, bshd),
        v(*context, place.type, 1, Hkv, keys, D, bshd),
        o(*context, place.type, 1, H, queries, D, bshd),
        lse(*context, ElementType::f32, 1, H, queries, 1);
    q.randomize(1), k.randomize(2), v.randomize(3);
    spoilUnusedRows(q, queryIsUsed), spoilUnusedRows(k, keyIsUsed), spoilUnusedRows(v, keyIsUsed);
    const auto &[name, bindings, schedule] = algorithms[algorithm];
    std::optional<Kernel> kernel = compile(name, variant.text, joined(bindings, ragged), schedule);
    ASSERT_TRUE(kernel);
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.tensors = {integers("starts_q", startsQ), integers("starts_k", startsK),
                         integers("offsets", offsets)};
    addCaptures(arguments, longest);
    for (int most : {150, 256}) { // 256: some work items have no rows
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
  /// `algorithm`: an index into `algorithms`.
  void expectPages(int page, bool bshd, int algorithm = 0);
};

void Pages::expectPages(int page, bool bshd, int algorithm) {
  const auto &[name, bindings, schedule] = algorithms[algorithm];
  if (!exists(algorithms[algorithm]))
    return;
  SCOPED_TRACE(testing::Message() << name << algorithm << ", pages of " << page
                                  << (bshd ? ", [page, heads, D]" : ""));
  constexpr int B = 6, Sq = 45;
  std::vector<int32_t> lengths = {longest, 0, 64, 37, 1, 128}, offsets;
  const int pagesOfSequence = (longest + page - 1) / page, pages = B * pagesOfSequence + 3;
  std::vector<int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(11));
  // A page that no sequence needs must not be read.
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
      compile(name, variant.text,
              joined(bindings, {"keys=paged", "page=" + std::to_string(page), "positions=given"}),
              schedule);
  ASSERT_TRUE(kernel);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  arguments.tensors = {integers("table", table, B), integers("lengths", lengths),
                       integers("offsets", offsets)};
  arguments.extents = {{"Sk", longest}};
  addCaptures(arguments, longest);
  expectForward(*kernel, arguments, q, k, v, o, lse);
}

TEST_P(Pages, OfAllSizes) {
  for (int page : {1, 16, 20, 48, 64, 256})
    expectPages(page, /*bshd=*/true);
  expectPages(32, /*bshd=*/false);
}

TEST_P(Pages, SplitKeys) {
  expectPages(16, /*bshd=*/true, 1);
  expectPages(64, /*bshd=*/false, 2);
  expectPages(16, /*bshd=*/true, 3);
  expectPages(64, /*bshd=*/true, 4);
  expectPages(16, /*bshd=*/false, 5);
}

//===----------------------------------------------------------------------===//
// Pages of sequences with one length give the same bits as dense tensors
//===----------------------------------------------------------------------===//

class PagedAsDense : public Sequences {};

// With the same schedule the bits are the same, for every variant. This also holds for ragged
// queries.
TEST_P(PagedAsDense, TheBitsAreTheSame) {
  constexpr int B = 3, Sq = 70, Sk = longest, page = 16, pagesOfSequence = (Sk + page - 1) / page;
  Values q(*context, place.type, B, H, Sq, D), k(*context, place.type, B, Hkv, Sk, D),
      v(*context, place.type, B, Hkv, Sk, D), o(*context, place.type, B, H, Sq, D),
      lse(*context, ElementType::f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  constexpr int pages = B * pagesOfSequence + 2;
  Values kPages(*context, place.type, pages, Hkv, page, D, true),
      vPages(*context, place.type, pages, Hkv, page, D, true);
  std::vector<int32_t> table(B * pagesOfSequence);
  std::iota(table.begin(), table.end(), 1);
  std::shuffle(table.begin(), table.end(), std::mt19937(5));
  for (auto [dense, paged] : {std::pair(&k, &kPages), std::pair(&v, &vPages)}) {
    std::vector<double> values(paged->values.size(), nan);
    for (int b = 0; b < B; ++b)
      for (int h = 0; h < Hkv; ++h)
        for (int j = 0; j < Sk; ++j)
          std::copy_n(dense->values.begin() + int64_t(dense->at({b, j}, h)), D,
                      values.begin() +
                          int64_t(paged->at({table[b * pagesOfSequence + j / page], j % page}, h)));
    paged->set(values);
  }
  // The same queries as [tokens, H, D], and their results.
  Values qTokens(*context, place.type, 1, H, B * Sq, D, true),
      oTokens(*context, place.type, 1, H, B * Sq, D, true),
      lseTokens(*context, ElementType::f32, 1, H, B * Sq, 1);
  std::vector<double> tokens(qTokens.values.size());
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < Sq; ++i)
        std::copy_n(q.values.begin() + int64_t(q.at({b, i}, h)), D,
                    tokens.begin() + int64_t(qTokens.at({0, b * Sq + i}, h)));
  qTokens.set(tokens);

  const std::string paged = "page=" + std::to_string(page);
  std::optional<Kernel> ofDense = compile("forward", variant.text),
                        ofPages = compile("forward", variant.text, {"keys=paged", paged}),
                        ofTokens = compile("forward", variant.text,
                                           {"queries=ragged", "keys=paged", paged});
  ASSERT_TRUE(ofDense && ofPages && ofTokens);
  ASSERT_EQ(ofDense->info().schedule, ofPages->info().schedule);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  addCaptures(arguments, Sk);
  ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
  launch(*ofDense, arguments);
  const std::vector<float> expected = o.download(), expectedLse = lse.download();

  arguments.k = kPages.memory.device(), arguments.v = vPages.memory.device();
  arguments.tensors = {integers("table", table, B),
                       integers("lengths", std::vector<int32_t>(B, Sk))};
  arguments.extents = {{"Sk", Sk}};
  ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
  launch(*ofPages, arguments);
  EXPECT_EQ(o.download(), expected);
  EXPECT_EQ(lse.download(), expectedLse);

  arguments.q = qTokens.memory.device(), arguments.o = oTokens.memory.device();
  arguments.lse = lseTokens.rows();
  arguments.tensors.push_back(integers("starts_q", {0, Sq, 2 * Sq, 3 * Sq}));
  arguments.extents = {{"Sq", Sq}, {"Sk", Sk}};
  ASSERT_TRUE(oTokens.memory.poison().ok() && lseTokens.memory.poison().ok());
  launch(*ofTokens, arguments);
  const std::vector<float> outO = oTokens.download(), outLse = lseTokens.download();
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < Sq; ++i) {
        size_t token = qTokens.at({0, b * Sq + i}, h), row = q.at({b, i}, h);
        ASSERT_EQ(outLse[token / D], expectedLse[row / D]) << b << ", " << h << ", " << i;
        for (int x = 0; x < D; ++x)
          ASSERT_EQ(outO[token + x], expected[row + x]) << b << ", " << h << ", " << i;
      }
}

//===----------------------------------------------------------------------===//
// Wrong numbers in device memory
//===----------------------------------------------------------------------===//

class WrongNumbers : public Sequences {};

// The launch ends, it writes nothing outside of its results (guards), and right sequences get right
// results. Only a memory checker could see that nothing else is read.
TEST_P(WrongNumbers, StayInside) {
  constexpr int B = 5, tokens = 100, page = 16, pages = 9, mostPages = 4;
  constexpr int32_t least = std::numeric_limits<int32_t>::min(),
                    most = std::numeric_limits<int32_t>::max();
  Values q(*context, place.type, 1, H, tokens, D, true),
      k(*context, place.type, pages, Hkv, page, D, true),
      v(*context, place.type, pages, Hkv, page, D, true),
      o(*context, place.type, 1, H, tokens, D, true),
      lse(*context, ElementType::f32, 1, H, tokens, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  // Only the second sequence is right. The others have starts, lengths, pages and offsets that do
  // not exist.
  const std::vector<int32_t> startsQ = {least, 10, 50, most, 20, -7};
  const std::vector<int32_t> lengths = {most, 40, -3, least, 1000};
  const std::vector<int32_t> offsets = {most, 3, least, -50, 1 << 30};
  const std::vector<int32_t> table = {pages, -1,    most, least, 3,     8,    0, pages, 4, 5,
                                      6,     pages, -9,   -8,    least, most, 1, 2,     3, most};
  sequences = {{40, 40, 3,
                [](int row) {
                  return RowPlace{0, 10 + row};
                },
                [&](int row) {
                  return RowPlace{table[mostPages + row / page], row % page};
                }}};
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);
  for (const Algorithm &algorithm : algorithms) {
    if (!exists(algorithm))
      continue;
    std::optional<Kernel> kernel = compile(
        algorithm.name, variant.text,
        joined(algorithm.bindings, {"queries=ragged", "keys=paged", "page=16", "positions=given"}),
        algorithm.schedule);
    ASSERT_TRUE(kernel);
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.tensors = {integers("table", table, B), integers("lengths", lengths),
                         integers("starts_q", startsQ), integers("offsets", offsets)};
    arguments.extents = {{"Sq", tokens}, {"Sk", 200}};
    addCaptures(arguments, 200);
    ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
    launch(*kernel, arguments);
    std::vector<float> outO = o.download(), outLse = lse.download();
    // Wrong sequences may write tokens before and after those of the right one.
    for (size_t row = 0; row < sums.size(); ++row)
      if (int token = int(row % tokens); token < 10 || token >= 50) {
        outLse[row] = float(sums[row]);
        std::fill_n(outO.begin() + int64_t(row) * D, D, 0.0f);
      }
    expectNear("o", o.type, outO, reference, /*rows=*/30);
    expectLse(outLse, sums);
  }
}

//===----------------------------------------------------------------------===//
// Errors of the caller
//===----------------------------------------------------------------------===//

class SequenceErrors : public Sequences {
protected:
  using Change = std::function<void(LaunchArguments &)>;

  /// A launch of `good` with one mistake must be refused by a message that contains `part`.
  static void expectSentence(const Kernel &kernel, LaunchArguments good, const Change &change,
                             const std::string &part) {
    change(good);
    Status status = kernel.launch(good);
    ASSERT_EQ(status.code(), Code::invalidArgument) << "instead of: " << part;
    EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
  }
};

TEST_P(SequenceErrors, WrongArgumentsAreSentences) {
  std::optional<Kernel> kernel = compile("forward", variant.text, ragged);
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
  auto says = [&](const Change &change, const std::string &part) {
    expectSentence(*kernel, good, change, part);
  };
  says([](LaunchArguments &arguments) { arguments.extents.clear(); },
       "the extent Sq is missing, and no tensor has it: pass it by name among the launch's "
       "extents; Sq is the most queries of a sequence");
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
  Values shortLse(*context, ElementType::f32, 1, H, 63, 1);
  says([&](LaunchArguments &arguments) { arguments.lse = shortLse.rows(); },
       "lse has the axis 2 extent 63, it must have at least as many rows as o, which has 64");
}

TEST_P(SequenceErrors, ASharedPrefixIsGivenWhole) {
  std::optional<Kernel> kernel =
      compile("forward", variant.text,
              {"keys=paged", "page=16", "queries=ragged", "positions=end", "prefix=shared"});
  ASSERT_TRUE(kernel);
  Values q(*context, place.type, 1, H, 4, D), k(*context, place.type, 3, Hkv, 16, D),
      v(*context, place.type, 3, Hkv, 16, D), o(*context, place.type, 1, H, 4, D),
      lse(*context, ElementType::f32, 1, H, 4, 1), shortLse(*context, ElementType::f32, 1, H, 3, 1);
  LaunchArguments good;
  good.q = q.memory.device(), good.k = k.memory.device(), good.v = v.memory.device();
  good.o = o.memory.device(), good.lse = lse.rows();
  good.tensors = {integers("table", {0, 1, 0, 2}, 2), integers("lengths", {20, 18}),
                  integers("starts_q", {0, 1, 4})};
  good.extents = {{"Sq", 3}, {"Sk", 32}};
  good.captures = {{"prefix_table", integers("prefix_table", {0}, 1).tensor},
                   {"prefix_length", integers("prefix_length", {16}).tensor},
                   {"query_positions", integers("query_positions", {19, 15, 16, 17}).tensor},
                   {"query_sequences", integers("query_sequences", {0, 1, 1, 1}).tensor},
                   {"query_keys", integers("query_keys", {20, 18, 18, 18}).tensor}};
  launch(*kernel, good);
  auto says = [&](const Change &change, const std::string &part) {
    expectSentence(*kernel, good, change, part);
  };
  says([](LaunchArguments &arguments) { arguments.lse = Tensor(); }, "the tensor 'lse' is missing");
  says([&](LaunchArguments &arguments) { arguments.lse = shortLse.rows(); },
       "lse has the axis 2 extent 3, it must have at least as many rows as o, which has 4");
  says([](LaunchArguments &arguments) { arguments.captures[2].tensor.extents[0] = 3; },
       "its extent of axis 2 must be 3, as that of query_positions is");
  says([](LaunchArguments &arguments) { arguments.captures.pop_back(); }, "query_keys");
}

INSTANTIATE_TEST_SUITE_P(Host, SequenceErrors,
                         testing::Values(AlgorithmParameter{hostPlaces[0], /*causal*/ 1}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, SequenceErrors,
                         testing::Values(AlgorithmParameter{gpuPlaces[0], /*causal*/ 1}),
                         nameOfCase);

constexpr int causalToDocuments[] = {1, 2, 3};
/// The same attentions, and one whose score reads a captured tensor.
constexpr int causalToSlopes[] = {1, 2, 3, 4};

INSTANTIATE_TEST_SUITE_P(Host, Sequences,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::ValuesIn(causalToDocuments)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Sequences,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::ValuesIn(causalToSlopes)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Host, Pages,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::ValuesIn(causalToDocuments)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Pages,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::ValuesIn(causalToSlopes)),
                         nameOfCase);

INSTANTIATE_TEST_SUITE_P(Host, PagedAsDense,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, PagedAsDense,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Host, WrongNumbers,
                         testing::Combine(testing::ValuesIn(hostPlaces), testing::Values(1, 2)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, WrongNumbers,
                         testing::Combine(testing::ValuesIn(gpuPlaces), testing::Values(1, 2)),
                         nameOfCase);

} // namespace
