//===- Compile.cpp - The compiler's one entry -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The pipeline as a table of contents: Compilation's methods, in their order.
//
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include "SourceDigest.h"
#include "attn/Attn.h"
#include "driver/Attempts.h"
#include "driver/ChosenKernel.h"
#include "driver/GradientSums.h"
#include "driver/Interface.h"
#include "driver/LargeStack.h"
#include "driver/Summaries.h"
#include "driver/TemplateBindings.h"
#include "driver/Templates.h"
#include "driver/TraitsOf.h"
#include "frontend/Constants.h"
#include "frontend/Dropout.h"
#include "frontend/emit/Emit.h"
#include "schedule/Schedule.h"
#include "targets/common/KernelSignature.h"
#include "targets/host/HostTarget.h"
#include "targets/nvvm/NVVMTarget.h"
#include "targets/nvvm/Passes.h"
#include "tile/SharedPrefix.h"
#include "transforms/CaptureSummary.h"
#include "transforms/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

using namespace mlir;

namespace tesela {
namespace {

/// One compilation: its context, its module, its diagnostics and its clock.
class Compilation {
public:
  Compilation(const Attempt &attempt, CompileTimes *times)
      : specification(attempt.specification), mustOverlap(attempt.mustOverlap), times(times),
        context(MLIRContext::Threading::DISABLED),
        diagnostics(&context, [this](mlir::Diagnostic &diagnostic) {
          llvm::raw_string_ostream(messages) << (messages.empty() ? "" : "; ") << diagnostic;
          return success();
        }) {}

  Status checkSpecification();
  Status checkHeadDims();
  Status parse();     ///< the variant's text → attn
  Status choose();    ///< the schedule
  Status bind();      ///< with the template → tile, bound and verified, the variant in its hooks
  Status lowerCore(); ///< → maps, reductions, loops: what targets lower
  Status lowerPipe(); ///< GPU: → pipe
  Status lowerNVVM(); ///< GPU: → LLVM IR
  Result<std::string> ptx();
  Result<HostObject> hostCode();

  ChosenKernel chosen() { return {std::move(variant), traits, schedule}; }
  /// Needs the signature; of the code's needs it knows what is lowered so far.
  Artifact makeArtifact();
  /// Dynamic shared memory of a kernel, by its symbol; after lowerPipe.
  int64_t sharedBytesOf(const std::string &symbol) { return sharedBytes.at(symbol); }
  Result<std::string> emitStage(Stage stage);

private:
  bool isHost() const { return specification.target.kind == Target::Kind::host; }
  enum class Verify { inDebugBuilds, always };
  Status run(llvm::function_ref<void(OpPassManager &)> addPasses, const char *stage,
             Verify verify = Verify::inDebugBuilds);
  Error failure(const char *stage);
  Status checkParameterBytes(const KernelSignature &signature);
  Status addSummaryKernels();
  Result<OwningOpRef<ModuleOp>> parseTemplate(const std::string &name);
  Status addJoinKernel();
  Status findGradients();
  Status addGradientKernels();
  Status checkHooks();
  Status checkDropout();
  Status placeViews();
  Status checkProducts();
  Status checkSharedBytes();
  Status checkOverlap();
  Status checkLowerable();
  void markOrderOfLaunches();
  std::string moduleText();
  /// The template's kernels; those of summaries come behind them.
  SmallVector<tile::KernelOp> kernels() {
    auto all = llvm::to_vector(module->getOps<tile::KernelOp>());
    all.truncate(kernelCount);
    return all;
  }

  /// Notes the time since the last note under `stage`.
  void note(const char *stage) {
    auto now = std::chrono::steady_clock::now();
    if (times)
      times->stages.push_back(
          {stage, std::chrono::duration<double, std::milli>(now - lastNote).count()});
    lastNote = now;
  }

  const KernelSpecification &specification;
  const bool mustOverlap;
  CompileTimes *times;
  std::chrono::steady_clock::time_point lastNote = std::chrono::steady_clock::now();
  MLIRContext context;
  std::string messages;
  std::string templateFile; ///< empty: the built-in one
  ScopedDiagnosticHandler diagnostics;
  Variant variant;
  VariantTraits traits;
  Schedule schedule;
  OwningOpRef<ModuleOp> module;
  size_t kernelCount = 0;                  ///< of the template
  std::vector<KernelSignature> signatures; ///< of its kernels
  Interface interface;
  SummaryPlan summaries;
  std::vector<ParameterGradient> gradients; ///< that the template's kernels sum
  GradientSums gradientSums;
  std::map<std::string, int64_t> sharedBytes;
  ChipFacts chip{};
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule;
};

static bool hasProducts(tile::KernelOp kernel) {
  return kernel.walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// What stopped a stage: a fault of the user's own template, else a defect.
Error Compilation::failure(const char *stage) {
  if (!templateFile.empty())
    return Error(Code::invalidArgument,
                 fmt::format("the template {} cannot be compiled, in stage '{}': {}; mend it, or "
                             "use the built-in one",
                             templateFile, stage, messages));
  if (!specification.isAttention())
    return Error(Code::invalidArgument,
                 fmt::format("the template '{}' cannot be compiled for {}, in stage '{}': {}; bind "
                             "other values, or choose another schedule",
                             specification.algorithm, specification.target.name(), stage,
                             messages));
  return Error(Code::defect, fmt::format("{}: the compiler failed in stage '{}': {}; this is a "
                                         "defect of Tesela, please report it with the variant",
                                         specification.variantFile, stage, messages));
}

Status Compilation::run(llvm::function_ref<void(OpPassManager &)> addPasses, const char *stage,
                        Verify verify) {
  PassManager passes(&context);
#ifdef NDEBUG
  // Behind each pass it costs more than the passes (docs/performance.md).
  passes.enableVerifier(verify == Verify::always);
#endif
  addPasses(passes);
  if (failed(passes.run(*module)))
    return failure(stage);
  note(stage);
  return Status::success();
}

Status Compilation::checkSpecification() {
  ElementType input = specification.inputType;
  if (input != ElementType::f32 && input != ElementType::f16 && input != ElementType::bf16)
    return Error(Code::unsupported,
                 fmt::format("inputs of type {} are not supported: q, k and v are f32, f16 or bf16",
                             elementTypeName(input)));
  if (!isHost() && input == ElementType::f32)
    return Error(Code::unsupported,
                 "f32 inputs are not supported on a GPU: convert them to bf16 or "
                 "f16, or compile for the host");
  if (!isHost()) {
    Result<ChipFacts> facts = chipFacts(specification.target.sm);
    if (!facts)
      return facts.error();
    chip = *facts;
  }
  return checkHeadDims();
}

/// Wider heads than `widestOfRows` are of forward attention alone.
Status Compilation::checkHeadDims() {
  constexpr int widestQk = 576, widestV = 512; // of multi-head latent attention
  bool isForward = specification.isAttention();
  for (auto [dim, widest] :
       {std::pair(specification.headDimQk, widestQk), std::pair(specification.headDimV, widestV)}) {
    int limit = isForward ? widest : int(widestOfRows);
    if (dim < 8 || dim % 8 != 0 || dim > limit)
      return Error(Code::unsupported,
                   fmt::format("a head dimension of {} is not supported: it is a multiple of 8 up "
                               "to {}; {}",
                               dim, limit,
                               dim > limit && limit == widestOfRows && dim <= widest
                                   ? "forward attention alone takes wider heads"
                                   : "pad the tensors with zeros to the next of these"));
  }
  if (!hasWideHeads(specification))
    return Status::success();
  const char *what = specification.dropout           ? "dropout is"
                     : specification.hasNarrowKeys() ? "keys and values of 8 bits are"
                                                     : nullptr;
  if (!what)
    return Status::success();
  return Error(Code::unsupported,
               fmt::format("{} not supported with head dimensions of {} and {}: these go up to {} "
                           "with it; leave it out, or take narrower heads",
                           what, specification.headDimQk, specification.headDimV, widestOfRows));
}

Status Compilation::choose() {
  // Roles and the host ask for the form of the mask's tiles.
  bool asksForTiles = specification.isAttention();
  asksForTiles &= specification.target.kind == Target::Kind::host || chip.acceleratedPtx != 0;
  Result<VariantTraits> found = traitsOf(variant, asksForTiles, context);
  if (!found)
    return found.error();
  traits = *found;
  if (specification.sharesPrefix()) // its kernels mask the other part, and read positions
    traits.isMasked = traits.hasCaptures = true;
  Result<Schedule> chosen = chooseSchedule(specification, traits);
  if (!chosen)
    return chosen.error();
  schedule = *chosen;
  chip.accelerated = schedule.consumers > 0;
  return Status::success();
}

/// Whether there is no variant: a template without its hooks needs none.
static bool hasNoVariant(const KernelSpecification &specification) {
  return !specification.isAttention() && llvm::StringRef(specification.variantText).trim().empty();
}

Status Compilation::parse() {
  bool isNone = hasNoVariant(specification);
  Result<Variant> parsed = parseVariant(isNone ? "attention none() {}" : specification.variantText,
                                        specification.variantFile, specification.constants);
  if (!parsed)
    return parsed.error();
  variant = std::move(*parsed);
  module = emitVariant(variant, context);
  if (isNone) // only now: its kernel may have that name
    variant.name = specification.algorithm;
  note("parse");
  return Status::success();
}

Status Compilation::checkHooks() {
  if (!hasNoVariant(specification))
    return Status::success();
  WalkResult found = module->walk([](Operation *op) {
    return isa<tile::ScoreOp, tile::MaskOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!found.wasInterrupted())
    return Status::success();
  return Error(
      Code::invalidArgument,
      fmt::format("the template '{}' asks a variant for its score or mask, and there is no "
                  "variant: write one, `attention name() {{}}` for neither",
                  specification.algorithm));
}

/// Not every template has a place for dropout.
Status Compilation::checkDropout() {
  auto isHook = [](tile::DropoutOp) { return WalkResult::interrupt(); };
  if (!specification.dropout || module->walk(isHook).wasInterrupted())
    return Status::success();
  return Error(Code::unsupported,
               fmt::format("the template '{}' has no dropout: leave it out, or take 'forward', "
                           "'backward', 'backward_fused' or 'backward_parameters'",
                           specification.algorithm));
}

/// What no other check tells of a template: a GPU's matrix instructions take 16 of the depth and of
/// the columns at a time, and no more than 256 columns (PTX ISA, 9.7.14, 9.7.15).
Status Compilation::checkProducts() {
  if (isHost())
    return Status::success();
  Status status = Status::success();
  module->walk([&](tile::DotOp dot) {
    auto a = cast<tile::TileType>(dot.getA().getType());
    auto result = cast<tile::TileType>(dot.getResult().getType());
    int64_t rows = result.getExtent(0), columns = result.getExtent(1);
    int64_t depth = a.getExtent(0) == rows ? a.getExtent(1) : a.getExtent(0);
    // Where warps share rows, each has a part of the columns.
    int64_t own = columns / std::max<int64_t>(1, 16 * schedule.warps / std::max<int64_t>(rows, 1));
    if (rows % 16 == 0 && columns % 16 == 0 && depth % 16 == 0 && own <= 256)
      return WalkResult::advance();
    status =
        Error(Code::invalidArgument,
              fmt::format("the template '{}' has a product of {} x {} by {} x {}: on a GPU "
                          "tile.dot takes extents that are multiples of 16, and 256 columns at "
                          "most; bind other extents, or compile for the host",
                          specification.algorithm, rows, depth, depth, columns));
    return WalkResult::interrupt();
  });
  return status;
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
  // Parts are joined by four warps, also where one multiplies: a row at a time, and each row waits.
  if (specification.isInParts())
    ofOthers.warps = std::max<int64_t>(ofOthers.warps, 4);
  auto scheduled = tile::ScheduleAttr::get(&context, schedule),
       withoutRoles = tile::ScheduleAttr::get(&context, ofOthers);
  for (auto kernel : llvm::make_early_inc_range(templates->getOps<tile::KernelOp>())) {
    kernel->remove();
    kernel.setScheduleAttr(hasProducts(kernel) ? scheduled : withoutRoles);
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
  // What a template says of its tiles can be judged once they have extents, and passes trust it.
  auto addPasses = [&](OpPassManager &passes) {
    passes.addPass(createTileBind(options));
    passes.addPass(createTileSplitOutputs());
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
      },
      "variant");
}

/// Where queries and keys lie is the caller's choice, and so are errors of it.
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

Status Compilation::checkParameterBytes(const KernelSignature &signature) {
  constexpr int64_t limit = 4096; // of a kernel, in CUDA's C++ Programming Guide
  int64_t bytes = 0;
  for (const ArgumentSlot &slot : signature.slots()) {
    using Kind = ArgumentSlot::Kind;
    bool wide = slot.kind == Kind::data || slot.kind == Kind::stride || slot.kind == Kind::counter;
    bool isMap = slot.kind == Kind::tensorMap;
    int64_t size = isMap ? 128 : wide ? 8 : 4;
    bytes = llvm::alignTo(bytes, isMap ? 64 : size) + size;
  }
  if (isHost() || bytes <= limit)
    return Status::success();
  return Error(
      Code::unsupported,
      fmt::format("{}: its parameters take {} bytes of a GPU kernel's arguments, which end "
                  "at {}: put scalars together in one captured tensor",
                  specification.variantFile, bytes, limit));
}

/// The summaries that kernels read by now are made by kernels of their own.
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

/// It joins what queries get of a shared prefix and of their own keys.
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

/// A template that goes with that of the specification.
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

/// Of the kernels that sum gradients of parameters.
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

/// They clear and round the sums of gradients.
Status Compilation::addGradientKernels() {
  if (gradients.empty())
    return Status::success();
  Result<OwningOpRef<ModuleOp>> parsed = parseTemplate("exact_sums");
  if (!parsed)
    return parsed.error();
  FailureOr<GradientSums> sums = addGradientSums(gradients, *module, **parsed);
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
        kernels.addPass(createCSEPass());
      },
      "core");
}

/// What the target lacks is no defect of the template or of the compiler.
Status Compilation::checkLowerable() {
  for (auto kernel : module->getOps<tile::KernelOp>())
    if (failed(verifyLowerable(kernel)))
      return Error(Code::unsupported,
                   fmt::format("the template '{}' does not run on {}: {}", specification.algorithm,
                               specification.target.name(), messages));
  return Status::success();
}

Status Compilation::lowerPipe() {
  if (Status status = checkLowerable(); !status)
    return status;
  markOrderOfLaunches();
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

/// Of an attempt that others follow.
Status Compilation::checkOverlap() {
  for (auto kernel : module->getOps<tile::KernelOp>())
    if (mustOverlap && kernel->hasAttr(productsWaitAttr))
      return Error(Code::unsupported,
                   fmt::format("schedule: a thread's registers do not hold the tiles of the "
                               "products of '{}' that could run beside each other; take a smaller "
                               "block_n, or split_outputs = true",
                               kernel.getSymName().str()));
  return Status::success();
}

/// Counted in the IR. What a schedule of attention is chosen by is never less (PtxTest).
Status Compilation::checkSharedBytes() {
  for (const auto &[symbol, bytes] : sharedBytes)
    if (bytes > chip.blockShared)
      return Error(Code::invalidArgument,
                   fmt::format("schedule: the kernel '{}' needs {} bytes of shared memory, sm_{} "
                               "gives a thread block {}; take a smaller block_m, block_n or fewer "
                               "stages",
                               symbol, bytes, chip.sm, chip.blockShared));
  return Status::success();
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
  artifact.variantName = variant.name; // without one: the algorithm's
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

/// For pipe-overlap-launches: a kernel may have several launches.
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

/// compile(), on the stack that there is.
Result<Artifact> compileHere(const Attempt &attempt, CompileTimes *times,
                             const RequestLimits &limits) {
  Compilation compilation(attempt, times);
  auto runSteps = [&](std::initializer_list<Status (Compilation::*)()> steps) {
    for (auto step : steps) {
      if (Status status = limits.check(); !status)
        return status;
      if (Status status = (compilation.*step)(); !status)
        return status;
    }
    return limits.check();
  };
  if (Status status = runSteps({&Compilation::checkSpecification, &Compilation::parse,
                                &Compilation::choose, &Compilation::bind, &Compilation::lowerCore});
      !status)
    return status.error();
  Artifact artifact = compilation.makeArtifact();

  if (attempt.specification.target.kind == Target::Kind::host) {
    Result<HostObject> object = compilation.hostCode();
    if (!object)
      return object.error();
    artifact.format = CodeFormat::hostObject;
    artifact.code = std::move(object->object);
    for (Launch &launch : artifact.launches) {
      launch.threads = 0;
      launch.workspaceBytes = object->workspaceBytes;
    }
    return artifact;
  }

  if (Status status = runSteps({&Compilation::lowerPipe, &Compilation::lowerNVVM}); !status)
    return status.error();
  Result<std::string> ptx = compilation.ptx();
  if (!ptx)
    return ptx.error();
  artifact.format = CodeFormat::ptx;
  artifact.code = std::move(*ptx);
  for (Launch &launch : artifact.launches)
    launch.sharedBytes = compilation.sharedBytesOf(launch.kernel);
  return artifact;
}

/// The attempt that is taken. Where there are several, that is known when they are lowered.
Result<Attempt> taken(const std::vector<Attempt> &attempts) {
  if (attempts.size() == 1)
    return attempts.front();
  return firstToLower<Attempt>(attempts, [](const Attempt &each) -> Result<Attempt> {
    Compilation compilation(each, nullptr);
    for (auto step : {&Compilation::checkSpecification, &Compilation::parse, &Compilation::choose,
                      &Compilation::bind, &Compilation::lowerCore, &Compilation::lowerPipe,
                      &Compilation::lowerNVVM})
      if (Status status = (compilation.*step)(); !status)
        return status.error();
    return each;
  });
}

} // namespace

struct CompileAttempts::State {
  std::vector<Attempt> attempts;
  size_t next = 0;
};

CompileAttempts::CompileAttempts(const KernelSpecification &specification)
    : state(new State{attemptsFor(specification)}) {}
CompileAttempts::~CompileAttempts() = default;

bool CompileAttempts::hasMore() const { return state->next < state->attempts.size(); }

Result<Artifact> CompileAttempts::next(CompileTimes *times, const RequestLimits &limits) {
  llvm::ArrayRef<Attempt> rest = llvm::ArrayRef(state->attempts).drop_front(state->next);
  return onLargeStack([&] {
    return firstToLower<Artifact>(rest, [&](const Attempt &each) {
      ++state->next;
      return compileHere(each, times, limits);
    });
  });
}

Result<Artifact> compile(const KernelSpecification &specification, CompileTimes *times,
                         const RequestLimits &limits) {
  return CompileAttempts(specification).next(times, limits);
}

Result<ChosenKernel> chooseKernel(const KernelSpecification &specification) {
  Result<Attempt> best = taken(attemptsFor(specification));
  if (!best)
    return best.error();
  Compilation compilation(*best, nullptr);
  for (auto step : {&Compilation::checkSpecification, &Compilation::parse, &Compilation::choose})
    if (Status status = (compilation.*step)(); !status)
      return status.error();
  return compilation.chosen();
}

Result<std::string> emit(const KernelSpecification &specification, Stage stage) {
  return onLargeStack([&] {
    Result<Attempt> best = taken(attemptsFor(specification));
    return best ? Compilation(*best, nullptr).emitStage(stage) : best.error();
  });
}

// TESELA_SOURCE_DIGEST is a hash of the compiler's sources, so that no cache outlives a change.
std::string compilerVersion(Target::Kind kind) {
#ifdef NDEBUG
  constexpr const char *build = "release";
#else
  constexpr const char *build = "debug"; // its kernels trap where a wait hangs
#endif
  std::string version = fmt::format("tesela {} {} {}, LLVM {}", TESELA_VERSION, build,
                                    TESELA_SOURCE_DIGEST, LLVM_VERSION_STRING);
  return kind == Target::Kind::host ? version + ", " + hostCpuIdentity() : version;
}

} // namespace tesela
