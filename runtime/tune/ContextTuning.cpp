//===- ContextTuning.cpp - A context's tuned schedules ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/ContextTuning.h"

#include "api/KernelRequest.h"
#include "api/State.h"
#include "system/Caught.h"
#include "system/Processors.h"
#include "system/UnfinishedWork.h"
#include "tune/Tuner.h"

#include <algorithm>
#include <map>
#include <set>

namespace tesela {

namespace {

/// Bytes of buffers for tuning in the background, where others use the device too.
constexpr int64_t backgroundBytes = int64_t(512) << 20;
/// How many kernels a request makes at a time. Each uses one core, as in Preparations.
constexpr int mostAtOnce = 8;

Extents extentsOf(const ProblemSizes &sizes) {
  return {int32_t(sizes.batch), int32_t(sizes.heads), int32_t(sizes.kvHeads), int32_t(sizes.length),
          int32_t(sizes.kvLength)};
}

TuneShape shapeOf(const Extents &extents, const std::vector<ScalarArgument> &scalars) {
  TuneShape shape;
  static_cast<ProblemSizes &>(shape) = {extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk};
  shape.scalars = scalars;
  return shape;
}

bool isOver(Code code) { return code == Code::cancelled || code == Code::deadlineExceeded; }

} // namespace

static std::string folderOf(const ContextState &context) {
  bool isKept = context.disk && !context.disk->folder().empty();
  return isKept ? context.disk->folder() + "/tuned" : "";
}

ContextTuning::ContextTuning(ContextState &context, const ContextOptions &options)
    : context(context), mode(options.tuning), seconds(options.tuningSeconds),
      device(recordDevice(context.backend->device(), options.threads)),
      store(folderOf(context), RecordStore::shippedFolder(), context.events),
      known(size_t(options.mostKernels)), mailbox(std::make_shared<Mailbox>()),
      stopping([] { return std::make_unique<std::stop_source>(); }) {
  mailbox->owner = this;
  if (mode != Tuning::off)
    for (auto &[kernel, list] : store.findAll(device))
      recorded[kernel].list = std::move(list);
}

ContextTuning::~ContextTuning() {
  {
    std::lock_guard lock(mailbox->mutex);
    mailbox->owner = nullptr;
  }
  stopping.get().request_stop();
}

void ContextTuning::warnOnce(const std::string &sentence) {
  if (!warned.exchange(true))
    context.events->warn(sentence);
}

std::vector<TuneRecord> ContextTuning::records(const KernelSpecification &specification) const {
  return store.find(device, recordKernel(specification));
}

ContextTuning::Records ContextTuning::recordsOf(const std::string &kernel) const {
  std::lock_guard lock(mutex);
  auto found = recorded.find(kernel);
  return found == recorded.end() ? Records() : found->second;
}

/// The record of the bucket, else that of the nearest near one.
std::optional<TuneRecord> ContextTuning::find(const std::string &kernel,
                                              const SizeBucket &bucket) const {
  std::lock_guard lock(mutex);
  auto found = recorded.find(kernel);
  if (found == recorded.end())
    return std::nullopt;
  const TuneRecord *best = nullptr;
  auto distance = [&](const TuneRecord &record) {
    return std::abs(record.bucket.batchHeads - bucket.batchHeads);
  };
  for (const TuneRecord &record : found->second.list)
    if (bucket.isNear(record.bucket) && (!best || distance(record) < distance(*best)))
      best = &record;
  return best ? std::optional(*best) : std::nullopt;
}

void ContextTuning::add(const TuneRecord &record, bool isNewAnswer) {
  std::lock_guard lock(mutex);
  Records &records = recorded[record.kernel];
  std::erase_if(records.list, [&](const TuneRecord &each) { return each.bucket == record.bucket; });
  records.list.push_back(record);
  records.revision += isNewAnswer;
}

std::string ContextTuning::knownKey(const std::string &kernel, int revision) {
  return kernel + "." + std::to_string(revision);
}

/// The kernel with the schedule of `record`.
Result<Kernel> ContextTuning::load(const KernelSpecification &specification,
                                   const TuneRecord &record, const RequestLimits &limits) {
  KernelSpecification scheduled = specification;
  scheduled.schedule = record.schedule;
  // They did not choose the schedule, so kernels that differ only in them are the same.
  scheduled.expectedLength = scheduled.expectedQueries = 0;
  Result<Kernel> loaded = requestKernel(context, scheduled, limits);
  if (!loaded && !isOver(loaded.code()))
    warnOnce("the tuned schedule in " + record.path + " is not used: " + loaded.error().message());
  return loaded;
}

Result<Kernel> ContextTuning::request(const KernelSpecification &specification,
                                      const std::optional<ProblemSizes> &sizes,
                                      const RequestLimits &limits) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  bool isOff = mode == Tuning::off || !specification.schedule.empty() || templateFolderInUse() ||
               !specification.isTunable();
  if (isOff)
    return requestKernel(context, specification, limits);
  std::string kernel = recordKernel(specification);
  std::optional<TuneRecord> record;
  if (sizes) {
    SizeBucket bucket = SizeBucket::of(extentsOf(*sizes));
    record = find(kernel, bucket);
    if (mode == Tuning::full && (!record || record->bucket != bucket)) {
      tune(specification, extentsOf(*sizes), {}, /*inBackground=*/false, limits);
      if (Status status = limits.check(); !status)
        return status.error();
      record = find(kernel, bucket);
    }
  }
  bool isOne = !swaps() && (sizes || recordsOf(kernel).list.empty());
  return isOne ? requestOne(specification, record, limits)
               : requestAll(specification, record, limits);
}

Result<Kernel> ContextTuning::requestOne(const KernelSpecification &specification,
                                         const std::optional<TuneRecord> &record,
                                         const RequestLimits &limits) {
  if (record) {
    Result<Kernel> tuned = load(specification, *record, limits);
    if (tuned) {
      auto state = std::make_shared<Kernel::State>(*tuned->internal());
      state->info.scheduleOrigin = KernelInfo::ScheduleOrigin::tuned;
      state->info.tunedRecord = record->path;
      return Kernel(std::move(state));
    }
    if (isOver(tuned.code()))
      return tuned;
  }
  return requestKernel(context, specification, limits);
}

Result<Kernel> ContextTuning::requestAll(const KernelSpecification &specification,
                                         const std::optional<TuneRecord> &record,
                                         const RequestLimits &limits) {
  std::string kernel = recordKernel(specification);
  Records records = recordsOf(kernel);
  std::optional<Result<Kernel>> first;
  auto requestFirst = [&] {
    first = caught([&] { return requestOne(specification, record, limits); });
  };
  auto make = [&]() -> Result<KnownPointer> {
    Result<KnownPointer> made = makeKnown(specification, records, requestFirst, limits);
    return !first || *first ? made : first->error();
  };
  Result<KnownPointer> all = known.get(knownKey(kernel, records.revision), limits, make,
                                       [&](const Known &) { hasDropped = true; });
  if (!all)
    return all.error();
  if (!first) // another request made `all`, or it was there before
    requestFirst();
  if (!*first)
    return *first;
  auto state = std::make_shared<Kernel::State>(*(*first)->internal());
  state->tuned = std::shared_ptr<TunedKernels>(*all, &(*all)->kernels);
  return Kernel(std::move(state));
}

Result<ContextTuning::KnownPointer>
ContextTuning::makeKnown(const KernelSpecification &specification, const Records &records,
                         const std::function<void()> &alsoDo, const RequestLimits &limits) {
  auto made = std::make_shared<Known>(specification, swaps());
  std::map<std::string, Result<Kernel>> loaded; // the key is the schedule
  if (!records.list.empty()) {
    std::mutex loadedMutex;
    TaskThreads threads(std::clamp(usableProcessors(), 1, mostAtOnce)); // the destructor waits for
                                                                        // all tasks
    threads.add(alsoDo);
    std::set<std::string> begun;
    for (const TuneRecord &record : records.list)
      if (begun.insert(record.schedule).second)
        threads.add([&] {
          Result<Kernel> kernel = caught([&] { return load(specification, record, limits); });
          std::lock_guard lock(loadedMutex);
          loaded.emplace(record.schedule, std::move(kernel));
        });
  }
  for (const TuneRecord &record : records.list) {
    const Result<Kernel> &kernel = loaded.at(record.schedule);
    if (kernel)
      made->kernels.set(record.bucket, kernel->internal()->kernel);
    else if (isOver(kernel.code()))
      return kernel.error();
  }
  // Kernels that were dropped, or of an earlier answer, may have been launched unnoticed.
  if (hasDropped || records.revision > 0)
    made->kernels.expectOthers();
  if (swaps())
    made->kernels.onMissing(
        [mailbox = mailbox, weak = std::weak_ptr<const Known>(made)](
            const Extents &extents, const std::vector<ScalarArgument> &scalars) {
          std::lock_guard lock(mailbox->mutex);
          ContextTuning *owner = mailbox->owner;
          KnownPointer known = weak.lock();
          if (!known || !owner)
            return;
          Status begun = caught([&]() -> Status {
            owner->missing(known, extents, scalars);
            return Status::success();
          });
          if (!begun) // the launch itself continues
            owner->warnOnce("background tuning did not start: " + begun.error().message());
        });
  return KnownPointer(std::move(made));
}

/// A launch has sizes without a known kernel, and launches swap.
void ContextTuning::missing(const KnownPointer &known, const Extents &extents,
                            const std::vector<ScalarArgument> &scalars) {
  bool isEmpty = std::min({extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk}) < 1;
  if (isEmpty)
    return;
  tuning.add([this, known, extents, scalars] {
    RequestLimits limits;
    limits.cancelled = stopping.get().get_token();
    SizeBucket bucket = SizeBucket::of(extents);
    std::optional<TuneRecord> record = find(recordKernel(known->specification), bucket);
    if (record && record->bucket == bucket) // made after its kernels
      swapIn(known->specification, *record, limits);
    else
      tune(known->specification, extents, scalars, /*inBackground=*/true, limits);
  });
}

void ContextTuning::tune(const KernelSpecification &specification, const Extents &extents,
                         const std::vector<ScalarArgument> &scalars, bool inBackground,
                         const RequestLimits &limits) {
  if (!limits.check())
    return;
  TuneOptions options;
  options.seconds = seconds;
  options.limits = limits;
  if (inBackground) {
    options.compileThreads = 1;
    options.memoryBytes = backgroundBytes;
  }
  Result<TunedKernel> tuned = caught([&] {
    return raceSchedules(context.backend->device(), context.threads, *context.events,
                         optionsOf(specification), shapeOf(extents, scalars), options);
  });
  if (!tuned) {
    if (!isOver(tuned.code()))
      warnOnce("a kernel is not tuned and keeps the heuristic's schedule: " +
               tuned.error().message());
    return;
  }
  if (Result<std::string> path = store.store(tuned->record))
    tuned->record.path = *path;
  else
    warnOnce("a tuned schedule was not stored and is used only in this process: " +
             path.error().message());
  add(tuned->record, /*isNewAnswer=*/false);
  swapIn(specification, tuned->record, limits);
}

void ContextTuning::swapIn(const KernelSpecification &specification, const TuneRecord &record,
                           const RequestLimits &limits) {
  KnownPointer found = known.find(knownKey(record.kernel, 0));
  if (!found) // the next request makes it with the record
    return;
  if (Result<Kernel> loaded = caught([&] { return load(specification, record, limits); }))
    found->kernels.set(record.bucket, loaded->internal()->kernel);
}

Result<std::string> ContextTuning::keep(const KernelSpecification &specification,
                                        const TuneRecord &record) {
  Result<std::string> path = store.store(record);
  if (!path || mode == Tuning::off)
    return path;
  TuneRecord kept = record;
  kept.path = *path;
  add(kept, /*isNewAnswer=*/!swaps());
  if (swaps())
    swapIn(specification, kept, {});
  return path;
}

} // namespace tesela
