//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "artifact/Digest.h"
#include "tesela/compiler/Artifact.h"

#include <gtest/gtest.h>

#include <random>

using namespace tesela;

namespace {

Expression expression(const char *text) {
  Result<Expression> parsed = Expression::parse(text);
  EXPECT_TRUE(parsed.ok());
  return *parsed;
}

/// An artifact with something in every field.
Artifact fullArtifact() {
  Artifact artifact;
  artifact.variantName = "sliding_alibi";
  artifact.target = {Target::Kind::cuda, 90};
  artifact.inputType = ElementType::f16;
  artifact.headDimQk = 192;
  artifact.headDimV = 128;
  artifact.schedule = "block_m = 128";
  artifact.scoreIsIdentity = true;
  artifact.tensors = {
      {"parts",
       ElementType::f32,
       TensorArgument::Role::in,
       {std::nullopt, expression("H"), expression("(ceildiv Sq 64)"), expression("8")}},
      {"lse",
       ElementType::bf16,
       TensorArgument::Role::out,
       {expression("B"), expression("Sq")},
       true}};
  artifact.parameters = {{"window", ElementType::i32, false, false, {}, 1024.0},
                         {"cap", ElementType::f32, false, false, {}, std::nullopt},
                         {"slope",
                          ElementType::f32,
                          true,
                          false,
                          {{1, "H", 0}, {2, "Sk", -1}, {0, "", 7}},
                          std::nullopt}};
  artifact.format = CodeFormat::ptx;
  artifact.code = std::string("code\0with\xffzeros", 15);
  Launch launch;
  launch.kernel = "forward";
  launch.items = expression("(* (ceildiv Sq 128) (* B H))");
  launch.persistent = true;
  launch.threads = 128;
  launch.sharedBytes = 1 << 17;
  launch.workspaceBytes = int64_t(1) << 40;
  launch.slots = {
      {ArgumentSlot::Kind::data, "q", 0},           {ArgumentSlot::Kind::stride, "$slope", 1},
      {ArgumentSlot::Kind::scale, "", 0},           {ArgumentSlot::Kind::tensorMap, "q", 16, 8},
      {ArgumentSlot::Kind::coordinateStep, "k", 1}, {ArgumentSlot::Kind::counter, "", 0}};
  Launch summary = launch;
  summary.extents = {expression("(* $slope.0 3)"), expression("1"), expression("1"),
                     expression("(ceildiv $slope.1 16)"), expression("Sk")};
  summary.summarizes = "$slope";
  artifact.launches = {summary, launch};
  artifact.workspaces = {
      {"$slope.summary0", {expression("2"), expression("(ceildiv $slope.1 16)")}},
      {"sums", {expression("(* B Sq)")}, ElementType::f32}};
  artifact.resources = Resources{168, 12};
  return artifact;
}

TEST(Serialize, WhatIsWrittenReadsBack) {
  Artifact artifact = fullArtifact();
  std::string bytes = artifact.serialize();
  Result<Artifact> read = Artifact::deserialize(bytes);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->variantName, artifact.variantName);
  EXPECT_EQ(read->target, artifact.target);
  EXPECT_EQ(read->inputType, artifact.inputType);
  EXPECT_EQ(read->headDimQk, 192);
  EXPECT_EQ(read->headDimV, 128);
  EXPECT_EQ(read->schedule, artifact.schedule);
  EXPECT_TRUE(read->scoreIsIdentity);
  ASSERT_EQ(read->parameters.size(), 3u);
  EXPECT_EQ(read->parameters[0].defaultValue, 1024.0);
  EXPECT_FALSE(read->parameters[1].defaultValue.has_value());
  ASSERT_EQ(read->parameters[2].extents.size(), 3u);
  EXPECT_EQ(read->parameters[2].extents[1].coefficient, 2);
  EXPECT_EQ(read->parameters[2].extents[1].offset, -1);
  EXPECT_EQ(read->format, CodeFormat::ptx);
  EXPECT_EQ(read->code, artifact.code);
  ASSERT_EQ(read->launches.size(), 2u);
  EXPECT_EQ(read->launches[1].items.evaluate({1, 2, 2, 129, 1}), 4);
  EXPECT_TRUE(read->launches[1].extents.empty());
  EXPECT_EQ(read->launches[1].summarizes, "");
  EXPECT_EQ(read->launches[0].summarizes, "$slope");
  ASSERT_EQ(read->launches[0].extents.size(), 5u);
  EXPECT_EQ(read->launches[0].extents[0].evaluate({}, std::vector<int64_t>{5}), 15);
  ASSERT_EQ(read->tensors.size(), 2u);
  EXPECT_EQ(read->tensors[0].name, "parts");
  EXPECT_EQ(read->tensors[0].type, ElementType::f32);
  EXPECT_EQ(read->tensors[0].role, TensorArgument::Role::in);
  ASSERT_EQ(read->tensors[0].extents.size(), 4u);
  EXPECT_FALSE(read->tensors[0].extents[0].has_value());
  EXPECT_EQ(read->tensors[0].extents[2]->text(), "(ceildiv Sq 64)");
  EXPECT_FALSE(read->tensors[0].contiguous);
  EXPECT_EQ(read->tensors[1].type, ElementType::bf16);
  EXPECT_EQ(read->tensors[1].role, TensorArgument::Role::out);
  EXPECT_TRUE(read->tensors[1].contiguous);
  ASSERT_EQ(read->workspaces.size(), 2u);
  EXPECT_EQ(read->workspaces[0].type, ElementType::i32);
  EXPECT_EQ(read->workspaces[1].name, "sums");
  EXPECT_EQ(read->workspaces[1].type, ElementType::f32);
  EXPECT_EQ(read->workspaces[0].name, "$slope.summary0");
  ASSERT_EQ(read->workspaces[0].extents.size(), 2u);
  EXPECT_EQ(read->workspaces[0].extents[1].text(), "(ceildiv $slope.1 16)");
  EXPECT_TRUE(read->launches[1].persistent);
  EXPECT_EQ(read->launches[1].workspaceBytes, int64_t(1) << 40);
  ASSERT_EQ(read->launches[1].slots.size(), 6u);
  EXPECT_EQ(read->launches[1].slots[1].kind, ArgumentSlot::Kind::stride);
  EXPECT_EQ(read->launches[1].slots[1].axis, 1);
  EXPECT_EQ(read->launches[1].slots[3].kind, ArgumentSlot::Kind::tensorMap);
  EXPECT_EQ(read->launches[1].slots[3].axis, 16);
  EXPECT_EQ(read->launches[1].slots[3].heads, 8);
  EXPECT_EQ(read->launches[1].slots[4].kind, ArgumentSlot::Kind::coordinateStep);
  EXPECT_EQ(read->launches[1].slots[5].kind, ArgumentSlot::Kind::counter);
  ASSERT_TRUE(read->resources.has_value());
  EXPECT_EQ(read->resources->spillBytes, 12);
  EXPECT_EQ(read->serialize(), bytes);
}

TEST(Serialize, EveryFlippedBitIsAnError) {
  const std::string bytes = fullArtifact().serialize();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] = char(damaged[i] ^ (1 << bit));
      Result<Artifact> read = Artifact::deserialize(damaged);
      ASSERT_FALSE(read.ok()) << "byte " << i << ", bit " << bit;
      EXPECT_EQ(read.code(), Code::inputOutput);
    }
}

TEST(Serialize, EveryLengthButTheRightOneIsAnError) {
  const std::string bytes = fullArtifact().serialize();
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(Artifact::deserialize(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(Artifact::deserialize(bytes + "x").ok());
}

/// `bytes` with the right checksum, as an attacker or a bug would write them.
std::string withChecksum(std::string bytes) {
  bytes.resize(bytes.size() - 32);
  return bytes + sha256(bytes);
}

TEST(Serialize, DamageUnderARightChecksumDoesNotCrash) {
  const std::string bytes = fullArtifact().serialize();
  for (size_t i = 0; i + 32 < bytes.size(); ++i)
    for (int value : {0x00, 0x7f, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = char(value);
      Result<Artifact> read = Artifact::deserialize(withChecksum(damaged));
      if (read) { // a changed number may be well-formed; a changed length is not
        EXPECT_EQ(read->serialize().size(), bytes.size());
      }
    }
}

TEST(Serialize, AnUnknownKindOfSlotIsDamage) {
  Artifact artifact = fullArtifact();
  artifact.launches[1].slots.back().kind = ArgumentSlot::Kind(8);
  Result<Artifact> read = Artifact::deserialize(artifact.serialize());
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message().find("not well-formed"), std::string::npos);
}

TEST(Serialize, AnUnknownRoleOrTypeIsDamage) {
  Artifact role = fullArtifact(), type = fullArtifact();
  role.tensors[0].role = TensorArgument::Role(2);
  type.workspaces[1].type = ElementType(77);
  for (const Artifact &artifact : {role, type}) {
    Result<Artifact> read = Artifact::deserialize(artifact.serialize());
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.error().message().find("not well-formed"), std::string::npos);
  }
}

TEST(Serialize, AnotherFormatIsNamed) {
  std::string bytes = fullArtifact().serialize();
  bytes[8] = 99;
  Result<Artifact> read = Artifact::deserialize(bytes);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message().find("format 99"), std::string::npos);
}

TEST(Digest, KnownAnswers) { // FIPS 180-4's examples
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

} // namespace
