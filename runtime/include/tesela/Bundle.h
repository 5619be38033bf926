//===- Bundle.h - Kernels compiled ahead of time ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A bundle is a folder with the kernels of one variant for several targets. It contains launch
// plans with their code and a manifest (manifest.json); for GPUs also a C header and a launcher
// that needs only CUDA's driver. docs/export.md describes the files.
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

/// What to export.
struct BundleOptions {
  KernelOptions kernel;             ///< its `target` is ignored
  std::vector<std::string> targets; ///< "sm_90", "host"; each once, at least one
  /// The files and the C functions are named after this C identifier. Empty: after the
  /// variant.
  std::string name;
  /// True: GPUs get PTX even if ptxas is installed. The driver assembles it, so newer GPUs run it
  /// too. False: a cubin if ptxas is found, else PTX.
  bool ptx = false;
  /// No launcher in C: only the library can load the bundle. Such a bundle may contain kernels that
  /// a launcher cannot start: those with dropout, and those with a tensor without strides whose
  /// extent cannot be derived from another argument.
  bool noLauncher = false;
};

/// The part of a bundle for one target.
struct BundleTarget {
  std::string target; ///< "host", "sm_90"
  /// The machine that the code was assembled for, which decides where it runs: "sm_80", "sm_90a".
  /// For the host the CPU features that the code needs, in LLVM's names: "avx2,fma".
  std::string architecture;
  std::string file;       ///< the launch plan with its code, in the bundle's folder
  std::string digest;     ///< SHA-256 of the file, 64 hexadecimal digits
  uint64_t bytes = 0;     ///< of the file
  std::string codeFormat; ///< "cubin", "ptx" or "object"
  std::string schedule;   ///< the chosen #tile.schedule, as text
};

/// The contents of a manifest.
struct BundleInfo {
  std::string name;
  std::string version; ///< the version of Tesela that made the bundle
  std::string variantName, variantText;
  ElementType inputType = ElementType::bf16;
  int headDimQk = 0, headDimV = 0;
  std::vector<BundleTarget> targets;
};

/// Compiles `options.kernel` for each target and writes the bundle into `folder`, which is created
/// if it does not exist. A folder that has other files but no bundle is refused
/// (Code::invalidArgument). The manifest is written last, so a failure never leaves a bundle that
/// loads wrong files. A failure removes what it wrote into a folder without a bundle; if the
/// process ends while it writes, the next call may use the folder. Needs no GPU.
TESELA_EXPORT Result<BundleInfo> exportBundle(const BundleOptions &options,
                                              const std::string &folder);

/// Reads only the manifest of the bundle at `path`, which is the folder or the manifest itself. The
/// contents are checked: any damage is Code::inputOutput.
TESELA_EXPORT Result<BundleInfo> readBundle(const std::string &path);

/// Loads a kernel from the bundle at `path` (see readBundle) for the context's device. If several
/// targets run there, takes the newest. Files are checked against the manifest's digests.
/// Code::notFound: no target runs on the device; the message lists the bundle's targets. The caches
/// are not used, so keep the kernel.
///
/// Digests detect damage, not malice. A bundle is code: load only bundles whose source you trust.
TESELA_EXPORT Result<Kernel> loadKernel(const Context &context, const std::string &path);

} // namespace tesela

#endif // TESELA_BUNDLE_H
