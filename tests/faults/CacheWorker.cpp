//===- CacheWorker.cpp - A process that uses a cache ----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The process that the fault tests start, kill and starve. It uses the fake compiler, so that
// compiling a kernel takes as long as the test wants. Kernel i has the head dimensions 1 + i % 256
// and 1 + i / 256, so that a wrong kernel is noticed. Each command prints JSON. Exit code 1: a
// kernel was wrong.
//
//   cache_worker FOLDER compile FIRST COUNT
//     compiles one kernel after the other, with a line of output for each
//   cache_worker FOLDER together COUNT THREADS MS
//     each thread has a context of its own; compiling a kernel takes MS
//   cache_worker FOLDER flip STEP
//     flips each byte of an entry in turn; every STEPth time a context then uses the entry
//   cache_worker FOLDER fill COUNT BYTES
//     stores COUNT entries with BYTES of code
//   cache_worker FOLDER time COUNT
//     times look-ups of kernels, and a store that counts all files
//
//===----------------------------------------------------------------------===//
#include "../TestContext.h"
#include "FakeCompiler.h"
#include "artifact/Digest.h"
#include "cache/DiskCache.h"
#include "tesela/Cache.h"
#include "tesela/Context.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tesela;

namespace {

std::atomic<int> wrong = 0, warnings = 0;

void warn(const std::string &sentence) {
  ++warnings;
  std::fprintf(stderr, "%s\n", sentence.c_str());
}

Context makeContext(const std::string &folder, int64_t cacheBytes = 0) {
  ContextOptions options = testContextOptions();
  options.threads = 1;
  options.diskCache = true;
  options.cacheFolder = folder;
  options.cacheBytes = cacheBytes;
  options.log = warn;
  Result<Context> context = Context::create(options);
  if (!context) {
    std::fprintf(stderr, "%s\n", context.error().message().c_str());
    std::exit(1);
  }
  return *context;
}

KernelOptions kernelOptions(int number) {
  KernelOptions options;
  options.variantText = fake::variantText;
  options.inputType = ElementType::f32;
  options.headDimQk = 1 + number % 256;
  options.headDimV = 1 + number / 256;
  return options;
}

/// Where the kernel came from. Records a kernel that is not the one that was asked for.
KernelInfo::Origin compile(const Context &context, int number) {
  KernelOptions options = kernelOptions(number);
  Result<Kernel> kernel = context.compile(options);
  if (!kernel || kernel->info().headDimQk != options.headDimQk ||
      kernel->info().headDimV != options.headDimV) {
    std::fprintf(stderr, "kernel %d: %s\n", number,
                 kernel ? "it is another one" : kernel.error().message().c_str());
    ++wrong;
    return KernelInfo::Origin::compiled;
  }
  return kernel->info().origin;
}

void compileInTurn(const std::string &folder, int first, int count) {
  Context context = makeContext(folder);
  for (int i = first; i < first + count; ++i) {
    bool compiled = compile(context, i) == KernelInfo::Origin::compiled;
    std::printf("{\"kernel\": %d, \"compiled\": %s}\n", i, compiled ? "true" : "false");
    std::fflush(stdout);
  }
  std::printf("{\"compiled\": %d, \"warnings\": %d}\n", int(context.compileCount()), int(warnings));
}

void compileTogether(const std::string &folder, int count, int threadCount, int milliseconds) {
  fake::setCompileMilliseconds(milliseconds);
  std::vector<Context> contexts;
  for (int i = 0; i < threadCount; ++i)
    contexts.push_back(makeContext(folder));
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  (void)std::getchar(); // all processes begin when the test tells them
  std::vector<std::thread> threads;
  for (Context &context : contexts)
    threads.emplace_back([&context, count] {
      for (int i = 0; i < count; ++i)
        compile(context, i);
    });
  for (std::thread &thread : threads)
    thread.join();
  int64_t compiled = 0;
  for (Context &context : contexts)
    compiled += context.compileCount();
  std::printf("{\"compiled\": %d, \"warnings\": %d}\n", int(compiled), int(warnings));
}

void flip(const std::string &folder, size_t step) {
  compile(makeContext(folder), 300);
  const CachedKernel entry = Cache::open(folder)->list().value().at(0);
  const std::string whole = readFile(entry.path).value();
  DiskCache cache(folder, 0, std::make_shared<EventSink>());
  size_t wholeWay = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    char flipped = char(whole[at] ^ 1 << at % 8);
    Descriptor file(::open(entry.path.c_str(), O_WRONLY | O_CLOEXEC));
    bool written = ::pwrite(file.number(), &flipped, 1, off_t(at)) == 1;
    if (!written || cache.load(entry.key)) {
      std::fprintf(stderr, "byte %zu: %s\n", at, written ? "it was loaded" : "cannot be written");
      ++wrong;
    }
    if (at % step == 0) {
      ++wholeWay;
      if (compile(makeContext(folder), 300) != KernelInfo::Origin::compiled ||
          compile(makeContext(folder), 300) != KernelInfo::Origin::diskCache)
        ++wrong;
      if (!writeFile(entry.path, whole).ok())
        ++wrong;
    } else {
      (void)::pwrite(file.number(), &whole[at], 1, off_t(at));
    }
  }
  std::printf("{\"bytes\": %zu, \"whole_way\": %zu, \"warnings\": %d}\n", whole.size(), wholeWay,
              int(warnings));
}

void fill(const std::string &folder, int count, int bytes) {
  DiskCache cache(folder, int64_t(1) << 40, std::make_shared<EventSink>(warn, EventCallback()));
  KernelSpecification specification;
  Artifact artifact = fake::artifact(specification);
  artifact.code.resize(size_t(bytes), 'x');
  for (int i = 0; i < count; ++i)
    cache.store(sha256Hex("filled " + std::to_string(i)), artifact);
  std::printf("{\"filled\": %d, \"warnings\": %d}\n", count, int(warnings));
}

template <typename Work> double milliseconds(Work work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void timeWork(const std::string &folder, int count) {
  for (int i = 0; i < count; ++i)
    compile(makeContext(folder), i);
  std::vector<double> misses, loads, lookUps, stores;
  for (int i = 0; i < count; ++i) {
    DiskCache cache(folder, int64_t(1) << 40, std::make_shared<EventSink>());
    Artifact artifact = fake::artifact({});
    std::string key = sha256Hex("timed " + std::to_string(i));
    misses.push_back(milliseconds([&] { cache.load(key); }));
    stores.push_back(milliseconds([&] { cache.store(key, artifact); }));
    loads.push_back(milliseconds([&] { cache.load(key); }));
    Context context = makeContext(folder);
    lookUps.push_back(milliseconds([&] { compile(context, i); }));
  }
  // The additional time for a limit: it counts a part of the folder if the entry is small, else all
  // files.
  int64_t total = 0;
  Result<std::vector<CachedKernel>> kernels = Cache::open(folder)->list();
  for (const CachedKernel &kernel : *kernels)
    total += kernel.bytes;
  const int64_t limit = total + (int64_t(256) << 20);
  std::vector<double> partCounts, counts;
  for (int i = 0; i < std::min(count, 10); ++i) {
    SizeLimit sizeLimit(limit, std::make_shared<EventSink>());
    std::string key = sha256Hex("timed " + std::to_string(i));
    partCounts.push_back(milliseconds([&] { sizeLimit.stored(CacheFolder(folder), key, 1); }));
    counts.push_back(
        milliseconds([&] { sizeLimit.stored(CacheFolder(folder), key, limit / 256); }));
  }
  std::printf("{\"miss_ms\": %.3f, \"load_ms\": %.3f, \"kernel_ms\": %.3f, \"store_ms\": %.3f, "
              "\"count_a_part_ms\": %.3f, \"count_all_ms\": %.3f}\n",
              median(misses), median(loads), median(lookUps), median(stores), median(partCounts),
              median(counts));
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "cache_worker FOLDER COMMAND NUMBER...: see the source\n");
    return 2;
  }
  const std::string folder = argv[1], command = argv[2];
  auto number = [&](int index) { return index < argc ? std::atoi(argv[index]) : 0; };
  if (command == "compile")
    compileInTurn(folder, number(3), number(4));
  else if (command == "together")
    compileTogether(folder, number(3), number(4), number(5));
  else if (command == "flip")
    flip(folder, size_t(std::max(number(3), 1)));
  else if (command == "fill")
    fill(folder, number(3), number(4));
  else if (command == "time")
    timeWork(folder, std::max(number(3), 1));
  else
    return 2;
  return wrong > 0 ? 1 : 0;
}
