//===- main.cpp - The command line ----------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ExitCode.h"
#include "StandardOutput.h"
#include "options/Options.h"
#include "options/UsageMessage.h"

#include "tesela/Commit.h"
#include "tesela/Variant.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

using namespace tesela::tool;

namespace {

const char *const footer = R"(
VARIANT is a file, "-" for standard input, or the name of a library variant.

Examples
  tesela run causal                       random data, on the GPU if there is one
  tesela run mine.attn --length 4096 --heads 32 --kv-heads 8
  tesela compile causal --target sm_90 --emit ptx
  tesela explain sliding_window --param window=256 --length 4096
  tesela gradient softcap
  tesela export causal --target sm_80,sm_90 -o causal_bundle
  tesela check *.attn
  tesela COMMAND --help                   the options of one command

Exit codes
  0 done   1 a wrong result or a damaged file   2 bad usage or input
  3 no device, library, memory or writable file   4 a defect of Tesela)";

/// Shows the default of each option, but no limits: the messages name those.
class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter() { column_width(26); }
  std::string make_option_opts(const CLI::Option *option) const override {
    std::string text = option->get_type_size() == 0 ? "" : " " + option->get_type_name();
    if (!option->get_default_str().empty())
      text += " = " + option->get_default_str();
    return text;
  }
};

/// "tesela 0.1.0 (commit 1a2b3c4d5e6f)". The commit is missing in a build without Git's data.
std::string versionText() {
  std::string_view commit = TESELA_COMMIT;
  return fmt::format("tesela {}{}", tesela::version(),
                     commit.empty() ? "" : fmt::format(" (commit {})", commit));
}

/// Parses the command line and runs what it names.
int dispatch(int argc, char **argv) {
  CLI::App app("Tesela compiles attention variants and runs them.", "tesela");
  app.footer(footer);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", versionText());
  app.require_subcommand(0, 1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  app.failure_message([&arguments](const CLI::App *failed, const CLI::Error &error) {
    return usageMessage(failed, error, arguments);
  });

  RunOptions runOptions;
  addRun(app, runOptions);
  CompileOptions compileOptions;
  addCompile(app, compileOptions);
  ExplainOptions explainOptions;
  addExplain(app, explainOptions);
  GradientOptions gradientOptions;
  addGradient(app, gradientOptions);
  ExportOptions exportOptions;
  addExport(app, exportOptions);
  std::vector<std::string> checked;
  CLI::App *checkCommand = app.add_subcommand("check", "Check variants: diagnostics only");
  checkCommand->add_option("VARIANT", checked, "Files, \"-\", or library variants")
      ->type_name("")
      ->required();
  bool devicesAsJson = false;
  CLI::App *devicesCommand = app.add_subcommand("devices", "List what kernels can run on");
  devicesCommand->add_flag("--json", devicesAsJson, "Print a JSON array");
  TuneCommandOptions tuneOptions;
  addTune(app, tuneOptions);
  CacheOptions cacheOptions;
  addCache(app, cacheOptions);
  CLI::App *variantsCommand = app.add_subcommand("variants", "List the library's variants");

  try { // CLI11 reports by exceptions; they end here.
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    std::ostringstream output;
    int code = app.exit(error, output, std::cerr);
    print(output.str());
    return code == 0 ? exitSuccess : exitBadInput;
  }
  if (checkCommand->parsed())
    return check(checked);
  if (devicesCommand->parsed())
    return devices(devicesAsJson);
  if (variantsCommand->parsed())
    return variants();
  if (app.got_subcommand("tune"))
    return tune(tuneOptions);
  if (app.got_subcommand("cache"))
    return cache(cacheOptions);
  if (app.got_subcommand("run"))
    return run(runOptions);
  if (app.got_subcommand("compile"))
    return compile(compileOptions);
  if (app.got_subcommand("explain"))
    return explain(explainOptions);
  if (app.got_subcommand("gradient"))
    return gradient(gradientOptions);
  if (app.got_subcommand("export"))
    return exportBundle(exportOptions);
  return report(tesela::Error(
      tesela::Code::invalidArgument,
      "give a command: run, compile, explain, gradient, export, tune, check, cache, devices "
      "or variants; see tesela --help."));
}

/// Reports what the standard library throws, for example when memory runs out.
int dispatchSafely(int argc, char **argv) {
  try {
    return dispatch(argc, argv);
  } catch (const std::bad_alloc &) {
    return report(tesela::Error(tesela::Code::outOfMemory,
                                "the machine's memory ran out: make the problem smaller."));
  } catch (const std::exception &error) {
    return report(tesela::Error(tesela::Code::defect, error.what()));
  }
}

} // namespace

int main(int argc, char **argv) {
  int exitCode = dispatchSafely(argc, argv);
  if (tesela::Status status = finishOutput(); !status && exitCode == exitSuccess)
    return report(status.error());
  return exitCode;
}
