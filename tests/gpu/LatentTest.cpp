//===- LatentTest.cpp - Values that are columns of the keys ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Multi-head latent attention with 576 and 512 columns, as in decoding, and with narrower rows,
// which take other kernels. values=keys, on ragged queries and pages, whole and in parts, by the
// public API, compared with attention in double precision. Memory that no sequence may read is NaN,
// and rows of no sequence must stay poisoned.
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

constexpr int H = queryHeads, Hkv = keyHeads, page = 64, longest = 250;

class Latent : public AlgorithmCase {
protected:
};

// Sequences with many keys, no keys, one key, and ends at a page's end and inside a page. One
// sequence has no queries.
TEST_P(Latent, PagesOfRaggedQueries) {
  valueDim = D > 256 ? 512 : 128;
  const std::vector<int32_t> lengths = {longest, 0, 64, 37, 1, 128};
  const std::vector<int32_t> startsQ = {2, 5, 7, 7, 27, 28, 30};
  const int B = int(lengths.size()), queries = 33;
  const int pagesOfSequence = (longest + page - 1) / page, pages = B * pagesOfSequence + 3;
  std::vector<int32_t> order(pages), table(size_t(B) * pagesOfSequence, -1);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(11));
  Values q(*context, place.type, 1, H, queries, D, /*bshd=*/true),
      k(*context, place.type, pages, Hkv, page, D, /*bshd=*/true),
      v(*context, ElementType::f32, pages, Hkv, page, valueDim), // only for the reference
      o(*context, place.type, 1, H, queries, valueDim, /*bshd=*/true),
      lse(*context, ElementType::f32, 1, H, queries, 1);
  q.randomize(1), k.randomize(2);

  std::vector<double> read(k.values.size(), std::numeric_limits<double>::quiet_NaN());
  std::vector<Sequence> sequences;
  std::vector<bool> isOwned(size_t(H) * queries, false);
  for (int b = 0; b < B; ++b) {
    for (int i = 0; i * page < lengths[b]; ++i)
      table[size_t(b) * pagesOfSequence + i] = order[b * pagesOfSequence + i];
    std::vector<int32_t> own(table.begin() + b * pagesOfSequence,
                             table.begin() + (b + 1) * pagesOfSequence);
    int count = startsQ[b + 1] - startsQ[b];
    sequences.push_back({count, lengths[b], lengths[b] - count,
                         [start = startsQ[b]](int row) {
                           return RowPlace{0, start + row};
                         },
                         [own](int row) {
                           return RowPlace{own[row / page], row % page};
                         }});
    for (int h = 0; h < H; ++h)
      std::fill_n(isOwned.begin() + h * queries + startsQ[b], count, true);
    for (int j = 0; j < lengths[b]; ++j)
      for (int h = 0; h < Hkv; ++h) {
        size_t row = k.at(sequences.back().key(j), h);
        std::copy_n(k.values.begin() + int64_t(row), D, read.begin() + int64_t(row));
      }
  }
  k.set(read);
  std::vector<double> columns;
  for (size_t row = 0; row < k.values.size(); row += size_t(D))
    columns.insert(columns.end(), k.values.begin() + int64_t(row),
                   k.values.begin() + int64_t(row) + valueDim);
  v.set(columns);
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);

  for (auto [algorithm, workers] :
       {std::pair("forward", 0), {"forward_in_parts", 6}, {"forward_in_parts", 48}}) {
    SCOPED_TRACE(testing::Message() << algorithm << " " << workers);
    std::vector<std::string> bindings = {"values=keys", "queries=ragged", "keys=paged",
                                         "page=" + std::to_string(page), "positions=end"};
    if (workers > 0)
      bindings.push_back("workers=" + std::to_string(workers));
    std::optional<Kernel> kernel = compile(algorithm, variant.text, bindings);
    ASSERT_TRUE(kernel);
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.tensors = {integers("table", table, B), integers("lengths", lengths),
                         integers("starts_q", startsQ)};
    arguments.extents = {{"Sq", 20}, {"Sk", longest}};
    addCaptures(arguments, longest);
    ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
    launch(*kernel, arguments);
    expectOwnRows(o, lse, isOwned, reference, sums);
  }
}

/// Causal, a window, documents and a softcap.
constexpr int masks[] = {1, 2, 3, 5};
const std::vector<Place> hostLatent = {{"f32_d576", "host", "", ElementType::f32, 576},
                                       {"f32_d192", "host", "", ElementType::f32, 192}},
                         gpuLatent = {
                             {"mma_bf16_d576", "cuda", "consumers = 0", ElementType::bf16, 576},
                             {"roles_bf16_d576", "cuda", "", ElementType::bf16, 576},
                             {"roles_f16_d576", "cuda", "", ElementType::f16, 576},
                             {"mma_bf16_d192", "cuda", "consumers = 0", ElementType::bf16, 192},
                             {"roles_bf16_d192", "cuda", "", ElementType::bf16, 192}};

INSTANTIATE_TEST_SUITE_P(Host, Latent,
                         testing::Combine(testing::ValuesIn(hostLatent), testing::ValuesIn(masks)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Latent,
                         testing::Combine(testing::ValuesIn(gpuLatent), testing::ValuesIn(masks)),
                         nameOfCase);

} // namespace
