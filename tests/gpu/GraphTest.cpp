//===- GraphTest.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Launches that are captured into CUDA graphs, on streams that Tesela does not know. A stub of the
// driver cannot show this: each test replays real graphs and compares the bits with those of an
// eager launch.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include "tesela/compiler/Artifact.h"

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <memory>

using namespace tesela;

namespace {

/// The driver's functions that these tests need. Types as in cuda.h.
struct Driver {
  int (*cuStreamCreate)(void **, unsigned) = nullptr;
  int (*cuStreamDestroy_v2)(void *) = nullptr;
  int (*cuStreamSynchronize)(void *) = nullptr;
  int (*cuStreamBeginCapture_v2)(void *, int) = nullptr;
  int (*cuStreamEndCapture)(void *, void **) = nullptr;
  int (*cuGraphInstantiateWithFlags)(void **, void *, unsigned long long) = nullptr;
  int (*cuGraphLaunch)(void *, void *) = nullptr;
  int (*cuGraphDestroy)(void *) = nullptr;
  int (*cuGraphExecDestroy)(void *) = nullptr;
  int (*cuCtxSetCurrent)(void *) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void **, int) = nullptr;
  int (*cuCtxSynchronize)() = nullptr;
  int (*cuMemGetInfo_v2)(size_t *, size_t *) = nullptr;

  Driver() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    auto find = [&](auto &entry, const char *name) {
      entry =
          reinterpret_cast<std::decay_t<decltype(entry)>>(library ? dlsym(library, name) : nullptr);
      EXPECT_NE(entry, nullptr) << name;
    };
    find(cuStreamCreate, "cuStreamCreate");
    find(cuStreamDestroy_v2, "cuStreamDestroy_v2");
    find(cuStreamSynchronize, "cuStreamSynchronize");
    find(cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2");
    find(cuStreamEndCapture, "cuStreamEndCapture");
    find(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
    find(cuGraphLaunch, "cuGraphLaunch");
    find(cuGraphDestroy, "cuGraphDestroy");
    find(cuGraphExecDestroy, "cuGraphExecDestroy");
    find(cuCtxSetCurrent, "cuCtxSetCurrent");
    find(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    find(cuCtxSynchronize, "cuCtxSynchronize");
    find(cuMemGetInfo_v2, "cuMemGetInfo_v2");
  }
};

enum Mode { global = 0, threadLocal = 1, relaxed = 2 }; // CUstreamCaptureMode

class Graph : public testing::Test {
protected:
  void SetUp() override {
    std::string reason;
    context = testContext("cuda", reason);
    if (!context)
      GTEST_SKIP() << reason;
    driver = std::make_unique<Driver>();
    if (HasFailure())
      return;
    void *primary = nullptr;
    ASSERT_EQ(driver->cuDevicePrimaryCtxRetain(&primary, context->device().index), 0);
    ASSERT_EQ(driver->cuCtxSetCurrent(primary), 0);
    for (void *&stream : streams)
      ASSERT_EQ(driver->cuStreamCreate(&stream, 1), 0); // CU_STREAM_NON_BLOCKING
  }
  void TearDown() override {
    if (!driver)
      return;
    driver->cuCtxSynchronize();
    for (void *instance : instances)
      EXPECT_EQ(driver->cuGraphExecDestroy(instance), 0);
    for (void *stream : streams)
      EXPECT_EQ(driver->cuStreamDestroy_v2(stream), 0);
  }

  /// The graph of the work that `work` launches on streams[0].
  void *capture(Mode mode, const std::function<Status()> &work) {
    EXPECT_EQ(driver->cuStreamBeginCapture_v2(streams[0], mode), 0);
    Status status = work();
    void *graph = nullptr;
    EXPECT_EQ(driver->cuStreamEndCapture(streams[0], &graph), 0);
    EXPECT_TRUE(status.ok()) << status.error().message();
    return graph;
  }
  void *instantiate(void *graph) {
    void *instance = nullptr;
    EXPECT_EQ(driver->cuGraphInstantiateWithFlags(&instance, graph, 0), 0);
    return instances.emplace_back(instance);
  }
  void replay(void *instance, int stream) {
    EXPECT_EQ(driver->cuGraphLaunch(instance, streams[stream]), 0);
  }
  void synchronize() { ASSERT_EQ(driver->cuCtxSynchronize(), 0); }

  static std::string bitsOf(TestTensor &tensor) {
    EXPECT_TRUE(tensor.download().ok());
    EXPECT_TRUE(tensor.guardIsIntact());
    Tensor view = tensor.host();
    return std::string(static_cast<const char *>(view.data), view.spanBytes());
  }
  static void poison(ForwardCase &problem) {
    EXPECT_TRUE(problem.o.poison().ok());
    EXPECT_TRUE(problem.lse.poison().ok());
  }
  static std::string resultOf(ForwardCase &problem) {
    return bitsOf(problem.o) + bitsOf(problem.lse);
  }
  size_t freeBytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(driver->cuMemGetInfo_v2(&free, &total), 0);
    return free;
  }

  static KernelOptions optionsOf(const std::string &variant, const std::string &schedule = "") {
    KernelOptions options;
    options.variantText = variantText(variant);
    options.variantFile = variant;
    options.inputType = ElementType::bf16;
    options.headDimQk = options.headDimV = 64;
    options.schedule = schedule;
    return options;
  }

  const Context *context = nullptr;
  std::unique_ptr<Driver> driver;
  void *streams[3] = {};
  std::vector<void *> instances;
};

const ForwardShape shape{.B = 2, .H = 4, .Hkv = 2, .Sq = 777, .Sk = 777};

// Masks without parameters, with scalars, with captured tensors and with summaries of them;
// persistent and other kernels; all capture modes; many replays, and two instances at once.
TEST_F(Graph, ReplaysGiveTheEagerBits) {
  for (const char *variant : {"full", "causal", "sliding_window", "alibi", "documents"})
    for (const char *schedule : {"", "persistent = false"})
      for (Mode mode : {global, threadLocal, relaxed}) {
        SCOPED_TRACE(std::string(variant) + " " + schedule + " mode " + std::to_string(mode));
        KernelOptions options = optionsOf(variant, schedule);
        Result<Kernel> kernel = context->compile(options);
        ASSERT_TRUE(kernel.ok()) << kernel.error().message();
        ForwardCase problem(*context, options, shape);
        if (mode == global)
          problem.check(*kernel); // on the default stream; also warms up
        poison(problem);
        ASSERT_TRUE(kernel->launch(problem.deviceArguments(), streams[1]).ok());
        synchronize();
        const std::string eager = resultOf(problem);

        void *graph =
            capture(mode, [&] { return kernel->launch(problem.deviceArguments(), streams[0]); });
        if (HasFailure())
          return;
        void *first = instantiate(graph), *second = instantiate(graph);
        EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
        for (int round = 0; round < 10; ++round) {
          poison(problem);
          for (int i = 0; i < 10; ++i)
            replay(first, 0);
          synchronize();
          EXPECT_EQ(resultOf(problem), eager) << round;
        }
        for (int round = 0; round < 10; ++round) {
          poison(problem);
          for (int i = 0; i < 5; ++i) {
            replay(first, 0);
            replay(second, 2);
          }
          synchronize();
          EXPECT_EQ(resultOf(problem), eager) << "two instances, " << round;
        }
        poison(problem); // an eager launch runs between the replays of two instances
        replay(first, 0);
        ASSERT_TRUE(kernel->launch(problem.deviceArguments(), streams[1]).ok());
        replay(second, 2);
        synchronize();
        EXPECT_EQ(resultOf(problem), eager);
      }
}

// As many launches as the layers of a model: more than there are counters.
TEST_F(Graph, ManyLaunchesOfOneKernel) {
  for (const char *variant : {"causal", "documents"}) {
    SCOPED_TRACE(variant);
    KernelOptions options = optionsOf(variant);
    Result<Kernel> kernel = context->compile(options);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    ForwardCase problem(*context, options, shape);
    problem.check(*kernel);
    const std::string eager = bitsOf(problem.o);
    constexpr int layers = 200, repeats = 10;
    std::vector<std::unique_ptr<TestTensor>> outputs;
    for (int layer = 0; layer < layers; ++layer)
      outputs.push_back(std::make_unique<TestTensor>(*context, problem.o.host()));
    void *graph = capture(global, [&] {
      for (int repeat = 0; repeat < repeats; ++repeat)
        for (auto &output : outputs) {
          LaunchArguments arguments = problem.deviceArguments();
          arguments.o = output->device();
          if (Status status = kernel->launch(arguments, streams[0]); !status)
            return status;
        }
      return Status::success();
    });
    void *instance = instantiate(graph);
    EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
    for (int round = 0; round < 3; ++round) {
      for (auto &output : outputs)
        ASSERT_TRUE(output->poison().ok());
      replay(instance, 1);
      synchronize();
      for (int layer = 0; layer < layers; ++layer)
        ASSERT_EQ(bitsOf(*outputs[layer]), eager) << "round " << round << ", layer " << layer;
    }
  }
}

// More instances than there are counters. Instances without a counter must be right, too.
TEST_F(Graph, MoreInstancesThanCounters) {
  KernelOptions options = optionsOf("causal", "persistent = true"); // only such kernels count
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  ForwardShape large = shape;
  large.Sq = large.Sk = 2500; // several work items for each multiprocessor
  large.H = 16;
  ForwardCase problem(*context, options, large);
  problem.check(*kernel);
  const std::string eager = resultOf(problem);
  void *graph =
      capture(global, [&] { return kernel->launch(problem.deviceArguments(), streams[0]); });
  for (int i = 0; i < CounterTable::entries + 16; ++i) {
    void *instance = instantiate(graph);
    poison(problem);
    replay(instance, 0);
    replay(instances.front(), 1);
    replay(instance, 2);
    synchronize();
    ASSERT_EQ(resultOf(problem), eager) << "instance " << i;
  }
  EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
}

// Work items of gradients that add in turn wait for one another. Where a launch has no counter, its
// workspace counts them. So two such launches at once end, and add in the same order as others.
TEST_F(Graph, GradientsWithoutCounters) {
  constexpr int launches = 2, rounds = 100;
  KernelOptions options = optionsOf("causal");
  Result<Kernel> attention = context->compile(options);
  ASSERT_TRUE(attention.ok()) << attention.error().message();
  options.algorithm = "backward";
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  ForwardShape large = shape;
  large.Sq = large.Sk = 2500;
  large.H = 16;
  ForwardCase problem(*context, optionsOf("causal"), large);
  problem.check(*attention);

  struct Results {
    TestTensor dq, dk, dv;
    Buffer workspace;
    void *last = nullptr; ///< an instance without a counter
  };
  std::vector<Results> results;
  auto argumentsOf = [&](Results &of) {
    LaunchArguments arguments = problem.deviceArguments();
    arguments.tensors = {{"do", problem.o.device()},
                         {"dq", of.dq.device()},
                         {"dk", of.dk.device()},
                         {"dv", of.dv.device()}};
    arguments.workspace = {of.workspace.data(), of.workspace.size()};
    return arguments;
  };
  auto poisonAll = [](Results &of) {
    for (TestTensor *tensor : {&of.dq, &of.dk, &of.dv})
      EXPECT_TRUE(tensor->poison().ok());
  };
  auto allBits = [](Results &of) { return bitsOf(of.dq) + bitsOf(of.dk) + bitsOf(of.dv); };
  for (int launch = 0; launch < launches; ++launch) {
    Results &of = results.emplace_back(Results{TestTensor(*context, problem.q.host()),
                                               TestTensor(*context, problem.k.host()),
                                               TestTensor(*context, problem.v.host()), Buffer()});
    Result<size_t> bytes = kernel->workspaceBytes(argumentsOf(of));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message();
    Result<Buffer> workspace = context->allocate(*bytes);
    ASSERT_TRUE(workspace.ok()) << workspace.error().message();
    of.workspace = std::move(*workspace);
  }
  poisonAll(results[0]);
  ASSERT_TRUE(kernel->launch(argumentsOf(results[0]), streams[0]).ok());
  synchronize();
  const std::string eager = allBits(results[0]);
  for (Results &of : results) {
    void *graph = capture(global, [&] { return kernel->launch(argumentsOf(of), streams[0]); });
    if (HasFailure())
      return;
    for (int i = 0; i < CounterTable::entries + 1; ++i) {
      of.last = instantiate(graph);
      replay(of.last, 0);
    }
    synchronize();
    EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
  }
  for (int round = 0; round < rounds; ++round) {
    for (Results &of : results)
      poisonAll(of);
    for (int launch = 0; launch < launches; ++launch)
      replay(results[launch].last, launch);
    synchronize();
    for (Results &of : results)
      ASSERT_EQ(allBits(of), eager) << "round " << round;
  }
}

// Counters and workspaces are given back when the graph and its last instance are destroyed.
TEST_F(Graph, GraphsGiveBackWhatTheyHad) {
  KernelOptions options = optionsOf("documents");
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  // Many keys, so that a workspace (their documents' summaries) is large.
  ForwardCase problem(*context, options,
                      {.B = 2, .H = 2, .Hkv = 1, .Sq = 64, .Sk = int64_t(1) << 16});
  problem.check(*kernel);
  const std::string eager = resultOf(problem);
  constexpr int rounds = 400, warmUp = 100, layers = 20;
  Result<size_t> workspace = kernel->workspaceBytes(problem.deviceArguments());
  ASSERT_TRUE(workspace.ok()) << workspace.error().message();
  // The driver takes memory in pieces of 2 MiB, and a graph may have all of its workspaces at once.
  const size_t limit = (size_t(4) << 20) + layers * *workspace;
  ASSERT_GT((rounds - warmUp) * *workspace, 2 * limit) << "one lost workspace a graph must show";
  size_t before = 0;
  for (int round = 0; round < rounds; ++round) {
    void *graph = capture(round % 2 ? global : threadLocal, [&] {
      for (int layer = 0; layer < layers; ++layer)
        if (Status status = kernel->launch(problem.deviceArguments(), streams[0]); !status)
          return status;
      return Status::success();
    });
    if (HasFailure())
      return;
    if (round % 20 == 0) {
      void *instance = nullptr;
      ASSERT_EQ(driver->cuGraphInstantiateWithFlags(&instance, graph, 0), 0);
      EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
      poison(problem);
      replay(instance, 0);
      synchronize();
      EXPECT_EQ(resultOf(problem), eager);
      EXPECT_EQ(driver->cuGraphExecDestroy(instance), 0);
    } else {
      EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
    }
    if (round == warmUp)
      before = freeBytes();
  }
  synchronize();
  EXPECT_LE(before, freeBytes() + limit)
      << "a graph has " << layers << " workspaces of " << *workspace << " bytes";
}

// The driver may load the code again for a graph. The code must stay until the graph is destroyed.
TEST_F(Graph, AGraphOutlivesItsKernel) {
  KernelOptions options = optionsOf("alibi");
  ForwardCase problem(*context, options, shape);
  void *instance = nullptr;
  std::string eager;
  {
    ContextOptions own;
    own.device = "cuda";
    own.diskCache = false;
    Result<Context> second = Context::create(own);
    ASSERT_TRUE(second.ok()) << second.error().message();
    Result<Kernel> kernel = second->compile(options);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    problem.check(*kernel);
    eager = resultOf(problem);
    void *graph =
        capture(relaxed, [&] { return kernel->launch(problem.deviceArguments(), streams[0]); });
    instance = instantiate(graph);
    EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
  }
  poison(problem);
  replay(instance, 0);
  synchronize();
  EXPECT_EQ(resultOf(problem), eager);
}

// With the caller's workspace a launch clears nothing. It keeps summaries if captures are
// unchanged.
TEST_F(Graph, WithTheCallersWorkspace) {
  KernelOptions options = optionsOf("documents");
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  ForwardCase problem(*context, options, shape);
  problem.check(*kernel);
  const std::string eager = resultOf(problem);
  LaunchArguments arguments = problem.deviceArguments();
  Result<size_t> bytes = kernel->workspaceBytes(arguments);
  ASSERT_TRUE(bytes.ok());
  Result<Buffer> memory = context->allocate(*bytes);
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(context->fill(*memory, 0xff).ok());
  arguments.workspace = {memory->data(), memory->size()};
  for (bool isUnchanged : {false, true, true}) {
    arguments.capturesUnchanged = isUnchanged;
    poison(problem);
    ASSERT_TRUE(kernel->launch(arguments, streams[1]).ok());
    synchronize();
    EXPECT_EQ(resultOf(problem), eager);
  }
  ASSERT_TRUE(context->fill(*memory, 0xff).ok());
  void *graph = capture(global, [&] { return kernel->launch(arguments, streams[0]); });
  void *instance = instantiate(graph);
  EXPECT_EQ(driver->cuGraphDestroy(graph), 0);
  for (int i = 0; i < 20; ++i) {
    poison(problem);
    replay(instance, 0);
    synchronize();
    EXPECT_EQ(resultOf(problem), eager);
  }
}

// If captured tensors are said to be unchanged, their summaries are not computed again. Here they
// did change, so that the old summaries show: of tiles that are empty or full by these, no element
// asks for the documents' numbers.
TEST_F(Graph, KeepsSummariesOfUnchangedCaptures) {
  KernelOptions options = optionsOf("documents", "block_m = 128, block_n = 128");
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  constexpr int64_t batch = 2, length = 2048, document = 512; // four tiles each way
  ForwardCase problem(*context, options,
                      {.B = batch, .H = 2, .Hkv = 2, .Sq = length, .Sk = length});
  TestTensor ids(*context, Tensor::contiguous(nullptr, ElementType::i32, {batch, length}));
  auto setIds = [&](int64_t tokens) {
    auto *values = static_cast<int32_t *>(ids.host().data);
    for (int64_t i = 0; i < batch * length; ++i)
      values[i] = int32_t(i % length / tokens);
    ASSERT_TRUE(ids.upload().ok());
  };
  LaunchArguments arguments = problem.deviceArguments();
  arguments.captures = {{"id", ids.device()}};
  Result<size_t> bytes = kernel->workspaceBytes(arguments);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message();
  Result<Buffer> memory = context->allocate(*bytes);
  ASSERT_TRUE(memory.ok()) << memory.error().message();
  auto launch = [&](bool hasWorkspace, bool isUnchanged) {
    LaunchArguments given = arguments;
    if (hasWorkspace)
      given.workspace = {memory->data(), memory->size()};
    given.capturesUnchanged = isUnchanged;
    poison(problem);
    Status launched = kernel->launch(given, streams[1]);
    EXPECT_TRUE(launched.ok()) << launched.error().message();
    EXPECT_EQ(driver->cuCtxSynchronize(), 0);
    return resultOf(problem);
  };
  setIds(length); // one document
  const std::string whole = launch(/*hasWorkspace=*/false, /*isUnchanged=*/false);
  setIds(document);
  const std::string parts = launch(/*hasWorkspace=*/false, /*isUnchanged=*/false);
  ASSERT_NE(whole, parts);
  EXPECT_EQ(launch(/*hasWorkspace=*/true, /*isUnchanged=*/false), parts);
  setIds(length);
  EXPECT_EQ(launch(/*hasWorkspace=*/true, /*isUnchanged=*/true), parts) << "they were not kept";
  EXPECT_EQ(launch(/*hasWorkspace=*/true, /*isUnchanged=*/false), whole) << "they were kept";
}

} // namespace
