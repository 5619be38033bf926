//===- HostGradientReference.cpp - References of gradients ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The formulas of templates/backward.mlir in double precision: one pass over rows of queries for
// dq, and one over rows of keys for dk and dv. The derivative of the score is the text that `tesela
// gradient` prints; the interpreter evaluates it like a score.
//
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "check/Elements.h"
#include "check/ReferenceInputs.h"
#include "check/Roundoff.h"
#include "frontend/Constants.h"
#include "host/ThreadPool.h"
#include "tesela/compiler/Gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tesela {

namespace {

/// The declaration of a parameter, "slope: f32[H, 2*Sk-1]", so that a text can be parsed again.
std::string declaration(const Parameter &parameter) {
  std::string text =
      fmt::format("{}: {}", parameter.name, std::string(elementTypeName(parameter.type)));
  for (size_t axis = 0; axis < parameter.extents.size(); ++axis) {
    const CaptureExtent &extent = parameter.extents[axis];
    text += axis ? ", " : "[";
    if (extent.coefficient == 0)
      text += std::to_string(extent.offset);
    else
      text += fmt::format("{}*{}", extent.coefficient, extent.name) +
              (extent.offset != 0 ? fmt::format("{:+}", extent.offset) : "");
  }
  return text + (parameter.isCapture ? "]" : "");
}

/// A variant whose score is the derivative of `variant`'s score with respect to s.
Result<Variant> derivativeOf(const Variant &variant, const KernelOptions &options) {
  Result<VariantGradient> gradient = gradientOf(variant, options.variantText);
  if (!gradient)
    return gradient.error();
  std::string text = "attention derivative";
  for (size_t i = 0; i < variant.parameters.size(); ++i)
    text += (i ? ", " : "(") + declaration(variant.parameters[i]);
  text += variant.parameters.empty() ? " {\n" : ") {\n";
  for (const std::string &let : gradient->score.lets)
    text += "  " + let + "\n";
  for (const PartialDerivative &partial : gradient->score.partials)
    if (partial.by == "s")
      text += "  score = " + partial.text + "\n";
  return parseVariant(text + "}\n", "the derivative of " + options.variantFile, {});
}

/// Rows [batch, head, row] of one tensor, in f32.
struct RowsInFloat {
  std::vector<float> values;
  int64_t heads, rows, dim;

  explicit RowsInFloat(const Tensor &tensor)
      : values(
            size_t(tensor.extents[0] * tensor.extents[1] * tensor.extents[2] * tensor.extents[3])),
        heads(tensor.extents[1]), rows(tensor.extents[2]), dim(tensor.extents[3]) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = loadFloat(tensor.data, tensor.type, elementOffset(tensor, int64_t(i)));
  }
  const float *row(int64_t b, int64_t h, int64_t row) const {
    return &values[size_t(((b * heads + h) * rows + row) * dim)];
  }
};

double dot(const float *a, const float *b, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int j = 0; j < 8; ++j)
      sums[j] += double(a[i + j]) * double(b[i + j]);
  for (; i < count; ++i)
    sums[0] += double(a[i]) * double(b[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double dotOfMagnitudes(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::fabs(double(a[i]) * double(b[i]));
  return sum;
}

/// The terms that a kept pair adds: P times a row of dO to dv (0 if dropout drops the pair), and ds
/// times a row of k or q to dq and dk. `base...` have a kernel's roundings. `size` is what
/// roundings of ds are relative to. In 16 bits dS and O (and with it D) are rounded, so it has |dP
/// - D| and the norm of dO ∘ O. In f32 mainly sums are rounded, so it has the magnitudes of all
/// terms of dP and D. `sizeOfP` is P's size; in f32 roundings of S and L change exp(S - L) by more
/// than a rounding of P does.
struct PairTerms {
  double p = 0, baseP = 0, sizeOfP = 0;
  double ds = 0, baseDs = 0, size = 0;
};

class GradientRun {
public:
  GradientRun(const CheckedArguments &arguments, std::optional<Dropout> dropout,
              const Interpreter &score, const Interpreter &derivative, const Reference &forward,
              GradientReference &result)
      : e(arguments.extents), scale(arguments.scale), dropout(dropout), score(score),
        derivative(derivative), forward(forward), result(result),
        q(arguments.tensors[AttentionTensors::q]), k(arguments.tensors[AttentionTensors::k]),
        v(arguments.tensors[AttentionTensors::v]), dO(arguments.tensors[AttentionTensors::o]),
        rows(forward.lse.size()) {
    const Tensor &dlse = arguments.tensors[AttentionTensors::lse];
    for (size_t row = 0; row < rows.size(); ++row) {
      const float *given = &dO.values[row * size_t(dO.dim)];
      Row &each = rows[row];
      double rounded = 0, squares = 0;
      for (int64_t d = 0; d < dO.dim; ++d) {
        double o = forward.ref[row * size_t(dO.dim) + size_t(d)];
        double base = forward.base[row * size_t(dO.dim) + size_t(d)];
        each.delta += o * given[d];
        each.size += std::fabs(o * given[d]);
        squares += o * given[d] * o * given[d];
        rounded += double(roundTo(forward.type, float(base))) * given[d];
      }
      double ofLse = dlse.data ? double(static_cast<const float *>(dlse.data)[row]) : 0;
      each.delta -= ofLse;
      each.size = isF32() ? each.size + std::fabs(ofLse) : std::sqrt(squares);
      each.baseDelta = float(float(rounded) - float(ofLse));
    }
  }

  Status run(ThreadPool &pool) {
    if (Status status =
            pool.run(int64_t(e.B) * e.H * e.Sq, 0, [&](int64_t row, void *) { computeQuery(row); });
        !status)
      return status;
    return pool.run(int64_t(e.B) * e.Hkv * e.Sk, 0, [&](int64_t row, void *) { computeKey(row); });
  }

private:
  /// D of a row of queries. `size`: as in PairTerms.
  struct Row {
    double delta = 0, size = 0;
    float baseDelta = 0;
  };

  const Extents e;
  const double scale;
  const std::optional<Dropout> dropout;
  const Interpreter &score, &derivative;
  const Reference &forward;
  GradientReference &result;
  const RowsInFloat q, k, v, dO;
  std::vector<Row> rows;
  /// Check.h allows four units of a size. This is the size of which four units are half a subnormal
  /// step.
  const double leastSize = subnormalRoundoff(forward.type) / (4 * unitRoundoff(forward.type));

  bool isF32() const { return forward.type == ElementType::f32; }

  /// The factor of P in the product with V.
  double weightOf(const Point &at) const {
    if (!dropout)
      return 1;
    bool dropped = dropout->drops(uint32_t(at.b * e.H + at.h), uint32_t(at.q), uint32_t(at.k));
    return dropped ? 0 : dropout->scale();
  }

  /// What a slope counts as. Where its terms cancel, its error is greater than units of its value.
  /// In f32 the magnitudes of dP and D leave room for that.
  double sizeOf(const RoundedNumber &slope) const {
    double size = std::fabs(slope.value);
    bool hasBound = !isF32() && std::isfinite(slope.roundoff);
    return hasBound ? std::max(size, slope.roundoff / (4 * unitRoundoff(forward.type))) : size;
  }

  /// Returns false if the pair is masked.
  bool evaluate(const Point &at, PairTerms &terms) const {
    if (!score.maskIsTrue() && !score.mask(at))
      return false;
    size_t row = size_t((int64_t(at.b) * e.H + at.h) * e.Sq + at.q);
    const float *ofK = k.row(at.b, at.hkv, at.k), *ofV = v.row(at.b, at.hkv, at.k);
    const float *given = dO.row(at.b, at.h, at.q);
    double s = scale * dot(q.row(at.b, at.h, at.q), ofK, q.dim);
    float baseS = float(s);
    bool identity = score.scoreIsIdentity();
    double t = identity ? s : score.score(at, s);
    float baseT = identity ? baseS : score.score(at, baseS);
    if (t == -HUGE_VAL)
      return false;
    double L = forward.lse[row];
    double P = std::exp(t - L), weight = weightOf(at);
    terms.p = weight * P;
    // Check.h allows four units of the size, so a quarter of the size stands for one unit.
    double size = isF32() ? P * (1 + (std::fabs(t) + std::fabs(L)) / 4) : P;
    // P and dS below the type's normal numbers are rounded by up to half a subnormal step.
    double least = P == 0 || isF32() ? 0 : leastSize;
    terms.sizeOfP = weight * std::max(size, least);
    double preciseP = baseT == -HUGE_VALF ? 0 : std::exp(double(baseT) - double(float(L)));
    terms.baseP = weight * roundTo(forward.type, float(preciseP));
    double dP = weight * dot(given, ofV, dO.dim);
    RoundedNumber slope = identity ? RoundedNumber{1, 0} : derivative.roundedScore(at, s);
    double baseSlope = identity ? 1 : double(derivative.score(at, baseS));
    const Row &each = rows[row];
    // A pair with P = 0 adds nothing, even if other factors are infinite.
    terms.ds = P == 0 ? 0 : scale * P * (dP - each.delta) * slope.value;
    double baseDs = preciseP == 0 ? 0 : preciseP * (dP - double(each.baseDelta)) * baseSlope;
    terms.baseDs = scale * roundTo(forward.type, float(baseDs));
    double ofTerm =
        isF32() ? weight * dotOfMagnitudes(given, ofV, dO.dim) : std::fabs(dP - each.delta);
    double ofDs = size * sizeOf(slope) * (ofTerm + each.size);
    terms.size = P == 0 ? 0 : scale * std::max(ofDs, least);
    return true;
  }

  /// A row of a gradient, while its terms are added.
  struct Sum {
    double *ref, *base, *magnitude;
    int64_t dim;
    double squares = 0;

    Sum(Reference &of, int64_t row)
        : ref(&of.ref[size_t(row * of.Dv)]), base(&of.base[size_t(row * of.Dv)]),
          magnitude(&of.magnitude[size_t(row * of.Dv)]), dim(of.Dv) {}
    void add(double weight, double baseWeight, double size, const float *values) {
      double sum = 0;
      for (int64_t d = 0; d < dim; ++d) {
        double value = values[d];
        ref[d] += weight * value;
        base[d] += baseWeight * value;
        magnitude[d] += size * std::fabs(value);
        sum += value * value;
      }
      squares += size * size * sum;
    }
  };

  static void finish(Reference &of, int64_t row, const Sum &sum, bool hasPairs) {
    of.termNorm[size_t(row)] = std::sqrt(sum.squares);
    of.lse[size_t(row)] = hasPairs ? 0 : -HUGE_VAL;
  }

  void computeQuery(int64_t row) {
    Point at;
    at.b = int32_t(row / e.Sq / e.H);
    at.h = int32_t(row / e.Sq % e.H);
    at.hkv = at.h / (e.H / e.Hkv);
    at.q = int32_t(row % e.Sq);
    Sum dq(result.dq, row);
    bool hasPairs = false;
    PairTerms terms;
    for (at.k = 0; at.k < e.Sk; ++at.k) {
      if (!evaluate(at, terms))
        continue;
      hasPairs = true;
      dq.add(terms.ds, terms.baseDs, terms.size, k.row(at.b, at.hkv, at.k));
    }
    finish(result.dq, row, dq, hasPairs);
  }

  void computeKey(int64_t row) {
    Point at;
    at.b = int32_t(row / e.Sk / e.Hkv);
    at.hkv = int32_t(row / e.Sk % e.Hkv);
    at.k = int32_t(row % e.Sk);
    Sum dk(result.dk, row), dv(result.dv, row);
    bool hasPairs = false;
    PairTerms terms;
    int32_t sharing = e.H / e.Hkv;
    for (at.h = at.hkv * sharing; at.h < (at.hkv + 1) * sharing; ++at.h)
      for (at.q = 0; at.q < e.Sq; ++at.q) {
        if (!evaluate(at, terms))
          continue;
        hasPairs = true;
        dk.add(terms.ds, terms.baseDs, terms.size, q.row(at.b, at.h, at.q));
        dv.add(terms.p, terms.baseP, terms.sizeOfP, dO.row(at.b, at.h, at.q));
      }
    finish(result.dk, row, dk, hasPairs);
    finish(result.dv, row, dv, hasPairs);
  }
};

/// The signature of q, k and v, with the incoming gradients in the places of o and lse.
Signature signatureOf(const KernelOptions &options, const Variant &variant) {
  Signature signature = Signature::ofAttention(
      options.inputType, options.headDimQk, options.headDimV, parametersOfLaunch(options, variant));
  for (auto [index, name] :
       {std::pair(AttentionTensors::o, "do"), std::pair(AttentionTensors::lse, "dlse")}) {
    DeclaredTensor &tensor = signature.tensors[index];
    tensor.name = name;
    tensor.member = nullptr;
    tensor.isWritten = false;
  }
  return signature;
}

Reference emptyGradient(const Reference &forward, int64_t heads, int64_t length, int64_t dim) {
  Reference gradient;
  gradient.B = forward.B;
  gradient.H = heads;
  gradient.Sq = length;
  gradient.Dv = dim;
  gradient.type = forward.type;
  gradient.scoreUsesTanh = forward.scoreUsesTanh;
  gradient.maxScore = forward.maxScore;
  gradient.keptPairs = forward.keptPairs;
  size_t rows = size_t(forward.B * heads * length);
  for (std::vector<double> *each : {&gradient.ref, &gradient.base, &gradient.magnitude})
    each->resize(rows * size_t(dim));
  gradient.lse.resize(rows);
  gradient.termNorm.resize(rows);
  return gradient;
}

} // namespace

Result<GradientReference> hostGradientReference(const KernelOptions &options,
                                                const LaunchArguments &arguments, int threads) {
  KernelOptions attention = options;
  attention.algorithm = forwardAlgorithm;
  attention.schedule.clear();
  LaunchArguments ofForward = arguments, ofGradients = arguments;
  ofForward.tensors.clear();
  ofGradients.o = ofGradients.lse = Tensor();
  std::erase_if(ofGradients.tensors, [](const NamedTensor &each) {
    return each.name == "dq" || each.name == "dk" || each.name == "dv";
  });
  Result<Reference> forward = hostReference(attention, ofForward, threads);
  if (!forward)
    return forward.error();
  Result<Variant> variant =
      parseVariant(options.variantText, options.variantFile, constantsOf(options));
  if (!variant)
    return variant.error();
  Result<CheckedArguments> checked =
      checkArguments(signatureOf(attention, *variant), ofGradients, {0, false});
  if (!checked)
    return checked.error();
  Result<Variant> derivative = derivativeOf(*variant, options);
  if (!derivative)
    return derivative.error();
  ReferenceInputs inputs{*variant, *checked, firstOfDropout(attention, *variant)};
  Bindings bindings = bindingsOf(*variant, *checked);
  Result<Interpreter> score = Interpreter::create(*variant, bindings);
  if (!score)
    return score.error();
  Result<Interpreter> slope = Interpreter::create(*derivative, bindings);
  if (!slope)
    return slope.error();
  const Extents &e = checked->extents;
  GradientReference result{emptyGradient(*forward, e.H, e.Sq, options.headDimQk),
                           emptyGradient(*forward, e.Hkv, e.Sk, options.headDimQk),
                           emptyGradient(*forward, e.Hkv, e.Sk, options.headDimV)};
  ThreadPool pool(threads);
  GradientRun run(*checked, dropoutOf(inputs), *score, *slope, *forward, result);
  if (Status status = run.run(pool); !status)
    return status.error();
  return result;
}

} // namespace tesela
