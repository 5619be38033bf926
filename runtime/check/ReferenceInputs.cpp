//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/ReferenceInputs.h"

#include "frontend/Parser.h"

namespace tesela {

Result<ReferenceInputs> referenceInputs(const KernelOptions &options,
                                        const LaunchArguments &arguments, int alignment) {
  Result<Variant> variant = parseVariant(options.variantText, options.variantFile);
  if (!variant)
    return variant.error();
  Signature signature{options.inputType, options.headDimQk, options.headDimV, variant->parameters};
  Result<CheckedArguments> checked = checkArguments(signature, arguments, {alignment, false});
  if (!checked)
    return checked.error();
  return ReferenceInputs{std::move(*variant), std::move(*checked)};
}

Reference emptyReference(const KernelOptions &options, const ReferenceInputs &inputs) {
  const Extents &extents = inputs.arguments.extents;
  Reference reference;
  reference.B = extents.B;
  reference.H = extents.H;
  reference.Sq = extents.Sq;
  reference.Dv = options.headDimV;
  reference.type = options.inputType;
  size_t rows = size_t(reference.B * reference.H * reference.Sq);
  reference.ref.resize(rows * reference.Dv);
  reference.base.resize(rows * reference.Dv);
  reference.magnitude.resize(rows * reference.Dv);
  reference.lse.resize(rows);
  for (NodeId node : inputs.variant.nodesOf(inputs.variant.score))
    reference.scoreUsesTanh |= inputs.variant.nodes[node].op == Operator::tanh;
  return reference;
}

} // namespace tesela
