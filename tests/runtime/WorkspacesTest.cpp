//===- WorkspacesTest.cpp - Memory that launches share --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Which launches share a workspace, when it grows, what is kept in it, and which values slots get.
// The backend and the code only count.
//
//===----------------------------------------------------------------------===//
#include "launch/Workspaces.h"
#include "launch/LaunchPlan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>

using namespace tesela;

namespace {

using Kind = ArgumentSlot::Kind;

Device countingDevice() {
  Device device;
  device.name = "counting";
  return device;
}

class CountingBackend : public Backend {
public:
  CountingBackend() : Backend(countingDevice()) {}
  mutable std::map<void *, size_t> allocations;
  mutable int allocated = 0;

  int addressAlignment() const override { return 16; }
  std::string codeIdentity() const override { return ""; }
  Result<std::shared_ptr<const LoadedCode>> load(const Artifact &) const override {
    return Error(Code::unsupported, "counts only");
  }
  Result<void *> allocate(size_t bytes) const override {
    if (bytes > size_t(1) << 40)
      return Error(Code::outOfMemory, "too much");
    void *address = reinterpret_cast<void *>(size_t(++allocated) << 41);
    allocations[address] = bytes;
    return address;
  }
  void release(void *address) const override { EXPECT_EQ(allocations.erase(address), 1u); }
  Status copyToDevice(void *, const void *, size_t, void *) const override {
    return Status::success();
  }
  Status copyToHost(void *, const void *, size_t, void *) const override {
    return Status::success();
  }
  Status fill(void *, uint8_t, size_t, void *) const override { return Status::success(); }
  Status synchronize(void *) const override { return Status::success(); }
  Result<double> time(const std::function<Status()> &, void *) const override { return 0.0; }
};

/// Records each launch's items and the values of its slots. Streams are small numbers.
class RecordingCode : public LoadedCode {
public:
  struct Record {
    size_t index;
    int64_t items;
    bool overlaps;
    std::vector<int64_t> values;
  };
  mutable std::vector<Record> records;
  std::vector<std::vector<size_t>> sizes; ///< the indices are launch and slot
  size_t fails = size_t(-1);              ///< the index of the launch that fails
  std::map<void *, uint64_t> captures;
  mutable std::map<uint64_t, std::vector<std::shared_ptr<const void>>> graphs; ///< the key is the
                                                                               ///< capture

  Result<StreamUse> streamUse(void *stream, bool) const override {
    auto capture = captures.find(stream);
    if (capture == captures.end())
      return StreamUse{.stream = reinterpret_cast<uintptr_t>(stream)};
    return StreamUse{reinterpret_cast<uintptr_t>(stream), true, capture->second, nullptr};
  }
  Result<LaunchCounter> counter(const StreamUse &use) const override {
    return LaunchCounter{use.isCaptured ? 4097u : 4096u, nullptr};
  }
  Status keepForGraph(const StreamUse &use, std::shared_ptr<const void> kept) const override {
    graphs[use.capture].push_back(std::move(kept));
    return Status::success();
  }

  Status launch(size_t index, int64_t items, void **arguments, void *,
                bool overlaps) const override {
    if (index == fails)
      return Error(Code::driver, "as asked");
    Record &record = records.emplace_back(Record{index, items, overlaps, {}});
    for (size_t slot = 0; slot < sizes[index].size(); ++slot) {
      int64_t value = 0;
      std::memcpy(&value, arguments[slot], sizes[index][slot]);
      record.values.push_back(value);
    }
    return Status::success();
  }
};

Expression expression(const char *text) { return *Expression::parse(text); }

/// A main launch that reads two levels of a summary of doc: i32[n, m], as the compiler generates
/// it.
Artifact summarized() {
  Artifact artifact;
  artifact.variantName = "documents";
  artifact.target = {Target::Kind::cuda, 90};
  artifact.headDimQk = artifact.headDimV = 64;
  artifact.parameters = {
      {"doc", ElementType::i32, true, false, {{1, "n", 0}, {1, "m", 0}}, std::nullopt}};
  Launch fine;
  fine.kernel = "summary0_doc";
  fine.items = expression("(* (ceildiv Sq 64) (* B H))");
  fine.extents = {expression("1"), expression("$doc.0"), expression("1"),
                  expression("(ceildiv $doc.1 16)"), expression("1")};
  fine.summarizes = "$doc";
  fine.slots = {{Kind::extent, "", 1},           {Kind::extent, "", 3},
                {Kind::data, "$doc", 0},         {Kind::extent, "$doc", -1},
                {Kind::stride, "$doc", -1},      {Kind::extent, "$doc", 1},
                {Kind::data, "$doc.summary0", 0}};
  Launch main;
  main.kernel = "forward";
  main.dependent = true;
  main.items = expression("(* B H)");
  main.slots = {{Kind::data, "$doc.summary0", 0},
                {Kind::extent, "$doc.summary0", 2},
                {Kind::stride, "$doc.summary0", 0},
                {Kind::data, "$doc.summary1", 0},
                {Kind::extent, "", 1}};
  artifact.launches = {fine, main};
  artifact.workspaces = {
      {"$doc.summary0", {expression("2"), expression("$doc.0"), expression("(ceildiv $doc.1 16)")}},
      {"$doc.summary1",
       {expression("2"), expression("$doc.0"), expression("(ceildiv $doc.1 512)")}}};
  return artifact;
}

class WorkspacesTest : public testing::Test {
protected:
  std::shared_ptr<CountingBackend> backend = std::make_shared<CountingBackend>();
  std::unique_ptr<Workspaces> workspaces = std::make_unique<Workspaces>(backend);
  LaunchPlan plan = *LaunchPlan::create(summarized());
  RecordingCode code;
  CheckedArguments arguments;
  int32_t elements = 0;

  WorkspacesTest() {
    code.sizes = {{4, 4, 8, 4, 8, 4, 8}, {8, 4, 8, 8, 4}};
    arguments.extents = {1, 6, 6, 5, 7};
    shape(3, 1000);
  }

  void shape(int64_t n, int64_t m) {
    arguments.captures = {Tensor::contiguous(&elements, ElementType::i32, {n, m})};
  }
  Status launch(int stream = 1) {
    code.records.clear();
    return plan.launch(code, arguments, streamOf(stream), workspaces.get());
  }
  LaunchSizes sizes() const {
    LaunchSizes sizes;
    EXPECT_TRUE(plan.measure(arguments, sizes).ok());
    return sizes;
  }
  static void *streamOf(int number) { return reinterpret_cast<void *>(intptr_t(number)); }
  int64_t address() const { return code.records.back().values[0]; }
};

TEST_F(WorkspacesTest, SlotsSayWhereAndHowLarge) {
  ASSERT_TRUE(launch().ok());
  ASSERT_EQ(code.records.size(), 2u);
  auto [index, items, overlaps, values] = code.records[0];
  EXPECT_EQ(index, 0u);
  EXPECT_EQ(items, 3);
  auto doc = int64_t(reinterpret_cast<uintptr_t>(&elements));
  EXPECT_EQ(values, (std::vector<int64_t>{3, 63, doc, 1, 0, 1000, values[6]}));
  const auto &main = code.records[1].values;
  EXPECT_EQ(main[0], values[6]);
  EXPECT_EQ(main[1], 63);
  EXPECT_EQ(main[2], 3 * 63);
  EXPECT_EQ(main[3] - main[0], 1536); // 2 * 3 * 63 numbers, rounded up to 256 bytes
  EXPECT_EQ(main[4], 6);              // the plan's own H
}

// A launch that waits for another one of the same call may begin before that ends. The first one
// waits for all earlier work on the stream.
TEST_F(WorkspacesTest, ADependentLaunchOverlapsAnotherOfTheCall) {
  arguments.capturesUnchanged = true;
  ASSERT_TRUE(launch().ok());
  ASSERT_EQ(code.records.size(), 2u);
  EXPECT_FALSE(code.records[0].overlaps);
  EXPECT_TRUE(code.records[1].overlaps);
  ASSERT_TRUE(launch().ok());
  ASSERT_EQ(code.records.size(), 1u); // the summary is still valid
  EXPECT_EQ(code.records[0].index, 1u);
  EXPECT_FALSE(code.records[0].overlaps);
}

TEST_F(WorkspacesTest, AreOfAStreamAndGrow) {
  ASSERT_TRUE(launch(1).ok());
  int64_t first = address();
  ASSERT_TRUE(launch(1).ok());
  EXPECT_EQ(address(), first);
  EXPECT_EQ(backend->allocated, 1);
  ASSERT_TRUE(launch(2).ok());
  EXPECT_NE(address(), first);
  EXPECT_EQ(backend->allocated, 2);
  shape(3, 100000);
  ASSERT_TRUE(launch(1).ok());
  EXPECT_EQ(backend->allocated, 3);
  EXPECT_EQ(backend->allocations.size(), 2u); // the smaller one was freed
  shape(3, 1000);
  ASSERT_TRUE(launch(1).ok());
  EXPECT_EQ(backend->allocated, 3);
  workspaces.reset();
  EXPECT_TRUE(backend->allocations.empty());
}

TEST_F(WorkspacesTest, AGraphHasMemoryOfItsOwn) {
  code.captures[streamOf(1)] = 17;
  ASSERT_TRUE(launch(1).ok()); // on a stream without earlier launches
  int64_t first = address();
  ASSERT_TRUE(launch(1).ok()); // one capture: its launches run one after the other
  EXPECT_EQ(address(), first);
  code.captures[streamOf(2)] = 17; // two streams of one capture may run at the same time
  ASSERT_TRUE(launch(2).ok());
  EXPECT_NE(address(), first);
  code.captures.clear();
  ASSERT_TRUE(launch(1).ok());
  int64_t outside = address();
  EXPECT_NE(outside, first);
  code.captures[streamOf(1)] = 18;
  ASSERT_TRUE(launch(1).ok());
  EXPECT_NE(address(), first);
  EXPECT_NE(address(), outside);
  EXPECT_EQ(backend->allocations.size(), 4u);
  code.graphs.erase(17);
  EXPECT_EQ(backend->allocations.size(), 2u);
  workspaces.reset(); // the kernel is gone, but the graph stays
  EXPECT_EQ(backend->allocations.size(), 1u);
  code.graphs.erase(18);
  EXPECT_TRUE(backend->allocations.empty());
}

// A launch that was captured earlier reads the memory with which it was captured.
TEST_F(WorkspacesTest, MemoryOfAGraphDoesNotGrow) {
  code.captures[streamOf(1)] = 17;
  ASSERT_TRUE(launch(1).ok());
  int64_t small = address();
  shape(3, 100000);
  ASSERT_TRUE(launch(1).ok());
  EXPECT_NE(address(), small);
  EXPECT_EQ(backend->allocations.size(), 2u);
  code.graphs.clear();
  EXPECT_TRUE(backend->allocations.empty());
}

// Programs that capture again and again keep only the memory of existing graphs.
TEST_F(WorkspacesTest, ManyGraphsHaveTheMemoryOfThoseThatExist) {
  for (uint64_t capture = 1; capture < 5000; ++capture) {
    code.captures[streamOf(1)] = capture;
    ASSERT_TRUE(launch(1).ok());
    code.graphs.erase(capture - 3);
    EXPECT_LE(backend->allocations.size(), 3u);
  }
}

// A program that makes and destroys streams: the memory of the stream used longest ago is freed.
TEST_F(WorkspacesTest, ManyStreamsHaveTheMemoryOfAFew) {
  ASSERT_TRUE(launch(1).ok());
  int64_t first = address();
  for (int stream = 2; stream < 2000; ++stream) {
    ASSERT_TRUE(launch(stream).ok());
    ASSERT_TRUE(launch(1).ok());
    EXPECT_EQ(address(), first);
    EXPECT_LE(backend->allocations.size(), Workspaces::maxStreams);
  }
  EXPECT_EQ(backend->allocations.size(), Workspaces::maxStreams);
  ASSERT_TRUE(launch(2).ok()); // as if the stream were new
  workspaces.reset();
  EXPECT_TRUE(backend->allocations.empty());
}

TEST_F(WorkspacesTest, WhatIsHeldOutlivesItsPlace) {
  std::shared_ptr<StreamWorkspace> held = workspaces->of({.stream = 1}, 1000);
  ASSERT_TRUE(Workspaces::reserve(*held, 1000).ok());
  for (uint64_t stream = 2; stream < 200; ++stream)
    workspaces->of({.stream = stream}, 1000);
  EXPECT_NE(workspaces->of({.stream = 1}, 1000), held);
  EXPECT_EQ(backend->allocations.size(), 1u);
  held.reset();
  EXPECT_TRUE(backend->allocations.empty());
}

TEST_F(WorkspacesTest, TheCallersIsTakenInstead) {
  size_t bytes = plan.workspaceBytes(sizes());
  EXPECT_EQ(bytes, 1536u + 256u); // 2 * 3 * 63 and 2 * 3 * 2 numbers, each rounded up to 256 bytes
  alignas(256) char memory[2048], other[2048];
  LaunchWorkspace given{memory, bytes};
  ASSERT_TRUE(plan.checkWorkspace(sizes(), given).ok());
  auto launches = [&](const LaunchWorkspace &workspace) {
    code.records.clear();
    EXPECT_TRUE(plan.launch(code, arguments, streamOf(1), workspaces.get(), workspace).ok());
    EXPECT_EQ(address(), int64_t(reinterpret_cast<uintptr_t>(workspace.address)));
    return code.records.size();
  };
  EXPECT_EQ(launches(given), 2u);
  EXPECT_EQ(code.records[0].values[6], int64_t(reinterpret_cast<uintptr_t>(memory)));
  EXPECT_EQ(code.records[1].values[3], int64_t(reinterpret_cast<uintptr_t>(memory)) + 1536);
  EXPECT_EQ(launches(given), 2u) << "the tensor may have changed";
  arguments.capturesUnchanged = true;
  EXPECT_EQ(launches(given), 1u) << "what the last launch made there stands";
  EXPECT_EQ(launches({other, bytes}), 2u) << "nothing was made there";
  EXPECT_EQ(launches(given), 1u);
  shape(3, 990);
  EXPECT_EQ(launches(given), 2u);
  // A graph computes its summaries itself, once for all of its launches on a stream.
  code.captures[streamOf(1)] = 17;
  EXPECT_EQ(launches(given), 2u);
  EXPECT_EQ(launches(given), 1u);
  code.captures.clear();
  EXPECT_EQ(launches(given), 2u) << "the graph writes there";
  EXPECT_EQ(backend->allocated, 0);
}

TEST_F(WorkspacesTest, TheCounterIsNotInTheCallers) {
  Artifact artifact = summarized();
  artifact.launches[1].slots.push_back({Kind::counter, "", 0});
  plan = *LaunchPlan::create(artifact);
  code.sizes[1].push_back(8);
  size_t bytes = plan.workspaceBytes(sizes());
  EXPECT_EQ(bytes, 1536u + 256u);
  alignas(256) char memory[2048];
  auto counter = [&] {
    EXPECT_TRUE(plan.launch(code, arguments, streamOf(1), workspaces.get(), {memory, bytes}).ok());
    return code.records.back().values.back();
  };
  EXPECT_EQ(counter(), 4096);
  code.captures[streamOf(1)] = 17;
  EXPECT_EQ(counter(), 4097);
}

TEST_F(WorkspacesTest, AWorkspaceThatCannotServeIsASentence) {
  alignas(256) char memory[2048];
  auto message = [&](LaunchWorkspace given) {
    Status status = plan.checkWorkspace(sizes(), given);
    EXPECT_TRUE(status.ok() || status.code() == Code::invalidArgument);
    return status.ok() ? "" : status.error().message();
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({memory, 1791}),
            "the workspace has 1791 bytes, this launch needs 1792: ask "
            "the kernel for the bytes of these arguments, and pass as many");
  EXPECT_EQ(message({memory, 0}), "the workspace has 0 bytes, this launch needs 1792: ask "
                                  "the kernel for the bytes of these arguments, and pass as many");
  EXPECT_EQ(message({nullptr, 1792}),
            "the workspace of 1792 bytes has no address: pass device memory, or no bytes");
  EXPECT_EQ(message({memory + 16, 1792}), "the workspace's address is 16 bytes past a multiple of "
                                          "256: pass memory that is aligned to it");
  plan = *LaunchPlan::create([] {
    Artifact artifact = summarized();
    artifact.launches = {artifact.launches[1]};
    artifact.launches[0].slots.clear();
    artifact.workspaces.clear();
    return artifact;
  }());
  EXPECT_EQ(message({memory + 1, 1}), ""); // it needs none
}

TEST_F(WorkspacesTest, SummariesAreKeptWhereTheTensorIsTheSame) {
  auto summarizes = [&](int stream = 1) {
    EXPECT_TRUE(launch(stream).ok());
    EXPECT_EQ(code.records.back().index, 1u);
    return code.records.size() == 2;
  };
  arguments.capturesUnchanged = true;
  EXPECT_TRUE(summarizes()); // there is no summary yet
  EXPECT_FALSE(summarizes());
  arguments.capturesUnchanged = false;
  EXPECT_TRUE(summarizes());
  arguments.capturesUnchanged = true;
  EXPECT_FALSE(summarizes());
  EXPECT_TRUE(summarizes(2)); // each stream has its own
  int32_t other;
  arguments.captures[0].data = &other;
  EXPECT_TRUE(summarizes());
  arguments.captures[0].strides[0] += 1;
  EXPECT_TRUE(summarizes());
  EXPECT_FALSE(summarizes());
  shape(3, 999); // the same number of granules
  EXPECT_TRUE(summarizes());
  code.fails = 0;
  arguments.captures[0].data = &other;
  EXPECT_FALSE(launch().ok());
  code.fails = size_t(-1);
  EXPECT_TRUE(summarizes());
  code.fails = 1; // it is unknown whether the main launch's inputs exist
  arguments.capturesUnchanged = false;
  EXPECT_FALSE(launch().ok());
  code.fails = size_t(-1);
  arguments.capturesUnchanged = true;
  EXPECT_TRUE(summarizes());
}

TEST_F(WorkspacesTest, ATensorWithoutElementsReadsAsZero) {
  shape(0, 1000);
  ASSERT_TRUE(launch().ok());
  ASSERT_EQ(code.records.size(), 1u); // nothing to summarize
  EXPECT_EQ(code.records[0].values[0], int64_t(code.addressOfZero()));
  EXPECT_EQ(code.records[0].values[2], 0);
}

TEST_F(WorkspacesTest, WhatIsTooLargeIsRefused) {
  constexpr int64_t large = std::numeric_limits<int32_t>::max();
  shape(large, large); // 2^31 rows of 2^21 blocks
  Status status = launch();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.error().message().find("leading axes together"), std::string::npos);
  shape(2, large);
  EXPECT_TRUE(launch().ok());
}

/// Two main launches: one writes sums: f32[B, H, Sq], the other reads it.
Artifact twoKernels() {
  Artifact artifact;
  artifact.variantName = "two";
  artifact.target = {Target::Kind::cuda, 90};
  Launch first;
  first.kernel = "first";
  first.items = expression("(* (ceildiv Sq 4) (* B H))");
  first.slots = {{Kind::data, "sums", 0}, {Kind::extent, "", 3}};
  Launch second;
  second.kernel = "second";
  second.items = expression("(* (ceildiv Sk 2) (* B Hkv))");
  second.slots = {{Kind::data, "sums", 0}, {Kind::stride, "sums", 1}, {Kind::data, "$unused", 0}};
  artifact.launches = {first, second};
  artifact.parameters = {{"unused", ElementType::i32, true, false, {{1, "n", 0}}, std::nullopt}};
  artifact.workspaces = {
      {"rows", {expression("3")}, ElementType::i32},
      {"sums", {expression("B"), expression("H"), expression("Sq")}, ElementType::f32}};
  return artifact;
}

TEST_F(WorkspacesTest, MainLaunchesShareATemplatesWorkspace) {
  plan = *LaunchPlan::create(twoKernels());
  code.sizes = {{8, 4}, {8, 8, 8}};
  shape(1, 1);
  arguments.captures[0].rank = 1;
  ASSERT_TRUE(launch().ok());
  ASSERT_EQ(code.records.size(), 2u);
  EXPECT_EQ(code.records[0].items, 2 * 6);
  EXPECT_EQ(code.records[1].items, 4 * 6); // each has its own grid
  EXPECT_EQ(code.records[0].values[0], code.records[1].values[0]);
  EXPECT_EQ(code.records[0].values[0] % 256, 0);
  EXPECT_EQ(code.records[1].values[1], 5);        // H's stride: Sq
  EXPECT_EQ(sizes().workspaceBytes, 256u + 256u); // 12 bytes, 6 * 5 * 4 bytes
  arguments.capturesUnchanged = true;             // does not apply to data between kernels
  ASSERT_TRUE(launch().ok());
  EXPECT_EQ(code.records.size(), 2u);
  // A size beyond 64 bits in a workspace that is not a summary.
  Artifact large = twoKernels();
  large.workspaces[1].extents = {expression("Sq"), expression("Sq"), expression("Sq")};
  for (Launch &each : large.launches)
    each.items = expression("1");
  arguments.extents.Sq = std::numeric_limits<int32_t>::max();
  plan = *LaunchPlan::create(large);
  EXPECT_EQ(
      launch().error().message(),
      "the workspace 'sums' has an extent above 2147483647, or all workspaces together have "
      "more than 2^63 - 1 bytes: split the batch, the heads or the queries over several launches");
}

TEST(LaunchPlan, WorkspacesThatCannotBeAreDefects) {
  auto code = [](auto change) {
    Artifact artifact = summarized();
    change(artifact);
    return LaunchPlan::create(artifact).code();
  };
  EXPECT_EQ(code([](Artifact &) {}), Code::ok);
  EXPECT_EQ(code([](Artifact &a) { a.workspaces.clear(); }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.workspaces[0].extents.clear(); }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.workspaces[0].extents.resize(9); }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.workspaces[0].extents[0] = expression("$cod.0"); }),
            Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.workspaces[0].extents[0] = expression("$doc.2"); }),
            Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.launches[0].extents.pop_back(); }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.launches[0].summarizes = "$cod"; }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.launches[0].items = expression("$doc.0"); }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.launches[0].slots[3].axis = -2; }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.launches[1].slots[1].axis = 3; }), Code::defect);
  EXPECT_EQ(code([](Artifact &a) { a.launches[1].slots[1].kind = Kind::scalar; }), Code::defect);
}

} // namespace
