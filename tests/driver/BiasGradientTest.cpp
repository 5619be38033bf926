//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Tests which gradients of biases of pairs are stored once, in the bias's own type, and which are
// cleared and then added to (compiler/transforms/OwnTiles.cpp).
//
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace tesela;

namespace {

KernelSpecification gradientOf(const char *text, int headDim, const char *chip) {
  KernelSpecification specification;
  specification.algorithm = "backward_parameters";
  specification.variantText = text;
  specification.headDimQk = specification.headDimV = headDim;
  specification.target = *Target::parse(chip);
  return specification;
}

/// The type of d_bias. `clears` receives whether a launch clears it.
ElementType typeOfGradient(const Artifact &artifact, bool &clears) {
  clears = std::ranges::count(artifact.launches, "clear_elements", &Launch::kernel) > 0;
  auto tensor = std::ranges::find(artifact.tensors, "d_bias", &TensorArgument::name);
  EXPECT_NE(tensor, artifact.tensors.end());
  return tensor == artifact.tensors.end() ? ElementType::boolean : tensor->type;
}

TEST(BiasGradient, IsStoredOnceWhereBatchesHaveTheSameBlocks) {
  struct Case {
    const char *text;
    bool isStoredOnce;
  };
  for (auto [text, isStoredOnce] : {
           Case{"attention a(bias: bf16[H, Sq, Sk]) { score = s + bias[h, q, k] }", true},
           {"attention a(bias: bf16[Sq, Sk]) { mask = q >= k; score = s + bias[q, k] }", true},
           {"attention a(bias: bf16[B, H, Sq, Sk]) { mask = k < 9 || q >= k + b\n"
            "score = s + bias[b, h, q, k] }",
            true},
           // The blocks of keys, or the elements, differ between batches or heads.
           {"attention a(bias: bf16[H, Sq, Sk]) { mask = k < 9 * b; score = s + bias[h, q, k] }",
            false},
           {"attention a(bias: bf16[Hkv, Sq, Sk]) { score = s + bias[hkv, q, k] }", false},
           {"attention a(bias: bf16[H, Sq, Sk], n: i32[B]) { mask = k < n[b]\n"
            "score = s + bias[h, q, k] }",
            false},
           // Elements that no pair reads must be 0.
           {"attention a(bias: bf16[H, Sq, Sk]) { score = s + bias[0, q, k] }", false},
           {"attention a(bias: bf16[L, Sq, Sk], layer: i32) { score = s + bias[layer, q, k] }",
            false},
           // Another gradient is summed up, too.
           {"attention a(bias: bf16[H, Sq, Sk], w: f32) { score = s * w + bias[h, q, k] }", false},
       }) {
    for (const char *chip : {"sm_90", "sm_80"}) {
      Result<Artifact> artifact = compile(gradientOf(text, 64, chip));
      ASSERT_TRUE(artifact.ok()) << text << ": " << artifact.error().message();
      bool clears = false;
      ElementType type = typeOfGradient(*artifact, clears);
      EXPECT_EQ(type, isStoredOnce ? ElementType::bf16 : ElementType::f32) << text;
      EXPECT_EQ(clears, !isStoredOnce) << text;
    }
  }
}

TEST(BiasGradient, IsAddedToWhereHeadsAreWide) {
  Result<Artifact> artifact = compile(
      gradientOf("attention a(bias: bf16[H, Sq, Sk]) { score = s + bias[h, q, k] }", 256, "sm_90"));
  ASSERT_TRUE(artifact.ok()) << artifact.error().message();
  bool clears = false;
  EXPECT_EQ(typeOfGradient(*artifact, clears), ElementType::f32);
  EXPECT_TRUE(clears);
}

TEST(BiasGradient, FitsWithAllWidths) {
  for (auto [chip, limit] : {std::pair("sm_90", 232448), {"sm_80", 166912}, {"sm_89", 101376}})
    for (int headDim : {40, 64, 128, 192, 256}) {
      Result<Artifact> artifact = compile(gradientOf(
          "attention a(bias: f16[H, Sq, Sk]) { score = s + bias[h, q, k] }", headDim, chip));
      ASSERT_TRUE(artifact.ok()) << chip << ", " << headDim << ": " << artifact.error().message();
      for (const Launch &launch : artifact->launches)
        EXPECT_LE(launch.sharedBytes, limit) << chip << ", " << headDim << ", " << launch.kernel;
      bool isOfRoles = artifact->schedule.find("consumers = 2") != std::string::npos;
      EXPECT_EQ(isOfRoles, std::string(chip) == "sm_90") << headDim;
    }
}

} // namespace
