//===- LauncherCase.h - The C launcher and the runtime ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The rules of a launch are implemented twice: in runtime/launch, and in the C code of an export.
// Here both launch the compiler's plans on a driver that records the launches. The kernels, their
// grids and every byte of their parameters must be equal, and so must be the messages about
// arguments that do not fit.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_BUNDLE_LAUNCHERCASE_H
#define TESELA_TESTS_BUNDLE_LAUNCHERCASE_H

#include "CLibrary.h"
#include "CudaStub.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace tesela {

struct Plan {
  const char *name;
  const char *text;
  ElementType type = ElementType::bf16;
  int headDimQk = 64, headDimV = 64;
  int64_t queries = 0, keys = 0;
  const char *schedule = "";
  std::vector<ScalarArgument> constants = {};
  const char *algorithm = "forward";
  std::vector<std::string> bindings = {};
};

inline std::ostream &operator<<(std::ostream &stream, const Plan &plan) {
  return stream << plan.name;
}

struct Shape {
  const char *what;
  int64_t B = 2, H = 6, Hkv = 3, Sq = 70, Sk = 90, own = 5;
  bool bshd = false, shared = false;
};

inline const Shape shapes[] = {
    {"usual"},
    {"the other layout", 2, 6, 3, 70, 90, 5, true},
    {"shared key heads", 2, 6, 3, 70, 90, 5, false, true},
    {"a head each, of a batch of 1", 1, 4, 4, 300, 300, 19},
    {"one of all", 1, 1, 1, 1, 1, 1, true},
    {"more work than multiprocessors", 3, 64, 8, 400, 400, 25},
    {"no keys", 2, 6, 3, 70, 0, 5},
    {"captures without elements", 2, 6, 3, 70, 90, 0},
    {"no queries", 2, 6, 3, 0, 90, 5},
    {"no batch", 0, 6, 3, 70, 90, 5},
};

/// An address on the device that is never accessed.
inline void *place(int number) { return reinterpret_cast<void *>(uint64_t(number) << 36); }

/// A plan's bundle, exported and compiled once for all tests.
struct Exported {
  std::filesystem::path folder;
  nlohmann::json manifest;
  std::vector<VariantParameter> parameters; ///< including the template's own
  std::unique_ptr<CLibrary> library;

  /// `bundle`: its name; empty: the variant's.
  explicit Exported(const Plan &plan, const std::string &bundle = "");
  ~Exported();
};

class LauncherCase : public testing::TestWithParam<Plan> {
protected:
  static inline std::map<std::string, std::unique_ptr<Exported>> exported;
  std::filesystem::path folder;
  nlohmann::json manifest;
  std::vector<VariantParameter> parameters;
  CLibrary *library = nullptr;
  std::optional<Context> context;
  std::optional<Kernel> kernel;
  nlohmann::json launches; ///< the target's launches, from the manifest

  static void TearDownTestSuite() { exported.clear(); }
  void SetUp() override;
  void TearDown() override;

  /// Opens both on a device of capability `sm`, for which the bundle's `target` is chosen.
  void open(int sm, const std::string &target);

  /// Captured tensors with any strides. Extents with other names are the shape's `own`.
  std::vector<CaptureArgument> capturesOf(const Shape &shape) const;

  /// The recorded launches. Addresses in each side's own memory are replaced by names.
  std::vector<std::string> recorded();
  void expectTheSameLaunches(const LaunchArguments &arguments);
  /// Neither must launch, and both must give the same message.
  void expectTheSameError(const LaunchArguments &arguments);
};

} // namespace tesela

#endif // TESELA_TESTS_BUNDLE_LAUNCHERCASE_H
