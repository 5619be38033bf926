//===- HostLaunch.h - Compile a core and run it -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// For tests: does with a core what the compiler and the runtime do. Parses it, compiles it for this
// CPU, loads the code, fills the slots in the signature's order, and runs the work items one after
// the other.
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

/// `text` with each "{name}" replaced by its value.
std::string substitute(std::string text,
                       const std::vector<std::pair<std::string, std::string>> &values);

struct HostTensor {
  const void *data = nullptr;
  std::vector<int64_t> strides; ///< in elements
  std::vector<int32_t> extents; ///< of captured tensors
};

struct HostArguments {
  Extents extents{1, 1, 1, 1, 1};
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, float> floats; ///< the scale, and scalars named "$name"
  std::map<std::string, int32_t> integers;
};

class HostKernelUnderTest {
public:
  /// `text`: a module with one bound kernel. If it does not compile, fails the running test and
  /// returns null.
  static std::unique_ptr<HostKernelUnderTest> compile(const std::string &text,
                                                      const VectorUnit &unit = hostVectorUnit());

  /// Runs all work items. The scratch is filled with NaN before each.
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

/// The LLVM IR of the module in `text`. If it cannot be made, fails the running test.
std::optional<std::string> llvmText(const std::string &text, const VectorUnit &unit);

/// A tensor [1, 1, rows, d] of contiguous elements.
HostTensor contiguousRows(const void *data, int64_t rows, int64_t d);

/// Every kind of vector that code can be made for on this CPU: its own, narrower
/// ones, and those without the conversions and the multiply-add of newer CPUs.
std::vector<VectorUnit> vectorUnits();

/// The bits of values in a tensor of `type`, and the values of such bits.
std::vector<char> encode(ElementType type, const std::vector<float> &values);
std::vector<float> decode(ElementType type, const std::vector<char> &bytes);

/// Normally distributed numbers from a seed, rounded to `type`.
std::vector<float> randomValues(ElementType type, size_t count, unsigned seed);

} // namespace tesela::test

#endif // TESELA_TESTS_TARGETS_HOST_HOSTLAUNCH_H
