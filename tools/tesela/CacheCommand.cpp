//===- CacheCommand.cpp - `tesela cache` ----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CacheCommand.h"
#include "ExitCode.h"
#include "StandardOutput.h"

#include "tesela/Cache.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ctime>
#include <map>

namespace tesela::tool {

using nlohmann::ordered_json;

namespace {

void printJson(const ordered_json &json) {
  print(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

std::string formatBytes(int64_t bytes) {
  if (bytes < 1 << 10)
    return fmt::format("{} B", bytes);
  if (bytes < 1 << 20)
    return fmt::format("{:.1f} KiB", double(bytes) / (1 << 10));
  if (bytes < 1 << 30)
    return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20));
  return fmt::format("{:.1f} GiB", double(bytes) / (1 << 30));
}

/// The time in the local time zone.
std::string formatTime(int64_t seconds) {
  std::time_t time = seconds;
  std::tm parts{};
  localtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

std::string formatCount(size_t count) {
  return fmt::format("{} kernel{}", count, count == 1 ? "" : "s");
}

int64_t bytesOf(const std::vector<CachedKernel> &kernels) {
  int64_t bytes = 0;
  for (const CachedKernel &kernel : kernels)
    bytes += kernel.bytes;
  return bytes;
}

ordered_json toJson(const CachedKernel &kernel) {
  ordered_json json = {
      {"key", kernel.key}, {"path", kernel.path}, {"bytes", kernel.bytes}, {"used", kernel.used}};
  if (kernel.damage) {
    json["damage"] = kernel.damage->message();
    return json;
  }
  json.update({{"made", kernel.made},
               {"variant", kernel.variantName},
               {"target", kernel.target},
               {"dtype", elementTypeName(kernel.inputType)},
               {"head_dim_qk", kernel.headDimQk},
               {"head_dim_v", kernel.headDimV},
               {"schedule", kernel.schedule}});
  return json;
}

/// The first letters of a key are enough to distinguish kernels.
std::string formatKey(const CachedKernel &kernel) { return kernel.key.substr(0, 12); }

std::string formatLine(const CachedKernel &kernel) {
  std::string start = fmt::format("{}  {:>10}  {}  ", formatKey(kernel), formatBytes(kernel.bytes),
                                  formatTime(kernel.used));
  if (kernel.damage)
    return start + "damaged: " + kernel.damage->message() + "\n";
  return start + fmt::format("{}  {:<6} {:<4} {:>7}  {:<20} {}\n", formatTime(kernel.made),
                             kernel.target, elementTypeName(kernel.inputType),
                             fmt::format("{}/{}", kernel.headDimQk, kernel.headDimV),
                             kernel.variantName, kernel.schedule);
}

int list(const Cache &cache, bool json) {
  Result<std::vector<CachedKernel>> kernels = cache.list();
  if (!kernels)
    return report(kernels.error());
  if (json) {
    ordered_json all = ordered_json::array();
    for (const CachedKernel &kernel : *kernels)
      all.push_back(toJson(kernel));
    printJson(all);
    return exitSuccess;
  }
  if (!kernels->empty())
    print(fmt::format("{:<12}  {:>10}  {:<16}  {:<16}  {:<6} {:<4} {:>7}  {:<20} {}\n", "key",
                      "size", "used", "made", "target", "type", "dims", "variant", "schedule"));
  for (const CachedKernel &kernel : *kernels)
    print(formatLine(kernel));
  print(fmt::format("{}, {}, in {}\n", formatCount(kernels->size()), formatBytes(bytesOf(*kernels)),
                    cache.folder()));
  return exitSuccess;
}

struct Share {
  int64_t kernels = 0, bytes = 0;
};

int stats(const Cache &cache, bool json) {
  Result<std::vector<CachedKernel>> kernels = cache.list();
  if (!kernels)
    return report(kernels.error());
  std::map<std::string, Share> targets;
  int64_t damaged = 0;
  for (const CachedKernel &kernel : *kernels) {
    damaged += kernel.damage.has_value();
    if (kernel.damage)
      continue;
    Share &share = targets[kernel.target];
    ++share.kernels;
    share.bytes += kernel.bytes;
  }
  int64_t bytes = bytesOf(*kernels);
  if (json) {
    ordered_json all = {{"folder", cache.folder()},
                        {"kernels", kernels->size()},
                        {"bytes", bytes},
                        {"default_limit_bytes", defaultCacheBytes},
                        {"damaged", damaged}};
    if (!kernels->empty())
      all.update({{"oldest_use", kernels->back().used}, {"latest_use", kernels->front().used}});
    all["targets"] = ordered_json::object();
    for (const auto &[target, share] : targets)
      all["targets"][target] = {{"kernels", share.kernels}, {"bytes", share.bytes}};
    printJson(all);
    return exitSuccess;
  }
  print(fmt::format("folder     {}\nkernels    {}, {} (the limit is {} by default)\n",
                    cache.folder(), kernels->size(), formatBytes(bytes),
                    formatBytes(defaultCacheBytes)));
  if (!kernels->empty())
    print(fmt::format("last used  {} to {}\n", formatTime(kernels->back().used),
                      formatTime(kernels->front().used)));
  for (const auto &[target, share] : targets)
    print(fmt::format("{:<10} {}, {}\n", target, formatCount(size_t(share.kernels)),
                      formatBytes(share.bytes)));
  if (damaged > 0)
    print(fmt::format("damaged    {}\n", formatCount(size_t(damaged))));
  return exitSuccess;
}

int verify(const Cache &cache, bool json) {
  Result<std::vector<CachedKernel>> kernels = cache.verify();
  if (!kernels)
    return report(kernels.error());
  std::vector<CachedKernel> damaged;
  for (const CachedKernel &kernel : *kernels)
    if (kernel.damage)
      damaged.push_back(kernel);
  if (json) {
    ordered_json all = {{"folder", cache.folder()},
                        {"kernels", kernels->size()},
                        {"damaged", ordered_json::array()}};
    for (const CachedKernel &kernel : damaged)
      all["damaged"].push_back(toJson(kernel));
    printJson(all);
  } else {
    for (const CachedKernel &kernel : damaged)
      print(fmt::format("{}: {}\n", kernel.path, kernel.damage->message()));
    print(fmt::format("{} in {}: ", formatCount(kernels->size()), cache.folder()));
    print(damaged.empty() ? "none is damaged\n"
                          : fmt::format("{} damaged; a damaged kernel is compiled again when it "
                                        "is needed\n",
                                        damaged.size()));
  }
  return damaged.empty() ? exitSuccess : exitWrongResult;
}

int reportRemoval(const Result<CacheRemoval> &removal, bool json) {
  if (!removal)
    return report(removal.error());
  if (json)
    printJson(ordered_json({{"removed_kernels", removal.value().kernels},
                            {"removed_bytes", removal.value().bytes},
                            {"bytes_left", removal.value().bytesLeft}}));
  else
    print(fmt::format("{} removed, {}; {} left\n", formatCount(size_t(removal.value().kernels)),
                      formatBytes(removal.value().bytes), formatBytes(removal.value().bytesLeft)));
  return exitSuccess;
}

int prune(const Cache &cache, const CacheOptions &options) {
  if (!options.mostBytes && !options.mostDays)
    return report(
        Error(Code::invalidArgument, "prune needs a limit: give --to SIZE, --older DAYS or both"));
  Cache::Keep keep;
  if (options.mostBytes)
    keep.mostBytes = int64_t(*options.mostBytes);
  if (options.mostDays)
    keep.mostSecondsOld = int64_t(*options.mostDays * 24 * 60 * 60);
  return reportRemoval(cache.prune(keep), options.json);
}

} // namespace

int cache(const CacheOptions &options) {
  Result<Cache> cache = Cache::open(options.folder);
  if (!cache)
    return report(cache.error());
  switch (options.action) {
  case CacheOptions::Action::list:
    return list(*cache, options.json);
  case CacheOptions::Action::stats:
    return stats(*cache, options.json);
  case CacheOptions::Action::verify:
    return verify(*cache, options.json);
  case CacheOptions::Action::prune:
    return prune(*cache, options);
  case CacheOptions::Action::clear:
    return reportRemoval(cache->clear(), options.json);
  }
  return exitDefect;
}

} // namespace tesela::tool
