//===- CApiContext.cpp - tesela/c/context.h --------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_devices {
  std::vector<Device> devices;
};

struct tesela_buffer {
  Context context;
  Buffer buffer;
};

static_assert(int(TESELA_DEVICE_HOST) == int(Device::Kind::host) &&
              int(TESELA_DEVICE_CUDA) == int(Device::Kind::cuda));
static_assert(int(TESELA_EVENT_COMPILE_STARTED) == int(Event::Kind::compileStarted) &&
              int(TESELA_EVENT_COMPILE_FINISHED) == int(Event::Kind::compileFinished) &&
              int(TESELA_EVENT_CACHE_HIT) == int(Event::Kind::cacheHit) &&
              int(TESELA_EVENT_CACHE_MISS) == int(Event::Kind::cacheMiss) &&
              int(TESELA_EVENT_CACHE_STORED) == int(Event::Kind::cacheStored) &&
              int(TESELA_EVENT_CACHE_EVICTED) == int(Event::Kind::cacheEvicted) &&
              int(TESELA_EVENT_TRIAL) == int(Event::Kind::trial) &&
              int(TESELA_EVENT_LAUNCH) == int(Event::Kind::launch) &&
              int(TESELA_EVENT_WARNING) == int(Event::Kind::warning) &&
              int(TESELA_EVENT_VERIFIED) == int(Event::Kind::verified));

static_assert(TESELA_TUNING_CACHED - TESELA_TUNING_OFF == int(Tuning::cached) &&
              TESELA_TUNING_ON_FIRST_USE - TESELA_TUNING_OFF == int(Tuning::onFirstUse) &&
              TESELA_TUNING_FULL - TESELA_TUNING_OFF == int(Tuning::full) && int(Tuning::off) == 0);

namespace {

constexpr const char *contextMaker = "tesela_context_create";
constexpr const char *bufferMaker = "tesela_buffer_create";

/// Calls the caller's function with `event` as a C structure.
void pass(const Event &event, void (*events)(void *, const tesela_event *), void *user) {
  std::vector<tesela_stage> stages = stagesOf(event.stages);
  auto told = zeroed<tesela_event>();
  told.size = sizeof told;
  told.kind = tesela_event_kind(event.kind);
  told.variant = event.variant.c_str();
  told.target = event.target.c_str();
  told.key = event.key.c_str();
  told.text = event.text.c_str();
  told.milliseconds = event.milliseconds;
  told.bytes = event.bytes;
  told.stages = stages.data();
  told.stage_count = stages.size();
  told.failure_code = event.failure ? tesela_code(event.failure->code()) : TESELA_OK;
  told.failure = event.failure ? event.failure->message().c_str() : "";
  events(user, &told);
}

Result<ContextOptions> contextOptions(const tesela_context_options *options) {
  ContextOptions chosen;
  if (!options)
    return chosen;
  tesela_context_options given;
  if (Status status = readSized(options, given, "tesela_context_options"); !status)
    return status.error();
  chosen.device = textOr(given.device, "auto");
  chosen.cacheFolder = textOr(given.cache_folder);
  chosen.diskCache = !given.no_disk_cache;
  chosen.threads = given.threads;
  if (given.most_kernels != 0)
    chosen.mostKernels = given.most_kernels;
  chosen.cacheBytes = given.cache_bytes;
  if (given.tuning < TESELA_TUNING_DEFAULT || given.tuning > TESELA_TUNING_FULL)
    return invalid("the tuning " + std::to_string(int(given.tuning)) +
                   " is not a value of tesela_tuning: use one of its values");
  if (given.tuning != TESELA_TUNING_DEFAULT)
    chosen.tuning = Tuning(given.tuning - TESELA_TUNING_OFF);
  if (given.tuning_seconds != 0)
    chosen.tuningSeconds = given.tuning_seconds;
  chosen.verify = given.verify != 0;
  chosen.tiers = given.tiers != 0;
  if (given.log)
    chosen.log = [log = given.log, user = given.log_user](const std::string &message) {
      log(user, message.c_str());
    };
  if (given.events)
    chosen.events = [events = given.events, user = given.events_user](const Event &event) {
      pass(event, events, user);
    };
  return chosen;
}

/// Calls the caller's work. It fails with an error of Tesela, or with only a code.
Status callWork(tesela_work work, void *user) {
  uint64_t failures = failureCount();
  tesela_code code = work(user);
  if (code == TESELA_OK)
    return Status::success();
  if (failureCount() != failures && code == tesela_last_error_code())
    return lastFailure().within("measuring");
  return Error(Code(code), "measuring: the work returned the code " + std::to_string(int(code)));
}

} // namespace

tesela_device_info tesela::c::deviceInfo(const Device &device) {
  auto info = zeroed<tesela_device_info>();
  info.kind = tesela_device_kind(device.kind);
  info.index = device.index;
  info.name = device.name.c_str();
  info.target = device.target.c_str();
  info.driver = device.driver.c_str();
  info.sm = device.sm;
  info.processors = device.processors;
  info.memory_bytes = device.memoryBytes;
  return info;
}

tesela_code tesela_devices_create(tesela_device_kind kind, tesela_devices **devices) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(devices, "devices"); !status)
      return status;
    if (kind == TESELA_DEVICE_HOST) {
      *devices = new tesela_devices{{hostDevice()}};
      return Status::success();
    }
    if (kind != TESELA_DEVICE_CUDA)
      return invalid("the kind " + std::to_string(int(kind)) +
                     " is not a value of tesela_device_kind: use one of its values");
    Result<std::vector<Device>> found = cudaDevices();
    if (!found)
      return found.error();
    *devices = new tesela_devices{std::move(*found)};
    return Status::success();
  });
}

void tesela_devices_destroy(tesela_devices *devices) { delete devices; }

size_t tesela_devices_count(const tesela_devices *devices) {
  return devices ? devices->devices.size() : 0;
}

tesela_code tesela_devices_describe(const tesela_devices *devices, size_t index,
                                    tesela_device_info *info) {
  return guarded([&]() -> Status {
    if (!devices)
      return noHandle("devices", "tesela_devices_create");
    if (Status status = checkIndex(index, devices->devices.size(), "devices"); !status)
      return status;
    return writeSized(deviceInfo(devices->devices[index]), info, "tesela_device_info");
  });
}

const char *tesela_event_name(tesela_event_kind kind) { return eventName(Event::Kind(kind)); }

tesela_code tesela_context_create(const tesela_context_options *options, tesela_context **context) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(context, "context"); !status)
      return status;
    Result<ContextOptions> chosen = contextOptions(options);
    if (!chosen)
      return chosen.error();
    Result<Context> created = Context::create(*chosen);
    if (!created)
      return created.error();
    *context = new tesela_context{std::move(*created)};
    return Status::success();
  });
}

void tesela_context_destroy(tesela_context *context) { delete context; }

const char *tesela_context_device(const tesela_context *context) {
  return context ? context->context.device().name.c_str() : "";
}

const char *tesela_context_target(const tesela_context *context) {
  return context ? context->context.device().target.c_str() : "";
}

tesela_code tesela_context_describe_device(const tesela_context *context,
                                           tesela_device_info *info) {
  return guarded([&]() -> Status {
    if (!context)
      return noHandle("context", contextMaker);
    return writeSized(deviceInfo(context->context.device()), info, "tesela_device_info");
  });
}

int64_t tesela_context_compile_count(const tesela_context *context) {
  return context ? context->context.compileCount() : 0;
}

tesela_code tesela_synchronize(const tesela_context *context, void *stream) {
  return guarded([&]() -> Status {
    if (!context)
      return noHandle("context", contextMaker);
    return context->context.synchronize(stream);
  });
}

tesela_code tesela_measure(const tesela_context *context, tesela_work work, void *user, int warmup,
                           int repeat, void *stream, double *milliseconds) {
  return guarded([&]() -> Status {
    if (!context)
      return noHandle("context", contextMaker);
    if (!work)
      return invalid("work is NULL: pass a function that launches");
    for (auto [name, count] : {std::pair("warmup", warmup), {"repeat", repeat}})
      if (count < 0)
        return invalid(std::string(name) + " is " + std::to_string(count) +
                       ", it must not be negative");
    if (repeat > 0 && !milliseconds)
      return invalid("milliseconds is NULL: pass an array of " + std::to_string(repeat));
    auto call = [&] { return callWork(work, user); };
    Result<std::vector<double>> times = context->context.measure(call, warmup, repeat, stream);
    if (!times)
      return times.error();
    std::copy(times->begin(), times->end(), milliseconds);
    return Status::success();
  });
}

tesela_code tesela_buffer_create(const tesela_context *context, size_t bytes,
                                 tesela_buffer **buffer) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(buffer, "buffer"); !status)
      return status;
    if (!context)
      return noHandle("context", contextMaker);
    Result<Buffer> allocated = context->context.allocate(bytes);
    if (!allocated)
      return allocated.error();
    *buffer = new tesela_buffer{context->context, std::move(*allocated)};
    return Status::success();
  });
}

void tesela_buffer_destroy(tesela_buffer *buffer) { delete buffer; }

void *tesela_buffer_data(const tesela_buffer *buffer) {
  return buffer ? buffer->buffer.data() : nullptr;
}

size_t tesela_buffer_size(const tesela_buffer *buffer) {
  return buffer ? buffer->buffer.size() : 0;
}

tesela_code tesela_buffer_write(tesela_buffer *buffer, const void *from, size_t bytes) {
  return guarded([&]() -> Status {
    if (!buffer)
      return noHandle("buffer", bufferMaker);
    if (!from && bytes > 0)
      return invalid("from is NULL: pass " + std::to_string(bytes) + " bytes of the host's memory");
    return buffer->context.copyToDevice(buffer->buffer, from, bytes);
  });
}

tesela_code tesela_buffer_read(const tesela_buffer *buffer, void *to, size_t bytes) {
  return guarded([&]() -> Status {
    if (!buffer)
      return noHandle("buffer", bufferMaker);
    if (!to && bytes > 0)
      return invalid("to is NULL: pass room for " + std::to_string(bytes) +
                     " bytes in the host's memory");
    return buffer->context.copyToHost(to, buffer->buffer, bytes);
  });
}

tesela_code tesela_buffer_fill(tesela_buffer *buffer, uint8_t byte) {
  return guarded([&]() -> Status {
    if (!buffer)
      return noHandle("buffer", bufferMaker);
    return buffer->context.fill(buffer->buffer, byte);
  });
}
