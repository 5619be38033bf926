//===- BoxTest.cpp - Tests many boxes at once -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "visits/BoxTest.h"

#include <algorithm>

using namespace mlir;

namespace tesela {

/// The operations of a block that some of `results` depend on. A test may have others.
static llvm::DenseSet<Operation *> neededFor(Block &body, ValueRange results) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> pending(results);
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    if (op && op->getBlock() == &body && needed.insert(op).second)
      op->walk([&](Operation *inner) { llvm::append_range(pending, inner->getOperands()); });
  }
  return needed;
}

BoxTest::BoxTest(Region &region, Yielded last, const llvm::DenseSet<Value> &ofRows) {
  Block &body = region.front();
  OperandRange results = body.getTerminator()->getOperands().take_front(last + 1);
  llvm::DenseSet<Operation *> needed = neededFor(body, results);

  llvm::DenseMap<Value, int> placeOf = {{body.getArgument(0), 0}, {body.getArgument(1), 1}};
  llvm::DenseSet<Value> varying = {body.getArgument(0), body.getArgument(1)}; // between boxes
  llvm::DenseSet<Value> withRows(ofRows), fixed;
  auto place = [&](Value value) {
    auto [found, isNew] = placeOf.try_emplace(value, places);
    if (isNew)
      constant.emplace_back(value, places++);
    return found->second;
  };
  auto read = [&](Value value, bool byFixed) {
    int at = place(value);
    if (!byFixed && fixed.contains(value) && !llvm::is_contained(fixedResults, at))
      fixedResults.push_back(at);
    return at;
  };
  for (Operation &op : body.without_terminator()) {
    if (!needed.contains(&op))
      continue;
    bool varies = false, dependsOnRows = false;
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        varies |= varying.contains(operand);
        dependsOnRows |= withRows.contains(operand);
      }
    });
    if (dependsOnRows)
      withRows.insert_range(op.getResults());
    if (!varies) {
      (dependsOnRows ? uniformRowOps : uniformOps).push_back(&op);
      continue;
    }
    Step step{.function = elementFunctionOf(op),
              .look = isa<tile::BoundsOp, tile::HasElementOp>(op) ? &op : nullptr,
              .isFixed = !dependsOnRows};
    if (!step.function && !step.look) {
      unknownOp = op.getName().getStringRef();
      return;
    }
    step.firstOperand = int(operands.size());
    for (Value operand : step.look ? op.getOperands().drop_front() : op.getOperands())
      operands.push_back(read(operand, step.isFixed));
    step.end = int(operands.size());
    step.result = places;
    for (Value result : op.getResults()) {
      placeOf[result] = places++;
      varying.insert(result);
      if (step.isFixed)
        fixed.insert(result);
    }
    steps.push_back(step);
  }
  for (auto [which, value] : llvm::enumerate(results))
    yields[which] = read(value, /*byFixed=*/false);
}

TestedBoxes::TestedBoxes(const BoxTest &test, int64_t blocks, int64_t extent, int64_t columns,
                         bool keepFixed)
    : test(test), blocks(blocks), extent(extent), columns(columns),
      keepFixed(keepFixed && !test.fixedResults.empty()),
      values(size_t(test.places * mostBoxes), Scalar{.integer = 0}) {
  if (keepFixed)
    fixed.resize(size_t(columns / (extent * mostBoxes) + 1));
}

void TestedBoxes::begin(llvm::function_ref<Scalar(Value)> valueOf) {
  constants.clear();
  for (auto [value, place] : test.constant)
    constants.push_back(valueOf(value));
  filled = 0;
  boxes.clear();
}

void TestedBoxes::setUp(ArrayRef<int64_t> firsts) {
  for (auto [box, first] : llvm::enumerate(firsts)) {
    at(0)[box].integer = first * extent;
    at(1)[box].integer = std::min((first + blocks) * extent, columns) - 1;
  }
  int64_t count = int64_t(firsts.size());
  if (count <= filled)
    return;
  for (auto [each, value] : llvm::zip(test.constant, constants))
    std::fill(at(each.second) + filled, at(each.second) + count, value);
  filled = count;
}

void TestedBoxes::runSteps(int64_t count, Look look, bool fixed) {
  SmallVector<const Scalar *> operands;
  for (const BoxTest::Step &step : test.steps) {
    if (step.isFixed != fixed)
      continue;
    operands.clear();
    for (int operand = step.firstOperand; operand < step.end; ++operand)
      operands.push_back(at(test.operands[operand]));
    if (step.function)
      step.function(at(step.result), operands.data(), count);
    else
      look(step.look, operands.data(), count, at(step.result),
           step.look->getNumResults() > 1 ? at(step.result + 1) : nullptr);
  }
}

void TestedBoxes::loadFixed(Look look) {
  for (auto [box, first] : llvm::enumerate(boxes)) {
    std::vector<Scalar> &results = fixed[size_t(first / mostBoxes)];
    if (!results.empty())
      continue;
    // For all blocks of the group: the next blocks of rows will probably need the others.
    SmallVector<int64_t, mostBoxes> beside;
    for (int64_t block = first / mostBoxes * mostBoxes;
         block < (first / mostBoxes + 1) * mostBoxes && block * extent < columns; ++block)
      beside.push_back(block);
    setUp(beside);
    runSteps(int64_t(beside.size()), look, /*fixed=*/true);
    for (int place : test.fixedResults)
      results.insert(results.end(), at(place), at(place) + mostBoxes);
  }
  // Copies consecutive boxes together.
  for (size_t box = 0, end; box < boxes.size(); box = end) {
    int64_t first = boxes[box];
    for (end = box + 1;
         end < boxes.size() && boxes[end] % mostBoxes != 0 && boxes[end] == boxes[end - 1] + 1;)
      ++end;
    const Scalar *from = fixed[size_t(first / mostBoxes)].data() + first % mostBoxes;
    for (int place : test.fixedResults) {
      std::copy_n(from, end - box, at(place) + box);
      from += mostBoxes;
    }
  }
}

void TestedBoxes::run(Look look, llvm::function_ref<void(int64_t, bool, bool)> visit) {
  int64_t count = int64_t(boxes.size());
  if (keepFixed) {
    loadFixed(look);
    setUp(boxes);
  } else {
    setUp(boxes);
    runSteps(count, look, /*fixed=*/true);
  }
  runSteps(count, look, /*fixed=*/false);
  const Scalar *keeps = at(test.yields[BoxTest::keeps]), *drops = at(test.yields[BoxTest::drops]);
  for (int64_t box = 0; box < count; ++box)
    visit(boxes[size_t(box)], keeps[box].integer != 0, drops[box].integer != 0);
  boxes.clear();
}

} // namespace tesela
