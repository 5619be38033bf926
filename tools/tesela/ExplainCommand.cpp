//===- ExplainCommand.cpp - `tesela explain` ------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "ExplainReport.h"
#include "LaunchRequest.h"
#include "OutputFile.h"
#include "ProgressLine.h"
#include "StandardOutput.h"
#include "VariantFile.h"
#include "drawing/SvgCanvas.h"
#include "drawing/TileDrawing.h"

#include "tesela/Explain.h"

#include <fmt/format.h>

namespace tesela::tool {

static Status drawFile(const std::string &path, const ExplainReport &report) {
  TileDrawing drawing(report);
  SvgCanvas canvas(drawing.width(), drawing.height());
  drawing.draw(canvas);
  return writeFile(path, canvas.file());
}

int explain(const ExplainOptions &options) {
  if (Status status = options.svg.empty() ? Status::success() : checkWritable(options.svg); !status)
    return report(status.error());
  Result<OpenedVariant> opened = openVariant(options.variant);
  if (!opened)
    return reportBadInput(opened.error());
  const auto &[file, variant] = *opened;

  Result<std::vector<ScalarArgument>> scalars = parseScalars(options.parameters, variant);
  if (!scalars)
    return reportBadInput(scalars.error());
  Result<LaunchRequest> request = launchRequest(options, options.input, options.layout, variant);
  if (!request)
    return request.code() == Code::outOfMemory ? report(request.error())
                                               : reportBadInput(request.error());
  const LaunchShape &shape = request->shape;
  const LaunchExtents &extents = request->extents;

  KernelOptions kernel;
  kernel.variantText = file.text;
  kernel.variantFile = file.path;
  kernel.headDimQk = static_cast<int>(shape.headDim);
  kernel.headDimV = static_cast<int>(shape.headDimV.value_or(shape.headDim));
  kernel.expectedLength = extents.Sk;
  kernel.expectedQueries = extents.Sq;
  kernel.schedule = options.schedule;
  kernel.inputType = parseElementType(shape.dtype).value_or(ElementType::bf16);
  kernel.target = targetOf(options);
  kernel.constants = takeConstants(*scalars, variant);
  ExplainArguments arguments{.batch = extents.B,
                             .heads = extents.H,
                             .kvHeads = extents.Hkv,
                             .length = extents.Sq,
                             .kvLength = extents.Sk,
                             .pass = options.pass == "dq"     ? TilePass::dq
                                     : options.pass == "dkdv" ? TilePass::dkdv
                                                              : TilePass::forward,
                             .scalars = std::move(*scalars),
                             .captures = {},
                             .progress = {}};
  for (const auto &[name, tensor] : request->captures)
    arguments.captures.push_back({name, tensor.view()});
  ProgressLine line;
  arguments.progress = [&](const ExplainProgress &progress) {
    line.show(fmt::format("{:.0f} % of the {}", 100 * progress.done,
                          progress.stage == ExplainProgress::Stage::tiles ? "tiles classified"
                                                                          : "kept pairs counted"));
  };
  Result<Explanation> explanation = tesela::explain(kernel, arguments);
  line.clear();
  if (!explanation)
    return report(explanation.error());

  ExplainReport result{.variantPath = file.path,
                       .extents = extents,
                       .Dqk = kernel.headDimQk,
                       .Dv = kernel.headDimV,
                       .type = kernel.inputType,
                       .explanation = std::move(*explanation)};
  std::string text = options.json ? formatJson(result) : formatText(result);
  print(text);
  if (!options.svg.empty())
    if (Status status = drawFile(options.svg, result); !status)
      return report(status.error());
  return exitSuccess;
}

} // namespace tesela::tool
