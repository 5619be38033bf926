//===- BundleTest.cpp - Bundles written and loaded ------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Bundle.h"
#include "../../TestContext.h"
#include "Problem.h"
#include "artifact/Digest.h"
#include "bundle/Manifest.h"
#include "system/File.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace tesela;

namespace {

class BundleTest : public testing::Test {
protected:
  TemporaryFolder folder = TemporaryFolder::create().value();
  std::string bundle = folder.path() + "/bundle";
  Problem problem;

  static Context host() {
    ContextOptions options = testContextOptions();
    options.threads = 2;
    return *Context::create(options);
  }

  BundleOptions options(std::vector<std::string> targets = {"host"}) {
    BundleOptions options;
    options.kernel = problem.options();
    if (targets.front() != "host")
      options.kernel.inputType = ElementType::bf16;
    options.targets = std::move(targets);
    options.ptx = true;
    return options;
  }

  void write(std::vector<std::string> targets = {"host"}) {
    Result<BundleInfo> written = exportBundle(options(std::move(targets)), bundle);
    ASSERT_TRUE(written.ok()) << written.error().message();
  }

  /// Makes a new file, because truncating and rewriting a file waits for the disk on some file
  /// systems.
  static void replaceFile(const std::string &path, std::string_view bytes) {
    std::filesystem::remove(path);
    ASSERT_TRUE(writeFile(path, bytes).ok());
  }

  /// Edits the manifest.
  void change(const std::function<void(nlohmann::json &)> &edit) {
    nlohmann::json manifest = nlohmann::json::parse(*readFile(bundle + "/manifest.json"));
    edit(manifest);
    replaceFile(bundle + "/manifest.json", manifest.dump());
  }

  void expectRefused(Code code, const std::string &sentence) {
    Result<Kernel> kernel = loadKernel(host(), bundle);
    ASSERT_FALSE(kernel.ok()) << "loaded, where was expected: " << sentence;
    EXPECT_EQ(kernel.code(), code) << kernel.error().message();
    EXPECT_NE(kernel.error().message().find(sentence), std::string::npos)
        << kernel.error().message();
  }
};

TEST_F(BundleTest, RunsRight) {
  write();
  for (const std::string &path : {bundle, bundle + "/manifest.json"}) {
    Context context = host();
    Result<Kernel> kernel = loadKernel(context, path);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    EXPECT_EQ(kernel->info().origin, KernelInfo::Origin::bundle);
    EXPECT_EQ(context.compileCount(), 0);
    problem.fill();
    Status launched = kernel->launch(problem.arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    Result<Reference> reference = hostReference(problem.options(), problem.arguments, 2);
    ASSERT_TRUE(reference.ok());
    Result<Comparison> comparison = compare(*reference, problem.arguments.o, problem.arguments.lse);
    ASSERT_TRUE(comparison.ok());
    EXPECT_TRUE(comparison->passed) << comparison->failure;
  }
}

TEST_F(BundleTest, TheManifestTellsWhatIsThere) {
  write({"sm_80", "sm_90"});
  Result<BundleInfo> info = readBundle(bundle);
  ASSERT_TRUE(info.ok()) << info.error().message();
  EXPECT_EQ(info->name, "sliding_alibi");
  EXPECT_EQ(info->version, version());
  EXPECT_EQ(info->variantText, fake::variantText);
  EXPECT_EQ(info->headDimQk, 32);
  ASSERT_EQ(info->targets.size(), 2u);
  for (const BundleTarget &target : info->targets) {
    std::string bytes = *readFile(bundle + "/" + target.file);
    EXPECT_EQ(target.bytes, bytes.size());
    EXPECT_EQ(target.digest, sha256Hex(bytes));
    EXPECT_EQ(target.schedule, "rows = 1");
  }
  nlohmann::json manifest = nlohmann::json::parse(*readFile(bundle + "/manifest.json"));
  EXPECT_EQ(manifest["parameters"][0],
            (nlohmann::json{{"name", "window"}, {"type", "i32"}, {"default", 1024}}));
  EXPECT_EQ(manifest["parameters"][1],
            (nlohmann::json{{"name", "slope"}, {"type", "f32"}, {"extents", {"H"}}}));
  // The fake compiler's plan for a GPU has a summary first.
  EXPECT_EQ(manifest["targets"][0]["launches"].back()["items"], "(* B (* H Sq))");
  for (const nlohmann::json &file : manifest["c_files"])
    EXPECT_TRUE(std::filesystem::exists(bundle + "/" + file.get<std::string>())) << file;
}

TEST_F(BundleTest, AnotherBundleIsReplacedOtherFilesAreNot) {
  write();
  write({"sm_80"});
  EXPECT_EQ(readBundle(bundle)->targets.front().target, "sm_80");
  ASSERT_TRUE(writeFile(folder.path() + "/manifest.json", "{\"name\": \"a web page\"}").ok());
  Result<BundleInfo> refused = exportBundle(options(), folder.path());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.code(), Code::invalidArgument);
  EXPECT_NE(refused.error().message().find("contains other files but no bundle"),
            std::string::npos);
}

TEST_F(BundleTest, FilesOfAProcessThatEndedAreReplaced) {
  ASSERT_TRUE(std::filesystem::create_directory(bundle));
  for (const char *name : {"/unfinished-bundle", "/sliding_alibi.c", "/sm_80.kernel"})
    ASSERT_TRUE(writeFile(bundle + name, "").ok());
  ASSERT_TRUE(std::filesystem::create_directories(bundle + "/host.kernel/in the way"));
  for (int i = 0; i < 2; ++i) { // a failure does not change whose files they are
    Result<BundleInfo> failed = exportBundle(options(), bundle);
    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().message().find("host.kernel could not be"), std::string::npos)
        << failed.error().message();
  }
  std::filesystem::remove_all(bundle + "/host.kernel");
  write();
  EXPECT_FALSE(std::filesystem::exists(bundle + "/unfinished-bundle"));
  EXPECT_TRUE(loadKernel(host(), bundle).ok());
}

TEST_F(BundleTest, WhatCannotBeExported) {
  auto expect = [&](const BundleOptions &options, Code code, const std::string &sentence) {
    Result<BundleInfo> refused = exportBundle(options, bundle);
    ASSERT_FALSE(refused.ok()) << sentence;
    EXPECT_EQ(refused.code(), code);
    EXPECT_NE(refused.error().message().find(sentence), std::string::npos)
        << refused.error().message();
    EXPECT_FALSE(std::filesystem::exists(bundle));
  };
  BundleOptions without = options();
  without.targets = {};
  expect(without, Code::invalidArgument, "at least one target");
  expect(options({"host", "host"}), Code::invalidArgument, "named twice");
  expect(options({"sm_91"}), Code::invalidArgument, "for the target sm_91: ");
  BundleOptions named = options();
  for (const char *name : {"../up", "1st", "_x", "a-b", "a.b"}) {
    named.name = name;
    expect(named, Code::invalidArgument, "cannot be part of C names");
  }
  BundleOptions wrong = options();
  wrong.kernel.variantText = "attention x() { mask = }";
  expect(wrong, Code::invalidVariant, "error");
}

TEST_F(BundleTest, NothingForTheDevice) {
  write({"sm_80", "sm_90"});
  expectRefused(Code::notFound, "it has code for sm_80, sm_90: export it for host, too");
  write();
  change([](nlohmann::json &manifest) {
    manifest["targets"][0]["architecture"] = "sse2,no-such-feature,nor-this";
  });
  expectRefused(Code::notFound, "lacks (no-such-feature, nor-this)");
}

TEST_F(BundleTest, AFolderWithoutABundle) {
  expectRefused(Code::notFound, "bundle does not exist");
  ASSERT_TRUE(std::filesystem::create_directory(bundle));
  expectRefused(Code::notFound, "manifest.json does not exist");
  ASSERT_TRUE(std::filesystem::create_directory(bundle + "/manifest.json"));
  expectRefused(Code::notFound, "does not exist or is not a file");
}

TEST_F(BundleTest, AFileThatIsDamaged) {
  write();
  std::string path = bundle + "/host.kernel";
  const std::string whole = *readFile(path);
  for (size_t at = 0; at < whole.size(); at += 97) {
    std::string flipped = whole;
    flipped[at] ^= 1;
    replaceFile(path, flipped);
    expectRefused(Code::inputOutput, "is damaged or from another bundle");
  }
  replaceFile(path, whole.substr(1));
  expectRefused(Code::inputOutput, "is damaged or from another bundle");
  replaceFile(path, whole + "x");
  expectRefused(Code::inputOutput, "bytes, more than");
  std::filesystem::remove(path);
  expectRefused(Code::notFound, "host.kernel does not exist");
}

TEST_F(BundleTest, EveryByteOfTheManifest) {
  write();
  std::string path = bundle + "/manifest.json";
  const std::string whole = *readFile(path);
  Context context = host();
  int loaded = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] ^= 1;
    replaceFile(path, flipped);
    Result<Kernel> kernel = loadKernel(context, bundle);
    if (kernel) { // the loader ignores this byte, or it is white space
      EXPECT_EQ(kernel->info().variantName, "sliding_alibi");
      ++loaded;
    }
  }
  EXPECT_GT(loaded, 0);
  EXPECT_LT(loaded, int(whole.size()));
}

TEST_F(BundleTest, PartsThatDoNotBelongTogether) {
  write();
  using Edit = std::function<void(nlohmann::json &)>;
  for (const Edit &edit : std::initializer_list<Edit>{
           [](nlohmann::json &m) { m["head_dim_qk"] = 64; },
           [](nlohmann::json &m) { m["head_dim_v"] = 64; },
           [](nlohmann::json &m) { m["input_type"] = "bf16"; },
           [](nlohmann::json &m) { m["variant"]["name"] = "another"; },
           [](nlohmann::json &m) { m["targets"][0]["schedule"] = "rows = 2"; },
           [](nlohmann::json &m) { m["targets"][0]["code_format"] = "ptx"; }}) {
    write();
    change(edit);
    expectRefused(Code::inputOutput, "the manifest describes another kernel");
  }
}

TEST_F(BundleTest, WhatAHostileManifestSays) {
  struct Case {
    std::function<void(nlohmann::json &)> edit;
    Code code;
    const char *sentence;
  };
  const Case cases[] = {
      {[](nlohmann::json &m) { m["targets"][0]["file"] = "../host.kernel"; }, Code::inputOutput,
       "may lie outside of the bundle's folder"},
      {[](nlohmann::json &m) { m["targets"][0]["file"] = "/etc/passwd"; }, Code::inputOutput,
       "may lie outside of the bundle's folder"},
      {[](nlohmann::json &m) { m["targets"][0]["file"] = ".."; }, Code::inputOutput,
       "may lie outside of the bundle's folder"},
      {[](nlohmann::json &m) { m["targets"][0]["file"] = std::string("a\0b", 3); },
       Code::inputOutput, "may lie outside of the bundle's folder"},
      {[](nlohmann::json &m) { m["targets"][0]["digest"] = "00"; }, Code::inputOutput,
       "64 hexadecimal digits"},
      {[](nlohmann::json &m) { m["targets"][0]["bytes"] = -1; }, Code::inputOutput,
       "no whole number \"bytes\""},
      {[](nlohmann::json &m) { m["targets"][0]["bytes"] = 1e300; }, Code::inputOutput,
       "no whole number \"bytes\""},
      {[](nlohmann::json &m) { m["targets"][0]["target"] = "sm_9"; }, Code::inputOutput,
       "is not known"},
      {[](nlohmann::json &m) { m["targets"].push_back(m["targets"][0]); }, Code::inputOutput,
       "has the target host twice"},
      {[](nlohmann::json &m) { m["targets"] = nlohmann::json::array(); }, Code::inputOutput,
       "no list of 1 to 64 targets"},
      {[](nlohmann::json &m) { m["targets"] = "host"; }, Code::inputOutput,
       "no list of 1 to 64 targets"},
      {[](nlohmann::json &m) { m["targets"][0] = 3; }, Code::inputOutput, "is not a JSON object"},
      {[](nlohmann::json &m) { m["variant"]["text"] = "another"; }, Code::inputOutput,
       "does not have the digest"},
      {[](nlohmann::json &m) { m.erase("variant"); }, Code::inputOutput, "has no \"variant\""},
      {[](nlohmann::json &m) { m["input_type"] = "f8"; }, Code::inputOutput, "input type"},
      {[](nlohmann::json &m) { m["format"] = 2; }, Code::unsupported,
       "has format 2, this version of Tesela reads format 1"},
      {[](nlohmann::json &m) { m["format"] = "1"; }, Code::inputOutput,
       "no whole number \"format\""},
  };
  for (const Case &each : cases) {
    write();
    change(each.edit);
    expectRefused(each.code, each.sentence);
  }
  for (const char *text : {"", "{", "[]", "null", "\xff\xfe", "{\"format\": 1}"}) {
    replaceFile(bundle + "/manifest.json", text);
    expectRefused(Code::inputOutput, "the manifest ");
  }
  replaceFile(bundle + "/manifest.json", std::string(100000, '['));
  expectRefused(Code::inputOutput, "is not a JSON object");
}

/// The digests are correct here, so the checks behind them must find the defects.
TEST_F(BundleTest, AHostilePlan) {
  write();
  const Artifact whole = *Artifact::deserialize(*readFile(bundle + "/host.kernel"));
  auto replace = [&](const std::function<void(Artifact &)> &edit) {
    Artifact artifact = whole;
    edit(artifact);
    std::string bytes = artifact.serialize();
    replaceFile(bundle + "/host.kernel", bytes);
    change([&](nlohmann::json &manifest) {
      manifest["targets"][0]["digest"] = sha256Hex(bytes);
      manifest["targets"][0]["bytes"] = bytes.size();
    });
  };
  replace([](Artifact &a) { a.launches[0].workspaceBytes = -1; });
  expectRefused(Code::inputOutput, "impossible number of threads or bytes");
  replace([](Artifact &a) { a.launches[0].workspaceBytes = int64_t(1) << 40; });
  expectRefused(Code::inputOutput, "impossible number of threads or bytes");
  replace([](Artifact &a) { a.launches[0].kernel = "not_there"; });
  EXPECT_FALSE(loadKernel(host(), bundle).ok());
  replace([](Artifact &a) { a.launches[0].slots[0].name = "$nothing"; });
  expectRefused(Code::defect, "which it does not have");
  replace([](Artifact &a) { a.code = "no object"; });
  EXPECT_FALSE(loadKernel(host(), bundle).ok());
  replace([](Artifact &) {});
  EXPECT_TRUE(loadKernel(host(), bundle).ok());
}

} // namespace
