//===- CApiKernel.cpp - tesela/c/kernel.h ----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApiArguments.h"
#include "api/State.h"
#include "tesela/KernelTensors.h"
#include "tesela/Workers.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_kernel {
  Kernel kernel;
  Device device;
  std::vector<tesela_stage> stages; ///< their names belong to the kernel
  ParameterList parameters;
};

static_assert(int(TESELA_COMPILED) == int(KernelInfo::Origin::compiled) &&
              int(TESELA_MEMORY_CACHE) == int(KernelInfo::Origin::memoryCache) &&
              int(TESELA_DISK_CACHE) == int(KernelInfo::Origin::diskCache) &&
              int(TESELA_BUNDLE) == int(KernelInfo::Origin::bundle) &&
              int(TESELA_PACKAGE) == int(KernelInfo::Origin::package));
static_assert(int(TESELA_SCHEDULE_GIVEN) == int(KernelInfo::ScheduleOrigin::given) &&
              int(TESELA_SCHEDULE_HEURISTIC) == int(KernelInfo::ScheduleOrigin::heuristic) &&
              int(TESELA_SCHEDULE_TUNED) == int(KernelInfo::ScheduleOrigin::tuned) &&
              int(TESELA_SCHEDULE_SIMPLE) == int(KernelInfo::ScheduleOrigin::simple));

namespace {

constexpr const char *kernelMaker = "tesela_compile";

Status addConstants(const tesela_kernel_options &from, KernelOptions &to) {
  if (from.constant_count && !from.constants)
    return noArray("constants", "constant_count", from.constant_count);
  for (size_t i = 0; i < from.constant_count; ++i) {
    const tesela_parameter &constant = from.constants[i];
    if (!constant.name)
      return invalid("const parameter " + std::to_string(i) + " has no name: set its name");
    if (constant.rank != 0 || constant.tensor)
      return invalid(
          std::string("the const parameter '") + constant.name +
          (constant.tensor ? "' is a tensor" : "' has rank " + std::to_string(constant.rank)) +
          ", it must be a scalar: set rank to 0 and no tensor");
    to.constants.push_back({constant.name, constant.scalar});
  }
  return Status::success();
}

Status addBindings(const tesela_kernel_options &from, KernelOptions &to) {
  if (from.binding_count && !from.bindings)
    return noArray("bindings", "binding_count", from.binding_count);
  for (size_t i = 0; i < from.binding_count; ++i) {
    if (!from.bindings[i])
      return invalid("binding " + std::to_string(i) + " is NULL: pass \"name=value\"");
    to.bindings.push_back(from.bindings[i]);
  }
  return Status::success();
}

tesela_kernel_info kernelInfo(const tesela_kernel &kernel) {
  const KernelInfo &from = kernel.kernel.info();
  auto to = zeroed<tesela_kernel_info>();
  to.target = from.target.c_str();
  to.schedule = from.schedule.c_str();
  to.assembler = from.assembler.c_str();
  to.origin = tesela_origin(from.origin);
  for (const tesela_stage &stage : kernel.stages)
    to.compile_ms += stage.milliseconds;
  to.registers = from.registers.value_or(-1);
  to.spill_bytes = from.spillBytes.value_or(-1);
  to.shared_bytes = from.sharedBytes.value_or(-1);
  to.threads = from.threads.value_or(-1);
  to.input_type = tesela_type(from.inputType);
  to.variant = from.variantName.c_str();
  to.head_dim_qk = from.headDimQk;
  to.head_dim_v = from.headDimV;
  to.stages = kernel.stages.data();
  to.stage_count = kernel.stages.size();
  to.schedule_origin = tesela_schedule_origin(from.scheduleOrigin);
  to.tuned_record = from.tunedRecord.c_str();
  return to;
}

/// Reads a launch's arguments, by views or by tensors.
template <typename Arguments>
Status readArguments(const tesela_kernel *kernel, const Arguments *from, ReusedArguments &to) {
  if (!kernel)
    return noHandle("kernel", kernelMaker);
  if constexpr (std::is_same_v<Arguments, tesela_launch_arguments>)
    return to.read(from, kernel->kernel.info(), kernel->device);
  else
    return to.read(from, &kernel->kernel.info(),
                   &kernel->kernel.internal()->kernel->plan.signature(), kernel->device);
}

template <typename Arguments>
Status launch(const tesela_kernel *kernel, const Arguments *arguments, void *stream) {
  ReusedArguments given;
  if (Status status = readArguments(kernel, arguments, given); !status)
    return status;
  return kernel->kernel.launch(given.arguments, stream);
}

template <typename Arguments>
Status check(const tesela_kernel *kernel, const Arguments *arguments) {
  ReusedArguments given;
  if (Status status = readArguments(kernel, arguments, given); !status)
    return status;
  return kernel->kernel.checkArguments(given.arguments);
}

template <typename Arguments>
Status workspaceBytes(const tesela_kernel *kernel, const Arguments *arguments, size_t *bytes) {
  if (!bytes)
    return invalid("bytes is NULL: pass the address of a size_t");
  *bytes = 0;
  if (kernel && arguments && !mayTakeWorkspace(*kernel->kernel.internal()))
    return Status::success(); // without reading them, because a launch takes hundreds of
                              // nanoseconds
  ReusedArguments given;
  if (Status status = readArguments(kernel, arguments, given); !status)
    return status;
  Result<size_t> needed = kernel->kernel.workspaceBytes(given.arguments);
  if (!needed)
    return needed.error();
  *bytes = *needed;
  return Status::success();
}

} // namespace

tesela_kernel *tesela::c::makeKernelHandle(Kernel kernel, const Device &device) {
  std::vector<tesela_stage> stages = stagesOf(kernel.info().stages);
  ParameterList parameters(kernel.info().parameters);
  return new tesela_kernel{std::move(kernel), device, std::move(stages), std::move(parameters)};
}

ProblemSizes tesela::c::problemSizes(const tesela_sizes &sizes) {
  return {sizes.batch, sizes.heads, sizes.kv_heads, sizes.length, sizes.kv_length};
}

Result<KernelOptions> tesela::c::kernelOptions(const tesela_kernel_options *options) {
  tesela_kernel_options given;
  if (Status status = readSized(options, given, "tesela_kernel_options"); !status)
    return status.error();
  if (!given.variant && !given.algorithm)
    return invalid("variant is NULL: pass the variant's text");
  Result<ElementType> type = elementType(given.input_type);
  if (!type)
    return type.error();
  KernelOptions chosen;
  chosen.variantText = textOr(given.variant);
  chosen.variantFile = textOr(given.variant_file, "variant");
  chosen.inputType = *type;
  // Some algorithms, such as a product of matrices, have no head dimensions.
  if (given.head_dim_qk != 0 || !given.algorithm)
    chosen.headDimQk = given.head_dim_qk;
  if (given.head_dim_v != 0 || !given.algorithm)
    chosen.headDimV = given.head_dim_v;
  chosen.schedule = textOr(given.schedule);
  chosen.expectedLength = given.expected_length;
  chosen.expectedQueries = given.expected_queries;
  chosen.target = textOr(given.target);
  if (given.sizes)
    chosen.sizes = problemSizes(*given.sizes);
  chosen.algorithm = textOr(given.algorithm, chosen.algorithm.c_str());
  chosen.dropout = given.dropout != 0;
  chosen.tiers = given.tiers != 0;
  if (Status status = addBindings(given, chosen); !status)
    return status.error();
  if (Status status = addConstants(given, chosen); !status)
    return status.error();
  return chosen;
}

tesela_code tesela_compile(tesela_context *context, const tesela_kernel_options *options,
                           tesela_kernel **kernel) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(kernel, "kernel"); !status)
      return status;
    if (!context)
      return noHandle("context", "tesela_context_create");
    Result<KernelOptions> chosen = kernelOptions(options);
    if (!chosen)
      return chosen.error();
    Result<Kernel> compiled = context->context.compile(*chosen);
    if (!compiled)
      return compiled.error();
    *kernel = makeKernelHandle(std::move(*compiled), context->context.device());
    return Status::success();
  });
}

void tesela_kernel_destroy(tesela_kernel *kernel) { delete kernel; }

tesela_code tesela_emit_stage(const tesela_kernel_options *options, const char *stage,
                              tesela_bytes **program) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(program, "program"); !status)
      return status;
    if (!stage)
      return invalid("stage is NULL: pass the name of one, such as \"ptx\"");
    Result<KernelOptions> chosen = kernelOptions(options);
    if (!chosen)
      return chosen.error();
    Result<std::string> emitted = emitStage(*chosen, stage);
    if (!emitted)
      return emitted.error();
    *program = new tesela_bytes{std::move(*emitted)};
    return Status::success();
  });
}

tesela_code tesela_workers_for(const tesela_context *context, const tesela_kernel_options *options,
                               const tesela_sizes *sizes, int64_t *workers) {
  return guarded([&]() -> Status {
    if (!workers)
      return invalid("workers is NULL: pass the address of an int64_t");
    *workers = 0;
    if (!context)
      return noHandle("context", "tesela_context_create");
    if (!sizes)
      return invalid("sizes is NULL: pass the sizes of a launch");
    Result<KernelOptions> chosen = kernelOptions(options);
    if (!chosen)
      return chosen.error();
    Result<int64_t> found = workersFor(context->context.device(), *chosen, problemSizes(*sizes));
    if (!found)
      return found.error();
    *workers = *found;
    return Status::success();
  });
}

tesela_code tesela_use_template_folder(const char *folder) {
  return guarded([&]() -> Status {
    useTemplateFolder(textOr(folder));
    return Status::success();
  });
}

tesela_code tesela_use_ptxas(const char *path) {
  return guarded([&] { return usePtxas(textOr(path)); });
}

tesela_code tesela_kernel_describe(const tesela_kernel *kernel, tesela_kernel_info *info) {
  return guarded([&]() -> Status {
    if (!kernel)
      return noHandle("kernel", kernelMaker);
    return writeSized(kernelInfo(*kernel), info, "tesela_kernel_info");
  });
}

tesela_code tesela_kernel_tensor_type(const tesela_kernel *kernel, const char *name,
                                      tesela_type *type) {
  return guarded([&]() -> Status {
    if (!kernel)
      return noHandle("kernel", kernelMaker);
    if (!type)
      return invalid("type is NULL: pass the address of a tesela_type");
    if (!name)
      return invalid("name is NULL: pass the name of a tensor, such as \"d_bias\"");
    Result<ElementType> found = tensorType(kernel->kernel, name);
    if (!found)
      return found.error();
    *type = tesela_type(*found);
    return Status::success();
  });
}

size_t tesela_kernel_parameter_count(const tesela_kernel *kernel) {
  return kernel ? kernel->parameters.count() : 0;
}

tesela_code tesela_kernel_parameter(const tesela_kernel *kernel, size_t index,
                                    tesela_parameter_info *info) {
  return guarded([&]() -> Status {
    if (!kernel)
      return noHandle("kernel", kernelMaker);
    return kernel->parameters.describe(index, info);
  });
}

tesela_code tesela_launch(const tesela_kernel *kernel, const tesela_launch_arguments *arguments,
                          void *stream) {
  return guarded([&] { return launch(kernel, arguments, stream); });
}

tesela_code tesela_launch_tensors(const tesela_kernel *kernel,
                                  const tesela_tensor_arguments *arguments, void *stream) {
  return guarded([&] { return launch(kernel, arguments, stream); });
}

tesela_code tesela_check_arguments(const tesela_kernel *kernel,
                                   const tesela_launch_arguments *arguments) {
  return guarded([&] { return check(kernel, arguments); });
}

tesela_code tesela_check_tensors(const tesela_kernel *kernel,
                                 const tesela_tensor_arguments *arguments) {
  return guarded([&] { return check(kernel, arguments); });
}

tesela_code tesela_kernel_workspace_bytes(const tesela_kernel *kernel,
                                          const tesela_launch_arguments *arguments, size_t *bytes) {
  return guarded([&] { return workspaceBytes(kernel, arguments, bytes); });
}

tesela_code tesela_kernel_workspace_bytes_of_tensors(const tesela_kernel *kernel,
                                                     const tesela_tensor_arguments *arguments,
                                                     size_t *bytes) {
  return guarded([&] { return workspaceBytes(kernel, arguments, bytes); });
}

tesela_code tesela_kernel_is_captured(const tesela_kernel *kernel, void *stream, int *is_captured) {
  return guarded([&]() -> Status {
    if (!is_captured)
      return invalid("is_captured is NULL: pass the address of an int");
    *is_captured = 0;
    if (!kernel)
      return noHandle("kernel", kernelMaker);
    Result<StreamUse> use = streamUseOf(*kernel->kernel.internal(), stream);
    if (!use)
      return use.error();
    *is_captured = use->isCaptured;
    return Status::success();
  });
}

tesela_code tesela_kernel_is_best(const tesela_kernel *kernel, int64_t milliseconds, int *is_best) {
  return guarded([&]() -> Status {
    if (!is_best)
      return invalid("is_best is NULL: pass the address of an int");
    *is_best = 0;
    if (!kernel)
      return noHandle("kernel", kernelMaker);
    Result<bool> isBest = kernel->kernel.isBest(bounded(milliseconds));
    if (!isBest)
      return isBest.error();
    *is_best = *isBest;
    return Status::success();
  });
}
