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

/// What to give as the value of `option`: the end of the message with which its check refuses an
/// empty value, or else the name of the value in the help.
std::string remedyOf(CLI::Option &option) {
  try { // CLI11 throws where an option has no check
    std::string refusal = (*option.get_validator())(std::string());
    if (size_t end = refusal.find(": give "); end != std::string::npos)
      return refusal.substr(end + 2);
  } catch (const CLI::OptionNotFound &) {
  }
  return fmt::format("write {} {}", option.get_name(), option.get_type_name());
}

/// `said`: what CLI11 says, such as "--length: 1 required N missing.". It is returned if it is
/// about anything else.
std::string missingValue(CLI::App &command, const std::string &said) {
  std::string name = said.substr(0, said.find(':'));
  CLI::Option *option = command.get_option_no_throw(name);
  if (!option || !said.ends_with(" missing."))
    return said;
  return fmt::format("{} has no value: {}.", name, remedyOf(*option));
}

} // namespace

std::string usageMessage(const CLI::App *app, const CLI::Error &error,
                         const std::vector<std::string> &arguments) {
  auto is = [&](CLI::ExitCodes code) { return error.get_exit_code() == static_cast<int>(code); };
  bool isRequired = is(CLI::ExitCodes::RequiredError);
  // A misspelt option may also be missing ("--emit is required"). The spelling is the cause.
  bool mayBeUnknown = is(CLI::ExitCodes::ExtrasError) || isRequired;
  const CLI::App *command = app;
  std::string path = app->get_name();
  // CLI11 moves what follows "--" up to the program, and does not say that it did.
  auto mark = std::ranges::find(arguments, "--");
  auto isAfterMark = [&](const std::string &argument) {
    return std::find(mark, arguments.end(), argument) != arguments.end();
  };
  std::vector<std::string> unknown, afterMark;
  auto take = [&](const std::vector<std::string> &remaining) {
    for (const std::string &each : remaining)
      if (each != "--")
        (isAfterMark(each) ? afterMark : unknown).push_back(each);
  };
  take(app->remaining());
  CLI::App *parsed = nullptr;
  while (unknown.empty() && !command->get_subcommands().empty()) {
    command = parsed = command->get_subcommands().front();
    path += " " + command->get_name();
    take(command->remaining());
  }
  std::string text = fmt::format("{}.", error.what());
  bool hasCommands = !commandNames(*command).empty();
  auto option = std::find_if(unknown.begin(), unknown.end(), isOption);
  if (mayBeUnknown && option != unknown.end())
    text = unknownOption(*command, path, *option);
  else if (mayBeUnknown && unknown.empty() && !afterMark.empty())
    text = fmt::format("{} does not take the argument '{}' after '--': give options and commands "
                       "before '--'.",
                       path, afterMark.front());
  else if (mayBeUnknown && hasCommands && !unknown.empty())
    text = unknownCommand(*command, path, unknown.front());
  else if (is(CLI::ExitCodes::ExtrasError) && !unknown.empty())
    text = fmt::format("{} does not take the argument '{}'.", path, unknown.front());
  else if (isRequired && hasCommands)
    text = fmt::format("{} needs a command: {}.", path, fmt::join(commandNames(*command), ", "));
  else if (is(CLI::ExitCodes::ArgumentMismatch) && parsed)
    text = missingValue(*parsed, text);
  return fmt::format("tesela: error: {} Try {} --help.\n", text, path);
}

} // namespace tesela::tool
