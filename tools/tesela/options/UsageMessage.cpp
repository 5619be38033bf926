//===- UsageMessage.cpp ---------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/UsageMessage.h"

#include "tesela/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tesela::tool {
namespace {

bool isOption(std::string_view argument) {
  return argument.size() > 1 && argument.front() == '-' && argument != "--";
}

/// The commands of `command`, in the order of the help.
std::vector<std::string_view> commandNames(const CLI::App &command) {
  std::vector<std::string_view> names;
  for (const CLI::App *each : command.get_subcommands(nullptr))
    names.push_back(each->get_name());
  return names;
}

/// `path`: what the user typed to name `command`, such as "tesela cache prune".
std::string unknownOption(const CLI::App &command, const std::string &path,
                          std::string_view argument) {
  std::string_view name = argument.substr(0, argument.find('='));
  std::vector<std::string_view> known;
  for (const CLI::Option *option : command.get_options())
    known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
  // Without the dashes, which all options have: they would make different names look alike.
  std::string_view letters = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::string_view near = nearestName(letters, known);
  return fmt::format("{} has no option '{}'{}", path, name,
                     near.empty() ? "." : fmt::format("; did you mean '--{}'?", near));
}

std::string unknownCommand(const CLI::App &command, const std::string &path,
                           std::string_view argument) {
  std::vector<std::string_view> known = commandNames(command);
  std::string_view near = nearestName(argument, known);
  return fmt::format("{} has no command '{}'; {}", path, argument,
                     near.empty() ? fmt::format("it has {}.", fmt::join(known, ", "))
                                  : fmt::format("did you mean '{}'?", near));
}

} // namespace

std::string usageMessage(const CLI::App *app, const CLI::Error &error) {
  auto is = [&](CLI::ExitCodes code) { return error.get_exit_code() == static_cast<int>(code); };
  bool isRequired = is(CLI::ExitCodes::RequiredError);
  // A misspelt option may also be missing ("--emit is required"). The spelling is the cause.
  bool mayBeUnknown = is(CLI::ExitCodes::ExtrasError) || isRequired;
  const CLI::App *command = app;
  std::string path = app->get_name();
  std::vector<std::string> unknown = app->remaining();
  while (unknown.empty() && !command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
    unknown = command->remaining();
  }
  std::string text = fmt::format("{}.", error.what());
  bool hasCommands = !commandNames(*command).empty();
  auto option = std::find_if(unknown.begin(), unknown.end(), isOption);
  if (mayBeUnknown && option != unknown.end())
    text = unknownOption(*command, path, *option);
  else if (mayBeUnknown && hasCommands && !unknown.empty())
    text = unknownCommand(*command, path, unknown.front());
  else if (is(CLI::ExitCodes::ExtrasError) && !unknown.empty())
    text = fmt::format("{} does not take the argument '{}'.", path, unknown.front());
  else if (isRequired && hasCommands)
    text = fmt::format("{} needs a command: {}.", path, fmt::join(commandNames(*command), ", "));
  return fmt::format("tesela: error: {} Try {} --help.\n", text, path);
}

} // namespace tesela::tool
