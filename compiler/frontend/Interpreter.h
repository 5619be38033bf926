//===- Interpreter.h - The reference of a variant ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Evaluates the syntax tree of a variant for one pair of a query and a key. It
// shares no code with the kernels but ExactMath.h and attn/Arithmetic.h: it is
// what they are checked against.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_INTERPRETER_H
#define TESELA_FRONTEND_INTERPRETER_H

#include "frontend/Variant.h"
#include "tesela/Status.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace tesela {

/// A captured tensor in host memory; its element type is the parameter's. The memory must outlive
/// the interpreter.
struct CaptureView {
  const void *data = nullptr;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides; ///< in elements, one an axis; any sign, or 0
};

/// The value of a parameter: a scalar (an i32 exactly, an f32 as its double), or
/// a captured tensor.
struct Binding {
  double scalar = 0;
  CaptureView capture;
};

/// What a launch gives a variant.
struct Bindings {
  Extents extents;
  std::vector<Binding> parameters; ///< one a parameter, in order
};

/// One pair of a query and a key.
struct Point {
  int32_t b = 0, h = 0, hkv = 0, q = 0, k = 0;
};

/// A read whose index is not inside of its tensor.
struct OutsideRead {
  int32_t parameter = 0; ///< its number in the variant
  int axis = 0;
  int32_t index = 0;  ///< before it is clamped
  int64_t extent = 0; ///< of the axis
};

/// A variant with its parameters bound. All const functions may be called from
/// any thread at the same time.
class Interpreter {
public:
  /// Keeps nothing of `variant`. Errors: Code::invalidArgument where `bindings`
  /// has not one value a parameter, a capture has the wrong number of axes, a
  /// negative extent or no data, or an i32 scalar is no i32. That extents agree
  /// with each other is the launch's to check.
  static Result<Interpreter> create(const Variant &variant, const Bindings &bindings);

  /// Whether the pair is kept. i32 and f32, exactly as every kernel computes it.
  bool mask(const Point &point) const;
  /// How many of the pairs of `first` and of the keys after it are kept, `keys` pairs in all.
  int64_t keptKeys(const Point &first, int64_t keys) const;
  /// Whether the pairs of the query of `point` and each of `count` keys are kept, 1 or 0.
  void keepsKeys(const Point &point, const int32_t *keys, size_t count, uint8_t *keeps) const;
  /// The score as a kernel without approximations would give it: i32 and f32.
  float score(const Point &point, float s) const;
  /// The score for reference: i32 parts wrap as i32, all f32 parts are double.
  double score(const Point &point, double s) const;

  /// Whether there is a sink; where there is none it must not be asked for.
  bool hasSink() const { return !sink_.code.empty(); }
  /// The sink of a row, in double and in f32 as score() is; the point's key does not matter.
  double sink(const Point &point) const;
  float sinkInFloat(const Point &point) const;

  /// Calls `visit` for each axis of each read of the mask, of the score or of the sink that is
  /// outside and whose value counts: not for what `&&`, `||` and `?:` guard.
  using ReadVisitor = std::function<void(const OutsideRead &)>;
  void visitOutsideOfMask(const Point &point, const ReadVisitor &visit) const;
  void visitOutsideOfScore(const Point &point, double s, const ReadVisitor &visit) const;
  void visitOutsideOfSink(const Point &point, const ReadVisitor &visit) const;

  /// As Variant::scoreIsIdentity() and maskIsTrue(): what need not be called.
  bool scoreIsIdentity() const { return scoreIsIdentity_; }
  bool maskIsTrue() const { return maskIsTrue_; }

private:
  /// One node. Its result goes to the slot of its own number. A reduction stands before what it
  /// reduces: the slot of its index, and what is computed in each round.
  struct Instruction {
    Operator op = Operator::constant;
    ScalarType type = ScalarType::i32;        ///< of the result
    ScalarType operandType = ScalarType::i32; ///< of the first operand
    ElementType element = ElementType::f32;   ///< a read: in memory
    int32_t a = 0, b = 0, c = 0;              ///< slots; a read: its first in Program::indices
    int32_t end = 0;                          ///< a reduction: where what it reduces ends
    int32_t integer = 0;
    float number = 0;
  };
  struct Program {
    std::vector<Instruction> code;
    std::vector<int32_t> indices; ///< the slots of reads' indices
    int32_t result = 0;           ///< its slot
    std::vector<int32_t> ofKey;   ///< instructions that give different keys different results
  };

  union Slot;
  class Translation;
  class Slots;
  template <typename Math>
  Slot run(const Program &program, const Point &point, typename Math::Real s) const;
  template <typename Math>
  void step(const Program &program, const Point &point, typename Math::Real s, Slot *slots,
            size_t number) const;
  /// The instructions from `begin` to before `end`.
  template <typename Math>
  void runRange(const Program &program, const Point &point, typename Math::Real s, Slot *slots,
                size_t begin, size_t end) const;
  template <typename Math>
  void visitOutside(const Program &program, const Point &point, typename Math::Real s,
                    const ReadVisitor &visit) const;
  /// Of the instructions from `begin` to before `end`, those that count in `counts`; adds what they
  /// need to it.
  template <typename Math>
  void visitRange(const Program &program, const Point &point, typename Math::Real s, Slot *slots,
                  size_t begin, size_t end, std::vector<bool> &counts,
                  const ReadVisitor &visit) const;
  template <typename Math>
  void reduce(const Program &program, const Point &point, typename Math::Real s, Slot *slots,
              size_t number) const;

  Extents extents_;
  std::vector<Binding> parameters_;
  Program mask_, score_, sink_;
  bool scoreIsIdentity_ = false, maskIsTrue_ = false;
};

} // namespace tesela

#endif // TESELA_FRONTEND_INTERPRETER_H
