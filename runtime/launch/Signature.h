//===- Signature.h - What a launch's arguments are held against -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel's interface as its template declares it (tile.kernel), with the names resolved once.
// This is the one place that knows which tensors LaunchArguments has members for: those of
// attention, q k v o lse. All others are passed by name.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_SIGNATURE_H
#define TESELA_LAUNCH_SIGNATURE_H

#include "tesela/Kernel.h"
#include "tesela/compiler/Artifact.h"

#include <string>
#include <vector>

namespace tesela {

/// What the extent of a tensor's axis has to be.
struct DeclaredAxis {
  enum class Kind {
    any,      ///< whatever it is
    number,   ///< `value`
    extent,   ///< that of the launch with the index `value` in B H Hkv Sq Sk
    computed, ///< of those
    captured  ///< that of axis `axis` of the parameter with the index `value`
  } kind = Kind::any;
  int64_t value = 0;
  Expression expression;
  int axis = 0;
};

/// A tensor that a caller passes.
struct DeclaredTensor {
  std::string name;
  ElementType type = ElementType::f32;
  bool isWritten = false;
  bool contiguous = false; ///< row-major without gaps; else the last stride is 1
  bool isOptional = false; ///< may have no address: then it is not looked at
  std::vector<DeclaredAxis> axes = {};
  /// The member of that name; null: there is none, it is passed among `tensors`.
  Tensor LaunchArguments::*member = nullptr;
};

struct Signature {
  std::vector<DeclaredTensor> tensors;
  std::vector<Parameter> parameters;
  /// Of queries and keys, for the softmax scale where none is given; 0: the kernel has no scale.
  int headDimQk = 0;

  /// Code::defect where the declaration is none that a launch can be held against.
  static Result<Signature> of(const Artifact &artifact);
  /// That of attention, for those who have arguments and no artifact.
  static Signature ofAttention(ElementType inputType, int headDimQk, int headDimV,
                               std::vector<Parameter> parameters);

  /// The extents, by their index, that no tensor tells and that the launch cannot do without: the
  /// caller gives them (LaunchArguments::extents).
  std::vector<int> asked = {};

  /// "q, k, v, o, lse".
  std::string names() const;
};

/// Where attention's tensors stand in Signature::ofAttention.
struct AttentionTensors {
  enum Index : int { q, k, v, o, lse };
};

/// The members of LaunchArguments that are tensors, by name.
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
