//===- CApi.cpp -----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/tesela.h"

#include "tesela/Context.h"

#include <algorithm>
#include <cstring>
#include <new>

// The handles of the C API are the C++ ones.
struct tesela_context {
  tesela::Context context;
  std::string deviceName, target;
};
struct tesela_kernel {
  tesela::Kernel kernel;
};

using namespace tesela;

static_assert(int(TESELA_DEADLINE_EXCEEDED) == int(Code::deadlineExceeded) && int(TESELA_DRIVER) == int(Code::driver) &&
              int(TESELA_NOT_FOUND) == int(Code::notFound));
static_assert(int(TESELA_F32) == int(ElementType::f32) &&
              int(TESELA_BOOL) == int(ElementType::boolean));
static_assert(int(TESELA_COMPILED) == int(KernelInfo::Origin::compiled) &&
              int(TESELA_MEMORY_CACHE) == int(KernelInfo::Origin::memoryCache) &&
              int(TESELA_DISK_CACHE) == int(KernelInfo::Origin::diskCache));

namespace {

thread_local std::string lastError;

tesela_code report(const Error &error) {
  lastError = error.message();
  return tesela_code(error.code());
}

/// Runs `body`; no exception passes the C boundary.
template <typename Body> tesela_code guarded(Body body) {
  try {
    Status status = body();
    return status ? TESELA_OK : report(status.error());
  } catch (const std::bad_alloc &) {
    return report(Error(Code::outOfMemory, "host memory ran out: make the problem smaller"));
  } catch (const std::exception &error) {
    return report(Error(Code::defect, error.what()));
  }
}

Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

template <typename T> Status checkSize(const T *structure, const char *name) {
  if (!structure)
    return invalid(std::string(name) + " is NULL");
  // Room for a structure that grew in a later version; a wild number is a forgotten size.
  if (structure->size < sizeof(size_t) || structure->size > 4096)
    return invalid(std::string(name) + "'s size is " + std::to_string(structure->size) +
                   ": set it to sizeof(" + name + ")");
  return Status::success();
}

/// Copies a caller's structure, which may be older and shorter than this library's:
/// what it lacks reads as zero.
template <typename T> Status copySized(const T *from, T &to, const char *name) {
  if (Status status = checkSize(from, name); !status)
    return status;
  std::memset(static_cast<void *>(&to), 0, sizeof to);
  std::memcpy(static_cast<void *>(&to), from, std::min(from->size, sizeof to));
  return Status::success();
}

std::string text(const char *value, const char *otherwise = "") {
  return value ? value : otherwise;
}

Result<ElementType> elementType(int type) {
  if (type < TESELA_F32 || type > TESELA_BOOL)
    return invalid("the type " + std::to_string(type) + " is none of tesela_type's");
  return ElementType(type);
}

Tensor view(const tesela_view &view, ElementType type, int64_t batch, int64_t heads, int64_t length,
            int64_t headDim) {
  Tensor tensor = Tensor::bhsd(view.data, type, batch, heads, length, headDim);
  tensor.strides = {view.batch_stride, view.head_stride, view.length_stride, 1};
  return tensor;
}

Status addParameter(const tesela_parameter &parameter, LaunchArguments &arguments) {
  if (!parameter.name)
    return invalid("a parameter has no name");
  if (parameter.rank == 0) {
    arguments.scalars.push_back({parameter.name, parameter.scalar});
    return Status::success();
  }
  std::string name = std::string("the captured tensor '") + parameter.name + "'";
  if (parameter.rank < 0 || parameter.rank > Tensor::maxRank)
    return invalid(name + " has rank " + std::to_string(parameter.rank) +
                   ", it must lie in [1, 8]; a scalar has rank 0");
  if (!parameter.extents)
    return invalid(name + " has no extents");
  Result<ElementType> type = elementType(parameter.type);
  if (!type)
    return type.error().within(name);
  Tensor tensor;
  tensor.data = parameter.data;
  tensor.type = *type;
  tensor.rank = parameter.rank;
  int64_t stride = 1;
  for (int axis = parameter.rank - 1; axis >= 0; --axis) {
    tensor.extents[axis] = parameter.extents[axis];
    tensor.strides[axis] = parameter.strides ? parameter.strides[axis] : stride;
    if (__builtin_mul_overflow(stride, parameter.extents[axis], &stride))
      return invalid(name + " is larger than 64 bits can count");
  }
  arguments.captures.push_back({parameter.name, tensor});
  return Status::success();
}

Status addConstants(const tesela_kernel_options &from, KernelOptions &to) {
  if (from.constant_count && !from.constants)
    return invalid("constants is NULL, constant_count is " + std::to_string(from.constant_count));
  for (size_t i = 0; i < from.constant_count; ++i) {
    const tesela_parameter &constant = from.constants[i];
    if (!constant.name)
      return invalid("a const parameter has no name");
    if (constant.rank != 0)
      return invalid(std::string("the const parameter '") + constant.name + "' has rank " +
                     std::to_string(constant.rank) + ", it must be a scalar: set rank to 0");
    to.constants.push_back({constant.name, constant.scalar});
  }
  return Status::success();
}

Result<LaunchArguments> launchArguments(const KernelInfo &info,
                                        const tesela_launch_arguments &from) {
  LaunchArguments to;
  ElementType type = info.inputType;
  to.q = view(from.q, type, from.batch, from.heads, from.length, info.headDimQk);
  to.k = view(from.k, type, from.batch, from.kv_heads, from.kv_length, info.headDimQk);
  to.v = view(from.v, type, from.batch, from.kv_heads, from.kv_length, info.headDimV);
  to.o = view(from.o, type, from.batch, from.heads, from.length, info.headDimV);
  to.lse = Tensor::contiguous(from.lse, ElementType::f32, {from.batch, from.heads, from.length});
  if (from.scale != 0)
    to.scale = from.scale;
  if (from.parameter_count && !from.parameters)
    return invalid("parameters is NULL, parameter_count is " +
                   std::to_string(from.parameter_count));
  for (size_t i = 0; i < from.parameter_count; ++i)
    if (Status status = addParameter(from.parameters[i], to); !status)
      return status.error();
  to.capturesUnchanged = from.captures_unchanged != 0;
  return to;
}

tesela_kernel_info kernelInfo(const KernelInfo &from, size_t size) {
  tesela_kernel_info to;
  std::memset(&to, 0, sizeof to); // its padding too: all of it is copied
  to.size = size;
  to.target = from.target.c_str();
  to.schedule = from.schedule.c_str();
  to.assembler = from.assembler.c_str();
  to.origin = tesela_origin(from.origin);
  for (const auto &[stage, milliseconds] : from.stages)
    to.compile_ms += milliseconds;
  to.registers = from.registers.value_or(-1);
  to.spill_bytes = from.spillBytes.value_or(-1);
  to.shared_bytes = from.sharedBytes.value_or(-1);
  to.threads = from.threads.value_or(-1);
  return to;
}

} // namespace

const char *tesela_version(void) {
  static const std::string text = version();
  return text.c_str();
}

const char *tesela_last_error(void) { return lastError.c_str(); }

tesela_code tesela_context_create(const tesela_context_options *options, tesela_context **context) {
  return guarded([&]() -> Status {
    if (!context)
      return invalid("context is NULL: pass the address of a pointer");
    *context = nullptr;
    ContextOptions chosen;
    if (options) {
      tesela_context_options given;
      if (Status status = copySized(options, given, "tesela_context_options"); !status)
        return status;
      chosen.device = text(given.device, "auto");
      chosen.cacheFolder = text(given.cache_folder);
      chosen.diskCache = !given.no_disk_cache;
      chosen.threads = given.threads;
      if (given.log)
        chosen.log = [log = given.log, user = given.log_user](const std::string &message) {
          log(user, message.c_str());
        };
    }
    Result<Context> created = Context::create(chosen);
    if (!created)
      return created.error();
    const Device &device = created->device();
    *context = new tesela_context{*created, device.name, device.target};
    return Status::success();
  });
}

void tesela_context_destroy(tesela_context *context) { delete context; }

const char *tesela_context_device(const tesela_context *context) {
  return context ? context->deviceName.c_str() : "";
}

const char *tesela_context_target(const tesela_context *context) {
  return context ? context->target.c_str() : "";
}

tesela_code tesela_compile(tesela_context *context, const tesela_kernel_options *options,
                           tesela_kernel **kernel) {
  return guarded([&]() -> Status {
    if (!context || !kernel)
      return invalid(context ? "kernel is NULL: pass the address of a pointer"
                             : "context is NULL: make one by tesela_context_create");
    *kernel = nullptr;
    tesela_kernel_options given;
    if (Status status = copySized(options, given, "tesela_kernel_options"); !status)
      return status;
    if (!given.variant)
      return invalid("variant is NULL: pass the variant's text");
    Result<ElementType> type = elementType(given.input_type);
    if (!type)
      return type.error();
    KernelOptions chosen;
    chosen.variantText = given.variant;
    chosen.variantFile = text(given.variant_file, "variant");
    chosen.inputType = *type;
    chosen.headDimQk = given.head_dim_qk;
    chosen.headDimV = given.head_dim_v;
    chosen.schedule = text(given.schedule);
    chosen.expectedLength = given.expected_length;
    chosen.expectedQueries = given.expected_queries;
    if (Status status = addConstants(given, chosen); !status)
      return status;
    Result<Kernel> compiled = context->context.compile(chosen);
    if (!compiled)
      return compiled.error();
    *kernel = new tesela_kernel{*compiled};
    return Status::success();
  });
}

void tesela_kernel_destroy(tesela_kernel *kernel) { delete kernel; }

tesela_code tesela_kernel_describe(const tesela_kernel *kernel, tesela_kernel_info *info) {
  return guarded([&]() -> Status {
    if (!kernel)
      return invalid("kernel is NULL: make one by tesela_compile");
    if (Status status = checkSize(info, "tesela_kernel_info"); !status)
      return status;
    tesela_kernel_info known = kernelInfo(kernel->kernel.info(), info->size);
    std::memcpy(info, &known, std::min(known.size, sizeof known));
    return Status::success();
  });
}

tesela_code tesela_launch(const tesela_kernel *kernel, const tesela_launch_arguments *arguments,
                          void *stream) {
  return guarded([&]() -> Status {
    if (!kernel)
      return invalid("kernel is NULL: make one by tesela_compile");
    tesela_launch_arguments given;
    if (Status status = copySized(arguments, given, "tesela_launch_arguments"); !status)
      return status;
    Result<LaunchArguments> converted = launchArguments(kernel->kernel.info(), given);
    if (!converted)
      return converted.error();
    return kernel->kernel.launch(*converted, stream);
  });
}
