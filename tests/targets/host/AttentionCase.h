//===- AttentionCase.h - A problem and its answer in double -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TARGETS_HOST_ATTENTIONCASE_H
#define TESELA_TESTS_TARGETS_HOST_ATTENTIONCASE_H

#include "HostLaunch.h"

#include "frontend/Interpreter.h"

#include <optional>

namespace tesela::test {

/// A variant and the sizes of a launch. Captured i32 tensors have the shape [Sk], and 13 neighbours
/// have the same number. Captured f32 tensors have the shape [H].
struct AttentionProblem {
  const char *name, *text;
  ElementType type = ElementType::bf16;
  Extents extents{2, 4, 2, 45, 70};
  int dQk = 24, dV = 40;
};

/// GoogleTest prints this instead of bytes.
void PrintTo(const AttentionProblem &problem, std::ostream *stream);

/// The core of the kernel `name` of the template `file`, in blocks of 16 queries and 32 keys.
/// `bindings`: parameters that the problem does not give. If the core cannot be made, fails the
/// running test and returns "".
std::string attentionCore(const std::string &file, const std::string &name,
                          const AttentionProblem &problem,
                          const std::vector<std::string> &bindings = {});

using Values = std::vector<double>;

/// `value` rounded to `type`.
double rounded(ElementType type, double value);

/// The inputs of a problem, and the result of attention in double precision.
struct AttentionCase {
  const AttentionProblem &problem;
  Extents e;
  Values q, k, v, o, lse;
  std::vector<int32_t> documents;
  std::optional<Interpreter> interpreter;
  float scale;

  explicit AttentionCase(const AttentionProblem &problem);

  Values randomTensor(int heads, int length, int dim, unsigned seed) const;
  /// The index of the first element of row i.
  size_t row(int b, int heads, int h, int length, int i, int dim) const {
    return ((size_t(b) * heads + h) * length + i) * dim;
  }
  Point point(int b, int h, int i, int j) const { return {b, h, h / (e.H / e.Hkv), i, j}; }
  /// q · k, without the scale.
  double product(int b, int h, int i, int j) const;
  std::vector<char> encoded(const Values &values) const;
  /// Extents, the scale and the variant's parameters.
  HostArguments arguments() const;

private:
  void computeForward();
};

/// A contiguous [B, heads, length, dim].
HostTensor contiguousTensor(const void *data, int64_t heads, int64_t length, int64_t dim);

} // namespace tesela::test

#endif // TESELA_TESTS_TARGETS_HOST_ATTENTIONCASE_H
