//===- VerifyTest.cpp - First launches on a GPU are verified --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// When a launch is verified, and what is read. The stub's kernels do nothing, so the test writes o
// and lse. tests/gpu verifies real kernels.
//
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include "tesela/Check.h"

#include <algorithm>

using namespace tesela;

namespace {

class CudaVerifyTest : public CudaTest {
protected:
  std::vector<Event> verifications;
  std::vector<std::string> warnings;

  Context context() {
    fake::setCudaFormat(CodeFormat::cubin);
    ContextOptions options;
    options.device = "cuda:0";
    options.diskCache = false;
    options.verify = true;
    options.events = [this](const Event &event) {
      if (event.kind == Event::Kind::verified)
        verifications.push_back(event);
      if (event.kind == Event::Kind::warning)
        warnings.push_back(event.text);
    };
    Result<Context> created = Context::create(options);
    EXPECT_TRUE(created.ok());
    return *created;
  }

  /// More parameters than the oracle takes, so the interpreter checks copies of the inputs.
  static KernelOptions manyParameters() {
    KernelOptions options = cudaKernelOptions();
    options.variantText = "attention sliding_alibi(window: i32 = 1024, slope: f32[H]";
    std::string sum;
    for (int i = 0; i < 16; ++i) {
      options.variantText += ", x" + std::to_string(i) + ": f32 = 0";
      sum += " + x" + std::to_string(i);
    }
    options.variantText += ") {\n  mask = q >= k && q - k < window\n"
                           "  score = s + slope[h] * (k - q)" +
                           sum + "\n}\n";
    return options;
  }

  /// Writes random inputs to the device, and the results that a kernel should compute.
  static void fill(const Context &context, CudaProblem &problem, const KernelOptions &options) {
    LaunchArguments host = problem.arguments;
    std::vector<char> memory(problem.memory.size());
    auto *device = static_cast<char *>(problem.memory.data());
    auto move = [&](Tensor &tensor) {
      tensor.data = memory.data() + (static_cast<char *>(tensor.data) - device);
    };
    for (Tensor *tensor : {&host.q, &host.k, &host.v, &host.o, &host.lse, &host.captures[0].tensor})
      move(*tensor);
    fillInputs(InputKind::normal, host.q, host.k, host.v, 1);
    fillNormal(host.captures[0].tensor, 9);
    Result<Reference> reference = hostReference(options, host);
    ASSERT_TRUE(reference.ok()) << reference.error().message();
    auto *o = static_cast<uint16_t *>(host.o.data);
    std::ranges::transform(reference->ref, o, [](double x) { return floatToBf16(float(x)); });
    std::ranges::copy(reference->lse, static_cast<float *>(host.lse.data));
    ASSERT_TRUE(context.copyToDevice(problem.memory, memory.data(), memory.size()).ok());
  }
};

TEST_F(CudaVerifyTest, TheInterpreterChecksCopiesWhereTheOracleCannot) {
  Context verifying = context();
  KernelOptions options = manyParameters();
  Result<Kernel> kernel = verifying.compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  CudaProblem problem = CudaProblem::create(verifying).value();
  fill(verifying, problem, options);
  TestStream stream;
  Status launched = kernel->launch(problem.arguments, stream.get());
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  ASSERT_EQ(verifications.size(), 1u);
  EXPECT_EQ(verifications[0].text, "1024 of 1200 rows");
  EXPECT_FALSE(verifications[0].failure);
}

TEST_F(CudaVerifyTest, AWrongResultIsFound) {
  Context verifying = context();
  KernelOptions options = manyParameters();
  Result<Kernel> kernel = verifying.compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  CudaProblem problem = CudaProblem::create(verifying).value();
  fill(verifying, problem, options);
  problem.arguments.scalars = {{"window", 8}}; // the results are those for 7
  Status launched = kernel->launch(problem.arguments);
  EXPECT_EQ(launched.code(), Code::defect);
  EXPECT_NE(launched.error().message().find("sm_90"), std::string::npos);
  EXPECT_NE(launched.error().message().find("gives a wrong result: the norm of o's error"),
            std::string::npos)
      << launched.error().message();
}

TEST_F(CudaVerifyTest, ACaptureIsLeftAlone) {
  Context verifying = context();
  KernelOptions options = manyParameters();
  Result<Kernel> kernel = verifying.compile(options);
  ASSERT_TRUE(kernel.ok());
  CudaProblem problem = CudaProblem::create(verifying).value();
  fill(verifying, problem, options);
  Result<size_t> bytes = kernel->workspaceBytes(problem.arguments);
  ASSERT_TRUE(bytes.ok());
  Buffer memory = verifying.allocate(*bytes).value();
  problem.arguments.workspace = {memory.data(), memory.size()};
  TestStream stream;
  for (int i = 0; i < 3; ++i) {
    stub::beginCapture(stream.get());
    Status launched = kernel->launch(problem.arguments, stream.get());
    EXPECT_TRUE(stub::endCapture(stream.get()));
    EXPECT_TRUE(launched.ok()) << launched.error().message();
  }
  EXPECT_TRUE(verifications.empty());
  // While another stream is captured, waiting for this one is allowed.
  TestStream other;
  stub::beginCapture(other.get());
  EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  EXPECT_TRUE(stub::endCapture(other.get()));
  EXPECT_EQ(verifications.size(), 1u);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CudaVerifyTest, ACopyThatFailsIsNoFailureOfTheLaunch) {
  Context verifying = context();
  Result<Kernel> kernel = verifying.compile(manyParameters());
  ASSERT_TRUE(kernel.ok());
  CudaProblem problem = CudaProblem::create(verifying).value();
  stub::failCall("cuMemcpyDtoHAsync_v2", 1, 2);
  EXPECT_TRUE(kernel->launch(problem.arguments).ok());
  EXPECT_TRUE(verifications.empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("'sliding_alibi' is not verified: cuMemcpyDtoHAsync failed"),
            std::string::npos)
      << warnings[0];
}

} // namespace
