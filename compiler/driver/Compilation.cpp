//===- Compilation.cpp - The pipeline, in its order -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The pipeline: the methods of Compilation, in the order in which they run.
//
//===----------------------------------------------------------------------===//
#include "driver/Compilation.h"

#include "attn/Attn.h"
#include "driver/TemplateBindings.h"
#include "driver/Templates.h"
#include "driver/TraitsOf.h"
#include "frontend/Constants.h"
#include "frontend/Dropout.h"
#include "frontend/emit/Emit.h"
#include "schedule/Workers.h"
#include "targets/nvvm/FragmentOrder.h"
#include "targets/nvvm/NVVMTarget.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/Residents.h"
#include "targets/nvvm/WordWidener.h"
#include "tile/OwnedTiles.h"
#include "tile/SharedPrefix.h"
#include "transforms/CaptureSummary.h"
#include "transforms/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace tesela {

static bool hasProducts(tile::KernelOp kernel) {
  return kernel.walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// A kernel that owns its tiles loops over batches, so it also loads queries and dO in each step.
/// With wider heads, two stages of all four tensors do not fit.
static bool mayOwnTiles(const KernelSpecification &specification,
                        ArrayRef<ParameterGradient> gradients) {
  constexpr int widest = 128;
  return std::max(specification.headDimQk, specification.headDimV) <= widest &&
         llvm::any_of(gradients, [](auto &each) { return each.coversAll; });
}

/// The error of a failed stage: an invalid argument if the user's own template failed, else a bug.
Error Compilation::failure(const char *stage) {
  if (!templateFile.empty())
    return Error(
        Code::invalidArgument,
        fmt::format(
            "the template {} cannot be compiled: stage '{}' failed with: {}; correct the template, "
            "or use the built-in one",
            templateFile, stage, messages));
  if (!specification.isAttention())
    return Error(
        Code::invalidArgument,
        fmt::format("the template '{}' cannot be compiled for {}: stage '{}' failed with: {}; bind "
                    "other values, or choose another schedule",
                    specification.algorithm, specification.target.name(), stage, messages));
  return Error(Code::defect, fmt::format("{}: the compiler failed in stage '{}': {}; this is a "
                                         "defect of Tesela, please report it with the variant",
                                         specification.variantFile, stage, messages));
}

Status Compilation::run(llvm::function_ref<void(OpPassManager &)> addPasses, const char *stage,
                        Verify verify) {
  PassManager passes(&context);
#ifdef NDEBUG
  // Verifying after each pass takes longer than the passes (docs/log/2026-11-27-compile-time.md).
  passes.enableVerifier(verify == Verify::always);
#endif
  addPasses(passes);
  if (failed(passes.run(*module)))
    return failure(stage);
  note(stage);
  return Status::success();
}

Status Compilation::choose() {
  // Schedules with roles and schedules of the host depend on the form of the mask's tiles.
  bool asksForTiles = specification.isAttention();
  asksForTiles &= specification.target.kind == Target::Kind::host || chip.acceleratedPtx != 0;
  Result<VariantTraits> found = traitsOf(variant, asksForTiles, context);
  if (!found)
    return found.error();
  traits = *found;
  if (specification.sharesPrefix()) // each kernel masks the other's keys, and reads positions
    traits.isMasked = traits.hasCaptures = true;
  Result<Schedule> chosen = chooseSchedule(specification, traits);
  if (!chosen)
    return chosen.error();
  schedule = *chosen;
  chip.accelerated = schedule.consumers > 0;
  return Status::success();
}

Status Compilation::parse() {
  bool isNone = hasNoVariant();
  Result<Variant> parsed = parseVariant(isNone ? "attention none() {}" : specification.variantText,
                                        specification.variantFile, specification.constants);
  if (!parsed)
    return parsed.error();
  variant = std::move(*parsed);
  // Behind a cache, queries are at positions among the keys. So a captured tensor with an element
  // for each position of a query has one for each key.
  if (placesOf(specification).positions != "begin")
    for (Parameter &parameter : variant.parameters)
      for (CaptureExtent &extent : parameter.extents)
        if (extent.name == "Sq")
          extent.name = "Sk";
  module = emitVariant(variant, context);
  if (isNone) // not earlier: a kernel of the template may have this name
    variant.name = specification.algorithm;
  note("parse");
  return Status::success();
}

Status Compilation::bind() {
  context.loadDialect<tile::TileDialect, math::MathDialect, scf::SCFDialect>();
  Result<Template> source = findTemplate(specification.algorithm);
  if (!source)
    return source.error();
  templateFile = source->file;
  OwningOpRef<ModuleOp> templates =
      parseSourceString<ModuleOp>(source->text, &context, specification.algorithm + ".mlir");
  if (templates && templates->getOps<tile::KernelOp>().empty())
    templates->emitError() << "there must be a tile.kernel";
  if (!messages.empty())
    return failure("template");
  Schedule ofOthers = schedule.withoutRoles();
  // On a GPU this field is for products. In other kernels each warp has whole rows.
  if (schedule.productRows > 0 && specification.target.kind != Target::Kind::host) {
    ofOthers.productRows = 0;
    ofOthers.warps = std::gcd(schedule.warps, schedule.blockM / 16);
  }
  if (specification.isInParts())
    ofOthers.warps = joiningWarps(schedule, specification);
  auto scheduled = tile::ScheduleAttr::get(&context, schedule),
       withoutRoles = tile::ScheduleAttr::get(&context, ofOthers);
  for (auto kernel : llvm::make_early_inc_range(templates->getOps<tile::KernelOp>())) {
    kernel->remove();
    kernel.setScheduleAttr(hasProducts(kernel) ? scheduled : withoutRoles);
    if (schedule.consumers > 0)
      kernel->setAttr(nvvm::sumsByLaneAttr, UnitAttr::get(&context));
    module->push_back(kernel);
  }
  if (specification.sharesPrefix())
    if (Status status = addJoinKernel(); !status)
      return status;
  kernelCount = llvm::range_size(module->getOps<tile::KernelOp>());
  note("template");

  if (Status status = checkHooks(); !status)
    return status;
  if (Status status = checkDropout(); !status)
    return status;
  if (Status status = findGradients(); !status)
    return status;
  Result<std::vector<std::string>> bindings = templateBindings(specification, kernels(), gradients);
  if (!bindings)
    return bindings.error();
  TileBindOptions options;
  options.bindings.assign(bindings->begin(), bindings->end());
  // Verify always: a template can be checked fully only when extents are known, and passes rely on
  // it.
  auto addPasses = [&](OpPassManager &passes) {
    passes.addPass(createTileBind(options));
    passes.addPass(createTileSplitOutputs());
    passes.addPass(createTileAddInTurn());
  };
  if (Status status = run(addPasses, "bind", Verify::always); !status)
    return status;
  if (Status status = placeViews(); !status)
    return status;
  kernelCount = llvm::range_size(module->getOps<tile::KernelOp>());
  if (Status status = checkProducts(); !status)
    return status;
  Result<Interface> declared = interfaceOf(kernels(), variant.parameters);
  if (!declared) {
    messages = declared.error().message();
    return failure("interface");
  }
  interface = std::move(*declared);
  if (specification.dropout)
    for (Parameter &parameter : dropoutParameters())
      interface.parameters.push_back(std::move(parameter));
  TileInlineVariantOptions inlining;
  for (const ParameterGradient &gradient : gradients)
    inlining.gradients.push_back(gradient.name);
  return run(
      [&](OpPassManager &passes) {
        passes.addPass(createTileInlineVariant(inlining));
        passes.nest<tile::KernelOp>().addPass(createTileLowerDropout({specification.dropout}));
        passes.nest<tile::KernelOp>().addPass(createTileKeyRanges());
        passes.nest<tile::KernelOp>().addPass(createTileOrderItems());
        if (mayOwnTiles(specification, gradients))
          passes.nest<tile::KernelOp>().addPass(createTileOwnTiles(
              {llvm::any_of(gradients, [](auto &each) { return each.sumsBatches; }),
               llvm::any_of(gradients, [](auto &each) { return each.sumsHeads; })}));
      },
      "variant");
}

/// The caller chooses where queries and keys lie, so errors of this step are the caller's.
Status Compilation::placeViews() {
  Places place = placesOf(specification);
  Status status = run(
      [&](OpPassManager &passes) {
        if (specification.sharesPrefix())
          passes.addPass(createTileSharePrefix());
        if (hasValuesOfKeys(specification))
          passes.nest<tile::KernelOp>().addPass(createTileValuesOfKeys());
        passes.nest<tile::KernelOp>().addPass(
            createTilePlaceViews({place.queries, place.keys, place.page, place.positions}));
        if (specification.hasNarrowKeys())
          passes.nest<tile::KernelOp>().addPass(createTileNarrowKeys({place.scales}));
      },
      "place", Verify::always);
  if (!status && specification.isPlaced())
    return Error(Code::invalidArgument,
                 fmt::format("the bindings of the template '{}' do not fit: {}",
                             specification.algorithm, messages));
  return status;
}

/// Adds a kernel for each summary that the kernels read.
Status Compilation::addSummaryKernels() {
  for (tile::KernelOp kernel : kernels())
    if (Status status = checkParameterBytes(signatures.emplace_back(kernel)); !status)
      return status;
  if (!needSummaries(kernels()))
    return Status::success();
  Result<OwningOpRef<ModuleOp>> parsed = parseTemplate("summary");
  if (!parsed)
    return parsed.error();
  if (!llvm::hasSingleElement((*parsed)->getOps<tile::KernelOp>())) {
    (*parsed)->emitError() << "there must be one tile.kernel";
    return failure("summary");
  }
  FailureOr<SummaryPlan> plan = addSummaries(kernels(), **parsed);
  if (failed(plan))
    return failure("summary");
  summaries = std::move(*plan);
  return Status::success();
}

/// Adds the kernel that joins the results for a shared prefix and for each query's own keys.
Status Compilation::addJoinKernel() {
  Result<OwningOpRef<ModuleOp>> parsed = parseTemplate("join_prefix");
  if (!parsed)
    return parsed.error();
  for (auto kernel : llvm::make_early_inc_range((*parsed)->getOps<tile::KernelOp>())) {
    kernel->remove();
    kernel.setScheduleAttr(tile::ScheduleAttr::get(&context, schedule.withoutRoles()));
    kernel->setAttr(tile::prefixPartAttr, StringAttr::get(&context, "join"));
    module->push_back(kernel);
  }
  return Status::success();
}

/// Parses a second template that the specification's template needs.
Result<OwningOpRef<ModuleOp>> Compilation::parseTemplate(const std::string &name) {
  Result<Template> source = findTemplate(name);
  if (!source)
    return source.error();
  if (!source->file.empty())
    templateFile = source->file;
  OwningOpRef<ModuleOp> parsed =
      parseSourceString<ModuleOp>(source->text, &context, name + ".mlir");
  if (!parsed)
    return failure(name.c_str());
  return parsed;
}

/// Finds the gradients of parameters that the kernels sum.
Status Compilation::findGradients() {
  if (!sumsGradients(kernels()))
    return Status::success();
  Result<std::vector<ParameterGradient>> asked =
      askedGradients(specification, *module->getOps<attn::VariantOp>().begin(), variant.parameters);
  if (!asked)
    return asked.error();
  gradients = std::move(*asked);
  return Status::success();
}

/// Adds the kernels that clear and round the sums of gradients.
Status Compilation::addGradientKernels() {
  if (gradients.empty())
    return Status::success();
  Result<OwningOpRef<ModuleOp>> parsed = parseTemplate("exact_sums");
  if (!parsed)
    return parsed.error();
  for (tile::KernelOp kernel : kernels())
    for (ParameterGradient &gradient : gradients)
      if (kernel->hasAttr(tile::ownsTilesAttr) && kernel.getArgument(gradient.viewName()))
        gradient.isOwned = true;
  FailureOr<GradientSums> sums = addGradientSums(gradients, variant.parameters, *module, **parsed);
  if (failed(sums))
    return failure("gradients");
  gradientSums = std::move(*sums);
  return Status::success();
}

Status Compilation::lowerCore() {
  Status status = run(
      [](OpPassManager &passes) {
        OpPassManager &kernels = passes.nest<tile::KernelOp>();
        kernels.addPass(createTileLowerScores());
        kernels.addPass(createTileLowerMasks());
        kernels.addPass(createTileLowerBlocks());
        kernels.addPass(createTileLowerBounds());
        kernels.addPass(createTileSequenceExtents());
      },
      "tile");
  if (status.ok())
    status = addSummaryKernels();
  if (status.ok())
    status = addGradientKernels();
  if (!status)
    return status;
  return run(
      [](OpPassManager &passes) {
        OpPassManager &kernels = passes.nest<tile::KernelOp>();
        kernels.addPass(createTileDecompose());
        kernels.addPass(createTileJoinLoops());
        kernels.addPass(createCSEPass());
      },
      "core");
}

Status Compilation::lowerPipe() {
  if (Status status = checkLowerable(); !status)
    return status;
  markOrderOfLaunches();
  markConversions();
  markResidents();
  Status status = run(
      [](OpPassManager &passes) {
        passes.nest<tile::KernelOp>().addPass(createTileSplitReads());
        addPipePasses(passes);
      },
      "pipe");
  if (!status)
    return status;
  for (auto each : module->getOps<tile::KernelOp>())
    sharedBytes[each.getSymName().str()] =
        each->getAttrOfType<IntegerAttr>(sharedBytesAttr).getInt();
  if (Status status = checkSharedBytes(); !status)
    return status;
  return checkOverlap();
}

Status Compilation::lowerNVVM() {
  if (Status status = run(addNVVMPasses, "nvvm"); !status)
    return status;
  llvmModule = nvvmModule(*module, chip, llvmContext);
  if (!llvmModule)
    return failure("llvm");
  note("llvm");
  return Status::success();
}

Result<std::string> Compilation::ptx() {
  Result<std::string> text = ptxOf(*llvmModule, chip);
  note("ptx");
  return text;
}

Result<HostObject> Compilation::hostCode() {
  Result<HostObject> object = hostObject(*module);
  note("object");
  return object;
}

std::string Compilation::moduleText() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  stream << '\n';
  return text;
}

Artifact Compilation::makeArtifact() {
  Artifact artifact;
  artifact.variantName = variant.name; // without a variant: the algorithm's name
  artifact.target = specification.target;
  artifact.inputType = specification.inputType;
  artifact.headDimQk = specification.headDimQk;
  artifact.headDimV = specification.headDimV;
  artifact.schedule = schedule.text();
  artifact.scoreIsIdentity = variant.scoreIsIdentity();
  artifact.tensors = interface.tensors;
  artifact.parameters = interface.parameters;
  artifact.workspaces = summaries.workspaces;
  artifact.workspaces.insert(artifact.workspaces.end(), interface.workspaces.begin(),
                             interface.workspaces.end());
  for (const TensorArgument &tensor : gradientSums.tensors)
    artifact.tensors.push_back(tensor);
  for (const Workspace &workspace : gradientSums.workspaces)
    artifact.workspaces.push_back(workspace);
  artifact.launches = summaries.launches;
  for (const Launch &launch : gradientSums.before)
    artifact.launches.push_back(launch);
  for (auto [kernel, signature] : llvm::zip(kernels(), signatures)) {
    Schedule own = kernel.getScheduleAttr().getChoices();
    artifact.launches.push_back({.kernel = kernel.getSymName().str(),
                                 .items = workItems(kernel),
                                 .extents = {},
                                 .summarizes = "",
                                 .persistent = own.persistent,
                                 .dependent = false,
                                 .threads = int(own.threads()),
                                 .sharedBytes = 0,
                                 .workspaceBytes = 0,
                                 .slots = signature.slots()});
    if (tile::isOfTokens(kernel))
      for (const char *extent : tokenExtents)
        artifact.launches.back().extents.push_back(Expression::parse(extent).value());
    nameGradients(artifact.launches.back(), gradients);
    bool isOfPairs = !gradients.empty() && hasProducts(kernel);
    if (isOfPairs && llvm::none_of(gradients, [](auto &each) { return each.isInScore; }))
      artifact.launches.back().items = Expression::parse("0").value();
  }
  for (const Launch &launch : gradientSums.behind)
    artifact.launches.push_back(launch);
  for (Launch &launch : llvm::drop_begin(artifact.launches))
    launch.dependent = !isHost() && chip.overlapsLaunches();
  return artifact;
}

/// Marks kernels for pipe-overlap-launches. A kernel may have several launches.
void Compilation::markOrderOfLaunches() {
  Artifact plan = makeArtifact();
  auto mark = [&](const Launch &launch, StringRef attribute) {
    module->lookupSymbol(launch.kernel)->setAttr(attribute, UnitAttr::get(&context));
  };
  for (size_t i = 1; i < plan.launches.size(); ++i)
    if (plan.launches[i].dependent) {
      mark(plan.launches[i - 1], precedesLaunchAttr);
      mark(plan.launches[i], followsLaunchAttr);
    }
}

/// Marks kernels that may convert e4m3 with an instruction. sm_89 has it, too, but only from PTX
/// 8.1 on. Its row in ChipFacts.cpp has PTX 7.8, which drivers of CUDA 11.8 accept.
void Compilation::markConversions() {
  if (chip.sm >= 90)
    for (tile::KernelOp kernel : kernels())
      kernel->setAttr(nvvm::convertsAttr, UnitAttr::get(&context));
}

/// Sets the attribute that pipe-place-buffers reads.
void Compilation::markResidents() {
  int64_t residents = residentsOf(schedule, specification);
  if (residents == 0)
    return;
  int64_t bytes = chip.chipShared / residents - reservedShared;
  for (tile::KernelOp kernel : kernels())
    if (hasProducts(kernel))
      kernel->setAttr(leastSharedAttr,
                      Builder(&context).getI64IntegerAttr(std::min(bytes, chip.blockShared)));
}

Result<std::string> Compilation::emitStage(Stage stage) {
  if (Status status = checkSpecification(); !status)
    return status.error();
  if (Status status = parse(); !status)
    return status.error();
  if (stage == Stage::attn)
    return moduleText();
  if (Status status = choose(); !status)
    return status.error();
  if (Status status = bind(); !status)
    return status.error();
  if (stage == Stage::tile)
    return moduleText();
  if (Status status = lowerCore(); !status)
    return status.error();
  if (isHost()) {
    if (stage == Stage::llvm)
      return hostLLVMText(*module);
    if (stage == Stage::object) {
      Result<HostObject> object = hostCode();
      if (!object)
        return object.error();
      return object->object;
    }
    return Error(
        Code::unsupported,
        "the host target has the stages attn, tile, llvm and object; choose one of these, or "
        "a GPU target such as sm_90");
  }
  if (stage == Stage::object)
    return Error(Code::unsupported, "a GPU target has no object file: emit ptx or cubin");
  if (Status status = lowerPipe(); !status)
    return status.error();
  if (stage == Stage::pipe)
    return moduleText();
  if (Status status = lowerNVVM(); !status)
    return status.error();
  if (stage == Stage::llvm) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvmModule->print(stream, nullptr);
    return text;
  }
  return ptx();
}

} // namespace tesela
