//===- Ptxas.h - PTX to cubin by the program ptxas --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_ASSEMBLE_PTXAS_H
#define TESELA_ASSEMBLE_PTXAS_H

#include "tesela/RequestLimits.h"
#include "tesela/compiler/Artifact.h"

#include <optional>
#include <string>
#include <string_view>

namespace tesela {

struct Assembled {
  std::string cubin;
  Resources resources; ///< of the most demanding kernel
};

/// The program ptxas, where the machine has it. It honours setmaxnreg, tells
/// registers and spills, and its cubins can be kept.
class Ptxas {
public:
  /// The one that use() named; else looks on PATH, in $CUDA_HOME/bin and in /usr/local/cuda/bin.
  static std::optional<Ptxas> find();
  /// `path` is found from now on, in the whole process; empty: as the environment says.
  static Status use(const std::string &path);
  /// What programs say of their version is kept in the file `path` from now on, for other
  /// processes, beside those that were named before (AssemblerVersions). Scripts are asked in each
  /// process: what they run may change.
  static void keepVersionsIn(const std::string &path);
  explicit Ptxas(std::string path) : path_(std::move(path)) {}

  const std::string &path() const { return path_; }
  /// Another ptxas may give another cubin: release and build, as the program tells them, wherever
  /// it lies. Of one that tells none (it does not run, or only passes kernels on) path, size and
  /// time of change: no other machine's cubins are taken for its own. A program is asked once in a
  /// process, and not at all where keepVersionsIn() named a file that knows it.
  std::string identity() const;
  /// The same where it needs no answer of the program: it was asked before, or a kept file knows
  /// it.
  std::optional<std::string> knownIdentity() const;

  /// Assembles for `sm` (90), or for the PTX's own sm_90a: see assemblerTarget. Code::unsupported:
  /// this ptxas is too old for the PTX or the GPU. Code::inputOutput: the program does not work, it
  /// fails without an error of its own. Code::defect: the PTX has errors, or ptxas warns that it
  /// serialises the kernel. The program is ended where the request is over.
  Result<Assembled> assemble(std::string_view ptx, int sm, const RequestLimits &limits = {}) const;
  /// `artifact`, whose code is PTX, with what assemble() makes of that.
  Result<Artifact> assembled(const Artifact &artifact, int sm,
                             const RequestLimits &limits = {}) const;

private:
  std::string path_;
};

/// "release 13.0, V13.0.88, Build cuda_13.0.r13.0/compiler.36424714_0" of what `ptxas --version`
/// prints; empty where one of the two is not there.
std::string versionIn(std::string_view text);

/// The name of the architecture that `ptx` is assembled for on `sm`: the PTX's own .target where
/// that is of one architecture or family ("sm_90a", "sm_100f"), since such PTX is for no other;
/// else the device's "sm_90".
std::string assemblerTarget(std::string_view ptx, int sm);

/// ptxas' and the driver's warnings that a kernel runs serialised (C7504, C7508, C7510
/// to C7519): empty, or the line of `log` that holds one.
std::string serialisationWarning(std::string_view log);

/// Registers and spills as `log`, written with -v, tells them.
Resources parseResources(std::string_view log);

} // namespace tesela

#endif // TESELA_ASSEMBLE_PTXAS_H
