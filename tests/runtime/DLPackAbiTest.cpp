//===- DLPackAbiTest.cpp - Our declarations against DLPack's own ----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/DLPackAbi.h"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace {

using namespace tesela;

#define EXPECT_PLACE(ours, ourField, theirs, theirField)                                           \
  EXPECT_EQ(offsetof(ours, ourField), offsetof(theirs, theirField))

TEST(DLPackAbi, Tensors) {
  EXPECT_EQ(sizeof(dlpack::Tensor), sizeof(DLTensor));
  EXPECT_PLACE(dlpack::Tensor, data, DLTensor, data);
  EXPECT_PLACE(dlpack::Tensor, deviceType, DLTensor, device.device_type);
  EXPECT_PLACE(dlpack::Tensor, deviceIndex, DLTensor, device.device_id);
  EXPECT_PLACE(dlpack::Tensor, rank, DLTensor, ndim);
  EXPECT_PLACE(dlpack::Tensor, type.code, DLTensor, dtype.code);
  EXPECT_PLACE(dlpack::Tensor, type.bits, DLTensor, dtype.bits);
  EXPECT_PLACE(dlpack::Tensor, type.lanes, DLTensor, dtype.lanes);
  EXPECT_PLACE(dlpack::Tensor, shape, DLTensor, shape);
  EXPECT_PLACE(dlpack::Tensor, strides, DLTensor, strides);
  EXPECT_PLACE(dlpack::Tensor, byteOffset, DLTensor, byte_offset);
  EXPECT_EQ(sizeof(dlpack::ManagedTensor), sizeof(DLManagedTensor));
  EXPECT_PLACE(dlpack::ManagedTensor, tensor, DLManagedTensor, dl_tensor);
}

TEST(DLPackAbi, Numbers) {
  EXPECT_EQ(dlpack::cpu, int(kDLCPU));
  EXPECT_EQ(dlpack::cuda, int(kDLCUDA));
  EXPECT_EQ(dlpack::cudaHost, int(kDLCUDAHost));
  EXPECT_EQ(dlpack::cudaManaged, int(kDLCUDAManaged));
  EXPECT_EQ(dlpack::signedInteger, int(kDLInt));
  EXPECT_EQ(dlpack::unsignedInteger, int(kDLUInt));
  EXPECT_EQ(dlpack::ieeeFloat, int(kDLFloat));
  EXPECT_EQ(dlpack::bfloat, int(kDLBfloat));
  EXPECT_EQ(dlpack::complex, int(kDLComplex));
}

// Debian 12's header is of 0.6, before versions and kDLBool.
#ifdef DLPACK_FLAG_BITMASK_READ_ONLY
TEST(DLPackAbi, Versions) {
  EXPECT_EQ(dlpack::majorVersion, uint32_t(DLPACK_MAJOR_VERSION));
  EXPECT_EQ(dlpack::readOnlyFlag, uint64_t(DLPACK_FLAG_BITMASK_READ_ONLY));
  EXPECT_EQ(dlpack::boolean, int(kDLBool));
  EXPECT_EQ(sizeof(dlpack::ManagedTensorVersioned), sizeof(DLManagedTensorVersioned));
  EXPECT_PLACE(dlpack::ManagedTensorVersioned, major, DLManagedTensorVersioned, version.major);
  EXPECT_PLACE(dlpack::ManagedTensorVersioned, minor, DLManagedTensorVersioned, version.minor);
  EXPECT_PLACE(dlpack::ManagedTensorVersioned, flags, DLManagedTensorVersioned, flags);
  EXPECT_PLACE(dlpack::ManagedTensorVersioned, tensor, DLManagedTensorVersioned, dl_tensor);
}
#endif

} // namespace
