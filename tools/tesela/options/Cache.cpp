//===- Cache.cpp - The options of `tesela cache` ------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/Options.h"
#include "options/SharedOptions.h"

#include <fmt/format.h>

namespace tesela::tool {
namespace {

const char *const footer = R"(
Compiled kernels are stored in a folder that many processes can share. When the folder
exceeds its size limit, the least recently used kernels are removed.

Examples
  tesela cache list                the kernels, most recently used first
  tesela cache verify              reads every file; exit code 1 if one is damaged
  tesela cache prune --to 200M     keeps the most recently used 200 MB
  tesela cache prune --older 30    removes kernels not used for 30 days
  tesela cache clear)";

/// Reads a size such as "2G" and replaces `text` by the number of bytes.
CLI::Validator byteSize() {
  return {[](std::string &text) -> std::string {
            std::string given = text;
            try { // CLI11 throws where it cannot read a number
              if (!given.starts_with('-') && CLI::AsSizeValue(false)(text).empty())
                return "";
            } catch (const CLI::Error &) {
            }
            return fmt::format(
                "'{}' is not a size: give a number of bytes, or for example 500K, 200M or 2G",
                given);
          },
          ""};
}

} // namespace

void addCache(CLI::App &app, CacheOptions &options) {
  using Action = CacheOptions::Action;
  CLI::App *command = app.add_subcommand("cache", "The compiled kernels on disk");
  command->footer(footer);
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *text, Action action) {
    CLI::App *part = command->add_subcommand(name, text);
    part->callback([&options, action] { options.action = action; });
    addCacheFolder(part, options.folder, "The folder");
    part->add_flag("--json", options.json, "Print JSON");
    return part;
  };
  add("list", "List the kernels, most recently used first", Action::list);
  add("stats", "Count the kernels and their bytes", Action::stats);
  add("verify", "Read and check every file", Action::verify);
  CLI::App *prune = add("prune", "Remove the least recently used kernels", Action::prune);
  prune->add_option("--to", options.mostBytes, "Remove until the rest has this size: 500M, 2G")
      ->transform(byteSize())
      ->type_name("SIZE");
  prune->add_option("--older", options.mostDays, "Remove kernels not used for this many days")
      ->check(number(0, 1e6))
      ->type_name("DAYS");
  add("clear", "Remove all", Action::clear);
}

} // namespace tesela::tool
