//===- CompileCommand.cpp - `tesela compile` ------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "OutputFile.h"
#include "Parameters.h"
#include "StandardOutput.h"
#include "VariantFile.h"

#include "tesela/Device.h"
#include "tesela/Variant.h"

#include <fmt/format.h>

#include <unistd.h>

namespace tesela::tool {

std::string targetOf(const KernelChoice &choice) {
  if (choice.target != "auto")
    return choice.target;
  Result<std::vector<Device>> found = cudaDevices();
  return found && !found->empty() ? found->front().target : "host";
}

Result<Context> createContext(const KernelChoice &choice, ContextOptions options) {
  bool isNamed = choice.target == "auto" || choice.target == "host";
  options.device = isNamed ? choice.target : "cuda";
  Result<Context> context = Context::create(options);
  if (context || isNamed)
    return context;
  // If the target's name is wrong, the error must say so, not that there is no GPU. The compiler
  // knows the names.
  KernelOptions kernel;
  kernel.variantText = "attention full() { mask = true }";
  kernel.target = choice.target;
  if (Result<std::string> stage = emitStage(kernel, "attn"); !stage)
    return stage.error();
  return Error(context.code(), context.error().message() + " (--target host)");
}

int compile(const CompileOptions &options) {
  Result<VariantFile> file = readVariant(options.variant);
  if (!file)
    return reportBadInput(file.error());
  bool binary = options.stage == "object" || options.stage == "cubin";
  if (binary && options.output.empty() && isatty(STDOUT_FILENO))
    return report(
        Error(Code::invalidArgument,
              fmt::format("--emit {} gives bytes, not text: name a file with -o.", options.stage)));

  Result<VariantInfo> variant = checkVariant(file->text, file->path);
  if (!variant)
    return report(variant.error());
  Result<std::vector<ScalarArgument>> constants = parseConstants(options.constants, *variant);
  if (!constants)
    return reportBadInput(constants.error());

  KernelOptions kernel;
  kernel.constants = std::move(*constants);
  kernel.variantText = file->text;
  kernel.variantFile = file->path;
  kernel.headDimQk = static_cast<int>(options.headDim);
  kernel.headDimV = static_cast<int>(options.headDimV.value_or(options.headDim));
  kernel.schedule = options.schedule;
  kernel.algorithm = options.algorithm;
  kernel.bindings = options.bindings;
  kernel.dropout = options.dropout;
  std::optional<ElementType> type = parseElementType(options.dtype);
  if (!type)
    return report(
        Error(Code::invalidArgument,
              fmt::format("--dtype {}: q, k and v are bf16, f16 or f32.", options.dtype)));
  kernel.inputType = *type;
  kernel.target = targetOf(options);

  useTemplateFolder(options.templateFolder);
  Result<std::string> program = emitStage(kernel, options.stage);
  if (!program)
    return report(program.error());
  if (options.output.empty()) {
    print(*program);
    return exitSuccess;
  }
  if (Status status = writeFile(options.output, *program); !status)
    return report(status.error());
  return exitSuccess;
}

} // namespace tesela::tool
