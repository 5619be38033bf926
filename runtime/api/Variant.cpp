//===- Variant.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Variant.h"

#include "api/State.h"
#include "assemble/BestAttempt.h"
#include "frontend/Parser.h"
#include "system/UnfinishedWork.h"

#include <limits>

namespace tesela {

std::string version() { return TESELA_VERSION; }

static_assert(kMaxRank == Tensor::maxRank, "what the language accepts, a launch can pass");

VariantParameter describeParameter(const Parameter &parameter) {
  VariantParameter described{
      parameter.name,        parameter.type, parameter.isCapture, parameter.isConstant, {},
      parameter.defaultValue};
  for (const CaptureExtent &extent : parameter.extents)
    described.extents.push_back({extent.coefficient, extent.name, extent.offset});
  return described;
}

Result<VariantInfo> checkVariant(std::string_view text, std::string_view file) {
  ParseOutcome outcome = parseWithDiagnostics(text, file);
  if (!outcome.variant)
    return Error(Code::invalidVariant, outcome.rendered);
  VariantInfo info;
  info.name = outcome.variant->name;
  info.warnings = outcome.rendered;
  for (const Parameter &parameter : outcome.variant->parameters)
    info.parameters.push_back(describeParameter(parameter));
  return info;
}

static std::atomic<bool> folderInUse = false;

bool templateFolderInUse() { return folderInUse; }

Status usePtxas(const std::string &path) { return Ptxas::use(path); }

void useTemplateFolder(const std::string &folder) {
  setTemplateFolder(folder);
  folderInUse = !folder.empty();
}

std::vector<ConstantValue> constantsOf(const KernelOptions &options) {
  std::vector<ConstantValue> constants;
  constants.reserve(options.constants.size());
  for (const ScalarArgument &constant : options.constants)
    constants.push_back({constant.name, constant.value});
  return constants;
}

KernelOptions optionsOf(const KernelSpecification &specification) {
  KernelOptions options;
  options.algorithm = specification.algorithm;
  options.bindings = specification.bindings;
  options.variantText = specification.variantText;
  options.variantFile = specification.variantFile;
  options.inputType = specification.inputType;
  options.headDimQk = specification.headDimQk;
  options.headDimV = specification.headDimV;
  options.expectedLength = specification.expectedLength;
  options.expectedQueries = specification.expectedQueries;
  options.dropout = specification.dropout;
  for (const ConstantValue &constant : specification.constants)
    options.constants.push_back({constant.name, constant.value});
  options.target = specification.target.name();
  return options;
}

Status checkSizes(const ProblemSizes &sizes, int64_t least) {
  auto invalid = [](const std::string &message) { return Error(Code::invalidArgument, message); };
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (auto [name, value] : {std::pair("batch", sizes.batch),
                             {"number of heads", sizes.heads},
                             {"number of key/value heads", sizes.kvHeads},
                             {"number of queries", sizes.length},
                             {"number of keys", sizes.kvLength}})
    if (value < least || value > most)
      return invalid(std::string("the ") + name + " is " + std::to_string(value) +
                     ", it must lie in [" + std::to_string(least) + ", " + std::to_string(most) +
                     "]");
  if (sizes.heads > 0 && (sizes.kvHeads == 0 || sizes.heads % sizes.kvHeads != 0))
    return invalid("there are " + std::to_string(sizes.heads) + " query heads and " +
                   std::to_string(sizes.kvHeads) +
                   " key/value heads: the number of query heads must be a multiple of the number "
                   "of key/value heads");
  return Status::success();
}

Result<KernelSpecification> makeSpecification(const KernelOptions &options,
                                              const std::string &defaultTarget) {
  Result<Target> target = Target::parse(options.target.empty() ? defaultTarget : options.target);
  if (!target)
    return target.error();
  auto invalid = [](const std::string &message) { return Error(Code::invalidArgument, message); };
  std::string type(elementTypeName(options.inputType));
  if (options.inputType != ElementType::f32 && options.inputType != ElementType::f16 &&
      options.inputType != ElementType::bf16)
    return invalid("the input type is " + type + ", it must be bf16, f16 or f32");
  if (options.inputType == ElementType::f32 && target->kind == Target::Kind::cuda)
    return Error(Code::unsupported, "inputs of type f32 run on the host only, not on " +
                                        target->name() + ": use bf16 or f16, or the device 'host'");
  for (int headDim : {options.headDimQk, options.headDimV})
    if (headDim < 1)
      return invalid("the head dimension is " + std::to_string(headDim) + ", it must be positive");
  if (options.expectedLength < 0)
    return invalid("the expected length is " + std::to_string(options.expectedLength) +
                   ", it must be the usual number of keys of a launch, or 0 if that is not known");
  if (options.expectedQueries < 0)
    return invalid("the expected number of queries is " + std::to_string(options.expectedQueries) +
                   ", it must be the usual number of a sequence in a launch, or 0 if that is "
                   "not known");
  if (Status status = options.sizes ? checkSizes(*options.sizes, 0) : Status::success(); !status)
    return status.error().within("the options' sizes");
  KernelSpecification specification;
  specification.algorithm = options.algorithm;
  specification.bindings = options.bindings;
  specification.variantText = options.variantText;
  specification.variantFile = options.variantFile;
  specification.inputType = options.inputType;
  specification.headDimQk = options.headDimQk;
  specification.headDimV = options.headDimV;
  specification.expectedLength = options.expectedLength;
  specification.expectedQueries = options.expectedQueries;
  specification.dropout = options.dropout;
  specification.schedule = options.schedule;
  specification.target = *target;
  specification.constants = constantsOf(options);
  return specification;
}

Status checkIsAttention(const KernelOptions &options, const std::string &what) {
  if (options.algorithm == forwardAlgorithm && options.bindings.empty())
    return Status::success();
  if (options.algorithm == forwardAlgorithm)
    return Error(Code::unsupported, what +
                                        " is available only for dense queries and keys, not for '" +
                                        options.bindings.front() + "': leave the bindings out");
  return Error(Code::unsupported, what + " is available only for the algorithm '" +
                                      forwardAlgorithm + "', not for '" + options.algorithm +
                                      "': use '" + forwardAlgorithm + "'");
}

static Result<std::string> emitCubin(const KernelSpecification &specification) {
  if (specification.target.kind != Target::Kind::cuda)
    return Error(
        Code::invalidArgument,
        "the target host has no cubin: choose a target such as sm_90, or the stage object");
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    return Error(Code::notFound,
                 "a cubin needs the program ptxas, which is neither on PATH nor in "
                 "$CUDA_HOME/bin nor in /usr/local/cuda/bin: install CUDA's package "
                 "cuda-nvcc, or choose the stage ptx");
  auto assemble = [&](const Artifact &artifact) -> Result<std::string> {
    Result<Assembled> assembled = ptxas->assemble(artifact.code, specification.target.sm);
    if (!assembled)
      return assembled.error();
    return std::move(assembled->cubin);
  };
  return bestAttempt<std::string>(specification, /*times=*/nullptr, /*limits=*/{}, assemble);
}

Result<std::string> emitStage(const KernelOptions &options, std::string_view stage) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  Result<KernelSpecification> specification = makeSpecification(options, "host");
  if (!specification)
    return specification.error();
  if (stage == "cubin")
    return emitCubin(*specification);
  constexpr std::pair<std::string_view, Stage> stages[] = {
      {"attn", Stage::attn}, {"tile", Stage::tile}, {"pipe", Stage::pipe},
      {"llvm", Stage::llvm}, {"ptx", Stage::ptx},   {"object", Stage::object}};
  for (const auto &[name, value] : stages)
    if (stage == name)
      return emit(*specification, value);
  return Error(Code::invalidArgument,
               "the stage '" + std::string(stage) +
                   "' is not known; choose attn, tile, pipe, llvm, ptx, cubin or object");
}

} // namespace tesela
