//===- Signature.h - The interface of a kernel, for checks ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel's interface as its template declares it (tile.kernel), with names resolved once. Only
// this file knows which tensors are members of LaunchArguments: those of attention, q k v o lse.
// All others are passed by name.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_SIGNATURE_H
#define TESELA_LAUNCH_SIGNATURE_H

#include "tesela/Kernel.h"
#include "tesela/compiler/Artifact.h"

#include <string>
#include <vector>

namespace tesela {

/// The required extent of a tensor's axis.
struct DeclaredAxis {
  enum class Kind {
    any,      ///< any extent
    number,   ///< `value`
    extent,   ///< the launch's extent with the index `value` in B H Hkv Sq Sk
    computed, ///< `expression` of the launch's extents
    captured  ///< the extent of axis `axis` of the parameter with the index `value`
  } kind = Kind::any;
  int64_t value = 0;
  Expression expression;
  int axis = 0;
};

/// A tensor that the caller passes.
struct DeclaredTensor {
  std::string name;
  ElementType type = ElementType::f32;
  bool isWritten = false;
  bool contiguous = false; ///< row-major without gaps; else the last stride is 1
  bool isOptional = false; ///< may have no address; then it is not checked
  std::vector<DeclaredAxis> axes = {};
  /// The member of LaunchArguments with that name; null: the tensor is passed among `tensors`.
  Tensor LaunchArguments::*member = nullptr;
};

struct Signature {
  std::vector<DeclaredTensor> tensors;
  std::vector<Parameter> parameters;
  /// Head dimension of q and k, for the default of the softmax scale; 0: the kernel has no scale.
  int headDimQk = 0;

  /// Code::defect: the artifact's declaration is not valid.
  static Result<Signature> of(const Artifact &artifact);
  /// The signature of attention, for callers that have arguments but no artifact.
  static Signature ofAttention(ElementType inputType, int headDimQk, int headDimV,
                               std::vector<Parameter> parameters);

  /// The extents, by index, that the launch needs but no tensor defines. The caller must give them
  /// (LaunchArguments::extents).
  std::vector<int> asked = {};

  /// "q, k, v, o, lse".
  std::string names() const;

  /// The axis of a pool [pages, head, row of the page, D] that has the rows of a page.
  static constexpr int rowsOfPage = 2;
  /// Whether the tensor is a pool of pages.
  bool isPool(const DeclaredTensor &tensor) const;
};

/// The indices of attention's tensors in Signature::ofAttention.
struct AttentionTensors {
  enum Index : int { q, k, v, o, lse };
};

/// The members of LaunchArguments that are tensors, with their names.
struct TensorMember {
  const char *name;
  Tensor LaunchArguments::*member;
};
inline constexpr TensorMember tensorMembers[] = {{"q", &LaunchArguments::q},
                                                 {"k", &LaunchArguments::k},
                                                 {"v", &LaunchArguments::v},
                                                 {"o", &LaunchArguments::o},
                                                 {"lse", &LaunchArguments::lse}};

} // namespace tesela

#endif // TESELA_LAUNCH_SIGNATURE_H
