//===- FakeCompiler.cpp ---------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FakeCompiler.h"

#include "../AttentionTensors.h"

#include "frontend/Parser.h"
#include "tesela/compiler/ScheduleCandidates.h"
#include "tesela/compiler/SimpleSchedule.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string_view>
#include <thread>

namespace tesela {

namespace fake {

static std::mutex candidatesMutex;
static std::vector<std::string> candidates;

void setCandidates(std::vector<std::string> schedules) {
  std::lock_guard lock(candidatesMutex);
  candidates = std::move(schedules);
}

static std::string simpleSchedule; ///< guarded by candidatesMutex

void setSimpleSchedule(const std::string &schedule) {
  std::lock_guard lock(candidatesMutex);
  simpleSchedule = schedule;
}

static std::atomic<Heuristic> heuristic = Heuristic::compiles;

void setHeuristic(Heuristic chosen) { heuristic = chosen; }

static std::atomic<bool> heuristicNeedsMore = false;

void setHeuristicNeedsMore(bool needsMore) { heuristicNeedsMore = needsMore; }

static std::atomic<int> compileMilliseconds = 0;

void setCompileMilliseconds(int milliseconds) { compileMilliseconds = milliseconds; }

static std::atomic<int> compilesBegun = 0;

int compilesBegunSoFar() { return compilesBegun; }

static std::atomic<CodeFormat> cudaFormat = CodeFormat::ptx;

void setCudaFormat(CodeFormat format) { cudaFormat = format; }

/// PTX entries that take the launches' parameters and return.
static std::string ptxOf(const Artifact &artifact) {
  using Kind = ArgumentSlot::Kind;
  std::string text = ".version 8.0\n.target " + artifact.target.name() + "\n.address_size 64\n";
  for (const Launch &launch : artifact.launches) {
    text += ".visible .entry " + launch.kernel + "(";
    for (size_t i = 0; i < launch.slots.size(); ++i) {
      Kind kind = launch.slots[i].kind;
      bool isWide = kind == Kind::data || kind == Kind::stride || kind == Kind::counter;
      std::string name = "p" + std::to_string(i);
      text += (i ? ",\n  .param " : "\n  .param ") + (kind == Kind::tensorMap
                                                          ? ".align 64 .b8 " + name + "[128]"
                                                          : (isWide ? ".u64 " : ".u32 ") + name);
    }
    text += ") {\n  ret;\n}\n";
  }
  return text;
}

/// Changes `artifact` as `schedule` says.
static Status apply(const std::string &schedule, Artifact &artifact) {
  constexpr std::string_view repeated = "launches = ";
  if (schedule == "broken")
    return Error(Code::invalidArgument, "schedule: it is broken");
  if (schedule == "wrong")
    artifact.launches[0].items = *Expression::parse("(* 0 B)");
  constexpr std::string_view named = "named ";
  if (schedule.starts_with(named) && artifact.target.kind == Target::Kind::cuda) {
    artifact.launches.back().kernel = schedule.substr(named.size());
    artifact.code = ptxOf(artifact);
  }
  if (schedule.starts_with(repeated))
    artifact.launches.resize(size_t(std::stoi(schedule.substr(repeated.size()))),
                             artifact.launches[0]);
  if (!schedule.empty())
    artifact.schedule = schedule;
  return Status::success();
}

/// Adds a GPU's launches to `artifact`, which has the host's launch.
static void addCudaLaunches(Artifact &artifact) {
  using Kind = ArgumentSlot::Kind;
  Launch summary;
  summary.kernel = "summary0_slope";
  summary.items = *Expression::parse("(* (ceildiv Sq 64) (* B H))");
  for (const char *extent : {"1", "1", "1", "(ceildiv $slope.0 16)", "1"})
    summary.extents.push_back(*Expression::parse(extent));
  summary.summarizes = "$slope";
  summary.threads = 128;
  summary.slots = {{Kind::data, "$slope", 0},
                   {Kind::extent, "$slope", 0},
                   {Kind::stride, "$slope", 0},
                   {Kind::data, "$slope.summary0", 0}};
  artifact.workspaces = {
      {"$slope.summary0", {*Expression::parse("2"), *Expression::parse("(ceildiv $slope.0 16)")}}};
  Launch &main = artifact.launches[0];
  main.persistent = true;
  main.dependent = true;
  main.threads = 384;
  main.sharedBytes = 1024;
  for (const char *tensor : {"q", "k", "v", "o"})
    main.slots.push_back({Kind::tensorMap, tensor, 64});
  main.slots.push_back({Kind::coordinateStep, "k", 1});
  main.slots.push_back({Kind::counter, "", 0});
  main.slots.push_back({Kind::data, "$slope.summary0", 0});
  artifact.launches.insert(artifact.launches.begin(), summary);
  artifact.format = cudaFormat;
  artifact.code = ptxOf(artifact);
}

Artifact artifact(const KernelSpecification &specification) {
  Artifact artifact;
  artifact.variantName = "sliding_alibi";
  artifact.target = specification.target;
  artifact.inputType = specification.inputType;
  artifact.headDimQk = specification.headDimQk;
  artifact.headDimV = specification.headDimV;
  artifact.schedule = "rows = 1";
  artifact.tensors = test::attentionTensors(specification.inputType, specification.headDimQk,
                                            specification.headDimV);
  artifact.parameters = {{"window", ElementType::i32, false, false, {}, 1024.0},
                         {"slope", ElementType::f32, true, false, {{1, "H", 0}}, std::nullopt}};
  std::ifstream file(TESELA_TEST_HOST_OBJECT, std::ios::binary);
  artifact.code.assign(std::istreambuf_iterator<char>(file), {});

  using Kind = ArgumentSlot::Kind;
  Launch launch;
  launch.kernel = "fake_sliding_alibi";
  launch.items = *Expression::parse("(* B (* H Sq))");
  launch.workspaceBytes = int64_t(specification.headDimV) * 4;
  for (const char *tensor : {"q", "k", "v", "o", "lse"})
    launch.slots.push_back({Kind::data, tensor, 0});
  for (int extent : {1, 2, 3, 4}) // H Hkv Sq Sk
    launch.slots.push_back({Kind::extent, "", extent});
  launch.slots.push_back({Kind::extent, "q", 3});
  launch.slots.push_back({Kind::extent, "v", 3});
  launch.slots.push_back({Kind::scale, "", 0});
  launch.slots.push_back({Kind::scalar, "$window", 0});
  launch.slots.push_back({Kind::data, "$slope", 0});
  launch.slots.push_back({Kind::stride, "$slope", 0});
  for (const char *tensor : {"q", "k", "v", "o"})
    for (int axis : {0, 1, 2})
      launch.slots.push_back({Kind::stride, tensor, axis});
  artifact.launches = {launch};
  if (artifact.target.kind == Target::Kind::cuda)
    addCudaLaunches(artifact);
  return artifact;
}

} // namespace fake

std::string compilerVersion(Target::Kind) { return "fake"; }

void setTemplateFolder(const std::string &) {}

struct CompileAttempts::State {
  KernelSpecification specification;
  bool hasMore = true;
};

CompileAttempts::CompileAttempts(const KernelSpecification &specification)
    : state(new State{specification}) {}
CompileAttempts::~CompileAttempts() = default;

bool CompileAttempts::hasMore() const { return state->hasMore; }

Result<Artifact> CompileAttempts::next(CompileTimes *times, const RequestLimits &limits) {
  state->hasMore = false;
  return compile(state->specification, times, limits);
}

Result<Artifact> compile(const KernelSpecification &specification, CompileTimes *times,
                         const RequestLimits &limits) {
  Result<Variant> variant = parseVariant(specification.variantText, specification.variantFile);
  if (!variant)
    return variant.error();
  fake::compilesBegun.fetch_add(1);
  auto end = std::chrono::steady_clock::now() +
             std::chrono::milliseconds(fake::compileMilliseconds.load());
  do { // in steps of a millisecond
    if (Status status = limits.check(); !status)
      return status.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(fake::compileMilliseconds ? 1 : 0));
  } while (std::chrono::steady_clock::now() < end);
  bool isHeuristic = specification.schedule.empty();
  for (; isHeuristic && fake::heuristic == fake::Heuristic::waits;
       std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (Status status = limits.check(); !status)
      return status.error();
  if (isHeuristic && fake::heuristic == fake::Heuristic::fails)
    return Error(Code::unsupported, "the heuristic's schedule does not compile");
  if (times)
    times->stages.emplace_back("fake", double(fake::compileMilliseconds));
  Artifact artifact = fake::artifact(specification);
  if (isHeuristic && fake::heuristicNeedsMore)
    artifact.workspaces.push_back({"more", {*Expression::parse("256")}});
  if (Status status = fake::apply(specification.schedule, artifact); !status)
    return status.error();
  return artifact;
}

Result<std::vector<ScheduleCandidate>> scheduleCandidates(const CandidateRequest &) {
  std::lock_guard lock(fake::candidatesMutex);
  std::vector<ScheduleCandidate> candidates;
  for (const std::string &schedule : fake::candidates)
    candidates.push_back({schedule, double(candidates.size() + 1), candidates.empty()});
  return candidates;
}

std::string simpleSchedule(const KernelSpecification &specification) {
  std::lock_guard lock(fake::candidatesMutex);
  return specification.target.kind == Target::Kind::cuda ? fake::simpleSchedule : "";
}

struct SharedKeys; // from schedule/Workers.h, which needs LLVM's headers
int64_t workersFor(const KernelSpecification &, const SharedKeys &) { return 132; }

Result<std::string> emit(const KernelSpecification &specification, Stage stage) {
  return "stage " + std::to_string(int(stage)) + " for " + specification.target.name();
}

} // namespace tesela
