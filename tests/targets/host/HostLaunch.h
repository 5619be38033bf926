//===- HostLaunch.h - Compile a core and run it -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What the compiler and the runtime do with a core, for tests: parse, compile for
// this CPU, load, fill the slots in the signature's order, run the items one
// after the other.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TARGETS_HOST_HOSTLAUNCH_H
#define TESELA_TESTS_TARGETS_HOST_HOSTLAUNCH_H

#include "targets/host/HostTarget.h"
#include "targets/host/ObjectLoader.h"
#include "tesela/compiler/Artifact.h"

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tesela::test {

/// `text` with each "{name}" replaced.
std::string substitute(std::string text,
                       const std::vector<std::pair<std::string, std::string>> &values);

struct HostTensor {
  const void *data = nullptr;
  std::vector<int64_t> strides; ///< in elements
  std::vector<int32_t> extents; ///< captures
};

struct HostArguments {
  Extents extents{1, 1, 1, 1, 1};
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, float> floats; ///< scale, and scalars under "$name"
  std::map<std::string, int32_t> integers;
};

class HostKernelUnderTest {
public:
  /// `text`: a module with one bound kernel. Fails the running test and gives null
  /// where it cannot be compiled.
  static std::unique_ptr<HostKernelUnderTest> compile(const std::string &text,
                                                      const VectorUnit &unit = hostVectorUnit());

  /// Runs all work items; the scratch is filled with NaN before.
  void run(const HostArguments &arguments) const;

  int64_t workspaceBytes() const { return workspaceBytes_; }
  const std::string &object() const { return object_; }

private:
  std::shared_ptr<HostCode> code_;
  HostKernel *kernel_ = nullptr;
  std::string object_;
  std::vector<ArgumentSlot> slots_;
  Expression items_ = *Expression::parse("0");
  int64_t workspaceBytes_ = 0;
};

/// The LLVM IR of the module in `text`; null, and the running test fails, where it cannot be made.
std::optional<std::string> llvmText(const std::string &text, const VectorUnit &unit);

/// The tensor [1, 1, rows, d] of contiguous elements.
HostTensor contiguousRows(const void *data, int64_t rows, int64_t d);

/// Every kind of vector that code can be made for on this CPU: its own, narrower
/// ones, and those without the conversions and the multiply-add of newer CPUs.
std::vector<VectorUnit> vectorUnits();

/// A value's bits in a tensor of `type`, and back.
std::vector<char> encode(ElementType type, const std::vector<float> &values);
std::vector<float> decode(ElementType type, const std::vector<char> &bytes);

/// Normal numbers from a seed, rounded to `type`.
std::vector<float> randomValues(ElementType type, size_t count, unsigned seed);

} // namespace tesela::test

#endif // TESELA_TESTS_TARGETS_HOST_HOSTLAUNCH_H
