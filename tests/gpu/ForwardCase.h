//===- ForwardCase.h - One forward launch, checked --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Links only libtesela.so, so that the same tests also run from the package. The same code checks
// the host and a GPU.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_GPU_FORWARDCASE_H
#define TESELA_TESTS_GPU_FORWARDCASE_H

#include "tesela/Check.h"

#include <string>
#include <utility>
#include <vector>

namespace tesela {

/// The variants' folder: $TESELA_TEMPLATES/variants, or that of the source tree.
std::string variantFolder();

/// The variants' names, sorted: "alibi", "causal", ...
std::vector<std::string> variantNames();

/// The text of templates/variants/<name>.attn.
std::string variantText(const std::string &name);

/// The process's context for "host" or "cuda", without the disk cache; nullptr if the machine has
/// no such device, with the reason in `reason`. `verify`: verify the first launch of each kernel.
/// It must be false if a template computes something else than attention.
const Context *testContext(const std::string &device, std::string &reason, bool verify = true);

/// Head dimension of q and k, and of v and o.
struct HeadDims {
  int qk = 64, v = 64;
};

/// "d64", "d192x128".
std::string nameOf(const HeadDims &headDims);

struct ForwardShape {
  int64_t B = 1, H = 2, Hkv = 2, Sq = 1, Sk = 1;
  bool bshd = false;
  /// Elements between a head's row and the next one. They are NaN, so that a kernel that reads them
  /// gives NaN.
  int64_t gap = 0;
  /// Additional elements between batches.
  int64_t batchGap = 0;
};

/// A tensor on the host and on the device.
class TestTensor {
public:
  /// `view` gives type, extents and strides; its address is ignored.
  TestTensor(const Context &context, const Tensor &view);
  Tensor host() { return view.at(bytes.data()); }
  Tensor device() const { return view.at(buffer.data()); }
  Status upload();
  Status download();
  /// Fills the device's copy, and some bytes after it, with 0xff: NaN.
  Status poison();
  /// Whether the bytes after the tensor are as poison() left them. Call it after download().
  bool guardIsIntact() const;

private:
  const Context &context;
  Tensor view;
  size_t size;
  std::vector<unsigned char> bytes; ///< the tensor, followed by the guard
  Buffer buffer;
};

/// Tensors, parameters and arguments of one forward launch, made from a seed.
class ForwardCase {
public:
  ForwardCase(const Context &context, const KernelOptions &options, const ForwardShape &shape,
              InputKind inputs = InputKind::normal);

  /// Poisons the results, launches, and compares the results with the reference. Reports by
  /// GoogleTest's expectations.
  void check(const Kernel &kernel);

  /// The same for launches where some rows must be NaN: these completely, the others by the rule.
  void checkWithNaNRows(const Kernel &kernel);

  LaunchArguments deviceArguments();
  LaunchArguments hostArguments();

  /// The reference: from the oracle on a GPU, from the interpreter on the host.
  Result<Reference> reference();

  TestTensor q, k, v, o, lse;

private:
  LaunchArguments arguments(bool onDevice);
  /// Poisons the results, launches, downloads the results.
  void launch(const Kernel &kernel);
  void compareWith(const Reference &expected);
  void checkWithoutLse(const Kernel &kernel);

  const Context &context;
  KernelOptions options;
  std::vector<ScalarArgument> scalars;
  std::vector<std::pair<std::string, TestTensor>> captures;
};

/// Compiles `options` on `device` and checks a launch of each pair of lengths (queries, keys), with
/// two batches and two heads. Skips the test on a machine that has no such device.
void checkLengths(const std::string &device, const KernelOptions &options,
                  const std::vector<std::pair<int64_t, int64_t>> &lengths);

} // namespace tesela

#endif // TESELA_TESTS_GPU_FORWARDCASE_H
