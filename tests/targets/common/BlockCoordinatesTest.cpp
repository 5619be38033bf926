//===- BlockCoordinatesTest.cpp - Every block of queries once -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Evaluates the arithmetic that BlockCoordinates emits, as a kernel would.
//
//===----------------------------------------------------------------------===//
#include "targets/common/BlockCoordinates.h"
#include "targets/common/KernelSignature.h"

#include "tile/Extents.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/TypeSwitch.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

using namespace mlir;

namespace tesela {
namespace {

struct Extents {
  uint32_t B, H, Hkv, Sq, Sk;
};

void PrintTo(const Extents &extents, std::ostream *stream) {
  *stream << "B " << extents.B << ", H " << extents.H << ", Hkv " << extents.Hkv << ", Sq "
          << extents.Sq << ", Sk " << extents.Sk;
}

/// The values of tile.work and tile.work_items for one schedule.
class WorkMap {
public:
  /// `workers`: those of `dealt to`; 0: query heads are not dealt.
  WorkMap(int64_t rows, int64_t groupKeys, int64_t heads = 1, tile::Axis axis = tile::Axis::Query,
          int64_t workers = 0, tile::ItemOrder order = tile::ItemOrder::FirstKeysFirst) {
    context.loadDialect<arith::ArithDialect, tile::TileDialect>();
    auto block = tile::BlockType::get(&context, axis, tile::getExtent(&context, rows),
                                      tile::getExtent(&context, heads));
    Location loc = UnknownLoc::get(&context);
    module = ModuleOp::create(loc);
    OpBuilder builder(&context);
    body = builder.createBlock(&module->getBodyRegion(), {},
                               SmallVector<Type>(9, builder.getI32Type()),
                               SmallVector<Location>(9, loc));
    auto argument = [&](unsigned index) -> Value { return body->getArgument(index); };
    ExtentValues extents{argument(0), argument(1), argument(2), argument(3), argument(4)};
    ExtentValues dealt = extents;
    if (workers > 0) {
      parts = emitHeadParts(builder, loc, extents, block, workers);
      dealt = emitDealt(builder, loc, extents, parts);
      count = emitWorkItems(builder, loc, dealt, block);
      std::tie(work, part) =
          emitDealtWork(builder, loc, argument(5), extents, block, groupKeys, workers, order);
    } else {
      count = emitWorkItems(builder, loc, extents, block);
      work = emitWork(builder, loc, argument(5), extents, block, groupKeys, order);
    }
    keysAscend = emitFirstKeysFirst(builder, loc, argument(8), dealt, groupKeys, order);
    kvHead = emitKvHead(builder, loc, work.head, extents);
    row = emitRow(builder, loc, work, argument(6), heads, extents);
    BlockCoordinates moved = emitSequence(builder, loc, work, argument(7), extents.Sq, extents.Sk);
    movedRow = emitRow(builder, loc, moved, argument(6), heads, extents);
  }

  /// `from`: the position of the first query, for movedRow. `dealtHead`: for keysAscend.
  void evaluate(const Extents &extents, uint32_t item, uint32_t row = 0, int32_t from = 0,
                uint32_t dealtHead = 0) {
    uint32_t given[] = {extents.B, extents.H, extents.Hkv,    extents.Sq, extents.Sk,
                        item,      row,       uint32_t(from), dealtHead};
    for (auto [argument, value] : llvm::zip(body->getArguments(), given))
      values[argument] = value;
    for (Operation &op : *body)
      values[op.getResult(0)] = valueOf(op);
  }
  uint32_t operator[](Value value) const { return values.lookup(value); }

  Value count, kvHead, parts, part, keysAscend;
  BlockCoordinates work;
  RowCoordinates row, movedRow;

private:
  uint32_t valueOf(Operation &op) {
    if (auto constant = dyn_cast<arith::ConstantIntOp>(op))
      return uint32_t(constant.value());
    uint32_t a = values.lookup(op.getOperand(0)), b = values.lookup(op.getOperand(1));
    if (isa<arith::DivUIOp>(op) && b == 0) {
      ADD_FAILURE() << "divides by 0";
      return 0;
    }
    return TypeSwitch<Operation *, uint32_t>(&op)
        .Case([&](arith::AddIOp) { return a + b; })
        .Case([&](arith::SubIOp) { return a - b; })
        .Case([&](arith::MulIOp) { return a * b; })
        .Case([&](arith::DivUIOp) { return a / b; })
        .Case([&](arith::RemUIOp) { return a % b; })
        .Case([&](arith::AndIOp) { return a & b; })
        .Case([&](arith::ShRUIOp) { return a >> b; })
        .Case([&](arith::SelectOp select) { return a ? b : values.lookup(select.getFalseValue()); })
        .Case([&](arith::CmpIOp compare) {
          if (compare.getPredicate() == arith::CmpIPredicate::slt)
            return uint32_t(int32_t(a) < int32_t(b));
          if (compare.getPredicate() == arith::CmpIPredicate::uge)
            return uint32_t(a >= b);
          EXPECT_EQ(compare.getPredicate(), arith::CmpIPredicate::ult);
          return uint32_t(a < b);
        })
        .Case([&](arith::MinUIOp) { return std::min(a, b); })
        .Case([&](arith::MaxUIOp) { return std::max(a, b); })
        .Default([&](Operation *other) {
          ADD_FAILURE() << "not evaluated: " << other->getName().getStringRef().str();
          return 0u;
        });
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Block *body = nullptr;
  llvm::DenseMap<Value, uint32_t> values;
};

// One head for each key/value head, one key/value head for each query head, several query heads for
// a key/value head; groups that divide the heads and groups that do not; rows that fill their
// blocks and rows that do not; no keys at all.
constexpr Extents launches[] = {
    {1, 1, 1, 1, 1},       {2, 3, 3, 100, 100},  {2, 6, 2, 129, 1000},   {3, 5, 1, 64, 333},
    {1, 8, 4, 1000, 4096}, {5, 7, 7, 65, 2048},  {3, 12, 3, 128, 0},     {2, 9, 3, 200, 1},
    {4, 4, 2, 63, 65536},  {1, 32, 8, 257, 700}, {7, 2, 1, 130, 100000},
};

constexpr int64_t groups[] = {0, 1, 700, 1000, 4096, 10000, 65536, 0x7fffffff};

TEST(WorkMap, VisitsEveryBlockOnce) {
  constexpr uint32_t rows = 64;
  for (int64_t groupKeys : groups) {
    WorkMap map(rows, groupKeys);
    for (const Extents &launch : launches) {
      SCOPED_TRACE(testing::Message()
                   << testing::PrintToString(launch) << ", groups of " << groupKeys);
      map.evaluate(launch, 0);
      uint32_t blocks = (launch.Sq + rows - 1) / rows, count = map[map.count];
      ASSERT_EQ(count, launch.B * launch.H * blocks);
      std::set<std::tuple<uint32_t, uint32_t, uint32_t>> visited;
      for (uint32_t item = 0; item < count; ++item) {
        map.evaluate(launch, item);
        uint32_t batch = map[map.work.batch], head = map[map.work.head];
        uint32_t first = map[map.work.first];
        ASSERT_LT(batch, launch.B);
        ASSERT_LT(head, launch.H);
        ASSERT_LT(first, launch.Sq);
        ASSERT_EQ(first % rows, 0u);
        EXPECT_EQ(map[map.work.limit], launch.Sq);
        EXPECT_EQ(map[map.kvHead], head / (launch.H / launch.Hkv));
        EXPECT_TRUE(visited.insert({batch, head, first}).second) << item;
      }
    }
  }
}

// The same with several heads in a block: every row of every head is visited once, and no row of
// another key/value head.
TEST(WorkMap, VisitsEveryRowOfPackedHeadsOnce) {
  constexpr uint32_t rows = 64;
  for (uint32_t heads : {2u, 8u, 64u})
    for (int64_t groupKeys : {4096}) {
      WorkMap map(rows, groupKeys, heads);
      for (const Extents &launch : launches) {
        SCOPED_TRACE(testing::Message() << testing::PrintToString(launch) << ", " << heads
                                        << " heads, groups of " << groupKeys);
        uint32_t sharing = launch.H / launch.Hkv, positions = rows / heads;
        map.evaluate(launch, 0);
        uint32_t count = map[map.count];
        ASSERT_EQ(count, launch.B * launch.Hkv * ((sharing + heads - 1) / heads) *
                             ((launch.Sq + positions - 1) / positions));
        std::set<std::tuple<uint32_t, uint32_t, uint32_t>> visited;
        for (uint32_t item = 0; item < count; ++item)
          for (uint32_t row = 0; row < rows; ++row) {
            map.evaluate(launch, item, row);
            uint32_t head = map[map.row.head], position = map[map.row.position];
            ASSERT_EQ(head, map[map.work.head] + row % heads);
            ASSERT_EQ(position, map[map.work.first] + row / heads);
            bool exists = position < launch.Sq && head / sharing == map[map.kvHead];
            ASSERT_EQ(map[map.row.exists], exists) << item << ", " << row;
            if (exists) {
              ASSERT_TRUE(visited.insert({map[map.work.batch], head, position}).second);
            }
          }
        EXPECT_EQ(visited.size(), launch.B * launch.H * launch.Sq);
      }
    }
}

// A sequence has its rows wherever its positions begin, even in front of all keys.
TEST(WorkMap, RowsExistAtNegativePositions) {
  constexpr uint32_t rows = 16;
  for (int64_t heads : {1, 2, 4}) {
    WorkMap map(rows, /*groupKeys=*/0, heads);
    for (const Extents &launch : {Extents{1, 4, 2, 20, 33}, Extents{2, 3, 1, 37, 20}})
      for (int32_t from : {0, 5, -1, -7, -20, -100, -(1 << 30), 1 << 30}) {
        SCOPED_TRACE(testing::Message()
                     << testing::PrintToString(launch) << ", " << heads << " heads, from " << from);
        map.evaluate(launch, 0);
        uint32_t count = map[map.count];
        for (uint32_t item = 0; item < count; ++item)
          for (uint32_t row = 0; row < rows; ++row) {
            map.evaluate(launch, item, row, from);
            ASSERT_EQ(map[map.movedRow.exists], map[map.row.exists]) << item << ", " << row;
            ASSERT_EQ(map[map.movedRow.position], map[map.row.position] + uint32_t(from));
          }
      }
  }
}

// Items that run at the same time read the same keys. All heads of a group come before those of the
// next group. A group has whole key/value heads with at most the given keys (and at most 16 heads),
// and its last rows come first.
TEST(WorkMap, GroupsShareTheirKeys) {
  constexpr uint32_t rows = 64;
  for (int64_t groupKeys : groups) {
    WorkMap map(rows, groupKeys);
    for (const Extents &launch : launches) {
      SCOPED_TRACE(testing::Message()
                   << testing::PrintToString(launch) << ", groups of " << groupKeys);
      uint32_t blocks = (launch.Sq + rows - 1) / rows;
      int64_t fitting = groupKeys / std::max<int64_t>(launch.Sk, 1);
      uint32_t all = launch.B * launch.Hkv;
      uint32_t kvHeads = uint32_t(std::clamp<int64_t>(fitting, 1, std::min<int64_t>(all, 16)));
      uint32_t last = 0, lastFirst = 0;
      for (uint32_t item = 0; item < launch.B * launch.H * blocks; ++item) {
        map.evaluate(launch, item);
        uint32_t group = (map[map.work.batch] * launch.Hkv + map[map.kvHead]) / kvHeads;
        EXPECT_TRUE(group == last || group == last + 1) << item;
        if (item > 0 && group == last) {
          EXPECT_LE(map[map.work.first], lastFirst) << item;
        }
        last = group;
        lastFirst = map[map.work.first];
      }
      EXPECT_EQ(last, (all - 1) / kvHeads);
    }
  }
}

// Blocks of keys are visited once, too. All key/value heads of a group come before those of the
// next group. A group has at most the given queries of each of its shared heads (and at most 16
// heads), and its first keys come first.
TEST(WorkMap, BlocksOfKeysComeInGroups) {
  constexpr uint32_t rows = 64;
  for (int64_t groupRows : groups) {
    WorkMap map(rows, groupRows, /*heads=*/1, tile::Axis::Key);
    for (const Extents &launch : launches) {
      if (launch.Sk == 0 || launch.Sk > 10000) // no work items; or too many to count through
        continue;
      SCOPED_TRACE(testing::Message()
                   << testing::PrintToString(launch) << ", groups of " << groupRows);
      int64_t queries = launch.Sq;
      uint32_t blocks = (launch.Sk + rows - 1) / rows, all = launch.B * launch.Hkv;
      uint32_t heads =
          uint32_t(std::clamp<int64_t>(groupRows / queries, 1, std::min<int64_t>(all, 16)));
      uint32_t last = 0, lastFirst = 0;
      std::set<std::tuple<uint32_t, uint32_t, uint32_t>> visited;
      map.evaluate(launch, 0);
      ASSERT_EQ(map[map.count], all * blocks);
      for (uint32_t item = 0; item < all * blocks; ++item) {
        map.evaluate(launch, item);
        uint32_t batch = map[map.work.batch], head = map[map.work.head];
        uint32_t first = map[map.work.first];
        ASSERT_LT(batch, launch.B);
        ASSERT_LT(head, launch.Hkv);
        ASSERT_LT(first, launch.Sk);
        EXPECT_EQ(map[map.work.limit], launch.Sk);
        EXPECT_TRUE(visited.insert({batch, head, first}).second) << item;
        uint32_t group = (batch * launch.Hkv + head) / heads;
        EXPECT_TRUE(group == last || group == last + 1) << item;
        if (item > 0 && group == last) {
          EXPECT_GE(first, lastFirst) << item;
        }
        last = group;
        lastFirst = first;
      }
    }
  }
}

// Work items that add in turn. Each block of keys is visited once. The blocks of a head come in one
// direction, which emitFirstKeysFirst knows. In the last group it is the other one. That group has
// at least half as many heads as the others, and less than one and a half times as many.
TEST(WorkMap, KeysOfAHeadComeInOneDirection) {
  constexpr uint32_t rows = 64;
  for (tile::ItemOrder order : {tile::ItemOrder::FirstKeysFirst, tile::ItemOrder::LastKeysFirst,
                                tile::ItemOrder::LastKeysFirstButAtEnd})
    for (uint32_t workers : {1u, 528u})
      for (int64_t groupRows : groups) {
        WorkMap map(rows, groupRows, /*heads=*/1, tile::Axis::Key, workers, order);
        for (const Extents &launch : launches) {
          if (launch.Sk == 0 || launch.Sk > 10000) // no work items; or too many to count through
            continue;
          SCOPED_TRACE(testing::Message()
                       << testing::PrintToString(launch) << ", groups of " << groupRows
                       << ", dealt to " << workers << ", order " << uint32_t(order));
          map.evaluate(launch, 0);
          uint32_t count = map[map.count], parts = map[map.parts], atEnd = 0;
          uint32_t heads = launch.B * launch.Hkv * parts, blocks = (launch.Sk + rows - 1) / rows;
          std::vector<std::vector<uint32_t>> placesOf(heads);
          for (uint32_t item = 0; item < count; ++item) {
            map.evaluate(launch, item);
            uint32_t kvHead = map[map.work.batch] * launch.Hkv + map[map.work.head];
            uint32_t head = kvHead * parts + map[map.part];
            ASSERT_LT(head, heads);
            placesOf[head].push_back(map[map.work.first]);
          }
          bool wasAscending = order == tile::ItemOrder::FirstKeysFirst;
          for (uint32_t head = 0; head < heads; ++head) {
            map.evaluate(launch, 0, 0, 0, head);
            bool ascends = map[map.keysAscend] != 0;
            EXPECT_TRUE(ascends || !wasAscending) << head;
            wasAscending = ascends;
            atEnd += ascends;
            ASSERT_EQ(placesOf[head].size(), blocks);
            for (uint32_t i = 0; i < blocks; ++i)
              ASSERT_EQ(placesOf[head][i], rows * (ascends ? i : blocks - 1 - i)) << head;
          }
          if (order == tile::ItemOrder::LastKeysFirst) {
            EXPECT_EQ(atEnd, 0u);
          }
          if (order == tile::ItemOrder::LastKeysFirstButAtEnd) {
            int64_t fitting = groupRows / std::max<int64_t>(launch.Sq, 1);
            auto group = uint32_t(std::clamp<int64_t>(fitting, 1, std::min<int64_t>(heads, 16)));
            EXPECT_GE(2 * atEnd, group);
            EXPECT_LT(2 * atEnd, 3 * group + 1);
            EXPECT_EQ((heads - atEnd) % group, 0u);
          }
        }
      }
}

/// The number of work items that the plan computes for a kernel with `work`.
int64_t plannedItems(const std::string &work, const Extents &launch) {
  MLIRContext context;
  context.loadDialect<tile::TileDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      "tile.kernel @k() {\n  %keys = tile.work " + work + " : !tile.block<key, 64>\n}", &context);
  return workItems(*module->getOps<tile::KernelOp>().begin())
      .evaluate({int32_t(launch.B), int32_t(launch.H), int32_t(launch.Hkv), int32_t(launch.Sq),
                 int32_t(launch.Sk)});
}

// Each part of each block of keys is visited once, each query head is in one part, and parts differ
// by at most one head. The plan counts the same work items, and none that join a single part.
TEST(WorkMap, DealsQueryHeadsToParts) {
  constexpr uint32_t rows = 64;
  for (uint32_t workers : {1u, 3u, 16u, 528u, 65536u}) {
    WorkMap map(rows, /*groupKeys=*/1000, /*heads=*/1, tile::Axis::Key, workers);
    for (const Extents &launch : launches) {
      if (launch.Sk == 0) // no work items
        continue;
      SCOPED_TRACE(testing::Message()
                   << testing::PrintToString(launch) << ", dealt to " << workers);
      map.evaluate(launch, 0);
      uint32_t sharing = launch.H / launch.Hkv, parts = map[map.parts], count = map[map.count];
      uint32_t whole = launch.B * launch.Hkv * ((launch.Sk + rows - 1) / rows);
      ASSERT_GE(parts, 1u);
      ASSERT_LE(parts, sharing);
      ASSERT_EQ(count, whole * parts);
      uint32_t longest = (sharing + parts - 1) / parts;
      EXPECT_TRUE(parts == 1 || count <= workers);
      EXPECT_TRUE(parts == 1 || (sharing + parts - 2) / (parts - 1) > longest) << "a part too many";
      if (longest > 1) // with shorter parts there would be too many work items
        EXPECT_GT(whole * ((sharing + longest - 2) / (longest - 1)), workers);
      std::string dealt = "dealt to " + std::to_string(workers);
      EXPECT_EQ(plannedItems(dealt, launch), count);
      EXPECT_EQ(plannedItems(dealt + " joined", launch), parts == 1 ? 0 : whole);
      for (uint32_t part = 0; part < parts; ++part) {
        uint32_t heads = (part + 1) * sharing / parts - part * sharing / parts;
        EXPECT_TRUE(heads == sharing / parts || heads == (sharing + parts - 1) / parts);
      }
      std::set<std::tuple<uint32_t, uint32_t, uint32_t>> visited;
      for (uint32_t item = 0; item < count; ++item) {
        map.evaluate(launch, item);
        uint32_t batch = map[map.work.batch], head = map[map.work.head], part = map[map.part];
        ASSERT_LT(batch, launch.B);
        ASSERT_LT(head, launch.Hkv);
        ASSERT_LT(part, parts);
        ASSERT_LT(map[map.work.first], launch.Sk);
        ASSERT_TRUE(visited.insert({batch, head * parts + part, map[map.work.first]}).second)
            << item;
      }
    }
  }
}

// Without work items the plan divides by nothing.
TEST(WorkMap, PlansNoItemsOfEmptyLaunches) {
  for (const Extents &launch : {Extents{0, 8, 1, 10, 10}, Extents{1, 8, 1, 10, 0}})
    for (const char *work : {"dealt to 528", "dealt to 528 joined"})
      EXPECT_EQ(plannedItems(work, launch), 0) << work;
}

// With 2^31 - 1 blocks of keys there is one part, and with a single block the most parts.
TEST(WorkMap, DealsInItsIntegers) {
  constexpr uint32_t most = 0x7fffffff, rows = 64;
  for (uint32_t workers : {528u, 65536u}) {
    WorkMap map(rows, /*groupKeys=*/1000, /*heads=*/1, tile::Axis::Key, workers);
    map.evaluate({most, 8, 1, 1, rows}, most - 1);
    EXPECT_EQ(map[map.parts], 1u);
    EXPECT_EQ(map[map.count], most);
    EXPECT_EQ(map[map.work.batch], most - 1);
    map.evaluate({1, most, 1, 1, rows}, 0);
    EXPECT_LE(map[map.parts], workers);
    EXPECT_GT(map[map.parts], workers / 2);
  }
}

// The largest possible launches: 2^31 - 1 work items and queries.
TEST(WorkMap, StaysInItsIntegers) {
  constexpr uint32_t most = 0x7fffffff, rows = 64;
  for (int64_t groupKeys : groups) {
    WorkMap map(rows, groupKeys);
    for (const Extents &launch :
         {Extents{most, 1, 1, 1, most}, Extents{1, most, 1, 1, 1}, Extents{most, 1, 1, 64, 0}}) {
      SCOPED_TRACE(testing::Message()
                   << testing::PrintToString(launch) << ", groups of " << groupKeys);
      for (uint32_t item : {0u, 1u, most / 2, most - 1}) {
        map.evaluate(launch, item);
        EXPECT_EQ(map[map.count], most);
        EXPECT_EQ(map[map.work.batch] * launch.H + map[map.work.head], item);
        EXPECT_EQ(map[map.work.first], 0u);
      }
    }
    Extents one{1, 1, 1, most, most};
    uint32_t blocks = most / rows + 1;
    for (uint32_t item : {0u, blocks - 1}) {
      map.evaluate(one, item);
      EXPECT_EQ(map[map.count], blocks);
      EXPECT_EQ(map[map.work.first], (blocks - 1 - item) * rows);
    }
  }
}

} // namespace
} // namespace tesela
