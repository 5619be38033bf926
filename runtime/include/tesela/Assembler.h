//===- Assembler.h - What assembles kernels for GPUs ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_ASSEMBLER_H
#define TESELA_ASSEMBLER_H

#include "tesela/Export.h"

#include <string>

namespace tesela {

/// The program or library that turns PTX into a cubin, which takes most of a first compilation.
struct Assembler {
  enum class Kind {
    ptxas, ///< NVIDIA's program, where it is installed
    driver ///< else; each process then assembles what it loads, or takes it from the cache
  } kind = Kind::driver;
  std::string path;    ///< of ptxas; empty for the driver
  std::string version; ///< "release 13.0, V13.0.88, Build …"; empty for the driver, and for a ptxas
                       ///< that does not tell it
};

/// What this process would assemble a kernel with: ptxas from $PATH, $CUDA_HOME/bin or
/// /usr/local/cuda/bin, the first that is there, else the driver. A kernel for which that ptxas is
/// too old is assembled by the driver all the same. Asks ptxas for its version, once in a process
/// (3 to 6 ms). Never fails.
TESELA_EXPORT Assembler assembler();

} // namespace tesela

#endif // TESELA_ASSEMBLER_H
