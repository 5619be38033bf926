//===- Interpreter.cpp - Evaluates a variant --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Runs the program of a mask, a score or a sink for one pair (InterpreterTranslation.cpp makes the
// programs), and finds the reads of the pair that are outside of their tensors.
//
//===----------------------------------------------------------------------===//
#include "frontend/Interpreter.h"

#include "frontend/InterpreterArithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

namespace tesela {

template <typename Math>
void Interpreter::step(const Program &program, const Point &point, typename Math::Real s,
                       Slot *slots, size_t number) const {
  using Real = typename Math::Real;
  const Instruction &instruction = program.code[number];
  Slot &result = slots[number];
  auto real = [](Slot &slot) -> Real & {
    if constexpr (std::is_same_v<Real, float>)
      return slot.f;
    else
      return slot.d;
  };
  Slot &a = slots[instruction.a], &b = slots[instruction.b], &c = slots[instruction.c];

  switch (instruction.op) {
  case Operator::constant:
    if (instruction.type == ScalarType::f32)
      real(result) = instruction.number;
    else
      result.i = instruction.integer;
    return;
  case Operator::score:
    real(result) = s;
    return;
  case Operator::index:
    result.i = indexOf(point, instruction.integer);
    return;
  case Operator::reduceIndex: // the reduction sets it
    return;
  case Operator::reduceAny:
  case Operator::reduceAll:
  case Operator::reduceSum:
    return reduce<Math>(program, point, s, slots, number);
  case Operator::read: {
    const CaptureView &capture = parameters_[instruction.integer].capture;
    int64_t offset = 0;
    bool isEmpty = false;
    for (size_t axis = 0; axis < capture.extents.size(); ++axis) {
      int64_t index = slots[program.indices[instruction.a + axis]].i;
      isEmpty |= capture.extents[axis] == 0;
      index = std::max<int64_t>(0, std::min(index, capture.extents[axis] - 1));
      offset += index * capture.strides[axis];
    }
    if (instruction.type == ScalarType::f32)
      real(result) = isEmpty ? 0 : loadNumber(capture.data, instruction.element, offset);
    else
      result.i = isEmpty ? 0 : loadInteger(capture.data, instruction.element, offset);
    return;
  }
  case Operator::toFloat:
    real(result) = static_cast<Real>(a.i);
    return;
  case Operator::toInt:
    result.i = attn::saturatingInt(real(a));
    return;
  case Operator::sqrt:
    real(result) = std::sqrt(real(a));
    return;
  case Operator::floor:
    real(result) = std::floor(real(a));
    return;
  case Operator::exp:
  case Operator::log:
  case Operator::tanh:
  case Operator::sin:
  case Operator::cos:
    real(result) = transcendental<Math>(instruction.op, real(a));
    return;
  case Operator::less:
  case Operator::lessEqual:
  case Operator::greater:
  case Operator::greaterEqual:
  case Operator::equal:
  case Operator::notEqual:
    result.i = instruction.operandType == ScalarType::f32
                   ? compare(instruction.op, real(a), real(b))
                   : compare(instruction.op, a.i, b.i);
    return;
  case Operator::logicalNot:
    result.i = !a.i;
    return;
  case Operator::logicalAnd:
    result.i = a.i & b.i;
    return;
  case Operator::logicalOr:
    result.i = a.i | b.i;
    return;
  case Operator::select:
    result = a.i ? b : c;
    return;
  default:
    if (instruction.type == ScalarType::f32)
      real(result) = floatArithmetic(instruction.op, real(a), real(b));
    else
      result.i = integerArithmetic(instruction.op, a.i, b.i);
  }
}

/// InterpreterRoundoff.cpp uses it, too.
template void Interpreter::step<LibraryMath<double>>(const Program &, const Point &, double, Slot *,
                                                     size_t) const;

template <typename Math>
void Interpreter::reduce(const Program &program, const Point &point, typename Math::Real s,
                         Slot *slots, size_t number) const {
  using Real = typename Math::Real;
  const Instruction &instruction = program.code[number];
  const Slot &value = slots[instruction.b];
  int32_t bound = slots[instruction.a].i;
  bool flag = instruction.op == Operator::reduceAll;
  int32_t whole = 0;
  Real real = 0;
  for (int32_t i = 0; i < bound; ++i) {
    slots[number + 1].i = i;
    runRange<Math>(program, point, s, slots, number + 2, instruction.end);
    if (instruction.op == Operator::reduceAny)
      flag |= value.i != 0;
    else if (instruction.op == Operator::reduceAll)
      flag &= value.i != 0;
    else if (instruction.type == ScalarType::i32)
      whole = attn::wrappingAdd(whole, value.i);
    else if constexpr (std::is_same_v<Real, float>)
      real += value.f;
    else
      real += value.d;
  }
  Slot &result = slots[number];
  if (instruction.type == ScalarType::boolean)
    result.i = flag;
  else if (instruction.type == ScalarType::i32)
    result.i = whole;
  else if constexpr (std::is_same_v<Real, float>)
    result.f = real;
  else
    result.d = real;
}

template <typename Math>
void Interpreter::runRange(const Program &program, const Point &point, typename Math::Real s,
                           Slot *slots, size_t begin, size_t end) const {
  for (size_t number = begin; number < end;) {
    step<Math>(program, point, s, slots, number);
    const Instruction &instruction = program.code[number];
    number = isReduction(instruction.op) ? size_t(instruction.end) : number + 1;
  }
}

/// The slots of a program, one for each instruction.
class Interpreter::Slots {
public:
  explicit Slots(const Program &program) {
    few[0].d = 0; // constants have no operands and read this slot
    if (program.code.size() > few.size())
      many.reset(new Slot[program.code.size()]);
  }
  Slot *data() { return many ? many.get() : few.data(); }

private:
  // Enough for nearly every variant. Larger programs need an allocation.
  std::array<Slot, 64> few;
  std::unique_ptr<Slot[]> many;
};

template <typename Math>
Interpreter::Slot Interpreter::run(const Program &program, const Point &point,
                                   typename Math::Real s) const {
  Slots slots(program);
  runRange<Math>(program, point, s, slots.data(), 0, program.code.size());
  return slots.data()[program.result];
}

template <typename Math>
void Interpreter::visitRange(const Program &program, const Point &point, typename Math::Real s,
                             Slot *slots, size_t begin, size_t end, std::vector<bool> &counts,
                             const ReadVisitor &visit) const {
  std::vector<size_t> numbers;
  for (size_t number = begin; number < end;) {
    numbers.push_back(number);
    const Instruction &instruction = program.code[number];
    number = isReduction(instruction.op) ? size_t(instruction.end) : number + 1;
  }
  // Backwards: users come before their operands.
  for (size_t at = numbers.size(); at-- > 0;) {
    size_t number = numbers[at];
    const Instruction &instruction = program.code[number];
    if (!counts[number])
      continue;
    switch (instruction.op) {
    case Operator::constant:
    case Operator::score:
    case Operator::index:
    case Operator::reduceIndex:
      continue;
    case Operator::read: {
      const CaptureView &capture = parameters_[instruction.integer].capture;
      for (size_t axis = 0; axis < capture.extents.size(); ++axis) {
        int32_t slot = program.indices[instruction.a + axis], index = slots[slot].i;
        counts[slot] = true;
        if (index < 0 || index >= capture.extents[axis])
          visit({instruction.integer, int(axis), index, capture.extents[axis]});
      }
      continue;
    }
    case Operator::logicalAnd:
    case Operator::logicalOr: {
      bool isDecided = (slots[instruction.a].i != 0) == (instruction.op == Operator::logicalOr);
      counts[instruction.a] = true;
      counts[instruction.b] = counts[instruction.b] || !isDecided;
      continue;
    }
    case Operator::select:
      counts[instruction.a] = true;
      counts[slots[instruction.a].i ? instruction.b : instruction.c] = true;
      continue;
    case Operator::reduceAny:
    case Operator::reduceAll:
    case Operator::reduceSum:
      counts[instruction.a] = true;
      for (int32_t i = 0; i < slots[instruction.a].i; ++i) {
        slots[number + 1].i = i;
        runRange<Math>(program, point, s, slots, number + 2, instruction.end);
        std::fill(counts.begin() + number + 1, counts.begin() + instruction.end, false);
        counts[instruction.b] = true;
        visitRange<Math>(program, point, s, slots, number + 2, instruction.end, counts, visit);
      }
      continue;
    default:
      counts[instruction.a] = true;
      counts[instruction.b] = true;
    }
  }
}

template <typename Math>
void Interpreter::visitOutside(const Program &program, const Point &point, typename Math::Real s,
                               const ReadVisitor &visit) const {
  std::vector<Slot> slots(program.code.size());
  std::vector<bool> counts(program.code.size(), false);
  runRange<Math>(program, point, s, slots.data(), 0, slots.size());
  counts[program.result] = true;
  visitRange<Math>(program, point, s, slots.data(), 0, slots.size(), counts, visit);
}

void Interpreter::visitOutsideOfMask(const Point &point, const ReadVisitor &visit) const {
  visitOutside<ExactMath>(mask_, point, 0.0f, visit);
}

void Interpreter::visitOutsideOfScore(const Point &point, double s,
                                      const ReadVisitor &visit) const {
  visitOutside<LibraryMath<double>>(score_, point, s, visit);
}

void Interpreter::visitOutsideOfSink(const Point &point, const ReadVisitor &visit) const {
  visitOutside<LibraryMath<double>>(sink_, point, 0.0, visit);
}

bool Interpreter::mask(const Point &point) const {
  return run<ExactMath>(mask_, point, 0.0f).i != 0;
}

int64_t Interpreter::keptKeys(const Point &first, int64_t keys) const {
  if (keys <= 0)
    return 0;
  Slots slots(mask_);
  Point point = first;
  runRange<ExactMath>(mask_, point, 0.0f, slots.data(), 0, mask_.code.size());
  int64_t kept = slots.data()[mask_.result].i != 0;
  for (int64_t key = 1; key < keys; ++key) {
    ++point.k;
    for (int32_t number : mask_.ofKey)
      step<ExactMath>(mask_, point, 0.0f, slots.data(), size_t(number));
    kept += slots.data()[mask_.result].i != 0;
  }
  return kept;
}

float Interpreter::score(const Point &point, float s) const {
  return run<LibraryMath<float>>(score_, point, s).f;
}

double Interpreter::score(const Point &point, double s) const {
  return run<LibraryMath<double>>(score_, point, s).d;
}

double Interpreter::sink(const Point &point) const {
  return run<LibraryMath<double>>(sink_, point, 0.0).d;
}

float Interpreter::sinkInFloat(const Point &point) const {
  return run<LibraryMath<float>>(sink_, point, 0.0f).f;
}

} // namespace tesela
