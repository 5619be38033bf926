//===- Context.h - A device, its cache, its memory --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CONTEXT_H
#define TESELA_CONTEXT_H

#include "tesela/Device.h"
#include "tesela/Events.h"
#include "tesela/Kernel.h"
#include "tesela/Preparation.h"
#include "tesela/RequestLimits.h"
#include "tesela/Variant.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tesela {

struct ContextState;

/// How compile() and launches use measured schedules (Tune.h). A schedule in
/// KernelOptions::schedule always takes precedence.
///
/// With `off` and `cached` a process is reproducible: the same requests and launches run the same
/// kernels in the same order and give the same bits. The schedule of a launch depends only on the
/// options of compile(), the launch's sizes, and what was measured before the context was created.
/// A kernel never changes. No launch compiles anything, and nothing is compiled in the background,
/// except for kernels with two tiers (ContextOptions::tiers).
enum class Tuning {
  off, ///< the heuristic chooses
  /// Uses schedules that were measured before the context was created, on this machine or by the
  /// makers of the library. With KernelOptions::sizes, compile() makes one kernel, tuned for these
  /// sizes, for all launches. Without, compile() makes a kernel for each schedule that was measured
  /// for the variant, several at a time, and waits for all; each launch runs the one for its own
  /// sizes. Results of tune() in this context apply to kernels that are compiled later.
  cached,
  /// Also, the first launch with sizes that have no measurement starts tuning in the
  /// background, on one thread and in its own memory. Later launches of the same Kernel then
  /// run the faster schedule, whose results differ in the last bits. docs/tuning.md says what
  /// that costs.
  onFirstUse,
  /// Also, compile() tunes for KernelOptions::sizes that have no measurement, and waits.
  full,
};

struct ContextOptions {
  /// "auto": the first GPU, else the host. "host". "cuda" (the first GPU) or "cuda:1".
  std::string device = "auto";
  /// The folder for compiled kernels. Empty: $TESELA_CACHE_DIR, else $XDG_CACHE_HOME/tesela, else
  /// ~/.cache/tesela.
  std::string cacheFolder;
  /// False: the disk is neither read nor written.
  bool diskCache = true;
  /// How many kernels the context keeps in memory: the most recently requested ones. A Kernel
  /// handle keeps its kernel longer. A kernel's code has 14 KB (host) to 185 KB (sm_90), so 1024
  /// have at most 0.2 GB. The kernels of measured schedules (Tuning) are kept for as many variants.
  int64_t mostKernels = 1024;
  /// The limit of the cache folder in bytes. Beyond it the least recently used kernels are removed.
  /// 0: defaultCacheBytes of tesela/Cache.h. If several contexts share a folder, each applies its
  /// own limit when it stores a kernel.
  int64_t cacheBytes = 0;
  /// Threads of the host target and the host reference; 0: one for each processor that the process
  /// may use. Contexts that launch at the same time share the processors.
  int threads = 0;
  Tuning tuning = Tuning::cached;
  /// Whether a kernel that must be compiled for a GPU may start with a simple schedule, which is
  /// ready in a fraction of the time but slower. The best kernel, which the context would give
  /// without this, is compiled in the background. A later launch replaces the simple one; during a
  /// capture nothing is replaced, so a captured graph has one of the two. Their results differ in
  /// the last bits. Both are cached. If the best one does not compile, `log` and Kernel::isBest()
  /// report it. KernelOptions::tiers does this for one kernel. docs/runtime.md has more.
  bool tiers = false;
  /// The time limit for tuning one kernel for one bucket of sizes, in seconds.
  double tuningSeconds = 60;
  /// A safety net for new variants: the first launch of each kernel is compared with a reference on
  /// a sample of up to 1024 rows, and so waits for its stream. The reference is the oracle on a
  /// GPU, and the interpreter on the host or without NVRTC. A launch with a wrong result fails
  /// (Code::defect), and so does each later launch of that kernel. Nothing is verified while a
  /// stream is captured; a later launch is. If a kernel cannot be verified, `log` reports it.
  /// Kernels from bundles are never verified, because a bundle has no variant's text.
  /// docs/runtime.md says what verifying costs.
  bool verify = false;
  /// Called with a sentence that is worth knowing but is no failure, for example that the cache
  /// folder cannot be written. May be called from any thread.
  std::function<void(const std::string &)> log;
  /// Called for every Event. Empty: no events.
  EventCallback events;
};

/// Memory of a context's device. The destructor frees it.
class TESELA_EXPORT Buffer {
public:
  Buffer() = default;
  Buffer(Buffer &&other) noexcept;
  Buffer &operator=(Buffer &&other) noexcept;
  ~Buffer();

  void *data() const { return address; } ///< aligned to 256 bytes; a device address on a GPU
  size_t size() const { return bytes; }

private:
  friend class Context;
  std::shared_ptr<const ContextState> owner;
  void *address = nullptr;
  size_t bytes = 0;
};

/// A device with a cache of kernels: a handle that is cheap to copy. All members may be called from
/// several threads at once. In a child of fork() a context of the host continues to work; one of a
/// GPU returns errors (docs/runtime.md, Processes that fork).
class TESELA_EXPORT Context {
public:
  /// Fails if there is no such device; the message lists the devices that exist.
  static Result<Context> create(const ContextOptions &options = {});

  const Device &device() const;

  /// The kernel for `options`: from memory, from disk, or compiled now. If several threads ask
  /// for the same kernel at once, it is compiled once. Code::cancelled or
  /// Code::deadlineExceeded: `limits` ended the request. Launches of kernels that are ready
  /// never wait for a compilation.
  Result<Kernel> compile(const KernelOptions &options, const RequestLimits &limits = {}) const;

  /// Like compile(), but on threads of the context (up to sixteen); returns at once. `time` limits
  /// the request, counted from now. Wrong `options` fail at once. Preparation::get() reports errors
  /// in the variant's text.
  Result<Preparation> prepare(const KernelOptions &options,
                              std::optional<std::chrono::milliseconds> time = {}) const;

  /// How many times compile() ran the compiler instead of using a cache.
  int64_t compileCount() const;

  // Memory and time, for tools that use no other library.

  /// Allocates `bytes` of the device's memory, uninitialised. 0 bytes are allowed.
  Result<Buffer> allocate(size_t bytes) const;
  /// Both copies run after earlier work on `stream` and return when they are done. `bytes` must not
  /// exceed the buffer's size.
  Status copyToDevice(const Buffer &to, const void *from, size_t bytes,
                      void *stream = nullptr) const;
  Status copyToHost(void *to, const Buffer &from, size_t bytes, void *stream = nullptr) const;
  /// Sets every byte of `buffer` and returns when that is done. 0xff makes all floats NaN.
  Status fill(const Buffer &buffer, uint8_t byte, void *stream = nullptr) const;
  /// Waits for `stream`. Returns at once on the host.
  Status synchronize(void *stream = nullptr) const;
  /// Calls `work` `warmup` times, then `repeat` times, and returns the time of each of the latter
  /// in milliseconds: on a GPU the device's time for what `work` launches on `stream`, on the host
  /// the wall clock's.
  Result<std::vector<double>> measure(const std::function<Status()> &work, int warmup, int repeat,
                                      void *stream = nullptr) const;

  explicit Context(std::shared_ptr<ContextState> state);
  const std::shared_ptr<ContextState> &internal() const { return state; }

private:
  std::shared_ptr<ContextState> state;
};

} // namespace tesela

#endif // TESELA_CONTEXT_H
