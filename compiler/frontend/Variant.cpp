//===- Variant.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Variant.h"

#include <cmath>

namespace tesela {

std::string_view typeName(ScalarType type) {
  switch (type) {
  case ScalarType::i32:
    return "i32";
  case ScalarType::f32:
    return "f32";
  case ScalarType::boolean:
    return "bool";
  }
  return "";
}

bool isReduction(Operator op) {
  return op == Operator::reduceAny || op == Operator::reduceAll || op == Operator::reduceSum;
}

ScalarType elementScalar(ElementType type) {
  switch (type) {
  case ElementType::i32:
    return ScalarType::i32;
  case ElementType::boolean:
    return ScalarType::boolean;
  case ElementType::f32:
  case ElementType::f16:
  case ElementType::bf16:
  case ElementType::e4m3:
    return ScalarType::f32;
  }
  return ScalarType::f32;
}

std::vector<NodeId> Variant::nodesOf(NodeId root) const {
  std::vector<bool> needed(static_cast<size_t>(root) + 1, false);
  needed[root] = true;
  // Operands have smaller numbers than their users.
  for (NodeId id = root; id >= 0; --id)
    if (needed[id])
      for (NodeId operand : nodes[id].operands)
        needed[operand] = true;
  std::vector<NodeId> result;
  for (NodeId id = 0; id <= root; ++id)
    if (needed[id])
      result.push_back(id);
  return result;
}

std::vector<NodeId> Variant::nodesOf(NodeId root, int32_t reduction) const {
  std::vector<NodeId> result = nodesOf(root);
  std::erase_if(result, [&](NodeId id) { return nodes[id].innermostReduction() != reduction; });
  return result;
}

bool Variant::scoreMayMask() const {
  for (NodeId id : nodesOf(score))
    if (nodes[id].op == Operator::constant && std::isinf(nodes[id].number))
      return true;
  return false;
}

} // namespace tesela
