//===- AttentionTensors.h - The tensors of forward attention ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_ATTENTIONTENSORS_H
#define TESELA_TESTS_ATTENTIONTENSORS_H

#include "tesela/compiler/Artifact.h"

#include <string>
#include <vector>

namespace tesela::test {

/// As templates/forward.mlir declares them, for artifacts that no compiler makes.
inline std::vector<TensorArgument> attentionTensors(ElementType input, int headDimQk,
                                                    int headDimV) {
  using Role = TensorArgument::Role;
  auto axes = [](const std::vector<std::string> &texts) {
    std::vector<std::optional<Expression>> extents;
    for (const std::string &text : texts)
      extents.emplace_back(*Expression::parse(text));
    return extents;
  };
  std::string qk = std::to_string(headDimQk), v = std::to_string(headDimV);
  return {{"q", input, Role::in, axes({"B", "H", "Sq", qk})},
          {"k", input, Role::in, axes({"B", "Hkv", "Sk", qk})},
          {"v", input, Role::in, axes({"B", "Hkv", "Sk", v})},
          {"o", input, Role::out, axes({"B", "H", "Sq", v})},
          {"lse", ElementType::f32, Role::out, axes({"B", "H", "Sq"}), true}};
}

} // namespace tesela::test

#endif // TESELA_TESTS_ATTENTIONTENSORS_H
