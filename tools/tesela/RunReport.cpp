//===- RunReport.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RunReport.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace tesela::tool {

/// The middle value, or the mean of the two middle values.
static double median(const std::vector<double> &sorted) {
  size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

static double allPairs(const RunReport &report) {
  const Problem &p = *report.problem;
  if (report.sequencePairs >= 0)
    return report.sequencePairs;
  return double(p.B) * double(p.H) * double(p.Sq) * double(p.Sk);
}

/// Floating-point operations over `pairs` (b, h, q, k): of the two products of attention, or of the
/// five products of its gradients. S, dq and dk need the head dimension of q and k; dP and dv need
/// that of v.
static double operations(const RunReport &report, double pairs) {
  double dQk = double(report.problem->Dqk), dV = double(report.problem->Dv);
  return 2 * pairs * (report.isBackward ? 3 * dQk + 2 * dV : dQk + dV);
}

static double teraflops(const RunReport &report, double pairs) {
  return operations(report, pairs) / (median(report.milliseconds) * 1e9);
}

static const char *originName(KernelInfo::Origin origin) {
  switch (origin) {
  case KernelInfo::Origin::compiled:
    return "compiled";
  case KernelInfo::Origin::memoryCache:
    return "memory cache";
  case KernelInfo::Origin::diskCache:
    return "disk cache";
  case KernelInfo::Origin::bundle:
    return "bundle";
  case KernelInfo::Origin::package:
    return "package";
  }
  return "";
}

static const char *originName(KernelInfo::ScheduleOrigin origin) {
  switch (origin) {
  case KernelInfo::ScheduleOrigin::given:
    return "given";
  case KernelInfo::ScheduleOrigin::heuristic:
    return "heuristic";
  case KernelInfo::ScheduleOrigin::tuned:
    return "tuned";
  case KernelInfo::ScheduleOrigin::simple:
    return "simple";
  }
  return "";
}

static const char *layoutName(Layout layout) { return layout == Layout::bhsd ? "bhsd" : "bshd"; }

static double total(const KernelInfo &kernel) {
  double sum = 0;
  for (const auto &[stage, milliseconds] : kernel.stages)
    sum += milliseconds;
  return sum;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string compileLine(const KernelInfo &kernel) {
  std::string line = fmt::format("{:.1f} ms", total(kernel));
  if (kernel.origin != KernelInfo::Origin::compiled)
    line += fmt::format(", from the {}", originName(kernel.origin));
  for (size_t i = 0; i < kernel.stages.size(); ++i)
    line += fmt::format("{} {} {:.1f}", i == 0 ? ":" : ",", kernel.stages[i].first,
                        kernel.stages[i].second);
  if (!kernel.assembler.empty())
    line += fmt::format(" (by {})", kernel.assembler);
  return line;
}

static std::string resourceLine(const KernelInfo &kernel) {
  std::string line;
  auto add = [&](const auto &value, const char *unit) {
    if (value)
      line += fmt::format("{}{} {}", line.empty() ? "" : ", ", *value, unit);
  };
  add(kernel.registers, "registers");
  add(kernel.sharedBytes, "bytes of shared memory");
  add(kernel.spillBytes, "bytes spilled");
  add(kernel.threads, "threads");
  return line;
}

static std::string checkLine(const RunReport &report) {
  const Comparison &c = *report.comparison;
  return fmt::format("{}: largest error {:.2e}, tolerance {:.2e}; lse {:.2e}, tolerance {:.2e} "
                     "(against the {})",
                     c.passed ? "passed" : "FAILED", c.maxError, c.tolerance, c.maxLseError,
                     c.lseTolerance, report.referenceName);
}

static std::string gradientsLine(const RunReport &report) {
  bool passed = true;
  std::string errors;
  for (const auto &[name, comparison] : report.gradients) {
    passed &= comparison.passed;
    errors += fmt::format("{} {} {:.2e}, tolerance {:.2e}", errors.empty() ? "" : ";", name,
                          comparison.maxError, comparison.tolerance);
  }
  return fmt::format("{}: largest errors{} (against the {})", passed ? "passed" : "FAILED", errors,
                     report.referenceName);
}

static std::string speedLine(const RunReport &report) {
  double all = allPairs(report);
  if (report.keptPairs < 0)
    return fmt::format("{:.4g} TFLOP/s over all pairs (kept pairs were not counted)",
                       teraflops(report, all));
  double kept = double(report.keptPairs);
  return fmt::format("{:.4g} TFLOP/s over the kept pairs ({:.1f} % of all), {:.4g} over all",
                     teraflops(report, kept), all > 0 ? 100 * kept / all : 0.0,
                     teraflops(report, all));
}

std::string formatText(const RunReport &report) {
  std::string text;
  auto line = [&](const char *label, const std::string &value) {
    text += fmt::format("{:<10} {}\n", label, value);
  };
  const Problem &p = *report.problem;
  line("variant", fmt::format("{} ({})", report.kernel.variantName, report.variantPath));
  line("device", fmt::format("{} ({})", report.device.name, report.device.target));
  line("kernel",
       fmt::format("{}for {}, {}, head dimensions {} and {}", report.isBackward ? "gradients " : "",
                   report.kernel.target, elementTypeName(report.kernel.inputType),
                   report.kernel.headDimQk, report.kernel.headDimV));
  line("problem", fmt::format("B {}  H {}  Hkv {}  Sq {}  Sk {}  {}  scale {:.6g}", p.B, p.H, p.Hkv,
                              p.Sq, p.Sk, layoutName(p.layout), p.scale));
  line("schedule", report.kernel.schedule + (report.kernel.tunedRecord.empty() ? "" : " (tuned)"));
  line("compile", compileLine(report.kernel));
  if (std::string resources = resourceLine(report.kernel); !resources.empty())
    line("resources", resources);
  line("check", report.comparison           ? checkLine(report)
                : !report.gradients.empty() ? gradientsLine(report)
                : report.verified
                    ? fmt::format("passed: {} of the first launch, in {:.4g} ms",
                                  report.verified->text, report.verified->milliseconds)
                    : "skipped");
  if (!report.milliseconds.empty()) {
    line("time", fmt::format("{:.4g} ms median of {} (from {:.4g} to {:.4g})",
                             median(report.milliseconds), report.milliseconds.size(),
                             report.milliseconds.front(), report.milliseconds.back()));
    line("speed", speedLine(report));
  }
  return text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

using nlohmann::ordered_json;

static ordered_json kernelJson(const KernelInfo &kernel) {
  ordered_json stages = ordered_json::object();
  for (const auto &[stage, milliseconds] : kernel.stages)
    stages[stage] = milliseconds;
  ordered_json json = {{"target", kernel.target},
                       {"schedule", kernel.schedule},
                       {"schedule_origin", originName(kernel.scheduleOrigin)},
                       {"origin", originName(kernel.origin)},
                       {"compile_ms", total(kernel)},
                       {"stages_ms", stages}};
  if (!kernel.tunedRecord.empty())
    json["tuned_record"] = kernel.tunedRecord;
  if (!kernel.assembler.empty())
    json["assembler"] = kernel.assembler;
  if (kernel.registers)
    json["registers"] = *kernel.registers;
  if (kernel.sharedBytes)
    json["shared_bytes"] = *kernel.sharedBytes;
  if (kernel.spillBytes)
    json["spill_bytes"] = *kernel.spillBytes;
  if (kernel.threads)
    json["threads"] = *kernel.threads;
  return json;
}

static ordered_json errorsJson(const Comparison &c) {
  ordered_json json = {
      {"max_error", c.maxError}, {"tolerance", c.tolerance},        {"worst", c.worst},
      {"row_error", c.rowError}, {"row_tolerance", c.rowTolerance}, {"worst_row", c.worstRow}};
  return json;
}

static ordered_json checkJson(const RunReport &report) {
  const Comparison &c = *report.comparison;
  ordered_json json = {{"passed", c.passed}, {"reference", report.referenceName}};
  json.update(errorsJson(c));
  json.update({{"max_lse_error", c.maxLseError},
               {"lse_tolerance", c.lseTolerance},
               {"nan_count", c.nanCount},
               {"nan_rows", c.nanRows}});
  if (!c.passed)
    json["failure"] = c.failure;
  return json;
}

static ordered_json gradientsJson(const RunReport &report) {
  bool passed = true;
  ordered_json all;
  for (const auto &[name, comparison] : report.gradients) {
    passed &= comparison.passed;
    ordered_json &each = all[name] = errorsJson(comparison);
    each["nan_count"] = comparison.nanCount;
    if (!comparison.passed)
      each["failure"] = comparison.failure;
  }
  ordered_json json = {{"passed", passed}, {"reference", report.referenceName}};
  json.update(all);
  return json;
}

static ordered_json timeJson(const RunReport &report) {
  ordered_json json = {{"runs", report.milliseconds.size()},
                       {"median_ms", median(report.milliseconds)},
                       {"min_ms", report.milliseconds.front()},
                       {"max_ms", report.milliseconds.back()},
                       {"tflops_all_pairs", teraflops(report, allPairs(report))}};
  if (report.keptPairs >= 0)
    json["tflops_kept_pairs"] = teraflops(report, double(report.keptPairs));
  return json;
}

std::string formatJson(const RunReport &report) {
  const Problem &p = *report.problem;
  ordered_json json = {{"variant", report.kernel.variantName},
                       {"path", report.variantPath},
                       {"device", {{"name", report.device.name}, {"target", report.device.target}}},
                       {"problem",
                        {{"batch", p.B},
                         {"heads", p.H},
                         {"kv_heads", p.Hkv},
                         {"length", p.Sq},
                         {"kv_length", p.Sk},
                         {"head_dim_qk", p.Dqk},
                         {"head_dim_v", p.Dv},
                         {"dtype", std::string(elementTypeName(p.type))},
                         {"layout", layoutName(p.layout)},
                         {"scale", p.scale}}},
                       {"kernel", kernelJson(report.kernel)},
                       {"version", version()}};
  if (report.seed)
    json["problem"]["seed"] = *report.seed;
  if (!report.inputs.empty())
    json["problem"]["inputs"] = report.inputs;
  if (report.keptPairs >= 0)
    json["problem"]["kept_pairs"] = report.keptPairs;
  if (report.isBackward)
    json["pass"] = "backward";
  if (report.comparison)
    json["check"] = checkJson(report);
  if (!report.gradients.empty())
    json["check"] = gradientsJson(report);
  if (report.verified)
    json["verified"] = {{"rows", report.verified->text}, {"ms", report.verified->milliseconds}};
  if (!report.milliseconds.empty())
    json["time"] = timeJson(report);
  // A path may contain bytes that are not UTF-8, but JSON must be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace tesela::tool
