//===- TuneReport.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "TuneReport.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace tesela::tool {

using nlohmann::ordered_json;

/// The number of rows of the table.
static constexpr size_t mostRows = 10;

static std::vector<std::string> choicesOf(const std::string &schedule) {
  std::vector<std::string> choices;
  for (size_t begin = 0; begin < schedule.size();) {
    size_t end = std::min(schedule.find(", ", begin), schedule.size());
    choices.push_back(schedule.substr(begin, end - begin));
    begin = end + 2;
  }
  return choices;
}

std::string differences(const std::string &schedule, const std::string &base) {
  std::vector<std::string> of = choicesOf(base);
  std::set<std::string> known(of.begin(), of.end());
  std::string text;
  for (const std::string &choice : choicesOf(schedule))
    if (!known.contains(choice))
      text += (text.empty() ? "" : ", ") + choice;
  return text;
}

static const Trial *heuristicOf(const TuneReport &report) {
  auto found = std::ranges::find_if(report.trials, &Trial::isHeuristic);
  return found == report.trials.end() ? nullptr : &*found;
}

/// A share in percent: "99 %".
static std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string formatText(const TunedVariant &tuned) {
  const TuneReport &report = tuned.report;
  const LaunchExtents &e = tuned.extents;
  std::string text;
  auto line = [&](const char *label, const std::string &value) {
    text += fmt::format("{:<10} {}\n", label, value);
  };
  line("variant", fmt::format("{} ({})", tuned.name, tuned.path));
  line("device", fmt::format("{} ({})", tuned.device.name, tuned.device.target));
  line("problem", fmt::format("B {}  H {}  Hkv {}  Sq {}  Sk {}  {}, head dimensions {} and {}",
                              e.B, e.H, e.Hkv, e.Sq, e.Sk, elementTypeName(tuned.kernel.inputType),
                              tuned.kernel.headDimQk, tuned.kernel.headDimV));
  const Trial *heuristic = heuristicOf(report);
  std::string base = heuristic ? heuristic->schedule : "";
  if (heuristic)
    line("heuristic", fmt::format("{:.4g} ms: {}", heuristic->milliseconds, base));
  if (report.isHeuristic)
    line("choice", "the heuristic's: no schedule is faster with certainty");
  else
    line("choice", fmt::format("{:.4g} ms, {:.3f} times as fast as the heuristic's (confidence {}; "
                               "compared with the next best one: {}): {}",
                               report.milliseconds, report.speedup, percent(report.overHeuristic),
                               percent(report.overRunnerUp), differences(report.schedule, base)));
  if (report.timeUp)
    line("", "the time ended before the choice was certain; give a larger --seconds");
  text += fmt::format("\n{:>7} {:>9} {:>9}  {}\n", "ratio", "ms", "samples", "difference");
  for (size_t i = 0; i < std::min(report.trials.size(), mostRows); ++i) {
    const Trial &trial = report.trials[i];
    if (trial.speedup <= 0)
      break;
    text += fmt::format("{:>7.3f} {:>9.4g} {:>9}  {}\n", trial.speedup, trial.milliseconds,
                        trial.launches,
                        trial.isHeuristic ? "the heuristic's" : differences(trial.schedule, base));
  }
  text += '\n';
  line("tried", fmt::format("{} of {} schedules in {:.0f} s", report.timed, report.trials.size(),
                            report.seconds));
  line("kept", report.record.empty() ? "no" : report.record);
  if (!report.isHeuristic)
    line("to pin", fmt::format("--schedule \"{}\"", report.schedule));
  return text;
}

static std::string dump(const ordered_json &json) {
  // A path may contain bytes that are not UTF-8, but JSON must be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string formatJson(const TunedVariant &tuned) {
  const TuneReport &report = tuned.report;
  const LaunchExtents &e = tuned.extents;
  ordered_json trials = ordered_json::array();
  for (const Trial &trial : report.trials) {
    ordered_json json = {{"schedule", trial.schedule},
                         {"predicted_ms", trial.predictedMilliseconds}};
    if (trial.speedup > 0) {
      json["ms"] = trial.milliseconds;
      json["ratio"] = trial.speedup;
      json["samples"] = trial.launches;
    }
    if (trial.isHeuristic)
      json["heuristic"] = true;
    if (!trial.dropped.empty())
      json["dropped"] = trial.dropped;
    trials.push_back(std::move(json));
  }
  ordered_json json = {{"variant", tuned.name},
                       {"path", tuned.path},
                       {"device", {{"name", tuned.device.name}, {"target", tuned.device.target}}},
                       {"problem",
                        {{"batch", e.B},
                         {"heads", e.H},
                         {"kv_heads", e.Hkv},
                         {"length", e.Sq},
                         {"kv_length", e.Sk},
                         {"head_dim_qk", tuned.kernel.headDimQk},
                         {"head_dim_v", tuned.kernel.headDimV},
                         {"dtype", std::string(elementTypeName(tuned.kernel.inputType))}}},
                       {"choice",
                        {{"schedule", report.schedule},
                         {"heuristic", report.isHeuristic},
                         {"ms", report.milliseconds},
                         {"ratio", report.speedup},
                         {"sure_over_heuristic", report.overHeuristic},
                         {"sure_over_next", report.overRunnerUp}}},
                       {"timed", report.timed},
                       {"seconds", report.seconds},
                       {"time_up", report.timeUp},
                       {"record", report.record},
                       {"trials", std::move(trials)},
                       {"version", version()}};
  return dump(json);
}

std::string formatText(const std::string &name, const std::vector<TunedChoice> &choices) {
  if (choices.empty())
    return fmt::format("Nothing is kept for {} with these head dimensions and this type on this "
                       "device.\n",
                       name);
  std::string text;
  for (const TunedChoice &choice : choices) {
    std::string gain = choice.milliseconds == choice.heuristicMilliseconds
                           ? "which the heuristic chooses, too"
                           : fmt::format("the heuristic's {:.4g} ms, {} sure",
                                         choice.heuristicMilliseconds, percent(choice.confidence));
    text += fmt::format("{}: {:.4g} ms, {} ({} schedules timed, {})\n  --schedule \"{}\"\n  {}\n",
                        choice.bucket, choice.milliseconds, gain, choice.timed, choice.made,
                        choice.schedule, choice.path);
  }
  return text;
}

std::string formatJson(const std::string &name, const std::vector<TunedChoice> &choices) {
  ordered_json records = ordered_json::array();
  for (const TunedChoice &choice : choices)
    records.push_back({{"bucket", choice.bucket},
                       {"schedule", choice.schedule},
                       {"ms", choice.milliseconds},
                       {"heuristic_ms", choice.heuristicMilliseconds},
                       {"sure", choice.confidence},
                       {"timed", choice.timed},
                       {"version", choice.version},
                       {"made", choice.made},
                       {"record", choice.path}});
  return dump({{"variant", name}, {"kept", std::move(records)}});
}

} // namespace tesela::tool
