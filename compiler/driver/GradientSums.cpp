//===- GradientSums.cpp - Launches for gradients of parameters --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/GradientSums.h"

#include "targets/common/ExactSums.h"
#include "targets/common/KernelSignature.h"
#include "transforms/Passes.h"
#include "transforms/ReverseSweep.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace mlir;

namespace tesela {

/// The same as for summaries: 64 elements for four warps.
static constexpr StringLiteral scheduleText =
    "#tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>";

/// The largest rank of a gradient: exact sums have two more axes, and Tensor::maxRank is 8.
static constexpr int64_t mostAxesOfSums = 6;

bool sumsGradients(ArrayRef<tile::KernelOp> kernels) {
  return llvm::any_of(kernels, [](tile::KernelOp kernel) {
    return kernel.walk([](tile::ScorePartialsOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  });
}

static Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

static bool isFloat(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

/// An error if `parameter` cannot have a gradient.
static Status checkHasGradient(const Parameter &parameter) {
  if (parameter.isConstant)
    return invalid(fmt::format("'{}' is a compile-time constant, which has no gradient: leave out "
                               "its `const`, or do not ask for its gradient",
                               parameter.name));
  if (!isFloat(parameter.type))
    return invalid(fmt::format("'{}' holds {}, which has no gradient: there are gradients of f32 "
                               "scalars and of f32, f16 and bf16 tensors",
                               parameter.name, elementTypeName(parameter.type)));
  return Status::success();
}

/// The parameters that `specification` names, each once.
static Result<std::vector<std::string>> namedGradients(const KernelSpecification &specification,
                                                       const std::vector<Parameter> &parameters) {
  std::vector<std::string> names;
  for (const std::string &binding : specification.bindings) {
    StringRef name = binding;
    if (!name.consume_front(gradientBinding))
      continue;
    auto parameter = std::ranges::find(parameters, name.str(), &Parameter::name);
    if (parameter == parameters.end()) {
      std::vector<std::string> known;
      for (const Parameter &each : parameters)
        if (checkHasGradient(each))
          known.push_back(each.name);
      return invalid(fmt::format(
          "the variant has no parameter '{}' with a gradient; {}", name.str(),
          known.empty() ? "it has none" : fmt::format("it has {}", fmt::join(known, ", "))));
    }
    if (Status status = checkHasGradient(*parameter); !status)
      return status.error();
    if (llvm::is_contained(names, name))
      return invalid(
          fmt::format("the gradient of '{}' is requested twice: request it once", name.str()));
    names.push_back(name.str());
  }
  return names;
}

Result<std::vector<ParameterGradient>> askedGradients(const KernelSpecification &specification,
                                                      attn::VariantOp op,
                                                      const std::vector<Parameter> &parameters) {
  Result<std::vector<std::string>> names = namedGradients(specification, parameters);
  if (!names)
    return names.error();
  bool isNamed = !names->empty();
  for (const Parameter &parameter : parameters)
    if (!isNamed && checkHasGradient(parameter))
      names->push_back(parameter.name);
  FailureOr<attn::GradientOp> gradient = differentiate(op);
  if (failed(gradient))
    return Error(Code::unsupported,
                 fmt::format("the score of '{}' has no derivative", op.getSymName().str()));
  SmallVector<ParameterGradient> found = parameterGradients(op, *gradient, *names);
  gradient->erase();
  std::vector<ParameterGradient> asked;
  for (ParameterGradient &each : found) {
    if (!isNamed && !each.isInScore && !each.isInSink)
      continue;
    if (!each.isDirect && each.rank > mostAxesOfSums)
      return Error(Code::unsupported,
                   fmt::format("the gradient of '{}' with {} axes is not supported: a tensor that "
                               "is read in this way may have at most {} axes; join axes",
                               each.name, each.rank, mostAxesOfSums));
    asked.push_back(std::move(each));
  }
  if (asked.empty())
    return invalid(fmt::format("the variant '{}' has no parameter with a gradient: no f32 scalar, "
                               "and no f32, f16 or bf16 tensor, is in its score or its sink",
                               op.getSymName().str()));
  return asked;
}

namespace {

Expression expression(const std::string &text) { return Expression::parse(text).value(); }

/// The tensor, the workspace and the launches for one parameter's gradient.
class Sums {
public:
  /// `type`: the type of the gradient's elements.
  explicit Sums(const ParameterGradient &gradient, ElementType type = ElementType::f32)
      : gradient(gradient), type(type) {}

  std::string tensorName() const { return "d_" + gradient.name; }

  TensorArgument tensor() const {
    TensorArgument tensor{.name = tensorName(),
                          .type = type,
                          .role = TensorArgument::Role::out,
                          .extents = {},
                          .contiguous = true,
                          .optional = false};
    for (int64_t axis = 0; axis < gradient.rank; ++axis)
      tensor.extents.push_back(expression(extent(axis)));
    return tensor;
  }

  Workspace workspace() const {
    Workspace workspace{
        gradient.viewName(), {expression(std::to_string(exactWords))}, ElementType::i32};
    for (int64_t axis = 0; axis < gradient.rank; ++axis)
      workspace.extents.push_back(expression(extent(axis)));
    workspace.extents.push_back(expression("2"));
    return workspace;
  }

  /// The launch that writes zeros to the words of the sums, or to the gradient itself.
  Launch clearing(tile::KernelOp kernel) const {
    if (!gradient.isDirect) {
      std::string words = std::to_string(exactWords);
      return clearing(kernel, "1", words, fmt::format("(* 2 {})", product(0, gradient.rank)),
                      gradient.viewName(), {0, 0});
    }
    int64_t last = gradient.rank - 1;
    return clearing(kernel, product(0, last - 1), extent(last - 1), extent(last), tensorName(),
                    {std::max<int64_t>(last - 2, 0), last - 1});
  }

  Launch rounding(tile::KernelOp kernel) const {
    Launch launch = launchOf(kernel, {"1", "1", "1", product(0, gradient.rank), "1"});
    using Kind = ArgumentSlot::Kind;
    int lastAxis = int(gradient.rank), halves = lastAxis + 1; // axes of the workspace
    for (ArgumentSlot &slot : launch.slots) {
      if (slot.name == "gradient")
        slot.name = tensorName();
      if (slot.name != "$sums")
        continue;
      slot.name = gradient.viewName();
      if (slot.kind == Kind::data || slot.axis == 0)
        continue;
      // All elements form one axis, which is the launch's Sq.
      bool isOfElements = slot.axis == 1;
      slot.axis = isOfElements ? lastAxis : halves;
      if (isOfElements && slot.kind == Kind::extent)
        slot = {Kind::extent, "", int(KernelSignature::extent("Sq"))};
    }
    return launch;
  }

private:
  static Launch launchOf(tile::KernelOp kernel, const std::vector<std::string> &extents) {
    Launch launch;
    launch.kernel = kernel.getSymName().str();
    launch.items = workItems(kernel);
    for (const std::string &extent : extents)
      launch.extents.push_back(expression(extent));
    launch.threads = int(32 * kernel.getScheduleAttr()->warps);
    launch.slots = KernelSignature(kernel).slots();
    return launch;
  }

  /// Clears `planes` times `rows` rows of `length` elements of `name`. `axes` are the axes whose
  /// strides the planes and the rows have.
  static Launch clearing(tile::KernelOp kernel, const std::string &planes, const std::string &rows,
                         const std::string &length, const std::string &name,
                         std::pair<int64_t, int64_t> axes) {
    Launch launch =
        launchOf(kernel, {planes, rows, rows, fmt::format("(ceildiv {} 64)", length), length});
    for (ArgumentSlot &slot : launch.slots)
      if (slot.name == "x") {
        slot.name = name;
        if (slot.kind == ArgumentSlot::Kind::stride)
          slot.axis = int(slot.axis == 0 ? axes.first : axes.second);
      }
    return launch;
  }

  std::string extent(int64_t axis) const {
    return gradient.isCapture ? fmt::format("${}.{}", gradient.name, axis) : "1";
  }
  /// The product of the extents of axes [first, end), in the form of Expression.
  std::string product(int64_t first, int64_t end) const {
    std::string text = "1";
    for (int64_t axis = first; axis < end; ++axis)
      text = axis == first ? extent(axis) : fmt::format("(* {} {})", text, extent(axis));
    return text;
  }

  const ParameterGradient &gradient;
  ElementType type;
};

} // namespace

FailureOr<GradientSums> addGradientSums(ArrayRef<ParameterGradient> gradients,
                                        ArrayRef<Parameter> parameters, ModuleOp module,
                                        ModuleOp source) {
  auto clear = source.lookupSymbol<tile::KernelOp>("clear_elements"),
       round = source.lookupSymbol<tile::KernelOp>("round_sums");
  if (!clear || !round)
    return source.emitError() << "there must be the kernels clear_elements and round_sums";
  for (tile::KernelOp kernel : {clear, round})
    kernel->setAttr("schedule", parseAttribute(scheduleText, source.getContext()));
  PassManager passes(source.getContext());
  passes.addPass(createTileBind());
  if (failed(passes.run(source)))
    return failure();
  for (tile::KernelOp kernel : {clear, round}) {
    kernel->remove();
    module.push_back(kernel);
  }
  GradientSums sums;
  for (const ParameterGradient &gradient : gradients) {
    if (gradient.isOwned) {
      auto parameter = llvm::find_if(
          parameters, [&](const Parameter &each) { return each.name == gradient.name; });
      sums.tensors.push_back(Sums(gradient, parameter->type).tensor());
      continue;
    }
    Sums of(gradient);
    sums.tensors.push_back(of.tensor());
    sums.before.push_back(of.clearing(clear));
    if (gradient.isDirect)
      continue;
    sums.workspaces.push_back(of.workspace());
    sums.behind.push_back(of.rounding(round));
  }
  return sums;
}

void nameGradients(Launch &launch, ArrayRef<ParameterGradient> gradients) {
  for (ArgumentSlot &slot : launch.slots)
    for (const ParameterGradient &gradient : gradients)
      if (gradient.isDirect && slot.name == gradient.viewName())
        slot.name = Sums(gradient).tensorName();
}

} // namespace tesela
