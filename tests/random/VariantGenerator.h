//===- VariantGenerator.h - How random variants are written -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_VARIANTGENERATOR_H
#define TESELA_TESTS_RANDOM_VARIANTGENERATOR_H

#include "Numbers.h"
#include "RandomSource.h"
#include "tesela/ElementType.h"

#include <deque>
#include <string>
#include <vector>

namespace tesela {

/// A parameter of a random variant.
struct RandomParameter {
  std::string name;
  ElementType type = ElementType::f32;
  bool isConstant = false;
  std::vector<std::string> extents; ///< the extents of a captured tensor
  bool isCapture() const { return !extents.empty(); }
  bool isWild() const { return name.starts_with("wild"); }
  bool isUsed = false;
};

/// The statement of which an expression is a part.
enum class RandomPlace { mask, score, sink };

/// Writes one variant from its seed. Text is joined in separate statements or in braces, because
/// C++ does not define the order in which the operands of '+' are evaluated.
class VariantGenerator {
public:
  VariantGenerator(uint64_t seed, ElementType inputType)
      : random(seed, 1), isExactScore(random.chance(25)),
        numbers(!isExactScore && inputType != ElementType::f32),
        // The LSE may be off by 1e-3. f32's rule leaves about 2^-20 of the score's size.
        largestError(inputType == ElementType::f32 ? 0x1p-21 : 0x1p-13) {}

  std::string variant();

private:
  //===--------------------------------------------------------------------===//
  // Choices
  //===--------------------------------------------------------------------===//
  template <typename T> T pick(const std::vector<T> &list) { return random.pick(list); }
  std::string pick(std::initializer_list<const char *> list) {
    return *(list.begin() + random.below(int(list.size())));
  }
  /// Whether an expression ends here. The size of trees is limited, not only their depth.
  bool ends(int depth) { return depth <= 0 || --budget <= 0 || random.chance(20); }

  RandomParameter *parameter(auto fits) {
    std::vector<RandomParameter *> found;
    for (RandomParameter &each : parameters)
      if (fits(each))
        found.push_back(&each);
    if (found.empty())
      return nullptr;
    RandomParameter *chosen = pick(found);
    chosen->isUsed = true;
    return chosen;
  }

  void declare();
  std::string extent();
  /// A name that a captured tensor's shape binds; empty if there is none.
  std::string boundExtent();

  //===--------------------------------------------------------------------===//
  // Expressions
  //===--------------------------------------------------------------------===//
  Integer integerLeaf();
  Integer integer(int depth);
  Integer reducedInteger(int depth);
  std::string bound();
  std::string element(const RandomParameter &parameter, int depth);
  std::string condition(int depth);
  std::string comparison(int depth);
  std::string placeInGrid();
  std::string joinedConjunctions();
  RandomParameter &numbersOf(const char *extent);
  std::string numberAt(const char *index);
  /// A leaf of a mask: any f32.
  std::string wildLeaf(int depth);
  std::string wild(int depth);
  /// A leaf of a score or a sink.
  Number tameLeaf(int depth);
  Number tame(int depth);
  Number exact(int depth);
  Number reducedNumber(int depth);
  std::string finished(const Number &number);
  std::string score();

  /// Runs `make` with the name of a reduction's index in scope.
  template <typename Make> auto inReduction(Make make) {
    static const char *const names[] = {"i", "j"};
    indices.push_back(names[indices.size()]);
    auto result = make();
    indices.pop_back();
    return result;
  }
  bool mayReduce() const { return indices.size() < 2; }

  RandomSource random;
  const bool isExactScore;
  const Numbers numbers;
  const double largestError;
  RandomPlace place = RandomPlace::mask;
  bool usesScore = false; ///< whether `s` is in scope
  int budget = 0;
  std::vector<RandomParameter> parameters;
  std::deque<RandomParameter> numbered; ///< for joinedConjunctions()
  std::vector<std::string> indices;     ///< indices of the enclosing reductions
  // Names defined by `let`, separately for each statement that may use them.
  std::vector<std::string> conditions, wilds;
  std::vector<Integer> integers;
  std::vector<Number> tames;
};

/// Whether the type or the element type is f32 or another float.
inline bool isNumbers(const RandomParameter &p) {
  return p.type == ElementType::f32 || p.type == ElementType::f16 || p.type == ElementType::bf16;
}

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_VARIANTGENERATOR_H
