//===- ReferenceInputs.h - What both references need ------------*- C++ -*-===//
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

/// A variant, and arguments that were checked against it.
struct ReferenceInputs {
  Variant variant;
  CheckedArguments arguments;
  std::optional<size_t> firstOfDropout; ///< index of the first parameter of dropout; nullopt
                                        ///< without dropout
};

/// The parameters of a launch: the variant's, then dropout's if it has dropout.
std::vector<Parameter> parametersOfLaunch(const KernelOptions &options, const Variant &variant);
/// The index of the first parameter of dropout; nullopt without dropout.
std::optional<size_t> firstOfDropout(const KernelOptions &options, const Variant &variant);

/// The launch's dropout, if it has dropout. Its state is in host memory.
std::optional<Dropout> dropoutOf(const ReferenceInputs &inputs);

/// Parses the variant and checks the arguments, except o and lse.
Result<ReferenceInputs> referenceInputs(const KernelOptions &options,
                                        const LaunchArguments &arguments, int alignment);

/// The arguments of the interpreter. Captured tensors are not copied.
Bindings bindingsOf(const Variant &variant, const CheckedArguments &arguments);

/// A reference for `rows` of `inputs`, with arrays of the right sizes. Code::outOfMemory: the
/// machine has too little memory for them.
Result<Reference> emptyReference(const KernelOptions &options, const ReferenceInputs &inputs,
                                 const RowList &rows);

} // namespace tesela

#endif // TESELA_CHECK_REFERENCEINPUTS_H
