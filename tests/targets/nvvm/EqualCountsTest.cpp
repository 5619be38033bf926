//===- EqualCountsTest.cpp - Loops carry each number once -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/EqualCounts.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

#include <set>

using namespace tesela;

namespace {

/// The names of the phis that are left in the function of `text`.
std::set<std::string> phisAfter(const char *text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, error, context);
  if (!module) {
    ADD_FAILURE() << error.getMessage().str();
    return {};
  }
  std::set<std::string> names;
  for (llvm::Function &function : *module) {
    llvm::FunctionAnalysisManager analyses;
    nvvm::EqualCounts().run(function, analyses);
    for (llvm::BasicBlock &block : function)
      for (llvm::PHINode &phi : block.phis())
        names.insert(phi.getName().str());
  }
  EXPECT_FALSE(llvm::verifyModule(*module));
  return names;
}

using Names = std::set<std::string>;

// The counts of two channels of a persistent kernel. No loop alone shows that they are equal, since
// each count begins with a result of the other loop.
TEST(EqualCounts, OfNestedLoopsAreOne) {
  EXPECT_EQ(phisAfter(R"(
define void @f(i32 %items, i32 %blocks) {
entry:
  br label %item
item:
  %i = phi i32 [ 0, %entry ], [ %i.next, %done ]
  %k.outer = phi i32 [ 0, %entry ], [ %k, %done ]
  %v.outer = phi i32 [ 0, %entry ], [ %v, %done ]
  %i.next = add i32 %i, 1
  br label %block
block:
  %b = phi i32 [ %blocks, %item ], [ %b.next, %body ]
  %k = phi i32 [ %k.outer, %item ], [ %k.next, %body ]
  %v = phi i32 [ %v.outer, %item ], [ %v.next, %body ]
  %more = icmp sgt i32 %b, 0
  br i1 %more, label %body, label %done
body:
  %b.next = sub i32 %b, 1
  %k.next = add i32 %k, 1
  %v.next = add i32 %v, 1
  br label %block
done:
  %again = icmp slt i32 %i.next, %items
  br i1 %again, label %item, label %end
end:
  ret void
}
)"),
            (Names{"i", "k.outer", "b", "k"}));
}

constexpr const char *loopOfTwo = R"(
define void @f(i32 %n, i32 %other) {
entry:
  br label %loop
loop:
  %a = phi TYPE_A [ START_A, %entry ], [ NEXT_A, %loop ]
  %b = phi TYPE_B [ START_B, %entry ], [ NEXT_B, %loop ]
  %a.next = add TYPE_A %a, 1
  %b.next = add TYPE_B %b, STEP_B
  %more = icmp slt TYPE_A %a.next, 9
  br i1 %more, label %loop, label %end
end:
  ret void
}
)";

std::string loop(std::string typeB, std::string startA, std::string startB, std::string stepB,
                 std::string nextA = "%a.next", std::string nextB = "%b.next") {
  std::string text = loopOfTwo;
  for (auto [from, to] : {std::pair<std::string, std::string>{"TYPE_A", "i32"},
                          {"TYPE_B", typeB},
                          {"START_A", startA},
                          {"START_B", startB},
                          {"STEP_B", stepB},
                          {"NEXT_A", nextA},
                          {"NEXT_B", nextB}})
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  return text;
}

TEST(EqualCounts, WhatDiffersStays) {
  const Names one = {"a"}, two = {"a", "b"};
  EXPECT_EQ(phisAfter(loop("i32", "%n", "%n", "1").c_str()), one);
  EXPECT_EQ(phisAfter(loop("i32", "%n", "%other", "1").c_str()), two) << "another start";
  EXPECT_EQ(phisAfter(loop("i32", "0", "0", "2").c_str()), two) << "another step";
  EXPECT_EQ(phisAfter(loop("i64", "0", "0", "1").c_str()), two) << "another type";
  EXPECT_EQ(phisAfter(loop("i32", "0", "0", "1", "%a.next", "%b").c_str()), two) << "one stays";
  EXPECT_EQ(phisAfter(loop("i32", "0", "0", "1", "%b.next", "%a.next").c_str()), one)
      << "crosswise";
}

} // namespace
