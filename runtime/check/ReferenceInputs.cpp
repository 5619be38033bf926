//===- ReferenceInputs.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/ReferenceInputs.h"

#include "api/State.h"
#include "frontend/Constants.h"
#include "tesela/Device.h"

#include <fmt/format.h>

#include <bit>

namespace tesela {

Result<ReferenceInputs> referenceInputs(const KernelOptions &options,
                                        const LaunchArguments &arguments, int alignment) {
  if (Status status = checkIsAttention(options, "a reference"); !status)
    return status.error();
  KernelOptions anywhere = options;
  anywhere.target = "host"; // a reference does not depend on the target
  if (Result<KernelSpecification> valid = makeSpecification(anywhere, "host"); !valid)
    return valid.error();
  Result<Variant> variant =
      parseVariant(options.variantText, options.variantFile, constantsOf(options));
  if (!variant)
    return variant.error();
  Signature signature =
      Signature::ofAttention(options.inputType, options.headDimQk, options.headDimV,
                             parametersOfLaunch(options, *variant));
  Result<CheckedArguments> checked = checkArguments(signature, arguments, {alignment, false});
  if (!checked)
    return checked.error();
  std::optional<size_t> first = firstOfDropout(options, *variant);
  return ReferenceInputs{std::move(*variant), std::move(*checked), first};
}

std::vector<Parameter> parametersOfLaunch(const KernelOptions &options, const Variant &variant) {
  std::vector<Parameter> parameters = variant.parameters;
  if (options.dropout)
    for (Parameter &parameter : dropoutParameters())
      parameters.push_back(std::move(parameter));
  return parameters;
}

std::optional<size_t> firstOfDropout(const KernelOptions &options, const Variant &variant) {
  return options.dropout ? std::optional(variant.parameters.size()) : std::nullopt;
}

std::optional<Dropout> dropoutOf(const ReferenceInputs &inputs) {
  if (!inputs.firstOfDropout)
    return std::nullopt;
  uint32_t scalars[dropoutScalarCount] = {};
  for (size_t i = 0; i < dropoutScalarCount; ++i)
    scalars[i] = inputs.arguments.scalarBits[*inputs.firstOfDropout + i];
  const Tensor &state = inputs.arguments.captures[*inputs.firstOfDropout + dropoutScalarCount];
  int32_t words[dropoutStateWords] = {}; // a missing state counts as zeros
  for (int64_t i = 0; i < state.extents[0]; ++i)
    words[i] = static_cast<const int32_t *>(state.data)[i * state.strides[0]];
  return Dropout::ofScalars(scalars, words);
}

Bindings bindingsOf(const Variant &variant, const CheckedArguments &arguments) {
  Bindings bound{arguments.extents, {}};
  for (size_t i = 0; i < variant.parameters.size(); ++i) {
    const Parameter &parameter = variant.parameters[i];
    Binding &binding = bound.parameters.emplace_back();
    uint32_t bits = arguments.scalarBits[i];
    if (parameter.isCapture) {
      const Tensor &tensor = arguments.captures[i];
      binding.capture.data = tensor.data;
      binding.capture.extents.assign(tensor.extents.begin(), tensor.extents.begin() + tensor.rank);
      binding.capture.strides.assign(tensor.strides.begin(), tensor.strides.begin() + tensor.rank);
    } else {
      binding.scalar = parameter.type == ElementType::i32 ? double(int32_t(bits))
                                                          : double(std::bit_cast<float>(bits));
    }
  }
  return bound;
}

Result<Reference> emptyReference(const KernelOptions &options, const ReferenceInputs &inputs,
                                 const RowList &list) {
  Reference reference;
  const Extents &extents = inputs.arguments.extents;
  reference.B = list ? 1 : extents.B;
  reference.H = list ? 1 : extents.H;
  reference.Sq = list ? int64_t(list->size()) : extents.Sq;
  double needed = double(reference.B) * double(reference.H) * double(reference.Sq) *
                  double(3 * options.headDimV + 2) * sizeof(double);
  int64_t machine = hostDevice().memoryBytes;
  if (needed > double(machine))
    return Error(
        Code::outOfMemory,
        fmt::format("the reference takes {:.1f} GiB, this machine has {:.1f} GiB of memory: "
                    "make the batch, the heads or the queries fewer",
                    needed / (1 << 30), double(machine) / (1 << 30)));
  reference.Dv = options.headDimV;
  reference.type = options.inputType;
  size_t rows = size_t(reference.B * reference.H * reference.Sq);
  reference.ref.resize(rows * reference.Dv);
  reference.base.resize(rows * reference.Dv);
  reference.magnitude.resize(rows * reference.Dv);
  reference.lse.resize(rows);
  reference.termNorm.resize(rows);
  for (NodeId node : inputs.variant.nodesOf(inputs.variant.score))
    reference.scoreUsesTanh |= inputs.variant.nodes[node].op == Operator::tanh;
  return reference;
}

} // namespace tesela
