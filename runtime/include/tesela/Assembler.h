//===- Assembler.h - The assembler of kernels for GPUs ----------*- C++ -*-===//
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
    ptxas, ///< NVIDIA's program, if it is installed
    driver ///< CUDA's driver, if there is no ptxas; it assembles in each process
  } kind = Kind::driver;
  std::string path;    ///< of ptxas; empty for the driver
  std::string version; ///< "release 13.0, V13.0.88, Build …"; empty for the driver, and for a ptxas
                       ///< that does not print it
};

/// The assembler that this process would use: ptxas from $PATH, from $CUDA_HOME/bin or from
/// /usr/local/cuda/bin, whichever comes first; without ptxas the driver. The driver also assembles
/// a kernel for which that ptxas is too old. Asks ptxas for its version once per process (3 to 6
/// ms). Never fails.
TESELA_EXPORT Assembler assembler();

} // namespace tesela

#endif // TESELA_ASSEMBLER_H
