//===- RandomGradients.cpp - tesela_random_gradients ----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compares the derivatives of random scores and sinks, which are texts of the language, with finite
// differences. The interpreter computes both in double precision. So the texts are parsed, too.
//
// A difference is trusted if differences over several steps agree. If none agree, the value is at a
// kink or a jump of the score, or it is not finite. Such points are counted, but not compared.
//
//===----------------------------------------------------------------------===//
#include "RandomSource.h"
#include "RandomVariant.h"

#include "frontend/Constants.h"
#include "frontend/Interpreter.h"
#include "tesela/compiler/Gradient.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace tesela;

namespace {

/// Counts over all texts.
struct Tally {
  int64_t derivatives = 0; ///< compared derivatives, one for each point
  int64_t nonzero = 0;     ///< those of them that are not 0
  int64_t atKinks = 0;     ///< points at which no difference could be trusted
  int64_t infinite = 0;    ///< points with a finite value and an infinite or NaN derivative
  int64_t notFinite = 0;   ///< points at which the value is infinite or NaN
};

/// A launch of a variant with values that can be changed.
class Launch {
public:
  Launch(Variant given, RandomSource &random) : variant(std::move(given)) {
    bindings.extents = {2, 4, 2, 33, 35};
    extents = {{"B", 2}, {"H", 4}, {"Hkv", 2}, {"Sq", 33}, {"Sk", 35}};
    for (const BoundExtent &bound : variant.boundExtents)
      extents[bound.name] = random.between(1, 12);
    bindings.parameters.resize(variant.parameters.size());
    numbers.resize(variant.parameters.size());
    others.resize(variant.parameters.size());
    for (size_t i = 0; i < variant.parameters.size(); ++i)
      fill(i, random);
  }

  /// The variant with f32 in place of f16 and bf16, whose rounding would hide a step.
  Variant variant;
  Bindings bindings;
  /// The values of float tensors, and of the others.
  std::vector<std::vector<float>> numbers;
  std::vector<std::vector<int32_t>> others;

private:
  /// A multiple of 2^-12, so that adding a step of 2^-14 is exact.
  static float number(RandomSource &random) {
    return std::ldexp(float(random.between(-12000, 12000)), -12);
  }

  void fill(size_t i, RandomSource &random) {
    Parameter &parameter = variant.parameters[i];
    Binding &binding = bindings.parameters[i];
    bool isFloat = elementScalar(parameter.type) == ScalarType::f32;
    if (!parameter.isCapture) {
      binding.scalar = isFloat ? double(number(random)) : random.between(-5, 40);
      return;
    }
    int64_t count = 1;
    for (const CaptureExtent &extent : parameter.extents) {
      int64_t length = extent.offset;
      if (extent.coefficient != 0)
        length += int64_t(extent.coefficient) * extents.at(extent.name);
      binding.capture.extents.push_back(std::max<int64_t>(length, 0));
      count *= binding.capture.extents.back();
    }
    int64_t stride = 1;
    for (size_t axis = parameter.extents.size(); axis-- > 0;) {
      binding.capture.strides.insert(binding.capture.strides.begin(), stride);
      stride *= std::max<int64_t>(binding.capture.extents[axis], 1);
    }
    if (isFloat) {
      parameter.type = ElementType::f32;
      for (int64_t n = 0; n < count; ++n)
        numbers[i].push_back(number(random));
      binding.capture.data = numbers[i].data();
    } else { // a bool has one byte
      for (int64_t n = 0; n < count; ++n)
        others[i].push_back(parameter.type == ElementType::boolean
                                ? int32_t(random.next() & 0x01010101)
                                : random.between(-3, 40));
      binding.capture.data = others[i].data();
    }
  }

  std::map<std::string, int32_t> extents;
};

/// "slope: f32[H, 2*Sk-1]": the declaration with which a text can be parsed again.
std::string declaration(const Parameter &parameter) {
  std::string text = parameter.name + ": " + std::string(elementTypeName(parameter.type));
  for (size_t axis = 0; axis < parameter.extents.size(); ++axis) {
    const CaptureExtent &extent = parameter.extents[axis];
    text += axis ? ", " : "[";
    if (extent.coefficient == 0) {
      text += std::to_string(extent.offset);
      continue;
    }
    text += std::to_string(extent.coefficient) + "*" + extent.name;
    if (extent.offset != 0)
      text += (extent.offset > 0 ? "+" : "") + std::to_string(extent.offset);
  }
  return text + (parameter.isCapture ? "]" : "");
}

/// One text with its launch, and a point.
class Check {
public:
  Check(Launch &launch, RandomSource &random, Tally &tally)
      : launch(launch), random(random), tally(tally) {
    // Draws again until the score is finite at the point, at most ten times.
    for (int draw = 0; draw < 10 && (draw == 0 || !std::isfinite(valueOfVariant())); ++draw)
      choosePair();
  }

  /// Checks a derivative of the score or of the sink. Empty, or what is wrong.
  std::string run(const Derivatives &derivatives, bool ofSink) {
    isSink = ofSink;
    lets.clear();
    for (const std::string &let : derivatives.lets)
      lets += "  " + let + "\n";
    std::map<std::string, std::vector<const PartialDerivative *>> byName;
    for (const PartialDerivative &partial : derivatives.partials)
      byName[partial.by].push_back(&partial);
    for (const auto &[name, partials] : byName) {
      std::string wrong = name == "s" ? byScore(*partials[0]) : byParameter(name, partials);
      if (!wrong.empty())
        return (isSink ? "d sink / d " : "d score / d ") + name + ": " + wrong;
    }
    return "";
  }

private:
  void choosePair() {
    const Extents &extents = launch.bindings.extents;
    point.b = random.below(extents.B);
    point.h = random.below(extents.H);
    point.hkv = point.h / (extents.H / extents.Hkv);
    point.q = random.below(extents.Sq);
    point.k = random.below(extents.Sk);
    s = std::ldexp(random.between(-12000, 12000), -12);
  }

  std::string byScore(const PartialDerivative &partial) {
    return compare(partial.text, [&](double step) {
      double known = std::exchange(s, s + step);
      double value = valueOfVariant();
      s = known;
      return value;
    });
  }

  std::string byParameter(const std::string &name,
                          const std::vector<const PartialDerivative *> &partials) {
    size_t number = 0;
    while (launch.variant.parameters[number].name != name)
      ++number;
    Binding &binding = launch.bindings.parameters[number];
    if (!launch.variant.parameters[number].isCapture)
      return compare(partials[0]->text, [&](double step) {
        double known = std::exchange(binding.scalar, binding.scalar + step);
        double value = valueOfVariant();
        binding.scalar = known;
        return value;
      });
    if (launch.numbers[number].empty())
      return "";
    // With respect to an element that a read gives, or to any element.
    const PartialDerivative &chosen = *random.pick(partials);
    std::vector<int64_t> element;
    for (size_t axis = 0; axis < binding.capture.extents.size(); ++axis) {
      int64_t extent = binding.capture.extents[axis], index = random.below(int(extent));
      if (!chosen.indices.empty() && random.chance(95)) {
        double found = 0;
        if (std::string wrong = evaluate(oneRound(chosen, chosen.indices[axis]), found);
            !wrong.empty())
          return wrong;
        index = std::clamp<int64_t>(int64_t(found), 0, extent - 1);
      }
      element.push_back(index);
    }
    float *value = launch.numbers[number].data();
    for (size_t axis = 0; axis < element.size(); ++axis)
      value += element[axis] * binding.capture.strides[axis];
    std::string whole;
    for (const PartialDerivative *partial : partials)
      whole += (whole.empty() ? "" : " + ") + ofElement(*partial, element, binding.capture.extents);
    return compare(whole, [&](double step) {
      float known = std::exchange(*value, float(*value + step));
      double result = valueOfVariant();
      *value = known;
      return result;
    });
  }

  /// `text` in the first iteration of each sum. Only that one is tested.
  static std::string oneRound(const PartialDerivative &partial, const std::string &text) {
    std::string whole = "0.0 + (" + text + ")";
    for (size_t i = partial.rounds.size(); i-- > 0;) {
      std::string index = partial.rounds[i].substr(0, partial.rounds[i].find(' '));
      whole = "sum(" + index + " < 1: " + whole + ")";
    }
    return whole;
  }

  /// The sum, over all iterations, of what the read gives to `element`.
  static std::string ofElement(const PartialDerivative &partial,
                               const std::vector<int64_t> &element,
                               const std::vector<int64_t> &extents) {
    std::string text;
    for (size_t axis = 0; axis < partial.indices.size(); ++axis)
      text += (axis ? " && " : "") + std::string("clamp(") + partial.indices[axis] + ", 0, " +
              std::to_string(extents[axis] - 1) + ") == " + std::to_string(element[axis]);
    text = text.empty() ? partial.text : "(" + text + " ? " + partial.text + " : 0.0)";
    for (size_t i = partial.rounds.size(); i-- > 0;)
      text = "sum(" + partial.rounds[i] + ": " + text + ")";
    return text;
  }

  double value(const Variant &variant) const {
    Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
    return interpreter ? isSink ? interpreter->sink(point) : interpreter->score(point, s)
                       : std::nan("");
  }
  double valueOfVariant() const { return value(launch.variant); }

  /// Evaluates a text at the point. Returns what is wrong if it cannot be parsed.
  std::string evaluate(const std::string &text, double &result) const {
    std::string whole = "attention derivative";
    for (size_t i = 0; i < launch.variant.parameters.size(); ++i)
      whole += (i ? ", " : "(") + declaration(launch.variant.parameters[i]);
    whole += launch.variant.parameters.empty() ? " {\n" : ") {\n";
    whole += lets + (isSink ? "  sink = " : "  score = ") + text + "\n}\n";
    Result<Variant> variant = parseVariant(whole, "derivative", {});
    if (!variant)
      return "the derivative is no text of the language: " + variant.error().message() + whole;
    result = value(*variant);
    return "";
  }

  /// The derivative on which differences over several steps agree, with its error. False if they do
  /// not agree.
  static bool difference(const std::function<double(double)> &value, double &derivative,
                         double &error) {
    // Richardson extrapolation: the differences over h and h / 2 combine to one without the term in
    // h².
    auto central = [&](double step) { return (value(step) - value(-step)) / (2 * step); };
    std::vector<double> found;
    for (int exponent = -5; exponent >= -13; exponent -= 2) {
      double h = std::ldexp(1.0, exponent);
      found.push_back((4 * central(h / 2) - central(h)) / 3);
    }
    error = std::numeric_limits<double>::infinity();
    for (size_t i = 1; i < found.size(); ++i)
      if (double distance = std::fabs(found[i] - found[i - 1]); distance < error) {
        error = distance;
        derivative = found[i];
      }
    return error <= 1e-5 * (1 + std::fabs(derivative));
  }

  std::string compare(const std::string &text, const std::function<double(double)> &value) {
    double analytic = 0, derivative = 0, error = 0;
    if (std::string wrong = evaluate(text, analytic); !wrong.empty())
      return wrong;
    if (!std::isfinite(value(0))) {
      ++tally.notFinite;
      return "";
    }
    // sqrt and log have an infinite slope at 0, which times 0 is NaN.
    if (!std::isfinite(analytic) && difference(value, derivative, error)) {
      ++tally.infinite;
      return "";
    }
    if (!difference(value, derivative, error)) {
      ++tally.atKinks;
      return "";
    }
    ++tally.derivatives;
    tally.nonzero += derivative != 0;
    // A term that cancels leaves its rounding error. Coefficients are rounded to f32.
    double tolerance = 10 * error + 1e-6 * (1 + std::fabs(derivative));
    if (std::fabs(analytic - derivative) <= tolerance)
      return "";
    char message[200];
    std::snprintf(message, sizeof message,
                  "%.12g, but differences give %.12g, within %.3g, at b %d h %d q %d k %d s %.9g: ",
                  analytic, derivative, tolerance, point.b, point.h, point.q, point.k, s);
    return message + lets + text;
  }

  Launch &launch;
  RandomSource &random;
  Tally &tally;
  Point point;
  double s = 0;
  bool isSink = false;
  std::string lets;
};

/// Empty, or what is wrong with the derivatives of `text`.
std::string check(const std::string &text, uint64_t seed, int points, Tally &tally) {
  Result<Variant> variant = parseVariant(text, "variant", {});
  if (!variant)
    return variant.error().message();
  Result<VariantGradient> gradient = gradientOf(*variant, text);
  if (!gradient)
    return gradient.error().message();
  RandomSource random(seed, /*stream=*/5);
  for (int i = 0; i < points; ++i) {
    Launch launch(*variant, random);
    Check check(launch, random, tally);
    if (std::string wrong = check.run(gradient->score, /*ofSink=*/false); !wrong.empty())
      return wrong;
    if (!gradient->sink)
      continue;
    if (std::string wrong = check.run(*gradient->sink, /*ofSink=*/true); !wrong.empty())
      return wrong;
  }
  return "";
}

} // namespace

int main(int argc, char **argv) {
  int count = 200, points = 3;
  int64_t least = 0;
  uint64_t seed = 1;
  bool print = false;
  CLI::App app("The derivatives of random scores against finite differences in double precision.");
  app.add_option("--count", count, "how many scores (default 200)");
  app.add_option("--seed", seed, "of the first; the others follow it (default 1)");
  app.add_option("--points", points, "launches and pairs of each (default 3)");
  app.add_option("--least", least,
                 "how many derivatives that are not 0 must be compared (default 0)");
  app.add_flag("--print", print, "prints the texts, too");
  CLI11_PARSE(app, argc, argv);

  Tally tally;
  int failed = 0, scores = 0;
  for (; scores < count; ++seed) {
    std::string text = randomVariant(seed, ElementType::f32);
    if (text.find("score = ") == std::string::npos) // the score is s itself
      continue;
    ++scores;
    if (print)
      std::printf("// seed %llu\n%s\n", static_cast<unsigned long long>(seed), text.c_str());
    std::string wrong = check(text, seed, points, tally);
    if (wrong.empty())
      continue;
    ++failed;
    std::printf("FAILED: %s\n%srepeat: tesela_random_gradients --count 1 --seed %llu\n\n",
                wrong.c_str(), text.c_str(), static_cast<unsigned long long>(seed));
  }
  std::printf("%d scores, %d failed: %lld derivatives compared, %lld of them not 0; not compared: "
              "%lld near kinks and jumps, %lld where the score is not finite, %lld where only the "
              "derivative is not\n",
              scores, failed, static_cast<long long>(tally.derivatives),
              static_cast<long long>(tally.nonzero), static_cast<long long>(tally.atKinks),
              static_cast<long long>(tally.notFinite), static_cast<long long>(tally.infinite));
  if (1000 * tally.infinite > tally.derivatives) {
    std::printf("FAILED: more than a thousandth of the derivatives is not finite\n");
    ++failed;
  }
  if (tally.nonzero < least) {
    std::printf("FAILED: at least %lld derivatives that are not 0 must be compared\n",
                static_cast<long long>(least));
    ++failed;
  }
  return failed ? 1 : 0;
}
