//===- RangeProgram.cpp - The ranges of a variant, evaluated ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RangeProgram.h"

#include "attn/Arithmetic.h"
#include "attn/Attn.h"
#include "frontend/emit/Emit.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tesela {

// The smallest kernel that asks for ranges.
static const char *const kernelText = R"(
tile.kernel @k<m, n>() {
  %rows = tile.work : !tile.block<query, m>
  %s = tile.constant 0.0 : !tile.tile<[m, n], f32>
  tile.blocks %keys, %partial of %rows : !tile.block<query, m> -> !tile.block<key, n> {
    %t = tile.mask %s if %partial at %rows, %keys : !tile.tile<[m, n], f32>, !tile.block<query, m>, !tile.block<key, n>
  }
})";

static void runPasses(ModuleOp module, llvm::function_ref<void(OpPassManager &)> add) {
  PassManager passes(module.getContext());
  add(passes);
  EXPECT_TRUE(succeeded(passes.run(module)));
}

RangeProgram::RangeProgram(const Variant &variant, MLIRContext &context, int64_t blockM,
                           int64_t blockN)
    : module(emitVariant(variant, context)) {
  OwningOpRef<ModuleOp> templates = parseSourceString<ModuleOp>(kernelText, &context);
  kernel = *templates->getOps<tile::KernelOp>().begin();
  kernel->remove();
  module->push_back(kernel);

  TileBindOptions options;
  std::vector<std::string> extents = {"m=" + std::to_string(blockM), "n=" + std::to_string(blockN)};
  options.bindings.assign(extents.begin(), extents.end());
  runPasses(*module, [&](OpPassManager &passes) {
    passes.addPass(createTileBind(options));
    passes.addPass(createTileInlineVariant());
    passes.nest<tile::KernelOp>().addPass(createTileKeyRanges());
  });
  auto blocks = *kernel.getBodyBlock().getOps<tile::BlocksOp>().begin();
  intervals = llvm::to_vector(blocks.getRange());
  llvm::append_range(intervals, blocks.getFull());
  EXPECT_EQ(intervals.size(), 4u);
  if (intervals.size() != 4)
    return;

  runPasses(*module, [&](OpPassManager &passes) {
    passes.nest<tile::KernelOp>().addPass(createTileLowerBlocks());
  });
  loop = *kernel.getBodyBlock().getOps<scf::ForOp>().begin();
  mask = *loop.getBody()->getOps<tile::MaskOp>().begin();
}

BlockRanges RangeProgram::evaluate(const Variant &variant, const Bindings &launch,
                                   const Point &where, int32_t first) {
  bindings = &launch;
  place = where;
  place.q = first;
  values.clear();
  captures.clear();
  for (size_t number = 0; number < variant.parameters.size(); ++number) {
    const Binding &binding = launch.parameters[number];
    BlockArgument argument = kernel.getArgument("$" + variant.parameters[number].name);
    if (!argument)
      continue; // the mask does not use it
    if (isa<tile::ViewType>(argument.getType()))
      captures[argument] = &binding.capture;
    else if (argument.getType().isF32())
      values[argument].number = float(binding.scalar);
    else
      values[argument].integer = int64_t(binding.scalar);
  }
  run(kernel.getBodyBlock());
  return {{integer(intervals[0]), integer(intervals[1])},
          {integer(intervals[2]), integer(intervals[3])},
          {integer(loop.getLowerBound()), integer(loop.getUpperBound())}};
}

bool RangeProgram::isPartial(int64_t index) {
  values[loop.getInductionVar()].integer = index;
  run(*loop.getBody());
  return integer(mask.getPartial()) != 0;
}

void RangeProgram::run(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (isa<tile::WorkOp, tile::ConstantOp, tile::BlockAtOp, tile::MaskOp, scf::ForOp>(op))
      continue;
    if (auto coordinates = dyn_cast<tile::CoordinatesOp>(op)) {
      values[coordinates.getBatch()].integer = place.b;
      values[coordinates.getHead()].integer = place.h;
      values[coordinates.getKvHead()].integer = place.hkv;
      values[coordinates.getFirst()].integer = place.q;
      continue;
    }
    Scalar value = valueOf(op);
    // Integers are kept sign-extended, whatever their width: each operation wraps here.
    if (auto type = dyn_cast<IntegerType>(op.getResult(0).getType()))
      value.integer = type.getWidth() == 1    ? value.integer & 1
                      : type.getWidth() == 32 ? int64_t(int32_t(value.integer))
                                              : value.integer;
    values[op.getResult(0)] = value;
  }
}

RangeProgram::Scalar RangeProgram::read(tile::ReadOp op) {
  const CaptureView &view = *captures.lookup(op.getView());
  int64_t offset = 0;
  for (auto [axis, index] : llvm::enumerate(op.getIndices())) {
    if (view.extents[axis] == 0)
      return {.integer = 0};
    offset += std::clamp<int64_t>(integer(index), 0, view.extents[axis] - 1) * view.strides[axis];
  }
  return {.integer = static_cast<const int32_t *>(view.data)[offset]};
}

/// The value of a comparison, by the name of its predicate without its first letter.
template <typename T> static bool compare(StringRef predicate, T a, T b) {
  return predicate == "eq"   ? a == b
         : predicate == "ne" ? a != b
         : predicate == "lt" ? a < b
         : predicate == "le" ? a <= b
         : predicate == "gt" ? a > b
                             : a >= b;
}

RangeProgram::Scalar RangeProgram::valueOf(Operation &op) {
  auto at = [&](unsigned index) { return values.lookup(op.getOperand(index)); };
  auto a = [&] { return at(0).integer; };
  auto b = [&] { return at(1).integer; };
  auto whole = [](int64_t value) { return Scalar{.integer = value}; };
  auto wrapped = [](uint64_t value) { return Scalar{.integer = int64_t(value)}; };
  auto real = [](float value) {
    Scalar scalar{.integer = 0};
    scalar.number = value;
    return scalar;
  };
  return TypeSwitch<Operation *, Scalar>(&op)
      .Case([&](arith::ConstantOp constant) {
        if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
          return real(number.getValue().convertToFloat());
        return whole(cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue());
      })
      .Case([&](tile::ExtentOp extent) {
        const Extents &e = bindings->extents;
        StringRef name = extent.getName();
        return whole(name == "B"     ? e.B
                     : name == "H"   ? e.H
                     : name == "Hkv" ? e.Hkv
                     : name == "Sq"  ? e.Sq
                                     : e.Sk);
      })
      .Case([&](tile::ReadOp op) { return read(op); })
      .Case([&](arith::AddIOp) { return wrapped(uint64_t(a()) + uint64_t(b())); })
      .Case([&](arith::SubIOp) { return wrapped(uint64_t(a()) - uint64_t(b())); })
      .Case([&](arith::MulIOp) { return wrapped(uint64_t(a()) * uint64_t(b())); })
      .Case([&](arith::DivUIOp) { return whole(uint32_t(a()) / uint32_t(b())); })
      .Case([&](arith::RemUIOp) { return whole(uint32_t(a()) % uint32_t(b())); })
      .Case([&](arith::MinSIOp) { return whole(std::min(a(), b())); })
      .Case([&](arith::MaxSIOp) { return whole(std::max(a(), b())); })
      .Case([&](arith::AndIOp) { return whole(a() & b()); })
      .Case([&](arith::OrIOp) { return whole(a() | b()); })
      .Case([&](arith::XOrIOp) { return whole(a() ^ b()); })
      .Case([&](arith::ExtSIOp) { return whole(a()); })
      .Case([&](arith::ExtUIOp) { return whole(a()); }) // of i1 only
      .Case([&](arith::TruncIOp) { return whole(a()); })
      .Case([&](arith::SelectOp) { return a() ? at(1) : at(2); })
      .Case([&](arith::CmpIOp compareOp) {
        StringRef predicate = arith::stringifyCmpIPredicate(compareOp.getPredicate());
        return whole(compare(predicate.size() == 3 ? predicate.drop_front() : predicate, a(), b()));
      })
      .Case([&](arith::CmpFOp compareOp) {
        StringRef predicate = arith::stringifyCmpFPredicate(compareOp.getPredicate());
        return whole(compare(predicate.drop_front(), at(0).number, at(1).number));
      })
      .Case([&](arith::MulFOp) { return real(at(0).number * at(1).number); })
      .Case([&](arith::SIToFPOp) { return real(float(a())); })
      .Case([&](attn::FloorDivOp) { return whole(attn::floorDivide(a(), b())); })
      .Case([&](attn::FloorModOp) { return whole(attn::floorRemainder(a(), b())); })
      .Case([&](attn::ToIntOp) { return whole(attn::saturatingInt(at(0).number)); })
      .Default([&](Operation *other) {
        ADD_FAILURE() << "not evaluated: " << other->getName().getStringRef().str();
        return whole(0);
      });
}

} // namespace tesela
