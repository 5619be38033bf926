//===- MaskRegionsTest.cpp - Blocks that run against masks ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Soundness on random masks, for the key blocks of a block of queries and for the query blocks of a
// block of keys. No pair outside of the blocks that run is kept. Every pair in a block that is not
// partial is kept. This must hold for each head of the block. The masks are evaluated by the
// interpreter.
//
// TESELA_RANDOM_MASKS: the number of random masks; TESELA_RANDOM_SEED: the first seed. A failure
// says how to repeat it.
//
//===----------------------------------------------------------------------===//
#include "RandomMask.h"

#include "frontend/Parser.h"
#include "visits/TileProgram.h"

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
                                         const TileBlocks &blocks) {
  Result<std::unique_ptr<TileProgram>> program = TileProgram::create(variant, context, blocks);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
  return program.ok() ? std::move(*program) : nullptr;
}

Variant parsed(const std::string &text) {
  Result<Variant> variant = parseVariant(text, "mask.attn");
  EXPECT_TRUE(variant.ok()) << text << (variant.ok() ? "" : variant.error().message());
  return variant.ok() ? *variant : Variant();
}

/// A block of a launch that begins anywhere. Its rows are queries or keys, its columns are the
/// others.
struct Place {
  TileBlocks blocks;
  Extents extents;
  Point point;                                        ///< the block's first head
  int32_t first = 0, last = 0, rows = 0, columns = 0; ///< the block's rows, all rows, all columns
  int32_t lastHead = 0;

  bool areQueries() const { return blocks.rows == tile::Axis::Query; }
  int64_t blockRows() const { return areQueries() ? blocks.queries : blocks.keys; }
  int64_t blockColumns() const { return areQueries() ? blocks.keys : blocks.queries; }
  Point at(int32_t h, int64_t row, int64_t column) const {
    Point pair = point;
    pair.h = h;
    pair.q = int32_t(areQueries() ? row : column);
    pair.k = int32_t(areQueries() ? column : row);
    return pair;
  }
};

Place randomPlace(std::mt19937 &random, const TileBlocks &blocks) {
  Place place{.blocks = blocks, .extents = {}, .point = {}};
  Extents &e = place.extents;
  auto below = [&](int64_t end) { return int32_t(random() % end); };
  bool isHuge = random() % 5 == 0; // q and k come near the end of i32
  auto length = [&](int least) {
    return isHuge ? std::numeric_limits<int32_t>::max() - below(100) * below(1 << 20)
                  : least + below(90);
  };
  e.B = 1 + below(3);
  e.Hkv = 1 + below(2);
  int32_t sharing = 1 + below(blocks.heads > 1 ? 6 : 3);
  e.H = e.Hkv * sharing;
  e.Sq = length(1);
  e.Sk = length(place.areQueries() ? 0 : 1);
  place.point.b = below(e.B);
  place.point.hkv = below(e.Hkv);
  // The result must not depend on where the heads of a block begin.
  int32_t firstHead = place.point.hkv * sharing;
  place.point.h = firstHead + (place.areQueries() ? below(sharing) : 0);
  place.lastHead = firstHead + sharing - 1;
  if (place.areQueries())
    place.lastHead = std::min(place.lastHead, int32_t(place.point.h + blocks.heads - 1));
  place.rows = place.areQueries() ? e.Sq : e.Sk;
  place.columns = place.areQueries() ? e.Sk : e.Sq;
  place.first = random() % 3 == 0 ? int32_t(std::max<int64_t>(place.rows - place.blockRows(), 0))
                                  : below(place.rows);
  place.last = int32_t(std::min<int64_t>(place.first + place.blockRows(), place.rows)) - 1;
  return place;
}

/// The blocks that a block visits, looked up without a list, because a huge launch has too many.
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

  /// Blocks at which something may change: the first and the last, and those on both sides of a gap
  /// or of a change of kind. They are sought between samples, which are denser near both ends. If
  /// there are few blocks, all of them.
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

/// The columns to test: all, or in a huge launch those at which something may change.
std::vector<int32_t> columnsOf(const Place &place, const std::vector<VisitedBlock> &corners,
                               std::mt19937 &random) {
  int64_t end = place.columns;
  std::vector<int32_t> columns;
  if (end <= 200) {
    for (int32_t column = 0; column < end; ++column)
      columns.push_back(column);
    return columns;
  }
  auto around = [&](int64_t column) {
    for (int64_t near = column - 2; near <= column + 2; ++near)
      if (near >= 0 && near < end)
        columns.push_back(int32_t(near));
  };
  for (const VisitedBlock &block : corners) {
    around(block.index * place.blockColumns());
    around((block.index + 1) * place.blockColumns());
  }
  for (int64_t column :
       {int64_t(0), end, int64_t(place.first), int64_t(place.last), int64_t(random() % end),
        int64_t(random() % 100), end - int64_t(random() % 100),
        int64_t(place.first) + int64_t(random() % 200) - 100})
    around(column);
  std::ranges::sort(columns);
  return columns;
}

/// Whether the softmax sees the pair. The finite value of the score must not matter.
bool isKept(const Interpreter &interpreter, const Point &point) {
  constexpr float none = -std::numeric_limits<float>::infinity();
  return interpreter.mask(point) &&
         (interpreter.scoreIsIdentity() || interpreter.score(point, 1.0f) != none ||
          interpreter.score(point, -1.0f) != none);
}

/// What is wrong with the blocks that a block visits; empty if they are sound.
std::string findUnsound(const Interpreter &interpreter, Visits &visits,
                        const std::vector<VisitedBlock> &corners, const Place &place,
                        std::mt19937 &random) {
  std::ostringstream problem;
  int64_t extent = place.blockColumns();
  auto show = [&](const char *what, const Point &point) {
    problem << what << ": b " << point.b << ", h " << point.h << ", q " << point.q << ", k "
            << point.k << "; " << visits.count << " blocks of " << extent << ":";
    for (const VisitedBlock &block : corners)
      problem << ' ' << block.index << (block.partial ? "p" : "f");
    return problem.str();
  };
  int64_t before = -1;
  for (const VisitedBlock &block : corners) {
    if (block.index < 0 || block.index * extent >= place.columns)
      return show("a block lies outside the columns", place.point);
    if (block.index <= before)
      return show("a block is visited twice, or too late", place.point);
    before = block.index;
  }
  std::optional<VisitedBlock> block;
  int64_t sought = -1;
  for (int32_t column : columnsOf(place, corners, random)) {
    if (column / extent != sought)
      block = visits.find(sought = column / extent);
    bool isFull = block && !block->partial;
    int64_t lastKey = place.areQueries() ? (sought + 1) * extent : place.first + place.blocks.keys;
    if (isFull && lastKey > place.extents.Sk)
      return show("a tile that is not partial goes beyond Sk",
                  place.at(place.point.h, place.first, column));
    if (block && block->partial)
      continue;
    for (int32_t h = place.point.h; h <= place.lastHead; ++h)
      for (int64_t row = place.first; row <= place.last; ++row) {
        Point point = place.at(h, row, column);
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

/// The number of launches of one form of tiles, and how many of them claim something.
struct Claims {
  int launches = 0, skip = 0, full = 0;
};

/// The axis of the blocks of a mask: mostly as in a forward kernel, with one head or several.
TileBlocks randomBlocks(std::mt19937 &random) {
  auto extent = [&] { return 1 + int64_t(random() % (random() % 2 ? 64 : 16)); };
  TileBlocks blocks{.queries = extent(), .keys = extent()};
  switch (random() % 6) {
  case 0:
    blocks.heads = 2 << random() % 3;
    break;
  case 1:
  case 2:
    blocks.rows = tile::Axis::Key;
    break;
  default:
    break;
  }
  return blocks;
}

const char *nameOf(const TileBlocks &blocks) {
  return blocks.rows == tile::Axis::Key ? "keys" : blocks.heads > 1 ? "heads" : "queries";
}

TEST(MaskRegions, AreSoundOnRandomMasks) {
  int count = fromEnvironment("TESELA_RANDOM_MASKS", 5000);
  int seed = fromEnvironment("TESELA_RANDOM_SEED", 1);
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::map<std::pair<std::string, TileForm>, Claims> claims;
  for (int number = seed; number < seed + count; ++number) {
    if (number % 500 == 0)
      context = makeContext(); // a context never frees attributes of old masks
    std::mt19937 random(number);
    std::string text = "attention m(" + std::string(kMaskParameters) + ") {\n";
    text += randomMask(random);
    if (random() % 5 == 0)
      text += randomScore(random);
    Variant variant = parsed(text + "}\n");
    ASSERT_FALSE(HasFailure()) << "seed " << number;
    TileBlocks blocks = randomBlocks(random);
    std::unique_ptr<TileProgram> program = makeProgram(variant, *context, blocks);
    ASSERT_TRUE(program) << "seed " << number << '\n' << text;
    Claims &claimed = claims[{nameOf(blocks), program->form()}];
    for (int repeat = 0; repeat < 8; ++repeat) {
      Place place = randomPlace(random, blocks);
      RandomLaunch launch(random, place.extents);
      Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
      ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
      Visits visits(*program, launch.bindings, place);
      std::vector<VisitedBlock> corners = visits.corners();
      std::string problem = findUnsound(*interpreter, visits, corners, place, random);
      ASSERT_TRUE(problem.empty() && !HasFailure())
          << problem << "\nrepeat it: TESELA_RANDOM_SEED=" << number << " TESELA_RANDOM_MASKS=1\n"
          << text << "}\n"
          << nameOf(blocks) << " [" << place.first << ", " << place.last << "] of heads "
          << place.point.h << " to " << place.lastHead << ", " << launch.text();
      ++claimed.launches;
      claimed.skip +=
          visits.count < (int64_t(place.columns) + place.blockColumns() - 1) / place.blockColumns();
      claimed.full +=
          std::ranges::any_of(corners, [](const VisitedBlock &block) { return !block.partial; });
    }
  }
  for (auto [form, name] : {std::pair(TileForm::everyTile, "every tile"),
                            {TileForm::keyRanges, "ranges"},
                            {TileForm::classified, "classified"}})
    for (const char *rows : {"queries", "heads", "keys"}) {
      const Claims &claimed = claims[{rows, form}];
      std::printf("%-10s  %5d blocks of %-7s: %5d skip blocks, %5d have full ones\n", name,
                  claimed.launches, rows, claimed.skip, claimed.full);
      // An analysis that claims nothing is always sound, so the masks must give claims.
      if (form == TileForm::everyTile || count < 1000)
        continue;
      EXPECT_GT(claimed.launches, count / 8);
      EXPECT_GT(claimed.skip, claimed.launches / 8);
      EXPECT_GT(claimed.full, claimed.launches / 16);
    }
}

} // namespace
