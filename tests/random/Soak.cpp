//===- Soak.cpp - tesela_soak ---------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Does in an hour what a server does in weeks. Threads ask one context for kernels of many
// variants. These are more than the caches in memory and on disk may hold, so both caches evict all
// the time. Some threads ask in the background and cancel the request, and some bring a context of
// their own. Every result is compared with the interpreter's. When all contexts are gone, the
// process must have as many open files, threads and pieces of machine code as before the first one.
// In a run of at least leastMinutesForMemory its memory must also stay flat. Links only
// libtesela.so.
//
//===----------------------------------------------------------------------===//
#include "../TestContext.h"
#include "RandomLaunch.h"
#include "RandomVariant.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace tesela;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int skipped = 77; // CTest's exit code for a skipped test
// An entry of the cache has some 20 KB on the host, so about half of the kernels stay on disk.
constexpr int64_t bytesOfKernel = 20'000;

struct Options {
  double minutes = 60;
  int threads = 4;
  int variants = 64;
  std::string device = "host";
  uint64_t seed = 1;
};

/// A kernel for which the threads ask again and again.
struct Asked {
  uint64_t seed = 0;
  KernelOptions options;
  VariantInfo info;
};

/// Private memory of the process, in MB. Shared memory is not counted, because pages of the
/// library's code come and go. Source: proc(5), statm.
double privateMegabytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  return double(resident - shared) * double(sysconf(_SC_PAGESIZE)) / double(1 << 20);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// What a process holds that is counted exactly, so that a leak shows after seconds.
struct Holdings {
  int64_t files = 0;   ///< open files; proc(5), fd
  int64_t threads = 0; ///< proc(5), task
  int64_t code = 0;    ///< mappings with code that no file backs: compiled kernels; proc(5), maps

  bool operator==(const Holdings &) const = default;
};

Holdings holdings() {
  auto count = [](const char *folder) {
    auto entries = std::filesystem::directory_iterator(folder);
    return int64_t(std::distance(begin(entries), end(entries)));
  };
  Holdings now{.files = count("/proc/self/fd"), .threads = count("/proc/self/task")};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, permissions, offset, device, inode;
    words >> range >> permissions >> offset >> device >> inode;
    now.code += permissions.find('x') != std::string::npos && inode == "0" &&
                line.find('[') == std::string::npos; // [vdso]
  }
  return now;
}

/// Memory that grew is a leak only in a run of this many minutes: in a few seconds the allocators
/// are not warm yet.
constexpr double leastMinutesForMemory = 10;

class Soak {
public:
  Soak(const Options &options, std::string folder) : options(options), folder(std::move(folder)) {}

  Status prepare();
  /// Whether everything went well. Prints what did not.
  bool run();

private:
  Result<Context> newContext();
  void work(int thread);
  /// Empty, or what is wrong.
  std::string once(const Context &context, const Asked &asked, RandomSource &random);
  Result<Kernel> ask(const Context &context, const KernelOptions &options, RandomSource &random);
  void fail(const std::string &sentence);
  /// Whether every event of the soak has happened. A busy machine needs longer than the given time.
  bool hasMetAll() const {
    return failures > 0 ||
           (compiled > 0 && fromDisk > 0 && evictedFromMemory > 0 && evictedFromDisk > 0);
  }

  const Options &options;
  const std::string folder;
  std::vector<Asked> population;
  Holdings atFirst;
  std::optional<Context> shared;
  Clock::time_point end;
  std::mutex device, output;
  std::atomic<int64_t> launches = 0, compiled = 0, fromMemory = 0, fromDisk = 0, withdrawn = 0,
                       contexts = 0, failures = 0;
  std::atomic<int64_t> evictedFromMemory = 0, evictedFromDisk = 0;
};

Result<Context> Soak::newContext() {
  ContextOptions chosen = testContextOptions(options.device);
  chosen.verify = options.device == "host"; // on a GPU each context would compile its oracles
  chosen.diskCache = true;
  chosen.cacheFolder = folder;
  chosen.threads = 1; // the threads run whole requests
  chosen.mostKernels = std::max(options.variants / 8, 1);
  chosen.cacheBytes = options.variants * bytesOfKernel / 2;
  chosen.log = [this](const std::string &sentence) { fail("warned: " + sentence); };
  chosen.events = [this](const Event &event) {
    if (event.kind == Event::Kind::cacheEvicted)
      ++(event.text == "memory" ? evictedFromMemory : evictedFromDisk);
  };
  ++contexts;
  return Context::create(chosen);
}

Status Soak::prepare() {
  atFirst = holdings();
  Result<Context> created = newContext();
  if (!created)
    return created.error();
  shared = *created;
  bool isGpu = shared->device().kind == Device::Kind::cuda;
  // Captures with more axes take gigabytes, which would hide the memory of kernels.
  auto isLarge = [](const VariantParameter &parameter) { return parameter.extents.size() > 2; };
  for (uint64_t seed = options.seed; int(population.size()) < options.variants; ++seed) {
    Asked asked;
    asked.seed = seed;
    asked.options = randomOptions(asked.seed, isGpu);
    asked.options.variantText = randomVariant(asked.seed, asked.options.inputType);
    Result<VariantInfo> info = checkVariant(asked.options.variantText, asked.options.variantFile);
    if (!info)
      return info.error();
    if (std::ranges::any_of(info->parameters, isLarge))
      continue;
    asked.info = *info;
    chooseConstants(asked.options, asked.info, asked.seed);
    population.push_back(std::move(asked));
  }
  return Status::success();
}

void Soak::fail(const std::string &sentence) {
  ++failures;
  std::lock_guard lock(output);
  std::printf("FAILED: %s\n", sentence.c_str());
  std::fflush(stdout);
}

/// Asks in one of several ways. Code::cancelled and Code::deadlineExceeded are not failures.
Result<Kernel> Soak::ask(const Context &context, const KernelOptions &options,
                         RandomSource &random) {
  int way = random.below(10);
  if (way >= 3)
    return context.compile(options);
  Result<Preparation> preparation =
      way == 0 ? context.prepare(options, std::chrono::milliseconds(random.below(40)))
               : context.prepare(options);
  if (!preparation)
    return preparation.error();
  if (way == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(20)));
    preparation->cancel();
  }
  return preparation->get();
}

std::string Soak::once(const Context &context, const Asked &asked, RandomSource &random) {
  Result<Kernel> kernel = ask(context, asked.options, random);
  if (kernel.code() == Code::cancelled || kernel.code() == Code::deadlineExceeded) {
    ++withdrawn;
    return "";
  }
  if (!kernel)
    return kernel.error().message();
  KernelInfo::Origin origin = kernel->info().origin;
  ++(origin == KernelInfo::Origin::compiled      ? compiled
     : origin == KernelInfo::Origin::memoryCache ? fromMemory
                                                 : fromDisk);
  Result<std::unique_ptr<RandomLaunch>> launch = RandomLaunch::create(
      context, asked.options, asked.info, asked.seed, random.below(launchesOfSeed));
  if (!launch)
    return launch.error().message();
  if (Status status = (*launch)->launch(*kernel, device); !status)
    return status.error().message();
  ++launches;
  std::string wrong = (*launch)->check();
  return wrong.empty() ? "" : (*launch)->text() + ": " + wrong;
}

void Soak::work(int thread) {
  RandomSource random(options.seed, uint64_t(thread) + 1000);
  while (Clock::now() < end || !hasMetAll()) {
    const Asked &asked = population[size_t(random.below(int(population.size())))];
    std::string wrong;
    if (random.chance(5)) {
      Result<Context> own = newContext();
      wrong = own ? once(*own, asked, random) : own.error().message();
    } else {
      wrong = once(*shared, asked, random);
    }
    if (!wrong.empty())
      fail("seed " + std::to_string(asked.seed) + ": " + wrong);
  }
}

bool Soak::run() {
  auto begin = Clock::now();
  end = begin + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(options.minutes * 60));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < options.threads; ++thread)
    threads.emplace_back([this, thread] { work(thread); });

  // A hundred readings, for any duration.
  std::vector<double> memory;
  auto interval = (end - begin) / 100;
  for (int i = 1; i <= 100; ++i) {
    std::this_thread::sleep_until(begin + i * interval);
    memory.push_back(privateMegabytes());
    if (i % 10 != 0)
      continue;
    std::lock_guard lock(output);
    std::printf(
        "%5.1f min: %.0f MB, %lld launches; kernels: %lld compiled, %lld from memory, %lld "
        "from disk, %lld withdrawn; evicted: %lld from memory, %lld from disk; %lld contexts\n",
        std::chrono::duration<double>(Clock::now() - begin).count() / 60, memory.back(),
        (long long)launches, (long long)compiled, (long long)fromMemory, (long long)fromDisk,
        (long long)withdrawn, (long long)evictedFromMemory, (long long)evictedFromDisk,
        (long long)contexts);
    std::fflush(stdout);
  }
  for (std::thread &thread : threads)
    thread.join();

  // Allocators warm up in the first half: threads come and go, each with an arena. A leak continues
  // after that.
  double before = median({memory.begin() + 40, memory.begin() + 60});
  double after = median({memory.begin() + 80, memory.end()});
  std::printf("memory: %.0f MB in the middle, %.0f MB at the end\n", before, after);
  if (options.minutes < leastMinutesForMemory)
    std::printf("this is not judged: the run was shorter than %.0f minutes\n",
                leastMinutesForMemory);
  else if (after > before * 1.05 + 16)
    fail("memory grew");

  shared.reset();
  Holdings left = holdings();
  std::printf("open files, threads, pieces of code: %lld, %lld, %lld before; %lld, %lld, %lld "
              "after\n",
              (long long)atFirst.files, (long long)atFirst.threads, (long long)atFirst.code,
              (long long)left.files, (long long)left.threads, (long long)left.code);
  if (left != atFirst)
    fail("some were not given back");
  return failures == 0;
}

/// Why there is no such GPU on this machine; empty if there is one, or if `device` is the host.
std::string missingGpu(const std::string &device) {
  if (device == "host")
    return "";
  Result<Context> context = Context::create(testContextOptions(device));
  return context.code() == Code::notFound ? context.error().message() : "";
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Mixed variants, shapes, threads and evictions: results right, memory flat.");
  app.add_option("--minutes", options.minutes, "how long (default 60; the short form: 10)");
  app.add_option("--threads", options.threads, "that ask (default 4)");
  app.add_option("--variants", options.variants, "how many kernels they ask for (default 64)");
  app.add_option("--device", options.device, "host or cuda (default host)");
  app.add_option("--seed", options.seed, "of variants and threads (default 1)");
  CLI11_PARSE(app, argc, argv);

  if (std::string reason = missingGpu(options.device); !reason.empty()) {
    std::fprintf(stderr, "skipped: %s\n", reason.c_str());
    return skipped;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "tesela-soak-XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    std::fprintf(stderr, "there is no room for a cache in %s\n", folder.c_str());
    return 2;
  }
  Soak soak(options, folder);
  Status status = soak.prepare();
  if (!status)
    std::fprintf(stderr, "FAILED: %s\n", status.error().message().c_str());
  bool passed = status && soak.run();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::puts(passed ? "passed" : "FAILED");
  return passed ? 0 : 1;
}
