//===- CheckedArguments.h - Checks a launch's arguments ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_CHECKEDARGUMENTS_H
#define TESELA_LAUNCH_CHECKEDARGUMENTS_H

#include "launch/ShortArray.h"
#include "launch/Signature.h"

namespace tesela {

/// Which rules apply in addition to those of types and shapes.
struct ArgumentRules {
  int alignment = 0;        ///< in bytes, of addresses and strides; 0: the element's size
  bool checkResults = true; ///< false: tensors that the kernel writes are not checked
};

/// A launch with at most this many parameters and tensors allocates no host memory. The library's
/// variants have at most 4 parameters and its templates at most 5 tensors.
constexpr size_t usualParameters = 16, usualTensors = 10;

/// Arguments that passed all checks, by position.
struct CheckedArguments {
  Extents extents;
  /// In the order of the signature's tensors. The strides of extents of 1 are 0.
  ShortArray<Tensor, usualTensors> tensors;
  float scale = 1;
  /// For each parameter: a scalar's 32 bits (i32 or f32), or 0.
  ShortArray<uint32_t, usualParameters> scalarBits;
  /// For each parameter: a captured tensor, or an empty view.
  ShortArray<Tensor, usualParameters> captures;
  bool capturesUnchanged = false; ///< since the kernel's last launch on the stream
};

/// Checks every rule of LaunchArguments except those of its workspace. The error names the
/// argument, its value, what is expected and what to do. Fills `checked`, whose contents are valid
/// only on success. Success allocates nothing (see usualParameters).
Status checkArguments(const Signature &signature, const LaunchArguments &arguments,
                      const ArgumentRules &rules, CheckedArguments &checked);
Result<CheckedArguments> checkArguments(const Signature &signature,
                                        const LaunchArguments &arguments,
                                        const ArgumentRules &rules);

} // namespace tesela

#endif // TESELA_LAUNCH_CHECKEDARGUMENTS_H
