//===- Run.cpp - The options of `tesela run` ----------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/Options.h"
#include "options/SharedOptions.h"

#include "tesela/Check.h"

namespace tesela::tool {
namespace {

const char *const footer = R"(
Without --input, the tensors are random numbers. A .safetensors file holds the
variant's captured tensors under their names. It may also hold q, k and v, all three:
bf16, f16 or f32, [B, H, S, D], or [B, S, H, D] with --layout bshd.
The result is compared with a reference in double precision. The speed counts
2 (Dqk + Dv) operations for each pair (q, k) that the mask keeps, or
2 (3 Dqk + 2 Dv) with --gradients.
With --gradients the file may also hold do and dlse, the gradients of o and lse.
A missing do is random, and a missing dlse is zero.

Examples
  tesela run causal --length 4096 --heads 16
  tesela run sliding_window --param window=256 --target host
  tesela run alibi --dtype f16 --head-dim 64 --json
  tesela run causal --gradients
  tesela run full --input qkv.safetensors --output o.safetensors --layout bshd)";

} // namespace

void addRun(CLI::App &app, RunOptions &options) {
  CLI::App *command = app.add_subcommand("run", "Compile a variant, run it, check and time it");
  command->footer(footer);
  addKernelChoice(command, options);
  addTemplates(command, options.templateFolder);

  command->add_option("--input", options.input, "Tensors from a .safetensors file")
      ->check(path())
      ->type_name("FILE");
  command
      ->add_option("--output", options.output,
                   "Write o and lse (do, dq, dk, dv) to a .safetensors file")
      ->check(path())
      ->type_name("FILE");
  addLayout(command, options.layout, "bhsd or bshd: the layout of q, k, v and o in memory");

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
          ->add_option("--inputs", options.inputs,
                       "normal, or numbers that are hard for a softmax: " + hardInputs)
          ->check(oneOf("a kind of inputs", inputNames))
          ->type_name("KIND")
          ->each([&options](const std::string &) { options.given.insert("--inputs"); })
          ->capture_default_str());
  for (CLI::Option *option : ofRandomData)
    option->group("Random data; a file of --input overrides these");

  command
      ->add_option("--scale", options.scale,
                   "The softmax scale (default: 1/sqrt of the head dimension)")
      ->check(number())
      ->type_name("NUMBER");
  command
      ->add_option("--dropout", options.dropout,
                   "Drop pairs with this probability; --seed is its seed (default: no dropout)")
      ->check(number(0, 1))
      ->type_name("P");
  addParameters(command, options);
  command
      ->add_option("--repeat", options.repeat,
                   "Timed launches; 0: none (default: as many as take a second, 3 to 100)")
      ->check(wholeNumber(0, 1000000))
      ->type_name("N");
  addThreads(command, options.threads);
  addCacheFolder(command, options.cacheFolder, "The folder of compiled kernels");
  command->add_flag("--no-cache", options.noCache, "Do not read or write the disk cache");
  command
      ->add_option("--tuning", options.tuning,
                   "Use measured schedules: off, cached, or full (measure first, see tune)")
      ->check(oneOf("a mode of tuning", {"off", "cached", "full"}))
      ->type_name("MODE")
      ->capture_default_str();
  CLI::Option *noCheck =
      command->add_flag("--no-check", options.noCheck, "Do not check against the reference");
  CLI::Option *verify =
      command->add_flag("--verify", options.verify, "Check at most 1024 rows of the first launch")
          ->excludes(noCheck);
  command
      ->add_flag("--gradients", options.gradients,
                 "Run both passes; check and time the gradients of q, k and v")
      ->excludes(verify);
  CLI::Option *ragged =
      command->add_flag("--ragged", options.ragged,
                        "Sequences of random lengths up to --length, one after the other");
  CLI::Option *page =
      command
          ->add_option("--page", options.page,
                       "Keys and values in pages of N rows, at most --kv-length keys a sequence")
          ->check(wholeNumber(1, 1 << 20))
          ->type_name("N");
  command
      ->add_option(
          "--positions", options.positions,
          "The position of a sequence's first query among its keys: begin, end, or given by "
          "random offsets (default: end with --page, else begin)")
      ->check(oneOf("a position", {"begin", "end", "given"}))
      ->type_name("WHERE");
  command->add_flag(
      "--split", options.split,
      "Split the keys of a sequence among several work items (with --ragged or --page)");
  CLI::Option *cache =
      command
          ->add_option("--cache", options.cache,
                       "Keys and values in 8 bits, with scales (with --ragged or --page): e4m3")
          ->check(oneOf("a type of the cache", {"e4m3"}))
          ->type_name("TYPE");
  command
      ->add_option("--scales", options.scales,
                   "One scale of --cache per head, or with --page per page")
      ->check(oneOf("a unit of scales", {"head", "page"}))
      ->capture_default_str()
      ->needs(cache)
      ->type_name("head|page");
  CLI::Option *values =
      command
          ->add_option("--values", options.values,
                       "keys: the values are the first --head-dim-v columns of the keys")
          ->check(oneOf("a source of values", {"keys"}))
          ->excludes(cache)
          ->excludes("--gradients")
          ->excludes("--input")
          ->type_name("WHAT");
  for (CLI::Option *each : {ragged, page, cache, values})
    each->group("Sequences as in a server");
  command->add_flag("--check-reads", options.checkReads,
                    "Report reads outside of captured tensors (slow: interprets every pair)");
  command->add_flag("--json", options.json, "Print one JSON object");
}

} // namespace tesela::tool
