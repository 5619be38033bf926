//===- Compare.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/Compare.h"
#include "check/Elements.h"
#include "check/Roundoff.h"
#include "check/RowSample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tesela {

namespace {

/// ref + 0.3 - 0.3, with every step rounded to `type`.
float throughOffset(ElementType type, double ref) {
  float sum = roundTo(type, roundTo(type, float(ref)) + 0.3f);
  return roundTo(type, sum - 0.3f);
}

/// The distance between `value`, as a float, and the next larger float.
double unitInLastPlace(double value) {
  float magnitude = std::fabs(float(value));
  return double(std::nextafter(magnitude, HUGE_VALF)) - double(magnitude);
}

/// Whether the whole row is NaN, because a kept score or the sink is NaN or +inf.
bool isNaNRow(const Reference &reference, int64_t row) {
  auto first = reference.ref.begin() + row * reference.Dv;
  return std::isnan(reference.lse[row]) &&
         std::all_of(first, first + reference.Dv, [](double ref) { return std::isnan(ref); });
}

using RowNames = std::function<std::string(int64_t)>;

/// Why the row's reference allows no comparison; empty if it does.
std::string faultOfRow(const Reference &reference, int64_t row, bool isGradient,
                       const RowNames &nameOf) {
  for (int64_t d = 0; d < reference.Dv; ++d) {
    double ref = reference.ref[row * reference.Dv + d],
           base = reference.base[row * reference.Dv + d];
    if (isGradient && !(std::isfinite(ref) && std::isfinite(base)))
      return fmt::format(
          "the reference is {}, with a kernel's roundings {}, at {}, d {}: the "
          "score or derivative of a kept pair, v, or the incoming gradient has a NaN "
          "or an infinity; remove it, or mask the pair",
          ref, base, nameOf(row), d);
    if (isGradient && std::isinf(roundTo(reference.type, float(ref))))
      return fmt::format(
          "the gradient is {:.3g} at {}, d {}, more than {} holds: make the incoming "
          "gradient smaller{}",
          ref, nameOf(row), d, elementTypeName(reference.type),
          reference.type == ElementType::f16 ? ", or use bf16" : "");
    if (!std::isfinite(ref))
      return fmt::format(
          "the reference is {} at {}, d {}: a kept key's v has a NaN or an infinity; "
          "remove it, or mask the key",
          ref, nameOf(row), d);
    if (!std::isfinite(base))
      return fmt::format("the reference with a kernel's roundings is {} at {}, d {}: a score "
                         "exceeds what {} or f32 holds; make q, k or the scale smaller",
                         base, nameOf(row), d, elementTypeName(reference.type));
  }
  return "";
}

double baseFactor(const Reference &reference) { return reference.scoreUsesTanh ? 3 : 2; }

/// The largest number of `values`, ignoring NaN.
double largestOf(const std::vector<double> &values) {
  double largest = 0;
  for (double value : values)
    largest = std::max(largest, value); // std::max ignores a NaN in its second argument
  return largest;
}

/// The tolerance of an element of O, by the first rule in Check.h, over the rows that are not
/// NaN.
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

/// The tolerance of the norm of a row's error, by the second rule in Check.h.
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

bool hasExtents(const Tensor &tensor, std::initializer_list<int64_t> extents) {
  return tensor.rank == int(extents.size()) &&
         std::equal(extents.begin(), extents.end(), tensor.extents.begin());
}

/// Checks that `result`, called `name`, has the shape of the reference's arrays.
Status checkShape(const Reference &reference, const Tensor &result, std::string_view name) {
  size_t rows = size_t(reference.B * reference.H * reference.Sq), elements = rows * reference.Dv;
  if (reference.ref.size() != elements || reference.base.size() != elements ||
      reference.magnitude.size() != elements || reference.lse.size() != rows ||
      reference.termNorm.size() != rows)
    return Error(Code::invalidArgument,
                 fmt::format("an array of the reference is not as long as its B {}, H {}, Sq {} "
                             "and Dv {} say",
                             reference.B, reference.H, reference.Sq, reference.Dv));
  if (result.type != reference.type ||
      !hasExtents(result, {reference.B, reference.H, reference.Sq, reference.Dv}))
    return Error(Code::invalidArgument,
                 fmt::format("{} is {}, the reference is {}[{}, {}, {}, {}]", name,
                             describe(result), elementTypeName(reference.type), reference.B,
                             reference.H, reference.Sq, reference.Dv));
  return Status::success();
}

Status checkShapes(const Reference &reference, const Tensor &o, const Tensor &lse) {
  if (Status status = checkShape(reference, o, "o"); !status)
    return status;
  if (lse.type != ElementType::f32 || !hasExtents(lse, {reference.B, reference.H, reference.Sq}))
    return Error(Code::invalidArgument,
                 fmt::format("lse is {}, the reference is f32[{}, {}, {}]", describe(lse),
                             reference.B, reference.H, reference.Sq));
  return Status::success();
}

/// Compares a result with its reference, row by row.
class Comparing {
public:
  /// `lse`: null for a gradient. `name`: the result's name in messages.
  Comparing(const Reference &reference, const Tensor &o, const Tensor *lse, const RowNames &nameOf,
            std::string_view name = "o")
      : reference(reference), o(o), lse(lse), nameOf(nameOf), name(name),
        magnitude(largestOf(reference.magnitude)) {}

  /// `areAllRows`: the rows are all of O, so the elements' tolerance can be used.
  Comparison run(bool areAllRows) {
    int64_t rows = int64_t(reference.lse.size());
    std::vector<bool> isNaN(rows);
    for (int64_t row = 0; row < rows; ++row) {
      isNaN[row] = isNaNRow(reference, row);
      result.nanRows += isNaN[row];
      if (!isNaN[row])
        result.failure = faultOfRow(reference, row, !lse, nameOf);
      if (!result.failure.empty()) {
        result.tolerance = NAN;
        return result;
      }
    }
    result.tolerance =
        areAllRows ? elementTolerance(reference, magnitude) : std::numeric_limits<double>::max();
    for (int64_t row = 0; row < rows; ++row) {
      if (isNaN[row]) {
        checkNaNs(row);
        continue;
      }
      if (lse)
        checkLse(row);
      checkElements(row);
    }
    if (result.maxError > result.tolerance)
      fail("{} differs by {:.3g} at {}, d {}, the tolerance is {:.3g}", name, result.maxError,
           nameOf(worstElement), result.worst[3], result.tolerance);
    if (worstRowExcess > 1)
      failRow();
    if (worstLseExcess > 0)
      fail("lse differs by more than {:.3g} at {}", result.lseTolerance, nameOf(worstLse));
    result.passed = result.failure.empty();
    return result;
  }

private:
  const Reference &reference;
  const Tensor &o;
  const Tensor *lse;
  const RowNames &nameOf;
  const std::string_view name;
  const double magnitude;
  Comparison result;
  double worstLseExcess = -HUGE_VAL, worstRowExcess = -HUGE_VAL;
  int64_t worstElement = 0, worstRow = 0, worstLse = 0; ///< the rows with the worst
                                                        ///< values

  /// Keeps only the first reason, because later ones often follow from it.
  template <typename... Values>
  void fail(fmt::format_string<Values...> format, Values &&...values) {
    if (result.failure.empty())
      result.failure = fmt::format(format, std::forward<Values>(values)...);
  }
  /// b, h and q.
  std::array<int64_t, 3> placeOf(int64_t row) const {
    return {row / reference.Sq / reference.H, row / reference.Sq % reference.H, row % reference.Sq};
  }
  float at(int64_t row, int64_t d) const {
    auto [b, h, q] = placeOf(row);
    return loadFloat(o.data, o.type,
                     b * o.strides[0] + h * o.strides[1] + q * o.strides[2] + d * o.strides[3]);
  }
  float lseAt(int64_t row) const {
    return loadFloat(lse->data, lse->type, elementOffset(*lse, row));
  }
  double refAt(int64_t row, int64_t d) const { return reference.ref[row * reference.Dv + d]; }

  void checkNaNs(int64_t row) {
    const char *why = "a kept score or the sink is NaN or +inf there: it must be NaN";
    if (!std::isnan(lseAt(row)))
      fail("lse is {} at {}; {}", lseAt(row), nameOf(row), why);
    for (int64_t d = 0; d < reference.Dv; ++d)
      if (!std::isnan(at(row, d)))
        fail("o is {} at {}, d {}; {}", at(row, d), nameOf(row), d, why);
  }

  void checkLse(int64_t row) {
    double expected = reference.lse[row];
    float actual = lseAt(row);
    if (std::isnan(actual)) {
      ++result.nanCount;
      fail("lse is NaN at {}", nameOf(row));
    } else if (expected == -HUGE_VAL || std::isinf(actual)) {
      if (double(actual) != expected)
        fail("lse is {} at {}, it must be {}", actual, nameOf(row), expected);
    } else {
      double error = std::fabs(double(actual) - expected);
      double tolerance = 1e-3 + 4 * unitInLastPlace(expected);
      result.maxLseError = std::max(result.maxLseError, error);
      if (error - tolerance > worstLseExcess) {
        worstLseExcess = error - tolerance;
        worstLse = row;
        result.lseTolerance = tolerance;
        result.worstLse = placeOf(row);
      }
    }
  }

  void checkElements(int64_t row) {
    bool empty = reference.lse[row] == -HUGE_VAL;
    double squares = 0;
    for (int64_t d = 0; d < reference.Dv; ++d) {
      float actual = at(row, d);
      double error = std::fabs(double(actual) - refAt(row, d));
      if (std::isnan(actual)) {
        ++result.nanCount;
        fail("{} is NaN at {}, d {}", name, nameOf(row), d);
      } else if (empty && actual != 0) {
        fail("{} is {} at {}, d {}, a row without {}: it must be 0", name, actual, nameOf(row), d,
             lse ? "keys" : "pairs");
      }
      if (error > result.maxError) {
        auto [b, h, q] = placeOf(row);
        worstElement = row;
        result.maxError = error;
        result.worst = {b, h, q, d};
      }
      squares += error * error;
    }
    double error = std::sqrt(squares), tolerance = rowTolerance(reference, row, magnitude);
    if (error / tolerance > worstRowExcess) {
      worstRowExcess = error / tolerance;
      worstRow = row;
      result.worstRow = placeOf(row);
      result.rowError = error;
      result.rowTolerance = tolerance;
    }
  }

  void failRow() {
    int64_t worst = 0;
    auto error = [&](int64_t d) { return std::fabs(double(at(worstRow, d)) - refAt(worstRow, d)); };
    for (int64_t d = 1; d < reference.Dv; ++d)
      if (error(d) > error(worst))
        worst = d;
    fail(
        "the norm of {0}'s error in the row {1} is {2:.3g}, the tolerance is {3:.3g} (at d {4} {0} "
        "is {5:.3g}, it must be {6:.3g})",
        name, nameOf(worstRow), result.rowError, result.rowTolerance, worst, at(worstRow, worst),
        refAt(worstRow, worst));
  }
};

} // namespace

Result<Comparison> compare(const Reference &reference, const Tensor &o, const Tensor &lse) {
  if (Status status = checkShapes(reference, o, lse); !status)
    return status.error();
  auto nameOf = [&](int64_t row) { return rowText(row, reference.H, reference.Sq); };
  return Comparing(reference, o, &lse, nameOf).run(/*areAllRows=*/true);
}

Result<Comparison> compareGradient(const Reference &reference, const Tensor &gradient,
                                   std::string_view name) {
  if (Status status = checkShape(reference, gradient, name); !status)
    return status.error();
  bool isOfKeys = name == "dk" || name == "dv";
  auto nameOf = [&](int64_t row) {
    return fmt::format("b {}, {} {}, {} {}", row / reference.Sq / reference.H,
                       isOfKeys ? "hkv" : "h", row / reference.Sq % reference.H,
                       isOfKeys ? "k" : "q", row % reference.Sq);
  };
  return Comparing(reference, gradient, nullptr, nameOf, name).run(/*areAllRows=*/true);
}

Result<Comparison> compareRows(const Reference &reference, const Tensor &o, const Tensor &lse,
                               const RowNames &nameOf) {
  if (Status status = checkShapes(reference, o, lse); !status)
    return status.error();
  return Comparing(reference, o, &lse, nameOf).run(/*areAllRows=*/false);
}

} // namespace tesela
