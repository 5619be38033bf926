//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compares the hand-written tables with CUDA's headers at compile time. Built if the toolkit is
// found.
//
//===----------------------------------------------------------------------===//
#include "backend/TensorMap.h"
#include "driver/DriverApi.h"
#include "driver/NvrtcApi.h"

// Declares every function by its exported name, including old versions.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <nvrtc.h>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <type_traits>

namespace {

/// Structures that Tesela declares itself. The test LaunchesAreTheHeaders checks their layout.
template <typename A, typename B>
constexpr bool isDeclaredAnew =
    std::is_same_v<A, tesela::cuda::LaunchConfig> &&std::is_same_v<B, CUlaunchConfig>;

/// Whether two types are passed in the same registers: the same type, integers or enumerations of
/// the same size, or pointers to such.
template <typename A, typename B> constexpr bool sameAbi() {
  if constexpr (std::is_same_v<A, B>)
    return true;
  else if constexpr (isDeclaredAnew<A, B>)
    return true;
  else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>)
    return sameAbi<std::remove_cv_t<std::remove_pointer_t<A>>,
                   std::remove_cv_t<std::remove_pointer_t<B>>>();
  else if constexpr ((std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> ||
                                                                    std::is_enum_v<B>))
    return sizeof(A) == sizeof(B);
  else
    return false;
}

template <typename A, typename B> struct Signatures;
template <typename RA, typename... A, typename RB, typename... B>
struct Signatures<RA (*)(A...), RB (*)(B...)> {
  static constexpr bool agree() {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return sameAbi<RA, RB>() && (sameAbi<A, B>() && ...);
  }
};

#define ENTRY(name, parameters)                                                                    \
  static_assert(Signatures<decltype(tesela::cuda::DriverApi::name), decltype(&::name)>::agree());
TESELA_CUDA_DRIVER_TABLE(ENTRY)
#undef ENTRY
#define ENTRY(name, parameters)                                                                    \
  static_assert(Signatures<decltype(tesela::cuda::NvrtcApi::name), decltype(&::name)>::agree());
TESELA_NVRTC_TABLE(ENTRY)
#undef ENTRY

using namespace tesela::cuda;

TEST(DriverTable, ConstantsAreTheHeaders) {
  EXPECT_EQ(int(multiprocessorCount), int(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(int(computeCapabilityMajor), int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(int(computeCapabilityMinor), int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EXPECT_EQ(int(sharedSizeBytes), int(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  EXPECT_EQ(int(localSizeBytes), int(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  EXPECT_EQ(int(numberOfRegisters), int(CU_FUNC_ATTRIBUTE_NUM_REGS));
  EXPECT_EQ(int(maxDynamicSharedSizeBytes), int(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  EXPECT_EQ(int(jitErrorLogBuffer), int(CU_JIT_ERROR_LOG_BUFFER));
  EXPECT_EQ(int(jitErrorLogBufferSizeBytes), int(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES));
  EXPECT_EQ(int(jitInfoLogBuffer), int(CU_JIT_INFO_LOG_BUFFER));
  EXPECT_EQ(int(jitInfoLogBufferSizeBytes), int(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES));
  EXPECT_EQ(int(jitLogVerbose), int(CU_JIT_LOG_VERBOSE));
  EXPECT_EQ(int(jitInputPtx), int(CU_JIT_INPUT_PTX));
  EXPECT_EQ(int(success), int(CUDA_SUCCESS));
  EXPECT_EQ(int(errorOutOfMemory), int(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(int(errorNoDevice), int(CUDA_ERROR_NO_DEVICE));
  EXPECT_EQ(int(errorInvalidHandle), int(CUDA_ERROR_INVALID_HANDLE));
  EXPECT_EQ(int(captureModeRelaxed), int(CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(int(streamNonBlocking), int(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(int(tensorMapFloat16), int(CU_TENSOR_MAP_DATA_TYPE_FLOAT16));
  EXPECT_EQ(int(tensorMapBfloat16), int(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16));
  EXPECT_EQ(int(tensorMapUint8), int(CU_TENSOR_MAP_DATA_TYPE_UINT8));
  EXPECT_EQ(int(tensorMapInterleaveNone), int(CU_TENSOR_MAP_INTERLEAVE_NONE));
  EXPECT_EQ(int(tensorMapSwizzle128B), int(CU_TENSOR_MAP_SWIZZLE_128B));
  EXPECT_EQ(int(tensorMapPromotion256B), int(CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
  EXPECT_EQ(int(tensorMapFillZeros), int(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  EXPECT_EQ(sizeof(tesela::TensorMap), sizeof(CUtensorMap));
  EXPECT_GE(alignof(tesela::TensorMap), alignof(CUtensorMap));
  EXPECT_EQ(sizeof(DevicePointer), sizeof(CUdeviceptr));
}

TEST(DriverTable, LaunchesAreTheHeaders) {
  EXPECT_EQ(int(launchProgrammaticStreamSerialization),
            int(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
  EXPECT_EQ(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(LaunchConfig, gridX), offsetof(CUlaunchConfig, gridDimX));
  EXPECT_EQ(offsetof(LaunchConfig, blockX), offsetof(CUlaunchConfig, blockDimX));
  EXPECT_EQ(offsetof(LaunchConfig, sharedBytes), offsetof(CUlaunchConfig, sharedMemBytes));
  EXPECT_EQ(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
  EXPECT_EQ(offsetof(LaunchConfig, attributeCount), offsetof(CUlaunchConfig, numAttrs));
}

TEST(DriverTable, EachErrorOfTheHeaderHasARemedy) {
  std::ifstream file(TESELA_CUDA_HEADER);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::regex error(R"((CUDA_ERROR_\w+)\s*=\s*(\d+))");
  int found = 0;
  for (std::sregex_iterator each(text.begin(), text.end(), error), end; each != end; ++each) {
    int result = std::stoi((*each)[2]);
    EXPECT_EQ(driverError(result).result, result) << (*each)[1];
    ++found;
  }
  EXPECT_GT(found, 90);
}

} // namespace
