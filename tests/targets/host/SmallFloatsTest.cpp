//===- SmallFloatsTest.cpp - Rounding to f16 and bf16 ------------ -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

using namespace tesela;
using namespace tesela::test;

static const char *roundCore = R"(
!view = !tile.view<[?, ?, ?, 64], f32>
!rows = !tile.block<query, 64>
!tile = !tile.tile<[64, 64], f32>
!small = !tile.tile<[64, 64], {T}>
tile.kernel @round(%q: !view, %o: !view)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %x = tile.load %q[%rows] : !view[!rows] -> !tile
  %y = tile.convert %x : !tile -> !small
  %z = tile.convert %y : !small -> !tile
  tile.store %z, %o[%rows] : !tile, !view[!rows]
}
)";

/// All values of the format; for each the next smaller and larger f32, the middle between it and
/// the next value, and the neighbours of that middle.
static std::vector<float> criticalValues(ElementType type) {
  auto value = type == ElementType::f16 ? f16ToFloat : bf16ToFloat;
  std::vector<float> values;
  for (int bits = 0; bits < 65536; ++bits) {
    float x = value(uint16_t(bits));
    float next = (bits & 0x7fff) == 0x7fff ? x : value(uint16_t(bits + 1));
    if (std::isinf(next)) // the value that would come next without an upper bound
      next = std::copysign(type == ElementType::f16 ? 65536.0f : HUGE_VALF, x);
    float middle = float((double(x) + next) / 2);
    for (float y : {x, middle})
      for (float z : {std::nextafterf(y, -HUGE_VALF), y, std::nextafterf(y, HUGE_VALF)})
        values.push_back(z);
  }
  for (uint32_t bits = 0; bits < 4096; ++bits) // and random ones
    values.push_back(std::bit_cast<float>(bits * 2654435761u));
  values.resize((values.size() + 63) / 64 * 64, 0.0f);
  return values;
}

TEST(HostConvert, RoundsAsTheReferenceDoes) {
  for (const VectorUnit &unit : vectorUnits())
    for (ElementType type : {ElementType::f16, ElementType::bf16}) {
      auto kernel = HostKernelUnderTest::compile(
          substitute(roundCore, {{"T", std::string(elementTypeName(type))}}), unit);
      ASSERT_TRUE(kernel);
      std::vector<float> in = criticalValues(type), out(in.size(), 42);
      int rows = int(in.size() / 64);
      HostArguments arguments;
      arguments.extents = {1, 1, 1, rows, 1};
      arguments.tensors = {{"q", contiguousRows(in.data(), rows, 64)},
                           {"o", contiguousRows(out.data(), rows, 64)}};
      kernel->run(arguments);
      for (size_t i = 0; i < in.size(); ++i) {
        float expected = roundTo(type, in[i]);
        if (std::isnan(expected))
          ASSERT_TRUE(std::isnan(out[i])) << "of " << in[i];
        else
          ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected))
              << "of " << in[i] << " to " << elementTypeName(type) << ": " << out[i]
              << " instead of " << expected;
      }
    }
}
