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

/// What compile() and launches do with measured schedules (Tune.h). A schedule that
/// KernelOptions::schedule names always holds.
///
/// With `off` and `cached` a process has one answer: the same requests and launches run the same
/// kernels, in the same order, and give the same bits. Which schedule a launch runs follows from
/// the options of compile(), from the launch's own sizes, and from what was measured before the
/// context was created. A kernel never changes; nothing is compiled by a launch, and nothing in the
/// background, unless kernels have two tiers (ContextOptions::tiers).
enum class Tuning {
  off, ///< the heuristic chooses
  /// Schedules that were measured before the context was created, here or by those who made the
  /// library, are used. With KernelOptions::sizes compile() makes the kernel for these, which all
  /// its launches run. Without, it makes one for each schedule that was measured for the variant,
  /// several at a time, and waits for all of them; a launch runs that of its own sizes. What
  /// tune() finds in this context holds for kernels that are compiled from then on.
  cached,
  /// Also, the first launch of sizes that nothing is known for has them tuned in the background, on
  /// one thread, in memory of its own; what came of it is swapped in: later launches of the same
  /// Kernel run another schedule, whose results differ in the last bits. What it costs:
  /// docs/tuning.md.
  onFirstUse,
  /// Also, compile() tunes for KernelOptions::sizes that nothing is known for, and waits.
  full,
};

struct ContextOptions {
  /// "auto": the first GPU, else the host. "host". "cuda" (the first GPU) or "cuda:1".
  std::string device = "auto";
  /// Where compiled kernels are kept. Empty: $TESELA_CACHE_DIR, else
  /// $XDG_CACHE_HOME/tesela, else ~/.cache/tesela.
  std::string cacheFolder;
  /// False: nothing is read from or written to disk.
  bool diskCache = true;
  /// Kernels that the context keeps in memory, those asked for last; who holds a Kernel keeps it
  /// beyond that. A kernel's code has 14 KB (host) to 185 KB (sm_90): these have 0.2 GB at most. Of
  /// as many variants it also keeps the kernels of measured schedules (Tuning).
  int64_t mostKernels = 1024;
  /// The bytes that the folder's kernels may have together; beyond that those used longest ago are
  /// removed. 0: defaultCacheBytes of tesela/Cache.h. Contexts with several limits on one
  /// folder: each keeps its own when it stores a kernel.
  int64_t cacheBytes = 0;
  /// Threads of the host target and the host reference; 0: one for each processor that the process
  /// may use. Contexts that launch at once share the processors.
  int threads = 0;
  Tuning tuning = Tuning::cached;
  /// Whether a kernel that would have to be compiled for a GPU may begin with a simple schedule. It
  /// is there in a fraction of the time and slower; the best one, which the context would give
  /// without this, is compiled in the background and takes its place at a launch, never in the
  /// midst of a graph: what one capture records has one of the two. Their results differ in the
  /// last bits. Both are cached. Where the best one does not compile, `log` is told, and
  /// Kernel::isBest(). For single kernels: KernelOptions::tiers. docs/runtime.md has more.
  bool tiers = false;
  /// How long the tuning of one kernel for one bucket of sizes may take, in seconds.
  double tuningSeconds = 60;
  /// A safety net for variants that nobody has tried: the first launch of each kernel, which then
  /// waits for its stream, is held against a reference on a sample of rows, up to 1024: the
  /// oracle's on a GPU (the interpreter's without NVRTC), the interpreter's on the host. A launch
  /// whose result is wrong fails (Code::defect), and so does each later one of that kernel. While a
  /// stream is captured into a graph nothing is verified: a later launch is. A kernel that cannot
  /// be verified is told to `log`; one from a bundle, which has no variant's text, never is. What
  /// it costs: docs/runtime.md.
  bool verify = false;
  /// Called with a sentence where something is worth knowing but no failure (the
  /// cache's folder cannot be written, say). May be called from any thread.
  std::function<void(const std::string &)> log;
  /// Called with all that happens; empty: silent.
  EventCallback events;
};

/// Memory of a context's device, freed when it goes.
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

/// A device with a cache of kernels: a cheap handle, copied freely. All members
/// may be called from several threads at once. In a child of fork() a context of the host goes on,
/// one of a GPU gives errors (docs/runtime.md, Processes that fork).
class TESELA_EXPORT Context {
public:
  /// Fails where the named device is not there, and says what is.
  static Result<Context> create(const ContextOptions &options = {});

  const Device &device() const;

  /// The kernel for `options`: from memory, from disk, or compiled now. Asked for
  /// the same kernel from several threads at once, it is compiled once. Where `limits` end first:
  /// Code::cancelled or Code::deadlineExceeded. Launches of kernels that are ready never wait for
  /// it.
  Result<Kernel> compile(const KernelOptions &options, const RequestLimits &limits = {}) const;

  /// The same on threads of the context, up to sixteen: returns at once. `time`, where given, is
  /// how long the request may take from now on. Fails at once where `options` themselves are wrong;
  /// what is wrong with the variant's text, Preparation::get() tells.
  Result<Preparation> prepare(const KernelOptions &options,
                              std::optional<std::chrono::milliseconds> time = {}) const;

  /// How often compile() ran the compiler, not the cache.
  int64_t compileCount() const;

  // Memory and time, so that tools need no other library.

  /// `bytes` of the device's memory, not initialised. 0 bytes are allowed.
  Result<Buffer> allocate(size_t bytes) const;
  /// Both begin behind what `stream` was given before, and wait until the copy is done. `bytes`
  /// must lie within the buffer.
  Status copyToDevice(const Buffer &to, const void *from, size_t bytes,
                      void *stream = nullptr) const;
  Status copyToHost(void *to, const Buffer &from, size_t bytes, void *stream = nullptr) const;
  /// Sets every byte of `buffer`; 0xff makes NaNs of all its floats. Waits like the copies.
  Status fill(const Buffer &buffer, uint8_t byte, void *stream = nullptr) const;
  /// Waits for `stream`; on the host there is nothing to wait for.
  Status synchronize(void *stream = nullptr) const;
  /// Calls `work` `warmup` times, then `repeat` times and gives each one's time in
  /// milliseconds: the device's own clock around what `work` launches on
  /// `stream`, or the wall clock on the host.
  Result<std::vector<double>> measure(const std::function<Status()> &work, int warmup, int repeat,
                                      void *stream = nullptr) const;

  explicit Context(std::shared_ptr<ContextState> state);
  const std::shared_ptr<ContextState> &internal() const { return state; }

private:
  std::shared_ptr<ContextState> state;
};

} // namespace tesela

#endif // TESELA_CONTEXT_H
