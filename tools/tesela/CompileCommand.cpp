//===- CompileCommand.cpp - `tesela compile` ------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "VariantFile.h"

#include "tesela/Device.h"
#include "tesela/Variant.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace tesela::tool {

static Status write(const std::string &path, const std::string &content) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  bool good = file && std::fwrite(content.data(), 1, content.size(), file) == content.size();
  good = file && std::fclose(file) == 0 && good;
  if (!good)
    return Error(Code::inputOutput,
                 fmt::format("{} cannot be written: {}.", path, std::strerror(errno)));
  return Status::success();
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

  KernelOptions kernel;
  kernel.variantText = file->text;
  kernel.variantFile = file->path;
  kernel.headDimQk = static_cast<int>(options.headDim);
  kernel.headDimV = static_cast<int>(options.headDimV.value_or(options.headDim));
  kernel.schedule = options.schedule;
  std::optional<ElementType> type = parseElementType(options.dtype);
  if (!type)
    return report(
        Error(Code::invalidArgument,
              fmt::format("--dtype {}: q, k and v are bf16, f16 or f32.", options.dtype)));
  kernel.inputType = *type;
  kernel.target = options.target;
  if (options.target == "auto") {
    Result<std::vector<Device>> found = cudaDevices();
    kernel.target = found && !found->empty() ? found->front().target : "host";
  }

  useTemplateFolder(options.templateFolder);
  Result<std::string> program = emitStage(kernel, options.stage);
  if (!program)
    return report(program.error());
  if (options.output.empty()) {
    std::fwrite(program->data(), 1, program->size(), stdout);
    return exitSuccess;
  }
  if (Status status = write(options.output, *program); !status)
    return report(status.error());
  return exitSuccess;
}

} // namespace tesela::tool
