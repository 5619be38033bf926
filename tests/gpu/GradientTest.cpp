//===- GradientTest.cpp - Gradients, and split keys, by the public API ----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/backward.mlir, backward_fused.mlir, backward_in_parts.mlir and forward_in_parts.mlir,
// compiled by name and launched with tensors by name, through the same pipeline as all kernels.
// Compared with formulas in double precision, on the host, and on a GPU with mma.sync and with
// wgmma.
//
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"
#include "DropoutRule.h"

#include "../TestContext.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace tesela;

namespace {

constexpr int B = 2, H = queryHeads, Hkv = keyHeads, Sq = 150, Sk = 201;

std::vector<Sequence> sequencesOf(int keys, int batches = B) {
  std::vector<Sequence> sequences;
  for (int b = 0; b < batches; ++b) {
    auto row = [b](int row) { return RowPlace{b, row}; };
    sequences.push_back({Sq, keys, 0, row, row});
  }
  return sequences;
}

/// The tensors that a launch of gradients reads and writes.
struct Tensors {
  std::vector<Sequence> sequences;
  Values q, k, v, o, dO, lse, dlse, dq, dk, dv;

  Tensors(const Context &context, ElementType type, int D, int keys = Sk, int batches = B)
      : sequences(sequencesOf(keys, batches)), q(context, type, batches, H, Sq, D),
        k(context, type, batches, Hkv, keys, D), v(context, type, batches, Hkv, keys, D),
        o(context, type, batches, H, Sq, D), dO(context, type, batches, H, Sq, D),
        lse(context, ElementType::f32, batches, H, Sq, 1),
        dlse(context, ElementType::f32, batches, H, Sq, 1), dq(context, type, batches, H, Sq, D),
        dk(context, type, batches, Hkv, keys, D), dv(context, type, batches, Hkv, keys, D) {}

  void randomize() { q.randomize(1), k.randomize(2), v.randomize(3), dO.randomize(4); }

  LaunchArguments arguments(bool hasDlse) const {
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.tensors = {{"do", dO.memory.device()},
                         {"dq", dq.memory.device()},
                         {"dk", dk.memory.device()},
                         {"dv", dv.memory.device()}};
    if (hasDlse)
      arguments.tensors.push_back({"dlse", dlse.rows()});
    return arguments;
  }
};

struct Gradients {
  test::GradientReference dq, dk, dv;
};

/// The schedule of backward_fused at a place. Its tiles of dQ have a row for each query of a block;
/// each warpgroup holds 64. If the tiles do not fit into the registers of two warpgroups, one
/// warpgroup computes.
std::string fusedSchedule(const Place &place) {
  std::string schedule = place.schedule;
  if (schedule == "consumers = 2")
    return place.dim > 64 ? "consumers = 1, block_m = 64, block_n = 64, stages = 1"
                          : "consumers = 2, block_m = 128, block_n = 128, stages = 1";
  if (schedule == "consumers = 0")
    return schedule + ", block_m = 64, block_n = 64, warps = 4, product_rows = 16, stages = 1";
  return schedule;
}

class Algorithms : public AlgorithmCase {
protected:
  const std::vector<Sequence> sequences = sequencesOf(Sk);

  /// Compiles and launches attention, and checks O and L.
  void expectForward();
  /// Compiles and launches `algorithm`, and checks dq, dk and dv. `hasDlse`: pass a gradient of
  /// lse.
  void expectGradients(const std::string &algorithm, const std::string &schedule, bool hasDlse,
                       int keys = Sk, int batches = B,
                       const std::vector<std::string> &bindings = {});
  /// Compiles kernels with dropout from now on.
  void dropPairs();
  /// Computes o and lse from q, k and v.
  void attend(Tensors &tensors);
  /// Launches with poisoned results.
  void launchGradients(const Kernel &kernel, Tensors &tensors, bool hasDlse);
  /// The gradients in double precision. `base`: computed as an honest kernel does.
  void differentiate(const Tensors &tensors, bool base, Gradients &result);
};

void Algorithms::dropPairs() {
  constexpr double p = 0.2;
  constexpr uint64_t seed = 77, offset = 5;
  dropout = true;
  scalars = dropoutScalars(p, seed, offset);
  weight = [](int b, const Pair &pair) {
    bool dropped =
        isDropped(p, seed, offset, uint32_t(b * H + pair.h), uint32_t(pair.q), uint32_t(pair.k));
    return dropped ? 0 : 1 / (1 - double(float(p)));
  };
}

void Algorithms::attend(Tensors &tensors) {
  std::vector<double> sums;
  tensors.o.set(forward(tensors.sequences, tensors.q, tensors.k, tensors.v, /*base=*/false, sums));
  tensors.lse.set(sums);
}

void Algorithms::launchGradients(const Kernel &kernel, Tensors &tensors, bool hasDlse) {
  for (Values *result : {&tensors.dq, &tensors.dk, &tensors.dv})
    ASSERT_TRUE(result->memory.poison().ok());
  LaunchArguments arguments = tensors.arguments(hasDlse);
  arguments.scalars = scalars;
  captures.clear();
  addCaptures(arguments, tensors.k.length);
  launch(kernel, arguments);
}

void Algorithms::differentiate(const Tensors &tensors, bool base, Gradients &result) {
  auto of = [&](test::GradientReference &each, size_t size) -> std::vector<double> & {
    std::vector<double> &values = base ? each.base : each.exact;
    values.assign(size, 0);
    if (!base)
      each.sizes.assign(size, 0);
    return values;
  };
  const Values &q = tensors.q, &k = tensors.k, &v = tensors.v, &o = tensors.o, &dO = tensors.dO,
               &lse = tensors.lse, &dlse = tensors.dlse;
  std::vector<double> &dq = of(result.dq, q.values.size()), &dk = of(result.dk, k.values.size()),
                      &dv = of(result.dv, v.values.size());
  auto round = [&](double value) { return base ? roundedTo(place.type, value) : value; };
  auto inFloat = [&](double value) { return base ? double(float(value)) : value; };
  forEachPair(
      tensors.sequences, q, k,
      [&](const Sequence &each, int i, int j, const Pair &p, double exact) {
        size_t row = q.at(each.query(i), p.h), key = k.at(each.key(j), p.h / (H / Hkv));
        double s = inFloat(exact), score = variant.score(p, s), slope = variant.slope(p, s);
        double P = std::exp(inFloat(score) - lse.values[row / D]), dP = 0, delta = 0, size = 0;
        double ofL = dlse.values[row / D];
        double errorOfP = P * (1 + std::abs(score)); // the score's error times P is P's
        double kept = weight(each.query(i).batch, p);
        for (int x = 0; x < D; ++x) {
          double given = dO.values[row + x];
          dP += kept * given * v.values[key + x];
          delta += given * o.values[row + x];
          size += kept * std::abs(given * v.values[key + x]) + std::abs(given * o.values[row + x]);
          dv[key + x] += kept * round(P) * given;
          if (!base)
            result.dv.sizes[key + x] += kept * errorOfP * std::abs(given);
        }
        double ds = round(P * (dP - inFloat(inFloat(delta) - ofL)) * slope);
        size += std::abs(ofL);
        size *= scale * errorOfP * std::abs(slope);
        for (int x = 0; x < D; ++x) {
          dq[row + x] += scale * ds * k.values[key + x];
          dk[key + x] += scale * ds * q.values[row + x];
          if (!base) {
            result.dq.sizes[row + x] += size * std::abs(k.values[key + x]);
            result.dk.sizes[key + x] += size * std::abs(q.values[row + x]);
          }
        }
      });
}

void Algorithms::expectForward() {
  ElementType type = place.type;
  Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
      v(*context, type, B, Hkv, Sk, D), o(*context, type, B, H, Sq, D),
      lse(*context, ElementType::f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);
  std::optional<Kernel> kernel = compile("forward", variant.text);
  ASSERT_TRUE(kernel && o.memory.poison().ok() && lse.memory.poison().ok());
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  arguments.scalars = scalars;
  captures.clear();
  addCaptures(arguments, Sk);
  launch(*kernel, arguments);
  // For a row with few keys the honest kernel's error may be 0 by chance, so many rows share a
  // norm.
  expectNear("o", o.type, o.download(), reference, /*rows=*/30);
  expectLse(lse.download(), sums);
}

void Algorithms::expectGradients(const std::string &algorithm, const std::string &schedule,
                                 bool hasDlse, int keys, int batches,
                                 const std::vector<std::string> &bindings) {
  Tensors tensors(*context, place.type, D, keys, batches);
  tensors.randomize();
  if (hasDlse)
    tensors.dlse.randomize(5);
  attend(tensors);
  std::optional<Kernel> kernel = compile(algorithm, variant.text, bindings, schedule);
  ASSERT_TRUE(kernel);
  Gradients reference;
  for (bool base : {false, true})
    differentiate(tensors, base, reference);
  for (int repeat = 0; repeat < 2; ++repeat) {
    launchGradients(*kernel, tensors, hasDlse);
    expectNear("dq", place.type, tensors.dq.download(), reference.dq);
    expectNear("dk", place.type, tensors.dk.download(), reference.dk);
    expectNear("dv", place.type, tensors.dv.download(), reference.dv);
  }
}

TEST_P(Algorithms, Backward) { expectGradients("backward", place.schedule, /*hasDlse=*/false); }

TEST_P(Algorithms, BackwardWithGradientOfLse) {
  expectGradients("backward", place.schedule, /*hasDlse=*/true);
}

TEST_P(Algorithms, BackwardFused) {
  expectGradients("backward_fused", fusedSchedule(place), /*hasDlse=*/false);
}

TEST_P(Algorithms, BackwardFusedWithGradientOfLse) {
  expectGradients("backward_fused", fusedSchedule(place), /*hasDlse=*/true);
}

// With the tiles that the library chooses.
TEST_P(Algorithms, BackwardFast) {
  expectGradients("backward_fast", place.schedule, /*hasDlse=*/true);
}

// Work items that do not wait for each other, as with tiles that five products do not fit.
TEST_P(Algorithms, BackwardInSevenProducts) {
  const std::string own = place.schedule;
  if (own == "consumers = 0" || D > 128 || std::string(place.device) == "host")
    GTEST_SKIP() << "these never add in turn";
  expectGradients("backward", own.empty() ? "add_in_turn = false" : own + ", add_in_turn = false",
                  /*hasDlse=*/true);
}

// Long gradients of narrow heads have one consumer, and two thread blocks on a multiprocessor.
TEST_P(Algorithms, BackwardWithOneConsumer) {
  if (std::string(place.schedule) != "consumers = 2" || D > 64)
    GTEST_SKIP() << "only for narrow heads with roles";
  expectGradients("backward", "consumers = 1", /*hasDlse=*/true);
}

// Tiles of the five products without roles, as other chips and head dimensions have them: warps
// share rows.
TEST_P(Algorithms, BackwardFusedBySharedRows) {
  const std::string own = place.schedule, wide = ", block_m = 64, block_n = 64, warps = 8",
                    square = ", block_m = 64, block_n = 64, warps = 4",
                    ofEight = ", block_m = 128, block_n = 64, warps = 8";
  if (own != "consumers = 0" || D < 64)
    GTEST_SKIP() << "no such tiles";
  for (const std::string &tiles :
       D > 128 ? std::vector{wide + ", stages = 2", wide + ", stages = 1"}
               : std::vector{square + ", stages = 1", square + ", stages = 2", ofEight})
    expectGradients("backward_fused", own + tiles + ", product_rows = 32", /*hasDlse=*/false);
}

// O and the gradients with dropout. Dropped pairs are left out of the products.
TEST_P(Algorithms, Dropout) {
  dropPairs();
  expectForward();
  expectGradients("backward", place.schedule, /*hasDlse=*/true);
  expectGradients("backward_fused", fusedSchedule(place), /*hasDlse=*/false);
  expectGradients("backward_fast", place.schedule, /*hasDlse=*/false);
}

/// Gradients where a thread block takes several work items one after another. There are 416 items
/// of 128 keys, and 832 of queries; an H200 has 132 multiprocessors. With a causal mask some items
/// have one block and some have two.
class ManyItems : public Algorithms {
protected:
  static constexpr int batches = 104;
};

TEST_P(ManyItems, Backward) {
  expectGradients("backward", place.schedule, /*hasDlse=*/false, Sk, batches);
}

// The other order of work items and of their blocks.
TEST_P(ManyItems, BackwardWithTheFirstKeysFirst) {
  expectGradients("backward", "last_keys_first = true", /*hasDlse=*/false, Sk, batches);
}

// Work items with all query heads of a key/value head, which add in turn to one head after another.
TEST_P(ManyItems, BackwardOfSharedHeads) {
  expectGradients("backward", place.schedule, /*hasDlse=*/false, Sk, batches, {"workers=1"});
}

// Nine blocks of keys of a head add one after another, and some have no query.
TEST_P(ManyItems, BackwardOfManyBlocks) {
  constexpr int keys = 1100, few = 6;
  for (const char *order : {"", "last_keys_first = true"})
    expectGradients("backward", order, /*hasDlse=*/false, keys, few);
}

TEST_P(ManyItems, BackwardFused) {
  std::string schedule = place.dim > 64 ? "consumers = 2" : "consumers = 2, block_n = 128";
  expectGradients("backward_fused", schedule, /*hasDlse=*/false, Sk, batches);
}

/// The host's gradients when each head has several parts.
class InParts : public Algorithms {
protected:
  static constexpr int keys = 803; // two parts of each head, and blocks that are not full
};

TEST_P(InParts, Backward) {
  expectGradients("backward_in_parts", place.schedule, /*hasDlse=*/true, keys);
}

TEST_P(InParts, OnePart) {
  expectGradients("backward_in_parts", place.schedule, /*hasDlse=*/false);
}

TEST_P(InParts, WideBlocks) {
  expectGradients("backward_in_parts", "block_m = 32, block_n = 128", /*hasDlse=*/false, keys);
}

TEST_P(InParts, Dropout) {
  dropPairs();
  expectGradients("backward_in_parts", place.schedule, /*hasDlse=*/false, keys);
}

TEST_P(InParts, HasTheSameBitsWhoeverComputes) {
  Tensors tensors(*context, place.type, D, keys);
  tensors.randomize();
  attend(tensors);
  std::vector<std::vector<uint32_t>> first; // as bits, because 0 and -0 differ
  for (int threads : {1, 2, 3, 7}) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    ContextOptions options = testContextOptions("host");
    options.threads = threads;
    Result<Context> ofThreads = Context::create(options);
    ASSERT_TRUE(ofThreads.ok()) << ofThreads.error().message();
    KernelOptions kernelOptions;
    kernelOptions.variantText = variant.text;
    kernelOptions.inputType = place.type;
    kernelOptions.headDimQk = kernelOptions.headDimV = D;
    kernelOptions.algorithm = "backward_fast";
    Result<Kernel> kernel = ofThreads->compile(kernelOptions);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    launchGradients(*kernel, tensors, /*hasDlse=*/false);
    std::vector<std::vector<uint32_t>> results;
    for (Values *result : {&tensors.dq, &tensors.dk, &tensors.dv}) {
      std::vector<uint32_t> &words = results.emplace_back();
      for (float number : result->download())
        words.push_back(std::bit_cast<uint32_t>(number));
    }
    if (first.empty())
      first = results;
    EXPECT_EQ(results, first);
  }
}

/// Head dimensions whose columns of dQ two warpgroups share unevenly: 64, and the rest.
class UnevenHeads : public ManyItems {};

TEST_P(UnevenHeads, BackwardFused) {
  expectGradients("backward_fused", place.schedule, /*hasDlse=*/true);
}

TEST_P(UnevenHeads, BackwardFusedOfManyItems) {
  expectGradients("backward_fused", place.schedule, /*hasDlse=*/false, Sk, batches);
}

TEST_P(UnevenHeads, Backward) {
  expectGradients("backward", place.schedule, /*hasDlse=*/false, Sk, batches);
}

TEST_P(UnevenHeads, Dropout) {
  dropPairs();
  expectGradients("backward_fused", place.schedule, /*hasDlse=*/false);
  expectGradients("backward", place.schedule, /*hasDlse=*/false);
}

class WideHeads : public Algorithms {};

TEST_P(WideHeads, Backward) { expectGradients("backward", place.schedule, /*hasDlse=*/true); }

// Six products: work items of keys add their parts of dQ from their registers.
TEST_P(WideHeads, BackwardFast) {
  expectGradients("backward_fast", place.schedule, /*hasDlse=*/true);
}

// Thread blocks take several work items, whose loads continue in crossed buffers.
TEST_P(WideHeads, BackwardFastOfManyItems) {
  if (std::string(variant.name) != "causal")
    GTEST_SKIP() << "one mask is enough";
  constexpr int batches = 72; // 288 work items of keys
  expectGradients("backward_fast", place.schedule, /*hasDlse=*/false, Sk, batches);
}

// A work item has several query heads, whose loads continue in crossed buffers.
TEST_P(WideHeads, BackwardFastOfSharedHeads) {
  expectGradients("backward_fast", place.schedule, /*hasDlse=*/false, Sk, B, {"workers=1"});
}

TEST_P(WideHeads, Dropout) {
  dropPairs();
  expectGradients("backward", place.schedule, /*hasDlse=*/false);
  expectGradients("backward_fast", place.schedule, /*hasDlse=*/false);
}

TEST_P(Algorithms, SplitKeys) {
  ElementType type = place.type;
  Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
      v(*context, type, B, Hkv, Sk, D), o(*context, type, B, H, Sq, D),
      lse(*context, ElementType::f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);
  for (int workers : {1, 24, 1024}) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    std::optional<Kernel> split =
        compile("forward_in_parts", variant.text, {"workers=" + std::to_string(workers)});
    ASSERT_TRUE(split);
    ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    captures.clear();
    addCaptures(arguments, Sk);
    launch(*split, arguments);
    // For a row with few keys the honest kernel's error may be 0 by chance, so many rows share a
    // norm.
    expectNear("o", o.type, o.download(), reference, /*rows=*/30);
    expectLse(lse.download(), sums);
  }
}

/// Variants that do not depend on positions.
class GradientOfLse : public Algorithms {};

// Attention over two parts of the keys, merged by their lse, equals attention over all keys. So the
// gradients are equal, too. They reach each part through its o and its lse.
TEST_P(GradientOfLse, MergesPartsOfTheKeys) {
  constexpr int cut = 90;
  Tensors whole(*context, place.type, D);
  whole.randomize();
  attend(whole);
  Gradients reference;
  differentiate(whole, /*base=*/false, reference);
  for (test::GradientReference *each : {&reference.dq, &reference.dk, &reference.dv})
    each->base.assign(each->exact.size(), 0);
  std::vector<float> dq(reference.dq.exact.size()), dk(reference.dk.exact.size()), dv(dk.size());
  std::optional<Kernel> kernel = compile("backward", variant.text);
  ASSERT_TRUE(kernel);
  for (auto [first, keys] : {std::pair(0, cut), std::pair(cut, Sk - cut)}) {
    Tensors part(*context, place.type, D, keys);
    // Calls `visit` with an element's index in the part's keys and in the whole's.
    auto forEachElement = [&](const std::function<void(size_t, size_t)> &visit) {
      for (int b = 0; b < B; ++b)
        for (int h = 0; h < Hkv; ++h)
          for (int row = 0; row < keys; ++row)
            for (int x = 0; x < D; ++x)
              visit(part.k.at({b, row}, h) + x, whole.k.at({b, first + row}, h) + x);
    };
    std::vector<double> k(part.k.values.size()), v(k.size());
    forEachElement([&](size_t inPart, size_t inWhole) {
      k[inPart] = whole.k.values[inWhole];
      v[inPart] = whole.v.values[inWhole];
    });
    part.q.set(whole.q.values), part.k.set(k), part.v.set(v);
    attend(part);
    std::vector<double> dO(part.o.values.size()), dlse(part.lse.values.size(), 0);
    for (size_t i = 0; i < dO.size(); ++i) {
      double share = std::exp(part.lse.values[i / D] - whole.lse.values[i / D]);
      dO[i] = share * whole.dO.values[i];
      dlse[i / D] += share * whole.dO.values[i] * (part.o.values[i] - whole.o.values[i]);
    }
    part.dO.set(dO), part.dlse.set(dlse);
    launchGradients(*kernel, part, /*hasDlse=*/true);
    Gradients honest;
    differentiate(part, /*base=*/false, honest);
    differentiate(part, /*base=*/true, honest);
    std::vector<float> dqOfPart = part.dq.download(), dkOfPart = part.dk.download(),
                       dvOfPart = part.dv.download();
    for (size_t i = 0; i < dq.size(); ++i) {
      dq[i] += dqOfPart[i];
      reference.dq.base[i] += roundedTo(place.type, honest.dq.base[i]);
    }
    forEachElement([&](size_t inPart, size_t inWhole) {
      dk[inWhole] = dkOfPart[inPart];
      dv[inWhole] = dvOfPart[inPart];
      reference.dk.base[inWhole] = honest.dk.base[inPart];
      reference.dv.base[inWhole] = honest.dv.base[inPart];
    });
  }
  // For few rows the honest kernel's error may be 0 by chance, so many rows share a norm.
  expectNear("dq", place.type, dq, reference.dq, /*rows=*/30);
  expectNear("dk", place.type, dk, reference.dk, /*rows=*/30);
  expectNear("dv", place.type, dv, reference.dv, /*rows=*/30);
}

TEST_P(GradientOfLse, IsZeroWhereItIsLeftOut) {
  Tensors tensors(*context, place.type, D);
  tensors.randomize();
  attend(tensors);
  std::optional<Kernel> kernel = compile("backward", variant.text);
  ASSERT_TRUE(kernel);
  launchGradients(*kernel, tensors, /*hasDlse=*/false);
  std::vector<std::vector<float>> leftOut;
  for (Values *result : {&tensors.dq, &tensors.dk, &tensors.dv})
    leftOut.push_back(result->download());
  tensors.dlse.set(std::vector<double>(tensors.dlse.values.size(), 0));
  launchGradients(*kernel, tensors, /*hasDlse=*/true);
  EXPECT_EQ(tensors.dq.download(), leftOut[0]);
  EXPECT_EQ(tensors.dk.download(), leftOut[1]);
  EXPECT_EQ(tensors.dv.download(), leftOut[2]);
}

TEST_P(GradientOfLse, OfRowsWithoutKeysCountsNowhere) {
  constexpr int without = 20;
  Tensors tensors(*context, place.type, D);
  tensors.randomize();
  tensors.o.randomize(5);
  auto isWithout = [&](size_t row) { return int(row % Sq) < without; };
  std::vector<double> lse(tensors.lse.values.size());
  for (size_t row = 0; row < lse.size(); ++row)
    lse[row] = isWithout(row) ? -std::numeric_limits<double>::infinity() : 3;
  tensors.lse.set(lse);
  std::optional<Kernel> kernel =
      compile("backward", "attention late() { mask = q >= k + " + std::to_string(without) + " }");
  ASSERT_TRUE(kernel);
  std::vector<std::vector<float>> results;
  for (double ofRowWithoutKeys : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
    tensors.dlse.randomize(6);
    std::vector<double> dlse = tensors.dlse.values;
    for (size_t row = 0; row < dlse.size(); ++row)
      if (isWithout(row))
        dlse[row] = ofRowWithoutKeys;
    tensors.dlse.set(dlse);
    launchGradients(*kernel, tensors, /*hasDlse=*/true);
    for (Values *result : {&tensors.dq, &tensors.dk, &tensors.dv})
      results.push_back(result->download());
  }
  EXPECT_EQ(results[0], results[3]); // NaN is not equal to itself
  EXPECT_EQ(results[1], results[4]);
  EXPECT_EQ(results[2], results[5]);
  for (size_t i = 0; i < results[0].size(); ++i)
    if (isWithout(i / D)) {
      ASSERT_EQ(results[0][i], 0) << "element " << i << " of dq";
    }
}

TEST_P(GradientOfLse, HasTheShapeOfLse) {
  Tensors tensors(*context, place.type, D);
  std::optional<Kernel> kernel = compile("backward", variant.text);
  ASSERT_TRUE(kernel);
  LaunchArguments arguments = tensors.arguments(/*hasDlse=*/true);
  arguments.tensors.back().tensor.extents[2] = Sq - 1;
  Status launched = kernel->launch(arguments);
  ASSERT_FALSE(launched);
  EXPECT_NE(launched.error().message().find("dlse is f32[2, 4, 149], it must be f32[2, 4, 150]: "
                                            "[batch, heads, queries]"),
            std::string::npos)
      << launched.error().message();
}

INSTANTIATE_TEST_SUITE_P(Host, Algorithms,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Host, InParts,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Algorithms,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);
// The schedules that compile() chooses if dK and dV do not fit into one kernel's registers.
const std::vector<Place> widePlaces = {{"bf16_d256", "cuda", "", ElementType::bf16, 256},
                                       {"f16_d200", "cuda", "", ElementType::f16, 200},
                                       {"bf16_d192", "cuda", "", ElementType::bf16, 192}};
INSTANTIATE_TEST_SUITE_P(Gpu, WideHeads,
                         testing::Combine(testing::ValuesIn(widePlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);
// Of the second warpgroup's 64 columns 8, 16, 32 and 48 exist.
const std::vector<Place> unevenPlaces = {
    {"bf16_d72", "cuda", "consumers = 2", ElementType::bf16, 72},
    {"f16_d80", "cuda", "consumers = 2", ElementType::f16, 80},
    {"bf16_d96", "cuda", "consumers = 2", ElementType::bf16, 96},
    {"f16_d112", "cuda", "consumers = 2", ElementType::f16, 112}};
INSTANTIATE_TEST_SUITE_P(Gpu, UnevenHeads,
                         testing::Combine(testing::ValuesIn(unevenPlaces),
                                          testing::Values(0, 1, 3)),
                         nameOfCase);
// Full, causal and documents.
const std::vector<Place> itemPlaces = {{"bf16_d64", "cuda", "", ElementType::bf16, 64},
                                       {"bf16_d128", "cuda", "", ElementType::bf16, 128}};
INSTANTIATE_TEST_SUITE_P(Gpu, ManyItems,
                         testing::Combine(testing::ValuesIn(itemPlaces), testing::Values(0, 1, 3)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Host, GradientOfLse,
                         testing::Combine(testing::ValuesIn(hostPlaces), testing::Values(0, 5)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, GradientOfLse,
                         testing::Combine(testing::ValuesIn(gpuPlaces), testing::Values(0, 5)),
                         nameOfCase);

} // namespace
