//===- InterpreterRoundoff.cpp - How exact a score can be -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Runs a score in double, and beside each value a bound of the error that it has in a kernel: each
// operation adds its own rounding (docs/numerics.md) to what it makes of its operands' errors. So
// the bound is large where large terms cancel: 1 - exp(log(x)) / x is 0, but a kernel's result is
// only near 0.
//
// Terms of second order are left out. s is taken as exact, because Reference::base has the effect
// of its rounding.
//
//===----------------------------------------------------------------------===//
#include "frontend/InterpreterArithmetic.h"

#include <limits>
#include <vector>

namespace tesela {

class Interpreter::Roundoffs {
public:
  Roundoffs(const Interpreter &interpreter, const Program &program, const Point &point, double s)
      : interpreter(interpreter), program(program), point(point), s(s), slots(program.code.size()),
        errors(program.code.size()) {
    runRange(0, program.code.size());
  }

  RoundedNumber result() const {
    return {slots[size_t(program.result)].d, errors[size_t(program.result)]};
  }

private:
  /// The unit roundoff of f32.
  static constexpr double unit = 0x1p-24;

  const Interpreter &interpreter;
  const Program &program;
  const Point point;
  const double s;
  std::vector<Slot> slots;
  std::vector<double> errors; ///< of f32 values; 0 for others

  void runRange(size_t begin, size_t end) {
    for (size_t number = begin; number < end;) {
      const Instruction &instruction = program.code[number];
      if (instruction.op == Operator::reduceSum && instruction.type == ScalarType::f32) {
        sum(instruction, number);
      } else {
        interpreter.step<LibraryMath<double>>(program, point, s, slots.data(), number);
        if (instruction.type == ScalarType::f32)
          errors[number] = errorOf(instruction, slots[number].d);
      }
      number = isReduction(instruction.op) ? size_t(instruction.end) : number + 1;
    }
  }

  void sum(const Instruction &instruction, size_t number) {
    double whole = 0, error = 0;
    int32_t bound = slots[size_t(instruction.a)].i;
    for (int32_t i = 0; i < bound; ++i) {
      slots[number + 1].i = i;
      runRange(number + 2, size_t(instruction.end));
      whole += slots[size_t(instruction.b)].d;
      error += errors[size_t(instruction.b)] + unit * std::fabs(whole);
    }
    slots[number].d = whole;
    errors[number] = error;
  }

  /// What an operand's error becomes if the result changes `slope` times as fast. Without an error
  /// it is 0, however large the slope is.
  static double scaled(double error, double slope) {
    return error == 0 ? 0 : error * std::fabs(slope);
  }

  double errorOf(const Instruction &instruction, double result) const {
    if (instruction.op == Operator::read) // its `a` is no slot
      return 0;
    double a = slots[size_t(instruction.a)].d, b = slots[size_t(instruction.b)].d;
    double ofA = errors[size_t(instruction.a)], ofB = errors[size_t(instruction.b)];
    double size = std::fabs(result);
    switch (instruction.op) {
    case Operator::toFloat:
      return unit * size;
    case Operator::add:
    case Operator::subtract: // the terms of a score are added in another order
      return ofA + ofB + unit * (std::fabs(a) + std::fabs(b));
    case Operator::multiply:
      return scaled(ofA, b) + scaled(ofB, a) + unit * size;
    case Operator::divide:
      return scaled(ofA, 1 / b) + scaled(ofB, result / b) + 4 * unit * size;
    case Operator::negate:
    case Operator::absolute:
      return ofA;
    case Operator::minimum:
    case Operator::maximum:
      return std::max(ofA, ofB);
    case Operator::select:
      return slots[size_t(instruction.a)].i ? ofB : errors[size_t(instruction.c)];
    case Operator::exp:
      return scaled(ofA, result) + (3 + 1.45 * std::fabs(a)) * unit * size;
    case Operator::log:
      return scaled(ofA, 1 / a) + 5 * unit * std::max(size, 1.0);
    case Operator::sqrt:
      return scaled(ofA, 0.5 / result) + unit * size;
    case Operator::tanh:
      return scaled(ofA, 1 - result * result) + 0x1p-11 * size;
    case Operator::sin:
    case Operator::cos:
      return ofA + 2 * unit;
    default: // constants and s are exact; floor is constant between its steps
      return 0;
    }
  }
};

RoundedNumber Interpreter::roundedScore(const Point &point, double s) const {
  RoundedNumber result = Roundoffs(*this, score_, point, s).result();
  if (std::isnan(result.roundoff))
    result.roundoff = std::numeric_limits<double>::infinity();
  return result;
}

} // namespace tesela
