//===- BindingsTest.cpp - Bindings that are refused -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

struct Refusal {
  const char *name, *algorithm;
  std::vector<std::string> bindings;
  const char *message;
  Code code = Code::invalidArgument;
};
void PrintTo(const Refusal &refusal, std::ostream *stream) { *stream << refusal.name; }

class RefusedBindings : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedBindings, SayWhatToChange) {
  KernelSpecification specification;
  specification.algorithm = GetParam().algorithm;
  specification.bindings = GetParam().bindings;
  specification.variantText = "attention causal() { mask = q >= k }";
  specification.target = Target{Target::Kind::host, 0};
  Result<Artifact> artifact = compile(specification);
  ASSERT_FALSE(artifact.ok());
  EXPECT_EQ(artifact.code(), GetParam().code);
  EXPECT_EQ(artifact.error().message(), GetParam().message);
}

TEST(PlaceBindings, BehindACacheSqCountsAsSk) {
  KernelSpecification specification;
  specification.variantText =
      "attention banded(t: f32[H, 2*Sq-1, Sk]) { score = s + t[h, q - k + Sq - 1, k] }";
  specification.target = Target{Target::Kind::host, 0};
  auto axesOf = [&](std::vector<std::string> bindings) {
    specification.bindings = std::move(bindings);
    Result<Artifact> artifact = compile(specification);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message();
    std::string axes;
    for (const CaptureExtent &extent : artifact->parameters.at(0).extents)
      axes += extent.name + " ";
    return axes;
  };
  EXPECT_EQ(axesOf({}), "H Sq Sk ");
  EXPECT_EQ(axesOf({"queries=ragged", "keys=ragged"}), "H Sq Sk ");
  EXPECT_EQ(axesOf({"keys=paged", "page=16", "positions=begin"}), "H Sq Sk ");
  EXPECT_EQ(axesOf({"keys=paged", "page=16", "positions=end"}), "H Sk Sk ");
  EXPECT_EQ(axesOf({"queries=ragged", "keys=ragged", "positions=given"}), "H Sk Sk ");
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedBindings,
    testing::Values(
        // The wrong value is named, not the page that it makes meaningless.
        Refusal{"Keys",
                "forward",
                {"keys=pages", "page=16"},
                "the binding keys must be 'dense', 'ragged' or 'paged', not 'pages'; did you mean "
                "'paged'?"},
        Refusal{"KeysLikeNothing",
                "forward",
                {"keys=blocks"},
                "the binding keys must be 'dense', 'ragged' or 'paged', not 'blocks': leave it out "
                "for keys of one length"},
        Refusal{"KeysWithoutValue",
                "forward",
                {"keys"},
                "the binding keys has no value, it must be 'dense', 'ragged' or 'paged': bind "
                "keys=paged, or leave it out for keys of one length"},
        Refusal{"Queries",
                "forward",
                {"queries=raged"},
                "the binding queries must be 'dense' or 'ragged', not 'raged'; did you mean "
                "'ragged'?"},
        Refusal{"Positions",
                "forward",
                {"positions=middle"},
                "the binding positions must be 'begin', 'end' or 'given', not 'middle': leave it "
                "out for queries whose positions begin at 0"},
        Refusal{"Cache",
                "forward",
                {"cache=e5m2"},
                "the binding cache must be 'e4m3', not 'e5m2': leave it out for keys and values of "
                "the input's type"},
        Refusal{"Scales",
                "forward",
                {"cache=e4m3", "scales=heads"},
                "the binding scales must be 'head' or 'page', not 'heads'; did you mean 'head'?"},
        Refusal{"Prefix",
                "forward",
                {"prefix=common"},
                "the binding prefix must be 'shared', not 'common': leave it out for sequences "
                "that share no keys"},
        Refusal{"Values",
                "forward",
                {"values=key"},
                "the binding values must be 'keys', not 'key'; did you mean 'keys'?"},
        Refusal{"NoPage",
                "forward",
                {"keys=paged"},
                "keys=paged needs the binding page, the number of rows of a page: add it, for "
                "example page=64"},
        Refusal{"PageOfZero",
                "forward",
                {"keys=paged", "page=0"},
                "the binding page, the number of rows of a page, is '0': it must be a whole number "
                "from 1 to 2147483647, for example page=64"},
        Refusal{"PageWithoutNumber",
                "forward",
                {"keys=paged", "page=large"},
                "the binding page, the number of rows of a page, is 'large': it must be a whole "
                "number from 1 to 2147483647, for example page=64"},
        Refusal{"PageTooLarge",
                "forward",
                {"keys=paged", "page=2147483648"},
                "the binding page, the number of rows of a page, is '2147483648': it must be a "
                "whole number from 1 to 2147483647, for example page=64"},
        Refusal{"PageOfDenseKeys",
                "forward",
                {"page=16"},
                "the binding 'page=16' is the number of rows of a page, which needs keys=paged: "
                "bind both, or leave it out"},
        Refusal{"Name",
                "forward",
                {"kyes=paged"},
                "the template 'forward' has no parameter 'kyes' to bind; did you mean 'keys'?"},
        Refusal{"NameOfATemplate",
                "matmul",
                {"colums=64"},
                "the template 'matmul' has no parameter 'colums' to bind; did you mean "
                "'columns'?"},
        Refusal{"NameLikeNothing",
                "matmul",
                {"width=64"},
                "the template 'matmul' has no parameter 'width' to bind; it has columns"},
        Refusal{"NoNames",
                "forward",
                {"width=64"},
                "the template 'forward' has no parameter 'width' to bind; it has none of its own"},
        Refusal{"Template",
                "backwards",
                {},
                "there is no template 'backwards'; did you mean 'backward'?",
                Code::notFound},
        Refusal{"NumberTooLarge",
                "matmul",
                {"columns=2147483648"},
                "the binding 'columns=2147483648' is outside of the limits: a number must lie in "
                "[0, 2147483647]"},
        Refusal{"NumberThatIsNegative",
                "matmul",
                {"columns=-1"},
                "the binding 'columns=-1' is outside of the limits: a number must lie in "
                "[0, 2147483647]"},
        Refusal{"NoValue",
                "merge",
                {"part=f32"},
                "the parameter 'output' of the template 'merge' has no value: bind it to a number "
                "or to an element type, for example output=64 or output=bf16"},
        Refusal{"EmptyTiles",
                "matmul",
                {"columns=0"},
                "the template 'matmul' cannot be compiled for host: stage 'bind' failed with: "
                "expected a tile with positive extents, got the extent 0; bind other values, or "
                "choose another schedule"}),
    [](const auto &info) { return info.param.name; });

} // namespace
