//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "assemble/Ptxas.h"
#include "system/File.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/stat.h>
#include <unistd.h>

using namespace tesela;

namespace {

constexpr const char *smallKernel = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 address) {
  .reg .u64 %rd<2>;
  ld.param.u64 %rd1, [address];
  st.global.u32 [%rd1], 7;
  ret;
}
)";

TEST(Ptxas, TheTargetIsTheDevicesOwn) {
  EXPECT_EQ(assemblerTarget(".version 8.0\n.target sm_80\n", 90), "sm_90");
  EXPECT_EQ(assemblerTarget(".target sm_90a, debug\n", 90), "sm_90a");
  EXPECT_EQ(assemblerTarget(".target sm_100f\n", 100), "sm_100f");
  EXPECT_EQ(assemblerTarget(".target sm_90a\n", 100), "sm_90a"); // it runs on no other architecture
  EXPECT_EQ(assemblerTarget("", 120), "sm_120");
}

TEST(Ptxas, ResourcesAreReadFromTheLog) {
  Resources resources =
      parseResources("ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
                     "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
                     "ptxas info    : Used 168 registers, used 1 barriers, 400 bytes cmem[0]\n"
                     "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                     "ptxas info    : Used 32 registers\n");
  EXPECT_EQ(resources.registers, 168);
  EXPECT_EQ(resources.spillBytes, 20);
}

/// A kernel with the product of two zero matrices.
std::string productKernel(const std::string &name) {
  return ".visible .entry " + name + R"((.param .u64 address) {
  .reg .u64 %rd<2>;
  .reg .b32 %r<2>;
  .reg .f32 %f<5>;
  ld.param.u64 %rd1, [address];
  mov.b32 %r1, 0;
  mov.f32 %f1, 0f00000000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4},
      {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};
  st.global.f32 [%rd1], %f1;
  ret;
}
)";
}

TEST(Ptxas, KernelsWithProductsAreCounted) {
  EXPECT_EQ(kernelsWithProducts(""), 0);
  EXPECT_EQ(kernelsWithProducts(smallKernel), 0);
  EXPECT_EQ(kernelsWithProducts(smallKernel + productKernel("a")), 1);
  EXPECT_EQ(kernelsWithProducts(productKernel("a") + smallKernel + productKernel("b")), 2);
  EXPECT_EQ(kernelsWithProducts(".visible .entry a() { wgmma.mma_async.sync; }"), 1);
}

TEST(Ptxas, WarningsOfSerialisationAreFound) {
  EXPECT_EQ(serialisationWarning("ptxas info : fine\n"), "");
  EXPECT_EQ(serialisationWarning("a\nptxas info : (C7510) Potential loss\nb"),
            "ptxas info : (C7510) Potential loss");
  EXPECT_NE(serialisationWarning("(C7504)"), "");
  EXPECT_EQ(serialisationWarning("(C7519)"), "");
  EXPECT_EQ(serialisationWarning("(C7505)"), "");
  EXPECT_EQ(serialisationWarning("(C7600)"), "");
}

TEST(Ptxas, ItsVersionIsReadFromWhatItPrints) {
  EXPECT_EQ(versionIn("ptxas: NVIDIA (R) Ptx optimizing assembler\n"
                      "Copyright (c) 2005-2025 NVIDIA Corporation\n"
                      "Built on Wed_Aug_20_01:55:12_PM_PDT_2025\n"
                      "Cuda compilation tools, release 13.0, V13.0.88\n"
                      "Build cuda_13.0.r13.0/compiler.36424714_0\n"),
            "release 13.0, V13.0.88, Build cuda_13.0.r13.0/compiler.36424714_0");
  EXPECT_EQ(versionIn("Cuda compilation tools, release 13.0, V13.0.88"), "");
  EXPECT_EQ(versionIn("sh: 1: not found"), "");
}

TEST(Ptxas, ItsIdentityIsItsVersionWhereverItLies) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  EXPECT_TRUE(ptxas->identity().starts_with("release ")) << ptxas->identity();
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string elsewhere = folder->path() + "/ptxas";
  ASSERT_EQ(symlink(ptxas->path().c_str(), elsewhere.c_str()), 0);
  EXPECT_EQ(Ptxas(elsewhere).identity(), ptxas->identity());
  // A program that does not run is identified by its path.
  EXPECT_NE(Ptxas("/nowhere/ptxas").identity().find("/nowhere/ptxas"), std::string::npos);
}

TEST(Ptxas, AssemblesAndTellsResources) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  Result<Assembled> assembled = ptxas->assemble(smallKernel, 90);
  ASSERT_TRUE(assembled.ok()) << assembled.error().message();
  EXPECT_EQ(assembled->cubin.substr(0, 4), "\x7f"
                                           "ELF");
  EXPECT_GT(assembled->resources.registers, 0);
  EXPECT_EQ(assembled->resources.spillBytes, 0);
}

TEST(Ptxas, SeveralKernelsWithProductsAreAssembledAtOnce) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  std::string both = smallKernel + productKernel("first") + productKernel("second");
  Result<Assembled> assembled = ptxas->assemble(both, 90);
  ASSERT_TRUE(assembled.ok()) << assembled.error().message();
  for (const char *name : {"store", "first", "second"})
    EXPECT_NE(assembled->cubin.find(name), std::string::npos);
  EXPECT_GT(assembled->resources.registers, 0);
  EXPECT_EQ(ptxas->assemble(both, 90)->cubin, assembled->cubin);
  // Warnings of all threads are seen.
  std::string serialised = both;
  serialised.replace(serialised.find("  ret;"), 0, "  setmaxnreg.dec.sync.aligned.u32 24;\n");
  serialised.replace(serialised.find("sm_80"), 5, "sm_90a");
  EXPECT_EQ(ptxas->assemble(serialised, 90).code(), Code::defect);
}

TEST(Ptxas, APtxasWithoutThreadsHasOne) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  if (!ptxas || !folder)
    GTEST_SKIP() << "no ptxas on this machine";
  std::string path = folder->path() + "/ptxas";
  std::string both = smallKernel + productKernel("first") + productKernel("second");
  for (const char *answer : {"echo \"ptxas fatal   : Unknown option '-split-compile'\"; exit 255",
                             "echo \"ptxas fatal   : unknown option '--split-compile'\"; exit 1",
                             "echo \"no thread could be started\"; exit 134"}) {
    ASSERT_TRUE(writeFile(path, std::string("#!/bin/sh\ncase \"$*\" in *--split-compile*)\n") +
                                    answer + ";; esac\nexec " + ptxas->path() + " \"$@\"\n")
                    .ok());
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
    Result<Assembled> assembled = Ptxas(path).assemble(both, 90);
    ASSERT_TRUE(assembled.ok()) << answer << ": " << assembled.error().message();
    EXPECT_NE(assembled->cubin.find("second"), std::string::npos) << answer;
  }
}

TEST(Ptxas, WhatOnlyOneArchitectureHasIsAssembledForIt) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  std::string kernel = smallKernel;
  kernel.replace(kernel.find("  ret;"), 0, "  setmaxnreg.dec.sync.aligned.u32 24;\n");
  kernel.replace(kernel.find("address)"), 8, "address)\n.reqntid 128\n.minnctapersm 1");
  kernel.replace(kernel.find("sm_80"), 5, "sm_90a");
  Result<Assembled> assembled = ptxas->assemble(kernel, 90);
  EXPECT_TRUE(assembled.ok()) << assembled.error().message();
  kernel.replace(kernel.find("sm_90a"), 6, "sm_90");
  EXPECT_FALSE(ptxas->assemble(kernel, 90).ok()); // only sm_90a has the instruction
}

TEST(Ptxas, AKernelThatIsSerialisedIsADefect) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  // Without the number of threads, ptxas ignores setmaxnreg and warns with C7508.
  std::string kernel = smallKernel;
  kernel.replace(kernel.find("  ret;"), 0, "  setmaxnreg.dec.sync.aligned.u32 24;\n");
  kernel.replace(kernel.find("sm_80"), 5, "sm_90a");
  Result<Assembled> assembled = ptxas->assemble(kernel, 90);
  ASSERT_FALSE(assembled.ok());
  EXPECT_EQ(assembled.code(), Code::defect);
  EXPECT_NE(assembled.error().message().find("C7508"), std::string::npos);
}

TEST(Ptxas, WrongPtxIsADefectWithItsLog) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  Result<Assembled> assembled = ptxas->assemble(std::string(smallKernel) + "nonsense", 90);
  ASSERT_FALSE(assembled.ok());
  EXPECT_EQ(assembled.code(), Code::defect);
  EXPECT_NE(assembled.error().message().find("nonsense"), std::string::npos);
}

TEST(Ptxas, APtxasThatIsTooOldIsToldApart) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas on this machine";
  std::string future = smallKernel;
  future.replace(future.find("8.0"), 3, "99.0");
  Result<Assembled> assembled = ptxas->assemble(future, 90);
  ASSERT_FALSE(assembled.ok());
  EXPECT_EQ(assembled.code(), Code::unsupported) << assembled.error().message();
  EXPECT_EQ(ptxas->assemble(smallKernel, 990).code(), Code::unsupported);
}

TEST(Ptxas, AProgramThatIsNotThereIsAnError) {
  Result<Assembled> assembled = Ptxas("/nowhere/ptxas").assemble(smallKernel, 90);
  ASSERT_FALSE(assembled.ok());
  EXPECT_NE(assembled.error().message().find("/nowhere/ptxas"), std::string::npos);
}

/// The error of a ptxas that is this shell script.
Error errorOfScript(const std::string &script, std::string &path) {
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  EXPECT_TRUE(folder.ok());
  path = folder->path() + "/ptxas";
  EXPECT_TRUE(writeFile(path, "#!/bin/sh\n" + script + "\n").ok());
  EXPECT_EQ(chmod(path.c_str(), 0700), 0);
  Result<Assembled> assembled = Ptxas(path).assemble(smallKernel, 90);
  EXPECT_FALSE(assembled.ok());
  return assembled.error();
}

TEST(Ptxas, AProgramThatFailsWithoutAnErrorOfItsOwnIsNoDefect) {
  std::string path;
  Error silent = errorOfScript("exit 3", path);
  EXPECT_EQ(silent.code(), Code::inputOutput);
  EXPECT_NE(silent.message().find(path + " ended with the exit status 3"), std::string::npos)
      << silent.message();
  Error killed = errorOfScript("kill -9 $$", path);
  EXPECT_EQ(killed.code(), Code::inputOutput);
  EXPECT_NE(killed.message().find("exit status 137"), std::string::npos) << killed.message();
  Error loader =
      errorOfScript("echo \"$0: error while loading shared libraries: libx.so\"; exit 127", path);
  EXPECT_EQ(loader.code(), Code::inputOutput);
  EXPECT_NE(loader.message().find("libx.so"), std::string::npos) << loader.message();
  Error own = errorOfScript("echo 'ptxas info    : a'; echo 'ptxas fatal   : b'; exit 255", path);
  EXPECT_EQ(own.code(), Code::defect);
  EXPECT_NE(own.message().find("ptxas fatal   : b"), std::string::npos) << own.message();
}

// Servers ignore SIGCHLD so that ended children vanish. Then only the output shows how ptxas ended.
TEST(Ptxas, TheHostMayIgnoreItsChildren) {
  sighandler_t before = signal(SIGCHLD, SIG_IGN);
  if (std::optional<Ptxas> ptxas = Ptxas::find()) {
    Result<Assembled> assembled = ptxas->assemble(smallKernel, 90);
    EXPECT_TRUE(assembled.ok()) << assembled.error().message();
    EXPECT_EQ(ptxas->assemble(std::string(smallKernel) + "nonsense", 90).code(), Code::defect);
  }
  std::string path;
  EXPECT_EQ(errorOfScript("exit 3", path).code(), Code::inputOutput);
  signal(SIGCHLD, before);
}

TEST(File, TheTemporaryFolderGoes) {
  std::string path;
  {
    Result<TemporaryFolder> folder = TemporaryFolder::create();
    ASSERT_TRUE(folder.ok());
    path = folder->path();
    ASSERT_TRUE(writeFileAtomically(path + "/file", "bytes").ok());
    EXPECT_EQ(*readFile(path + "/file"), "bytes");
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_EQ(readFile(path).code(), Code::notFound);
  EXPECT_FALSE(writeFileAtomically(path + "/file", "bytes").ok());
}

} // namespace
