//===- KeyRegionsTest.cpp - Blocks of keys that run against masks ---------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Soundness on random masks: no pair outside the key blocks that run is kept, every pair inside
// those that are not partial is. The masks themselves come from the interpreter.
//
// TESELA_RANDOM_MASKS: how many random masks, TESELA_RANDOM_SEED: from which on. A failure says how
// to repeat it.
//
//===----------------------------------------------------------------------===//
#include "RandomMask.h"

#include "analysis/TileProgram.h"
#include "frontend/Parser.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
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

/// A block of queries of a launch, which begins anywhere.
struct Place {
  Extents extents;
  Point point;
  int32_t first = 0, lastQuery = 0; ///< of the block
};

Place randomPlace(std::mt19937 &random, int64_t blockM) {
  Place place;
  Extents &e = place.extents;
  auto below = [&](int64_t end) { return int32_t(random() % end); };
  bool isHuge = random() % 5 == 0; // where q and k themselves come near the end of i32
  auto length = [&](int least) {
    return isHuge ? std::numeric_limits<int32_t>::max() - below(100) * below(1 << 20)
                  : least + below(90);
  };
  e.B = 1 + below(3);
  e.Hkv = 1 + below(2);
  e.H = e.Hkv * (1 + below(3));
  e.Sq = length(1);
  e.Sk = length(0);
  place.point.b = below(e.B);
  place.point.h = below(e.H);
  place.point.hkv = place.point.h / (e.H / e.Hkv);
  place.first = random() % 3 == 0 ? int32_t(std::max<int64_t>(e.Sq - blockM, 0)) : below(e.Sq);
  place.lastQuery = int32_t(std::min<int64_t>(place.first + blockM, e.Sq)) - 1;
  return place;
}

/// The blocks that a block of queries visits, looked up without a list of them: huge launches have
/// too many.
class Visits {
public:
  Visits(TileProgram &program, const Bindings &bindings, const Place &place) : program(program) {
    Result<int64_t> begun = program.begin(bindings, place.point, place.first);
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
  /// of a change of kind, sought between samples that lie closer near both ends. Of few, all.
  std::vector<VisitedBlock> corners() {
    std::set<int64_t> samples;
    for (int64_t step = 1; step <= count; step *= 2)
      samples.insert({step - 1, count - step});
    for (int64_t number = 0; number < count && count <= 100; ++number)
      samples.insert(number);
    auto differ = [](int64_t a, const VisitedBlock &x, int64_t b, const VisitedBlock &y) {
      return x.partial != y.partial || y.index - x.index != b - a;
    };
    std::set<int64_t> numbers = samples;
    int64_t last = -1;
    for (int64_t sample : samples) {
      int64_t low = last, high = sample;
      last = sample;
      if (low < 0 || !differ(low, at(low), high, at(high)))
        continue;
      while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        (differ(low, at(low), middle, at(middle)) ? high : low) = middle;
      }
      numbers.insert({low, high});
    }
    std::vector<VisitedBlock> found;
    for (int64_t number : numbers)
      found.push_back(at(number));
    return found;
  }

  int64_t count = 0;

private:
  TileProgram &program;
};

/// The keys to look at: all, or of a huge launch those where something may change.
std::vector<int32_t> keysOf(const Place &place, const std::vector<VisitedBlock> &corners,
                            int64_t blockN, std::mt19937 &random) {
  int64_t end = place.extents.Sk;
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
  for (int64_t k : {int64_t(0), end, int64_t(place.first), int64_t(place.lastQuery),
                    int64_t(random() % end), int64_t(random() % 100), end - int64_t(random() % 100),
                    int64_t(place.first) + int64_t(random() % 200) - 100})
    around(k);
  std::ranges::sort(keys);
  return keys;
}

/// Whether the softmax sees the pair: what the score is in full must not matter.
bool isKept(const Interpreter &interpreter, const Point &point) {
  constexpr float none = -std::numeric_limits<float>::infinity();
  return interpreter.mask(point) &&
         (interpreter.scoreIsIdentity() || interpreter.score(point, 1.0f) != none ||
          interpreter.score(point, -1.0f) != none);
}

/// What is wrong with what a block of queries visits; empty where it is sound.
std::string findUnsound(const Interpreter &interpreter, Visits &visits,
                        const std::vector<VisitedBlock> &corners, const Place &place,
                        int64_t blockN, std::mt19937 &random) {
  std::ostringstream problem;
  auto show = [&](const char *what, const Point &point) {
    problem << what << ": b " << point.b << ", h " << point.h << ", q " << point.q << ", k "
            << point.k << "; " << visits.count << " key blocks of " << blockN << ":";
    for (const VisitedBlock &block : corners)
      problem << ' ' << block.index << (block.partial ? "p" : "f");
    return problem.str();
  };
  int64_t sk = place.extents.Sk, before = -1;
  for (const VisitedBlock &block : corners) {
    if (block.index < 0 || block.index * blockN >= sk)
      return show("a block lies outside [0, Sk)", place.point);
    if (block.index <= before)
      return show("a block is visited twice, or too late", place.point);
    before = block.index;
  }
  Point point = place.point;
  std::optional<VisitedBlock> block;
  int64_t sought = -1;
  for (int32_t k : keysOf(place, corners, blockN, random)) {
    if (k / blockN != sought)
      block = visits.find(sought = k / blockN);
    bool isFull = block && !block->partial;
    point.k = k;
    if (isFull && (block->index + 1) * blockN > sk)
      return show("a block that is not partial goes beyond Sk", point);
    if (block && block->partial)
      continue;
    for (int64_t q = place.first; q <= place.lastQuery; ++q) {
      point.q = int32_t(q);
      if (!block && isKept(interpreter, point))
        return show("kept in a block that does not run", point);
      if (isFull && !interpreter.mask(point))
        return show("masked in a block that is not partial", point);
    }
  }
  return "";
}

int fromEnvironment(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

/// Launches of one form of tiles, and of how many something is claimed.
struct Claims {
  int launches = 0, skip = 0, full = 0;
};

TEST(KeyRegions, AreSoundOnRandomMasks) {
  int count = fromEnvironment("TESELA_RANDOM_MASKS", 5000);
  int seed = fromEnvironment("TESELA_RANDOM_SEED", 1);
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::map<TileForm, Claims> claims;
  for (int number = seed; number < seed + count; ++number) {
    if (number % 500 == 0)
      context = makeContext(); // attributes of old masks are never freed
    std::mt19937 random(number);
    std::string text = "attention m(" + std::string(kMaskParameters) + ") {\n";
    text += randomMask(random);
    if (random() % 5 == 0)
      text += randomScore(random);
    Variant variant = parsed(text + "}\n");
    ASSERT_FALSE(HasFailure()) << "seed " << number;
    auto extent = [&] { return 1 + int64_t(random() % (random() % 2 ? 64 : 16)); };
    int64_t blockM = extent(), blockN = extent();
    std::unique_ptr<TileProgram> program = makeProgram(variant, *context, blockM, blockN);
    ASSERT_TRUE(program) << "seed " << number << '\n' << text;
    Claims &claimed = claims[program->form()];
    for (int repeat = 0; repeat < 8; ++repeat) {
      Place place = randomPlace(random, blockM);
      RandomLaunch launch(random, place.extents);
      Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
      ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
      Visits visits(*program, launch.bindings, place);
      std::vector<VisitedBlock> corners = visits.corners();
      std::string problem = findUnsound(*interpreter, visits, corners, place, blockN, random);
      ASSERT_TRUE(problem.empty() && !HasFailure())
          << problem << "\nrepeat it: TESELA_RANDOM_SEED=" << number << " TESELA_RANDOM_MASKS=1\n"
          << text << "}\nqueries [" << place.first << ", " << place.lastQuery << "], "
          << launch.text();
      ++claimed.launches;
      claimed.skip += visits.count < (int64_t(place.extents.Sk) + blockN - 1) / blockN;
      claimed.full +=
          std::ranges::any_of(corners, [](const VisitedBlock &block) { return !block.partial; });
    }
  }
  for (auto [form, name] : {std::pair(TileForm::everyTile, "every tile"),
                            {TileForm::keyRanges, "key ranges"},
                            {TileForm::classified, "classified"}})
    std::printf("%-10s  %d blocks of queries: %d skip key blocks, %d have full ones\n", name,
                claims[form].launches, claims[form].skip, claims[form].full);
  // What claims nothing is always sound: these masks are to be worth the trouble.
  int launches = 8 * count;
  for (TileForm form : {TileForm::keyRanges, TileForm::classified}) {
    EXPECT_GT(claims[form].launches, launches / 8);
    EXPECT_GT(claims[form].skip, claims[form].launches / 8);
    EXPECT_GT(claims[form].full, claims[form].launches / 16);
  }
}

} // namespace
