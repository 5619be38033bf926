//===- ReferenceInputs.h - What both references begin with ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_REFERENCEINPUTS_H
#define TESELA_CHECK_REFERENCEINPUTS_H

#include "check/RowReference.h"
#include "frontend/Dropout.h"
#include "frontend/Interpreter.h"
#include "launch/CheckedArguments.h"
#include "tesela/Check.h"

#include <optional>

namespace tesela {

/// A variant and arguments that fit it.
struct ReferenceInputs {
  Variant variant;
  CheckedArguments arguments;
  std::optional<size_t> firstOfDropout; ///< the number of its first parameter; nothing without it
};

/// The parameters of a launch: the variant's, and behind them dropout's where it has one.
std::vector<Parameter> parametersOfLaunch(const KernelOptions &options, const Variant &variant);
/// Where a launch's parameters of dropout begin; nothing without it.
std::optional<size_t> firstOfDropout(const KernelOptions &options, const Variant &variant);

/// The launch's dropout, where it has one. Its state is in host memory.
std::optional<Dropout> dropoutOf(const ReferenceInputs &inputs);

/// Parses the variant and checks the arguments, o and lse left out.
Result<ReferenceInputs> referenceInputs(const KernelOptions &options,
                                        const LaunchArguments &arguments, int alignment);

/// What the interpreter takes. Captures stay where they are.
Bindings bindingsOf(const Variant &variant, const CheckedArguments &arguments);

/// A reference for `rows` of `inputs` with arrays of the right sizes. Code::outOfMemory where the
/// machine has no memory for them.
Result<Reference> emptyReference(const KernelOptions &options, const ReferenceInputs &inputs,
                                 const RowList &rows);

} // namespace tesela

#endif // TESELA_CHECK_REFERENCEINPUTS_H
