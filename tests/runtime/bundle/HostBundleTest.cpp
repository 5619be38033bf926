//===- HostBundleTest.cpp - The compiler's own host code from a bundle ----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Bundle.h"
#include "tesela/Check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <tuple>
#include <vector>

using namespace tesela;

namespace {

/// Exports for the host and a GPU, and loads the host's kernel.
Result<Kernel> exportAndLoad(BundleOptions options, const Context &context) {
  std::string folder = (std::filesystem::temp_directory_path() / "tesela-XXXXXX").string();
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  options.targets = {"host", "sm_80"};
  Result<BundleInfo> info = exportBundle(options, folder);
  EXPECT_TRUE(info.ok()) << (info ? "" : info.error().message());
  Result<Kernel> kernel = loadKernel(context, folder);
  std::filesystem::remove_all(folder);
  return kernel;
}

/// With a captured tensor whose summary is a separate launch; both passes.
TEST(HostBundle, ResultsAreRight) {
  BundleOptions options;
  options.kernel.variantText =
      "attention documents(id: i32[B, Sk]) { mask = id[b, q] == id[b, k] && q >= k }";
  options.kernel.headDimQk = options.kernel.headDimV = 32;
  options.kernel.inputType = ElementType::bf16;
  ContextOptions contextOptions;
  contextOptions.device = "host";
  contextOptions.diskCache = false;
  Result<Context> context = Context::create(contextOptions);
  ASSERT_TRUE(context.ok());
  Result<Kernel> kernel = exportAndLoad(options, *context);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  EXPECT_EQ(kernel->info().target, "host");
  EXPECT_EQ(context->compileCount(), 0);

  constexpr int64_t B = 2, H = 4, Hkv = 2, S = 150, D = 32;
  std::vector<uint16_t> q(B * H * S * D), k(B * Hkv * S * D), v(B * Hkv * S * D), o(B * H * S * D);
  std::vector<float> lse(B * H * S, NAN);
  std::vector<int32_t> id(B * S);
  for (size_t i = 0; i < id.size(); ++i)
    id[i] = int32_t(i % S / 40);
  LaunchArguments arguments;
  arguments.q = Tensor::bhsd(q.data(), ElementType::bf16, B, H, S, D);
  arguments.k = Tensor::bhsd(k.data(), ElementType::bf16, B, Hkv, S, D);
  arguments.v = Tensor::bhsd(v.data(), ElementType::bf16, B, Hkv, S, D);
  arguments.o = Tensor::bhsd(o.data(), ElementType::bf16, B, H, S, D);
  arguments.lse = Tensor::contiguous(lse.data(), ElementType::f32, {B, H, S});
  arguments.captures = {{"id", Tensor::contiguous(id.data(), ElementType::i32, {B, S})}};
  fillNormal(arguments.q, 1);
  fillNormal(arguments.k, 2);
  fillNormal(arguments.v, 3);
  Status launched = kernel->launch(arguments);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  Result<Reference> reference = hostReference(options.kernel, arguments, 2);
  ASSERT_TRUE(reference.ok()) << reference.error().message();
  Result<Comparison> comparison = compare(*reference, arguments.o, arguments.lse);
  ASSERT_TRUE(comparison.ok());
  EXPECT_TRUE(comparison->passed) << comparison->failure;

  options.kernel.algorithm = "backward";
  Result<Kernel> backward = exportAndLoad(options, *context);
  ASSERT_TRUE(backward.ok()) << backward.error().message();
  EXPECT_EQ(context->compileCount(), 0);
  std::vector<uint16_t> dO(o.size()), dq(q.size(), 0xffff), dk(k.size(), 0xffff),
      dv(v.size(), 0xffff); // NaN
  std::vector<float> dlse(lse.size());
  arguments.tensors = {{"do", arguments.o.at(dO.data())},
                       {"dlse", arguments.lse.at(dlse.data())},
                       {"dq", arguments.q.at(dq.data())},
                       {"dk", arguments.k.at(dk.data())},
                       {"dv", arguments.v.at(dv.data())}};
  fillNormal(arguments.tensors[0].tensor, 4);
  fillNormal(arguments.tensors[1].tensor, 5);
  launched = backward->launch(arguments);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  Result<GradientReference> gradients = hostGradientReference(options.kernel, arguments, 2);
  ASSERT_TRUE(gradients.ok()) << gradients.error().message();
  for (auto [of, index, name] :
       {std::tuple(&gradients->dq, 2, "dq"), std::tuple(&gradients->dk, 3, "dk"),
        std::tuple(&gradients->dv, 4, "dv")}) {
    Result<Comparison> each = compareGradient(*of, arguments.tensors[size_t(index)].tensor, name);
    ASSERT_TRUE(each.ok());
    EXPECT_TRUE(each->passed) << name << ": " << each->failure;
  }
}

} // namespace
