//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/KernelRequest.h"

#include "api/State.h"
#include "assemble/BestAttempt.h"
#include "cache/KernelKey.h"
#include "events/ProfilerRange.h"
#include "frontend/Parser.h"

#include <algorithm>
#include <chrono>

namespace tesela {

namespace {

using Stages = std::vector<std::pair<std::string, double>>;

/// Milliseconds since the stopwatch was made or last asked.
class Stopwatch {
public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double milliseconds = std::chrono::duration<double, std::milli>(now - begin).count();
    begin = now;
    return milliseconds;
  }

private:
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

KernelInfo describeKernel(const Artifact &artifact, const LoadedCode &code,
                          const std::string &assembler) {
  KernelInfo info;
  info.variantName = artifact.variantName;
  info.target = artifact.target.name();
  info.inputType = artifact.inputType;
  info.headDimQk = artifact.headDimQk;
  info.headDimV = artifact.headDimV;
  info.schedule = artifact.schedule;
  for (const Parameter &parameter : artifact.parameters)
    info.parameters.push_back(describeParameter(parameter));
  info.assembler = assembler;
  if (std::optional<Resources> resources = code.resources()) {
    info.registers = resources->registers;
    info.spillBytes = resources->spillBytes;
    int threads = 0;
    for (const Launch &launch : artifact.launches)
      threads = std::max(threads, launch.threads);
    info.threads = threads;
  }
  info.sharedBytes = code.sharedBytes();
  return info;
}

} // namespace

Result<std::shared_ptr<const LoadedKernel>> loadKernel(const Artifact &artifact,
                                                       const Backend &backend,
                                                       std::unique_ptr<FirstLaunch> firstLaunch,
                                                       const std::string &assembler,
                                                       const std::string &key) {
  Result<LaunchPlan> plan = LaunchPlan::create(artifact);
  if (!plan)
    return plan.error();
  Result<std::shared_ptr<const LoadedCode>> code = backend.load(artifact);
  if (!code)
    return code.error();
  KernelInfo info =
      describeKernel(artifact, **code, assembler.empty() ? backend.assemblerName() : assembler);
  auto makeWorkspaces = [shared = backend.shared_from_this()] {
    return std::make_unique<Workspaces>(shared);
  };
  return std::shared_ptr<const LoadedKernel>(std::make_shared<LoadedKernel>(
      LoadedKernel{backend.shared_from_this(), std::move(*plan), std::move(*code),
                   std::make_unique<PerProcess<Workspaces>>(makeWorkspaces), std::move(info),
                   std::move(firstLaunch), key}));
}

namespace {

/// The variant's name for events; "" if the text has errors; without a variant the template's name.
std::string nameOf(const KernelSpecification &specification) {
  if (specification.variantText.empty() && !specification.isAttention())
    return specification.algorithm;
  ParseOutcome outcome = parseWithDiagnostics(specification.variantText, specification.variantFile);
  return outcome.variant ? outcome.variant->name : "";
}

/// Finds or makes a kernel and records where it came from.
class KernelRequest {
public:
  KernelRequest(ContextState &context, const KernelSpecification &specification,
                const RequestLimits &limits)
      : context(context), specification(specification), limits(limits) {}

  Result<Kernel> run() {
    // The assembler does not change during the context's life.
    const std::string inMemory = keyOf("");
    Result<std::shared_ptr<const LoadedKernel>> kernel =
        templateFolderInUse() ? compileAnew()
                              : context.memory.get(
                                    inMemory, limits, [&] { return fromDiskOrCompiler(); },
                                    [&](const LoadedKernel &out) {
                                      tell(Event::Kind::cacheEvicted, "memory", out.key);
                                    });
    if (!kernel)
      return kernel.error();
    if (origin == KernelInfo::Origin::memoryCache) {
      stages = {{"cache", watch.lap()}};
      tellHit("memory", (*kernel)->info.variantName, (*kernel)->key);
    }
    auto state = std::make_shared<Kernel::State>();
    state->kernel = std::move(*kernel);
    state->info = state->kernel->info;
    state->events = context.events;
    state->info.origin = origin;
    if (!specification.schedule.empty())
      state->info.scheduleOrigin = KernelInfo::ScheduleOrigin::given;
    state->info.stages = std::move(stages);
    return Kernel(std::move(state));
  }

private:
  ContextState &context;
  const KernelSpecification &specification;
  const RequestLimits &limits;
  std::string ownKey;
  KernelInfo::Origin origin = KernelInfo::Origin::memoryCache;
  Stages stages;
  std::optional<Artifact> compiled; ///< set if this request compiled
  Stopwatch watch;

  std::string keyOf(const std::string &codeIdentity) const {
    return kernelKey(specification, codeIdentity);
  }

  /// The key of the kernel as this machine makes it. It may have to ask the assembler for its
  /// version.
  const std::string &key() {
    if (ownKey.empty())
      ownKey = keyOf(context.backend->codeIdentity());
    return ownKey;
  }

  Event event(Event::Kind kind, const std::string &key) const {
    Event event;
    event.kind = kind;
    event.target = specification.target.name();
    event.key = key;
    return event;
  }
  void tell(Event::Kind kind, const std::string &text, const std::string &entry) const {
    if (!context.events->wantsEvents())
      return;
    Event event = this->event(kind, entry);
    event.text = text;
    context.events->emit(event);
  }
  void tellHit(const std::string &where, const std::string &variant, const std::string &key) const {
    if (!context.events->wantsEvents())
      return;
    Event event = this->event(Event::Kind::cacheHit, key);
    event.variant = variant;
    event.text = where;
    for (const auto &[stage, milliseconds] : stages)
      event.milliseconds += milliseconds;
    context.events->emit(event);
  }

  Result<std::shared_ptr<const LoadedKernel>> fromDiskOrCompiler() {
    watch.lap(); // time spent waiting for another thread's compilation does not count
    if (!context.disk) {
      if (Status status = limits.check(); !status)
        return status.error();
      tell(Event::Kind::cacheMiss, "", key());
      return compileAnew();
    }
    // Usually the folder comes first. But if ptxas was not asked for its version yet, the key is
    // unknown, and asking takes longer than loading a kernel of the package. So then the package
    // comes first.
    const bool isFolderFirst = context.backend->knowsIdentity();
    if (!isFolderFirst)
      if (auto kernel = fromPackage())
        return kernel;
    if (auto kernel = loadCached(fromDisk(DiskCache::Damage::reported)))
      return kernel;
    if (isFolderFirst)
      if (auto kernel = fromPackage())
        return kernel;
    if (Status status = limits.check(); !status)
      return status.error();
    // One compilation per machine: while another process compiles the kernel, wait, then look
    // again.
    MachineLock lock = context.disk->lockForCompiling(key(), [&] { return !limits.check(); });
    if (Status status = limits.check(); !status)
      return status.error();
    watch.lap();
    std::optional<Artifact> artifact = fromDisk(DiskCache::Damage::silent);
    if (artifact)
      lock.release();
    if (auto kernel = loadCached(std::move(artifact)))
      return kernel;
    tell(Event::Kind::cacheMiss, "", key());
    Result<std::shared_ptr<const LoadedKernel>> kernel = compileAnew();
    bool isKept =
        kernel && context.disk->store(keyOf(context.backend->identityOf(*compiled)), *compiled);
    bool isOver = kernel.code() == Code::cancelled || kernel.code() == Code::deadlineExceeded;
    if (!isKept && !isOver) // all who wait must now compile it, so let them start at once
      lock.releaseAll();
    return kernel;
  }

  /// The kernel as the machine's first assembler made it, or as the other one did if that was too
  /// old.
  std::optional<Artifact> fromDisk(DiskCache::Damage damage) {
    std::optional<Artifact> artifact = context.disk->load(key(), damage);
    std::string spare = context.backend->spareIdentity();
    if (!artifact && !spare.empty())
      artifact = context.disk->load(keyOf(spare), damage);
    return artifact;
  }

  /// Null if there is no artifact, or if it does not load (then it counts as damaged).
  std::shared_ptr<const LoadedKernel> loadCached(std::optional<Artifact> artifact) {
    if (!artifact)
      return nullptr;
    double found = watch.lap();
    auto kernel = load(*artifact, key());
    if (!kernel)
      return nullptr;
    stages = {{"cache", found}, {"load", watch.lap()}};
    origin = KernelInfo::Origin::diskCache;
    tellHit("disk", artifact->variantName, key());
    return *kernel;
  }

  /// Null if the package has no such kernel, or if the driver does not accept it.
  std::shared_ptr<const LoadedKernel> fromPackage() {
    std::optional<ShippedKernel> shipped =
        context.shipped->load(specification, context.backend->device().target);
    if (!shipped)
      return nullptr;
    double found = watch.lap();
    auto kernel = load(shipped->artifact, shipped->key, shipped->assembler);
    if (!kernel) {
      context.shipped->doesNotLoad(kernel.error());
      return nullptr;
    }
    stages = {{"cache", found}, {"load", watch.lap()}};
    origin = KernelInfo::Origin::package;
    tellHit("package", shipped->artifact.variantName, shipped->key);
    return *kernel;
  }

  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact &artifact, const std::string &key,
                                                   const std::string &assembler = "") const {
    std::unique_ptr<FirstLaunch> firstLaunch;
    if (context.verify && specification.hasReference())
      firstLaunch = std::make_unique<FirstLaunch>(optionsOf(specification), context.oracles,
                                                  context.threads, context.events);
    return loadKernel(artifact, *context.backend, std::move(firstLaunch), assembler, key);
  }

  /// Compiles, assembles and loads.
  Result<std::shared_ptr<const LoadedKernel>> compileAnew() {
    if (Status status = limits.check(); !status)
      return status.error();
    ProfilerRange range("compile", ProfilerRange::isHeard() ? nameOf(specification) : "");
    Event started;
    if (context.events->wantsEvents()) {
      started = event(Event::Kind::compileStarted, key());
      started.variant = nameOf(specification);
      context.events->emit(started);
    }
    origin = KernelInfo::Origin::compiled;
    ++context.compileCount;
    stages.clear();
    Result<std::shared_ptr<const LoadedKernel>> kernel = compileAndLoad();
    if (context.events->wantsEvents()) {
      Event finished = std::move(started);
      finished.kind = Event::Kind::compileFinished;
      finished.stages = stages;
      for (const auto &[stage, milliseconds] : stages)
        finished.milliseconds += milliseconds;
      if (kernel)
        finished.bytes = int64_t(compiled->code.size());
      else
        finished.failure = kernel.error();
      context.events->emit(finished);
    }
    return kernel;
  }

  Result<std::shared_ptr<const LoadedKernel>> compileAndLoad() {
    CompileTimes times;
    auto assembleAndLoad = [&](Artifact artifact) -> Result<std::shared_ptr<const LoadedKernel>> {
      watch.lap();
      Result<Artifact> assembled = specification.target.kind == Target::Kind::host
                                       ? Result<Artifact>(std::move(artifact))
                                       : context.backend->assemble(std::move(artifact), limits);
      if (specification.target.kind != Target::Kind::host)
        times.stages.emplace_back("assemble", watch.lap());
      if (!assembled)
        return assembled.error();
      Result<std::shared_ptr<const LoadedKernel>> kernel = load(*assembled, key());
      times.stages.emplace_back("load", watch.lap());
      compiled = std::move(*assembled);
      return kernel;
    };
    auto kernel = bestAttempt<std::shared_ptr<const LoadedKernel>>(specification, &times, limits,
                                                                   assembleAndLoad);
    stages = std::move(times.stages);
    return kernel;
  }
};

} // namespace

Result<Kernel> requestKernel(ContextState &context, const KernelSpecification &specification,
                             const RequestLimits &limits) {
  return KernelRequest(context, specification, limits).run();
}

} // namespace tesela
