//===- main.cpp - The command's options -----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CacheCommand.h"
#include "Commands.h"
#include "ExitCode.h"
#include "RunOptions.h"
#include "StandardOutput.h"

#include "tesela/Check.h"
#include "tesela/Variant.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <sstream>

using namespace tesela::tool;

namespace {

const char *const mainFooter = R"(
A VARIANT is a file, "-" for standard input, or the name of a library variant.

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

const char *const runFooter = R"(
The inputs are seeded random numbers. A .safetensors file has the variant's captured
tensors, by name, and q, k and v or none of them: bf16, f16 or f32, [B, H, S, D],
or [B, S, H, D] with --layout bshd. The result is held against a reference in
double precision. Speed counts 2 (Dqk + Dv) operations for each pair (q, k) that
the mask keeps, with --gradients 2 (3 Dqk + 2 Dv). Then a file may also have do and
dlse, the gradients of the result and of lse; else do is random, and there is no dlse.

Examples
  tesela run causal --length 4096 --heads 16
  tesela run sliding_window --param window=256 --target host
  tesela run alibi --dtype f16 --head-dim 64 --json
  tesela run causal --gradients
  tesela run full --input qkv.safetensors --output o.safetensors --layout bshd)";

const char *const explainFooter = R"(
A tile is empty (skipped), partial (masked pair by pair) or full (computed without
the mask), as the kernel's own program has it; blocks are those of its schedule.
Where only partial can be proved, a note names the part of the mask that lost
the proof. Captured tensors are random, or from the file of --input; what its
tensors say of the lengths need not be said again.

Examples
  tesela explain causal --length 4096
  tesela explain sliding_window --param window=256 --svg window.svg
  tesela explain causal --pass dkdv
  tesela explain mine.attn --target sm_90 --input captures.safetensors --json)";

const char *const gradientFooter = R"(
The derivatives of the score by s, by each f32 scalar and by each element of a float
tensor that it reads; and those of the sink. A tensor that is read several times has a
line for each read, and what a sum reads one for all of its rounds ("for i < 8").
int(), floor, comparisons and masks have no derivative; min, max, clamp, abs and ?: have
that of the side that is computed.

Examples
  tesela gradient alibi
  tesela gradient mine.attn --param cap=30)";

const char *const compileFooter = R"(
Stages, from the text to the machine
  attn    the variant: score, mask, captures
  tile    the tiled algorithm with the variant and its schedule
  pipe    the GPU's roles, buffers and copies (sm_NN only)
  llvm    LLVM IR
  ptx     PTX (sm_NN only)
  cubin   assembled by ptxas, which must be there (sm_NN only)
  object  an object file (host only)

Examples
  tesela compile causal --emit tile
  tesela compile causal --target sm_90 --head-dim 64 --emit ptx -o causal.ptx
  tesela compile causal --target host --emit object -o causal.o)";

const char *const tuneFooter = R"(
Every schedule gives a right kernel; which one is the fastest is measured here, for
the sizes that are given and those near by (powers of two). What wins is kept beside
the compiled kernels, and used from then on where no schedule is asked for. Close
other programs: what shares the machine makes the choice less sure.

Examples
  tesela tune causal --batch 4 --heads 16 --length 4096
  tesela tune sliding_window --param window=256 --length 16384 --seconds 90
  tesela tune mine.attn --input captures.safetensors --json
  tesela tune causal --gradients --length 8192
  tesela tune causal --show        what is kept, to pin with --schedule)";

const char *const cacheFooter = R"(
Kernels are kept from run to run, in a folder that many processes may share. Those
used longest ago go when it passes its limit; these commands are for the rest.

Examples
  tesela cache list                the kernels, those used last first
  tesela cache verify              reads every file; exit code 1 if one is damaged
  tesela cache prune --to 200M     leaves those used last
  tesela cache prune --older 30    removes what was not used for 30 days
  tesela cache clear)";

const char *const exportFooter = R"(
The folder gets a manifest, for each target a launch plan with its code, and for GPUs a
C header and a launcher that need NVIDIA's driver alone: docs/export.md tells more.
Code is a cubin where a ptxas is found, else PTX.

Examples
  tesela export causal --target sm_80,sm_90,host -o causal_bundle
  tesela export documents --target sm_90 --head-dim 64 --name docs_64 -o docs_64
  tesela export causal --algorithm backward --target sm_90 -o causal_backward
  cc main.c causal_bundle/causal.c -Icausal_bundle -o main)";

/// Prints each option with its default value only. Messages name the limits.
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

/// A validator that adds nothing to the help text.
CLI::Validator silent(CLI::Validator validator) { return validator.description(""); }

const CLI::Validator extent =
    silent(CLI::Range(int64_t(0), int64_t(std::numeric_limits<int32_t>::max())));
const CLI::Validator dtypeNames = silent(CLI::IsMember({"bf16", "f16", "f32"}));
const CLI::Validator stageNames =
    silent(CLI::IsMember({"attn", "tile", "pipe", "llvm", "ptx", "cubin", "object"}));

/// The compiler checks for a multiple of 8, because its message has a remedy.
const CLI::Validator headDimension(
    [](const std::string &text) -> std::string {
      if (silent(CLI::Range(int64_t(1), int64_t(576)))(text).empty())
        return "";
      return fmt::format("'{}' is no head dimension: give a multiple of 8 from 8 to 576", text);
    },
    "");

/// Rejects an empty path, such as from an unset shell variable. It would otherwise count as not
/// given.
const CLI::Validator path([](const std::string &text)
                              -> std::string { return text.empty() ? "the path is empty" : ""; },
                          "");

/// Replaces "2G" by the number of bytes.
const CLI::Validator byteSize(
    [](std::string &text) -> std::string {
      std::string given = text;
      try { // CLI11 throws on text that it cannot parse
        if (!given.starts_with('-') && CLI::AsSizeValue(false)(text).empty())
          return "";
      } catch (const CLI::Error &) {
      }
      return fmt::format("'{}' is no size: give bytes, or 500K, 200M, 2G", given);
    },
    "");

std::string checkTarget(const std::string &name) {
  bool sm = name.starts_with("sm_") && name.size() > 3 && name.size() < 7 &&
            name.find_first_not_of("0123456789", 3) == std::string::npos;
  if (sm || name == "auto" || name == "host")
    return "";
  return fmt::format("'{}' is no target: give auto, host, or sm_NN such as sm_80", name);
}

/// "auto" is refused, because a bundle may be for GPUs that this machine does not have.
std::string checkExportTarget(const std::string &name) {
  return name == "auto" ? "'auto' is no target of a bundle: give host, or sm_NN such as sm_80"
                        : checkTarget(name);
}

void addSchedule(CLI::App *app, std::string &schedule) {
  app->add_option("--schedule", schedule,
                  "Overrides of the chosen schedule: \"block_m = 64, stages = 3\"")
      ->type_name("TEXT");
}

void addType(CLI::App *app, std::string &type) {
  app->add_option("--dtype", type, "bf16, f16, or f32 (host only)")
      ->check(dtypeNames)
      ->type_name("TYPE")
      ->capture_default_str();
}

void addHeadDimensions(CLI::App *app, int64_t &headDim, std::optional<int64_t> &headDimV) {
  app->add_option("--head-dim", headDim, "Head dimension")
      ->type_name("N")
      ->check(headDimension)
      ->capture_default_str();
  app->add_option("--head-dim-v", headDimV, "Head dimension of v and o (as --head-dim)")
      ->type_name("N")
      ->check(headDimension);
}

void addConstants(CLI::App *app, std::vector<std::string> &constants) {
  app->add_option("--param", constants, "name=value of a const parameter; may be repeated")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

void addAlgorithm(CLI::App *app, std::string &algorithm, std::vector<std::string> &bindings) {
  app->add_option("--algorithm", algorithm,
                  "The template: forward, backward, backward_fused, backward_in_parts, "
                  "backward_fast, backward_parameters, forward_in_parts, merge, write_pages, "
                  "matmul, or one's own")
      ->type_name("NAME")
      ->capture_default_str();
  app->add_option("--bind", bindings, "name=value of a template's own parameter; may be repeated")
      ->type_name("NAME=VALUE");
}

void addKernelChoice(CLI::App *app, KernelChoice &choice) {
  app->add_option("VARIANT", choice.variant, "A file, \"-\", or a library variant such as causal")
      ->type_name("")
      ->required();
  app->add_option("--target", choice.target, "auto (the first GPU, else the host), host, or sm_NN")
      ->check(CLI::Validator(checkTarget, ""))
      ->type_name("TARGET")
      ->capture_default_str();
  addSchedule(app, choice.schedule);
}

void addTemplates(CLI::App *app, KernelChoice &choice) {
  app->add_option("--templates", choice.templateFolder,
                  "A folder of templates instead of the built-in ones")
      ->check(silent(CLI::ExistingDirectory))
      ->type_name("FOLDER");
}

void addParameters(CLI::App *app, LaunchShape &shape) {
  app->add_option("--param", shape.parameters, "name=value of a scalar parameter; may be repeated")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

void addLayout(CLI::App *app, Layout &layout, const char *text) {
  app->add_option_function<std::string>(
         "--layout",
         [&layout](const std::string &name) {
           layout = name == "bshd" ? Layout::bshd : Layout::bhsd;
         },
         text)
      ->check(silent(CLI::IsMember({"bhsd", "bshd"})))
      ->type_name("LAYOUT")
      ->default_str("bhsd");
}

/// Adds the options for a launch's extents and type, and records which of them are given.
std::vector<CLI::Option *> addShape(CLI::App *app, LaunchShape &shape) {
  auto add = [&](const char *name, auto &value, const std::string &text) {
    return app->add_option(name, value, text)->type_name("N");
  };
  std::vector<CLI::Option *> all{
      add("--batch", shape.batch, "Batch")->check(extent)->capture_default_str(),
      add("--heads", shape.heads, "Query heads")->check(extent)->capture_default_str(),
      add("--kv-heads", shape.kvHeads, "Key/value heads (as --heads)")->check(extent),
      add("--length", shape.length, "Queries")->check(extent)->capture_default_str(),
      add("--kv-length", shape.kvLength, "Keys (as --length)")->check(extent),
      add("--head-dim", shape.headDim, "Head dimension")
          ->check(headDimension)
          ->capture_default_str(),
      add("--head-dim-v", shape.headDimV, "Head dimension of v and o (as --head-dim)")
          ->check(headDimension),
      add("--dtype", shape.dtype, "bf16, f16, or f32 (host only)")
          ->check(dtypeNames)
          ->type_name("TYPE")
          ->capture_default_str(),
      add("--seed", shape.seed, "Seed of the random numbers")->capture_default_str()};
  for (CLI::Option *option : all)
    option->each(
        [&shape, name = option->get_name()](const std::string &) { shape.given.insert(name); });
  return all;
}

void addRun(CLI::App &app, RunOptions &options) {
  CLI::App *command = app.add_subcommand("run", "Compile a variant, run it, check and time it");
  command->footer(runFooter);
  addKernelChoice(command, options);
  addTemplates(command, options);

  command->add_option("--input", options.input, "Tensors from a .safetensors file")
      ->check(path)
      ->type_name("FILE");
  command
      ->add_option("--output", options.output,
                   "Write o and lse (do, dq, dk, dv) to a .safetensors file")
      ->check(path)
      ->type_name("FILE");
  addLayout(command, options.layout, "bhsd or bshd: how q, k, v and o lie in memory");

  std::vector<std::string> inputNames;
  std::string hardInputs;
  for (tesela::InputKind kind : tesela::inputKinds()) {
    inputNames.emplace_back(tesela::inputKindName(kind));
    if (kind != tesela::InputKind::normal)
      hardInputs += (hardInputs.empty() ? "" : ", ") + inputNames.back();
  }

  std::vector<CLI::Option *> ofRandomData = addShape(command, options);
  ofRandomData.push_back(
      command
          ->add_option("--inputs", options.inputs, "normal, or hard on the softmax: " + hardInputs)
          ->check(silent(CLI::IsMember(inputNames)))
          ->type_name("KIND")
          ->each([&options](const std::string &) { options.given.insert("--inputs"); })
          ->capture_default_str());
  for (CLI::Option *option : ofRandomData)
    option->group("Random data, where the file of --input does not say it");

  command->add_option("--scale", options.scale, "The softmax scale (1/sqrt of the head dimension)")
      ->type_name("NUMBER");
  command
      ->add_option("--dropout", options.dropout,
                   "Drop pairs with this probability, by the seed of --seed (no dropout)")
      ->check(silent(CLI::Range(0.0, 1.0)))
      ->type_name("P");
  addParameters(command, options);
  command
      ->add_option("--repeat", options.repeat,
                   "Timed launches; 0: none (as many as fit into a second, 3 to 100)")
      ->check(silent(CLI::Range(0, 1000000)))
      ->type_name("N");
  command->add_option("--threads", options.threads, "Threads of the host; 0: all")
      ->check(silent(CLI::Range(0, 4096)))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option(
          "--cache-folder", options.cacheFolder,
          "Where kernels are kept ($TESELA_CACHE_DIR, $XDG_CACHE_HOME/tesela, ~/.cache/tesela)")
      ->type_name("FOLDER");
  command->add_flag("--no-cache", options.noCache, "Neither read nor write the disk cache");
  command
      ->add_option("--tuning", options.tuning,
                   "Measured schedules: off, cached, or full (measures first; see tune)")
      ->check(silent(CLI::IsMember({"off", "cached", "full"})))
      ->type_name("MODE")
      ->capture_default_str();
  CLI::Option *noCheck =
      command->add_flag("--no-check", options.noCheck, "Leave out the check against the reference");
  CLI::Option *verify = command
                            ->add_flag("--verify", options.verify,
                                       "Check up to 1024 rows of the first launch, not all")
                            ->excludes(noCheck);
  command
      ->add_flag("--gradients", options.gradients,
                 "The gradients of q, k and v: runs both passes, checks and times the backward one")
      ->excludes(verify);
  CLI::Option *ragged =
      command->add_flag("--ragged", options.ragged,
                        "Sequences of random lengths up to --length, one after the other");
  CLI::Option *page =
      command
          ->add_option("--page", options.page,
                       "Keys and values in pages of so many rows, up to --kv-length")
          ->check(silent(CLI::Range(1, 1 << 20)))
          ->type_name("N");
  command
      ->add_option(
          "--positions", options.positions,
          "Where a sequence's queries stand among its keys: begin, end, or given (end with "
          "pages, else begin)")
      ->check(silent(CLI::IsMember({"begin", "end", "given"})))
      ->type_name("WHERE");
  command->add_flag("--split", options.split,
                    "Work items share the keys of a sequence of --ragged or --page");
  CLI::Option *cache =
      command
          ->add_option("--cache", options.cache,
                       "Keys and values of --ragged or --page in 8 bits, with scales: e4m3")
          ->check(silent(CLI::IsMember({"e4m3"})))
          ->type_name("TYPE");
  command
      ->add_option("--scales", options.scales,
                   "What has a scale of --cache: a kv head, or with --page a page")
      ->check(silent(CLI::IsMember({"head", "page"})))
      ->capture_default_str()
      ->needs(cache)
      ->type_name("head|page");
  CLI::Option *values =
      command
          ->add_option("--values", options.values,
                       "Values that are the first --head-dim-v columns of the keys: keys")
          ->check(silent(CLI::IsMember({"keys"})))
          ->excludes(cache)
          ->excludes("--gradients")
          ->excludes("--input")
          ->type_name("WHAT");
  for (CLI::Option *each : {ragged, page, cache, values})
    each->group("Sequences, as servers have them");
  command->add_flag("--check-reads", options.checkReads,
                    "Report reads outside of captured tensors; interprets every pair on the host");
  command->add_flag("--json", options.json, "Print one JSON object");
}

void addCompile(CLI::App &app, CompileOptions &options) {
  CLI::App *command =
      app.add_subcommand("compile", "Print the program after one stage; needs no GPU");
  command->footer(compileFooter);
  addKernelChoice(command, options);
  addTemplates(command, options);
  command->add_option("--emit", options.stage, "The stage, see below")
      ->required()
      ->check(stageNames)
      ->type_name("STAGE");
  command->add_option("-o,--output", options.output, "Write to this file")
      ->check(path)
      ->type_name("FILE");
  addType(command, options.dtype);
  addHeadDimensions(command, options.headDim, options.headDimV);
  addConstants(command, options.constants);
  addAlgorithm(command, options.algorithm, options.bindings);
  command->add_flag("--dropout", options.dropout, "The kernel drops pairs at random");
}

void addExport(CLI::App &app, ExportOptions &options) {
  CLI::App *command =
      app.add_subcommand("export", "Compile ahead of time for several targets; needs no GPU");
  command->footer(exportFooter);
  command
      ->add_option("VARIANT", options.variant, "A file, \"-\", or a library variant such as causal")
      ->type_name("")
      ->required();
  command->add_option("--target", options.targets, "host and sm_NN, with commas between")
      ->required()
      ->delimiter(',')
      ->take_all()
      ->check(CLI::Validator(checkExportTarget, ""))
      ->type_name("TARGETS");
  command->add_option("-o,--output", options.folder, "The bundle's folder")
      ->required()
      ->check(path)
      ->type_name("FOLDER");
  command
      ->add_option("--name", options.name,
                   "What files and C functions are called after (the variant's name, and the "
                   "template's where it is not forward)")
      ->type_name("NAME");
  addType(command, options.dtype);
  addHeadDimensions(command, options.headDim, options.headDimV);
  command
      ->add_option("--length", options.length,
                   "Queries that a sequence tends to have: chooses the schedule (many)")
      ->type_name("N")
      ->check(extent);
  command->add_option("--kv-length", options.kvLength, "Keys, likewise (as --length)")
      ->type_name("N")
      ->check(extent);
  addSchedule(command, options.schedule);
  addConstants(command, options.constants);
  addAlgorithm(command, options.algorithm, options.bindings);
  command->add_flag("--ptx", options.ptx,
                    "PTX even where there is a ptxas: newer GPUs run it, too");
  command->add_flag("--no-launcher", options.noLauncher,
                    "No launcher in C: for programs that load the bundle with the library");
}

void addExplain(CLI::App &app, ExplainOptions &options) {
  CLI::App *command =
      app.add_subcommand("explain", "Which tiles a kernel skips, masks and computes; needs no GPU");
  command->footer(explainFooter);
  addKernelChoice(command, options);
  addParameters(command, options);
  command
      ->add_option("--input", options.input,
                   "Captured tensors, and with them the lengths, from a .safetensors file")
      ->check(path)
      ->type_name("FILE");
  addLayout(command, options.layout, "bhsd or bshd: how q, k and v lie in the file");
  addShape(command, options);
  command
      ->add_option("--pass", options.pass,
                   "forward, or a kernel of the gradients: dq, or dkdv for those of k and v")
      ->check(silent(CLI::IsMember({"forward", "dq", "dkdv"})))
      ->type_name("PASS")
      ->capture_default_str();
  command->add_option("--svg", options.svg, "Draw the mask with its tiles")
      ->check(path)
      ->type_name("FILE");
  command->add_option("--png", options.png, "The same as pixels")->check(path)->type_name("FILE");
  command->add_flag("--json", options.json, "Print one JSON object, with the kind of every tile");
}

void addGradient(CLI::App &app, GradientOptions &options) {
  CLI::App *command =
      app.add_subcommand("gradient", "Print the derivatives of the score; needs no GPU");
  command->footer(gradientFooter);
  command
      ->add_option("VARIANT", options.variant, "A file, \"-\", or a library variant such as alibi")
      ->type_name("")
      ->required();
  addConstants(command, options.constants);
}

void addTune(CLI::App &app, TuneCommandOptions &options) {
  CLI::App *command =
      app.add_subcommand("tune", "Measure schedules and keep the fastest for later runs");
  command->footer(tuneFooter);
  addKernelChoice(command, options);
  addParameters(command, options);
  command
      ->add_option("--input", options.input,
                   "Captured tensors, and with them the lengths, from a .safetensors file")
      ->check(path)
      ->type_name("FILE");
  addLayout(command, options.layout, "bhsd or bshd: how q, k and v lie in the file");
  addShape(command, options);
  command->add_flag("--gradients", options.gradients,
                    "The schedule of the gradients, which run --gradients has");
  command->add_option("--seconds", options.seconds, "How long it may take")
      ->check(silent(CLI::Range(0.1, 1e6)))
      ->type_name("NUMBER")
      ->capture_default_str();
  command->add_flag("--exhaustive", options.exhaustive,
                    "Time every schedule fully, however long it takes");
  command->add_option("--threads", options.threads, "Threads of the host; 0: all")
      ->check(silent(CLI::Range(0, 4096)))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option(
          "--cache-folder", options.cacheFolder,
          "Where schedules are kept ($TESELA_CACHE_DIR, $XDG_CACHE_HOME/tesela, ~/.cache/tesela)")
      ->type_name("FOLDER");
  command->add_flag("--no-cache", options.noCache, "Keep nothing");
  command->add_option("--table", options.table, "Add what is kept to this table of records, too")
      ->check(path)
      ->type_name("FILE");
  command->add_flag("--show", options.show, "Show what is kept for the variant; measure nothing");
  command->add_flag("--json", options.json, "Print one JSON object");
}

void addCache(CLI::App &app, CacheOptions &options) {
  using Action = CacheOptions::Action;
  CLI::App *command = app.add_subcommand("cache", "The compiled kernels on disk");
  command->footer(cacheFooter);
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *text, Action action) {
    CLI::App *part = command->add_subcommand(name, text);
    part->callback([&options, action] { options.action = action; });
    part->add_option("--cache-folder", options.folder,
                     "The folder ($TESELA_CACHE_DIR, $XDG_CACHE_HOME/tesela, ~/.cache/tesela)")
        ->type_name("FOLDER");
    part->add_flag("--json", options.json, "Print JSON");
    return part;
  };
  add("list", "The kernels, those used last first", Action::list);
  add("stats", "How many there are, and how large", Action::stats);
  add("verify", "Read and check every file", Action::verify);
  CLI::App *prune = add("prune", "Remove what was used longest ago", Action::prune);
  prune->add_option("--to", options.mostBytes, "Until the rest has this size: 500M, 2G")
      ->transform(byteSize)
      ->type_name("SIZE");
  prune->add_option("--older", options.mostDays, "What was not used for so many days")
      ->check(silent(CLI::Range(0.0, 1e6)))
      ->type_name("DAYS");
  add("clear", "Remove all", Action::clear);
}

/// Parses the command line and runs the command.
int dispatch(int argc, char **argv) {
  CLI::App app("Tesela compiles attention variants and runs them.", "tesela");
  app.footer(mainFooter);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "tesela " + tesela::version());
  app.require_subcommand(0, 1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.failure_message([](const CLI::App *, const CLI::Error &error) {
    return fmt::format("tesela: error: {}. Try --help.\n", error.what());
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

  try { // CLI11 reports errors by exceptions; they are caught here.
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

/// Catches exceptions of the standard library, such as a container that runs out of memory.
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
