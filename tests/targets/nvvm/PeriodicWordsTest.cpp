//===- PeriodicWordsTest.cpp - Patterns, evaluated lane by lane -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/PeriodicWords.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <gtest/gtest.h>

#include <array>

using namespace mlir;
using tesela::nvvm::PeriodicWords;

namespace {

/// One number for each lane of a warp.
using Lanes = std::array<uint32_t, 32>;

/// Evaluates straight-line code of i32 and i1, as a warp does.
class Warp {
public:
  void set(Value value, Lanes lanes) { values[value] = lanes; }
  const Lanes &of(Value value) { return values.find(value)->second; }

  void run(Block &block) {
    for (Operation &op : block)
      values[op.getResult(0)] = resultOf(op);
  }

private:
  Lanes resultOf(Operation &op) {
    Lanes result{};
    if (isa<LLVM::InlineAsmOp>(op)) {
      // The only inline assembly is a shuffle: from lane $2 mod 32.
      EXPECT_TRUE(cast<LLVM::InlineAsmOp>(op).getAsmString().starts_with("shfl.sync.idx.b32 "));
      for (unsigned lane = 0; lane < 32; ++lane)
        result[lane] = of(op.getOperand(0))[of(op.getOperand(1))[lane] % 32];
      return result;
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      auto x = [&](unsigned index) { return of(op.getOperand(index))[lane]; };
      if (auto constant = dyn_cast<arith::ConstantOp>(op))
        result[lane] = uint32_t(cast<IntegerAttr>(constant.getValue()).getValue().getZExtValue());
      else if (isa<arith::AddIOp>(op))
        result[lane] = x(0) + x(1);
      else if (isa<arith::SubIOp>(op))
        result[lane] = x(0) - x(1);
      else if (isa<arith::MulIOp>(op))
        result[lane] = x(0) * x(1);
      else if (isa<arith::AndIOp>(op))
        result[lane] = x(0) & x(1);
      else if (isa<arith::OrIOp>(op))
        result[lane] = x(0) | x(1);
      else if (isa<arith::ShLIOp>(op))
        result[lane] = x(0) << x(1);
      else if (isa<arith::ShRUIOp>(op))
        result[lane] = x(0) >> x(1);
      else if (isa<arith::MinUIOp>(op))
        result[lane] = std::min(x(0), x(1));
      else if (isa<arith::SelectOp>(op))
        result[lane] = x(0) ? x(1) : x(2);
      else if (isa<LLVM::FshrOp>(op))
        result[lane] = uint32_t(((uint64_t(x(0)) << 32) | x(1)) >> (x(2) % 32));
      else if (auto compare = dyn_cast<arith::CmpIOp>(op))
        result[lane] = compare.getPredicate() == arith::CmpIPredicate::eq
                           ? x(0) == x(1)
                           : int32_t(x(0)) < int32_t(x(1));
      else
        ADD_FAILURE() << "an operation that is not run: " << op.getName().getStringRef().str();
    }
    return result;
  }

  llvm::DenseMap<Value, Lanes> values;
};

Lanes same(uint32_t number) {
  Lanes lanes;
  lanes.fill(number);
  return lanes;
}

TEST(PeriodicWords, SayWhatThePhaseSays) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, LLVM::LLVMDialect>();
  Location loc = UnknownLoc::get(&context);
  OpBuilder builder(&context);
  Type i32 = builder.getI32Type();
  Block whole, row; // code that runs once, and code that runs for each row
  Value lane = whole.addArgument(i32, loc), period = whole.addArgument(i32, loc),
        factor = whole.addArgument(i32, loc), limit = whole.addArgument(i32, loc),
        begin = row.addArgument(i32, loc);
  for (auto predicate : {arith::CmpIPredicate::eq, arith::CmpIPredicate::slt}) {
    row.clear();
    whole.clear();
    builder.setInsertionPointToEnd(&whole);
    Value pattern = PeriodicWords(builder, loc).pattern(lane, period, factor, [&](Value phase) {
      return arith::CmpIOp::create(builder, loc, predicate, phase, limit);
    });
    builder.setInsertionPointToEnd(&row);
    Value word = PeriodicWords(builder, loc).word(pattern, begin);
    for (uint32_t length = 1; length <= 256; ++length)
      for (uint32_t bound : {0u, 1u, length / 3, length - 1, length, 1000u}) {
        Warp warp;
        Lanes lanes;
        for (unsigned number = 0; number < 32; ++number)
          lanes[number] = number;
        warp.set(lane, lanes);
        warp.set(period, same(length));
        warp.set(factor, same((1u << 20) / length + 1));
        warp.set(limit, same(bound));
        warp.run(whole);
        // Each lane has another row. `first` goes as far as the sum of a row's phase, a lane's
        // column and the columns of a second word.
        for (uint32_t first = 0; first < 384; first += 32) {
          for (unsigned number = 0; number < 32; ++number)
            lanes[number] = first + number;
          warp.set(begin, lanes);
          warp.run(row);
          for (unsigned number = 0; number < 32; ++number) {
            uint32_t expected = 0;
            for (unsigned bit = 0; bit < 32; ++bit) {
              uint32_t phase = (first + number + bit / 2 * 8 + bit % 2) % length;
              bool holds = predicate == arith::CmpIPredicate::eq ? phase == bound : phase < bound;
              expected |= uint32_t(holds) << bit;
            }
            ASSERT_EQ(warp.of(word)[number], expected)
                << "period " << length << ", bound " << bound << ", begin " << first + number;
          }
        }
      }
  }
  row.clear();
  whole.clear();
}

} // namespace
