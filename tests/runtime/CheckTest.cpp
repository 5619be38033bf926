//===- CheckTest.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Problem.h"
#include "check/Elements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numbers>

using namespace tesela;

namespace {

Tensor vectorTensor(std::vector<float> &values, std::initializer_list<int64_t> extents) {
  values.assign(values.empty() ? 0 : values.size(), 0);
  Tensor tensor = Tensor::contiguous(nullptr, ElementType::f32, extents);
  values.resize(size_t(tensor.elementCount()));
  tensor.data = values.data();
  return tensor;
}

TEST(Random, NumbersAreNormalAndFixed) {
  std::vector<float> values;
  Tensor tensor = vectorTensor(values, {100000});
  fillNormal(tensor, 7);
  double sum = 0, squares = 0, fourths = 0;
  for (float value : values) {
    sum += value;
    squares += double(value) * value;
    fourths += std::pow(double(value), 4);
  }
  EXPECT_NEAR(sum / 100000, 0, 0.02);
  EXPECT_NEAR(squares / 100000, 1, 0.02);
  EXPECT_NEAR(fourths / 100000, 3, 0.1);
  std::vector<float> again;
  fillNormal(vectorTensor(again, {100000}), 7);
  EXPECT_EQ(values, again);
  std::vector<float> other;
  fillNormal(vectorTensor(other, {100000}), 8);
  EXPECT_NE(values, other);
}

TEST(Random, TheLayoutDoesNotMatter) {
  std::vector<float> first(2 * 3 * 5 * 7), second(2 * 3 * 5 * 7);
  Tensor bhsd = Tensor::bhsd(first.data(), ElementType::f32, 2, 3, 5, 7);
  Tensor bshd = Tensor::bshd(second.data(), ElementType::f32, 2, 3, 5, 7);
  fillNormal(bhsd, 1);
  fillNormal(bshd, 1);
  for (int64_t i = 0; i < bhsd.elementCount(); ++i)
    ASSERT_EQ(first[elementOffset(bhsd, i)], second[elementOffset(bshd, i)]);
  EXPECT_NE(first, second);
}

// Many numbers are made on all cores and in vectors, with the same bits as few numbers.
TEST(Random, ManyNumbersAreThoseOfFew) {
  constexpr int64_t many = int64_t(1) << 20;
  std::vector<float> values;
  fillNormal(vectorTensor(values, {many}), 7);
  EXPECT_EQ(values[0], 0x1.12f0e2p+0f);
  EXPECT_EQ(values[many / 2], 0x1.37041ep-1f);
  uint64_t digest = 0;
  for (float value : values)
    digest = digest * 1099511628211u + std::bit_cast<uint32_t>(value);
  EXPECT_EQ(digest, 0x9be2b0e627497486u);

  constexpr int64_t B = 2, H = 3, S = 1001, D = 128;
  std::vector<uint16_t> first(B * H * S * D), second(first.size());
  Tensor bhsd = Tensor::bhsd(first.data(), ElementType::bf16, B, H, S, D);
  Tensor bshd = Tensor::bshd(second.data(), ElementType::bf16, B, H, S, D);
  std::vector<float> plain;
  fillNormal(vectorTensor(plain, {B * H * S * D}), 3);
  fillNormal(bhsd, 3);
  fillNormal(bshd, 3);
  for (int64_t i = 0; i < bhsd.elementCount(); ++i) {
    ASSERT_EQ(first[size_t(i)], floatToBf16(plain[size_t(i)]));
    ASSERT_EQ(second[size_t(elementOffset(bshd, i))], first[size_t(i)]);
  }

  std::vector<uint8_t> flags(many), few(1000);
  fillUniform(Tensor::contiguous(flags.data(), ElementType::boolean, {many}), 5, 0, 1);
  fillUniform(Tensor::contiguous(few.data(), ElementType::boolean, {1000}), 5, 0, 1);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), flags.begin()));
  EXPECT_NEAR(double(std::ranges::count(flags, 1)) / many, 0.5, 0.01);

  // An element that several indices share has the number of the last one.
  Tensor shared = Tensor::contiguous(plain.data(), ElementType::f32, {4, many / 4});
  shared.strides[0] = 0;
  fillNormal(shared, 7);
  EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + many / 4, values.begin() + many / 4 * 3));
}

TEST(Random, WholeNumbersStayWithinTheirEnds) {
  std::vector<int32_t> values(1000);
  fillUniform(Tensor::contiguous(values.data(), ElementType::i32, {1000}), 3, -2, 2);
  auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_EQ(*least, -2);
  EXPECT_EQ(*most, 2);
}

/// Random inputs of a kind, and their scores in base 2.
class InputsTest : public testing::TestWithParam<const char *> {
protected:
  static constexpr int64_t rows = 8, keys = 400, headDim = 64;
  std::vector<float> storage[3]; // large enough for every type
  Tensor q, k, v;

  void fill(InputKind kind) {
    Tensor *tensors[] = {&q, &k, &v};
    for (int i = 0; i < 3; ++i) {
      *tensors[i] =
          Tensor::bshd(nullptr, *parseElementType(GetParam()), 1, 2, i == 0 ? rows : keys, headDim);
      storage[i].assign(tensors[i]->elementCount(), 0);
      tensors[i]->data = storage[i].data();
    }
    fillInputs(kind, q, k, v, 5);
  }
  float at(const Tensor &tensor, int64_t s, int64_t d) const {
    return loadFloat(tensor.data, tensor.type, tensor.strides[1] + s * tensor.strides[2] + d);
  }
  /// The score in head 1.
  double score(int64_t row, int64_t key) const {
    double sum = 0;
    for (int64_t d = 0; d < headDim; ++d)
      sum += double(at(q, row, d)) * at(k, key, d);
    return sum / std::sqrt(double(headDim)) / std::numbers::ln2;
  }
  /// The largest score of the 50 keys from 50 * `group` on.
  double maximum(int64_t row, int64_t group) const {
    double largest = -HUGE_VAL;
    for (int64_t key = 50 * group; key < 50 * (group + 1); ++key)
      largest = std::max(largest, score(row, key));
    return largest;
  }
};

TEST_P(InputsTest, NormalInputsAreThoseOfFillNormal) {
  fill(InputKind::normal);
  std::vector<float> expected(v.elementCount());
  Tensor same = v.at(expected.data());
  fillNormal(same, 8);
  EXPECT_EQ(storage[2], expected);
}

TEST_P(InputsTest, EveryKindIsFiniteAndItsOwn) {
  std::vector<std::vector<float>> seen;
  for (InputKind kind : inputKinds()) {
    SCOPED_TRACE(inputKindName(kind));
    EXPECT_EQ(parseInputKind(inputKindName(kind)), kind);
    fill(kind);
    for (const Tensor &tensor : {q, k, v})
      for (int64_t i = 0; i < tensor.elementCount(); ++i)
        ASSERT_TRUE(std::isfinite(loadFloat(tensor.data, tensor.type, i)));
    // A score must fit into f16, because base is rounded to that.
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t key = 0; key < keys; ++key)
        ASSERT_LT(std::fabs(score(row, key)), 1000);
    std::vector<float> numbers = storage[0];
    numbers.insert(numbers.end(), storage[1].begin(), storage[1].end());
    EXPECT_EQ(std::find(seen.begin(), seen.end(), numbers), seen.end());
    seen.push_back(numbers);
  }
  EXPECT_EQ(seen.size(), 8);
  EXPECT_EQ(parseInputKind("hard"), std::nullopt);
}

TEST_P(InputsTest, RampsRiseAndFall) {
  fill(InputKind::rising);
  for (int64_t group = 1; group < keys / 50; ++group)
    EXPECT_GT(maximum(3, group), maximum(3, group - 1) + 3);
  fill(InputKind::falling);
  for (int64_t group = 1; group < keys / 50; ++group)
    EXPECT_LT(maximum(3, group), maximum(3, group - 1) - 3);
  fill(InputKind::creeping);
  EXPECT_NEAR(maximum(3, 7) - maximum(3, 0), 7 * 50 * 3 / 64.0, 4);
}

TEST_P(InputsTest, JumpsGoUpInOneRowAndDownInTheNext) {
  fill(InputKind::jumping);
  for (int64_t group = 1; group < keys / 50; ++group) {
    double up = maximum(0, group) - maximum(0, group - 1);
    double down = maximum(1, group) - maximum(1, group - 1);
    EXPECT_GT(std::fabs(up), 140);
    EXPECT_LT(up * down, 0);
  }
}

TEST_P(InputsTest, FarScoresAreFarFromZero) {
  fill(InputKind::far);
  for (int64_t key = 0; key < keys; ++key) {
    EXPECT_LT(score(4, key), -200);
    EXPECT_GT(score(5, key), 200);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, InputsTest, testing::Values("f32", "f16", "bf16"));

/// A small attention by its definition, in double precision.
void plainAttention(const Problem &problem, int64_t h, int64_t q, double window, double *o,
                    double &lse) {
  int64_t hkv = h / (problem.H / problem.Hkv);
  double sum = 0;
  std::fill_n(o, problem.D, 0);
  for (int64_t k = 0; k < problem.Sk; ++k) {
    if (k > q || q - k >= window)
      continue;
    double s = 0;
    for (int64_t d = 0; d < problem.D; ++d)
      s += double(problem.q[(h * problem.Sq + q) * problem.D + d]) *
           problem.k[(hkv * problem.Sk + k) * problem.D + d];
    double p = std::exp(s * double(float(1 / std::sqrt(double(problem.D)))) +
                        double(problem.slope[h]) * double(k - q));
    sum += p;
    for (int64_t d = 0; d < problem.D; ++d)
      o[d] += p * problem.v[(hkv * problem.Sk + k) * problem.D + d];
  }
  for (int64_t d = 0; d < problem.D; ++d)
    o[d] = sum ? o[d] / sum : 0;
  lse = std::log(sum);
}

TEST(HostReference, AgreesWithTheDefinition) {
  Problem problem;
  problem.fill();
  problem.arguments.scalars = {{"window", 9}};
  Result<Reference> reference = hostReference(problem.options(), problem.arguments, 2);
  ASSERT_TRUE(reference.ok()) << reference.error().message();
  std::vector<double> o(problem.D);
  int64_t kept = 0;
  for (int64_t h = 0; h < problem.H; ++h)
    for (int64_t q = 0; q < problem.Sq; ++q) {
      double lse = 0;
      plainAttention(problem, h, q, 9, o.data(), lse);
      int64_t row = h * problem.Sq + q;
      EXPECT_NEAR(reference->lse[row], lse, 1e-12);
      for (int64_t d = 0; d < problem.D; ++d) {
        EXPECT_NEAR(reference->ref[row * problem.D + d], o[d], 1e-12);
        EXPECT_NEAR(reference->base[row * problem.D + d], o[d], 1e-5);
        EXPECT_GE(reference->magnitude[row * problem.D + d], std::fabs(o[d]) - 1e-12);
      }
      kept += std::min<int64_t>(q + 1, 9);
    }
  EXPECT_EQ(reference->keptPairs, kept);
  EXPECT_FALSE(reference->scoreUsesTanh);
  EXPECT_GT(reference->maxScore, 0);
}

/// The reference of a variant on a single row with three keys, all s equal to 0.
Result<Reference> threeKeys(const char *expressions) {
  Problem problem;
  problem.H = problem.Hkv = problem.Sq = 1;
  problem.Sk = 3;
  problem.fill();
  std::fill(problem.q.begin(), problem.q.end(), 0.0f);
  KernelOptions options = problem.options();
  options.variantText = std::string("attention test() {\n") + expressions + "\n}";
  problem.arguments.captures.clear();
  Result<Reference> reference = hostReference(options, problem.arguments, 1);
  EXPECT_TRUE(reference.ok()) << (reference ? "" : reference.error().message());
  return reference;
}

TEST(HostReference, AKeptMinusInfinityIsTheSameAsMasked) {
  Result<Reference> masked = threeKeys("mask = k != 1");
  Result<Reference> infinite = threeKeys("score = k == 1 ? -inf : s");
  EXPECT_EQ(masked->ref, infinite->ref);
  EXPECT_EQ(masked->lse, infinite->lse);
  EXPECT_NEAR(masked->lse[0], std::log(2.0), 1e-15);
}

TEST(HostReference, ASinkIsATermOfTheDenominator) {
  Result<Reference> without = threeKeys("mask = k != 1"),
                    with = threeKeys("mask = k != 1\n sink = 1.5");
  EXPECT_NEAR(with->lse[0], std::log(2.0 + std::exp(1.5)), 1e-15);
  double share = 2.0 / (2.0 + std::exp(1.5));
  for (size_t d = 0; d < with->ref.size(); ++d) {
    EXPECT_NEAR(with->ref[d], without->ref[d] * share, 1e-15);
    EXPECT_NEAR(with->base[d], without->base[d] * share, 1e-6);
  }
  Result<Reference> none = threeKeys("mask = k != 1\n sink = -inf");
  EXPECT_EQ(none->ref, without->ref);
  EXPECT_EQ(none->lse, without->lse);
}

TEST(HostReference, ARowWithoutKeysHasItsSink) {
  Result<Reference> reference = threeKeys("mask = false\n sink = 2.5");
  EXPECT_EQ(reference->ref[0], 0);
  EXPECT_EQ(reference->base[0], 0);
  EXPECT_EQ(reference->lse[0], 2.5);
  for (const char *text : {"mask = false\n sink = inf", "sink = inf - inf"})
    EXPECT_TRUE(std::isnan(threeKeys(text)->lse[0])) << text;
}

TEST(HostReference, AMaskedNaNIsDropped) {
  Result<Reference> reference = threeKeys("mask = k != 1\nscore = k == 1 ? inf - inf : s");
  EXPECT_NEAR(reference->lse[0], std::log(2.0), 1e-15);
}

TEST(HostReference, AKeptNaNOrInfinityMakesTheRowNaN) {
  for (const char *score : {"score = k == 1 ? inf : s", "score = k == 1 ? inf - inf : s"}) {
    Result<Reference> reference = threeKeys(score);
    EXPECT_TRUE(std::isnan(reference->ref[0]));
    EXPECT_TRUE(std::isnan(reference->base[0]));
    EXPECT_TRUE(std::isnan(reference->lse[0]));
  }
}

TEST(HostReference, ARowWithoutKeysIsZero) {
  for (const char *text : {"mask = k > 5", "score = -inf"}) {
    Result<Reference> reference = threeKeys(text);
    EXPECT_EQ(reference->ref[0], 0);
    EXPECT_EQ(reference->base[0], 0);
    EXPECT_EQ(reference->lse[0], -HUGE_VAL);
  }
}

TEST(HostReference, BaseRoundsToTheInputsType) {
  Problem problem;
  problem.fill();
  std::vector<uint16_t> q(problem.q.size()), k(problem.k.size()), v(problem.v.size());
  LaunchArguments arguments = problem.arguments;
  auto convert = [](Tensor &tensor, std::vector<uint16_t> &to) {
    tensor.type = ElementType::bf16;
    tensor.data = to.data();
    fillNormal(tensor, to.size());
  };
  convert(arguments.q, q);
  convert(arguments.k, k);
  convert(arguments.v, v);
  KernelOptions options = problem.options();
  options.inputType = ElementType::bf16;
  Result<Reference> reference = hostReference(options, arguments, 2);
  ASSERT_TRUE(reference.ok());
  double difference = 0;
  for (size_t i = 0; i < reference->ref.size(); ++i)
    difference = std::max(difference, std::fabs(reference->ref[i] - reference->base[i]));
  EXPECT_GT(difference, 1e-4); // about 2^-9
  EXPECT_LT(difference, 5e-2);
}

TEST(HostReference, ArgumentsAreChecked) {
  Problem problem;
  problem.fill();
  problem.arguments.k.extents[0] = 2;
  EXPECT_EQ(hostReference(problem.options(), problem.arguments).code(), Code::invalidArgument);
}

TEST(HostReference, OptionsAreChecked) {
  Problem problem;
  problem.fill();
  KernelOptions options = problem.options();
  options.inputType = ElementType::boolean; // its elements are smaller than a float
  for (Tensor *tensor : {&problem.arguments.q, &problem.arguments.k, &problem.arguments.v})
    tensor->type = options.inputType;
  EXPECT_EQ(hostReference(options, problem.arguments).code(), Code::invalidArgument);
  EXPECT_EQ(checkReads(options, problem.arguments).code(), Code::invalidArgument);
  options = problem.options();
  EXPECT_EQ(hostReference(options, problem.arguments, -1).code(), Code::invalidArgument);
  EXPECT_EQ(checkReads(options, problem.arguments, 5000).code(), Code::invalidArgument);
}

TEST(Inputs, OfNoElements) {
  Tensor none = Tensor::contiguous(nullptr, ElementType::f32, {2, 4, 8, 0});
  for (InputKind kind : inputKinds())
    fillInputs(kind, none, none, none, 1);
}

TEST(HostReference, WhatDoesNotFitIntoMemoryIsAnError) {
  Problem problem;
  problem.B = problem.H = problem.Hkv = problem.Sq = problem.Sk = 1;
  problem.fill();
  // One row, with strides of 0.
  for (Tensor *tensor : {&problem.arguments.q, &problem.arguments.k, &problem.arguments.v}) {
    tensor->extents[0] = int64_t(1) << 30;
    tensor->strides[0] = 0;
  }
  problem.arguments.q.extents[2] = 1 << 20;
  problem.arguments.q.strides[2] = 0;
  EXPECT_EQ(hostReference(problem.options(), problem.arguments).code(), Code::outOfMemory);
}

class CompareTest : public testing::Test {
protected:
  Problem problem;
  Reference reference = makeReference();
  std::vector<float> o{reference.ref.begin(), reference.ref.end()};
  std::vector<float> lse{reference.lse.begin(), reference.lse.end()};

  Reference makeReference() {
    problem.fill();
    problem.arguments.scalars = {{"window", 9}};
    Result<Reference> made = hostReference(problem.options(), problem.arguments, 2);
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
  Comparison result() {
    Result<Comparison> compared =
        compare(reference, problem.arguments.o.at(o.data()), problem.arguments.lse.at(lse.data()));
    EXPECT_TRUE(compared.ok());
    return *compared;
  }
};

TEST_F(CompareTest, TheReferenceRoundedPasses) {
  Comparison same = result();
  EXPECT_TRUE(same.passed) << same.failure;
  EXPECT_GT(same.tolerance, same.maxError);
  EXPECT_LT(same.tolerance, 1e-4);
}

TEST_F(CompareTest, AnErrorIsFoundWhereItIs) {
  size_t at = (2 * problem.Sq + 17) * problem.D + 5;
  o[at] += 2 * float(result().tolerance);
  Comparison wrong = result();
  EXPECT_FALSE(wrong.passed);
  EXPECT_EQ(wrong.worst, (std::array<int64_t, 4>{0, 2, 17, 5}));
  EXPECT_NE(wrong.failure.find("b 0, h 2, q 17, d 5"), std::string::npos);
}

TEST(Compare, ARowThatIsWrongBelowTheElementsToleranceIsFound) {
  // Two rows of 16 elements: one with few keys and large values, and one with many keys.
  constexpr int64_t D = 16;
  Reference reference;
  reference.B = reference.H = 1;
  reference.Sq = 2;
  reference.Dv = D;
  reference.ref.assign(2 * D, 1);
  std::fill_n(reference.ref.begin() + D, D, 0x1p-6);
  reference.base = reference.ref;
  reference.magnitude.assign(2 * D, 1);
  reference.termNorm = {4, 0x1p-4};
  reference.lse = {0, 0};
  std::vector<uint16_t> o(2 * D);
  std::vector<float> lse(2);
  std::ranges::transform(reference.ref, o.begin(), [](double x) { return floatToBf16(float(x)); });
  auto result = [&] {
    Result<Comparison> compared =
        compare(reference, Tensor::bhsd(o.data(), ElementType::bf16, 1, 1, 2, D),
                Tensor::contiguous(lse.data(), ElementType::f32, {1, 1, 2}));
    EXPECT_TRUE(compared.ok());
    return *compared;
  };
  EXPECT_TRUE(result().passed) << result().failure;
  std::fill_n(o.begin() + D, D, floatToBf16(0x1p-7f));
  Comparison wrong = result();
  EXPECT_LT(wrong.maxError, wrong.tolerance);
  EXPECT_FALSE(wrong.passed);
  EXPECT_EQ(wrong.worstRow, (std::array<int64_t, 3>{0, 0, 1}));
  EXPECT_GT(wrong.rowError, wrong.rowTolerance);
  EXPECT_NE(wrong.failure.find("row b 0, h 0, q 1"), std::string::npos) << wrong.failure;
}

TEST_F(CompareTest, AWrongLseFails) {
  lse[problem.Sq + 3] += 2e-3f;
  Comparison wrong = result();
  EXPECT_FALSE(wrong.passed);
  EXPECT_EQ(wrong.worstLse, (std::array<int64_t, 3>{0, 1, 3}));
  EXPECT_NEAR(wrong.maxLseError, 2e-3, 1e-5);
}

TEST_F(CompareTest, NaNsAreCounted) {
  o[3] = NAN;
  lse[0] = NAN;
  Comparison wrong = result();
  EXPECT_FALSE(wrong.passed);
  EXPECT_EQ(wrong.nanCount, 2);
}

TEST_F(CompareTest, RowsWithoutKeysAreExact) {
  reference.lse[5] = -HUGE_VAL;
  for (int64_t d = 0; d < problem.D; ++d)
    reference.ref[5 * problem.D + d] = reference.base[5 * problem.D + d] = o[5 * problem.D + d] = 0;
  lse[5] = -HUGE_VALF;
  EXPECT_TRUE(result().passed);
  o[5 * problem.D] = 1e-30f;
  EXPECT_FALSE(result().passed);
  o[5 * problem.D] = 0;
  lse[5] = -1e30f;
  EXPECT_FALSE(result().passed);
}

TEST_F(CompareTest, AnInfiniteLseWhereNoneIsDueFails) {
  lse[5] = -HUGE_VALF;
  EXPECT_FALSE(result().passed);
}

TEST_F(CompareTest, RowsThatMustBeNaN) {
  double tolerance = result().tolerance;
  size_t first = 5 * problem.D;
  reference.lse[5] = NAN;
  for (int64_t d = 0; d < problem.D; ++d)
    reference.ref[first + d] = reference.base[first + d] = reference.magnitude[first + d] =
        o[first + d] = NAN;
  lse[5] = NAN;
  Comparison same = result();
  EXPECT_TRUE(same.passed) << same.failure;
  EXPECT_EQ(same.nanRows, 1);
  EXPECT_EQ(same.nanCount, 0);
  EXPECT_NEAR(same.tolerance, tolerance, tolerance);
  o[first + 3] = 0;
  EXPECT_NE(result().failure.find("o is 0 at b 0, h 0, q 5, d 3"), std::string::npos);
  o[first + 3] = NAN;
  lse[5] = 0;
  EXPECT_NE(result().failure.find("lse is 0 at b 0, h 0, q 5"), std::string::npos);
}

TEST_F(CompareTest, NothingIsHeldAgainstAReferenceThatIsNotFinite) {
  auto expectNoTolerance = [&](const char *sentence) {
    Comparison untold = result();
    EXPECT_FALSE(untold.passed);
    EXPECT_TRUE(std::isnan(untold.tolerance));
    EXPECT_NE(untold.failure.find(sentence), std::string::npos) << untold.failure;
  };
  reference.base[0] = NAN;
  expectNoTolerance("a score exceeds");
  reference.ref[0] = NAN;
  expectNoTolerance("a kept key's v");
  reference.ref[0] = HUGE_VAL;
  expectNoTolerance("a kept key's v");
}

TEST_F(CompareTest, TheToleranceFollowsTheRule) {
  // One element: base off by 0.01, magnitude 2; u = 2^-8 in bf16.
  Reference one;
  one.B = one.H = one.Sq = one.Dv = 1;
  one.type = ElementType::bf16;
  one.ref = {0.5};
  one.base = {0.51};
  one.magnitude = {2};
  one.lse = {0};
  one.termNorm = {1.5};
  uint16_t output = floatToBf16(0.5f);
  float zero = 0;
  auto compared = [&] {
    Result<Comparison> compared = compare(one, Tensor::bhsd(&output, ElementType::bf16, 1, 1, 1, 1),
                                          Tensor::contiguous(&zero, ElementType::f32, {1, 1, 1}));
    EXPECT_TRUE(compared.ok() && compared->passed);
    return *compared;
  };
  auto tolerance = [&] { return compared().tolerance; };
  auto rowTolerance = [&] { return compared().rowTolerance; };
  // 0.5 + 0.3 is 0.80078125 in bf16, less 0.3 it is 0.5.
  EXPECT_NEAR(tolerance(), 2 * 0.01 + 4 * 0x1p-8 * 2, 1e-9);
  EXPECT_NEAR(rowTolerance(), 2 * 0.01 + 2 * 0x1p-8 * 0.5 + 4 * 0x1p-8 * 1.5 + 0x1p-20 * 2, 1e-9);
  one.scoreUsesTanh = true;
  one.maxScore = 30;
  EXPECT_NEAR(tolerance(), 3 * 0.01 + 4 * 0x1p-8 * 2, 1e-9);
  EXPECT_NEAR(rowTolerance(),
              3 * 0.01 + 2 * 0x1p-8 * 0.5 + (4 * 0x1p-8 + 0x1p-11 * 30) * 1.5 + 0x1p-20 * 2, 1e-9);
  one.base = {1.5};
  EXPECT_NEAR(tolerance(), 8 * 0x1p-8 * 2, 1e-9);
}

TEST_F(CompareTest, SubnormalResultsMayBeRounded) {
  Reference one;
  one.B = one.H = one.Sq = one.Dv = 1;
  one.type = ElementType::f16;
  one.ref = {0x1p-25}; // between 0 and the smallest positive number
  one.base = {0x1p-25};
  one.magnitude = {0x1p-25};
  one.lse = {0};
  one.termNorm = {0x1p-25};
  float zero = 0;
  auto passes = [&](uint16_t output) {
    Result<Comparison> compared = compare(one, Tensor::bhsd(&output, ElementType::f16, 1, 1, 1, 1),
                                          Tensor::contiguous(&zero, ElementType::f32, {1, 1, 1}));
    return compared.ok() && compared->passed;
  };
  EXPECT_TRUE(passes(0));
  EXPECT_TRUE(passes(1));
  EXPECT_FALSE(passes(2));
}

TEST_F(CompareTest, OtherShapesAreAnError) {
  EXPECT_FALSE(compare(reference, problem.arguments.q.at(o.data()), problem.arguments.o).ok());
}

TEST_F(CompareTest, AnArrayThatIsTooShortIsAnError) {
  reference.termNorm.clear();
  EXPECT_EQ(
      compare(reference, problem.arguments.o.at(o.data()), problem.arguments.lse.at(lse.data()))
          .code(),
      Code::invalidArgument);
}

} // namespace
