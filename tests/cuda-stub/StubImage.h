//===- StubImage.h - The kernels in a module's image ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_STUBIMAGE_H
#define TESELA_TESTS_STUBIMAGE_H

#include <map>
#include <string>
#include <vector>

namespace tesela::stub {

/// PTX, from which kernels and parameters are read, or a cubin, in which only names are
/// searched.
class StubImage {
public:
  struct Kernel {
    std::string name;
    std::vector<size_t> parameterBytes; ///< empty if they are not known
  };

  /// False: the image is neither of the two.
  bool read(const void *image);
  /// Null: there is no such kernel. The result lives as long as this object.
  const Kernel *find(const std::string &name);

private:
  std::string bytes;
  bool isText = false;
  std::map<std::string, Kernel> known;
};

} // namespace tesela::stub

#endif // TESELA_TESTS_STUBIMAGE_H
