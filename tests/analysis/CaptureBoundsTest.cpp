//===- CaptureBoundsTest.cpp - Tables of bounds, made by many threads -----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Threads that ask for a table make it together. Each thread of a test asks at once for boxes of a
// new table. What they get is compared with a loop over the elements of each box.
//
//===----------------------------------------------------------------------===//
#include "visits/CaptureBounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

using namespace tesela;

namespace {

/// A tensor of up to two axes, and boxes of it.
struct Case {
  const char *name;
  ElementType type;
  std::vector<int64_t> extents, strides;
};

// A part of a table has 32,768 elements: one line has many parts, or a part has many lines.
std::vector<Case> cases() {
  return {
      {"one line", ElementType::i32, {300'000}, {1}},
      {"a line that ends with a part", ElementType::i32, {65'536}, {1}},
      {"one part", ElementType::i32, {32'768}, {1}},
      {"one element more than a part", ElementType::i32, {32'769}, {1}},
      {"two lines", ElementType::i32, {2, 100'001}, {100'001, 1}},
      {"many short lines", ElementType::i32, {5'000, 37}, {37, 1}},
      {"short lines along the other axis", ElementType::i32, {37, 5'000}, {1, 37}},
      {"gaps", ElementType::i32, {80'000}, {3}},
      {"backwards", ElementType::i32, {80'000}, {-1}},
      {"bytes", ElementType::boolean, {3, 70'000}, {70'000, 1}},
      {"numbers", ElementType::f32, {100'000}, {1}},
      {"halves", ElementType::f16, {50'000}, {1}},
      {"few elements", ElementType::i32, {9}, {1}},
  };
}

int64_t bytesOf(ElementType type) {
  return type == ElementType::boolean                            ? 1
         : type == ElementType::f16 || type == ElementType::bf16 ? 2
                                                                 : 4;
}

/// Random elements. Of 1000 numbers about one is NaN.
std::vector<uint8_t> randomElements(ElementType type, int64_t count, std::mt19937 &random) {
  std::vector<uint8_t> bytes(size_t(count * bytesOf(type)));
  for (int64_t i = 0; i < count; ++i) {
    int32_t integer = int32_t(random());
    float number = random() % 1000 == 0 ? std::nanf("") : float(integer) / 1000;
    uint16_t half = uint16_t(random() % 0x7c00); // no NaN, and no infinity
    const void *from = &integer;
    if (type == ElementType::f32)
      from = &number;
    else if (type == ElementType::f16)
      from = &half;
    else if (type == ElementType::boolean)
      integer &= 1;
    std::memcpy(bytes.data() + i * bytesOf(type), from, size_t(bytesOf(type)));
  }
  return bytes;
}

/// The element at an offset.
Scalar elementAt(const CaptureView &view, ElementType type, int64_t offset) {
  Scalar element{.integer = 0};
  if (type == ElementType::f32)
    element.number = static_cast<const float *>(view.data)[offset];
  else if (type == ElementType::f16)
    element.number = f16ToFloat(static_cast<const uint16_t *>(view.data)[offset]);
  else if (type == ElementType::boolean)
    element.integer = static_cast<const uint8_t *>(view.data)[offset];
  else
    element.integer = static_cast<const int32_t *>(view.data)[offset];
  return element;
}

struct Box {
  std::vector<int64_t> low, high;
};

/// Boxes of all lengths, most with ends near multiples of 8.
std::vector<Box> randomBoxes(const CaptureView &view, std::mt19937 &random, int count) {
  std::vector<Box> boxes;
  for (int i = 0; i < count; ++i) {
    Box box;
    for (int64_t extent : view.extents) {
      int64_t low = int64_t(random() % uint64_t(extent)), length = int64_t(random() % 9);
      for (int times = int(random() % 6); times > 0; --times)
        length *= 8;
      box.low.push_back(random() % 2 ? low / 8 * 8 : low);
      box.high.push_back(std::min(box.low.back() + length, extent - 1));
    }
    boxes.push_back(box);
  }
  return boxes;
}

/// The bounds by a loop over the box's elements.
std::pair<Scalar, Scalar> slowBounds(const CaptureView &view, ElementType type, const Box &box) {
  bool isNumber = type == ElementType::f32 || type == ElementType::f16;
  Scalar least{.integer = std::numeric_limits<int64_t>::max()};
  Scalar largest{.integer = std::numeric_limits<int64_t>::min()};
  if (isNumber) {
    least.number = std::numeric_limits<float>::infinity();
    largest.number = -least.number;
  }
  auto take = [&](int64_t offset) {
    Scalar element = elementAt(view, type, offset);
    if (!isNumber) {
      least.integer = std::min(least.integer, element.integer);
      largest.integer = std::max(largest.integer, element.integer);
    } else if (std::isnan(element.number) || std::isnan(least.number)) {
      least.number = largest.number = std::nanf("");
    } else {
      least.number = std::min(least.number, element.number);
      largest.number = std::max(largest.number, element.number);
    }
  };
  for (int64_t i = box.low[0]; i <= box.high[0]; ++i) {
    if (view.extents.size() == 1)
      take(i * view.strides[0]);
    else
      for (int64_t j = box.low[1]; j <= box.high[1]; ++j)
        take(i * view.strides[0] + j * view.strides[1]);
  }
  return {least, largest};
}

std::pair<Scalar, Scalar> bounds(const CaptureBounds &tables, const Box &box) {
  std::vector<Scalar> low, high;
  for (size_t axis = 0; axis < box.low.size(); ++axis) {
    low.push_back({.integer = box.low[axis]});
    high.push_back({.integer = box.high[axis]});
  }
  std::vector<const Scalar *> lows, highs;
  for (size_t axis = 0; axis < low.size(); ++axis) {
    lows.push_back(&low[axis]);
    highs.push_back(&high[axis]);
  }
  Scalar least{.integer = 0}, largest{.integer = 0};
  tables.of(lows.data(), highs.data(), 1, &least, &largest);
  return {least, largest};
}

bool areSame(ElementType type, const Scalar &a, const Scalar &b) {
  if (type == ElementType::f32 || type == ElementType::f16)
    return a.number == b.number || (std::isnan(a.number) && std::isnan(b.number));
  return a.integer == b.integer;
}

TEST(CaptureBounds, AreThoseOfTheElementsForThreadsThatAskAtOnce) {
  constexpr int threads = 4, rounds = 3;
  for (const Case &each : cases())
    for (int round = 0; round < rounds; ++round) {
      std::mt19937 random(round + 1);
      int64_t elements = 1, first = 0;
      for (size_t axis = 0; axis < each.extents.size(); ++axis) {
        elements += (each.extents[axis] - 1) * std::abs(each.strides[axis]);
        first += (each.extents[axis] - 1) * std::max<int64_t>(-each.strides[axis], 0);
      }
      std::vector<uint8_t> memory = randomElements(each.type, elements, random);
      CaptureView view{memory.data() + first * bytesOf(each.type), each.extents, each.strides};
      CaptureBounds tables(view, each.type);
      std::atomic<int> ready = 0, wrong = 0;
      std::vector<std::thread> asking;
      asking.reserve(threads);
      for (int thread = 0; thread < threads; ++thread)
        asking.emplace_back([&, thread] {
          std::mt19937 ofThread(100 * round + thread);
          std::vector<Box> boxes = randomBoxes(view, ofThread, 40);
          for (++ready; ready < threads;)
            std::this_thread::yield();
          for (const Box &box : boxes) {
            auto [least, largest] = bounds(tables, box);
            auto [slowLeast, slowLargest] = slowBounds(view, each.type, box);
            if (!areSame(each.type, least, slowLeast) || !areSame(each.type, largest, slowLargest))
              ++wrong;
          }
        });
      for (std::thread &thread : asking)
        thread.join();
      EXPECT_EQ(wrong, 0) << each.name;
    }
}

} // namespace
