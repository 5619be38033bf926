//===- KeyRangeTest.cpp - The ranges of keys against dense masks ----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Soundness on random masks: no pair outside `range` is kept, every pair inside `full` is, and so
// of the key blocks that run or are not partial. Sharpness on the library's masks: nothing more
// runs, nothing less is full. The masks themselves come from the interpreter.
//
// TESELA_KEY_RANGE_MASKS: how many random masks, TESELA_KEY_RANGE_SEED: from which on.
//
//===----------------------------------------------------------------------===//
#include "RandomMask.h"
#include "RangeProgram.h"

#include "frontend/Parser.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <sstream>

using namespace tesela;

namespace {

std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<tile::TileDialect, mlir::math::MathDialect, mlir::scf::SCFDialect>();
  return context;
}

Variant parsed(const std::string &text) {
  Result<Variant> variant = parseVariant(text, "mask.attn");
  EXPECT_TRUE(variant.ok()) << text << (variant.ok() ? "" : variant.error().message());
  return variant.ok() ? *variant : Variant();
}

/// A launch of kMaskParameters and a block of queries of it.
struct Launch {
  std::vector<int32_t> table;
  Bindings bindings;
  Point place;
  int32_t first = 0, lastQuery = 0; ///< of the block
};

void fill(Launch &launch, std::mt19937 &random, int64_t blockM) {
  Extents &e = launch.bindings.extents;
  auto below = [&](int64_t end) { return int32_t(random() % end); };
  bool isHuge = random() % 4 == 0; // where q and k themselves come near the end of i32
  auto length = [&](int least) {
    return isHuge ? std::numeric_limits<int32_t>::max() - below(100) * below(1 << 20)
                  : least + below(90);
  };
  e.B = 1 + below(3);
  e.Hkv = 1 + below(2);
  e.H = e.Hkv * (1 + below(3));
  e.Sq = length(1);
  e.Sk = length(0);
  launch.place.b = below(e.B);
  launch.place.h = below(e.H);
  launch.place.hkv = launch.place.h / (e.H / e.Hkv);
  int64_t blocks = (int64_t(e.Sq) + blockM - 1) / blockM;
  launch.first = int32_t((random() % 3 == 0 ? blocks - 1 : below(blocks)) * blockM);
  launch.lastQuery = int32_t(std::min<int64_t>(launch.first + blockM, e.Sq)) - 1;

  for (int32_t i = 0; i < e.B; ++i)
    launch.table.push_back(randomInteger(random, e.Sk));
  launch.bindings.parameters.resize(4);
  launch.bindings.parameters[0].scalar = randomInteger(random, e.Sk);
  launch.bindings.parameters[1].scalar = randomInteger(random, e.Sq);
  const float numbers[] = {0, -1.5f, 0.75f, 1e10f, std::numeric_limits<float>::quiet_NaN()};
  launch.bindings.parameters[2].scalar = numbers[random() % 5];
  launch.bindings.parameters[3].capture = {launch.table.data(), {e.B}, {1}};
}

/// The keys to look at: all, or of a huge launch those where something may change.
std::vector<int32_t> keysOf(const Launch &launch, const BlockRanges &ranges, int64_t blockN,
                            std::mt19937 &random) {
  int64_t end = launch.bindings.extents.Sk;
  std::vector<int32_t> keys;
  if (end <= 200) {
    for (int32_t k = 0; k < end; ++k)
      keys.push_back(k);
    return keys;
  }
  auto around = [&](int64_t k) {
    for (int64_t near = k - 2; near <= k + 2; ++near)
      if (near >= 0 && near < end)
        keys.push_back(int32_t(near));
  };
  for (int64_t k : {ranges.range.low, ranges.range.high, ranges.full.low, ranges.full.high,
                    ranges.blocks.low * blockN, ranges.blocks.high * blockN, int64_t(0), end,
                    int64_t(launch.first), int64_t(launch.lastQuery), int64_t(random() % end)})
    around(k);
  return keys;
}

/// What is wrong with `ranges`; empty where they are sound.
std::string findUnsound(const Interpreter &interpreter, RangeProgram &program,
                        const BlockRanges &ranges, const Launch &launch, int64_t blockN,
                        std::mt19937 &random) {
  std::ostringstream problem;
  auto show = [&](const char *what, const Point &point) {
    problem << what << ": q " << point.q << ", k " << point.k << ", range [" << ranges.range.low
            << ", " << ranges.range.high << "), full [" << ranges.full.low << ", "
            << ranges.full.high << "), key blocks [" << ranges.blocks.low << ", "
            << ranges.blocks.high << ')';
    return problem.str();
  };
  int64_t sk = launch.bindings.extents.Sk;
  for (const Interval &interval : {ranges.range, ranges.full})
    if (interval.low < 0 || interval.high > sk)
      return show("an interval leaves [0, Sk)", launch.place);
  for (int32_t k : keysOf(launch, ranges, blockN, random)) {
    int64_t block = k / blockN;
    bool runs = ranges.blocks.contains(block), isFull = runs && !program.isPartial(block);
    if (isFull && (block + 1) * blockN > sk)
      return show("a block that is not partial goes beyond Sk", {.k = k});
    bool inRange = ranges.range.contains(k), inFull = ranges.full.contains(k);
    Point point = launch.place;
    point.k = k;
    for (int64_t q = launch.first; q <= launch.lastQuery; ++q) {
      point.q = int32_t(q);
      bool keeps = interpreter.mask(point);
      if (keeps && !inRange)
        return show("kept outside range", point);
      if (!keeps && inFull)
        return show("masked inside full", point);
      if (keeps && !runs)
        return show("kept in a block that does not run", point);
      if (!keeps && isFull)
        return show("masked in a block that is not partial", point);
    }
  }
  return "";
}

int fromEnvironment(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

TEST(KeyRange, IsSoundOnRandomMasks) {
  int count = fromEnvironment("TESELA_KEY_RANGE_MASKS", 5000);
  int seed = fromEnvironment("TESELA_KEY_RANGE_SEED", 1);
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  int launches = 0, narrowed = 0, withFull = 0;
  for (int number = seed; number < seed + count; ++number) {
    if (number % 500 == 0)
      context = makeContext(); // attributes of old masks are never freed
    std::mt19937 random(number);
    std::string mask = randomMask(random);
    Variant variant =
        parsed("attention m(" + std::string(kMaskParameters) + ") {\n  mask = " + mask + "\n}\n");
    int64_t blockM = int64_t(1) << (2 + random() % 4), blockN = int64_t(1) << (2 + random() % 4);
    RangeProgram program(variant, *context, blockM, blockN);
    ASSERT_FALSE(HasFailure());
    for (int repeat = 0; repeat < 6; ++repeat) {
      Launch launch;
      fill(launch, random, blockM);
      Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
      ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
      BlockRanges ranges = program.evaluate(variant, launch.bindings, launch.place, launch.first);
      std::string problem = findUnsound(*interpreter, program, ranges, launch, blockN, random);
      const Extents &e = launch.bindings.extents;
      ASSERT_EQ(problem, "") << "mask " << number << " = " << mask << "\nSq " << e.Sq << ", Sk "
                             << e.Sk << ", queries [" << launch.first << ", " << launch.lastQuery
                             << "], p " << launch.bindings.parameters[0].scalar << ", w "
                             << launch.bindings.parameters[1].scalar << ", x "
                             << launch.bindings.parameters[2].scalar << ", t[b] "
                             << launch.table[launch.place.b];
      ++launches;
      narrowed += ranges.range.low > 0 || ranges.range.high < e.Sk;
      withFull += !ranges.full.isEmpty();
    }
  }
  // What claims nothing is always sound: these masks are to be worth the trouble.
  EXPECT_GT(narrowed, launches / 8);
  EXPECT_GT(withFull, launches / 8);
  std::printf("%d masks, %d blocks of queries: %d with a narrower range, %d with full keys\n",
              count, launches, narrowed, withFull);
}

//===----------------------------------------------------------------------===//
// Sharpness
//===----------------------------------------------------------------------===//

std::string libraryVariant(const std::string &name) {
  std::ifstream file(std::string(TESELA_TEST_VARIANTS) + "/" + name + ".attn");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// As an interval: every way to say "none" is one.
std::pair<int64_t, int64_t> endsOf(const Interval &interval) {
  return interval.isEmpty() ? std::pair<int64_t, int64_t>(0, 0)
                            : std::pair(interval.low, interval.high);
}

class SharpKeyRange : public testing::TestWithParam<const char *> {};

TEST_P(SharpKeyRange, IsExact) {
  Variant variant = parsed(libraryVariant(GetParam()));
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  for (int64_t block : {64, 128}) {
    RangeProgram program(variant, *context, block, block);
    ASSERT_FALSE(HasFailure());
    for (auto [sq, sk] : {std::pair(256, 256), {200, 333}, {333, 200}, {1, 513}, {513, 1}})
      for (int32_t parameter : {1, 100, 5000}) { // a window, or the length of a prefix
        Binding binding{.scalar = double(parameter), .capture = {&parameter, {1}, {1}}};
        Bindings bindings{.extents = {1, 1, 1, sq, sk},
                          .parameters = {variant.parameters.size(), binding}};
        Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
        ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
        for (int32_t first = 0; first < sq; first += block) {
          SCOPED_TRACE(testing::Message() << "block " << block << ", Sq " << sq << ", Sk " << sk
                                          << ", parameter " << parameter << ", first " << first);
          int32_t end = std::min<int32_t>(first + block, sq);
          std::vector<bool> some(sk, false), all(sk, true);
          for (int32_t k = 0; k < sk; ++k)
            for (int32_t q = first; q < end; ++q) {
              bool keeps = interpreter->mask({.q = q, .k = k});
              some[k] = some[k] || keeps;
              all[k] = all[k] && keeps;
            }
          // All these masks keep one run of keys.
          auto runOf = [&](const std::vector<bool> &keys) {
            Interval run{sk, 0};
            for (int32_t k = 0; k < sk; ++k)
              if (keys[k])
                run = {std::min<int64_t>(run.low, k), k + 1};
            return run;
          };
          BlockRanges ranges = program.evaluate(variant, bindings, {}, first);
          EXPECT_EQ(endsOf(ranges.range), endsOf(runOf(some)));
          EXPECT_EQ(endsOf(ranges.full), endsOf(runOf(all)));
          for (int64_t index = 0; index * block < sk; ++index) {
            bool isNeeded = false, isWhole = (index + 1) * block <= sk;
            for (int64_t k = index * block; k < std::min<int64_t>((index + 1) * block, sk); ++k) {
              isNeeded = isNeeded || some[k];
              isWhole = isWhole && all[k];
            }
            EXPECT_EQ(ranges.blocks.contains(index), isNeeded) << "key block " << index;
            if (isNeeded) {
              EXPECT_EQ(program.isPartial(index), !isWhole) << "key block " << index;
            }
          }
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Library, SharpKeyRange,
                         testing::Values("full", "causal", "causal_bottom_right", "sliding_window",
                                         "prefix_lm"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
