//===- Bundle.h - Kernels compiled ahead of time ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A bundle is a folder with one variant's kernels for several targets: their launch plans with the
// code, a manifest (manifest.json), and for GPUs a C header and a launcher that needs the driver
// alone. docs/export.md describes the files.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_H
#define TESELA_BUNDLE_H

#include "tesela/Context.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// What is exported.
struct BundleOptions {
  KernelOptions kernel;             ///< its `target` is not looked at
  std::vector<std::string> targets; ///< "sm_90", "host"; each once, at least one
  /// What the files and the C functions are called after, an identifier of C; empty: the variant's
  /// name.
  std::string name;
  /// GPUs get PTX even where there is a ptxas: newer GPUs run it too, after the driver has
  /// assembled it. Else a cubin where a ptxas is found.
  bool ptx = false;
  /// No launcher in C: the bundle is for those who load it with the library. So it may have kernels
  /// that no launcher knows: those with dropout, or with a tensor without strides that has an
  /// extent which no other argument gives.
  bool noLauncher = false;
};

/// A target's part of a bundle.
struct BundleTarget {
  std::string target; ///< "host", "sm_90"
  /// What the code was assembled for, which decides where it runs: "sm_80", "sm_90a"; of the host
  /// the CPU's features that it needs, as LLVM names them: "avx2,fma".
  std::string architecture;
  std::string file;       ///< the launch plan with its code, in the bundle's folder
  std::string digest;     ///< SHA-256 of the file, 64 hexadecimal digits
  uint64_t bytes = 0;     ///< of the file
  std::string codeFormat; ///< "cubin", "ptx" or "object"
  std::string schedule;   ///< the chosen #tile.schedule, as text
};

/// What a manifest tells.
struct BundleInfo {
  std::string name;
  std::string version; ///< Tesela's, which made it
  std::string variantName, variantText;
  ElementType inputType = ElementType::bf16;
  int headDimQk = 0, headDimV = 0;
  std::vector<BundleTarget> targets;
};

/// Compiles `options.kernel` for each target and writes the bundle into `folder`, which is made
/// where it is not there. A folder with other files and no bundle is left alone
/// (Code::invalidArgument). The manifest is written last: what fails on the way leaves no bundle
/// that loads wrongly. Needs no GPU.
TESELA_EXPORT Result<BundleInfo> exportBundle(const BundleOptions &options,
                                              const std::string &folder);

/// Reads the manifest of the bundle at `path`, its folder or the manifest itself, and nothing else.
/// Nothing in it is trusted: whatever is damaged is Code::inputOutput.
TESELA_EXPORT Result<BundleInfo> readBundle(const std::string &path);

/// The kernel of the bundle at `path` (as for readBundle) for the context's device: that of the
/// newest target that runs there. Files are held against the digests in the manifest.
/// Code::notFound where no target runs on the device; the sentence lists those that the bundle has.
/// Neither cache is looked at, so keep the kernel.
///
/// Digests show damage, not intent: a bundle is code, to be loaded from where programs are.
TESELA_EXPORT Result<Kernel> loadKernel(const Context &context, const std::string &path);

} // namespace tesela

#endif // TESELA_BUNDLE_H
