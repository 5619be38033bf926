//===- KeyRangeTest.cpp - The ranges of keys against dense masks ----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Soundness on random masks: no pair outside the key blocks that run is kept, every pair inside
// those that are not partial is. Sharpness on the library's masks: nothing more runs, nothing less
// is full. The masks themselves come from the interpreter.
//
// TESELA_KEY_RANGE_MASKS: how many random masks, TESELA_KEY_RANGE_SEED: from which on.
//
//===----------------------------------------------------------------------===//
#include "RandomMask.h"

#include "analysis/TileProgram.h"
#include "frontend/Parser.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>

using namespace tesela;

namespace {

std::unique_ptr<mlir::MLIRContext> makeContext() {
  return std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
}

std::unique_ptr<TileProgram> makeProgram(const Variant &variant, mlir::MLIRContext &context,
                                         int64_t blockM, int64_t blockN) {
  Result<std::unique_ptr<TileProgram>> program =
      TileProgram::create(variant, context, blockM, blockN);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
  return program.ok() ? std::move(*program) : nullptr;
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

/// The blocks that a block of queries visits, looked up without a list of them: huge launches have
/// too many.
class Visits {
public:
  Visits(TileProgram &program, const Launch &launch) : program(program) {
    Result<int64_t> begun = program.begin(launch.bindings, launch.place, launch.first);
    EXPECT_TRUE(begun.ok()) << (begun.ok() ? "" : begun.error().message());
    count = begun.ok() ? *begun : 0;
  }

  VisitedBlock at(int64_t number) {
    Result<VisitedBlock> block = program.block(number);
    EXPECT_TRUE(block.ok()) << (block.ok() ? "" : block.error().message());
    return block.ok() ? *block : VisitedBlock();
  }

  std::optional<VisitedBlock> find(int64_t index) {
    Result<std::optional<VisitedBlock>> block = program.find(index);
    EXPECT_TRUE(block.ok()) << (block.ok() ? "" : block.error().message());
    return block.ok() ? *block : std::nullopt;
  }

  /// Blocks where something may change: the first and the last, and those on both sides of a gap or
  /// of a change of kind, sought between samples that lie closer near both ends.
  std::vector<VisitedBlock> corners() {
    std::set<int64_t> samples;
    for (int64_t step = 1; step <= count; step *= 2)
      samples.insert({step - 1, count - step});
    std::vector<VisitedBlock> found;
    auto differ = [](int64_t a, const VisitedBlock &x, int64_t b, const VisitedBlock &y) {
      return x.partial != y.partial || y.index - x.index != b - a;
    };
    int64_t last = -1;
    for (int64_t sample : samples) {
      int64_t low = last, high = sample;
      last = sample;
      found.push_back(at(sample));
      if (low < 0 || !differ(low, at(low), high, at(high)))
        continue;
      while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        (differ(low, at(low), middle, at(middle)) ? high : low) = middle;
      }
      found.push_back(at(low));
      found.push_back(at(high));
    }
    return found;
  }

  int64_t count = 0;

private:
  TileProgram &program;
};

/// The keys to look at: all, or of a huge launch those where something may change.
std::vector<int32_t> keysOf(const Launch &launch, const std::vector<VisitedBlock> &corners,
                            int64_t blockN, std::mt19937 &random) {
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
  for (const VisitedBlock &block : corners) {
    around(block.index * blockN);
    around((block.index + 1) * blockN);
  }
  for (int64_t k :
       {int64_t(0), end, int64_t(launch.first), int64_t(launch.lastQuery), int64_t(random() % end)})
    around(k);
  return keys;
}

/// What is wrong with what a block of queries visits; empty where it is sound.
std::string findUnsound(const Interpreter &interpreter, Visits &visits,
                        const std::vector<VisitedBlock> &corners, const Launch &launch,
                        int64_t blockN, std::mt19937 &random) {
  std::ostringstream problem;
  auto show = [&](const char *what, const Point &point) {
    problem << what << ": q " << point.q << ", k " << point.k << ", " << visits.count
            << " key blocks";
    for (const VisitedBlock &block : corners)
      problem << ' ' << block.index << (block.partial ? "p" : "f");
    return problem.str();
  };
  int64_t sk = launch.bindings.extents.Sk;
  for (const VisitedBlock &block : corners)
    if (block.index < 0 || block.index * blockN >= sk)
      return show("a block lies outside [0, Sk)", launch.place);
  for (int32_t k : keysOf(launch, corners, blockN, random)) {
    std::optional<VisitedBlock> block = visits.find(k / blockN);
    bool isFull = block && !block->partial;
    if (isFull && (block->index + 1) * blockN > sk)
      return show("a block that is not partial goes beyond Sk", {.k = k});
    Point point = launch.place;
    point.k = k;
    for (int64_t q = launch.first; q <= launch.lastQuery; ++q) {
      point.q = int32_t(q);
      bool keeps = interpreter.mask(point);
      if (keeps && !block)
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
    std::unique_ptr<TileProgram> program = makeProgram(variant, *context, blockM, blockN);
    ASSERT_TRUE(program);
    for (int repeat = 0; repeat < 6; ++repeat) {
      Launch launch;
      fill(launch, random, blockM);
      Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
      ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
      Visits visits(*program, launch);
      std::vector<VisitedBlock> corners = visits.corners();
      ASSERT_FALSE(HasFailure()) << mask;
      std::string problem = findUnsound(*interpreter, visits, corners, launch, blockN, random);
      const Extents &e = launch.bindings.extents;
      ASSERT_EQ(problem, "") << "mask " << number << " = " << mask << "\nSq " << e.Sq << ", Sk "
                             << e.Sk << ", queries [" << launch.first << ", " << launch.lastQuery
                             << "], p " << launch.bindings.parameters[0].scalar << ", w "
                             << launch.bindings.parameters[1].scalar << ", x "
                             << launch.bindings.parameters[2].scalar << ", t[b] "
                             << launch.table[launch.place.b];
      ++launches;
      narrowed += visits.count < (int64_t(e.Sk) + blockN - 1) / blockN;
      withFull += std::any_of(corners.begin(), corners.end(),
                              [](const VisitedBlock &block) { return !block.partial; });
    }
  }
  // What claims nothing is always sound: these masks are to be worth the trouble.
  EXPECT_GT(narrowed, launches / 8);
  EXPECT_GT(withFull, launches / 8);
  std::printf("%d masks, %d blocks of queries: %d skip key blocks, %d have full ones\n", count,
              launches, narrowed, withFull);
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

class SharpKeyRange : public testing::TestWithParam<const char *> {};

TEST_P(SharpKeyRange, IsExact) {
  Variant variant = parsed(libraryVariant(GetParam()));
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  // Blocks of one key show the interval itself.
  for (auto [blockM, blockN] : {std::pair(64, 64), {128, 128}, {176, 176}, {64, 1}}) {
    std::unique_ptr<TileProgram> program = makeProgram(variant, *context, blockM, blockN);
    ASSERT_TRUE(program);
    for (auto [sq, sk] : {std::pair(256, 256), {200, 333}, {333, 200}, {1, 513}, {513, 1}})
      for (int32_t parameter : {1, 100, 5000}) { // a window, or the length of a prefix
        Binding binding{.scalar = double(parameter), .capture = {&parameter, {1}, {1}}};
        Bindings bindings{.extents = {1, 1, 1, sq, sk},
                          .parameters = {variant.parameters.size(), binding}};
        Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
        ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
        for (int32_t first = 0; first < sq; first += blockM) {
          SCOPED_TRACE(testing::Message()
                       << "block " << blockM << " x " << blockN << ", Sq " << sq << ", Sk " << sk
                       << ", parameter " << parameter << ", first " << first);
          int32_t end = std::min<int32_t>(first + blockM, sq);
          std::vector<VisitedBlock> expected;
          for (int32_t begin = 0; begin < sk; begin += blockN) {
            bool some = false, all = begin + blockN <= sk;
            for (int32_t k = begin; k < std::min(begin + blockN, sk); ++k)
              for (int32_t q = first; q < end; ++q) {
                bool keeps = interpreter->mask({.q = q, .k = k});
                some = some || keeps;
                all = all && keeps;
              }
            if (some)
              expected.push_back({begin / blockN, !all});
          }
          Result<std::vector<VisitedBlock>> visited = program->evaluate(bindings, {}, first);
          ASSERT_TRUE(visited.ok()) << visited.error().message();
          EXPECT_TRUE(*visited == expected);
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Library, SharpKeyRange,
                         testing::Values("full", "causal", "causal_bottom_right", "sliding_window",
                                         "prefix_lm"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
