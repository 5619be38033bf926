//===- ConvergentAssemblyTest.cpp - What a whole warp must run ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ConvergentAssembly.h"
#include "Ptx.h"

#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace tesela;

namespace {

TEST(ConvergentAssembly, InstructionsAreToldApart) {
  for (const char *text :
       {"bar.sync 0;", "bar.arrive $0, 384;", "shfl.sync.bfly.b32 $0, $1, 1, 31, -1;",
        "{\n .reg .pred p;\n vote.sync.any.pred p, p, -1;\n}",
        "{\n barrier.cta.red.or.pred.aligned p, $2, 256, p;\n}", "wgmma.wait_group.sync.aligned 0;",
        "setmaxnreg.dec.sync.aligned.u32 24;"})
    EXPECT_TRUE(nvvm::needsWholeWarp(text)) << text;
  for (const char *text :
       {"ex2.approx.ftz.f32 $0, $1;", "cp.async.commit_group;", "fence.proxy.async.shared::cta;",
        "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;", ".pragma \"nounroll\";", "",
        "fence.mbarrier_init.release.cluster;", "membar.gl;"})
    EXPECT_FALSE(nvvm::needsWholeWarp(text)) << text;
}

/// The inline assembly instructions of `module`, which is LLVM IR text, and whether their calls are
/// convergent.
std::multimap<std::string, bool> instructionsOf(const std::string &module) {
  std::set<std::string> convergentGroups;
  static const std::regex group(R"(attributes (#\d+) = \{(.*)\})");
  static const std::regex call(R"re(call .*asm (?:sideeffect )?"([^"]*)")re");
  static const std::regex groupOfCall(R"(\)( #\d+)(?:$|,))");
  static const std::regex instruction(R"((?:^|[;{} ])([a-z][a-z_0-9]*\.[a-z_0-9:.]+) )");
  std::istringstream lines(module);
  std::smatch match;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_search(line, match, group) &&
        match.str(2).find("convergent") != std::string::npos)
      convergentGroups.insert(" " + match.str(1));
  std::multimap<std::string, bool> found;
  lines = std::istringstream(module);
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_search(line, match, call))
      continue;
    std::string text = std::regex_replace(match.str(1), std::regex(R"(\\0A|\\09)"), " ");
    bool isConvergent =
        std::regex_search(line, match, groupOfCall) && convergentGroups.count(match.str(1)) != 0;
    for (std::sregex_iterator each(text.begin(), text.end(), instruction), end; each != end; ++each)
      found.emplace(each->str(1), isConvergent);
  }
  return found;
}

constexpr const char *causal = "attention causal() { mask = q >= k }";
constexpr const char *documents =
    "attention documents(id: i32[B, Sk]) { mask = q >= k && id[b, q] == id[b, k] }";

/// An assembly text that contains one such instruction is convergent as a whole.
TEST(ConvergentAssembly, CallsThatNeedAWholeWarpAreMarked) {
  const std::regex whole(R"(^(shfl|vote|mma|ldmatrix|stmatrix|wgmma|setmaxnreg|bar|barrier)\..*)");
  // Instructions that stand beside one of the first kind in the same text.
  const std::regex beside(R"(^(setp|selp|add|mov)\..*)");
  std::set<std::string> seen;
  for (const char *variant : {causal, documents})
    for (int headDim : {64, 128})
      for (int sm : {80, 90, 120})
        for (bool roles : {true, false}) {
          KernelSpecification specification =
              specificationOf(variant, headDim, ElementType::bf16, sm);
          if (!roles && sm == 90)
            specification.schedule = withoutRoles;
          Result<std::string> module = emit(specification, Stage::llvm);
          ASSERT_TRUE(module.ok()) << module.error().message();
          std::multimap<std::string, bool> found = instructionsOf(*module);
          EXPECT_FALSE(found.empty());
          for (const auto &[instruction, isConvergent] : found) {
            if (std::regex_match(instruction, whole)) {
              EXPECT_TRUE(isConvergent) << instruction;
              seen.insert(instruction.substr(0, instruction.find('.')));
            } else if (!std::regex_match(instruction, beside)) {
              EXPECT_FALSE(isConvergent) << instruction;
            }
          }
        }
  EXPECT_EQ(seen, (std::set<std::string>{"bar", "ldmatrix", "mma", "setmaxnreg", "shfl", "vote",
                                         "wgmma"}));
}

} // namespace
