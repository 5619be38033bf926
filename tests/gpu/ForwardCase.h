//===- ForwardCase.h - One forward launch, checked --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Links libtesela.so alone, so that the same tests run from the package. The same code
// checks the host and a GPU.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_GPU_FORWARDCASE_H
#define TESELA_TESTS_GPU_FORWARDCASE_H

#include "tesela/Check.h"

#include <string>
#include <vector>

namespace tesela {

/// The variants' folder: $TESELA_TEMPLATES/variants, else that of the source tree.
std::string variantFolder();

/// The variants' names, sorted: "alibi", "causal", ...
std::vector<std::string> variantNames();

/// The text of templates/variants/<name>.attn.
std::string variantText(const std::string &name);

/// The process's context for "host" or "cuda", without the disk's cache; nullptr
/// where the machine has no such device, with the reason in `reason`. `verify`: the first launch of
/// each kernel; of those whose template computes something else than attention it must not be.
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
  /// Elements between a head's row and the next, which are NaN: a kernel that read them would show
  /// it.
  int64_t gap = 0;
  /// Further elements from batch to batch.
  int64_t batchGap = 0;
};

/// A tensor on the host and on the device.
class TestTensor {
public:
  /// `view` says type, extents and strides; its address does not matter.
  TestTensor(const Context &context, const Tensor &view);
  Tensor host() { return view.at(bytes.data()); }
  Tensor device() const { return view.at(buffer.data()); }
  Status upload();
  Status download();
  /// Fills the device's copy, and some bytes behind it, with 0xff: NaN.
  Status poison();
  /// Whether the bytes behind the tensor are as poison() left them; after download().
  bool guardIsIntact() const;

private:
  const Context &context;
  Tensor view;
  size_t size;
  std::vector<unsigned char> bytes; ///< the tensor, then the guard
  Buffer buffer;
};

/// Tensors, parameters and arguments of one forward launch, seeded.
class ForwardCase {
public:
  ForwardCase(const Context &context, const KernelOptions &options, const ForwardShape &shape,
              InputKind inputs = InputKind::normal);

  /// Poisons the results, launches, holds the results against the reference.
  /// Reports by GoogleTest's expectations.
  void check(const Kernel &kernel);

  /// The same where some rows must be NaN: these throughout, the others by the rule.
  void checkWithNaNRows(const Kernel &kernel);

  LaunchArguments deviceArguments();
  LaunchArguments hostArguments();

  /// The reference by the oracle on a GPU, by the interpreter on the host.
  Result<Reference> reference();

  TestTensor q, k, v, o, lse;

private:
  LaunchArguments arguments(bool onDevice);
  /// Poisons the results, launches, downloads.
  void launch(const Kernel &kernel);
  void compareWith(const Reference &expected);
  void checkWithoutLse(const Kernel &kernel);

  const Context &context;
  KernelOptions options;
  std::vector<ScalarArgument> scalars;
  std::vector<std::pair<std::string, TestTensor>> captures;
};

} // namespace tesela

#endif // TESELA_TESTS_GPU_FORWARDCASE_H
