//===- CApiArguments.h - A launch's arguments from C ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_CAPIARGUMENTS_H
#define TESELA_API_CAPIARGUMENTS_H

#include "api/CApi.h"
#include "launch/Signature.h"
#include "tesela/Kernel.h"

namespace tesela::c {

/// Arguments whose lists and names stay allocated between the launches of a thread. A launch
/// allocates only if it has more parameters, or longer names, than those before. A launch inside
/// another, as in a callback, has its own memory.
class ReusedArguments {
public:
  ReusedArguments();
  ~ReusedArguments();
  ReusedArguments(const ReusedArguments &) = delete;
  ReusedArguments &operator=(const ReusedArguments &) = delete;

  LaunchArguments arguments;

  /// Converts the parameters of a launch on `device`. `inOrder`, if not null, has their names.
  Status addParameters(const tesela_parameter *parameters, size_t count, const Device &device,
                       const std::vector<VariantParameter> *inOrder = nullptr);

  /// Converts all arguments of a launch by views.
  Status read(const tesela_launch_arguments *from, const KernelInfo &info, const Device &device);

  /// Converts all arguments of a launch by tensors. Without `info` and `signature` no kernel is
  /// launched, so o may be NULL. lse may be NULL, and so may those of the five that the kernel does
  /// not declare; all five if others are given by name.
  Status read(const tesela_tensor_arguments *from, const KernelInfo *info,
              const Signature *signature, const Device &device);

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
