//===- SharedOptions.cpp - Options that several commands have -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "options/SharedOptions.h"

#include "tesela/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

namespace tesela::tool {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// "'dp' is not a pass; did you mean 'dq'? Give forward, dq or dkdv". Empty if `text` is one of
/// `names`. `meant`: a name that the user surely meant; empty if none is known.
std::string notOneOf(const char *meaning, const std::vector<std::string_view> &names,
                     std::string_view text, std::string_view meant) {
  if (std::ranges::find(names, text) != names.end())
    return "";
  std::string all =
      names.size() == 1
          ? std::string(names.front())
          : fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
  if (text.empty())
    return fmt::format("the value is empty: give {}", all);
  std::string_view near = meant.empty() ? nearestName(text, names) : meant;
  return near.empty()
             ? fmt::format("'{}' is not {}: give {}", text, meaning, all)
             : fmt::format("'{}' is not {}; did you mean '{}'? Give {}", text, meaning, near, all);
}

/// The type that PyTorch, NumPy or C call `name`; empty if they call none so.
std::string_view typeOfForeignName(std::string_view name) {
  struct Known {
    std::string_view foreign, ours;
  };
  constexpr Known known[] = {{"bfloat16", "bf16"}, {"float16", "f16"}, {"fp16", "f16"},
                             {"half", "f16"},      {"float", "f32"},   {"float32", "f32"},
                             {"fp32", "f32"},      {"single", "f32"}};
  const auto *found = std::ranges::find(known, name, &Known::foreign);
  return found == std::end(known) ? std::string_view() : found->ours;
}

CLI::Validator elementTypeName() {
  return {[](const std::string &text) {
            return notOneOf("a type", {"bf16", "f16", "f32"}, text, typeOfForeignName(text));
          },
          ""};
}

/// The compiler has the exact limits and a remedy. This refuses only what is not a head dimension
/// at all, so that the message names the option.
CLI::Validator headDimension() {
  return {[](const std::string &text) -> std::string {
            if (CLI::Range(int64_t(1), int64_t(576))(text).empty())
              return "";
            if (text.empty())
              return "the value is empty: give a multiple of 8 from 8 to 576";
            return fmt::format("'{}' is not a head dimension: give a multiple of 8 from 8 to 576",
                               text);
          },
          ""};
}

/// Whether `text` is a whole number in digits, of any size.
bool isInDigits(std::string_view text) {
  text.remove_prefix(text.starts_with('-'));
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Whether 64 bits, signed or not, hold the whole number `text`.
bool fits(std::string_view text) {
  int64_t small = 0;
  uint64_t large = 0;
  auto reads = [&](auto &value) {
    return std::from_chars(text.begin(), text.end(), value).ec == std::errc();
  };
  return reads(small) || reads(large);
}

std::string folderOfTemplates(const std::string &text) {
  if (text.empty())
    return "the path is empty: give a folder of templates";
  if (CLI::ExistingDirectory(text).empty())
    return "";
  return fmt::format("'{}' is not a folder: give a folder of templates", text);
}

} // namespace

CLI::Validator extent() { return wholeNumber(0, std::numeric_limits<int32_t>::max()); }

CLI::Validator number(double least, double most) {
  bool isLimited = least > -infinity || most < infinity;
  std::string limits = isLimited ? fmt::format(" from {} to {}", least, most) : ", such as 0.125";
  return {
      [=](const std::string &text) -> std::string {
        double value = 0;
        if (text.empty())
          return fmt::format("the value is empty: give a number{}", limits);
        // No limit says what is wrong with "nan".
        bool isNumber = CLI::detail::lexical_cast(text, value) && !std::isnan(value);
        if (isNumber && value >= least && value <= most)
          return "";
        const char *wrong = !isNumber ? "not a number" : value < least ? "too small" : "too large";
        return fmt::format("'{}' is {}: give a number{}", text, wrong, limits);
      },
      ""};
}

CLI::Validator oneOf(const char *meaning, std::vector<std::string> names) {
  return {[meaning, names = std::move(names)](const std::string &text) {
            return notOneOf(meaning, {names.begin(), names.end()}, text, "");
          },
          ""};
}

CLI::Validator path() {
  return {[](const std::string &text) -> std::string {
            return text.empty() ? "the path is empty: give a path" : "";
          },
          ""};
}

CLI::Validator wholeNumber(int64_t least, uint64_t most) {
  return {[=](const std::string &text) -> std::string {
            std::string remedy = fmt::format("give a whole number from {} to {}", least, most);
            if (text.empty())
              return "the value is empty: " + remedy;
            // CLI11 takes a number that 64 bits cannot hold for the largest or least that they can.
            int64_t small = 0;
            uint64_t large = 0;
            bool isTooWide = isInDigits(text) && !fits(text);
            bool isNegative = text.starts_with('-');
            bool isRead = isNegative ? CLI::detail::lexical_cast(text, small)
                                     : CLI::detail::lexical_cast(text, large);
            if (!isRead && !isInDigits(text))
              return fmt::format("'{}' is not a whole number: {}, in digits only", text, remedy);
            bool isTooSmall = isNegative ? isTooWide || small < least
                                         : !isTooWide && least > 0 && large < uint64_t(least);
            bool isTooLarge = !isNegative && (isTooWide || large > most);
            if (!isTooSmall && !isTooLarge)
              return "";
            const char *wrong = isTooSmall ? "small" : "large";
            return fmt::format("'{}' is too {}: {}", text, wrong, remedy);
          },
          ""};
}

std::string checkTarget(const std::string &name) {
  bool sm = name.starts_with("sm_") && name.size() > 3 && name.size() < 7 &&
            name.find_first_not_of("0123456789", 3) == std::string::npos;
  if (sm || name == "auto" || name == "host")
    return "";
  return fmt::format("'{}' is not a target: give auto, host, or sm_NN such as sm_80", name);
}

void addAlgorithm(CLI::App *command, std::string &algorithm, std::vector<std::string> &bindings) {
  command
      ->add_option("--algorithm", algorithm,
                   "The template: forward, backward, backward_fused, backward_in_parts, "
                   "backward_fast, backward_parameters, forward_in_parts, merge, write_pages, "
                   "write_latents, matmul, or the name of your own template")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--bind", bindings, "name=value of a template's own parameter; may be repeated")
      ->type_name("NAME=VALUE");
}

void addCacheFolder(CLI::App *command, std::string &folder, const std::string &text) {
  command
      ->add_option("--cache-folder", folder,
                   text + " (default: $TESELA_CACHE_DIR, $XDG_CACHE_HOME/tesela, or "
                          "~/.cache/tesela)")
      ->type_name("FOLDER");
}

void addCapturesFile(CLI::App *command, std::string &input, Layout &layout) {
  command
      ->add_option("--input", input,
                   "A .safetensors file with the captured tensors; it also sets the lengths")
      ->check(path())
      ->type_name("FILE");
  addLayout(command, layout, "bhsd or bshd: the layout of q, k and v in the file");
}

void addConstants(CLI::App *command, std::vector<std::string> &constants) {
  command->add_option("--param", constants, "name=value of a const parameter; may be repeated")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

void addHeadDimensions(CLI::App *command, int64_t &headDim, std::optional<int64_t> &headDimV) {
  command->add_option("--head-dim", headDim, "Head dimension")
      ->type_name("N")
      ->check(headDimension())
      ->capture_default_str();
  command
      ->add_option("--head-dim-v", headDimV, "Head dimension of v and o (default: as --head-dim)")
      ->type_name("N")
      ->check(headDimension());
}

void addKernelChoice(CLI::App *command, KernelChoice &choice) {
  addVariant(command, choice.variant);
  command
      ->add_option("--target", choice.target,
                   "auto (the first GPU, or the host if there is none), host, or sm_NN")
      ->check(CLI::Validator(checkTarget, ""))
      ->type_name("TARGET")
      ->capture_default_str();
  addSchedule(command, choice.schedule);
}

void addLayout(CLI::App *command, Layout &layout, const char *text) {
  command
      ->add_option_function<std::string>(
          "--layout",
          [&layout](const std::string &name) {
            layout = name == "bshd" ? Layout::bshd : Layout::bhsd;
          },
          text)
      ->check(oneOf("a layout", {"bhsd", "bshd"}))
      ->type_name("LAYOUT")
      ->default_str("bhsd");
}

void addParameters(CLI::App *command, LaunchShape &shape) {
  command
      ->add_option("--param", shape.parameters, "name=value of a scalar parameter; may be repeated")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

void addSchedule(CLI::App *command, std::string &schedule) {
  command
      ->add_option("--schedule", schedule,
                   "Overrides of the chosen schedule: \"block_m = 64, stages = 3\"")
      ->type_name("TEXT");
}

std::vector<CLI::Option *> addShape(CLI::App *command, LaunchShape &shape) {
  auto add = [&](const char *name, auto &value, const char *text) {
    return command->add_option(name, value, text)->type_name("N");
  };
  std::vector<CLI::Option *> all{
      add("--batch", shape.batch, "Batch")->check(extent())->capture_default_str(),
      add("--heads", shape.heads, "Query heads")->check(extent())->capture_default_str(),
      add("--kv-heads", shape.kvHeads, "Key/value heads (default: as --heads)")->check(extent()),
      add("--length", shape.length, "Queries")->check(extent())->capture_default_str(),
      add("--kv-length", shape.kvLength, "Keys (default: as --length)")->check(extent()),
      add("--head-dim", shape.headDim, "Head dimension")
          ->check(headDimension())
          ->capture_default_str(),
      add("--head-dim-v", shape.headDimV, "Head dimension of v and o (default: as --head-dim)")
          ->check(headDimension()),
      add("--dtype", shape.dtype, "bf16, f16, or f32 (host only)")
          ->check(elementTypeName())
          ->type_name("TYPE")
          ->capture_default_str(),
      add("--seed", shape.seed, "Seed of the random numbers")
          ->check(wholeNumber(0, std::numeric_limits<uint64_t>::max()))
          ->capture_default_str()};
  for (CLI::Option *option : all)
    option->each(
        [&shape, name = option->get_name()](const std::string &) { shape.given.insert(name); });
  return all;
}

void addTemplates(CLI::App *command, std::string &folder) {
  command->add_option("--templates", folder, "A folder of templates instead of the built-in ones")
      ->check(CLI::Validator(folderOfTemplates, ""))
      ->type_name("FOLDER");
}

void addThreads(CLI::App *command, int &threads) {
  command->add_option("--threads", threads, "Threads on the host; 0: one per processor")
      ->check(wholeNumber(0, 4096))
      ->type_name("N")
      ->capture_default_str();
}

void addType(CLI::App *command, std::string &type) {
  command->add_option("--dtype", type, "bf16, f16, or f32 (host only)")
      ->check(elementTypeName())
      ->type_name("TYPE")
      ->capture_default_str();
}

void addVariant(CLI::App *command, std::string &variant) {
  command->add_option("VARIANT", variant, "A file, \"-\", or a library variant such as causal")
      ->type_name("")
      ->required();
}

} // namespace tesela::tool
