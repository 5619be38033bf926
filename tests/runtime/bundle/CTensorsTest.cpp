//===- CTensorsTest.cpp - Tensors in a C launcher -------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CTensors.h"
#include "bundle/CExpressions.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

Expression parsed(const char *text) { return *Expression::parse(text); }

/// "?" stands for any extent.
TensorArgument tensor(const char *name, std::initializer_list<const char *> extents,
                      bool contiguous = false) {
  TensorArgument made;
  made.name = name;
  made.type = ElementType::f32;
  made.contiguous = contiguous;
  for (const char *extent : extents)
    made.extents.push_back(std::string(extent) == "?" ? std::nullopt
                                                      : std::optional(parsed(extent)));
  return made;
}

Result<CTensors> written(std::vector<TensorArgument> tensors, const std::vector<int> &asked = {}) {
  Artifact artifact;
  artifact.variantName = "own";
  artifact.tensors = std::move(tensors);
  return writeTensors("own", artifact, asked, memberNames(artifact.tensors, {}, "own"));
}

TEST(CExpressions, InC) {
  EXPECT_EQ(expressionInC(parsed("(+ B (ceildiv 16 (* Hkv 2)))"), "c->x."),
            "plus(c->x.B, ceil_divide(16, times(c->x.Hkv, 2)))");
  EXPECT_EQ(expressionInC(parsed("(ceildiv (+ -1 B) B)"), "x."), "ceil_divide(plus(-1, x.B), x.B)");
  EXPECT_EQ(expressionInC(parsed("(max 1 (* B H))"), "x."), "greater(1, times(x.B, x.H))");
  EXPECT_EQ(expressionInC(parsed("(* -1 B)"), "x."), "");
  EXPECT_EQ(expressionInC(parsed("$doc.1"), "x."), "c->capture_doc.extents[1]");
  EXPECT_EQ(expressionInC(parsed("(+ B -1)"), "x."), "");
}

TEST(CExpressions, ForReaders) {
  EXPECT_EQ(expressionForReaders(parsed("(+ B 1)")), "B + 1");
  EXPECT_EQ(expressionForReaders(parsed("(* (+ B 1) $doc.0)")), "(B + 1) * doc.extents[0]");
  EXPECT_EQ(expressionForReaders(parsed("(max 1 (+ B 2))")), "max(1, B + 2)");
}

// A view defines an extent, otherwise the launch does. An extent that it must give has no default.
TEST(CTensors, WhoTellsAnExtent) {
  constexpr int queries = 3;
  Result<CTensors> tensors = written({tensor("made", {"B", "H", "?"})}, {queries});
  ASSERT_TRUE(tensors.ok()) << tensors.error().message();
  EXPECT_NE(tensors->fields.find("own_tensor_3 made; /* f32 [B, H, any] */"), std::string::npos)
      << tensors->fields;
  EXPECT_EQ(tensors->fields.find("int64_t B;"), std::string::npos);
  EXPECT_NE(
      tensors->fields.find("int64_t Sq; /* the most queries of a sequence, or more; no tensor "
                           "has it: set it */"),
      std::string::npos)
      << tensors->fields;
  EXPECT_EQ(tensors->defaults, "  arguments->Sq = -1;\n  arguments->Sk = 1;\n");
}

// A contiguous tensor is passed by its address only.
TEST(CTensors, ExtentsWithoutStrides) {
  Result<CTensors> tensors = written({tensor("x", {"B", "Sq"}, /*contiguous=*/true)});
  ASSERT_TRUE(tensors.ok()) << tensors.error().message();
  EXPECT_NE(tensors->defaults.find("arguments->B = -1;"), std::string::npos) << tensors->defaults;
  tensors = written({tensor("x", {"B", "?"}, /*contiguous=*/true)});
  ASSERT_EQ(tensors.code(), Code::unsupported);
  EXPECT_EQ(tensors.error().message(),
            "the kernel 'own' has the contiguous tensor 'x', whose extent of axis 1 no argument "
            "gives; a launcher in C does not support this: export the bundle without one "
            "(--no-launcher, BundleOptions::noLauncher), and load it with the library");
}

} // namespace
