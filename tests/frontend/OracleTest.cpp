//===- OracleTest.cpp - The oracle computes what the syntax tree says -----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// These tests need no GPU. The variant's own functions are compiled for the host,
// with substitutes for CUDA's intrinsics, and compared with the interpreter. The
// whole text is compiled by nvcc if it is found.
//
//===----------------------------------------------------------------------===//
#include "Samples.h"

#include "oracle/Oracle.h"

#include <dlfcn.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tesela;
using namespace tesela::samples;

namespace {

constexpr const char *kHostPrelude = R"cpp(
#include "oracle/Oracle.h"
#include <bit>
#include <math.h>
#define __device__
using tesela::OracleArguments;
using tesela::OracleParameter;
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fsqrt_rn(float a) { return sqrtf(a); }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dsub_rn(double a, double b) { return a - b; }
static double __dmul_rn(double a, double b) { return a * b; }
static double __ddiv_rn(double a, double b) { return a / b; }
static double __dsqrt_rn(double a) { return sqrt(a); }
static float __int_as_float(int a) { return std::bit_cast<float>(a); }
static int __float_as_int(float a) { return std::bit_cast<int>(a); }
static float __int2float_rn(int a) { return (float)a; }
)cpp";

std::filesystem::path scratch(const char *name) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tesela-oracle-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return folder / name;
}

void write(const std::filesystem::path &path, const std::string &text) {
  std::ofstream(path) << text;
}

/// The functions of all samples for one library: mask0, mask1, ..., score0, ...
std::string samplesText() {
  std::string text = kHostPrelude;
  auto addVariant = [&](const std::string &name, const Variant &variant) {
    text += "namespace " + name + " {\n" + oracleExpressions(variant) + "}\n";
  };
  const std::string point = "const OracleArguments &a, int b, int h, int hkv, int q, int k";
  const std::string values = "b, h, hkv, q, k); }\n";
  for (size_t i = 0; i < kMasks.size(); ++i) {
    std::string name = "mask" + std::to_string(i);
    addVariant(name, parsed(withParameters(std::string("mask = ") + kMasks[i])));
    text += "extern \"C\" bool c_" + name + "(" + point + ") { return " + name +
            "::oracleMask(a, " + values;
  }
  for (size_t i = 0; i < kScores.size(); ++i) {
    std::string name = "score" + std::to_string(i);
    addVariant(name, parsed(withParameters(std::string("score = ") + kScores[i])));
    for (std::string real : {"float", "double"})
      text += "extern \"C\" " + real + " c_" + name + "_" + real + "(" + point + ", " + real +
              " s) { return " + name + "::oracleScore<" + real + ">(a, s, " + values;
  }
  return text;
}

OracleArguments argumentsOf(const Bindings &bindings) {
  OracleArguments a;
  a.B = bindings.extents.B;
  a.H = bindings.extents.H;
  a.Hkv = bindings.extents.Hkv;
  a.Sq = bindings.extents.Sq;
  a.Sk = bindings.extents.Sk;
  for (size_t i = 0; i < bindings.parameters.size(); ++i) {
    const Binding &binding = bindings.parameters[i];
    OracleParameter &parameter = a.parameters[i];
    parameter.data = reinterpret_cast<uint64_t>(binding.capture.data);
    for (size_t axis = 0; axis < binding.capture.extents.size(); ++axis) {
      parameter.extents[axis] = binding.capture.extents[axis];
      parameter.strides[axis] = binding.capture.strides[axis];
    }
    parameter.number = static_cast<float>(binding.scalar);
    if (i == 0)
      parameter.integer = static_cast<int32_t>(binding.scalar);
  }
  return a;
}

template <typename Real> bool same(Real a, Real b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// The exit status of a command of this test.
int run(const std::string &command) {
  return std::system(command.c_str()); // NOLINT(bugprone-command-processor): a test's own text
}

} // namespace

TEST(Oracle, ItsFunctionsAgreeWithTheInterpreter) {
  std::filesystem::path source = scratch("samples.cpp"), library = scratch("samples.so");
  write(source, samplesText());
  std::string command = std::string(TESELA_CXX) +
                        " -std=c++20 -O1 -ffp-contract=off -shared -fPIC -w " + TESELA_INCLUDES +
                        " '" + source.string() + "' -o '" + library.string() + "'";
  ASSERT_EQ(run(command), 0) << command;
  void *handle = dlopen(library.c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr) << dlerror();

  for (auto [w, c] : kScalars) {
    SampleLaunch launch(w, c);
    OracleArguments a = argumentsOf(launch.bindings);
    for (size_t i = 0; i < kMasks.size(); ++i) {
      Result<Interpreter> interpreter = Interpreter::create(
          parsed(withParameters(std::string("mask = ") + kMasks[i])), launch.bindings);
      ASSERT_TRUE(interpreter.ok());
      auto *mask = reinterpret_cast<bool (*)(const OracleArguments &, int, int, int, int, int)>(
          dlsym(handle, ("c_mask" + std::to_string(i)).c_str()));
      for (const Point &p : launch.points(60))
        ASSERT_EQ(mask(a, p.b, p.h, p.hkv, p.q, p.k), interpreter->mask(p)) << kMasks[i];
    }
    for (size_t i = 0; i < kScores.size(); ++i) {
      Result<Interpreter> interpreter = Interpreter::create(
          parsed(withParameters(std::string("score = ") + kScores[i])), launch.bindings);
      ASSERT_TRUE(interpreter.ok());
      std::string name = "c_score" + std::to_string(i);
      auto *single =
          reinterpret_cast<float (*)(const OracleArguments &, int, int, int, int, int, float)>(
              dlsym(handle, (name + "_float").c_str()));
      auto *precise =
          reinterpret_cast<double (*)(const OracleArguments &, int, int, int, int, int, double)>(
              dlsym(handle, (name + "_double").c_str()));
      for (const Point &p : launch.points(10))
        for (float s : kLogits) {
          ASSERT_TRUE(same(single(a, p.b, p.h, p.hkv, p.q, p.k, s), interpreter->score(p, s)))
              << kScores[i] << " of " << s;
          ASSERT_TRUE(
              same(precise(a, p.b, p.h, p.hkv, p.q, p.k, s), interpreter->score(p, double(s))))
              << kScores[i] << " of " << s;
        }
    }
  }
  dlclose(handle);
  std::filesystem::remove_all(source.parent_path());
}

TEST(Oracle, ItsTextCompilesAndItsStructsHaveTheHeadersLayout) {
  if (std::string(TESELA_NVCC).empty())
    GTEST_SKIP() << "nvcc was not found when this was configured";
  std::string layout;
  auto same = [&](const std::string &type, const std::string &member, size_t offset) {
    layout += "static_assert(__builtin_offsetof(oracle::" + type + ", " + member +
              ") == " + std::to_string(offset) + ", \"" + member + "\");\n";
  };
  same("OracleArguments", "v", offsetof(OracleArguments, v));
  same("OracleArguments", "rows", offsetof(OracleArguments, rows));
  same("OracleArguments", "vStrides", offsetof(OracleArguments, vStrides));
  same("OracleArguments", "lse", offsetof(OracleArguments, lse));
  same("OracleArguments", "largestScore", offsetof(OracleArguments, largestScore));
  same("OracleArguments", "Sk", offsetof(OracleArguments, Sk));
  same("OracleArguments", "scale", offsetof(OracleArguments, scale));
  same("OracleArguments", "dropoutWords", offsetof(OracleArguments, dropoutWords));
  same("OracleArguments", "dropoutFirst", offsetof(OracleArguments, dropoutFirst));
  same("OracleArguments", "dropoutState", offsetof(OracleArguments, dropoutState));
  same("OracleArguments", "parameters", offsetof(OracleArguments, parameters));
  same("OracleParameter", "strides", offsetof(OracleParameter, strides));
  same("OracleParameter", "integer", offsetof(OracleParameter, integer));
  same("OracleParameter", "number", offsetof(OracleParameter, number));
  layout += "static_assert(sizeof(oracle::OracleArguments) == " +
            std::to_string(sizeof(OracleArguments)) + ", \"\");\n";

  std::string mask = kMasks[0], score = kScores[0];
  for (const std::string &other : kMasks)
    mask += " || (" + other + ")";
  for (const std::string &other : kScores)
    score += " + (" + other + ")";
  Variant variant = parsed(withParameters("mask = " + mask + "\nscore = " + score));
  std::filesystem::path source = scratch("oracle.cu"), cubin = scratch("oracle.cubin");
  for (ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
    Result<std::string> text = oracleSource(variant, type);
    ASSERT_TRUE(text.ok());
    write(source, *text + layout);
    std::string command = std::string(TESELA_NVCC) + " -w -cubin -arch=sm_90 '" + source.string() +
                          "' -o '" + cubin.string() + "'";
    EXPECT_EQ(run(command), 0) << command;
  }
  std::filesystem::remove_all(source.parent_path());
}

TEST(Oracle, WhatItCannotTakeIsASentence) {
  std::string parameters, sum = "s";
  for (int i = 0; i < 17; ++i) {
    parameters += (i ? ", x" : "x") + std::to_string(i) + ": f32";
    sum += " + x" + std::to_string(i);
  }
  Variant many = parsed("attention t(" + parameters + ") { score = " + sum + " }");
  EXPECT_EQ(oracleSource(many, ElementType::bf16).code(), Code::unsupported);
  Variant plain = parsed("attention t { }");
  EXPECT_EQ(oracleSource(plain, ElementType::i32).code(), Code::invalidArgument);
}
