//===- ArgumentsTest.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every wrong argument, and the message that it gives.
//
//===----------------------------------------------------------------------===//
#include "launch/CheckedArguments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace tesela;

namespace {

alignas(16) char memory[64];

class ArgumentsTest : public testing::Test {
protected:
  Signature signature = Signature::ofAttention(
      ElementType::bf16, 64, 32,
      {{"window", ElementType::i32, false, false, {}, 8.0},
       {"cap", ElementType::f32, false, false, {}, std::nullopt},
       {"slope", ElementType::f32, true, false, {{1, "H", 0}}, std::nullopt},
       {"table", ElementType::i32, true, false, {{2, "n", 1}, {1, "n", 0}}, std::nullopt},
       {"fixed", ElementType::f32, true, false, {{0, "", 3}, {1, "Sk", -1}}, std::nullopt}});
  ArgumentRules rules{16, true};
  LaunchArguments arguments = good();

  static LaunchArguments good() {
    LaunchArguments arguments;
    arguments.q = Tensor::bhsd(memory, ElementType::bf16, 2, 6, 5, 64);
    arguments.k = Tensor::bhsd(memory, ElementType::bf16, 2, 3, 7, 64);
    arguments.v = Tensor::bhsd(memory, ElementType::bf16, 2, 3, 7, 32);
    arguments.o = Tensor::bhsd(memory, ElementType::bf16, 2, 6, 5, 32);
    arguments.lse = Tensor::contiguous(memory, ElementType::f32, {2, 6, 5});
    arguments.scalars = {{"cap", 2.5}};
    arguments.captures = {{"slope", Tensor::contiguous(memory, ElementType::f32, {6})},
                          {"table", Tensor::contiguous(memory, ElementType::i32, {9, 4})},
                          {"fixed", Tensor::contiguous(memory, ElementType::f32, {3, 6})}};
    return arguments;
  }

  /// The message after `change` has spoilt the arguments.
  std::string message(const std::function<void(LaunchArguments &)> &change) {
    LaunchArguments changed = arguments;
    change(changed);
    Result<CheckedArguments> checked = checkArguments(signature, changed, rules);
    if (checked)
      return "";
    EXPECT_EQ(checked.code(), Code::invalidArgument);
    return checked.error().message();
  }
};

#define EXPECT_SAYS(change, part)                                                                  \
  EXPECT_NE(message([&](LaunchArguments &a) { change; }).find(part), std::string::npos)            \
      << message([&](LaunchArguments &a) { change; })

TEST_F(ArgumentsTest, GoodOnesPass) {
  Result<CheckedArguments> checked = checkArguments(signature, arguments, rules);
  ASSERT_TRUE(checked.ok()) << checked.error().message();
  EXPECT_EQ(checked->extents.H, 6);
  EXPECT_EQ(checked->extents.Hkv, 3);
  EXPECT_EQ(checked->scale, 0.125f);
  EXPECT_EQ(checked->scalarBits[0], 8u);
  EXPECT_EQ(checked->scalarBits[1], 0x40200000u);
  EXPECT_EQ(checked->captures[3].extents[0], 9);
}

TEST_F(ArgumentsTest, Shapes) {
  EXPECT_SAYS(a.q.type = ElementType::f16,
              "q is f16[2, 6, 5, 64], the kernel was compiled for bf16");
  EXPECT_SAYS(a.k.rank = 3, "its rank must be 4");
  EXPECT_SAYS(a.v.extents[2] = -1, "must lie in [0, 2147479552]: pass an extent that is not neg");
  EXPECT_SAYS(a.q.extents[2] = int64_t(1) << 31,
              "length extent must lie in [0, 2147479552]: split the");
  EXPECT_SAYS(a.k.extents[0] = 3, "k has the batch extent 3, q has 2");
  EXPECT_SAYS(a.q.extents[3] = 128, "q has the head dimension extent 128, the kernel has 64");
  EXPECT_SAYS(a.k.extents[3] = 32, "k has the head dimension extent 32, the kernel has 64");
  EXPECT_SAYS(a.v.extents[3] = 64, "v has the head dimension extent 64, the kernel has 32");
  EXPECT_SAYS(a.v.extents[2] = 8, "v has the length extent 8, k has 7");
  EXPECT_SAYS(a.v.extents[1] = 6, "v has the head extent 6, k has 3");
  EXPECT_SAYS(a.o.extents[2] = 4, "o has the length extent 4, q has 5");
  EXPECT_SAYS(a.o.type = ElementType::f32, "o is f32");
  EXPECT_SAYS((a.k.extents[1] = a.v.extents[1] = 4), "6 heads and k has 4");
  EXPECT_SAYS((a.k.extents[1] = a.v.extents[1] = 0), "6 heads and k has 0");
}

TEST_F(ArgumentsTest, AddressesAndStrides) {
  EXPECT_SAYS(a.q.data = nullptr, "q has no address");
  EXPECT_SAYS(a.o.data = memory + 8, "o's address is 8 bytes past a multiple of 16");
  EXPECT_SAYS(a.k.strides[3] = 2, "k's last stride is 2, it must be 1");
  EXPECT_SAYS(a.k.strides[2] = 66, "k's length stride is 66 elements = 132 bytes");
  EXPECT_SAYS(a.v.strides[1] = -32, "v's head stride is -32 elements, it must not be negative");
  EXPECT_SAYS(a.o.strides[1] = 0, "several results have the same address");
  EXPECT_EQ(message([](LaunchArguments &a) { a.k.strides[1] = a.v.strides[0] = 0; }), "");
}

TEST_F(ArgumentsTest, ResultsMustNotOverlap) {
  auto o = [](int64_t batch, int64_t head, int64_t length) {
    return [=](LaunchArguments &a) { a.o.strides = {batch, head, length, 1}; };
  };
  // o is [2, 6, 5, 32].
  EXPECT_NE(message(o(960, 160, 16))
                .find("o's length stride is 16 elements, and along the head "
                      "dimension there are 32 elements 1 apart, so several "
                      "results have the same address"),
            std::string::npos)
      << message(o(960, 160, 16));
  EXPECT_NE(message(o(960, 32, 32)).find("so several results"), std::string::npos);
  EXPECT_NE(message(o(160, 160, 32)).find("o's head stride is 160 elements, and along the batch "),
            std::string::npos)
      << message(o(160, 160, 32));
  for (auto strides : {o(960, 160, 32), o(960, 32, 192), o(32, 320, 64), o(4000, 640, 128),
                       o(32, 64, 384), o(40, 80, 480)})
    EXPECT_EQ(message(strides), "");
  // Heads 96 apart and rows 160 apart lie between one another, and share nothing.
  EXPECT_EQ(message([](LaunchArguments &a) {
              a.q.extents[1] = a.o.extents[1] = 3, a.captures[0].tensor.extents[0] = 3;
              a.lse = Tensor::contiguous(memory, ElementType::f32, {2, 3, 5});
              a.o.strides = {4000, 96, 160, 1};
            }),
            "");
  EXPECT_EQ(message([](LaunchArguments &a) { a.k.strides[2] = 8; }), ""); // read, not written
  EXPECT_EQ(message([](LaunchArguments &a) { // an axis of one element has no steps
              for (Tensor *tensor : {&a.q, &a.k, &a.v, &a.o})
                tensor->extents[0] = 1;
              a.o.strides = {7, 160, 32, 1};
              a.lse = Tensor::contiguous(memory, ElementType::f32, {1, 6, 5});
            }),
            "");
  EXPECT_EQ(message([](LaunchArguments &a) { // without elements, strides may be 0
              for (Tensor *tensor : {&a.q, &a.o})
                tensor->extents[0] = tensor->extents[2] = 0;
              a.k.extents[0] = a.v.extents[0] = 0;
              a.o.strides = {0, 0, 0, 1};
              a.lse = Tensor::contiguous(memory, ElementType::f32, {0, 6, 0});
            }),
            "");
}

TEST_F(ArgumentsTest, ExtentsOfStarts) {
  DeclaredAxis axis{.kind = DeclaredAxis::Kind::computed};
  axis.expression = Expression::parse("(+ B 1)").value();
  DeclaredTensor starts{.name = "starts_q", .type = ElementType::i32};
  starts.axes = {axis};
  for (bool contiguous : {false, true}) {
    starts.contiguous = contiguous;
    signature.tensors.resize(5);
    signature.tensors.push_back(starts);
    std::string said = message([](LaunchArguments &a) {
      a.tensors = {{"starts_q", Tensor::contiguous(memory, ElementType::i32, {4})}};
    });
    EXPECT_NE(said.find(contiguous ? "[B + 1]" : "must be B + 1 = 3"), std::string::npos) << said;
  }
}

TEST_F(ArgumentsTest, StridesOfExtentsOf1AreIgnored) {
  for (Tensor *tensor : {&arguments.q, &arguments.k, &arguments.v, &arguments.o}) {
    tensor->extents[0] = 1;
    tensor->strides[0] = -7;
  }
  arguments.lse = Tensor::contiguous(memory, ElementType::f32, {1, 6, 5});
  arguments.lse.strides[0] = 99;
  Result<CheckedArguments> checked = checkArguments(signature, arguments, rules);
  ASSERT_TRUE(checked.ok()) << checked.error().message();
  EXPECT_EQ(checked->tensors[0].strides[0], 0);
}

TEST_F(ArgumentsTest, TheHostAsksForNaturalAlignmentOnly) {
  rules.alignment = 0;
  EXPECT_EQ(message([](LaunchArguments &a) { a.k.strides[2] = 67, a.k.data = memory + 2; }), "");
  EXPECT_SAYS(a.k.data = memory + 1, "k's address is 1 bytes past a multiple of 2");
}

TEST_F(ArgumentsTest, NothingIsAskedOfEmptyTensors) {
  for (Tensor *tensor : {&arguments.k, &arguments.v}) {
    tensor->extents[2] = 0;
    tensor->data = nullptr;
    tensor->strides = {3, 3, 3, 3};
  }
  arguments.captures[2].tensor = Tensor::contiguous(nullptr, ElementType::f32, {3, 0});
  EXPECT_EQ(message([](LaunchArguments &) {}), "");
}

TEST_F(ArgumentsTest, Lse) {
  EXPECT_SAYS(a.lse.type = ElementType::bf16, "it must be f32[2, 6, 5]");
  EXPECT_SAYS(a.lse.extents[1] = 5, "lse is f32[2, 5, 5], it must be f32[2, 6, 5]");
  EXPECT_EQ(message([](LaunchArguments &a) { a.lse.data = nullptr; }), "");
  EXPECT_EQ(message([](LaunchArguments &a) { a.lse = Tensor(); }), "");
  EXPECT_SAYS(a.lse.strides[1] = 8, "lse's stride of axis 1 is 8, it must be 5");
}

TEST_F(ArgumentsTest, AnOutputThatIsNotOptional) {
  for (DeclaredTensor &tensor : signature.tensors)
    tensor.isOptional = false;
  EXPECT_SAYS(a.lse.data = nullptr, "lse has no address");
  EXPECT_SAYS(a.lse = Tensor(), "it must be f32[2, 6, 5]");
}

TEST_F(ArgumentsTest, AllParametersInTheirOrder) {
  arguments.scalars = {{"window", 3}, {"cap", 2.5}};
  Result<CheckedArguments> checked = checkArguments(signature, arguments, rules);
  ASSERT_TRUE(checked.ok()) << checked.error().message();
  EXPECT_EQ(checked->scalarBits[0], 3u);
  EXPECT_EQ(checked->scalarBits[1], 0x40200000u);
  EXPECT_EQ(checked->captures[3].extents[0], 9);
  EXPECT_SAYS(a.scalars[0].value = 0.5, "the parameter 'window' is 0.5");
  EXPECT_SAYS(a.captures[0].tensor.extents[0] = 5, "'slope' is f32[5]");
  // The same in another order.
  std::swap(arguments.scalars[0], arguments.scalars[1]);
  std::swap(arguments.captures[0], arguments.captures[2]);
  Result<CheckedArguments> other = checkArguments(signature, arguments, rules);
  ASSERT_TRUE(other.ok()) << other.error().message();
  EXPECT_EQ(other->scalarBits[0], 3u);
  EXPECT_EQ(other->captures[3].extents[0], 9);
}

TEST_F(ArgumentsTest, Scale) {
  EXPECT_SAYS(a.scale = NAN, "scale is nan, it must be finite");
  EXPECT_SAYS(a.scale = HUGE_VAL, "it must be finite");
  EXPECT_SAYS(a.scale = 1e300,
              "its magnitude must be at most 3.4028235e+38, the largest number of f32");
  EXPECT_SAYS(a.scale = -0.5, "negate q and pass 0.5");
  EXPECT_SAYS(a.scale = 0.0, "it must be at least");
  EXPECT_SAYS(a.scale = 1e-300, "it must be at least");
  EXPECT_SAYS(a.scale = 7e-31, "it must be at least 7.888609e-31");
}

TEST_F(ArgumentsTest, Scalars) {
  EXPECT_SAYS(a.scalars.clear(), "the parameter 'cap' is missing and has no default");
  EXPECT_SAYS(a.scalars.push_back({"cap", 1}), "given twice");
  EXPECT_SAYS(a.scalars.push_back({"windw", 1}),
              "no parameter 'windw'; the variant has the scalars window, cap");
  EXPECT_SAYS(a.scalars.push_back({"slope", 1}), "'slope' is a captured tensor");
  EXPECT_SAYS(a.scalars.push_back({"window", 1.5}), "'window' is 1.5, it must be a whole number");
  EXPECT_SAYS(a.scalars.push_back({"window", 2147483648.0}), "it must be a whole number");
  EXPECT_SAYS(a.scalars.push_back({"window", NAN}), "it must be a whole number");
  EXPECT_SAYS(a.scalars[0].value = 1e39, "it must fit f32");
  EXPECT_EQ(message([](LaunchArguments &a) { a.scalars[0].value = -HUGE_VAL; }), "");
}

TEST_F(ArgumentsTest, Captures) {
  EXPECT_SAYS(a.captures.pop_back(), "the captured tensor 'fixed' is missing");
  EXPECT_SAYS(a.captures.push_back(a.captures[0]), "'slope' is given twice");
  EXPECT_SAYS(a.captures[0].name = "slopes", "the captured tensors slope, table, fixed");
  EXPECT_SAYS(a.captures[0].name = "cap", "'cap' is a scalar");
  EXPECT_SAYS(a.captures[0].tensor.type = ElementType::i32,
              "'slope' is i32[6], the variant declares f32");
  EXPECT_SAYS(a.captures[0].tensor.rank = 2, "the variant declares rank 1");
  EXPECT_SAYS(a.captures[0].tensor.extents[0] = 3, "axis 0 must be H = 6");
  EXPECT_SAYS(a.captures[0].tensor.data = nullptr, "'slope' is f32[6] and has no address");
  EXPECT_SAYS(a.captures[0].tensor.data = memory + 2, "its address must be a multiple of 4 bytes");
  EXPECT_SAYS(a.captures[1].tensor.extents[0] = 8, "must be 2*n+1 for a whole n");
  EXPECT_SAYS(a.captures[1].tensor.extents[0] = 0, "for a whole n of at least 0");
  EXPECT_SAYS(a.captures[1].tensor.extents[1] = 5, "axis 1 must be n = 4");
  EXPECT_SAYS(a.captures[2].tensor.extents[0] = 4, "axis 0 must be 3");
  EXPECT_SAYS(a.captures[2].tensor.extents[1] = 7, "axis 1 must be Sk-1 = 6 (Sk is 7)");
  EXPECT_SAYS((a.k.extents[2] = a.v.extents[2] = 8), "must be Sk-1 = 7 (Sk is 8)");
  EXPECT_EQ(message([](LaunchArguments &a) { a.captures[0].tensor.extents[0] = 3; }),
            "the captured tensor 'slope' is f32[3], its extent of axis 0 must be H = 6");
  EXPECT_EQ(message([](LaunchArguments &a) { a.captures[0].tensor.strides[0] = -3; }), "");
}

TEST_F(ArgumentsTest, LengthsLeaveRoomForABlock) {
  constexpr int64_t limit = 2147483648 - 4096;
  EXPECT_SAYS(a.q.extents[2] = limit + 1,
              "q is bf16[2, 6, 2147479553, 64], its length extent must lie in [0, 2147479552]");
  EXPECT_SAYS((a.k.extents[2] = a.v.extents[2] = limit + 1), "k is bf16[2, 3, 2147479553, 64]");
  EXPECT_SAYS(a.q.extents[0] = int64_t(1) << 31, "batch extent must lie in [0, 2147483647]");
  EXPECT_EQ(message([](LaunchArguments &a) {
              a.q.extents[2] = limit;
              a.o = Tensor::bhsd(memory, ElementType::bf16, 2, 6, limit, 32);
              a.lse = Tensor::contiguous(memory, ElementType::f32, {2, 6, limit});
            }),
            "");
}

TEST_F(ArgumentsTest, ElementsThatLeave63BitsAreRefused) {
  // The product is 2^70, which wraps to 0.
  int64_t many = int64_t(1) << 30;
  EXPECT_SAYS(
      (a.q = a.k = Tensor::bhsd(memory, ElementType::bf16, many, many, 16, 64),
       a.v = a.o = Tensor::bhsd(memory, ElementType::bf16, many, many, 16, 32),
       a.lse = Tensor::contiguous(memory, ElementType::f32, {many, many, 16})),
      "q is bf16[1073741824, 1073741824, 16, 64], its number of elements must be below 2^63");
  signature.parameters = {{"cube",
                           ElementType::f32,
                           true,
                           false,
                           {{1, "n", 0}, {1, "n", 0}, {1, "n", 0}},
                           std::nullopt}};
  arguments.scalars.clear();
  arguments.captures = {{"cube", Tensor::contiguous(memory, ElementType::f32, {many, many, many})}};
  EXPECT_SAYS(a.captures[0].tensor.data = nullptr, "its number of elements must be below 2^63");
}

TEST_F(ArgumentsTest, StridesThatLeave63BitsAreRefused) {
  constexpr int64_t largest = std::numeric_limits<int64_t>::max();
  constexpr int64_t smallest = std::numeric_limits<int64_t>::min();
  rules.alignment = 0;
  EXPECT_SAYS(a.q.strides[2] = largest / 2,
              "q is bf16[2, 6, 5, 64] with the strides [1920, 320, 4611686018427387903, 1], its "
              "elements must lie less than 2^63 bytes apart");
  EXPECT_SAYS(a.k.strides[0] = largest, "k is bf16[2, 3, 7, 64] with the strides");
  // Each axis fits alone, but their sum does not.
  EXPECT_SAYS((a.v.strides[0] = a.v.strides[1] = largest / 5), "v is bf16[2, 3, 7, 32] with");
  EXPECT_SAYS(a.o.strides[1] = largest / 8, "o is bf16[2, 6, 5, 32] with the strides");
  EXPECT_EQ(message([](LaunchArguments &a) { a.k.strides[0] = largest / 4; }), "");
  EXPECT_SAYS(a.q.strides[0] = smallest, "q's batch stride is -9223372036854775808 elements");
  EXPECT_SAYS(a.lse.strides[0] = largest, "lse is f32[2, 6, 5] with the strides");
  EXPECT_SAYS(a.captures[0].tensor.strides[0] = smallest, "'slope' is f32[6] with the strides");
  EXPECT_SAYS(a.captures[1].tensor.strides[1] = largest / 8, "'table' is i32[9, 4] with");
}

using Role = TensorArgument::Role;

/// A tensor of an artifact. An axis "?" has any extent.
TensorArgument declared(const char *name, ElementType type, Role role,
                        const std::vector<const char *> &axes, bool contiguous = false) {
  TensorArgument tensor{name, type, role, {}, contiguous};
  for (const char *axis : axes)
    tensor.extents.push_back(*axis == '?' ? std::nullopt : std::optional(*Expression::parse(axis)));
  return tensor;
}

/// A kernel that is not attention: its tensors are passed by name.
class NamedTensorsTest : public ArgumentsTest {
protected:
  NamedTensorsTest() {
    Artifact artifact;
    artifact.variantName = "product";
    artifact.tensors = {
        declared("a", ElementType::bf16, Role::in, {"B", "H", "Sq", "Sk"}),
        declared("b", ElementType::bf16, Role::in, {"B", "Hkv", "Sk", "24"}),
        declared("o", ElementType::f32, Role::out, {"B", "H", "Sq", "24"}),
        declared("sums", ElementType::f32, Role::in, {"?", "(ceildiv Sq 4)"}, /*contiguous=*/true),
        declared("rows", ElementType::i32, Role::in, {"?", "(* 2 Sk)"})};
    Result<Signature> made = Signature::of(artifact);
    EXPECT_TRUE(made.ok());
    signature = *made;
    arguments = LaunchArguments();
    arguments.o = Tensor::bhsd(memory, ElementType::f32, 2, 6, 5, 24);
    arguments.tensors = {{"rows", Tensor::contiguous(memory, ElementType::i32, {1, 14})},
                         {"a", Tensor::bhsd(memory, ElementType::bf16, 2, 6, 5, 7)},
                         {"b", Tensor::bhsd(memory, ElementType::bf16, 2, 3, 7, 24)},
                         {"sums", Tensor::contiguous(memory, ElementType::f32, {9, 2})}};
    rules.alignment = 0;
  }
  enum { rows, a, b, sums };
};

TEST_F(NamedTensorsTest, BindTheLaunchsExtents) {
  Result<CheckedArguments> checked = checkArguments(signature, arguments, rules);
  ASSERT_TRUE(checked.ok()) << checked.error().message();
  EXPECT_EQ(checked->extents.B, 2);
  EXPECT_EQ(checked->extents.H, 6);
  EXPECT_EQ(checked->extents.Hkv, 3);
  EXPECT_EQ(checked->extents.Sq, 5);
  EXPECT_EQ(checked->extents.Sk, 7);
  EXPECT_EQ(checked->tensors[1].extents[3], 24); // b, in the order of the declaration
  EXPECT_EQ(checked->tensors[2].type, ElementType::f32);
}

// An input may be read-only, even where it has the name of attention's result.
TEST_F(NamedTensorsTest, OnlyWhatIsWrittenMustBeWritable) {
  for (size_t each : {rows, a, b, sums})
    arguments.tensors[each].tensor.readOnly = true;
  EXPECT_EQ(message([](LaunchArguments &) {}), "");
  EXPECT_SAYS(a.o.readOnly = true,
              "o is read-only, but it must be written: pass a writable tensor");
  Artifact artifact;
  artifact.variantName = "derivative";
  artifact.tensors = {declared("o", ElementType::f32, Role::in, {"B", "H", "Sq", "24"}),
                      declared("sums", ElementType::f32, Role::out, {"B", "H", "Sq"}, true)};
  Result<Signature> made = Signature::of(artifact);
  ASSERT_TRUE(made.ok());
  signature = *made;
  arguments.tensors = {{"sums", Tensor::contiguous(memory, ElementType::f32, {2, 6, 5})}};
  arguments.o.readOnly = true;
  EXPECT_EQ(message([](LaunchArguments &) {}), "");
  EXPECT_SAYS(a.tensors[0].tensor.readOnly = true,
              "sums is read-only, but it must be written: pass a writable tensor");
}

TEST_F(NamedTensorsTest, NamesAreThoseThatTheKernelDeclares) {
  EXPECT_SAYS(a.tensors[b].name = "c",
              "there is no tensor 'c'; the kernel's tensors are a, b, o, sums, rows");
  EXPECT_SAYS(a.q = a.o, "there is no tensor 'q'; the kernel's tensors are a, b, o, sums, rows");
  EXPECT_SAYS(a.tensors.pop_back(), "the tensor 'sums' is missing: pass it by name; the kernel's "
                                    "tensors are a, b, o, sums, rows");
  EXPECT_SAYS(a.tensors.push_back(a.tensors[1]), "the tensor 'a' is given twice: pass it once");
  EXPECT_SAYS(a.tensors.push_back({"o", a.o}), "the tensor 'o' is given twice: pass it once");
  EXPECT_EQ(message([](LaunchArguments &a) {
              a.tensors.push_back({"o", a.o});
              a.o = {};
            }),
            "");
}

TEST_F(NamedTensorsTest, ExtentsAgree) {
  EXPECT_SAYS(a.tensors[b].tensor.extents[2] = 8,
              "b has the length extent 8, a has 7: they must agree");
  EXPECT_SAYS(a.tensors[b].tensor.extents[3] = 25,
              "b has the head dimension extent 25, the kernel has 24: they must agree");
  EXPECT_SAYS(
      a.tensors[b].tensor.extents[1] = 4,
      "a has 6 heads and b has 4: the number of heads of a must be a multiple of that of b");
  EXPECT_SAYS(a.o.type = ElementType::bf16,
              "o is bf16[2, 6, 5, 24], the kernel was compiled for f32");
  EXPECT_SAYS(a.tensors[rows].tensor.extents[1] = 15,
              "rows is i32[1, 15], its axis 1 extent must be 2 * Sk = 14");
  EXPECT_SAYS(a.tensors[rows].tensor.rank = 3, "its rank must be 2");
  EXPECT_SAYS(a.tensors[sums].tensor.extents[1] = 3,
              "sums is f32[9, 3], it must be f32[any, 2]: [any, Sq ceil/ 4]");
  EXPECT_SAYS(a.tensors[sums].tensor.strides[0] = 3,
              "sums's stride of axis 0 is 3, it must be 2: sums is read without gaps");
  EXPECT_SAYS(a.scale = 0.5, "the scale is 0.5, but the kernel has no scale: leave it out");
}

TEST_F(NamedTensorsTest, OnlyTensorsWithoutGapsNameAnExtent) {
  signature.tensors = {signature.tensors[2]}; // o
  signature.tensors[0].contiguous = true;
  arguments.tensors.clear();
  Result<CheckedArguments> checked = checkArguments(signature, arguments, rules);
  ASSERT_TRUE(checked.ok()) << checked.error().message();
  EXPECT_EQ(checked->extents.H, 6);
  EXPECT_EQ(checked->extents.Hkv, 6); // nothing defines it, so it is H
  EXPECT_EQ(checked->extents.Sq, 5);
  EXPECT_EQ(checked->extents.Sk, 1);
  EXPECT_SAYS(a.o.extents[2] = -1, "its length extent must lie in [0, 2147479552]");
}

/// A decoding kernel whose keys lie in pages of 16 rows.
class PagesTest : public ArgumentsTest {
protected:
  PagesTest() {
    Artifact artifact;
    artifact.variantName = "decoding";
    artifact.tensors = {
        declared("q", ElementType::bf16, Role::in, {"B", "H", "Sq", "64"}),
        declared("k", ElementType::bf16, Role::in, {"?", "Hkv", "16", "64"}),
        declared("o", ElementType::bf16, Role::out, {"B", "H", "Sq", "64"}),
        declared("table", ElementType::i32, Role::in, {"B", "?"}),
        declared("lengths", ElementType::i32, Role::in, {"B"}, /*contiguous=*/true)};
    Result<Signature> made = Signature::of(artifact);
    EXPECT_TRUE(made.ok());
    signature = *made;
    arguments = LaunchArguments();
    arguments.q = arguments.o = Tensor::bhsd(memory, ElementType::bf16, 2, 6, 1, 64);
    arguments.k = Tensor::bhsd(memory, ElementType::bf16, 9, 3, 16, 64);
    arguments.tensors = {{"table", Tensor::contiguous(memory, ElementType::i32, {2, 4})},
                         {"lengths", Tensor::contiguous(memory, ElementType::i32, {2})}};
  }
  enum { table, lengths };
};

TEST_F(PagesTest, HaveTheRowsOfTheKernels) {
  EXPECT_EQ(message([](LaunchArguments &) {}), "");
  EXPECT_SAYS(a.k.extents[2] = 32,
              "k has pages of 32 rows, the kernel was compiled for pages of 16 rows: pass a pool "
              "with pages of 16 rows, or compile with the binding page=32");
  EXPECT_SAYS(a.k.rank = 3, "k is bf16[9, 3, 16], its rank must be 4: [pages, heads, rows of a "
                            "page, head dimension], a view of [pages, page, heads, head "
                            "dimension]");
  EXPECT_SAYS(a.q.rank = 3, "its rank must be 4: [batch, heads, length, head dimension]");
}

TEST_F(PagesTest, TokensOneAfterTheOtherHaveNoBatch) {
  Artifact artifact;
  artifact.variantName = "prompts";
  artifact.tensors = {declared("q", ElementType::bf16, Role::in, {"1", "H", "?", "64"})};
  Result<Signature> made = Signature::of(artifact);
  ASSERT_TRUE(made.ok());
  signature = *made;
  EXPECT_SAYS((a = {}, a.q = Tensor::contiguous(memory, ElementType::bf16, {8, 6, 64})),
              "q is bf16[8, 6, 64], its rank must be 4: [1, heads, tokens, head dimension], a view "
              "of [tokens, heads, head dimension]");
}

// No kernel can be compiled for tables and lengths of another type.
TEST_F(PagesTest, HaveTablesOfIntegers) {
  EXPECT_EQ(message([](LaunchArguments &a) { a.tensors[table].tensor.type = ElementType::f32; }),
            "table is f32[2, 4], its elements must be i32: convert it to i32");
  EXPECT_EQ(message([](LaunchArguments &a) { a.tensors[lengths].tensor.type = ElementType::f32; }),
            "lengths is f32[2], it must be i32[2]: [batch]");
  EXPECT_EQ(message([](LaunchArguments &a) { a.q.type = ElementType::i32; }),
            "q is i32[2, 6, 1, 64], its elements must be bf16: convert it to bf16");
  EXPECT_SAYS(a.k.type = ElementType::f16, "or compile for f16");
}

} // namespace
