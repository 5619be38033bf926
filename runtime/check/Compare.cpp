//===- Compare.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/Elements.h"
#include "tesela/Check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tesela {

namespace {

double unitRoundoff(ElementType type) {
  switch (type) {
  case ElementType::bf16:
    return 0x1p-8;
  case ElementType::f16:
    return 0x1p-11;
  default:
    return 0x1p-24;
  }
}

/// Half the distance of the type's subnormal numbers: what rounding one costs.
double subnormalRoundoff(ElementType type) {
  switch (type) {
  case ElementType::bf16:
    return 0x1p-134;
  case ElementType::f16:
    return 0x1p-25;
  default:
    return 0x1p-150;
  }
}

/// ref + 0.3 - 0.3, every step rounded to `type`.
float throughOffset(ElementType type, double ref) {
  float sum = roundTo(type, roundTo(type, float(ref)) + 0.3f);
  return roundTo(type, sum - 0.3f);
}

/// The distance of a float's neighbours at `value`.
double unitInLastPlace(double value) {
  float magnitude = std::fabs(float(value));
  return double(std::nextafter(magnitude, HUGE_VALF)) - double(magnitude);
}

std::string rowText(const Reference &reference, int64_t row) {
  return fmt::format("b {}, h {}, q {}", row / reference.Sq / reference.H,
                     row / reference.Sq % reference.H, row % reference.Sq);
}

/// Whether all of the row is NaN: a kept score or the sink is NaN or +inf.
bool isNaNRow(const Reference &reference, int64_t row) {
  auto first = reference.ref.begin() + row * reference.Dv;
  return std::isnan(reference.lse[row]) &&
         std::all_of(first, first + reference.Dv, [](double ref) { return std::isnan(ref); });
}

/// Why no result can be held against the row. Empty: it can.
std::string faultOfRow(const Reference &reference, int64_t row) {
  for (int64_t d = 0; d < reference.Dv; ++d) {
    double ref = reference.ref[row * reference.Dv + d],
           base = reference.base[row * reference.Dv + d];
    if (!std::isfinite(ref))
      return fmt::format(
          "the reference is {} at {}, d {}: a kept key's v has a NaN or an infinity; "
          "take it out, or mask the key",
          ref, rowText(reference, row), d);
    if (!std::isfinite(base))
      return fmt::format("the reference with a kernel's roundings is {} at {}, d {}: a score "
                         "exceeds what {} or f32 holds; make q, k or the scale smaller",
                         base, rowText(reference, row), d, elementTypeName(reference.type));
  }
  return "";
}

double baseFactor(const Reference &reference) { return reference.scoreUsesTanh ? 3 : 2; }

/// The largest number of `values` that is no NaN, as all of a row's may be.
double largestOf(const std::vector<double> &values) {
  double largest = 0;
  for (double value : values)
    largest = std::max(largest, value); // of a NaN it is `largest`
  return largest;
}

/// The tolerance of an element of O, by the first rule at the top of Check.h, over the rows that
/// are not NaN.
double elementTolerance(const Reference &reference, double magnitude) {
  double baseError = 0, roundingError = 0;
  for (size_t i = 0; i < reference.ref.size(); ++i) {
    double ref = reference.ref[i];
    if (std::isnan(ref))
      continue;
    baseError = std::max(baseError, std::fabs(reference.base[i] - ref));
    roundingError = std::max(roundingError, std::fabs(throughOffset(reference.type, ref) - ref));
  }
  double u = unitRoundoff(reference.type);
  double boundFactor = reference.type == ElementType::f32 ? 16 + 2 * reference.maxScore : 8;
  return std::min(baseFactor(reference) * baseError + 2 * roundingError + 4 * u * magnitude,
                  boundFactor * u * magnitude + subnormalRoundoff(reference.type));
}

/// The tolerance of the norm of a row's error, by the second rule at the top of Check.h.
double rowTolerance(const Reference &reference, int64_t row, double largestMagnitude) {
  double baseError = 0, result = 0, magnitude = 0; // sums of squares
  for (int64_t i = row * reference.Dv; i < (row + 1) * reference.Dv; ++i) {
    double error = reference.base[i] - reference.ref[i];
    baseError += error * error;
    result += reference.ref[i] * reference.ref[i];
    magnitude += reference.magnitude[i] * reference.magnitude[i];
  }
  bool isF32 = reference.type == ElementType::f32;
  double u = unitRoundoff(reference.type);
  double ofTerms = 4 * u + (reference.scoreUsesTanh ? 0x1p-11 * reference.maxScore : 0);
  double ofSums = 0x1p-24 * (isF32 ? 16 + 2 * reference.maxScore : 16);
  double underflow = subnormalRoundoff(reference.type) + 0x1p-120 * largestMagnitude;
  return baseFactor(reference) * std::sqrt(baseError) + 2 * u * std::sqrt(result) +
         ofTerms * reference.termNorm[row] + ofSums * std::sqrt(magnitude) +
         underflow * std::sqrt(double(reference.Dv));
}

Status checkShapes(const Reference &reference, const Tensor &o, const Tensor &lse) {
  size_t rows = size_t(reference.B * reference.H * reference.Sq), elements = rows * reference.Dv;
  if (reference.ref.size() != elements || reference.base.size() != elements ||
      reference.magnitude.size() != elements || reference.lse.size() != rows ||
      reference.termNorm.size() != rows)
    return Error(Code::invalidArgument,
                 fmt::format("an array of the reference is not as long as its B {}, H {}, Sq {} "
                             "and Dv {} say",
                             reference.B, reference.H, reference.Sq, reference.Dv));
  auto fits = [](const Tensor &tensor, std::initializer_list<int64_t> extents) {
    return tensor.rank == int(extents.size()) &&
           std::equal(extents.begin(), extents.end(), tensor.extents.begin());
  };
  if (o.type != reference.type || !fits(o, {reference.B, reference.H, reference.Sq, reference.Dv}))
    return Error(Code::invalidArgument,
                 fmt::format("o is {}, the reference is {}[{}, {}, {}, {}]", describe(o),
                             elementTypeName(reference.type), reference.B, reference.H,
                             reference.Sq, reference.Dv));
  if (lse.type != ElementType::f32 || !fits(lse, {reference.B, reference.H, reference.Sq}))
    return Error(Code::invalidArgument,
                 fmt::format("lse is {}, the reference is f32[{}, {}, {}]", describe(lse),
                             reference.B, reference.H, reference.Sq));
  return Status::success();
}

} // namespace

Result<Comparison> compare(const Reference &reference, const Tensor &o, const Tensor &lse) {
  if (Status status = checkShapes(reference, o, lse); !status)
    return status.error();
  Comparison comparison;
  int64_t rows = reference.B * reference.H * reference.Sq;
  std::vector<bool> isNaN(rows);
  for (int64_t row = 0; row < rows; ++row) {
    isNaN[row] = isNaNRow(reference, row);
    comparison.nanRows += isNaN[row];
    if (!isNaN[row])
      comparison.failure = faultOfRow(reference, row);
    if (!comparison.failure.empty()) {
      comparison.tolerance = NAN;
      return comparison;
    }
  }
  double magnitude = largestOf(reference.magnitude);
  comparison.tolerance = elementTolerance(reference, magnitude);

  // The first reason stays: what comes later often follows from it.
  auto fail = [&](std::string reason) {
    if (comparison.failure.empty())
      comparison.failure = std::move(reason);
  };
  double worstLseExcess = -HUGE_VAL, worstRowExcess = -HUGE_VAL;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t q = row % reference.Sq, h = row / reference.Sq % reference.H,
            b = row / reference.Sq / reference.H;
    double expectedLse = reference.lse[row];
    float actualLse = loadFloat(lse.data, lse.type, elementOffset(lse, row));
    auto at = [&](int64_t d) {
      return loadFloat(o.data, o.type,
                       b * o.strides[0] + h * o.strides[1] + q * o.strides[2] + d * o.strides[3]);
    };
    if (isNaN[row]) {
      const char *why = "a kept score or the sink is NaN or +inf there: it must be NaN";
      if (!std::isnan(actualLse))
        fail(fmt::format("lse is {} at {}; {}", actualLse, rowText(reference, row), why));
      for (int64_t d = 0; d < reference.Dv; ++d)
        if (!std::isnan(at(d)))
          fail(fmt::format("o is {} at {}, d {}; {}", at(d), rowText(reference, row), d, why));
      continue;
    }
    bool empty = expectedLse == -HUGE_VAL;
    if (std::isnan(actualLse)) {
      ++comparison.nanCount;
      fail(fmt::format("lse is NaN at b {}, h {}, q {}", b, h, q));
    } else if (empty || std::isinf(actualLse)) {
      if (double(actualLse) != expectedLse)
        fail(fmt::format("lse is {} at b {}, h {}, q {}, it must be {}", actualLse, b, h, q,
                         expectedLse));
    } else {
      double error = std::fabs(double(actualLse) - expectedLse);
      double tolerance = 1e-3 + 4 * unitInLastPlace(expectedLse);
      comparison.maxLseError = std::max(comparison.maxLseError, error);
      if (error - tolerance > worstLseExcess) {
        worstLseExcess = error - tolerance;
        comparison.lseTolerance = tolerance;
        comparison.worstLse = {b, h, q};
      }
    }

    double squares = 0;
    for (int64_t d = 0; d < reference.Dv; ++d) {
      float actual = at(d);
      double error = std::fabs(double(actual) - reference.ref[row * reference.Dv + d]);
      if (std::isnan(actual)) {
        ++comparison.nanCount;
        fail(fmt::format("o is NaN at b {}, h {}, q {}, d {}", b, h, q, d));
      } else if (empty && actual != 0) {
        fail(fmt::format("o is {} at b {}, h {}, q {}, d {}, a row without keys: it must be 0",
                         actual, b, h, q, d));
      }
      if (error > comparison.maxError) {
        comparison.maxError = error;
        comparison.worst = {b, h, q, d};
      }
      squares += error * error;
    }
    double rowError = std::sqrt(squares), tolerance = rowTolerance(reference, row, magnitude);
    if (rowError / tolerance > worstRowExcess) {
      worstRowExcess = rowError / tolerance;
      comparison.worstRow = {b, h, q};
      comparison.rowError = rowError;
      comparison.rowTolerance = tolerance;
    }
  }

  if (comparison.maxError > comparison.tolerance)
    fail(fmt::format("o differs by {:.3g} at b {}, h {}, q {}, d {}, the tolerance is {:.3g}",
                     comparison.maxError, comparison.worst[0], comparison.worst[1],
                     comparison.worst[2], comparison.worst[3], comparison.tolerance));
  if (worstRowExcess > 1)
    fail(fmt::format("the norm of o's error in the row b {}, h {}, q {} is {:.3g}, the tolerance "
                     "is {:.3g}",
                     comparison.worstRow[0], comparison.worstRow[1], comparison.worstRow[2],
                     comparison.rowError, comparison.rowTolerance));
  if (worstLseExcess > 0)
    fail(fmt::format("lse differs by more than {:.3g} at b {}, h {}, q {}", comparison.lseTolerance,
                     comparison.worstLse[0], comparison.worstLse[1], comparison.worstLse[2]));
  comparison.passed = comparison.failure.empty();
  return comparison;
}

} // namespace tesela
