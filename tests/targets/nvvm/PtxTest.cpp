//===- PtxTest.cpp - Which instructions a kernel is made of ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Checks opcodes only, in any order: those that decide speed or exactness.
//
//===----------------------------------------------------------------------===//
#include "Ptx.h"
#include "Opcodes.h"

#include "schedule/Heuristics.h"
#include "targets/nvvm/ChipFacts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

using namespace tesela;

namespace {

Opcodes opcodesOf(const std::string &variant, int headDim = 64,
                  ElementType type = ElementType::bf16) {
  return Opcodes(compiled(specificationOf(variant, headDim, type, 80)).code);
}

TEST(Ptx, UsesMatrixInstructionsOfItsType) {
  for (int headDim : {64, 128})
    for (ElementType type : {ElementType::bf16, ElementType::f16}) {
      SCOPED_TRACE(testing::Message() << elementTypeName(type) << ", head dimension " << headDim);
      Opcodes opcodes = opcodesOf(causal, headDim, type);
      std::string name(elementTypeName(type));
      int products =
          opcodes.exactly("mma.sync.aligned.m16n8k16.row.col.f32." + name + "." + name + ".f32");
      // S and O of 128 × 64 keys a step, over 4 warps: 2 · 128 · 64 · D / (16 · 8 · 16) / 4.
      EXPECT_EQ(products, 2 * headDim);
      EXPECT_EQ(opcodes.count("mma."), products);
      EXPECT_EQ(opcodes.count("wgmma"), 0);
      EXPECT_GT(opcodes.exactly("ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 0);       // Q, K
      EXPECT_GT(opcodes.exactly("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), 0); // V
      EXPECT_GT(opcodes.count("cp.async.cg.shared.global"), 0);
      EXPECT_GT(opcodes.count("cvt.rn." + name + "x2.f32"), 0);
    }
}

TEST(Ptx, ExponentialsAreOneInstructionAndDivisionsAreFew) {
  Opcodes opcodes = opcodesOf(causal);
  EXPECT_GT(opcodes.exactly("ex2.approx.ftz.f32"), 0);
  EXPECT_EQ(opcodes.count("ex2"), opcodes.exactly("ex2.approx.ftz.f32"));
  EXPECT_EQ(opcodes.count("div.rn.f32") + opcodes.count("div.full.f32"), 0);
  EXPECT_EQ(opcodes.count("rcp"), 4); // 1 / L for each of a thread's rows
}

TEST(Ptx, NothingLivesInLocalMemory) {
  for (int headDim : {64, 128}) {
    Opcodes opcodes = opcodesOf(causal, headDim);
    EXPECT_EQ(opcodes.text.find(".local"), std::string::npos);
    EXPECT_EQ(opcodes.count("call"), 0);
  }
}

// Values that feed a mask have the same bits everywhere: no fma, and nothing that ptxas may fuse.
TEST(Ptx, MasksAreNotContracted) {
  Opcodes plain = opcodesOf(causal);
  Opcodes opcodes = opcodesOf("attention m(a: f32, c: f32) { mask = a * (q - k) + c < k * a - c }");
  EXPECT_EQ(opcodes.count("fma"), plain.count("fma")); // the fma of exponents only
  EXPECT_GT(opcodes.exactly("mul.rn.f32"), plain.exactly("mul.rn.f32"));
  EXPECT_GT(opcodes.exactly("add.rn.f32"), plain.exactly("add.rn.f32"));
  for (const char *fusible :
       {"mul.f32", "add.f32", "sub.f32", "mul.ftz.f32", "add.ftz.f32", "sub.ftz.f32", "mad.f32"})
    EXPECT_EQ(opcodes.exactly(fusible), 0) << fusible;
}

TEST(Ptx, TranscendentalsInMasksAreExact) {
  Opcodes plain = opcodesOf(causal);
  Opcodes opcodes =
      opcodesOf("attention m(a: f32) { mask = exp(a * k) < tanh(a * q) + sqrt(a) / log(a + k) }");
  for (const char *approximation : {"ex2", "lg2", "tanh", "sqrt.approx", "rsqrt", "div.approx",
                                    "div.full", "sin.approx", "cos.approx", "fma"})
    EXPECT_EQ(opcodes.count(approximation), plain.count(approximation)) << approximation;
  EXPECT_GT(opcodes.count("sqrt.rn.f32"), 0);
  EXPECT_GT(opcodes.count("div.rn.f32"), 0);
}

TEST(Ptx, ScoresMayApproximate) {
  Opcodes opcodes = opcodesOf("attention softcap(cap: f32) { score = cap * tanh(s / cap) }");
  EXPECT_GT(opcodes.exactly("tanh.approx.f32"), 0);
}

TEST(Ptx, ExactScoresDoNot) {
  Opcodes opcodes = opcodesOf("attention softcap(cap: f32) { exact score = cap * tanh(s / cap) }");
  EXPECT_EQ(opcodes.exactly("tanh.approx.f32"), 0);
  EXPECT_GT(opcodes.exactly("div.rn.f32"), 0);
}

// A division may trap, so it is not pure. It moves in front of the roles, with its operands.
TEST(PtxWithRoles, TakeDivisionsOfScalars) {
  Artifact artifact = compiled(specificationOf(
      "attention a() { score = s + 0.1 * (h / 2 + Sk % 3) }", 128, ElementType::bf16, 90));
  EXPECT_FALSE(artifact.code.empty());
}

// What a score costs per element: terms that are the same for a tile, a row or a diagonal are not
// computed for each element. Within a thread of a warpgroup, 8 rows share diagonals.
TEST(PtxWithRoles, ScoresCostLittleAnElement) {
  std::string schedule; // the same for all of them
  auto opcodes = [&](const std::string &parameters, const std::string &score) {
    std::string text =
        "attention a(" + parameters + ") {\n mask = q >= k\n score = " + score + "\n}";
    KernelSpecification specification = specificationOf(text, 128, ElementType::bf16, 90);
    specification.schedule = schedule;
    Artifact artifact = compiled(specification);
    schedule = artifact.schedule;
    return Opcodes(artifact.code);
  };
  Opcodes softcap = opcodes("cap: f32", "cap * tanh(s / cap)"), plain = opcodes("", "s"),
          alibi = opcodes("slope: f32[H]", "s + slope[h] * (k - q)");
  auto more = [&](const Opcodes &than, const char *opcode) {
    return than.exactly(opcode) - plain.exactly(opcode);
  };
  int elements = softcap.exactly("tanh.approx.f32");
  EXPECT_GT(elements, 0);
  EXPECT_LE(more(softcap, "mul.rn.f32"), elements + 8);
  EXPECT_LE(more(softcap, "fma.rn.f32"), 0);
  EXPECT_LE(more(softcap, "div.rn.f32"), 1);
  EXPECT_EQ(more(alibi, "fma.rn.f32"), elements);
  EXPECT_LE(more(alibi, "add.rn.f32"), elements * 6 / 10);
  EXPECT_LE(more(alibi, "mul.rn.f32"), 4);
  EXPECT_LE(more(alibi, "cvt.rn.f32.s32"), 4);

  // Reads of a table, for a block inside of it: one load per diagonal, with a constant offset.
  Opcodes bias = opcodes("t: f32[H, 2*Sk]", "s + t[h, q - k + Sk]");
  EXPECT_EQ(more(bias, "fma.rn.f32"), 2 * elements); // a second copy has clamps
  int loads = bias.count("ld.global.nc") - plain.count("ld.global.nc");
  EXPECT_LE(loads, 2 * elements * 6 / 10);
}

TEST(PtxWithRoles, UsesWarpgroupProductsAndTensorCopies) {
  for (int headDim : {64, 128})
    for (ElementType type : {ElementType::bf16, ElementType::f16}) {
      SCOPED_TRACE(testing::Message() << elementTypeName(type) << ", head dimension " << headDim);
      KernelSpecification specification = specificationOf(causal, headDim, type, 90);
      specification.schedule = "consumers = 2, block_n = 128, stages = 2, reference = follow, "
                               "overlap = false, persistent = false, output_buffer = false";
      Artifact artifact = compiled(specification);
      Opcodes opcodes(artifact.code);
      std::string name(elementTypeName(type));
      std::string types = "k16.f32." + name + "." + name;
      // Steps of 16: over the head dimension for Q Kᵀ, over 128 keys for P V.
      EXPECT_EQ(opcodes.count("wgmma.mma_async"), headDim / 16 + 8);
      int dims =
          opcodes.count("wgmma.mma_async.sync.aligned.m64n" + std::to_string(headDim) + types);
      int keys = opcodes.count("wgmma.mma_async.sync.aligned.m64n128" + types);
      EXPECT_EQ(headDim == 128 ? keys : dims + keys, headDim / 16 + 8);
      // V is read along its columns, K is not. Only the first step accumulates from zero.
      EXPECT_EQ(occurrences(artifact.code, ", db, 1, 1, 1, 1;"), 8);
      EXPECT_EQ(occurrences(artifact.code, "da, db, 1, 1, 1, 0, 0;"), headDim / 16 - 1);
      EXPECT_EQ(occurrences(artifact.code, "da, db, 0, 1, 1, 0, 0;"), 1);
      EXPECT_EQ(opcodes.count("mma."), 0);
      EXPECT_EQ(opcodes.count("ldmatrix"), 0);
      EXPECT_EQ(opcodes.count("cp.async.cg"), 0);
      // One tensor copy per panel of 64 columns: Q for each consumer, K and V in, O out.
      EXPECT_EQ(opcodes.count("cp.async.bulk.tensor.4d.shared::cluster.global"),
                (2 + 1 + 1) * headDim / 64);
      EXPECT_EQ(opcodes.count("cp.async.bulk.tensor.4d.global.shared::cta"), headDim / 64);
      EXPECT_EQ(opcodes.count("setmaxnreg.dec"), 1);
      EXPECT_EQ(opcodes.count("setmaxnreg.inc"), 1);
      // A full and an empty barrier for each part of Q and each stage of K and V.
      EXPECT_EQ(opcodes.count("mbarrier.init"), 2 * (2 + 2 + 2));
      EXPECT_EQ(opcodes.text.find(".local"), std::string::npos);
    }
}

// The heuristic's choice. QKᵀ: the first one, the loop's, and the one that a new reference needs.
// PV: one beside the loop's QKᵀ, and the last one behind the loop.
TEST(PtxWithRoles, OverlapsProductsAndTakesWorkItems) {
  for (int headDim : {64, 128}) {
    SCOPED_TRACE(testing::Message() << "head dimension " << headDim);
    KernelSpecification specification = specificationOf(causal, headDim, ElementType::bf16, 90);
    specification.schedule = "consumers = 2, block_n = 128, stages = 2, query_stages = 2";
    Artifact artifact = compiled(specification);
    Opcodes opcodes(artifact.code);
    // QKᵀ of an item's first block, of the loop, and for a new reference. PV of the loop, beside
    // the next item, and of the last item.
    EXPECT_EQ(opcodes.count("wgmma.mma_async"), 3 * headDim / 16 + 3 * 8);
    EXPECT_EQ(occurrences(artifact.code, "da, db, 0, 1, 1, 0, 0;"), 3);
    EXPECT_EQ(opcodes.count("wgmma.commit_group"), 6);
    // One product stays in flight only behind the QKᵀ of the loop and that of the next item.
    EXPECT_EQ(occurrences(artifact.code, "wgmma.wait_group.sync.aligned 1;"), 2);
    EXPECT_EQ(occurrences(artifact.code, "wgmma.wait_group.sync.aligned 0;"), 4);
    // A warpgroup votes once per block whether the reference still holds.
    EXPECT_EQ(opcodes.count("bar.red.or.pred"), 1);
    EXPECT_EQ(opcodes.count("vote"), 0);
    // Q in two parts and K of an item's first block; K and V of the loop; the last V.
    EXPECT_EQ(opcodes.count("cp.async.bulk.tensor.4d.shared::cluster.global"), 6 * headDim / 64);
    // Taking a work item, and the end of the items. Their channel has two stages.
    EXPECT_EQ(opcodes.exactly("atom.relaxed.gpu.global.add.u32"), 1);
    EXPECT_EQ(opcodes.exactly("atom.acq_rel.gpu.global.inc.u32"), 1);
    EXPECT_EQ(opcodes.count("mbarrier.init"), 2 * (2 * 2 + 2 + 2 + 2));
    EXPECT_EQ(opcodes.text.find(".local"), std::string::npos);
    ASSERT_EQ(artifact.launches.size(), 1u);
    const Launch &launch = artifact.launches.front();
    EXPECT_TRUE(launch.persistent);
    EXPECT_EQ(std::ranges::count(launch.slots, ArgumentSlot::Kind::counter, &ArgumentSlot::kind),
              1);
  }
}

// The same of kernels whose blocks come from a finder, and of kernels that read pages.
TEST(PtxWithRoles, OverlapsItemsWhereverBlocksComeFrom) {
  std::vector<std::string> paged = {"keys=paged", "page=64", "queries=ragged"};
  for (const std::vector<std::string> &bindings : {std::vector<std::string>(), paged})
    for (const char *variant :
         {"attention window() { mask = q >= k && q - k < 1024 }",
          "attention documents(doc: i32[B, Sk]) { mask = q >= k && doc[b, q] == doc[b, k] }"}) {
      SCOPED_TRACE(testing::Message() << variant << ", bindings: " << bindings.size());
      KernelSpecification specification = specificationOf(variant, 64, ElementType::bf16, 90);
      specification.schedule =
          "consumers = 2, block_m = 128, block_n = 128, stages = 2, query_stages = 2";
      specification.bindings = bindings;
      Artifact artifact = compiled(specification);
      // QKᵀ in four products and PV in eight, three times each, as above.
      EXPECT_EQ(Opcodes(artifact.code).count("wgmma.mma_async"), 3 * 4 + 3 * 8);
    }
}

// A mask that compares documents reads summaries, which two launches compute before it.
TEST(Ptx, DocumentsHaveSummaries) {
  for (int sm : {80, 90}) {
    SCOPED_TRACE(sm);
    Artifact artifact = compiled(specificationOf(
        "attention documents(doc: i32[B, Sk]) { mask = q >= k && doc[b, q] == doc[b, k] }", 128,
        ElementType::bf16, sm));
    ASSERT_EQ(artifact.launches.size(), 3u);
    const char *kernels[] = {"summary0_doc", "summary1_doc", "forward"};
    for (int i = 0; i < 3; ++i) {
      const Launch &launch = artifact.launches[i];
      EXPECT_EQ(launch.kernel, kernels[i]);
      EXPECT_NE(artifact.code.find(std::string(".entry ") + kernels[i] + "("), std::string::npos);
      EXPECT_EQ(launch.summarizes, i < 2 ? "$doc" : "");
      EXPECT_EQ(launch.extents.size(), i < 2 ? 5u : 0u);
    }
    ASSERT_EQ(artifact.workspaces.size(), 2u);
    EXPECT_EQ(artifact.workspaces[0].name, "$doc.summary0");
    // For B = 3 and a million keys: two planes for granules of 16 and of 512 elements, half a MB.
    int64_t bytes = 0;
    for (const Workspace &workspace : artifact.workspaces) {
      int64_t elements = 1;
      for (const Expression &extent : workspace.extents) {
        std::vector<int64_t> values;
        for (const CaptureAxis &axis : extent.captureAxes())
          values.push_back(axis.axis == 0 ? 3 : 1 << 20);
        elements *= extent.evaluate({}, values);
      }
      bytes += 4 * elements;
    }
    EXPECT_EQ(bytes, 3 * 8 * ((1 << 16) + (1 << 11)));
  }
}

/// The text of one kernel in `code`.
std::string textOf(const std::string &code, const std::string &kernel) {
  size_t begin = code.find(".entry " + kernel + "(");
  EXPECT_NE(begin, code.npos) << kernel;
  return code.substr(begin, code.find(".entry ", begin + 1) - begin);
}

// Launches of one plan overlap if the chip can do it. The first waits for none, and none waits for
// the last. Here the launches are the two levels of a summary and the kernel that reads them.
TEST(Ptx, LaunchesOfAPlanOverlap) {
  const char *documents =
      "attention documents(doc: i32[B, Sk]) { mask = q >= k && doc[b, q] == doc[b, k] }";
  for (int sm : {80, 89, 90, 100}) {
    SCOPED_TRACE(sm);
    Artifact artifact = compiled(specificationOf(documents, 128, ElementType::bf16, sm));
    ASSERT_EQ(artifact.launches.size(), 3u);
    bool overlaps = sm >= 90;
    for (int i = 0; i < 3; ++i) {
      const Launch &launch = artifact.launches[i];
      Opcodes opcodes(textOf(artifact.code, launch.kernel));
      EXPECT_EQ(launch.dependent, overlaps && i > 0) << launch.kernel;
      EXPECT_EQ(opcodes.exactly("griddepcontrol.wait"), overlaps && i > 0) << launch.kernel;
      EXPECT_EQ(opcodes.exactly("griddepcontrol.launch_dependents"), overlaps && i < 2)
          << launch.kernel;
    }
    Artifact alone = compiled(specificationOf(causal, 128, ElementType::bf16, sm));
    EXPECT_EQ(alone.code.find("griddepcontrol"), alone.code.npos);
  }
}

// Results of an earlier launch are read behind the wait, and not as read-only memory.
TEST(Ptx, ResultsOfEarlierLaunchesAreNotReadOnly) {
  KernelSpecification specification = specificationOf(causal, 128, ElementType::bf16, 90);
  specification.algorithm = partsAlgorithm;
  specification.bindings = {"workers=264"};
  Artifact artifact = compiled(specification);
  ASSERT_EQ(artifact.launches.size(), 2u);
  Opcodes merge(textOf(artifact.code, artifact.launches[1].kernel));
  EXPECT_EQ(merge.count("ld.global.nc"), 0);
  EXPECT_GT(merge.count("ld.global"), 0);
  EXPECT_LT(merge.text.find("griddepcontrol.wait"), merge.text.find("ld.global"));
}

// Formulas of bounds of the column are words of bits (ColumnWords.h): a few instructions for each
// bound of a row, and one bit per element, however long the formula is. There are three copies of
// the mask: in front of the loop, in the loop, and where a block is computed again.
TEST(PtxWithRoles, FormulasOfPositionsAreWords) {
  struct {
    const char *mask;
    int bounds; ///< of a lane's two rows, including k < Sk
  } cases[] = {{"true", 2},
               {"q >= k", 4},
               {"k <= q && k < 1000 && q - k > -7", 8},
               {"q >= k && (k < 5 || q - k < window)", 8},
               {"q == k || !(abs(q - k) < window)", 10},
               {"abs(q % 200 - k % 200) < window", 12}};
  constexpr int elements = 128 / 2, copies = 3, others = 18;
  for (auto [mask, bounds] : cases) {
    SCOPED_TRACE(mask);
    KernelSpecification specification =
        specificationOf(std::string("attention m(window: i32 = 100) { mask = ") + mask + " }", 128,
                        ElementType::bf16, 90);
    specification.schedule = "consumers = 2, block_n = 128, query_stages = 1";
    Opcodes opcodes(compiled(specification).code);
    EXPECT_GE(opcodes.count("bmsk.clamp.b32"), copies);
    EXPECT_LE(opcodes.count("bmsk.clamp.b32"), copies * bounds);
    EXPECT_GE(opcodes.count("selp.f32"), copies * elements);
    EXPECT_LE(opcodes.count("selp.f32"), copies * elements + others);
    for (const char *opcode : {"setp.lt.s32", "setp.gt.s32", "setp.le.s32", "setp.ge.s32"})
      EXPECT_LE(opcodes.count(opcode), elements) << opcode;
  }
  // A condition that repeats along a row is a word, too: two shuffles for each of a lane's rows.
  KernelSpecification periodic = specificationOf(
      "attention m() { mask = q >= k && (q - k) % 3 != 0 }", 128, ElementType::bf16, 90);
  Opcodes words(compiled(periodic).code);
  EXPECT_GT(words.count("shfl.sync.idx.b32"), 0);
  for (const char *opcode : {"mul.hi.u32", "rem.s32", "div.s32"})
    EXPECT_LE(words.count(opcode), elements / 4) << opcode;
  // Other terms that a mask joins are tested beside the bits.
  KernelSpecification mixed = specificationOf("attention m() { mask = q >= k && k * k % 3 != 0 }",
                                              128, ElementType::bf16, 90);
  Opcodes opcodes(compiled(mixed).code);
  EXPECT_GT(opcodes.count("bmsk.clamp.b32"), 0);
  EXPECT_GE(opcodes.count("mul.hi"), 80 / 4); // for each of a lane's columns
}

// Values captured for the row are read in front of the loop, values captured for the key inside:
// without clamps for each of a lane's columns, and in a loop where clamps are needed.
TEST(PtxWithRoles, RowsAreReadOnce) {
  KernelSpecification specification = specificationOf(
      "attention m(id: i32[Sk]) { mask = id[q] == id[k] }", 128, ElementType::bf16, 90);
  specification.schedule = "block_n = 128, query_stages = 1";
  std::string code = compiled(specification).code;
  EXPECT_NE(code.find(".pragma \"nounroll\";"), std::string::npos);
  Opcodes opcodes(code);
  // Three copies of a mask. 2 selects per column and row instead of 4.
  EXPECT_LE(opcodes.count("selp.f32"), 3 * 3 * 128 / 2 + 18);
}

// A warp votes together whether keys are in the row's document (WarpWords.h). Each copy of the mask
// has 4 votes for 128 columns if all rows agree, 4 votes for each of two rows in turn if they do
// not, and one vote that decides between these. 4 columns are read instead of 32. Conditions that
// need the row's position are tested for each element.
TEST(PtxWithRoles, WarpsVoteOnWhatRowsAndColumnsHold) {
  auto opcodesOfMask = [](const std::string &mask) {
    KernelSpecification specification = specificationOf(
        "attention m(id: i32[Sk]) { mask = " + mask + " }", 128, ElementType::bf16, 90);
    specification.schedule = "block_n = 128, query_stages = 1";
    return Opcodes(compiled(specification).code);
  };
  constexpr int copies = 2;
  Opcodes others = opcodesOfMask("id[q] == id[k] + q"); // the finder votes, too
  for (const char *mask :
       {"id[q] == id[k]", "q >= k && id[q] <= id[k]", "id[q] + id[k] % 5 == 1"}) {
    SCOPED_TRACE(mask);
    Opcodes opcodes = opcodesOfMask(mask);
    EXPECT_EQ(opcodes.count("vote.sync.ballot") - others.count("vote.sync.ballot"),
              copies * (1 + 4 + 8));
    EXPECT_EQ(opcodes.count("shfl.sync.idx") - others.count("shfl.sync.idx"), copies * (1 + 2));
    EXPECT_LE(opcodes.count("ld.global.nc") - others.count("ld.global.nc"), copies * (4 - 32));
  }
}

// The search for values of an item that are needed behind its head visits each value once.
// Otherwise 40 values that are each used twice would take forever.
TEST(PtxWithRoles, ChainsThatAreSharedAreFollowedOnce) {
  std::string text = "attention deep(w: i32) {\nlet a0 = min(max(w, 11) - 5, max(w, 0) + 3)\n";
  for (int i = 1; i < 40; ++i) {
    std::string last = "a" + std::to_string(i - 1), number = std::to_string(i);
    text += "let a" + number + " = min(max(" + last + ", 1" + number + ") - 5, max(" + last + ", " +
            number + ") + 4)\n";
  }
  KernelSpecification specification =
      specificationOf(text + "mask = q >= k && q - k < a39 }", 64, ElementType::bf16, 90);
  specification.schedule = "query_stages = 2";
  EXPECT_FALSE(compiled(specification).code.empty());
}

// Each condition uses the one before twice.
TEST(PtxWithRoles, ConditionsThatAreSharedAreFollowedOnce) {
  std::string text = "attention deep(id: i32[B, Sk], n: i32) {\n"
                     "let m0 = id[b, q] == id[b, k] || q - k < n\n";
  for (int i = 1; i < 32; ++i) {
    std::string last = "m" + std::to_string(i - 1), number = std::to_string(i);
    text += "let m" + number + " = (" + last + " && k * k != " + number + ") || (" + last +
            " && q >= " + number + ")\n";
  }
  EXPECT_FALSE(
      compiled(specificationOf(text + "mask = m31 }", 64, ElementType::bf16, 90)).code.empty());
}

// Each condition joins the one before twice by &&. Its parts are tested once.
TEST(Ptx, ConjunctionsThatAreSharedAreSplitOnce) {
  std::string text = "attention deep() {\nlet m0 = q >= k && k % 7 != 1\n";
  for (int i = 1; i < 40; ++i) {
    std::string last = "m" + std::to_string(i - 1), number = std::to_string(i);
    text += "let m" + number + " = " + last + " && (" + last + " && k % 7 != " + number + ")\n";
  }
  EXPECT_FALSE(
      compiled(specificationOf(text + "mask = m39 }", 64, ElementType::bf16, 80)).code.empty());
}

// A divisor that one row has and another may not have is not a value that the rows hold.
TEST(Ptx, RemaindersByWhatARowHolds) {
  for (int sm : {80, 90})
    EXPECT_FALSE(
        compiled(specificationOf("attention m(t: i32[Sq]) { let w = t[q]\n mask = q / w == "
                                 "k / 64 && q % w == k % 64 }",
                                 64, ElementType::bf16, sm))
            .code.empty());
}

// A tile that is loaded in front of a loop that loads more of it is released, even for one item.
TEST(PtxWithRoles, OneStageOfOneItem) {
  KernelSpecification specification = specificationOf(causal, 128, ElementType::bf16, 90);
  specification.schedule = "persistent = false, stages = 1";
  EXPECT_FALSE(compiled(specification).code.empty());
}

// The producer is one thread, and its values are in uniform registers. A block of keys needs no
// division. A warp's shuffles, and their repetition for each block, would double the loop's length.
TEST(PtxWithRoles, TheProducersLoopIsShort) {
  Artifact artifact = compiled(specificationOf(
      "attention m(id: i32[B, Sk]) { mask = id[b, q] == id[b, k] }", 64, ElementType::bf16, 90));
  constexpr const char *fill = "complete_tx::bytes";
  size_t begin = artifact.code.find(fill), end = artifact.code.rfind(fill);
  ASSERT_LT(begin, end);
  std::string producer = artifact.code.substr(begin, end - begin);
  EXPECT_EQ(producer.find("shfl.sync.idx"), std::string::npos);
}

// ptxas makes one instruction of two minima and loses the negation of an operand
// (NegatedExtremes.h).
TEST(Ptx, NoMinimumReadsANegation) {
  for (int sm : {80, 90}) {
    Artifact artifact = compiled(specificationOf(
        "attention m(t: f32[Sk], n: i32[Sk]) { score = s + t[min(min(q, -k), 7)] + "
        "t[max(max(-abs(q), k), -9)] + t[min(min(q, k > 7 ? -n[k] : q - n[k]), n[q])] }",
        64, ElementType::bf16, sm));
    EXPECT_NE(artifact.code.find("not.b32"), std::string::npos) << sm;
    std::set<std::string> negated;
    std::istringstream lines(artifact.code);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string opcode, result, operand;
      words >> opcode >> result;
      if (opcode == "neg.s32")
        negated.insert(result.substr(0, result.find(',')));
      else if (opcode == "selp.b32" && words >> operand &&
               negated.contains(operand.substr(0, operand.find(','))))
        negated.insert(result.substr(0, result.find(',')));
      else if (opcode == "min.s32" || opcode == "max.s32") {
        while (words >> operand)
          EXPECT_FALSE(negated.contains(operand.substr(0, operand.find_first_of(",;")))) << line;
      }
    }
  }
}

// ptxas may compute the number of a predicate only in the first of two blocks that need it,
// although the second can be reached without the first (TruthNumbers.h).
TEST(PtxWithRoles, ATruthIsANumberInOneBlock) {
  Artifact artifact = compiled(specificationOf(
      "attention f(dq: i32[Sq], dk: i32[Sk]) { mask = k >= q - 30 && q >= k || dq[q] != 0 && "
      "k < 51 && dk[k] == 0 }",
      64, ElementType::bf16, 90));
  std::map<std::string, std::set<std::string>> blocks; // of the selects of a predicate
  std::string kernel, block;
  int written = 0;
  std::istringstream lines(artifact.code);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("$L"))
      block = line;
    if (line.find(".entry") != std::string::npos)
      kernel = line;
    std::istringstream words(line);
    std::string opcode, result, a, b, truth;
    words >> opcode >> result >> a >> b >> truth;
    if ((opcode != "selp.b32" && opcode != "selp.b64") || !truth.starts_with("%p"))
      continue;
    written += a.starts_with("%") && b.starts_with("%");
    if (!a.starts_with("%") || !b.starts_with("%"))
      blocks[kernel + truth + (a.starts_with("%") ? "x" : a) + (b.starts_with("%") ? "x" : b)]
          .insert(block);
  }
  EXPECT_GT(written, 0);
  for (const auto &[number, all] : blocks)
    EXPECT_EQ(all.size(), 1u) << number << " in " << *all.begin() << " and " << *all.rbegin();
}

// The mask's range of keys needs a division, which the producer must compute, too.
TEST(PtxWithRoles, DivisionsOfTheRangeAreInBothRoles) {
  Artifact artifact = compiled(
      specificationOf("attention m(w: i32) { mask = k < q / w + 7 }", 64, ElementType::bf16, 90));
  EXPECT_FALSE(artifact.code.empty());
}

TEST(PtxWithRoles, WideHeads) {
  for (auto [headDimQk, headDimV] : {std::pair(192, 128), {256, 256}, {64, 256}, {192, 256}}) {
    SCOPED_TRACE(testing::Message() << headDimQk << " and " << headDimV);
    KernelSpecification specification = specificationOf(causal, headDimQk, ElementType::bf16, 90);
    specification.headDimV = headDimV;
    Artifact artifact = compiled(specification);
    Opcodes opcodes(artifact.code);
    EXPECT_GT(opcodes.count("wgmma.mma_async.sync.aligned.m64n" + std::to_string(headDimV)), 0);
    EXPECT_EQ(opcodes.count("cp.async.bulk.tensor.4d.global.shared::cta"), headDimV / 64);
    EXPECT_EQ(opcodes.text.find(".local"), std::string::npos);
  }
}

// Heads that are padded on chip: copies bring whole boxes of 64 columns, products take steps of 16
// of the depth, and the output has a multiple of 16 columns.
TEST(PtxWithRoles, PaddedHeads) {
  for (auto [headDim, padded] : {std::pair(8, 16), {40, 48}, {72, 80}, {104, 112}, {200, 208}}) {
    SCOPED_TRACE(headDim);
    Opcodes opcodes(compiled(specificationOf(causal, headDim, ElementType::bf16, 90)).code);
    EXPECT_GT(opcodes.count("wgmma.mma_async.sync.aligned.m64n" + std::to_string(padded) + "k16"),
              0);
    EXPECT_EQ(opcodes.count("cp.async.bulk.tensor.4d.global.shared::cta"), (headDim + 63) / 64);
    EXPECT_EQ(opcodes.text.find(".local"), std::string::npos);
  }
}

TEST(PtxWithRoles, WaitsTrapInDebugBuildsAlone) {
  Opcodes opcodes(compiled(specificationOf(causal, 128, ElementType::bf16, 90)).code);
  int waits = opcodes.count("mbarrier.try_wait");
  EXPECT_GT(waits, 0);
#ifdef NDEBUG
  EXPECT_EQ(opcodes.count("trap"), 0);
#else
  EXPECT_EQ(opcodes.count("trap"), waits);
#endif
}

TEST(PtxWithRoles, ThreadsAreTheConsumersAndOneWarpgroupMore) {
  for (auto [consumers, threads] : {std::pair(1, 256), std::pair(2, 384), std::pair(3, 512)}) {
    KernelSpecification specification = specificationOf(causal, 64, ElementType::bf16, 90);
    specification.schedule = "consumers = " + std::to_string(consumers);
    Artifact artifact = compiled(specification);
    ASSERT_EQ(artifact.launches.size(), 1u);
    EXPECT_EQ(artifact.launches.front().threads, threads);
    EXPECT_NE(artifact.code.find(".reqntid " + std::to_string(threads)), std::string::npos);
    EXPECT_NE(artifact.code.find(".minnctapersm 1"), std::string::npos); // setmaxnreg needs it
  }
}

// Roles are a choice: sm_90 runs the kernels of other chips if the schedule asks for it.
TEST(PtxWithoutRoles, Sm90UsesTheInstructionsOfAllChips) {
  KernelSpecification specification = specificationOf(causal, 128, ElementType::bf16, 90);
  specification.schedule = withoutRoles;
  Artifact artifact = compiled(specification);
  ASSERT_EQ(artifact.launches.size(), 1u);
  EXPECT_EQ(artifact.launches.front().threads, 128);
  EXPECT_NE(artifact.code.find(".target sm_90\n"), std::string::npos);
  Opcodes opcodes(artifact.code);
  EXPECT_EQ(opcodes.count("mma.sync"), 2 * 128);
  for (const char *other : {"wgmma", "setmaxnreg", "mbarrier", "cp.async.bulk"})
    EXPECT_EQ(opcodes.count(other), 0) << other;
}

} // namespace
