//===- CApiVariant.cpp - tesela/c/variant.h --------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_variant {
  std::string name, warnings;
  ParameterList parameters;
};

namespace tesela::c {

ParameterList::ParameterList(std::vector<VariantParameter> given) : parameters(std::move(given)) {
  for (const VariantParameter &parameter : parameters) {
    std::vector<tesela_extent> &axes = extents.emplace_back();
    for (const VariantExtent &extent : parameter.extents)
      axes.push_back({extent.name.c_str(), extent.coefficient, extent.offset});
  }
}

Status ParameterList::describe(size_t index, tesela_parameter_info *info) const {
  if (Status status = checkIndex(index, parameters.size(), "parameters"); !status)
    return status;
  const VariantParameter &parameter = parameters[index];
  auto known = zeroed<tesela_parameter_info>();
  known.name = parameter.name.c_str();
  known.type = tesela_type(parameter.type);
  known.is_capture = parameter.isCapture;
  known.is_constant = parameter.isConstant;
  known.has_default = parameter.defaultValue.has_value();
  known.default_value = parameter.defaultValue.value_or(0);
  known.rank = int(extents[index].size());
  known.extents = extents[index].data();
  return writeSized(known, info, "tesela_parameter_info");
}

} // namespace tesela::c

tesela_code tesela_variant_check(const char *text, const char *file, tesela_variant **variant) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(variant, "variant"); !status)
      return status;
    if (!text)
      return invalid("text is NULL: pass the variant's text");
    Result<VariantInfo> info = checkVariant(text, textOr(file, "variant"));
    if (!info)
      return info.error();
    *variant = new tesela_variant{std::move(info->name), std::move(info->warnings),
                                  ParameterList(std::move(info->parameters))};
    return Status::success();
  });
}

void tesela_variant_destroy(tesela_variant *variant) { delete variant; }

const char *tesela_variant_name(const tesela_variant *variant) {
  return variant ? variant->name.c_str() : "";
}

const char *tesela_variant_warnings(const tesela_variant *variant) {
  return variant ? variant->warnings.c_str() : "";
}

size_t tesela_variant_parameter_count(const tesela_variant *variant) {
  return variant ? variant->parameters.count() : 0;
}

tesela_code tesela_variant_parameter(const tesela_variant *variant, size_t index,
                                     tesela_parameter_info *info) {
  return guarded([&]() -> Status {
    if (!variant)
      return noHandle("variant", "tesela_variant_check");
    return variant->parameters.describe(index, info);
  });
}
