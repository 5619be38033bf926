//===- Variant.h - A checked variant: its typed syntax tree -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The expressions of a variant are nodes of one array, operands before their
// users. So code that reads them walks the array and needs no recursion. A `let`
// is not a node: its users refer to the node of its value, so the tree is a graph.
// Conversions are nodes, and every node has its final type.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_VARIANT_H
#define TESELA_FRONTEND_VARIANT_H

#include "frontend/Diagnostics.h"
#include "tesela/compiler/Artifact.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// The largest number of axes of a captured tensor.
inline constexpr size_t kMaxRank = 8;

/// A node's type.
enum class ScalarType : uint8_t { i32, f32, boolean };
/// "i32", "f32", "bool".
std::string_view typeName(ScalarType type);
/// The type of an element in expressions: f16 and bf16 are widened to f32, exactly.
ScalarType elementScalar(ElementType type);

/// The indices and extents in scope, in the order of their names below.
enum class Index : uint8_t { b, h, hkv, q, k };
enum class Extent : uint8_t { B, H, Hkv, Sq, Sk };
inline constexpr std::string_view kIndexNames[] = {"b", "h", "hkv", "q", "k"};
inline constexpr std::string_view kExtentNames[] = {"B", "H", "Hkv", "Sq", "Sk"};

/// The operation of a node. "T" is the node's type. Unless noted, the operands
/// have it, too.
enum class Operator : uint8_t {
  constant,    ///< T; `integer` for i32 and bool (0, 1), `number` for f32
  score,       ///< f32; `s`, scale * q.k
  index,       ///< i32; `integer` is an Index
  extent,      ///< i32; `integer` is an Extent
  boundExtent, ///< i32; `integer` is the number of a BoundExtent
  scalar,      ///< i32 or f32; `integer` is the parameter's number
  read, ///< elementScalar(); `integer` is the parameter's number, operands are the i32 indices

  toFloat, ///< i32 -> f32, to nearest even
  toInt,   ///< f32 -> i32, rounds towards zero and saturates; 0 for NaN

  add,
  subtract,
  multiply,  ///< i32 (wraps) or f32 (IEEE)
  divide,    ///< i32: floor(a / b), 0 if b is 0, wraps; f32: IEEE
  remainder, ///< i32 only: a - floor(a / b) * b, 0 if b is 0
  negate,
  absolute, ///< i32 (wraps) or f32 (changes the sign bit only)
  minimum,  ///< i32, or f32: (b < a || isnan(a)) ? b : a
  maximum,  ///< i32, or f32: (b > a || isnan(a)) ? b : a

  exp,
  log,
  sqrt,
  tanh,
  sin,
  cos,
  floor, ///< f32

  less,
  lessEqual,
  greater,
  greaterEqual, ///< bool, of two i32 or two f32 (false with NaN)
  equal,
  notEqual, ///< bool, of two i32, f32 (IEEE: NaN differs from all) or bool
  logicalNot,
  logicalAnd,
  logicalOr, ///< bool
  select,    ///< T; operands are the bool condition, the value if true, the value if false

  // Reductions over i = 0 to bound - 1. The operands are the i32 bound, which is the same for the
  // whole launch, and the value at i. `integer` is the reduction's number; outer ones come first.
  reduceIndex, ///< i32; i of reduction `integer`
  reduceAny,
  reduceAll, ///< bool
  reduceSum, ///< i32 (wraps) or f32, from 0 on, in the order of i
};

using NodeId = int32_t;
/// No node: an expression with an error, or one that the text does not have.
inline constexpr NodeId kInvalid = -1;

bool isReduction(Operator op);

struct Node {
  Operator op = Operator::constant;
  ScalarType type = ScalarType::i32;
  int32_t integer = 0;
  float number = 0;
  std::vector<NodeId> operands; ///< each smaller than the node's own number
  SourceLocation location;
  bool dependsOnScore = false; ///< the value depends on `s`
  uint8_t indices = 0;         ///< bit n: the value depends on Index n
  /// The reductions on whose indices the value depends, outermost first. A reduction's own index is
  /// not among them.
  std::vector<int32_t> reductions;

  /// The innermost reduction in which the value changes from round to round; -1 if there is none.
  int32_t innermostReduction() const { return reductions.empty() ? -1 : reductions.back(); }
};

/// A name that the shape of a captured tensor binds: the `M` of `at: i32[2*M+1]`. Its value belongs
/// to the launch, like the extents. Other axes may name it, too; a launch checks that they agree.
struct BoundExtent {
  std::string name;
  int32_t parameter = 0; ///< the number of the first captured tensor that names it
  int32_t axis = 0;      ///< the first axis of that tensor that names it
};

/// A variant that has passed every check of the language.
struct Variant {
  std::string name;
  std::string file; ///< as given to the parser, for locations
  SourceLocation location;
  std::vector<Parameter> parameters; ///< in the order they are written
  std::vector<BoundExtent> boundExtents;
  std::vector<Node> nodes;
  NodeId score = 0;          ///< f32; the node of `s` if the text has no score
  NodeId mask = 0;           ///< bool; the constant true if the text has no mask
  bool scoreIsExact = false; ///< the score is computed like a mask
  NodeId sink = kInvalid;    ///< f32, depends on b h hkv q; kInvalid if there is no sink

  /// Whether the score is `s` itself.
  bool scoreIsIdentity() const { return nodes[score].op == Operator::score; }
  /// Whether the mask is the constant true, so that nothing is masked.
  bool maskIsTrue() const {
    return nodes[mask].op == Operator::constant && nodes[mask].integer != 0;
  }
  /// The axis that binds the extent. The axis has the extent coefficient * value + offset.
  const CaptureExtent &axisOf(const BoundExtent &bound) const {
    return parameters[bound.parameter].extents[bound.axis];
  }
  /// `root` and all nodes that it depends on, operands first.
  std::vector<NodeId> nodesOf(NodeId root) const;
  /// Those of nodesOf(root) that are computed once in each round of `reduction`; if it is -1, those
  /// outside all reductions. For a reduction among them, nodesOf(its second operand, its number)
  /// gives the nodes inside it.
  std::vector<NodeId> nodesOf(NodeId root, int32_t reduction) const;
  /// Whether the score's text has an infinity, so that the score may be -inf and act as a mask.
  bool scoreMayMask() const;
};

} // namespace tesela

#endif // TESELA_FRONTEND_VARIANT_H
