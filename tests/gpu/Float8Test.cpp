//===- Float8Test.cpp - Keys and values of 8 bits -------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// cache=e4m3 by the public API, compared with attention in double precision over the numbers that
// the bytes stand for, on the host, and on a GPU with mma.sync and with wgmma. Memory that must not
// be read is NaN: rows of pages after a sequence's end, pages of no sequence, and their scales.
//
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <unistd.h>

using namespace tesela;

namespace {

/// One for each kv head; not powers of two, so that wrong scales cannot look like exponents.
constexpr float keyScales[keyHeads] = {0.375f, 0.7f}, valueScales[keyHeads] = {3.0f, 0.6f};

/// Writes the bytes of its input, and the numbers that they stand for.
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

/// Writes the rows of pages next to each other.
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
  /// Fills `bytes` with random numbers and with all values below 2. Writes the numbers that they
  /// stand for to `meant`. Each batch or page has `scales` for its heads, or all have the first
  /// ones.
  void fill(Values &bytes, Values &meant, const std::vector<float> &scales, unsigned seed) {
    bytes.randomize(seed);
    std::vector<double> numbers = bytes.values;
    for (uint32_t byte = 0; byte < 0x100; ++byte) // values below 2, including subnormal ones
      if (std::abs(e4m3ToFloat(uint8_t(byte))) < 2)
        numbers[numbers.size() - 0x100 + byte] = e4m3ToFloat(uint8_t(byte));
    bytes.set(numbers);
    size_t ofHead = numbers.size() / bytes.batches / bytes.heads;
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = roundedTo(ElementType::e4m3, numbers[i]) * scales[i / ofHead % scales.size()];
    meant.set(numbers);
  }
  NamedTensor tensor(const char *name, ElementType type, const void *data,
                     const std::vector<int> &extents) {
    int count = 1;
    for (int extent : extents)
      count *= extent;
    Tensor view = addVector(type, data, count).device();
    view.rank = int(extents.size());
    int64_t stride = 1;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      view.extents[axis] = extents[axis];
      view.strides[axis] = stride;
      stride *= extents[axis];
    }
    return {name, view};
  }
  void expectLaunch(const Kernel &kernel, const LaunchArguments &arguments,
                    const std::vector<Sequence> &sequences, const Values &q, const Values &k,
                    const Values &v, Values &o, Values &lse) {
    test::GradientReference reference;
    std::vector<double> sums, baseSums;
    reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
    reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);
    ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
    launch(kernel, arguments);
    expectNear("o", o.type, o.download(), reference, /*rows=*/30);
    expectLse(lse.download(), sums);
  }
};

/// A thread block of one warp, which widens the elements in registers.
constexpr const char *oneWarp =
    "consumers = 0, block_m = 16, warps = 1, block_n = 32, stages = 3, q_in_registers = true";

struct Algorithm {
  std::string name;
  std::vector<std::string> bindings;
  std::optional<std::string> schedule; ///< replaces the schedule of the place
  bool isOfGpus() const { return schedule.has_value(); }
};
const Algorithm algorithms[] = {{"forward", {}, {}},
                                {"forward_in_parts", {"workers=48"}, {}},
                                {"forward_in_parts", {"workers=48"}, oneWarp}};

TEST_P(Float8, KeysAndValues) {
  for (Algorithm algorithm : algorithms) {
    if (algorithm.isOfGpus() && place.device == std::string("host"))
      continue;
    algorithm.bindings.push_back("cache=e4m3"); // scales=head
    std::optional<Kernel> kernel =
        compile(algorithm.name, variant.text, algorithm.bindings, algorithm.schedule);
    ASSERT_TRUE(kernel);
    constexpr int B = 2, H = queryHeads, Hkv = keyHeads;
    for (auto [Sq, Sk, ofAll] :
         {std::tuple(45, 201, false), std::tuple(201, 201, true), std::tuple(1, 64, false)}) {
      SCOPED_TRACE(testing::Message() << algorithm.name << " " << algorithm.schedule.value_or("")
                                      << ", " << Sq << " queries, " << Sk << " keys");
      Values q(*context, place.type, B, H, Sq, D), o(*context, place.type, B, H, Sq, D),
          lse(*context, ElementType::f32, B, H, Sq, 1),
          k(*context, ElementType::e4m3, B, Hkv, Sk, D, /*bshd=*/true),
          v(*context, ElementType::e4m3, B, Hkv, Sk, D),
          meantK(*context, ElementType::f32, B, Hkv, Sk, D),
          meantV(*context, ElementType::f32, B, Hkv, Sk, D);
      q.randomize(1);
      int scales = ofAll ? 1 : Hkv; // one for all heads, or one a head
      fill(k, meantK, {keyScales, keyScales + scales}, 2);
      fill(v, meantV, {valueScales, valueScales + scales}, 3);
      LaunchArguments arguments;
      arguments.q = q.memory.device(), arguments.k = k.memory.device();
      arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
      arguments.tensors = {tensor("k_scale", ElementType::f32, keyScales, {scales}),
                           tensor("v_scale", ElementType::f32, valueScales, {scales})};
      addCaptures(arguments, std::max(Sq, Sk));
      std::vector<Sequence> sequences;
      for (int b = 0; b < B; ++b) {
        auto place = [b](int row) { return RowPlace{b, row}; };
        sequences.push_back({Sq, Sk, 0, place, place});
      }
      expectLaunch(*kernel, arguments, sequences, q, meantK, meantV, o, lse);
    }
  }
}

TEST_P(Float8, Pages) {
  constexpr int B = 4, Sq = 5, H = queryHeads, Hkv = keyHeads, longest = 201;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int32_t> lengths = {longest, 0, 64, 37};
  for (auto [page, isByPage, index] : {std::tuple(16, true, 1),
                                       {64, true, 0},
                                       {64, false, 1},
                                       {48, true, 1},
                                       {64, false, 2},
                                       {16, true, 2},
                                       {48, false, 2}}) {
    auto [name, bindings, schedule] = algorithms[index];
    if (algorithms[index].isOfGpus() && place.device == std::string("host"))
      continue;
    SCOPED_TRACE(testing::Message()
                 << "pages of " << page << (isByPage ? ", scales of pages, " : ", ") << name << " "
                 << schedule.value_or(""));
    const int each = (longest + page - 1) / page, pages = B * each + 3;
    for (std::string binding :
         {std::string("keys=paged"), "page=" + std::to_string(page), std::string("positions=end"),
          std::string("cache=e4m3"), std::string(isByPage ? "scales=page" : "scales=head")})
      bindings.push_back(binding);
    std::optional<Kernel> kernel = compile(name, variant.text, bindings, schedule);
    ASSERT_TRUE(kernel);
    Values q(*context, place.type, B, H, Sq, D), o(*context, place.type, B, H, Sq, D),
        lse(*context, ElementType::f32, B, H, Sq, 1),
        k(*context, ElementType::e4m3, pages, Hkv, page, D, /*bshd=*/true),
        v(*context, ElementType::e4m3, pages, Hkv, page, D, /*bshd=*/true),
        meantK(*context, ElementType::f32, pages, Hkv, page, D),
        meantV(*context, ElementType::f32, pages, Hkv, page, D);
    q.randomize(1);
    std::vector<float> ofKeys(isByPage ? pages * Hkv : Hkv), ofValues(ofKeys.size());
    for (size_t i = 0; i < ofKeys.size(); ++i)
      ofKeys[i] = keyScales[i % Hkv] * (1 + i / Hkv % 5), ofValues[i] = 0.3f + i / Hkv % 7;
    fill(k, meantK, ofKeys, 2);
    fill(v, meantV, ofValues, 3);
    // Pages in another order; behind a sequence's end the table names none.
    std::vector<int32_t> table(size_t(B) * each, std::numeric_limits<int32_t>::max());
    std::vector<bool> isUsed(size_t(pages) * page, false);
    std::vector<Sequence> sequences;
    for (int b = 0; b < B; ++b) {
      for (int i = 0; i * page < lengths[b]; ++i)
        table[b * each + i] = (b * each + i) * 7 % pages;
      std::vector<int32_t> own(table.begin() + b * each, table.begin() + (b + 1) * each);
      auto key = [own, page = page](int row) { return RowPlace{own[row / page], row % page}; };
      for (int j = 0; j < lengths[b]; ++j)
        isUsed[size_t(key(j).batch) * page + key(j).row] = true;
      sequences.push_back({Sq, lengths[b], lengths[b] - Sq,
                           [b](int row) {
                             return RowPlace{b, row};
                           },
                           key});
    }
    for (Values *bytes : {&k, &v}) {
      std::vector<double> numbers = bytes->values;
      for (int p = 0; p < pages; ++p)
        for (int h = 0; h < Hkv; ++h)
          for (int row = 0; row < page; ++row)
            if (!isUsed[size_t(p) * page + row])
              std::fill_n(numbers.begin() + int64_t(bytes->at({p, row}, h)), D, double(nan));
      bytes->set(numbers);
    }
    for (int p = 0; isByPage && p < pages; ++p)
      if (!isUsed[size_t(p) * page])
        for (int h = 0; h < Hkv; ++h)
          ofKeys[p * Hkv + h] = ofValues[p * Hkv + h] = nan;
    const std::vector<int> extents =
        isByPage ? std::vector<int>{pages, Hkv} : std::vector<int>{Hkv};
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.tensors = {tensor("table", ElementType::i32, table.data(), {B, each}),
                         tensor("lengths", ElementType::i32, lengths.data(), {B}),
                         tensor("k_scale", ElementType::f32, ofKeys.data(), extents),
                         tensor("v_scale", ElementType::f32, ofValues.data(), extents)};
    arguments.extents = {{"Sk", longest}};
    addCaptures(arguments, longest);
    expectLaunch(*kernel, arguments, sequences, q, meantK, meantV, o, lse);
  }
}

// The value that has all bits: no number, on any chip.
TEST_P(Float8, NaNStaysOne) {
  if (variant.name != std::string("causal"))
    return; // once is enough
  constexpr int S = 40;
  Values q(*context, place.type, 1, queryHeads, S, D), o(*context, place.type, 1, queryHeads, S, D),
      k(*context, ElementType::e4m3, 1, keyHeads, S, D),
      v(*context, ElementType::e4m3, 1, keyHeads, S, D);
  q.randomize(1), k.randomize(2), v.randomize(3);
  std::vector<double> numbers = v.values;
  for (int h = 0; h < keyHeads; ++h)
    numbers[v.at({0, 20}, h) + 3] = numbers[v.at({0, 30}, h) + 16] = NAN;
  v.set(numbers);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device();
  arguments.tensors = {tensor("k_scale", ElementType::f32, keyScales, {1}),
                       tensor("v_scale", ElementType::f32, valueScales, {1})};
  for (const char *schedule : {place.schedule, oneWarp}) {
    if (schedule == oneWarp && place.device == std::string("host"))
      continue;
    SCOPED_TRACE(schedule);
    std::optional<Kernel> kernel = compile("forward", variant.text, {"cache=e4m3"}, schedule);
    ASSERT_TRUE(kernel);
    ASSERT_TRUE(o.memory.poison().ok());
    launch(*kernel, arguments);
    std::vector<float> out = o.download();
    for (int h = 0; h < queryHeads; ++h)
      for (int row = 30; row < S; ++row)
        for (int x = 0; x < D; ++x)
          ASSERT_EQ(std::isnan(out[o.at({0, row}, h) + x]), x == 3 || x == 16) << row << ", " << x;
  }
}

TEST_P(Float8, OtherTypesAreRefused) {
  std::optional<Kernel> kernel = compile("forward", variant.text, {"cache=e4m3"});
  ASSERT_TRUE(kernel);
  Values q(*context, place.type, 1, queryHeads, 64, D),
      o(*context, place.type, 1, queryHeads, 64, D), k(*context, place.type, 1, keyHeads, 64, D),
      v(*context, ElementType::e4m3, 1, keyHeads, 64, D);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device();
  addCaptures(arguments, 64);
  auto says = [&](const std::string &part) {
    Status status = kernel->launch(arguments);
    ASSERT_EQ(status.code(), Code::invalidArgument);
    EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
  };
  says("the tensor 'k_scale' is missing: pass it by name");
  arguments.tensors = {tensor("k_scale", ElementType::f32, keyScales, {keyHeads}),
                       tensor("v_scale", ElementType::f32, valueScales, {keyHeads})};
  says("e4m3");
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
