//===- CApiArguments.h - A launch's arguments from C ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_CAPIARGUMENTS_H
#define TESELA_API_CAPIARGUMENTS_H

#include "api/CApi.h"
#include "tesela/Kernel.h"

namespace tesela::c {

/// Arguments whose lists and names stay in memory from one launch of a thread to its next: a launch
/// allocates only where it has more parameters, or longer names, than those before it. One inside
/// another, as in a callback, has memory of its own.
class ReusedArguments {
public:
  ReusedArguments();
  ~ReusedArguments();
  ReusedArguments(const ReusedArguments &) = delete;
  ReusedArguments &operator=(const ReusedArguments &) = delete;

  LaunchArguments arguments;

  /// Converts the parameters of a launch on `device`. Not null, `inOrder` has their names.
  Status addParameters(const tesela_parameter *parameters, size_t count, const Device &device,
                       const std::vector<VariantParameter> *inOrder = nullptr);

  /// Converts all of a launch by views.
  Status read(const tesela_launch_arguments *from, const KernelInfo &info, const Device &device);

  /// Converts all of a launch by tensors. lse may be NULL, o too where there is no `info` and so no
  /// kernel that writes them, and all five where others are given by name.
  Status read(const tesela_tensor_arguments *from, const KernelInfo *info, const Device &device);

private:
  struct Storage {
    std::vector<ScalarArgument> scalars, unusedScalars;
    std::vector<CaptureArgument> captures, unusedCaptures;
  };
  Storage storage;

  Status addCapture(const tesela_parameter &parameter, std::string_view name, const Device &device);
  Status addNamed(const tesela_tensor_arguments &given, const Device &device);
};

} // namespace tesela::c

#endif // TESELA_API_CAPIARGUMENTS_H
