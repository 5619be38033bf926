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
  Resources resources; ///< of the plan's most demanding kernel
};

/// The program ptxas, if the machine has it. Unlike the driver's linker it honours setmaxnreg and
/// reports registers and spills, and its cubins can be cached.
class Ptxas {
public:
  /// The program of use(); otherwise searches PATH, $CUDA_HOME/bin and /usr/local/cuda/bin.
  static std::optional<Ptxas> find();
  /// From now on find() returns `path`, in the whole process. Empty: find() searches again.
  static Status use(const std::string &path);
  /// From now on, versions of programs are also kept in the file `path` for other processes, in
  /// addition to files named before (AssemblerVersions). Scripts are asked in each process, because
  /// the program that they run may change.
  static void keepVersionsIn(const std::string &path);
  explicit Ptxas(std::string path) : path_(std::move(path)) {}

  const std::string &path() const { return path_; }
  /// What distinguishes this ptxas from others that may give other cubins: release and build as the
  /// program prints them, wherever it is installed. For a program that prints none (it does not
  /// run, or only forwards kernels): path, size and modification time, so that cubins of other
  /// machines are not used. A program is asked once per process, or not at all if a file of
  /// keepVersionsIn() has its version.
  std::string identity() const;
  /// The identity if the program need not be asked: it was asked before, or a file has its
  /// version.
  std::optional<std::string> knownIdentity() const;

  /// Assembles for `sm` (90), or for the PTX's own sm_90a (see assemblerTarget). If several kernels
  /// have products, a thread assembles each; the instructions are the same. Code::unsupported:
  /// this ptxas is too old for the PTX or the GPU. Code::inputOutput: the program does not work; it
  /// fails without printing an error of its own. Code::defect: the PTX has errors, or ptxas warns
  /// that it serialises the kernel. If the request is over, the program is killed.
  Result<Assembled> assemble(std::string_view ptx, int sm, const RequestLimits &limits = {}) const;
  /// `artifact`, whose code must be PTX, with the result of assemble() in its place.
  Result<Artifact> assembled(const Artifact &artifact, int sm,
                             const RequestLimits &limits = {}) const;

private:
  std::string path_;
};

/// "release 13.0, V13.0.88, Build cuda_13.0.r13.0/compiler.36424714_0" from the output of `ptxas
/// --version`; empty if release or build is missing.
std::string versionIn(std::string_view text);

/// The architecture for which `ptx` is assembled on `sm`: the PTX's own .target if that is specific
/// to an architecture or family ("sm_90a", "sm_100f"), because such PTX runs on no other; else the
/// device's "sm_90".
std::string assemblerTarget(std::string_view ptx, int sm);

/// How many kernels of `ptx` have matrix products. Nearly all of ptxas' time is theirs.
int kernelsWithProducts(std::string_view ptx);

/// The line of `log` with a warning of ptxas or the driver that a kernel is serialised (C7504,
/// C7508, C7510 to C7518); empty if there is none.
std::string serialisationWarning(std::string_view log);

/// Registers and spills from `log`, which must be written with -v.
Resources parseResources(std::string_view log);

} // namespace tesela

#endif // TESELA_ASSEMBLE_PTXAS_H
