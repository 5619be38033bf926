//===- Main.cpp - tesela_random_variants ----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compiles random variants and compares each with the interpreter, on the host or on a GPU. Or it
// replays kept variants from their files. Links only libtesela.so.
//
//===----------------------------------------------------------------------===//
#include "../TestContext.h"
#include "RandomBackward.h"
#include "RandomLaunch.h"
#include "RandomPages.h"
#include "RandomVariant.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <execinfo.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <unistd.h>

using namespace tesela;

namespace {

constexpr int skipped = 77; // CTest's exit code for a skipped test

struct Options {
  int count = 200;
  uint64_t seed = 1;
  std::string device = "host";
  std::string target;
  std::string replay;    ///< a folder of kept texts, or one of its files
  std::string keep;      ///< the folder where failing texts are kept
  std::string algorithm; ///< for gradients; empty: attention itself
  int threads = 0;
  double seconds = 0;  ///< no new case begins after this time; 0: no limit
  bool verify = false; ///< also verify first launches, on a GPU
  /// Least numbers of launches; a run with fewer fails, because it has checked too little.
  int64_t leastCompared = 0, leastMasked = 0, leastShared = 0;
  bool pages = false; ///< also test keys and values in random pages
  bool print = false;
};

/// The seed of this thread's present case. If the compiler crashes, the seed and the stack are
/// printed. `addr2line -e FILE OFFSET` reads a line of the stack.
thread_local uint64_t currentSeed = 0;

void tellOfCrash(int signal) {
  char text[80];
  int length = std::snprintf(text, sizeof text, "CRASHED: --count 1 --seed %llu\n",
                             static_cast<unsigned long long>(currentSeed));
  (void)!write(STDERR_FILENO, text, size_t(length));
  void *frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct Case {
  uint64_t seed = 0;
  std::string name, text; ///< if the text is empty, the seed makes it
};

/// Counts over all cases. Each thread adds to it.
struct Tally {
  std::atomic<int64_t> launches = 0, pairs = 0, kept = 0, nanRows = 0, partial = 0, undefined = 0,
                       shared = 0;
  std::atomic<int64_t> compileMicroseconds = 0, checkMicroseconds = 0;
};

/// Whether a run has as many launches of each kind as the options ask for; says which are too few.
bool hasCheckedEnough(const Options &options, const Tally &tally) {
  struct Minimum {
    int64_t found, least;
    const char *what;
  };
  bool isEnough = true;
  for (const Minimum &each :
       {Minimum{tally.launches - tally.undefined, options.leastCompared, "compared"},
        Minimum{tally.partial, options.leastMasked, "with some pairs masked"},
        Minimum{tally.shared, options.leastShared, "with a shared prefix"}}) {
    if (each.found >= each.least)
      continue;
    std::printf("FAILED: %lld launches %s, at least %lld must be\n",
                static_cast<long long>(each.found), each.what, static_cast<long long>(each.least));
    isEnough = false;
  }
  return isEnough;
}

class Run {
public:
  Run(const Options &options, const Context &context) : options(options), context(context) {}

  /// Runs the cases and returns how many fail. `begun`: how many were begun before the time was
  /// over.
  int all(const std::vector<Case> &cases, size_t &begun);
  Tally tally;

private:
  using Clock = std::chrono::steady_clock;
  static int64_t microsecondsSince(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
  }

  /// Empty, or what is wrong.
  std::string check(const Case &each, std::string &text);
  std::string checkPages(const KernelOptions &kernelOptions, const VariantInfo &info, uint64_t seed,
                         const std::string &compiledFor);
  void count(const RandomLaunch &launch);
  void report(const Case &each, const std::string &text, const std::string &wrong);

  const Options &options;
  const Context &context;
  std::mutex device, output;
};

KernelOptions optionsOf(const Options &options, uint64_t seed) {
  bool isGpu = options.device != "host";
  return options.algorithm.empty() ? randomOptions(seed, isGpu)
                                   : randomGradientOptions(seed, isGpu, options.algorithm);
}

std::string Run::check(const Case &each, std::string &text) {
  KernelOptions kernelOptions = optionsOf(options, each.seed);
  if (text.empty())
    text = randomVariant(each.seed, kernelOptions.inputType);
  kernelOptions.variantText = text;
  kernelOptions.target = options.target;
  Result<VariantInfo> info = checkVariant(text, kernelOptions.variantFile);
  if (!info)
    return "the text is not accepted: " + info.error().message();
  chooseConstants(kernelOptions, *info, each.seed);
  std::string compiledFor = std::string(elementTypeName(kernelOptions.inputType)) + ", D " +
                            std::to_string(kernelOptions.headDimQk) + ", " +
                            std::to_string(kernelOptions.headDimV);

  if (options.pages)
    return checkPages(kernelOptions, *info, each.seed, compiledFor);

  Clock::time_point start = Clock::now();
  Result<Kernel> kernel = context.compile(kernelOptions);
  tally.compileMicroseconds += microsecondsSince(start);
  if (!kernel)
    return compiledFor + ": it does not compile: " + kernel.error().message();
  start = Clock::now();
  auto create = options.algorithm.empty() ? RandomLaunch::create : RandomBackward::create;
  for (int number = 0; number < launchesOfSeed; ++number) {
    Result<std::unique_ptr<RandomLaunch>> launch =
        create(context, kernelOptions, *info, each.seed, number);
    if (!launch)
      return launch.error().message();
    std::string where = compiledFor + ", " + (*launch)->text() + ": ";
    if (Status status = (*launch)->launch(*kernel, device); !status)
      return where + status.error().message();
    if (std::string wrong = (*launch)->check(); !wrong.empty())
      return where + wrong;
    count(**launch);
  }
  tally.checkMicroseconds += microsecondsSince(start);
  return "";
}

void Run::count(const RandomLaunch &launch) {
  ++tally.launches;
  tally.pairs += launch.pairs;
  tally.kept += launch.keptPairs;
  tally.nanRows += launch.nanRows;
  tally.undefined += launch.isUndefined;
  tally.partial += launch.keptPairs > 0 && launch.keptPairs < launch.pairs;
}

std::string Run::checkPages(const KernelOptions &kernelOptions, const VariantInfo &info,
                            uint64_t seed, const std::string &compiledFor) {
  Clock::time_point start = Clock::now();
  Result<PagedKernels> kernels = compilePaged(context, kernelOptions, seed);
  tally.compileMicroseconds += microsecondsSince(start);
  if (!kernels)
    return compiledFor + ": it does not compile: " + kernels.error().message();
  start = Clock::now();
  for (int number = 0; number < launchesOfSeed; ++number) {
    Result<std::unique_ptr<RandomPages>> launch =
        RandomPages::create(context, kernelOptions, info, seed, number, *kernels);
    if (!launch)
      return launch.error().message();
    std::string where = compiledFor + ", " + (*launch)->text() + ": ";
    if (Status status = (*launch)->launchAll(device); !status)
      return where + status.error().message();
    if (std::string wrong = (*launch)->check(); !wrong.empty())
      return where + wrong;
    count(**launch);
    tally.shared += (*launch)->hasSharedPrefix;
  }
  tally.checkMicroseconds += microsecondsSince(start);
  return "";
}

void Run::report(const Case &each, const std::string &text, const std::string &wrong) {
  std::string again =
      each.name.empty() ? "--count 1 --seed " + std::to_string(each.seed) : "--replay " + each.name;
  if (!options.algorithm.empty())
    again = "--algorithm " + options.algorithm + " " + again;
  if (options.pages)
    again = "--pages " + again;
  std::printf("FAILED: %s\n%srepeat: tesela_random_variants --device %s %s\n\n", wrong.c_str(),
              text.c_str(), options.device.c_str(), again.c_str());
  std::fflush(stdout);
  if (options.keep.empty() || !each.name.empty())
    return;
  std::filesystem::path path = options.keep;
  path /= "seed_" + std::to_string(each.seed) + ".attn";
  std::ofstream(path) << "// seed " << each.seed << "\n" << text;
}

int Run::all(const std::vector<Case> &cases, size_t &begun) {
  std::atomic<size_t> next = 0, started = 0;
  std::atomic<int> failed = 0;
  Clock::time_point start = Clock::now();
  auto isLate = [&] {
    return options.seconds > 0 && microsecondsSince(start) > int64_t(1e6 * options.seconds);
  };
  auto work = [&] {
    // Cases are taken in order, so the cases that ran are the first ones.
    for (size_t at = 0; !isLate() && (at = next++) < cases.size();) {
      ++started;
      std::string text = cases[at].text;
      currentSeed = cases[at].seed;
      std::string wrong = check(cases[at], text);
      if (wrong.empty())
        continue;
      ++failed;
      std::lock_guard lock(output);
      report(cases[at], text, wrong);
    }
  };
  int count = options.threads > 0 ? options.threads : int(std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < std::max(count, 1); ++thread)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
  begun = started;
  return failed;
}

/// Reads a kept text, which begins with "// seed NUMBER".
bool readCase(const std::filesystem::path &path, std::vector<Case> &cases) {
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  unsigned long long seed = 0;
  if (std::sscanf(text.c_str(), "// seed %llu", &seed) != 1)
    return false;
  cases.push_back({seed, path.string(), text});
  return true;
}

/// Prints an error and returns false if a file cannot be read.
bool readCases(const std::string &place, std::vector<Case> &cases) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(place)) {
    for (const auto &entry : std::filesystem::directory_iterator(place))
      if (entry.path().extension() == ".attn")
        paths.push_back(entry.path());
  } else {
    paths.push_back(place);
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path &path : paths)
    if (!readCase(path, cases)) {
      std::fprintf(stderr, "%s cannot be read or does not begin with '// seed NUMBER'\n",
                   path.c_str());
      return false;
    }
  if (paths.empty())
    std::fprintf(stderr, "%s holds no .attn files\n", place.c_str());
  return !paths.empty();
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Random variants: the compiled kernel against the interpreter.");
  app.add_option("--count", options.count, "how many (default 200)");
  app.add_option("--seed", options.seed, "of the first; the others follow it (default 1)");
  app.add_option("--device", options.device, "host or cuda (default host)");
  app.add_option("--algorithm", options.algorithm,
                 "backward, backward_fused or, on the host, backward_in_parts: the gradients of q, "
                 "k and v");
  app.add_option("--seconds", options.seconds,
                 "no new variant is begun behind them, and the next seed is said (default: all)");
  app.add_option("--target", options.target, "an older target, as sm_80 on an sm_90");
  app.add_option("--replay", options.replay,
                 "a kept text, or a folder of them, in place of new ones");
  app.add_option("--keep", options.keep, "a folder for the texts that fail");
  app.add_option("--threads", options.threads, "compile and check on so many (default: all)");
  app.add_flag("--verify", options.verify,
               "on a GPU verify first launches, too: NVRTC compiles an oracle for each text");
  app.add_option("--least-compared", options.leastCompared,
                 "how many launches must be compared with the interpreter (default 0)");
  app.add_option("--least-masked", options.leastMasked,
                 "how many launches must have some of their pairs masked (default 0)");
  app.add_option("--least-shared", options.leastShared,
                 "with --pages: how many launches must share a prefix (default 0)");
  app.add_flag("--pages", options.pages,
               "keys and values in random pages, too: dense, paged, split, with a shared prefix");
  app.add_flag("--print", options.print, "only prints the texts");
  CLI11_PARSE(app, argc, argv);

  std::vector<Case> cases;
  if (!options.replay.empty()) {
    if (!readCases(options.replay, cases))
      return 2;
  } else {
    for (int i = 0; i < options.count; ++i)
      cases.push_back({options.seed + uint64_t(i), "", ""});
  }
  if (options.print) {
    for (const Case &each : cases) {
      ElementType type = optionsOf(options, each.seed).inputType;
      std::printf("// seed %llu\n%s\n", static_cast<unsigned long long>(each.seed),
                  each.text.empty() ? randomVariant(each.seed, type).c_str() : each.text.c_str());
    }
    return 0;
  }

  ContextOptions contextOptions = testContextOptions(options.device);
  // This program checks every row anyway.
  contextOptions.verify =
      options.verify || (options.device == "host" && options.algorithm.empty() && !options.pages);
  contextOptions.threads = 1; // the threads run whole cases
  Result<Context> context = Context::create(contextOptions);
  if (!context) {
    std::fprintf(stderr, "skipped: %s\n", context.error().message().c_str());
    return skipped;
  }
  void *first;
  (void)backtrace(&first, 1); // loads a library, which it may not do after a crash
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS})
    std::signal(signal, tellOfCrash);
  auto start = std::chrono::steady_clock::now();
  Run run(options, *context);
  size_t begun = 0;
  int failed = run.all(cases, begun);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Tally &tally = run.tally;
  std::printf("%zu variants on %s, %d failed, %.1f s: %lld launches, %lld with some pairs masked, "
              "%.0f %% of the pairs kept, %lld rows NaN, %lld launches without a finite gradient, "
              "%lld with a shared prefix; "
              "%.0f ms to compile one, %.0f ms to check it\n",
              begun, options.device.c_str(), failed, seconds,
              static_cast<long long>(tally.launches), static_cast<long long>(tally.partial),
              100.0 * double(tally.kept) / double(std::max<int64_t>(tally.pairs, 1)),
              static_cast<long long>(tally.nanRows), static_cast<long long>(tally.undefined),
              static_cast<long long>(tally.shared),
              double(tally.compileMicroseconds) / 1000 / double(std::max<size_t>(begun, 1)),
              double(tally.checkMicroseconds) / 1000 / double(std::max<size_t>(begun, 1)));
  if (options.replay.empty())
    std::printf("seeds %llu to %llu; the rest begins with --seed %llu --count %zu\n",
                static_cast<unsigned long long>(options.seed),
                static_cast<unsigned long long>(options.seed + begun - 1),
                static_cast<unsigned long long>(options.seed + begun), cases.size() - begun);
  return failed || !hasCheckedEnough(options, tally) ? 1 : 0;
}
