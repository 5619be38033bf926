//===- Expressions.cpp - Score and mask as CUDA C++ -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/ExactMath.h"
#include "oracle/Oracle.h"

#include <bit>
#include <cstdio>

namespace tesela {
namespace {

/// The device functions that the generated code calls. The _rn intrinsics are never
/// contracted to a fused multiply-add.
constexpr const char *kArithmetic = R"cuda(
inline __device__ float add(float a, float b) { return __fadd_rn(a, b); }
inline __device__ float subtract(float a, float b) { return __fsub_rn(a, b); }
inline __device__ float multiply(float a, float b) { return __fmul_rn(a, b); }
inline __device__ float divide(float a, float b) { return __fdiv_rn(a, b); }
inline __device__ float squareRoot(float a) { return __fsqrt_rn(a); }
inline __device__ double add(double a, double b) { return __dadd_rn(a, b); }
inline __device__ double subtract(double a, double b) { return __dsub_rn(a, b); }
inline __device__ double multiply(double a, double b) { return __dmul_rn(a, b); }
inline __device__ double divide(double a, double b) { return __ddiv_rn(a, b); }
inline __device__ double squareRoot(double a) { return __dsqrt_rn(a); }

inline __device__ int add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
inline __device__ int subtract(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
inline __device__ int multiply(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
inline __device__ int divide(int a, int b) {
  if (b == 0) return 0;
  if (b == -1) return subtract(0, a);
  int quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}
inline __device__ int remainder(int a, int b) {
  return b == 0 ? 0 : subtract(a, multiply(divide(a, b), b));
}
inline __device__ int magnitude(int a) { return a < 0 ? subtract(0, a) : a; }
inline __device__ float magnitude(float a) { return fabsf(a); }
inline __device__ double magnitude(double a) { return fabs(a); }

template <class T> inline __device__ T minimum(T a, T b) { return b < a || a != a ? b : a; }
template <class T> inline __device__ T maximum(T a, T b) { return b > a || a != a ? b : a; }
template <class R> inline __device__ int toInt(R a) {
  if (a != a) return 0;
  if (a >= (R)2147483648.0) return 2147483647;
  if (a <= (R)-2147483648.0) return -2147483647 - 1;
  return (int)a;
}

// An element as the language sees it, by its type.
struct F32 { static __device__ float at(const void *t, long long i) { return ((const float *)t)[i]; } };
struct I32 { static __device__ int at(const void *t, long long i) { return ((const int *)t)[i]; } };
struct Bool {
  static __device__ bool at(const void *t, long long i) { return ((const unsigned char *)t)[i] != 0; }
};
struct F16 {
  static __device__ float at(const void *t, long long i) {
    int bits = ((const unsigned short *)t)[i], magnitude = (bits & 0x7fff) << 13;
    // A factor of 2^112 moves the exponent's bias from 15 to 127, except of infinity and NaN.
    float x = (bits & 0x7fff) < 0x7c00
                  ? __fmul_rn(__int_as_float(magnitude), __int_as_float(0x77800000))
                  : __int_as_float(magnitude | 0x7f800000);
    return bits & 0x8000 ? -x : x;
  }
};
struct Bf16 {
  static __device__ float at(const void *t, long long i) {
    return __int_as_float((int)((unsigned)((const unsigned short *)t)[i] << 16));
  }
};

template <class T>
inline __device__ auto readCapture(const OracleParameter &t, int rank, const int *indices)
    -> decltype(T::at(nullptr, 0)) {
  long long offset = 0;
  for (int axis = 0; axis < rank; ++axis) {
    long long last = t.extents[axis] - 1, index = indices[axis];
    if (last < 0) return 0;
    index = index < 0 ? 0 : index > last ? last : index;
    offset += index * t.strides[axis];
  }
  return T::at((const void *)t.data, offset);
}
)cuda";

/// An f32 written as its bits, so that no decimal text is rounded.
std::string bitsText(float value) {
  char text[40];
  std::snprintf(text, sizeof text, "__int_as_float(0x%08x)", std::bit_cast<uint32_t>(value));
  return text;
}

/// The arithmetic A of ExactMath.h that writes a CUDA C++ statement for each operation.
/// A value is the name of its variable.
struct TextArithmetic {
  struct F {
    std::string name;
  };
  struct I {
    std::string name;
  };
  struct B {
    std::string name;
  };

  std::string body;
  int count = 0;

  std::string define(const char *type, const std::string &value) {
    std::string name = "t" + std::to_string(count++);
    body += std::string("  const ") + type + " " + name + " = " + value + ";\n";
    return name;
  }
  F real(const std::string &value) { return {define("float", value)}; }
  I whole(const std::string &value) { return {define("int", value)}; }
  B truth(const std::string &value) { return {define("bool", value)}; }

  F constant(float value) { return {bitsText(value)}; }
  I integer(int32_t value) {
    return {"(int)" + std::to_string(static_cast<uint32_t>(value)) + "u"};
  }

  // Values are copied, because ExactMath.h calls these functions with numbers too.
  // NOLINTBEGIN(performance-unnecessary-value-param)
  F add(F a, F b) { return real("add(" + a.name + ", " + b.name + ")"); }
  F subtract(F a, F b) { return real("subtract(" + a.name + ", " + b.name + ")"); }
  F multiply(F a, F b) { return real("multiply(" + a.name + ", " + b.name + ")"); }
  F divide(F a, F b) { return real("divide(" + a.name + ", " + b.name + ")"); }
  F toFloat(I a) { return real("__int2float_rn(" + a.name + ")"); }
  F fromBits(I a) { return real("__int_as_float(" + a.name + ")"); }
  I bits(F a) { return whole("__float_as_int(" + a.name + ")"); }

  I addInt(I a, I b) { return whole("add(" + a.name + ", " + b.name + ")"); }
  I subtractInt(I a, I b) { return whole("subtract(" + a.name + ", " + b.name + ")"); }
  I bitAnd(I a, I b) { return whole(a.name + " & " + b.name); }
  I bitOr(I a, I b) { return whole(a.name + " | " + b.name); }
  I shiftLeft(I a, int32_t by) {
    return whole("(int)((unsigned)" + a.name + " << " + std::to_string(by) + ")");
  }
  I shiftRight(I a, int32_t by) { return whole(a.name + " >> " + std::to_string(by)); }

  B less(F a, F b) { return truth(a.name + " < " + b.name); }
  B equal(F a, F b) { return truth(a.name + " == " + b.name); }
  B equalInt(I a, I b) { return truth(a.name + " == " + b.name); }
  B isNaN(F a) { return truth(a.name + " != " + a.name); }
  F select(B c, F a, F b) { return real(c.name + " ? " + a.name + " : " + b.name); }
  I selectInt(B c, I a, I b) { return whole(c.name + " ? " + a.name + " : " + b.name); }
  // NOLINTEND(performance-unnecessary-value-param)
};

std::string exactFunction(const char *name,
                          TextArithmetic::F (*function)(TextArithmetic &, TextArithmetic::F)) {
  TextArithmetic arithmetic;
  std::string result = function(arithmetic, {"x"}).name;
  return std::string("inline __device__ float ") + name + "(float x) {\n" + arithmetic.body +
         "  return " + result + ";\n}\n";
}

std::string exactFunctions() {
  return exactFunction("exactExp", exactExp<TextArithmetic>) +
         exactFunction("exactLog", exactLog<TextArithmetic>) +
         exactFunction("exactTanh", exactTanh<TextArithmetic>) +
         exactFunction("exactSin", exactSin<TextArithmetic>) +
         exactFunction("exactCos", exactCos<TextArithmetic>);
}

/// The name of the struct of kArithmetic that reads elements of `type`.
const char *elementReader(ElementType type) {
  switch (type) {
  case ElementType::f32:
    return "F32";
  case ElementType::f16:
    return "F16";
  case ElementType::bf16:
    return "Bf16";
  case ElementType::i32:
    return "I32";
  case ElementType::boolean:
    return "Bool";
  case ElementType::e4m3:
    break; // the parser rejects it
  }
  return "";
}

/// Writes one body, with a variable for each node. In a score, R is float or double.
class BodyWriter {
public:
  BodyWriter(const Variant &variant, bool isMask) : variant_(variant), isMask_(isMask) {}

  std::string write(NodeId root) {
    return statements(root, /*reduction=*/-1) + "  return " + name(root) + ";\n";
  }

private:
  static std::string name(NodeId id) { return "n" + std::to_string(id); }
  static std::string index(int32_t reduction) { return "i" + std::to_string(reduction); }

  /// The statements for nodes that `root` needs and that are computed once in a round of
  /// `reduction`.
  std::string statements(NodeId root, int32_t reduction) const {
    std::string text;
    for (NodeId id : variant_.nodesOf(root, reduction)) {
      const Node &node = variant_.nodes[id];
      std::string type = typeText(node.type);
      if (isReduction(node.op))
        text += "  " + type + " " + name(id) + " = " + loop(id);
      else
        text += "  const " + type + " " + name(id) + " = " + value(node) + ";\n";
    }
    return text;
  }

  /// The initial value of a reduction, then the loop over its rounds.
  std::string loop(NodeId id) const {
    const Node &node = variant_.nodes[id];
    std::string i = index(node.integer), bound = operand(node, 0), value = operand(node, 1);
    std::string joined = node.op == Operator::reduceAny   ? name(id) + " || " + value
                         : node.op == Operator::reduceAll ? name(id) + " && " + value
                                                          : "add(" + name(id) + ", " + value + ")";
    return std::string(node.op == Operator::reduceAll ? "1" : "0") + ";\n  for (int " + i +
           " = 0; " + i + " < " + bound + "; ++" + i + ") {\n" +
           statements(node.operands[1], node.integer) + "  " + name(id) + " = " + joined +
           ";\n  }\n";
  }

  const char *typeText(ScalarType type) const {
    if (type == ScalarType::f32)
      return isMask_ ? "float" : "R";
    return type == ScalarType::i32 ? "int" : "bool";
  }

  std::string operand(const Node &node, size_t i) const { return name(node.operands[i]); }
  std::string call(const char *function, const Node &node) const {
    std::string text = std::string(function) + "(";
    for (size_t i = 0; i < node.operands.size(); ++i)
      text += (i ? ", " : "") + operand(node, i);
    return text + ")";
  }
  std::string infix(const char *symbol, const Node &node) const {
    return operand(node, 0) + " " + symbol + " " + operand(node, 1);
  }

  std::string read(const Node &node) const {
    std::string element = elementReader(variant_.parameters[node.integer].type);
    std::string indices;
    for (size_t i = 0; i < node.operands.size(); ++i)
      indices += (i ? ", " : "") + operand(node, i);
    // A lambda, because an array of indices cannot be declared inside an expression.
    return "[&]() { const int indices[] = {" + indices + "}; return readCapture<" + element +
           ">(a.parameters[" + std::to_string(node.integer) + "], " +
           std::to_string(node.operands.size()) + ", indices); }()";
  }

  std::string boundExtent(const BoundExtent &bound) const {
    const CaptureExtent &axis = variant_.axisOf(bound);
    return "(int)((a.parameters[" + std::to_string(bound.parameter) + "].extents[" +
           std::to_string(bound.axis) + "] - (" + std::to_string(axis.offset) + "ll)) / " +
           std::to_string(axis.coefficient) + ")";
  }

  std::string constant(const Node &node) const {
    if (node.type == ScalarType::f32)
      return bitsText(node.number);
    if (node.type == ScalarType::boolean)
      return node.integer ? "true" : "false";
    return "(int)" + std::to_string(static_cast<uint32_t>(node.integer)) + "u";
  }

  std::string value(const Node &node) const {
    switch (node.op) {
    case Operator::constant:
      return constant(node);
    case Operator::score:
      return "s";
    case Operator::index:
      return std::string(kIndexNames[node.integer]);
    case Operator::extent:
      return "a." + std::string(kExtentNames[node.integer]);
    case Operator::boundExtent:
      return boundExtent(variant_.boundExtents[node.integer]);
    case Operator::scalar:
      return "a.parameters[" + std::to_string(node.integer) +
             (node.type == ScalarType::i32 ? "].integer" : "].number");
    case Operator::reduceIndex:
      return index(node.integer);
    case Operator::read:
      return read(node);
    case Operator::toFloat:
      return std::string("(") + typeText(ScalarType::f32) + ")" + operand(node, 0);
    case Operator::toInt:
      return call("toInt", node);
    case Operator::add:
      return call("add", node);
    case Operator::subtract:
      return call("subtract", node);
    case Operator::multiply:
      return call("multiply", node);
    case Operator::divide:
      return call("divide", node);
    case Operator::remainder:
      return call("remainder", node);
    case Operator::negate:
      return node.type == ScalarType::i32 ? "subtract(0, " + operand(node, 0) + ")"
                                          : "-" + operand(node, 0);
    case Operator::absolute:
      return call("magnitude", node);
    case Operator::minimum:
      return call("minimum", node);
    case Operator::maximum:
      return call("maximum", node);
    case Operator::exp:
      return call(isMask_ ? "exactExp" : "exp", node);
    case Operator::log:
      return call(isMask_ ? "exactLog" : "log", node);
    case Operator::sqrt:
      return call("squareRoot", node);
    case Operator::tanh:
      return call(isMask_ ? "exactTanh" : "tanh", node);
    case Operator::sin:
      return call(isMask_ ? "exactSin" : "sin", node);
    case Operator::cos:
      return call(isMask_ ? "exactCos" : "cos", node);
    case Operator::floor:
      return call("floor", node);
    case Operator::less:
      return infix("<", node);
    case Operator::lessEqual:
      return infix("<=", node);
    case Operator::greater:
      return infix(">", node);
    case Operator::greaterEqual:
      return infix(">=", node);
    case Operator::equal:
      return infix("==", node);
    case Operator::notEqual:
      return infix("!=", node);
    case Operator::logicalNot:
      return "!" + operand(node, 0);
    case Operator::logicalAnd:
      return infix("&&", node);
    case Operator::logicalOr:
      return infix("||", node);
    case Operator::select:
      return operand(node, 0) + " ? " + operand(node, 1) + " : " + operand(node, 2);
    case Operator::reduceAny:
    case Operator::reduceAll:
    case Operator::reduceSum:
      break; // these are statements
    }
    return "";
  }

  const Variant &variant_;
  bool isMask_;
};

} // namespace

std::string oracleExpressions(const Variant &variant) {
  return kArithmetic + exactFunctions() +
         "inline __device__ bool oracleMask(const OracleArguments &a, int b, int h, int hkv, int "
         "q, "
         "int k) {\n" +
         BodyWriter(variant, /*isMask=*/true).write(variant.mask) +
         "}\ntemplate <class R>\ninline __device__ R oracleScore(const OracleArguments &a, R s, "
         "int "
         "b, int h, int hkv, int q, int k) {\n" +
         BodyWriter(variant, /*isMask=*/false).write(variant.score) +
         "}\ntemplate <class R>\ninline __device__ R oracleSink(const OracleArguments &a, int b, "
         "int h, int hkv, int q) {\n" +
         (variant.sink == kInvalid ? "  return (R)__int_as_float((int)0xff800000u);\n"
                                   : BodyWriter(variant, /*isMask=*/false).write(variant.sink)) +
         "}\n";
}

} // namespace tesela
