//===- EmissionTest.cpp - The IR computes what the syntax tree says -------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The bodies of attn.variant are evaluated by folding their operations one by one
// over constants, and compared with the interpreter bit for bit.
//
//===----------------------------------------------------------------------===//
#include "Samples.h"

#include "attn/Attn.h"
#include "frontend/ExactMath.h"
#include "frontend/emit/Emit.h"
#include "frontend/emit/ExpandArithmetic.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace tesela;
using namespace tesela::samples;

namespace {

/// Evaluates a region for one launch.
class Folder {
public:
  Folder(mlir::MLIRContext &context, const SampleLaunch &launch)
      : builder_(&context), launch_(launch) {}

  mlir::Attribute run(mlir::Region &region, const Point &point, const float *s) {
    values_.clear();
    std::vector<mlir::Attribute> arguments;
    if (s)
      arguments.push_back(builder_.getF32FloatAttr(*s));
    for (int32_t index : {point.b, point.h, point.hkv, point.q, point.k})
      arguments.push_back(builder_.getI32IntegerAttr(index));
    mlir::Block &body = region.front();
    for (auto [value, argument] : llvm::zip(body.getArguments(), arguments))
      values_[value] = argument;
    return run(body);
  }

private:
  /// The first operand of the block's terminator.
  mlir::Attribute run(mlir::Block &block) {
    for (mlir::Operation &op : block.without_terminator())
      values_[op.getResult(0)] = valueOf(op);
    return values_[block.getTerminator()->getOperand(0)];
  }

  mlir::Attribute runLoop(mlir::scf::ForOp loop) {
    mlir::Attribute carried = values_.lookup(loop.getInitArgs().front());
    int64_t end = llvm::cast<mlir::IntegerAttr>(values_.lookup(loop.getUpperBound())).getInt();
    for (int64_t i = 0; i < end; ++i) {
      values_[loop.getInductionVar()] = builder_.getI32IntegerAttr(int32_t(i));
      values_[loop.getRegionIterArg(0)] = carried;
      carried = run(*loop.getBody());
    }
    return carried;
  }

  mlir::Attribute valueOf(mlir::Operation &op) {
    if (auto loop = llvm::dyn_cast<mlir::scf::ForOp>(op))
      return runLoop(loop);
    const Bindings &bindings = launch_.bindings;
    if (auto extent = llvm::dyn_cast<attn::ExtentOp>(op)) {
      const Extents &e = bindings.extents;
      const int32_t extents[] = {e.B, e.H, e.Hkv, e.Sq, e.Sk};
      return builder_.getI32IntegerAttr(extents[static_cast<int>(extent.getExtent())]);
    }
    if (auto param = llvm::dyn_cast<attn::ParamOp>(op))
      return param.getName() == "w"
                 ? mlir::Attribute(builder_.getI32IntegerAttr(bindings.parameters[0].scalar))
                 : builder_.getF32FloatAttr(bindings.parameters[1].scalar);
    if (auto extent = llvm::dyn_cast<attn::CaptureExtentOp>(op))
      return extentOf(extent);
    if (auto read = llvm::dyn_cast<attn::ReadOp>(op))
      return elementOf(read);
    llvm::SmallVector<mlir::Attribute> operands;
    for (mlir::Value operand : op.getOperands())
      operands.push_back(values_.lookup(operand));
    if (llvm::isa<mlir::math::SqrtOp>(op)) { // MLIR does not fold it for negative operands
      float x = llvm::cast<mlir::FloatAttr>(operands[0]).getValue().convertToFloat();
      return builder_.getF32FloatAttr(std::sqrt(x));
    }
    llvm::SmallVector<mlir::OpFoldResult> results;
    if (mlir::failed(op.fold(operands, results)) || results.size() != 1) {
      ADD_FAILURE() << "does not fold: " << op.getName().getStringRef().str();
      return nullptr;
    }
    if (auto value = llvm::dyn_cast<mlir::Value>(results[0]))
      return values_.lookup(value);
    return llvm::cast<mlir::Attribute>(results[0]);
  }

  mlir::Attribute extentOf(attn::CaptureExtentOp op) {
    // The numbers of the sample's parameters.
    static const std::map<llvm::StringRef, int> captures = {
        {"table", 3}, {"none", 4}, {"nothing", 8}, {"least", 9}, {"odd", 10}};
    const Binding &binding = launch_.bindings.parameters[captures.at(op.getName())];
    return builder_.getI32IntegerAttr(int32_t(binding.capture.extents[op.getAxis()]));
  }

  mlir::Attribute elementOf(attn::ReadOp read) {
    auto index = [&](int axis, int extent) {
      auto value = llvm::cast<mlir::IntegerAttr>(values_.lookup(read.getIndices()[axis]));
      return std::min(std::max<int64_t>(value.getInt(), 0), int64_t{extent} - 1);
    };
    if (read.getName() == "slope")
      return builder_.getF32FloatAttr(launch_.slope[index(0, 4)]);
    if (read.getName() == "table")
      return builder_.getI32IntegerAttr(launch_.table[index(0, 3) + 3 * index(1, 4)]);
    if (read.getName() == "allowed")
      return builder_.getBoolAttr(launch_.allowed[16 * index(0, 12) + index(1, 16)] != 0);
    if (read.getName() == "half")
      return builder_.getF32FloatAttr(f16ToFloat(launch_.half[index(0, 16)]));
    if (read.getName() == "brain")
      return builder_.getF32FloatAttr(
          bf16ToFloat(launch_.brain[63 - 16 * index(0, 4) - index(1, 16)]));
    if (read.getName() == "nothing")
      return builder_.getBoolAttr(false);
    return builder_.getF32FloatAttr(0); // `none` and `least` have no elements
  }

  mlir::Builder builder_;
  const SampleLaunch &launch_;
  llvm::DenseMap<mlir::Value, mlir::Attribute> values_;
};

struct Emitted {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  attn::VariantOp op;

  explicit Emitted(const Variant &variant) {
    context.loadDialect<mlir::scf::SCFDialect>();
    module = emitVariant(variant, context);
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    op = *module->getOps<attn::VariantOp>().begin();
  }
};

template <typename OpT> int countOf(mlir::Region &region) {
  int count = 0;
  region.walk([&](OpT) { ++count; });
  return count;
}

} // namespace

TEST(Emission, MasksAreTheSameBitForBit) {
  for (const std::string &mask : kMasks) {
    Variant variant = parsed(withParameters("mask = " + mask));
    Emitted emitted(variant);
    expandExactMath(emitted.op.getMask());
    expandAttnArithmetic(emitted.op.getMask());
    ASSERT_TRUE(mlir::succeeded(mlir::verify(*emitted.module)));
    for (auto [w, c] : kScalars) {
      SampleLaunch launch(w, c);
      Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
      ASSERT_TRUE(interpreter.ok());
      Folder folder(emitted.context, launch);
      for (const Point &p : launch.points(60)) {
        auto kept = llvm::cast<mlir::IntegerAttr>(folder.run(emitted.op.getMask(), p, nullptr));
        ASSERT_EQ(kept.getValue().getBoolValue(), interpreter->mask(p))
            << mask << " with w = " << w << ", c = " << c << " at q = " << p.q << ", k = " << p.k;
      }
    }
  }
}

TEST(Emission, ScoresAreTheSameBitForBit) {
  for (const std::string &score : kScores) {
    Variant variant = parsed(withParameters("score = " + score));
    Emitted emitted(variant);
    expandAttnArithmetic(emitted.op.getScore());
    for (auto [w, c] : kScalars) {
      SampleLaunch launch(w, c);
      Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
      ASSERT_TRUE(interpreter.ok());
      Folder folder(emitted.context, launch);
      for (const Point &p : launch.points(10))
        for (float s : kLogits) {
          auto found = llvm::cast<mlir::FloatAttr>(folder.run(emitted.op.getScore(), p, &s));
          float value = found.getValue().convertToFloat(), expected = interpreter->score(p, s);
          ASSERT_TRUE(std::bit_cast<int32_t>(value) == std::bit_cast<int32_t>(expected) ||
                      (std::isnan(value) && std::isnan(expected)))
              << score << " of " << s << ": " << value << ", not " << expected;
        }
    }
  }
}

// The functions themselves, with arguments of all magnitudes.
TEST(Emission, ExactMathIsTheSameBitForBit) {
  for (const char *function : {"exp", "log", "tanh", "sin", "cos"}) {
    Variant variant = parsed("attention t { score = " + std::string(function) + "(s) }");
    Emitted emitted(variant);
    expandExactMath(emitted.op.getScore());
    SampleLaunch launch(0, 0);
    Folder folder(emitted.context, launch);
    FloatArithmetic a;
    std::string_view name = function;
    auto exact = name == "exp"    ? exactExp<FloatArithmetic>
                 : name == "log"  ? exactLog<FloatArithmetic>
                 : name == "tanh" ? exactTanh<FloatArithmetic>
                 : name == "sin"  ? exactSin<FloatArithmetic>
                                  : exactCos<FloatArithmetic>;
    for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 1999993) {
      float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      auto found = llvm::cast<mlir::FloatAttr>(folder.run(emitted.op.getScore(), Point(), &x));
      float value = found.getValue().convertToFloat(), expected = exact(a, x);
      ASSERT_TRUE(std::bit_cast<int32_t>(value) == std::bit_cast<int32_t>(expected) ||
                  (std::isnan(value) && std::isnan(expected)))
          << function << "(" << x << "): " << value << ", not " << expected;
    }
  }
}

TEST(Emission, ExpansionLeavesNoneOfTheOperations) {
  Variant variant = parsed(withParameters(
      "mask = exp(c) + log(c) + tanh(c) + sin(c) + cos(c) < sqrt(c) && int(floor(c)) / w % 3 == k\n"
      "score = exp(s)"));
  Emitted emitted(variant);
  mlir::Region &mask = emitted.op.getMask();
  EXPECT_EQ(countOf<mlir::math::ExpOp>(mask), 1);
  EXPECT_EQ(countOf<attn::FloorDivOp>(mask), 1);
  expandExactMath(mask);
  expandAttnArithmetic(mask);
  EXPECT_EQ(countOf<mlir::math::ExpOp>(mask) + countOf<mlir::math::LogOp>(mask) +
                countOf<mlir::math::TanhOp>(mask) + countOf<mlir::math::SinOp>(mask) +
                countOf<mlir::math::CosOp>(mask) + countOf<attn::FloorDivOp>(mask) +
                countOf<attn::FloorModOp>(mask) + countOf<attn::ToIntOp>(mask),
            0);
  EXPECT_EQ(countOf<mlir::math::SqrtOp>(mask) + countOf<mlir::math::FloorOp>(mask), 2);
  EXPECT_EQ(countOf<mlir::math::ExpOp>(emitted.op.getScore()), 1);
}

TEST(Emission, IdentityAndTruthAreSeen) {
  Emitted plain(parsed("attention t { let a = q > k }"));
  EXPECT_TRUE(plain.op.scoreIsIdentity());
  EXPECT_TRUE(plain.op.maskIsTrue());
  EXPECT_EQ(plain.op.getMaskBody().getOperations().size(), 2u) << "an unused let is not emitted";
  Emitted other(parsed("attention t { mask = q > k\n score = s * 2 }"));
  EXPECT_FALSE(other.op.scoreIsIdentity());
  EXPECT_FALSE(other.op.maskIsTrue());
}

TEST(Emission, OperationsKnowTheirPlaceInTheText) {
  Emitted emitted(parsed("attention t {\n  mask = q >= k\n}"));
  mlir::Operation &compare = emitted.op.getMaskBody().front();
  auto location = llvm::dyn_cast<mlir::FileLineColLoc>(compare.getLoc());
  ASSERT_TRUE(location);
  EXPECT_EQ(location.getFilename().str(), "sample.attn");
  EXPECT_EQ(location.getLine(), 2u);
  EXPECT_EQ(location.getColumn(), 12u);
}

TEST(Emission, TheLibrarysVariantsVerify) {
  for (const auto &entry : std::filesystem::directory_iterator(TESELA_VARIANTS)) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    Emitted emitted(parsed(text.str()));
    EXPECT_EQ(emitted.op.getSymName().str(), entry.path().stem().string());
  }
}
