//===- ExplainReport.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ExplainReport.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace tesela::tool {

std::string headLabel(const HeadTiles &tiles) {
  if (tiles.batch < 0 && tiles.head < 0)
    return "every head";
  std::string label = tiles.batch < 0 ? "" : fmt::format("b {}", tiles.batch);
  if (tiles.head >= 0)
    label += fmt::format("{}h {}", label.empty() ? "" : ", ", tiles.head);
  return label;
}

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string withShare(int64_t part, int64_t whole) {
  return fmt::format("{} ({:.1f} %)", part, percent(double(part), double(whole)));
}

namespace {

/// "forward", "dq" or "dkdv", as --pass takes it.
const char *passName(TilePass pass) {
  switch (pass) {
  case TilePass::forward:
    return "forward";
  case TilePass::dq:
    return "dq";
  case TilePass::dkdv:
    return "dkdv";
  }
  return "";
}

/// Floating-point operations for one pair. The products are S and P V for the forward pass; S, dP
/// and dS K for dq; S, dP, Pᵀ dO and dSᵀ Q for dkdv.
double operationsOfPair(const ExplainReport &report) {
  double dQk = double(report.Dqk), dV = double(report.Dv);
  switch (report.explanation.map.pass) {
  case TilePass::forward:
    return 2 * (dQk + dV);
  case TilePass::dq:
    return 2 * (2 * dQk + dV);
  case TilePass::dkdv:
    return 2 * (2 * dQk + 2 * dV);
  }
  return 0;
}

/// Floating-point operations of the launch's products, over whole tiles.
struct Work {
  double all = 0;     ///< if every tile were computed
  double skipped = 0; ///< in empty tiles
  double outside = 0; ///< wasted: beyond the ends of the sequences
  /// Wasted on pairs that the mask drops. Empty if the kept pairs were not counted.
  std::optional<double> masked = 0;

  double computed() const { return all - skipped; }
};

Work workOf(const ExplainReport &report) {
  const Explanation &explanation = report.explanation;
  double perPair = operationsOfPair(report);
  double perTile = perPair * double(explanation.map.blockM) * double(explanation.map.blockN);
  Work work;
  for (size_t i = 0; i < explanation.map.heads.size(); ++i) {
    const HeadTiles &tiles = explanation.map.heads[i];
    const TileCounts &counts = tiles.counts;
    double heads = (tiles.batch < 0 ? double(report.extents.B) : 1) *
                   (tiles.head < 0 ? double(report.extents.H) : 1);
    double pairs = double(tiles.computedPairs);
    work.all += heads * perTile * double(counts.all());
    work.skipped += heads * perTile * double(counts.empty);
    work.outside += heads * (perTile * double(counts.partial + counts.full) - perPair * pairs);
    if (explanation.keptPairs[i] < 0)
      work.masked.reset();
    if (work.masked)
      *work.masked += heads * perPair * (pairs - double(explanation.keptPairs[i]));
  }
  return work;
}

std::string formText(const TileMap &map) {
  switch (map.form) {
  case TileForm::everyTile:
    return "every tile runs";
  case TileForm::keyRanges:
    return fmt::format("closed {} ranges, {} run{}", map.pass == TilePass::dkdv ? "query" : "key",
                       map.runs, map.runs == 1 ? "" : "s");
  case TileForm::classified:
    return "classified tile by tile";
  }
  return "";
}

} // namespace

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// A count with its unit: "1.1 TFLOP".
static std::string operations(double count) {
  for (auto [size, unit] : {std::pair(1e12, "TFLOP"), {1e9, "GFLOP"}, {1e6, "MFLOP"}})
    if (count >= size)
      return fmt::format("{:.3g} {}", count / size, unit);
  return fmt::format("{:.0f} FLOP", count);
}

/// One line for all heads with the same counts, so that heads with other counts are easy to see.
static std::string countLines(const Explanation &explanation) {
  constexpr size_t maxLines = 16, maxLabels = 8;
  std::vector<std::pair<TileCounts, std::vector<std::string>>> groups;
  for (const HeadTiles &tiles : explanation.map.heads) {
    const TileCounts &counts = tiles.counts;
    auto group =
        std::ranges::find_if(groups, [&](const auto &each) { return each.first == counts; });
    if (group == groups.end())
      group = groups.insert(group, {counts, {}});
    group->second.push_back(headLabel(tiles));
  }
  std::string text =
      fmt::format("{:<10} {:>20} {:>20} {:>20}\n", "tiles", "empty", "partial", "full");
  for (size_t i = 0; i < std::min(groups.size(), maxLines); ++i) {
    const auto &[counts, labels] = groups[i];
    std::string who = labels.front();
    for (size_t label = 1; label < std::min(labels.size(), maxLabels); ++label)
      who += "; " + labels[label];
    if (labels.size() > maxLabels)
      who += fmt::format("; {} more", labels.size() - maxLabels);
    text += fmt::format(
        "{:<10} {:>20} {:>20} {:>20}   {}\n", "", withShare(counts.empty, counts.all()),
        withShare(counts.partial, counts.all()), withShare(counts.full, counts.all()), who);
  }
  if (groups.size() > maxLines)
    text += fmt::format("{:<10} and {} more: see --json\n", "", groups.size() - maxLines);
  return text;
}

static std::string vainLine(const Work &work) {
  std::string beyond =
      fmt::format("{} ({:.1f} %) beyond the sequences' ends", operations(work.outside),
                  percent(work.outside, work.computed()));
  if (!work.masked)
    return beyond + "; pairs that the mask drops were not counted, they are too many";
  return fmt::format("{} ({:.1f} % of what is computed) on pairs that the mask drops, {}",
                     operations(*work.masked), percent(*work.masked, work.computed()), beyond);
}

std::string formatText(const ExplainReport &report) {
  const Explanation &explanation = report.explanation;
  const TileMap &map = explanation.map;
  const LaunchExtents &e = report.extents;
  std::string text;
  auto line = [&](const char *label, const std::string &value) {
    text += fmt::format("{:<10} {}\n", label, value);
  };
  line("variant", fmt::format("{} ({})", explanation.variantName, report.variantPath));
  std::string pass = map.pass == TilePass::forward ? "" : fmt::format("{} ", passName(map.pass));
  line("kernel", fmt::format("{}for {}, {}, head dimensions {} and {}", pass, explanation.target,
                             elementTypeName(report.type), report.Dqk, report.Dv));
  line("problem", fmt::format("B {}  H {}  Hkv {}  Sq {}  Sk {}", e.B, e.H, e.Hkv, e.Sq, e.Sk));
  line("tile", fmt::format("{} queries x {} keys: {} rows of {} tiles", map.blockM, map.blockN,
                           map.rows, map.columns));
  line("form", formText(map));
  text += countLines(explanation);
  Work work = workOf(report);
  line("skipped", fmt::format("{} of {} ({:.1f} %)", operations(work.skipped), operations(work.all),
                              percent(work.skipped, work.all)));
  line("in vain", vainLine(work));
  return text + explanation.lostProofs;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

using nlohmann::ordered_json;

static ordered_json headJson(const TileMap &map, const HeadTiles &tiles, int64_t keptPairs) {
  const TileCounts &counts = tiles.counts;
  ordered_json json = ordered_json::object();
  if (tiles.batch >= 0)
    json["b"] = tiles.batch;
  if (tiles.head >= 0)
    json["h"] = tiles.head;
  json["empty"] = counts.empty;
  json["partial"] = counts.partial;
  json["full"] = counts.full;
  if (keptPairs >= 0)
    json["kept_pairs"] = keptPairs;
  ordered_json rows = ordered_json::array();
  for (int64_t row = 0; row < map.rows; row += map.cell) {
    std::string kinds;
    for (int64_t column = 0; column < map.columns; column += map.cell)
      kinds += "epf"[int(map.kind(tiles, row, column))];
    rows.push_back(std::move(kinds));
  }
  json["kinds"] = std::move(rows);
  return json;
}

static const char *formName(TileForm form) {
  switch (form) {
  case TileForm::everyTile:
    return "every tile";
  case TileForm::keyRanges:
    return "key ranges";
  case TileForm::classified:
    return "classified";
  }
  return "";
}

std::string formatJson(const ExplainReport &report) {
  const Explanation &explanation = report.explanation;
  const TileMap &map = explanation.map;
  const LaunchExtents &e = report.extents;
  Work work = workOf(report);
  ordered_json json = {
      {"variant", explanation.variantName},
      {"path", report.variantPath},
      {"problem",
       {{"batch", e.B},
        {"heads", e.H},
        {"kv_heads", e.Hkv},
        {"length", e.Sq},
        {"kv_length", e.Sk},
        {"head_dim_qk", report.Dqk},
        {"head_dim_v", report.Dv},
        {"dtype", std::string(elementTypeName(report.type))}}},
      {"kernel",
       {{"pass", passName(map.pass)},
        {"target", explanation.target},
        {"schedule", explanation.schedule}}},
      {"version", version()},
      {"tile", {{"queries", map.blockM}, {"keys", map.blockN}}},
      {"form", formName(map.form)},
      {"flop", {{"all", work.all}, {"skipped", work.skipped}, {"beyond_the_ends", work.outside}}}};
  if (map.form == TileForm::keyRanges)
    json["runs"] = map.runs;
  if (map.cell > 1)
    json["cell"] = map.cell;
  if (work.masked)
    json["flop"]["masked"] = *work.masked;
  json["lost_proofs"] = ordered_json::array();
  for (const LostProof &proof : map.lostProofs)
    json["lost_proofs"].push_back({{"line", proof.line},
                                   {"column", proof.column},
                                   {"reason", proof.reason},
                                   {"remedy", proof.remedy}});
  json["heads"] = ordered_json::array();
  for (size_t i = 0; i < map.heads.size(); ++i)
    json["heads"].push_back(headJson(map, map.heads[i], explanation.keptPairs[i]));
  // A path may contain bytes that are not UTF-8, but JSON must be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace tesela::tool
