//===- CApiGradient.cpp - tesela/c/gradient.h ------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"
#include "tesela/Gradient.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_gradient {
  std::string text, notes;
};

tesela_code tesela_variant_gradient(const tesela_kernel_options *options,
                                    tesela_gradient **gradient) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(gradient, "gradient"); !status)
      return status;
    Result<KernelOptions> chosen = kernelOptions(options);
    if (!chosen)
      return chosen.error();
    Result<VariantGradient> made =
        variantGradient(chosen->variantText, chosen->variantFile, chosen->constants);
    if (!made)
      return made.error();
    *gradient = new tesela_gradient{gradientText(*made), std::move(made->notes)};
    return Status::success();
  });
}

void tesela_gradient_destroy(tesela_gradient *gradient) { delete gradient; }

const char *tesela_gradient_text(const tesela_gradient *gradient) {
  return gradient ? gradient->text.c_str() : "";
}

const char *tesela_gradient_notes(const tesela_gradient *gradient) {
  return gradient ? gradient->notes.c_str() : "";
}
