//===- CLibrary.h - An exported launcher, compiled and opened ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_BUNDLE_CLIBRARY_H
#define TESELA_TESTS_BUNDLE_CLIBRARY_H

#include "tesela/Bundle.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tesela {

/// The launcher of a bundle, compiled from NAME.c like by a user, with functions that are the same
/// for every variant.
class CLibrary {
public:
  /// Compiles NAME.c in `folder` with the warnings that it promises to pass. The tensors are those
  /// of the bundle's manifest.
  static std::unique_ptr<CLibrary> build(const std::string &folder, const nlohmann::json &manifest,
                                         const std::vector<VariantParameter> &parameters);
  ~CLibrary();

  struct Outcome {
    int code = 0;
    std::string message;
  };
  Outcome create(int device = 0);
  void destroy();
  std::string target() const;
  Outcome workspaceBytes(const LaunchArguments &arguments, size_t &bytes);
  /// `workspace`: the address and the bytes.
  Outcome launch(const LaunchArguments &arguments, void *stream,
                 std::pair<void *, size_t> workspace);
  void *allocate(size_t bytes);
  void release(void *address);

  /// The extents that are members of NAME_arguments because no tensor defines them.
  const std::vector<std::string> &extents() const { return extents_; }

private:
  struct Functions;
  CLibrary() = default;
  void *handle = nullptr, *kernel = nullptr;
  std::unique_ptr<Functions> functions;
  std::vector<VariantParameter> parameters;
  std::vector<std::string> tensors, extents_;
};

} // namespace tesela

#endif // TESELA_TESTS_BUNDLE_CLIBRARY_H
