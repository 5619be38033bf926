//===- CheckedArguments.h - Do the arguments fit the kernel? ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_CHECKEDARGUMENTS_H
#define TESELA_LAUNCH_CHECKEDARGUMENTS_H

#include "launch/ShortArray.h"
#include "launch/Signature.h"

namespace tesela {

/// Which rules apply besides those of the shapes.
struct ArgumentRules {
  int alignment = 0;        ///< bytes, of addresses and strides; 0: the element's
  bool checkResults = true; ///< false: what the kernel writes is not looked at
};

/// A launch of a variant with no more parameters than this allocates nothing; those of the library
/// have 4 at most. Likewise for the tensors of a kernel; the library's templates have 5 at most.
constexpr size_t usualParameters = 16, usualTensors = 10;

/// Arguments that fit: what a kernel needs, by position.
struct CheckedArguments {
  Extents extents;
  /// By the signature's tensors. The strides of extents of 1 are 0.
  ShortArray<Tensor, usualTensors> tensors;
  float scale = 1;
  /// By parameter: a scalar's 32 bits (i32 or f32), or 0.
  ShortArray<uint32_t, usualParameters> scalarBits;
  /// By parameter: a capture, or an empty view.
  ShortArray<Tensor, usualParameters> captures;
  bool capturesUnchanged = false; ///< since the kernel's last launch on the stream
};

/// Every rule of LaunchArguments but those of its workspace. The error names the argument, its
/// value, what is expected and what to do. Fills `checked`, whose contents count only on success;
/// then nothing is allocated (usualParameters).
Status checkArguments(const Signature &signature, const LaunchArguments &arguments,
                      const ArgumentRules &rules, CheckedArguments &checked);
Result<CheckedArguments> checkArguments(const Signature &signature,
                                        const LaunchArguments &arguments,
                                        const ArgumentRules &rules);

} // namespace tesela

#endif // TESELA_LAUNCH_CHECKEDARGUMENTS_H
