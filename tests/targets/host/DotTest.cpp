//===- DotTest.cpp - Matrix products on the host ----------------- -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace tesela;
using namespace tesela::test;

// o = q · kᵀ or q · k, plus a constant or q itself.
static const char *dotCore = R"(
!aView = !tile.view<[?, ?, ?, {K}], {T}>
!bView = !tile.view<[?, ?, ?, {BC}], {T}>
!oView = !tile.view<[?, ?, ?, {N}], f32>
!rows = !tile.block<query, {M}>
!keys = !tile.block<key, {BR}>
!a = !tile.tile<[{M}, {K}], {T}>
!b = !tile.tile<[{BR}, {BC}], {T}>
!c = !tile.tile<[{M}, {N}], f32>
tile.kernel @dot(%q: !aView, %k: !bView, %o: !oView)
    attributes {schedule = #tile.schedule<block_m = {M}, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !rows -> !keys
  %a = tile.load %q[%rows] : !aView[!rows] -> !a
  %b = tile.load %k[%keys] : !bView[!keys] -> !b
  %c = tile.load %o[%rows] : !oView[!rows] -> !c
  %half = tile.constant 0.5 : !c
  // %c is needed twice: neither product may write over it.
  %d = tile.dot %a, %b {X} plus %c : (!a, !b, !c) -> !c
  %e = tile.dot %a, %b {X} plus %half : (!a, !b, !c) -> !c
  %f = tile.map %c, %d, %e : (!c, !c, !c) -> !c {
  ^body(%x: f32, %y: f32, %z: f32, %i: i32, %j: i32):
    %s = arith.addf %y, %z : f32
    %t = arith.subf %s, %x : f32
    tile.yield %t : f32
  }
  tile.store %f, %o[%rows] : !c, !oView[!rows]
}
)";

struct Shape {
  int m, n, k;
};

void expectProduct(const Shape &shape, bool transposed, ElementType type, const VectorUnit &unit) {
  auto [m, n, k] = shape;
  SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k
                                  << (transposed ? " transposed" : "") << ", "
                                  << elementTypeName(type) << ", vectors of " << unit.width
                                  << " in " << unit.registers << " registers");
  auto kernel =
      HostKernelUnderTest::compile(substitute(dotCore, {{"M", std::to_string(m)},
                                                        {"N", std::to_string(n)},
                                                        {"K", std::to_string(k)},
                                                        {"BR", std::to_string(transposed ? n : k)},
                                                        {"BC", std::to_string(transposed ? k : n)},
                                                        {"X", transposed ? "transposed" : ""},
                                                        {"T", std::string(elementTypeName(type))}}),
                                   unit);
  ASSERT_TRUE(kernel);
  std::vector<float> a = randomValues(type, m * k, 7), b = randomValues(type, n * k, 8);
  std::vector<float> c = randomValues(ElementType::f32, m * n, 9), o = c;
  std::vector<char> aBytes = encode(type, a), bBytes = encode(type, b);
  HostArguments arguments;
  arguments.extents = {1, 1, 1, m, transposed ? n : k};
  arguments.tensors = {{"q", contiguousRows(aBytes.data(), m, k)},
                       {"k", contiguousRows(bBytes.data(), transposed ? n : k, transposed ? k : n)},
                       {"o", contiguousRows(o.data(), m, n)}};
  kernel->run(arguments);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0, magnitude = 1;
      for (int x = 0; x < k; ++x) {
        double product = double(a[i * k + x]) * b[transposed ? j * k + x : x * n + j];
        sum += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(o[i * n + j], 2 * sum + 0.5, 0x1p-20 * magnitude * std::sqrt(k))
          << "row " << i << " column " << j;
    }
}

TEST(HostDot, AgreesWithALoop) {
  for (VectorUnit unit : vectorUnits())
    // The sums of earlier runs are kept in registers or in memory.
    for (int64_t registers : {unit.registers, 8 * unit.registers}) {
      unit.registers = registers;
      for (Shape shape : {Shape{64, 64, 128},
                          {16, 96, 8},
                          {48, 16, 64},
                          {6, 24, 40},
                          {5, 7, 3},
                          {7, 32, 37},
                          {1, 1, 1},
                          {64, 128, 64}})
        for (bool transposed : {false, true})
          for (ElementType type : {ElementType::f32, ElementType::bf16}) {
            expectProduct(shape, transposed, type, unit);
            if (HasFatalFailure())
              return;
          }
    }
}

constexpr const char *leftTransposedCore = R"(
!aView = !tile.view<[?, ?, ?, {M}], {T}>
!bView = !tile.view<[?, ?, ?, {BC}], {T}>
!oView = !tile.view<[?, ?, ?, {N}], f32>
tile.kernel @dot(%q: !aView, %k: !bView, %o: !oView)
    attributes {schedule = #tile.schedule<block_m = {M}, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, {M}>
  %zero = arith.constant 0 : i32
  %ofA = tile.block %zero batch %zero head %zero -> !tile.block<key, {K}>
  %ofB = tile.block %zero batch %zero head %zero -> !tile.block<key, {BR}>
  %a = tile.load %q[%ofA] : !aView[!tile.block<key, {K}>] -> !tile.tile<[{K}, {M}], {T}>
  %b = tile.load %k[%ofB] : !bView[!tile.block<key, {BR}>] -> !tile.tile<[{BR}, {BC}], {T}>
  %c = tile.constant 0.5 : !tile.tile<[{M}, {N}], f32>
  %d = tile.dot %a transposed, %b {X} plus %c : (!tile.tile<[{K}, {M}], {T}>, !tile.tile<[{BR}, {BC}], {T}>, !tile.tile<[{M}, {N}], f32>) -> !tile.tile<[{M}, {N}], f32>
  tile.store %d, %o[%rows] : !tile.tile<[{M}, {N}], f32>, !oView[!tile.block<query, {M}>]
}
)";

TEST(HostDot, TransposesTheLeftOperand) {
  for (const VectorUnit &unit : vectorUnits())
    for (Shape shape : {Shape{64, 64, 32}, {16, 24, 40}, {7, 32, 5}, {1, 1, 1}})
      for (bool transposed : {false, true})
        for (ElementType type : {ElementType::f32, ElementType::bf16}) {
          auto [m, n, k] = shape;
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << ", b "
                                          << (transposed ? "transposed" : "as it is"));
          int rowsOfB = transposed ? n : k, columnsOfB = transposed ? k : n;
          auto kernel = HostKernelUnderTest::compile(
              substitute(leftTransposedCore, {{"M", std::to_string(m)},
                                              {"N", std::to_string(n)},
                                              {"K", std::to_string(k)},
                                              {"BR", std::to_string(rowsOfB)},
                                              {"BC", std::to_string(columnsOfB)},
                                              {"X", transposed ? "transposed" : ""},
                                              {"T", std::string(elementTypeName(type))}}),
              unit);
          ASSERT_TRUE(kernel);
          std::vector<float> a = randomValues(type, m * k, 7), b = randomValues(type, n * k, 8);
          std::vector<float> o(m * n, NAN);
          std::vector<char> aBytes = encode(type, a), bBytes = encode(type, b);
          HostArguments arguments;
          arguments.extents = {1, 1, 1, m, std::max(n, k)};
          arguments.tensors = {{"q", contiguousRows(aBytes.data(), k, m)},
                               {"k", contiguousRows(bBytes.data(), rowsOfB, columnsOfB)},
                               {"o", contiguousRows(o.data(), m, n)}};
          kernel->run(arguments);
          for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
              double sum = 0.5, magnitude = 1;
              for (int x = 0; x < k; ++x) {
                double product = double(a[x * m + i]) * b[transposed ? j * k + x : x * n + j];
                sum += product;
                magnitude += std::fabs(product);
              }
              ASSERT_NEAR(o[i * n + j], sum, 0x1p-20 * magnitude * std::sqrt(k))
                  << "row " << i << " column " << j;
            }
        }
}

// o = q · k + q · kᵀ, or q · k + k · kᵀ, which also reads k as a left operand.
constexpr const char *bothWaysCore = R"(
!view = !tile.view<[?, ?, ?, {N}], {T}>
!oView = !tile.view<[?, ?, ?, {N}], f32>
!rows = !tile.block<query, {N}>
!keys = !tile.block<key, {N}>
!x = !tile.tile<[{N}, {N}], {T}>
!c = !tile.tile<[{N}, {N}], f32>
tile.kernel @dot(%q: !view, %k: !view, %o: !oView)
    attributes {schedule = #tile.schedule<block_m = {N}, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %first = arith.constant 0 : i32
  %keys = tile.block %first of %rows : !rows -> !keys
  %a = tile.load %q[%rows] : !view[!rows] -> !x
  %b = tile.load %k[%keys] : !view[!keys] -> !x
  %zero = tile.constant 0.0 : !c
  %d = tile.dot %a, %b plus %zero : (!x, !x, !c) -> !c
  %e = tile.dot %{L}, %b transposed plus %d : (!x, !x, !c) -> !c
  tile.store %e, %o[%rows] : !c, !oView[!rows]
}
)";

TEST(HostDot, ReadsTheRightOperandBothWays) {
  for (const VectorUnit &unit : vectorUnits())
    for (int n : {64, 24, 7})
      for (bool isLeftToo : {false, true})
        for (ElementType type : {ElementType::f32, ElementType::bf16}) {
          SCOPED_TRACE(testing::Message() << n << (isLeftToo ? ", left too" : ""));
          auto kernel = HostKernelUnderTest::compile(
              substitute(bothWaysCore, {{"N", std::to_string(n)},
                                        {"L", isLeftToo ? "b" : "a"},
                                        {"T", std::string(elementTypeName(type))}}),
              unit);
          ASSERT_TRUE(kernel);
          std::vector<float> a = randomValues(type, n * n, 7), b = randomValues(type, n * n, 8);
          std::vector<float> o(n * n, NAN);
          std::vector<char> aBytes = encode(type, a), bBytes = encode(type, b);
          HostArguments arguments;
          arguments.extents = {1, 1, 1, n, n};
          arguments.tensors = {{"q", contiguousRows(aBytes.data(), n, n)},
                               {"k", contiguousRows(bBytes.data(), n, n)},
                               {"o", contiguousRows(o.data(), n, n)}};
          kernel->run(arguments);
          const std::vector<float> &left = isLeftToo ? b : a;
          for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) {
              double sum = 0;
              for (int x = 0; x < n; ++x)
                sum += double(a[i * n + x]) * b[x * n + j] + double(left[i * n + x]) * b[j * n + x];
              ASSERT_NEAR(o[i * n + j], sum, 0x1p-14) << "row " << i << " column " << j;
            }
        }
}
