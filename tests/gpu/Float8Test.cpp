//===- Float8Test.cpp - Keys and values of 8 bits -------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/forward_e4m3.mlir by the public API, against attention in double precision over the
// numbers that the bytes stand for, on the host, and on a GPU with mma.sync and with wgmma.
//
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace tesela;

namespace {

constexpr float keyScale = 0.375f, valueScale = 3.0f;

/// Bytes of what is given, and what they stand for.
constexpr const char *quantize = R"(
tile.kernel @quantize<block_m, columns, input>(
    in %x: !tile.view<[B, H, Sq, columns], input>, out %bytes: !tile.view<[B, H, Sq, columns], f8E4M3FN>,
    out %values: !tile.view<[B, H, Sq, columns], input>) {
  %rows = tile.work : !tile.block<query, block_m>
  %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, columns], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, columns], input>
  %Y = tile.convert %X : !tile.tile<[block_m, columns], input> -> !tile.tile<[block_m, columns], f8E4M3FN>
  %Z = tile.convert %Y : !tile.tile<[block_m, columns], f8E4M3FN> -> !tile.tile<[block_m, columns], input>
  tile.store %Y, %bytes[%rows] : !tile.tile<[block_m, columns], f8E4M3FN>, !tile.view<[B, H, Sq, columns], f8E4M3FN>[!tile.block<query, block_m>]
  tile.store %Z, %values[%rows] : !tile.tile<[block_m, columns], input>, !tile.view<[B, H, Sq, columns], input>[!tile.block<query, block_m>]
}
)";

/// Rows of pages, side by side.
constexpr const char *unpage = R"(
tile.kernel @unpage<block_m, page, columns, input>(
    in %x: !tile.view<[?, H, page, columns], f8E4M3FN>, in %table: !tile.view<[B, ?], i32>,
    out %values: !tile.view<[B, H, Sq, columns], input>) {
  %rows = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %rows : !tile.block<query, block_m>
  %xs = tile.paged %x by %table[%batch] : !tile.view<[?, H, page, columns], f8E4M3FN>, !tile.view<[B, ?], i32> -> !tile.view<[B, H, Sq, columns], f8E4M3FN>
  %X = tile.load %xs[%rows] : !tile.view<[B, H, Sq, columns], f8E4M3FN>[!tile.block<query, block_m>] -> !tile.tile<[block_m, columns], f8E4M3FN>
  %Z = tile.convert %X : !tile.tile<[block_m, columns], f8E4M3FN> -> !tile.tile<[block_m, columns], input>
  tile.store %Z, %values[%rows] : !tile.tile<[block_m, columns], input>, !tile.view<[B, H, Sq, columns], input>[!tile.block<query, block_m>]
}
)";

class Float8 : public AlgorithmCase {
protected:
  /// A right operand that is computed has 16 rows for each of the warps.
  std::string schedule() const {
    std::string text = place.schedule;
    return text == "consumers = 2" ? text + ", block_n = 128" : text;
  }
  /// Where blocks of keys are found one by one, a load for a product tells the consumers of them.
  bool isRefused() const {
    return place.schedule == std::string("consumers = 2") &&
           variant.name == std::string("documents");
  }
  /// Random numbers for `bytes`, all of its values among them, and what they mean in `meant`.
  void fill(Values &bytes, Values &meant, float scale, unsigned seed) {
    bytes.randomize(seed);
    std::vector<double> numbers = bytes.values;
    for (uint32_t byte = 0; byte < 0x100; ++byte) // smaller than 2, subnormal ones too
      if (std::abs(e4m3ToFloat(uint8_t(byte))) < 2)
        numbers[numbers.size() - 0x100 + byte] = e4m3ToFloat(uint8_t(byte));
    bytes.set(numbers);
    for (double &number : numbers)
      number = roundedTo(ElementType::e4m3, number) * scale;
    meant.set(numbers);
  }
};

TEST_P(Float8, KeysAndValues) {
  if (isRefused()) {
    KernelOptions options;
    options.algorithm = "forward_e4m3";
    options.variantText = variant.text;
    options.headDimQk = options.headDimV = D;
    options.schedule = schedule();
    Result<Kernel> kernel = context->compile(options);
    ASSERT_FALSE(kernel.ok());
    EXPECT_NE(kernel.error().message().find("take consumers = 0"), std::string::npos)
        << kernel.error().message();
    return;
  }
  std::optional<Kernel> kernel = compile("forward_e4m3", variant.text, {}, schedule());
  ASSERT_TRUE(kernel);
  constexpr int B = 2, H = queryHeads, Hkv = keyHeads;
  for (auto [Sq, Sk] : {std::pair(45, 201), std::pair(201, 201), std::pair(1, 64)}) {
    SCOPED_TRACE(testing::Message() << Sq << " queries, " << Sk << " keys");
    Values q(*context, place.type, B, H, Sq, D), o(*context, place.type, B, H, Sq, D),
        lse(*context, ElementType::f32, B, H, Sq, 1),
        k(*context, ElementType::e4m3, B, Hkv, Sk, D, /*bshd=*/true),
        v(*context, ElementType::e4m3, B, Hkv, Sk, D),
        meantK(*context, ElementType::f32, B, Hkv, Sk, D),
        meantV(*context, ElementType::f32, B, Hkv, Sk, D);
    q.randomize(1);
    fill(k, meantK, keyScale, 2);
    fill(v, meantV, valueScale, 3);
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.scalars = {{"k_scale", keyScale}, {"v_scale", valueScale}};
    addCaptures(arguments, std::max(Sq, Sk));

    std::vector<Sequence> sequences;
    for (int b = 0; b < B; ++b) {
      auto place = [b](int row) { return RowPlace{b, row}; };
      sequences.push_back({Sq, Sk, 0, place, place});
    }
    test::GradientReference reference;
    std::vector<double> sums, baseSums;
    reference.exact = forward(sequences, q, meantK, meantV, /*base=*/false, sums, &reference.sizes);
    reference.base = forward(sequences, q, meantK, meantV, /*base=*/true, baseSums);
    ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
    launch(*kernel, arguments);
    expectNear("o", o.type, o.download(), reference, /*rows=*/30);
    expectLse(lse.download(), sums);
  }
}

TEST_P(Float8, OtherTypesAreRefused) {
  if (isRefused())
    return; // there is no kernel
  std::optional<Kernel> kernel = compile("forward_e4m3", variant.text, {}, schedule());
  ASSERT_TRUE(kernel);
  Values q(*context, place.type, 1, queryHeads, 64, D),
      o(*context, place.type, 1, queryHeads, 64, D), k(*context, place.type, 1, keyHeads, 64, D),
      v(*context, ElementType::e4m3, 1, keyHeads, 64, D);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device();
  arguments.scalars = {{"k_scale", keyScale}, {"v_scale", valueScale}};
  addCaptures(arguments, 64);
  Status status = kernel->launch(arguments);
  ASSERT_EQ(status.code(), Code::invalidArgument);
  EXPECT_NE(status.error().message().find("e4m3"), std::string::npos) << status.error().message();
}

class Float8Results : public AlgorithmCase {
protected:
  /// The template `name`, whose text is given.
  Result<Kernel> compileText(const std::string &name, const char *text,
                             const std::vector<std::string> &bindings);
};

Result<Kernel> Float8Results::compileText(const std::string &name, const char *text,
                                          const std::vector<std::string> &bindings) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tesela_float8_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / (name + ".mlir")) << text;
  useTemplateFolder(folder.string());
  KernelOptions options;
  options.algorithm = name;
  options.bindings = bindings;
  options.inputType = place.type;
  options.schedule = place.schedule;
  Result<Kernel> kernel = context->compile(options);
  useTemplateFolder("");
  std::filesystem::remove_all(folder);
  return kernel;
}

TEST_P(Float8Results, HaveTheBitsOfTheConversion) {
  Result<Kernel> kernel = compileText("quantize", quantize, {"columns=64"});
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();

  constexpr int rows = 67, columns = 64;
  Values x(*context, place.type, 2, 2, rows, columns),
      values(*context, place.type, 2, 2, rows, columns),
      bytes(*context, ElementType::e4m3, 2, 2, rows, columns, /*bshd=*/true);
  x.randomize(1);
  std::vector<double> numbers = x.values;
  double exponent = -12; // from less than the smallest number to more than the largest
  for (double &number : numbers)
    number *= std::exp2(exponent = exponent > 10 ? -12 : exponent + 0.37);
  const double edges[] = {0.0,     -0.0,     448,    -448,     464,      465,       1e4, 0x1p-9,
                          0x1p-10, 0x1.8p-9, 0x1p-6, 0x1.fp-7, HUGE_VAL, -HUGE_VAL, NAN};
  std::copy(std::begin(edges), std::end(edges), numbers.begin());
  x.set(numbers);
  LaunchArguments arguments;
  arguments.tensors = {{"x", x.memory.device()},
                       {"bytes", bytes.memory.device()},
                       {"values", values.memory.device()}};
  ASSERT_TRUE(bytes.memory.poison().ok() && values.memory.poison().ok());
  launch(*kernel, arguments);
  std::vector<float> outBytes = bytes.download(), outValues = values.download();
  for (size_t i = 0; i < numbers.size(); ++i) {
    float expected = roundTo(ElementType::e4m3, float(x.values[i]));
    SCOPED_TRACE(testing::Message() << "element " << i << ", " << x.values[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(outBytes[i]) && std::isnan(outValues[i]));
      continue;
    }
    ASSERT_EQ(outBytes[i], expected);
    ASSERT_EQ(outValues[i], expected);
    ASSERT_EQ(std::signbit(outBytes[i]), std::signbit(expected));
  }
}

TEST_P(Float8Results, ComeFromPages) {
  constexpr int B = 2, pagesOfBatch = 9, columns = 48;
  for (int page : {16, 48}) {
    SCOPED_TRACE(testing::Message() << "pages of " << page);
    Result<Kernel> kernel =
        compileText("unpage", unpage, {"columns=48", "page=" + std::to_string(page)});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    const int rows = pagesOfBatch * page - 5, pages = B * pagesOfBatch + 1;
    Values x(*context, ElementType::e4m3, pages, 2, page, columns, /*bshd=*/true),
        values(*context, place.type, B, 2, rows, columns);
    x.randomize(1);
    std::vector<int32_t> table;
    for (int i = 0; i < B * pagesOfBatch; ++i)
      table.push_back((i * 7 + 3) % pages);
    TestTensor &memory = addVector(ElementType::i32, table.data(), int(table.size()));
    Tensor lines = memory.device();
    lines.rank = 2;
    lines.extents = {B, pagesOfBatch};
    lines.strides = {pagesOfBatch, 1};
    LaunchArguments arguments;
    arguments.tensors = {
        {"x", x.memory.device()}, {"table", lines}, {"values", values.memory.device()}};
    ASSERT_TRUE(values.memory.poison().ok());
    launch(*kernel, arguments);
    std::vector<float> out = values.download();
    for (int b = 0; b < B; ++b)
      for (int head = 0; head < 2; ++head)
        for (int row = 0; row < rows; ++row)
          for (int column = 0; column < columns; ++column) {
            RowPlace at{table[b * pagesOfBatch + row / page], row % page};
            ASSERT_EQ(out[values.at({b, row}, head) + column], x.values[x.at(at, head) + column])
                << "batch " << b << ", head " << head << ", row " << row;
          }
  }
}

constexpr int causalToSoftcap[] = {1, 2, 3, 4, 5};

INSTANTIATE_TEST_SUITE_P(Host, Float8,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::ValuesIn(causalToSoftcap)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Float8,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::ValuesIn(causalToSoftcap)),
                         nameOfCase);

INSTANTIATE_TEST_SUITE_P(Host, Float8Results,
                         testing::Combine(testing::ValuesIn(hostPlaces), testing::Values(0)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Float8Results,
                         testing::Combine(testing::Values(gpuPlaces[0], gpuPlaces[1]),
                                          testing::Values(0)),
                         nameOfCase);

} // namespace
