//===- InterpreterTranslation.cpp - A variant as programs -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Checks the values of a variant's parameters, and translates its mask, score and sink into the
// programs that the interpreter runs: one instruction for each node, in the order of evaluation.
//
//===----------------------------------------------------------------------===//
#include "frontend/Interpreter.h"

#include "attn/Arithmetic.h"

#include <algorithm>
#include <map>

namespace tesela {

static int32_t extentOf(const Extents &extents, int32_t extent) {
  switch (static_cast<Extent>(extent)) {
  case Extent::B:
    return extents.B;
  case Extent::H:
    return extents.H;
  case Extent::Hkv:
    return extents.Hkv;
  case Extent::Sq:
    return extents.Sq;
  case Extent::Sk:
    return extents.Sk;
  }
  return 0;
}

static Status checkBinding(const Parameter &parameter, const Binding &binding) {
  auto invalid = [&](const std::string &message) {
    return Error(Code::invalidArgument, "parameter '" + parameter.name + "' " + message);
  };
  if (!parameter.isCapture) {
    if (parameter.type == ElementType::i32 &&
        binding.scalar != static_cast<double>(attn::saturatingInt(binding.scalar)))
      return invalid("is i32, but its value is " + std::to_string(binding.scalar) +
                     "; pass an integer from -2147483648 to 2147483647");
    return Status::success();
  }
  const CaptureView &capture = binding.capture;
  size_t rank = parameter.extents.size();
  if (capture.extents.size() != rank || capture.strides.size() != rank)
    return invalid("has " + std::to_string(rank) + " axes, but " +
                   std::to_string(capture.extents.size()) + " extents and " +
                   std::to_string(capture.strides.size()) +
                   " strides are given; pass one extent and one stride for each axis");
  bool isEmpty = false;
  for (int64_t extent : capture.extents) {
    if (extent < 0)
      return invalid("has an extent of " + std::to_string(extent) + "; extents must be 0 or more");
    isEmpty |= extent == 0;
  }
  if (!capture.data && !isEmpty)
    return invalid("has no data; give the address of its first element");
  return Status::success();
}

/// Translates one expression into a program.
class Interpreter::Translation {
public:
  Translation(const Interpreter &interpreter, const Variant &variant, Program &program)
      : interpreter_(interpreter), variant_(variant), program_(program),
        slotOf_(variant.nodes.size(), 0) {}

  void run(NodeId root) {
    translate(root, /*reduction=*/-1);
    program_.result = slotOf_[root];
    listOfKey();
  }

private:
  /// Adds the nodes that `root` needs and that are computed once in each round of `reduction`.
  void translate(NodeId root, int32_t reduction) {
    for (NodeId id : variant_.nodesOf(root, reduction))
      add(id);
  }

  int32_t push(const Instruction &instruction) {
    program_.code.push_back(instruction);
    return static_cast<int32_t>(program_.code.size()) - 1;
  }

  void add(NodeId id) {
    const Node &node = variant_.nodes[id];
    if (node.op == Operator::reduceIndex) {
      slotOf_[id] = indexSlots_.at(node.integer);
      return;
    }
    Instruction instruction;
    instruction.op = node.op;
    instruction.type = node.type;
    instruction.integer = node.integer;
    instruction.number = node.number;
    if (node.op == Operator::read) {
      instruction.element = variant_.parameters[node.integer].type;
      instruction.a = static_cast<int32_t>(program_.indices.size());
      for (NodeId index : node.operands)
        program_.indices.push_back(slotOf_[index]);
    } else if (!node.operands.empty()) {
      // A missing operand repeats the last one, so that every slot that is read
      // has a value.
      auto operand = [&](size_t i) {
        return slotOf_[node.operands[std::min(i, node.operands.size() - 1)]];
      };
      instruction.a = operand(0);
      instruction.b = operand(1);
      instruction.c = operand(2);
      instruction.operandType = variant_.nodes[node.operands[0]].type;
    }
    // Values that are the same for the whole launch become constants.
    if (node.op == Operator::extent) {
      instruction.op = Operator::constant;
      instruction.integer = extentOf(interpreter_.extents_, node.integer);
    } else if (node.op == Operator::boundExtent) {
      const BoundExtent &bound = variant_.boundExtents[node.integer];
      const CaptureExtent &axis = variant_.axisOf(bound);
      int64_t extent = interpreter_.parameters_[bound.parameter].capture.extents[bound.axis];
      instruction.op = Operator::constant;
      instruction.integer = static_cast<int32_t>((extent - axis.offset) / axis.coefficient);
    } else if (node.op == Operator::scalar) {
      instruction.op = Operator::constant;
      double value = interpreter_.parameters_[node.integer].scalar;
      instruction.integer = attn::saturatingInt(value);
      instruction.number = static_cast<float>(value);
    }
    int32_t number = slotOf_[id] = push(instruction);
    if (!isReduction(node.op))
      return;
    Instruction index;
    index.op = Operator::reduceIndex;
    indexSlots_[node.integer] = push(index);
    translate(node.operands[1], node.integer);
    program_.code[number].b = slotOf_[node.operands[1]];
    program_.code[number].c = 0;
    program_.code[number].end = static_cast<int32_t>(program_.code.size());
  }

  void listOfKey() {
    std::vector<bool> ofKey(program_.code.size());
    markOfKey(ofKey, 0, ofKey.size());
    for (size_t number = 0; number < ofKey.size(); number = next(number))
      if (ofKey[number])
        program_.ofKey.push_back(int32_t(number));
  }

  size_t next(size_t number) const {
    const Instruction &instruction = program_.code[number];
    return isReduction(instruction.op) ? size_t(instruction.end) : number + 1;
  }

  /// Marks the instructions from `begin` to `end` - 1 that depend on the key. Returns whether any
  /// does.
  bool markOfKey(std::vector<bool> &ofKey, size_t begin, size_t end) {
    bool found = false;
    for (size_t number = begin; number < end; number = next(number)) {
      const Instruction &instruction = program_.code[number];
      bool isOfKey = false;
      if (instruction.op == Operator::index) {
        isOfKey = static_cast<Index>(instruction.integer) == Index::k;
      } else if (instruction.op == Operator::read) {
        for (size_t axis = 0; axis < variant_.parameters[instruction.integer].extents.size();
             ++axis)
          isOfKey |= ofKey[program_.indices[instruction.a + axis]];
      } else if (isReduction(instruction.op)) {
        isOfKey = markOfKey(ofKey, number + 1, instruction.end) || ofKey[instruction.a];
      } else if (instruction.op != Operator::constant && instruction.op != Operator::score &&
                 instruction.op != Operator::reduceIndex) {
        isOfKey = ofKey[instruction.a] || ofKey[instruction.b] || ofKey[instruction.c];
      }
      ofKey[number] = isOfKey;
      found |= isOfKey;
    }
    return found;
  }

  const Interpreter &interpreter_;
  const Variant &variant_;
  Program &program_;
  std::vector<int32_t> slotOf_;
  std::map<int32_t, int32_t> indexSlots_; ///< the slot of each reduction's index
};

Result<Interpreter> Interpreter::create(const Variant &variant, const Bindings &bindings) {
  if (bindings.parameters.size() != variant.parameters.size())
    return Error(Code::invalidArgument,
                 "variant '" + variant.name + "' has " + std::to_string(variant.parameters.size()) +
                     " parameters, but " + std::to_string(bindings.parameters.size()) +
                     " values are given; pass one value for each parameter, in order");
  for (size_t i = 0; i < variant.parameters.size(); ++i)
    if (Status status = checkBinding(variant.parameters[i], bindings.parameters[i]); !status)
      return status.error();

  Interpreter interpreter;
  interpreter.extents_ = bindings.extents;
  interpreter.parameters_ = bindings.parameters;
  interpreter.scoreIsIdentity_ = variant.scoreIsIdentity();
  interpreter.maskIsTrue_ = variant.maskIsTrue();
  Translation(interpreter, variant, interpreter.mask_).run(variant.mask);
  Translation(interpreter, variant, interpreter.score_).run(variant.score);
  if (variant.sink != kInvalid)
    Translation(interpreter, variant, interpreter.sink_).run(variant.sink);
  return interpreter;
}

} // namespace tesela
