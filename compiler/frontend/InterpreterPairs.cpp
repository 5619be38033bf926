//===- InterpreterPairs.cpp - A mask for many pairs at once -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Runs each instruction of a mask for many pairs before the next one. So an instruction is looked
// at once for these pairs, and most instructions become a loop that the compiler turns into
// vectors.
//
//===----------------------------------------------------------------------===//
#include "frontend/InterpreterArithmetic.h"

#include <array>
#include <memory>

namespace tesela {

/// The mask's values for up to `most` pairs.
class Interpreter::Pairs {
public:
  static constexpr size_t most = 64;

  Pairs(const Interpreter &interpreter, const Point &where)
      : interpreter(interpreter), program(interpreter.mask_), where(where),
        values(std::make_unique_for_overwrite<Value[]>(program.code.size() * most)) {
    for (size_t number = 0; number < program.code.size(); ++number)
      if (program.code[number].op == Operator::constant)
        setConstant(number);
  }

  void run(const int32_t *queriesOfPairs, const int32_t *keysOfPairs, size_t pairs,
           uint8_t *keeps) {
    queries = queriesOfPairs;
    keys = keysOfPairs;
    count = pairs;
    runRange(0, program.code.size());
    const Value *result = at(program.result);
    for (size_t pair = 0; pair < count; ++pair)
      keeps[pair] = result[pair].i != 0;
  }

private:
  /// As Interpreter::Slot, but a mask has no double.
  union Value {
    int32_t i;
    float f;
  };

  Value *at(size_t number) { return values.get() + number * most; }

  void setConstant(size_t number) {
    const Instruction &instruction = program.code[number];
    Value value;
    if (instruction.type == ScalarType::f32)
      value.f = instruction.number;
    else
      value.i = instruction.integer;
    std::fill_n(at(number), most, value);
  }

  void setIndex(const Instruction &instruction, Value *result) {
    Index index = static_cast<Index>(instruction.integer);
    int32_t same = indexOf(where, instruction.integer);
    const int32_t *of = index == Index::q ? queries : index == Index::k ? keys : nullptr;
    for (size_t pair = 0; pair < count; ++pair)
      result[pair].i = of ? of[pair] : same;
  }

  void read(const Instruction &instruction, Value *result) {
    const CaptureView &capture = interpreter.parameters_[instruction.integer].capture;
    std::array<int64_t, most> offsets = {};
    bool isEmpty = false;
    for (size_t axis = 0; axis < capture.extents.size(); ++axis) {
      const Value *indices = at(size_t(program.indices[instruction.a + axis]));
      int64_t last = capture.extents[axis] - 1, stride = capture.strides[axis];
      isEmpty |= last < 0;
      for (size_t pair = 0; pair < count; ++pair)
        offsets[pair] += std::max<int64_t>(0, std::min<int64_t>(indices[pair].i, last)) * stride;
    }
    for (size_t pair = 0; pair < count; ++pair)
      if (instruction.type == ScalarType::f32)
        result[pair].f = isEmpty ? 0 : loadNumber(capture.data, instruction.element, offsets[pair]);
      else
        result[pair].i =
            isEmpty ? 0 : loadInteger(capture.data, instruction.element, offsets[pair]);
  }

  // One loop for each operator, so that the compiler sees which one it is.
  template <Operator op> void arithmetic(const Instruction &instruction, Value *result) {
    const Value *a = at(instruction.a), *b = at(instruction.b);
    if (instruction.type == ScalarType::f32)
      for (size_t pair = 0; pair < count; ++pair)
        result[pair].f = floatArithmetic(op, a[pair].f, b[pair].f);
    else
      for (size_t pair = 0; pair < count; ++pair)
        result[pair].i = integerArithmetic(op, a[pair].i, b[pair].i);
  }
  template <Operator op> void comparison(const Instruction &instruction, Value *result) {
    const Value *a = at(instruction.a), *b = at(instruction.b);
    if (instruction.operandType == ScalarType::f32)
      for (size_t pair = 0; pair < count; ++pair)
        result[pair].i = compare(op, a[pair].f, b[pair].f);
    else
      for (size_t pair = 0; pair < count; ++pair)
        result[pair].i = compare(op, a[pair].i, b[pair].i);
  }
  template <typename Function> void each(Value *result, Function function) {
    for (size_t pair = 0; pair < count; ++pair)
      function(result[pair], pair);
  }

  void step(size_t number) {
    const Instruction &instruction = program.code[number];
    Value *result = at(number);
    const Value *a = at(instruction.a), *b = at(instruction.b), *c = at(instruction.c);
    switch (instruction.op) {
    case Operator::constant:    // set for all pairs
    case Operator::reduceIndex: // the reduction sets it
      return;
    case Operator::index:
      return setIndex(instruction, result);
    case Operator::read:
      return read(instruction, result);
    case Operator::reduceAny:
    case Operator::reduceAll:
    case Operator::reduceSum:
      return reduce(number, result);
    case Operator::toFloat:
      return each(result, [&](Value &r, size_t i) { r.f = static_cast<float>(a[i].i); });
    case Operator::toInt:
      return each(result, [&](Value &r, size_t i) { r.i = attn::saturatingInt(a[i].f); });
    case Operator::sqrt:
      return each(result, [&](Value &r, size_t i) { r.f = std::sqrt(a[i].f); });
    case Operator::floor:
      return each(result, [&](Value &r, size_t i) { r.f = std::floor(a[i].f); });
    case Operator::exp:
    case Operator::log:
    case Operator::tanh:
    case Operator::sin:
    case Operator::cos:
      return each(result, [&](Value &r, size_t i) {
        r.f = transcendental<ExactMath>(instruction.op, a[i].f);
      });
    case Operator::less:
      return comparison<Operator::less>(instruction, result);
    case Operator::lessEqual:
      return comparison<Operator::lessEqual>(instruction, result);
    case Operator::greater:
      return comparison<Operator::greater>(instruction, result);
    case Operator::greaterEqual:
      return comparison<Operator::greaterEqual>(instruction, result);
    case Operator::equal:
      return comparison<Operator::equal>(instruction, result);
    case Operator::notEqual:
      return comparison<Operator::notEqual>(instruction, result);
    case Operator::logicalNot:
      return each(result, [&](Value &r, size_t i) { r.i = !a[i].i; });
    case Operator::logicalAnd:
      return each(result, [&](Value &r, size_t i) { r.i = a[i].i & b[i].i; });
    case Operator::logicalOr:
      return each(result, [&](Value &r, size_t i) { r.i = a[i].i | b[i].i; });
    case Operator::select:
      return each(result, [&](Value &r, size_t i) { r = a[i].i ? b[i] : c[i]; });
    case Operator::add:
      return arithmetic<Operator::add>(instruction, result);
    case Operator::subtract:
      return arithmetic<Operator::subtract>(instruction, result);
    case Operator::multiply:
      return arithmetic<Operator::multiply>(instruction, result);
    case Operator::divide:
      return arithmetic<Operator::divide>(instruction, result);
    case Operator::remainder:
      return arithmetic<Operator::remainder>(instruction, result);
    case Operator::negate:
      return arithmetic<Operator::negate>(instruction, result);
    case Operator::absolute:
      return arithmetic<Operator::absolute>(instruction, result);
    case Operator::minimum:
      return arithmetic<Operator::minimum>(instruction, result);
    case Operator::maximum:
      return arithmetic<Operator::maximum>(instruction, result);
    case Operator::score: // a mask does not read the score
    case Operator::extent:
    case Operator::boundExtent:
    case Operator::scalar: // the translation made these constants
      return;
    }
  }

  /// Runs the instructions from `begin` to `end` - 1.
  void runRange(size_t begin, size_t end) {
    for (size_t number = begin; number < end;) {
      step(number);
      const Instruction &instruction = program.code[number];
      number = isReduction(instruction.op) ? size_t(instruction.end) : number + 1;
    }
  }

  void reduce(size_t number, Value *result) {
    const Instruction &instruction = program.code[number];
    const Value *value = at(instruction.b);
    bool isSumOfNumbers = instruction.type == ScalarType::f32;
    each(result, [&](Value &r, size_t) {
      if (isSumOfNumbers)
        r.f = 0;
      else
        r.i = instruction.op == Operator::reduceAll;
    });
    if (count == 0)
      return;
    int32_t bound = at(instruction.a)->i; // the same for the whole launch
    for (int32_t i = 0; i < bound; ++i) {
      each(at(number + 1), [&](Value &r, size_t) { r.i = i; });
      runRange(number + 2, size_t(instruction.end));
      each(result, [&](Value &r, size_t pair) {
        if (instruction.op == Operator::reduceAny)
          r.i |= value[pair].i;
        else if (instruction.op == Operator::reduceAll)
          r.i &= value[pair].i;
        else if (isSumOfNumbers)
          r.f += value[pair].f;
        else
          r.i = attn::wrappingAdd(r.i, value[pair].i);
      });
    }
  }

  const Interpreter &interpreter;
  const Program &program;
  const Point where;
  const std::unique_ptr<Value[]> values; ///< of the pairs, one instruction after the other
  const int32_t *queries = nullptr, *keys = nullptr;
  size_t count = 0;
};

void Interpreter::keepsPairs(const Point &where, const int32_t *queries, const int32_t *keys,
                             size_t count, uint8_t *keeps) const {
  Pairs pairs(*this, where);
  for (size_t first = 0; first < count; first += Pairs::most)
    pairs.run(queries + first, keys + first, std::min(count - first, Pairs::most), keeps + first);
}

} // namespace tesela
