//===- DLPackAbi.h - DLPack's structures ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The binary interface of https://github.com/dmlc/dlpack, versions 0.8 and 1.x, with names that
// differ from those of a caller's dlpack.h. If that header is found,
// tests/runtime/DLPackAbiTest.cpp compares them.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_DLPACKABI_H
#define TESELA_API_DLPACKABI_H

#include <cstdint>

namespace tesela::dlpack {

enum DeviceType : int32_t { cpu = 1, cuda = 2, cudaHost = 3, cudaManaged = 13 };

enum TypeCode : uint8_t {
  signedInteger = 0,
  unsignedInteger = 1,
  ieeeFloat = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6,
  float8E4m3 = 10, ///< kDLFloat8_e4m3fn, since 1.1
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void *data;
  int32_t deviceType;
  int32_t deviceIndex;
  int32_t rank;
  DataType type;
  int64_t *shape;
  int64_t *strides; ///< in elements; null: contiguous
  uint64_t byteOffset;
};

/// DLManagedTensor: until version 0.8, and still supported in 1.x.
struct ManagedTensor {
  Tensor tensor;
  void *managerContext;
  void (*deleter)(ManagedTensor *);
};

constexpr uint32_t majorVersion = 1;
constexpr uint64_t readOnlyFlag = 1;

/// DLManagedTensorVersioned. Other major versions share only the fields before `flags`.
struct ManagedTensorVersioned {
  uint32_t major, minor;
  void *managerContext;
  void (*deleter)(ManagedTensorVersioned *);
  uint64_t flags;
  Tensor tensor;
};

} // namespace tesela::dlpack

#endif // TESELA_API_DLPACKABI_H
