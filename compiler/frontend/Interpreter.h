//===- Interpreter.h - The reference of a variant ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Evaluates the syntax tree of a variant for one pair of a query and a key.
// It is the reference for the kernels, and shares no code with them except
// ExactMath.h and attn/Arithmetic.h.
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
  std::vector<int64_t> strides; ///< in elements, one for each axis; any sign, or 0
};

/// The value of a parameter: a scalar (an i32 or f32, which a double represents
/// exactly), or a captured tensor.
struct Binding {
  double scalar = 0;
  CaptureView capture;
};

/// The arguments of a launch that a variant uses.
struct Bindings {
  Extents extents;
  std::vector<Binding> parameters; ///< one for each parameter, in order
};

/// One pair of a query and a key.
struct Point {
  int32_t b = 0, h = 0, hkv = 0, q = 0, k = 0;
};

/// A read with an index outside its tensor.
struct OutsideRead {
  int32_t parameter = 0; ///< its number in the variant
  int axis = 0;
  int32_t index = 0;  ///< before clamping
  int64_t extent = 0; ///< of the axis
};

/// A number, and how far the result of a kernel may be from it.
struct RoundedNumber {
  double value = 0;
  double roundoff = 0; ///< infinite where the number has no bound, as near 1 / 0
};

/// A variant with values for its parameters. All const functions may be called
/// from several threads at the same time.
class Interpreter {
public:
  /// Keeps no reference to `variant`. Errors: Code::invalidArgument if `bindings`
  /// does not have exactly one value for each parameter; if a captured tensor has a
  /// wrong number of axes, a negative extent or no data; if the value of an i32 is
  /// no i32. Whether extents agree with each other is checked by the launch, not here.
  static Result<Interpreter> create(const Variant &variant, const Bindings &bindings);

  /// Whether the pair is kept: computed in i32 and f32, exactly as in every kernel.
  bool mask(const Point &point) const;
  /// The number of kept pairs among `keys` pairs: `first`, and those of the keys that follow.
  int64_t keptKeys(const Point &first, int64_t keys) const;
  /// Sets keeps[i] to 1 if the pair of queries[i] and keys[i] is kept, and to 0 if not. `where`
  /// gives batch and heads. Each instruction runs for many pairs at once.
  void keepsPairs(const Point &where, const int32_t *queries, const int32_t *keys, size_t count,
                  uint8_t *keeps) const;
  /// The score in i32 and f32, as a kernel without approximations would compute it.
  float score(const Point &point, float s) const;
  /// The reference of the score: i32 parts wrap as i32, f32 parts are computed in double.
  double score(const Point &point, double s) const;
  /// The same value, with a bound of the error that f32 and a GPU's approximations leave.
  RoundedNumber roundedScore(const Point &point, double s) const;

  /// Whether there is a sink. If not, sink() and sinkInFloat() must not be called.
  bool hasSink() const { return !sink_.code.empty(); }
  /// The sink of a row, in double and in f32 as for score(). The point's key is ignored.
  double sink(const Point &point) const;
  float sinkInFloat(const Point &point) const;

  /// Calls `visit` for each axis of each read of the mask (score, sink) whose index is outside the
  /// tensor. Skips reads whose value is not used because of `&&`, `||` or `?:`.
  using ReadVisitor = std::function<void(const OutsideRead &)>;
  void visitOutsideOfMask(const Point &point, const ReadVisitor &visit) const;
  void visitOutsideOfScore(const Point &point, double s, const ReadVisitor &visit) const;
  void visitOutsideOfSink(const Point &point, const ReadVisitor &visit) const;

  /// As in Variant: if they are true, the score or the mask need not be called.
  bool scoreIsIdentity() const { return scoreIsIdentity_; }
  bool maskIsTrue() const { return maskIsTrue_; }

private:
  /// One node. Its result goes to the slot with its own number. After a reduction come the slot of
  /// its index and the instructions that are computed in each round.
  struct Instruction {
    Operator op = Operator::constant;
    ScalarType type = ScalarType::i32;        ///< of the result
    ScalarType operandType = ScalarType::i32; ///< of the first operand
    ElementType element = ElementType::f32;   ///< of a read: the type in memory
    int32_t a = 0, b = 0, c = 0;              ///< slots; of a read: its first in Program::indices
    int32_t end = 0;                          ///< of a reduction: the end of its instructions
    int32_t integer = 0;
    float number = 0;
  };
  struct Program {
    std::vector<Instruction> code;
    std::vector<int32_t> indices; ///< the slots of reads' indices
    int32_t result = 0;           ///< the slot of the result
    std::vector<int32_t> ofKey;   ///< instructions whose results depend on the key
  };

  union Slot;
  class Translation;
  class Slots;
  class Pairs;
  class Roundoffs;
  template <typename Math>
  Slot run(const Program &program, const Point &point, typename Math::Real s) const;
  template <typename Math>
  void step(const Program &program, const Point &point, typename Math::Real s, Slot *slots,
            size_t number) const;
  /// Runs the instructions from `begin` to `end` - 1.
  template <typename Math>
  void runRange(const Program &program, const Point &point, typename Math::Real s, Slot *slots,
                size_t begin, size_t end) const;
  template <typename Math>
  void visitOutside(const Program &program, const Point &point, typename Math::Real s,
                    const ReadVisitor &visit) const;
  /// Visits the instructions from `begin` to `end` - 1 that are set in `counts`, and sets there the
  /// instructions that they need.
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
