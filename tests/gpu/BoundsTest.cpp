//===- BoundsTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Bounds of captured tensors from summaries, on the host and on a GPU, compared with plain loops. A
// template of the test asks for the bounds of one box for each head, and writes their bytes into
// the output.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <sstream>

#include <unistd.h>

using namespace tesela;

namespace {

constexpr int32_t least = std::numeric_limits<int32_t>::min();
constexpr int32_t most = std::numeric_limits<int32_t>::max();

struct BoundsCase {
  const char *name;
  std::vector<int64_t> extents;
  std::vector<int64_t> within; ///< for each axis; 0: not known
};

const BoundsCase cases[] = {
    {"line_small", {1035}, {80}},
    {"line_most_granules", {1035}, {240}},
    {"line_coarse", {20000}, {4096}},
    {"line_unknown", {20000}, {0}},
    {"line_element", {77}, {1}},
    {"line_short", {3}, {80}},
    {"line_empty", {0}, {80}},
    {"line_empty_unknown", {0}, {0}},
    {"batches", {3, 700}, {1, 64}},
    {"batches_unknown", {3, 1700}, {1, 0}},
    {"first_axis", {333, 5}, {80, 1}},
    {"no_columns", {3, 0}, {1, 64}},
    {"no_batches", {0, 300}, {1, 64}},
    {"matrix", {150, 333}, {64, 64}},
    {"matrix_lines_in_a_loop", {300, 700}, {128, 176}},
    {"matrix_unknown", {300, 2000}, {0, 0}},
    {"matrix_unknown_rows", {300, 70}, {0, 48}},
    {"matrix_of_heads", {100, 3, 70}, {64, 1, 64}},
    {"rank_4", {2, 3, 5, 90}, {1, 1, 1, 80}},
    {"rank_4_matrix", {2, 130, 3, 90}, {1, 70, 1, 40}},
    {"three_axes", {20, 20, 20}, {4, 4, 4}},
};

std::string commas(size_t count, const std::function<std::string(size_t)> &each) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + each(i);
  return text;
}

/// A template that probes `boxes[head]`, which has the low and the high end of each axis in turn.
std::string probe(const BoundsCase &of, ElementType type) {
  size_t rank = of.extents.size();
  std::string element(elementTypeName(type));
  std::string view =
      "!tile.view<[" + commas(rank, [](size_t) { return "?"; }) + "], " + element + ">";
  std::ostringstream text;
  text << R"(!queries = !tile.view<[B, H, Sq, d_v], input>
tile.kernel @forward<block_m, block_n, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>, out %o: !queries,
    out %lse: !tile.view<[B, H, Sq], f32, contiguous>, %scale: f32, %$x: )"
       << view << R"(, %$boxes: !tile.view<[?, ?], i32>) {
  %rows = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %rows : !tile.block<query, block_m>
)";
  for (size_t i = 0; i < 2 * rank; ++i)
    text << "  %c" << i << " = arith.constant " << i << " : i32\n  %e" << i
         << " = tile.read %$boxes[%head, %c" << i << "] : !tile.view<[?, ?], i32> -> i32\n";
  text << "  %low, %high = tile.bounds %$x["
       << commas(rank, [](size_t i) { return "%e" + std::to_string(2 * i); }) << "] to ["
       << commas(rank, [](size_t i) { return "%e" + std::to_string(2 * i + 1); }) << "] within ["
       << commas(rank, [&](size_t i) { return std::to_string(of.within[i]); }) << "] : " << view
       << " -> " << element << "\n";
  for (const char *end : {"low", "high"})
    text << "  %" << end << "_bits = arith.bitcast %" << end << " : " << element << " to i32\n";
  text << R"(  %bytes = tile.map : () -> !tile.tile<[block_m, padded_v], f32> {
  ^body(%row: i32, %column: i32):
    %four = arith.constant 4 : i32
    %eight = arith.constant 8 : i32
    %all = arith.constant 255 : i32
    %is_low = arith.cmpi slt, %column, %four : i32
    %word = arith.select %is_low, %low_bits, %high_bits : i32
    %place = arith.remui %column, %four : i32
    %shift = arith.muli %place, %eight : i32
    %shifted = arith.shrui %word, %shift : i32
    %byte = arith.andi %shifted, %all : i32
    %y = arith.sitofp %byte : i32 to f32
    tile.yield %y : f32
  }
  %out = tile.convert %bytes : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
  tile.store %out, %o[%rows] : !tile.tile<[block_m, padded_v], input>, !queries[!tile.block<query, block_m>]
}
)";
  return text.str();
}

/// Compiles with `text` in place of templates/forward.mlir.
Result<Kernel> compileWith(const std::string &text, const Context &context,
                           const KernelOptions &options) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tesela_bounds_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "forward.mlir") << text;
  useTemplateFolder(folder.string());
  Result<Kernel> kernel = context.compile(options);
  useTemplateFolder("");
  std::filesystem::remove_all(folder);
  return kernel;
}

/// A kernel that reports the bounds of boxes.
class Prober {
public:
  Prober(const Context &context, const BoundsCase &of, ElementType type)
      : context(context), of(of), type(type), kernel(compile()) {}

  struct Bounds {
    int32_t low, high;
  };

  /// `boxes`: the low and the high end of each axis in turn.
  std::vector<Bounds> bounds(const Tensor &x, const std::vector<std::vector<int32_t>> &boxes,
                             bool capturesUnchanged = false) {
    if (!kernel.ok()) {
      ADD_FAILURE() << kernel.error().message();
      return std::vector<Bounds>(boxes.size());
    }
    constexpr int64_t d = 64;
    auto heads = int64_t(boxes.size());
    auto bf16 = [&](int64_t h) {
      return Tensor::contiguous(nullptr, ElementType::bf16, {1, h, 1, d});
    };
    TestTensor q(context, bf16(heads)), k(context, bf16(1)), v(context, bf16(1)),
        o(context, bf16(heads)),
        lse(context, Tensor::contiguous(nullptr, ElementType::f32, {1, heads, 1})),
        ends(context, Tensor::contiguous(nullptr, ElementType::i32,
                                         {heads, int64_t(2 * of.extents.size())}));
    auto *end = static_cast<int32_t *>(ends.host().data);
    for (const std::vector<int32_t> &box : boxes)
      end = std::copy(box.begin(), box.end(), end);
    EXPECT_TRUE(ends.upload().ok());
    EXPECT_TRUE(o.poison().ok());
    LaunchArguments arguments{.q = q.device(),
                              .k = k.device(),
                              .v = v.device(),
                              .o = o.device(),
                              .lse = lse.device(),
                              .scale = {},
                              .scalars = {},
                              .captures = {{"x", x}, {"boxes", ends.device()}},
                              .capturesUnchanged = capturesUnchanged};
    Status launched = kernel->launch(arguments);
    EXPECT_TRUE(launched.ok()) << (launched.ok() ? "" : launched.error().message());
    EXPECT_TRUE(o.download().ok());
    std::vector<Bounds> result;
    const auto *out = static_cast<const uint16_t *>(o.host().data);
    for (int64_t head = 0; head < heads; ++head) {
      uint32_t words[2] = {};
      for (int column = 0; column < 8; ++column) {
        float byte = std::bit_cast<float>(uint32_t(out[head * d + column]) << 16);
        words[column / 4] |= uint32_t(byte) << (8 * (column % 4));
      }
      result.push_back({int32_t(words[0]), int32_t(words[1])});
    }
    return result;
  }

private:
  Result<Kernel> compile() {
    KernelOptions options;
    std::string axes = commas(of.extents.size(), [](size_t i) { return "n" + std::to_string(i); });
    std::string zeros = commas(of.extents.size(), [](size_t) { return "b"; });
    options.variantText = "attention probe(x: " + std::string(elementTypeName(type)) + "[" + axes +
                          "], boxes: i32[m, e]) {\n  mask = x[" + zeros + "] == x[" + zeros +
                          "] && boxes[b, b] == boxes[b, b]\n}";
    options.inputType = ElementType::bf16;
    options.headDimQk = options.headDimV = 64;
    if (context.device().kind != Device::Kind::host)
      options.schedule = "consumers = 0, block_m = 64, block_n = 64, stages = 1, warps = 4, "
                         "reference = follow";
    return compileWith(probe(of, type), context, options);
  }

  const Context &context;
  const BoundsCase &of;
  ElementType type;
  Result<Kernel> kernel;
};

/// A number with the order of the type; NaN is separate.
double numberOf(int32_t bits, ElementType type) {
  return type == ElementType::f32 ? double(std::bit_cast<float>(bits)) : double(bits);
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  bool hasNaN = false;
};

/// The range over a box whose ends are clamped, then rounded outward to granules.
Range rangeOf(const Tensor &x, const std::vector<int32_t> &box, int64_t granule) {
  Range range;
  std::vector<int64_t> low, high, index;
  for (int axis = 0; axis < x.rank; ++axis) {
    int64_t last = x.extents[axis] - 1;
    if (last < 0)
      return {0, 0, false};
    auto floor = [&](int64_t i) { return std::clamp<int64_t>(i, 0, last) / granule * granule; };
    low.push_back(floor(box[2 * axis]));
    high.push_back(std::min(floor(box[2 * axis + 1]) + granule - 1, last));
  }
  const auto *data = static_cast<const int32_t *>(x.data);
  for (index = low;;) {
    int64_t offset = 0;
    for (int axis = 0; axis < x.rank; ++axis)
      offset += index[axis] * x.strides[axis];
    double number = numberOf(data[offset], x.type);
    range.hasNaN |= std::isnan(number);
    range.low = std::min(range.low, std::isnan(number) ? range.low : number);
    range.high = std::max(range.high, std::isnan(number) ? range.high : number);
    int axis = x.rank - 1;
    while (axis >= 0 && ++index[axis] > high[axis]) {
      index[axis] = low[axis];
      --axis;
    }
    if (axis < 0)
      return range;
  }
}

void fillElements(const Tensor &x, size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  const int32_t integers[] = {least, most, 0, -1};
  const float floats[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f};
  auto *data = static_cast<int32_t *>(x.data);
  for (size_t i = 0; i < count; ++i) {
    bool isSpecial =
        generator() % std::max<size_t>(512, count / 16) == 0; // so some boxes have none
    if (x.type == ElementType::i32)
      data[i] = isSpecial ? integers[generator() % 4] : int32_t(generator());
    else
      data[i] = std::bit_cast<int32_t>(isSpecial ? floats[generator() % 6]
                                                 : float(int32_t(generator())) * 0x1p-20f);
  }
}

std::vector<std::vector<int32_t>> randomBoxes(const BoundsCase &of, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::vector<int32_t>> boxes(48);
  for (std::vector<int32_t> &box : boxes)
    for (size_t axis = 0; axis < of.extents.size(); ++axis) {
      auto extent = int32_t(of.extents[axis]), within = int32_t(of.within[axis]);
      int32_t first = int32_t(generator() % uint32_t(extent + 40)) - 20;
      int32_t reach = within ? within : extent + 40;
      int32_t length = generator() % 3 ? int32_t(generator() % uint32_t(reach)) : reach - 1;
      if (generator() % 2) // as blocks have it
        first = first / 16 * 16;
      int32_t last = first + length;
      if (generator() % 16 == 0)
        first = last = generator() % 2 ? least : most;
      if (within == 0 && generator() % 8 == 0)
        first = least;
      if (within == 0 && generator() % 8 == 0)
        last = most;
      box.insert(box.end(), {first, last});
    }
  return boxes;
}

struct Point {
  std::string device;
  BoundsCase of;
  ElementType type;
};

std::string nameOf(const Point &point) {
  return std::string(point.of.name) + "_" + std::string(elementTypeName(point.type));
}
void PrintTo(const Point &point, std::ostream *stream) { *stream << nameOf(point); }

class Bounds : public testing::TestWithParam<Point> {};

TEST_P(Bounds, AreSoundAndTight) {
  const auto &[device, of, type] = GetParam();
  std::string reason;
  const Context *context = testContext(device, reason, /*verify=*/false);
  if (!context)
    GTEST_SKIP() << reason;
  Prober prober(*context, of, type);
  for (bool hasGaps : {false, true}) {
    Tensor view;
    view.type = type;
    view.rank = int(of.extents.size());
    int64_t stride = hasGaps ? 2 : 1;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      view.extents[axis] = of.extents[axis];
      view.strides[axis] = stride;
      stride = stride * std::max<int64_t>(of.extents[axis], 1) + (hasGaps ? 3 : 0);
    }
    TestTensor x(*context, view);
    fillElements(x.host(), view.spanBytes() / 4, 7);
    ASSERT_TRUE(x.upload().ok());
    std::vector<std::vector<int32_t>> boxes = randomBoxes(of, hasGaps);
    std::vector<Prober::Bounds> found = prober.bounds(x.device(), boxes);
    size_t numbers = 0;
    bool isUnbounded = of.within.size() == 3 && of.within[1] > 1;
    for (size_t i = 0; i < boxes.size(); ++i) {
      double low = numberOf(found[i].low, type), high = numberOf(found[i].high, type);
      Range box = rangeOf(x.host(), boxes[i], 1), around = rangeOf(x.host(), boxes[i], 512);
      EXPECT_EQ(std::isnan(low), std::isnan(high)) << i;
      EXPECT_TRUE(!box.hasNaN || std::isnan(low)) << i;
      if (std::isnan(low)) {
        EXPECT_TRUE(around.hasNaN || isUnbounded) << i;
        continue;
      }
      EXPECT_LE(low, box.low) << i;
      EXPECT_GE(high, box.high) << i;
      if (isUnbounded)
        continue;
      EXPECT_GE(low, around.low) << i;
      EXPECT_LE(high, around.high) << i;
      ++numbers;
    }
    EXPECT_TRUE(isUnbounded || numbers > boxes.size() / 8) << numbers;
  }
}

class KeptBounds : public testing::TestWithParam<Point> {};

TEST_P(KeptBounds, AreThoseOfTheLastLaunch) {
  const auto &[device, of, type] = GetParam();
  std::string reason;
  const Context *context = testContext(device, reason, /*verify=*/false);
  if (!context)
    GTEST_SKIP() << reason;
  Prober prober(*context, of, type);
  auto view = Tensor::contiguous(nullptr, type, {of.extents[0]});
  TestTensor x(*context, view), other(*context, view);
  std::vector<std::vector<int32_t>> boxes = {{0, 79}};
  auto fill = [&](TestTensor &tensor, float number) {
    for (int64_t i = 0; i < of.extents[0]; ++i)
      static_cast<int32_t *>(tensor.host().data)[i] = std::bit_cast<int32_t>(number);
    EXPECT_TRUE(tensor.upload().ok());
  };
  auto expect = [&](TestTensor &tensor, bool capturesUnchanged, float number) {
    Prober::Bounds found = prober.bounds(tensor.device(), boxes, capturesUnchanged).front();
    EXPECT_EQ(found.low, std::bit_cast<int32_t>(number));
    EXPECT_EQ(found.high, std::bit_cast<int32_t>(number));
  };
  fill(x, 1);
  fill(other, 2);
  expect(x, true, 1); // no launch before this one
  fill(x, 3);
  expect(x, true, 1);
  expect(x, false, 3);
  expect(x, true, 3);
  expect(other, true, 2); // another address, so new summaries
  expect(x, true, 3);
}

std::vector<Point> points(const std::string &device) {
  std::vector<Point> result;
  for (const BoundsCase &of : cases)
    for (ElementType type : {ElementType::i32, ElementType::f32})
      result.push_back({device, of, type});
  return result;
}

/// One point for each level of summaries.
std::vector<Point> keptPoints(const std::string &device) {
  return {{device, {"fine", {1035}, {80}}, ElementType::f32},
          {device, {"coarse", {20000}, {4096}}, ElementType::f32}};
}

std::string pointName(const testing::TestParamInfo<Point> &info) { return nameOf(info.param); }

INSTANTIATE_TEST_SUITE_P(Host, Bounds, testing::ValuesIn(points("host")), pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, Bounds, testing::ValuesIn(points("cuda")), pointName);

INSTANTIATE_TEST_SUITE_P(Host, KeptBounds, testing::ValuesIn(keptPoints("host")), pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, KeptBounds, testing::ValuesIn(keptPoints("cuda")), pointName);

} // namespace
