//===- ContextTuning.cpp - A context's tuned schedules ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/ContextTuning.h"

#include "api/KernelRequest.h"
#include "api/State.h"
#include "system/Caught.h"
#include "tune/Tuner.h"

#include <algorithm>

namespace tesela {

namespace {

/// Of buffers, while others work on the device.
constexpr int64_t backgroundBytes = int64_t(512) << 20;

/// The options that `specification` was made of.
KernelOptions optionsOf(const KernelSpecification &specification) {
  KernelOptions options;
  options.variantText = specification.variantText;
  options.variantFile = specification.variantFile;
  options.inputType = specification.inputType;
  options.headDimQk = specification.headDimQk;
  options.headDimV = specification.headDimV;
  options.expectedLength = specification.expectedLength;
  options.expectedQueries = specification.expectedQueries;
  for (const ConstantValue &constant : specification.constants)
    options.constants.push_back({constant.name, constant.value});
  options.target = specification.target.name();
  return options;
}

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

std::optional<TuneRecord> ContextTuning::Known::find(const SizeBucket &bucket) {
  std::lock_guard lock(mutex);
  const TuneRecord *best = nullptr;
  for (const TuneRecord &record : records) {
    if (record.bucket == bucket)
      return record;
    auto distance = [&](const TuneRecord &other) {
      return std::abs(other.bucket.batchHeads - bucket.batchHeads);
    };
    if (record.bucket.isNear(bucket) && (!best || distance(record) < distance(*best)))
      best = &record;
  }
  return best ? std::optional(*best) : std::nullopt;
}

void ContextTuning::Known::add(const TuneRecord &record) {
  std::lock_guard lock(mutex);
  std::erase_if(records, [&](const TuneRecord &each) { return each.bucket == record.bucket; });
  records.push_back(record);
}

static std::string folderOf(const ContextState &context) {
  bool isKept = context.disk && !context.disk->folder().empty();
  return isKept ? context.disk->folder() + "/tuned" : "";
}

ContextTuning::ContextTuning(ContextState &context, const ContextOptions &options)
    : context(context), mode(options.tuning), seconds(options.tuningSeconds),
      device(recordDevice(context.backend->device(), options.threads)),
      store(folderOf(context), RecordStore::shippedFolder(), context.events),
      mailbox(std::make_shared<Mailbox>()) {
  mailbox->owner = this;
}

ContextTuning::~ContextTuning() {
  {
    std::lock_guard lock(mailbox->mutex);
    mailbox->owner = nullptr;
  }
  stopping.request_stop();
}

void ContextTuning::warnOnce(const std::string &sentence) {
  if (!warned.exchange(true))
    context.events->warn(sentence);
}

std::vector<TuneRecord> ContextTuning::records(const KernelSpecification &specification) const {
  return store.find(device, recordKernel(specification));
}

std::shared_ptr<ContextTuning::Known>
ContextTuning::lookUp(const KernelSpecification &specification) {
  std::string kernel = recordKernel(specification);
  {
    std::lock_guard lock(mutex);
    if (auto found = known.find(kernel); found != known.end())
      return found->second;
  }
  auto made = std::make_shared<Known>();
  made->specification = specification;
  made->records = store.find(device, kernel);
  made->kernels.onMissing([mailbox = mailbox, weak = std::weak_ptr(made)](
                              const Extents &extents, const std::vector<ScalarArgument> &scalars) {
    std::lock_guard lock(mailbox->mutex);
    ContextTuning *owner = mailbox->owner;
    std::shared_ptr<Known> kernel = weak.lock();
    if (!kernel || !owner)
      return;
    Status begun = caught([&]() -> Status {
      owner->missing(std::move(kernel), extents, scalars);
      return Status::success();
    });
    if (!begun) // the launch itself goes on
      owner->warnOnce("nothing is tuned in the background: " + begun.error().message());
  });
  std::lock_guard lock(mutex);
  return known.try_emplace(kernel, std::move(made)).first->second;
}

/// The kernel of `record`'s schedule.
Result<Kernel> ContextTuning::load(const KernelSpecification &specification,
                                   const TuneRecord &record, const RequestLimits &limits) {
  KernelSpecification scheduled = specification;
  scheduled.schedule = record.schedule;
  // They chose nothing: one kernel, whatever is expected.
  scheduled.expectedLength = scheduled.expectedQueries = 0;
  return requestKernel(context, scheduled, limits);
}

Result<Kernel> ContextTuning::request(const KernelSpecification &specification,
                                      const std::optional<ProblemSizes> &sizes,
                                      const RequestLimits &limits) {
  bool isOff = mode == Tuning::off || !specification.schedule.empty() || templateFolderInUse();
  if (isOff)
    return requestKernel(context, specification, limits);
  std::shared_ptr<Known> kernel = lookUp(specification);
  std::optional<TuneRecord> record;
  if (sizes) {
    SizeBucket bucket = SizeBucket::of(extentsOf(*sizes));
    record = kernel->find(bucket);
    if (mode == Tuning::full && (!record || record->bucket != bucket)) {
      tune(*kernel, extentsOf(*sizes), {}, /*inBackground=*/false, limits);
      if (Status status = limits.check(); !status)
        return status.error();
      record = kernel->find(bucket);
    }
  }
  if (record) {
    Result<Kernel> tuned = load(specification, *record, limits);
    if (tuned) {
      auto state = std::make_shared<Kernel::State>(*tuned->internal());
      kernel->kernels.set(record->bucket, state->kernel);
      state->tuned = std::shared_ptr<TunedKernels>(kernel, &kernel->kernels);
      state->info.scheduleOrigin = KernelInfo::ScheduleOrigin::tuned;
      state->info.tunedRecord = record->path;
      return Kernel(std::move(state));
    }
    if (isOver(tuned.code()))
      return tuned;
    warnOnce("the tuned schedule in " + record->path + " is not used: " + tuned.error().message());
  }
  Result<Kernel> base = requestKernel(context, specification, limits);
  bool hasOthers = mode != Tuning::cached;
  {
    std::lock_guard lock(kernel->mutex);
    hasOthers |= !kernel->records.empty();
  }
  if (!base || !hasOthers) // nothing that a launch could look for
    return base;
  auto state = std::make_shared<Kernel::State>(*base->internal());
  state->tuned = std::shared_ptr<TunedKernels>(kernel, &kernel->kernels);
  return Kernel(std::move(state));
}

void ContextTuning::loadInBackground(std::shared_ptr<Known> kernel, TuneRecord record,
                                     SizeBucket bucket) {
  loading.add([this, kernel = std::move(kernel), record = std::move(record), bucket] {
    RequestLimits limits;
    limits.cancelled = stopping.get_token();
    Result<Kernel> loaded = caught([&] { return load(kernel->specification, record, limits); });
    if (loaded)
      kernel->kernels.set(bucket, loaded->internal()->kernel);
    else if (!isOver(loaded.code()))
      warnOnce("the tuned schedule in " + record.path +
               " is not used: " + loaded.error().message());
  });
}

/// A launch has sizes that no kernel is known for.
void ContextTuning::missing(std::shared_ptr<Known> kernel, const Extents &extents,
                            const std::vector<ScalarArgument> &scalars) {
  SizeBucket bucket = SizeBucket::of(extents);
  std::optional<TuneRecord> record = kernel->find(bucket);
  if (record)
    loadInBackground(kernel, *record, record->bucket);
  bool isEmpty = std::min({extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk}) < 1;
  if (mode == Tuning::cached || isEmpty || (record && record->bucket == bucket))
    return;
  tuning.add([this, kernel = std::move(kernel), extents, scalars] {
    RequestLimits limits;
    limits.cancelled = stopping.get_token();
    tune(*kernel, extents, scalars, /*inBackground=*/true, limits);
  });
}

void ContextTuning::tune(Known &kernel, const Extents &extents,
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
                         optionsOf(kernel.specification), shapeOf(extents, scalars), options);
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
    warnOnce("tuned schedules are kept for this process alone: " + path.error().message());
  kernel.add(tuned->record);
  if (Result<Kernel> loaded = load(kernel.specification, tuned->record, limits))
    kernel.kernels.set(tuned->record.bucket, loaded->internal()->kernel);
}

Result<std::string> ContextTuning::keep(const KernelSpecification &specification,
                                        const TuneRecord &record) {
  Result<std::string> path = store.store(record);
  if (!path)
    return path;
  TuneRecord kept = record;
  kept.path = *path;
  // Also where nobody has asked yet: one who just asks may have read the records before this one.
  std::shared_ptr<Known> kernel = lookUp(specification);
  kernel->add(kept);
  if (mode != Tuning::off && kernel->kernels.isUsed()) // else the first launch will look for it
    loadInBackground(kernel, kept, kept.bucket);
  return path;
}

} // namespace tesela
